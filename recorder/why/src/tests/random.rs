//! Random traces: parts sum up and links tile in any case, and both agree with a reference that counts microseconds.

use fxt_writer::{Koid, Value};
use fxtrec_report::scene::{Leaves, Scene};
use proptest::prelude::*;

use super::{ALL, FUTEX, by_one_pass_as_by_two, check, try_ask, within};
use crate::Explanation;

const CPUS: usize = 2;
pub(super) const THREADS: usize = 4;

/// The koid of a thread by its number.
pub(super) fn koid(thread: usize) -> u64 {
    101 + thread as u64
}

/// The state of a thread in a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Unseen,
    Runs,
    /// In the queue of that CPU.
    Waits(usize),
    Sleeps,
}

/// How a sleep ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WokenBy {
    Thread(usize),
    Interrupt,
    NoThread,
}

/// The true states, microsecond by microsecond.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// By thread.
    pub(super) does: Vec<Vec<Does>>,
    /// By CPU, the thread that has it.
    has: Vec<Vec<Option<usize>>>,
    /// By thread: the times at which it was woken, and its wakers.
    pub(super) woken: Vec<Vec<(u64, WokenBy)>>,
    /// By thread: its first record, if that shows that it slept until then; else 0.
    first: Vec<usize>,
}

impl Truth {
    /// Whether the thread has any events.
    pub(super) fn is_seen(&self, which: usize) -> bool {
        self.does[which].iter().any(|does| *does != Does::Unseen)
    }
}

pub(super) type Step = (u8, u8, u8, u8);

/// Plays the steps: returns a trace, and the truth that it is about.
pub(super) fn play(steps: &[Step]) -> (Scene, Truth) {
    play_in(Scene::with_causes(ALL), steps)
}

/// The same, appended to a scene.
fn play_in(mut scene: Scene, steps: &[Step]) -> (Scene, Truth) {
    let mut does = [Does::Unseen; THREADS];
    let mut has: [Option<usize>; CPUS] = [None; CPUS];
    let mut truth = Truth {
        does: vec![Vec::new(); THREADS],
        has: vec![Vec::new(); CPUS],
        woken: vec![Vec::new(); THREADS],
        first: vec![0; THREADS],
    };
    let mut now = 0_u64;
    // Makes it known from the beginning that the CPUs are idle.
    for cpu in 0..CPUS {
        scene.switch(0, cpu as u16, 900 + cpu as u64, Leaves::S, 0);
    }
    for &(kind, a, b, wait) in steps {
        for _ in 0..=u64::from(wait % 7) {
            for (thread, does) in does.iter().enumerate() {
                truth.does[thread].push(*does);
            }
            for (cpu, has) in has.iter().enumerate() {
                truth.has[cpu].push(*has);
            }
            now += 1;
        }
        let (thread, cpu) = (usize::from(a) % THREADS, usize::from(b) % CPUS);
        match (kind % 4, does[thread]) {
            (0, Does::Sleeps | Does::Unseen) => {
                let by = has.iter().flatten().nth(usize::from(b / 16) % CPUS).copied();
                let by = match by {
                    Some(by) if b % 8 < 6 => WokenBy::Thread(by),
                    _ if b % 8 == 6 => WokenBy::Interrupt,
                    _ => WokenBy::NoThread,
                };
                let fact = match by {
                    WokenBy::Thread(by) => Some(("waker", Value::Koid(Koid(koid(by))))),
                    WokenBy::Interrupt => Some(("interrupt", Value::Bool(true))),
                    WokenBy::NoThread => None,
                };
                scene.wake_with(now, cpu as u16, koid(thread), fact.as_slice());
                // A thread whose first event is a wakeup by a named thread or an interrupt existed earlier.
                if does[thread] == Does::Unseen && by != WokenBy::NoThread {
                    truth.does[thread].fill(Does::Sleeps);
                    truth.first[thread] = now as usize;
                    does[thread] = Does::Sleeps;
                }
                if does[thread] == Does::Sleeps {
                    truth.woken[thread].push((now, by));
                }
                does[thread] = Does::Waits(cpu);
            }
            (1, Does::Waits(from)) if from != cpu => {
                scene.migrate(now, koid(thread), from as u16, cpu as u16);
                does[thread] = Does::Waits(cpu);
            }
            (kind @ 2.., _) => {
                let next = (0..THREADS).find(|&it| does[it] == Does::Waits(cpu));
                if next.is_none() && has[cpu].is_none() {
                    continue;
                }
                let call = [("syscall", Value::Uint32(FUTEX))];
                let (how, facts) = match kind {
                    2 => (Leaves::R, &call[..0]),
                    _ => (Leaves::S, &call[..]),
                };
                let (out, inn) = (has[cpu].map_or(0, koid), next.map_or(0, koid));
                scene.switch_with((now, cpu as u16), out, how, inn, facts);
                if let Some(out) = has[cpu] {
                    does[out] = if kind == 2 { Does::Waits(cpu) } else { Does::Sleeps };
                }
                if let Some(next) = next {
                    does[next] = Does::Runs;
                }
                has[cpu] = next;
            }
            _ => {}
        }
    }
    for (thread, does) in does.iter().enumerate() {
        truth.does[thread].push(*does);
    }
    for (cpu, has) in has.iter().enumerate() {
        truth.has[cpu].push(*has);
    }
    scene.end(now + 1);
    (scene, truth)
}

