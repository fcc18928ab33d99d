//! Memory for a trace buffer that is filled from end to end before it is reused.
//!
//! Such a buffer does not fit in any cache: writing, reading or freeing it touches all of its pages. With huge pages, that is one page
//! table entry for 2 MiB instead of 4 KiB. They are faulted in before the recording begins, because finding a huge page may take the kernel
//! long.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use fxt_writer::engine::{Config, ConfigError, Engine};
use fxt_writer::packet::Packet;

use super::sys::Mapping;

/// The size and alignment of huge pages, on processors that have them. Elsewhere it has no special meaning.
const HUGE_BYTES: usize = 2 * 1024 * 1024;

/// The maximum number of bytes that are faulted in ahead, which usually takes a few milliseconds. The rest is allocated in small pages when
/// it is written to, so that events do not wait for a huge page.
const MOST_AHEAD: usize = 64 * 1024 * 1024;

/// Zeroed private memory, in huge pages if the kernel has free ones.
#[derive(Debug)]
pub struct TraceMemory {
    mapping: Mapping,
    /// Offset of its beginning in the mapping: at the first huge page.
    offset: usize,
    bytes: usize,
}

impl TraceMemory {
    /// Reserves `bytes`, and faults in as many as it can in a short time.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub fn new(bytes: usize) -> io::Result<TraceMemory> {
        let room =
            bytes.checked_next_multiple_of(HUGE_BYTES).and_then(|it| it.checked_add(HUGE_BYTES));
        let mapping = Mapping::private(room.ok_or_else(|| io::Error::other("too many bytes"))?)?;
        let offset = mapping.base().align_offset(HUGE_BYTES);
        if offset > HUGE_BYTES {
            return Err(io::Error::other("no huge page begins in the mapping"));
        }
        mapping.populate(offset, bytes.min(MOST_AHEAD));
        Ok(TraceMemory { mapping, offset, bytes })
    }

    /// An engine in this memory, like [`Engine::new`] with its own memory. `config.bytes` is ignored.
    ///
    /// # Errors
    /// Returns an error when the size is out of range.
    pub fn engine(
        self,
        config: Config,
        notify: impl Fn(Packet) + Send + Sync + 'static,
    ) -> Result<Arc<Engine>, ConfigError> {
        let config = Config { bytes: self.bytes, ..config };
        let base = self.mapping.base();
        // SAFETY: `new` chose an offset of at most HUGE_BYTES, and the mapping is longer than `bytes` by as much at least.
        let base = unsafe { base.add(self.offset) };
        let base = NonNull::new(base).ok_or(ConfigError::Misaligned)?;
        // SAFETY: as just checked, this many bytes from there on are in the mapping. It can be read and written, is zero because nothing
        // has written to it, and is unmapped with `self`, when the engine drops it. Nothing else has its address: this function consumed
        // `self`, which passes the address to nothing else.
        unsafe { Engine::with_memory(config, base, self, notify) }
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::engine::{Batch, MAX_BYTES, Mode};
    use fxt_writer::record::{ContextSwitch, Record, ThreadState};
    use fxt_writer::{Koid, Ticks};

    use super::*;

    fn engine(bytes: usize) -> Result<Arc<Engine>, ConfigError> {
        let config = Config { mode: Mode::Circular, ..Config::default() };
        TraceMemory::new(bytes).expect("room").engine(config, |_| {})
    }

    #[test]
    fn it_begins_at_a_huge_page_and_is_within_the_mapping_whatever_its_size() {
        for bytes in [8, 4096, HUGE_BYTES - 8, HUGE_BYTES, HUGE_BYTES + 8, 5 * HUGE_BYTES + 4096] {
            let memory = TraceMemory::new(bytes).expect("room");
            assert_eq!((memory.mapping.base() as usize + memory.offset) % HUGE_BYTES, 0);
            assert!(memory.offset + bytes <= memory.mapping.len(), "{bytes} bytes");
        }
        TraceMemory::new(usize::MAX).expect_err("nobody has as much");
    }

    #[test]
    fn its_first_part_is_there_before_it_is_written_to() {
        let memory = TraceMemory::new(MOST_AHEAD + 3 * HUGE_BYTES).expect("room");
        let base = memory.mapping.base() as usize + memory.offset;
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("a file of this process");
        // The range with huge pages is a separate mapping.
        let mut lines = smaps.lines().skip_while(|it| !it.starts_with(&format!("{base:x}-")));
        let resident = lines.find(|line| line.starts_with("Rss:"));
        let kibibytes = resident.and_then(|line| line.split_whitespace().nth(1));
        let fetched = MOST_AHEAD / 1024;
        match kibibytes.map(|it| it.parse::<usize>().expect("a number")) {
            Some(kibibytes) => assert!(kibibytes >= fetched, "{kibibytes} KiB of {fetched}"),
            // A kernel without huge pages has no such range.
            None => assert!(!std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists()),
        }
    }

    #[test]
    fn an_engine_fills_all_of_it_and_gives_it_back() {
        let engine = engine(3 * HUGE_BYTES + 64).expect("a size for an engine");
        let mut lanes = Batch::shared(engine.clone());
        // Records of four words each.
        for number in 0..4 * HUGE_BYTES / 32 {
            let switch = ContextSwitch {
                cpu: 1,
                time: Ticks(number as u64),
                outgoing: Koid(1),
                incoming: Koid(2),
                outgoing_state: ThreadState::Blocked,
                args: &[],
            };
            switch.write(&mut lanes).expect("it is circular");
        }
        lanes.close();
        drop(lanes);
        let packets = engine.finish();
        let held: usize = packets.iter().map(|it| engine.view(*it).expect("data").bytes()).sum();
        assert!((HUGE_BYTES..3 * HUGE_BYTES).contains(&held), "{held} bytes");
    }

    #[test]
    fn a_size_that_is_none_for_an_engine_is_refused() {
        engine(8).expect_err("too small");
        engine(MAX_BYTES + 8).expect_err("too large");
    }
}
