//! The recent records of applications, for a file that begins in the middle of them.
//!
//! In circular mode, the begin records of an application's open spans may have been overwritten. Their end records are still in memory and
//! identify them:
//!
//! ```text
//!  overwritten |  memory
//!      f( g(   |  )g  h(  )h  )f       at the beginning of memory: f > g
//! ```

use std::time::{Duration, Instant};

use fxt_reader::Reader;
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection, Record};

use crate::convert::ConvertError;
use crate::convert::cut::{self, Owner, Window};
use crate::encode::moment::MachineState;
use crate::encode::moment::rewind::rewind_trace;
use crate::manager::{RecordLoss, Section};
use crate::units::Nanos;
use crate::units::convention::PROVIDER;

/// The records of an application, preceded by begin records for the spans that are open where the records start.
fn opened(section: &Section) -> Vec<u8> {
    let alone = archive_of(section, &[]);
    // After a damaged record the state is unknown, so the section then starts without these begin records.
    let begun =
        rewind_trace(&mut Reader::from_slice(&alone), &MachineState::default()).ok().flatten();
    let mut opened = Vec::new();
    if let Some((begin, moment)) = begun.filter(|(_, moment)| !moment.spans.is_empty()) {
        // The added records use nanoseconds, whatever the provider's clock is.
        put(&mut opened, &Initialization { ticks_per_second: 1_000_000_000 });
        let written = moment.begin(begin, &mut opened);
        debug_assert!(written.is_ok(), "memory has room");
    }
    opened
}

/// An archive of only this section, with `opened` before its records.
fn archive_of(section: &Section, opened: &[u8]) -> Vec<u8> {
    let mut archive = Vec::with_capacity(section.records.len() + opened.len() + 1024);
    put(&mut archive, &Magic);
    put(&mut archive, &ProviderInfo { id: section.id, name: &section.name });
    put(&mut archive, &ProviderSection { id: section.id });
    archive.extend_from_slice(opened);
    archive.extend_from_slice(&section.records);
    archive
}

fn put(archive: &mut Vec<u8>, record: &impl Record) {
    // Registration rejects names that the format cannot express.
    let written = record.write(archive);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// The deadline for processing sections for one file; longer than the work takes even on a busy machine.
pub(in crate::commands::record) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// A whole section, to be appended to an archive that contains nothing of its provider. After `until`, no begin records of open spans are
/// added.
pub(in crate::commands::record) fn whole(section: &Section, until: Instant) -> Vec<u8> {
    let mut records = if Instant::now() < until { opened(section) } else { Vec::new() };
    records.extend_from_slice(&section.records);
    let mut whole = Vec::with_capacity(records.len() + 1024);
    Section { records, ..section.clone() }.put(&mut whole);
    whole
}

/// The parts of sections within `window`, to be appended to an archive that contains nothing of their providers. The recording has reached
/// `now`. Sections not processed by `until` are missing and reported as lost.
///
/// # Errors
///
/// Returns an error when a section cannot be read.
pub(in crate::commands::record) fn window(
    sections: &[Section],
    window: &Window,
    now: Nanos,
    until: Instant,
) -> Result<Vec<u8>, ConvertError> {
    let (mut cut_out, mut missing) = (Vec::new(), Vec::new());
    for section in sections {
        if Instant::now() >= until {
            let (since, until) = (Nanos(window.from.0), Nanos(window.to.0.min(now.0)));
            missing.push((section, RecordLoss { records: None, since, until }));
            continue;
        }
        let archive = archive_of(section, &opened(section));
        let until = section.goes_on.then_some(fxt_reader::Nanos(now.0));
        let owner = Owner { id: section.id, name: &section.name, until };
        cut::cut_section(owner, &mut Reader::from_slice(&archive), window, &mut cut_out)?;
    }
    if !cut_out.is_empty() {
        put(&mut cut_out, &ProviderSection { id: PROVIDER });
    }
    // Part of fxtrec's section, which also precedes these.
    for section in sections {
        for loss in section.losses.iter().filter(|loss| is_within(loss, window)) {
            loss.put(&section.name, section.process, &mut cut_out);
        }
    }
    for (section, loss) in missing {
        loss.put(&section.name, section.process, &mut cut_out);
    }
    Ok(cut_out)
}

/// Whether the dropped records may have been within the window.
fn is_within(loss: &RecordLoss, window: &Window) -> bool {
    loss.since.0 <= window.to.0 && loss.until.0 >= window.from.0
}

#[cfg(test)]
mod tests;
