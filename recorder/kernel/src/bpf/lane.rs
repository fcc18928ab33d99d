//! A ring of records that one CPU fills and one reader empties, in memory that both map.
//!
//! ```text
//!   0        what the programs write: head, busy, lost, told, shown, nested, stolen, waiting, counts of events, told interrupts
//!   128      what the reader writes: tail, bell
//!   4096     the last name that the programs reported, by the lower bits of the thread's id
//!   36864    records, a power of two of them
//! ```
//!
//! A record has 24 bytes and one of seventeen kinds; three of these are wakeups:
//!
//! ```text
//!   byte    0        8             12            16    18    20      21      22      23
//!   switch  time     tid out       tid in        state call  kind    flags   prio    prio in
//!   wake    time     tid           tid current   tid waker   kind    flags   prio    CPU
//!   lost    time     count                       -           kind    -       -       -
//!   name    name, 16 bytes                       tid         kind    -       -       -
//!   slice   stolen   -                           -           kind    -       -       -
//!   taken   irqs ns  asked ns                    irqs        kind    flags   -       -
//!   throttled kept   cgroup                      own cgroup  kind    flags   -       -
//!   wait    kept     tid           CPU           own cgroup  kind    flags   -       -
//!   moved   time     tid           to CPU        from CPU    kind    -       -       -
//!   futex   address  word          word + 8      value       kind    op      of the word + 16
//!   lock    address  flags         -             -           kind    -       -       -
//!   call    time     result                      tid         kind    flags   number
//!   origin  what     since                       number      kind    origin  -
//!   more    20 bytes                                         kind    -       -
//!   occupant time    tid           CPU           -           kind    -       prio    -
//! ```
//!
//! The CPU is that of the lane. Only the lower 16 bits of a state are stored; they contain all reported states. System call numbers are far
//! below this. Priorities are truncated to a byte: they are between -1, for deadline tasks, and 139. The upper byte of a wakeup's target
//! CPU is the upper byte of the waker, whose id has only 22 bits. A name precedes the first record of its lane that mentions the thread,
//! and is repeated after the thread was renamed. Facts about a slice precede the switch that ends it, as does the quota that keeps its
//! thread from running; most slices have no such facts. With `--locks`, the futex on which its thread blocks, and the kernel lock that it
//! waits for, do as well. The cause of an interrupt precedes its wakeup.
//!
//! Head and tail count records and never decrease. The tracepoints fire with preemption off, so a CPU is never in two programs at once,
//! with one exception: a thread that wakes itself does so with interrupts on, and an interrupt may wake another thread at that time. `busy`
//! shows this to the second program, which then does not use the ring and increments `nested`. It is stored before the clock is read, so a
//! reader that finds it clear knows that no event older than the reader's own clock reading can be added after the head. So no lock is
//! needed, and no atomic operation except to publish the head, on machines that reorder stores.
//!
//! The programs are attached and detached one after the other, which takes milliseconds each. Between the first and the last one, there are
//! switches without the wakeups that caused them. So a lane is closed at first, and again before the programs are detached, by a special
//! value in `busy`: a program that finds it returns without counting anything.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::origins::RawOrigin;
use super::sys::{BpfSys, Memory};
use crate::units::{Cpu, Nanos, Tid};

/// Offsets of a lane's parts, in bytes from its beginning.
pub mod at {
    pub const HEAD: i16 = 0;
    pub const BUSY: i16 = 8;
    pub const LOST: i16 = 16;
    pub const TOLD: i16 = 24;
    pub const SHOWN: i16 = 32;
    pub const NESTED: i16 = 40;
    /// The CPU's stolen time, as of its last switch.
    pub const STOLEN: i16 = 48;
    /// One count for each of the five kinds of events.
    pub const FIRED: i16 = 64;
    /// The CPU's time in interrupts and their number, as of its last switch.
    pub const IRQ_NS: i16 = 104;
    pub const IRQS: i16 = 112;
    pub const TAIL: i16 = 128;
    pub const BELL: i16 = 136;
    pub const NAMES: i16 = 4096;
    pub const RECORDS: usize = 36864;
}

/// In [`at::BUSY`]: nothing may be written or counted.
pub const CLOSED: i32 = 2;

/// How many names a lane remembers; a power of two.
pub const NAMES: usize = 1024;

/// Size of a remembered name: tid in eight bytes, name in sixteen, eight unused.
pub const NAME_BYTES: usize = 32;

/// Space that is kept free: an event may add nine more records. A switch adds a loss, a name, two for the slice, one for each side that is
/// throttled, a futex and a kernel lock; a wakeup a loss, two names, an occupant, a throttled queue, and four for its origin.
pub const SPARE: usize = 10;

