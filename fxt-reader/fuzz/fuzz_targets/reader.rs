//! Arbitrary bytes: the reader neither panics nor hangs, reads the same from a
//! slice as from a stream in small pieces and in passes, and accounts for every byte.

#![no_main]

use std::fmt::Write as _;
use std::io::Read;

use fxt_reader::{Container, Error, Item, Reader, Summary, Visitor};
use libfuzzer_sys::fuzz_target;

/// Yields one byte, then two, then three, and so on up to eleven.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 11 + 1;
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

/// Everything that the reader returns, and whether the input was a trace at all.
fn read(reader: Reader<'_>) -> (String, Summary, bool) {
    let mut reader = reader.max_record_bytes(1 << 20);
    let mut text = String::new();
    let mut last = None;
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                assert!(last < Some(item.offset), "the reader goes forward");
                last = Some(item.offset);
                assert!(item.raw.words().len() > 0);
                writeln!(text, "{item:?}").expect("a string");
            }
            Ok(None) => return (text, reader.summary(), true),
            Err(Error::Damaged(damage)) => {
                assert!(last <= Some(damage.offset), "the reader goes forward");
                writeln!(text, "{damage}").expect("a string");
            }
            Err(error) => {
                writeln!(text, "{error}").expect("a string");
                return (text, reader.summary(), false);
            }
        }
    }
}

/// Reads three records, then stops the pass.
struct Three<'a>(&'a mut String, u8);

impl Visitor for Three<'_> {
    fn visit(&mut self, item: &Item<'_>) -> bool {
        writeln!(self.0, "{item:?}").expect("a string");
        self.1 += 1;
        self.1 < 3
    }
}

/// The result of passes of three records each.
fn passes(reader: Reader<'_>) -> (String, Summary) {
    let mut reader = reader.max_record_bytes(1 << 20);
    let mut text = String::new();
    loop {
        match reader.show_all(&mut Three(&mut text, 0)) {
            Ok(false) => {}
            Ok(true) => return (text, reader.summary()),
            Err(Error::Damaged(damage)) => writeln!(text, "{damage}").expect("a string"),
            Err(error) => {
                writeln!(text, "{error}").expect("a string");
                return (text, reader.summary());
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (whole, summary, is_trace) = read(Reader::from_slice(bytes));
    let (pieces, _, _) = read(Reader::new(Pieces(bytes, 0)));
    if summary.container != Container::Plain {
        // The amount of data that a decompressor yields before it finds damage depends on the pieces.
        return;
    }
    assert_eq!(whole, pieces, "the same in pieces");
    assert_eq!((whole, summary), passes(Reader::from_slice(bytes)), "the same in passes");
    if is_trace {
        let accounted = summary.record_bytes + summary.damaged_bytes + summary.truncated_tail;
        assert_eq!(accounted, bytes.len() as u64, "every byte is accounted for");
    }
});
