//! Any bytes as a JSON trace: no panic, no hang. Input that strict mode accepts is also accepted without it, and every accepted trace
//! converts to JSON that is accepted again.

#![no_main]

mod import;

use fxtrec_convert::{Format, Input, Options, convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let usual = Options::default();
    let taken = import::import(bytes, Format::Json, usual);
    let strictly = import::import(bytes, Format::Json, Options { strict: true, ..usual });
    assert!(taken.is_some() || strictly.is_none(), "what the format allows is taken");
    import::import(bytes, Format::Json, Options { lenient: true, ..usual });
    let Some(trace) = taken else { return };
    let mut input = Input::from_bytes(trace).expect("it is not packed");
    let mut json = Vec::new();
    convert(&mut input, Format::Fxt, &mut json, Format::Json, usual).expect("a sound trace");
    assert!(import::import(&json, Format::Json, usual).is_some(), "our own JSON is taken");
});
