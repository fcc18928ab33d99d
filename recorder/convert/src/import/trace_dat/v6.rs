//! Version 6: everything is in a fixed order.
//!
//! ```text
//!   head, descriptions, size of names, names, count of CPUs,
//!   "options  \0", (number, size, data)..., 0,
//!   "flyrecord\0", (offset, size)... of each CPU
//! ```

use std::fs::File;

use super::{Contents, Span, Window, option};
use crate::ConvertError;
use crate::import::bytes::Bytes;
use crate::import::error::ImportError;
use crate::import::tracing_data;
use fxtrec_units::Cpu;

/// The length of the names of the last two parts, in bytes.
const NAME_BYTES: u64 = 10;

pub(super) fn contents(file: &File) -> Result<Contents, ConvertError> {
    // The descriptions have a few megabytes at most; some of the following pages may be read too.
    let window = Window::of(file, 0, super::PIECE_BYTES * 64)?;
    Ok(parse(&mut window.bytes("the head"))?)
}

fn parse(bytes: &mut Bytes<'_>) -> Result<Contents, ImportError> {
    tracing_data::opening(bytes, "a trace.dat")?;
    let header = tracing_data::header_info(bytes)?;
    let mut tracepoints = tracing_data::ftrace_events(bytes)?;
    tracepoints.extend(tracing_data::event_formats(bytes)?);
    tracing_data::skip_short(bytes)?;
    tracing_data::skip_short(bytes)?;
    let comms = tracing_data::comms(&bytes.sized_text()?);
    let mut contents = Contents { header, tracepoints, comms, ..Contents::default() };
    let cpus = bytes.u32()?;
    loop {
        match bytes.take(NAME_BYTES)? {
            b"options  \0" => options(bytes, &mut contents)?,
            b"flyrecord\0" => break,
            // Text instead of pages.
            name => {
                let found = name.to_vec();
                return Err(ImportError::Magic { format: "a trace.dat with pages", found });
            }
        }
    }
    for cpu in 0..cpus {
        let (offset, size) = (bytes.u64()?, bytes.u64()?);
        contents.spans.push(Span { cpu: Cpu(cpu), offset, bytes: size });
    }
    Ok(contents)
}

fn options(bytes: &mut Bytes<'_>, contents: &mut Contents) -> Result<(), ImportError> {
    loop {
        let number = bytes.u16()?;
        if number == option::DONE {
            return Ok(());
        }
        let size = bytes.u32()?;
        let data = bytes.take(u64::from(size))?;
        match number {
            option::BUFFER => contents.further_instances += 1,
            _ => option::take_over(number, data, contents)?,
        }
    }
}
