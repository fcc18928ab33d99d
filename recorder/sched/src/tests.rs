use std::collections::HashMap;

use fxt_reader::{Cpu, Nanos, ThreadState};
use proptest::prelude::*;

use super::*;

const A: u64 = 1;
const B: u64 = 2;
const IDLE: Occupant<u64> = Occupant::Idle;

fn on(thread: u64) -> Occupant<u64> {
    Occupant::Thread(thread)
}

/// A machine, and its output.
#[derive(Default)]
struct Play {
    machine: Machine<u64>,
    threads: HashMap<u64, Thread>,
}

impl Play {
    fn switch(
        &mut self,
        time: u64,
        outgoing: Occupant<u64>,
        next: State,
        incoming: Occupant<u64>,
    ) -> Switched<u64> {
        self.switch_on(0, time, outgoing, next, incoming, false)
    }

    fn switch_on(
        &mut self,
        cpu: u16,
        time: u64,
        outgoing: Occupant<u64>,
        next: State,
        incoming: Occupant<u64>,
        inferred: bool,
    ) -> Switched<u64> {
        let (time, cpu) = (Nanos(time), Cpu(cpu));
        let switch = Switch { time, cpu, outgoing, next, incoming, inferred };
        self.machine.switch(&mut self.threads, switch)
    }

    fn wake(&mut self, time: u64, thread: u64) -> Option<Change<u64>> {
        self.machine.wake(&mut self.threads, thread, Cpu(0), Nanos(time))
    }

    fn gap(&mut self, cpu: u16, from: u64, to: u64) -> Lost<u64> {
        self.machine.gap(&mut self.threads, Cpu(cpu), (Nanos(from), Nanos(to)))
    }

    fn state(&self, thread: u64) -> State {
        self.threads.get(&thread).map_or(State::Unknown, |thread| thread.state)
    }
}

/// The state that ended, its begin and end, and its length if that is certain.
fn ended(change: Option<Change<u64>>) -> (State, u64, u64, Option<u64>) {
    let change = change.expect("a thread changed");
    (change.before.state, change.before.since.0, change.time.0, change.length())
}

#[test]
fn a_thread_sleeps_is_woken_waits_and_runs() {
    let mut play = Play::default();
    play.switch(10, on(A), State::Sleeping, on(B));
    assert_eq!(ended(play.wake(30, A)), (State::Sleeping, 10, 30, Some(20)));
    let switched = play.switch(50, on(B), State::Preempted, on(A));
    assert_eq!(switched.met, Met::Expected);
    assert_eq!(switched.slice(), Some(40));
    assert_eq!(ended(switched.outgoing), (State::Running, 10, 50, Some(40)));
    assert_eq!(ended(switched.incoming), (State::Woken, 30, 50, Some(20)));
    assert_eq!((play.state(A), play.state(B)), (State::Running, State::Preempted));
}

#[test]
fn who_goes_out_first_has_run_since_before_the_recording() {
    let mut play = Play::default();
    let switched = play.switch(10, on(A), State::Sleeping, IDLE);
    let CpuInterval { who, since, until, begin, end, .. } = switched.tenure;
    assert_eq!((switched.met, who, since.0, until.0), (Met::Vacant, on(A), 0, 10));
    assert_eq!((begin, end, switched.slice()), (Edge::Start, Edge::Recorded, None));
    assert_eq!(ended(switched.outgoing), (State::Running, 0, 10, None));
}

#[test]
fn a_thread_that_waited_and_goes_out_unseen_to_come_in_was_not_running_before() {
    let mut play = Play::default();
    play.wake(5, A);
    let switched = play.switch(10, on(A), State::Sleeping, IDLE);
    assert_eq!(ended(switched.outgoing), (State::Woken, 5, 10, Some(5)));
}

#[test]
fn a_wakeup_of_a_thread_that_runs_or_waits_changes_nothing() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    assert_eq!(play.wake(20, A), None);
    play.switch(30, on(A), State::Preempted, on(B));
    assert_eq!(play.wake(40, A), None);
    assert_eq!(play.threads[&A].since, Nanos(30));
}

