//! Writes samples as records.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use fxt_format::walk::record_ends;
use fxt_writer::lanes::Lanes;
use fxt_writer::record::{self, Backtrace, Blob, BlobType, ProcessName, Record, UserspaceObject};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value, WriteError, text};
use rustc_hash::{FxHashMap, FxHashSet};

use super::collector::KERNEL;
use super::message::{Mapping, Message, Module};
use super::perfetto::{self, Known, Sample, Samples};
use super::places::Places;
use super::{Counts, Kept, waited};
use crate::encode::Closed;
use crate::encode::encoder::owner::Owner;
use crate::encode::encoder::{Encoder, own_event};
use fxtrec_sched::backtrace::{Kind, NAME_MODULE, problem};
use fxtrec_sink::drain::{Explanation, Part};
use fxtrec_units::{Nanos, Tid};

/// Whether an address is in the kernel: addresses of programs are in the lower half.
pub(super) const fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The process that the kernel's code is attributed to: that of the idle task.
const KERNEL_PROCESS: Koid = Koid(0);

/// The most mappings, names and programs that are kept: 9 MiB in total. Long names count as several.
pub(super) const MOST_FACTS: usize = 96 * 1024;

/// [`MOST_FACTS`], including processes that still exist.
pub(super) const OVER_FACTS: usize = 32 * 1024;

/// A name counts as one fact, and as one more for every 64 bytes.
pub(super) const FACT_BYTES: usize = 64;

/// The number of facts that a name counts as.
fn facts_of(name: &str) -> usize {
    1 + name.len() / FACT_BYTES
}

/// The parts of a program's code that stacks contain. Each mapping has the number of its module.
#[derive(Debug)]
struct Program {
    process: Koid,
    code: Places<(Module, Mapping)>,
    names: FxHashMap<u64, Arc<str>>,
    /// The number of facts that its names count as.
    name_facts: usize,
    /// The numbers of the modules that are already in the file.
    written: FxHashSet<u16>,
    last: Nanos,
}

impl Program {
    fn new(process: Koid) -> Program {
        Program {
            process,
            code: Places::default(),
            names: FxHashMap::default(),
            name_facts: 0,
            written: FxHashSet::default(),
            last: Nanos(0),
        }
    }

    fn code_of(&self, address: u64) -> Option<&(Module, Mapping)> {
        self.code.at(address)
    }

    /// The module that distinguishes the program's function at an address from those of other programs of its process.
    fn module_of(&self, address: u64) -> Option<u16> {
        if is_kernel(address) { None } else { self.code_of(address).map(|(module, _)| module.id) }
    }
}

/// Writes the collector's reports.
#[derive(Debug)]
pub(super) struct Records {
    kept: Kept,
    /// The beginning of the recording.
    begin: Nanos,
    programs: FxHashMap<usize, Program>,
    /// Programs that will get no more stacks, each with the time of its last stack; in the order of the reports about them.
    over: VecDeque<(Nanos, usize)>,
    /// Number of mappings and function names of all programs.
    facts: usize,
    samples: Samples,
    /// Counts of stacks that were written (so that the number with a problem is never above their total), and of stacks that were not.
    counts: Counts,
    /// Samples of earlier files that were left out for Perfetto.
    left_out: u64,
    /// Names for which there was no space, and which no file has.
    unnamed: u64,
}

/// The size, in bytes, of the parts of an explanation that are kept or left out as a whole.
const PART_BYTES: usize = 16 * 1024;

/// Divides records into parts.
fn parts(records: &[u8]) -> Vec<Part> {
    let (mut parts, mut begin, mut names) = (Vec::new(), 0, 0);
    for end in record_ends(records) {
        names += 1;
        if end - begin >= PART_BYTES || end == records.len() {
            parts.push(Part { records: records[begin..end].to_vec(), names, stacks: 0 });
            (begin, names) = (end, 0);
        }
    }
    parts
}

fn write_code<L: Lanes>(
    lanes: &mut L,
    time: Ticks,
    process: Koid,
    (module, mapping): &(Module, Mapping),
) -> Result<(), Closed> {
    let process = ProcessName::Inline(process);
    let (id, name, build_id) = (module.id, &*module.name, &*module.build_id);
    lanes.rolling(&record::Module { time, process, id, name, build_id })?;
    lanes.rolling(&record::Mapping {
        time,
        process,
        module: mapping.module,
        flags: mapping.flags,
        start: mapping.start,
        length: mapping.end - mapping.start,
        module_address: mapping.module_address,
    })?;
    Ok(())
}

