//! The parts of a perf.data other than records: their position, the events, and facts about the machine.
//!
//! ```text
//!   file   | head | numbers of events | events | records ............... | features: table | features: data |
//!   pipe   | head | records, among them such that describe events and features ......................... |
//! ```

use std::fs::File;

use super::error::PerfDataError;
use super::layout::Layouts;
use crate::ConvertError;
use crate::import::bytes::{Bytes, Window};
use crate::import::error::ImportError;
use crate::import::importer::Origin;

/// The first bytes of every perf.data file, in both byte orders.
pub(crate) const MAGICS: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// The size of a file's header.
const HEAD_BYTES: u64 = 104;

/// The size of a pipe's header: magic number and its own size.
pub(super) const PIPE_HEAD_BYTES: u64 = 16;

/// The size of a section's position: offset and size.
const SECTION_BYTES: u64 = 16;

/// The size of the bit set of features in a header.
const FEATURE_BYTES: u64 = 32;

/// Larger descriptions of tracepoints are rejected.
pub(super) const MOST_DESCRIBED: u64 = 1 << 26;

/// Other parts are rejected if they are larger than this.
const MOST_BYTES: u64 = 1 << 24;

// Numbers of features.
const TRACING_DATA: u64 = 1;
const HOST_NAME: u64 = 3;
const RELEASE: u64 = 4;
const COMMAND_LINE: u64 = 11;

/// Whether the magic number shows this machine's byte order; `None` if it is not a magic number.
pub(super) fn is_native(magic: &[u8]) -> Option<bool> {
    let reversed = MAGICS.iter().position(|known| magic.starts_with(*known))? == 1;
    Some(reversed == cfg!(target_endian = "big"))
}

/// Whether a perf.data was written to a pipe, according to its first bytes.
pub(super) fn is_pipe(first: &[u8]) -> bool {
    let size = first.get(8..).and_then(|size| size.first_chunk()).copied().unwrap_or_default();
    [u64::from_le_bytes(size), u64::from_be_bytes(size)].contains(&PIPE_HEAD_BYTES)
}

/// The features that are used.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    pub(super) described: Option<Vec<u8>>,
    host: Option<String>,
    release: Option<String>,
    command_line: Option<String>,
}

impl Features {
    /// Takes a feature. A damaged text is ignored.
    pub(super) fn take_over(&mut self, number: u64, data: &[u8]) {
        let mut bytes = Bytes::new("a feature", data);
        match number {
            TRACING_DATA => self.described = Some(data.to_vec()),
            HOST_NAME => self.host = text(&mut bytes),
            RELEASE => self.release = text(&mut bytes),
            COMMAND_LINE => self.command_line = texts(&mut bytes),
            _ => {}
        }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin {
            format: "perf.data",
            host: self.host.clone(),
            release: self.release.clone(),
            command_line: self.command_line.clone(),
            clock: None,
            ..Origin::default()
        }
    }
}

/// A string after its length; the text ends at the first NUL, and padding follows.
fn text(bytes: &mut Bytes<'_>) -> Option<String> {
    let len = bytes.u32().ok()?;
    let text = bytes.take(u64::from(len)).ok()?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8(text.get(..end)?.to_vec()).ok()
}

/// A count, then that many strings, joined with spaces.
fn texts(bytes: &mut Bytes<'_>) -> Option<String> {
    let count = bytes.u32().ok()?;
    let texts: Option<Vec<String>> = (0..count).map(|_| text(bytes)).collect();
    texts.map(|texts| texts.join(" "))
}

/// The position of a part of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Section {
    fn parse(bytes: &mut Bytes<'_>) -> Result<Section, ImportError> {
        Ok(Section { offset: bytes.u64()?, bytes: bytes.u64()? })
    }

    /// Reads the part, which must be complete.
    fn read(self, file: &File, part: &'static str, most: u64) -> Result<Window, ConvertError> {
        let window = Window::of(file, self.offset, self.bytes.min(most))?;
        match window.0.len() as u64 == self.bytes {
            true => Ok(window),
            false => Err(ImportError::Short { part, at: window.0.len() }.into()),
        }
    }
}

/// All parts of a file except its records.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) layouts: Layouts,
    pub(super) features: Features,
    pub(super) records: Section,
}