#[test]
fn a_wakeup_moves_anyone_who_is_blocked_stopped_unknown_or_a_zombie() {
    for (state, letters) in [
        (ThreadState::Blocked, None),
        (ThreadState::Blocked, Some("D")),
        (ThreadState::Suspended, None),
        (ThreadState::Undefined(9), None),
        (ThreadState::Dying, None),
    ] {
        let mut play = Play::default();
        let next = State::after(state, letters);
        play.switch(10, on(A), next, IDLE);
        assert_eq!(play.wake(20, A).map(|change| change.before.state), Some(next));
        assert_eq!(play.state(A), State::Woken);
    }
}

#[test]
fn a_gap_makes_its_cpu_and_the_thread_on_it_unknown() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    let lost = play.gap(0, 20, 40);
    let tenure = lost.tenure.expect("A had it");
    assert_eq!((tenure.who, tenure.since.0, tenure.until.0), (on(A), 10, 20));
    assert_eq!((tenure.end, tenure.length()), (Edge::Gap, None));
    assert_eq!(ended(lost.change), (State::Running, 10, 20, None));
    let seat = play.machine.cpu_state(Cpu(0));
    assert_eq!((seat.occupant, seat.last, seat.since.0), (None, Some(on(A)), 40));
    let switched = play.switch(50, on(B), State::Sleeping, IDLE);
    assert_eq!((switched.met, switched.tenure.begin), (Met::Vacant, Edge::Gap));
    assert_eq!(ended(switched.outgoing), (State::Running, 40, 50, None));
    assert_eq!(play.machine.cpu_state(Cpu(0)).last, None);
}

#[test]
fn two_gaps_in_a_row_remember_who_had_the_cpu_before_both() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.gap(0, 20, 20);
    let lost = play.gap(0, 30, 30);
    assert!(lost.tenure.is_none() && lost.change.is_none());
    assert_eq!(play.machine.cpu_state(Cpu(0)).last, Some(on(A)));
}

#[test]
fn a_gap_elsewhere_leaves_a_state_which_is_doubtful_only_if_somebody_doubts_it() {
    let mut play = Play::default();
    play.wake(10, A);
    play.gap(1, 20, 20);
    assert_eq!(play.wake(30, A), None, "it waits");
    play.machine.invalidate();
    assert!(!play.machine.knows(&play.threads[&A]));
    let change = play.wake(40, A).expect("it may have run and slept meanwhile");
    assert!(!change.sound);
    assert_eq!(ended(Some(change)), (State::Woken, 10, 40, None));
    assert!(play.machine.knows(&play.threads[&A]));
}

#[test]
fn doubt_does_not_concern_a_thread_that_has_a_cpu() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.machine.invalidate();
    assert_eq!(play.wake(20, A), None, "nobody has taken its CPU");
    assert_eq!(play.switch(30, on(A), State::Sleeping, IDLE).slice(), Some(20));
}

#[test]
fn a_thread_that_was_replaced_unseen_is_unknown_from_then_on() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    let switched = play.switch(30, on(B), State::Sleeping, IDLE);
    assert_eq!((switched.met, switched.slice()), (Met::Displaced, None));
    assert_eq!((switched.tenure.who, switched.tenure.end), (on(A), Edge::Inferred));
    assert_eq!(ended(switched.displaced), (State::Running, 10, 30, None));
    assert_eq!(play.state(A), State::Unknown);
    let outgoing = switched.outgoing.expect("B went out");
    assert_eq!(outgoing.before.state, State::Unknown, "nobody knows since when B ran");
}

#[test]
fn a_thread_that_was_seen_elsewhere_is_not_displaced_any_more() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.switch_on(1, 20, IDLE, State::Unknown, on(A), false);
    let switched = play.switch(30, on(B), State::Sleeping, IDLE);
    assert!(switched.displaced.is_none());
    assert_eq!(play.state(A), State::Running, "on the other CPU");
}

