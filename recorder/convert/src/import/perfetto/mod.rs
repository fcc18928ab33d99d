//! Perfetto traces: from tracebox, Android, and all other writers of its packets.
//!
//! ```text
//!   file --> packets --> decoder --> items, each alone --> sort --> player --> importer
//!            unpacked    interned strings, clocks,         by time  who runs,
//!                        tracks, threads                            open slices
//! ```
//!
//! One pass reads the packets, which may be in any order of time: each CPU's events are in separate bundles. Packets with a time become
//! independent items; those without (processes, tracks, clocks) are kept. Then the sorted items are played, when all of that is known. A
//! length is trusted only when that many bytes are present, and all stored data has a limit.

mod clocks;
mod code;
mod events;
mod ftrace;
mod item;
mod packets;
mod play;
mod sequence;
mod spans;
mod wire;

#[cfg(test)]
mod tests;

use std::io::{BufReader, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::BUFFER_BYTES;
use super::importer::{Importer, Origin};
use crate::sort::Sorter;
use crate::{ConvertError, Input, Report};
use clocks::{BOOTTIME, Clocks, MOST_CLOCKS, Reading};
use code::Code;
use events::Track;
use ftrace::Columns;
use item::{CommId, Comms, Item, Out};
pub(crate) use packets::is_trace;
use packets::{Findings, each};
use sequence::{Sequence, numbers};
use wire::{Damaged, Fields, Value};

/// Bytes of items that are sorted in memory.
const PIECE_BYTES: usize = 32 << 20;

/// The maximum number of sequences.
const MOST_SEQUENCES: usize = 64 * 1024;

/// The maximum number of processes with names.
const MOST_NAMES: usize = 1 << 19;
const MOST_NAME: usize = 256;

/// Fields of a packet.
mod packet {
    pub(super) const BUNDLE: u32 = 1;
    pub(super) const PROCESS_TREE: u32 = 2;
    pub(super) const SNAPSHOT: u32 = 6;
    pub(super) const TIME: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const FTRACE_STATS: u32 = 34;
    pub(super) const TRACE_STATS: u32 = 35;
    pub(super) const CLEARED: u32 = 41;
    pub(super) const DROPPED: u32 = 42;
    pub(super) const PROCESS: u32 = 43;
    pub(super) const THREAD: u32 = 44;
    pub(super) const SYSTEM: u32 = 45;
    pub(super) const CLOCK: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK: u32 = 60;
    pub(super) const PERF_SAMPLE: u32 = 66;
    pub(super) const STACK_SAMPLE: u32 = 135;
}

/// Packets about the recording itself: configuration, marks of the service, and the like.
const ABOUT_RECORDING: [u32; 9] = [9, 33, 36, 46, 69, 72, 87, 89, 98];

/// The parts of a packet on which it and later packets rely.
#[derive(Clone, Copy, Debug, Default)]
struct Relied<'a> {
    interned: Option<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    snapshot: Option<&'a [u8]>,
}

/// The reason why a packet was not read.
#[derive(Debug)]
enum Failed {
    Damaged,
    Other(ConvertError),
}

impl From<Damaged> for Failed {
    fn from(_: Damaged) -> Failed {
        Failed::Damaged
    }
}

/// The state of the first pass.
struct Decoder {
    sorter: Sorter,
    /// The buffer for the next item.
    out: Out,
    columns: Columns,
    comms: Comms,
    clocks: Clocks,
    sequences: FxHashMap<u32, Sequence>,
    interned_bytes: usize,
    code: Code,
    tracks: FxHashMap<u64, Track>,
    track_bytes: usize,
    /// The process of each thread, and the names of processes and threads.
    homes: FxHashMap<u32, u32>,
    processes: FxHashMap<u32, Box<[u8]>>,
    threads: FxHashMap<u32, CommId>,
    /// How often packets of the bundles' writer were dropped: in total, and as far as each CPU's bundles have accounted for it.
    dropped: u64,
    drops: FxHashMap<u16, u64>,
    /// The number of gaps of each CPU, and the number of events that its ring had lost at the beginning and at the end.
    gaps: FxHashMap<u16, u64>,
    overruns: FxHashMap<u16, (u64, u64)>,
    /// The writer of the current packet; 0 if unknown.
    writer: u32,
    /// CPUs of compact bundles with switches, and those with wakeups together with the writer.
    switching: FxHashSet<u16>,
    waking: FxHashSet<(u16, u32)>,
    switches: u64,
    moves: u64,
    events: u64,
    has_wakings: bool,
    has_wakeups: bool,
    /// Whether wakeups record if an interrupt caused them.
    has_wakers: bool,
    /// Whether hard and soft interrupts were recorded.
    interrupts: (bool, bool),
    calls: bool,
    /// The kinds of stacks, one bit each.
    stacks: u8,
    /// The minimum length of waits with stacks, in nanoseconds.
    over: Option<u64>,
    release: Option<String>,
    machine: Option<String>,
    report: Report,
}

