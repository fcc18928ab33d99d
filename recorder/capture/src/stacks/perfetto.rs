//! The same stacks again for Perfetto, which skips profiler records: packets of its own trace format, in blobs.
//!
//! Field numbers are those of Perfetto's `TracePacket`, `InternedData` and `StackSample`. A packet must follow everything that it refers to
//! by number, and names are known only at the end of the recording. So samples are kept until a file ends: 40 bytes for each, and each
//! distinct stack once.
//!
//! ```text
//!   Samples:  stack 0, stack 1 ...      +--> blob: names, files, functions, stacks | samples | samples ...
//!             sample, sample, sample ---+          one sequence of packets for each kind
//! ```

mod renamed;

pub use renamed::{FrameLocation, Renamer};

use std::collections::VecDeque;
use std::sync::Arc;

use fxtrec_sched::backtrace::{Kind, PROBLEMS};
use fxtrec_units::Nanos;
use fxtrec_units::protobuf::{Field, FieldValue, Message, fields};
use rustc_hash::{FxHashMap, FxHashSet};

/// The name of the blobs.
pub const BLOB: &str = "fxtrec.stacks";

/// The size of a blob. There is room for twice as much, because times and ids may be larger numbers in another trace.
const BLOB_BYTES: usize = 16_000;

/// A packet ends when it is longer than this.
const PACKET_BYTES: usize = 4 * 1024;

/// Longer names of functions are truncated to this length.
const NAME_BYTES: usize = 2048;

/// The maximum number of samples that are kept: 12 MiB.
pub(super) const MOST_SAMPLES: usize = 256 * 1024;

/// The maximum number of words of distinct stacks that are kept, including the overhead of each stack: 7 MiB. The tables that are built
/// from them at the end have powers of two as sizes.
pub(super) const MOST_WORDS: usize = 896 * 1024;

/// The size of a sample in a blob, in words.
const SAMPLE_WORDS: usize = 5;

/// The size of a stack in a blob in addition to its frames, in words.
const STACK_WORDS: usize = 14;

/// Maximum number of distinct frames that are known at the same time, and of stacks that the caller of [`Sequence::add`] has not numbered.
const MOST_STACKS: usize = 64 * 1024;

/// The maximum number of frames of left-out samples that are remembered, so that they can be named.
const MOST_MORE: usize = 128 * 1024;

mod packet {
    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE: u64 = 10;
    pub(super) const INTERNED: u64 = 12;
    pub(super) const FLAGS: u64 = 13;
    pub(super) const DEFAULTS: u64 = 59;
    pub(super) const STACK_SAMPLE: u64 = 135;
    /// Everything that earlier packets referred to is forgotten.
    pub(super) const CLEARED: u64 = 1;
    pub(super) const NEEDS_STATE: u64 = 2;
}

mod interned {
    pub(super) const FUNCTIONS: u64 = 5;
    pub(super) const FRAMES: u64 = 6;
    pub(super) const STACKS: u64 = 7;
    pub(super) const BUILD_IDS: u64 = 16;
    pub(super) const PATHS: u64 = 17;
    pub(super) const MAPPINGS: u64 = 19;
}

mod sample {
    pub(super) const TASK: u64 = 1;
    pub(super) const STACK: u64 = 6;
    pub(super) const ERROR: u64 = 7;
    pub(super) const WEIGHT: u64 = 11;
    pub(super) const TASK_PID: u64 = 2;
    pub(super) const TASK_TID: u64 = 3;
}

/// A stack of a program, the innermost function first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stack {
    program: usize,
    frames: Arc<[u64]>,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub kind: Kind,
    pub time: Nanos,
    /// The lower halves of their koids; Perfetto's importer keeps only those.
    pub process: u32,
    pub thread: u32,
    /// In nanoseconds.
    pub weight: u64,
    /// See [`fxtrec_sched::backtrace::problem`].
    pub problems: u8,
}

impl Sample {
    /// When the sample ended.
    fn end(&self) -> Nanos {
        match self.kind {
            Kind::OffCpu => Nanos(self.time.0.saturating_add(self.weight)),
            Kind::Wake | Kind::Cpu => self.time,
        }
    }
}

/// The file that a frame is in.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    pub path: &'a str,
    pub build_id: &'a [u8],
    pub start: u64,
    pub end: u64,
    /// The address of `start` in the file's own terms.
    pub address: u64,
}

