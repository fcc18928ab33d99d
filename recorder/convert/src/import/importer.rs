//! What all imports share: events of another recorder into a trace of fxtrec's own shape.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection, Record};
use fxt_writer::space::Output as RecordOutput;
use fxt_writer::{Arg, Koid, Text, ThreadName, Value, WriteError, text};
use rustc_hash::FxHashMap;

use super::error::ImportError;
use super::tracing_data::Tracepoint;
use crate::{ConvertError, Report};
use fxtrec_capture::encode::Closed;
use fxtrec_capture::encode::encoder::{Encoder, own_event};
use fxtrec_capture::encode::ids::Ids;
use fxtrec_capture::encode::probes::catalog::{Catalog, Class};
use fxtrec_capture::encode::strings;
use fxtrec_capture::encode::threads::{Lookup, Threads};
use fxtrec_capture::event::{Comm, Event, Kind, LocalId, Payload, Sample};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::convention::PROVIDER;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The thread that the events of the conversion itself are put on; no thread has this number.
const CONVERTER: ThreadName =
    ThreadName::Inline { process: Koid(0xffff_ffff), thread: Koid(0xffff_ffff) };

/// The largest number of a CPU that is believed; Linux has up to 8192 of them. The encoder keeps room for all below.
const MOST_CPU: u32 = u16::MAX as u32;

/// Where a trace comes from, as far as it says so itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// Its format, as `perf.data`.
    pub(super) format: &'static str,
    pub(super) host: Option<String>,
    pub(super) release: Option<String>,
    /// What the recorder was told to do.
    pub(super) command_line: Option<String>,
    /// The clock of its times.
    pub(super) clock: Option<String>,
}

/// Which process a thread belongs to, learned from the trace on the way.
#[derive(Clone, Debug, Default)]
struct Homes(Arc<Mutex<FxHashMap<u32, u32>>>);

impl Homes {
    fn learn(&self, tid: u32, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, pid);
    }
}

impl Lookup for Homes {
    fn process_of(&self, tid: LocalId) -> Option<LocalId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&tid.0).copied().map(LocalId)
    }

    fn process_name(&self, _pid: LocalId) -> Option<Vec<u8>> {
        None
    }
}

/// Both lanes in one sequence, into an output.
#[derive(Debug)]
struct Sequence<W: Write> {
    output: RecordOutput<W>,
    failed: Option<WriteError<io::Error>>,
}

impl<W: Write> Sequence<W> {
    fn write(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(&mut self.output).map_err(|error| {
            self.failed.get_or_insert(error);
            Closed
        })
    }
}

impl<W: Write> Lanes for Sequence<W> {
    type Full = Closed;

    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Closed>> {
        self.write(record).map_err(WriteError::Full)
    }

    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Closed>> {
        self.write(record).map_err(WriteError::Full)
    }
}

/// A trace in the making.
#[derive(Debug)]
pub(super) struct Importer<W: Write> {
    encoder: Encoder<Sequence<W>>,
    origin: Origin,
    homes: Homes,
    catalog: Catalog,
    /// The event that each described tracepoint became, from when one was seen.
    extras: FxHashMap<usize, ExtraIndex>,
    /// When the last event happened; nothing before the first.
    last: Option<Nanos>,
    pub(super) report: Report,
}

impl<W: Write> Importer<W> {
    pub(super) fn new(output: W, origin: Origin) -> Importer<W> {
        let homes = Homes::default();
        let threads = Threads::new(Ids::Initial, Box::new(homes.clone()));
        let lanes = Sequence { output: RecordOutput::new(output), failed: None };
        let encoder = Encoder::new(lanes, threads, false, CONVERTER);
        let (catalog, extras) = (Catalog::default(), FxHashMap::default());
        Importer { encoder, origin, homes, catalog, extras, last: None, report: Report::default() }
    }

    /// A process and its thread as they were before the first event.
    pub(super) fn known(&mut self, pid: u32, tid: u32, comm: Comm) {
        self.belongs(pid, tid);
        let threads = self.encoder.threads();
        let process = match pid == tid {
            true => threads.add_process(LocalId(pid), comm.as_bytes()),
            false => threads.process_of(LocalId(pid)),
        };
        threads.add_thread(process, Some(LocalId(tid)), None, comm);
    }

    /// Takes note that a thread belongs to a process.
    pub(super) fn belongs(&mut self, pid: u32, tid: u32) {
        self.homes.learn(tid, pid);
    }

    /// The name of a thread that may have ended before the trace did, and so tells nothing about its process.
    pub(super) fn named(&mut self, tid: Tid, comm: Comm) {
        if self.encoder.threads().find(tid).is_none() {
            self.encoder.threads().get(tid, Some(&comm));
        }
    }

    /// The next event in order of time. One that comes too late is given the time of the one before it, and counted.
    pub(super) fn event(&mut self, time: Nanos, cpu: Cpu, kind: Kind) -> Result<(), ConvertError> {
        self.put(time, cpu, kind, &[])
    }

