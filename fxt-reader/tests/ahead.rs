//! Long traces, which a separate thread reads and decompresses: the result is the same as from memory, whatever is wrong
//! with them, and the thread neither blocks the reader nor outlives it.

mod common;

use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use common::{Pieces, S, Side, Trace, W, gzip, inline, zstd};
use fxt_format::{large_blob, large_header, record_type};
use fxt_reader::{Error, Item, ReadAhead, Reader, Summary, Visitor};

/// More than the bytes that are read before the thread starts, and than all blocks in circulation hold.
const SWITCHES: u64 = 300_000;

fn trace() -> &'static Trace {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    TRACE.get_or_init(|| Trace::with_switches(SWITCHES))
}

/// What a reader returns for a trace: a hash of all records and damages, their number, the error at the end, and the summary.
type Account = (u64, u64, Option<String>, Summary);

struct Hashing(DefaultHasher, u64);

impl Hashing {
    fn note(&mut self, what: &impl Debug) {
        self.1 += 1;
        format!("{what:?}").hash(&mut self.0);
    }
}

impl Visitor for Hashing {
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.1 += 1;
        (item.offset, item.provider.map(|id| id.0)).hash(&mut self.0);
        item.raw.bytes().hash(&mut self.0);
        true
    }
}

fn account(mut reader: Reader<'_>) -> Account {
    let mut all = Hashing(DefaultHasher::new(), 0);
    let error = loop {
        match reader.show_all(&mut all) {
            Ok(_) => break None,
            Err(Error::Damaged(damage)) => all.note(&damage),
            Err(error) => break Some(error.to_string()),
        }
    };
    (all.0.finish(), all.1, error, reader.summary())
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a place");
    file.write_all(bytes).expect("room");
    file
}

/// Reads the bytes in every way, asserts that the results are the same, and returns the result.
fn the_same(what: &str, bytes: &[u8]) -> Account {
    let here = account(Reader::new(bytes));
    let file = file_of(bytes);
    let opened = account(Reader::open(file.path()).expect("it is there"));
    assert!(opened == here, "{what}, as a file: {opened:?}, not {here:?}");
    // The amount of data that a decompressor yields before it reports damage also depends on the pieces.
    let pieces = || Pieces { bytes: io::Cursor::new(bytes.to_vec()), length: 70_001 };
    let (here_in_pieces, ahead) = (account(Reader::new(pieces())), Reader::read_ahead(pieces()));
    let streamed = account(ahead);
    assert!(streamed == here_in_pieces, "{what}, in pieces: {streamed:?}, not {here_in_pieces:?}");
    here
}