/// The data of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub function: Option<&'a str>,
    pub module: Option<Module<'a>>,
}

/// The samples of a file.
#[derive(Debug, Default)]
pub(super) struct Samples {
    numbers: FxHashMap<Stack, u32>,
    /// Each with the number of its samples.
    stacks: Vec<(Stack, u32)>,
    /// Numbers of stacks whose samples are all gone.
    free: Vec<u32>,
    words: usize,
    all: VecDeque<(Sample, u32)>,
    /// Samples for which there was no room.
    left_out: u64,
    /// Frames of these samples.
    more_frames: FxHashSet<(usize, u64)>,
    /// Whether the oldest samples are dropped in favour of new ones.
    rolls: bool,
}

impl Samples {
    /// Keeps only the newest samples.
    pub(super) fn rolling() -> Samples {
        Samples { rolls: true, ..Samples::default() }
    }

    pub(super) fn add(&mut self, sample: Sample, program: usize, frames: &[u64]) {
        // Only as many are removed as are added, so that the work is distributed.
        while self.rolls
            && (self.all.len() >= MOST_SAMPLES
                || self.words + frames.len() + STACK_WORDS > MOST_WORDS)
            && self.forget_oldest()
        {
            self.left_out += 1;
        }
        if self.all.len() >= MOST_SAMPLES {
            self.leave_out(program, frames);
            return;
        }
        let stack = Stack { program, frames: frames.into() };
        let number = match self.numbers.get(&stack) {
            Some(&number) => number,
            None if self.words + frames.len() + STACK_WORDS > MOST_WORDS => {
                self.leave_out(program, frames);
                return;
            }
            None => {
                self.words += frames.len() + STACK_WORDS;
                let number = match self.free.pop() {
                    Some(number) => {
                        self.stacks[number as usize] = (stack.clone(), 0);
                        number
                    }
                    None => {
                        self.stacks.push((stack.clone(), 0));
                        u32::try_from(self.stacks.len() - 1).unwrap_or(u32::MAX)
                    }
                };
                self.numbers.insert(stack, number);
                number
            }
        };
        self.stacks[number as usize].1 += 1;
        self.all.push_back((sample, number));
    }

    fn leave_out(&mut self, program: usize, frames: &[u64]) {
        self.left_out += 1;
        if self.more_frames.len() >= MOST_MORE {
            return;
        }
        self.more_frames.extend(frames.iter().map(|&frame| (program, frame)));
    }

    /// Forgets samples that ended before `time`.
    pub(super) fn forget_before(&mut self, time: Nanos) {
        while self.all.front().is_some_and(|(sample, _)| sample.end() < time) {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest sample, and its stack if no other sample has it.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, number)) = self.all.pop_front() else { return false };
        let (stack, count) = &mut self.stacks[number as usize];
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(stack);
            self.words -= stack.frames.len() + STACK_WORDS;
            stack.frames = Arc::default();
            self.free.push(number);
        }
        true
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All frames with their programs, each once and sorted.
    pub(super) fn frames(&self) -> Vec<(usize, u64)> {
        let mut all = Vec::with_capacity(self.words + self.more_frames.len());
        for (stack, _) in &self.stacks {
            all.extend(stack.frames.iter().map(|&frame| (stack.program, frame)));
        }
        all.extend(&self.more_frames);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The size of [`Samples::each_blob`]'s output, in words, without the names of functions.
    pub(super) fn estimate(&self) -> usize {
        self.words + self.all.len() * SAMPLE_WORDS
    }

    /// Passes the blobs of a file to `put`, one after the other, each with the number of samples in it.
    pub(super) fn each_blob<'a>(
        &self,
        known: impl Fn(usize, u64) -> Known<'a>,
        mut put: impl FnMut(&[u8], u64),
    ) {
        let mut blobs = Blobs::default();
        let mut put_done = |blobs: &mut Blobs, sequence: &mut Sequence| {
            sequence.packets.drain(..).for_each(|packet| blobs.put(&packet));
            blobs.done.drain(..).for_each(|(blob, samples)| put(&blob, samples));
        };
        for kind in [Kind::OffCpu, Kind::Wake, Kind::Cpu] {
            let of_kind: Vec<&(Sample, u32)> =
                self.all.iter().filter(|(sample, _)| sample.kind == kind).collect();
            let Some((first, _)) = of_kind.first() else { continue };
            // If two files are merged, their sequences must differ; no two of them begin at the same time.
            let id = first.time.0 as u32 >> 2 << 2 | NUMBER[kind as usize];
            let mut sequence = Sequence::new(kind, id, true);
            let numbers: FxHashSet<u32> = of_kind.iter().map(|(_, number)| *number).collect();
            for number in numbers {
                let stack = &self.stacks[number as usize].0;
                let frames = stack.frames.iter();
                let frames = frames.map(|&address| (address, known(stack.program, address)));
                sequence.stack(u64::from(number) + 1, frames);
                put_done(&mut blobs, &mut sequence);
            }
            sequence.put_interned();
            for (sample, number) in of_kind {
                sequence.sample(sample, u64::from(*number) + 1);
                put_done(&mut blobs, &mut sequence);
                blobs.samples += 1;
            }
        }
        blobs.finish().iter().for_each(|(blob, samples)| put(blob, *samples));
    }

    #[cfg(test)]
    fn blobs<'a>(&self, known: impl Fn(usize, u64) -> Known<'a>) -> Vec<Vec<u8>> {
        let mut blobs = Vec::new();
        self.each_blob(known, |blob, _| blobs.push(blob.to_vec()));
        blobs
    }
}

