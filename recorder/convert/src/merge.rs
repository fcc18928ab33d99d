//! Several recordings as one archive.
//!
//! Each provider of each recording becomes a provider of the archive, with separate tables. Records are in the order of their times:
//!
//! ```text
//! a.fxt  provider 1 --+                       section 1 | a a | section 2 | b | section 1 | a ...
//! b.fxt  provider 1 --+--> earliest first --> the other one's times are shifted by the distance
//!        provider 2 --+                       of the two clocks, its koids and CPUs renumbered
//! ```
//!
//! A first pass over each file finds the koids, CPUs and the clock that it uses, so the files
//! are read twice.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fxt_format::limits::WORD_BYTES;
use fxt_reader::record::{Arg, Event, EventKind, Value};
use fxt_reader::{Error, Koid, Nanos, ProviderId, Reader, Record};
use fxt_writer::record::{
    Initialization, Magic, ProviderEvent, ProviderInfo, ProviderSection, Record as _,
};
use fxt_writer::{WriteError, Writer};
use fxtrec_kernel::progress::Progress;
use fxtrec_units::convention::{FIRST_CPU, HOST_CPUS};
use fxtrec_units::escape;
use fxtrec_units::text::{noun, short};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::copy::{Translate, copy};
use super::error::ConvertError;
use super::redact::{self, Redacting, Redactor};
use super::report::Report;
use super::shared::Shared;
use super::sync::{self, End, Ends, Messages, Set};
use super::tef::ids_are_local;
use super::traces;

/// The argument of `trace_info` that leads from a trace's clock to the wall clock.
const WALL_CLOCK: &str = "wall_clock_offset_ns";
/// Bytes that wait before they are written.
const PIECE_BYTES: usize = 64 * 1024;
/// Koids that two recordings use, for which no other koid with the same id is left, begin here: within the 32 bits that Perfetto keeps.
const FIRST_NEW_KOID: u64 = 1 << 30;
/// The bits of a koid that are Linux's id, in traces of fxtrec.
const ID_BITS: u32 = 22;

#[derive(Clone, Debug)]
pub struct Source {
    pub path: PathBuf,
    /// How far the wall clock of its machine was ahead of the wall clock of the first recording's machine, in nanoseconds. On one machine,
    /// or if a recording does not know the wall clock, how far its own clock was ahead.
    pub offset: Option<i64>,
}

/// How to combine recordings.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Equal koids and CPUs in all recordings are the same threads and CPUs; otherwise the koids and CPUs of each file stay separate.
    pub same_machine: bool,
    /// Their clocks are aligned by these messages, if no offset is given.
    pub sync: Option<Messages>,
    /// A line on standard error shows the progress of reading, if that is a terminal.
    pub show_progress: bool,
}

#[derive(Debug, Default)]
struct Facts {
    koids: BTreeSet<u64>,
    /// The modules of each process, by their numbers.
    modules: BTreeSet<(u64, u16)>,
    cpus: u16,
    /// The operations and flows that begin in it, by their keys.
    begun: FxHashSet<u64>,
    first_time: Option<u64>,
    /// The ends of messages that may go to other recordings.
    ends: Ends,
    host: Option<String>,
    /// Whether it is a merged trace, which says which CPUs belong to which host.
    is_merged: bool,
    wall_clock: Option<i128>,
    /// By how much the wall clock may have been wrong.
    wall_clock_error: Option<u64>,
}

/// How a recording's koids, times and CPUs are translated.
#[derive(Debug, Default)]
struct Translation {
    koids: FxHashMap<u64, u64>,
    /// The numbers of modules that differ in the archive, by process and number in the recording.
    modules: FxHashMap<(u64, u16), u16>,
    shift: i128,
    cpus: u16,
    /// The machine, where there may be several.
    host: Option<String>,
    /// Whether the recording is a merged trace that says which CPUs belong to which host.
    is_merged: bool,
    /// Operations and flows that get other ids, by their keys.
    renamed: FxHashSet<u64>,
    /// Distinguishes the ids of this recording from those of other recordings; empty if all are from one machine.
    salt: Option<u64>,
}

