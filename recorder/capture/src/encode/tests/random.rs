//! Random events and random losses: the trace keeps fxtrec's guarantees.
//!
//! A small machine runs at random. Some of its events never reach the encoder, with or without a loss being reported. Each trace is then
//! checked against the format and against fxtrec's guarantees: names before use, order, weights, chains.

use super::moment::both_ways;
use super::scene::PassMode;
use super::watch::arm;
use super::{
    LOST, Proc, Scene, comm_of, executed, fork, identity, interrupt, renamed, running, switch,
    wakeup, wakeup_new, waking,
};
use crate::encode::ids::Ids;
use crate::encode::moment::MachineState;
use crate::encode::strings;
use crate::encode::threads::Threads;
use crate::event::{Comm, Kind, LocalId, Switch, Taken, Wake};
use fxt_writer::layout::walk;
use fxtrec_units::{Cpu, Nanos, Tid};

const CPUS: u32 = 3;
const EVENTS: u64 = 4000;

/// Pseudo-random numbers, the same each time (a linear congruential generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper half has no pattern.
        let [.., a, b, c, d] = self.0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d]) % sides
    }

    fn one_in(&mut self, chances: u32) -> bool {
        self.roll(chances) == 0
    }

    fn pick(&mut self, from: &[u32]) -> Option<u32> {
        let sides = u32::try_from(from.len()).ok().filter(|&sides| sides > 0)?;
        from.get(self.roll(sides) as usize).copied()
    }
}

/// The ids of the inner namespace are the tids plus this.
const INNER: u32 = 1000;

/// Asserts that a thread that was switched out dying or dead is never switched out, switched in or woken again.
fn assert_that_the_dead_stay_dead(reported: &[String], seed: u64) {
    let mut dead: Vec<&str> = Vec::new();
    for line in reported {
        let Some((_, what)) = line.split_once(": ").filter(|(when, _)| when.contains(" cpu "))
        else {
            continue;
        };
        let words: Vec<&str> = what.split(' ').collect();
        let (out, inn) = match words[..] {
            ["wakes", koid, ..] => (koid, koid),
            [out, _, _, "->", inn, ..] => (out, inn),
            _ => panic!("{line}"),
        };
        // It may still have to be switched out on another CPU, if that was not recorded while it lived.
        let leaves = out == inn || !line.ends_with("inferred=true");
        assert!(!(leaves && dead.contains(&out)), "seed {seed}: the dead leave in {line}");
        assert!(!dead.contains(&inn), "seed {seed}: the dead come in {line}");
        if matches!(words[2], "dying" | "dead") {
            dead.push(out);
        }
    }
    assert!(dead.len() > 20, "seed {seed}: hardly anybody died");
}

/// A machine with its recording.
struct Machine {
    dice: Dice,
    scene: Scene,
    inner: bool,
    /// For each CPU; 0 is the idle task.
    current: [u32; CPUS as usize],
    runnable: Vec<u32>,
    asleep: Vec<u32>,
    /// Tids that were used before.
    gone: Vec<u32>,
    next_tid: u32,
    now: u64,
    switches_delivered: u64,
    /// Whether events differ in the facts that they report, as those of several sources do.
    varied: bool,
}

impl Machine {
    fn new(seed: u64, inner: bool, narrow: bool) -> Machine {
        let ids = if inner { Ids::inner() } else { Ids::Initial };
        let mut threads = Threads::new(ids, Box::new(Proc::default()));
        threads.begin_snapshot(Nanos(100));
        let offset = if inner { INNER } else { 0 };
        for tid in [10, 11, 12] {
            let local = Some(LocalId(tid + offset));
            let process = threads.add_process(LocalId(10 + offset), b"ten");
            threads.add_thread(process, local, (!inner).then_some(Tid(tid)), comm_of(tid));
        }
        threads.include(LocalId(10 + offset));
        let scene = if narrow { Scene::narrow(threads) } else { Scene::of(threads) };
        Machine {
            dice: Dice(seed),
            scene,
            inner,
            current: [0; CPUS as usize],
            runnable: vec![10, 11, 12],
            asleep: Vec::new(),
            gone: Vec::new(),
            next_tid: 20,
            now: 1000,
            switches_delivered: 0,
            varied: false,
        }
    }

    fn local(&self, tid: u32) -> u32 {
        tid + if self.inner { INNER } else { 0 }
    }

    /// An event of `cpu`, which may get lost.
    fn happens(&mut self, cpu: u32, kind: impl Into<Kind>) {
        let kind = match kind.into() {
            Kind::Switch(switch) if self.varied => Kind::Switch(self.vary_switch(switch)),
            Kind::Wake(wake) if self.varied => Kind::Wake(self.vary_wake(wake)),
            kind => kind,
        };
        let unseen = self.current[cpu as usize] == 0 && cpu == 1;
        // A loss makes everything uncertain.
        if self.dice.one_in(if self.varied { 400 } else { 40 }) {
            self.scene.at(self.now, cpu, LOST);
        } else if !unseen && !self.dice.one_in(50) {
            let current = self.current[cpu as usize];
            let local = self.local(current);
            if self.inner && current != 0 && matches!(kind, Kind::Switch(_) | Kind::Wake(_)) {
                self.scene.at(self.now, cpu, identity(current, (local, local)));
            }
            self.switches_delivered += u64::from(matches!(kind, Kind::Switch(_)));
            self.scene.at(self.now, cpu, kind);
        }
    }