/// Packs packets into blobs; no packet is split.
#[derive(Debug, Default)]
struct Blobs {
    /// Each with the number of its samples.
    done: Vec<(Vec<u8>, u64)>,
    blob: Message,
    /// The number of samples in the blob.
    samples: u64,
}

impl Blobs {
    fn put(&mut self, packet: &Message) {
        const HEAD: usize = 8;
        if !self.blob.0.is_empty() && self.blob.0.len() + packet.0.len() + HEAD > BLOB_BYTES {
            let samples = std::mem::take(&mut self.samples);
            self.done.push((std::mem::take(&mut self.blob.0), samples));
        }
        self.blob.bytes(1, &packet.0);
    }

    fn finish(mut self) -> Vec<(Vec<u8>, u64)> {
        if !self.blob.0.is_empty() {
            self.done.push((self.blob.0, self.samples));
        }
        self.done
    }
}

/// Builds the packets of one kind.
#[derive(Debug)]
pub struct Sequence {
    /// Complete packets, for the caller to take.
    pub packets: Vec<Message>,
    kind: Kind,
    id: u32,
    /// Whether weights are times.
    is_timed: bool,
    data: Message,
    functions: FxHashMap<String, u64>,
    /// By path and beginning: two programs may have the same file at different addresses.
    mappings: FxHashMap<(String, u64), u64>,
    frames: FxHashMap<(u64, u64, u64), u64>,
    /// Samples by their frames, if the caller has no numbers for them.
    stacks: FxHashMap<Box<[u64]>, u64>,
}

/// The lowest bits of sequence numbers in blobs.
const NUMBER: [u32; 3] = [1, 2, 3];

fn numbered(number: u64, field: u64, bytes: &[u8]) -> Message {
    let mut message = Message::default();
    message.number(1, number);
    message.bytes(field, bytes);
    message
}

impl Sequence {
    /// Packets with this sequence number. The weights of samples are times if `is_timed`; otherwise they count samples.
    pub fn new(kind: Kind, id: u32, is_timed: bool) -> Sequence {
        let (packets, data) = Default::default();
        let (functions, mappings, frames, stacks) = Default::default();
        let mut sequence =
            Sequence { packets, kind, id, is_timed, data, functions, mappings, frames, stacks };
        sequence.begin();
        sequence
    }

