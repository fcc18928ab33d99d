//! The parts of an interval's time.

use std::collections::HashMap;

use fxtrec_sched::State;

use crate::Class;
use crate::chain::{Blocked, Ended, Frame, What};
use crate::log::Taken;
use crate::origins::Origin;
use crate::threads::Index;
use crate::track::{By, OnCpu, Reason};

/// What distinguishes parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    OnCpu,
    Stolen,
    Interrupts,
    OnCpuUndivided,
    Waiting(OnCpu),
    Throttled(Option<u32>),
    Blocked { class: Class, syscall: Option<u64>, ended: Option<EndedBy>, uninterruptible: bool },
    Underway,
    Packet,
    Request,
    Unknown(Reason),
}

/// The waker of a thread, in the detail in which parts distinguish wakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndedBy {
    Thread(Index),
    Interrupt(Origin),
    Unknown,
}

impl EndedBy {
    /// `None` if it continues beyond the interval.
    pub fn of(ended: Ended) -> Option<EndedBy> {
        match ended {
            Ended::NotYet => None,
            Ended::Woken(By::Thread(thread)) => Some(EndedBy::Thread(thread)),
            Ended::Woken(By::Interrupt(origin)) => Some(EndedBy::Interrupt(origin)),
            Ended::Woken(By::Unknown) => Some(EndedBy::Unknown),
        }
    }
}

/// How it ended, as in JSON; `None` if it has not.
pub fn ended_by(ended: Option<EndedBy>) -> &'static str {
    match ended {
        None => "not_yet",
        Some(EndedBy::Thread(_)) => "thread",
        Some(EndedBy::Interrupt(_)) => "interrupt",
        Some(EndedBy::Unknown) => "unknown",
    }
}

/// Divides the time that a thread had a CPU: its own, stolen, in interrupts.
pub fn divide(length: u64, taken: Taken) -> (u64, u64, u64) {
    let stolen = taken.steal.min(length);
    let irq = taken.irq.min(length - stolen);
    (length - stolen - irq, stolen, irq)
}

/// The parts of a thread's own time, the longest first: the length and number of stretches of each. `class` is what a blocked thread waits
/// for.
pub fn sums(frame: &Frame, class: impl Fn(&Blocked) -> Class) -> Vec<(Key, (u64, u64))> {
    let mut sums: HashMap<Key, (u64, u64)> = HashMap::new();
    let mut add = |key: Key, ns: u64| {
        if ns > 0 {
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + ns, sum.1 + 1);
        }
    };
    for step in &frame.steps {
        let length = step.length();
        match &step.what {
            What::Ran { taken: Some(taken), .. } => {
                let (own, stolen, irq) = divide(length, *taken);
                add(Key::OnCpu, own);
                add(Key::Stolen, stolen);
                add(Key::Interrupts, irq);
            }
            What::Ran { taken: None, all_taken, .. } => {
                // At most this much was taken from it; the rest is the thread's own time on the CPU.
                let taken = length.min(*all_taken);
                add(Key::OnCpu, length - taken);
                add(Key::OnCpuUndivided, taken);
            }
            What::Waited { shares, .. } => {
                shares.iter().for_each(|&(on_cpu, ns)| add(Key::Waiting(on_cpu), ns));
            }
            What::Throttled { cgroup } => add(Key::Throttled(*cgroup), length),
            What::Blocked(blocked) => {
                let class = class(blocked);
                let uninterruptible = blocked.state == State::Uninterruptible;
                let (syscall, ended) = (blocked.syscall, EndedBy::of(blocked.ended));
                add(Key::Blocked { class, syscall, ended, uninterruptible }, length);
            }
            What::Underway => add(Key::Underway, length),
            What::Packet => add(Key::Packet, length),
            What::Request(..) => add(Key::Request, length),
            What::Unknown(reason) => add(Key::Unknown(*reason), length),
        }
    }
    let mut sums: Vec<(Key, (u64, u64))> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(&b.0)));
    sums
}