/// The number of tracepoints whose events are counted, in the order of the counts.
pub const COUNTED: usize = 5;

/// The layout of a lane; all lanes of a recording share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShape {
    /// How many records fit: a power of two.
    pub records: usize,
}

/// The bell is rung when this part of a lane is full ...
const BELL_PART: usize = 4;

/// ... or there are this many records, which still fit into the CPU's cache.
const BELL_RECORDS: usize = 16 * 1024;

impl LaneShape {
    /// The largest lane that takes at most `bytes`, a power of two of at least 64 KiB.
    pub fn within(bytes: usize) -> LaneShape {
        // 24 bytes for each 32 leaves a quarter for the data before the records.
        const LEAST: usize = 512;
        let room = bytes.saturating_sub(at::RECORDS) / RECORD_BYTES;
        LaneShape { records: 1 << room.max(LEAST).ilog2() }
    }

    /// Its size in bytes.
    pub fn bytes(self) -> usize {
        at::RECORDS + self.records * RECORD_BYTES
    }

    /// The number of records at which the reader is woken.
    pub fn bell_records(self) -> usize {
        (self.records / BELL_PART).min(BELL_RECORDS)
    }
}

/// One CPU's lane, as its reader sees it.
#[derive(Debug)]
pub struct Lane {
    memory: Memory,
    shape: LaneShape,
    tail: u64,
}

/// Counts that the programs keep in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Events by kind: switches, wakeups, first wakeups, wakings, moves.
    pub fired: [u64; COUNTED],
    /// Events for which there was no space.
    pub lost: u64,
    /// Lost events that a record has reported.
    pub told: u64,
    /// Events that occurred while another one was being written.
    pub nested: u64,
}