    /// Clears everything that later packets could refer to, as readers do at the packet that this adds.
    fn begin(&mut self) {
        const NANOSECONDS: u64 = 1;
        const SAMPLES: u64 = 9;
        self.put_interned();
        (self.functions, self.mappings, self.frames, self.stacks) = Default::default();
        let (source, name) = match (self.kind, self.is_timed) {
            (Kind::OffCpu, _) => ("fxtrec.offcpu", "off-CPU time"),
            (Kind::Wake, _) => ("fxtrec.wake", "time that others waited"),
            (Kind::Cpu, true) => ("fxtrec.cpu", "CPU time"),
            (Kind::Cpu, false) => ("fxtrec.cpu", "samples"),
        };
        let mut descriptor = numbered(self.kind as u64 + 1, 2, name.as_bytes());
        descriptor.number(3, if self.is_timed { NANOSECONDS } else { SAMPLES });
        let mut defaults = Message::default();
        defaults.bytes(1, source.as_bytes());
        defaults.bytes(2, &descriptor.0);
        let mut of_packets = Message::default();
        of_packets.bytes(100, &defaults.0);
        let mut packet = Message::default();
        packet.number(packet::SEQUENCE, self.id.into());
        packet.number(packet::FLAGS, packet::CLEARED);
        packet.bytes(packet::DEFAULTS, &of_packets.0);
        self.packets.push(packet);
    }

    /// Adds a sample with its frames, the innermost first.
    pub fn add<'a>(
        &mut self,
        sample: &Sample,
        frames: impl DoubleEndedIterator<Item = (u64, Known<'a>)>,
    ) {
        if self.stacks.len() >= MOST_STACKS || self.frames.len() >= MOST_STACKS {
            self.begin();
        }
        let frames: Box<[u64]> =
            frames.rev().map(|(address, known)| self.frame(address, known)).collect();
        let number = match self.stacks.get(&frames) {
            Some(&number) => number,
            None => {
                let number = self.stacks.len() as u64 + 1;
                self.put_stack(number, &frames);
                self.stacks.insert(frames, number);
                number
            }
        };
        self.put_interned();
        self.sample(sample, number);
    }

    fn packet(&self) -> Message {
        let mut packet = Message::default();
        packet.number(packet::SEQUENCE, self.id.into());
        packet.number(packet::FLAGS, packet::NEEDS_STATE);
        packet
    }

    /// Writes the data that samples refer to.
    fn put_interned(&mut self) {
        let data = std::mem::take(&mut self.data);
        if data.0.is_empty() {
            return;
        }
        let mut packet = self.packet();
        packet.bytes(packet::INTERNED, &data.0);
        self.packets.push(packet);
    }

    fn intern(&mut self, field: u64, message: &Message) {
        if self.data.0.len() + message.0.len() > PACKET_BYTES {
            self.put_interned();
        }
        self.data.bytes(field, &message.0);
    }

    fn function(&mut self, name: &str) -> u64 {
        if let Some(&known) = self.functions.get(name) {
            return known;
        }
        let number = self.functions.len() as u64 + 1;
        self.functions.insert(name.to_owned(), number);
        self.intern(interned::FUNCTIONS, &numbered(number, 2, name.as_bytes()));
        number
    }

    fn mapping(&mut self, module: Module<'_>) -> u64 {
        let key = (module.path.to_owned(), module.start);
        if let Some(&known) = self.mappings.get(&key) {
            return known;
        }
        let number = self.mappings.len() as u64 + 1;
        self.mappings.insert(key, number);
        self.intern(interned::PATHS, &numbered(number, 2, module.path.as_bytes()));
        self.intern(interned::BUILD_IDS, &numbered(number, 2, module.build_id));
        let mut mapping = Message::default();
        mapping.number(1, number);
        mapping.number(2, number);
        mapping.number(4, module.start);
        mapping.number(5, module.end);
        mapping.number(7, number);
        self.intern(interned::MAPPINGS, &mapping);
        number
    }

    fn frame(&mut self, address: u64, known: Known<'_>) -> u64 {
        let within = known.module.map_or(address, |module| {
            address.wrapping_sub(module.start).wrapping_add(module.address)
        });
        let function = match (known.function, known.module) {
            (Some(name), _) => self.function(start_of(name)),
            (None, Some(module)) => self.function(&label(module.path, within)),
            (None, None) => self.function(&format!("{address:#x}")),
        };
        // If the file is unknown, a file without a name represents all of these.
        let nowhere = Module { path: "", build_id: &[], start: 0, end: 0, address: 0 };
        let mapping = self.mapping(known.module.unwrap_or(nowhere));
        let key = (function, mapping, within);
        if let Some(&frame) = self.frames.get(&key) {
            return frame;
        }
        let number = self.frames.len() as u64 + 1;
        self.frames.insert(key, number);
        let mut frame = Message::default();
        frame.number(1, number);
        frame.number(2, function);
        frame.number(3, mapping);
        frame.number(4, within);
        self.intern(interned::FRAMES, &frame);
        number
    }

