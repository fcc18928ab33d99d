//! A machine that plays a story: the recorder's trace of the story, and the states according to the scheduling state machine.

use std::collections::BTreeMap;

use fxt_reader::record::NOT_RECORDED_PROCESS;
use fxt_reader::{Cpu, Nanos};
use fxtrec_report::scene::{Leaves, Scene};
use fxtrec_sched::{Change, CpuInterval, Machine, Occupant, State, Switch, Thread};
use proptest::prelude::*;

use super::recorder::Recorder;

pub(super) const CPUS: u16 = 3;

/// Threads of a process that is in scope if there is a scope, and of another process.
pub(super) const THREADS: [u64; 7] = [101, 102, 103, 104, 501, 502, 503];

/// Blocked when the story begins; it is woken first.
const FIRST: u64 = 101;

const LEAVES: [Leaves; 8] =
    [Leaves::R, Leaves::R, Leaves::S, Leaves::S, Leaves::D, Leaves::I, Leaves::T, Leaves::X];

fn state_after(leaves: Leaves) -> State {
    match leaves {
        Leaves::R => State::Preempted,
        Leaves::S => State::Sleeping,
        Leaves::D => State::Uninterruptible,
        Leaves::I => State::Idle,
        Leaves::T => State::Stopped,
        Leaves::X => State::Dead,
    }
}

/// An event of the story, which happens if it is possible.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A CPU switches to a waiting thread, or to idle.
    Switch { cpu: u16, leaves: usize, incoming: usize },
    /// A wakeup, perhaps of a thread that is awake.
    Wake { cpu: u16, thread: usize },
    /// Events of a CPU are lost, perhaps including a switch to a waiting thread.
    Lose { cpu: u16, incoming: usize },
}

/// Random steps, with this many losses per hundred other steps.
pub(super) fn steps(losses: u32) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let switch = (0..CPUS, 0..LEAVES.len(), 0..THREADS.len() + 2)
        .prop_map(|(cpu, leaves, incoming)| Step::Switch { cpu, leaves, incoming });
    let wake = (0..CPUS, 0..THREADS.len()).prop_map(|(cpu, thread)| Step::Wake { cpu, thread });
    let lose =
        (0..CPUS, 0..THREADS.len() + 2).prop_map(|(cpu, incoming)| Step::Lose { cpu, incoming });
    let step = prop_oneof![60 => switch, 40 => wake, losses => lose];
    prop::collection::vec((0..30_u64, step), 0..150)
}

/// The time in a state, in nanoseconds: all of it, and the part in intervals that began and ended within the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) all: u64,
    pub(super) whole: u64,
}

/// The time of each thread in its states, and the use of each CPU.
#[derive(Debug, Default)]
pub(super) struct Sums {
    threads: BTreeMap<u64, BTreeMap<&'static str, Time>>,
    cpus: BTreeMap<u16, BTreeMap<&'static str, u64>>,
}

impl Sums {
    pub(super) fn thread(&self, thread: u64, what: &str) -> Time {
        let known = self.threads.get(&thread).and_then(|sums| sums.get(what));
        known.copied().unwrap_or_default()
    }

    pub(super) fn cpu(&self, cpu: u16, what: &str) -> u64 {
        self.cpus.get(&cpu).and_then(|sums| sums.get(what)).copied().unwrap_or(0)
    }

    pub(super) fn add_thread(&mut self, thread: u64, what: &'static str, time: Time) {
        let sum = self.threads.entry(thread).or_default().entry(what).or_default();
        sum.all += time.all;
        sum.whole += time.whole;
    }

    pub(super) fn add_cpu(&mut self, cpu: u16, what: &'static str, nanos: u64) {
        *self.cpus.entry(cpu).or_default().entry(what).or_default() += nanos;
    }

    fn change(&mut self, change: Option<Change<u64>>) {
        let Some(change) = change else { return };
        let all = change.time.0 - change.before.since.0;
        let time = Time { all, whole: change.length().unwrap_or(0) };
        self.add_thread(change.thread, what(change.before.state), time);
    }

    fn tenure(&mut self, tenure: &CpuInterval<u64>) {
        let what = match tenure.who {
            Occupant::Idle => "idle",
            Occupant::NotRecorded => "not recorded",
            Occupant::Thread(_) => "busy",
        };
        self.add_cpu(tenure.cpu.0, what, tenure.until.0 - tenure.since.0);
    }
}

fn what(state: State) -> &'static str {
    match state {
        State::Running => "running",
        _ if state.is_waiting() => "waiting",
        State::Uninterruptible => "blocked, uninterruptible",
        _ if state.is_blocked() => "blocked",
        _ if state.is_stopped() => "stopped",
        State::NotRecorded => "not recorded",
        _ => "unknown",
    }
}

/// The actual place of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    On(u16),
    Queued,
    Elsewhere,
    /// It has left a CPU, which the trace does not show yet.
    Vanished,
    Dead,
}

