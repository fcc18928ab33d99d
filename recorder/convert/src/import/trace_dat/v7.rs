//! Version 7: sections whose positions are in options.
//!
//! ```text
//!   head, packer's name and version, offset of the first options
//!   section   number, flags, text of a name, size, then the data: packed size, size, bytes where the flag says so
//!   options   (number, size, data)..., the last of which has the position of further ones
//! ```

use std::fs::File;

use super::option::{self, chosen_clock};
use super::packing::Packer;
use super::{Contents, Span, Window};
use crate::ConvertError;
use crate::import::bytes::Bytes;
use crate::import::tracing_data;
use fxtrec_units::Cpu;

/// The size of a section's header.
const SECTION_HEAD: u64 = 16;

/// The flag of compressed sections.
const PACKED: u16 = 1;

/// A longer chain of options is circular.
const MOST_OPTION_SECTIONS: usize = 1000;

/// A file, and its compression.
struct Sections<'a> {
    file: &'a File,
    packer: Option<Packer>,
}

/// `head` continues after the part that all versions have in common.
pub(super) fn contents(file: &File, head: &mut Bytes<'_>) -> Result<Contents, ConvertError> {
    let packer = Packer::of_name(&head.text()?)?;
    let _packer_version = head.text()?;
    let mut next = head.u64()?;
    let sections = Sections { file, packer };
    let mut contents = Contents::default();
    let mut buffers = Vec::new();
    for _ in 0..MOST_OPTION_SECTIONS {
        if next == 0 {
            break;
        }
        let data = sections.data(next)?;
        next =
            sections.options(&mut Bytes::new("the options", &data), &mut contents, &mut buffers)?;
    }
    // The instance without a name is the main one, which is often empty.
    let has_pages = |buffer: &Buffer| buffer.spans.iter().any(|span| span.bytes > 0);
    let chosen = buffers.iter().position(has_pages).unwrap_or(0);
    contents.further_instances = buffers
        .iter()
        .enumerate()
        .filter(|(at, buffer)| *at != chosen && has_pages(buffer))
        .count() as u64;
    if let Some(buffer) = buffers.into_iter().nth(chosen) {
        contents.packer = packer.filter(|_| buffer.packed);
        contents.spans = buffer.spans;
        contents.clock = buffer.clock.or(contents.clock);
    }
    Ok(contents)
}

/// The pages of one tracing instance.
struct Buffer {
    clock: Option<String>,
    spans: Vec<Span>,
    packed: bool,
}

impl Sections<'_> {
    /// The header of the section at `offset`: whether it is compressed, and its size.
    fn head(&self, offset: u64) -> Result<(bool, u64), ConvertError> {
        let window = Window::of(self.file, offset, SECTION_HEAD)?;
        let mut bytes = window.bytes("the sections");
        let (_number, flags, _name) = (bytes.u16()?, bytes.u16()?, bytes.u32()?);
        Ok((flags & PACKED != 0, bytes.u64()?))
    }

    /// The decompressed data of the section at `offset`.
    fn data(&self, offset: u64) -> Result<Vec<u8>, ConvertError> {
        let (is_packed, size) = self.head(offset)?;
        let window = Window::of(self.file, offset.saturating_add(SECTION_HEAD), size)?;
        let Some(packer) = self.packer.filter(|_| is_packed) else { return Ok(window.0) };
        let mut bytes = window.bytes("the sections");
        let (packed, plain) = (bytes.u32()?, bytes.u32()?);
        Ok(packer.unpack("the sections", bytes.take(u64::from(packed))?, plain)?)
    }

    /// Processes the options; returns the position of the next options.
    fn options(
        &self,
        bytes: &mut Bytes<'_>,
        contents: &mut Contents,
        buffers: &mut Vec<Buffer>,
    ) -> Result<u64, ConvertError> {
        loop {
            let (number, size) = (bytes.u16()?, bytes.u32()?);
            let data = bytes.take(u64::from(size))?;
            let mut data_bytes = Bytes::new("the options", data);
            // Most options only have the position of a section.
            let mut section = || -> Result<Vec<u8>, ConvertError> { self.data(data_bytes.u64()?) };
            match number {
                option::DONE => return Ok(data_bytes.u64()?),
                option::BUFFER => buffers.push(self.buffer(&mut data_bytes)?),
                option::HEADER_INFO => {
                    let section = section()?;
                    contents.header =
                        tracing_data::header_info(&mut Bytes::new("the page's form", &section))?;
                }
                option::FTRACE_EVENTS => {
                    let section = section()?;
                    let mut section = Bytes::new("the descriptions of tracepoints", &section);
                    contents.tracepoints.extend(tracing_data::ftrace_events(&mut section)?);
                }
                option::EVENT_FORMATS => {
                    let section = section()?;
                    let mut section = Bytes::new("the descriptions of tracepoints", &section);
                    contents.tracepoints.extend(tracing_data::event_formats(&mut section)?);
                }
                option::COMMS => {
                    let section = section()?;
                    let mut section = Bytes::new("the names of threads", &section);
                    contents.comms = tracing_data::comms(&section.sized_text()?);
                }
                _ => option::take_over(number, data, contents)?,
            }
        }
    }

    fn buffer(&self, bytes: &mut Bytes<'_>) -> Result<Buffer, ConvertError> {
        let section = bytes.u64()?;
        let _name = bytes.text()?;
        let clock = chosen_clock(bytes.text()?.as_bytes());
        let _page_bytes = bytes.u32()?;
        let cpus = bytes.u32()?;
        let mut spans = Vec::new();
        for _ in 0..cpus {
            let (cpu, offset, size) = (Cpu(bytes.u32()?), bytes.u64()?, bytes.u64()?);
            spans.push(Span { cpu, offset, bytes: size });
        }
        Ok(Buffer { clock, spans, packed: self.head(section)?.0 })
    }
}
