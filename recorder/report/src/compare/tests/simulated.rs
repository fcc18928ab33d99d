//! How often a comparison is wrong, and how often it finds a real difference: recordings drawn at random from distributions that are
//! typical for waits. Seeds are fixed, so the tests are deterministic.

use super::super::*;
use super::measures;
use crate::distribution::Distribution;
use crate::tally::Tally;
use fxtrec_gates::{Quantity, Stat};

/// A generator of random numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number between 0 and 1, both excluded.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A number with a median of 1, whose logarithm has the standard deviation `sigma`.
    pub(super) fn lognormal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    /// A number from 1 on, with a tail so heavy that it has no variance.
    fn pareto(&mut self) -> f64 {
        self.uniform().powf(-1.0 / 1.5)
    }
}

/// A machine: how long a thread waits, how many waits a run has, and how much runs differ from each other.
#[derive(Clone, Copy, Debug)]
struct Machine {
    wait: fn(&mut Random) -> f64,
    waits: usize,
    /// The standard deviation, between runs, of the logarithm of all waits of a run.
    runs: f64,
    /// The number of waits after a preemption.
    preempted: usize,
}

/// Wakeups on a machine with other load: most are short, one in ten waits for a time slice.
fn mixed(random: &mut Random) -> f64 {
    if random.uniform() < 0.9 { 20e3 * random.lognormal(0.4) } else { 3e6 * random.lognormal(0.3) }
}

const MACHINES: [(&str, Machine); 4] = [
    (
        "lognormal",
        Machine {
            wait: |random| 20e3 * random.lognormal(0.8),
            waits: 2000,
            runs: 0.03,
            preempted: 400,
        },
    ),
    (
        "heavy tails",
        Machine { wait: |random| 10e3 * random.pareto(), waits: 2000, runs: 0.03, preempted: 400 },
    ),
    ("two kinds", Machine { wait: mixed, waits: 1000, runs: 0.03, preempted: 150 }),
    // Too few for the 99th percentile of preemptions, and sometimes too few for that of all waits.
    (
        "few values",
        Machine {
            wait: |random| 20e3 * random.lognormal(0.3),
            waits: 120,
            runs: 0.02,
            preempted: 40,
        },
    ),
];

impl Machine {
    /// A run in which everything takes `factor` times as long.
    fn run(&self, factor: f64, measures: &[Measure], random: &mut Random) -> Run {
        let factor = factor * random.lognormal(self.runs);
        let mut waits = |count: usize| {
            let mut tally = Tally::default();
            for _ in 0..count {
                tally.record((factor * (self.wait)(random)) as u64, fxt_reader::Nanos(1));
            }
            tally.freeze()
        };
        let woken = waits(self.waits);
        let preempted = waits(self.preempted);
        let all = Distribution::merge([&woken, &preempted]);
        let number = |measure: &Measure| {
            let Quantity::Statistic(metric, stat) = measure.quantity else { panic!("a statistic") };
            let values = match metric {
                crate::Metric::Wakeup => &woken,
                crate::Metric::Preemption => &preempted,
                _ => &all,
            };
            number(values, stat)
        };
        Run {
            name: "run.fxt".to_owned(),
            numbers: measures.iter().map(number).collect(),
            lost: 0,
            doubt: Default::default(),
            recorder: None,
        }
    }

    fn compare(&self, factor: f64, measures: &[Measure], random: &mut Random) -> Comparison {
        let mut side = |factor| (0..5).map(|_| self.run(factor, measures, random)).collect();
        Comparison::new(measures, side(1.0), side(factor))
    }
}

fn number(values: &Distribution, stat: Stat) -> Number {
    match values.statistic(stat) {
        Some(number) if values.count() >= stat.samples_needed() => Number::Is(number),
        _ => Number::TooFew { values: values.count(), needed: stat.samples_needed() },
    }
}

/// In how many of `trials` comparisons `--fail-if-worse` with this share fails.
fn failures(machine: &Machine, factor: f64, share: f64, trials: u32) -> u32 {
    let (measures, mut random) = (measures(&OF_MACHINE), Random(u64::from(trials)));
    let failed = |_: &u32| {
        let comparison = machine.compare(factor, &measures, &mut random);
        assert!(
            !comparison.rows.is_empty() && comparison.not_judged().len() < comparison.rows.len()
        );
        !comparison.worse_than(share).is_empty()
    };
    (0..trials).filter(failed).count() as u32
}

/// `share` of the trials plus two standard deviations, since trials are a sample.
fn most(share: f64, trials: u32) -> u32 {
    let expected = share * f64::from(trials);
    (expected + 2.0 * expected.sqrt()) as u32
}

#[test]
fn identical_code_fails_at_most_once_in_fifty_with_five_runs_a_side() {
    let trials = 250;
    let (mut without, mut with) = (0, 0);
    for (name, machine) in MACHINES {
        // Zero tolerance is the hardest case.
        let failed = failures(&machine, 1.0, 0.0, trials);
        assert!(failed <= most(0.02, trials), "{name}: {failed} of {trials}");
        without += failed;
        with += failures(&machine, 1.0, 0.1, trials);
    }
    let all = trials * MACHINES.len() as u32;
    println!("{without} of {all} fail at 0 %, {with} at 10 %");
    assert!(without <= most(0.02, all), "{without} of {all}");
    assert!(with * 50 <= all, "{with} of {all}");
}

#[test]
fn a_fifth_more_in_the_median_is_found_nine_times_in_ten_with_five_runs_a_side() {
    for (name, machine) in MACHINES {
        let trials = 100;
        let found = failures(&machine, 1.2, 0.1, trials);
        println!("{name}: {found} of {trials} found");
        assert!(found * 10 >= trials * 9, "{name}: {found} of {trials}");
    }
}

/// Independent rows are the hardest case for a whole table: at most one in fifty tables may seem larger, and at most one in 25 different at
/// all.
#[test]
fn false_alarms_are_as_rare_as_promised() {
    let measures = measures(&OF_MACHINE);
    for (per_side, rows) in [(5, 5), (6, 5), (8, 3), (12, 2), (5, 1)] {
        let mut random = Random(per_side as u64);
        let mut side = || -> Vec<Run> {
            let mut run = || Run {
                name: String::new(),
                numbers: (0..rows).map(|_| Number::Is(random.pareto())).collect(),
                lost: 0,
                doubt: Default::default(),
                recorder: None,
            };
            (0..per_side).map(|_| run()).collect()
        };
        let trials = 1500;
        let (mut larger, mut different) = (0, 0);
        for _ in 0..trials {
            let comparison = Comparison::new(&measures[..rows], side(), side());
            let has = |finding| comparison.rows.iter().any(|row| row.finding == finding);
            larger += u32::from(has(Finding::Larger));
            different += u32::from(has(Finding::Larger) || has(Finding::Smaller));
        }
        assert!(larger <= most(0.02, trials), "{larger} of {trials} with {per_side} runs");
        assert!(different <= most(0.04, trials), "{different} of {trials} with {per_side} runs");
        assert!(different * 20 <= trials, "{different} of {trials} with {per_side} runs");
        assert!(different > trials / 100, "{different}: it would be blind to differences as well");
    }
}
