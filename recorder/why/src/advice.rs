//! Proposals for the next step, depending on what dominates the critical path; and the facts that are missing in the recording.

use std::cmp::Reverse;

use fxt_reader::Nanos;
use fxtrec_blame::Cause;
use rustc_hash::FxHashMap;

use crate::explain::Names;
use crate::sentence::{list, name_and_id};
use fxtrec_blame::Class;
use fxtrec_blame::chain::{Blocked, Ended, Frame, What};
use fxtrec_blame::parts::divide;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{By, OnCpu, Reason};

/// Parts that take less than this share of the interval need no advice.
const SHARE: u64 = 5;

/// Maximum number of pieces of advice.
const MOST: usize = 3;

/// Maximum number of threads named in one piece of advice.
const MOST_NAMED: usize = 2;

/// A part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Matter {
    /// A thread waits for a CPU, and another thread may be blocked on a lock that it must release.
    Waited {
        thread: Index,
        by: OnCpu,
        holds_lock: bool,
    },
    Throttled {
        cgroup: Option<u32>,
    },
    Ran {
        thread: Index,
    },
    Stolen,
    Interrupts,
    Slept {
        thread: Index,
    },
    /// The thread waited for something other than a thread.
    Blocked {
        thread: Index,
        class: Class,
    },
    /// It waited in futex(2), and the futex is not recorded.
    Futex {
        thread: Index,
    },
    /// The waker is unknown.
    WokenByUnknown {
        thread: Index,
    },
    Unknown(Reason),
}

fn add_up(frame: &Frame, holds_lock: bool, names: &Names<'_>, sums: &mut FxHashMap<Matter, u64>) {
    let thread = frame.thread;
    for step in &frame.steps {
        let mut add = |matter: Matter, length: u64| *sums.entry(matter).or_default() += length;
        let length = step.length();
        match &step.what {
            What::Ran { taken, .. } => {
                let (own, stolen, irq) = divide(length, taken.unwrap_or_default());
                add(Matter::Ran { thread }, own);
                add(Matter::Stolen, stolen);
                add(Matter::Interrupts, irq);
            }
            What::Waited { shares, .. } => {
                for &(by, nanos) in shares {
                    add(Matter::Waited { thread, by, holds_lock }, nanos);
                }
            }
            What::Throttled { cgroup } => add(Matter::Throttled { cgroup: *cgroup }, length),
            What::Blocked(blocked) => {
                let class = names.class(blocked);
                let reported =
                    blocked.lock.is_some() || names.tracker.origin.causes.has(Cause::Futex);
                let untold = class == Class::Lock && !reported;
                if untold {
                    add(Matter::Futex { thread }, length);
                }
                match (&blocked.inside, blocked.ended) {
                    (Some(inside), _) => {
                        // If it is unknown, a thread may have been the waker.
                        let lock = holds_lock || matches!(class, Class::Lock | Class::Unknown);
                        add_up(inside, lock, names, sums);
                    }
                    (None, _) if class == Class::Sleep => add(Matter::Slept { thread }, length),
                    (None, Ended::Woken(By::Unknown)) => {
                        add(Matter::WokenByUnknown { thread }, length);
                    }
                    (None, _) if untold => {}
                    (None, _) => add(Matter::Blocked { thread, class }, length),
                }
            }
            What::Underway | What::Packet | What::Request(..) => {}
            What::Unknown(reason) => add(Matter::Unknown(*reason), length),
        }
    }
}

/// Proposals for the next step, the most promising first.
pub(crate) fn advice(frame: &Frame, names: &Names<'_>) -> Vec<String> {
    let mut sums = FxHashMap::default();
    add_up(frame, false, names, &mut sums);
    let length = frame.to - frame.from;
    // One piece of advice for all threads that took the CPU of a thread.
    let mut waits = FxHashMap::<(Index, bool), Vec<(u64, OnCpu)>>::default();
    let mut futexes: Vec<(u64, Index)> = Vec::new();
    let mut rest: Vec<(u64, Matter)> = Vec::new();
    for (matter, nanos) in sums {
        match matter {
            Matter::Waited { thread, by, holds_lock } => {
                waits.entry((thread, holds_lock)).or_default().push((nanos, by));
            }
            Matter::Futex { thread } => futexes.push((nanos, thread)),
            matter => rest.push((nanos, matter)),
        }
    }
    let mut found: Vec<(u64, String)> = Vec::new();
    for ((thread, holds_lock), mut by) in waits {
        by.sort_unstable_by_key(|&(nanos, tenant)| (Reverse(nanos), tenant));
        let sum = by.iter().map(|it| it.0).sum();
        found.push((sum, about_wait(thread, holds_lock, &by, names)));
    }
    for (nanos, matter) in rest {
        found.extend(about(&matter, (frame.from, frame.to), names).map(|text| (nanos, text)));
    }
    let matters = |nanos: u64| nanos > 0 && nanos.saturating_mul(SHARE) >= length;
    found.retain(|it| matters(it.0));
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    // Proposals for what to record follow proposals for what to do.
    futexes.sort_unstable_by_key(|&(nanos, thread)| (Reverse(nanos), thread));
    let longest = futexes.first().filter(|it| matters(it.0));
    found.extend(longest.map(|&(nanos, thread)| (nanos, about_futex(thread, names))));
    found.truncate(MOST);
    found.into_iter().map(|it| it.1).collect()
}