/// The part that a microsecond of a thread's own time belongs to.
fn part(truth: &Truth, thread: usize, at: usize) -> String {
    match truth.does[thread][at] {
        Does::Unseen => "unknown".to_owned(),
        Does::Runs => "on_cpu".to_owned(),
        Does::Sleeps => "blocked".to_owned(),
        Does::Waits(cpu) => match truth.has[cpu][at] {
            Some(other) => format!("waiting t{}", koid(other)),
            None => "waiting idle".to_owned(),
        },
    }
}

/// The innermost link in each microsecond, from the end backwards.
fn follow(
    truth: &Truth,
    thread: usize,
    (from, to): (usize, usize),
    out: &mut Vec<(u64, &'static str)>,
) {
    let mut at = to;
    while at > from {
        let does = truth.does[thread][at - 1];
        let state = match does {
            Does::Unseen => "unknown",
            Does::Runs => "on_cpu",
            Does::Waits(_) => "waiting",
            Does::Sleeps => "blocked",
        };
        if does != Does::Sleeps {
            out.push((koid(thread), state));
            at -= 1;
            continue;
        }
        let mut begin = at - 1;
        while begin > from
            && truth.does[thread][begin - 1] == Does::Sleeps
            && !was_woken(truth, thread, begin)
        {
            begin -= 1;
        }
        match truth.woken[thread].iter().find(|woken| woken.0 == at as u64) {
            Some((_, WokenBy::Thread(waker))) => follow(truth, *waker, (begin, at), out),
            _ => out.extend((begin..at).map(|_| (koid(thread), state))),
        }
        at = begin;
    }
}

pub(super) fn was_woken(truth: &Truth, thread: usize, at: usize) -> bool {
    truth.woken[thread].iter().any(|woken| woken.0 == at as u64)
}

fn micros(why: &Explanation, part: &str) -> u64 {
    let named = |it: &&crate::Part| {
        let who = match (&it.thread, it.tenant) {
            (Some(who), Some(_)) => format!(" {}", who.comm),
            (None, Some(tenant)) => format!(" {tenant}"),
            _ => String::new(),
        };
        format!("{}{who}", it.part) == part
    };
    why.blame.iter().filter(named).map(|part| part.ns).sum::<u64>() / 1000
}

/// An interval from two random numbers.
pub(super) fn between(truth: &Truth, cuts: (u16, u16)) -> (usize, usize) {
    let end = truth.does[0].len();
    let (a, b) = (usize::from(cuts.0) % end, usize::from(cuts.1) % end);
    (a.min(b), a.max(b).max(a.min(b) + 1).min(end))
}

/// The explanation of a thread between two random points of the played steps; `None` if the thread has no events.
pub(super) fn explained(
    steps: &[Step],
    which: usize,
    cuts: (u16, u16),
) -> Option<(Truth, (usize, usize), Explanation)> {
    let (scene, truth) = play(steps);
    let (from, to) = between(&truth, cuts);
    // If the interval ends before that, nothing is known.
    if from >= to || !truth.is_seen(which) || to < truth.first[which] {
        return None;
    }
    let query = within(&koid(which).to_string(), from as u64, to as u64);
    let answer = try_ask(&scene, &query).expect("the thread is there");
    Some((truth, (from, to), answer.explanations.into_iter().next()?))
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 20..200)
}

/// Events of any kind in any order, each a few microseconds after the previous one.
fn anything(steps: &[(u8, u8, u8, u8, u8)]) -> Scene {
    let mut scene = Scene::with_causes(ALL);
    let mut now = 0;
    for &(kind, a, b, how, wait) in steps {
        now += u64::from(wait % 4);
        let (thread, other) = (usize::from(a) % (THREADS + 1), usize::from(b) % (THREADS + 1));
        // One of them is the idle task.
        let name = |thread: usize| if thread == THREADS { 0 } else { koid(thread) };
        let cpu = u16::from(how) % CPUS as u16;
        let leaves = [Leaves::R, Leaves::S, Leaves::D, Leaves::T, Leaves::I, Leaves::X];
        let leaves = leaves[usize::from(how / 4) % leaves.len()];
        let taken = [
            ("steal_ns", Value::Uint64(u64::from(b) * 100)),
            ("irq_ns", Value::Uint64(u64::from(a) * 50)),
            ("throttled", Value::Bool(b % 5 == 0)),
        ];
        let held = [("throttled_ns", Value::Uint64(u64::from(a) * 20))];
        match kind % 10 {
            0..=3 => {
                scene.switch(now, cpu, name(thread), leaves, name(other));
            }
            4 => {
                scene.switch_with((now, cpu), name(thread), leaves, name(other), &taken);
            }
            5 => {
                scene.switch_with((now, cpu), name(thread), leaves, name(other), &held);
            }
            6 => {
                scene.wake_by(now, cpu, koid(thread % THREADS), name(other));
            }
            7 => {
                scene.wake_with(
                    now,
                    cpu,
                    koid(thread % THREADS),
                    &[("throttled", Value::Bool(true))],
                );
            }
            8 => {
                scene.migrate(now, koid(thread % THREADS), cpu, 1 - cpu);
            }
            _ => match how % 5 {
                0 => {
                    scene.lose(now, cpu, 3);
                }
                1 => {
                    scene.damage();
                }
                2 => {
                    scene.offline(now, cpu);
                }
                3 => {
                    scene.online(now, cpu);
                }
                _ => {
                    scene.inferred(now, cpu, name(thread), name(other));
                }
            },
        }
    }
    scene.end(now + 1);
    scene
}

