//! The rolling lane: how a writer gets room for a record.

use std::time::{Duration, Instant};

use super::Engine;
use super::config::{Full, Mode, OnFull};
use super::guard::Guard;
use super::memory::{Batch, Reservation, RollingSlot};
use super::position::Position;
use super::state::State;
use super::sync::Ordering;
use crate::layout::limits::MAX_RECORD_WORDS;
use crate::space::Space;

/// The lane for records that may be dropped.
#[derive(Clone, Copy, Debug)]
pub struct Rolling<'e> {
    pub(super) engine: &'e Engine,
    counted: bool,
}

/// How often a writer that waits for a reader in another process checks whether the reader has finished.
const HELD_POLL: Duration = Duration::from_millis(1);

impl<'e> Rolling<'e> {
    pub(super) const fn new(engine: &'e Engine) -> Self {
        Self { engine, counted: true }
    }

    /// This lane, for records that the caller keeps if there is no space and writes again later: they do not count as dropped.
    #[must_use]
    pub const fn uncounted(self) -> Self {
        Self { counted: false, ..self }
    }

    /// Room for a run of records of this thread, at a fraction of the cost; see
    /// [`Batch`].
    pub const fn batch(&self) -> Batch<&'e Engine> {
        Batch::new(self.engine)
    }
}

impl<'e> Space for Rolling<'e> {
    type Full = Full;
    type Slot<'a>
        = RollingSlot<'e>
    where
        Self: 'a;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<RollingSlot<'e>, Full> {
        self.engine.reserve_rolling(words, self.counted)
    }
}

impl Engine {
    #[inline]
    pub(super) fn reserve_rolling(
        &self,
        words: usize,
        counted: bool,
    ) -> Result<RollingSlot<'_>, Full> {
        if words == 0 || words > MAX_RECORD_WORDS {
            return Err(self.too_large(words, counted));
        }
        match self.try_reserve(words) {
            Ok(slot) => Ok(slot),
            // Relaxed: a stale value costs one check under the lock, or one more dropped record.
            Err(position) if self.hot.full_at.load(Ordering::Relaxed) == position.0 => {
                Err(self.drop_one(counted))
            }
            Err(_) => self.reserve_slow(words, counted),
        }
    }

    /// Room in the current buffer, or the position at which there was none.
    ///
    /// Limit and count are loaded before the swap, yet belong to the lap
    /// whose position is swapped. They are stored (release) before the position that opens the lap, and that position was loaded first
    /// here (acquire), so they belong to this lap or a later one. Later is impossible: they are stored again only after the position
    /// has moved on, by a swap that acquires what our swap releases, so that our loads happen before those stores.
    #[inline]
    pub(super) fn try_reserve(&self, words: usize) -> Result<RollingSlot<'_>, Position> {
        let mut position = self.position();
        loop {
            let part = position.part();
            let limit = self.hot.limit[part].load(Ordering::Relaxed);
            let counter = self.hot.counter[part].load(Ordering::Relaxed);
            let at = position.open_offset();
            if at + words > limit {
                return Err(position);
            }
            let after = position.advanced(words);
            match self.hot.position.compare_exchange_weak(
                position.0,
                after.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let start = self.division.rolling_base(part) + at;
                    let reservation = Reservation { start, words, counter, after };
                    return Ok(RollingSlot::claim(self, reservation));
                }
                Err(now) => position = Position(now),
            }
        }
    }

    /// The slow path, for a full buffer or a stopped engine: switch, wait or
    /// drop.
    #[cold]
    #[inline(never)]
    fn reserve_slow(&self, words: usize, counted: bool) -> Result<RollingSlot<'_>, Full> {
        if words > self.division.rolling {
            return Err(self.too_large(words, counted));
        }
        let mut wait = Wait::new(self.config.on_full, counted);
        let mut state = self.lock();
        loop {
            if !state.running {
                return Err(Full::Stopped);
            }
            let position = match self.try_reserve(words) {
                Ok(slot) => return Ok(slot),
                Err(position) => position,
            };
            let empty = position.offset() == state.parts[position.part()].start;
            if self.config.mode == Mode::Oneshot || empty {
                // Either no space will become free, or the buffer is empty but too small because of the fences of abandoned writers.
                if !empty {
                    self.drop_others_at(&state, position);
                }
                return Err(self.drop_one(counted));
            }
            // It is loaded once, so that all decisions below agree.
            let held = self.is_held();
            if !held && self.other_is_ready(&state, position) {
                self.switch(&mut state, position);
                continue;
            }
            if !held {
                self.drop_others_at(&state, position);
            }
            wait.polls = held;
            state = self.wait_or_drop(state, &mut wait)?;
        }
    }

    /// Waits for room, or drops the record, according to the policy.
    pub(super) fn wait_or_drop<'a>(
        &'a self,
        mut state: Guard<'a>,
        wait: &mut Wait,
    ) -> Result<Guard<'a>, Full> {
        if self.expire_stragglers(&mut state) {
            return Ok(state);
        }
        let Some(patience) = wait.patience() else {
            return Err(self.drop_one(wait.counted));
        };
        let until_expiry = self.until_expiry(&state);
        let since = Instant::now();
        let polls = wait.polls.then_some(HELD_POLL);
        let state = state.wait([patience, until_expiry, polls].into_iter().flatten().min());
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: a counter, which orders nothing.
        self.waited.fetch_add(nanos, Ordering::Relaxed);
        Ok(state)
    }

    /// If the policy is to drop, writers that find no space at `position` drop their records without taking the lock, so that many such
    /// threads do not wait for each other. When threads that wait for space are woken, this is reset, under the lock. This does not apply
    /// while a late writer delays a buffer, because other writers must then check its grace period.
    fn drop_others_at(&self, state: &State, position: Position) {
        if self.config.on_full == OnFull::Drop && state.oldest_seal().is_none() {
            self.hot.full_at.store(position.0, Ordering::Relaxed);
        }
    }

    /// Whether another process is copying the buffers of circular mode, so that none may be reused. The reader does not notify waiting or
    /// dropping writers when it releases them, so both must check again.
    fn is_held(&self) -> bool {
        self.config.mode == Mode::Circular && self.header_words().is_held()
    }

    /// Clears the mark that there is no room.
    pub(super) fn is_not_full(&self) {
        self.hot.full_at.store(Position::NOWHERE.0, Ordering::Relaxed);
    }

    pub(super) fn drop_one(&self, counted: bool) -> Full {
        if counted {
            self.header_words().drop_records(1);
        }
        Full::Dropped
    }

    #[cold]
    pub(super) fn too_large(&self, words: usize, counted: bool) -> Full {
        if counted {
            self.header_words().drop_records(1);
        }
        Full::TooLarge { words, max: self.max_record_words() }
    }
}