impl Translate for Translation {
    fn koid(&self, koid: Koid) -> Koid {
        Koid(self.koids.get(&koid.0).copied().unwrap_or(koid.0))
    }

    fn time(&self, time: Nanos) -> Nanos {
        let shifted = i128::from(time.0) + self.shift;
        Nanos(u64::try_from(shifted.max(0)).unwrap_or(u64::MAX))
    }

    fn cpu(&self, cpu: u16) -> u16 {
        cpu.saturating_add(self.cpus)
    }

    fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    fn first_cpu(&self) -> Option<u16> {
        self.host.as_ref().filter(|_| !self.is_merged).map(|_| self.cpus)
    }

    fn module(&self, process: Koid, id: u16) -> u16 {
        self.modules.get(&(process.0, id)).copied().unwrap_or(id)
    }

    /// An operation or flow that begins in several recordings is a different one in each of them.
    fn correlation(&self, event: &Event<'_>, id: u64) -> u64 {
        let Some(salt) = self.salt else { return id };
        let is_other = || operation(event).is_some_and(|(key, _)| self.renamed.contains(&key));
        if ids_are_local(event) || is_other() { hash((salt, id)) } else { id }
    }

    /// CPUs have different numbers, and because of the shifted times, the distance to the wall clock is different.
    fn argument(&self, event: &Event<'_>, arg: &Arg<'_>) -> Option<fxt_writer::Value<'static>> {
        let is_cpu = match (event.category, event.name) {
            (
                "fxtrec",
                "lost" | "lost_others" | "lost_lives" | "cpu_offline" | "cpu_online" | "host_steal",
            )
            | ("sched", "waking" | "throttled") => arg.name == "cpu",
            ("sched", "migrate") => matches!(arg.name, "orig_cpu" | "dest_cpu"),
            ("fxtrec", HOST_CPUS) => arg.name == FIRST_CPU,
            _ => false,
        };
        if is_cpu {
            let cpu = u16::try_from(integer(arg.value)?).ok()?;
            return Some(fxt_writer::Value::Uint32(self.cpu(cpu).into()));
        }
        let has_way =
            event.category == "fxtrec" && matches!(event.name, "trace_info" | "clock_change");
        if !has_way || arg.name != WALL_CLOCK {
            return None;
        }
        let offset = integer(arg.value)? - self.shift;
        i64::try_from(offset).ok().map(fxt_writer::Value::int)
    }
}

/// Maximum number of operations of a recording that are distinguished from those of the others.
const MOST_OPERATIONS: usize = 1 << 20;

