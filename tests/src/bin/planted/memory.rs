//! Pages that are missing until a thread of this process provides them (userfaultfd).
//!
//! Layouts and numbers are those of `linux/userfaultfd.h`.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

use nix::unistd::{SysconfVar, sysconf};

const API: u64 = 0xaa;
const MISSING: u64 = 1;
const PAGE_FAULT: u8 = 0x12;

nix::ioctl_readwrite!(uffdio_api, 0xaa, 0x3f, [u64; 3]);
nix::ioctl_readwrite!(uffdio_register, 0xaa, 0x00, [u64; 4]);
nix::ioctl_readwrite!(uffdio_copy, 0xaa, 0x03, [u64; 5]);

/// Memory of which every page is missing.
pub(crate) struct Missing {
    start: usize,
    pages: usize,
    page: usize,
    faults: File,
}

impl Missing {
    /// Maps that many pages, unless the kernel does not support this.
    pub(crate) fn new(pages: usize) -> Missing {
        let page = sysconf(SysconfVar::PAGE_SIZE).expect("sysconf").expect("pages have a size");
        let page = usize::try_from(page).expect("a positive number");
        let length = pages * page;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, placed by the kernel, overlaps no other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) } as usize;
        assert_ne!(start, libc::MAP_FAILED as usize, "memory");
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = i32::try_from(fd).expect("a descriptor");
        assert!(fd >= 0, "userfaultfd: {}", std::io::Error::last_os_error());
        // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
        let faults = unsafe { File::from_raw_fd(fd) };
        let mut api = [API, 0, 0];
        let mut range = [start as u64, length as u64, MISSING, 0];
        // SAFETY: both structures are as long as the numbers of the calls encode, and outlive them.
        unsafe {
            uffdio_api(fd, &raw mut api).expect("the kernel knows this interface");
            uffdio_register(fd, &raw mut range).expect("memory of this process");
        }
        Missing { start, pages, page, faults }
    }

    /// Reads a byte of each page.
    pub(crate) fn walk(&self) {
        for page in 0..self.pages {
            let byte = (self.start + page * self.page) as *const u8;
            // SAFETY: the mapping is as long as that, and is never taken away. Only the kernel writes to it, before the read returns.
            assert_eq!(unsafe { byte.read_volatile() }, 0);
        }
    }

    /// Writes the first byte of a page to a file, for which the kernel needs the page.
    pub(crate) fn write_to(&self, file: BorrowedFd<'_>, page: usize) {
        assert!(page < self.pages);
        let byte = self.start + page * self.page;
        // SAFETY: the mapping has this page, and is never taken away.
        let written = unsafe { libc::write(file.as_raw_fd(), byte as *const _, 1) };
        assert_eq!(written, 1, "{}", std::io::Error::last_os_error());
    }

    /// Provides each page that a thread waits for, after `work`.
    pub(crate) fn bring(&self, work: impl Fn()) {
        let zeroes = vec![0_u8; self.page];
        for _ in 0..self.pages {
            let mut message = [0; 32];
            (&self.faults).read_exact(&mut message).expect("a fault");
            assert_eq!(message[0], PAGE_FAULT);
            work();
            let address = u64::from_ne_bytes(message[16..24].try_into().expect("eight bytes"));
            let place = address & !(self.page as u64 - 1);
            let mut copy = [place, zeroes.as_ptr() as u64, self.page as u64, 0, 0];
            // SAFETY: the structure is as long as the number of the call encodes; the place is in the mapping, and a page of zeroes is read
            // from a live vector.
            unsafe { uffdio_copy(self.faults.as_raw_fd(), &raw mut copy) }.expect("it is missing");
        }
    }
}
