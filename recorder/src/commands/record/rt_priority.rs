//! Makes the capture thread a real-time thread under load, within limits.
//!
//! The highest priority of an ordinary thread is not enough: CPU time is divided among sessions and cgroups before threads, and a quota
//! stops all threads in its cgroup. A real-time thread of the lowest priority runs before all ordinary threads, and after every other
//! real-time thread. That has two dangers, each with a limit:
//!
//! - It could monopolize a CPU. In every 100 ms, it is a real-time thread for at most 50 ms of its own CPU time, and an ordinary thread
//!   otherwise. If a thread merges for it, both get the same priority, and share 100 ms.
//! - Other real-time threads could prevent it from running, while the kernel reserves a part of each second for ordinary threads. A watch
//!   thread checks this: if the capture thread has not completed a round for 300 ms, it becomes an ordinary thread for ten seconds, and for
//!   twice as long each further time.
//!
//! ```text
//!   few events        many events ..................................... few events
//!   ordinary   | real time | over budget: ordinary | real time ... 1 s | ordinary
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;

use crate::kernel::clock;
use crate::kernel::priority::{self, ThreadId};
use crate::kernel::sys::Sys;
use crate::units::Nanos;

const MS: u64 = 1_000_000;

/// The window of the budget.
const WINDOW: u64 = 100 * MS;

/// CPU time as a real-time thread in each window.
const BUDGET: u64 = 50 * MS;

/// The number of events in a round that counts as load, and how long the load is assumed to last.
const MANY: u64 = 400;
const BUSY_FOR: u64 = 1000 * MS;

/// The longest time between two rounds: under load it sleeps for at most 100 ms.
const OVERDUE: u64 = 300 * MS;

/// How often the watch thread checks.
const TICK: Duration = Duration::from_millis(100);

/// How long it stays an ordinary thread after it was overdue: the first time, and the maximum.
const BAN: u64 = 10_000 * MS;
const LONGEST_BAN: u64 = 320_000 * MS;

/// Decides in each round whether the capture thread should be a real-time thread; independent of the kernel.
#[derive(Debug)]
struct Decision {
    busy_until: u64,
    window: u64,
    /// CPU time at the start of the window.
    running: u64,
    banned_until: u64,
    next_ban: u64,
}

impl Decision {
    fn new() -> Decision {
        Decision { busy_until: 0, window: 0, running: 0, banned_until: 0, next_ban: BAN }
    }

    /// Whether the thread should be a real-time thread after a round at `now` that yielded `events`, with `running` nanoseconds of CPU time
    /// used so far by this many threads.
    fn after_look(&mut self, now: u64, running: u64, events: u64, threads: u64) -> bool {
        if events >= MANY {
            self.busy_until = now + BUSY_FOR;
        }
        if now.saturating_sub(self.window) >= WINDOW {
            (self.window, self.running) = (now, running);
        }
        let within = running.saturating_sub(self.running) < threads * BUDGET;
        now < self.busy_until && now >= self.banned_until && within
    }

    /// The thread was overdue while it was a real-time thread.
    fn ban(&mut self, now: u64) {
        self.banned_until = now + self.next_ban;
        self.next_ban = (self.next_ban * 2).min(LONGEST_BAN);
    }
}

/// The state that the capture thread and the watch thread share.
#[derive(Debug)]
struct Shared {
    sys: Box<dyn Sys + Send + Sync>,
    thread: ThreadId,
    /// The thread that merges for it, if there is one.
    helper: OnceLock<ThreadId>,
    looked: AtomicU64,
    real_time: AtomicBool,
    overdue: AtomicBool,
    over: AtomicBool,
}

impl Shared {
    fn make_real_time(&self) -> Result<(), Errno> {
        self.thread.make_real_time(&*self.sys)?;
        let Some(helper) = self.helper.get() else { return Ok(()) };
        helper.make_real_time(&*self.sys).inspect_err(|_| self.make_ordinary())
    }

