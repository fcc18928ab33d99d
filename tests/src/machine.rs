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
//! Shared turns and the others alternate: shared ones go on until so few tests share the machine that they no longer fill it, since most
//! threads for tests wait for a quiet machine; then it is quiet until no test waits for that. The processing of a recording needs no quiet
//! machine: a test [gives the turn back](Turn::give_back) as soon as the recording has ended, and goes on with the next shared turns.
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

/// Tests that share the machine, or are ready to, when the others get it.
const FEW: usize = TOGETHER / 2;

#[derive(Debug)]
struct Turns {
    shared: usize,
    wants_shared: usize,
    /// Out of [`QUIET`] places; a test that runs alone uses all of them.
    quiet: usize,
    wants_quiet: usize,
    /// Whether quiet turns may begin, or else shared ones.
    is_for_quiet: bool,
}

impl Turns {
    const NONE: Turns =
        Turns { shared: 0, wants_shared: 0, quiet: 0, wants_quiet: 0, is_for_quiet: false };

    fn may_share(&self) -> bool {
        !self.is_for_quiet && self.quiet == 0 && self.shared < TOGETHER
    }

    fn may_be_quiet(&self, places: usize) -> bool {
        self.is_for_quiet && self.shared == 0 && self.quiet + places <= QUIET
    }

    /// Decides which turns may begin, after a change.
    fn decide(&mut self) {
        self.is_for_quiet =
            self.wants_quiet > 0 && (self.is_for_quiet || self.shared + self.wants_shared < FEW);
    }
}

static TURNS: Mutex<Turns> = Mutex::new(Turns::NONE);
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

fn change(mut turns: MutexGuard<'_, Turns>, change: impl FnOnce(&mut Turns)) {
    change(&mut turns);
    turns.decide();
    drop(turns);
    CHANGED.notify_all();
}

/// Waits until `ready`.
fn once(ready: impl Fn(&Turns) -> bool) -> MutexGuard<'static, Turns> {
    CHANGED.wait_while(turns(), |turns| !ready(turns)).unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Shared;

impl Shared {
    fn new() -> Shared {
        change(turns(), |turns| turns.wants_shared += 1);
        change(once(Turns::may_share), |turns| {
            turns.wants_shared -= 1;
            turns.shared += 1;
        });
        Shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        change(turns(), |turns| turns.shared -= 1);
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
        change(turns(), |turns| turns.wants_quiet += 1);
        change(once(|turns| turns.may_be_quiet(places)), |turns| {
            turns.wants_quiet -= 1;
            turns.quiet += places;
        });
        Turn { places, of_thread: PhantomData }
    }

    /// Lets others continue, first those that wait for a quiet machine, and then shares the machine with them.
    pub fn give_back(self) {
        drop(self);
        MINE.set(Mine::Shared(Shared::new()));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        MINE.set(Mine::None);
        change(turns(), |turns| turns.quiet -= self.places);
    }
}

/// Waits until no test has a turn, and lets none begin in the meantime: for tests of durations, of losses, of the
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_turns_go_on_while_they_fill_the_machine_and_quiet_ones_until_none_waits() {
        let mut turns = Turns { shared: 2, wants_shared: 1, wants_quiet: 2, ..Turns::NONE };
        turns.decide();
        assert!(turns.may_share() && !turns.may_be_quiet(1), "{turns:?}");
        // One of those that share is over, and the next test on its thread wants a quiet machine.
        (turns.shared, turns.wants_quiet) = (1, 3);
        turns.decide();
        assert!(!turns.may_share() && !turns.may_be_quiet(1), "the other one goes on: {turns:?}");
        (turns.shared, turns.wants_shared) = (0, 8);
        turns.decide();
        assert!(!turns.may_share() && turns.may_be_quiet(QUIET), "{turns:?}");
        (turns.quiet, turns.wants_quiet) = (QUIET - 1, 1);
        turns.decide();
        assert!(!turns.may_share() && turns.may_be_quiet(1) && !turns.may_be_quiet(2));
        (turns.quiet, turns.wants_quiet) = (QUIET, 0);
        turns.decide();
        assert!(!turns.may_share() && !turns.may_be_quiet(1), "{turns:?}");
        turns.quiet = 0;
        turns.decide();
        assert!(turns.may_share() && !turns.may_be_quiet(1), "{turns:?}");
    }
}
