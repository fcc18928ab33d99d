//! Writes into a lane like the programs: see `kernel/src/bpf/programs/event.rs`, which this follows step by step.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use fxtrec::kernel::bpf::lane::{
    CLOSED, LaneShape, NAME_BYTES, NAMES, RECORD_BYTES, RawRecord, RecordKind, SPARE, at, flag,
    part,
};
use fxtrec::kernel::sys::Mapping;

use crate::trace::now;

/// A thread's name, as the kernel keeps it.
pub type Name = [u8; 16];

/// A lane, from the view of its writer.
#[derive(Debug)]
pub struct WrittenLane {
    mapping: Mapping,
    shape: LaneShape,
    seen: Cell<Seen>,
}

/// The writer's view of a lane's reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    tail: u64,
    /// When the reader was first seen to have read everything.
    time: u64,
    /// How often it read something.
    pub looks: u64,
    /// The longest time between two events of the lane, in nanoseconds, such that it was empty in between and got an event after it.
    pub longest: u64,
    /// The maximum number of records that waited for it.
    pub most: u64,
}

/// The fate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Written,
    /// The same, and the reader must be woken.
    Ring,
    /// There was no room.
    Lost,
    /// The lane is closed: nothing is counted.
    Closed,
}

/// An event, and the first thread that its record names.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub kind: RecordKind,
    pub record: RawRecord,
    pub named: (u32, Name),
}

/// Puts `bytes` into a record.
fn set<const N: usize>(record: &mut RawRecord, at: i16, bytes: [u8; N]) {
    record[at as usize..][..N].copy_from_slice(&bytes);
}

/// The kernel's priority of an ordinary thread, and of the idle one.
const PRIO: u8 = 120;

/// `read` on x86-64, in which threads block here.
const SYSCALL: u16 = 0;

/// A record of `sched_switch`: the outgoing thread sleeps, unless it is the idle thread.
pub fn switch(prev: u32, next: u32, name: Name) -> Written {
    let mut record = [0; RECORD_BYTES];
    let is_idle = prev == 0;
    set(&mut record, part::TID, prev.to_ne_bytes());
    set(&mut record, part::SECOND_TID, next.to_ne_bytes());
    set(&mut record, part::STATE, u16::from(!is_idle).to_ne_bytes());
    set(&mut record, part::SYSCALL, if is_idle { u16::MAX } else { SYSCALL }.to_ne_bytes());
    set(&mut record, part::KIND, [RecordKind::Switch as u8, 0, PRIO, PRIO]);
    Written { kind: RecordKind::Switch, record, named: (next, name) }
}

/// A record of `sched_wakeup`, by `current`, or by an interrupt if that is the idle thread.
pub fn wakeup(tid: u32, current: u32, target: u32, name: Name) -> Written {
    let mut record = [0; RECORD_BYTES];
    let by_interrupt = if current == 0 { flag::FIRST } else { 0 };
    set(&mut record, part::TID, tid.to_ne_bytes());
    set(&mut record, part::SECOND_TID, current.to_ne_bytes());
    let waker = current | target >> 8 << fxtrec::kernel::bpf::lane::WAKER_BITS;
    set(&mut record, part::WAKER, waker.to_ne_bytes());
    let [target, ..] = target.to_le_bytes();
    set(&mut record, part::KIND, [RecordKind::Wakeup as u8, by_interrupt, PRIO, target]);
    Written { kind: RecordKind::Wakeup, record, named: (tid, name) }
}

