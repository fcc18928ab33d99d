//! The states of threads, as slices on their tracks.

use fxt_reader::record::is_not_recorded;
use fxt_reader::{Koid, Nanos, ThreadState};
use rustc_hash::FxHashMap;

use super::document::Document;
use super::json::{self, Object};
use super::names::Names;
use crate::tef::marks;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Runnable,
    Sleeping,
    Uninterruptible,
    Suspended,
    /// Nothing any more.
    Gone,
}

impl State {
    /// The state of a thread that has left the CPU. `letter` is the kernel's own name of it,
    /// where the trace keeps it.
    pub(super) fn after(state: ThreadState, letter: &str) -> Self {
        match state {
            ThreadState::New | ThreadState::Running => Self::Runnable,
            ThreadState::Suspended => Self::Suspended,
            ThreadState::Dying | ThreadState::Dead => Self::Gone,
            _ if letter == "D" => Self::Uninterruptible,
            _ => Self::Sleeping,
        }
    }

    /// The name of its slices, and one of the trace viewer's reserved colours.
    fn label(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Running => ("Running", "thread_state_running"),
            Self::Runnable => ("Runnable", "thread_state_runnable"),
            Self::Sleeping => ("Sleeping", "thread_state_sleeping"),
            Self::Uninterruptible => ("Uninterruptible sleep", "thread_state_uninterruptible"),
            Self::Suspended => ("Stopped", "thread_state_unknown"),
            Self::Gone => return None,
        })
    }
}

/// The state of each thread since when.
#[derive(Debug, Default)]
pub(super) struct States {
    threads: FxHashMap<Koid, Track>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Track {
    current: Option<(State, Nanos)>,
    own_durations: bool,
}

impl States {
    pub(super) fn has_durations(&mut self, thread: Koid) {
        self.threads.entry(thread).or_default().own_durations = true;
    }

    /// The thread is in this state since `start`, if nothing is known of it yet.
    pub(super) fn began_before(&mut self, thread: Koid, state: State, start: Nanos) {
        self.threads.entry(thread).or_default().current.get_or_insert((state, start));
    }

    /// A wake-up: the thread may run now, if it did not before.
    pub(super) fn woken(
        &mut self,
        thread: Koid,
        time: Nanos,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let current = self.threads.get(&thread).and_then(|track| track.current);
        if !matches!(current, Some((State::Running | State::Runnable, _))) {
            self.change(thread, State::Runnable, time, document, names);
        }
    }

    /// Ends the thread's state and begins another. Idle tasks have no states, nor has what is not recorded.
    pub(super) fn change(
        &mut self,
        thread: Koid,
        state: State,
        time: Nanos,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        if thread == Koid(0) || is_not_recorded(thread) {
            return;
        }
        let track = self.threads.entry(thread).or_default();
        if let Some(ended) = track.current.replace((state, time)) {
            write_state(document, thread, ended, time, track.own_durations, names);
        }
    }

    pub(super) fn end(&mut self, end: Nanos, document: &mut Document<'_>, names: &Names) {
        let mut open: Vec<_> = self.threads.drain().collect();
        open.sort_unstable_by_key(|(thread, _)| *thread);
        for (thread, track) in open {
            if let Some(last) =
                track.current.filter(|_| thread != Koid(0) && !is_not_recorded(thread))
            {
                write_state(document, thread, last, end, track.own_durations, names);
            }
        }
    }
}

/// Writes a slice on the thread's track. On threads with durations of their own, which it would
/// not nest with, it becomes an async pair that viewers draw beside them.
fn write_state(
    document: &mut Document<'_>,
    thread: Koid,
    (state, since): (State, Nanos),
    end: Nanos,
    own_durations: bool,
    names: &Names,
) {
    let Some(label) = state.label().filter(|_| end > since) else { return };
    let (begin, finish) = if own_durations { ("b", "e") } else { ("B", "E") };
    for (phase, time) in [(begin, since), (finish, end)] {
        let mut event = begin_event(document, phase, thread, time, label, names);
        if own_durations {
            json::hex(event.key("id"), thread.0);
        }
        event.end();
    }
}

fn begin_event<'d>(
    document: &'d mut Document<'_>,
    phase: &str,
    thread: Koid,
    time: Nanos,
    (name, colour): (&str, &str),
    names: &Names,
) -> Object<'d> {
    let mut event = document.event();
    event.string("ph", phase);
    event.string("cat", "thread_state");
    event.string("name", name);
    names.write_id(event.key("pid"), names.process_of(thread));
    names.write_id(event.key("tid"), thread);
    json::micros(event.key("ts"), time.0);
    event.string("cname", colour);
    event.string(marks::FIELD, marks::DERIVED);
    event
}