#[test]
fn what_is_lost_at_the_end_takes_the_place_of_what_was_kept_first() {
    let steps = [
        (0, 6, 24, 0, 0),
        (6, 0, 0, 0, 3),
        (0, 0, 0, 0, 3),
        (0, 0, 27, 0, 0),
        (0, 0, 12, 0, 2),
        (0, 0, 5, 0, 1),
        (0, 107, 42, 2, 0),
        (6, 178, 0, 0, 2),
        (6, 86, 0, 0, 2),
        (0, 6, 107, 6, 3),
        (6, 154, 0, 0, 1),
        (0, 5, 19, 8, 0),
        (9, 0, 0, 115, 0),
        (0, 0, 4, 7, 0),
        (6, 64, 0, 0, 0),
    ];
    let scene = anything(&steps);
    let query = crate::Query { to: None, ..within(&koid(0).to_string(), 10, 10) };
    for most in 5..40 {
        by_one_pass_as_by_two(&scene, &query, most);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_and_links_are_those_of_the_reference(
        steps in steps(), which in 0..THREADS, cuts in (any::<u16>(), any::<u16>()),
    ) {
        let explained = explained(&steps, which, cuts);
        prop_assume!(explained.is_some());
        let Some((truth, (from, to), why)) = explained else { return Ok(()) };
        let why = &why;
        check(why);
        prop_assert_eq!((why.from_ns, why.to_ns), (from as u64 * 1000, to as u64 * 1000));

        let mut expected = std::collections::BTreeMap::<String, u64>::new();
        for at in from..to {
            *expected.entry(part(&truth, which, at)).or_default() += 1;
        }
        for (part, length) in &expected {
            prop_assert_eq!(micros(why, part), *length, "{} of {:#?}", part, why);
        }

        let mut links = Vec::new();
        follow(&truth, which, (from, to), &mut links);
        links.reverse();
        let found: Vec<(u64, &'static str)> = why
            .chain
            .iter()
            .flat_map(|link| {
                let length = (link.to_ns - link.from_ns) / 1000;
                (0..length).map(|_| (link.thread.koid, link.state))
            })
            .collect();
        prop_assert_eq!(found, links);
    }

    /// The summary of a recording, the report and `why` name the same worst delay.
    #[test]
    fn the_worst_is_that_of_the_report(steps in steps(), of_command in any::<bool>()) {
        let scene = match of_command {
            true => Scene::of_command(ALL, 100),
            false => Scene::recorded_by(104, ALL, None),
        };
        let (scene, _) = play_in(scene, &steps);
        let report = scene.report();
        let delay = report.delay.map(|it| (it.thread.koid.0, it.span.begin.0, it.span.end.0));
        let worst = try_ask(&scene, &crate::Query::default()).ok();
        let worst = worst.map(|answer| answer.explanations.into_iter().next().expect("one"));
        // Only `why` divides the time of threads into units of work.
        prop_assume!(worst.as_ref().is_none_or(|why| why.subject != "unit"));
        let worst = worst.filter(|why| matches!(why.subject, "late" | "runqueue"));
        prop_assert_eq!(delay, worst.map(|why| (why.thread.koid, why.from_ns, why.to_ns)));
    }

    /// This holds even if events are lost, switches are missing, or all times are equal.
    #[test]
    fn parts_sum_up_and_links_tile_whatever_is_in_the_file(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, u8)>(), 10..150), which in 0..THREADS,
        cuts in (0_u64..400, 0_u64..400),
    ) {
        let scene = anything(&steps);
        let (from, to) = (cuts.0.min(cuts.1), cuts.0.max(cuts.1));
        for query in [
            within(&koid(which).to_string(), from, to),
            crate::Query { to: None, ..within(&koid(which).to_string(), from, to) },
            crate::Query { life: true, ..super::of(&koid(which).to_string()) },
            crate::Query { pick: crate::Pick::Worst(9), ..super::of(&koid(which).to_string()) },
        ] {
            if let Ok(answer) = try_ask(&scene, &query) {
                answer.explanations.iter().for_each(check);
            }
            for most in [30, 100, 1_000] {
                by_one_pass_as_by_two(&scene, &query, most);
            }
        }
    }
}