    fn vary_switch(&mut self, switch: Switch) -> Switch {
        let prio = |dice: &mut Dice| 95 + i32::try_from(dice.roll(46)).expect("below 46");
        Switch {
            prev_prio: prio(&mut self.dice),
            next_prio: prio(&mut self.dice),
            syscall: self.dice.one_in(2).then_some(7),
            prev_comm: if self.dice.one_in(2) { Comm::default() } else { switch.prev_comm },
            next_comm: if self.dice.one_in(4) { Comm::default() } else { switch.next_comm },
            ..switch
        }
    }

    fn vary_wake(&mut self, wake: Wake) -> Wake {
        Wake {
            target: Cpu(self.dice.roll(CPUS)),
            comm: if self.dice.one_in(2) { Comm::default() } else { wake.comm },
            ..wake
        }
    }

    fn step(&mut self) {
        self.now += u64::from(self.dice.roll(5));
        let cpu = self.dice.roll(CPUS);
        let current = self.current[cpu as usize];
        match self.dice.roll(10) {
            0..=4 => self.switch(cpu, current),
            5 | 6 => self.wake(cpu, current),
            7 if current != 0 => self.fork(cpu, current),
            8 if current != 0 => {
                let local = self.local(current);
                let name = ["a", "", "fifteen-letters"][self.dice.roll(3) as usize];
                match self.dice.one_in(2) {
                    true => self.happens(cpu, renamed((local, local), name)),
                    false => self.happens(cpu, executed(local, name)),
                }
            }
            _ => {
                let local = if current == 0 { 0 } else { self.local(current) };
                self.happens(cpu, running(local));
            }
        }
    }

    fn switch(&mut self, cpu: u32, current: u32) {
        let next = self.dice.pick(&self.runnable).unwrap_or(0);
        if next == current {
            return;
        }
        if self.varied && self.dice.one_in(20) {
            let (irq, irqs, asked) = (Nanos(1), 1, None);
            self.happens(cpu, Kind::Taken(Taken { irq, irqs, asked }));
        }
        let ends = current != 0 && self.dice.one_in(6) && self.asleep.len() > 2;
        let state = match current {
            0 => "R",
            _ if ends => ["Z", "X"][self.dice.roll(2) as usize],
            _ => ["R", "R+", "S", "D", "T"][self.dice.roll(5) as usize],
        };
        self.happens(cpu, switch(current, state, next));
        self.runnable.retain(|&tid| tid != next);
        self.current[cpu as usize] = next;
        match state {
            _ if current == 0 => {}
            "R" | "R+" => self.runnable.push(current),
            "Z" | "X" => self.gone.push(current),
            _ => self.asleep.push(current),
        }
    }

    fn wake(&mut self, cpu: u32, current: u32) {
        let all: Vec<u32> = self.asleep.iter().chain(&self.runnable).copied().collect();
        let Some(tid) = self.dice.pick(&all) else { return };
        let wake = |kind| if self.now.is_multiple_of(3) { interrupt(kind) } else { kind };
        let (begin, end) = (wake(waking(tid, current)), wake(wakeup(tid, current)));
        // Not every source reports where a wakeup begins.
        if !self.varied || self.dice.one_in(2) {
            self.happens(cpu, begin);
        }
        self.happens(cpu, end);
        if self.asleep.contains(&tid) {
            self.asleep.retain(|&other| other != tid);
            self.runnable.push(tid);
        }
    }

    fn fork(&mut self, cpu: u32, current: u32) {
        if self.runnable.len() + self.asleep.len() > 20 {
            return;
        }
        let tid = match self.dice.one_in(2).then(|| self.gone.pop()).flatten() {
            Some(tid) => tid,
            None => {
                self.next_tid += 1;
                self.next_tid
            }
        };
        let (child, parent) = (self.local(tid), self.local(current));
        let pid = if self.dice.one_in(2) { child } else { parent };
        self.happens(cpu, fork((pid, child), (parent, parent)));
        self.happens(cpu, wakeup_new(tid, current));
        self.runnable.push(tid);
    }
}

fn run(seed: u64, inner: bool, narrow: bool) -> Machine {
    let mut machine = Machine::new(seed, inner, narrow);
    for _ in 0..EVENTS {
        machine.step();
    }
    machine
}