    /// Writes the frames of the stack with this number, the innermost first.
    fn stack<'a>(
        &mut self,
        number: u64,
        frames: impl DoubleEndedIterator<Item = (u64, Known<'a>)>,
    ) {
        let frames: Vec<u64> =
            frames.rev().map(|(address, known)| self.frame(address, known)).collect();
        self.put_stack(number, &frames);
    }

    fn put_stack(&mut self, number: u64, frames: &[u64]) {
        let mut message = Message::default();
        message.number(1, number);
        frames.iter().for_each(|frame| message.number(2, *frame));
        self.intern(interned::STACKS, &message);
    }

    fn sample(&mut self, sample: &Sample, stack: u64) {
        let mut task = Message::default();
        task.number(sample::TASK_PID, sample.process.into());
        task.number(sample::TASK_TID, sample.thread.into());
        let mut message = Message::default();
        message.bytes(sample::TASK, &task.0);
        message.number(sample::STACK, stack);
        let lacks: Vec<&str> = PROBLEMS
            .iter()
            .filter(|(bit, _)| u32::from(sample.problems) & bit != 0)
            .map(|(_, words)| *words)
            .collect();
        if !lacks.is_empty() {
            message.bytes(sample::ERROR, lacks.join(", ").as_bytes());
        }
        message.number(sample::WEIGHT, sample.weight);
        let mut packet = Message::default();
        packet.number(packet::TIMESTAMP, sample.time.0);
        packet.0.extend(self.packet().0);
        packet.bytes(packet::STACK_SAMPLE, &message.0);
        self.packets.push(packet);
    }
}

/// The label of a frame's function if only its offset in the file is known.
fn label(path: &str, within: u64) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    format!("{file}+{within:#x}")
}

fn start_of(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// The time, process and thread of a sample, as stored in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub time: u64,
    pub process: u64,
    pub thread: u64,
}

/// Rewrites a blob for another trace: `change` gives each sample's new time, process and thread, or `None` to leave it out. `None` if the
/// blob is damaged.
pub fn rewrite(payload: &[u8], mut change: impl FnMut(About) -> Option<About>) -> Option<Vec<u8>> {
    let mut blob = Message::default();
    for field in fields(payload)? {
        let (1, FieldValue::Bytes(packet)) = (field.number, field.value) else { return None };
        if let Some(packet) = rewrite_packet(packet, &mut change)? {
            blob.bytes(1, &packet.0);
        }
    }
    Some(blob.0)
}

fn find<'a>(fields: &[Field<'a>], number: u64) -> Option<FieldValue<'a>> {
    fields.iter().find(|field| field.number == number).map(|field| field.value)
}

