//! A disk that fills up, at every byte.

use std::io;
use std::sync::{Arc, Mutex};

use super::super::codec::{Codec, Gzip, Zstd};
use super::super::compressed::Compressed;
use super::super::medium::Medium;
use super::super::plain::Plain;
use super::super::*;
use super::{records, unpack, unpack_what_is_there};
use fxt_format::walk::whole_records;

/// A disk of a given size that shares its content with the test.
#[derive(Clone, Debug)]
struct SmallDisk {
    content: Arc<Mutex<Vec<u8>>>,
    capacity: usize,
    can_cut: bool,
    writes: Arc<Mutex<usize>>,
}

impl SmallDisk {
    fn new(capacity: usize) -> SmallDisk {
        let (content, writes) = Default::default();
        SmallDisk { content, capacity, can_cut: true, writes }
    }

    fn content(&self) -> Vec<u8> {
        self.content.lock().unwrap().clone()
    }
}

impl Medium for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.writes.lock().unwrap() += 1;
        let mut content = self.content.lock().unwrap();
        let room = self.capacity - content.len();
        if room == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let count = bytes.len().min(room);
        content.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn cut_back(&mut self, length: u64) -> io::Result<bool> {
        if self.can_cut {
            self.content.lock().unwrap().truncate(length as usize);
        }
        Ok(self.can_cut)
    }
}

/// The positions at which records end.
fn ends(bytes: &[u8]) -> Vec<usize> {
    (0..=bytes.len()).filter(|at| whole_records(bytes, *at) == *at).collect()
}

#[test]
fn a_plain_file_on_a_full_disk_ends_with_its_last_whole_record() {
    let trace = records(12);
    let ends = ends(&trace);
    for capacity in 0..trace.len() {
        let disk = SmallDisk::new(capacity);
        let mut sink = Plain::new("t.fxt".into(), disk.clone());
        let error = sink.write(&trace).expect_err("the disk is too small");
        let saved = *ends.iter().rev().find(|end| **end <= capacity).unwrap();
        assert_eq!(disk.content(), trace[..saved], "capacity {capacity}");
        assert_eq!(
            error,
            SinkError::Write {
                name: "t.fxt".into(),
                source: OsError(libc::ENOSPC),
                saved: saved as u64
            }
        );
        assert_eq!(sink.totals().record_bytes, saved as u64);
        let rest = Unsaved {
            records: count_records(&trace[saved..]),
            bytes: (trace.len() - saved) as u64,
        };
        assert_eq!(sink.unsaved(), rest);
        assert_eq!(sink.write(&trace), Err(SinkError::AlreadyFailed));
        assert_eq!(sink.unsaved().bytes, rest.bytes + trace.len() as u64, "it counts on");
        assert_eq!(sink.finish(), Err(error));
    }
}

#[test]
fn the_error_names_the_file_the_reason_and_what_was_saved() {
    let trace = records(12);
    let mut sink = Plain::new("app.fxt".into(), SmallDisk::new(30));
    assert_eq!(
        sink.write(&trace).unwrap_err().to_string(),
        "cannot write app.fxt: No space left on device; 24 bytes of trace were saved and are readable, the rest is lost"
    );
    let mut sink = Plain::new("app.fxt".into(), SmallDisk::new(7));
    assert_eq!(
        sink.write(&trace).unwrap_err().to_string(),
        "cannot write app.fxt: No space left on device; none of the trace was saved"
    );
}

#[test]
fn records_of_earlier_pieces_count_as_saved() {
    let trace = records(4);
    let disk = SmallDisk::new(trace.len() + 8);
    let mut sink = Plain::new("t.fxt".into(), disk.clone());
    sink.write(&trace).unwrap();
    sink.write(&trace).unwrap_err();
    assert_eq!(disk.content(), [&trace[..], &trace[..8]].concat());
}

#[test]
fn a_sink_that_failed_refuses_without_trying_again() {
    let disk = SmallDisk::new(10);
    let mut plain = Plain::new("t".into(), disk.clone());
    let mut packed = Compressed::new("t".into(), disk.clone(), Gzip::new());
    let sinks: [&mut dyn Sink; 2] = [&mut plain, &mut packed];
    for sink in sinks {
        sink.write(&records(1000)).unwrap_err();
        let writes = *disk.writes.lock().unwrap();
        assert_eq!(sink.write(&records(1)), Err(SinkError::AlreadyFailed));
        assert_eq!(sink.flush_point(), Err(SinkError::AlreadyFailed));
        assert_eq!(*disk.writes.lock().unwrap(), writes);
    }
}

#[test]
fn a_stream_that_cannot_be_cut_back_still_counts_whole_records_only() {
    let trace = records(12);
    let disk = SmallDisk { can_cut: false, ..SmallDisk::new(30) };
    let mut sink = Plain::new("t.fxt".into(), disk.clone());
    sink.write(&trace).unwrap_err();
    assert_eq!(disk.content(), trace[..30]);
    assert_eq!(sink.totals().record_bytes, 24);
}

/// Pieces of equal length and different content.
fn pieces() -> Vec<Vec<u8>> {
    let trace = records(40);
    trace.chunks(trace.len() / 4).map(<[u8]>::to_vec).collect()
}

/// Writes the pieces with a flush point after each, until the disk is full.
fn fill<C: Codec>(disk: &SmallDisk, codec: C) -> Result<Totals, SinkError> {
    let mut sink = Compressed::new("t".into(), disk.clone(), codec);
    for piece in pieces() {
        // The failure is reported at the end again, with everything after it counted.
        let _ = sink.write(&piece);
        let _ = sink.flush_point();
    }
    let finished = sink.finish();
    let handed_over = pieces().concat();
    if let Err(SinkError::Write { saved, .. }) = &finished {
        let rest = &handed_over[*saved as usize..];
        let unsaved = Unsaved { records: count_records(rest), bytes: rest.len() as u64 };
        assert_eq!(sink.unsaved(), unsaved);
    }
    finished
}

fn a_full_disk_leaves_a_valid_stream<C: Codec>(compression: Compression, new: impl Fn() -> C) {
    let all = SmallDisk::new(usize::MAX);
    let whole = fill(&all, new()).unwrap();
    assert_eq!(whole.output_bytes, all.content().len() as u64);
    assert_eq!(unpack(compression, &all.content()).unwrap(), pieces().concat());

    for capacity in 0..all.content().len() {
        let disk = SmallDisk::new(capacity);
        let error = fill(&disk, new()).expect_err("the disk is too small");
        let SinkError::Write { saved, .. } = error else { panic!("{error:?}") };
        let expected = pieces().concat()[..saved as usize].to_vec();
        assert!(
            whole_records(&expected, expected.len()) == expected.len(),
            "what is saved is whole records"
        );
        let content = disk.content();
        assert_eq!(unpack_what_is_there(compression, &content), expected, "capacity {capacity}");
        // Only a disk that becomes full within a few bytes of a flush point has no space for the end.
        let valid = unpack(compression, &content).is_ok();
        let had_room = content.len() + new().ending().len() <= capacity;
        assert!(valid || !had_room || saved == 0, "capacity {capacity}, {} used", content.len());
    }
}

#[test]
fn a_gzip_file_on_a_full_disk_is_valid_up_to_the_last_flush_point() {
    a_full_disk_leaves_a_valid_stream(Compression::Gzip, Gzip::new);
}

#[test]
fn a_zstd_file_on_a_full_disk_is_valid_up_to_the_last_flush_point() {
    a_full_disk_leaves_a_valid_stream(Compression::Zstd, || Zstd::new().unwrap());
}