fn write_name<L: Lanes>(
    lanes: &mut L,
    process: Koid,
    (address, module): (u64, Option<u16>),
    name: &str,
) -> Result<(), Closed> {
    // A process may execute another program, which has other functions at the same addresses.
    let args = module.map(|id| [Arg::new(Text::Inline(NAME_MODULE), Value::uint(id.into()))]);
    lanes.rolling(&UserspaceObject {
        pointer: address,
        process: ThreadName::Inline { process, thread: process },
        name: Text::Inline(&text::clean(name.as_bytes())),
        args: args.as_ref().map_or(&[], |args| &args[..]),
    })?;
    Ok(())
}

impl Records {
    pub(super) fn new(kept: Kept, begin: Nanos) -> Records {
        let samples = match kept {
            Kept::Newest => Samples::rolling(),
            Kept::Whole | Kept::InPieces => Samples::default(),
        };
        Records {
            kept,
            begin,
            programs: FxHashMap::from_iter([(KERNEL, Program::new(KERNEL_PROCESS))]),
            over: VecDeque::new(),
            facts: 0,
            samples,
            counts: Counts::default(),
            left_out: 0,
            unnamed: 0,
        }
    }

    pub(super) fn knows(&self, program: usize) -> bool {
        self.programs.contains_key(&program)
    }

    pub(super) fn kept(&self) -> Kept {
        self.kept
    }

