//! Compares histories with a model that stores everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn open(begins: &[u64], sums: usize) -> OpenWaits {
    OpenWaits { begins: begins.to_vec(), asked: begins.len(), sums }
}

fn small() -> History {
    History { room: 8, least: 8, ..History::default() }
}

fn between(history: &History, begin: u64, end: u64, (except, named): (u64, usize)) -> Shares {
    let (mut sum, mut shares) = (Segment::new(begin), Shares::default());
    history.add_until(end, &mut sum);
    sum.shares(except, named, &mut shares);
    shares
}

fn all(history: &History, begin: u64, end: u64) -> Shares {
    between(history, begin, end, (u64::MAX, usize::MAX))
}

fn length(shares: &Shares) -> u64 {
    let named: u64 = shares.named.iter().map(|&(_, nanos)| nanos).sum();
    let rest = shares.others + shares.idle + shares.unknown;
    named + rest.as_nanos() as u64
}

#[test]
fn a_stretch_is_shared_out_among_those_who_had_the_cpu_in_it() {
    let mut history = History::default();
    for (time, on_cpu) in [
        (100, OnCpu::Thread(7)),
        (130, OnCpu::Idle),
        (180, OnCpu::Thread(8)),
        (190, OnCpu::Thread(7)),
        (250, OnCpu::Idle),
    ] {
        assert!(!history.push(time, on_cpu));
    }
    let shares = all(&history, 120, 200);
    assert_eq!(shares.named, [(7, 20), (8, 10)]);
    assert_eq!((shares.idle.as_nanos(), shares.unknown.as_nanos()), (50, 0));
    let early = all(&history, 90, 110);
    assert_eq!((early.named, early.unknown.as_nanos()), (vec![(7, 10)], 10));
}

#[test]
fn what_is_added_up_is_limited_for_each_switch_and_the_rest_is_unknown() {
    const THREADS: u64 = 10_000;
    // All threads wait from the beginning, and get the CPU one after another for 1 ns each.
    let mut history = History::default();
    let (mut added, mut unknown) = (0, 0);
    for at in 0..THREADS {
        let _ = history.push(at, OnCpu::Thread(at));
        let shares = all(&history, 0, at + 1);
        assert_eq!(length(&shares), at + 1, "all parts together are the wait");
        added += shares.named.len() as u64;
        unknown += shares.unknown.as_nanos() as u64;
    }
    assert!(added <= MOST_WORK_LEFT + THREADS * WORK_PER_SWITCH, "{added}");
    assert!(unknown > 0 && added > THREADS * WORK_PER_SWITCH / 2, "{added}, {unknown}");
    // A few thousand threads are no problem.
    let mut history = History::default();
    for at in 0..2_000 {
        let _ = history.push(at, OnCpu::Thread(at));
        assert_eq!(all(&history, 0, at + 1).unknown.as_nanos(), 0);
    }
}

#[test]
fn who_waited_did_not_have_the_cpu_and_the_rest_is_a_sum() {
    let mut history = History::default();
    for koid in 1..=6 {
        assert!(!history.push(koid * koid, OnCpu::Thread(koid)));
    }
    // Thread 1 has the CPU for 3, thread 2 for 5 and so on, thread 6 for 14.
    let shares = between(&history, 1, 50, (2, 2));
    assert_eq!(shares.named, [(6, 14), (5, 11)]);
    assert_eq!((shares.more, shares.others.as_nanos()), (3, 3 + 7 + 9));
    assert_eq!(shares.unknown.as_nanos(), 5);
}

#[test]
fn the_picture_is_true() {
    const A: OnCpu = OnCpu::Thread(1);
    const B: OnCpu = OnCpu::Thread(2);
    const C: OnCpu = OnCpu::Thread(3);
    let mut history = small();
    let slices = [(A, 50), (B, 40), (OnCpu::Idle, 7), (A, 40), (A, 20), (C, 31), (A, 12), (B, 4)];
    let (mut time, mut full) = (0, false);
    for (on_cpu, length) in slices {
        full = history.push(time, on_cpu);
        time += length;
    }
    assert!(full);
    let (w1, w2, w3) = (0, 137, 188);
    history.tidy(open(&[w2, w1, w3], 100));
    let begins: Vec<u64> = history.segments.iter().map(|segment| segment.begin).collect();
    assert_eq!((begins, history.log.len()), (vec![w1, w2, w3], 1));
    assert_eq!(all(&history, w2, time).named, [(1, 32), (3, 31), (2, 4)]);
    assert_eq!(all(&history, w1, time).named, [(1, 122), (2, 44), (3, 31)]);
    assert_eq!(all(&history, w1, time).idle.as_nanos(), 7);
    // The second thread has ended when the log is full again, the first after that.
    for number in 0..8 {
        full = history.push(time + number, A);
    }
    assert!(full);
    history.tidy(open(&[w1, w3], 100));
    assert_eq!(history.segments.len(), 2);
    history.tidy(open(&[w3], 100));
    assert_eq!(history.segments.len(), 1);
    history.tidy(open(&[], 100));
    assert_eq!((history.segments.len(), history.log.len()), (0, 1));
}

