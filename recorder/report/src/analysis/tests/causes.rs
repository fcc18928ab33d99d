//! The effects of the host, quotas, interrupts and load balancing on threads.

use std::time::Duration;

use fxt_reader::{Cpu, Nanos};
use fxt_writer::Value;

use super::{figures, micros};
use crate::facts::{Cause, Causes};
use crate::scene::{Leaves, Scene, thread};
use crate::{Metric, Options, Report, Selection, TimeRange, TimeSpec, Wait};

const ALL: &str = "steal,irq,throttled,migrate,need_resched,waker";

const THROTTLED: (&str, Value<'static>) = ("throttled", Value::Bool(true));

fn us(micros: u64) -> Value<'static> {
    Value::Uint64(micros * 1000)
}

fn by(cgroup: &str) -> (&str, Value<'_>) {
    ("throttled_by", Value::Str(fxt_writer::Text::Inline(cgroup)))
}

fn wait_of(report: &Report, tid: u64) -> &Wait {
    thread(report, tid).worst.as_deref().expect("it waited")
}

fn who(wait: &Wait) -> Vec<(u64, u64)> {
    wait.antagonists.iter().map(|it| (it.thread.tid, micros(it.ran))).collect()
}

/// The sum of all parts of a wait in microseconds, which must equal its length.
fn parts(wait: &Wait) -> u64 {
    let named: Duration = wait.antagonists.iter().map(|it| it.ran).sum();
    micros(named + wait.others + wait.idle + wait.unknown)
}

/// Thread 101 uses up its quota at 20, and 202 runs meanwhile. At 100 there is quota again, and 101 waits for 303 until 130.
fn throttled() -> Scene {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.throttle(20, "/a", 0).switch_with((20, 0), 101, Leaves::R, 202, &[THROTTLED]);
    scene.switch(90, 0, 202, Leaves::S, 303).release(100, "/a", 0);
    let held = [("throttled_ns", us(80)), by("/a")];
    scene.switch_with((130, 0), 303, Leaves::S, 101, &held);
    scene.switch(150, 0, 101, Leaves::S, 0);
    scene.end(200);
    scene
}

#[test]
fn the_time_in_which_a_quota_is_used_up_is_no_wait_for_a_cpu() {
    let report = throttled().report();
    assert_eq!(figures(&report, 101, Metric::Preemption), (1, 30, 0));
    // It was switched in once before, for an unknown reason.
    assert_eq!(figures(&report, 101, Metric::RunQueue), (1, 30, 1));
    assert_eq!(figures(&report, 101, Metric::Throttled), (1, 80, 0));
    assert_eq!(thread(&report, 101).stats.involuntary, 1);
    let load = report.cpus[0].load.expect("the scope is all");
    // It waited for 30 of 200.
    assert!((load.queue_mean - 0.15).abs() < 1e-9, "{load:?}");
}

#[test]
fn who_ran_while_the_quota_was_used_up_is_no_antagonist() {
    let report = throttled().report();
    let wait = wait_of(&report, 101);
    assert_eq!(who(wait), [(303, 30)]);
    assert_eq!((micros(wait.length()), parts(wait)), (30, 30));
    assert_eq!((micros(wait.throttled), wait.throttled_by.as_deref()), (80, Some("/a")));
}

#[test]
fn a_wait_of_no_throttled_thread_is_as_it_was() {
    let with_quota = throttled().report();
    let mut plain = Scene::new();
    plain.switch(0, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 202);
    plain.switch(90, 0, 202, Leaves::S, 303).wake(100, 0, 101);
    plain.switch(130, 0, 303, Leaves::S, 101).switch(150, 0, 101, Leaves::S, 0);
    let plain = plain.end(200).report();
    for tid in [202, 303] {
        for metric in Metric::ALL {
            assert_eq!(figures(&with_quota, tid, metric), figures(&plain, tid, metric));
        }
    }
}

#[test]
fn a_thread_that_waits_when_its_cgroup_is_throttled_waits_for_who_ran_before_and_after() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 202).wake(10, 0, 101);
    scene.switch(30, 0, 202, Leaves::S, 303).throttle(40, "/a", 0);
    scene.switch(60, 0, 303, Leaves::S, 404).release(90, "/a", 0);
    let held = [("throttled_ns", us(50)), by("/a")];
    scene.switch_with((100, 0), 404, Leaves::S, 101, &held);
    scene.switch(110, 0, 101, Leaves::S, 0).end(110);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Metric::Wakeup), (1, 40, 0));
    let wait = wait_of(&report, 101);
    assert_eq!((who(wait), parts(wait)), (vec![(202, 20), (303, 10), (404, 10)], 40));
    let load = report.cpus[0].load.expect("the scope is all");
    assert!((load.queue_mean - 40.0 / 110.0).abs() < 1e-9, "{load:?}");
}

