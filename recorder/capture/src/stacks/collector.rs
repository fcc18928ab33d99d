//! The thread that reads samples and determines which code they are in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rustc_hash::{FxHashMap, FxHashSet};

use super::frames::Frames;
use super::images::Images;
use super::jit_code::{JitCode, is_made};
use super::mapping_history::{AddressSpace, MappingHistory, find, is_user};
use super::message::{Mapping, Message, Module};
use super::naming::DELETED;
use super::places::Places;
use super::python::layout::is_named_so;
use super::python::{Functions, Interpreters};
use super::rings::{Rings, bytes_of};
use super::unwind::{Cache, Code, Stack, Unwinder};
use super::{Counts, Named};
use fxtrec_kernel::bpf::stacks::{
    KERNEL_FRAMES, Sample, SampleKind, USER_FRAMES, UserStack, Walked, Wanted,
};
use fxtrec_kernel::clock;
use fxtrec_kernel::code::{self, ExecutableMapping, KernelCode};
use fxtrec_kernel::memory;
use fxtrec_kernel::patience::patiently;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::symbols::KernelSymbols;
use fxtrec_sched::backtrace::{Kind, link_flags, problem};
use fxtrec_units::{Nanos, Pid, Tid};

/// How often the ring is checked. It has space for the samples of a few thousand long waits.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// How often the ring is checked while there are neither samples nor code records, if stacks were not requested.
const QUIET: Duration = Duration::from_millis(80);

/// How long samples are processed while another thread waits for that: at the end, and before functions are named.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Maximum number of programs that are known at the same time. If there are more, all known addresses get names, and those without a recent
/// stack are forgotten.
pub(super) const MOST_PROGRAMS: usize = 8192;

/// A program counts as unused if its last stack is older than this.
const LATELY: Nanos = Nanos(3_000_000_000);

/// How long all programs are kept after too many frames had no names.
const FULL: Nanos = Nanos(10_000_000_000);

/// Maximum number of known mappings, for all programs together: code in further mappings is in no file.
pub(super) const MOST_PLACED: usize = 96 * 1024;

/// Maximum size in bytes of the mappings of all programs that have stacks; beyond it, all except those of the last program are read again.
pub(super) const MOST_FOUND: usize = 12 << 20;

/// How many processes are known whose mappings cannot be read.
const MOST_LOCKED: usize = 1024;

/// Maximum number of addresses known to be in no file; beyond it, all are looked up again.
pub(super) const MOST_NOWHERE: usize = 64 * 1024;

/// Number of processes whose module numbers are remembered before those of ended processes are dropped.
pub(super) const MOST_PROCESSES: usize = 224 * 1024;

/// How many mappings of a program are unwound by tables; others are unwound by frame pointers.
const MOST_UNWOUND: usize = 2048;

/// How many stacks of wakers wait for the stacks of the threads that they woke.
const MOST_WAKES: usize = 16 * 1024;

/// How long a program without stacks stays known, in a recording that is kept in parts.
const FORGET: Nanos = Nanos(300_000_000_000);

/// The kernel among the programs.
pub(super) const KERNEL: usize = 0;

/// A mapping that was sent, because it contains a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) mapping: Mapping,
    /// Where the data of the file is stored.
    pub(super) image: Option<usize>,
    /// Whether the program's unwinder has its tables.
    has_tables: bool,
}

/// The state of a program.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) pid: u32,
    pub(super) places: Places<Placed>,
    unwinder: Unwinder,
    /// How many mappings the unwinder has tables of.
    unwound: usize,
    /// All mappings that existed at the last read.
    found: Arc<Vec<ExecutableMapping>>,
    /// Their size, in bytes.
    found_bytes: usize,
    /// The code that it has compiled itself.
    pub(super) made: JitCode,
    /// The round in which its mappings were last read.
    read_in: Option<u64>,
    /// Its Python functions, if it has an interpreter of a known version.
    pub(super) python: Option<Box<Functions>>,
    pub(super) python_is_unknown: bool,
    /// Whether its mappings could once not be read.
    failed: bool,
    /// Whether the capture thread has been sent its process.
    announced: bool,
    /// Whether it had no stack for a while: then data that only new stacks need has been freed.
    rests: bool,
    /// Time of its last sample.
    last: Nanos,
}