fn hash(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The key of the asynchronous operation or flow that the event is of, and whether it begins.
fn operation(event: &Event<'_>) -> Option<(u64, bool)> {
    let (is_flow, id, begins) = match event.kind {
        EventKind::AsyncBegin { id } => (false, id, true),
        EventKind::AsyncInstant { id } | EventKind::AsyncEnd { id } => (false, id, false),
        EventKind::FlowBegin { id } => (true, id, true),
        EventKind::FlowStep { id } | EventKind::FlowEnd { id } => (true, id, false),
        _ => return None,
    };
    Some((hash((is_flow, event.category, id)), begins))
}

/// Merges `sources` into `out`. The report describes how the clocks were aligned.
///
/// # Errors
///
/// Returns an error when a file cannot be read, its clock is unknown, or the output cannot be written.
pub fn merge(sources: &[Source], how: &How, out: &mut dyn Write) -> Result<Report, ConvertError> {
    merge_as(sources, how, None, out)
}

/// [`merge`], with other strings if there is a redactor.
pub(crate) fn merge_as(
    sources: &[Source],
    how: &How,
    redactor: Option<&Redactor>,
    out: &mut dyn Write,
) -> Result<Report, ConvertError> {
    let mut facts = Vec::with_capacity(sources.len());
    let files = || sources.iter().map(|source| &*source.path);
    // All files are read twice.
    let first = progress(how.show_progress, files());
    for source in sources {
        facts.push(Facts::gather(&source.path, how.sync.as_ref(), &first)?);
    }
    first.finish();
    let second = progress(how.show_progress, files());
    let mut report = Report::default();
    let paths: Vec<&Path> = files().collect();
    let ends: Vec<&Ends> = facts.iter().map(|facts| &facts.ends).collect();
    let set = match how.sync {
        Some(_) => sync::offsets(&paths, &ends)?,
        None => vec![None; sources.len()],
    };
    let translations = plan(sources, &facts, &set, how.same_machine)?;
    for at in 1..sources.len() {
        // Relative to the first recording's clock, which may have been shifted too.
        let ahead = translations[0].shift - translations[at].shift;
        report.note(alignment(sources, &facts, at, (ahead, set[at])));
        if let Some(warning) = set[at].and_then(|set| disagreement(&facts, at, set)) {
            report.note(format!("{}: {warning}", sources[at].path.display()));
        }
    }
    refuse_reversed(&paths, &ends, &translations, &set)?;
    if let Some(messages) = &how.sync {
        slowest(messages, &ends, &facts, &translations, &mut report);
    }
    let mut lanes = Vec::with_capacity(sources.len());
    for (source, translation) in sources.iter().zip(translations) {
        lanes.push(Lane::open(&source.path, &second, translation, redactor)?);
    }
    let mut archive = Archive::begin(out);
    for lane in &mut lanes {
        lane.advance(&mut archive.providers, &mut report)?;
    }
    // There are few lanes: checking all of them is as fast as a heap.
    while let Some(next) = lanes.iter_mut().filter(|lane| !lane.ended).min_by_key(|lane| lane.time)
    {
        archive.take(next)?;
        next.advance(&mut archive.providers, &mut report)?;
    }
    archive.end()?;
    Ok(report)
}

/// The progress line for reading all these files, if there is one.
fn progress<'a>(wanted: bool, files: impl Iterator<Item = &'a Path>) -> Progress {
    if !wanted {
        return Progress::hidden();
    }
    let lengths =
        files.map(|path| path.metadata().ok().filter(Metadata::is_file).map(|it| it.len()));
    Progress::shown(lengths.sum())
}

fn open(path: &Path, progress: &Progress) -> Result<Reader<'static>, Error> {
    let file =
        traces::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
    Ok(Reader::from_file(file, |file| progress.of(file)))
}

/// How the clock of a recording is aligned with the clock of the first one, and how precisely.
fn alignment(
    sources: &[Source],
    facts: &[Facts],
    at: usize,
    (ahead, set): (i128, Option<Set>),
) -> String {
    let name = |at: usize| sources[at].path.display().to_string();
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    let nanos = format!("{}: clock {} {side} {}'s", name(at), seconds(ahead.abs()), name(0));
    if sources[at].offset.is_some() {
        return format!("{nanos}, as given");
    }
    if let Some(Set { by, offset }) = set {
        let (forth, back) = offset.messages;
        let error = seconds(offset.error.into());
        let by = name(by);
        return format!(
            "{nanos}, wrong by at most {error}: {forth} {} from {by} and {back} back",
            noun(forth as u64, "message", "messages")
        );
    }
    match (facts[at].wall_clock_error, facts[0].wall_clock_error) {
        (Some(own), Some(first)) => {
            let error = seconds(i128::from(own) + i128::from(first));
            format!(
                "{nanos} by the wall clocks, wrong by at most {error} according to their kernels"
            )
        }
        _ => format!(
            "{nanos} by the wall clocks; their error is unknown, because a recording has no state of NTP or PTP"
        ),
    }
}