#[test]
fn an_inferred_switch_has_no_length_on_either_side() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.wake(12, B);
    let switched = play.switch_on(0, 30, on(A), State::Unknown, on(B), true);
    assert_eq!((switched.slice(), switched.tenure.end), (None, Edge::Inferred));
    assert_eq!(ended(switched.incoming), (State::Woken, 12, 30, None));
    let switched = play.switch(40, on(B), State::Sleeping, IDLE);
    assert_eq!((switched.slice(), switched.tenure.begin), (None, Edge::Inferred));
}

#[test]
fn between_the_halves_of_a_switch_nobody_has_the_cpu_and_a_thread_may_be_dropped() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    let (time, cpu, inferred) = (Nanos(30), Cpu(0), false);
    let leave = Leave { time, cpu, outgoing: on(A), next: State::Dead, inferred };
    let left = play.machine.leave(&mut play.threads, leave);
    assert_eq!((left.met, left.slice()), (Met::Expected, Some(20)));
    assert_eq!(play.machine.cpu_state(cpu).occupant, None);
    play.threads.remove(&A);
    // Its id already belongs to another thread.
    let enter = Enter { time, cpu, incoming: on(A), inferred };
    let came = play.machine.enter(&mut play.threads, enter).expect("a thread came in");
    assert_eq!((came.before.state, came.before.since.0), (State::Unknown, 0));
    assert_eq!(play.machine.cpu_state(cpu).occupant, Some(on(A)));
}

#[test]
fn who_is_found_on_a_cpu_has_it_since_an_unknown_time() {
    let mut play = Play::default();
    let found = play.machine.found(&mut play.threads, (Cpu(0), on(A)), Nanos(5));
    assert_eq!(found.met, Met::Vacant);
    assert_eq!(play.machine.cpu_state(Cpu(0)).begin, Edge::Start);
    let found = play.machine.found(&mut play.threads, (Cpu(0), on(A)), Nanos(6));
    assert!(found.met == Met::Expected && found.thread.is_none());
    let found = play.machine.found(&mut play.threads, (Cpu(0), on(B)), Nanos(9));
    assert_eq!(found.met, Met::Displaced);
    assert_eq!(found.displaced.map(|change| change.thread), Some(A));
    assert_eq!((play.state(A), play.state(B)), (State::Unknown, State::Running));
    assert_eq!(play.switch(12, on(B), State::Sleeping, IDLE).slice(), None);
}

#[test]
fn who_is_found_after_a_gap_does_not_end_the_gap() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.gap(0, 20, 20);
    play.machine.found(&mut play.threads, (Cpu(0), on(A)), Nanos(25));
    let seat = play.machine.cpu_state(Cpu(0));
    assert_eq!((seat.occupant, seat.begin, seat.since.0), (Some(on(A)), Edge::Gap, 20));
    assert_eq!(play.switch(30, on(A), State::Sleeping, IDLE).slice(), None);
}

#[test]
fn who_has_a_cpu_is_forgotten_without_a_gap_and_a_gap_is_not_forgotten() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.machine.forget(Cpu(0), Nanos(20));
    let switched = play.switch(30, on(A), State::Sleeping, IDLE);
    assert_eq!((switched.met, switched.tenure.since.0, switched.slice()), (Met::Vacant, 20, None));
    play.gap(0, 40, 40);
    play.machine.forget(Cpu(0), Nanos(50));
    let seat = play.machine.cpu_state(Cpu(0));
    assert_eq!((seat.last, seat.begin, seat.since.0), (None, Edge::Gap, 50));
}

#[test]
fn a_cpu_that_is_offline_is_not_idle() {
    let mut play = Play::default();
    play.switch(10, on(A), State::Sleeping, IDLE);
    let tenure = play.machine.offline(Cpu(0), Nanos(20)).expect("it idles");
    assert_eq!((tenure.who, tenure.until.0, tenure.end), (IDLE, 20, Edge::Offline));
    assert_eq!(play.machine.end(Nanos(50)).count(), 0);
    play.machine.online(Cpu(0), Nanos(60));
    let switched = play.switch(70, IDLE, State::Unknown, on(A));
    assert_eq!((switched.tenure.since.0, switched.tenure.who), (60, IDLE));
    assert_eq!((switched.tenure.begin, switched.slice()), (Edge::Offline, None));
}

