//! Recording: the code that the macros expand to once a trace point is armed.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::handle::unique_id;
use super::local::{Recorder, with_recorder};
use super::site::{Armed, Name, Site};
use super::sys::{self, Generation};
use crate::error::WriteError;
use crate::layout::limits::{MAX_ARGS, MAX_STRING_BYTES};
use crate::record::{Blob, BlobType, Event, EventKind, Log};
use crate::{Arg, Text, Ticks, Value, text};

/// The length to which strings are truncated in a record that would be too large.
const CUT_BYTES: usize = 1024;
/// Maximum size of a blob in one record, in bytes; longer ones take several.
const BLOB_PIECE_BYTES: usize = 32_000;
/// Maximum size of a log message, in bytes: what fits into a record with its thread inline.
const MAX_LOG_BYTES: usize = MAX_STRING_BYTES;

impl Armed {
    /// Records an event at one point in time; returns whether it is in the buffer.
    #[inline(never)]
    pub fn event<const N: usize>(
        self,
        kind: EventKind,
        names: &'static [Name; N],
        values: [Value<'_>; N],
    ) -> bool {
        const { assert!(N <= MAX_ARGS, "a record can carry 15 arguments") };
        let written = with_recorder(self.generation(), |recorder| {
            let time = sys::now();
            if let Some(plain) = recorder.plain(&self, (kind, time), names, &values) {
                return recorder.write(&plain).is_ok();
            }
            let session = recorder.session();
            let args: [_; N] =
                std::array::from_fn(|at| Arg::new(names[at].text(session), values[at]));
            write_named(recorder, self, (kind, time), self.name(), &args)
        });
        written == Some(true)
    }

    /// The same as [`event`](Self::event), with argument names known only at run time.
    /// Arguments beyond 15 are left out.
    #[inline(never)]
    pub fn event_with(self, kind: EventKind, args: &[Arg<'_>]) -> bool {
        let args = &args[..args.len().min(MAX_ARGS)];
        let written = with_recorder(self.generation(), |recorder| {
            write_named(recorder, self, (kind, sys::now()), self.name(), args)
        });
        written == Some(true)
    }

    /// The same as [`event`](Self::event), with a number of arguments known only at run
    /// time; those beyond 15 are left out. Another name may replace the trace
    /// point's.
    #[inline(never)]
    pub fn event_of<'a>(
        self,
        kind: EventKind,
        name: Option<&'a str>,
        args: impl IntoIterator<Item = (&'static Name, Value<'a>)>,
    ) -> bool {
        let written = with_recorder(self.generation(), |recorder| {
            let mut texts = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
            let mut count = 0;
            for (text, (name, value)) in texts.iter_mut().zip(args) {
                *text = Arg::new(name.text(recorder.session()), value);
                count += 1;
            }
            let name = name.map_or(self.name(), Text::Inline);
            write_named(recorder, self, (kind, sys::now()), name, &texts[..count])
        });
        written == Some(true)
    }

    /// Begins a duration, which ends when the returned guard is dropped.
    #[inline]
    pub fn duration<const N: usize>(
        self,
        names: &'static [Name; N],
        values: [Value<'_>; N],
    ) -> Duration {
        let begun = self.event(EventKind::DurationBegin, names, values);
        Duration::begun(begun.then_some(self))
    }

    /// Begins an operation, which ends when the returned guard is dropped, on any thread.
    #[inline]
    pub fn async_span<const N: usize>(
        self,
        names: &'static [Name; N],
        values: [Value<'_>; N],
    ) -> AsyncSpan {
        let id = unique_id();
        let begun = self.event(EventKind::AsyncBegin { id }, names, values);
        AsyncSpan { open: begun.then(|| (self.site(), self.generation(), id)) }
    }

    /// Records bytes under this trace point's name: in one record or, beyond 32
    /// 000 bytes, in several, which readers join.
    #[inline(never)]
    pub fn blob(self, bytes: &[u8]) {
        with_recorder(self.generation(), |recorder| {
            let piece = |payload| {
                let record = Blob { name: self.name(), blob_type: BlobType::Data, payload };
                // Counted if there is no room; the format can express every blob.
                let _ = recorder.write(&record);
            };
            if bytes.is_empty() {
                piece(bytes);
            }
            bytes.chunks(BLOB_PIECE_BYTES).for_each(piece);
        });
    }

    /// Records a log message, truncated to 32 000 bytes.
    #[inline(never)]
    pub fn log(self, message: &str) {
        with_recorder(self.generation(), |recorder| {
            let thread = recorder.thread();
            let log = |message| Log { time: sys::now(), thread, message };
            if let Err(WriteError::Encode(_)) = recorder.write(&log(message)) {
                let message = text::clean(message.as_bytes());
                debug_assert!(message.len() <= MAX_LOG_BYTES);
                let _ = recorder.write(&log(&message));
            }
        });
    }
}

/// Writes an event of any kind; returns whether it is in the buffer.
#[inline(always)]
fn write_named(
    recorder: &Recorder<'_>,
    armed: Armed,
    (kind, time): (EventKind, Ticks),
    name: Text<'_>,
    args: &[Arg<'_>],
) -> bool {
    let (thread, category) = (recorder.thread(), armed.category());
    let event = Event { kind, time, thread, category, name, args };
    match recorder.write(&event) {
        Ok(()) => true,
        Err(WriteError::Full(_)) => false,
        Err(WriteError::Encode(_)) => write_cut(recorder, event),
    }
}

/// Writes an event whose strings do not fit a record or contain a NUL: they are
/// cut before the first NUL and to 1 KiB.
#[cold]
#[inline(never)]
fn write_cut(recorder: &Recorder<'_>, event: Event<'_>) -> bool {
    let mut args = [Arg::new(Text::EMPTY, Value::Null); MAX_ARGS];
    let count = event.args.len().min(MAX_ARGS);
    for (cut, arg) in args.iter_mut().zip(event.args) {
        let value = match arg.value {
            Value::Str(text) => Value::Str(cut_text(text)),
            other => other,
        };
        *cut = Arg::new(cut_text(arg.name), value);
    }
    let event = Event { name: cut_text(event.name), args: &args[..count], ..event };
    matches!(recorder.write(&event), Ok(()))
}

fn cut_text(text: Text<'_>) -> Text<'_> {
    let Text::Inline(content) = text else { return text };
    let mut end = content.find('\0').unwrap_or(content.len()).min(CUT_BYTES);
    while !content.is_char_boundary(end) {
        end -= 1;
    }
    Text::Inline(&content[..end])
}

/// A duration of this thread that ends when this value is dropped.
///
/// It is written as two events, begin and end, so the trace also has the
/// durations that were open when the program was killed or a snapshot was taken.
/// A duration whose begin was not recorded has no end either.
#[derive(Debug)]
#[must_use = "the duration ends when this is dropped; bind it to a name such as `_span`"]
pub struct Duration {
    open: Option<(&'static Site, Generation)>,
    /// Durations nest per thread, so they must stay on their thread.
    on_this_thread: PhantomData<*const ()>,
}

impl Duration {
    /// The duration that began at this trace point, or an empty one for `None`.
    #[inline]
    pub fn begun(armed: Option<Armed>) -> Self {
        let open = armed.map(|armed| (armed.site(), armed.generation()));
        Self { open, on_this_thread: PhantomData }
    }

    /// Decomposes the duration without ending it, for languages without destructors. [`reopened`](Self::reopened) rebuilds it, on the same
    /// thread.
    #[must_use]
    pub fn leave_open(mut self) -> Option<(&'static Site, u32)> {
        self.open.take().map(|(site, generation)| (site, generation.get()))
    }

    /// The duration that [`leave_open`](Self::leave_open) decomposed.
    pub fn reopened(site: &'static Site, session: u32) -> Self {
        let open = NonZeroU32::new(session).map(|generation| (site, generation));
        Self { open, on_this_thread: PhantomData }
    }

    /// An empty operation, with nothing to end.
    #[inline]
    pub const fn none() -> Self {
        Self { open: None, on_this_thread: PhantomData }
    }
}

impl Drop for Duration {
    #[inline]
    fn drop(&mut self) {
        if let Some((site, generation)) = self.open {
            end(site, generation);
        }
    }
}

/// An operation that lasts as long as this value is alive. It may end on a thread other than the one on which it began, and operations may
/// overlap in any way.
///
/// It is written as two events with a unique id. An operation whose begin was not recorded has no end either. Unlike the
/// end of a [`Duration`], its end is dropped if there is no room for it: nothing else depends on it.
#[derive(Debug)]
#[must_use = "the operation ends when this is dropped; bind it to a name such as `_span`"]
pub struct AsyncSpan {
    open: Option<(&'static Site, Generation, u64)>,
}

impl AsyncSpan {
    /// A duration that records nothing.
    #[inline]
    pub const fn none() -> Self {
        Self { open: None }
    }

    /// The operation's id, for [`async_instant!`](super::async_instant); `None` if it is not recorded.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.open.map(|(_, _, id)| id)
    }
}

impl Drop for AsyncSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some((site, generation, id)) = self.open {
            end_async(site, generation, id);
        }
    }
}

/// Ends an operation, if the session that it began in still runs.
#[inline(never)]
fn end_async(site: &'static Site, generation: Generation, id: u64) {
    if NonZeroU32::new(sys::generation()) == Some(generation)
        && let Some(armed) = site.in_session(generation)
    {
        static NO_NAMES: [Name; 0] = [];
        armed.event(EventKind::AsyncEnd { id }, &NO_NAMES, []);
    }
}

/// Ends a duration, if the session that it began in still runs.
#[inline(never)]
pub(super) fn end(site: &'static Site, generation: Generation) {
    if NonZeroU32::new(sys::generation()) != Some(generation) {
        return;
    }
    let Some(armed) = site.in_session(generation) else { return };
    with_recorder(generation, |recorder| recorder.end(armed, sys::now()));
}
