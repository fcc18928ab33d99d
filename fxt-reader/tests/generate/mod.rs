//! Traces made by fxt-writer from arbitrary bytes, with what a reader must find
//! in them. Used by the property tests and by the fuzz target `round_trip`.

#![allow(dead_code, unreachable_pub, reason = "each user of this takes its own part")]

mod choices;
mod describe;
mod records;

use fxt_reader::Reader;

pub use describe::describe;
use records::Generator;

/// A trace, and a description of each record in it.
#[derive(Debug)]
pub struct Generated {
    pub bytes: Vec<u8>,
    pub expected: Vec<String>,
}

/// The trace that is generated from `choices`; any bytes generate one.
pub fn generate(choices: &[u8]) -> Generated {
    Generator::new(choices).run()
}

/// Reads `generated` and compares every record with what was written.
pub fn assert_reads_back(generated: &Generated, mut reader: Reader<'_>) {
    let mut expected = generated.expected.iter();
    while let Some(item) = reader.next().expect("what was written is sound") {
        assert!(item.oddities.is_empty(), "at {}: {:?}", item.offset, item.oddities);
        assert_eq!(Some(&describe(&item.record)), expected.next(), "at {}", item.offset);
    }
    assert_eq!(expected.next(), None, "a record is missing");
    assert!(reader.summary().is_complete(), "{:?}", reader.summary());
}
