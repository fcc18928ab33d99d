//! Handmade scenes with a known cause.

mod advice;
mod idle;
mod partners;
mod parts;
mod perfetto;
mod random;
mod sentences;
mod units;

use fxt_reader::Reader;
use fxtrec_report::scene::Scene;

use crate::explain::{Keep, explain_keeping};
use crate::{Answer, Explanation, Query, WhyError, explain};

/// All facts.
pub(super) const ALL: &str = "steal,irq,throttled,migrate,need_resched,waker,syscall";

/// The system call numbers in the scenes.
pub(super) const READ: u32 = 0;
pub(super) const RECVFROM: u32 = 45;
pub(super) const FSYNC: u32 = 74;
pub(super) const FUTEX: u32 = 202;
pub(super) const SLEEP: u32 = 230;
/// A system call that waits for readiness of files, without a name.
pub(super) const POLL: u32 = 232;

pub(super) fn syscall(_: &str, number: u64) -> Option<&'static str> {
    match number {
        0 => Some("read"),
        1 => Some("write"),
        7 => Some("poll"),
        45 => Some("recvfrom"),
        61 => Some("wait4"),
        74 => Some("fsync"),
        202 => Some("futex"),
        230 => Some("clock_nanosleep"),
        _ => None,
    }
}

pub(super) fn try_ask(scene: &Scene, query: &Query) -> Result<Answer, WhyError> {
    explain(query, || Ok(Reader::from_slice(scene.bytes())), syscall)
}

/// The first explanation, after checks that hold for all explanations.
pub(super) fn ask(scene: &Scene, query: &Query) -> Explanation {
    let answer = try_ask(scene, query).expect("there is something to explain");
    for why in &answer.explanations {
        check(why);
    }
    answer.explanations.into_iter().next().expect("one")
}

/// Parts sum up to the interval's length, and links tile it.
pub(super) fn check(why: &Explanation) {
    assert_eq!(why.length_ns, why.to_ns - why.from_ns);
    assert_eq!(why.blame.iter().map(|part| part.ns).sum::<u64>(), why.length_ns, "{why:#?}");
    assert!(why.blame.iter().all(|part| part.ns > 0), "{why:#?}");
    let mut at = why.from_ns;
    for link in &why.chain {
        assert_eq!(link.from_ns, at, "{why:#?}");
        assert!(link.to_ns > link.from_ns, "{why:#?}");
        at = link.to_ns;
        if link.state == "waiting" {
            let shares = link.tenants.iter().map(|share| share.ns).sum::<u64>();
            assert_eq!(shares, link.to_ns - link.from_ns, "{link:#?}");
        }
    }
    assert_eq!(at, why.to_ns, "{why:#?}");
}

/// One pass and two passes give the same answer, with a log of at most `most` entries. Parts of equal length may be in either order.
pub(super) fn by_one_pass_as_by_two(scene: &Scene, query: &Query, most: usize) {
    let ask = |at_once| {
        let open = || Ok(Reader::from_slice(scene.bytes()));
        let answer = explain_keeping(query, open, syscall, Keep { most, at_once }).ok()?;
        let mut explanations = answer.explanations;
        for why in &mut explanations {
            let by_name = |part: &crate::Part| (u64::MAX - part.ns, format!("{part:?}"));
            why.blame.sort_by_key(by_name);
            for link in &mut why.chain {
                link.tenants.sort_by_key(|share| (u64::MAX - share.ns, format!("{share:?}")));
            }
        }
        let reported =
            |why: &Explanation| format!("{:#?}{:#?}{:#?}", why.blame, why.chain, why.waits);
        Some(explanations.iter().map(reported).collect::<Vec<_>>())
    };
    assert_eq!(ask(true), ask(false), "{most} entries, {query:?}");
}

pub(super) fn of(thread: &str) -> Query {
    Query { thread: Some(thread.to_owned()), ..Query::default() }
}

/// An interval in microseconds.
pub(super) fn within(thread: &str, from: u64, to: u64) -> Query {
    Query { from: Some(from * 1000), to: Some(to * 1000), ..of(thread) }
}

/// The parts in a short form: kind, thread or reason, microseconds.
pub(super) fn parts(why: &Explanation) -> Vec<(String, u64)> {
    why.blame
        .iter()
        .map(|part| {
            let more = [
                part.tenant.filter(|_| part.thread.is_none()),
                part.class,
                part.syscall.as_deref(),
                part.ended_by.filter(|_| part.thread.is_none()),
                part.thread.as_ref().map(|who| &*who.comm),
                part.cgroup.as_deref(),
                part.reason,
            ];
            let words: Vec<&str> =
                std::iter::once(part.part).chain(more.into_iter().flatten()).collect();
            (words.join(" "), part.ns / 1000)
        })
        .collect()
}

/// The chain in a short form: depth, thread, what, microseconds.
pub(super) fn chain(why: &Explanation) -> Vec<(usize, String, u64)> {
    why.chain
        .iter()
        .map(|link| {
            let length = (link.to_ns - link.from_ns) / 1000;
            (link.depth, format!("{} {}", link.thread.comm, link.state), length)
        })
        .collect()
}

pub(super) fn expect(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(text, micros)| ((*text).to_owned(), *micros)).collect()
}

pub(super) fn links(list: &[(usize, &str, u64)]) -> Vec<(usize, String, u64)> {
    list.iter().map(|(depth, text, micros)| (*depth, (*text).to_owned(), *micros)).collect()
}
