//! Any bytes as a control message: decoding yields a message that is written as the same bytes, or an error.

#![no_main]

use fxt_writer::provider::wire::{FromManager, FromProvider};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = FromProvider::decode(bytes) {
        assert_eq!(message.encode().expect("what was decoded"), bytes);
    }
    if let Ok(message) = FromManager::decode(bytes) {
        assert_eq!(message.encode().expect("what was decoded"), bytes);
    }
});