/// Whether there is a CPU for a thread that reads ahead.
fn has_cpus() -> bool {
    available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

#[test]
fn a_long_trace_reads_the_same_in_any_container() {
    let plain = &trace().bytes;
    let (front, back) = plain.split_at(plain.len() / 3 + 5);
    let [a, b] = [gzip(plain), zstd(plain)];
    let frames = |pack: fn(&[u8]) -> Vec<u8>| [pack(front), pack(back)].concat();
    for (what, bytes) in [
        ("plain", plain.clone()),
        ("gzip", a),
        ("zstd", b),
        ("two members", frames(gzip)),
        ("two frames", frames(zstd)),
    ] {
        let (_, records, error, summary) = the_same(what, &bytes);
        assert_eq!((records, error), (trace().offsets.len() as u64, None), "{what}");
        assert!(summary.is_complete(), "{what}");
    }
}

#[test]
fn a_long_trace_that_is_cut_ends_where_it_does_otherwise() {
    let plain = &trace().bytes;
    for (what, bytes) in [("plain", plain.clone()), ("gzip", gzip(plain)), ("zstd", zstd(plain))] {
        for parts in [3, 5, 8, 9] {
            let cut = bytes.len() * parts / 10 + parts;
            let (_, _, error, summary) = the_same(what, &bytes[..cut]);
            assert_eq!((error, summary.is_complete()), (None, false), "{what} cut at {cut}");
        }
        let cut = bytes.len() - 1;
        assert!(!the_same(what, &bytes[..cut]).3.is_complete());
    }
}

#[test]
fn a_long_trace_with_damage_reads_the_same() {
    let (mut bytes, offsets) = (trace().bytes.clone(), &trace().offsets);
    let length = bytes.len();
    // Headers, contents, and more than fits in front of a block.
    for parts in [2, 7, 8] {
        let at = offsets[offsets.len() * parts / 10];
        bytes[at..at + 8].fill(0);
        bytes[at + 9_600..at + 9_700].fill(0xff);
    }
    bytes[length * 9 / 10..length * 9 / 10 + 300_000].fill(0xa5);
    let (.., summary) = the_same("damaged records", &bytes);
    assert!(summary.damaged_regions > 4, "{summary:?}");
}

#[test]
fn a_long_container_with_damage_or_something_behind_it_says_the_same() {
    let plain = &trace().bytes;
    for (what, mut bytes) in [("gzip", gzip(plain)), ("zstd", zstd(plain))] {
        let (mut longer, length) = (bytes.clone(), bytes.len());
        bytes[length * 8 / 10..length * 8 / 10 + 40].fill(0x55);
        let (.., error, summary) = the_same(what, &bytes);
        assert!(error.is_some() || !summary.is_complete(), "{what}");
        longer.extend(b"and something else behind it");
        let (_, records, error, _) = the_same(what, &longer);
        assert_eq!(records, trace().offsets.len() as u64, "{what}");
        assert!(error.is_some(), "{what}: what is behind it is none of it");
    }
}

#[test]
fn a_record_longer_than_all_blocks_reads_the_same() {
    use large_blob::without_metadata as table;
    const PAYLOAD: usize = 5 << 20;
    let mut long = Trace::with_switches(SWITCHES * 2 / 3);
    long.push(
        large_blob::TYPE.put(record_type::LARGE)
            | large_blob::LARGE_TYPE.put(large_header::TYPE_BLOB)
            | large_blob::FORMAT.put(large_blob::WITHOUT_METADATA),
        &[
            W(table::CATEGORY.put(inline("cat")) | table::NAME.put(inline("blob"))),
            S("cat"),
            S("blob"),
            W(PAYLOAD as u64),
            S(&"x".repeat(PAYLOAD)),
        ],
    );
    let (idle, busy) = (Side(0, i32::MIN), Side(41, 1024));
    for at in 0..1000 {
        long.switch(1_000_000_000 + at, 0, idle, busy);
    }
    let (_, records, error, summary) = the_same("a large record", &long.bytes);
    assert_eq!((records, error), (long.offsets.len() as u64, None));
    assert!(summary.is_complete());
}

#[test]
fn other_bytes_are_read_ahead_as_they_are() {
    let bytes = &trace().bytes;
    let mut ahead =
        ReadAhead::new(Pieces { bytes: io::Cursor::new(bytes.clone()), length: 99_991 });
    assert!(bytes.starts_with(ahead.fill_buf().expect("memory")));
    let mut read = Vec::new();
    ahead.read_to_end(&mut read).expect("memory");
    assert!(read == *bytes);
    let mut failing = ReadAhead::new(bytes.as_slice().chain(Failing));
    let error = io::copy(&mut failing, &mut io::sink()).expect_err("it fails");
    assert_eq!(error.to_string(), "the disk is gone");
}

#[test]
fn what_is_looked_at_stays_to_be_read_even_before_a_failure() {
    let content: &'static [u8] = b"a short file";
    let mut pieces = ReadAhead::new(Pieces { bytes: io::Cursor::new(content.to_vec()), length: 1 });
    assert_eq!(pieces.peek(1).expect("memory"), b"a");
    assert_eq!(pieces.peek(7).expect("memory"), b"a short");
    assert_eq!(pieces.peek(1000).expect("memory"), content);
    let mut read = Vec::new();
    pieces.read_to_end(&mut read).expect("memory");
    assert_eq!(read, content);
    assert_eq!(pieces.peek(1).expect("memory"), b"");

    let mut failing = ReadAhead::new(content.chain(Failing));
    assert_eq!(failing.peek(1000).expect("its first bytes"), content);
    read.clear();
    let error = failing.read_to_end(&mut read).expect_err("it fails");
    assert_eq!((read.as_slice(), error.to_string().as_str()), (content, "the disk is gone"));
    assert!(ReadAhead::new(Failing).peek(1).is_err());
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

struct Panicking;

impl Read for Panicking {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("a decompressor with a fault")
    }
}

#[test]
fn reading_that_fails_or_panics_is_an_error_after_the_records_before_it() {
    let bytes = trace().bytes.as_slice();
    let length = bytes.len();
    let (_, records, error, _) = account(Reader::read_ahead(bytes.chain(Failing)));
    assert_eq!(records, trace().offsets.len() as u64);
    let expected = format!("cannot read the trace after {length} bytes: the disk is gone");
    assert_eq!(error, Some(expected));
    // Without a read-ahead thread, the panic would occur in the test's own thread.
    if has_cpus() {
        let (_, records, error, _) = account(Reader::read_ahead(bytes.chain(Panicking)));
        assert_eq!(records, trace().offsets.len() as u64);
        assert!(error.is_some_and(|error| error.ends_with("the thread that reads ahead panicked")));
    }
}

/// An endless trace, and a channel that closes when the source is dropped.
struct Endless {
    bytes: &'static [u8],
    at: usize,
    _end: Arc<()>,
    _shown: Sender<()>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.bytes[self.at..];
        let read = rest.read(buffer)?;
        self.at = (self.at + read) % self.bytes.len();
        Ok(read)
    }
}