fn number_of(fields: &[Field<'_>], number: u64) -> Option<u64> {
    match find(fields, number)? {
        FieldValue::Number(value) => Some(value),
        FieldValue::Bytes(_) => None,
    }
}

/// Calls `tell` with the kind, the [`About`] and the weight of each sample of a blob, up to the first damage.
pub fn weights(payload: &[u8], mut tell: impl FnMut(Kind, About, u64)) -> Option<()> {
    for field in fields(payload)? {
        let (1, FieldValue::Bytes(packet)) = (field.number, field.value) else { return None };
        let of_packet = fields(packet)?;
        let Some(FieldValue::Bytes(sample)) = find(&of_packet, packet::STACK_SAMPLE) else {
            continue;
        };
        let of_sample = fields(sample)?;
        let about = about(&of_packet, &of_sample)?;
        let sequence = number_of(&of_packet, packet::SEQUENCE)?;
        let kind = match sequence as u32 & 3 {
            it if it == NUMBER[Kind::OffCpu as usize] => Kind::OffCpu,
            it if it == NUMBER[Kind::Wake as usize] => Kind::Wake,
            it if it == NUMBER[Kind::Cpu as usize] => Kind::Cpu,
            _ => return None,
        };
        tell(kind, about, number_of(&of_sample, sample::WEIGHT).unwrap_or(0));
    }
    Some(())
}

fn about(of_packet: &[Field<'_>], of_sample: &[Field<'_>]) -> Option<About> {
    let Some(FieldValue::Bytes(task)) = find(of_sample, sample::TASK) else { return None };
    let of_task = fields(task)?;
    Some(About {
        time: number_of(of_packet, packet::TIMESTAMP)?,
        process: number_of(&of_task, sample::TASK_PID).unwrap_or(0),
        thread: number_of(&of_task, sample::TASK_TID).unwrap_or(0),
    })
}

/// The outer `None` means damaged data, the inner one a sample that is left out.
fn rewrite_packet(
    packet: &[u8],
    change: &mut impl FnMut(About) -> Option<About>,
) -> Option<Option<Message>> {
    let of_packet = fields(packet)?;
    let mut new = Message::default();
    let Some(FieldValue::Bytes(sample)) = find(&of_packet, packet::STACK_SAMPLE) else {
        of_packet.iter().for_each(|field| new.field(field));
        return Some(Some(new));
    };
    let of_sample = fields(sample)?;
    let about = about(&of_packet, &of_sample)?;
    let Some(About { time, process, thread }) = change(about) else { return Some(None) };
    let mut task = Message::default();
    task.number(sample::TASK_PID, u64::from(process as u32));
    task.number(sample::TASK_TID, u64::from(thread as u32));
    let mut new_sample = Message::default();
    for field in &of_sample {
        match field.number {
            sample::TASK => new_sample.bytes(sample::TASK, &task.0),
            _ => new_sample.field(field),
        }
    }
    for field in &of_packet {
        match field.number {
            packet::TIMESTAMP => new.number(packet::TIMESTAMP, time),
            packet::STACK_SAMPLE => new.bytes(packet::STACK_SAMPLE, &new_sample.0),
            _ => new.field(field),
        }
    }
    Some(Some(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample(kind: Kind, time: u64, weight: u64) -> Sample {
        Sample { kind, time: Nanos(time), process: 40, thread: 41, weight, problems: 0 }
    }

    pub(super) fn known(_: usize, address: u64) -> Known<'static> {
        let module = Module {
            path: "/lib/x.so",
            build_id: &[1, 2],
            start: 0x7000,
            end: 0x8000,
            address: 0x200,
        };
        Known {
            function: (address == 0x7010).then_some("waits"),
            module: (0x7000..0x8000).contains(&address).then_some(module),
        }
    }

    /// For each sample: time, thread, weight, and the functions from the innermost on.
    pub(super) fn read(blobs: &[Vec<u8>]) -> Vec<(u64, u64, u64, Vec<String>)> {
        let (mut functions, mut frames, mut stacks, mut found): (
            FxHashMap<_, _>,
            FxHashMap<_, _>,
            FxHashMap<_, _>,
            Vec<_>,
        ) = Default::default();
        let bytes = |value| match value {
            FieldValue::Bytes(bytes) => bytes,
            FieldValue::Number(number) => panic!("{number}"),
        };
        for packet in blobs.iter().flat_map(|blob| fields(blob).expect("sound")) {
            let packet = fields(bytes(packet.value)).expect("sound");
            let sequence = number_of(&packet, packet::SEQUENCE).expect("a sequence");
            for item in find(&packet, packet::INTERNED)
                .into_iter()
                .flat_map(|data| fields(bytes(data)).expect("sound"))
            {
                let of_item = fields(bytes(item.value)).expect("sound");
                let key = (sequence, number_of(&of_item, 1).expect("a number"));
                match item.number {
                    interned::FUNCTIONS => {
                        let name = bytes(find(&of_item, 2).expect("a name")).to_vec();
                        functions.insert(key, String::from_utf8(name).expect("text"));
                    }
                    interned::FRAMES => {
                        frames.insert(key, number_of(&of_item, 2).expect("a function"));
                    }
                    interned::STACKS => {
                        let all = of_item.iter().filter(|field| field.number == 2);
                        let number = |field: &Field<'_>| match field.value {
                            FieldValue::Number(number) => number,
                            FieldValue::Bytes(_) => panic!("{field:?}"),
                        };
                        stacks.insert(key, all.map(number).collect::<Vec<u64>>());
                    }
                    _ => {}
                }
            }
            let Some(sample) = find(&packet, packet::STACK_SAMPLE) else { continue };
            let sample = fields(bytes(sample)).expect("sound");
            let task = fields(bytes(find(&sample, sample::TASK).expect("a task"))).expect("sound");
            let stack = &stacks[&(sequence, number_of(&sample, sample::STACK).expect("a stack"))];
            let name = |frame: &u64| functions[&(sequence, frames[&(sequence, *frame)])].clone();
            found.push((
                number_of(&packet, packet::TIMESTAMP).expect("a time"),
                number_of(&task, sample::TASK_TID).expect("a thread"),
                number_of(&sample, sample::WEIGHT).expect("a weight"),
                stack.iter().rev().map(name).collect(),
            ));
        }
        found
    }

    fn two() -> Samples {
        let mut samples = Samples::default();
        samples.add(sample(Kind::OffCpu, 1000, 7), 1, &[0x7010, 0x7020, 0x9000]);
        samples.add(sample(Kind::Cpu, 2000, 8), 1, &[0x7010]);
        samples
    }

    #[test]
    fn each_sample_has_its_functions_and_what_has_no_name_its_place() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let read = read(&two().blobs(known));
        let expected = [
            (1000, 41, 7, names(&["waits", "x.so+0x220", "0x9000"])),
            (2000, 41, 8, names(&["waits"])),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn many_samples_are_put_into_several_blobs() {
        let mut samples = Samples::default();
        for at in 0..5000 {
            samples.add(sample(Kind::OffCpu, 1000 + at, 1 + at), 1, &[0x7010, 0x7020 + at % 900]);
        }
        let blobs = samples.blobs(known);
        assert!(blobs.len() > 2 && blobs.iter().all(|blob| blob.len() <= BLOB_BYTES));
        let read = read(&blobs);
        assert_eq!(read.len(), 5000);
        for (at, (time, _, weight, names)) in (0..).zip(read) {
            assert_eq!((time, weight), (1000 + at, 1 + at));
            assert_eq!(names[1], format!("x.so+{:#x}", 0x220 + at % 900));
        }
    }

    #[test]
    fn of_samples_that_roll_the_newest_are_there() {
        let mut samples = Samples::rolling();
        for at in 0..10 {
            samples.add(sample(Kind::OffCpu, 1000 + at, 1), 1, &[0x7000 + at]);
        }
        // One nanosecond each.
        samples.forget_before(Nanos(1009));
        assert_eq!(samples.frames(), [(1, 0x7008), (1, 0x7009)]);
        let times: Vec<u64> = read(&samples.blobs(known)).iter().map(|sample| sample.0).collect();
        assert_eq!(times, [1008, 1009]);
    }

    #[test]
    fn samples_that_go_take_their_stacks_with_them_and_no_others() {
        let mut samples = Samples::rolling();
        let rounds = 200;
        for at in 0..rounds * 1000 {
            // Every tenth stack is a repetition.
            let frames = if at % 10 == 0 { [0x7000, 0x7001] } else { [0x7002, 0x8000 + at] };
            samples.add(sample(Kind::Cpu, 1000 + at, 1), 1, &frames);
            samples.forget_before(Nanos((1000 + at).saturating_sub(99)));
            assert!(samples.all.len() <= 100 && samples.stacks.len() <= 92, "{at}");
            assert_eq!(samples.words, (2 + STACK_WORDS) * samples.numbers.len());
        }
        assert_eq!(samples.frames().len(), 93);
        assert_eq!(samples.left_out(), 0);
    }

    #[test]
    fn a_blob_for_another_trace_has_what_is_asked_for() {
        let blobs = two().blobs(known);
        let later = |about: About| {
            (about.time > 1500).then_some(About { time: about.time + 5, thread: 77, ..about })
        };
        let blobs: Vec<Vec<u8>> =
            blobs.iter().map(|blob| rewrite(blob, later).expect("sound")).collect();
        assert_eq!(read(&blobs), [(2005, 77, 8, vec!["waits".to_owned()])]);
        let mut reported = Vec::new();
        let mut tell = |kind, about: About, weight| reported.push((kind, about.thread, weight));
        blobs.iter().for_each(|blob| weights(blob, &mut tell).expect("sound"));
        assert_eq!(reported, [(Kind::Cpu, 77, 8)]);
        assert_eq!(rewrite(&[10, 200, 1], Some), None);
    }
}
