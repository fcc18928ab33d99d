//! Arbitrary bytes as ftrace text: no panic, no hang; rejected lines are skipped if requested.

#![no_main]

mod import;

use fxtrec_convert::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lenient = Options { lenient: true, ..Options::default() };
    import::import(bytes, Format::FtraceText, Options::default());
    import::import(bytes, Format::FtraceText, lenient);
});