#[test]
fn when_it_is_not_known_which_part_of_a_wait_was_throttled_nobody_is_blamed() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 202).wake(10, 0, 101);
    scene.switch(30, 0, 202, Leaves::S, 303);
    scene.switch_with((100, 0), 303, Leaves::S, 101, &[("throttled_ns", us(50))]);
    let report = scene.report();
    let wait = wait_of(&report, 101);
    assert_eq!((who(wait), micros(wait.unknown), parts(wait)), (Vec::new(), 40, 40));
}

#[test]
fn a_thread_that_is_woken_into_a_throttled_cgroup_is_held_back_from_then_on() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 101, Leaves::S, 202);
    scene.wake_with(20, 0, 101, &[THROTTLED]);
    scene.switch_with((100, 0), 202, Leaves::S, 101, &[("throttled_ns", us(60)), by("/a")]);
    scene.switch(110, 0, 101, Leaves::S, 0).end(110);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Metric::Wakeup), (1, 20, 0));
    assert_eq!(figures(&report, 101, Metric::Throttled), (1, 60, 0));
    assert_eq!(who(wait_of(&report, 101)), [(202, 20)]);
}

#[test]
fn a_wait_that_was_throttled_to_its_end_is_a_wait_of_no_length() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch_with((10, 0), 101, Leaves::R, 0, &[THROTTLED]);
    // This is more than the length of the wait.
    scene.switch_with((60, 0), 0, Leaves::R, 101, &[("throttled_ns", Value::Uint64(u64::MAX))]);
    scene.switch(70, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Metric::Preemption), (1, 0, 0));
    assert_eq!(figures(&report, 101, Metric::Throttled), (1, 50, 0));
}

#[test]
fn a_throttled_wait_that_a_gap_cuts_is_censored() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch_with((10, 0), 101, Leaves::R, 0, &[THROTTLED]);
    scene.lose(30, 1, 4);
    scene.switch_with((60, 0), 0, Leaves::R, 101, &[("throttled_ns", us(40))]);
    scene.switch_with((70, 0), 101, Leaves::R, 0, &[THROTTLED]);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Metric::Throttled), (0, 0, 1));
    // The second slice continues at the end.
    assert_eq!(figures(&report, 101, Metric::Preemption), (0, 0, 2));
}

/// Enough switches for the history to be folded meanwhile.
#[test]
fn a_long_throttled_wait_divides_history_where_the_quota_came_back() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.throttle(10, "/a", 0).switch_with((10, 0), 101, Leaves::R, 200, &[THROTTLED]);
    let mut at = 10;
    let mut run = |scene: &mut Scene, group: u64, times: u64| {
        for number in 0..times {
            let (from, to) = (group + number % 20, group + (number + 1) % 20);
            at += 2;
            scene.switch(at, 0, from, Leaves::S, to);
            scene.wake(at, 0, from);
        }
        at
    };
    let released = run(&mut scene, 200, 10_000);
    scene.release(released, "/a", 0);
    scene.switch(released, 0, 200, Leaves::S, 300);
    let end = run(&mut scene, 300, 10_000);
    let held = [("throttled_ns", us(released - 10)), by("/a")];
    scene.switch_with((end, 0), 300, Leaves::S, 101, &held);
    let report = scene.report();
    let wait = wait_of(&report, 101);
    assert_eq!((micros(wait.length()), parts(wait)), (20_000, 20_000));
    assert_eq!(micros(wait.unknown), 0);
    assert!(who(wait).iter().all(|(tid, _)| *tid >= 300), "{:?}", who(wait));
    assert_eq!(wait.more_antagonists, 15);
}

