//! perf's records of the code of processes: memory was mapped as executable, a process executes another program, begins or ends.
//!
//! The system calls themselves write these records, each CPU into its own ring. Switches write none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use perf_event_open_sys::bindings as b;

use super::cpus;
use super::perf::page_size;
use super::ring::{RawRecord, Ring};
use super::sys::Sys;

/// Bytes of the ring of each CPU: a few thousand records.
const RING_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub struct CodeRecords {
    /// Each ring with the event that writes to it.
    rings: Vec<(Ring, OwnedFd)>,
}

impl CodeRecords {
    /// Starts recording on all online CPUs.
    ///
    /// # Errors
    /// Errors of perf_event_open(2) or mmap(2).
    pub fn open(sys: &dyn Sys) -> io::Result<CodeRecords> {
        let pages = RING_BYTES.next_multiple_of(page_size());
        let mut rings = Vec::new();
        for cpu in cpus::online(sys).map_err(io::Error::other)? {
            let event = sys.perf_event_open(&mut attr(), cpu.0)?;
            let mapping = sys.perf_mmap(event.as_fd(), page_size() + pages)?;
            rings.push((Ring::new(mapping).map_err(io::Error::other)?, event));
        }
        Ok(CodeRecords { rings })
    }

    /// Hands out the available records: sorted by time for each CPU, but not across CPUs.
    pub fn read(&mut self, mut take: impl FnMut(RawRecord<'_>)) {
        for (ring, _) in &mut self.rings {
            ring.refresh();
            while let Some(record) = ring.next_record() {
                take(record);
            }
            ring.release();
        }
    }
}

fn attr() -> b::perf_event_attr {
    let mut attr = b::perf_event_attr {
        size: size_of::<b::perf_event_attr>() as u32,
        type_: b::PERF_TYPE_SOFTWARE,
        config: u64::from(b::PERF_COUNT_SW_DUMMY),
        sample_type: u64::from(b::PERF_SAMPLE_TIME),
        clockid: libc::CLOCK_MONOTONIC,
        ..b::perf_event_attr::default()
    };
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr
}
