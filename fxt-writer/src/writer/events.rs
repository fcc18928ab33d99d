//! A method for each kind of event.

use super::{Thread, Writer};
use crate::arg::Text;
use crate::arg::{Arg, Value};
use crate::error::{EncodeError, WriteError};
use crate::ids::Ticks;
use crate::lanes::Lanes;
use crate::layout::limits::MAX_ARGS;
use crate::record::{Event, EventKind};

/// An argument by name.
type NamedArg<'a> = (&'a str, Value<'a>);

impl<L: Lanes> Writer<L> {
    /// Writes an event of any kind. Category, name and argument names are
    /// registered; argument values are written as passed.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room, or a value that the format cannot express.
    pub fn event(
        &mut self,
        kind: EventKind,
        time: Ticks,
        thread: Thread,
        category: &str,
        name: &str,
        args: &[NamedArg<'_>],
    ) -> Result<(), WriteError<L::Full>> {
        if args.len() > MAX_ARGS {
            return Err(EncodeError::TooManyArgs { count: args.len() }.into());
        }
        let (category, name) = (self.text(category)?, self.text(name)?);
        let mut named = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
        for (arg, &(name, value)) in named.iter_mut().zip(args) {
            *arg = Arg::new(self.text(name)?, value);
        }
        let thread = self.thread(thread)?;
        let args = &named[..args.len()];
        self.write(&Event { kind, time, thread, category, name, args })
    }
}

/// Methods that differ only in the kind of event and its extra fields.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $method:ident($($extra:ident: $type:ty)?) => $kind:expr;
    )+) => {
        impl<L: Lanes> Writer<L> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// Returns an error when there is no room, or a value that the format cannot express.
                pub fn $method(
                    &mut self,
                    time: Ticks,
                    thread: Thread,
                    category: &str,
                    name: &str,
                    $($extra: $type,)?
                    args: &[NamedArg<'_>],
                ) -> Result<(), WriteError<L::Full>> {
                    self.event($kind, time, thread, category, name, args)
                }
            )+
        }
    };
}

events! {
    /// An instant: an event at one point in time.
    instant() => EventKind::Instant;
    /// Samples of a time series: each argument is one value; `id` distinguishes
    /// counters of the same name.
    counter(id: u64) => EventKind::Counter { id };
    /// Begins an operation on this thread.
    duration_begin() => EventKind::DurationBegin;
    /// Ends the innermost operation of this thread.
    duration_end() => EventKind::DurationEnd;
    /// An operation that began at `time` and ended at `end`.
    duration_complete(end: Ticks) => EventKind::DurationComplete { end };
    /// Begins an operation that may span threads; `id` correlates its events.
    async_begin(id: u64) => EventKind::AsyncBegin { id };
    /// A point within an operation that may span threads.
    async_instant(id: u64) => EventKind::AsyncInstant { id };
    /// Ends an operation that may span threads.
    async_end(id: u64) => EventKind::AsyncEnd { id };
    /// Begins a flow in the duration around this event; `id` correlates its
    /// events.
    flow_begin(id: u64) => EventKind::FlowBegin { id };
    /// A point within a flow.
    flow_step(id: u64) => EventKind::FlowStep { id };
    /// Ends a flow.
    flow_end(id: u64) => EventKind::FlowEnd { id };
}
