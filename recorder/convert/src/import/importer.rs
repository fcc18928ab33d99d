//! Shared by all imports: turns events of another recorder into a trace in fxtrec's own form.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection, Record};
use fxt_writer::space::Output as RecordOutput;
use fxt_writer::writer::TablesFull;
use fxt_writer::{Arg, Koid, ProviderId, Text, ThreadName, Ticks, Value, WriteError, Writer, text};
use rustc_hash::FxHashMap;

use super::error::ImportError;
use super::tracing_data::Tracepoint;
use crate::{ConvertError, Report};
use fxtrec_capture::encode::Closed;
use fxtrec_capture::encode::encoder::owner::Owner;
use fxtrec_capture::encode::encoder::{Encoder, own_event};
use fxtrec_capture::encode::ids::Ids;
use fxtrec_capture::encode::probes::catalog::{Catalog, Class};
use fxtrec_capture::encode::strings;
use fxtrec_capture::encode::threads::{Lookup, Threads};
use fxtrec_capture::event::{Comm, Event, Kind, LocalId, Payload, Sample};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::convention::{PROVIDER, SCHEMA};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The thread that the conversion's own events belong to; no thread has this id.
const CONVERTER: ThreadName =
    ThreadName::Inline { process: Koid(0xffff_ffff), thread: Koid(0xffff_ffff) };

/// The largest plausible CPU number; Linux supports up to 8192 CPUs. The encoder reserves memory for all CPUs below it.
const MOST_CPU: u32 = u16::MAX as u32;

/// The origin of a trace, according to the trace itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// Its format, such as `perf.data`.
    pub(super) format: &'static str,
    pub(super) host: Option<String>,
    pub(super) release: Option<String>,
    /// The options of the recorder.
    pub(super) command_line: Option<String>,
    /// The clock of its times.
    pub(super) clock: Option<String>,
    /// The machine's description, as uname(2) returns it.
    pub(super) machine: Option<String>,
    /// The facts that the trace has, as `causes` in `trace_info` lists them.
    pub(super) causes: Option<String>,
    /// The nanoseconds to add to a time to get the time since 1970.
    pub(super) wall_clock_offset: Option<i64>,
    /// The kinds of stacks in the trace, as `kind` in `stack_info` lists them, and the shortest wait with a stack in nanoseconds.
    pub(super) stacks: Option<(&'static str, u64)>,
}

/// Which process a thread belongs to, and the names of processes, learned during the import.
#[derive(Clone, Debug, Default)]
struct Homes(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    process_of: FxHashMap<u32, u32>,
    name_of: FxHashMap<u32, Box<[u8]>>,
}

