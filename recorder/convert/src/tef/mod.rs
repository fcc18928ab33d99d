//! The Trace Event Format: JSON as Chrome's trace viewer made it known.
//!
//! [`mod@write`] makes it from FXT, [`mod@read`] makes FXT from it. Both keep what the other format has
//! no place for, in ways that the opposite direction understands:
//!
//! - A field of an event that FXT does not have becomes an argument whose name begins with
//!   `tef:`, see [`notes`]. Writing turns it into the field again.
//! - What an FXT argument is beyond its JSON value (a koid, a pointer, an unsigned number) is
//!   said by `arg_types` beside `args`. A record that JSON shows as some other event says so by
//!   the field `fxt`, see [`marks`]. Viewers ignore fields they do not know.

pub mod read;
pub mod write;

use fxt_reader::record::{Event, Value};

/// Arguments of FXT records that stand for fields of JSON events.
pub(super) mod notes {
    /// What the names of such arguments begin with; the rest is the name of the field.
    pub(crate) const PREFIX: &str = "tef:";
    /// The phase, where FXT has no event type for it.
    pub(crate) const PHASE: &str = "ph";
    /// A JSON array of names: these arguments hold JSON text, or are flattened objects.
    pub(crate) const NESTED: &str = "nested";
    /// The members of `args` that found no place in the record, as a JSON object.
    pub(crate) const MORE: &str = "more";
    /// A number: the event is in the blobs of that number, since it does not fit a record.
    pub(crate) const EVENT: &str = "event";
    /// The event was a member of `samples`.
    pub(crate) const SAMPLE: &str = "sample";
    /// The name of an `M` event that says something about a process or thread beside its name.
    pub(crate) const METADATA: &str = "metadata";
    /// A complete event that is on a track of its own, since it overlaps with another of its thread.
    pub(crate) const OVERLAP: &str = "overlap";
    /// What a process or thread is called in JSON, where its koid had to be another.
    pub(crate) const ID: &str = "id";
    /// Blobs that hold an event: the name goes on with its number.
    pub(crate) const EVENT_BLOB: &str = "tef:event/";
    /// Blobs that hold a member of the outermost object: the name goes on with its name.
    pub(crate) const MEMBER_BLOB: &str = "tef:member/";
}

/// Values of the field `fxt` of JSON events.
pub(super) mod marks {
    pub(crate) const FIELD: &str = "fxt";
    /// The field beside `args` that says which types they have.
    pub(crate) const TYPES: &str = "arg_types";
    /// The member of `otherData` that holds blobs.
    pub(crate) const BLOBS: &str = "fxt_blobs";
    /// The field with the context switch that a slice ends with. It is not in `args`, since some
    /// viewers take slices of one name with different arguments for different things.
    pub(crate) const SWITCH_FIELD: &str = "switch";
    /// Drawn from other records, so not to be read back.
    pub(crate) const DERIVED: &str = "derived";
    /// A slice whose end is a context switch.
    pub(crate) const SWITCH: &str = "switch";
    pub(crate) const LEGACY_SWITCH: &str = "legacy_switch";
    pub(crate) const WAKEUP: &str = "wakeup";
    /// A message of the log.
    pub(crate) const LOG: &str = "log";
    /// A trace provider; what follows is of it.
    pub(crate) const PROVIDER: &str = "provider";
    /// Something that a provider reports.
    pub(crate) const PROVIDER_EVENT: &str = "provider_event";
    /// A kernel object that is neither process nor thread.
    pub(crate) const KERNEL_OBJECT: &str = "kernel_object";
    /// A thread that does not say of which process.
    pub(crate) const NO_PROCESS: &str = "no_process";
    pub(crate) const USERSPACE_OBJECT: &str = "userspace_object";
    pub(crate) const LARGE_BLOB: &str = "large_blob";
}

/// The names of argument types in `arg_types`.
pub(super) mod types {
    pub(crate) const UINT32: &str = "uint32";
    pub(crate) const INT64: &str = "int64";
    pub(crate) const UINT64: &str = "uint64";
    pub(crate) const DOUBLE: &str = "double";
    pub(crate) const POINTER: &str = "pointer";
    pub(crate) const KOID: &str = "koid";
}

/// Whether the ids of an event are those of its process alone, as its JSON said.
pub(super) fn ids_are_local(event: &Event<'_>) -> bool {
    let id2 = event.args.iter().find(|arg| arg.name == "tef:id2").map(|arg| arg.value);
    matches!(id2, Some(Value::Str(text)) if text.contains("\"local\""))
}

/// The provider of a file that does not say who wrote it.
pub(super) const NAMELESS: &str = "trace events";

/// The process that CPU tracks belong to: the largest id that every viewer can hold.
pub(super) const CPUS_PROCESS: u64 = 0x7fff_ffff;

/// Integers up to this one survive readers that hold numbers as doubles.
pub(super) const MAX_EXACT: u64 = 9_007_199_254_740_992;