    pub(super) fn write<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        message: &Message,
    ) -> Result<(), Closed> {
        match message {
            Message::Code { program: number, tid, until, modules, mappings } => {
                let (kept, mut added) = (self.kept, 0);
                let time = Ticks((*until).max(self.begin).0);
                let Some(program) = self.program(encoder, *number, (*tid, *until))? else {
                    return Ok(());
                };
                for code in modules.iter().cloned().zip(mappings.iter().copied()) {
                    if kept != Kept::Newest {
                        write_code(encoder.lanes(), time, program.process, &code)?;
                        program.written.insert(code.0.id);
                    }
                    program.code.put(code.1.start, code.1.end, code);
                    added += 1;
                }
                self.facts += added;
                self.forget_if_full();
                Ok(())
            }
            // No trace contains the event that ended it.
            Message::Stack { until, .. } if *until < self.begin => Ok(()),
            Message::Stack { program, tid, since, until, weight, flags, frames } => {
                let (process, thread) = match encoder.owner(*tid, *until)? {
                    // An interrupt of an idle CPU wakes a thread.
                    _ if *tid == Tid(0) => (KERNEL_PROCESS, KERNEL_PROCESS),
                    Owner::Recorded { process, thread } => (process, thread),
                    // The stack is left out, like the thread's switches.
                    Owner::Unwanted => return Ok(()),
                    Owner::Unknown => {
                        self.counts.unknown_threads += 1;
                        return Ok(());
                    }
                };
                self.counts.written += 1;
                self.counts.note(*flags);
                if let Some(program) = self.programs.get_mut(program) {
                    program.last = program.last.max(*until);
                }
                if let Some(kind) = Kind::of(*flags) {
                    let (process, thread) = (process.0 as u32, thread.0 as u32);
                    let (time, weight) = (*since, *weight);
                    let problems = (*flags & problem::ALL) as u8;
                    let sample = Sample { kind, time, process, thread, weight, problems };
                    self.samples.add(sample, *program, frames);
                }
                let thread = ThreadName::Inline { process, thread };
                let time = Ticks(since.0);
                encoder.lanes().rolling(&Backtrace { time, thread, flags: *flags, frames })?;
                Ok(())
            }
            Message::Waited { until, .. } if *until < self.begin => Ok(()),
            Message::Waited { tid, since, until, waited: found } => {
                match encoder.owner(*tid, *until)? {
                    Owner::Recorded { process, thread } => {
                        let thread = ThreadName::Inline { process, thread };
                        waited::write(encoder.lanes(), *since, thread, found)
                    }
                    Owner::Unwanted | Owner::Unknown => Ok(()),
                }
            }
            Message::Symbol { program, address, name } => {
                let Some(program) = self.programs.get_mut(program) else { return Ok(()) };
                if self.kept == Kept::Whole {
                    let place = (*address, program.module_of(*address));
                    write_name(encoder.lanes(), program.process, place, name)?;
                }
                let facts = facts_of(name);
                // Names of programs that still live are not forgotten.
                if self.facts + facts <= MOST_FACTS + OVER_FACTS {
                    if program.names.insert(*address, name.clone()).is_none() {
                        self.facts += facts;
                        program.name_facts += facts;
                    }
                } else if self.kept != Kept::Whole {
                    self.unnamed += 1;
                }
                self.forget_if_full();
                Ok(())
            }
            Message::Over { program: number } => {
                if let Some(program) = self.programs.get_mut(number) {
                    self.over.push_back((program.last, *number));
                }
                Ok(())
            }
            Message::Settled(_) => Ok(()),
        }
    }

    /// A program; a new one gets the thread's process.
    fn program<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        number: usize,
        (tid, time): (Tid, Nanos),
    ) -> Result<Option<&mut Program>, Closed> {
        match self.programs.entry(number) {
            Entry::Occupied(known) => Ok(Some(known.into_mut())),
            Entry::Vacant(place) => match encoder.owner(tid, time)? {
                Owner::Recorded { process, .. } => {
                    self.facts += 1;
                    Ok(Some(place.insert(Program::new(process))))
                }
                Owner::Unwanted | Owner::Unknown => Ok(None),
            },
        }
    }

    /// Adds the counts that only this type has to `counts`.
    pub(super) fn counted(&self, counts: Counts) -> Counts {
        let not_in_perfetto = self.left_out + self.samples.left_out();
        let unnamed = counts.unnamed + self.unnamed;
        Counts {
            lost: counts.lost,
            unseen: counts.unseen,
            given_up: counts.given_up,
            unknown_processes: counts.unknown_processes,
            lost_mappings: counts.lost_mappings,
            unknown_pythons: counts.unknown_pythons,
            unanswered_files: counts.unanswered_files,
            unanswered_addresses: counts.unanswered_addresses,
            left_readers: counts.left_readers,
            symbols: counts.symbols,
            unnamed_generated: counts.unnamed_generated,
            not_in_perfetto,
            unnamed,
            ..self.counts
        }
    }

    /// Writes the counts of all stacks.
    fn write_counts<L: Lanes>(
        lanes: &mut L,
        recorder: ThreadName,
        time: Nanos,
        counts: &Counts,
    ) -> Result<(), Closed> {
        let args = [
            ("stacks", counts.written),
            ("kernel_unreadable", counts.kernel_unreadable),
            ("kernel_too_deep", counts.kernel_too_deep),
            ("user_unreadable", counts.user_unreadable),
            ("user_too_deep", counts.user_too_deep),
            ("user_no_room", counts.user_no_room),
            ("user_cut", counts.user_cut),
            ("user_unproved", counts.user_unproved),
            ("lost", counts.lost),
            ("unseen", counts.unseen),
            ("given_up", counts.given_up),
            ("unknown_threads", counts.unknown_threads),
            ("unknown_processes", counts.unknown_processes),
            ("lost_mappings", counts.lost_mappings),
            ("symbols", counts.symbols),
        ];
        let arg = |(name, count)| Arg::new(Text::Inline(name), Value::uint(count));
        lanes.rolling(&own_event(time, recorder, Text::Inline("stack_stats"), &args.map(arg)))?;
        // The first event already has the greatest number of arguments that an event can have.
        if counts.unanswered_files > 0 {
            let args =
                [("files", counts.unanswered_files), ("addresses", counts.unanswered_addresses)]
                    .map(arg);
            let name = Text::Inline("stacks_unanswered");
            lanes.rolling(&own_event(time, recorder, name, &args))?;
        }
        if counts.python + counts.unknown_pythons > 0 {
            let args =
                [("stacks", counts.python), ("unknown_versions", counts.unknown_pythons)].map(arg);
            let name = Text::Inline("stacks_python");
            lanes.rolling(&own_event(time, recorder, name, &args))?;
        }
        if counts.unnamed + counts.unnamed_generated > 0 {
            let args =
                [("frames", counts.unnamed), ("generated", counts.unnamed_generated)].map(arg);
            let name = Text::Inline("stacks_unnamed");
            lanes.rolling(&own_event(time, recorder, name, &args))?;
        }
        if counts.not_in_perfetto > 0 {
            let args = [("stacks", counts.not_in_perfetto)].map(arg);
            let name = Text::Inline("stacks_not_in_perfetto");
            lanes.rolling(&own_event(time, recorder, name, &args))?;
        }
        Ok(())
    }

    /// Writes the data that the stacks of a file refer to: code, names, and everything again for Perfetto.
    fn explain<L: Lanes>(&mut self, lanes: &mut L, time: Nanos) -> Result<(), Closed> {
        self.explain_code(lanes, time)?;
        let mut written = Ok(());
        self.each_blob(|blob, _| {
            if written.is_ok() {
                written = lanes.rolling(blob).map(drop);
            }
        });
        Ok(written?)
    }

    /// Writes code and names.
    fn explain_code<L: Lanes>(&mut self, lanes: &mut L, time: Nanos) -> Result<(), Closed> {
        for (number, address) in self.samples.frames() {
            for number in [number, KERNEL] {
                let Some(program) = self.programs.get_mut(&number) else { continue };
                let Some(code) = program.code_of(address) else { continue };
                let (id, process) = (code.0.id, program.process);
                if !program.written.contains(&id) {
                    // Until then, its process ran this program.
                    let last = if number == KERNEL { time } else { program.last.min(time) };
                    write_code(lanes, Ticks(last.0), process, code)?;
                    program.written.insert(id);
                }
            }
            if self.kept == Kept::Whole {
                continue;
            }
            if let Some((process, name)) = self.name(number, address) {
                let module = self.programs.get(&number).and_then(|it| it.module_of(address));
                write_name(lanes, process, (address, module), name)?;
            }
        }
        Ok(())
    }

    /// Passes on the data for Perfetto, with the number of stacks in each blob.
    fn each_blob(&self, mut put: impl FnMut(&Blob<'_>, u64)) {
        let known = |program: usize, address: u64| {
            let program = if is_kernel(address) { KERNEL } else { program };
            let code = self.programs.get(&program).and_then(|program| program.code_of(address));
            Known {
                function: self.name(program, address).map(|(_, name)| name),
                module: code.map(|(module, mapping)| perfetto::Module {
                    path: &module.name,
                    build_id: &module.build_id,
                    start: mapping.start,
                    end: mapping.end,
                    address: mapping.module_address,
                }),
            }
        };
        self.samples.each_blob(known, |payload, stacks| {
            let (name, blob_type) = (Text::Inline(perfetto::BLOB), BlobType::Perfetto);
            put(&Blob { name, blob_type, payload }, stacks);
        });
    }

    /// Estimated size of an explanation in bytes: how well it compresses, and how many names are in several stacks, is unknown.
    pub(super) fn estimate(&self) -> u64 {
        const WORD: usize = 8;
        // A name is in the trace, and in a blob.
        let names = self.facts.min(self.samples.estimate() / 2) * 2 * FACT_BYTES;
        (self.samples.estimate() * WORD + names) as u64
    }

    /// The name of a function, with its process.
    fn name(&self, program: usize, address: u64) -> Option<(Koid, &str)> {
        let program = if is_kernel(address) { KERNEL } else { program };
        let program = self.programs.get(&program)?;
        Some((program.process, &**program.names.get(&address)?))
    }

    /// Writes the records for the end of the only file.
    pub(super) fn end_whole<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        ended: Nanos,
        counts: &Counts,
    ) -> Result<(), Closed> {
        let recorder = encoder.recorder();
        let lanes = encoder.lanes();
        self.explain(lanes, ended)?;
        Self::write_counts(lanes, recorder, ended, counts)
    }

    /// Data for the end of one of several files; the next file starts without it.
    pub(super) fn end_piece(
        &mut self,
        recorder: ThreadName,
        ended: Nanos,
        counts: &Counts,
    ) -> Result<Explanation, Closed> {
        let estimate = self.estimate();
        let mut records = Vec::new();
        Self::write_counts(&mut records, recorder, ended, counts)?;
        self.explain_code(&mut records, ended)?;
        let mut parts = parts(&records);
        self.each_blob(|blob, stacks| {
            let mut records = Vec::new();
            // Memory accepts everything that the format can express.
            if blob.write(&mut records).is_ok() {
                parts.push(Part { records, names: 0, stacks });
            }
        });
        self.left_out += self.samples.left_out();
        self.samples = Samples::default();
        while let Some((_, number)) = self.over.pop_front() {
            self.forget(number);
        }
        self.programs.values_mut().for_each(|program| program.written.clear());
        Ok(Explanation { parts, estimate })
    }

    /// Data for the newest part of a recording, if none of it is in the trace; passed on in chunks of whole records.
    pub(super) fn explained(
        &mut self,
        recorder: ThreadName,
        ended: Nanos,
        counts: &Counts,
        put: impl FnMut(Vec<u8>),
    ) -> Result<(), Closed> {
        let mut explained = Chunks::new(put);
        self.programs.values_mut().for_each(|program| program.written.clear());
        self.explain(&mut explained, ended)?;
        Self::write_counts(&mut explained, recorder, ended, counts)?;
        explained.finish();
        Ok(())
    }

    fn forget(&mut self, program: usize) {
        if let Some(program) = self.programs.remove(&program) {
            let facts = 1 + program.code.len() + program.name_facts;
            self.facts -= facts.min(self.facts);
        }
    }

    /// Forgets programs that ended long ago; for these, Perfetto gets only addresses.
    fn forget_if_full(&mut self) {
        while self.facts > MOST_FACTS
            && let Some((_, number)) = self.over.pop_front()
        {
            self.forget(number);
        }
    }

    pub(super) fn forget_before(&mut self, since: Nanos) {
        self.samples.forget_before(since);
        // Called in each round, so its duration must depend only on the programs that are forgotten, not on the number of programs.
        while let Some(&(_, number)) = self.over.front().filter(|(last, _)| *last < since) {
            self.over.pop_front();
            self.forget(number);
        }
    }
}

