//! Any bytes as a perf.data: no panic, no hang, and a valid trace or an error.

#![no_main]

mod import;

use fxtrec_convert::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    import::import(bytes, Format::PerfData, Options::default());
});
