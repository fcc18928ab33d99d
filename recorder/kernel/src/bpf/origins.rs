//! The causes of interrupts that end a sleep.
//!
//! Programs on interrupts and timers (`interrupts.bpf.c`) store the current event in per-CPU memory. The program on wakeups reports that
//! note for threads woken in the meantime. It reads the note only if the kernel shows that an interrupt is running, so a wakeup by a
//! thread has no additional cost.
//!
//! ```text
//!   CPU 0   irq_handler_entry virtio0 ---- sched_waking A ---- irq_handler_exit      A is woken by the device
//!   CPU 1   softirq_entry TIMER -- timer_expire_entry process_timeout -- sched_waking B      B is woken by its own timeout
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::account::HANDLERS;
use crate::units::{Nanos, Tid};

/// Size of the stored data about a CPU, in bytes.
pub const LINE_BYTES: usize = 256;

/// Bytes stored about threads that are being woken.
pub const TOLD_BYTES: usize = 1024 * 128;

/// The maximum number of bytes reported in addition to the record itself.
pub const MOST_BYTES: usize = 60;

/// The cause of an interrupt that wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A timer with nanosecond resolution: a sleep, the timeout of a system call, a timer of a program.
    HrTimer { function: u64 },
    /// A timer of the kernel with tick resolution.
    Timer { function: u64 },
    /// An interrupt of a device, and the beginning of its name.
    Device { irq: u32, name: Bytes<MOST_NAME_BYTES> },
    /// Work that interrupts defer, of unknown origin.
    Softirq(u32),
    /// A packet of a thread on this host, and when the thread sent it.
    Sent { sender: Tid, at: Nanos },
    /// A packet whose sender is not known to be a thread of this host.
    Packet(Option<Ends>),
    /// A disk request that has completed.
    Request(Request),
    /// An interrupt that is not from a device: an interrupt with a separate tracepoint.
    Vector(u32),
}

/// Bytes of a device's name that are reported, with the NUL after it.
pub const MOST_NAME_BYTES: usize = 20;

/// At most this many bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes<const MOST: usize = MOST_BYTES> {
    bytes: [u8; MOST],
    length: u8,
}

impl<const MOST: usize> Default for Bytes<MOST> {
    fn default() -> Bytes<MOST> {
        Bytes { bytes: [0; MOST], length: 0 }
    }
}

impl<const MOST: usize> std::fmt::Debug for Bytes<MOST> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.get()))
    }
}

impl<const MOST: usize> Bytes<MOST> {
    /// Adds as many of these as fit.
    pub fn add(&mut self, more: &[u8]) {
        let at = usize::from(self.length);
        let count = more.len().min(MOST - at);
        self.bytes[at..at + count].copy_from_slice(&more[..count]);
        self.length += count as u8;
    }

    pub fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Up to the first NUL.
    pub fn text(&self) -> &[u8] {
        self.get().split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// A disk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub disk: Bytes<MOST_NAME_BYTES>,
    /// The operation of the disk, by the kernel's numbers.
    operation: u32,
    pub bytes: u32,
    // 0 if unknown, to keep an event small.
    issuer: u32,
    started: u64,
    issued: u64,
}

impl Request {
    /// Reads the additional bytes of a record: the name of the disk, the operation, and the size.
    fn parse(raw: RawOrigin, bytes: &[u8]) -> Option<Request> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let mut disk = Bytes::default();
        disk.add(bytes.get(..MOST_NAME_BYTES)?);
        let operation = word(MOST_NAME_BYTES)?.checked_sub(1)?;
        let bytes = word(MOST_NAME_BYTES + 4)?;
        let (issuer, started, issued) = (raw.number, raw.what, raw.since);
        Some(Request { disk, operation, bytes, issuer, started, issued })
    }

    /// The thread that submitted it, if known.
    pub fn issuer(&self) -> Option<Tid> {
        Some(Tid(self.issuer)).filter(|issuer| *issuer != Tid::IDLE)
    }

    /// When it was submitted.
    pub fn started(&self) -> Option<Nanos> {
        Some(Nanos(self.started)).filter(|time| time.0 > 0)
    }

    /// When the disk got it.
    pub fn issued(&self) -> Option<Nanos> {
        Some(Nanos(self.issued)).filter(|time| time.0 > 0)
    }