/// A machine on which a story is played, with its recorder.
pub(super) struct Play {
    narrow: bool,
    pub(super) micros: u64,
    places: BTreeMap<u64, Place>,
    on: [u64; CPUS as usize],
    /// The occupant of each CPU in the trace.
    shown: [Option<u64>; CPUS as usize],
    /// The CPUs for which threads in scope wait.
    queues: BTreeMap<u64, u16>,
    /// The CPUs that have switched.
    seen: [bool; CPUS as usize],
    /// The CPUs that lost events since their last switch.
    lost: [bool; CPUS as usize],
    scene: Scene,
    recorder: Recorder,
    machine: Machine<u64>,
    threads: BTreeMap<u64, Thread>,
    sums: Sums,
}

fn not_recorded(cpu: u16) -> u64 {
    NOT_RECORDED_PROCESS.0 + 1 + u64::from(cpu)
}

impl Play {
    /// Plays these steps, each this many microseconds after the previous one. Some time has passed afterwards, since a page needs a length.
    pub(super) fn act(&mut self, steps: &[(u64, Step)]) {
        for (micros, step) in steps {
            self.micros += micros;
            self.step(*step);
        }
        self.micros = self.micros.max(1);
    }

    pub(super) fn new(narrow: bool) -> Play {
        let mut scene = Scene::of_scope(if narrow { "app" } else { "all" });
        for cpu in 0..CPUS {
            scene.name(not_recorded(cpu), "not recorded");
        }
        // Two CPUs run threads when the story begins.
        let on = [102, 501, 0];
        let place = |thread: &u64| match on.iter().position(|on| on == thread) {
            Some(cpu) => (*thread, Place::On(cpu as u16)),
            None => (*thread, Place::Elsewhere),
        };
        let mut play = Play {
            narrow,
            micros: 0,
            places: THREADS.iter().map(place).collect(),
            on,
            shown: [None; CPUS as usize],
            queues: BTreeMap::new(),
            seen: [false; CPUS as usize],
            lost: [false; CPUS as usize],
            scene,
            recorder: Recorder::new(narrow),
            machine: Machine::default(),
            threads: BTreeMap::new(),
            sums: Sums::default(),
        };
        play.wake(2, FIRST);
        play
    }