#[test]
fn a_wait_that_changes_queues_has_the_antagonists_of_each() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 202).switch(0, 1, 0, Leaves::R, 303);
    scene.wake(10, 0, 101).migrate(40, 101, 0, 1);
    scene.switch(60, 1, 303, Leaves::S, 404).switch(100, 1, 404, Leaves::S, 101);
    let report = scene.report();
    let wait = wait_of(&report, 101);
    let mut antagonists = who(wait);
    antagonists.sort_unstable();
    assert_eq!((antagonists, parts(wait)), (vec![(202, 30), (303, 20), (404, 40)], 90));
    assert_eq!((wait.queued_on, wait.ran_on), (Cpu(0), Cpu(1)));
    let moves: Vec<_> = wait.moves.iter().map(|it| (it.at.0 / 1000, it.from.0, it.to.0)).collect();
    assert_eq!(moves, [(40, 0, 1)]);
    assert_eq!(report.moved(&thread(&report, 101).stats), Some(1));
    let load = |cpu: usize| report.cpus[cpu].load.expect("the scope is all").queue_mean;
    assert!((load(0) - 0.3).abs() < 1e-9 && (load(1) - 0.6).abs() < 1e-9);
}

#[test]
fn a_thread_that_sleeps_or_runs_does_not_change_queues() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 101, Leaves::S, 202).migrate(5, 101, 0, 1).migrate(5, 202, 0, 1);
    scene.wake(10, 1, 101).switch(20, 1, 0, Leaves::R, 101).switch(30, 1, 101, Leaves::S, 0);
    let report = scene.report();
    assert_eq!(report.moved(report.total()), Some(0));
    assert!(wait_of(&report, 101).moves.is_empty());
}

#[test]
fn a_throttled_wait_that_changes_queues_has_the_antagonists_of_the_last() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 303);
    scene.switch_with((10, 0), 101, Leaves::R, 202, &[THROTTLED]);
    scene.migrate(40, 101, 0, 1);
    scene.switch_with((100, 1), 303, Leaves::S, 101, &[("throttled_ns", us(20)), by("/a")]);
    let report = scene.report();
    let wait = wait_of(&report, 101);
    // Throttled from 10 to 30. From 30 to 40 it waited for CPU 0, and the thread on CPU 0 was unknown.
    assert_eq!((who(wait), micros(wait.unknown), parts(wait)), (vec![(303, 60)], 10, 70));
}

#[test]
fn what_was_taken_of_slices_is_summed_up() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    let irqs = ("irqs", Value::Uint32(3));
    let first = [("steal_ns", us(4)), ("irq_ns", us(2)), irqs, ("need_resched_ns", us(1))];
    scene.switch_with((20, 0), 101, Leaves::R, 202, &first);
    // Numbers are only as long as necessary.
    let short = Value::Uint32(7_000);
    scene.switch_with((50, 0), 202, Leaves::S, 101, &[("steal_ns", short)]);
    scene.switch_with((70, 0), 101, Leaves::S, 0, &[("steal_ns", us(6))]);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Metric::Steal), (2, 10, 0));
    assert_eq!(figures(&report, 202, Metric::Steal), (1, 7, 0));
    assert_eq!(figures(&report, 101, Metric::Irq), (1, 2, 0));
    assert_eq!(figures(&report, 101, Metric::NeedResched), (1, 1, 0));
    let facts = thread(&report, 101).stats.facts.as_ref().expect("there are some");
    assert_eq!(
        (facts.irqs, thread(&report, 202).stats.facts.as_ref().map(|it| it.irqs)),
        (3, Some(0))
    );
    let whole = report.total().metric(Metric::Steal);
    assert_eq!((micros(whole.sum()), whole.max().map(micros)), (17, Some(7)));
    assert_eq!(micros(report.cpus[0].metric(Metric::Steal).sum()), 17);
    assert_eq!(report.facts(), [Metric::Steal, Metric::Irq, Metric::NeedResched]);
}

#[test]
fn what_was_taken_of_a_slice_that_is_cut_is_censored() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch_with((20, 0), 101, Leaves::S, 0, &[("steal_ns", us(4))]);
    let from = TimeRange { from: Some(TimeSpec::At(Nanos(10_000))), to: None };
    let selection = Selection { range: from, ..Selection::default() };
    let report = scene.report_with(Options { selection, ..Options::default() });
    assert_eq!(figures(&report, 101, Metric::Steal), (0, 0, 1));
}

#[test]
fn a_recording_says_which_facts_it_has() {
    let plain = Scene::new().switch(10, 0, 0, Leaves::R, 101).report();
    assert_eq!(plain.causes, Causes::default());
    assert!(plain.knows(Metric::Wakeup) && Metric::FACTS.iter().all(|it| !plain.knows(*it)));
    assert_eq!(plain.moved(plain.total()), None);
    let some = Scene::with_causes("steal,irq").switch(10, 0, 0, Leaves::R, 101).report();
    assert!(some.causes.has(Cause::Steal) && !some.causes.has(Cause::Throttled));
    assert!(some.facts().is_empty(), "there are none of them");
}

