//! The same trace in every form: in pieces, compressed, truncated, big-endian.

mod common;

use std::io::{self, Read, Write};

use common::{Pieces, Side, Trace, gzip, kinds, transcript, zstd};
use fxt_reader::{ByteOrder, Container, Error, Reader, Record};
use fxt_writer::record::{
    Event, EventKind, Magic, ProviderSection, Record as _, StringRecord, ThreadRecord,
};
use fxt_writer::{Koid, ProviderId, StringRef, Text, ThreadName, ThreadRef, Ticks};

#[test]
fn any_chunking_reads_the_same_down_to_single_bytes() {
    let trace = Trace::with_switches(50);
    let expected = transcript(&mut Reader::from_slice(&trace.bytes));
    assert_eq!(expected.len(), trace.offsets.len());
    for chunk in [1, 2, 3, 7, 8, 9, 47, 48, 1000] {
        let mut reader = Reader::new(Pieces { bytes: &trace.bytes[..], length: chunk });
        assert_eq!(transcript(&mut reader), expected, "in chunks of {chunk}");
        assert!(reader.summary().is_complete());
    }
}

#[test]
fn an_input_without_a_byte_is_no_complete_trace() {
    let empty = gzip(&[]);
    for bytes in [&[][..], &empty] {
        let mut reader = Reader::from_slice(bytes);
        assert!(reader.next().expect("no damage").is_none());
        assert!(!reader.summary().is_complete() && reader.summary().is_truncated());
        let report = fxt_reader::check::check(
            &mut Reader::from_slice(bytes),
            fxt_reader::check::Promises::Spec,
        );
        assert!(!report.expect("it can be read").is_sound(), "as the checker says");
    }
}

#[test]
fn a_trace_much_larger_than_the_buffer_reads_the_same_as_from_a_slice() {
    let trace = Trace::with_switches(30_000);
    let expected = transcript(&mut Reader::from_slice(&trace.bytes));
    let mut reader = Reader::new(Pieces { bytes: &trace.bytes[..], length: 10_007 });
    assert!(transcript(&mut reader) == expected);
    assert_eq!(reader.summary().record_bytes, trace.bytes.len() as u64);
}

#[test]
fn compression_is_reported_by_the_first_bytes() {
    let trace = Trace::with_switches(1000);
    let expected = kinds(&trace.bytes);
    for (bytes, container) in
        [(gzip(&trace.bytes), Container::Gzip), (zstd(&trace.bytes), Container::Zstd)]
    {
        assert_eq!(kinds(&bytes), expected);
        let mut reader = Reader::new(Pieces { bytes: &bytes[..], length: 1 });
        assert_eq!(transcript(&mut reader).len(), expected.len());
        assert_eq!(reader.summary().container, container);
        assert!(reader.summary().is_complete());
    }
}

#[test]
fn streams_of_several_members_or_frames_are_one_trace() {
    let trace = Trace::with_switches(100);
    let (front, back) = trace.bytes.split_at(trace.offsets[50] + 3);
    assert_eq!(kinds(&[gzip(front), gzip(back)].concat()), kinds(&trace.bytes));
    assert_eq!(kinds(&[zstd(front), zstd(back)].concat()), kinds(&trace.bytes));
}

#[test]
fn a_trace_cut_at_any_byte_yields_every_whole_record_and_says_what_is_left_over() {
    let trace = Trace::with_switches(4);
    for cut in 0..=trace.bytes.len() {
        let whole = trace.offsets.iter().copied().chain([trace.bytes.len()]);
        let whole: Vec<usize> = whole.filter(|&at| at <= cut).collect();
        let last = whole[whole.len() - 1];
        for mut reader in [
            Reader::from_slice(&trace.bytes[..cut]),
            Reader::new(Pieces { bytes: &trace.bytes[..cut], length: 5 }),
        ] {
            let mut records = 0;
            while reader.next().expect("truncation is no error").is_some() {
                records += 1;
            }
            assert_eq!(records, whole.len() - 1, "cut at {cut}");
            let summary = reader.summary();
            assert_eq!(summary.records, records as u64);
            assert_eq!(summary.truncated_tail, (cut - last) as u64, "cut at {cut}");
            assert_eq!(summary.is_complete(), cut == last && cut > 0);
        }
    }
}