#[test]
fn a_cpu_that_runs_a_thread_is_back_already() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    assert_eq!(play.machine.offline(Cpu(0), Nanos(20)), None);
    play.machine.online(Cpu(0), Nanos(30));
    assert_eq!(play.machine.cpu_state(Cpu(0)).since, Nanos(10));
}

#[test]
fn what_is_not_recorded_is_neither_idle_nor_a_thread() {
    let mut play = Play::default();
    play.switch(10, on(A), State::NotRecorded, Occupant::NotRecorded);
    let switched = play.switch(30, Occupant::NotRecorded, State::Unknown, on(B));
    assert_eq!((switched.met, switched.tenure.who), (Met::Expected, Occupant::NotRecorded));
    assert!(switched.outgoing.is_none() && switched.displaced.is_none());
    assert_eq!(ended(play.wake(40, A)), (State::NotRecorded, 10, 40, Some(30)));
}

#[test]
fn a_window_keeps_who_has_a_cpu_and_cuts_since_when() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    play.wake(15, B);
    play.machine.cut(Nanos(20));
    let switched = play.switch(30, on(A), State::Sleeping, on(B));
    assert_eq!((switched.met, switched.tenure.since.0), (Met::Expected, 20));
    assert_eq!((switched.tenure.begin, switched.slice()), (Edge::Start, None));
    assert_eq!(ended(switched.incoming), (State::Woken, 15, 30, None));
    assert_eq!(
        play.machine.cpu_state(Cpu(7)).since,
        Nanos(20),
        "of others nothing is known since then"
    );
}

#[test]
fn a_thread_that_was_dropped_does_not_vanish_and_its_place_belongs_to_another() {
    /// One slot, and its thread.
    struct Place(Thread, u64);
    impl Threads for Place {
        type Key = u64;
        fn thread(&mut self, _: u64) -> &mut Thread {
            &mut self.0
        }
        fn is_kept(&self, key: u64) -> bool {
            key == self.1
        }
    }
    let (mut machine, mut place) = (Machine::default(), Place(Thread::default(), A));
    machine.found(&mut place, (Cpu(0), on(A)), Nanos(1));
    place = Place(Thread { state: State::Running, ..Thread::default() }, B);
    let lost = machine.gap(&mut place, Cpu(0), (Nanos(2), Nanos(2)));
    assert!(lost.tenure.is_some() && lost.change.is_none());
    assert_eq!(place.0.state, State::Running);
}

#[test]
fn every_kernel_letter_has_its_state() {
    let after = State::after;
    assert_eq!(after(ThreadState::Blocked, None), State::Sleeping);
    assert_eq!(after(ThreadState::Blocked, Some("?")), State::Sleeping);
    assert_eq!(after(ThreadState::Blocked, Some("D")), State::Uninterruptible);
    assert_eq!(after(ThreadState::Running, Some("R+")), State::Preempted);
    assert_eq!(after(ThreadState::Suspended, Some("t")), State::Traced);
    assert_eq!(after(ThreadState::Undefined(9), None), State::Unknown);
    assert!(after(ThreadState::Blocked, Some("I")).is_blocked());
    assert!(!after(ThreadState::Suspended, None).is_blocked());
    assert!(!State::NotRecorded.is_known() && State::Dead.is_known());
}

#[test]
fn a_thread_is_small() {
    assert_eq!(size_of::<Thread>(), 16);
}

/// Something that may happen to a machine.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Switch { cpu: u16, outgoing: u64, next: usize, incoming: u64, inferred: bool },
    Wake { cpu: u16, thread: u64 },
    Gap { cpu: u16, doubt: bool },
    Found { cpu: u16, thread: u64 },
    Offline { cpu: u16 },
    Online { cpu: u16 },
    Cut,
}

