//! The object for which a thread waited: the file or socket behind the descriptor of its system call. See `descriptors.h`.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use syscalls::Sysno;

use crate::units::Pid;

const NAME_BYTES: usize = 64;
const DEVICE_BYTES: usize = 32;

/// Numbers of system calls are below.
const CALLS: usize = 1024;

/// Bytes of the set of system calls.
pub(super) const SET_BYTES: usize = CALLS / 8;

/// System calls whose first argument is the descriptor that they may wait for. `epoll_wait`, `poll` and `select` wait
/// for many; `close` has given the descriptor back by then.
const CALLS_WITH_DESCRIPTOR: [&str; 42] = [
    "accept",
    "accept4",
    "connect",
    "copy_file_range",
    "fallocate",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "vmsplice",
    "write",
    "writev",
];

/// `struct described`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(in crate::bpf) struct Described {
    /// The kind of file in the bits of a mode, and [`IS_KNOWN`]; 0 if nothing is known.
    pub(in crate::bpf) kind: u32,
    pub(in crate::bpf) descriptor: u32,
    pub(in crate::bpf) family: u16,
    pub(in crate::bpf) protocol: u16,
    pub(in crate::bpf) local_port: u16,
    /// In the order of packets.
    pub(in crate::bpf) remote_port: u16,
    pub(in crate::bpf) peer: u32,
    pub(in crate::bpf) local: [u8; 16],
    pub(in crate::bpf) remote: [u8; 16],
    pub(in crate::bpf) device: [u8; DEVICE_BYTES],
    pub(in crate::bpf) name: [u8; NAME_BYTES],
    pub(in crate::bpf) parent: [u8; NAME_BYTES],
}

/// Some files have no kind: eventfd, timerfd.
const IS_KNOWN: u32 = 1;

/// The file, pipe or socket behind a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitObject {
    /// A socket of IPv4 or IPv6, by its ends. An unconnected socket has no remote end.
    Internet { protocol: u16, local: SocketAddr, remote: Option<SocketAddr> },
    /// A socket of another family, with the process at the other end if the kernel knows it: it connected, or it listened.
    Socket { family: u16, peer: Option<Pid> },
    /// A pipe without a name.
    Pipe,
    /// An object that has only a descriptor, by the kernel's name for it: `eventfd`, `timerfd`.
    Anonymous { name: Vec<u8> },
    /// A file, directory or device by the last two parts of its path, and the device that its file system is on.
    File { path: Vec<u8>, device: Vec<u8> },
}

/// The object for which a thread waited in its system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    pub descriptor: u32,
    pub object: WaitObject,
}

/// The set of [`CALLS_WITH_DESCRIPTOR`] of this architecture, as programs read it.
pub(super) fn set() -> [u64; CALLS / 64] {
    let mut set = [0; CALLS / 64];
    let numbers = CALLS_WITH_DESCRIPTOR.iter().filter_map(|name| name.parse::<Sysno>().ok());
    for number in numbers.map(|call| call as usize).filter(|number| *number < CALLS) {
        set[number / 64] |= 1 << (number % 64);
    }
    set
}

fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The data that programs found; `None` if they found nothing.
pub(super) fn waited(bytes: &[u8]) -> Option<Waited> {
    let at = |offset: usize, length: usize| bytes.get(offset..)?.get(..length);
    let word = |offset| Some(u32::from_ne_bytes(*at(offset, 4)?.first_chunk()?));
    let half = |offset| Some(u16::from_ne_bytes(*at(offset, 2)?.first_chunk()?));
    let kind = word(offset_of!(Described, kind))?;
    if kind & IS_KNOWN == 0 {
        return None;
    }
    let family = half(offset_of!(Described, family))?;
    let name = text(at(offset_of!(Described, name), NAME_BYTES)?);
    let parent = text(at(offset_of!(Described, parent), NAME_BYTES)?);
    let address = |offset| {
        let bytes: [u8; 16] = *at(offset, 16)?.first_chunk()?;
        Some(match i32::from(family) {
            libc::AF_INET => {
                IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>().expect("of sixteen")))
            }
            _ => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
        })
    };
    let object = match (kind & libc::S_IFMT, i32::from(family)) {
        (libc::S_IFSOCK, libc::AF_INET | libc::AF_INET6) => {
            let local_port = half(offset_of!(Described, local_port))?;
            let remote_port = u16::from_be(half(offset_of!(Described, remote_port))?);
            let local = address(offset_of!(Described, local))?;
            let remote = address(offset_of!(Described, remote))?;
            WaitObject::Internet {
                protocol: half(offset_of!(Described, protocol))?,
                local: SocketAddr::new(local, local_port),
                remote: (remote_port != 0).then(|| SocketAddr::new(remote, remote_port)),
            }
        }
        (libc::S_IFSOCK, _) => {
            let peer = word(offset_of!(Described, peer))?;
            WaitObject::Socket { family, peer: (peer != 0).then_some(Pid(peer)) }
        }
        (libc::S_IFIFO, _) if name.is_empty() => WaitObject::Pipe,
        _ if name.is_empty() => return None,
        (0, _) => {
            let name = name.strip_prefix(b"[").unwrap_or(name);
            WaitObject::Anonymous { name: name.strip_suffix(b"]").unwrap_or(name).to_vec() }
        }
        _ => {
            let path = match parent {
                b"" | b"/" => name.to_vec(),
                parent => [parent, b"/", name].concat(),
            };
            let device = text(at(offset_of!(Described, device), DEVICE_BYTES)?).to_vec();
            WaitObject::File { path, device }
        }
    };
    Some(Waited { descriptor: word(offset_of!(Described, descriptor))?, object })
}
