//! The thread that reads samples and finds out which code they are in.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Counts;
use super::images::Images;
use super::lives::{Life, Lives, is_user};
use super::made::{Made, is_made};
use super::rings::Rings;
use super::unwind::{Cache, Code, Stack, Unwinder};
use fxtrec_kernel::bpf::stacks::{
    KERNEL_FRAMES, Sample, SampleKind, USER_FRAMES, UserStack, Walked, Wanted,
};
use fxtrec_kernel::clock;
use fxtrec_kernel::code::{self, ExecutableMapping, KernelCode};
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_sched::backtrace::{Kind, link_flags, problem};
use fxtrec_units::{Nanos, Pid, Tid};

/// How often the ring is looked at. It has room for what some thousand long waits leave.
const LOOK: Duration = Duration::from_millis(10);

/// The same while there is nothing, neither samples nor code, and nobody asked for stacks.
const QUIET: Duration = Duration::from_millis(80);

/// For how long a program of a recording that is kept in parts is known that has no stack.
const FORGET: Nanos = Nanos(300_000_000_000);

/// The kernel among the programs.
pub(super) const KERNEL: usize = 0;

/// A file or a part of the kernel with code, as a program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) id: u16,
    pub(super) name: String,
    pub(super) build_id: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) module: u16,
    pub(super) flags: u8,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) module_address: u64,
}

/// What the capture thread is told. A program is what a process runs from one execve(2) to the next; they are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Code {
        program: usize,
        tid: Tid,
        until: Nanos,
        modules: Vec<Module>,
        mappings: Vec<Mapping>,
    },
    Stack {
        program: usize,
        tid: Tid,
        /// When the thread was there.
        since: Nanos,
        until: Nanos,
        /// For how long it was, or how long the wait was that it ended, or what it stands for.
        weight: u64,
        flags: u32,
        frames: Vec<u64>,
    },
    /// The name of the function that a program counter is in.
    Symbol {
        program: usize,
        address: u64,
        name: String,
    },
    /// The program had no stack for a long time, and if it has one again it is another program.
    Over {
        program: usize,
    },
    /// All that there was when somebody asked has been told, with these counts.
    Settled(Counts),
}

impl Told {
    /// When what it is about had happened.
    pub(super) fn until(&self) -> Nanos {
        match self {
            Told::Code { until, .. } | Told::Stack { until, .. } => *until,
            Told::Symbol { .. } | Told::Over { .. } | Told::Settled(_) => Nanos(0),
        }
    }
}

/// What is known of a program.
#[derive(Debug, Default)]
struct Program {
    pid: u32,
    /// Those that were told: a frame is in them.
    mappings: Vec<Mapping>,
    /// For each module, by its number: where its file is kept.
    images: FxHashMap<u16, Option<usize>>,
    unwinder: Unwinder,
    /// All that there were when its mappings were read last.
    found: Arc<Vec<ExecutableMapping>>,
    /// Frames that are in no mapping.
    nowhere: FxHashSet<u64>,
    /// What it has compiled itself.
    made: Made,
    /// The look at the ring in which its mappings were read last.
    read_in: Option<u64>,
    /// Whether its mappings could not be read once.
    failed: bool,
    /// Whether the capture thread knows whose it is.
    told: bool,
    /// When its last sample was.
    last: Nanos,
}

impl Program {
    fn mapping(&self, frame: u64) -> Option<&Mapping> {
        // Later ones first: they may have taken the place of earlier ones.
        self.mappings.iter().rev().find(|mapping| (mapping.start..mapping.end).contains(&frame))
    }

    /// How many frames there are before the first that is no code. Behind a function without a frame pointer, whatever a
    /// register held is taken for the address of a frame, and what is there for one in the code.
    fn whole(&self, frames: &[u64]) -> usize {
        let is_code = |frame: u64| self.mapping(frame).is_some() || self.finds(frame);
        let end = frames.iter().position(|&frame| !is_code(frame));
        // Of a process that nobody could look into, nothing is known.
        end.filter(|_| !self.found.is_empty()).unwrap_or(frames.len())
    }

    /// Whether a frame is in what was read last.
    fn finds(&self, frame: u64) -> bool {
        self.found.iter().any(|mapping| mapping.has(frame))
    }
}

/// A frame of a program, and whether it is where a call returns to.
type Frame = (usize, u64, bool);

