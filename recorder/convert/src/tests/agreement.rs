//! Who has which CPU and what each thread does is told in several forms. All of them tell the same.
//!
//! A story made by chance is played on a machine in which everybody is somewhere. What a recorder would write of it becomes a
//! trace, and goes to the scheduling state machine as well. How long each thread ran, waited and was blocked, and what each
//! CPU was used for, must then be the same in the machine, the report, the page, and the slices of the JSON writer.

use std::collections::BTreeMap;

use fxt_reader::record::NOT_RECORDED_PROCESS;
use fxt_reader::{Cpu, Nanos, Reader};
use fxtrec_report::page::Page;
use fxtrec_report::scene::{Leaves, Scene};
use fxtrec_report::{Metric, Options as ReportOptions, Report as Figures, analysis};
use fxtrec_sched::{Change, Machine, Occupant, State, Switch, Tenure, Thread};
use proptest::prelude::*;

use super::*;

const CPUS: u16 = 3;

/// Threads of a process that is in scope wherever there is one, and of one that is an outsider then.
const THREADS: [u64; 7] = [101, 102, 103, 104, 501, 502, 503];

/// Blocked when the story begins. It is woken first.
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

/// One thing that happens, if it can.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A CPU goes over to a thread that waits, or to idle.
    Switch { cpu: u16, leaves: usize, incoming: usize },
    /// A thread is woken, perhaps in vain.
    Wake { cpu: u16, thread: usize },
    /// Events of a CPU are lost, perhaps a switch to a thread that waits among them.
    Lose { cpu: u16, incoming: usize },
}

/// With so many losses for a hundred other steps.
fn steps(losses: u32) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let switch = (0..CPUS, 0..LEAVES.len(), 0..THREADS.len() + 2)
        .prop_map(|(cpu, leaves, incoming)| Step::Switch { cpu, leaves, incoming });
    let wake = (0..CPUS, 0..THREADS.len()).prop_map(|(cpu, thread)| Step::Wake { cpu, thread });
    let lose =
        (0..CPUS, 0..THREADS.len() + 2).prop_map(|(cpu, incoming)| Step::Lose { cpu, incoming });
    let step = prop_oneof![60 => switch, 40 => wake, losses => lose];
    prop::collection::vec((0..30_u64, step), 0..150)
}

/// How long something was so, in nanoseconds: all of it, and what of it began and ended within the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Time {
    all: u64,
    whole: u64,
}

/// What each thread did and what each CPU was used for.
#[derive(Debug, Default)]
struct Sums {
    threads: BTreeMap<u64, BTreeMap<&'static str, Time>>,
    cpus: BTreeMap<u16, BTreeMap<&'static str, u64>>,
}

impl Sums {
    fn thread(&self, thread: u64, what: &str) -> Time {
        let known = self.threads.get(&thread).and_then(|sums| sums.get(what));
        known.copied().unwrap_or_default()
    }

    fn cpu(&self, cpu: u16, what: &str) -> u64 {
        self.cpus.get(&cpu).and_then(|sums| sums.get(what)).copied().unwrap_or(0)
    }

    fn add_thread(&mut self, thread: u64, what: &'static str, time: Time) {
        let sum = self.threads.entry(thread).or_default().entry(what).or_default();
        sum.all += time.all;
        sum.whole += time.whole;
    }

    fn add_cpu(&mut self, cpu: u16, what: &'static str, nanos: u64) {
        *self.cpus.entry(cpu).or_default().entry(what).or_default() += nanos;
    }

    fn change(&mut self, change: Option<Change<u64>>) {
        let Some(change) = change else { return };
        let all = change.time.0 - change.before.since.0;
        let time = Time { all, whole: change.length().unwrap_or(0) };
        self.add_thread(change.thread, what(change.before.state), time);
    }

