//! Traces put together by hand from the layout tables, independent of any encoder.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this")]

use std::io::{self, Read, Write};

use fxt_format::scheduling::context_switch;
use fxt_format::{
    argument, event, header, initialization, kernel_object, large_header, log, metadata,
    record_type, string, string_ref, thread,
};
use fxt_reader::{Error, Kind, Reader};

pub const HELLO: u16 = 3;
pub const WEIGHT_IN: u16 = 4;
pub const WEIGHT_OUT: u16 = 5;

/// A piece of a record.
#[derive(Clone, Copy)]
pub enum Atom<'a> {
    W(u64),
    /// A stream, padded with zeros.
    S(&'a str),
}
pub use Atom::{S, W};

#[derive(Clone, Default)]
pub struct Trace {
    pub bytes: Vec<u8>,
    big_endian: bool,
    pub offsets: Vec<usize>,
}

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn big_endian() -> Self {
        Self { big_endian: true, ..Self::default() }
    }

    /// One record; its size is put into `header_word`.
    pub fn push(&mut self, header_word: u64, atoms: &[Atom<'_>]) -> &mut Self {
        let mut body = Vec::new();
        for atom in atoms {
            match atom {
                W(word) => body.extend(self.word(*word)),
                S(text) => {
                    body.extend(text.as_bytes());
                    body.resize(body.len().next_multiple_of(8), 0);
                }
            }
        }
        let size = body.len() as u64 / 8 + 1;
        let large = header::TYPE.get(header_word) == record_type::LARGE;
        let size = if large { large_header::SIZE.put(size) } else { header::SIZE.put(size) };
        self.offsets.push(self.bytes.len());
        self.bytes.extend(self.word(header_word | size));
        self.bytes.extend(body);
        self
    }

    fn word(&self, word: u64) -> [u8; 8] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    pub fn magic(&mut self) -> &mut Self {
        use metadata::magic_number as table;
        self.push(
            table::TYPE.put(record_type::METADATA)
                | table::METADATA_TYPE.put(metadata::TRACE_INFO)
                | table::TRACE_INFO_TYPE.put(metadata::trace_info::MAGIC_NUMBER)
                | table::NUMBER.put(table::MAGIC),
            &[],
        )
    }

    pub fn provider_info(&mut self, id: u64, name: &str) -> &mut Self {
        use metadata::provider_info as table;
        self.push(
            table::TYPE.put(record_type::METADATA)
                | table::METADATA_TYPE.put(metadata::PROVIDER_INFO)
                | table::PROVIDER_ID.put(id)
                | table::NAME_LENGTH.put(name.len() as u64),
            &[S(name)],
        )
    }

    pub fn provider_section(&mut self, id: u64) -> &mut Self {
        use metadata::provider_section as table;
        self.push(
            table::TYPE.put(record_type::METADATA)
                | table::METADATA_TYPE.put(metadata::PROVIDER_SECTION)
                | table::PROVIDER_ID.put(id),
            &[],
        )
    }

    pub fn initialization(&mut self, ticks_per_second: u64) -> &mut Self {
        self.push(initialization::TYPE.put(record_type::INITIALIZATION), &[W(ticks_per_second)])
    }

    pub fn string(&mut self, index: u16, value: &str) -> &mut Self {
        self.push(
            string::TYPE.put(record_type::STRING)
                | string::INDEX.put(index.into())
                | string::LENGTH.put(value.len() as u64),
            &[S(value)],
        )
    }

    pub fn thread(&mut self, index: u8, process: u64, koid: u64) -> &mut Self {
        self.push(
            thread::TYPE.put(record_type::THREAD) | thread::INDEX.put(index.into()),
            &[W(process), W(koid)],
        )
    }

    /// A log record of thread 1 in the table.
    pub fn log_line(&mut self, message: &str) -> &mut Self {
        self.push(
            log::TYPE.put(record_type::LOG)
                | log::THREAD.put(1)
                | log::LENGTH.put(message.len() as u64),
            &[W(1), S(message)],
        )
    }

    /// An instant event of fxtrec's own, on an inline thread.
    pub fn own_instant(&mut self, time: u64, name: &str) -> &mut Self {
        let header_word = event::TYPE.put(record_type::EVENT)
            | event::EVENT_TYPE.put(event::INSTANT)
            | event::CATEGORY.put(inline("fxtrec"))
            | event::NAME.put(inline(name));
        self.push(header_word, &[W(time), W(1), W(1), S("fxtrec"), S(name)])
    }

    /// A kernel object with an inline name; for a thread with its process.
    pub fn object(&mut self, koid: u64, name: &str, process: Option<u64>) -> &mut Self {
        use kernel_object as table;
        let object_type = match process {
            Some(_) => table::ZX_OBJ_TYPE_THREAD,
            None => table::ZX_OBJ_TYPE_PROCESS,
        };
        let header_word = table::TYPE.put(record_type::KERNEL_OBJECT)
            | table::OBJECT_TYPE.put(object_type)
            | table::NAME.put(inline(name))
            | table::ARG_COUNT.put(process.is_some().into());
        let argument_header = argument::TYPE.put(argument::KOID)
            | argument::SIZE.put(3)
            | argument::NAME.put(inline("process"));
        match process {
            Some(process) => self.push(
                header_word,
                &[W(koid), S(name), W(argument_header), S("process"), W(process)],
            ),
            None => self.push(header_word, &[W(koid), S(name)]),
        }
    }

    /// The start of every trace here: one provider, nanoseconds, three strings.
    pub fn preamble(&mut self) -> &mut Self {
        self.magic()
            .provider_info(1, "test")
            .initialization(1_000_000_000)
            .string(HELLO, "hello")
            .string(WEIGHT_IN, "incoming_weight")
            .string(WEIGHT_OUT, "outgoing_weight")
    }

    /// A context switch with both weights, by indexed names.
    pub fn switch(&mut self, time: u64, cpu: u64, out: Side, incoming: Side) -> &mut Self {
        use context_switch as table;
        let weight = |name: u16, weight: i32| {
            W(argument::int32::TYPE.put(argument::INT32)
                | argument::int32::SIZE.put(1)
                | argument::int32::NAME.put(name.into())
                | argument::int32::VALUE.put(u64::from(weight.cast_unsigned())))
        };
        self.push(
            table::TYPE.put(record_type::SCHEDULING)
                | table::SCHEDULING_TYPE.put(fxt_format::scheduling::CONTEXT_SWITCH)
                | table::ARG_COUNT.put(2)
                | table::CPU.put(cpu)
                | table::OUTGOING_STATE.put(3),
            &[
                W(time),
                W(out.0),
                W(incoming.0),
                weight(WEIGHT_IN, incoming.1),
                weight(WEIGHT_OUT, out.1),
            ],
        )
    }

    /// A preamble and `count` context switches, 1 us apart.
    pub fn with_switches(count: u64) -> Self {
        let mut trace = Self::new();
        trace.preamble().object(40, "proc", None).object(41, "work", Some(40));
        let (idle, busy) = (Side(0, i32::MIN), Side(41, 1024));
        for at in 0..count {
            if at % 2 == 0 {
                trace.switch(1000 * at, 0, idle, busy);
            } else {
                trace.switch(1000 * at, 0, busy, idle);
            }
        }
        trace
    }
}

