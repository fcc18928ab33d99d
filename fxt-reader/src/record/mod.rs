//! Records, resolved: names as strings, threads as koids, times in nanoseconds.
//!
//! One submodule per record family of the format specification. Everything a
//! record holds is borrowed from the reader's buffer and tables.

mod argument;
mod bulk;
mod definition;
mod events;
mod kind;
mod message;
mod object;
mod plain;
mod profiler;
mod provider;
mod schedule;

use fxt_format::metadata::trace_info;
use fxt_format::profiler as table;
use fxt_format::{
    Word, blob, event, header, initialization, kernel_object, large_blob, large_header, log,
    metadata, record_type, scheduling, string, thread, userspace_object,
};

pub use argument::{Arg, Args, ArgsIter, Value};
pub use bulk::{Blob, LargeBlob, LargeBlobMetadata};
pub use definition::{Initialization, StringRecord, ThreadRecord};
pub use events::{Event, EventKind};
pub use fxt_format::{BlobType, ProviderEventKind};
pub use kind::{Kind, UnknownKind};
pub use message::Log;
pub use object::{KernelObject, UserspaceObject};
pub(crate) use plain::{ArgPosition, PlainArgs};
pub use profiler::{Backtrace, Frames, Mapping, Module};
pub use provider::{ProviderEvent, ProviderInfo, ProviderSection};
pub(crate) use schedule::cpu;
pub use schedule::{
    ABSENT_WEIGHT_ARG, ContextSwitch, IDLE_WEIGHT, LegacyContextSwitch, NOT_RECORDED_PROCESS,
    NOT_RECORDED_WEIGHT, WEIGHT_INFO, Wakeup, is_not_recorded,
};

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::tables::Tables;
use crate::types::{Nanos, RecordType};

