//! Events, encoded as bytes while they wait to be sorted.

use fxtrec_capture::event::Comm;
use rustc_hash::FxHashMap;

/// A name of a thread, by its number in [`Comms`]; 0 is none.
pub(super) type CommId = u32;

/// The maximum number of distinct names.
const MOST_COMMS: usize = 1 << 19;

/// The names of threads.
#[derive(Debug)]
pub(super) struct Comms {
    numbers: FxHashMap<[u8; 16], CommId>,
    names: Vec<Comm>,
}

impl Default for Comms {
    fn default() -> Comms {
        Comms { numbers: FxHashMap::default(), names: vec![Comm::default()] }
    }
}

impl Comms {
    pub(super) fn add(&mut self, name: &[u8]) -> CommId {
        let comm = Comm::from_bytes(name);
        if comm == Comm::default() {
            return 0;
        }
        if let Some(number) = self.numbers.get(&comm.0) {
            return *number;
        }
        if self.names.len() >= MOST_COMMS {
            return 0;
        }
        let number = self.names.len() as CommId;
        self.names.push(comm);
        self.numbers.insert(comm.0, number);
        number
    }

    pub(super) fn get(&self, number: CommId) -> Comm {
        self.names.get(number as usize).copied().unwrap_or_default()
    }
}

/// Encodes items.
#[derive(Debug, Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text);
    }
}

/// Decodes items.
#[derive(Clone, Copy, Debug)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'a> {
    Switch {
        cpu: u16,
        /// The outgoing thread; `None` in a compact bundle, where it is the last incoming one.
        prev: Option<Side>,
        state: u32,
        next: Side,
    },
    Wake {
        cpu: u16,
        kind: Wake,
        /// The thread that ran on the CPU on which this was recorded; `None` in a compact bundle.
        current: Option<u32>,
        /// Whether an interrupt caused it, if recorded.
        interrupt: Option<bool>,
        target: u16,
        woken: Side,
    },
    /// Events of this CPU before the next one are missing.
    Lost {
        cpu: u16,
    },
    Begin {
        tid: u32,
        parent: u32,
        same_process: bool,
        comm: CommId,
    },
    Rename {
        tid: u32,
        comm: CommId,
    },
    End {
        tid: u32,
    },
    Moved {
        tid: u32,
        from: u16,
        to: u16,
    },
    Interrupt {
        cpu: u16,
        soft: bool,
        begins: bool,
        number: u32,
        name: &'a [u8],
    },
    SystemCall {
        tid: u32,
        number: Option<u16>,
    },
    /// The function in which a thread that is woken now was blocked.
    Blocked {
        tid: u32,
        stack: u32,
    },
    /// An event of `cpu_idle` or `cpu_frequency`.
    Power {
        cpu: u32,
        frequency: bool,
        value: u32,
    },
    /// A string that a program wrote to tracefs.
    Print {
        tid: u32,
        text: &'a [u8],
    },
    /// An event of a track, with its contents as bytes.
    Track {
        kind: u8,
        track: u64,
        thread: (u32, u32),
        content: &'a [u8],
    },
    Sample {
        pid: u32,
        tid: u32,
        stack: u32,
        kind: u8,
        weight: u64,
        error: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) tid: u32,
    pub(super) prio: i32,
    pub(super) comm: CommId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Wakeup,
    New,
    Waking,
}

impl Side {
    fn put(self, out: &mut Out) {
        out.u32(self.tid);
        out.u32(self.prio.cast_unsigned());
        out.u32(self.comm);
    }

    fn take(bytes: &mut In<'_>) -> Option<Side> {
        let (tid, prio) = (bytes.u32()?, bytes.u32()?.cast_signed());
        Some(Side { tid, prio, comm: bytes.u32()? })
    }
}

impl<'a> Item<'a> {
    pub(super) fn put(&self, out: &mut Out) {
        match *self {
            Item::Switch { cpu, prev, state, next } => {
                out.u8(if prev.is_some() { 0 } else { 1 });
                out.u16(cpu);
                out.u32(state);
                next.put(out);
                if let Some(prev) = prev {
                    prev.put(out);
                }
            }
            Item::Wake { cpu, kind, current, interrupt, target, woken } => {
                out.u8(2);
                out.u16(cpu);
                out.u8(kind as u8);
                out.u8(u8::from(current.is_some()));
                out.u32(current.unwrap_or(0));
                out.u8(interrupt.map_or(2, u8::from));
                out.u16(target);
                woken.put(out);
            }
            Item::Lost { cpu } => {
                out.u8(3);
                out.u16(cpu);
            }
            Item::Begin { tid, parent, same_process, comm } => {
                out.u8(4);
                [tid, parent, same_process.into(), comm]
                    .into_iter()
                    .for_each(|number| out.u32(number));
            }
            Item::Rename { tid, comm } => {
                out.u8(5);
                [tid, comm].into_iter().for_each(|number| out.u32(number));
            }
            Item::End { tid } => {
                out.u8(6);
                out.u32(tid);
            }
            Item::Moved { tid, from, to } => {
                out.u8(7);
                out.u32(tid);
                out.u16(from);
                out.u16(to);
            }
            Item::Interrupt { cpu, soft, begins, number, name } => {
                out.u8(8);
                out.u16(cpu);
                out.u8(u8::from(soft) | u8::from(begins) << 1);
                out.u32(number);
                out.text(name);
            }
            Item::SystemCall { tid, number } => {
                out.u8(9);
                out.u32(tid);
                out.u32(number.map_or(u32::MAX, u32::from));
            }
            Item::Blocked { tid, stack } => {
                out.u8(10);
                [tid, stack].into_iter().for_each(|number| out.u32(number));
            }
            Item::Power { cpu, frequency, value } => {
                out.u8(11);
                [cpu, frequency.into(), value].into_iter().for_each(|number| out.u32(number));
            }
            Item::Print { tid, text } => {
                out.u8(12);
                out.u32(tid);
                out.text(text);
            }
            Item::Track { kind, track, thread: (pid, tid), content } => {
                out.u8(13);
                out.u8(kind);
                out.u64(track);
                [pid, tid].into_iter().for_each(|number| out.u32(number));
                out.text(content);
            }
            Item::Sample { pid, tid, stack, kind, weight, error } => {
                out.u8(14);
                [pid, tid, stack].into_iter().for_each(|number| out.u32(number));
                out.u8(kind);
                out.u8(error.into());
                out.u64(weight);
            }
        }
    }