fn about_wait(thread: Index, holds_lock: bool, by: &[(u64, OnCpu)], names: &Names<'_>) -> String {
    let who = name_and_id(&names.who(thread));
    let threads: Vec<String> = by
        .iter()
        .filter_map(|it| match it.1 {
            OnCpu::Thread(thread) => Some(name_and_id(&names.who(thread))),
            _ => None,
        })
        .take(MOST_NAMED)
        .collect();
    match by.first().map(|it| it.1) {
        Some(OnCpu::Idle) => format!(
            "{who} waited for a CPU that was idle: look at its affinity and at deep idle states"
        ),
        Some(OnCpu::Thread(_)) if holds_lock => format!(
            "{who} made others wait while it was waiting itself: if they share a lock, use one that inherits priority (PTHREAD_PRIO_INHERIT); or give {who} a priority above {}, or keep them off its CPU",
            list(&threads)
        ),
        Some(OnCpu::Thread(first)) if names.stand_in(first).is_some() => format!(
            "{who} waited for a CPU while {} ran, which your recording does not name: the machine's administrator can \
             give {who} a higher priority, its cgroup a larger cpu.weight, or it another CPU",
            list(&threads)
        ),
        Some(OnCpu::Thread(first)) => about_cgroups(thread, first, by, names).unwrap_or_else(|| {
            format!(
                "give {who} a higher priority than {} (nice, chrt -f), or another CPU (taskset)",
                list(&threads)
            )
        }),
        Some(OnCpu::OutOfScope) => format!(
            "{who} waited for a CPU, and the recording does not have every thread that ran on it: record the whole \
             machine (without --scope, -p and --cgroup)"
        ),
        _ => format!(
            "{who} waited for a CPU, and the file does not show what ran on it: record the whole machine"
        ),
    }
}

/// The proposal for a thread that waited while threads of another cgroup had its CPU, `first` for the longest time; `None` if nice values
/// may help.
fn about_cgroups(
    thread: Index,
    first: Index,
    by: &[(u64, OnCpu)],
    names: &Names<'_>,
) -> Option<String> {
    let (own, other) = (names.cgroup_of(thread)?, names.cgroup_of(first)?);
    let weighed = below_common(own, other)?;
    let threads: Vec<String> = by
        .iter()
        .filter_map(|it| match it.1 {
            OnCpu::Thread(it) if names.cgroup_of(it) == Some(other) => {
                Some(name_and_id(&names.who(it)))
            }
            _ => None,
        })
        .take(MOST_NAMED)
        .collect();
    let line = fxtrec_units::escape::line;
    Some(format!(
        "{} {} in the cgroup {}, {} in {}, and nice counts only within a cgroup that has a cpu.weight: raise that of \
         {} (v1: cpu.shares), or use chrt -f or another CPU (taskset)",
        list(&threads),
        if threads.len() == 1 { "was" } else { "were" },
        line(other),
        name_and_id(&names.who(thread)),
        line(own),
        line(weighed)
    ))
}

/// The ancestor of cgroup `path`, or itself, that is a sibling of `other`, of an ancestor of `other`, or of the threads in `other`; `None`
/// if `other` is the same cgroup or below.
fn below_common<'a>(path: &'a str, other: &str) -> Option<&'a str> {
    let mut others = other.split('/').filter(|it| !it.is_empty());
    let mut end = 0;
    for part in path.split('/').filter(|it| !it.is_empty()) {
        end += 1 + part.len();
        if others.next() != Some(part) {
            return path.get(..end);
        }
    }
    None
}

fn about_futex(thread: Index, names: &Names<'_>) -> String {
    let has_stacks = names.has_stacks_of(thread);
    let stacks = if has_stacks { "" } else { "; with --stacks, where in its code" };
    format!(
        "record with --locks to see which futex {} waited for and, if it is a lock, who held it{stacks}",
        name_and_id(&names.who(thread))
    )
}