#[test]
fn what_the_host_took_of_each_cpu_is_known() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101).host_steal(90, 0, 31, 1000).host_steal(90, 1, 0, 1000);
    let report = scene.report();
    let shares: Vec<(u16, f64)> = report.host.iter().map(|it| (it.cpu.0, it.share())).collect();
    assert_eq!(shares, [(0, 0.031), (1, 0.0)]);
}

#[test]
fn an_interrupt_that_woke_a_thread_is_no_waker() {
    let mut scene = Scene::with_causes(ALL);
    scene.switch(0, 0, 101, Leaves::S, 202);
    scene.wake_with(20, 0, 101, &[("interrupt", Value::Bool(true))]);
    scene.switch(40, 0, 202, Leaves::S, 101);
    let report = scene.report();
    let wait = wait_of(&report, 101);
    assert_eq!((wait.waker.as_ref(), wait.by_interrupt), (None, true));
}

const MEMBERS: u64 = 104;

/// A thread in the simulation below: its CPU or queue, and how long a quota held it back in its wait.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Asleep,
    On(u16),
    Queued { cpu: u16, since: u64, held: u64 },
}

/// Two CPUs and eight threads, of which those up to [`MEMBERS`] are in a cgroup with a quota. Steps are random. Without `facts`, the trace
/// is from a recorder that records no quotas or queues.
fn game(seed: u64, facts: bool) -> Scene {
    let mut scene = Scene::with_causes(if facts { ALL } else { "" });
    let mut dice =
        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut threads = [Place::Asleep; 8];
    let mut on = [0_u64; 2];
    let mut throttled: [Option<u64>; 2] = [None; 2];
    let mut now = 0;
    for cpu in [0, 1] {
        scene.switch(0, cpu, 909, Leaves::S, 0);
    }
    let index = |tid: u64| (tid - 101) as usize;
    for _ in 0..400 {
        now += 1 + roll(40);
        let cpu = roll(2) as u16;
        let at = usize::from(cpu);
        let reported =
            |args: &'static [(&'static str, Value<'static>)]| if facts { args } else { &[] };
        match roll(8) {
            // A thread is woken.
            0..=2 => {
                let tid = 101 + roll(8);
                if threads[index(tid)] == Place::Asleep {
                    let into = tid <= MEMBERS && throttled[at].is_some();
                    scene.wake_with(now, cpu, tid, reported(if into { &[THROTTLED] } else { &[] }));
                    threads[index(tid)] = Place::Queued { cpu, since: now, held: 0 };
                }
            }
            // The quota is used up, or available again.
            3 => match throttled[at].take() {
                None => {
                    throttled[at] = Some(now);
                    if facts {
                        scene.throttle(now, "/a", cpu);
                    }
                    if (101..=MEMBERS).contains(&on[at]) {
                        scene.switch_with((now, cpu), on[at], Leaves::R, 0, reported(&[THROTTLED]));
                        threads[index(on[at])] = Place::Queued { cpu, since: now, held: 0 };
                        on[at] = 0;
                    }
                }
                Some(begin) => {
                    if facts {
                        scene.release(now, "/a", cpu);
                    }
                    for tid in 101..=MEMBERS {
                        if let Place::Queued { cpu: queue, since, held } = &mut threads[index(tid)]
                            && *queue == cpu
                        {
                            *held += now - begin.max(*since);
                        }
                    }
                }
            },
            // A waiting thread that is not held back changes queues.
            4 => {
                let tid = 101 + roll(8);
                let free = tid > MEMBERS || throttled == [None; 2];
                if let Place::Queued { cpu: queue, since, held } = threads[index(tid)]
                    && (free && queue != cpu)
                {
                    if facts {
                        scene.migrate(now, tid, queue, cpu);
                    }
                    threads[index(tid)] = Place::Queued { cpu, since, held };
                }
            }
            // The CPU switches.
            _ => {
                let first = roll(8);
                let next = (0..8).map(|step| 101 + (first + step) % 8).find(|&tid| {
                    let barred = tid <= MEMBERS && throttled[at].is_some();
                    !barred
                        && matches!(threads[index(tid)], Place::Queued { cpu: q, .. } if q == cpu)
                });
                let (out, leaves) = (on[at], if roll(2) == 0 { Leaves::R } else { Leaves::S });
                let Some(inn) = next.or((out != 0).then_some(0)) else { continue };
                let held = match inn {
                    0 => 0,
                    inn => match threads[index(inn)] {
                        Place::Queued { held, .. } => held,
                        _ => 0,
                    },
                };
                let args = [("throttled_ns", us(held)), by("/a")];
                let args = if facts && held > 0 { &args[..] } else { &[] };
                scene.switch_with((now, cpu), out, leaves, inn, args);
                if out != 0 {
                    threads[index(out)] = match leaves {
                        Leaves::R => Place::Queued { cpu, since: now, held: 0 },
                        _ => Place::Asleep,
                    };
                }
                if inn != 0 {
                    threads[index(inn)] = Place::On(cpu);
                }
                on[at] = inn;
            }
        }
    }
    scene.end(now + 1);
    scene
}