/// The size of a chunk, in bytes, unless its last record is longer.
const CHUNK: usize = 1 << 20;

/// Passes records on in chunks.
struct Chunks<F> {
    chunk: Vec<u8>,
    put: F,
}

impl<F: FnMut(Vec<u8>)> Chunks<F> {
    fn new(put: F) -> Chunks<F> {
        Chunks { chunk: Vec::new(), put }
    }

    fn write(&mut self, record: &impl Record) -> Result<(), WriteError<<Vec<u8> as Lanes>::Full>> {
        if self.chunk.capacity() == 0 {
            self.chunk.reserve_exact(CHUNK);
        }
        record.write(&mut self.chunk)?;
        if self.chunk.len() + CHUNK / 16 > CHUNK {
            (self.put)(std::mem::take(&mut self.chunk));
        }
        Ok(())
    }

    fn finish(mut self) {
        if !self.chunk.is_empty() {
            (self.put)(self.chunk);
        }
    }
}

impl<F: FnMut(Vec<u8>)> Lanes for Chunks<F> {
    type Full = <Vec<u8> as Lanes>::Full;

    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Self::Full>> {
        self.write(record)
    }

    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Self::Full>> {
        self.write(record)
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::{Koid, ThreadName};

    use super::*;
    use crate::encode::ids::Ids;
    use crate::encode::threads::{Lookup, Threads};
    use crate::event::LocalId;

    /// A `/proc` without processes.
    #[derive(Debug)]
    struct Empty;

    impl Lookup for Empty {
        fn process_of(&self, _: LocalId) -> Option<LocalId> {
            None
        }

        fn process_name(&self, _: LocalId) -> Option<Vec<u8>> {
            None
        }
    }

    #[test]
    fn records_in_chunks_are_those_of_one_piece() {
        let (mut pieces, mut whole) = (Vec::new(), Vec::<u8>::new());
        let mut chunks = Chunks::new(|piece| pieces.push(piece));
        for length in (0..400).map(|at| at * 37 % 20_000) {
            let payload = &vec![length as u8; length];
            let (name, blob_type) = (Text::Inline("blob"), BlobType::Data);
            let blob = Blob { name, blob_type, payload };
            chunks.rolling(&blob).expect("memory has room");
            whole.rolling(&blob).expect("memory has room");
        }
        chunks.finish();
        assert!(pieces.len() > 1 && pieces.concat() == whole);
        assert!(pieces.iter().all(|piece| piece.capacity() == CHUNK), "none was moved");
    }

    #[test]
    fn what_stacks_lack_is_counted_of_those_that_are_written() {
        let recorder = ThreadName::Inline { process: Koid(9), thread: Koid(9) };
        let threads = Threads::new(Ids::Initial, Box::new(Empty));
        let mut encoder = Encoder::new(Vec::<u8>::new(), threads, false, recorder);
        let mut records = Records::new(Kept::Whole, Nanos(100));
        let stack = |tid, until| Message::Stack {
            program: 0,
            tid: Tid(tid),
            since: Nanos(until - 10),
            until: Nanos(until),
            weight: 10,
            flags: Kind::OffCpu.flags() | problem::USER_CUT | problem::USER_UNPROVED,
            frames: vec![1 << 63],
        };
        // One is written, one is from before the recording, and one belongs to an unknown thread.
        for message in [stack(0, 200), stack(0, 50), stack(7, 210)] {
            records.write(&mut encoder, &message).expect("memory has room");
        }
        let counts = records.counted(Counts { lost: 3, ..Counts::default() });
        let expected = Counts {
            written: 1,
            user_cut: 1,
            user_unproved: 1,
            unknown_threads: 1,
            lost: 3,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }
}