fn happens() -> impl Strategy<Value = Happens> {
    let (cpu, thread) = (0..3_u16, 0..5_u64);
    let switch = (cpu.clone(), thread.clone(), 0..NEXT.len(), thread.clone(), any::<bool>());
    let switch = switch.prop_map(|(cpu, outgoing, next, incoming, inferred)| Happens::Switch {
        cpu,
        outgoing,
        next,
        incoming,
        inferred,
    });
    let pair = (cpu.clone(), thread);
    prop_oneof![
        8 => switch,
        6 => pair.clone().prop_map(|(cpu, thread)| Happens::Wake { cpu, thread }),
        1 => (cpu.clone(), any::<bool>()).prop_map(|(cpu, doubt)| Happens::Gap { cpu, doubt }),
        1 => pair.prop_map(|(cpu, thread)| Happens::Found { cpu, thread }),
        1 => cpu.clone().prop_map(|cpu| Happens::Offline { cpu }),
        1 => cpu.prop_map(|cpu| Happens::Online { cpu }),
        1 => Just(Happens::Cut),
    ]
}

const NEXT: [State; 5] =
    [State::Unknown, State::Preempted, State::Sleeping, State::Stopped, State::Dead];

fn who(thread: u64) -> Occupant<u64> {
    if thread == 0 { IDLE } else { on(thread) }
}

/// Adds up the output for each thread and each CPU.
#[derive(Default)]
struct Sums {
    changes: HashMap<u64, Vec<Change<u64>>>,
    tenures: HashMap<Cpu, Vec<CpuInterval<u64>>>,
}

impl Sums {
    fn change(&mut self, change: Option<Change<u64>>) {
        if let Some(change) = change {
            self.changes.entry(change.thread).or_default().push(change);
        }
    }

    fn tenure(&mut self, tenure: Option<CpuInterval<u64>>) {
        if let Some(tenure) = tenure {
            self.tenures.entry(tenure.cpu).or_default().push(tenure);
        }
    }
}

proptest! {
    /// In every case, the output is consistent: each change of a thread continues the previous one, the intervals of CPUs do not overlap,
    /// and each occupant of a CPU is in the records.
    #[test]
    fn changes_follow_each_other_and_tenures_do_not_overlap(
        story in prop::collection::vec((1..9_u64, happens()), 0..60),
    ) {
        let (mut play, mut sums, mut time) = (Play::default(), Sums::default(), 0);
        for (step, happens) in story {
            time += step;
            match happens {
                Happens::Switch { cpu, outgoing, next, incoming, inferred } => {
                    let sides = (who(outgoing), NEXT[next], who(incoming));
                    let switched =
                        play.switch_on(cpu, time, sides.0, sides.1, sides.2, inferred);
                    sums.tenure(Some(switched.tenure));
                    sums.change(switched.displaced);
                    sums.change(switched.outgoing);
                    sums.change(switched.incoming);
                    prop_assert_eq!(play.machine.cpu_state(Cpu(cpu)).occupant, Some(sides.2));
                    prop_assert!(switched.slice().is_none() || !inferred);
                    prop_assert_eq!(switched.met == Met::Displaced, switched.tenure.who != sides.0);
                }
                Happens::Wake { cpu, thread } => {
                    let woken = play.machine.wake(&mut play.threads, thread, Cpu(cpu), Nanos(time));
                    sums.change(woken);
                    let state = play.state(thread);
                    prop_assert!(state == State::Running || state.is_waiting());
                }
                Happens::Gap { cpu, doubt } => {
                    let lost = play.gap(cpu, time, time);
                    sums.tenure(lost.tenure);
                    sums.change(lost.change);
                    prop_assert_eq!(play.machine.cpu_state(Cpu(cpu)).occupant, None);
                    if doubt {
                        play.machine.invalidate();
                    }
                }
                Happens::Found { cpu, thread } => {
                    let found =
                        play.machine.found(&mut play.threads, (Cpu(cpu), who(thread)), Nanos(time));
                    sums.tenure(found.tenure);
                    sums.change(found.displaced);
                    sums.change(found.thread);
                }
                Happens::Offline { cpu } => {
                    sums.tenure(play.machine.offline(Cpu(cpu), Nanos(time)));
                }
                Happens::Online { cpu } => play.machine.online(Cpu(cpu), Nanos(time)),
                Happens::Cut => play.machine.cut(Nanos(time)),
            }
        }
        for tenure in play.machine.end(Nanos(time)) {
            sums.tenure(Some(tenure));
        }
        for changes in sums.changes.values() {
            for pair in changes.windows(2) {
                let (one, next) = (&pair[0], &pair[1]);
                // Only a thread that was found to have run since a loss does not continue from its previous state.
                let rewritten = !one.after.is_known() && next.before.state == State::Running;
                prop_assert!(one.after == next.before.state || rewritten);
                prop_assert!(one.time <= next.before.since && next.before.since <= next.time);
            }
        }
        for tenures in sums.tenures.values() {
            for pair in tenures.windows(2) {
                prop_assert!(pair[0].until <= pair[1].since);
            }
            prop_assert!(tenures.iter().all(|tenure| tenure.since <= tenure.until));
        }
    }
}