#[test]
fn whatever_happens_waits_and_throttled_time_are_together_what_looked_like_waits() {
    let mut seen = [0; 4];
    for seed in 0..150 {
        let (reported, plain) = (game(seed, true), game(seed, false));
        let options = || Options { worst: 10_000, ..Options::default() };
        let (reported, plain) = (reported.report_with(options()), plain.report_with(options()));
        for tid in 101..=108 {
            let of = |report: &Report, metric| {
                let found = report.threads().iter().find(|thread| thread.tid == Some(tid));
                found.map_or((0, 0, 0), |thread| super::figures_of(&thread.stats, metric))
            };
            let (waited, held) =
                (of(&reported, Metric::RunQueue), of(&reported, Metric::Throttled));
            let looked = of(&plain, Metric::RunQueue);
            assert_eq!((waited.0, waited.1 + held.1, waited.2), looked, "{tid} of {seed}");
            assert!(held.0 == 0 || tid <= MEMBERS, "{tid} of {seed}");
            for metric in [Metric::Slice, Metric::Blocked] {
                assert_eq!(
                    of(&reported, metric),
                    of(&plain, metric),
                    "{metric} of {tid} of {seed}"
                );
            }
        }
        for wait in reported.worst() {
            assert_eq!(parts(wait), micros(wait.length()), "{wait:?} of {seed}");
            seen[0] += 1;
            seen[1] += usize::from(!wait.throttled.is_zero());
            seen[2] += usize::from(!wait.moves.is_empty());
            // Only a wait that was both throttled and moved has unknown parts.
            let both = !wait.throttled.is_zero() && !wait.moves.is_empty();
            assert!(both || wait.unknown.is_zero(), "{wait:?} of {seed}");
            seen[3] += usize::from(both);
        }
    }
    assert!(seen.iter().all(|&times| times > 20), "{seen:?}");
}

/// 101 blocks in futex(2) for 30 us and 5 us, in read(2) for 10 us, and once in an unknown call.
fn blocked() -> Scene {
    let mut scene = Scene::with_causes("syscall");
    let call = |number| [("syscall", Value::Uint32(number))];
    scene.switch(0, 0, 0, Leaves::R, 101);
    for (at, number, length) in [(10, 202, 30), (50, 202, 5), (60, 0, 10)] {
        scene.switch_with((at, 0), 101, Leaves::S, 0, &call(number));
        scene.wake(at + length, 0, 101).switch(at + length + 1, 0, 0, Leaves::R, 101);
    }
    scene.switch(80, 0, 101, Leaves::S, 0).wake(90, 0, 101).switch(91, 0, 0, Leaves::R, 101);
    // A wait that has not ended has no length, and no machine has such a CPU number.
    scene.switch_with((95, 0), 101, Leaves::S, 0, &call(202));
    scene.switch(96, 0, 0, Leaves::R, 202);
    scene.switch_with((97, 0), 202, Leaves::S, 0, &call(50_000)).wake(98, 0, 202);
    scene.end(100);
    scene
}

#[test]
fn a_thread_was_blocked_in_each_system_call_from_its_switch_out_to_its_wake_up() {
    let report = blocked().report();
    let calls = thread(&report, 101).stats.facts.as_ref().expect("it blocked").calls();
    let found: Vec<_> =
        calls.iter().map(|it| (it.number, it.count, micros(it.sum), micros(it.max))).collect();
    assert_eq!(found, [(202, 2, 35, 30), (0, 1, 10, 10)]);
    assert!(thread(&report, 202).stats.facts.is_none(), "no such call");
    assert_eq!(report.total().facts.as_ref().expect("the same").calls(), calls);
    assert_eq!((report.call_name(202), report.call_name(999)), (Some("futex"), None));
}