/// The frames of all stacks, each once.
#[derive(Debug, Default)]
struct Frames {
    /// One that is both is the same function, but where a call is the last of what a function does.
    all: FxHashMap<(usize, u64), bool>,
    /// Those whose functions were not asked for yet.
    new: Vec<(usize, u64)>,
    /// Those that will have a name when a file ends, if at all.
    later: Vec<(usize, u64)>,
}

impl Frames {
    fn note(&mut self, (program, frame, returned_to): Frame) {
        match self.all.entry((program, frame)) {
            Entry::Occupied(mut known) => *known.get_mut() &= returned_to,
            Entry::Vacant(place) => {
                place.insert(returned_to);
                self.new.push((program, frame));
            }
        }
    }

    /// The new ones, to be taken from the end; with those for the end of a file if this is one.
    fn take_new(&mut self, is_end: bool) -> Vec<Frame> {
        let mut new = std::mem::take(&mut self.new);
        if is_end {
            new.append(&mut self.later);
        }
        // One file after the other.
        new.sort_unstable_by(|one, other| other.cmp(one));
        let frame = |key: (usize, u64)| Some((key.0, key.1, *self.all.get(&key)?));
        new.into_iter().filter_map(frame).collect()
    }

    fn put_back(&mut self, frames: Vec<Frame>) {
        self.new.extend(frames.into_iter().map(|(program, frame, _)| (program, frame)));
    }

    fn forget(&mut self, programs: &FxHashSet<usize>) {
        self.all.retain(|(program, _), _| !programs.contains(program));
        self.new.retain(|(program, _)| !programs.contains(program));
        self.later.retain(|(program, _)| !programs.contains(program));
    }
}

#[derive(Debug)]
pub(super) struct Collector {
    rings: Rings,
    to: Sender<Told>,
    /// Somebody wants to know all that there is by now.
    asked: Receiver<()>,
    /// Whether functions are named while others are recorded, since a part of the recording may end at any time.
    in_parts: bool,
    /// Whether functions get names at all.
    symbols: bool,
    /// What a sample of a running thread stands for, in nanoseconds.
    period: u64,
    /// Whether stacks are those of chosen processes: see [`Wanted`].
    chosen: bool,
    /// Which samples have been told, by when they were over.
    handled: Arc<AtomicU64>,
    programs: FxHashMap<usize, Program>,
    /// The number of the next new one.
    next_program: usize,
    /// By their memory, and by when they were begun, if that was told: the next one's memory may be at the same place.
    by_process: FxHashMap<(Pid, u64, Nanos), usize>,
    /// How many modules each process had by now, in all programs that it ran; the kernel is process 0.
    modules: FxHashMap<u32, u16>,
    lives: Lives,
    kernel: Option<KernelCode>,
    images: Images,
    cache: Cache,
    user_stacks: FxHashMap<u32, Arc<[u64]>>,
    frames: Frames,
    /// For each thread that was woken from a long wait: since when it waited, and the stack of who woke it.
    wakes: FxHashMap<Tid, (Nanos, Told)>,
    /// How many waits have the stack of their end.
    links: u64,
    counts: Counts,
    looks: u64,
    /// When the ring was looked at last.
    fetched: Instant,
    /// What was in it and is to be told.
    samples: VecDeque<Sample>,
    /// When the last wait ended.
    last: Nanos,
    /// When programs were forgotten last.
    forgotten: Nanos,
}

impl Counts {
    /// Counts what a stack lacks.
    fn note(&mut self, problems: u32) {
        for (bit, count) in [
            (problem::KERNEL_UNREADABLE, &mut self.kernel_unreadable),
            (problem::KERNEL_TOO_DEEP, &mut self.kernel_too_deep),
            (problem::USER_UNREADABLE, &mut self.user_unreadable),
            (problem::USER_TOO_DEEP, &mut self.user_too_deep),
            (problem::USER_NO_ROOM, &mut self.user_no_room),
            (problem::USER_CUT, &mut self.user_cut),
            (problem::USER_UNPROVED, &mut self.user_unproved),
        ] {
            *count += u64::from(problems & bit != 0);
        }
    }
}

