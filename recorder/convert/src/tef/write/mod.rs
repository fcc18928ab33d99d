//! FXT to Trace Event Format.
//!
//! Records are written in the order of the trace, each as a JSON event on its own line. Events map to their phases, names to `M` events;
//! for scheduling records see [`Sched`].

mod args;
mod document;
mod events;
mod ftrace;
mod fuchsia;
mod json;
mod kept;
mod names;
mod objects;
mod slices;
mod states;

use std::io::Write;

use fxt_reader::record::Unknown;
use fxt_reader::{Error, Nanos, ProviderId, Reader, Record};
use rustc_hash::FxHashMap;

use crate::error::ConvertError;
use crate::report::Report;
use document::Document;
use ftrace::Ftrace;
use fuchsia::Fuchsia;
use kept::Kept;
use names::Names;
use slices::Slices;

/// How to write scheduling records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sched {
    /// Slices: a track for each CPU with the threads that ran on it, and the states of each thread on its track. Every viewer can show
    /// them.
    #[default]
    Slices,
    /// `systemTraceEvents` in the format of Fuchsia's own converter.
    Fuchsia,
    /// `systemTraceEvents` as ftrace text.
    Ftrace,
}

/// Writes everything from `reader` to `out`.
///
/// # Errors
///
/// Returns an error if the input is not a trace or cannot be read, or the output cannot be written. Damaged records are skipped and
/// counted.
pub fn write(
    reader: &mut Reader<'_>,
    out: &mut dyn Write,
    sched: Sched,
) -> Result<Report, ConvertError> {
    let mut exporter = Exporter {
        document: Document::begin(out),
        names: Names::default(),
        kept: Kept::default(),
        scheduling: match sched {
            Sched::Slices => Scheduling::Slices(Slices::default()),
            Sched::Fuchsia => Scheduling::Fuchsia(Fuchsia::default()),
            Sched::Ftrace => Scheduling::Ftrace(Ftrace::default()),
        },
        now: Nanos(0),
        report: Report::default(),
        providers: FxHashMap::default(),
        current_provider: None,
    };
    loop {
        match reader.next() {
            Ok(Some(item)) => exporter.take(&item.record)?,
            Ok(None) => break,
            Err(Error::Damaged(_)) => exporter.report.count("damaged records, skipped"),
            Err(error) => return Err(error.into()),
        }
    }
    let summary = reader.summary();
    let mut report = exporter.end()?;
    report.add("bytes of an incomplete record at the end", summary.truncated_tail);
    report.add("truncated compressed streams", u64::from(summary.container_truncated));
    Ok(report)
}

#[derive(Debug)]
enum Scheduling {
    Slices(Slices),
    Fuchsia(Fuchsia),
    Ftrace(Ftrace),
}

/// The state of a conversion at some point of the trace.
struct Exporter<'w> {
    document: Document<'w>,
    names: Names,
    kept: Kept,
    scheduling: Scheduling,
    /// The time of the last record with a time, for records without one.
    now: Nanos,
    report: Report,
    providers: FxHashMap<ProviderId, String>,
    current_provider: Option<ProviderId>,
}

impl Exporter<'_> {
    fn take(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        self.report.read += 1;
        if let Some(time) = record.time() {
            self.now = time;
        }
        match record {
            // Every record that refers to these includes their content.
            Record::MagicNumber
            | Record::Initialization(_)
            | Record::String(_)
            | Record::Thread(_) => {}
            Record::ProviderInfo(info) => self.provider(info),
            Record::ProviderSection(section) => self.provider_section(*section),
            Record::ProviderEvent(event) => self.provider_event(*event),
            Record::Event(event) => self.event(event)?,
            Record::Log(log) => self.log(log),
            Record::KernelObject(object) => self.kernel_object(object),
            Record::UserspaceObject(object) => self.userspace_object(object),
            Record::Blob(blob) => self.blob(blob)?,
            Record::LargeBlob(blob) => self.large_blob(blob)?,
            Record::ContextSwitch(_) | Record::LegacyContextSwitch(_) | Record::Wakeup(_) => {
                self.scheduling(record)?;
            }
            Record::Module(_) | Record::Mapping(_) => {
                self.report.count("modules and mappings of stacks, left out");
            }
            Record::Backtrace(_) => self.report.count("stacks, left out"),
            Record::Unknown(Unknown::RecordType(_)) => {
                self.report.count("records of unknown type, left out");
            }
            _ => self.report.count("records of unknown subtype, left out"),
        }
        self.document.settle()
    }

    fn scheduling(&mut self, record: &Record<'_>) -> Result<(), ConvertError> {
        match &mut self.scheduling {
            Scheduling::Slices(slices) => {
                slices.take(record, &mut self.document, &self.names);
                Ok(())
            }
            Scheduling::Fuchsia(fuchsia) => {
                fuchsia.take(record, self.document.member("systemTraceEvents"))
            }
            Scheduling::Ftrace(ftrace) => {
                let member = self.document.member("systemTraceEvents");
                ftrace.take(record, member, &self.names, &mut self.report)
            }
        }
    }

    fn end(mut self) -> Result<Report, ConvertError> {
        match &mut self.scheduling {
            Scheduling::Slices(slices) => slices.end(self.now, &mut self.document, &self.names),
            Scheduling::Fuchsia(fuchsia) => {
                fuchsia.end(self.document.member("systemTraceEvents"), &self.names)?;
            }
            Scheduling::Ftrace(_) => Ftrace::end(self.document.member("systemTraceEvents"))?,
        }
        self.kept.end(&mut self.document, &mut self.report)?;
        self.document.end()?;
        Ok(self.report)
    }
}
