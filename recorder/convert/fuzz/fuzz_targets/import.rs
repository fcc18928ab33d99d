//! Holds for all importers and any bytes: they terminate, and their output is a valid trace.

use fxt_reader::Reader;
use fxtrec_convert::{Format, Input, Options, convert};

/// Imports the bytes as a file in that format. The result, if any, must be readable to its end.
pub(crate) fn import(bytes: &[u8], from: Format, options: Options) -> Option<Vec<u8>> {
    let mut input = Input::from_bytes(bytes.to_vec()).ok()?;
    let mut trace = Vec::new();
    convert(&mut input, from, &mut trace, Format::Fxt, options).ok()?;
    let mut reader = Reader::from_slice(&trace);
    while reader.next().expect("a sound trace").is_some() {}
    assert!(reader.summary().is_complete());
    drop(reader);
    Some(trace)
}