impl Program {
    fn mapping(&self, frame: u64) -> Option<&Mapping> {
        self.places.at(frame).map(|placed| &placed.mapping)
    }

    /// The number of frames before the first one that is not code. After a function without a frame pointer, the walk takes the content of
    /// any register for the address of a frame, and the memory there for a code address.
    fn whole(&self, frames: &[u64]) -> usize {
        let is_code = |frame: u64| self.mapping(frame).is_some() || self.finds(frame);
        let end = frames.iter().position(|&frame| !is_code(frame));
        // A process that could not be inspected is unknown.
        end.filter(|_| !self.found.is_empty()).unwrap_or(frames.len())
    }

    /// Whether a frame is in the mappings that were read last.
    fn finds(&self, frame: u64) -> bool {
        find(&self.found, frame).is_some()
    }

    /// Frees data that only new stacks need.
    fn rest(&mut self) {
        self.rests = true;
        self.forget_found();
        (self.unwinder, self.unwound) = Default::default();
    }

    fn forget_found(&mut self) {
        (self.found, self.found_bytes) = Default::default();
    }

    /// Has it again.
    fn wake(&mut self, images: &Images) {
        self.rests = false;
        for placed in self.places.all() {
            let tables = placed.image.filter(|_| placed.has_tables);
            if let Some(tables) = tables.and_then(|image| images.tables(image)) {
                let Mapping { start, end, module_address, .. } = placed.mapping;
                self.unwinder.add((start, end), module_address, tables);
                self.unwound += 1;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Collector {
    pub(super) rings: Rings,
    to: Sender<Message>,
    /// A request for everything that exists at this time.
    asked: Receiver<()>,
    /// Whether functions are named during the recording, because a file of it may end at any time.
    in_parts: bool,
    /// How long functions are looked up when a file ends; `None` if they are not looked up.
    pub(super) symbols: Option<Duration>,
    /// The time that a sample of a running thread represents, in nanoseconds.
    period: u64,
    /// Whether stacks are those of chosen processes: see [`Wanted`].
    chosen: bool,
    /// All samples that ended before this time have been sent.
    handled: Arc<AtomicU64>,
    pub(super) programs: FxHashMap<usize, Program>,
    /// How many mappings programs have.
    placed: usize,
    /// Frames of programs that are in no mapping.
    nowhere: FxHashSet<(usize, u64)>,
    /// Processes whose mappings could not be read in time; they are not tried again.
    pub(super) locked: FxHashSet<Pid>,
    /// The number of the next new module.
    next_program: usize,
    /// The numbers of programs, by process, memory and, if it was reported, the time at which they began: the next program of a process may
    /// have its memory at the same address.
    by_process: FxHashMap<(Pid, u64, Nanos), usize>,
    /// The number of modules of each process so far, in all programs that it ran; the kernel is process 0.
    modules: FxHashMap<u32, u16>,
    pub(super) lives: MappingHistory,
    pub(super) pythons: Interpreters,
    pub(super) kernel: Option<KernelCode>,
    kernel_symbols: Arc<KernelSymbols>,
    pub(super) images: Images,
    cache: Cache,
    user_stacks: FxHashMap<u32, Arc<[u64]>>,
    pub(super) frames: Frames,
    /// For each thread that was woken from a long wait: when the wait began, and the stack of its waker.
    wakes: FxHashMap<Tid, (Nanos, Message)>,
    pub(super) named: Named,
    /// The number of waits whose stack is linked to the stack of the waker.
    links: u64,
    pub(super) counts: Counts,
    pub(super) looks: u64,
    /// When the ring was last checked.
    pub(super) fetched: Instant,
    /// The part of its content that must be sent.
    samples: VecDeque<Sample>,
    /// Bytes of that.
    waiting: usize,
    /// Whether more is in the rings.
    is_full: bool,
    /// When the last wait ended.
    last: Nanos,
    /// When programs were forgotten last.
    forgotten: Nanos,
    /// Frames that stay unnamed, of programs that were forgotten.
    pub(super) lost_names: u64,
    /// More programs than this are too many.
    many: usize,
    /// When programs without a recent stack were last searched.
    rested: Nanos,
    /// When to check again for deleted files.
    pub(super) deleted: Instant,
}

impl Collector {
    /// Sends messages to `to`. `asked` receives requests in recordings of several files, each of which has the names that it needs.
    pub(super) fn new(
        rings: Rings,
        (wanted, symbols): (Wanted, Option<Duration>),
        kernel_symbols: Arc<KernelSymbols>,
        to: Sender<Message>,
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
            placed: 0,
            nowhere: FxHashSet::default(),
            locked: FxHashSet::default(),
            next_program: KERNEL + 1,
            by_process: FxHashMap::default(),
            modules: FxHashMap::default(),
            lives: MappingHistory::default(),
            pythons: Interpreters::default(),
            kernel: None,
            kernel_symbols,
            images: Images::default(),
            cache: Cache::default(),
            user_stacks: FxHashMap::default(),
            frames: Frames::default(),
            wakes: FxHashMap::default(),
            named: Named::default(),
            links: 0,
            counts: Counts::default(),
            looks: 0,
            fetched: Instant::now(),
            samples: VecDeque::new(),
            waiting: 0,
            is_full: false,
            lost_names: 0,
            many: MOST_PROGRAMS,
            rested: Nanos(0),
            deleted: Instant::now() + DELETED,
            last: Nanos(0),
            forgotten: Nanos(0),
        }
    }

    pub(super) fn named(&self) -> Named {
        self.named.clone()
    }

    /// Reads until `stop` is set, and then reads the rest; names functions last.
    pub(super) fn run(mut self, stop: &StopToken) -> Counts {
        self.rings.adopt_this_thread();
        if self.rings.has_own_stacks() {
            // To distinguish the tracepoint's own functions from the rest.
            self.kernel();
        }
        self.find_interpreters();
        let mut pause = LOOK;
        while !stop.is_stopped() {
            // A request always precedes this round.
            let is_asked = self.asked.try_recv().is_ok();
            let until = Instant::now() + AT_ONCE;
            // If stacks were requested, a short-lived program whose code was not reported must be examined before it ends.
            let is_quiet = !self.look(|now| now < until && !stop.is_stopped()) && self.chosen;
            pause = if is_quiet { (2 * pause).min(QUIET) } else { LOOK };
            if is_asked {
                self.name_rest();
                self.tell(Message::Settled(self.counts()));
            } else if self.in_parts {
                self.name_functions(Some(LOOK / 4));
            }
            self.forget_old();
            self.let_deleted_go();
            // The request is sent first, followed by the call that makes it return early.
            if self.asked.is_empty() {
                self.rings.yield_to_others();
            }
            let pause = if self.samples.is_empty() { pause } else { Duration::ZERO };
            if stop.wait(std::iter::empty(), pause).is_err() {
                break;
            }
        }
        self.rings.detach();
        let (until, named) = (Instant::now() + AT_ONCE, self.named());
        let go_on = |now| now < until && !named.is_cut();
        self.look(go_on);
        while self.is_full && go_on(Instant::now()) {
            self.look(go_on);
        }
        self.lose_rest();
        self.name_rest();
        self.counts()
    }

    /// Counts the samples that could not be processed in time.
    fn lose_rest(&mut self) {
        self.counts.lost += self.samples.len() as u64;
        self.samples = VecDeque::new();
        self.waiting = 0;
        while self.is_full {
            let read = self.rings.take(0);
            self.counts.lost += read.garbled + read.samples.len() as u64;
            self.is_full = read.is_full;
        }
    }

    fn counts(&self) -> Counts {
        let missing = self.rings.missing();
        let (unanswered_files, addresses) = self.images.unanswered();
        Counts {
            lost: self.counts.lost + missing.no_room,
            unseen: missing.unseen,
            given_up: missing.given_up,
            lost_mappings: self.lives.lost(),
            unanswered_files,
            left_readers: self.images.left(),
            unanswered_addresses: self.counts.unanswered_addresses + addresses,
            ..self.counts
        }
    }

    /// Handles all available data, as long as `go_on` returns true for the current time. Returns whether there was anything.
    fn look(&mut self, go_on: impl Fn(Instant) -> bool) -> bool {
        let found = self.fetch();
        while let Some(sample) = self.samples.pop_front() {
            self.waiting = self.waiting.saturating_sub(bytes_of(&sample));
            self.take(&sample);
            let now = Instant::now();
            if !go_on(now) {
                break;
            }
            // A large file may take a while, and in the meantime processes begin and end.
            if now - self.fetched >= LOOK {
                self.fetch();
            }
        }
        found
    }

    /// Takes the content of the ring, and inspects new processes at once: they may end soon.
    pub(super) fn fetch(&mut self) -> bool {
        self.looks += 1;
        self.fetched = Instant::now();
        self.cache.renew(self.fetched);
        let read = self.rings.take(self.waiting);
        self.counts.lost += read.garbled;
        self.is_full = read.is_full;
        let now = read.until;
        let found = !read.is_empty();
        self.lives.lose(read.lost_code);
        read.code().for_each(|record| self.lives.note(record));
        let new = read.samples;
        // Finding files and names may have taken longer than ended processes are remembered.
        let waiting = self.samples.front().map(|sample| sample.since);
        self.lives.need(waiting);
        self.handled.store(waiting.unwrap_or(now).0, Ordering::Relaxed);
        let locked = &mut self.locked;
        self.lives.settle(now, |pid| mappings(locked, pid));
        self.follow_pythons();
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
            if let UserStack::Walked(walked) = &sample.user {
                self.read_python(number, walked);
            }
        }
        self.waiting += new.iter().map(bytes_of).sum::<usize>();
        self.samples.extend(new);
        if !read.is_late {
            self.rings.yield_to_others();
        }
        found
    }

    /// A stack in the kernel's table.
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
        // Data about the kernel is kept: its symbols are read at the end, which takes a while.
        for (at, &frame) in kernel.iter().enumerate() {
            self.frames.note((KERNEL, frame, at > 0));
        }
        self.last = self.last.max(sample.until);
        let (user, of_user) = self.user_part(sample);
        let (user, of_user) = self.with_python(user, (of_user, sample));
        problems |= of_user;
        let frames = [kernel, &user].concat();
        let program = if user.is_empty() { KERNEL } else { self.program(sample) };
        let Sample { tid, since, until, .. } = *sample;
        let length = until.0.saturating_sub(since.0);
        match sample.kind {
            SampleKind::OffCpu => {
                let mut flags = problems | Kind::OffCpu.flags();
                let wake = self.wakes.remove(&tid).filter(|(of, _)| *of == since);
                if let Some((_, mut message)) = wake {
                    let link = link_flags(self.links);
                    self.links += 1;
                    flags |= link;
                    if let Message::Stack { flags, .. } = &mut message {
                        *flags |= link;
                    }
                    self.tell(message);
                }
                if let Some(waited) = sample.waited.clone() {
                    self.tell(Message::Waited { tid, since, until, waited });
                }
                self.tell(Message::Stack {
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
                let message =
                    Message::Stack { program, tid, since: at, until, weight, flags, frames };
                if self.wakes.len() < MOST_WAKES || self.wakes.contains_key(&woken) {
                    self.wakes.insert(woken, (since, message));
                } else {
                    self.counts.lost += 1;
                }
            }
            SampleKind::Cpu => {
                let flags = problems | Kind::Cpu.flags();
                let weight = self.period;
                self.tell(Message::Stack { program, tid, since, until, weight, flags, frames });
            }
        }
    }

    /// A stack that was taken on a tracepoint begins with the functions that take it.
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

    /// The program's functions, the innermost first, and the missing parts.
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
            let code = match program.places.at(address) {
                Some(placed) if placed.has_tables => {
                    let Placed { mapping, image, .. } = placed;
                    let tables = image.and_then(|image| self.images.tables(image));
                    let at = (address - mapping.start).wrapping_add(mapping.module_address);
                    Code::Tables(tables.map_or(0, |tables| tables.work_at(at)))
                }
                Some(_) => Code::NoTables,
                None if program.finds(address) || program.found.is_empty() => Code::NoTables,
                None => Code::None,
            };
            stack.step(code, &program.unwinder, &mut self.cache);
        }
        let (frames, problems) = stack.finish();
        self.code_of(frames, problems, sample)
    }

    /// Selects the frames that are code; sends the files that they are in.
    fn code_of(&mut self, mut frames: Vec<u64>, problems: u32, sample: &Sample) -> (Vec<u64>, u32) {
        let code = self.user_frames(&frames, sample);
        let cut = if code < frames.len() { problem::USER_CUT } else { 0 };
        frames.truncate(code);
        (frames, problems | cut)
    }

    pub(super) fn tell(&mut self, message: Message) {
        // The capture thread may be far behind; a stack that it has no room for is lost, and the rest may be needed later.
        match message {
            Message::Stack { .. } | Message::Waited { .. } => {
                self.counts.lost += u64::from(self.to.try_send(message).is_err());
            }
            message => drop(self.to.send(message)),
        }
    }

    pub(super) fn kernel(&mut self) -> &KernelCode {
        let symbols = &self.kernel_symbols;
        self.kernel.get_or_insert_with(|| KernelCode::read(symbols.clone()))
    }

    /// Reports which part of the kernel a frame is in, if that is new.
    pub(super) fn kernel_frame(&mut self, frame: u64) {
        if self.programs.entry(KERNEL).or_default().mapping(frame).is_some() {
            return;
        }
        let modules = &self.kernel().modules;
        let module = modules.iter().find(|it| (it.start..it.end).contains(&frame)).cloned();
        let Some(module) = module else { return };
        let Some(id) = next_module(&mut self.modules, KERNEL_PROCESS) else { return };
        let (start, end) = (module.start, module.end);
        let mapping = Mapping { module: id, flags: 0b101, start, end, module_address: 0 };
        let placed = Placed { mapping, image: None, has_tables: false };
        self.programs.entry(KERNEL).or_default().places.put(start, end, placed);
        let (name, build_id) = (module.name.as_str().into(), module.build_id.as_slice().into());
        let modules = vec![Module { id, name, build_id }];
        let (tid, until) = (Tid::default(), self.last);
        self.tell(Message::Code { program: KERNEL, tid, until, modules, mappings: vec![mapping] });
    }

    /// The number of the program that a sample belongs to.
    pub(super) fn program(&mut self, sample: &Sample) -> usize {
        let life = self.lives.of_sample(sample.pid, when(sample), sample.space);
        let key = (sample.pid, sample.space, life.map_or(Nanos(0), AddressSpace::since));
        let number = *self.by_process.entry(key).or_insert(self.next_program);
        self.next_program = self.next_program.max(number + 1);
        let program = self.programs.entry(number).or_default();
        program.pid = sample.pid.0;
        program.last = program.last.max(sample.until);
        if program.rests {
            program.wake(&self.images);
        }
        if !std::mem::replace(&mut program.announced, true) {
            // Names of functions need the process, even if no data explains a frame.
            let (modules, mappings) = (Vec::new(), Vec::new());
            let Sample { tid, until, .. } = *sample;
            self.tell(Message::Code { program: number, tid, until, modules, mappings });
        }
        number
    }

    /// Reports which files the frames of a program are in, if that is new. How many frames are code.
    fn user_frames(&mut self, frames: &[u64], sample: &Sample) -> usize {
        let number = self.program(sample);
        for (at, &frame) in frames.iter().enumerate() {
            self.frames.note((number, frame, at > 0));
            self.locate(number, frame, frames, sample);
        }
        self.programs[&number].whole(frames)
    }

    /// Reports which file a frame is in, if that is new. `frames` are of the same program.
    fn locate(&mut self, number: usize, frame: u64, frames: &[u64], sample: &Sample) {
        let program = &self.programs[&number];
        if program.mapping(frame).is_some() || self.nowhere.contains(&(number, frame)) {
            return;
        }
        if !program.finds(frame) && program.read_in != Some(self.looks) {
            self.read_mappings(number, frames, sample);
        }
        self.tell_mapping(number, frame, sample);
    }

    fn read_mappings(&mut self, number: usize, frames: &[u64], sample: &Sample) {
        let program = self.programs.entry(number).or_default();
        // This is done whatever the result, so that a process that has ended is not examined for each of its frames.
        program.read_in = Some(self.looks);
        let is_its = |found: &Arc<Vec<ExecutableMapping>>| {
            frames.iter().any(|frame| find(found, *frame).is_some())
        };
        let life = self.lives.of_sample(sample.pid, when(sample), sample.space);
        let known = life.map(|life| life.mappings().clone());
        let locked = &mut self.locked;
        let mut ask = || {
            let mut found = mappings(locked, sample.pid);
            found.retain(is_user);
            Arc::new(found)
        };
        // The process may run another program now, or may be a child of the one that blocked.
        if let Some(found) = known.filter(is_its).or_else(|| Some(ask()).filter(is_its)) {
            program.found_bytes = found.iter().map(ExecutableMapping::bytes).sum();
            program.found = found;
            let all: usize = self.programs.values().map(|program| program.found_bytes).sum();
            if all > MOST_FOUND {
                let others = self.programs.iter_mut().filter(|(other, _)| **other != number);
                others.for_each(|(_, program)| program.forget_found());
            }
            let found = self.programs[&number].found.clone();
            for mapping in found.iter().filter(|mapping| is_named_so(&mapping.path)) {
                self.note_python(number, sample.pid, mapping);
            }
        } else {
            let is_first = !std::mem::replace(&mut program.failed, true);
            let is_unknown = program.found.is_empty() && program.places.len() == 0;
            self.counts.unknown_processes += u64::from(is_first && is_unknown);
        }
    }

    /// Reports which file a frame is in.
    fn tell_mapping(&mut self, number: usize, frame: u64, sample: &Sample) {
        let program = self.programs.entry(number).or_default();
        let found = program.found.clone();
        let mapped = find(&found, frame);
        if mapped.is_some_and(|mapping| is_made(&mapping.path)) && self.frames.has_room() {
            program.made.want(self.images.files(), program.pid, frame);
        }
        // Code that a program has compiled itself is in no file.
        let is_named = |mapping: &&ExecutableMapping| !mapping.path.as_os_str().is_empty();
        let mapped = mapped.filter(is_named).filter(|_| self.placed < MOST_PLACED);
        let number_of = |_| next_module(&mut self.modules, program.pid);
        let (Some(mapped), Some(id)) = (mapped, mapped.and_then(number_of)) else {
            // A process that could not be inspected may be readable at the next attempt.
            if !program.found.is_empty() {
                if self.nowhere.len() >= MOST_NOWHERE {
                    self.nowhere.clear();
                }
                self.nowhere.insert((number, frame));
            }
            return;
        };
        let image = self.images.of(sample.pid.0, mapped);
        if image.is_some_and(|image| self.images.python(image).is_some()) {
            self.note_python(number, sample.pid, mapped);
        }
        let program = self.programs.entry(number).or_default();
        let (build_id, module_address) = match image {
            Some(image) => (self.images.build_id(image), self.images.address(image, mapped)),
            None => (Arc::default(), mapped.offset),
        };
        let name = match image.map(|image| self.images.name(image)) {
            Some((path, name)) if *path == mapped.path => name.clone(),
            _ => name_of(&mapped.path.to_string_lossy()).into(),
        };
        let (start, end, flags) = (mapped.start, mapped.end, mapped.flags);
        let mapping = Mapping { module: id, flags, start, end, module_address };
        let tables = image.and_then(|image| self.images.tables(image));
        let tables = tables.filter(|_| program.unwound < MOST_UNWOUND);
        if let Some(tables) = tables {
            program.unwinder.add((start, end), module_address, tables);
            program.unwound += 1;
        }
        self.placed -= program.places.len();
        program.places.put(start, end, Placed { mapping, image, has_tables: tables.is_some() });
        self.placed += program.places.len();
        let modules = vec![Module { id, name, build_id }];
        let Sample { tid, until, .. } = *sample;
        self.tell(Message::Code { program: number, tid, until, modules, mappings: vec![mapping] });
    }

    /// Forgets programs that had no stack for a long time: most have ended. If there are many, forgets those without a recent stack.
    fn forget_old(&mut self) {
        let now = clock::now();
        if now.0 >= self.rested.0 + LATELY.0 / 2 {
            self.rested = now;
            let lately = now.0.saturating_sub(LATELY.0);
            let programs = self.programs.values_mut();
            programs.filter(|it| !it.rests && it.last.0 < lately).for_each(Program::rest);
        }
        let is_full = self.frames.is_nearly_full() || self.placed >= MOST_PLACED / 4 * 3;
        let are_many =
            self.programs.len() > self.many || (is_full && now.0 >= self.forgotten.0 + FULL.0);
        let is_time = self.in_parts && now.0 >= self.forgotten.0 + FORGET.0 / 4;
        if !are_many && !is_time {
            return;
        }
        self.forgotten = now;
        let mut since = now.0.saturating_sub(FORGET.0);
        if are_many {
            self.name_rest();
            self.lost_names = self.counts.unnamed - self.frames.left_out;
            self.frames.later.clear();
            since = now.0.saturating_sub(LATELY.0);
        }
        let is_old = |(&number, program): (&usize, &Program)| {
            (number != KERNEL && program.last.0 < since).then_some(number)
        };
        let over: FxHashSet<usize> = self.programs.iter().filter_map(is_old).collect();
        // The next search happens after at least a few thousand more programs.
        self.many = MOST_PROGRAMS.max(self.programs.len() - over.len() + MOST_PROGRAMS / 2);
        if over.is_empty() {
            return;
        }
        self.programs.retain(|number, _| !over.contains(number));
        self.placed = self.programs.values().map(|program| program.places.len()).sum();
        self.nowhere.retain(|(number, _)| !over.contains(number));
        self.by_process.retain(|_, number| !over.contains(number));
        self.frames.forget(&over);
        // A process that continues must not have two modules with the same number in a file.
        if !are_many || self.modules.len() > MOST_PROCESSES {
            let alive: FxHashSet<u32> = self.programs.values().map(|program| program.pid).collect();
            self.modules.retain(|pid, _| alive.contains(pid));
        }
        self.wakes.retain(|_, (waits_since, _)| waits_since.0 >= since);
        for program in over {
            self.tell(Message::Over { program });
        }
        memory::trim();
    }
}

/// The process id of the kernel: that of the idle task.
const KERNEL_PROCESS: u32 = 0;

/// The number of a new module of a process: a program that it executes later has different numbers. `None` when there are no more.
fn next_module(modules: &mut FxHashMap<u32, u16>, pid: u32) -> Option<u16> {
    let next = modules.entry(pid).or_default();
    let number = *next;
    *next = number.checked_add(1)?;
    Some(number)
}

/// The time at which the stack was recorded.
fn when(sample: &Sample) -> Nanos {
    match sample.kind {
        SampleKind::OffCpu => sample.since,
        SampleKind::Wake(_) | SampleKind::Cpu => sample.until,
    }
}

/// The maximum number of bytes of a module's name that a record takes.
const MOST: usize = 255;

/// A path as the name of a module: its end, if it is too long.
pub(super) fn name_of(path: &str) -> String {
    let clean = path.replace('\0', "");
    let mut from = clean.len().saturating_sub(MOST);
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    clean[from..].to_owned()
}

/// The executable mappings of a process; empty if it is gone, or if its memory was `locked` for too long.
pub(super) fn mappings(locked: &mut FxHashSet<Pid>, pid: Pid) -> Vec<ExecutableMapping> {
    if locked.contains(&pid) {
        return Vec::new();
    }
    let found = patiently(move || code::executable_mappings(pid.0).unwrap_or_default());
    if found.is_none() && locked.len() < MOST_LOCKED {
        locked.insert(pid);
    }
    found.unwrap_or_default()
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