    fn tenure(&mut self, tenure: &Tenure<u64>) {
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

/// Where a thread is in truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    On(u16),
    Queued,
    Elsewhere,
    /// It has left a CPU, and the trace does not say so yet.
    Vanished,
    Dead,
}

/// A machine on which a story is played, and what a recorder makes of it.
struct Play {
    narrow: bool,
    micros: u64,
    places: BTreeMap<u64, Place>,
    on: [u64; CPUS as usize],
    /// Who has a CPU in the trace.
    shown: [Option<u64>; CPUS as usize],
    /// The CPUs of which events were lost since their last switch.
    lost: [bool; CPUS as usize],
    scene: Scene,
    machine: Machine<u64>,
    threads: BTreeMap<u64, Thread>,
    sums: Sums,
}

fn nobody(cpu: u16) -> u64 {
    NOT_RECORDED_PROCESS.0 + 1 + u64::from(cpu)
}

impl Play {
    fn new(narrow: bool) -> Play {
        let mut scene = Scene::of_scope(if narrow { "app" } else { "all" });
        for cpu in 0..CPUS {
            scene.name(nobody(cpu), "not recorded");
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
            lost: [false; CPUS as usize],
            scene,
            machine: Machine::default(),
            threads: BTreeMap::new(),
            sums: Sums::default(),
        };
        play.wake(2, FIRST);
        play
    }

    fn is_in_scope(&self, thread: u64) -> bool {
        !self.narrow || (100..200).contains(&thread)
    }

    fn step(&mut self, step: Step) {
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
            // The report does not know of a CPU without a switch that it lost something.
            return;
        }
        self.scene.lose(self.micros, cpu, 1);
        let time = Nanos(self.micros * 1000);
        // Since the last switch on it, anybody may have had the CPU.
        let from = self.machine.seat(Cpu(cpu)).since;
        let lost = self.machine.gap(&mut self.threads, Cpu(cpu), (from, time));
        self.sums.change(lost.change);
        let was_lost = std::mem::replace(&mut self.lost[at], true);
        if let Some(incoming) = incoming.filter(|_| !was_lost) {
            let outgoing = std::mem::replace(&mut self.on[at], incoming);
            self.places.insert(outgoing, Place::Vanished);
            self.places.insert(incoming, Place::On(cpu));
        }
    }

    /// The first event after a loss shows that another has the CPU than had it before.
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
        // Who had the CPU between the gap and now is not known.
        self.sums.change(switched.incoming);
    }

    fn switch(&mut self, cpu: u16, leaves: Leaves, incoming: u64) {
        let at = usize::from(cpu);
        self.infer(cpu);
        let outgoing = std::mem::replace(&mut self.on[at], incoming);
        let leaves = if outgoing == 0 { Leaves::R } else { leaves };
        let place = match leaves {
            Leaves::R => Place::Queued,
            Leaves::X => Place::Dead,
            _ => Place::Elsewhere,
        };
        self.places.insert(outgoing, place);
        self.places.insert(incoming, Place::On(cpu));
        let (out_in_scope, in_in_scope) = (self.is_in_scope(outgoing), self.is_in_scope(incoming));
        let is_shown = self.shown[at] == Some(outgoing);
        let (out, inn) = match (out_in_scope, in_in_scope) {
            (true, _) => (outgoing, incoming),
            (false, true) => (if is_shown { outgoing } else { nobody(cpu) }, incoming),
            (false, false) if is_shown => (outgoing, nobody(cpu)),
            (false, false) => return,
        };
        let leaves = if out == outgoing { leaves } else { Leaves::S };
        self.shown[at] = Some(inn);
        self.scene.switch(self.micros, cpu, out, leaves, inn);
        let who = |koid| match koid {
            0 => Occupant::Idle,
            koid if koid == nobody(cpu) => Occupant::NotRecorded,
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
        match self.places[&thread] {
            Place::Dead | Place::Vanished => return,
            // Of a CPU without an event, or after a loss, nobody knows that this is in vain.
            Place::On(on) if self.lost[usize::from(on)] => return,
            Place::On(on) if self.shown[usize::from(on)] != Some(thread) => return,
            Place::On(_) | Place::Queued => {}
            Place::Elsewhere => {
                self.places.insert(thread, Place::Queued);
            }
        }
        if !self.is_in_scope(thread) {
            return;
        }
        self.scene.wake(self.micros, cpu, thread);
        let time = Nanos(self.micros * 1000);
        let woken = self.machine.wake(&mut self.threads, thread, Cpu(cpu), time);
        self.sums.change(woken);
    }

    fn end(mut self) -> (Scene, Sums) {
        self.scene.end(self.micros);
        let end = Nanos(self.micros * 1000);
        for tenure in self.machine.end(end) {
            self.sums.tenure(&tenure);
        }
        for (key, thread) in &self.threads {
            let time = Time { all: end.0 - thread.since.0, whole: 0 };
            self.sums.add_thread(*key, what(thread.state), time);
        }
        (self.scene, self.sums)
    }
}

