//! Whose turn it is to record: each recording sees the whole machine, including the recordings of other tests.
//!
//! Cargo runs one test program after the other, so turns are managed within one process. There are three kinds:
//!
//! | turn | taken by | at a time |
//! | --- | --- | --- |
//! | shared | [`may_record`], by every test that records | [`TOGETHER`] |
//! | [quiet] | tests that compare a recording with what the kernel counted: the recorder must keep up, whatever else is recorded | [`QUIET`] |
//! | [alone] | tests of durations, of losses, and of what the whole machine does | one |
//!
//! While one kind has a turn, the other kinds wait: shared turns are first, followed by quiet ones, so the machine is quiet once for all
//! tests that need it. The processing of a recording needs no quiet machine: a test [gives the turn back](Turn::give_back) as soon as the
//! recording has ended.
//!
//! [`may_record`]: crate::root::may_record

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many tests share the machine at a time. There are more threads for tests (`.cargo/config.toml`), since those that wait for a quiet
/// machine occupy some.
pub const TOGETHER: usize = 6;

/// How many tests at a time may use the machine without tests that share it.
pub const QUIET: usize = 3;

#[derive(Debug)]
struct Turns {
    shared: usize,
    wants_shared: usize,
    /// Out of [`QUIET`] places; a test that runs alone uses all of them.
    quiet: usize,
    wants_quiet: usize,
}

static TURNS: Mutex<Turns> =
    Mutex::new(Turns { shared: 0, wants_shared: 0, quiet: 0, wants_quiet: 0 });
static CHANGED: Condvar = Condvar::new();

#[derive(Debug)]
enum Mine {
    None,
    Shared(Shared),
    Quiet,
}

thread_local! {
    /// The turn of the test on this thread, given back when the thread ends.
    static MINE: RefCell<Mine> = const { RefCell::new(Mine::None) };
}

/// No code panics here while it holds the lock, so poisoning does not matter.
fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `ready`.
fn once(ready: impl Fn(&Turns) -> bool) -> MutexGuard<'static, Turns> {
    CHANGED.wait_while(turns(), |turns| !ready(turns)).unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Shared;

impl Shared {
    fn new() -> Shared {
        turns().wants_shared += 1;
        let mut turns = once(|turns| turns.quiet == 0 && turns.shared < TOGETHER);
        turns.wants_shared -= 1;
        turns.shared += 1;
        Shared
    }

    /// The same for a test that had a quiet machine: tests that wait for one are first, so that all tests that process their recordings do
    /// so at the same time.
    fn after_others() -> Shared {
        let is_free = |turns: &Turns| turns.quiet == 0 && turns.shared < TOGETHER;
        once(|turns| is_free(turns) && turns.wants_quiet == 0).shared += 1;
        Shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        turns().shared -= 1;
        CHANGED.notify_all();
    }
}

/// Waits until no other test has the machine for itself. This thread's turn lasts until it ends, or takes another one.
pub fn share() {
    MINE.with_borrow_mut(|turn| {
        if matches!(turn, Mine::None) {
            *turn = Mine::Shared(Shared::new());
        }
    });
}

/// Held by a test that has a quiet machine. Dropped by the thread that acquired it.
#[derive(Debug)]
#[must_use = "the turn is over when this is dropped"]
pub struct Turn {
    places: usize,
    of_thread: PhantomData<*const ()>,
}

impl Turn {
    fn take(places: usize) -> Turn {
        // If this thread held a shared turn, it would wait forever.
        MINE.set(Mine::Quiet);
        turns().wants_quiet += 1;
        let is_free = |turns: &Turns| turns.quiet + places <= QUIET;
        let mut turns = once(|turns| is_free(turns) && turns.shared + turns.wants_shared == 0);
        turns.wants_quiet -= 1;
        turns.quiet += places;
        Turn { places, of_thread: PhantomData }
    }

    /// Lets others continue, first those that wait for a quiet machine, and then shares the machine with them.
    pub fn give_back(self) {
        drop(self);
        let shared = Shared::after_others();
        MINE.set(Mine::Shared(shared));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        MINE.set(Mine::None);
        turns().quiet -= self.places;
        CHANGED.notify_all();
    }
}

/// Waits until no test has a turn or requests a shared one, and lets none begin in the meantime: for tests of durations, of losses, of the
/// behaviour of the whole machine, and of unique resources, such as a CPU that goes offline.
pub fn alone() -> Turn {
    Turn::take(QUIET)
}

/// The same, next to a few others of this kind: for tests whose recording must be complete, whatever its size.
pub fn quiet() -> Turn {
    Turn::take(1)
}

/// The release of the running kernel, its first two numbers.
///
/// # Panics
/// When it has none.
pub fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).expect("a number");
    (next(), next())
}