    pub(super) fn is_in_scope(&self, thread: u64) -> bool {
        !self.narrow || (100..200).contains(&thread)
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Switch { cpu, leaves, incoming } => {
                let queued = |thread: &u64| self.places[thread] == Place::Queued;
                let incoming = THREADS.get(incoming).copied().filter(queued).unwrap_or(0);
                self.switch(cpu, LEAVES[leaves], incoming);
            }
            Step::Wake { cpu, thread } => self.wake(cpu, THREADS[thread]),
            Step::Lose { cpu, incoming } => {
                let queued = |thread: &u64| self.places[thread] == Place::Queued;
                self.lose(cpu, THREADS.get(incoming).copied().filter(queued));
            }
        }
    }

    fn lose(&mut self, cpu: u16, incoming: Option<u64>) {
        let at = usize::from(cpu);
        if self.shown[at].is_none() {
            // The report ignores losses on a CPU without switches.
            return;
        }
        self.scene.lose(self.micros, cpu, 1);
        self.recorder.lose(self.micros, cpu);
        let time = Nanos(self.micros * 1000);
        // Any thread may have had the CPU since its last switch.
        let from = self.machine.cpu_state(Cpu(cpu)).since;
        let lost = self.machine.gap(&mut self.threads, Cpu(cpu), (from, time));
        self.sums.change(lost.change);
        let was_lost = std::mem::replace(&mut self.lost[at], true);
        if let Some(incoming) = incoming.filter(|_| !was_lost) {
            let outgoing = std::mem::replace(&mut self.on[at], incoming);
            self.places.insert(outgoing, Place::Vanished);
            self.places.insert(incoming, Place::On(cpu));
        }
    }

    /// The first event after a loss shows that the CPU's occupant has changed.
    fn infer(&mut self, cpu: u16) {
        let at = usize::from(cpu);
        let (was_lost, now) = (std::mem::take(&mut self.lost[at]), self.on[at]);
        let before = match self.shown[at] {
            Some(before) if was_lost && before != now => before,
            _ => return,
        };
        self.scene.inferred(self.micros, cpu, before, now);
        self.shown[at] = Some(now);
        if before != 0 {
            self.places.insert(before, Place::Elsewhere);
        }
        let who = |koid| if koid == 0 { Occupant::Idle } else { Occupant::Thread(koid) };
        let switched = self.machine.switch(
            &mut self.threads,
            Switch {
                time: Nanos(self.micros * 1000),
                cpu: Cpu(cpu),
                outgoing: who(before),
                next: State::Unknown,
                incoming: who(now),
                inferred: true,
            },
        );
        // The occupant of the CPU between the gap and this event is unknown.
        self.sums.change(switched.incoming);
    }

    fn switch(&mut self, cpu: u16, leaves: Leaves, incoming: u64) {
        let at = usize::from(cpu);
        self.infer(cpu);
        let outgoing = std::mem::replace(&mut self.on[at], incoming);
        let leaves = if outgoing == 0 { Leaves::R } else { leaves };
        self.recorder.switch(self.micros, cpu, (outgoing, leaves), incoming);
        let place = match leaves {
            Leaves::R => Place::Queued,
            Leaves::X => Place::Dead,
            _ => Place::Elsewhere,
        };
        self.places.insert(outgoing, place);
        self.places.insert(incoming, Place::On(cpu));
        self.seen[at] = true;
        self.queues.remove(&incoming);
        if place == Place::Queued && outgoing != 0 && self.is_in_scope(outgoing) {
            self.queues.insert(outgoing, cpu);
        }
        self.show_switch(cpu, outgoing, leaves, incoming);
        self.show_occupant(cpu);
    }

    /// While a thread in scope waits for a CPU, the trace shows which thread has it.
    fn show_occupant(&mut self, cpu: u16) {
        let at = usize::from(cpu);
        let now = self.on[at];
        let is_waited_for = self.narrow && self.queues.values().any(|it| *it == cpu);
        if !is_waited_for || !self.seen[at] || self.shown[at] == Some(now) {
            return;
        }
        self.shown[at] = Some(now);
        self.scene.inferred(self.micros, cpu, not_recorded(cpu), now);
        let switched = self.machine.switch(
            &mut self.threads,
            Switch {
                time: Nanos(self.micros * 1000),
                cpu: Cpu(cpu),
                outgoing: Occupant::NotRecorded,
                next: State::NotRecorded,
                incoming: if now == 0 { Occupant::Idle } else { Occupant::Thread(now) },
                inferred: true,
            },
        );
        self.sums.tenure(&switched.tenure);
        self.sums.change(switched.incoming);
    }

    fn show_switch(&mut self, cpu: u16, outgoing: u64, leaves: Leaves, incoming: u64) {
        let at = usize::from(cpu);
        let (out_in_scope, in_in_scope) = (self.is_in_scope(outgoing), self.is_in_scope(incoming));
        let is_shown = self.shown[at] == Some(outgoing);
        let (out, inn) = match (out_in_scope, in_in_scope) {
            (true, _) => (outgoing, incoming),
            (false, true) => (if is_shown { outgoing } else { not_recorded(cpu) }, incoming),
            (false, false) if is_shown => (outgoing, not_recorded(cpu)),
            (false, false) => return,
        };
        let leaves = if out == outgoing { leaves } else { Leaves::S };
        self.shown[at] = Some(inn);
        self.scene.switch(self.micros, cpu, out, leaves, inn);
        let who = |koid| match koid {
            0 => Occupant::Idle,
            koid if koid == not_recorded(cpu) => Occupant::NotRecorded,
            koid => Occupant::Thread(koid),
        };
        let next = match self.is_in_scope(out) {
            true => state_after(leaves),
            false => State::NotRecorded,
        };
        let switched = self.machine.switch(
            &mut self.threads,
            Switch {
                time: Nanos(self.micros * 1000),
                cpu: Cpu(cpu),
                outgoing: who(out),
                next,
                incoming: who(inn),
                inferred: false,
            },
        );
        assert!(switched.displaced.is_none(), "what is missing was inferred");
        self.sums.tenure(&switched.tenure);
        self.sums.change(switched.outgoing);
        self.sums.change(switched.incoming);
    }

    fn wake(&mut self, cpu: u16, thread: u64) {
        let begins = self.places[&thread] == Place::Elsewhere;
        match self.places[&thread] {
            Place::Dead | Place::Vanished => return,
            // On a CPU without events, or after a loss, it is unknown that the wakeup has no effect.
            Place::On(on) if self.lost[usize::from(on)] => return,
            Place::On(on) if self.shown[usize::from(on)] != Some(thread) => return,
            Place::On(_) | Place::Queued => {}
            Place::Elsewhere => {
                self.places.insert(thread, Place::Queued);
            }
        }
        self.recorder.wake(self.micros, cpu, thread);
        if !self.is_in_scope(thread) {
            return;
        }
        self.scene.wake(self.micros, cpu, thread);
        let time = Nanos(self.micros * 1000);
        let woken = self.machine.wake(&mut self.threads, thread, Cpu(cpu), time);
        self.sums.change(woken);
        if begins {
            self.queues.insert(thread, cpu);
            self.show_occupant(cpu);
        }
    }

    /// The trace of the story, the recorder's trace, and the sums.
    pub(super) fn end(mut self) -> (Scene, Vec<u8>, Sums) {
        self.scene.end(self.micros);
        let end = Nanos(self.micros * 1000);
        for tenure in self.machine.end(end) {
            self.sums.tenure(&tenure);
        }
        for (key, thread) in &self.threads {
            let time = Time { all: end.0 - thread.since.0, whole: 0 };
            self.sums.add_thread(*key, what(thread.state), time);
        }
        (self.scene, self.recorder.end(self.micros), self.sums)
    }
}