/// One side of a context switch: koid and weight.
#[derive(Clone, Copy)]
pub struct Side(pub u64, pub i32);

/// The string ref of an inline string.
pub fn inline(text: &str) -> u64 {
    string_ref::INLINE.put(1) | string_ref::VALUE.put(text.len() as u64)
}

/// Everything a reader returns for a trace, as text that can be compared: records
/// with their offsets, and damages. Other errors end it.
pub fn transcript(reader: &mut Reader<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(item)) => lines.push(format!("{} {:?}", item.offset, item.record)),
            Ok(None) => return lines,
            Err(Error::Damaged(damage)) => lines.push(damage.to_string()),
            Err(error) => {
                lines.push(error.to_string());
                return lines;
            }
        }
    }
}

/// The kinds of all records, in order; any error is a failure.
pub fn kinds(bytes: &[u8]) -> Vec<Kind> {
    let mut reader = Reader::from_slice(bytes);
    let mut kinds = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        kinds.push(item.record.kind());
    }
    kinds
}

/// Yields at most a fixed number of bytes at a time.
pub struct Pieces<R> {
    pub bytes: R,
    pub length: usize,
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.length.min(buffer.len());
        self.bytes.read(&mut buffer[..length])
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    // Without a checksum, damage may go unnoticed by the decompressor.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("memory");
    encoder.include_checksum(true).expect("a known parameter");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