impl Collector {
    /// Tells `to`. `asked` is for recordings that are kept in parts, of which each has the names that it needs.
    pub(super) fn new(
        rings: Rings,
        (wanted, symbols): (Wanted, bool),
        to: Sender<Told>,
        (asked, in_parts): (Receiver<()>, bool),
        handled: Arc<AtomicU64>,
    ) -> Collector {
        Collector {
            rings,
            to,
            asked,
            in_parts,
            symbols,
            handled,
            chosen: wanted.chosen,
            period: 1_000_000_000 / u64::from(wanted.frequency.unwrap_or(1).max(1)),
            programs: FxHashMap::from_iter([(KERNEL, Program::default())]),
            next_program: KERNEL + 1,
            by_process: FxHashMap::default(),
            modules: FxHashMap::default(),
            lives: Lives::default(),
            kernel: None,
            images: Images::default(),
            cache: Cache::default(),
            user_stacks: FxHashMap::default(),
            frames: Frames::default(),
            wakes: FxHashMap::default(),
            links: 0,
            counts: Counts::default(),
            looks: 0,
            fetched: Instant::now(),
            samples: VecDeque::new(),
            last: Nanos(0),
            forgotten: Nanos(0),
        }
    }

    /// Reads until `stop` says so, and then what is left; names functions last.
    pub(super) fn run(mut self, stop: &StopToken) -> Counts {
        self.rings.be_taken_by_this_thread();
        if self.rings.has_own_stacks() {
            // To tell the tracepoint's own functions from the rest.
            self.kernel.get_or_insert_with(KernelCode::read);
        }
        let mut pause = LOOK;
        while !stop.is_stopped() {
            // Who asks does so before this look.
            let is_asked = self.asked.try_recv().is_ok();
            // A short program whose code nobody told of must be asked before it ends, where somebody asked for stacks.
            let is_quiet = !self.look() && self.chosen;
            pause = if is_quiet { (2 * pause).min(QUIET) } else { LOOK };
            if is_asked {
                self.name_rest();
                self.tell(Told::Settled(self.counts()));
            } else if self.in_parts {
                self.name_functions(Some(LOOK / 4));
                self.forget_old();
            }
            // Who asks does so first, and then has it hurry.
            if self.asked.is_empty() {
                self.rings.let_others_go();
            }
            if stop.wait(std::iter::empty(), pause).is_err() {
                break;
            }
        }
        self.rings.detach();
        self.look();
        self.name_rest();
        self.counts()
    }

    fn counts(&self) -> Counts {
        let missing = self.rings.missing();
        Counts {
            lost: self.counts.lost + missing.no_room,
            unseen: missing.unseen,
            given_up: missing.given_up,
            lost_mappings: self.lives.lost(),
            ..self.counts
        }
    }

    /// Whether there was anything.
    fn look(&mut self) -> bool {
        let found = self.fetch();
        while let Some(sample) = self.samples.pop_front() {
            self.take(&sample);
            // A large file may take a while, and in the meantime processes begin and end.
            if self.fetched.elapsed() >= LOOK {
                self.fetch();
            }
        }
        found
    }

    /// Takes over what is in the ring, and looks at once into the processes that are new: they may end soon.
    fn fetch(&mut self) -> bool {
        self.looks += 1;
        self.fetched = Instant::now();
        let read = self.rings.take();
        self.counts.lost += read.garbled;
        let now = read.until;
        let found = !read.is_empty();
        read.code().for_each(|record| self.lives.note(record));
        let new = read.samples;
        // Finding files and names may have taken longer than what has ended is remembered.
        let waiting = self.samples.front().map(|sample| sample.since);
        self.lives.need(waiting);
        self.handled.store(waiting.unwrap_or(now).0, Ordering::Relaxed);
        self.lives.settle(now, |pid| code::executable_mappings(pid.0).unwrap_or_default());
        for sample in &new {
            let frames = match &sample.user {
                UserStack::Walked(walked) => walked.frames.clone(),
                UserStack::Number(number) => self.in_table(*number).to_vec(),
                UserStack::NoProgram | UserStack::Unreadable | UserStack::NoRoom => Vec::new(),
            };
            let Some(&first) = frames.first() else { continue };
            let number = self.program(sample);
            let program = &self.programs[&number];
            if !program.finds(first) && program.read_in != Some(self.looks) {
                self.read_mappings(number, &frames, sample);
            }
        }
        self.samples.extend(new);
        if !read.is_late {
            self.rings.let_others_go();
        }
        found
    }

    /// A stack of the kernel's table.
    fn in_table(&mut self, number: u32) -> Arc<[u64]> {
        let (known, rings) = (&mut self.user_stacks, &self.rings);
        let read = || rings.user_stack(number).unwrap_or_default().into();
        known.entry(number).or_insert_with(read).clone()
    }