impl Homes {
    fn learn(&self, tid: u32, pid: u32) {
        self.known(|known| known.process_of.insert(tid, pid));
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lookup for Homes {
    fn process_of(&self, tid: LocalId) -> Option<LocalId> {
        self.known(|known| known.process_of.get(&tid.0).copied().map(LocalId))
    }

    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>> {
        self.known(|known| known.name_of.get(&pid.0).map(|name| name.to_vec()))
    }
}

/// The destination of all records.
#[derive(Debug)]
struct Sink<W: Write> {
    output: RecordOutput<W>,
    /// The provider whose section contains the records.
    provider: ProviderId,
    /// Whether the other provider was introduced.
    introduced: bool,
    failed: Option<WriteError<io::Error>>,
}

/// Both lanes of a provider in one sequence, into an output that another provider may use too.
#[derive(Debug)]
pub(super) struct Sequence<W: Write> {
    sink: Rc<RefCell<Sink<W>>>,
    provider: ProviderId,
}

impl<W: Write> Sequence<W> {
    fn write(&mut self, record: &impl Record) -> Result<(), Closed> {
        let mut sink = self.sink.borrow_mut();
        let done = sink.enter(self.provider).and_then(|()| record.write(&mut sink.output));
        done.map_err(|error| {
            sink.failed.get_or_insert(error);
            Closed
        })
    }
}

/// The provider of records that the recorded programs wrote themselves.
pub(super) const PROGRAMS: (ProviderId, &str) = (ProviderId(PROVIDER.0 + 1), "programs");

impl<W: Write> Sink<W> {
    fn enter(&mut self, provider: ProviderId) -> Result<(), WriteError<io::Error>> {
        if self.provider == provider {
            return Ok(());
        }
        self.provider = provider;
        if provider == PROGRAMS.0 && !std::mem::replace(&mut self.introduced, true) {
            ProviderInfo { id: provider, name: PROGRAMS.1 }.write(&mut self.output)?;
            ProviderSection { id: provider }.write(&mut self.output)?;
            return Initialization { ticks_per_second: 1_000_000_000 }.write(&mut self.output);
        }
        ProviderSection { id: provider }.write(&mut self.output)
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

/// A trace under construction.
#[derive(Debug)]
pub(super) struct Importer<W: Write> {
    encoder: Encoder<Sequence<W>>,
    /// The provider for records of the programs themselves.
    programs: Writer<Sequence<W>>,
    origin: Origin,
    homes: Homes,
    catalog: Catalog,
    /// The event for each described tracepoint, once it has occurred.
    extras: FxHashMap<usize, ExtraIndex>,
    /// The time of the last event; `None` before the first.
    last: Option<Nanos>,
    pub(super) report: Report,
}

impl<W: Write> Importer<W> {
    pub(super) fn new(output: W, origin: Origin) -> Importer<W> {
        let homes = Homes::default();
        let threads = Threads::new(Ids::Initial, Box::new(homes.clone()));
        let sink = Sink {
            output: RecordOutput::new(output),
            provider: PROVIDER,
            introduced: false,
            failed: None,
        };
        let sink = Rc::new(RefCell::new(sink));
        let lanes = Sequence { sink: sink.clone(), provider: PROVIDER };
        let programs = Sequence { sink, provider: PROGRAMS.0 };
        let programs = Writer::with_lanes(programs, TablesFull::Replace);
        let encoder = Encoder::new(lanes, threads, false, CONVERTER);
        let (catalog, extras) = (Catalog::default(), FxHashMap::default());
        Importer {
            encoder,
            programs,
            origin,
            homes,
            catalog,
            extras,
            last: None,
            report: Report::default(),
        }
    }

    /// A process and its thread before the first event.
    pub(super) fn known(&mut self, pid: u32, tid: u32, comm: Comm) {
        self.belongs(pid, tid);
        let threads = self.encoder.threads();
        let process = match pid == tid {
            true => threads.add_process(LocalId(pid), comm.as_bytes()),
            false => threads.process_of(LocalId(pid)),
        };
        threads.add_thread(process, Some(LocalId(tid)), None, comm);
    }

    /// Remembers that a thread belongs to a process.
    pub(super) fn belongs(&mut self, pid: u32, tid: u32) {
        self.homes.learn(tid, pid);
    }

    /// Stores the name of a process.
    pub(super) fn process_called(&mut self, pid: u32, name: &[u8]) {
        self.homes.known(|known| known.name_of.insert(pid, name.into()));
    }

    /// The koids of a process and its thread, which get their names before the next record at `time`; `comm` is used if the thread's name
    /// is not known otherwise.
    pub(super) fn thread(
        &mut self,
        time: Nanos,
        tid: Tid,
        comm: Option<&Comm>,
    ) -> Result<(Koid, Koid), ConvertError> {
        let at = self.advance(time)?;
        self.encoder.threads().get(tid, comm);
        match self.encoder.owner(tid, at) {
            Ok(Owner::Recorded { process, thread }) => Ok((process, thread)),
            Ok(_) => Ok((Koid(0), Koid(0))),
            Err(closed) => self.checked(Err(closed)).map(|()| (Koid(0), Koid(0))),
        }
    }

    /// Writes a program's own record, or another non-scheduling record, at `time`, which is raised to that of the last event and passed to
    /// `write`.
    pub(super) fn of_programs(
        &mut self,
        time: Nanos,
        write: impl FnOnce(Ticks, &mut Writer<Sequence<W>>) -> Result<(), WriteError<Closed>>,
    ) -> Result<(), ConvertError> {
        let at = self.advance(time)?;
        match write(Ticks(at.0), &mut self.programs) {
            Ok(()) => Ok(()),
            Err(WriteError::Full(closed)) => self.checked(Err(closed)),
            Err(WriteError::Encode(error)) => Err(error.into()),
        }
    }

    /// The name of a thread that may have ended before the trace did, and so does not show its process.
    pub(super) fn named(&mut self, tid: Tid, comm: Comm) {
        if self.encoder.threads().find(tid).is_none() {
            self.encoder.threads().get(tid, Some(&comm));
        }
    }

    /// The next event in order of time. An event that is late gets the time of the previous one, and is counted.
    pub(super) fn event(&mut self, time: Nanos, cpu: Cpu, kind: Kind) -> Result<(), ConvertError> {
        self.put(time, cpu, kind, &[])
    }

    /// The next event in order of time, from a non-scheduler tracepoint: `place` is its index in the list of descriptions.
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

    /// Registers the names of a tracepoint at its first occurrence.
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
        // perf puts the probes of each program into a group with that name.
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
        let at = self.advance(time)?;
        self.report.read += 1;
        let event = Event { time, kind };
        let taken = self.encoder.event(at, cpu, &event, raw);
        self.checked(taken)
    }

    /// The time of the next record, which is not before the time of the previous one.
    fn advance(&mut self, time: Nanos) -> Result<Nanos, ConvertError> {
        if self.last.is_none() {
            self.begin(time)?;
        }
        let last = self.last.unwrap_or(time);
        if time < last {
            self.report.count("events out of order in the input, given a later time");
        }
        let at = time.max(last);
        self.last = Some(at);
        Ok(at)
    }

    fn checked(&mut self, taken: Result<(), Closed>) -> Result<(), ConvertError> {
        match taken {
            Ok(()) => Ok(()),
            Err(Closed) => {
                let cause = self.encoder.lanes().sink.borrow_mut().failed.take();
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
        let mut reported = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        reported.push(("source", origin.format.to_owned()));
        let known = [
            ("host", origin.host),
            ("release", origin.release),
            ("command_line", origin.command_line),
            ("clock", origin.clock),
            ("machine", origin.machine),
            ("causes", origin.causes),
        ];
        reported.extend(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let values: Vec<_> =
            reported.iter().map(|(name, value)| (*name, text::clean(value.as_bytes()))).collect();
        let args: Vec<Arg<'_>> =
            values
                .iter()
                .map(|(name, value)| Arg::new(Text::Inline(name), Value::Str(Text::Inline(value))))
                .chain([Arg::new(Text::Inline("schema"), Value::uint(SCHEMA))])
                .chain(origin.wall_clock_offset.map(|offset| {
                    Arg::new(Text::Inline("wall_clock_offset_ns"), Value::int(offset))
                }))
                .collect();
        lanes.write(&own_event(time, CONVERTER, strings::TRACE_INFO, &args))?;
        let Some((kinds, over)) = origin.stacks else { return Ok(()) };
        let args = [
            Arg::new(Text::Inline("kind"), Value::Str(Text::Inline(kinds))),
            Arg::new(Text::Inline("over_ns"), Value::uint(over)),
        ];
        lanes.write(&own_event(time, CONVERTER, Text::Inline("stack_info"), &args))
    }

    /// Ends the trace. A trace without any event is still a trace.
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
        let Importer { encoder, programs, report, .. } = self;
        drop(programs);
        let sink = Rc::into_inner(encoder.into_lanes().sink).map(RefCell::into_inner);
        sink.map_or(Ok(()), |sink| sink.output.finish().map(drop)).map_err(ConvertError::Write)?;
        Ok(report)
    }
}

fn closed() -> ConvertError {
    ConvertError::Write(io::ErrorKind::BrokenPipe.into())
}
