//! The state of one packet writer: interned data, defaults, and its own clocks.
//!
//! A packet of a sequence may refer by number to strings, frames and stacks of earlier packets. One flag means that all of this is cleared,
//! another one that the packet cannot be read without the lost packets before it.

use rustc_hash::FxHashMap;

use super::clocks::OwnClock;
use super::wire::{Damaged, Fields, Value};

/// The maximum size of interned data of all sequences together, in bytes.
const MOST_BYTES: usize = 48 << 20;

/// The overhead of an interned item, in bytes.
const EACH_BYTES: usize = 64;

/// The kinds of interned strings, by their field in `interned_data`.
pub(super) mod kind {
    pub(crate) const CATEGORIES: u8 = 1;
    pub(crate) const NAMES: u8 = 2;
    pub(crate) const ARGUMENTS: u8 = 3;
    pub(crate) const FUNCTIONS: u8 = 5;
    pub(crate) const BUILD_IDS: u8 = 16;
    pub(crate) const PATHS: u8 = 17;
    pub(crate) const SYMBOLS: u8 = 26;
    pub(crate) const VALUES: u8 = 29;
}

const FRAMES: u32 = 6;
const STACKS: u32 = 7;
const MAPPINGS: u32 = 19;
const TASKS: u32 = 48;

#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub(super) function: u64,
    pub(super) mapping: u64,
    pub(super) address: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    pub(super) build_id: u64,
    pub(super) start: u64,
    pub(super) paths: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Sequence {
    texts: FxHashMap<(u8, u64), Box<[u8]>>,
    pub(super) frames: FxHashMap<u64, Frame>,
    pub(super) mappings: FxHashMap<u64, Mapping>,
    pub(super) stacks: FxHashMap<u64, Box<[u64]>>,
    /// Processes and threads, for samples that refer to them.
    pub(super) tasks: FxHashMap<u64, (u32, u32)>,
    /// The part of the limit that it uses, in bytes.
    bytes: usize,
    pub(super) clocks: Vec<OwnClock>,
    pub(super) default_clock: Option<u32>,
    pub(super) default_track: u64,
    /// The thread of events without a track.
    pub(super) thread: Option<(u32, u32)>,
    /// The unit of samples that do not specify it themselves.
    pub(super) samples: Option<Box<str>>,
    /// Whether everything since the last clear was read.
    pub(super) is_whole: bool,
    /// Whether it has had a bundle of ftrace events.
    pub(super) has_bundles: bool,
}

impl Sequence {
    /// Clears the interned data.
    pub(super) fn clear(&mut self, all: &mut usize) {
        *all -= self.bytes;
        *self = Sequence {
            clocks: std::mem::take(&mut self.clocks),
            thread: self.thread,
            is_whole: true,
            has_bundles: self.has_bundles,
            ..Sequence::default()
        };
    }

    pub(super) fn text(&self, kind: u8, number: u64) -> Option<&[u8]> {
        self.texts.get(&(kind, number)).map(|text| &**text)
    }

    /// Takes the interned data of a packet; `all` counts the bytes of all sequences. Returns the number of items that exceeded the limit.
    pub(super) fn intern(&mut self, data: &[u8], all: &mut usize) -> Result<u64, Damaged> {
        let (mut fields, mut left_out) = (Fields(data), 0);
        while let Some((field, value)) = fields.next()? {
            let message = value.bytes();
            if *all + message.len() + EACH_BYTES > MOST_BYTES {
                left_out += 1;
                continue;
            }
            match field {
                FRAMES => {
                    let (number, frame) = frame(message)?;
                    self.frames.insert(number, frame);
                }
                MAPPINGS => {
                    let (number, mapping) = mapping(message)?;
                    self.mappings.insert(number, mapping);
                }
                STACKS => {
                    let (mut number, mut frames) = (0, Vec::new());
                    let mut fields = Fields(message);
                    while let Some((field, value)) = fields.next()? {
                        match field {
                            1 => number = value.number(),
                            2 => value.each(|frame| frames.push(frame))?,
                            _ => {}
                        }
                    }
                    self.charge(frames.len() * 8, all);
                    self.stacks.insert(number, frames.into());
                }
                TASKS => {
                    let [number, pid, tid] = numbers(message)?;
                    self.tasks.insert(number, (pid as u32, tid as u32));
                }
                _ => {
                    let Some(kind) = text_kind(field) else { continue };
                    let (mut number, mut text): (_, &[u8]) = (0, &[]);
                    let mut fields = Fields(message);
                    while let Some((field, value)) = fields.next()? {
                        match (field, value) {
                            (1, value) => number = value.number(),
                            (2, Value::Bytes(bytes)) => text = bytes,
                            _ => {}
                        }
                    }
                    self.texts.insert((kind, number), text.into());
                }
            }
            self.charge(message.len() + EACH_BYTES, all);
        }
        Ok(left_out)
    }

    fn charge(&mut self, bytes: usize, all: &mut usize) {
        self.bytes += bytes;
        *all += bytes;
    }
}

fn text_kind(field: u32) -> Option<u8> {
    let kind = u8::try_from(field).ok()?;
    let is_text = matches!(
        kind,
        kind::CATEGORIES
            | kind::NAMES
            | kind::ARGUMENTS
            | kind::FUNCTIONS
            | kind::BUILD_IDS
            | kind::PATHS
            | kind::SYMBOLS
            | kind::VALUES
    );
    is_text.then_some(kind)
}

/// The first fields of a message, as numbers.
pub(super) fn numbers<const N: usize>(message: &[u8]) -> Result<[u64; N], Damaged> {
    let mut numbers = [0; N];
    let mut fields = Fields(message);
    while let Some((field, value)) = fields.next()? {
        if let Some(number) = numbers.get_mut(field as usize - 1) {
            *number = value.number();
        }
    }
    Ok(numbers)
}

fn frame(message: &[u8]) -> Result<(u64, Frame), Damaged> {
    let [number, function, mapping, address] = numbers(message)?;
    Ok((number, Frame { function, mapping, address }))
}

fn mapping(message: &[u8]) -> Result<(u64, Mapping), Damaged> {
    let (mut number, mut mapping) = (0, Mapping::default());
    let mut fields = Fields(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => number = value.number(),
            2 => mapping.build_id = value.number(),
            4 => mapping.start = value.number(),
            7 => value.each(|path| mapping.paths.push(path))?,
            _ => {}
        }
    }
    Ok((number, mapping))
}
