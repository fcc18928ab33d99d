//! A file mapped into memory reads the same as through a buffer and as a slice.

mod common;

use std::fs;
use std::io::Write;

use common::{Trace, transcript};
use fxt_reader::{Container, Error, MappedFile, Reader, Summary};
use tempfile::TempDir;

/// What all three ways of reading a file of these bytes say, which is the same.
fn read_all_ways(bytes: &[u8]) -> (Vec<String>, Summary) {
    let folder = TempDir::new().expect("a folder for files");
    let path = folder.path().join("trace.fxt");
    fs::write(&path, bytes).expect("room");
    // SAFETY: the file is in a folder of this test's own, which writes no more.
    let file = unsafe { MappedFile::open(&path) }.expect("a plain file");
    assert_eq!(file.bytes(), bytes);

    let said = |mut reader: Reader<'_>| (transcript(&mut reader), reader.summary());
    let mapped = said(file.reader());
    assert_eq!(mapped, said(Reader::open(&path).expect("it is there")));
    assert_eq!(mapped, said(Reader::from_slice(bytes)));
    mapped
}

#[test]
fn a_mapped_file_reads_the_same_as_a_buffered_one_and_a_slice() {
    // Much more than a page, and no multiple of one.
    let trace = Trace::with_switches(5000);
    let (lines, summary) = read_all_ways(&trace.bytes);
    assert_eq!(lines.len(), trace.offsets.len());
    assert!(summary.is_complete());
}

#[test]
fn an_empty_mapped_file_is_a_trace_of_nothing() {
    let (lines, summary) = read_all_ways(&[]);
    assert_eq!(lines, [""; 0]);
    assert_eq!((summary.records, summary.magic), (0, false));
}

#[test]
fn a_truncated_last_record_of_a_mapped_file_is_left_over() {
    let trace = Trace::with_switches(100);
    let (lines, summary) = read_all_ways(&trace.bytes[..trace.bytes.len() - 5]);
    assert_eq!(lines.len(), trace.offsets.len() - 1);
    let last = trace.offsets[trace.offsets.len() - 1];
    assert_eq!(summary.truncated_tail, (trace.bytes.len() - 5 - last) as u64);
}

#[test]
fn damage_in_a_mapped_file_is_found_at_the_same_place() {
    let mut trace = Trace::with_switches(100);
    let damaged = trace.offsets[50];
    trace.bytes[damaged..damaged + 8].fill(0);
    let (lines, summary) = read_all_ways(&trace.bytes);
    assert!(lines.iter().any(|line| line.contains(&format!("at byte {damaged}"))), "{lines:?}");
    assert_eq!(summary.damaged_regions, 1);
}

#[test]
fn a_compressed_trace_is_read_out_of_its_mapped_file() {
    let trace = Trace::with_switches(1000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace.bytes).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::stream::encode_all(&trace.bytes[..], 1).expect("memory");
    let (plain, _) = read_all_ways(&trace.bytes);
    for (bytes, container) in [(gzip, Container::Gzip), (zstd, Container::Zstd)] {
        let (lines, summary) = read_all_ways(&bytes);
        assert!(lines == plain, "the {container} stream reads differently");
        assert_eq!(summary.container, container);
        assert!(summary.is_complete());
    }
}

#[test]
fn what_is_appended_to_a_mapped_file_is_not_seen() {
    let trace = Trace::with_switches(10);
    let (front, back) = trace.bytes.split_at(trace.offsets[12]);
    let folder = TempDir::new().expect("a folder for files");
    let path = folder.path().join("trace.fxt");
    fs::write(&path, front).expect("room");
    // SAFETY: the file is in a folder of this test's own, which only appends.
    let file = unsafe { MappedFile::open(&path) }.expect("a plain file");
    let mut writer = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
    writer.write_all(back).expect("room");

    let mut reader = file.reader();
    assert_eq!(transcript(&mut reader).len(), 12);
    assert!(reader.summary().is_complete());
}

#[test]
fn one_mapped_file_serves_several_readers_at_once() {
    let trace = Trace::with_switches(500);
    let folder = TempDir::new().expect("a folder for files");
    let path = folder.path().join("trace.fxt");
    fs::write(&path, &trace.bytes).expect("room");
    // SAFETY: the file is in a folder of this test's own, which writes no more.
    let file = unsafe { MappedFile::open(&path) }.expect("a plain file");
    let mut readers = [file.reader(), file.reader()];
    for offset in &trace.offsets {
        for reader in &mut readers {
            let item = reader.next().expect("sound").expect("a record");
            assert_eq!(item.offset, *offset as u64);
        }
    }
}

#[test]
fn only_a_plain_file_can_be_mapped() {
    let folder = TempDir::new().expect("a folder for files");
    // SAFETY: neither is mapped, so there is nothing that could change.
    let (folder_error, absent_error) = unsafe {
        (MappedFile::open(folder.path()), MappedFile::open(folder.path().join("absent.fxt")))
    };
    let error = folder_error.expect_err("a folder is no plain file");
    assert!(matches!(error, Error::Map { .. }), "{error}");
    assert!(error.to_string().contains("not a plain file"), "{error}");
    let error = absent_error.expect_err("it is not there");
    assert!(matches!(error, Error::Open { .. }), "{error}");
    assert!(error.to_string().contains("absent.fxt"), "{error}");
}
