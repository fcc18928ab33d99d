//! Options: facts about the recording in a trace.dat, each with a number, a size and data.
//!
//! Most have the same meaning in both versions. Version 7 has additional ones with the positions of the parts that have a fixed order in
//! version 6.

use super::{Contents, Conversion};
use crate::import::error::ImportError;

/// The last option; in version 7, it has the position of the next options.
pub(super) const DONE: u16 = 0;
/// A tracing instance: in version 6 any except the main one, in version 7 any.
pub(super) const BUFFER: u16 = 3;
const CLOCK: u16 = 4;
const UNAME: u16 = 5;
const TSC_TO_NANOSECONDS: u16 = 14;
/// The position of the page format; this option and the following ones are only in version 7.
pub(super) const HEADER_INFO: u16 = 16;
/// The position of the descriptions of ftrace's own events.
pub(super) const FTRACE_EVENTS: u16 = 17;
/// The position of the descriptions of tracepoints.
pub(super) const EVENT_FORMATS: u16 = 18;
/// The position of the names of threads.
pub(super) const COMMS: u16 = 21;

/// Processes the options with the same meaning in both versions, and ignores others.
pub(super) fn take_over(
    number: u16,
    data: &[u8],
    contents: &mut Contents,
) -> Result<(), ImportError> {
    match number {
        CLOCK => contents.clock = chosen_clock(data),
        UNAME => contents.machine = Some(text(data)),
        TSC_TO_NANOSECONDS => contents.conversion = Some(Conversion::parse(data)?),
        _ => {}
    }
    Ok(())
}

/// The text before a NUL.
fn text(data: &[u8]) -> String {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

/// The clock in brackets in `[local] global counter ...`, or the only one.
pub(super) fn chosen_clock(data: &[u8]) -> Option<String> {
    let text = text(data);
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let chosen = chosen.map_or(text.trim(), |(chosen, _)| chosen);
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_one_in_brackets() {
        assert_eq!(chosen_clock(b"local [mono] boot\n\0").as_deref(), Some("mono"));
        assert_eq!(chosen_clock(b"x86-tsc\0").as_deref(), Some("x86-tsc"));
        assert_eq!(chosen_clock(b"\0"), None);
    }
}
