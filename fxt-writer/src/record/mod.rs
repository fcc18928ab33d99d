//! The records of the format, one file per family of the specification.
//!
//! Each record is a plain struct of its fields. [`Record::write`] checks it
//! against the limits of the format, reserves exactly the words it needs, and
//! writes it:
//!
//! ```
//! use fxt_writer::record::{ContextSwitch, Record, ThreadState};
//! use fxt_writer::{Arg, Koid, StringRef, Text, Ticks, Value};
//!
//! let mut words: Vec<u64> = Vec::new();
//! let weight = Text::Indexed(StringRef::indexed(1)?);
//! ContextSwitch {
//!     cpu: 3,
//!     time: Ticks(1_000),
//!     outgoing: Koid(17),
//!     incoming: Koid(18),
//!     outgoing_state: ThreadState::Blocked,
//!     args: &[Arg::new(weight, Value::Int32(1024))],
//! }
//! .write(&mut words)?;
//! assert_eq!(words.len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blob;
mod event;
mod initialization;
mod kernel_object;
mod large_blob;
mod log;
mod metadata;
mod scheduling;
mod string;
mod thread;
mod userspace_object;

pub use blob::Blob;
#[cfg(all(feature = "provider", target_os = "linux", not(loom)))]
pub(crate) use event::extra_word;
pub use event::{Event, EventKind};
pub use initialization::Initialization;
pub use kernel_object::KernelObject;
pub use large_blob::{BlobMetadata, LargeBlob};
pub use log::Log;
pub use metadata::{Magic, ProviderEvent, ProviderInfo, ProviderSection};
pub use scheduling::{ContextSwitch, LegacyContextSwitch, LegacySide, Wakeup};
pub use string::StringRecord;
pub use thread::ThreadRecord;
pub use userspace_object::UserspaceObject;

pub use fxt_format::{BlobType, ObjectType, ProviderEventKind, ThreadState};

use crate::error::{EncodeError, WriteError};
use crate::layout::limits;
use crate::space::{Slot, Space};

/// A record: knows its size, its header and what comes after the header.
///
/// Implement it to write records that this crate does not know.
pub trait Record {
    /// Size of the record in words, its header included.
    ///
    /// # Errors
    ///
    /// When the format cannot express the record.
    fn words(&self) -> Result<usize, EncodeError>;

    /// The header word of the record, which is `words` words long.
    fn header(&self, words: usize) -> u64;

    /// Writes the `words() - 1` words after the header.
    fn body(&self, slot: &mut impl Slot);

    /// Writes the record into `space`.
    ///
    /// # Errors
    ///
    /// When the format cannot express the record, or `space` has no room for
    /// it; nothing has been written then.
    #[inline]
    fn write<S: Space>(&self, space: &mut S) -> Result<(), WriteError<S::Full>> {
        let words = self.words()?;
        let mut slot = space.reserve(words).map_err(WriteError::Full)?;
        self.body(&mut slot);
        slot.finish(self.header(words));
        Ok(())
    }
}

/// `words`, if an ordinary record may have as many.
#[inline]
fn checked_size(words: usize) -> Result<usize, EncodeError> {
    if words <= limits::MAX_RECORD_WORDS {
        Ok(words)
    } else {
        Err(EncodeError::RecordTooLarge { words, max: limits::MAX_RECORD_WORDS })
    }
}
