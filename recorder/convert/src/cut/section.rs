//! Sections of other providers in the output.
//!
//! Each is cut separately, with its own tables, and follows fxtrec's own records:
//!
//! ```text
//! [ head | the recorder's window ][ info, section: window of app ][ info, section: window of db ][ section | counts ]
//! ```

use std::io::Write;

use fxt_format::limits::WORD_BYTES;
use fxt_format::walk::records_in_bytes;
use fxt_reader::{Nanos, Reader};
use fxt_writer::record::{Initialization, ProviderInfo, ProviderSection, Record};
use fxt_writer::space::{Output, Slot};
use fxt_writer::{EncodeError, ProviderId, Writer};

use super::{Cutter, Maker, Target, Window};
use crate::error::ConvertError;

/// A provider whose records are cut.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'n> {
    /// Its id in the archive.
    pub id: ProviderId,
    pub name: &'n str,
    /// The time at which its open operations end; `None` if the provider and its operations have ended.
    pub until: Option<Nanos>,
}

/// Writes the part of `reader`'s records in `window` to `out`, as a section of an archive that has begun. Nothing is written for a provider
/// without records and without open operations. Returns whether anything was written; then the archive has to be switched back to the
/// section that follows.
///
/// # Errors
///
/// Returns an error when the records cannot be read, or the output cannot be written.
pub fn cut_section(
    owner: Owner<'_>,
    reader: &mut Reader<'_>,
    window: &Window,
    out: &mut dyn Write,
) -> Result<bool, ConvertError> {
    let mut section = Vec::new();
    let mut target = Writer::new(Output::new(&mut section as &mut dyn Write)).with_long_strings();
    target.write(&ProviderInfo { id: owner.id, name: owner.name })?;
    target.write(&ProviderSection { id: owner.id })?;
    target.write(&Initialization { ticks_per_second: 1_000_000_000 })?;
    let mut cutter = Cutter::new(Maker::Provider, window, target);
    cutter.read(reader)?;
    let goes_on = owner.until.is_some() && cutter.open.has_operations();
    if cutter.report.read == 0 && !goes_on {
        return Ok(false);
    }
    cutter.last = cutter.last.max(owner.until.unwrap_or_default());
    cutter.end()?;
    out.write_all(&section).map_err(ConvertError::Write)?;
    Ok(true)
}

/// A record that is already encoded.
struct Written<'r>(&'r [u8]);

impl Written<'_> {
    fn word(&self, at: usize) -> u64 {
        let bytes = self.0.get(at * WORD_BYTES..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

impl Record for Written<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(self.0.len() / WORD_BYTES)
    }

    fn header(&self, _: usize) -> u64 {
        self.word(0)
    }

    fn body(&self, slot: &mut impl Slot) {
        (1..self.0.len() / WORD_BYTES).for_each(|at| slot.put(self.word(at)));
    }
}

/// Writes whole records unchanged.
pub(super) fn put(records: &[u8], target: &mut Target<'_>) -> Result<(), ConvertError> {
    for record in records_in_bytes(records) {
        target.write(&Written(record))?;
    }
    Ok(())
}