/// Reads all of `input` into a trace.
pub(crate) fn read(input: &mut Input, output: &mut dyn Write) -> Result<Report, ConvertError> {
    read_in_pieces(input, output, PIECE_BYTES)
}

fn read_in_pieces(
    input: &mut Input,
    output: &mut dyn Write,
    piece_bytes: usize,
) -> Result<Report, ConvertError> {
    let mut decoder = Decoder::new(piece_bytes);
    let mut findings = Findings::default();
    let progress = input.progress();
    let input = BufReader::with_capacity(BUFFER_BYTES, input);
    each(input, &mut findings, &mut |packet| match decoder.packet(packet) {
        Ok(()) => Ok(Ok(())),
        Err(Failed::Damaged) => Ok(Err(Damaged)),
        Err(Failed::Other(error)) => Err(error),
    })?;
    let report = &mut decoder.report;
    report.add("damaged packets, read only up to the damage", findings.damaged);
    report.add(
        "compressed packets that cannot be decompressed, or that contain other compressed packets",
        findings.not_unpacked,
    );
    if findings.cut {
        report.note("the file ends within a packet: it was truncated".into());
    }
    if let Some(at) = findings.lost_at {
        report.note(format!("damaged at byte {at}: the rest was left out"));
    }
    play::play(decoder, progress, output)
}

impl Decoder {
    fn new(piece_bytes: usize) -> Decoder {
        Decoder {
            sorter: Sorter::new(piece_bytes),
            out: Out::default(),
            columns: Columns::default(),
            comms: Comms::default(),
            clocks: Clocks::default(),
            sequences: FxHashMap::default(),
            interned_bytes: 0,
            code: Code::default(),
            tracks: FxHashMap::default(),
            track_bytes: 0,
            homes: FxHashMap::default(),
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            dropped: 0,
            drops: FxHashMap::default(),
            gaps: FxHashMap::default(),
            overruns: FxHashMap::default(),
            writer: 0,
            switching: FxHashSet::default(),
            waking: FxHashSet::default(),
            switches: 0,
            moves: 0,
            events: 0,
            has_wakings: false,
            has_wakeups: false,
            has_wakers: false,
            interrupts: (false, false),
            calls: false,
            stacks: 0,
            over: None,
            release: None,
            machine: None,
            report: Report::default(),
        }
    }