    fn take(&mut self, sample: &Sample) {
        let mut problems = 0;
        let kernel = match &sample.kernel {
            Some(frames) => self.without_tracepoint(sample.kind, frames),
            None => {
                problems |= problem::KERNEL_UNREADABLE;
                &[]
            }
        };
        if kernel.len() >= KERNEL_FRAMES {
            problems |= problem::KERNEL_TOO_DEEP;
        }
        // The kernel does not go away: what is known of it is read at the end, which takes a while.
        for (at, &frame) in kernel.iter().enumerate() {
            self.frames.note((KERNEL, frame, at > 0));
        }
        self.last = self.last.max(sample.until);
        let (user, of_user) = self.user_part(sample);
        problems |= of_user;
        self.counts.note(problems);
        let frames = [kernel, &user].concat();
        let program = if user.is_empty() { KERNEL } else { self.program(sample) };
        let Sample { tid, since, until, .. } = *sample;
        let length = until.0.saturating_sub(since.0);
        match sample.kind {
            SampleKind::OffCpu => {
                let mut flags = problems | Kind::OffCpu.flags();
                let wake = self.wakes.remove(&tid).filter(|(of, _)| *of == since);
                if let Some((_, mut told)) = wake {
                    let link = link_flags(self.links);
                    self.links += 1;
                    flags |= link;
                    if let Told::Stack { flags, .. } = &mut told {
                        *flags |= link;
                    }
                    self.tell(told);
                }
                self.tell(Told::Stack {
                    program,
                    tid,
                    since,
                    until,
                    weight: length,
                    flags,
                    frames,
                });
            }
            SampleKind::Wake(woken) => {
                let flags = problems | Kind::Wake.flags();
                let (weight, at) = (length, until);
                let told = Told::Stack { program, tid, since: at, until, weight, flags, frames };
                self.wakes.insert(woken, (since, told));
            }
            SampleKind::Cpu => {
                let flags = problems | Kind::Cpu.flags();
                let weight = self.period;
                self.tell(Told::Stack { program, tid, since, until, weight, flags, frames });
            }
        }
    }

