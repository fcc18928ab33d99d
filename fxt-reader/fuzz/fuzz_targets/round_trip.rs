//! Any sequence of records: what fxt-writer writes, fxt-reader reads back equal.

#![no_main]

use fxt_reader::Reader;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/generate/mod.rs"]
mod generate;

fuzz_target!(|choices: &[u8]| {
    let generated = generate::generate(choices);
    generate::assert_reads_back(&generated, Reader::from_slice(&generated.bytes));
    generate::assert_reads_back(&generated, Reader::new(&generated.bytes[..]));
});