fn endless() -> (Endless, Arc<()>, Receiver<()>) {
    let (end, (shown, hears)) = (Arc::new(()), channel());
    (Endless { bytes: &trace().bytes, at: 0, _end: end.clone(), _shown: shown }, end, hears)
}

/// Reads past the position at which a thread takes over.
fn read_some(reader: &mut Reader<'_>) {
    for _ in 0..SWITCHES {
        reader.next().expect("a sound trace").expect("it has no end");
    }
}

#[test]
fn a_reader_that_is_dropped_early_ends_the_thread() {
    let (source, _, hears) = endless();
    let mut reader = Reader::read_ahead(source);
    read_some(&mut reader);
    drop(reader);
    // The thread ends eventually and drops the source.
    assert!(hears.recv().is_err());

    let (source, end, _) = endless();
    let file = file_of(b"");
    let mut reader = Reader::from_file(file.reopen().expect("it is there"), |_| source);
    read_some(&mut reader);
    assert_eq!(Arc::strong_count(&end), 2);
    drop(reader);
    assert_eq!(Arc::strong_count(&end), 1, "of a file, it has gone before the reader has");
}

/// Yields the bytes that it is sent, and waits for more.
struct Live(Receiver<Vec<u8>>, io::Cursor<Vec<u8>>);

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.position() == self.1.get_ref().len() as u64 {
            match self.0.recv() {
                Ok(more) => self.1 = io::Cursor::new(more),
                Err(_) => return Ok(0),
            }
        }
        self.1.read(buffer)
    }
}

#[test]
fn what_comes_bit_by_bit_is_read_as_it_comes() {
    let (bytes, offsets) = (&trace().bytes, &trace().offsets);
    let (send, receive) = channel();
    let mut reader = Reader::read_ahead(Live(receive, io::Cursor::default()));
    // First enough data for the thread to start, then record by record: the test sends a record only after the reader has returned the
    // previous one.
    let first = offsets.len() - 100;
    send.send(bytes[..offsets[first]].to_vec()).expect("the reader is there");
    for _ in 0..first {
        reader.next().expect("sound").expect("there");
    }
    for at in first..offsets.len() {
        let end = offsets.get(at + 1).copied().unwrap_or(bytes.len());
        send.send(bytes[offsets[at]..end].to_vec()).expect("the reader is there");
        assert_eq!(reader.next().expect("sound").expect("there").offset, offsets[at] as u64);
    }
    drop(send);
    assert!(reader.next().expect("sound").is_none());
    assert!(reader.summary().is_complete());
}