    fn make_ordinary(&self) {
        for thread in std::iter::once(&self.thread).chain(self.helper.get()) {
            // Lowering a priority is always permitted.
            let _ = thread.make_ordinary(&*self.sys);
        }
    }
}

/// The part that runs in the capture thread.
#[derive(Debug)]
pub(super) struct RtPriority {
    shared: Arc<Shared>,
    decision: Decision,
    watch: OnceLock<Option<JoinHandle<()>>>,
    /// The kernel's error; after an error, there are no more attempts.
    refused: Option<Errno>,
}

impl RtPriority {
    /// For the calling thread, which must still be an ordinary thread.
    pub(super) fn new(sys: Box<dyn Sys + Send + Sync>) -> RtPriority {
        let shared = Shared {
            sys,
            thread: ThreadId::current(),
            helper: OnceLock::new(),
            looked: AtomicU64::new(0),
            real_time: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        let decision = Decision::new();
        RtPriority { shared: Arc::new(shared), decision, watch: OnceLock::new(), refused: None }
    }

    /// The error with which the kernel refused to make it a real-time thread, if it did.
    pub(super) fn refused(&self) -> Option<Errno> {
        self.refused
    }

    /// Must be called after each round, with the number of its events, and the CPU time so far of this thread and of the merging thread, if
    /// any.
    pub(super) fn after_look(
        &mut self,
        now: Nanos,
        running: u64,
        events: u64,
        helper: Option<ThreadId>,
    ) {
        // Relaxed, here and below: each word is an independent figure or flag, and a delay of a tick does no harm.
        self.shared.looked.store(now.0, Ordering::Relaxed);
        if self.shared.overdue.swap(false, Ordering::Relaxed) {
            self.decision.ban(now.0);
        }
        let threads = 1 + u64::from(helper.is_some());
        let wanted =
            self.decision.after_look(now.0, running, events, threads) && self.refused.is_none();
        let is_new = helper.is_some_and(|helper| self.shared.helper.set(helper).is_ok());
        if wanted == self.shared.real_time.load(Ordering::Relaxed) && !(wanted && is_new) {
            return;
        }
        if !wanted {
            self.shared.real_time.store(false, Ordering::Relaxed);
            self.shared.make_ordinary();
            return;
        }
        // Without a watch thread, real-time priority is too dangerous.
        let Some(watch) = self.watch.get_or_init(|| start_watch(&self.shared)) else { return };
        match self.shared.make_real_time() {
            Ok(()) => {
                self.shared.real_time.store(true, Ordering::Relaxed);
                watch.thread().unpark();
            }
            Err(errno) => self.refused = Some(errno),
        }
    }
}

impl Drop for RtPriority {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if self.shared.real_time.load(Ordering::Relaxed) {
            self.shared.make_ordinary();
        }
        if let Some(Some(watch)) = self.watch.take() {
            watch.thread().unpark();
            // It returns nothing.
            let _ = watch.join();
        }
    }
}