/// One record of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// The magic number, at the start of a trace.
    MagicNumber,
    /// Introduces a trace provider.
    ProviderInfo(ProviderInfo<'a>),
    /// Selects the provider of the records that follow.
    ProviderSection(ProviderSection),
    /// An event that a provider reports.
    ProviderEvent(ProviderEvent),
    /// The length of a tick.
    Initialization(Initialization),
    /// Fills an entry of the string table.
    String(StringRecord<'a>),
    /// Fills an entry of the thread table.
    Thread(ThreadRecord),
    /// Something that happened on a thread.
    Event(Event<'a>),
    /// A piece of bulk data.
    Blob(Blob<'a>),
    /// Describes what a pointer refers to.
    UserspaceObject(UserspaceObject<'a>),
    /// Describes what a koid refers to.
    KernelObject(KernelObject<'a>),
    /// A CPU switches from one thread to another, in the form of older traces.
    LegacyContextSwitch(LegacyContextSwitch),
    /// A CPU switches from one thread to another.
    ContextSwitch(ContextSwitch<'a>),
    /// A thread becomes able to run.
    Wakeup(Wakeup<'a>),
    /// A message written to the log.
    Log(Log<'a>),
    /// A file with code that a process has loaded.
    Module(Module<'a>),
    /// Where a part of a module is in memory.
    Mapping(Mapping),
    /// The stack of a thread.
    Backtrace(Backtrace<'a>),
    /// Bulk data beyond what an ordinary record holds.
    LargeBlob(LargeBlob<'a>),
    /// A record that this crate does not know; its words are in
    /// [`Item::raw`](crate::Item::raw).
    Unknown(Unknown),
}

/// The unknown parts of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// The record type.
    RecordType(RecordType),
    /// The metadata type.
    MetadataType(u8),
    /// The trace info type.
    TraceInfoType(u8),
    /// The event type.
    EventType(u8),
    /// The scheduling record type.
    SchedulingType(u8),
    /// The kind of profiler record.
    ProfilerKind(u8),
    /// The large record type.
    LargeType(u8),
    /// The blob format type of a large blob.
    BlobFormat(u8),
}

impl<'a> Record<'a> {
    /// The type of the record, without its content.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::MagicNumber => Kind::MagicNumber,
            Self::ProviderInfo(_) => Kind::ProviderInfo,
            Self::ProviderSection(_) => Kind::ProviderSection,
            Self::ProviderEvent(_) => Kind::ProviderEvent,
            Self::Initialization(_) => Kind::Initialization,
            Self::String(_) => Kind::String,
            Self::Thread(_) => Kind::Thread,
            Self::Event(event) => Kind::of_event(&event.kind),
            Self::Blob(_) => Kind::Blob,
            Self::UserspaceObject(_) => Kind::UserspaceObject,
            Self::KernelObject(_) => Kind::KernelObject,
            Self::LegacyContextSwitch(_) => Kind::LegacyContextSwitch,
            Self::ContextSwitch(_) => Kind::ContextSwitch,
            Self::Wakeup(_) => Kind::Wakeup,
            Self::Log(_) => Kind::Log,
            Self::Module(_) => Kind::Module,
            Self::Mapping(_) => Kind::Mapping,
            Self::Backtrace(_) => Kind::Backtrace,
            Self::LargeBlob(_) => Kind::LargeBlob,
            Self::Unknown(_) => Kind::Unknown,
        }
    }

    /// When it happened, for the kinds that have a time.
    #[must_use]
    pub fn time(&self) -> Option<Nanos> {
        match self {
            Self::Event(event) => Some(event.time),
            Self::LegacyContextSwitch(switch) => Some(switch.time),
            Self::ContextSwitch(switch) => Some(switch.time),
            Self::Wakeup(wakeup) => Some(wakeup.time),
            Self::Log(log) => Some(log.time),
            Self::Module(module) => Some(module.time),
            Self::Mapping(mapping) => Some(mapping.time),
            Self::Backtrace(backtrace) => Some(backtrace.time),
            Self::LargeBlob(blob) => blob.metadata.map(|metadata| metadata.time),
            _ => None,
        }
    }

    /// The arguments, for the kinds that have them.
    #[must_use]
    pub fn args(&self) -> Option<Args<'a>> {
        match self {
            Self::Event(event) => Some(event.args),
            Self::UserspaceObject(object) => Some(object.args),
            Self::KernelObject(object) => Some(object.args),
            Self::ContextSwitch(switch) => Some(switch.args),
            Self::Wakeup(wakeup) => Some(wakeup.args),
            Self::LargeBlob(blob) => blob.metadata.map(|metadata| metadata.args),
            _ => None,
        }
    }

    /// Reads the record that `cursor` holds, exactly as long as its header says.
    #[inline(always)]
    pub(crate) fn parse(cursor: &mut Cursor<'a>, tables: &'a Tables) -> Result<Self, Reason> {
        let word = cursor.word()?;
        if let Some(unknown) = Unknown::of(word) {
            return Ok(Self::Unknown(unknown));
        }
        let record = match header::TYPE.get(word) {
            record_type::SCHEDULING => match scheduling::SCHEDULING_TYPE.get(word) {
                scheduling::CONTEXT_SWITCH => {
                    Self::ContextSwitch(ContextSwitch::parse(word, cursor, tables)?)
                }
                scheduling::THREAD_WAKEUP => Self::Wakeup(Wakeup::parse(word, cursor, tables)?),
                _ => Self::LegacyContextSwitch(LegacyContextSwitch::parse(word, cursor, tables)?),
            },
            record_type::METADATA => Self::parse_metadata(word, cursor)?,
            record_type::INITIALIZATION => {
                Self::Initialization(Initialization::parse(word, cursor)?)
            }
            record_type::STRING => Self::String(StringRecord::parse(word, cursor)?),
            record_type::THREAD => Self::Thread(ThreadRecord::parse(word, cursor)?),
            record_type::EVENT => Self::Event(Event::parse(word, cursor, tables)?),
            record_type::BLOB => Self::Blob(Blob::parse(word, cursor, tables)?),
            record_type::USERSPACE_OBJECT => {
                Self::UserspaceObject(UserspaceObject::parse(word, cursor, tables)?)
            }
            record_type::KERNEL_OBJECT => {
                Self::KernelObject(KernelObject::parse(word, cursor, tables)?)
            }
            record_type::LOG => Self::Log(Log::parse(word, cursor, tables)?),
            record_type::PROFILER => match table::KIND.get(word) {
                table::MODULE => Self::Module(Module::parse(word, cursor, tables)?),
                table::MAPPING => Self::Mapping(Mapping::parse(word, cursor, tables)?),
                _ => Self::Backtrace(Backtrace::parse(word, cursor, tables)?),
            },
            _ => Self::LargeBlob(LargeBlob::parse(word, cursor, tables)?),
        };
        cursor.finish();
        Ok(record)
    }

    fn parse_metadata(word: u64, cursor: &mut Cursor<'a>) -> Result<Self, Reason> {
        Ok(match metadata::METADATA_TYPE.get(word) {
            metadata::PROVIDER_INFO => Self::ProviderInfo(ProviderInfo::parse(word, cursor)?),
            metadata::PROVIDER_SECTION => {
                Self::ProviderSection(ProviderSection::parse(word, cursor))
            }
            metadata::PROVIDER_EVENT => Self::ProviderEvent(ProviderEvent::parse(word, cursor)),
            // The only record that is not extensible: its single word is the magic number.
            _ if word == metadata::MAGIC_WORD => Self::MagicNumber,
            _ => return Err(Reason::WrongMagic(word)),
        })
    }
}

impl Unknown {
    /// The unknown parts of the record with this header word, if there are any.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> Option<Self> {
        match header::TYPE.get(word) {
            record_type::SCHEDULING => match scheduling::SCHEDULING_TYPE.get(word) {
                scheduling::LEGACY_CONTEXT_SWITCH
                | scheduling::CONTEXT_SWITCH
                | scheduling::THREAD_WAKEUP => None,
                other => Some(Self::SchedulingType(nibble(other))),
            },
            record_type::EVENT => match event::EVENT_TYPE.get(word) {
                0..=event::FLOW_END => None,
                other => Some(Self::EventType(nibble(other))),
            },
            record_type::METADATA => match metadata::METADATA_TYPE.get(word) {
                metadata::PROVIDER_INFO | metadata::PROVIDER_SECTION | metadata::PROVIDER_EVENT => {
                    None
                }
                metadata::TRACE_INFO => match trace_info::TRACE_INFO_TYPE.get(word) {
                    trace_info::MAGIC_NUMBER => None,
                    other => Some(Self::TraceInfoType(nibble(other))),
                },
                other => Some(Self::MetadataType(nibble(other))),
            },
            record_type::LARGE => match large_header::LARGE_TYPE.get(word) {
                large_header::TYPE_BLOB => match large_blob::FORMAT.get(word) {
                    large_blob::WITH_METADATA | large_blob::WITHOUT_METADATA => None,
                    other => Some(Self::BlobFormat(nibble(other))),
                },
                other => Some(Self::LargeType(nibble(other))),
            },
            record_type::PROFILER => match table::KIND.get(word) {
                table::MODULE | table::MAPPING | table::BACKTRACE => None,
                other => Some(Self::ProfilerKind(nibble(other))),
            },
            record_type::INITIALIZATION
            | record_type::STRING
            | record_type::THREAD
            | record_type::BLOB
            | record_type::USERSPACE_OBJECT
            | record_type::KERNEL_OBJECT
            | record_type::LOG => None,
            other => Some(Self::RecordType(RecordType::from_field(other))),
        }
    }
}

/// The table that names the bits of a record's header word.
pub(crate) fn header_table(word: u64) -> Word {
    match header::TYPE.get(word) {
        record_type::METADATA => match metadata::METADATA_TYPE.get(word) {
            metadata::PROVIDER_INFO => metadata::provider_info::HEADER,
            metadata::PROVIDER_SECTION => metadata::provider_section::HEADER,
            metadata::PROVIDER_EVENT => metadata::provider_event::HEADER,
            metadata::TRACE_INFO if word == metadata::MAGIC_WORD => metadata::magic_number::HEADER,
            metadata::TRACE_INFO => trace_info::HEADER,
            _ => metadata::HEADER,
        },
        record_type::INITIALIZATION => initialization::HEADER,
        record_type::STRING => string::HEADER,
        record_type::THREAD => thread::HEADER,
        record_type::EVENT => event::HEADER,
        record_type::BLOB => blob::HEADER,
        record_type::USERSPACE_OBJECT => userspace_object::HEADER,
        record_type::KERNEL_OBJECT => kernel_object::HEADER,
        record_type::SCHEDULING => match scheduling::SCHEDULING_TYPE.get(word) {
            scheduling::LEGACY_CONTEXT_SWITCH => scheduling::legacy_context_switch::HEADER,
            scheduling::CONTEXT_SWITCH => scheduling::context_switch::HEADER,
            scheduling::THREAD_WAKEUP => scheduling::thread_wakeup::HEADER,
            _ => scheduling::HEADER,
        },
        record_type::LOG => log::HEADER,
        record_type::PROFILER => match table::KIND.get(word) {
            table::MODULE => table::module::HEADER,
            table::MAPPING => table::mapping::HEADER,
            table::BACKTRACE => table::backtrace::HEADER,
            _ => table::HEADER,
        },
        record_type::LARGE => match large_header::LARGE_TYPE.get(word) {
            large_header::TYPE_BLOB => large_blob::HEADER,
            _ => large_header::HEADER,
        },
        _ => header::HEADER,
    }
}

/// A field of at most four bits as a `u8`.
fn nibble(field: u64) -> u8 {
    u8::try_from(field).unwrap_or(u8::MAX)
}