    pub(super) fn take(bytes: &'a [u8]) -> Option<Item<'a>> {
        let mut bytes = In(bytes);
        let tag = bytes.u8()?;
        Some(match tag {
            0 | 1 => {
                let (cpu, state, next) = (bytes.u16()?, bytes.u32()?, Side::take(&mut bytes)?);
                let prev = if tag == 0 { Some(Side::take(&mut bytes)?) } else { None };
                Item::Switch { cpu, prev, state, next }
            }
            2 => {
                let cpu = bytes.u16()?;
                let kind = match bytes.u8()? {
                    0 => Wake::Wakeup,
                    1 => Wake::New,
                    _ => Wake::Waking,
                };
                let reported = bytes.u8()? != 0;
                let current = Some(bytes.u32()?).filter(|_| reported);
                let interrupt = match bytes.u8()? {
                    2 => None,
                    is => Some(is != 0),
                };
                let (target, woken) = (bytes.u16()?, Side::take(&mut bytes)?);
                Item::Wake { cpu, kind, current, interrupt, target, woken }
            }
            3 => Item::Lost { cpu: bytes.u16()? },
            4 => {
                let (tid, parent) = (bytes.u32()?, bytes.u32()?);
                Item::Begin { tid, parent, same_process: bytes.u32()? != 0, comm: bytes.u32()? }
            }
            5 => Item::Rename { tid: bytes.u32()?, comm: bytes.u32()? },
            6 => Item::End { tid: bytes.u32()? },
            7 => Item::Moved { tid: bytes.u32()?, from: bytes.u16()?, to: bytes.u16()? },
            8 => {
                let (cpu, bits) = (bytes.u16()?, bytes.u8()?);
                let (soft, begins) = (bits & 1 != 0, bits & 2 != 0);
                Item::Interrupt { cpu, soft, begins, number: bytes.u32()?, name: bytes.text()? }
            }
            9 => {
                let (tid, number) = (bytes.u32()?, bytes.u32()?);
                Item::SystemCall { tid, number: u16::try_from(number).ok() }
            }
            10 => Item::Blocked { tid: bytes.u32()?, stack: bytes.u32()? },
            11 => {
                let (cpu, frequency) = (bytes.u32()?, bytes.u32()? != 0);
                Item::Power { cpu, frequency, value: bytes.u32()? }
            }
            12 => Item::Print { tid: bytes.u32()?, text: bytes.text()? },
            13 => {
                let (kind, track) = (bytes.u8()?, bytes.u64()?);
                let thread = (bytes.u32()?, bytes.u32()?);
                Item::Track { kind, track, thread, content: bytes.text()? }
            }
            14 => {
                let (pid, tid, stack) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
                let (kind, error) = (bytes.u8()?, bytes.u8()? != 0);
                Item::Sample { pid, tid, stack, kind, weight: bytes.u64()?, error }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_taken() {
        let side = Side { tid: 7, prio: -3, comm: 9 };
        let wake = Item::Wake {
            cpu: 1,
            kind: Wake::Waking,
            current: Some(0),
            interrupt: Some(false),
            target: 2,
            woken: side,
        };
        for item in [
            Item::Switch { cpu: 3, prev: Some(side), state: 256, next: Side { tid: 8, ..side } },
            Item::Switch { cpu: 3, prev: None, state: 1, next: side },
            wake,
            Item::Lost { cpu: 4 },
            Item::Begin { tid: 1, parent: 2, same_process: true, comm: 3 },
            Item::Rename { tid: 1, comm: 2 },
            Item::End { tid: 5 },
            Item::Moved { tid: 5, from: 1, to: 2 },
            Item::Interrupt { cpu: 1, soft: true, begins: true, number: 3, name: b"eth0" },
            Item::SystemCall { tid: 1, number: Some(202) },
            Item::SystemCall { tid: 1, number: None },
            Item::Blocked { tid: 1, stack: 2 },
            Item::Power { cpu: 1, frequency: true, value: u32::MAX },
            Item::Print { tid: 1, text: b"B|1|x" },
            Item::Track { kind: 1, track: u64::MAX, thread: (1, 2), content: b"content" },
            Item::Sample { pid: 1, tid: 2, stack: 3, kind: 2, weight: 1 << 40, error: true },
        ] {
            let mut out = Out::default();
            item.put(&mut out);
            assert_eq!(Item::take(&out.0), Some(item));
            assert_eq!(Item::take(&out.0[..out.0.len() - 1]), None);
        }
    }
}
