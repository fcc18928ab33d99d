//! Compares the chain with the critical path that Perfetto publishes (its module `sched.thread_executing_span`), as documented there:
//!
//! ```text
//!   executing span   of a thread, from when it is woken out of sleep until it sleeps again
//!   waker            the executing span of the thread that woke it
//!   path of a sleep  the spans from waker to waker, each from when it began to when the one before began, within the sleep
//!   no waker         (none is known, or an interrupt): the thread's own span before stands in
//! ```
//!
//! Threads on that path are followed here microsecond by microsecond, and compared with the links of `fxtrec why`.

use fxtrec_report::scene::{Leaves, Scene};
use proptest::prelude::*;

use super::random::{Does, THREADS, Truth, WokenBy, explained, koid, steps};
use super::{ALL, ask, within};
use crate::Explanation;

/// The thread on the path in each microsecond of a sleep that ends at `to`, from its end backwards.
fn path(truth: &Truth, waker: usize, (from, to): (usize, usize), out: &mut Vec<u64>) {
    let (mut thread, mut at) = (waker, to);
    while at > from {
        match truth.does[thread][at - 1] {
            // It is in its executing span, or nothing is known about it: then the thread itself is on the path.
            Does::Runs | Does::Waits(_) | Does::Unseen => {
                out.push(koid(thread));
                at -= 1;
            }
            // Its span began here.
            Does::Sleeps => match ended(truth, thread, at) {
                Some(WokenBy::Thread(next)) => thread = next,
                _ => {
                    out.push(koid(thread));
                    at -= 1;
                }
            },
        }
    }
}

fn ended(truth: &Truth, thread: usize, at: usize) -> Option<WokenBy> {
    let ended = truth.woken[thread].iter().find(|woken| woken.0 == at as u64);
    ended.map(|woken| woken.1)
}

/// The same for an interval of a thread: the thread itself, and the path of each of its sleeps.
fn perfetto(truth: &Truth, thread: usize, (from, to): (usize, usize)) -> Vec<u64> {
    let (mut out, mut at) = (Vec::new(), to);
    while at > from {
        let by = match truth.does[thread][at - 1] {
            Does::Sleeps => ended(truth, thread, at),
            _ => None,
        };
        let Some(WokenBy::Thread(waker)) = by else {
            out.push(koid(thread));
            at -= 1;
            continue;
        };
        let slept = |at: &usize| truth.does[thread][*at] == Does::Sleeps;
        let is_same = |at: &usize| ended(truth, thread, at + 1).is_none();
        let begin = (from..at - 1).rev().take_while(|at| slept(at) && is_same(at)).last();
        let begin = begin.unwrap_or(at - 1);
        path(truth, waker, (begin, at), &mut out);
        at = begin;
    }
    out.reverse();
    out
}

/// The thread of the link in each microsecond.
fn links(why: &Explanation) -> Vec<u64> {
    let of = |link: &crate::Link| {
        (0..(link.to_ns - link.from_ns) / 1000).map({
            let koid = link.thread.koid;
            move |_| koid
        })
    };
    why.chain.iter().flat_map(of).collect()
}

/// When threads of the chain begin to sleep: before that, `fxtrec why` returns to them.
fn returns(why: &Explanation) -> Vec<usize> {
    let deep = why.waits.iter().filter(|wait| wait.depth > 0);
    deep.map(|wait| ((wait.from_ns - why.from_ns) / 1000) as usize).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_chain_has_the_threads_of_perfettos_critical_path(
        steps in steps(), which in 0..THREADS, cuts in (any::<u16>(), any::<u16>()),
    ) {
        let explained = explained(&steps, which, cuts);
        prop_assume!(explained.as_ref().is_some_and(|it| it.2.waits.len() < 64));
        let Some((truth, (from, to), why)) = &explained else { return Ok(()) };
        let (from, to) = (*from, *to);
        let (found, expected) = (links(why), perfetto(truth, which, (from, to)));
        prop_assert_eq!(found.len(), expected.len());
        let returns = returns(why);
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // The two may differ only before the sleep of a thread of the chain.
            let may_differ = returns.iter().any(|begin| at < *begin);
            prop_assert!(found == expected || may_differ, "{}: {} and {} in {:#?}", at, found, expected, why);
        }
    }
}

/// `app` sleeps from 10 to 100. Meanwhile `worker` works, with a sleep from 40 to 70 that `disk` ends; `disk` runs since 10.
fn scene() -> Scene {
    let mut scene = Scene::of_command(ALL, 101);
    scene.name(101, "app").name(102, "worker").name(103, "disk");
    scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 102);
    scene.switch(10, 0, 101, Leaves::S, 103);
    scene.switch(40, 1, 102, Leaves::S, 0).wake_by(70, 1, 102, 103);
    scene.switch(70, 1, 0, Leaves::R, 102).wake_by(100, 0, 101, 102);
    scene.switch(100, 0, 103, Leaves::S, 101).end(200);
    scene
}

#[test]
fn before_the_sleep_of_a_waker_the_chain_goes_back_to_it_and_perfetto_does_not() {
    let why = ask(&scene(), &within("app", 10, 100));
    let chain: Vec<_> =
        why.chain.iter().map(|link| (&*link.thread.comm, link.to_ns / 1000)).collect();
    assert_eq!(chain, [("worker", 40), ("disk", 70), ("worker", 100)]);
    let mut truth = Truth::default();
    let stretch = |list: &[(Does, usize)]| -> Vec<Does> {
        list.iter().flat_map(|&(does, times)| std::iter::repeat_n(does, times)).collect()
    };
    truth.does = vec![
        stretch(&[(Does::Runs, 10), (Does::Sleeps, 90), (Does::Runs, 1)]),
        stretch(&[(Does::Runs, 40), (Does::Sleeps, 30), (Does::Runs, 31)]),
        stretch(&[(Does::Unseen, 10), (Does::Runs, 91)]),
    ];
    truth.woken = vec![vec![(100, WokenBy::Thread(1))], vec![(70, WokenBy::Thread(2))], Vec::new()];
    let expected = perfetto(&truth, 0, (10, 100));
    assert_eq!(expected, [vec![koid(2); 60], vec![koid(1); 30]].concat(), "disk all along");
}
