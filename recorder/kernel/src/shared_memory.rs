//! Memory that is shared with another process, with a size that can no longer change.
//!
//! The size is sealed: if the file were truncated while it is read here, SIGBUS would kill fxtrec. If the other process is killed, the
//! contents stay as it left them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use fxt_writer::engine::{HEADER_WORDS, SharedWords};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::sys::Mapping;

const WORD_BYTES: usize = size_of::<u64>();

/// A file in memory with a sealed size, mapped read-only; its header is also mapped writable.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    words: SharedView,
}

/// The part that remains after the file was passed on: the mappings.
#[derive(Debug)]
pub struct SharedView {
    /// The whole memory, read-only.
    all: Mapping,
    /// The header only, for the word that makes writers wait.
    header: Mapping,
}

impl SharedMemory {
    /// Creates a file of `bytes` zeros, which take no memory until they are written.
    ///
    /// # Errors
    /// Errors of memfd_create(2), ftruncate(2), fcntl(2) or mmap(2).
    pub fn new(name: &str, bytes: usize) -> io::Result<SharedMemory> {
        let file = open(name)?;
        let length = i64::try_from(bytes).map_err(io::Error::other)?;
        ftruncate(&file, length)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let all = Mapping::of_part(file.as_fd(), 0, bytes)?;
        let header = Mapping::new(Some(file.as_fd()), bytes.min(HEADER_WORDS * WORD_BYTES))?;
        let words = SharedView { all, header };
        Ok(SharedMemory { file, words })
    }

    /// The descriptor for the writing process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Closes the file here and keeps the mappings.
    pub fn into_words(self) -> SharedView {
        self.words
    }
}

/// A memfd that cannot be executed, if the kernel supports that (6.3).
fn open(name: &str) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let inert = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(name, flags | inert) {
        Err(Errno::EINVAL) => Ok(memfd_create(name, flags)?),
        opened => Ok(opened?),
    }
}

/// A file in memory with these contents.
///
/// # Errors
/// Errors of memfd_create(2) or write(2).
pub fn file_of(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(open(name)?);
    io::Write::write_all(&mut file, bytes)?;
    Ok(file.into())
}

impl SharedWords for SharedView {
    fn words(&self) -> usize {
        self.all.len() / WORD_BYTES
    }

    #[inline]
    fn load(&self, index: usize) -> u64 {
        assert!(index < self.words());
        // SAFETY: the index is within the mapping, which begins at a page and therefore aligned, and which lives as long as self. Its file
        // cannot shrink, because it is sealed. In this process, only `exchange` writes to the memory, and atomically; whatever other
        // processes write, an atomic load yields some value.
        let word = unsafe { AtomicU64::from_ptr(self.all.base().cast::<u64>().add(index)) };
        // On read-only memory std permits relaxed loads only; the fence makes this one an acquire.
        let value = word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }

    fn exchange(&self, index: usize, value: u64) {
        assert!(index < self.header.len() / WORD_BYTES);
        // SAFETY: as in `load`, of a mapping that may be written to.
        let word = unsafe { AtomicU64::from_ptr(self.header.base().cast::<u64>().add(index)) };
        word.swap(value, Ordering::AcqRel);
    }

    fn let_go(&self) {
        self.all.forget_pages();
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::uio::{pread, pwrite};

    use super::*;

    #[test]
    fn what_another_process_writes_is_read() {
        let memory = SharedMemory::new("test", 4096).expect("a memfd");
        let theirs = memory.file().try_clone_to_owned().expect("a descriptor");
        let words = memory.into_words();
        assert_eq!((words.words(), words.load(511)), (512, 0));
        pwrite(&theirs, &7_u64.to_ne_bytes(), 511 * 8).expect("it is there");
        assert_eq!(words.load(511), 7);
    }

    #[test]
    fn what_is_stored_in_the_header_is_seen_by_another_process_and_here() {
        let memory = SharedMemory::new("test", 4096).expect("a memfd");
        let theirs = memory.file().try_clone_to_owned().expect("a descriptor");
        let words = memory.into_words();
        words.exchange(12, 7);
        let mut seen = [0; 8];
        pread(&theirs, &mut seen, 12 * 8).expect("it is there");
        assert_eq!((u64::from_ne_bytes(seen), words.load(12), words.load(13)), (7, 7, 0));
    }

    #[test]
    #[should_panic(expected = "index < self.header.len()")]
    fn a_word_beyond_the_header_is_not_stored() {
        SharedMemory::new("test", 4096).expect("a memfd").into_words().exchange(HEADER_WORDS, 1);
    }

    #[test]
    fn the_size_can_be_changed_by_nobody() {
        let memory = SharedMemory::new("test", 4096).expect("a memfd");
        for length in [0, 4088, 8192] {
            assert_eq!(ftruncate(memory.file(), length), Err(Errno::EPERM));
        }
        let more = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE);
        assert_eq!(fcntl(memory.file(), more), Err(Errno::EPERM));
    }

    #[test]
    #[should_panic(expected = "index < self.words()")]
    fn a_word_beyond_the_end_is_not_read() {
        SharedMemory::new("test", 4096).expect("a memfd").into_words().load(512);
    }
}