fn about(matter: &Matter, (from, to): (u64, u64), names: &Names<'_>) -> Option<String> {
    let who = |thread: &Index| name_and_id(&names.who(*thread));
    Some(match matter {
        Matter::Waited { .. } | Matter::Futex { .. } => return None,
        Matter::Throttled { cgroup } => {
            let of = cgroup.and_then(|cgroup| names.cgroup(cgroup));
            let of = of
                .map_or_else(String::new, |of| format!(" of {}", fxtrec_units::escape::line(&of)));
            format!("raise the quota{of} (cpu.max, or cpu.cfs_quota_us), or do less in each period")
        }
        Matter::Ran { thread } => {
            let how = match names.has_samples() {
                true => "fxtrec flame --cpu shows in which functions",
                false => "record with --stacks=cpu to see in which functions",
            };
            format!("{} was running: {how}", who(thread))
        }
        Matter::Stolen => {
            "the host of this virtual machine ran something else: give the virtual machine dedicated CPUs"
                .to_owned()
        }
        Matter::Interrupts => {
            "move interrupts to another CPU (/proc/irq/N/smp_affinity); --irq records which"
                .to_owned()
        }
        Matter::Slept { thread } => {
            format!("{} slept until its own timer expired: look at its timers", who(thread))
        }
        Matter::Blocked { thread, class: Class::Disk } => {
            let record = match names.tracker.origin.causes.has(Cause::Requests) {
                true => "",
                false => " record its requests with -e 'block:*', and",
            };
            format!("{} waited for a disk:{record} look which other programs use it", who(thread))
        }
        Matter::Blocked { thread, class: Class::Network | Class::Socket } => {
            // The trace may have the peer.
            let peer = match names.who(*thread).host {
                Some(_) => format!(
                    "see what it did then, with --thread NAME@HOST --from {} --to {}",
                    Nanos(from),
                    Nanos(to)
                ),
                None => "look at the sender or receiver".to_owned(),
            };
            format!("{} waited for a socket; the peer was late: {peer}", who(thread))
        }
        Matter::Blocked { thread, class: Class::Io } => format!(
            "{} waited for input or output: record what it waited for with --syscalls and -e 'block:*'{}",
            who(thread),
            if names.has_stacks_of(*thread) { "" } else { ", and where with --stacks" }
        ),
        Matter::Blocked { thread, class: Class::Poll } => {
            format!("{} waited for an event, and its sender was late", who(thread))
        }
        // Such a recording cannot have system calls.
        Matter::Blocked { thread, .. } if names.has_stand_ins() => {
            if names.has_stacks_of(*thread) {
                return None;
            }
            format!("record with --stacks to see where in its code {} waited", who(thread))
        }
        Matter::Blocked { thread, .. } => {
            format!("record with --syscalls to see what {} waited for", who(thread))
        }
        Matter::WokenByUnknown { thread } => {
            format!("record with --source bpf or --waking to see who woke {}", who(thread))
        }
        Matter::Unknown(Reason::Lost) => {
            "events were lost: record with a larger --ring-size".to_owned()
        }
        Matter::Unknown(Reason::OutOfScope) => {
            "record the whole machine (without --scope, -p and --cgroup)".to_owned()
        }
        Matter::Unknown(Reason::NotKept | Reason::NotFollowed) => {
            "choose a shorter interval with --from and --to".to_owned()
        }
        Matter::Unknown(_) => return None,
    })
}

/// Findings that a better recording could explain further.
#[derive(Debug, Default)]
struct Seen {
    ran: bool,
    waited: bool,
    blocked: bool,
    woken_by_unknown: bool,
    lost: bool,
}

fn look(frame: &Frame, seen: &mut Seen) {
    for step in &frame.steps {
        match &step.what {
            What::Ran { .. } => seen.ran = true,
            What::Waited { woken, .. } => {
                seen.waited = true;
                seen.woken_by_unknown |= *woken == Some(By::Unknown) && step.from > frame.from;
            }
            What::Blocked(Blocked { ended, inside, .. }) => {
                seen.blocked = true;
                seen.woken_by_unknown |= *ended == Ended::Woken(By::Unknown);
                if let Some(inside) = inside {
                    look(inside, seen);
                }
            }
            What::Unknown(reason) => seen.lost |= *reason == Reason::Lost,
            What::Throttled { .. } | What::Underway | What::Packet | What::Request(..) => {}
        }
    }
}

/// Facts that are relevant here but missing in the recording.
pub(crate) fn missing(frame: &Frame, names: &Names<'_>) -> Vec<String> {
    let origin = &names.tracker.origin;
    let mut seen = Seen::default();
    look(frame, &mut seen);
    let lacks = |cause: Cause| !origin.causes.has(cause);
    let mut missing = Vec::new();
    let mut add = |lacks: bool, text: &str| {
        if lacks {
            missing.push(text.to_owned());
        }
    };
    add(seen.blocked && lacks(Cause::Syscall), "in which system call threads were blocked");
    add(
        seen.woken_by_unknown && lacks(Cause::Waker),
        "who woke a thread from another CPU or from an interrupt",
    );
    add(seen.ran && lacks(Cause::Steal), "time that the host took from slices");
    add(seen.ran && lacks(Cause::Irq), "time that interrupts took from slices");
    add(seen.waited && lacks(Cause::Throttled), "whether a quota held threads back");
    add(seen.waited && lacks(Cause::Migrate), "moves between queues");
    add(seen.lost, "events that were lost");
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_compete_below_their_common_ancestor() {
        assert_eq!(below_common("/a/b/c", "/a/x"), Some("/a/b"));
        assert_eq!(below_common("/a/b", "/a"), Some("/a/b"));
        assert_eq!(below_common("/web", "/"), Some("/web"));
        assert_eq!(below_common("/ab", "/a"), Some("/ab"));
        for (path, other) in [("/a", "/a"), ("/", "/a"), ("/a", "/a/b"), ("/", "/")] {
            assert_eq!(below_common(path, other), None, "{path} {other}");
        }
    }
}