/// Starts the thread that watches the capture thread while the capture thread is a real-time thread.
fn start_watch(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let shared = shared.clone();
    let watch = move || {
        priority::raise();
        while !shared.over.load(Ordering::Relaxed) {
            if !shared.real_time.load(Ordering::Relaxed) {
                std::thread::park();
                continue;
            }
            std::thread::park_timeout(TICK);
            let since = clock::now().0.saturating_sub(shared.looked.load(Ordering::Relaxed));
            if since >= OVERDUE && shared.real_time.load(Ordering::Relaxed) {
                shared.overdue.store(true, Ordering::Relaxed);
                shared.real_time.store(false, Ordering::Relaxed);
                shared.make_ordinary();
            }
        }
    };
    std::thread::Builder::new().name("fxtrec-watch".to_owned()).spawn(watch).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::Fake;
    use crate::kernel::sys::Linux;

    #[test]
    fn it_is_a_real_time_thread_while_much_happens_and_for_a_second_after() {
        let mut decision = Decision::new();
        assert!(!decision.after_look(100 * MS, 0, MANY - 1, 1));
        assert!(decision.after_look(200 * MS, 0, MANY, 1));
        assert!(decision.after_look(1199 * MS, 0, 0, 1));
        assert!(!decision.after_look(1200 * MS, 0, 0, 1));
    }

    #[test]
    fn over_budget_it_is_ordinary_until_the_window_ends() {
        let mut decision = Decision::new();
        assert!(decision.after_look(1000 * MS, 0, MANY, 1));
        assert!(decision.after_look(1049 * MS, 49 * MS, MANY, 1));
        assert!(!decision.after_look(1050 * MS, 50 * MS, MANY, 1));
        assert!(!decision.after_look(1099 * MS, 60 * MS, MANY, 1));
        assert!(decision.after_look(1100 * MS, 60 * MS, MANY, 1));
    }

    #[test]
    fn two_threads_have_two_budgets_and_the_same_priority() {
        let mut decision = Decision::new();
        assert!(decision.after_look(1000 * MS, 0, MANY, 2));
        assert!(decision.after_look(1050 * MS, 99 * MS, MANY, 2));
        assert!(!decision.after_look(1060 * MS, 100 * MS, MANY, 2));
        let machine = Fake::default();
        let mut precedence = RtPriority::new(Box::new(machine.clone()));
        precedence.after_look(Nanos(1000 * MS), 0, MANY, None);
        let helper = Some(ThreadId::current());
        precedence.after_look(Nanos(1001 * MS), 0, MANY, helper);
        precedence.after_look(Nanos(1002 * MS), 0, MANY, helper);
        assert_eq!(machine.asked(), ["schedule 1 1"; 3], "when it came, both were raised");
        precedence.after_look(Nanos(5000 * MS), 0, 0, helper);
        assert_eq!(machine.asked()[3..], ["schedule 0 0"; 2]);
    }

    #[test]
    fn overdue_it_is_ordinary_for_longer_each_time() {
        let mut decision = Decision::new();
        let mut now = 1000 * MS;
        for ban in [BAN, 2 * BAN, 4 * BAN] {
            assert!(decision.after_look(now, 0, MANY, 1));
            decision.ban(now);
            assert!(!decision.after_look(now + ban - 1, 0, MANY, 1));
            now += ban;
        }
        (0..10).for_each(|_| decision.ban(now));
        assert!(decision.after_look(now + LONGEST_BAN, 0, MANY, 1));
    }

    #[test]
    fn a_refusal_is_remembered_and_not_asked_for_again() {
        let machine = Fake::default().fail("schedule", libc::EPERM);
        let mut precedence = RtPriority::new(Box::new(machine.clone()));
        precedence.after_look(Nanos(100 * MS), 0, 1, None);
        assert_eq!((precedence.refused(), machine.asked().len()), (None, 0));
        for look in 2..10 {
            precedence.after_look(Nanos(look * 100 * MS), 0, MANY, None);
        }
        assert_eq!(precedence.refused(), Some(Errno::EPERM));
        assert_eq!(machine.asked(), ["schedule 1 1"]);
    }

    #[test]
    fn one_that_does_not_come_round_is_made_ordinary_by_the_watch() {
        let mut precedence = RtPriority::new(Box::new(Linux));
        precedence.after_look(clock::now(), 0, MANY, None);
        if precedence.refused().is_some() {
            // The kernel does not permit it here; the end-to-end tests need the permission anyway.
            return;
        }
        let shared = precedence.shared.clone();
        assert!(shared.real_time.load(Ordering::Relaxed));
        let begun = std::time::Instant::now();
        while shared.real_time.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the watch does not look");
            std::thread::sleep(Duration::from_millis(10));
        }
        precedence.after_look(clock::now(), 0, MANY, None);
        assert!(!shared.real_time.load(Ordering::Relaxed), "banned for ten seconds");
    }
}
