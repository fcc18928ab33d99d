//! Whose turn it is to record: each recording sees the whole machine, the recordings of other tests included.
//!
//! Cargo runs one test program after the other, so turns are those of one process. Each test that asks [`may_record`] has a turn that it
//! shares with others; one that counts what the whole machine does takes it [`alone`]. Those wait until no other test wants a shared
//! turn: then several of them run in a row, and the machine falls quiet once for all of them. What a test does with its recording needs
//! no quiet machine, so it [gives the turn back](Alone::give_back) as soon as the recording has ended.
//!
//! [`may_record`]: crate::root::may_record

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many tests share the machine at a time. There are more threads for tests (`.cargo/config.toml`), since those that wait to be
/// alone take some.
const TOGETHER: usize = 6;

#[derive(Debug)]
struct Turns {
    shared: usize,
    wants_shared: usize,
    alone: bool,
    wants_alone: usize,
}

static TURNS: Mutex<Turns> =
    Mutex::new(Turns { shared: 0, wants_shared: 0, alone: false, wants_alone: 0 });
static CHANGED: Condvar = Condvar::new();

#[derive(Debug)]
enum Turn {
    None,
    Shared(Shared),
    Alone,
}

thread_local! {
    /// The turn of the test that this thread runs, given back when the thread ends.
    static MINE: RefCell<Turn> = const { RefCell::new(Turn::None) };
}

/// Nothing in here panics while it holds the lock, so poison is of no interest.
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
        let mut turns = once(|turns| !turns.alone && turns.shared < TOGETHER);
        turns.wants_shared -= 1;
        turns.shared += 1;
        Shared
    }

    /// The same for a test that was alone: those that wait for that go first, so that tests that look at their recordings do so at once.
    fn after_others() -> Shared {
        let is_free = |turns: &Turns| !turns.alone && turns.shared < TOGETHER;
        once(|turns| is_free(turns) && turns.wants_alone == 0).shared += 1;
        Shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        turns().shared -= 1;
        CHANGED.notify_all();
    }
}

/// Waits until no other test has the machine for itself. This thread's turn lasts until it ends, or takes one [`alone`].
pub fn share() {
    MINE.with_borrow_mut(|turn| {
        if matches!(turn, Turn::None) {
            *turn = Turn::Shared(Shared::new());
        }
    });
}

/// Held by a test that has the machine for itself. Dropped by the thread that took it.
#[derive(Debug)]
#[must_use = "the turn is over when this is dropped"]
pub struct Alone(PhantomData<*const ()>);

impl Alone {
    /// Lets others go on, those first that wait to be alone, and then shares the machine with them.
    pub fn give_back(self) {
        drop(self);
        let shared = Shared::after_others();
        MINE.set(Turn::Shared(shared));
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        MINE.set(Turn::None);
        turns().alone = false;
        CHANGED.notify_all();
    }
}

/// Waits until no test has a turn or wants a shared one, and lets none begin one meanwhile: for tests that count what the whole machine
/// does, or whose promises hold only while it has time for fxtrec.
pub fn alone() -> Alone {
    // A shared turn that this thread has would keep it waiting.
    MINE.set(Turn::Alone);
    turns().wants_alone += 1;
    let mut turns = once(|turns| !turns.alone && turns.shared + turns.wants_shared == 0);
    turns.wants_alone -= 1;
    turns.alone = true;
    Alone(PhantomData)
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