    /// The operation of the disk.
    pub fn operation(&self) -> &'static str {
        match self.operation {
            0 => "read",
            1 => "write",
            2 => "flush",
            3 => "discard",
            5 => "secure_erase",
            7 => "zone_append",
            9 => "write_zeroes",
            FLUSH_AND_WRITE => "flush+write",
            _ => "other",
        }
    }
}

/// A write with a flush, which is not an operation of the kernel; the same number is in `requests.bpf.c`.
const FLUSH_AND_WRITE: u32 = 0x100;

/// The numbers of `enum origin_kind`.
mod kind {
    pub(super) const HRTIMER: u8 = 1;
    pub(super) const TIMER: u8 = 2;
    pub(super) const DEVICE: u8 = 3;
    pub(super) const SOFTIRQ: u8 = 4;
    pub(super) const VECTOR: u8 = 5;
    pub(super) const SENT: u8 = 6;
    pub(super) const PACKET: u8 = 7;
    pub(super) const REQUEST: u8 = 8;
}

/// The report of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOrigin {
    pub what: u64,
    pub since: u64,
    pub number: u32,
    pub kind: u8,
}

impl RawOrigin {
    /// The cause, with the additional bytes; `None` if unknown.
    pub fn understand(self, bytes: Bytes) -> Option<Origin> {
        Some(match self.kind {
            kind::HRTIMER => Origin::HrTimer { function: self.what },
            kind::TIMER => Origin::Timer { function: self.what },
            kind::DEVICE => {
                let mut name = Bytes::default();
                name.add(bytes.get());
                Origin::Device { irq: self.number, name }
            }
            kind::SOFTIRQ => Origin::Softirq(self.number),
            kind::VECTOR => Origin::Vector(self.number),
            kind::SENT => Origin::Sent { sender: Tid(self.number), at: Nanos(self.since) },
            kind::REQUEST => Origin::Request(Request::parse(self, bytes.get())?),
            kind::PACKET => Origin::Packet(Ends::parse(self.number, self.since, bytes.get())),
            _ => return None,
        })
    }
}

/// The source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The protocol number within the internet protocol.
    protocol: u8,
    from: (IpAddr, Option<u16>),
    to: (IpAddr, Option<u16>),
}

impl Ends {
    /// Reads this many bytes of a header, for a protocol given by its number on the wire.
    fn parse(protocol: u32, length: u64, bytes: &[u8]) -> Option<Ends> {
        let bytes = bytes.get(..usize::try_from(length).ok()?).filter(|it| it.len() >= LEAST)?;
        let v4 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
        let v6 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<16>()?));
        let (protocol, from, to, behind) = match (u16::try_from(protocol).ok()?, bytes[0] >> 4) {
            (V4, 4) => {
                // Only the first fragment of a packet has ports.
                let is_first = (u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff) == 0;
                let behind = usize::from(bytes[0] & 0xf) * 4;
                (bytes[9], v4(12)?, v4(16)?, is_first.then_some(behind))
            }
            (V6, 6) => (bytes[6], v6(8)?, v6(24)?, Some(40)),
            _ => return None,
        };
        let has_ports = matches!(protocol, TCP | UDP);
        let port = |more: usize| {
            let at = behind.filter(|_| has_ports)? + more;
            Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
        };
        Some(Ends { protocol, from: (from, port(0)), to: (to, port(2)) })
    }
}

/// As in the trace: `tcp 10.0.0.5:5432 10.0.0.2:40000`.
impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            TCP => f.write_str("tcp")?,
            UDP => f.write_str("udp")?,
            number => write!(f, "ip-{number}")?,
        }
        for (address, port) in [self.from, self.to] {
            match port {
                Some(port) => write!(f, " {}", SocketAddr::new(address, port))?,
                None => write!(f, " {address}")?,
            }
        }
        Ok(())
    }
}

/// Protocol numbers as they are in memory, and within the internet protocols.
const V4: u16 = 0x0800_u16.to_be();
const V6: u16 = 0x86dd_u16.to_be();
/// A header without options.
const LEAST: usize = 20;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The name of a soft interrupt.
pub fn softirq(number: u32) -> Option<&'static str> {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(number as usize).copied()
}

