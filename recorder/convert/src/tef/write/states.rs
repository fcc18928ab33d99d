//! The states of threads, as slices on their tracks.

use fxt_reader::record::is_not_recorded;
use fxt_reader::{Koid, Nanos, ThreadState};
use fxtrec_sched::{Change, State, Switched, Thread, Threads};
use rustc_hash::FxHashMap;

use super::document::Document;
use super::json::{self, Object};
use super::names::Names;
use crate::tef::marks;

/// The state of a thread after it left a CPU. `letters` are the kernel's letters for it, if the trace has them.
pub(super) fn after(state: ThreadState, letters: Option<&str>) -> State {
    let state = match state {
        // The exact state does not matter here: the thread is neither runnable nor dead.
        ThreadState::Undefined(_) => ThreadState::Blocked,
        state => state,
    };
    State::after(state, letters)
}

/// The name and the colour (one of the trace viewer's reserved ones) for slices of a state; `None` if nothing is drawn.
fn label(state: State) -> Option<(&'static str, &'static str)> {
    Some(match state {
        State::Running => ("Running", "thread_state_running"),
        State::Woken | State::Preempted => ("Runnable", "thread_state_runnable"),
        State::Throttled | State::WokenThrottled => ("Throttled", "terrible"),
        State::Sleeping | State::Idle | State::Parked => ("Sleeping", "thread_state_sleeping"),
        State::Uninterruptible => ("Uninterruptible sleep", "thread_state_uninterruptible"),
        State::Stopped | State::Traced => ("Stopped", "thread_state_unknown"),
        State::Zombie | State::Dead | State::Unknown | State::NotRecorded => return None,
    })
}

/// The name and colour for a thread that ran while the host took a part of the virtual CPU's time. It is unknown which part.
const STOLEN: (&str, &str) = ("Running, partly stolen", "bad");

/// The state of each thread, and when it began.
#[derive(Debug, Default)]
pub(super) struct States {
    threads: FxHashMap<Koid, Track>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Track {
    thread: Thread,
    own_durations: bool,
}

impl Threads for States {
    type Key = Koid;

    fn thread(&mut self, key: Koid) -> &mut Thread {
        &mut self.threads.entry(key).or_default().thread
    }
}

impl States {
    pub(super) fn has_durations(&mut self, thread: Koid) {
        self.threads.entry(thread).or_default().own_durations = true;
    }

    /// Writes the states that a switch ends. The host may have taken a part of the running time.
    pub(super) fn write(
        &self,
        switched: &Switched<Koid>,
        stolen: Option<u64>,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        self.write_change(switched.displaced, document, names);
        self.write_change_with(switched.outgoing, stolen, document, names);
        self.write_change(switched.incoming, document, names);
    }

    pub(super) fn of(&self, thread: Koid) -> Thread {
        self.threads.get(&thread).map(|track| track.thread).unwrap_or_default()
    }

    /// Writes a state that has ended.
    pub(super) fn write_change(
        &self,
        change: Option<Change<Koid>>,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        self.write_change_with(change, None, document, names);
    }

    fn write_change_with(
        &self,
        change: Option<Change<Koid>>,
        stolen: Option<u64>,
        document: &mut Document<'_>,
        names: &Names,
    ) {
        let Some(Change { thread, before, time, .. }) = change else { return };
        let own_durations = self.threads.get(&thread).is_some_and(|track| track.own_durations);
        let track = Track { thread: before, own_durations };
        write_state(document, thread, &track, time, stolen, names);
    }

    pub(super) fn end(&mut self, end: Nanos, document: &mut Document<'_>, names: &Names) {
        let mut open: Vec<_> = self.threads.drain().collect();
        open.sort_unstable_by_key(|(thread, _)| *thread);
        for (thread, track) in open {
            write_state(document, thread, &track, end, None, names);
        }
    }
}

/// Writes a slice on the thread's track, except for pseudo-threads. If the thread has its own durations, with which the slice would not
/// nest, it becomes an async pair that viewers draw next to them.
fn write_state(
    document: &mut Document<'_>,
    thread: Koid,
    Track { thread: was, own_durations }: &Track,
    end: Nanos,
    stolen: Option<u64>,
    names: &Names,
) {
    let label = label(was.state).filter(|_| end > was.since && !is_not_recorded(thread));
    let Some(label) = label else { return };
    let stolen = stolen.filter(|_| was.state == State::Running);
    let label = if stolen.is_some() { STOLEN } else { label };
    let (begin, finish) = if *own_durations { ("b", "e") } else { ("B", "E") };
    for (phase, time) in [(begin, was.since), (finish, end)] {
        let mut event = begin_event(document, phase, thread, time, label, names);
        if *own_durations {
            json::hex(event.key("id"), thread.0);
        }
        // At both ends: speedscope does not match an end with different arguments.
        if let Some(nanos) = stolen {
            let mut args = Object::begin(event.key("args"));
            json::number(args.key("steal_ns"), nanos);
            args.end();
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