/// The report, and the table of contents of the page.
fn report_and_page(scene: &Scene) -> (Figures, Json) {
    let reader = Reader::from_slice(scene.bytes());
    let (report, page) =
        analysis::observe(reader, ReportOptions::default(), Page::new()).expect("a trace");
    let mut html = Vec::new();
    page.write(&report, &mut html).expect("memory");
    let html = String::from_utf8(html).expect("text");
    let contents = html.split_once("id=\"contents\">").expect("contents").1;
    let contents = contents.split_once("</script>").expect("an end").0;
    (report, serde_json::from_str(contents).expect("JSON"))
}

/// What the slices of the JSON writer come to.
fn drawn(scene: &Scene) -> Sums {
    let mut sums = Sums::default();
    let mut begun: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for event in events(&to_json(scene.bytes(), Sched::Slices)) {
        let (Some(process), Some(track)) = (event["pid"].as_u64(), event["tid"].as_u64()) else {
            continue;
        };
        let time = event["ts"].as_f64().unwrap_or_default();
        if event["ph"] == "B" {
            assert_eq!(begun.insert((process, track), time), None, "slices overlap");
        }
        if event["ph"] != "E" {
            continue;
        }
        let begin = begun.remove(&(process, track)).expect("it has begun");
        let nanos = ((time - begin) * 1000.0).round() as u64;
        let name = event["name"].as_str().expect("a name");
        if event["cat"] == "sched" {
            let what = match name {
                "idle" => "idle",
                _ if name.starts_with("not recorded") => "not recorded",
                _ => "busy",
            };
            sums.add_cpu(u16::try_from(track).expect("a CPU"), what, nanos);
            continue;
        }
        assert_eq!(event["cat"], "thread_state");
        let what = match name {
            "Running" => "running",
            "Runnable" => "waiting",
            "Sleeping" => "blocked",
            "Uninterruptible sleep" => "blocked, uninterruptible",
            "Stopped" => "stopped",
            name => panic!("no state: {name}"),
        };
        sums.add_thread(track, what, Time { all: nanos, whole: 0 });
    }
    assert!(begun.is_empty(), "all slices end");
    sums
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("short")
}

/// The row of a table that begins with that number.
fn row(table: &Json, number: u64) -> Option<&Json> {
    table.as_array().expect("an array").iter().find(|row| row[0] == number)
}