#[test]
fn a_wait_is_divided_where_a_quota_held_the_thread_back() {
    let mut play = Play::default();
    play.switch(10, on(A), State::Throttled, on(B));
    let [waited, held] = play.machine.held_back(&mut play.threads, A, (Nanos(10), Nanos(60)));
    assert_eq!((waited, ended(held)), (None, (State::Throttled, 10, 60, Some(50))));
    assert_eq!(play.state(A), State::Preempted);
    // This is the second time in the same wait.
    let [waited, held] = play.machine.held_back(&mut play.threads, A, (Nanos(70), Nanos(75)));
    assert_eq!(ended(waited), (State::Preempted, 60, 70, Some(10)));
    assert_eq!(ended(held), (State::Throttled, 70, 75, Some(5)));
    let switched = play.switch(90, on(B), State::Sleeping, on(A));
    assert_eq!(ended(switched.incoming), (State::Preempted, 75, 90, Some(15)));
}

#[test]
fn a_thread_that_does_not_wait_is_not_held_back() {
    let mut play = Play::default();
    play.switch(10, IDLE, State::Unknown, on(A));
    let nothing = [None, None];
    assert_eq!(play.machine.held_back(&mut play.threads, A, (Nanos(10), Nanos(20))), nothing);
    play.switch(30, on(A), State::Preempted, IDLE);
    assert_eq!(play.machine.held_back(&mut play.threads, A, (Nanos(20), Nanos(40))), nothing);
    assert_eq!(play.threads[&A].since, Nanos(30));
}

#[test]
fn a_thread_that_is_woken_while_throttled_waits_as_one_that_was_woken_afterwards() {
    let mut play = Play::default();
    play.switch(10, on(A), State::Sleeping, IDLE);
    let state = (Cpu(0), State::WokenThrottled);
    assert!(play.machine.wake_to(&mut play.threads, A, state, Nanos(20)).is_some());
    assert_eq!(play.wake(30, A), None, "it is awake already");
    play.machine.held_back(&mut play.threads, A, (Nanos(20), Nanos(40)));
    let switched = play.switch(50, IDLE, State::Unknown, on(A));
    assert_eq!(ended(switched.incoming), (State::Woken, 40, 50, Some(10)));
}

#[test]
fn a_thread_changes_queues_only_while_it_waits_and_its_wait_continues() {
    let mut play = Play::default();
    play.switch(10, on(A), State::Preempted, on(B));
    assert_eq!(play.machine.migrate(&mut play.threads, A, Cpu(1)), Some(Cpu(0)));
    assert_eq!(play.machine.migrate(&mut play.threads, A, Cpu(1)), None);
    assert_eq!(play.machine.migrate(&mut play.threads, B, Cpu(1)), None, "it runs");
    let switched = play.switch_on(1, 50, IDLE, State::Unknown, on(A), false);
    let waited = switched.incoming.expect("it came in").before;
    assert_eq!((waited.cpu, waited.since), (Cpu(1), Nanos(10)));
}
