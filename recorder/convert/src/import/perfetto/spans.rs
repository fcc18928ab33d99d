//! Events other than scheduling: track events, text that programs print, interrupts, counters and stacks.

use std::borrow::Cow;
use std::io::Write;

use fxt_writer::record::{
    Backtrace, EventKind, KernelObject, Mapping, Module, ObjectType, ProcessName, UserspaceObject,
};
use fxt_writer::{Koid, Text, ThreadName, Ticks, Value, text};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{Code, File};
use super::events::{Argument, Content, Count, Track, act};
use super::item::{CommId, Comms};
use crate::ConvertError;
use crate::import::importer::Importer;
use fxtrec_capture::encode::probes::interrupts;
use fxtrec_capture::event::Comm;
use fxtrec_sched::backtrace::{NAME_MODULE, problem};
use fxtrec_units::{Cpu, Nanos, Tid};

/// The maximum number of nested slices on a track.
const MOST_OPEN: usize = 512;

/// The maximum number of ancestors of a track.
const MOST_PARENTS: usize = 32;

/// The maximum number of open flows.
const MOST_FLOWS: usize = 1 << 20;

/// The maximum number of nested interrupts.
const MOST_INTERRUPTS: usize = 8;

type Thread = (Koid, Koid);

/// The destination of a track's events.
#[derive(Clone, Debug)]
struct Place {
    /// The thread, or the main thread of a process; `None` if the track belongs to neither.
    tid: Option<u32>,
    /// Whether it is the thread's own track. Slices of other tracks do not nest with the thread's slices.
    own: bool,
    /// Distinguishes counters with the same name.
    id: u64,
}

/// The category and name of an open slice; `None` if it is left out.
type Open = Option<(Box<str>, Box<str>)>;

/// The categories in which wprof repeats scheduling as slices: for threads, and for the parts of a request. A slice for each time on a CPU
/// is not a unit of work.
const OF_SCHEDULING: [&[u8]; 3] = [b"ONCPU", b"REQUEST_ONCPU", b"REQUEST_OFFCPU"];

/// The state of spans while items are played.
#[derive(Debug)]
pub(super) struct Spans {
    tracks: FxHashMap<u64, Track>,
    names: FxHashMap<u32, CommId>,
    code: Code,
    has_switches: bool,
    places: FxHashMap<u64, Place>,
    counters: FxHashSet<(Option<u32>, Box<str>)>,
    open: FxHashMap<(u64, u32), Vec<Open>>,
    /// The last value of counters that have differences.
    sums: FxHashMap<u64, i64>,
    flows: FxHashSet<u64>,
    inside: FxHashMap<u16, Vec<(bool, u32, Box<str>)>>,
    interrupts_named: bool,
    files: FxHashSet<(u64, u16)>,
    addresses: FxHashSet<(u64, u64)>,
}

impl Spans {
    pub(super) fn new(
        tracks: FxHashMap<u64, Track>,
        names: FxHashMap<u32, CommId>,
        code: Code,
        has_switches: bool,
    ) -> Spans {
        Spans {
            tracks,
            names,
            code,
            has_switches,
            places: FxHashMap::default(),
            counters: FxHashSet::default(),
            open: FxHashMap::default(),
            sums: FxHashMap::default(),
            flows: FxHashSet::default(),
            inside: FxHashMap::default(),
            interrupts_named: false,
            files: FxHashSet::default(),
            addresses: FxHashSet::default(),
        }
    }