    fn packet(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        // Fields that others depend on may follow these.
        let (mut time, mut clock, mut id, mut flags, mut dropped) = (None, None, 0, 0, false);
        let (mut interned, mut defaults, mut snapshot) = (None, None, None);
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (packet::TIME, value) => time = Some(value.number()),
                (packet::CLOCK, value) => clock = Some(value.u32()),
                (packet::SEQUENCE, value) => id = value.u32(),
                (packet::FLAGS, value) => flags |= value.number(),
                (packet::CLEARED, value) => flags |= value.number() & 1,
                (packet::DROPPED, value) => dropped = value.number() != 0,
                (packet::INTERNED, Value::Bytes(data)) => interned = Some(data),
                (packet::DEFAULTS, Value::Bytes(data)) => defaults = Some(data),
                (packet::SNAPSHOT, Value::Bytes(data)) => snapshot = Some(data),
                _ => {}
            }
        }
        // The buffer is returned after the packet.
        let mut sequence = match self.sequences.remove(&id) {
            Some(sequence) => sequence,
            None if self.sequences.len() < MOST_SEQUENCES => Sequence::default(),
            None => {
                self.report.count("packets of more than 65536 writers, left out");
                return Ok(());
            }
        };
        if dropped {
            self.dropped += u64::from(sequence.has_bundles);
            sequence.is_whole = false;
        }
        if flags & 1 != 0 {
            sequence.clear(&mut self.interned_bytes);
        }
        self.writer = id;
        let relied = Relied { interned, defaults, snapshot };
        let done = self
            .prepare(relied, (time, clock), &mut sequence)
            .and_then(|time| self.payload(bytes, time, flags & 2 != 0, &mut sequence));
        self.sequences.insert(id, sequence);
        done
    }

    /// Reads the parts on which later packets rely. Returns the packet's own time.
    fn prepare(
        &mut self,
        relied: Relied<'_>,
        (time, clock): (Option<u64>, Option<u32>),
        sequence: &mut Sequence,
    ) -> Result<Option<u64>, Failed> {
        if let Some(data) = relied.defaults {
            self.defaults(data, sequence)?;
        }
        if let Some(data) = relied.interned {
            let left_out = sequence.intern(data, &mut self.interned_bytes)?;
            self.report.add("interned texts beyond 48 MiB, left out", left_out);
        }
        if let Some(data) = relied.snapshot {
            self.snapshot(data, sequence)?;
        }
        let Some(time) = time else { return Ok(None) };
        let clock = clock.or(sequence.default_clock).unwrap_or(BOOTTIME);
        let at = self.clocks.of_packet(clock, time, &mut sequence.clocks);
        if at.is_none() {
            self.report.count("times of clocks that the trace does not define");
        }
        Ok(at)
    }

    /// Reads the events; `needs_all` is set if they depend on earlier packets of the writer, which may be lost.
    fn payload(
        &mut self,
        bytes: &[u8],
        time: Option<u64>,
        needs_all: bool,
        sequence: &mut Sequence,
    ) -> Result<(), Failed> {
        let usable = !needs_all || sequence.is_whole;
        let (mut fields, mut known, mut others) = (Fields(bytes), false, false);
        while let Some((field, value)) = fields.next()? {
            let Value::Bytes(message) = value else { continue };
            known = true;
            match field {
                packet::BUNDLE => {
                    sequence.has_bundles = true;
                    self.bundle(message, sequence)?;
                }
                packet::EVENT | packet::PERF_SAMPLE | packet::STACK_SAMPLE if !usable => {
                    self.report.count("packets that depend on lost ones, left out");
                }
                packet::EVENT => self.track_event(time, message, sequence)?,
                packet::PERF_SAMPLE => self.perf_sample(time, message, sequence)?,
                packet::STACK_SAMPLE => self.stack_sample(time, message, sequence)?,
                packet::PROCESS_TREE => self.process_tree(message)?,
                packet::TRACK => self.track_descriptor(message)?,
                packet::PROCESS => {
                    self.process(message)?;
                }
                packet::THREAD => sequence.thread = Some(self.thread(message)?),
                packet::SYSTEM => self.system(message)?,
                packet::FTRACE_STATS => self.ftrace_stats(message)?,
                packet::TRACE_STATS => self.trace_stats(message)?,
                packet::SNAPSHOT | packet::INTERNED | packet::DEFAULTS => {}
                field if ABOUT_RECORDING.contains(&field) => {}
                _ => others = true,
            }
        }
        if others && known {
            self.report.count("packets of other kinds, left out");
        }
        Ok(())
    }

    fn defaults(&mut self, message: &[u8], sequence: &mut Sequence) -> Result<(), Failed> {
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (packet::CLOCK, value) => sequence.default_clock = Some(value.u32()),
                (packet::EVENT, Value::Bytes(events)) => {
                    let mut fields = Fields(events);
                    while let Some((field, value)) = fields.next()? {
                        if field == 11 {
                            sequence.default_track = value.number();
                        }
                    }
                }
                (100, Value::Bytes(samples)) => {
                    let mut fields = Fields(samples);
                    while let Some((field, value)) = fields.next()? {
                        if let (1, Value::Bytes(source)) = (field, value) {
                            let source = &source[..source.len().min(MOST_NAME)];
                            sequence.samples = Some(String::from_utf8_lossy(source).into());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, message: &[u8], sequence: &mut Sequence) -> Result<(), Failed> {
        let (mut readings, mut fields) = (Vec::new(), Fields(message));
        while let Some((field, value)) = fields.next()? {
            if let (1, Value::Bytes(clock)) = (field, value)
                && readings.len() < MOST_CLOCKS
            {
                let [clock, time, incremental, unit] = numbers(clock)?;
                let (clock, incremental) = (clock as u32, incremental != 0);
                readings.push(Reading { clock, time, incremental, unit });
            }
        }
        self.clocks.snapshot(&readings, &mut sequence.clocks);
        Ok(())
    }

    fn process_tree(&mut self, message: &[u8]) -> Result<(), Failed> {
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            let (mut id, mut tgid, mut name, mut of_it) = (0, 0, None, Fields(value.bytes()));
            while let Some((inner, value)) = of_it.next()? {
                match (field, inner, value) {
                    (_, 1, value) => id = value.u32(),
                    (1, 3, Value::Bytes(word)) | (2, 2, Value::Bytes(word)) => {
                        name = name.or(Some(word));
                    }
                    (2, 3, value) => tgid = value.u32(),
                    _ => {}
                }
            }
            match field {
                1 => {
                    self.belongs(id, id);
                    self.process_called(id, name.unwrap_or_default());
                }
                2 => {
                    self.belongs(tgid, id);
                    self.thread_called(id, name.unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the process of a thread. The first name counts, because ids are reused.
    fn belongs(&mut self, pid: u32, tid: u32) {
        if tid != 0 {
            self.homes.entry(tid).or_insert(pid);
        }
    }

    /// Sets the name of a process: its command line, or a name of its own choice.
    fn process_called(&mut self, pid: u32, name: &[u8]) {
        let word = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = match word.first() {
            // A path, perhaps with arguments.
            Some(b'/') => {
                let path = word.split(|byte| *byte == b' ').next().unwrap_or_default();
                path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
            }
            _ => word,
        };
        if !name.is_empty() && self.processes.len() < MOST_NAMES {
            let name = &name[..name.len().min(MOST_NAME)];
            self.processes.entry(pid).or_insert_with(|| name.into());
        }
    }

    fn thread_called(&mut self, tid: u32, name: &[u8]) {
        let comm = self.comms.add(name);
        if comm != 0 && self.threads.len() < MOST_NAMES {
            self.threads.entry(tid).or_insert(comm);
        }
    }

    fn system(&mut self, message: &[u8]) -> Result<(), Failed> {
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            let (1, Value::Bytes(names)) = (field, value) else { continue };
            let mut names = Fields(names);
            while let Some((field, value)) = names.next()? {
                let text = || {
                    let bytes = value.bytes();
                    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_NAME)]).into_owned()
                };
                match field {
                    3 => self.release = Some(text()),
                    4 => self.machine = Some(text()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn ftrace_stats(&mut self, message: &[u8]) -> Result<(), Failed> {
        const END: u64 = 2;
        let (mut at_end, mut fields) = (false, Fields(message));
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, value) => at_end = value.number() == END,
                (2, Value::Bytes(cpu)) => {
                    let [cpu, _, overrun, commit_overrun, _, _, _, dropped] = numbers(cpu)?;
                    let lost = overrun.saturating_add(commit_overrun).saturating_add(dropped);
                    if let Ok(cpu) = u16::try_from(cpu) {
                        let known = self.overruns.entry(cpu).or_default();
                        if at_end {
                            known.1 = lost;
                        } else {
                            known.0 = lost;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn trace_stats(&mut self, message: &[u8]) -> Result<(), Failed> {
        let (mut discarded, mut fields) = (0_u64, Fields(message));
        while let Some((field, value)) = fields.next()? {
            let (1, Value::Bytes(buffer)) = (field, value) else { continue };
            let mut of_it = Fields(buffer);
            while let Some((field, value)) = of_it.next()? {
                // Packets that were discarded because a buffer was full, that their writers lost, or that were too large.
                if matches!(field, 18 | 19 | 22) {
                    discarded = discarded.saturating_add(value.number());
                }
            }
        }
        // If it is reported several times, the last report counts.
        let before = self.report.times(DISCARDED);
        self.report.add(DISCARDED, discarded.saturating_sub(before));
        Ok(())
    }

    fn perf_sample(
        &mut self,
        time: Option<u64>,
        message: &[u8],
        sequence: &Sequence,
    ) -> Result<(), Failed> {
        let (mut pid, mut tid, mut stack, mut error) = (0, None, None, false);
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                2 => pid = value.u32(),
                3 => tid = Some(value.u32()),
                4 => stack = Some(value.number()),
                16 => error = value.number() != 0,
                _ => {}
            }
        }
        let stack = stack.and_then(|stack| self.code.interned(sequence, stack));
        self.sample(time, tid.map(|tid| (pid, tid)), stack, (CPU_SAMPLE, 0, error))
    }

    fn stack_sample(
        &mut self,
        time: Option<u64>,
        message: &[u8],
        sequence: &Sequence,
    ) -> Result<(), Failed> {
        let (mut task, mut stack, mut weight, mut error) = (None, None, 0, false);
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Bytes(it)) => {
                    let [_, pid, tid] = numbers(it)?;
                    task = Some((pid as u32, tid as u32));
                }
                (2, value) => task = sequence.tasks.get(&value.number()).copied(),
                (6, value) => stack = Some(value.number()),
                (7 | 8, _) => error = true,
                (11, value) => weight = value.number(),
                _ => {}
            }
        }
        let kind = match sequence.samples.as_deref() {
            Some("fxtrec.offcpu") => 0,
            Some("fxtrec.wake") => 1,
            _ => CPU_SAMPLE,
        };
        let stack = stack.and_then(|stack| self.code.interned(sequence, stack));
        self.sample(time, task, stack, (kind, weight, error))
    }

    fn sample(
        &mut self,
        time: Option<u64>,
        task: Option<(u32, u32)>,
        stack: Option<u32>,
        (kind, weight, error): (u8, u64, bool),
    ) -> Result<(), Failed> {
        let (Some(time), Some(stack), Some((pid, tid))) = (time, stack, task) else {
            self.report.count("samples without a time, a thread or a stack, left out");
            return Ok(());
        };
        self.belongs(pid, tid);
        self.stacks |= 1 << kind;
        if kind == 0 {
            self.over = Some(self.over.map_or(weight, |over| over.min(weight)));
        }
        let item = Item::Sample { pid, tid, stack, kind, weight, error };
        // A sampled thread is running: an event at the same time that takes its CPU away follows the sample.
        if kind == 0 { self.add(time, item) } else { self.add_first(time, item) }
    }

    /// Whether compact wakeups of all CPUs are in the bundle of one CPU, as with systing, so that their CPU is unknown. Perfetto's own
    /// recorders name the writer of each packet, and write the wakeups of each CPU separately.
    fn has_gathered_wakings(&self) -> bool {
        let mut cpus = self.waking.iter();
        self.switching.len() > 1
            && cpus.next().is_some_and(|(_, writer)| *writer == 0)
            && cpus.next().is_none()
    }

    /// The facts about the recording.
    fn origin(&self) -> Origin {
        let interrupts = self.interrupts.0 && self.interrupts.1;
        let facts = [
            (interrupts, "irq"),
            (self.moves > 0, "migrate"),
            (self.has_wakings && self.has_wakers && !self.has_gathered_wakings(), "waker"),
            (self.calls, "syscall"),
        ];
        let causes: Vec<&str> = facts.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        let clock = if self.clocks.has_monotonic() { "monotonic" } else { "boot" };
        Origin {
            format: "Perfetto trace",
            release: self.release.clone(),
            machine: self.machine.clone(),
            clock: Some(clock.to_owned()),
            causes: (!causes.is_empty()).then(|| causes.join(",")),
            wall_clock_offset: self.clocks.wall_clock_offset(),
            stacks: match self.stacks {
                0 => None,
                0b001 => Some("offcpu"),
                0b010 | 0b011 => Some("offcpu,wake"),
                0b100 => Some("cpu"),
                0b101 => Some("offcpu,cpu"),
                _ => Some("offcpu,wake,cpu"),
            }
            .map(|kinds| (kinds, self.over.unwrap_or(0))),
            ..Origin::default()
        }
    }

    /// Gives a process's main thread the name of the process if it has none.
    fn name_main_threads(&mut self) {
        for (pid, name) in &self.processes {
            if !self.threads.contains_key(pid) && self.threads.len() < MOST_NAMES {
                self.threads.insert(*pid, self.comms.add(name));
            }
        }
    }

    fn introduce<W: Write>(&self, importer: &mut Importer<W>) {
        self.homes.iter().for_each(|(tid, pid)| importer.belongs(*pid, *tid));
        self.processes.iter().for_each(|(pid, name)| importer.process_called(*pid, name));
    }
}

/// The same as `Kind::Cpu` of a backtrace.
const CPU_SAMPLE: u8 = 2;

const DISCARDED: &str = "packets or chunks that the recorder discarded";
