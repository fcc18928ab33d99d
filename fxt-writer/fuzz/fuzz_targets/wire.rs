//! Any bytes as a control message: decoding returns an error, or a message that encodes to the same bytes.

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