    /// The thread with this number, or the pseudo-thread for events of no thread.
    fn thread<W: Write>(
        &self,
        at: Nanos,
        tid: Option<u32>,
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<Thread, ConvertError> {
        let Some(tid) = tid else { return Ok((Koid(0), Koid(0))) };
        let comm: Option<Comm> = self.names.get(&tid).map(|number| comms.get(*number));
        importer.thread(at, Tid(tid), comm.as_ref())
    }

    fn place(&mut self, number: u64, thread: (u32, u32)) -> Place {
        if number == 0 {
            // The thread's own track.
            let tid = Some(thread.1).filter(|tid| *tid != 0);
            return Place { tid, own: tid.is_some(), id: 0 };
        }
        if let Some(place) = self.places.get(&number) {
            return place.clone();
        }
        let (mut at, mut place) = (number, Place { tid: None, own: false, id: number });
        for _ in 0..MOST_PARENTS {
            let Some(track) = self.tracks.get(&at) else { break };
            if let Some((_, tid)) = track.thread {
                // A thread's counters, and tracks below its own, are not its own track.
                place.own = at == number && !track.is_counter;
                place.tid = Some(tid);
                break;
            }
            if let Some(pid) = track.process {
                place.tid = Some(pid);
                break;
            }
            at = track.parent;
        }
        if let Some(track) = self.tracks.get(&number).filter(|track| track.is_counter) {
            let first = self.counters.insert((place.tid, track.name.clone()));
            place.id = if first { 0 } else { number };
        }
        self.places.insert(number, place.clone());
        place
    }

    /// Takes an event of a track.
    pub(super) fn event<W: Write>(
        &mut self,
        at: Nanos,
        (kind, track, thread): (u8, u64, (u32, u32)),
        content: &[u8],
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let Some(content) = Content::take(content) else { return Ok(()) };
        if kind >= act::ASYNC_BEGIN {
            let place =
                Place { tid: Some(thread.1).filter(|tid| *tid != 0), own: false, id: track };
            let kind = kind - act::ASYNC_BEGIN + act::BEGIN;
            return self.slice(at, kind, (track, place), content, comms, importer);
        }
        let place = self.place(track, thread);
        if kind == act::COUNTER {
            return self.counter(at, (track, place), content, comms, importer);
        }
        let key = if track == 0 { u64::from(thread.1) } else { track };
        self.slice(at, kind, (key, place), content, comms, importer)
    }

    fn counter<W: Write>(
        &mut self,
        at: Nanos,
        (number, place): (u64, Place),
        content: Content<'_>,
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let track = self.tracks.get(&number);
        let value = match content.count {
            Count::None => return Ok(()),
            Count::Double(value) => Value::Double(value),
            Count::Int(value) => {
                let factor = track.map_or(1, |track| track.factor);
                let mut value = value.wrapping_mul(factor);
                if track.is_some_and(|track| track.incremental) {
                    let sum = self.sums.entry(number).or_default();
                    *sum = sum.wrapping_add(value);
                    value = *sum;
                }
                Value::int(value)
            }
        };
        let name: Box<str> = match track.map(|track| &*track.name) {
            Some("") | None => or_unnamed(content.name).into(),
            Some(name) => name.into(),
        };
        let category = clean(content.category).into_owned();
        let thread = self.thread(at, place.tid, comms, importer)?;
        importer.of_programs(at, |at, writer| {
            let args = [("value", value)];
            writer.event(
                EventKind::Counter { id: place.id },
                at,
                thread,
                &category,
                &text::clean(name.as_bytes()),
                &args,
            )
        })
    }

    fn slice<W: Write>(
        &mut self,
        at: Nanos,
        kind: u8,
        (key, place): (u64, Place),
        content: Content<'_>,
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let id = place.id;
        let (mut category, mut name): (Box<str>, Box<str>) =
            (clean(content.category).into(), or_unnamed(content.name).into());
        if content.name.is_empty()
            && let Some(track) = self.tracks.get(&key).filter(|track| !track.name.is_empty())
        {
            name = text::clean(track.name.as_bytes()).into();
        }
        let open_key = (key, if key == id { 0 } else { place.tid.unwrap_or(0) });
        let event = match (kind, place.own) {
            (act::BEGIN, own) => {
                let open = self.open.entry(open_key).or_default();
                if open.len() >= MOST_OPEN {
                    importer.report.count("slices within more than 512 others, left out");
                    return Ok(());
                }
                if self.has_switches && OF_SCHEDULING.contains(&content.category) {
                    open.push(None);
                    importer.report.count("slices that repeat scheduling, left out");
                    return Ok(());
                }
                open.push(Some((category.clone(), name.clone())));
                if own { EventKind::DurationBegin } else { EventKind::AsyncBegin { id } }
            }
            (act::END, own) => {
                let Some(begun) = self.open.get_mut(&open_key).and_then(Vec::pop) else {
                    importer.report.count("ends of slices whose beginning is missing, left out");
                    return Ok(());
                };
                let Some(begun) = begun else { return Ok(()) };
                (category, name) = begun;
                if own { EventKind::DurationEnd } else { EventKind::AsyncEnd { id } }
            }
            (act::COMPLETE, _) => {
                let length = match content.count {
                    Count::Int(length) => length.max(0).cast_unsigned(),
                    _ => 0,
                };
                EventKind::DurationComplete { end: Ticks(at.0.saturating_add(length)) }
            }
            (_, true) => EventKind::Instant,
            (_, false) if place.tid.is_none() => EventKind::Instant,
            (_, false) => EventKind::AsyncInstant { id },
        };
        let thread = self.thread(at, place.tid, comms, importer)?;
        let flows = self.flows_of(&content, place.own, importer);
        importer.report.read += 1;
        importer.of_programs(at, |at, writer| {
            let event = match event {
                // Its beginning may have been moved later.
                EventKind::DurationComplete { end } => {
                    EventKind::DurationComplete { end: end.max(at) }
                }
                other => other,
            };
            let mut bytes = content.args;
            let mut named: Vec<(Cow<'_, str>, Argument<'_>)> = Vec::new();
            while let Some((name, value)) = Argument::take(&mut bytes) {
                named.push((clean(name), value));
            }
            let texts: Vec<Cow<'_, str>> = named
                .iter()
                .map(|(_, value)| match value {
                    Argument::Text(text) => clean(text),
                    _ => Cow::Borrowed(""),
                })
                .collect();
            let args: Vec<(&str, Value<'_>)> = named
                .iter()
                .zip(&texts)
                .map(|((name, value), text)| {
                    let value = match *value {
                        Argument::Bool(value) => Value::Bool(value),
                        Argument::Uint(value) => Value::uint(value),
                        Argument::Int(value) => Value::int(value),
                        Argument::Double(value) => Value::Double(value),
                        Argument::Pointer(value) => Value::Pointer(value),
                        Argument::Text(_) => Value::Str(Text::Inline(text)),
                    };
                    (&**name, value)
                })
                .collect();
            writer.event(event, at, thread, &category, &name, &args)?;
            for kind in &flows {
                writer.event(*kind, at, thread, &category, FLOW, &[])?;
            }
            Ok(())
        })
    }

    /// Takes the flows of an event.
    fn flows_of<W: Write>(
        &mut self,
        content: &Content<'_>,
        own: bool,
        importer: &mut Importer<W>,
    ) -> Vec<EventKind> {
        let (flows, _) = content.flows.as_chunks::<9>();
        if !own {
            let what = "flows of tracks without a thread, left out";
            importer.report.add(what, flows.len() as u64);
            return Vec::new();
        }
        let mut found = Vec::new();
        for [id @ .., ends] in flows {
            let id = u64::from_ne_bytes(*id);
            let kind = match (self.flows.contains(&id), ends) {
                (true, 0) => EventKind::FlowStep { id },
                (true, _) => {
                    self.flows.remove(&id);
                    EventKind::FlowEnd { id }
                }
                (false, _) if self.flows.len() >= MOST_FLOWS => {
                    importer.report.count("unfinished flows beyond a million, left out");
                    continue;
                }
                // An end without a begin has no arrow.
                (false, 1) => continue,
                (false, _) => {
                    self.flows.insert(id);
                    EventKind::FlowBegin { id }
                }
            };
            found.push(kind);
        }
        found
    }

    /// A string that a program wrote to tracefs: spans and counters in Android's format, or a message.
    pub(super) fn print<W: Write>(
        &mut self,
        at: Nanos,
        tid: u32,
        line: &[u8],
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let line = clean(line);
        let line = line.trim_end_matches(['\n', '\0']);
        let mut parts = line.splitn(3, '|');
        let (what, pid, rest) = (parts.next(), parts.next(), parts.next());
        let pid: Option<u32> = pid.and_then(|pid| pid.parse().ok());
        let rest = rest.unwrap_or_default();
        let empty = Content {
            category: b"atrace",
            name: rest.as_bytes(),
            count: Count::None,
            flows: &[],
            args: super::item::In(&[]),
        };
        let own = Place { tid: Some(tid), own: true, id: 0 };
        let mut of_process = |track: &str, name: &str, cookie: &str, kind: u8| {
            let id = hash((pid, track, cookie));
            let place = Place { tid: pid, own: false, id };
            let content = Content { name: name.as_bytes(), ..empty };
            self.slice(at, kind, (id, place), content, comms, importer)
        };
        match (what, rest.split('|').collect::<Vec<_>>().as_slice()) {
            (Some("B"), _) => self.slice(at, act::BEGIN, (tid.into(), own), empty, comms, importer),
            (Some("E"), _) if line == "E" || pid.is_some() => {
                self.slice(at, act::END, (tid.into(), own), empty, comms, importer)
            }
            (Some("I"), _) => {
                self.slice(at, act::INSTANT, (tid.into(), own), empty, comms, importer)
            }
            (Some("S"), [name, cookie, ..]) => of_process(name, name, cookie, act::BEGIN),
            (Some("F"), [name, cookie, ..]) => of_process(name, name, cookie, act::END),
            (Some("G"), [track, name, cookie, ..]) => of_process(track, name, cookie, act::BEGIN),
            (Some("H"), [track, cookie, ..]) => of_process(track, "", cookie, act::END),
            (Some("N"), [track, name, ..]) => of_process(track, name, "", act::INSTANT),
            (Some("C"), [name, value, ..]) if value.parse::<i64>().is_ok() => {
                let count = Count::Int(value.parse().unwrap_or(0));
                let content = Content { name: name.as_bytes(), count, ..empty };
                let place = Place { tid: pid, own: false, id: 0 };
                self.counter(at, (0, place), content, comms, importer)
            }
            _ => {
                let content = Content { category: b"ftrace", name: line.as_bytes(), ..empty };
                self.slice(at, act::INSTANT, (tid.into(), own), content, comms, importer)
            }
        }
    }

    pub(super) fn power<W: Write>(
        &mut self,
        at: Nanos,
        cpu: u32,
        (frequency, value): (bool, u32),
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let (name, arg) = if frequency { ("cpu_frequency", "khz") } else { ("cpu_idle", "state") };
        importer.of_programs(at, |at, writer| {
            let kind = EventKind::Counter { id: cpu.into() };
            writer.event(
                kind,
                at,
                (Koid(0), Koid(0)),
                "power",
                name,
                &[(arg, Value::Uint32(value))],
            )
        })
    }

    /// An interrupt with this name begins or ends.
    pub(super) fn interrupt<W: Write>(
        &mut self,
        at: Nanos,
        cpu: u16,
        (soft, number): (bool, u32),
        begins: Option<&[u8]>,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        const SOFT: [&str; 10] = [
            "hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer",
            "rcu",
        ];
        let thread = (interrupts::PROCESS, interrupts::thread_of(Cpu(cpu.into())));
        let is_new = !self.inside.contains_key(&cpu);
        let inside = self.inside.entry(cpu).or_default();
        let (kind, name) = match begins {
            Some(_) if inside.len() >= MOST_INTERRUPTS => return Ok(()),
            Some(reported) => {
                let name: Box<str> = match (soft, SOFT.get(number as usize)) {
                    (true, Some(name)) => (*name).into(),
                    _ if reported.is_empty() => format!("irq {number}").into(),
                    _ => clean(reported).into(),
                };
                inside.push((soft, number, name.clone()));
                (EventKind::DurationBegin, name)
            }
            None => match inside.pop_if(|open| (open.0, open.1) == (soft, number)) {
                Some((_, _, name)) => (EventKind::DurationEnd, name),
                // Its begin was not recorded.
                None => return Ok(()),
            },
        };
        let named = std::mem::replace(&mut self.interrupts_named, true);
        importer.report.read += 1;
        importer.of_programs(at, |at, writer| {
            if !named {
                writer.write(&KernelObject {
                    object_type: ObjectType::Process,
                    koid: thread.0,
                    name: Text::Inline("interrupts"),
                    args: &[],
                })?;
            }
            if is_new {
                writer.write(&KernelObject {
                    object_type: ObjectType::Thread,
                    koid: thread.1,
                    name: Text::Inline(&format!("CPU {cpu}")),
                    args: &[fxt_writer::Arg::new(Text::Inline("process"), Value::Koid(thread.0))],
                })?;
            }
            writer.event(kind, at, thread, "irq", &name, &[])
        })
    }

    /// Events of a CPU were lost: the ends of its interrupts may be among them.
    pub(super) fn lost<W: Write>(
        &mut self,
        at: Nanos,
        cpu: u16,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let Some(inside) = self.inside.get_mut(&cpu) else { return Ok(()) };
        let thread = (interrupts::PROCESS, interrupts::thread_of(Cpu(cpu.into())));
        for (_, _, name) in std::mem::take(inside).into_iter().rev() {
            importer.of_programs(at, |at, writer| {
                let args = [("inferred", Value::Bool(true))];
                writer.event(EventKind::DurationEnd, at, thread, "irq", &name, &args)
            })?;
        }
        Ok(())
    }

    /// A stack of a thread, taken at `time`.
    pub(super) fn stack<W: Write>(
        &mut self,
        (at, time): (Nanos, Nanos),
        tid: u32,
        stack: u32,
        (kind, error): (u8, bool),
        comms: &Comms,
        importer: &mut Importer<W>,
    ) -> Result<(), ConvertError> {
        let (process, thread) = self.thread(at, Some(tid), comms, importer)?;
        importer.report.read += 1;
        let Spans { code, files, addresses, .. } = self;
        importer.of_programs(at, |at, writer| {
            let frames = code.stack(stack);
            for &address in frames {
                let Some(place) = code.place(address) else { continue };
                let Some(file) = code.file(place.file) else { continue };
                let home = if file.is_kernel { Koid(0) } else { process };
                // Kernel functions have names only, as do functions in unknown files.
                let is_file = !file.is_kernel && !file.path.is_empty();
                if is_file && files.insert((home.0, place.file)) {
                    let process = ProcessName::Inline(home);
                    writer.write(&Module {
                        time: at,
                        process,
                        id: place.file,
                        name: &file.path,
                        build_id: &file.build_id,
                    })?;
                    writer.write(&Mapping {
                        time: at,
                        process,
                        module: place.file,
                        // Readable and executable.
                        flags: 5,
                        start: file.start(place.file),
                        length: File::BYTES,
                        module_address: 0,
                    })?;
                }
                if !place.function.is_empty() && addresses.insert((home.0, address)) {
                    let name = text::clean(place.function.as_bytes());
                    let module = writer.text(NAME_MODULE)?;
                    let module = fxt_writer::Arg::new(module, Value::uint(place.file.into()));
                    writer.write(&UserspaceObject {
                        pointer: address,
                        process: ThreadName::Inline { process: home, thread: home },
                        name: Text::Inline(&name),
                        args: if is_file { std::slice::from_ref(&module) } else { &[] },
                    })?;
                }
            }
            let problems = if error { problem::USER_CUT } else { 0 };
            let thread = writer.thread((process, thread))?;
            writer.write(&Backtrace {
                time: Ticks(time.0),
                thread,
                flags: u32::from(kind & 3) << 8 | problems,
                frames,
            })
        })
    }
}

/// The name of flow events, which do not have one in the input.
const FLOW: &str = "flow";

fn clean(bytes: &[u8]) -> Cow<'_, str> {
    text::clean(bytes)
}

fn or_unnamed(name: &[u8]) -> Cow<'_, str> {
    match clean(name) {
        name if name.is_empty() => "unnamed".into(),
        name => name,
    }
}

fn hash(what: impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish() | 1
}