impl Lane {
    /// Creates a closed lane.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn new(sys: &dyn BpfSys, shape: LaneShape) -> io::Result<Lane> {
        let lane = Lane { memory: Memory::new(sys, shape.bytes())?, shape, tail: 0 };
        lane.word(at::BELL).store(shape.bell_records() as u64, Ordering::Relaxed);
        lane.word(at::BUSY).store(CLOSED as u64, Ordering::Relaxed);
        Ok(lane)
    }

    /// Opens the lane, so that programs may write.
    pub fn open(&self) {
        self.word(at::BUSY).store(0, Ordering::Release);
    }

    /// Closes the lane, so that programs cannot write from now on, unless one of them is writing; returns whether it is closed. A program
    /// that was about to begin opens it again, so this must be called repeatedly.
    pub fn close(&self) -> bool {
        let [open, closed] = [0, CLOSED as u64];
        let order = Ordering::Relaxed;
        let was = self.word(at::BUSY).compare_exchange(open, closed, order, order);
        was.is_ok() || was == Err(closed)
    }

    /// Makes it look full to the programs, or empty.
    #[cfg(test)]
    pub(super) fn pretend(&self, full: bool) {
        let records = if full { self.shape.records as u64 } else { 0 };
        let head = self.word(at::HEAD).load(Ordering::Relaxed);
        self.word(at::TAIL).store(head.wrapping_sub(records), Ordering::Release);
    }

    /// The map, to be given to the programs.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// Programs and reader access these words only as a whole. Each word is written by only one of the two sides, except BELL, where either
    /// write is acceptable, and BUSY, see `close`.
    fn word(&self, at: i16) -> &AtomicU64 {
        self.memory.word(at as usize)
    }

    /// Whether no program is writing. If so, everything that happened up to a millisecond before this read is below the head that
    /// [`Lane::take`] finds next; a store becomes visible in far less time than that.
    pub fn is_quiescent(&self) -> bool {
        // Acquire: a program moves the head before it releases the lane.
        self.word(at::BUSY).load(Ordering::Acquire) != 1
    }

    /// Moves up to `room` unread records to `to`, and returns their space to the programs. Returns whether these were all records.
    pub fn take(&mut self, room: usize, to: &mut VecDeque<RawRecord>) -> bool {
        // Acquire: the records below the head were written before it was.
        let head = self.word(at::HEAD).load(Ordering::Acquire);
        let waiting = head.wrapping_sub(self.tail) as usize;
        let count = waiting.min(room);
        // An invalid head must not lead outside of the lane.
        let count = count.min(self.shape.records);
        let first = self.tail as usize & (self.shape.records - 1);
        let up_to_end = count.min(self.shape.records - first);
        // SAFETY: the mapping has the length of the shape, so its records begin inside of it.
        let records = unsafe { self.memory.base().add(at::RECORDS) }.cast::<RawRecord>();
        for (first, count) in [(first, up_to_end), (0, count - up_to_end)] {
            // SAFETY: both ranges are below the number of records, so they are in the mapping, and records are arrays of bytes. The
            // programs do not write to records between tail and head, and the tail that they see moves on only in `release`, below.
            let run = unsafe { std::slice::from_raw_parts(records.add(first), count) };
            to.extend(run);
        }
        self.tail += count as u64;
        self.release();
        count == waiting
    }

    /// Whether at least a quarter of the lane waits to be read.
    pub fn is_filling(&self) -> bool {
        // Relaxed: no memory is read based on this value.
        let head = self.word(at::HEAD).load(Ordering::Relaxed);
        head.wrapping_sub(self.tail) >= (self.shape.records / BELL_PART) as u64
    }

    /// Returns the space of everything read so far to the programs.
    fn release(&mut self) {
        // Release: the records have been read before the programs may write there again.
        self.word(at::TAIL).store(self.tail, Ordering::Release);
        let bell = self.tail + self.shape.bell_records() as u64;
        self.word(at::BELL).store(bell, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> usize {
        self.shape.bytes()
    }

    /// The counts so far. They are exact once the programs have stopped.
    pub fn counts(&self) -> LaneCounts {
        let word = |at| self.word(at).load(Ordering::Relaxed);
        let mut fired = [0; COUNTED];
        for (fired, at) in fired.iter_mut().zip((at::FIRED..).step_by(8)) {
            *fired = word(at);
        }
        LaneCounts { fired, lost: word(at::LOST), told: word(at::TOLD), nested: word(at::NESTED) }
    }
}

pub const RECORD_BYTES: usize = 24;

/// A record as it is stored in the lane, for [`Record::parse`].
pub type RawRecord = [u8; RECORD_BYTES];

/// Offsets of a record's parts, in bytes from its beginning.
pub mod part {
    #![allow(missing_docs, reason = "the second picture above shows them")]
    pub const TIME: i16 = 0;
    pub const TID: i16 = 8;
    pub const SECOND_TID: i16 = 12;
    pub const COUNT: i16 = 8;
    pub const STATE: i16 = 16;
    pub const SYSCALL: i16 = 18;
    pub const WAKER: i16 = 16;
    pub const CPU: i16 = 23;
    pub const KIND: i16 = 20;
    pub const FLAGS: i16 = 21;
    pub const PRIO: i16 = 22;
    pub const SECOND_PRIO: i16 = 23;
    pub const NAME: i16 = 0;
    pub const NAMED_TID: i16 = 16;
    pub const STOLEN: i16 = 0;
    pub const IRQ_NS: i16 = 0;
    pub const ASKED_NS: i16 = 8;
    pub const IRQS: i16 = 16;
    pub const KEPT: i16 = 0;
    pub const CGROUP: i16 = 8;
    pub const OWN_CGROUP: i16 = 16;
    pub const WAIT_CPU: i16 = 12;
    pub const TO_CPU: i16 = 12;
    pub const FROM_CPU: i16 = 16;
    pub const ADDRESS: i16 = 0;
    pub const WORD: i16 = 8;
    pub const LOCK_FLAGS: i16 = 8;
    pub const WORD_AFTER_8: i16 = 12;
    pub const VALUE: i16 = 16;
    pub const OPERATION: i16 = 21;
    pub const WORD_AFTER_16: i16 = 22;
    pub const RESULT: i16 = 8;
    pub const CALLER: i16 = 16;
    pub const NUMBER: i16 = 22;
    pub const WHAT: i16 = 0;
    pub const SINCE: i16 = 8;
    pub const ORIGIN_NUMBER: i16 = 16;
    pub const ORIGIN: i16 = 21;
    pub const MORE: i16 = 0;
    pub const MORE_BYTES: usize = 20;
    pub const OCCUPIED_CPU: i16 = 12;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// `sched_switch`. Its flags: whether the outgoing thread is preempted; which of the two threads are in scope.
    Switch = 1,
    /// `sched_wakeup`. First flag of wakeups: caused by an interrupt.
    Wakeup = 2,
    /// `sched_wakeup_new`. Second flag: the new thread belongs to the process of the current thread, which created it.
    WakeupNew = 3,
    Waking = 4,
    /// Records before this one were lost because the lane was full.
    Lost = 5,
    /// The name of a thread.
    Name = 6,
    /// Facts about the slice that the next switch of the lane ends.
    Slice = 7,
    /// The outgoing thread of the lane's next switch, or the thread that its next wakeup wakes, waits in a queue that is or was throttled.
    /// First flag: it is currently throttled.
    Throttled = 8,
    /// How long a thread's queue was throttled so far. First flag: the thread was just moved there; otherwise it leaves the queue. Second
    /// flag: the queue is still throttled.
    Wait = 9,
    /// `sched_migrate_task`.
    Moved = 10,
    /// The time that interrupts took from the slice that the lane's next switch ends, and when that switch was requested.
    Taken = 11,
    /// The futex on which the outgoing thread of the lane's next switch blocks.
    Futex = 12,
    /// The kernel lock for which the outgoing thread of the lane's next switch waits.
    Contention = 13,
    /// A system call begins; with the first flag, it ends.
    Call = 14,
    /// The cause of the interrupt of the lane's next wakeup.
    Origin = 15,
    /// More bytes of an `Origin`.
    More = 16,
    /// With a scope: the thread that has a CPU, for which a thread in scope waits from now on.
    Occupant = 17,
}

/// The bits of a record's flags.
pub mod flag {
    /// In a switch: preempted. In a wakeup: caused by an interrupt. In the time taken from a slice: a switch was requested.
    pub const FIRST: u8 = 1;
    /// In a first wakeup: the thread belongs to its creator's process.
    pub const SAME_PROCESS: u8 = 2;
    /// In a queue's record: it is still throttled.
    pub const GOES_ON: u8 = 2;
    /// In a queue's record: all queues are reported, not only throttled ones that threads leave.
    pub const OF_QUEUES: u8 = 4;
    /// In a switch, with a scope: the outgoing thread is in scope.
    pub const PREV_IN_SCOPE: u8 = 2;
    /// In a switch, with a scope: the incoming thread is in scope.
    pub const NEXT_IN_SCOPE: u8 = 4;
    /// In a switch: a thread in scope waits for this CPU.
    pub const WAITED_FOR: u8 = 8;
    /// In a system call: made by a 32-bit program on a 64-bit machine.
    pub const NARROW: u8 = 2;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Switch {
        time: Nanos,
        prev: Tid,
        next: Tid,
        /// The outgoing thread's kernel priority.
        prev_prio: i32,
        /// The incoming thread's kernel priority.
        next_prio: i32,
        /// `__state` and `exit_state` of the outgoing thread, combined: their bits differ.
        state: u16,
        /// The number of the system call in which it blocks, if known.
        syscall: Option<u16>,
        preempted: bool,
        /// Whether they are in scope, if not all threads are.
        prev_in_scope: bool,
        next_in_scope: bool,
        /// Whether a thread in scope waits for this CPU.
        waited_for: bool,
    },
    Wake {
        /// The tracepoint: one of the three kinds of wakeups.
        kind: RecordKind,
        time: Nanos,
        tid: Tid,
        /// The thread that runs where this happens.
        current: Tid,
        /// The thread that began it, from task context; the idle task if unknown.
        waker: Tid,
        /// The priority of the woken thread.
        prio: i32,
        /// The CPU whose run queue the thread is put on.
        target: Cpu,
        /// Whether an interrupt began it.
        in_interrupt: bool,
        /// For a first wakeup: whether the thread belongs to the process of the current thread.
        same_process: bool,
    },
    /// Records were lost because the lane was full.
    Lost {
        /// The time from which there was space again.
        time: Nanos,
        count: u64,
    },
    /// The name of a thread.
    Name { tid: Tid, name: [u8; 16] },
    /// Facts about the slice that the next switch ends.
    Slice {
        /// How long the host had taken the CPU (steal time).
        stolen: Nanos,
    },
    /// The time that interrupts took from the slice that the next switch ends.
    Taken {
        /// The time in interrupts, and their number.
        irq: Nanos,
        irqs: u32,
        /// How long before the switch it was first requested, if at all.
        asked: Option<Nanos>,
    },
    /// The thread that is switched out or woken next waits in a queue that a quota may hold back.
    Throttled {
        /// How long its queue was throttled so far, including the current time.
        kept: Nanos,
        /// The id of the cgroup that has the quota; 0 if unknown.
        cgroup: u64,
        /// The lower half of the id of the thread's own cgroup.
        own: u32,
        /// Whether it is currently throttled; otherwise it was throttled earlier.
        now: bool,
        /// Whether waits of all threads are reported, and not only waits of threads that are switched out by throttling.
        of_queues: bool,
    },
    /// A thread is switched in or moved: how long its queue was throttled so far.
    Wait {
        tid: Tid,
        kept: Nanos,
        /// The CPU of the queue.
        cpu: Cpu,
        /// As in [`Record::Throttled`].
        own: u32,
        of_queues: bool,
        /// Whether the previous record moved it to that queue; otherwise it leaves the queue.
        begins: bool,
        /// Whether the queue is still throttled.
        goes_on: bool,
    },
    /// A thread is moved to another queue.
    Moved { time: Nanos, tid: Tid, from: Cpu, to: Cpu },
    /// The thread that is switched out next blocks on a futex.
    Futex(Futex),
    /// The thread that is switched out next waits for a kernel lock; it may be preempted before that.
    Contention(Contention),
    /// A system call begins or ends.
    Call {
        time: Nanos,
        tid: Tid,
        /// Its number; -1 for an end that belongs to no call.
        number: i16,
        /// The result, if the call ends.
        result: Option<i64>,
        is_32_bit: bool,
    },
    /// The cause of the interrupt of the next wakeup.
    Origin(RawOrigin),
    /// More bytes of that cause.
    More([u8; part::MORE_BYTES]),
    /// With a scope: this thread has the CPU, for which a thread in scope waits from now on.
    Occupant { time: Nanos, tid: Tid, cpu: Cpu, prio: i32 },
}

/// A kernel lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    pub address: u64,
    /// The kind of lock: see [`super::contentions::flag`].
    pub flags: u32,
}