impl WrittenLane {
    /// Maps the lane of a descriptor, of that many bytes.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn new(fd: impl AsFd, bytes: usize) -> io::Result<WrittenLane> {
        let mapping = Mapping::new(Some(fd.as_fd()), bytes)?;
        // The kernel has the pages of its maps in memory. Before Linux 5.14, the first round through the lane takes longer instead. SAFETY:
        // base and length are those of a mapping; its content is not changed.
        unsafe { libc::madvise(mapping.base().cast(), mapping.len(), libc::MADV_POPULATE_WRITE) };
        let records = bytes.saturating_sub(at::RECORDS) / RECORD_BYTES;
        if !records.is_power_of_two() {
            return Err(io::Error::other("not the size of a lane"));
        }
        Ok(WrittenLane { mapping, shape: LaneShape { records }, seen: Cell::default() })
    }

    fn word(&self, at: i16) -> &AtomicU64 {
        let at = at as usize;
        assert!(at.is_multiple_of(8) && at + 8 <= self.mapping.len());
        // SAFETY: the assertion keeps the aligned word inside of the mapping, which lives as long as self. Writer and reader access these
        // words only as a whole.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(at).cast()) }
    }

    fn add_one(&self, at: i16) {
        // Only the writer changes its counters.
        self.word(at).store(self.word(at).load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn store(&self, head: u64, record: &RawRecord) {
        let slot = head as usize & (self.shape.records - 1);
        let at = at::RECORDS + slot * RECORD_BYTES;
        // SAFETY: the slot is below the number of records, all of which are in the mapping. The reader does not read records from the head
        // on.
        unsafe {
            self.mapping.base().add(at).copy_from_nonoverlapping(record.as_ptr(), RECORD_BYTES);
        };
    }

    /// Writes the name of a thread, unless it was the last one written at its place. Returns how many records that needed.
    fn tell_name(&self, head: u64, (tid, name): (u32, Name)) -> u64 {
        let place = at::NAMES as usize + (tid as usize & (NAMES - 1)) * NAME_BYTES;
        // SAFETY: all places of names are in the mapping, before the records; only the writer uses them.
        let known = unsafe { &mut *self.mapping.base().add(place).cast::<(u64, Name)>() };
        if *known == (u64::from(tid), name) {
            return 0;
        }
        *known = (u64::from(tid), name);
        let mut record = [0; RECORD_BYTES];
        set(&mut record, part::NAME, name);
        set(&mut record, part::NAMED_TID, tid.to_ne_bytes());
        set(&mut record, part::KIND, [RecordKind::Name as u8]);
        self.store(head, &record);
        1
    }

    /// Writes an event at the current time, with the records that must precede it, if there is room.
    pub fn put(&self, event: &Written) -> Put {
        const CLOSED_WORD: u64 = CLOSED.unsigned_abs() as u64;
        match self.word(at::BUSY).load(Ordering::Relaxed) {
            0 => {}
            CLOSED_WORD => return Put::Closed,
            _ => {
                self.add_one(at::NESTED);
                return Put::Lost;
            }
        }
        // In the same order as in a program. The following stores must not become visible first.
        self.word(at::BUSY).store(1, Ordering::SeqCst);
        self.add_one(at::FIRED + 8 * (event.kind as i16 - RecordKind::Switch as i16));
        // While the lane is busy: see `Lane::is_quiescent`.
        let now = now();
        let time = now.to_ne_bytes();
        let mut head = self.word(at::HEAD).load(Ordering::Relaxed);
        // Acquire: the reader has read the earlier content.
        let tail = self.word(at::TAIL).load(Ordering::Acquire);
        self.see(now, head, tail);
        if head - tail >= (self.shape.records - SPARE) as u64 {
            self.add_one(at::LOST);
            self.word(at::BUSY).store(0, Ordering::Release);
            return Put::Lost;
        }
        let lost = self.word(at::LOST).load(Ordering::Relaxed);
        let reported = self.word(at::TOLD).load(Ordering::Relaxed);
        if lost != reported {
            let mut record = [0; RECORD_BYTES];
            set(&mut record, part::TIME, time);
            set(&mut record, part::COUNT, (lost - reported).to_ne_bytes());
            set(&mut record, part::KIND, [RecordKind::Lost as u8]);
            self.store(head, &record);
            self.word(at::TOLD).store(lost, Ordering::Relaxed);
            head += 1;
        }
        head += self.tell_name(head, event.named);
        let mut record = event.record;
        set(&mut record, part::TIME, time);
        self.store(head, &record);
        head += 1;
        // Release: the records precede the head.
        self.word(at::HEAD).store(head, Ordering::Release);
        self.word(at::BUSY).store(0, Ordering::Release);
        if head < self.word(at::BELL).load(Ordering::Relaxed) {
            return Put::Written;
        }
        self.word(at::BELL).store(head + self.shape.bell_records() as u64, Ordering::Relaxed);
        Put::Ring
    }

    fn see(&self, now: u64, head: u64, tail: u64) {
        let mut seen = self.seen.get();
        seen.most = seen.most.max(head - tail);
        if tail != seen.tail {
            let since = if seen.looks > 0 { now - seen.time } else { 0 };
            seen = Seen {
                tail,
                time: now,
                looks: seen.looks + 1,
                longest: seen.longest.max(since),
                ..seen
            };
        }
        self.seen.set(seen);
    }

    /// The known facts about the reader so far.
    pub fn seen(&self) -> Seen {
        self.seen.get()
    }

    /// How many events were dropped for lack of room.
    pub fn lost(&self) -> u64 {
        self.word(at::LOST).load(Ordering::Relaxed)
    }

    /// Whether the reader has read everything.
    pub fn is_empty(&self) -> bool {
        let word = |at| self.word(at).load(Ordering::Acquire);
        word(at::HEAD) == word(at::TAIL)
    }

    /// How many records it has room for.
    pub fn records(&self) -> usize {
        self.shape.records
    }
}
