//! The records that the programs write: 24 bytes each, of six kinds.
//!
//! ```text
//!   byte    0        8             12            16          20      21      22      23
//!   switch  time     tid out       tid in        state       kind    flags   prio    prio in
//!   wake    time     tid           tid current   CPU         kind    flags   prio    -
//!   lost    time     count                       -           kind    -       -       -
//!   name    name, 16 bytes                       tid         kind    -       -       -
//! ```
//!
//! The lane tells the CPU. Priorities are cut to a byte: they are between -1,
//! for deadline tasks, and 139. A name stands before the first record of its
//! lane that mentions the thread, and before the first after it was renamed.

use crate::units::{Cpu, Nanos, Tid};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;

/// The places of a record's parts, in bytes from its beginning.
pub mod at {
    #![allow(missing_docs, reason = "the picture in the module above shows them")]
    pub const TIME: i16 = 0;
    pub const TID: i16 = 8;
    pub const SECOND_TID: i16 = 12;
    pub const COUNT: i16 = 8;
    pub const STATE: i16 = 16;
    pub const CPU: i16 = 16;
    pub const KIND: i16 = 20;
    pub const FLAGS: i16 = 21;
    pub const PRIO: i16 = 22;
    pub const SECOND_PRIO: i16 = 23;
    pub const NAME: i16 = 0;
    pub const NAMED_TID: i16 = 16;
}

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// `sched_switch`. Its flag: the thread that goes out is preempted.
    Switch = 1,
    /// `sched_wakeup`. The flag of wake-ups: an interrupt does it.
    Wakeup = 2,
    /// `sched_wakeup_new`.
    WakeupNew = 3,
    /// `sched_waking`.
    Waking = 4,
    /// Records found no room before this one.
    Lost = 5,
    /// What a thread is called.
    Name = 6,
}

/// A record, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A context switch.
    Switch {
        /// When.
        time: Nanos,
        /// Who goes out.
        prev: Tid,
        /// Who comes in.
        next: Tid,
        /// The kernel's priority of who goes out.
        prev_prio: i32,
        /// The same of who comes in.
        next_prio: i32,
        /// `__state` and `exit_state` of who goes out, in one: their bits differ.
        state: u32,
        /// Whether it is preempted.
        preempted: bool,
    },
    /// A wake-up.
    Wake {
        /// Which tracepoint: one of the three kinds of wake-ups.
        kind: RecordKind,
        /// When.
        time: Nanos,
        /// Who is woken.
        tid: Tid,
        /// Who runs where it happens.
        current: Tid,
        /// The priority of who is woken.
        prio: i32,
        /// The CPU on whose run queue it goes.
        target: Cpu,
        /// Whether an interrupt does it.
        in_interrupt: bool,
    },
    /// Records found no room.
    Lost {
        /// When there was room again.
        time: Nanos,
        /// How many.
        count: u64,
    },
    /// What a thread is called.
    Name {
        /// The thread.
        tid: Tid,
        /// The kernel's 16 bytes.
        name: [u8; 16],
    },
}

/// `-1` is the only negative priority.
fn prio(byte: u8) -> i32 {
    if byte == u8::MAX { -1 } else { i32::from(byte) }
}

impl Record {
    /// Takes a record apart; `None` when it is of no known kind.
    #[inline]
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        let u32_at = |at: i16| {
            let at = at as usize;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: i16| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at as usize..at as usize + 8]);
            u64::from_ne_bytes(word)
        };
        let kind = bytes[at::KIND as usize];
        let flag = bytes[at::FLAGS as usize] != 0;
        let time = Nanos(u64_at(at::TIME));
        let wake = |kind| Record::Wake {
            kind,
            time,
            tid: Tid(u32_at(at::TID)),
            current: Tid(u32_at(at::SECOND_TID)),
            prio: prio(bytes[at::PRIO as usize]),
            target: Cpu(u32_at(at::CPU)),
            in_interrupt: flag,
        };
        Some(match kind {
            _ if kind == RecordKind::Switch as u8 => Record::Switch {
                time,
                prev: Tid(u32_at(at::TID)),
                next: Tid(u32_at(at::SECOND_TID)),
                prev_prio: prio(bytes[at::PRIO as usize]),
                next_prio: prio(bytes[at::SECOND_PRIO as usize]),
                state: u32_at(at::STATE),
                preempted: flag,
            },
            _ if kind == RecordKind::Wakeup as u8 => wake(RecordKind::Wakeup),
            _ if kind == RecordKind::WakeupNew as u8 => wake(RecordKind::WakeupNew),
            _ if kind == RecordKind::Waking as u8 => wake(RecordKind::Waking),
            _ if kind == RecordKind::Lost as u8 => Record::Lost { time, count: u64_at(at::COUNT) },
            _ if kind == RecordKind::Name as u8 => {
                let mut name = [0; 16];
                name.copy_from_slice(&bytes[..16]);
                Record::Name { tid: Tid(u32_at(at::NAMED_TID)), name }
            }
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
            (at::TIME, &77u64.to_ne_bytes()),
            (at::TID, &10u32.to_ne_bytes()),
            (at::SECOND_TID, &11u32.to_ne_bytes()),
            (at::STATE, &0x402u32.to_ne_bytes()),
            (at::KIND, &[RecordKind::Switch as u8, 1, 120, 255]),
        ]);
        let expected = Record::Switch {
            time: Nanos(77),
            prev: Tid(10),
            next: Tid(11),
            prev_prio: 120,
            next_prio: -1,
            state: 0x402,
            preempted: true,
        };
        assert_eq!(Record::parse(&bytes), Some(expected));
    }

    #[test]
    fn a_wake_up_names_the_woken_the_current_and_the_target() {
        let bytes = record(&[
            (at::TIME, &5u64.to_ne_bytes()),
            (at::TID, &3u32.to_ne_bytes()),
            (at::SECOND_TID, &4u32.to_ne_bytes()),
            (at::CPU, &300u32.to_ne_bytes()),
            (at::KIND, &[RecordKind::Waking as u8, 0, 98, 0]),
        ]);
        let expected = Record::Wake {
            kind: RecordKind::Waking,
            time: Nanos(5),
            tid: Tid(3),
            current: Tid(4),
            prio: 98,
            target: Cpu(300),
            in_interrupt: false,
        };
        assert_eq!(Record::parse(&bytes), Some(expected));
    }

    #[test]
    fn losses_and_names_are_read_back_and_other_kinds_are_not() {
        let bytes = record(&[
            (at::TIME, &5u64.to_ne_bytes()),
            (at::COUNT, &9u64.to_ne_bytes()),
            (at::KIND, &[RecordKind::Lost as u8]),
        ]);
        assert_eq!(Record::parse(&bytes), Some(Record::Lost { time: Nanos(5), count: 9 }));
        let bytes = record(&[
            (at::NAME, b"0123456789abcde\0"),
            (at::NAMED_TID, &7u32.to_ne_bytes()),
            (at::KIND, &[RecordKind::Name as u8]),
        ]);
        let expected = Record::Name { tid: Tid(7), name: *b"0123456789abcde\0" };
        assert_eq!(Record::parse(&bytes), Some(expected));
        for kind in [0, 7, 255] {
            assert_eq!(Record::parse(&record(&[(at::KIND, &[kind])])), None);
        }
    }
}