/// A call of futex(2), and the memory at its address. The program may have written anything there; memory that could not be read is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Futex {
    pub address: u64,
    /// The lower eight bits of the operation, which have the command and whether the futex is private.
    pub operation: u8,
    /// The third argument of the call: for most waits, the value that the word must have.
    pub value: u32,
    /// The futex word when the thread was switched out.
    pub word: u32,
    /// The four bytes at offset 8 from the word.
    pub after_8: u32,
    /// The lower half of the four bytes at offset 16.
    pub after_16: u16,
}

/// Instead of a number: no system call, or an unknown one.
pub const NO_SYSCALL: u16 = u16::MAX;

/// The bits of a waker's id in the word that it shares with the upper byte of a CPU number.
pub const WAKER_BITS: u32 = 24;
const WAKER_TID: u32 = (1 << WAKER_BITS) - 1;

/// `-1` is the only negative priority.
fn prio(byte: u8) -> i32 {
    if byte == u8::MAX { -1 } else { i32::from(byte) }
}

impl Record {
    /// The time of the record, without parsing the rest of it; `None` for a record without a time.
    #[inline]
    pub fn time(bytes: &RawRecord) -> Option<Nanos> {
        const TIMED: u32 = 1 << RecordKind::Switch as u8
            | 1 << RecordKind::Wakeup as u8
            | 1 << RecordKind::WakeupNew as u8
            | 1 << RecordKind::Waking as u8
            | 1 << RecordKind::Lost as u8
            | 1 << RecordKind::Moved as u8
            | 1 << RecordKind::Call as u8
            | 1 << RecordKind::Occupant as u8;
        let kind = bytes[part::KIND as usize];
        let timed = TIMED.checked_shr(kind.into()).unwrap_or(0) & 1 != 0;
        let time = bytes.first_chunk().filter(|_| timed)?;
        Some(Nanos(u64::from_ne_bytes(*time)))
    }

