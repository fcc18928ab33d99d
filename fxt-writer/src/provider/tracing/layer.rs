//! The layer itself, and the filter that turns it off.

use std::cell::{Cell, RefCell};

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::{Interest, Subscriber};
use tracing_core::{Event, LevelFilter, Metadata, callsite};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Fields, log_text};
use super::points::point;
use crate::Value;
use crate::provider::format::with_scratch;
use crate::provider::record::Duration;
use crate::provider::site::Name;
use crate::provider::{hook, sys};
use crate::record::EventKind;

/// Records spans and events of `tracing`; made by [`layer`](super::layer).
#[derive(Clone, Debug)]
pub struct ProviderLayer {
    logs: LevelFilter,
}

/// A filter that enables what the running session records, and nothing without a session.
#[derive(Clone, Copy, Debug)]
pub struct WantedTargets(());

/// The argument with an event's level.
static LEVEL: Name = Name::new("level");

thread_local! {
    /// The spans that this thread is in, by their ids.
    static ENTERED: RefCell<Vec<(u64, Duration)>> = const { RefCell::new(Vec::new()) };
    /// Fields of an event, whose memory is reused.
    static FIELDS: Cell<Fields> = const { Cell::new(Fields::NONE) };
}

impl ProviderLayer {
    pub(super) fn new() -> Self {
        // The set of enabled callsites changes with sessions.
        hook::call_on_change(callsite::rebuild_interest_cache);
        Self { logs: LevelFilter::OFF }
    }

    pub(super) fn with_logs(self, logs: LevelFilter) -> Self {
        Self { logs }
    }

    pub(super) fn filtered<S>(self) -> Filtered<Self, WantedTargets, S>
    where
        Self: Layer<S>,
        S: Subscriber,
    {
        self.with_filter(WantedTargets(()))
    }
}

/// Whether the layer gets spans and events: to record them or, while the manager's answer is overdue,
/// to count them.
fn is_on(metadata: &Metadata<'_>) -> bool {
    sys::generation() == sys::OVERDUE || point(metadata).site.is_wanted()
}

impl<S> Filter<S> for WantedTargets {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_on(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_on(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if sys::generation() == 0 { LevelFilter::OFF } else { LevelFilter::TRACE })
    }
}

impl<S> Layer<S> for ProviderLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::NONE;
        attributes.record(&mut fields);
        if fields.is_empty() {
            return;
        }
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(fields) = extensions.get_mut::<Fields>() {
            values.record(fields);
            return;
        }
        let mut fields = Fields::NONE;
        values.record(&mut fields);
        extensions.insert(fields);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let point = point(span.metadata());
        let Some(armed) = point.site.armed() else { return };
        let extensions = span.extensions();
        let fields = extensions.get::<Fields>().into_iter();
        let args = fields.flat_map(|fields| fields.args(point));
        let begun = armed.event_of(EventKind::DurationBegin, None, args);
        drop(extensions);
        if begun {
            let duration = Duration::begun(Some(armed));
            // In a thread that is about to end, the duration ends here.
            let _ =
                ENTERED.try_with(|entered| entered.borrow_mut().push((id.into_u64(), duration)));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let left = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let last = entered.iter().rposition(|(span, _)| *span == id.into_u64())?;
            Some(entered.remove(last))
        });
        // The end is written here, not in the closure, because the borrow has ended.
        drop(left);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let point = point(metadata);
        let Some(armed) = point.site.armed() else { return };
        let mut fields = FIELDS.try_with(Cell::take).unwrap_or_default();
        fields.clear();
        event.record(&mut fields);
        if *metadata.level() <= self.logs {
            with_scratch(|text| {
                log_text(&fields, point, *metadata.level(), text);
                armed.log(text);
            });
        } else {
            let level = (&LEVEL, Value::from(metadata.level().as_str()));
            let args = std::iter::once(level).chain(fields.args(point));
            armed.event_of(EventKind::Instant, fields.message(), args);
        }
        let _ = FIELDS.try_with(|kept| kept.set(fields));
    }
}
