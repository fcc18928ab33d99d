//! The Trace Event Format: JSON, known from Chrome's trace viewer.
//!
//! [`mod@write`] converts FXT to it, [`mod@read`] converts it to FXT. Both keep data that the other format cannot express, in ways that the
//! opposite direction understands:
//!
//! - A field of an event without an equivalent in FXT becomes an argument whose name begins with `tef:`, see [`notes`]. Writing turns it
//!   back into the field.
//! - If an FXT argument is more than its JSON value (a koid, a pointer, an unsigned number), `arg_types` next to `args` contains the type.
//!   If JSON shows a record as an event of another type, the event has the field `fxt`, see [`marks`]. Viewers ignore unknown fields.

pub mod read;
pub mod write;

use fxt_reader::record::{Event, Value};

/// Arguments of FXT records that represent fields of JSON events.
pub(super) mod notes {
    /// The prefix of the names of such arguments; the rest is the name of the field.
    pub(crate) const PREFIX: &str = "tef:";
    /// The phase, if FXT has no event type for it.
    pub(crate) const PHASE: &str = "ph";
    /// A JSON array of names: these arguments hold JSON text, or are flattened objects.
    pub(crate) const NESTED: &str = "nested";
    /// The members of `args` that did not fit into the record, as a JSON object.
    pub(crate) const MORE: &str = "more";
    /// A number: the event is in the blobs with that number, since it does not fit into a record.
    pub(crate) const EVENT: &str = "event";
    /// The event was a member of `samples`.
    pub(crate) const SAMPLE: &str = "sample";
    /// The name of an `M` event with information about a process or thread other than its name.
    pub(crate) const METADATA: &str = "metadata";
    /// A complete event on a separate track, because it overlaps with another event of its thread.
    pub(crate) const OVERLAP: &str = "overlap";
    /// The id of a process or thread in JSON, if its koid differs.
    pub(crate) const ID: &str = "id";
    /// Blobs that contain an event: the number follows the prefix.
    pub(crate) const EVENT_BLOB: &str = "tef:event/";
    /// Blobs that contain a member of the outermost object: the member's name follows the prefix.
    pub(crate) const MEMBER_BLOB: &str = "tef:member/";
}

/// Values of the field `fxt` of JSON events.
pub(super) mod marks {
    pub(crate) const FIELD: &str = "fxt";
    /// The field next to `args` with their types.
    pub(crate) const TYPES: &str = "arg_types";
    /// The member of `otherData` with blobs.
    pub(crate) const BLOBS: &str = "fxt_blobs";
    /// The field with the context switch at the end of a slice. It is not in `args`, since some viewers treat slices with the same name but
    /// different arguments as different.
    pub(crate) const SWITCH_FIELD: &str = "switch";
    /// Derived from other records, so not read back.
    pub(crate) const DERIVED: &str = "derived";
    /// A slice whose end is a context switch.
    pub(crate) const SWITCH: &str = "switch";
    pub(crate) const LEGACY_SWITCH: &str = "legacy_switch";
    pub(crate) const WAKEUP: &str = "wakeup";
    /// A message of the log.
    pub(crate) const LOG: &str = "log";
    /// A trace provider; the following events are from it.
    pub(crate) const PROVIDER: &str = "provider";
    /// An event that a provider reports.
    pub(crate) const PROVIDER_EVENT: &str = "provider_event";
    /// A kernel object that is neither process nor thread.
    pub(crate) const KERNEL_OBJECT: &str = "kernel_object";
    /// A thread without a process.
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

/// Whether the ids of an event are local to its process, according to its JSON.
pub(super) fn ids_are_local(event: &Event<'_>) -> bool {
    let id2 = event.args.iter().find(|arg| arg.name == "tef:id2").map(|arg| arg.value);
    matches!(id2, Some(Value::Str(text)) if text.contains("\"local\""))
}

/// The provider of a file without information about its writer.
pub(super) const NAMELESS: &str = "trace events";

/// The process that CPU tracks belong to: the largest id that every viewer can hold.
pub(super) const CPUS_PROCESS: u64 = 0x7fff_ffff;

/// Integers up to this are exact in readers that use doubles.
pub(super) const MAX_EXACT: u64 = 9_007_199_254_740_992;