#[test]
fn what_is_written_of_plain_events_is_what_would_be_written_of_any() {
    for (seed, inner, narrow) in
        [(1, false, false), (2, true, false), (3, false, true), (4, true, true), (5, false, true)]
            .into_iter()
            .chain((4..=40).map(|seed| (seed, false, false)))
    {
        let machine = |mode| {
            let mut machine = Machine::new(seed, inner, narrow);
            machine.varied = true;
            machine.scene.mode = mode;
            if seed > 20 {
                machine.scene =
                    arm(machine.scene, &["wakeup > 15ns", "slice > 12ns", "blocked > 30ns"]);
            }
            (0..EVENTS).for_each(|_| machine.step());
            machine
        };
        let (mut plain, mut thorough) =
            (machine(PassMode::Counting(0)), machine(PassMode::Thorough));
        let (plain, thorough) = (&mut plain.scene, &mut thorough.scene);
        assert!(plain.encoder.lanes() == thorough.encoder.lanes(), "seed {seed}");
        assert_eq!(plain.encoder.stats(), thorough.encoder.stats(), "seed {seed}");
        let PassMode::Counting(count) = plain.mode else { panic!("{:?}", plain.mode) };
        let expected = if narrow { 1..EVENTS } else { EVENTS / 8..EVENTS };
        assert!(expected.contains(&count), "seed {seed}: {count} were plain");
        // Checks the trace against the guarantees.
        let reported = plain.reported();
        assert!(reported.len() > 100, "seed {seed}");
        let fired = reported.iter().filter(|line| line.contains("fxtrec:trigger")).count();
        assert_eq!(fired > 50, seed > 20, "seed {seed}: {fired} have fired");
    }
}

#[test]
fn wherever_a_trace_is_cut_the_records_that_matter_tell_its_beginning_as_all_of_them_do() {
    let (mut waiting, mut running, mut doubtful) = (0, 0, 0);
    for seed in 1..=12 {
        let mut machine = Machine::new(seed, seed % 4 == 0, seed % 5 == 0);
        machine.varied = seed % 3 != 0;
        machine.scene = arm(machine.scene, &["wakeup > 1s"]);
        (0..EVENTS).for_each(|_| machine.step());
        let now = machine.scene.encoder.present();
        let trace = machine.scene.encoder.lanes().clone();
        let ends: Vec<usize> = walk::record_ends(&trace).collect();
        let head_end = ends[usize::from(strings::COUNT_OF_ALL) + 3];
        for _ in 0..12 {
            let left = 1 << machine.dice.roll(14);
            let at = ends[ends.len() - ends.len().min(left + 1)];
            let (whole, at) = (&trace[at.max(head_end)..], left / 2);
            let middle = walk::record_ends(whole).nth(at).unwrap_or(whole.len());
            let (first, second) = whole.split_at(middle);
            let (_, moment) = both_ways(&trace[..head_end], &[first, second], &now)
                .unwrap_or_else(|| (Nanos(0), MachineState::default()));
            waiting += moment.waiting.len();
            running += moment.cpus.len();
            doubtful += usize::from(moment.cpus.len() < CPUS as usize);
        }
    }
    assert!(waiting > 20 && running > 200 && doubtful > 20, "{waiting} {running} {doubtful}");
}

#[test]
fn a_machine_of_chance_is_recorded_with_an_unbroken_chain() {
    for seed in 1..=8 {
        let mut machine = run(seed, false, false);
        // Checks the trace against the guarantees.
        let reported = machine.scene.reported();
        let switches = reported.iter().filter(|line| line.contains(" -> "));
        let inferred = reported.iter().filter(|line| line.contains("inferred=true")).count() as u64;
        let stats = *machine.scene.encoder.stats();
        assert_eq!(stats.switches, machine.switches_delivered, "seed {seed}");
        assert_eq!(stats.switches_written, stats.switches, "seed {seed}");
        assert_eq!(inferred, stats.inferred_switches, "seed {seed}");
        assert_eq!(switches.count() as u64, stats.switches + inferred, "seed {seed}");
        assert!(inferred > 0, "seed {seed}: nothing went missing");
        assert_that_the_dead_stay_dead(&reported, seed);
    }
}

#[test]
fn a_narrow_scope_on_a_machine_of_chance_keeps_its_chains_and_does_not_repeat_what_is_not_recorded()
{
    for seed in 1..=8 {
        let mut machine = run(seed, false, true);
        let reported = machine.scene.reported();
        let stats = *machine.scene.encoder.stats();
        let nobody_twice = reported
            .iter()
            .find(|line| line.matches("34896609").count() == 2 && line.contains(" -> "));
        assert_eq!(nobody_twice, None, "seed {seed}");
        assert!(stats.switches_written < stats.switches, "seed {seed}: all was in scope");
        assert!(reported.len() > 100, "seed {seed}: hardly anything was in scope");
    }
}

#[test]
fn a_pid_namespace_on_a_machine_of_chance_is_recorded_with_an_unbroken_chain() {
    for seed in 1..=8 {
        for narrow in [false, true] {
            let mut machine = run(seed, true, narrow);
            let reported = machine.scene.reported();
            if !narrow {
                assert_that_the_dead_stay_dead(&reported, seed);
            }
            let stats = *machine.scene.encoder.stats();
            assert_eq!(stats.switches, machine.switches_delivered, "seed {seed}");
        }
    }
}