fn seconds(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// The error of the wall clocks, if messages give a different offset.
fn disagreement(facts: &[Facts], at: usize, set: Set) -> Option<String> {
    let (own, first) = (&facts[at], &facts[0]);
    let by_wall = first.wall_clock? - own.wall_clock?;
    let apart = (by_wall - i128::from(set.offset.nanos)).abs();
    let errors = own.wall_clock_error.zip(first.wall_clock_error);
    let known = errors.map_or(0, |(own, first)| i128::from(own) + i128::from(first));
    if apart <= known + i128::from(set.offset.error) {
        return None;
    }
    let said = match errors {
        Some(_) => format!("although their kernels say at most {}", seconds(known)),
        None => "error unknown: at least one recording has no clock error".to_owned(),
    };
    let (apart, ahead) = (seconds(apart), (i128::from(set.offset.nanos) - by_wall) as f64 / 1e9);
    Some(format!(
        "warning: the wall clocks differ from that by {apart}, {said}; without --sync, --offset={ahead}s corrects them"
    ))
}

/// Reports the slowest request, and how `why` explains it on both machines.
fn slowest(
    messages: &Messages,
    ends: &[&Ends],
    facts: &[Facts],
    plans: &[Translation],
    report: &mut Report,
) {
    let requests = sync::requests(ends);
    let Some(first) = requests.first() else { return };
    let median = requests[requests.len() / 2].length();
    let nanos = |length| short(Duration::from_nanos(length));
    report.note(format!(
        "slowest of {} {}: {} took {}, the median {}",
        requests.len(),
        noun(requests.len() as u64, "request", "requests"),
        messages.name(&first.key),
        nanos(first.length()),
        nanos(median)
    ));
    let mut explain = |at: usize, (from, to): (End, End)| {
        let (plan, facts) = (&plans[at], &facts[at]);
        let koid = plan.koid(Koid(from.thread)).0;
        let id = if facts.host.is_some() { koid & ((1 << ID_BITS) - 1) } else { koid };
        let host = plan.host.as_ref().map(|host| format!("@{host}")).unwrap_or_default();
        let [from, to] = [from, to].map(|end| plan.time(Nanos(end.time)));
        let times = format!("--from {} --to {}", decimal(from.0), decimal(to.0));
        report.note(format!("  fxtrec why FILE --thread {id}{} {times}", escape::line(&host)));
    };
    explain(first.client, (first.sent, first.answered));
    if let Some(replied) = first.replied {
        explain(first.server, (first.received, replied));
    }
}

/// Seconds, as options take them.
fn decimal(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Rejects an alignment that puts a message before its sending by more than the stated error of the clocks.
fn refuse_reversed(
    paths: &[&Path],
    ends: &[&Ends],
    plans: &[Translation],
    set: &[Option<Set>],
) -> Result<(), ConvertError> {
    let error = |at: usize| set[at].map_or(0, |set| i128::from(set.offset.error));
    for sender in 0..paths.len() {
        for receiver in (0..paths.len()).filter(|receiver| *receiver != sender) {
            let Some(least) = ends[sender].least_to(ends[receiver]) else { continue };
            let early = plans[sender].shift - plans[receiver].shift - least;
            if early > error(sender) + error(receiver) {
                return Err(ConvertError::Reversed {
                    sender: paths[sender].to_owned(),
                    receiver: paths[receiver].to_owned(),
                    early: seconds(early),
                });
            }
        }
    }
    Ok(())
}

impl Facts {
    fn gather(
        path: &Path,
        messages: Option<&Messages>,
        progress: &Progress,
    ) -> Result<Self, ConvertError> {
        let messages = messages.unwrap_or(&Messages::Flows);
        let mut facts = Self { ends: Ends::of(messages), ..Self::default() };
        let mut reader = open(path, progress)?;
        loop {
            match reader.next() {
                Ok(Some(item)) => facts.note(&item.record, messages),
                Ok(None) => return Ok(facts),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&mut self, record: &Record<'_>, messages: &Messages) {
        if let Some(time) = record.time() {
            self.first_time = Some(self.first_time.map_or(time.0, |first| first.min(time.0)));
        }
        for arg in record.args().iter().flat_map(fxt_reader::record::Args::iter) {
            if let Value::Koid(koid) = arg.value {
                self.koids.insert(koid.0);
            }
        }
        let mut use_thread = |thread: fxt_reader::Thread| {
            self.koids.extend([thread.process.0, thread.thread.0]);
        };
        match record {
            Record::Event(event) => {
                use_thread(event.thread);
                self.ends.note(event, messages);
                if let Some((key, true)) = operation(event)
                    && self.begun.len() < MOST_OPERATIONS
                {
                    self.begun.insert(key);
                }
                if event.category == "fxtrec" && event.name == "trace_info" {
                    self.wall_clock = event.args.get(WALL_CLOCK).and_then(integer);
                    self.host = event.args.str("host").map(str::to_owned);
                }
                self.is_merged |= event.category == "fxtrec" && event.name == HOST_CPUS;
                if event.category == "fxtrec" && event.name == "clock_info" {
                    let error = event.args.get("wall_clock_error_ns").and_then(integer);
                    self.wall_clock_error = error.and_then(|error| u64::try_from(error).ok());
                }
            }
            Record::Log(log) => use_thread(log.thread),
            Record::Backtrace(backtrace) => use_thread(backtrace.thread),
            Record::Module(module) => {
                self.koids.insert(module.process.0);
                self.modules.insert((module.process.0, module.id));
            }
            Record::Mapping(mapping) => {
                self.koids.insert(mapping.process.0);
                self.modules.insert((mapping.process.0, mapping.module));
            }
            Record::KernelObject(object) => drop(self.koids.insert(object.koid.0)),
            Record::UserspaceObject(object) => drop(self.koids.insert(object.process.0)),
            Record::ContextSwitch(switch) => {
                self.koids.extend([switch.outgoing.0, switch.incoming.0]);
                self.cpus = self.cpus.max(switch.cpu.0.saturating_add(1));
            }
            Record::LegacyContextSwitch(switch) => {
                use_thread(switch.outgoing);
                use_thread(switch.incoming);
                self.cpus = self.cpus.max(switch.cpu.0.saturating_add(1));
            }
            Record::Wakeup(wakeup) => {
                self.koids.insert(wakeup.koid.0);
                self.cpus = self.cpus.max(wakeup.cpu.0.saturating_add(1));
            }
            Record::LargeBlob(blob) => {
                if let Some(about) = blob.metadata {
                    use_thread(about.thread);
                }
            }
            _ => {}
        }
    }
}

/// Decides how each recording is translated.
fn plan(
    sources: &[Source],
    facts: &[Facts],
    set: &[Option<Set>],
    same_machine: bool,
) -> Result<Vec<Translation>, ConvertError> {
    let mut plans: Vec<Translation> = Vec::with_capacity(sources.len());
    let mut used: FxHashSet<u64> = FxHashSet::default();
    let mut begun: FxHashSet<u64> = FxHashSet::default();
    let (mut next_koid, mut next_cpu) = (FIRST_NEW_KOID, 0);
    let first_wall_clock = facts.first().and_then(|facts| facts.wall_clock);
    for (at, (source, facts)) in sources.iter().zip(facts).enumerate() {
        let set = set[at].map(|set| i128::from(set.offset.nanos));
        let given = source.offset.map(i128::from);
        let shift = match (given.or(set), facts.wall_clock, first_wall_clock) {
            _ if at == 0 => 0,
            // Returns the error of the wall clock between two machines, if there is one.
            (Some(offset), Some(own), Some(first)) if set.is_none() && !same_machine => {
                own - first - offset
            }
            (Some(offset), _, _) => -offset,
            (None, Some(own), Some(first)) => own - first,
            (None, own, _) => {
                let nameless = if own.is_none() { at } else { 0 };
                let path = sources.get(nameless).map_or(PathBuf::new(), |other| other.path.clone());
                return Err(ConvertError::NoClock { path });
            }
        };
        let mut plan = Translation { shift, ..Translation::default() };
        if !same_machine {
            plan.cpus = next_cpu;
            next_cpu = next_cpu.saturating_add(facts.cpus);
            let mut given_out = FxHashSet::default();
            // Koid 0 is no thread, or the idle task, in every file.
            for &koid in facts.koids.iter().filter(|koid| **koid != 0 && used.contains(koid)) {
                let is_free = |new: &u64| !used.contains(new) && !facts.koids.contains(new);
                let new = match same_id(koid).find(|new| is_free(new) && !given_out.contains(new)) {
                    Some(new) => new,
                    None => {
                        next_koid = (next_koid..).find(is_free).unwrap_or(next_koid) + 1;
                        next_koid - 1
                    }
                };
                given_out.insert(new);
                plan.koids.insert(koid, new);
            }
            used.extend(facts.koids.iter().map(|koid| plan.koids.get(koid).unwrap_or(koid)));
            plan.is_merged = facts.is_merged;
            plan.host = facts.host.clone().filter(|_| sources.len() > 1);
            if at > 0 {
                plan.salt = Some(at as u64);
                plan.renamed.extend(facts.begun.intersection(&begun));
            }
            begun.extend(&facts.begun);
        }
        plans.push(plan);
    }
    number_modules(facts, &mut plans)?;
    // No time may be negative.
    let earliest = plans
        .iter()
        .zip(facts)
        .filter_map(|(plan, facts)| Some(i128::from(facts.first_time?) + plan.shift));
    let below = earliest.min().unwrap_or(0).min(0);
    for plan in &mut plans {
        plan.shift -= below;
    }
    Ok(plans)
}

/// Koids that show the Linux id of the thread with this koid, as if the id had belonged to other threads before.
fn same_id(koid: u64) -> impl Iterator<Item = u64> {
    let is_thread = koid < FIRST_NEW_KOID;
    let owners = if is_thread { FIRST_NEW_KOID >> ID_BITS } else { 0 };
    (1..owners).map(move |owner| (koid & ((1 << ID_BITS) - 1)) | (owner << ID_BITS))
}

/// Gives the modules of a process numbers that no other recording uses for a process of the same koid.
fn number_modules(facts: &[Facts], plans: &mut [Translation]) -> Result<(), ConvertError> {
    let mut used: FxHashSet<(u64, u16)> = FxHashSet::default();
    for (facts, plan) in facts.iter().zip(plans) {
        let process_of = |process: u64| plan.koids.get(&process).copied().unwrap_or(process);
        let mut taken = FxHashSet::default();
        let mut next: FxHashMap<u64, u16> = FxHashMap::default();
        for &(process, id) in &facts.modules {
            let known_as = process_of(process);
            let mut new = id;
            if used.contains(&(known_as, id)) {
                let from = next.get(&known_as).copied().unwrap_or(0);
                let is_free = |id: &u16| {
                    let own = facts.modules.contains(&(process, *id));
                    !own && !used.contains(&(known_as, *id)) && !taken.contains(&(known_as, *id))
                };
                new = (from..=u16::MAX).find(is_free).ok_or(ConvertError::TooManyModules)?;
                next.insert(known_as, new.saturating_add(1));
                plan.modules.insert((process, id), new);
            }
            taken.insert((known_as, new));
        }
        used.extend(taken);
    }
    Ok(())
}

fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::Int32(value) => Some(value.into()),
        Value::UInt32(value) => Some(value.into()),
        Value::Int64(value) => Some(value.into()),
        Value::UInt64(value) => Some(value.into()),
        _ => None,
    }
}

/// One recording; its reader is one record ahead of the archive.
struct Lane<'r> {
    redactor: Option<&'r Redactor>,
    reader: Reader<'static>,
    translation: Translation,
    writers: FxHashMap<ProviderId, (u32, Writer<Shared>)>,
    /// The providers' names in the recording.
    names: FxHashMap<ProviderId, String>,
    shared: Shared,
    /// The provider whose section the piece begins with, in one word; none if the piece introduces a provider.
    lead: Option<u32>,
    /// The number in the archive of the provider that is current at the end of the piece.
    provider: u32,
    time: u64,
    piece: Vec<u8>,
    ended: bool,
}

impl<'r> Lane<'r> {
    fn open(
        path: &Path,
        progress: &Progress,
        translation: Translation,
        redactor: Option<&'r Redactor>,
    ) -> Result<Self, ConvertError> {
        Ok(Self {
            redactor,
            reader: open(path, progress)?,
            translation,
            writers: FxHashMap::default(),
            names: FxHashMap::default(),
            shared: Shared::default(),
            lead: None,
            provider: 0,
            time: 0,
            piece: Vec::new(),
            ended: false,
        })
    }

    /// Continues with the next record that is copied.
    fn advance(&mut self, providers: &mut u32, report: &mut Report) -> Result<(), ConvertError> {
        let mut fresh = true;
        loop {
            let item = match self.reader.next() {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.ended = true;
                    return Ok(());
                }
                Err(Error::Damaged(_)) => {
                    report.count("damaged records, skipped");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            report.read += 1;
            let id = item.provider.unwrap_or_default();
            if let Record::ProviderInfo(info) = &item.record {
                self.names.insert(info.id, info.name.to_owned());
                continue;
            }
            if matches!(
                item.record,
                Record::MagicNumber
                    | Record::ProviderSection(_)
                    | Record::Initialization(_)
                    | Record::String(_)
                    | Record::Thread(_)
            ) {
                continue;
            }
            if self.redactor.is_some()
                && matches!(item.record, Record::Blob(_) | Record::LargeBlob(_))
            {
                // They may hold names.
                report.count("blobs, left out");
                continue;
            }
            if let Some(time) = item.record.time() {
                self.time = self.translation.time(time).0;
            }
            let (number, writer) = match self.writers.entry(id) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    *providers += 1;
                    let name = self.names.get(&id).map_or("unnamed", String::as_str);
                    let name = redact::provider_name(name, self.redactor);
                    introduce(*providers, &name, &mut self.shared)?;
                    if std::mem::take(&mut fresh) {
                        self.lead = None;
                    }
                    place.insert((*providers, Writer::new(self.shared.clone()).with_long_strings()))
                }
            };
            self.provider = *number;
            if std::mem::take(&mut fresh) {
                self.lead = Some(*number);
            }
            begin_section(*number, &mut self.shared)?;
            let copied = match &item.record {
                Record::ProviderEvent(_) => {
                    let id = fxt_writer::ProviderId(*number);
                    let event = ProviderEvent::buffer_filled_up(id);
                    event.write(&mut self.shared).map(|()| true)
                }
                record => {
                    let of_fxtrec = self.names.get(&id).is_some_and(|name| redact::is_fxtrec(name));
                    let (inner, redactor) = (&self.translation, self.redactor);
                    copy(record, writer, &Redacting { inner, redactor, of_fxtrec })
                }
            };
            match copied {
                Ok(true) => {
                    self.piece = self.shared.take();
                    return Ok(());
                }
                Ok(false) => report.count("records that FXT does not define, left out"),
                Err(WriteError::Encode(error)) => return Err(error.into()),
                Err(WriteError::Full(never)) => match never {},
            }
        }
    }
}