/// The name of a vector that does not belong to a device.
pub fn vector(number: u32) -> Option<&'static str> {
    HANDLERS.get(number as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_tells_is_understood_and_what_is_unknown_is_left_out() {
        let raw = RawOrigin { what: 7, since: 0, number: 3, kind: 1 };
        assert_eq!(raw.understand(Bytes::default()), Some(Origin::HrTimer { function: 7 }));
        let of = |kind| RawOrigin { kind, ..raw }.understand(Bytes::default());
        assert_eq!(of(4), Some(Origin::Softirq(3)));
        assert_eq!((of(0), of(99)), (None, None));
        assert_eq!((softirq(3), softirq(99)), (Some("NET_RX"), None));
        assert_eq!((vector(2), vector(99)), (Some("local_timer"), None));
    }

    #[test]
    fn a_request_has_a_disk_an_operation_and_what_is_known_of_it() {
        let of = |what, since, number, rest: &[u32]| {
            let mut bytes = Bytes::<MOST_BYTES>::default();
            bytes.add(b"vda\0and-what-was-her");
            rest.iter().for_each(|word| bytes.add(&word.to_ne_bytes()));
            let raw = RawOrigin { what, since, number, kind: kind::REQUEST };
            match raw.understand(bytes) {
                Some(Origin::Request(request)) => Some(request),
                _ => None,
            }
        };
        let request = of(100, 130, 7, &[2, 4096, 0]).expect("it is whole");
        assert_eq!((request.disk.text(), request.operation()), (&b"vda"[..], "write"));
        assert_eq!((request.bytes, request.issuer()), (4096, Some(Tid(7))));
        assert_eq!((request.started(), request.issued()), (Some(Nanos(100)), Some(Nanos(130))));
        let unknown = of(0, 0, 0, &[0x101, 512]).expect("it is whole");
        assert_eq!((unknown.operation(), unknown.issuer()), ("flush+write", None));
        assert_eq!((unknown.started(), unknown.issued()), (None, None));
        assert_eq!((of(1, 1, 1, &[0, 0]), of(1, 1, 1, &[1]), of(1, 1, 1, &[])), (None, None, None));
    }

    fn ends(protocol: u16, bytes: &[u8]) -> Option<String> {
        let ends = Ends::parse(protocol.to_be().into(), bytes.len() as u64, bytes);
        ends.map(|ends| ends.to_string())
    }

    #[test]
    fn a_packet_shows_between_whom_it_goes() {
        let mut v4 = [0; 28];
        (v4[0], v4[9]) = (0x45, TCP);
        v4[12..16].copy_from_slice(&[10, 0, 0, 5]);
        v4[16..20].copy_from_slice(&[10, 0, 0, 2]);
        v4[20..24].copy_from_slice(&[0x15, 0x38, 0x9c, 0x40]);
        assert_eq!(ends(0x0800, &v4).as_deref(), Some("tcp 10.0.0.5:5432 10.0.0.2:40000"));
        // A later fragment, a packet with options before the ports, and one of another protocol.
        let mut piece = v4;
        piece[7] = 1;
        assert_eq!(ends(0x0800, &piece).as_deref(), Some("tcp 10.0.0.5 10.0.0.2"));
        (piece[7], piece[0]) = (0, 0x4f);
        assert_eq!(ends(0x0800, &piece).as_deref(), Some("tcp 10.0.0.5 10.0.0.2"));
        (piece[0], piece[9]) = (0x45, 1);
        assert_eq!(ends(0x0800, &piece).as_deref(), Some("ip-1 10.0.0.5 10.0.0.2"));
        let mut v6 = [0; 44];
        (v6[0], v6[6], v6[23], v6[39]) = (0x60, UDP, 1, 2);
        v6[40..].copy_from_slice(&[0, 53, 0, 7]);
        assert_eq!(ends(0x86dd, &v6).as_deref(), Some("udp [::1]:53 [::2]:7"));
    }

    #[test]
    fn what_is_no_packet_of_the_internet_or_is_cut_has_no_ends() {
        let bytes = [0x45; 44];
        for length in 0..28 {
            assert_eq!(ends(0x86dd, &bytes[..length]), None, "{length}");
        }
        assert_eq!(ends(0x0806, &bytes), None);
        assert_eq!(Ends::parse(0x0800_u16.to_be().into(), 45, &bytes), None);
        assert_eq!(ends(0x86dd, &[0x60; 39]), None);
        assert_eq!(ends(0x0800, &[]), None);
    }

    #[test]
    fn the_name_of_a_device_ends_at_its_first_zero_and_too_many_bytes_are_cut() {
        let mut bytes = Bytes::<MOST_BYTES>::default();
        bytes.add(b"virtio1-req.0\0\0\0\0\0\0\0");
        assert_eq!(bytes.text(), b"virtio1-req.0");
        bytes.add(&[1; 100]);
        assert_eq!(bytes.get().len(), MOST_BYTES);
    }
}