#[test]
fn a_compressed_stream_cut_at_any_byte_ends_quietly_and_says_so() {
    let trace = Trace::with_switches(20);
    let all = kinds(&trace.bytes).len() as u64;
    for bytes in [gzip(&trace.bytes), zstd(&trace.bytes)] {
        // From the first byte after the magic numbers to the second to last.
        for cut in 5..bytes.len() {
            let mut reader = Reader::from_slice(&bytes[..cut]);
            while reader.next().expect("truncation is no error").is_some() {}
            let summary = reader.summary();
            assert!(summary.container_truncated, "cut at {cut} of {}", bytes.len());
            assert!(!summary.is_complete());
            assert!(summary.records <= all);
        }
    }
}

#[test]
fn what_a_compressor_flushed_before_it_was_killed_is_read() {
    let trace = Trace::with_switches(200);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace.bytes).expect("memory");
    gzip.flush().expect("memory");
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("memory");
    zstd.write_all(&trace.bytes).expect("memory");
    zstd.flush().expect("memory");
    for bytes in [gzip.get_ref(), zstd.get_ref()] {
        let mut reader = Reader::new(&bytes[..]);
        assert_eq!(transcript(&mut reader).len(), trace.offsets.len());
        assert!(reader.summary().container_truncated);
        assert_eq!(reader.summary().truncated_tail, 0);
    }
}

#[test]
fn a_damaged_compressed_stream_is_an_error_behind_the_records_before_it() {
    let trace = Trace::with_switches(20_000);
    let mut bytes = zstd(&trace.bytes);
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0x55;
    }
    let mut reader = Reader::from_slice(&bytes);
    let error = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage went unnoticed: {:?}", reader.summary()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Decompress { container: Container::Zstd, .. }), "{error}");
    assert!(reader.next().expect("once is enough").is_none());
}

#[test]
fn a_failing_read_is_reported_behind_the_records_before_it() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    let trace = Trace::with_switches(3);
    let mut reader = Reader::new(trace.bytes.chain(Fails));
    for _ in &trace.offsets {
        assert!(reader.next().expect("sound").is_some());
    }
    let error = reader.next().expect_err("the read failed");
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(reader.next().expect("once is enough").is_none());
}

#[test]
fn an_interrupted_read_is_tried_again() {
    struct Interrupted<'a>(&'a [u8], bool);
    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
        }
    }
    let trace = Trace::with_switches(3);
    let mut reader = Reader::new(Interrupted(&trace.bytes, false));
    assert_eq!(transcript(&mut reader).len(), trace.offsets.len());
}

#[test]
fn a_big_endian_trace_reads_the_same() {
    let (idle, busy) = (Side(0, i32::MIN), Side(41, 1024));
    let mut big = Trace::big_endian();
    let mut little = Trace::new();
    for trace in [&mut big, &mut little] {
        trace.preamble().thread(1, 2, 3).object(41, "work", Some(40)).switch(9, 1, idle, busy);
    }
    assert_eq!(big.bytes[..8], [0x00, 0x16, 0x54, 0x78, 0x46, 0x04, 0x00, 0x10]);
    let mut reader = Reader::from_slice(&big.bytes);
    assert_eq!(transcript(&mut reader), transcript(&mut Reader::from_slice(&little.bytes)));
    assert_eq!(reader.summary().byte_order, ByteOrder::Big);
    assert!(reader.summary().is_complete());
}

#[test]
fn a_trace_without_magic_number_is_read_in_the_byte_order_that_makes_sense() {
    for mut trace in [Trace::new(), Trace::big_endian()] {
        trace.provider_info(1, "p").string(1, "one").string(2, "two").thread(1, 2, 3);
        let mut reader = Reader::from_slice(&trace.bytes);
        assert_eq!(transcript(&mut reader).len(), 4);
        assert!(!reader.summary().magic);
        assert!(reader.summary().is_complete());
    }
}

#[test]
fn what_is_no_trace_is_refused_with_its_first_bytes() {
    let error = Reader::from_slice(b"PERFILE2 and so on").next().expect_err("not a trace");
    assert!(matches!(&error, Error::NotFxt { first } if first == b"PERFILE2"), "{error}");
    assert!(error.to_string().contains("50, 45, 52"), "{error}");
    Reader::from_slice(b"#!").next().expect_err("not a trace");
}

