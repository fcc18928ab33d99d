//! Trace Event Format to FXT.
//!
//! Events are read one by one from [`source`] into a temporary trace in the order of the file, since any order is allowed; [`order`] then
//! sorts its records by time if necessary. [`system`] reads scheduling records from `systemTraceEvents`. [`event`] maps phases to event
//! types, [`naming`] turns `M` events into names, and [`own`] reads back what [`super::write`] wrote for records without an equivalent in
//! JSON. Data without an equivalent in FXT becomes an argument ([`args`]) or a blob ([`keep`]) and is counted.

mod args;
mod document;
mod event;
mod fields;
mod ids;
mod keep;
mod members;
mod naming;
mod overlap;
mod own;
mod source;
mod system;
mod time;

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection};
use fxt_writer::space::Output;
use fxt_writer::{ProviderId, Writer, text};
use rustc_hash::FxHashMap;

use crate::Rigor;
use crate::error::ConvertError;
use crate::order::{self, Order, Part};
use crate::report::Report;
use crate::spool;
use crate::tef::NAMELESS;
use ids::Ids;
use overlap::Overlaps;
use source::Source;

type Target<'o> = Writer<Output<&'o mut dyn Write>>;

/// The provider of a file without information about its writer.
const PROVIDER: (ProviderId, &str) = (ProviderId(1), NAMELESS);

/// Reads all of `input` and writes it to `out` as FXT.
///
/// # Errors
///
/// Returns an error if the input cannot be read or is malformed, or the output cannot be written. `rigor` determines what counts as
/// malformed.
pub fn read(input: impl Read, out: &mut dyn Write, rigor: Rigor) -> Result<Report, ConvertError> {
    let mut between = spool::temporary().map_err(ConvertError::Write)?;
    let mut importer = Importer::new(&mut between, rigor);
    let mut source = Source::new(input, rigor == Rigor::Strict);
    importer.document(&mut source)?;
    importer.system_text()?;
    let rest = importer.end()?;
    let mut events = spool::finished(between).map_err(ConvertError::Write)?;
    let mut report = rest.report;
    let scheduling = match &rest.ftrace {
        Some(text) => system::imported(text, &rest.owners, rest.lenient, &mut report)?,
        None => None,
    };
    // Files that fxtrec wrote from FXT are already in order, except for records outside of the events.
    let in_order = rest.own || Order::of(&events)?.in_order;
    if scheduling.is_none() && !rest.apart && in_order {
        events.rewind().map_err(ConvertError::Read)?;
        io::copy(&mut events, out).map_err(ConvertError::Write)?;
        return Ok(report);
    }
    if !in_order {
        report.note("events were not in order of time: sorted".into());
    }
    let named = rest.names.into_keys().collect();
    let mut parts = vec![Part { file: &events, names_first: !rest.own, named: None }];
    if let Some(file) = &scheduling {
        parts.push(Part { file, names_first: false, named: Some(&named) });
    }
    order::write(&parts, out)?;
    Ok(report)
}

/// The remaining work after all events are read.
struct Rest {
    report: Report,
    /// ftrace text that another program wrote.
    ftrace: Option<File>,
    /// The process of each thread.
    owners: FxHashMap<u32, u32>,
    names: FxHashMap<(bool, u64), String>,
    /// Whether fxtrec wrote the file from FXT.
    own: bool,
    /// Whether scheduling records were outside of the events.
    apart: bool,
    lenient: bool,
}

/// The state of a conversion at some point of the file.
struct Importer<'o> {
    /// `None` only while the provider changes.
    target: Option<Target<'o>>,
    providers: FxHashMap<ProviderId, String>,
    ids: Ids,
    /// The time of the last event with a time, for events without one.
    now: Option<u64>,
    /// Events without a time that precede the first event with a time.
    waiting: Vec<String>,
    /// The number of events that were kept in blobs.
    kept: u32,
    /// Names of objects, for later records about them.
    names: FxHashMap<(bool, u64), String>,
    overlaps: Overlaps,
    /// The number of complete events that got separate tracks.
    overlapping: u64,
    /// The ftrace text outside of the events.
    ftrace: Option<File>,
    /// Whether scheduling records outside of the events were written.
    apart: bool,
    strict: bool,
    lenient: bool,
    report: Report,
}

impl<'o> Importer<'o> {
    fn new(out: &'o mut dyn Write, rigor: Rigor) -> Self {
        Self {
            target: Some(Writer::new(Output::new(out))),
            providers: FxHashMap::default(),
            ids: Ids::default(),
            now: None,
            waiting: Vec::new(),
            kept: 0,
            names: FxHashMap::default(),
            overlaps: Overlaps::default(),
            overlapping: 0,
            ftrace: None,
            apart: false,
            strict: rigor == Rigor::Strict,
            lenient: rigor == Rigor::Lenient,
            report: Report::default(),
        }
    }

    /// The writer for records; the trace begins with its first use.
    fn target(&mut self) -> Result<&mut Target<'o>, ConvertError> {
        if self.providers.is_empty() {
            self.switch_provider(PROVIDER.0, PROVIDER.1)?;
        }
        match &mut self.target {
            Some(target) => Ok(target),
            None => Err(ConvertError::Write(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The following records are from this provider, which has its own tables.
    fn switch_provider(&mut self, id: ProviderId, name: &str) -> Result<(), ConvertError> {
        let Some(before) = self.target.take() else { return Ok(()) };
        let mut target = Writer::new(before.into_inner());
        if self.providers.is_empty() {
            target.write(&Magic)?;
        }
        if self.providers.insert(id, name.to_owned()).is_none() {
            let name = text::clean(name.as_bytes());
            let mut end = name.len().min(fxt_format::limits::MAX_PROVIDER_NAME_BYTES);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            target.write(&ProviderInfo { id, name: &name[..end] })?;
            target.write(&ProviderSection { id })?;
            target.write(&Initialization { ticks_per_second: 1_000_000_000 })?;
        } else {
            target.write(&ProviderSection { id })?;
        }
        self.target = Some(target);
        Ok(())
    }

    fn end(mut self) -> Result<Rest, ConvertError> {
        self.release_waiting()?;
        // A file without events becomes a trace without records.
        self.target()?;
        if let Some(target) = self.target.take() {
            target.into_inner().finish().map_err(ConvertError::Write)?;
        }
        Ok(Rest {
            report: self.report,
            ftrace: self.ftrace,
            owners: self.ids.owners(),
            names: self.names,
            own: self.ids.trusts_threads(),
            apart: self.apart,
            lenient: self.lenient,
        })
    }
}