/// An event on a CPU.
#[derive(Clone, Debug)]
enum Step {
    /// After this time, it has a occupant.
    Switch(u64, OnCpu),
    /// After this time, a thread begins to wait for it.
    Begin(u64),
    /// After this time, one of the waits ends.
    End(u64, usize),
    /// The thread that had the CPU is corrected to another one.
    Correct(OnCpu),
    /// The history is tidied early.
    Tidy,
}

fn step(threads: u64) -> impl Strategy<Value = Step> {
    let on_cpu = prop_oneof![
        8 => (0..threads).prop_map(OnCpu::Thread),
        1 => Just(OnCpu::Idle),
        1 => Just(OnCpu::Unknown),
    ];
    prop_oneof![
        12 => (0..20_u64, on_cpu.clone()).prop_map(|(after, on_cpu)| Step::Switch(after, on_cpu)),
        2 => (0..20_u64).prop_map(Step::Begin),
        2 => (0..20_u64, 0..100_usize).prop_map(|(after, which)| Step::End(after, which)),
        1 => on_cpu.prop_map(Step::Correct),
        1 => Just(Step::Tidy),
    ]
}

/// Every slice so far.
#[derive(Default)]
struct Model(Vec<(u64, OnCpu)>);

impl Model {
    /// How long each thread had the CPU; `None` is idle.
    fn shares(&self, begin: u64, end: u64) -> BTreeMap<Option<u64>, u64> {
        let mut shares = BTreeMap::new();
        for (at, &(from, on_cpu)) in self.0.iter().enumerate() {
            let until = self.0.get(at + 1).map_or(end, |next| next.0);
            let length = until.min(end).saturating_sub(from.max(begin));
            let who = match on_cpu {
                OnCpu::Unknown => continue,
                OnCpu::Idle => None,
                OnCpu::Thread(koid) => Some(koid),
            };
            if length > 0 {
                *shares.entry(who).or_default() += length;
            }
        }
        shares
    }
}

fn known(shares: &Shares) -> BTreeMap<Option<u64>, u64> {
    let idle = shares.idle.as_nanos() as u64;
    let threads = shares.named.iter().map(|&(koid, nanos)| (Some(koid), nanos));
    threads.chain((idle > 0).then_some((None, idle))).collect()
}

/// Executes the steps, and compares, for each wait that ends, the history with the model.
fn play(
    steps: &[Step],
    sums: usize,
    mut ended: impl FnMut(u64, &Shares, BTreeMap<Option<u64>, u64>),
) {
    let (mut history, mut model) = (small(), Model::default());
    let (mut now, mut waits) = (5, Vec::new());
    let first = (0, OnCpu::Unknown);
    let _ = history.push(first.0, first.1);
    model.0.push(first);
    for step in steps {
        let mut full = false;
        match *step {
            Step::Switch(after, on_cpu) => {
                now += after;
                full = history.push(now, on_cpu);
                model.0.push((now, on_cpu));
            }
            Step::Begin(after) => {
                now += after;
                waits.push(now);
            }
            Step::End(after, which) => {
                now += after;
                if !waits.is_empty() {
                    let begin = waits.remove(which % waits.len());
                    ended(now - begin, &all(&history, begin, now), model.shares(begin, now));
                }
            }
            Step::Correct(on_cpu) => {
                history.correct(on_cpu);
                model.0.last_mut().expect("the first is there").1 = on_cpu;
            }
            Step::Tidy => full = true,
        }
        if full {
            history.tidy(open(&waits, sums));
            assert!(history.segments.len() <= waits.len() + 1);
            assert!(history.log.len() <= history.room / 2);
            let kept: usize = history.segments.iter().map(|segment| segment.threads.len()).sum();
            assert!(kept <= sums.max(2 * FEWEST_SUMS * history.segments.len()));
        }
    }
}

proptest! {
    #[test]
    fn every_wait_is_shared_out_as_a_model_without_any_limit_does(
        steps in prop::collection::vec(step(12), 0..600),
    ) {
        play(&steps, usize::MAX, |waited, shares, exact| {
            assert_eq!(length(shares), waited);
            assert_eq!(known(shares), exact);
        });
    }

    #[test]
    fn with_too_many_sums_nobody_gets_more_than_is_theirs(
        steps in prop::collection::vec(step(200), 0..600),
    ) {
        play(&steps, 64, |waited, shares, exact| {
            assert_eq!(length(shares), waited);
            for (who, nanos) in known(shares) {
                assert!(nanos <= exact[&who], "{who:?} had it for {nanos} of {exact:?}");
            }
        });
    }
}

#[test]
fn what_is_given_up_is_the_least_and_is_not_known() {
    let mut history = small();
    let mut time = 0;
    // Thread 1 runs for 100 in turn with a thousand threads that run for 1 each.
    for koid in 10..1010 {
        for (koid, length) in [(1, 100), (koid, 1)] {
            if history.push(time, OnCpu::Thread(koid)) {
                history.tidy(open(&[0], 64));
            }
            time += length;
        }
    }
    let shares = all(&history, 0, time);
    assert_eq!((shares.named[0], length(&shares)), ((1, 100_000), time));
    let unknown = shares.unknown.as_nanos() as u64;
    assert!((1000 - 64..1000).contains(&unknown), "{unknown}");
}