    /// The next event in order of time, of another tracepoint than the scheduler's: `place` is its place among the
    /// described ones.
    pub(super) fn other(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        (place, tracepoint): (usize, &Tracepoint),
        current: Tid,
        raw: &[u8],
    ) -> Result<(), ConvertError> {
        let extra = match self.extras.get(&place) {
            Some(extra) => *extra,
            None => self.introduce(time, place, tracepoint)?,
        };
        let sample = Sample { extra, current, user: None, payload: Payload::default() };
        self.put(time, cpu, Kind::Sample(sample), raw)
    }

    /// Registers the names of a tracepoint that is seen for the first time.
    fn introduce(
        &mut self,
        time: Nanos,
        place: usize,
        tracepoint: &Tracepoint,
    ) -> Result<ExtraIndex, ConvertError> {
        if self.last.is_none() {
            self.begin(time)?;
            self.last = Some(time);
        }
        let known = self.catalog.names_count();
        // perf puts the probes of each program into a group of that name.
        let (class, category) = match tracepoint.group.starts_with("probe_") {
            true => (Class::Probe, "uprobe"),
            false => (Class::Tracepoint, tracepoint.group.as_str()),
        };
        let entry = self.catalog.tracepoint(class, category, &tracepoint.format, false);
        let extra = u16::try_from(self.catalog.len()).map(ExtraIndex);
        let (Ok(entry), Ok(extra)) = (entry, extra) else {
            return Err(ImportError::TooManyTracepoints.into());
        };
        self.catalog.add(entry);
        let lanes = self.encoder.lanes();
        let named = self.catalog.names_from(known).try_for_each(|name| lanes.write(&name));
        self.checked(named)?;
        self.encoder.expect(self.catalog.clone());
        self.extras.insert(place, extra);
        Ok(extra)
    }

    fn put(&mut self, time: Nanos, cpu: Cpu, kind: Kind, raw: &[u8]) -> Result<(), ConvertError> {
        if cpu.0 > MOST_CPU {
            self.report.count("events with impossible CPU numbers, left out");
            return Ok(());
        }
        if self.last.is_none() {
            self.begin(time)?;
        }
        let last = self.last.unwrap_or(time);
        if time < last {
            self.report.count("events out of order in the input, given a later time");
        }
        let at = time.max(last);
        self.last = Some(at);
        self.report.read += 1;
        let event = Event { time, kind };
        let taken = self.encoder.event(at, cpu, &event, raw);
        self.checked(taken)
    }

    fn checked(&mut self, taken: Result<(), Closed>) -> Result<(), ConvertError> {
        match taken {
            Ok(()) => Ok(()),
            Err(Closed) => {
                let cause = self.encoder.lanes().failed.take();
                Err(cause.map_or_else(closed, ConvertError::from))
            }
        }
    }

    fn begin(&mut self, time: Nanos) -> Result<(), ConvertError> {
        let begun = self.write_head(time);
        self.checked(begun)
    }

    fn write_head(&mut self, time: Nanos) -> Result<(), Closed> {
        let origin = self.origin.clone();
        let lanes = self.encoder.lanes();
        lanes.write(&Magic)?;
        lanes.write(&ProviderInfo { id: PROVIDER, name: "fxtrec" })?;
        lanes.write(&ProviderSection { id: PROVIDER })?;
        lanes.write(&Initialization { ticks_per_second: 1_000_000_000 })?;
        strings::all().try_for_each(|string| lanes.write(&string))?;
        let mut told = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        told.push(("source", origin.format.to_owned()));
        let known = [
            ("host", origin.host),
            ("release", origin.release),
            ("command_line", origin.command_line),
            ("clock", origin.clock),
        ];
        told.extend(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let values: Vec<_> =
            told.iter().map(|(name, value)| (*name, text::clean(value.as_bytes()))).collect();
        let args: Vec<Arg<'_>> = values
            .iter()
            .map(|(name, value)| Arg::new(Text::Inline(name), Value::Str(Text::Inline(value))))
            .collect();
        lanes.write(&own_event(time, CONVERTER, strings::TRACE_INFO, &args))
    }

    /// Ends the trace. A trace without any event is one all the same.
    pub(super) fn finish(mut self) -> Result<Report, ConvertError> {
        if self.last.is_none() {
            self.begin(Nanos(0))?;
        }
        let stats = *self.encoder.stats();
        let counts = [
            ("switches", stats.switches_written),
            ("inferred_switches", stats.inferred_switches),
            ("wakeups", stats.wakeups_written),
            ("spurious_wakeups", stats.spurious_wakeups),
            ("wakings", stats.wakings),
            ("lost", stats.lost),
            ("threads", stats.threads),
            ("processes", stats.processes),
        ];
        let args = counts.map(|(name, count)| Arg::new(Text::Inline(name), Value::uint(count)));
        let end = own_event(self.last.unwrap_or_default(), CONVERTER, strings::TRACE_STATS, &args);
        let ended = self.encoder.lanes().write(&end);
        self.checked(ended)?;
        self.report.add("switches missing in the input, inferred", stats.inferred_switches);
        self.report.add("events that the recorder lost", stats.lost);
        let Importer { encoder, report, .. } = self;
        encoder.into_lanes().output.finish().map_err(ConvertError::Write)?;
        Ok(report)
    }
}

fn closed() -> ConvertError {
    ConvertError::Write(io::ErrorKind::BrokenPipe.into())
}