impl Head {
    pub(super) fn read(file: &File) -> Result<Head, ConvertError> {
        let window = Window::of(file, 0, HEAD_BYTES)?;
        let short = PerfDataError::Head(window.0.len());
        let head = (window.0.len() as u64 == HEAD_BYTES).then(|| parse(&window)).transpose()?;
        let (event_bytes, events, records, bits) = head.ok_or(ImportError::from(short))?;
        let layouts = layouts(file, event_bytes, events)?;
        let table = Section {
            offset: records.offset.saturating_add(records.bytes),
            bytes: u64::from(bits.iter().map(|byte| byte.count_ones()).sum::<u32>())
                * SECTION_BYTES,
        };
        let features = features(file, table, &bits)?;
        Ok(Head { layouts, features, records })
    }
}

type Places = (u64, Section, Section, [u8; FEATURE_BYTES as usize]);

/// The size of an event's description, the positions of these and of the records, and the set of features.
fn parse(window: &Window) -> Result<Places, ImportError> {
    let mut bytes = window.bytes("the head");
    let _magic_and_size = bytes.take(16)?;
    let event_bytes = bytes.u64()?;
    let (events, records) = (Section::parse(&mut bytes)?, Section::parse(&mut bytes)?);
    let _event_types = Section::parse(&mut bytes)?;
    let mut bits = [0; FEATURE_BYTES as usize];
    for bit_word in bits.chunks_exact_mut(8) {
        bit_word.copy_from_slice(&bytes.u64()?.to_le_bytes());
    }
    Ok((event_bytes, events, records, bits))
}

fn layouts(file: &File, event_bytes: u64, events: Section) -> Result<Layouts, ConvertError> {
    let wrong = || ConvertError::from(ImportError::from(PerfDataError::EventBytes(event_bytes)));
    // The event's ids follow the attribute.
    let attribute_bytes = event_bytes.checked_sub(SECTION_BYTES).ok_or_else(wrong)?;
    let part = "the descriptions of events";
    let window = events.read(file, part, MOST_BYTES)?;
    let mut bytes = window.bytes(part);
    let mut layouts = Layouts::default();
    while bytes.rest().len() as u64 >= event_bytes {
        let attribute = bytes.take(attribute_bytes)?;
        let ids = Section::parse(&mut bytes)?.read(file, "the numbers of events", MOST_BYTES)?;
        layouts.add(attribute, &ids.0)?;
    }
    Ok(layouts)
}

fn features(file: &File, table: Section, bits: &[u8]) -> Result<Features, ConvertError> {
    let part = "the table of features";
    let window = table.read(file, part, MOST_BYTES)?;
    let mut bytes = window.bytes(part);
    let mut features = Features::default();
    for number in (0..).take(bits.len() * 8) {
        let byte = bits.get(number as usize / 8).copied().unwrap_or_default();
        if byte >> (number % 8) & 1 == 0 {
            continue;
        }
        let section = Section::parse(&mut bytes)?;
        let most = match number {
            TRACING_DATA => MOST_DESCRIBED,
            HOST_NAME | RELEASE | COMMAND_LINE => MOST_BYTES,
            _ => continue,
        };
        match section.read(file, "the features", most) {
            Ok(data) => features.take_over(number, &data.0),
            // The descriptions are required, the other features are optional.
            Err(error) if number == TRACING_DATA => return Err(error),
            Err(_) => {}
        }
    }
    Ok(features)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_distinguished_from_a_file_by_the_size_of_its_head() {
        for (size, expected) in [(16u64, true), (104, false)] {
            let head = [&b"PERFILE2"[..], &size.to_ne_bytes(), b"rest"].concat();
            assert_eq!(is_pipe(&head), expected);
        }
        assert!(!is_pipe(b"PERF"));
    }

    #[test]
    fn texts_are_taken_as_far_as_they_are_whole() {
        let sized = |text: &str| [&8u32.to_ne_bytes()[..], text.as_bytes()].concat();
        let mut features = Features::default();
        features.take_over(HOST_NAME, &sized("host\0\0\0\0"));
        features.take_over(RELEASE, &sized("short"));
        let command = [&2u32.to_ne_bytes()[..], &sized("perf\0\0\0\0"), &sized("record\0\0")];
        features.take_over(COMMAND_LINE, &command.concat());
        let origin = features.origin();
        assert_eq!((origin.host.as_deref(), origin.release), (Some("host"), None));
        assert_eq!(origin.command_line.as_deref(), Some("perf record"));
        features.take_over(COMMAND_LINE, &u32::MAX.to_ne_bytes());
        assert_eq!(features.origin().command_line, None);
    }
}