    /// A stack that was taken on a tracepoint begins with what takes it.
    fn without_tracepoint<'a>(&self, kind: SampleKind, frames: &'a [u64]) -> &'a [u64] {
        let (true, Some(code)) = (self.rings.is_own_stack(kind), &self.kernel) else {
            return frames;
        };
        let is_own = |&frame: &u64| {
            let name = code.symbol(frame.saturating_sub(1)).map_or("", |(name, _)| name);
            ["bpf_", "__bpf_", "__traceiter_", "perf_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        let own = frames.iter().take_while(|frame| is_own(frame)).count();
        &frames[own..]
    }

    /// The program's functions, the innermost first, and what they lack.
    fn user_part(&mut self, sample: &Sample) -> (Vec<u64>, u32) {
        match &sample.user {
            UserStack::NoProgram => (Vec::new(), 0),
            UserStack::Unreadable => (Vec::new(), problem::USER_UNREADABLE),
            UserStack::NoRoom => (Vec::new(), problem::USER_NO_ROOM),
            UserStack::Walked(walked) if walked.registers.instruction == 0 => {
                (Vec::new(), problem::USER_UNREADABLE)
            }
            UserStack::Walked(walked) => self.unwound(walked, sample),
            UserStack::Number(number) => {
                let user = self.in_table(*number);
                if user.is_empty() {
                    return (Vec::new(), problem::USER_UNREADABLE);
                }
                let mut problems = problem::USER_UNPROVED;
                if user.len() >= USER_FRAMES {
                    problems |= problem::USER_TOO_DEEP;
                }
                self.code_of(user.to_vec(), problems, sample)
            }
        }
    }

    fn unwound(&mut self, walked: &Walked, sample: &Sample) -> (Vec<u64>, u32) {
        let number = self.program(sample);
        let mut stack = Stack::new(walked);
        while let Some(address) = stack.next() {
            self.locate(number, address, &walked.frames, sample);
            let program = &self.programs[&number];
            let code = match program.mapping(address) {
                Some(mapping) => {
                    let image = program.images.get(&mapping.module).copied().flatten();
                    match image.and_then(|image| self.images.tables(image)) {
                        Some(_) => Code::Tables,
                        None => Code::NoTables,
                    }
                }
                None if program.finds(address) || program.found.is_empty() => Code::NoTables,
                None => Code::None,
            };
            stack.step(code, &program.unwinder, &mut self.cache);
        }
        let (frames, problems) = stack.finish();
        self.code_of(frames, problems, sample)
    }

    /// Of these frames those that are code, and tells which files they are in.
    fn code_of(&mut self, mut frames: Vec<u64>, problems: u32, sample: &Sample) -> (Vec<u64>, u32) {
        let code = self.user_frames(&frames, sample);
        let cut = if code < frames.len() { problem::USER_CUT } else { 0 };
        frames.truncate(code);
        (frames, problems | cut)
    }

    fn tell(&mut self, told: Told) {
        // The capture thread may be far behind; a stack that it has no room for is lost, and the rest may be needed later.
        match told {
            Told::Stack { .. } => {
                self.counts.lost += u64::from(self.to.try_send(told).is_err());
            }
            told => drop(self.to.send(told)),
        }
    }

    /// Tells which part of the kernel a frame is in, as far as that is new.
    fn kernel_frame(&mut self, frame: u64) {
        let program = self.programs.entry(KERNEL).or_default();
        if program.mapping(frame).is_some() {
            return;
        }
        let code = self.kernel.get_or_insert_with(KernelCode::read);
        let module = code.modules.iter().find(|it| (it.start..it.end).contains(&frame));
        let Some(module) = module else { return };
        let Some(id) = next_module(&mut self.modules, KERNEL_PROCESS) else { return };
        program.images.insert(id, None);
        let (start, end) = (module.start, module.end);
        let mapping = Mapping { module: id, flags: 0b101, start, end, module_address: 0 };
        program.mappings.push(mapping);
        let (name, build_id) = (module.name.clone(), module.build_id.clone());
        let modules = vec![Module { id, name, build_id }];
        let (tid, until) = (Tid::default(), self.last);
        self.tell(Told::Code { program: KERNEL, tid, until, modules, mappings: vec![mapping] });
    }

    /// The number of the program that a sample is of.
    fn program(&mut self, sample: &Sample) -> usize {
        let life = self.lives.of_sample(sample.pid, when(sample), sample.space);
        let key = (sample.pid, sample.space, life.map_or(Nanos(0), Life::since));
        let number = *self.by_process.entry(key).or_insert(self.next_program);
        self.next_program = self.next_program.max(number + 1);
        let program = self.programs.entry(number).or_default();
        program.pid = sample.pid.0;
        program.last = program.last.max(sample.until);
        if !std::mem::replace(&mut program.told, true) {
            // Names of functions need the process, also where nothing explains a frame.
            let (modules, mappings) = (Vec::new(), Vec::new());
            let Sample { tid, until, .. } = *sample;
            self.tell(Told::Code { program: number, tid, until, modules, mappings });
        }
        number
    }

    /// Tells which files the frames of a program are in, as far as that is new. How many frames are code.
    fn user_frames(&mut self, frames: &[u64], sample: &Sample) -> usize {
        let number = self.program(sample);
        for (at, &frame) in frames.iter().enumerate() {
            self.frames.note((number, frame, at > 0));
            self.locate(number, frame, frames, sample);
        }
        self.programs[&number].whole(frames)
    }

    /// Tells which file a frame is in, as far as that is new. `frames` are of the same program.
    fn locate(&mut self, number: usize, frame: u64, frames: &[u64], sample: &Sample) {
        let program = &self.programs[&number];
        if program.mapping(frame).is_some() || program.nowhere.contains(&frame) {
            return;
        }
        if !program.finds(frame) && program.read_in != Some(self.looks) {
            self.read_mappings(number, frames, sample);
        }
        self.tell_mapping(number, frame, sample);
    }

    fn read_mappings(&mut self, number: usize, frames: &[u64], sample: &Sample) {
        let program = self.programs.entry(number).or_default();
        // Whatever comes of it: a process that has ended is not asked for each of its frames.
        program.read_in = Some(self.looks);
        let is_its = |found: &Arc<Vec<ExecutableMapping>>| {
            found.iter().any(|mapping| frames.iter().any(|frame| mapping.has(*frame)))
        };
        let life = self.lives.of_sample(sample.pid, when(sample), sample.space);
        let told = life.map(|life| life.mappings().clone());
        let ask = || {
            let mut found = code::executable_mappings(sample.pid.0).unwrap_or_default();
            found.retain(is_user);
            Arc::new(found)
        };
        // By now the process may run another program, or a child of the one that blocked.
        if let Some(found) = told.filter(is_its).or_else(|| Some(ask()).filter(is_its)) {
            program.found = found;
        } else {
            let is_first = !std::mem::replace(&mut program.failed, true);
            self.counts.unknown_processes += u64::from(is_first && program.found.is_empty());
        }
    }

    /// Tells which file a frame is in.
    fn tell_mapping(&mut self, number: usize, frame: u64, sample: &Sample) {
        let program = self.programs.entry(number).or_default();
        let mapped = program.found.iter().find(|it| it.has(frame));
        if mapped.is_some_and(|mapping| is_made(&mapping.path)) {
            program.made.want(program.pid, frame);
        }
        // What a program has compiled itself is in no file.
        let is_named = |mapping: &&ExecutableMapping| !mapping.path.as_os_str().is_empty();
        let mapped = mapped.filter(is_named);
        let number_of = |_| next_module(&mut self.modules, program.pid);
        let (Some(mapped), Some(id)) = (mapped, mapped.and_then(number_of)) else {
            // Of a process that could not be looked into, another look may tell.
            if !program.found.is_empty() {
                program.nowhere.insert(frame);
            }
            return;
        };
        let image = self.images.of(sample.pid.0, mapped);
        let (build_id, module_address) = match image {
            Some(image) => (self.images.build_id(image), self.images.address(image, mapped)),
            None => (Vec::new(), mapped.offset),
        };
        let name = name_of(&mapped.path.to_string_lossy());
        let (start, end, flags) = (mapped.start, mapped.end, mapped.flags);
        let mapping = Mapping { module: id, flags, start, end, module_address };
        program.images.insert(id, image);
        program.mappings.push(mapping);
        if let Some(tables) = image.and_then(|image| self.images.tables(image)) {
            program.unwinder.add((start, end), module_address, tables);
        }
        let modules = vec![Module { id, name, build_id }];
        let Sample { tid, until, .. } = *sample;
        self.tell(Told::Code { program: number, tid, until, modules, mappings: vec![mapping] });
    }

    /// Tells the names of the functions that frames are in, of those that were not asked for before: until all are told, or
    /// the time is over.
    fn name_functions(&mut self, time: Option<Duration>) {
        let begun = Instant::now();
        let mut frames = self.frames.take_new(time.is_none());
        while let Some((number, address, returned_to)) = frames.pop() {
            // The call is before the place that it returns to, which may be another function's.
            let within = address.saturating_sub(u64::from(returned_to));
            let name = match number {
                KERNEL => {
                    self.kernel_frame(address);
                    if !self.symbols {
                        continue;
                    }
                    let code = self.kernel.get_or_insert_with(KernelCode::read);
                    code.symbol(within).map(|(name, _)| name.to_owned())
                }
                number if self.is_made(number, address) => {
                    // The map is not whole yet, and long.
                    if time.is_some() {
                        self.frames.later.push((number, address));
                        continue;
                    }
                    let program = self.programs.get_mut(&number);
                    let made = program.and_then(|it| it.made.function(it.pid, within));
                    made.map(str::to_owned)
                }
                // Its symbols are read in pieces then.
                number if self.symbols && self.has_many_symbols(number, within) => {
                    self.frames.later.push((number, address));
                    continue;
                }
                number if self.symbols => self.user_function(number, within),
                _ => None,
            };
            if let Some(name) = name {
                self.counts.symbols += 1;
                self.tell(Told::Symbol { program: number, address, name });
            }
            if time.is_some_and(|time| begun.elapsed() >= time) {
                break;
            }
            if self.fetched.elapsed() >= LOOK {
                self.fetch();
            }
        }
        self.frames.put_back(frames);
    }

    /// Tells all names that are left when a file of the recording ends: those of a file of code together, whichever programs it is of,
    /// so that its symbols are read in pieces and not kept.
    fn name_rest(&mut self) {
        let mut of_files: FxHashMap<usize, Vec<(u64, usize, u64)>> = FxHashMap::default();
        let mut others = Vec::new();
        for (number, address, returned_to) in self.frames.take_new(true) {
            let within = address.saturating_sub(u64::from(returned_to));
            let is_of_file = self.symbols && number != KERNEL && !self.is_made(number, address);
            match self.in_file(number, within).filter(|_| is_of_file) {
                Some((image, at)) => of_files.entry(image).or_default().push((at, number, address)),
                None => others.push((number, address, returned_to)),
            }
        }
        self.frames.put_back(others);
        self.name_functions(None);
        let mut of_files: Vec<_> = of_files.into_iter().collect();
        of_files.sort_unstable_by_key(|(image, _)| *image);
        for (image, mut frames) in of_files {
            frames.sort_unstable();
            let mut addresses: Vec<u64> = frames.iter().map(|(at, ..)| *at).collect();
            addresses.dedup();
            let mut names = FxHashMap::default();
            self.images.name_all(image, &addresses, |at, name| drop(names.insert(at, name)));
            for (at, program, address) in frames {
                if let Some(name) = names.get(&at).cloned() {
                    self.counts.symbols += 1;
                    self.tell(Told::Symbol { program, address, name });
                }
            }
            if self.fetched.elapsed() >= LOOK {
                self.fetch();
            }
        }
    }

    /// Forgets programs that had no stack for a long time: most have ended.
    fn forget_old(&mut self) {
        let now = clock::now();
        if now.0 < self.forgotten.0 + FORGET.0 / 4 {
            return;
        }
        self.forgotten = now;
        let since = now.0.saturating_sub(FORGET.0);
        let is_old = |(&number, program): (&usize, &Program)| {
            (number != KERNEL && program.last.0 < since).then_some(number)
        };
        let over: FxHashSet<usize> = self.programs.iter().filter_map(is_old).collect();
        if over.is_empty() {
            return;
        }
        self.programs.retain(|number, _| !over.contains(number));
        self.by_process.retain(|_, number| !over.contains(number));
        self.frames.forget(&over);
        let alive: FxHashSet<u32> = self.programs.values().map(|program| program.pid).collect();
        self.modules.retain(|pid, _| alive.contains(pid));
        self.wakes.retain(|_, (waits_since, _)| waits_since.0 >= since);
        for program in over {
            self.tell(Told::Over { program });
        }
    }

    fn is_made(&self, number: usize, address: u64) -> bool {
        self.programs.get(&number).is_some_and(|program| program.made.has(address))
    }

    fn user_function(&mut self, number: usize, address: u64) -> Option<String> {
        let (image, within) = self.in_file(number, address)?;
        self.images.function(image, within)
    }

    fn has_many_symbols(&self, number: usize, address: u64) -> bool {
        self.in_file(number, address).is_some_and(|(image, _)| self.images.has_many_symbols(image))
    }

    /// The file that has a program's address, and the address in it.
    fn in_file(&self, number: usize, address: u64) -> Option<(usize, u64)> {
        let program = self.programs.get(&number)?;
        let mapping = program.mapping(address)?;
        let image = (*program.images.get(&mapping.module)?)?;
        Some((image, (address - mapping.start).wrapping_add(mapping.module_address)))
    }
}

