//! The kernel's messages about CPU hotplug.
//!
//! When a CPU goes offline, its perf events stop permanently: they neither hang up nor fail, and do not start again with the CPU. Comparing
//! lists of CPUs does not reveal a CPU that was offline for less than the time between two checks. So this listens to the kernel's messages
//! about devices (`NETLINK_KOBJECT_UEVENT`), with a filter in the kernel that passes those about CPUs:
//!
//! ```text
//!   offline@/devices/system/cpu/cpu1 \0 ACTION=offline \0 ...
//!   online@/devices/system/cpu/cpu1 \0 ACTION=online \0 ...
//! ```
//!
//! There are no such messages in a separate user namespace, nor about CPUs that are taken down while the machine sleeps. So the list is
//! still compared once a second, and if messages may be missing, every CPU is checked.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::clock;
use super::sys::Sys;
use crate::units::Cpu;

/// How often the list of CPUs is compared.
const INTERVAL: Duration = Duration::from_secs(1);

/// The clocks with and without suspended time are not read at the same time.
const ASLEEP: Duration = Duration::from_millis(100);

/// Room for the relevant part of a message; the rest is cut off.
const MESSAGE_BYTES: usize = 256;

/// The multicast group of the kernel's own messages; udev uses another.
const KERNEL_GROUP: u32 = 1;

/// The CPUs that may have been offline since the last check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaybeOffline {
    These(Vec<Cpu>),
    /// Any CPU is suspect.
    All,
}

impl MaybeOffline {
    /// Whether the CPU may have been offline.
    pub fn contains(&self, cpu: Cpu) -> bool {
        match self {
            MaybeOffline::These(cpus) => cpus.contains(&cpu),
            MaybeOffline::All => true,
        }
    }
}

/// Watches CPU hotplug.
#[derive(Debug)]
pub struct Hotplug {
    /// `None` if the kernel sends no messages.
    socket: Option<OwnedFd>,
    looked: Instant,
    asleep: Duration,
}

impl Hotplug {
    /// Starts watching. Must be called before anything is opened on a CPU.
    pub fn watch(sys: &dyn Sys) -> Hotplug {
        Hotplug {
            socket: sys.device_messages().ok(),
            looked: Instant::now(),
            asleep: clock::asleep(),
        }
    }

    /// The descriptor that poll(2) reports as readable when there is a message.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// The CPUs to check; `None` if it is not yet time to check.
    pub fn look(&mut self) -> Option<MaybeOffline> {
        let heard = self.hear();
        let is_time = self.looked.elapsed() >= INTERVAL;
        if !is_time && heard == MaybeOffline::These(Vec::new()) {
            return None;
        }
        self.looked = Instant::now();
        let asleep = clock::asleep();
        let slept = asleep.saturating_sub(std::mem::replace(&mut self.asleep, asleep)) > ASLEEP;
        let deaf = self.socket.is_none();
        Some(if slept || deaf { MaybeOffline::All } else { heard })
    }

    fn hear(&mut self) -> MaybeOffline {
        let mut cpus = Vec::new();
        let Some(socket) = &self.socket else { return MaybeOffline::These(cpus) };
        let mut message = [0; MESSAGE_BYTES];
        loop {
            let received = nix::sys::socket::recv(
                socket.as_raw_fd(),
                &mut message,
                nix::sys::socket::MsgFlags::MSG_DONTWAIT,
            );
            match received.map_err(io::Error::from) {
                Ok(0) => return MaybeOffline::These(cpus),
                Ok(bytes) => cpus.extend(cpu_of(&message[..bytes]).filter(|c| !cpus.contains(c))),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return MaybeOffline::These(cpus),
                    ErrorKind::Interrupted => {}
                    // ENOBUFS: there were more messages than the socket has space for.
                    _ if error.raw_os_error() == Some(libc::ENOBUFS) => return MaybeOffline::All,
                    _ => {
                        self.socket = None;
                        return MaybeOffline::All;
                    }
                },
            }
        }
    }
}

/// The CPU that a message is about.
fn cpu_of(message: &[u8]) -> Option<Cpu> {
    let head = message.split(|byte| *byte == 0).next()?;
    let (action, device) = std::str::from_utf8(head).ok()?.split_once('@')?;
    let number = device.strip_prefix("/devices/system/cpu/cpu")?.parse().ok()?;
    matches!(action, "online" | "offline").then_some(Cpu(number))
}