fn all_agree(steps: &[(u64, Step)], narrow: bool) -> Result<(), TestCaseError> {
    let mut play = Play::new(narrow);
    for (micros, step) in steps {
        play.micros += micros;
        play.step(*step);
    }
    let length = play.micros * 1000;
    let in_scope: Vec<u64> = THREADS.iter().copied().filter(|t| play.is_in_scope(*t)).collect();
    let (scene, machine) = play.end();
    let (report, page) = report_and_page(&scene);
    let drawn = drawn(&scene);
    for thread in THREADS {
        let figures = report.threads().iter().find(|it| it.tid == Some(thread));
        let of_page = row(&page["threads"], thread);
        let of_page = |column: usize| of_page.map_or(0, |row| row[column].as_u64().expect("time"));

        let running = machine.thread(thread, "running").all;
        let reported = figures.map_or(0, |it| nanos(it.stats.cpu_time));
        prop_assert_eq!(reported, running, "{} runs, in the report", thread);
        prop_assert_eq!(of_page(4), running, "{} runs, on the page", thread);
        prop_assert_eq!(drawn.thread(thread, "running").all, running, "{} runs, drawn", thread);
        if !in_scope.contains(&thread) {
            continue;
        }
        let waiting = machine.thread(thread, "waiting").all;
        prop_assert_eq!(of_page(5), waiting, "{} waits, on the page", thread);
        for what in ["waiting", "blocked", "blocked, uninterruptible", "stopped"] {
            let known = machine.thread(thread, what).all;
            prop_assert_eq!(drawn.thread(thread, what).all, known, "{} {}, drawn", thread, what);
        }
        for (metric, what) in [
            (Metric::RunQueue, "waiting"),
            (Metric::Blocked, "blocked"),
            (Metric::BlockedUninterruptible, "blocked, uninterruptible"),
            (Metric::Slice, "running"),
        ] {
            let sum = figures.map_or(0, |it| nanos(it.stats.metric(metric).sum()));
            let whole = machine.thread(thread, what).whole;
            prop_assert_eq!(sum, whole, "{} {}, in the report", thread, what);
        }
    }
    for cpu in 0..CPUS {
        let [busy, idle, not_recorded] =
            ["busy", "idle", "not recorded"].map(|what| machine.cpu(cpu, what));
        prop_assert!(busy + idle + not_recorded == length || busy + idle + not_recorded == 0);
        for (what, nanos) in [("busy", busy), ("idle", idle), ("not recorded", not_recorded)] {
            prop_assert_eq!(drawn.cpu(cpu, what), nanos, "CPU {} {}, drawn", cpu, what);
        }
        let figures = report.cpus.iter().find(|it| it.cpu.0 == cpu);
        let reported = figures.map_or((0, 0), |it| (it.busy.as_nanos(), it.idle.as_nanos()));
        prop_assert_eq!(reported, (busy.into(), idle.into()), "CPU {}, in the report", cpu);
        let of_page = row(&page["cpus"], cpu.into()).map(|row| row[1].clone());
        // Of one application, only a part of what keeps a CPU busy is known.
        let expected = if narrow { Json::Null } else { busy.into() };
        match of_page {
            Some(of_page) => prop_assert_eq!(of_page, expected, "CPU {}, on the page", cpu),
            None => prop_assert_eq!(busy + idle + not_recorded, 0, "CPU {}, not there", cpu),
        }
    }
    Ok(())
}

/// What is waited for is doubtful in the report after a loss on any CPU, while the page and the slices show the best guess.
/// But who had a CPU is told by the switches of that CPU.
fn report_and_page_agree_on_who_ran(steps: &[(u64, Step)]) -> Result<(), TestCaseError> {
    let mut play = Play::new(false);
    for (micros, step) in steps {
        play.micros += micros;
        play.step(*step);
    }
    let (scene, machine) = play.end();
    let (report, page) = report_and_page(&scene);
    for thread in THREADS {
        let running = machine.thread(thread, "running").all;
        let figures = report.threads().iter().find(|it| it.tid == Some(thread));
        let reported = figures.map_or(0, |it| nanos(it.stats.cpu_time));
        prop_assert_eq!(reported, running, "{} runs, in the report", thread);
        let of_page = row(&page["threads"], thread);
        let of_page = of_page.map_or(0, |row| row[4].as_u64().expect("a time"));
        prop_assert_eq!(of_page, running, "{} runs, on the page", thread);
    }
    for cpu in 0..CPUS {
        let (busy, idle) = (machine.cpu(cpu, "busy"), machine.cpu(cpu, "idle"));
        let figures = report.cpus.iter().find(|it| it.cpu.0 == cpu);
        let reported = figures.map_or((0, 0), |it| (nanos(it.busy), nanos(it.idle)));
        prop_assert_eq!(reported, (busy, idle), "CPU {}, in the report", cpu);
        let of_page = row(&page["cpus"], cpu.into());
        let of_page = of_page.map_or(0, |row| row[1].as_u64().expect("a time"));
        prop_assert_eq!(of_page, busy, "CPU {}, on the page", cpu);
    }
    Ok(())
}

proptest! {
    #[test]
    fn report_and_page_tell_the_same_of_who_ran_though_events_were_lost(steps in steps(15)) {
        report_and_page_agree_on_who_ran(&steps)?;
    }

    #[test]
    fn all_forms_tell_the_same_of_a_whole_machine(steps in steps(0)) {
        all_agree(&steps, false)?;
    }

    #[test]
    fn all_forms_tell_the_same_of_one_application(steps in steps(0)) {
        all_agree(&steps, true)?;
    }
}