/// The remaining waiting time of one writer; the clock starts at the first wait.
#[derive(Debug)]
pub(super) struct Wait {
    policy: OnFull,
    deadline: Option<Instant>,
    /// Whether the record counts as dropped if there is no reason to wait.
    counted: bool,
    /// Whether room may become free without a wakeup.
    polls: bool,
}

impl Wait {
    pub(super) const fn new(policy: OnFull, counted: bool) -> Self {
        Self { policy, deadline: None, counted, polls: false }
    }

    /// `None` to stop waiting, `Some(None)` to wait without limit.
    fn patience(&mut self) -> Option<Option<Duration>> {
        match self.policy {
            OnFull::Drop => None,
            OnFull::Block => Some(None),
            OnFull::BlockFor(limit) => {
                let now = Instant::now();
                let deadline = *self.deadline.get_or_insert(now + limit);
                (now < deadline).then(|| Some(deadline - now))
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::{Config, MIN_BYTES};
    use crate::layout::{header, record_type};
    use crate::space::Slot;

    const WORDS: usize = 3;

    /// Writes a record, if there is room.
    fn write(engine: &Engine) -> Result<(), Full> {
        let mut lane = engine.rolling();
        let mut slot = lane.reserve(WORDS)?;
        (1..WORDS).for_each(|word| slot.put(word as u64));
        slot.finish(header::TYPE.put(record_type::EVENT) | header::SIZE.put(WORDS as u64));
        Ok(())
    }

    #[test]
    fn what_is_dropped_waits_for_nobody_and_what_comes_after_there_is_room_is_not_dropped() {
        for mode in [Mode::Oneshot, Mode::Streaming] {
            let (packets, inbox) = std::sync::mpsc::channel();
            let config = Config { mode, bytes: MIN_BYTES.max(1024), ..Config::default() };
            let config = Config { on_full: OnFull::Drop, ..config };
            let engine = Engine::new(config, move |packet| packets.send(packet).unwrap_or(()));
            let engine = engine.expect("a size in range");
            while write(&engine).is_ok() {}
            // While another thread holds the lock, for example during a switch of buffers.
            let held = engine.lock();
            let (done, is_done) = std::sync::mpsc::channel();
            let theirs = engine.clone();
            let thread = std::thread::spawn(move || {
                let all = (0..100).all(|_| write(&theirs) == Err(Full::Dropped));
                done.send(all).expect("the test listens");
            });
            let all = is_done.recv_timeout(Duration::from_secs(20)).expect("it does not wait");
            drop(held);
            thread.join().expect("no panic");
            assert!(all, "{mode:?}");
            assert_eq!(engine.header().expect("a header").dropped, 101, "{mode:?}");
            if mode == Mode::Streaming {
                let packet = inbox.try_recv().expect("a buffer is full");
                engine.saved(packet.buffer_saved()).expect("it waits");
                assert_eq!(write(&engine), Ok(()));
            }
        }
    }
}