    /// Whether the record is a [`Record::Moved`].
    #[inline]
    pub fn is_move(bytes: &RawRecord) -> bool {
        bytes[part::KIND as usize] == RecordKind::Moved as u8
    }

    /// Whether the record is a [`Record::Wait`] that begins.
    #[inline]
    pub fn begins_wait(bytes: &RawRecord) -> bool {
        let flags = bytes[part::FLAGS as usize];
        bytes[part::KIND as usize] == RecordKind::Wait as u8 && flags & flag::FIRST != 0
    }

    /// Parses a record; `None` if its kind is unknown.
    #[inline(always)]
    pub fn parse(bytes: &RawRecord) -> Option<Record> {
        let u16_at = |at: i16| u16::from_ne_bytes([bytes[at as usize], bytes[at as usize + 1]]);
        let u32_at = |at: i16| {
            let at = at as usize;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: i16| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at as usize..at as usize + 8]);
            u64::from_ne_bytes(word)
        };
        let kind = bytes[part::KIND as usize];
        let flags = bytes[part::FLAGS as usize];
        let first = flags & flag::FIRST != 0;
        let of_queues = flags & flag::OF_QUEUES != 0;
        let time = Nanos(u64_at(part::TIME));
        let wake = |kind| Record::Wake {
            kind,
            time,
            tid: Tid(u32_at(part::TID)),
            current: Tid(u32_at(part::SECOND_TID)),
            waker: Tid(u32_at(part::WAKER) & WAKER_TID),
            prio: prio(bytes[part::PRIO as usize]),
            target: Cpu(
                u32_at(part::WAKER) >> WAKER_BITS << 8 | u32::from(bytes[part::CPU as usize])
            ),
            in_interrupt: first,
            same_process: flags & flag::SAME_PROCESS != 0,
        };
        Some(match kind {
            _ if kind == RecordKind::Switch as u8 => Record::Switch {
                time,
                prev: Tid(u32_at(part::TID)),
                next: Tid(u32_at(part::SECOND_TID)),
                prev_prio: prio(bytes[part::PRIO as usize]),
                next_prio: prio(bytes[part::SECOND_PRIO as usize]),
                state: u16_at(part::STATE),
                syscall: Some(u16_at(part::SYSCALL)).filter(|number| *number != NO_SYSCALL),
                preempted: first,
                prev_in_scope: flags & flag::PREV_IN_SCOPE != 0,
                next_in_scope: flags & flag::NEXT_IN_SCOPE != 0,
                waited_for: flags & flag::WAITED_FOR != 0,
            },
            _ if kind == RecordKind::Wakeup as u8 => wake(RecordKind::Wakeup),
            _ if kind == RecordKind::WakeupNew as u8 => wake(RecordKind::WakeupNew),
            _ if kind == RecordKind::Waking as u8 => wake(RecordKind::Waking),
            _ if kind == RecordKind::Lost as u8 => {
                Record::Lost { time, count: u64_at(part::COUNT) }
            }
            _ if kind == RecordKind::Name as u8 => {
                let mut name = [0; 16];
                name.copy_from_slice(&bytes[..16]);
                Record::Name { tid: Tid(u32_at(part::NAMED_TID)), name }
            }
            _ if kind == RecordKind::Slice as u8 => {
                Record::Slice { stolen: Nanos(u64_at(part::STOLEN)) }
            }
            _ if kind == RecordKind::Taken as u8 => Record::Taken {
                irq: Nanos(u64_at(part::IRQ_NS)),
                irqs: u32_at(part::IRQS),
                asked: first.then(|| Nanos(u64_at(part::ASKED_NS))),
            },
            _ if kind == RecordKind::Throttled as u8 => {
                let (kept, own) = (Nanos(u64_at(part::KEPT)), u32_at(part::OWN_CGROUP));
                let cgroup = u64_at(part::CGROUP);
                Record::Throttled { kept, cgroup, own, now: first, of_queues }
            }
            _ if kind == RecordKind::Wait as u8 => Record::Wait {
                tid: Tid(u32_at(part::TID)),
                kept: Nanos(u64_at(part::KEPT)),
                cpu: Cpu(u32_at(part::WAIT_CPU)),
                own: u32_at(part::OWN_CGROUP),
                of_queues,
                begins: first,
                goes_on: flags & flag::GOES_ON != 0,
            },
            _ if kind == RecordKind::Moved as u8 => Record::Moved {
                time,
                tid: Tid(u32_at(part::TID)),
                from: Cpu(u32_at(part::FROM_CPU)),
                to: Cpu(u32_at(part::TO_CPU)),
            },
            _ if kind == RecordKind::Futex as u8 => Record::Futex(Futex {
                address: u64_at(part::ADDRESS),
                operation: bytes[part::OPERATION as usize],
                value: u32_at(part::VALUE),
                word: u32_at(part::WORD),
                after_8: u32_at(part::WORD_AFTER_8),
                after_16: u16_at(part::WORD_AFTER_16),
            }),
            _ if kind == RecordKind::Contention as u8 => Record::Contention(Contention {
                address: u64_at(part::ADDRESS),
                flags: u32_at(part::LOCK_FLAGS),
            }),
            _ if kind == RecordKind::Call as u8 => Record::Call {
                time,
                tid: Tid(u32_at(part::CALLER)),
                number: u16_at(part::NUMBER).cast_signed(),
                result: first.then(|| u64_at(part::RESULT).cast_signed()),
                is_32_bit: flags & flag::NARROW != 0,
            },
            _ if kind == RecordKind::Origin as u8 => Record::Origin(RawOrigin {
                what: u64_at(part::WHAT),
                since: u64_at(part::SINCE),
                number: u32_at(part::ORIGIN_NUMBER),
                kind: bytes[part::ORIGIN as usize],
            }),
            _ if kind == RecordKind::More as u8 => {
                let mut more = [0; part::MORE_BYTES];
                more.copy_from_slice(&bytes[..part::MORE_BYTES]);
                Record::More(more)
            }
            _ if kind == RecordKind::Occupant as u8 => Record::Occupant {
                time,
                tid: Tid(u32_at(part::TID)),
                cpu: Cpu(u32_at(part::OCCUPIED_CPU)),
                prio: prio(bytes[part::PRIO as usize]),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(parts: &[(i16, &[u8])]) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        for (at, part) in parts {
            bytes[*at as usize..][..part.len()].copy_from_slice(part);
        }
        bytes
    }

    #[test]
    fn a_switch_is_read_back_with_a_deadline_priority() {
        let bytes = record(&[
            (part::TIME, &77u64.to_ne_bytes()),
            (part::TID, &10u32.to_ne_bytes()),
            (part::SECOND_TID, &11u32.to_ne_bytes()),
            (part::STATE, &0x402u16.to_ne_bytes()),
            (part::SYSCALL, &202u16.to_ne_bytes()),
            (part::KIND, &[RecordKind::Switch as u8, 5, 120, 255]),
        ]);
        let expected = Record::Switch {
            time: Nanos(77),
            prev: Tid(10),
            next: Tid(11),
            prev_prio: 120,
            next_prio: -1,
            state: 0x402,
            syscall: Some(202),
            preempted: true,
            prev_in_scope: false,
            next_in_scope: true,
            waited_for: false,
        };
        assert_eq!(Record::parse(&bytes), Some(expected));
        let none = record(&[
            (part::SYSCALL, &NO_SYSCALL.to_ne_bytes()),
            (part::KIND, &[RecordKind::Switch as u8]),
        ]);
        let Some(Record::Switch { syscall, .. }) = Record::parse(&none) else { panic!("a switch") };
        assert_eq!(syscall, None);
    }

    #[test]
    fn a_system_call_is_read_back_and_its_end_has_what_it_returns() {
        let call = |kind: [u8; 2], number: i16| {
            record(&[
                (part::TIME, &77u64.to_ne_bytes()),
                (part::RESULT, &(-11_i64).to_ne_bytes()),
                (part::CALLER, &10u32.to_ne_bytes()),
                (part::KIND, &kind),
                (part::NUMBER, &number.to_ne_bytes()),
            ])
        };
        let kind = RecordKind::Call as u8;
        let (time, tid) = (Nanos(77), Tid(10));
        let begin = Record::Call { time, tid, number: 230, result: None, is_32_bit: true };
        assert_eq!(Record::parse(&call([kind, flag::NARROW], 230)), Some(begin));
        let end = Record::Call { time, tid, number: -1, result: Some(-11), is_32_bit: false };
        let bytes = call([kind, flag::FIRST], -1);
        assert_eq!(Record::parse(&bytes), Some(end));
        assert_eq!(Record::time(&bytes), Some(time));
    }

    #[test]
    fn a_wake_up_names_the_woken_the_current_the_waker_and_the_target() {
        let bytes = record(&[
            (part::TIME, &5u64.to_ne_bytes()),
            (part::TID, &3u32.to_ne_bytes()),
            (part::SECOND_TID, &4u32.to_ne_bytes()),
            (part::WAKER, &(6u32 | 1 << WAKER_BITS).to_ne_bytes()),
            (part::KIND, &[RecordKind::Waking as u8, 0, 98, 44]),
        ]);
        let expected = Record::Wake {
            kind: RecordKind::Waking,
            time: Nanos(5),
            tid: Tid(3),
            current: Tid(4),
            waker: Tid(6),
            prio: 98,
            target: Cpu(300),
            in_interrupt: false,
            same_process: false,
        };
        assert_eq!(Record::parse(&bytes), Some(expected));
    }

    #[test]
    fn what_befell_a_slice_and_a_throttled_queue_are_read_back() {
        let bytes = record(&[
            (part::STOLEN, &7u64.to_ne_bytes()),
            (part::KIND, &[RecordKind::Slice as u8]),
        ]);
        assert_eq!(Record::parse(&bytes), Some(Record::Slice { stolen: Nanos(7) }));
        for (flags, asked) in [(0, None), (flag::FIRST, Some(Nanos(8)))] {
            let bytes = record(&[
                (part::IRQ_NS, &7u64.to_ne_bytes()),
                (part::ASKED_NS, &8u64.to_ne_bytes()),
                (part::IRQS, &9u32.to_ne_bytes()),
                (part::KIND, &[RecordKind::Taken as u8, flags]),
            ]);
            let expected = Record::Taken { irq: Nanos(7), irqs: 9, asked };
            assert_eq!(Record::parse(&bytes), Some(expected));
        }
        let bytes = record(&[
            (part::KEPT, &3u64.to_ne_bytes()),
            (part::CGROUP, &9u64.to_ne_bytes()),
            (part::OWN_CGROUP, &8u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Throttled as u8, flag::FIRST]),
        ]);
        let expected =
            Record::Throttled { kept: Nanos(3), cgroup: 9, own: 8, now: true, of_queues: false };
        assert_eq!(Record::parse(&bytes), Some(expected));
        let bytes = record(&[
            (part::KEPT, &3u64.to_ne_bytes()),
            (part::TID, &6u32.to_ne_bytes()),
            (part::WAIT_CPU, &300u32.to_ne_bytes()),
            (part::OWN_CGROUP, &8u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Wait as u8, flag::GOES_ON | flag::OF_QUEUES]),
        ]);
        let expected = Record::Wait {
            tid: Tid(6),
            kept: Nanos(3),
            cpu: Cpu(300),
            own: 8,
            of_queues: true,
            begins: false,
            goes_on: true,
        };
        assert_eq!(Record::parse(&bytes), Some(expected));
        let bytes = record(&[
            (part::TIME, &5u64.to_ne_bytes()),
            (part::TID, &6u32.to_ne_bytes()),
            (part::TO_CPU, &1u32.to_ne_bytes()),
            (part::FROM_CPU, &2u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Moved as u8]),
        ]);
        let expected = Record::Moved { time: Nanos(5), tid: Tid(6), from: Cpu(2), to: Cpu(1) };
        assert_eq!(Record::parse(&bytes), Some(expected));
    }

    #[test]
    fn a_futex_is_read_back() {
        let bytes = record(&[
            (part::ADDRESS, &0x7f00_1000u64.to_ne_bytes()),
            (part::WORD, &2u32.to_ne_bytes()),
            (part::WORD_AFTER_8, &77u32.to_ne_bytes()),
            (part::VALUE, &3u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Futex as u8, 128]),
            (part::WORD_AFTER_16, &0x201u16.to_ne_bytes()),
        ]);
        let expected = Futex {
            address: 0x7f00_1000,
            operation: 128,
            value: 3,
            word: 2,
            after_8: 77,
            after_16: 0x201,
        };
        assert_eq!(Record::parse(&bytes), Some(Record::Futex(expected)));
    }

    #[test]
    fn a_thread_that_has_another_cpu_is_read_back() {
        let bytes = record(&[
            (part::TIME, &5u64.to_ne_bytes()),
            (part::TID, &6u32.to_ne_bytes()),
            (part::OCCUPIED_CPU, &300u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Occupant as u8, 0, 98]),
        ]);
        let expected = Record::Occupant { time: Nanos(5), tid: Tid(6), cpu: Cpu(300), prio: 98 };
        assert_eq!(Record::parse(&bytes), Some(expected));
        assert_eq!(Record::time(&bytes), Some(Nanos(5)));
    }

    #[test]
    fn a_lock_of_the_kernel_is_read_back() {
        let bytes = record(&[
            (part::ADDRESS, &0xffff_8881_0000_1000u64.to_ne_bytes()),
            (part::LOCK_FLAGS, &32u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Contention as u8]),
        ]);
        let expected = Contention { address: 0xffff_8881_0000_1000, flags: 32 };
        assert_eq!(Record::parse(&bytes), Some(Record::Contention(expected)));
    }

    #[test]
    fn the_flags_of_a_first_wake_up_are_distinguished() {
        for (flags, expected) in [(0, (false, false)), (1, (true, false)), (2, (false, true))] {
            let bytes = record(&[(part::KIND, &[RecordKind::WakeupNew as u8, flags, 120, 0])]);
            match Record::parse(&bytes) {
                Some(Record::Wake { in_interrupt, same_process, .. }) => {
                    assert_eq!((in_interrupt, same_process), expected, "{flags}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn losses_and_names_are_read_back_and_other_kinds_are_not() {
        let bytes = record(&[
            (part::TIME, &5u64.to_ne_bytes()),
            (part::COUNT, &9u64.to_ne_bytes()),
            (part::KIND, &[RecordKind::Lost as u8]),
        ]);
        assert_eq!(Record::parse(&bytes), Some(Record::Lost { time: Nanos(5), count: 9 }));
        let bytes = record(&[
            (part::NAME, b"0123456789abcde\0"),
            (part::NAMED_TID, &7u32.to_ne_bytes()),
            (part::KIND, &[RecordKind::Name as u8]),
        ]);
        let expected = Record::Name { tid: Tid(7), name: *b"0123456789abcde\0" };
        assert_eq!(Record::parse(&bytes), Some(expected));
        for kind in [0, 18, 255] {
            assert_eq!(Record::parse(&record(&[(part::KIND, &[kind])])), None);
        }
    }
}