/// Introduces a provider; its records begin with its section.
fn introduce(number: u32, name: &str, shared: &mut Shared) -> Result<(), ConvertError> {
    let id = fxt_writer::ProviderId(number);
    put(&ProviderInfo { id, name }, shared)?;
    put(&Initialization { ticks_per_second: 1_000_000_000 }, shared)
}

fn begin_section(number: u32, shared: &mut Shared) -> Result<(), ConvertError> {
    put(&ProviderSection { id: fxt_writer::ProviderId(number) }, shared)
}

/// Writes a record to memory, which always has space.
fn put(record: &impl fxt_writer::record::Record, shared: &mut Shared) -> Result<(), ConvertError> {
    match record.write(shared) {
        Ok(()) => Ok(()),
        Err(WriteError::Encode(error)) => Err(error.into()),
        Err(WriteError::Full(never)) => match never {},
    }
}

/// The archive that is being written.
struct Archive<'o> {
    out: &'o mut dyn Write,
    pending: Vec<u8>,
    current: u32,
    providers: u32,
}

impl<'o> Archive<'o> {
    fn begin(out: &'o mut dyn Write) -> Self {
        let mut pending = Vec::new();
        // Writing one word to memory cannot fail.
        let _ = Magic.write(&mut pending);
        Self { out, pending, current: 0, providers: 0 }
    }

    /// Takes the next piece of a lane.
    fn take(&mut self, lane: &mut Lane<'_>) -> Result<(), ConvertError> {
        let needless = usize::from(lane.lead == Some(self.current)) * WORD_BYTES;
        self.pending.extend_from_slice(lane.piece.get(needless..).unwrap_or_default());
        self.current = lane.provider;
        if self.pending.len() >= PIECE_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<(), ConvertError> {
        self.out.write_all(&self.pending).map_err(ConvertError::Write)?;
        self.pending.clear();
        Ok(())
    }

    fn end(mut self) -> Result<(), ConvertError> {
        self.write_pending()
    }
}