#[test]
fn an_empty_input_is_a_trace_of_nothing() {
    let mut reader = Reader::new(io::empty());
    assert!(reader.next().expect("no error").is_none());
    assert_eq!((reader.summary().records, reader.summary().magic), (0, false));
}

#[test]
fn a_file_is_opened_by_its_path_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder for files");
    let path = folder.path().join("trace.fxt.zst");
    std::fs::write(&path, zstd(&Trace::with_switches(2).bytes)).expect("room");
    let mut reader = Reader::open(&path).expect("it is there");
    let first = reader.next().expect("sound").expect("a record");
    assert_eq!(first.record, Record::MagicNumber);

    let error = Reader::open(folder.path().join("absent.fxt")).expect_err("it is not there");
    assert!(error.to_string().contains("absent.fxt"), "{error}");
}

#[test]
fn what_providers_register_has_a_bound_and_what_has_no_room_is_unknown_and_counted() {
    let written = "a vector takes all";
    let index = |index: u16| StringRef::indexed(index).expect("in range");
    let mut trace = Vec::new();
    Magic.write(&mut trace).expect(written);
    let section = |id: u32, trace: &mut Vec<u8>| {
        ProviderSection { id: ProviderId(id) }.write(trace).expect(written);
    };
    let event = |name: u16, trace: &mut Vec<u8>| {
        let thread = ThreadName::Indexed(ThreadRef::indexed(1).expect("in range"));
        let (kind, time, args) = (EventKind::Instant, Ticks(9), &[]);
        let (category, name) = (Text::Inline("told"), Text::Indexed(index(name)));
        Event { kind, time, thread, category, name, args }.write(trace).expect(written);
    };
    let register = |content: &str, koid: u64, trace: &mut Vec<u8>| {
        let thread = ThreadRef::indexed(1).expect("in range");
        let (process, koid) = (Koid(5), Koid(koid));
        ThreadRecord { index: thread, process, thread: koid }.write(trace).expect(written);
        StringRecord { index: index(1), content }.write(trace).expect(written);
    };
    section(1, &mut trace);
    register("usual", 6, &mut trace);
    section(2, &mut trace);
    register("first", 7, &mut trace);
    let long = "x".repeat(1000);
    for index in (2..=1000).map(index) {
        StringRecord { index, content: &long }.write(&mut trace).expect(written);
    }
    // A new string for an index in use, beyond the limit.
    StringRecord { index: index(1), content: &long.repeat(30) }.write(&mut trace).expect(written);
    event(1, &mut trace);
    event(1000, &mut trace);
    // Many later providers are beyond the limit, too.
    for id in 3..=2000 {
        section(id, &mut trace);
        register("late", 8, &mut trace);
        event(1, &mut trace);
    }
    section(1, &mut trace);
    event(1, &mut trace);
    let read = |most: usize| {
        let mut reader = Reader::from_slice(&trace).max_table_bytes(most);
        let mut decoder = reader.decoder();
        let mut events = Vec::new();
        while let Some(item) = reader.next().expect("nothing is damaged") {
            let shown = |item: &fxt_reader::Item<'_>| match item.record {
                Record::Event(event) => Some((event.name.len(), event.thread.thread.0)),
                _ => None,
            };
            let again = decoder.decode(item.offset, item.raw.bytes()).expect("it was read");
            assert_eq!((item.provider, shown(&item)), (again.provider, shown(&again)));
            events.extend(shown(&item));
        }
        assert!(reader.summary().is_complete());
        (events, reader.summary().left_out)
    };
    let (events, left_out) = read(usize::MAX);
    assert_eq!((&events[..3], left_out), (&[(30_000, 7), (1000, 7), (4, 8)][..], 0));
    let (events, left_out) = read(64 << 10);
    assert_eq!(events.len(), 2001);
    assert_eq!((events[0], events[1], events[2000]), ((1, 7), (1, 7), (5, 6)));
    // A string or thread beyond the limit reads as `?` or as an unknown thread, never as a different one.
    let is_true =
        |(name, thread): &(usize, u64)| [1, 4].contains(name) && [8, u64::MAX].contains(thread);
    assert!(events[2..2000].iter().all(is_true));
    assert!((900 + 1..1001 + 3 * 1998).contains(&left_out), "{left_out}");
}