/// A socket that receives messages about devices, including CPUs and memory, that come online or go offline.
pub(super) fn device_messages() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            libc::NETLINK_KOBJECT_UEVENT,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    attach_filter(socket.as_fd())?;
    let address = nix::sys::socket::NetlinkAddr::new(0, KERNEL_GROUP);
    nix::sys::socket::bind(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// Passes only messages that begin with `onli` or `offl`, so that disks or network interfaces that come and go all the time do not wake
/// this thread.
fn attach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    let word = |text: &[u8; 4]| u32::from_be_bytes(*text);
    let code = |code: u32| u16::try_from(code).unwrap_or(u16::MAX);
    let load = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let equal = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let ret = code(libc::BPF_RET | libc::BPF_K);
    let mut program = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: equal, jt: 1, jf: 0, k: word(b"onli") },
        libc::sock_filter { code: equal, jt: 0, jf: 1, k: word(b"offl") },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: u32::MAX },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 0 },
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the option's value, and the program that it points to, whose length is part of it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    const NOTHING: Option<MaybeOffline> = None;

    #[test]
    fn only_messages_about_cpus_that_come_or_go_count() {
        let cpu = |text: &str| cpu_of(text.as_bytes());
        assert_eq!(cpu("online@/devices/system/cpu/cpu12\0ACTION=online\0"), Some(Cpu(12)));
        assert_eq!(cpu("offline@/devices/system/cpu/cpu0\0"), Some(Cpu(0)));
        for other in [
            "",
            "\0",
            "online@",
            "add@/devices/system/cpu/cpu1\0",
            "online@/devices/system/memory/memory1\0",
            "online@/devices/system/cpu/cpuidle\0",
            "online@/devices/system/cpu/cpu-1\0",
            "online@/devices/system/cpu/cpu99999999999\0",
        ] {
            assert_eq!(cpu(other), None, "{other:?}");
        }
        assert_eq!(cpu_of(b"online@/devices/system/cpu/cpu\xff"), None);
    }

    #[test]
    fn what_is_heard_is_looked_at_at_once_and_everything_when_nothing_can_be_heard() {
        let machine = Fake::default().with_device_messages();
        let mut hotplug = Hotplug::watch(&machine);
        assert_eq!(hotplug.look(), NOTHING);
        machine.tell_device("offline@/devices/system/cpu/cpu3\0ACTION=offline\0");
        machine.tell_device("online@/devices/system/cpu/cpu3\0ACTION=online\0");
        machine.tell_device("online@/devices/system/cpu/cpu1\0ACTION=online\0");
        assert_eq!(hotplug.look(), Some(MaybeOffline::These(vec![Cpu(3), Cpu(1)])));
        assert_eq!(hotplug.look(), NOTHING);
        hotplug.looked -= INTERVAL;
        assert_eq!(hotplug.look(), Some(MaybeOffline::These(Vec::new())));

        let mut deaf = Hotplug::watch(&Fake::default());
        assert!(deaf.poll_fd().is_none());
        assert_eq!(deaf.look(), NOTHING);
        deaf.looked -= INTERVAL;
        assert_eq!(deaf.look(), Some(MaybeOffline::All));
    }

    #[test]
    fn after_the_machine_slept_every_cpu_is_suspected() {
        let mut hotplug = Hotplug::watch(&Fake::default().with_device_messages());
        let Some(before) = hotplug.asleep.checked_sub(ASLEEP * 2) else {
            // The machine never slept: pretend that it was awake for longer than its clocks show.
            hotplug.looked -= INTERVAL;
            assert_eq!(hotplug.look(), Some(MaybeOffline::These(Vec::new())));
            return;
        };
        hotplug.asleep = before;
        hotplug.looked -= INTERVAL;
        assert_eq!(hotplug.look(), Some(MaybeOffline::All));
    }

    #[test]
    fn the_kernel_accepts_the_socket_and_its_filter() {
        let socket = device_messages().expect("any user may hear the kernel's messages");
        let mut byte = [0];
        let got = nix::sys::socket::recv(
            socket.as_raw_fd(),
            &mut byte,
            nix::sys::socket::MsgFlags::MSG_DONTWAIT,
        );
        assert!(!matches!(got, Ok(0)));
    }
}