/// The kernel's own process id: that of the idle task.
const KERNEL_PROCESS: u32 = 0;

/// The number of a new module of a process: a program that it executes later has others. `None` when there are no more.
fn next_module(modules: &mut FxHashMap<u32, u16>, pid: u32) -> Option<u16> {
    let next = modules.entry(pid).or_default();
    let number = *next;
    *next = number.checked_add(1)?;
    Some(number)
}

/// When the thread was where its stack says.
fn when(sample: &Sample) -> Nanos {
    match sample.kind {
        SampleKind::OffCpu => sample.since,
        SampleKind::Wake(_) | SampleKind::Cpu => sample.until,
    }
}

/// The most bytes of a module's name that a record takes.
const MOST: usize = 255;

/// A path as the name of a module: the end of it, where it is too long.
fn name_of(path: &str) -> String {
    let clean = path.replace('\0', "");
    let mut from = clean.len().saturating_sub(MOST);
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    clean[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_named_by_its_end() {
        assert_eq!(name_of("/usr/lib/libc.so.6"), "/usr/lib/libc.so.6");
        let long = format!("/{}/lib.so", "é".repeat(200));
        let name = name_of(&long);
        assert!((MOST - 1..=MOST).contains(&name.len()), "{}", name.len());
        assert!(name.ends_with("é/lib.so"), "{name}");
    }
}
