//! COMMAND from its start to its end, in a sentence.

use std::collections::BTreeSet;
use std::time::Duration;

use fxtrec_blame::Class;
use fxtrec_blame::chain::{Ended, Frame, What};
use fxtrec_blame::origins::OWN_TIMER;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{By, OnCpu};
use fxtrec_units::text::{counted, percent};
use rustc_hash::FxHashMap;

use super::{antagonists, list, name_and_id, nanos};
use crate::explain::Names;

/// Maximum number of parts of a critical path in a sentence.
const MOST_SHARES: usize = 5;

/// Parts below this share of COMMAND's time are not listed separately.
const LEAST_PERCENT: f64 = 0.04;

/// The thread of the longest wait of a kind is named if it takes at least this share of COMMAND's time.
const LEAST_LONGEST: f64 = 0.1;

const WAITED: &str = "waiting for a CPU";

/// The parts of COMMAND's duration, by the names of the threads that worked on its critical path.
pub(super) fn sentence(who: &str, frame: &Frame, names: &Names<'_>) -> String {
    let mut ran: FxHashMap<String, (u64, Vec<Index>)> = FxHashMap::default();
    // The sum, and the longest with its thread.
    let mut rest: FxHashMap<&'static str, (u64, (u64, Index))> = FxHashMap::default();
    let mut tenants: FxHashMap<OnCpu, u64> = FxHashMap::default();
    frame.leaves(&mut |path, step| {
        let length = step.length();
        let thread = path.last().copied().unwrap_or(frame.thread);
        let what = match &step.what {
            What::Ran { .. } => {
                let sums = ran.entry(names.who(thread).comm).or_default();
                sums.0 += length;
                if !sums.1.contains(&thread) {
                    sums.1.push(thread);
                }
                return;
            }
            What::Waited { shares, .. } => {
                for &(tenant, nanos) in shares {
                    *tenants.entry(tenant).or_default() += nanos;
                }
                WAITED
            }
            What::Throttled { .. } => "throttled by a quota",
            What::Blocked(blocked) => match names.class(blocked) {
                Class::Sleep => "asleep until a timer",
                Class::Disk => "waiting for a disk",
                Class::Network | Class::Socket => "waiting for a socket",
                Class::Io => "waiting for input or output",
                _ => match blocked.ended {
                    Ended::Woken(By::Interrupt(origin))
                        if names.interrupt(origin).text == OWN_TIMER =>
                    {
                        "waiting for its own timer"
                    }
                    Ended::Woken(By::Interrupt(_)) => "blocked until an interrupt",
                    _ => "blocked by something unknown",
                },
            },
            What::Underway => "waking threads",
            What::Packet => "packets on their way",
            What::Request(..) => "waiting for a disk",
            What::Unknown(_) => "unknown",
        };
        let (sum, longest) = rest.entry(what).or_default();
        *sum += length;
        *longest = (*longest).max((length, thread));
    });
    let whole = Duration::from_nanos((frame.to - frame.from).max(1)).as_secs_f64();
    let share = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() / whole;
    let mut reported: Vec<(u64, String)> = Vec::new();
    for (comm, (length, threads)) in ran {
        let name = match threads[..] {
            [thread] => name_and_id(&names.who(thread)),
            _ => {
                let threads = counted(threads.len() as u64, "thread", "threads");
                format!("{} ({threads})", fxtrec_units::escape::line(&comm))
            }
        };
        reported.push((length, format!("{name} running")));
    }
    let mut tenants: Vec<(OnCpu, u64)> = tenants.into_iter().collect();
    tenants.sort_unstable_by_key(|&(tenant, length)| (u64::MAX - length, tenant));
    let threads: u64 =
        tenants.iter().filter(|it| matches!(it.0, OnCpu::Thread(_))).map(|it| it.1).sum();
    for (what, (length, (longest, thread))) in rest {
        let by = match what == WAITED && threads > 0 {
            true => {
                let waiters = BTreeSet::from([frame.thread]);
                format!(" while {} ran", antagonists(&tenants, threads, &waiters, names))
            }
            false if share(longest) >= LEAST_LONGEST && longest < length => {
                let thread = name_and_id(&names.who(thread));
                format!(" (the longest {}, {thread})", nanos(longest))
            }
            false => String::new(),
        };
        reported.push((length, format!("{what}{by}")));
    }
    reported.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let worth = reported.iter().take_while(|it| share(it.0) >= LEAST_PERCENT).count();
    let worth = worth.clamp(1, MOST_SHARES).min(reported.len());
    let mut words: Vec<String> = reported[..worth]
        .iter()
        .map(|(length, text)| format!("{} {text}", percent(share(*length))))
        .collect();
    let others: u64 = reported[worth..].iter().map(|it| it.0).sum();
    if others > 0 {
        words.push(format!("{} others", percent(share(others))));
    }
    format!(
        "{who} took {} from its start to its end: {}.",
        nanos(frame.to - frame.from),
        list(&words)
    )
}
