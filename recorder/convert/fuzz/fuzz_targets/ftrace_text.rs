//! Any bytes as the text of ftrace: no panic, no hang; whatever is refused is passed over where that is asked for.

#![no_main]

mod import;

use fxtrec_convert::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lenient = Options { lenient: true, ..Options::default() };
    import::import(bytes, Format::FtraceText, Options::default());
    import::import(bytes, Format::FtraceText, lenient);
});
