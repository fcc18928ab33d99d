//! Trace Event Format to FXT.
//!
//! Events are read one by one from [`source`] into a temporary trace in the order of the file, as the document allows any;
//! [`order`] puts its records in order of time where they are not. [`system`] takes scheduling out of
//! `systemTraceEvents`. [`event`] maps phases to event types, [`naming`] turns `M` events into
//! names, [`own`] reads back what [`super::write`] wrote for records that JSON has nothing like.
//! What FXT has no place for becomes an argument ([`args`]) or a blob ([`keep`]) and is counted.

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

/// The provider of a file that does not say who wrote it.
const PROVIDER: (ProviderId, &str) = (ProviderId(1), NAMELESS);

/// Reads all of `input` and writes it to `out` as FXT.
///
/// # Errors
///
/// When the input cannot be read or is malformed, or the output not be written. How much is taken
/// for malformed, `rigor` says.
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
    // What fxtrec wrote from FXT is in the order of that, but for what stood apart.
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

/// What is left to do when all events were read.
struct Rest {
    report: Report,
    /// Text of ftrace that another program wrote.
    ftrace: Option<File>,
    /// The process of each thread.
    owners: FxHashMap<u32, u32>,
    names: FxHashMap<(bool, u64), String>,
    /// Whether fxtrec wrote the file from FXT.
    own: bool,
    /// Whether scheduling stood apart from the events.
    apart: bool,
    lenient: bool,
}

/// What a conversion knows at some point of the file.
struct Importer<'o> {
    /// Nothing only while the provider changes.
    target: Option<Target<'o>>,
    providers: FxHashMap<ProviderId, String>,
    ids: Ids,
    /// The time of the last event that had one, for those that have none.
    now: Option<u64>,
    /// Events without a time that came before the first with one.
    waiting: Vec<String>,
    /// Events that were kept in blobs.
    kept: u32,
    /// Names of objects, for the records that say more about them.
    names: FxHashMap<(bool, u64), String>,
    overlaps: Overlaps,
    /// Complete events that went onto tracks of their own.
    overlapping: u64,
    /// The text of ftrace that stands beside the events.
    ftrace: Option<File>,
    /// Whether scheduling that stood beside the events was written.
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

    /// Where records go; the trace begins with the first that asks.
    fn target(&mut self) -> Result<&mut Target<'o>, ConvertError> {
        if self.providers.is_empty() {
            self.switch_provider(PROVIDER.0, PROVIDER.1)?;
        }
        match &mut self.target {
            Some(target) => Ok(target),
            None => Err(ConvertError::Write(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// What follows is of this provider, which has tables of its own.
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
        // A file without events is a trace without records.
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
