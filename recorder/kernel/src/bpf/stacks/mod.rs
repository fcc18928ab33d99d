//! Where threads block: separate programs on the scheduler's tracepoints, which are loaded only if stacks are requested. They are in
//! `recorder/kernel/bpf`: `notes.h` notes which threads wait, `stacks.bpf.c` turns the stack of the running thread into a sample.
//!
//! A thread that is being switched in has not run yet, so its kernel stack is still that of its wait. The stack is walked at this point,
//! and only if the wait was long enough. Only the thread itself can read its user stack, at a point where it has its memory again and is
//! still in its wait. On x86, the CPU interrupts itself for this purpose: the program rings a BPF doorbell, for which the kernel uses an
//! interrupt (`irq_work`) that occurs as soon as the switch is over.
//!
//! ```text
//!   sched_switch     goes out to block   note of its id := since when
//!                    comes in            nothing, if the note is not its own, or the wait was shorter than the threshold
//!                                        walk its kernel stack into the CPU's sample, which is pending now; ring the CPU's bell
//!   irq_work_entry   a sample is pending walk its user stack by frame pointers, copy its registers and the top of its stack,
//!                                        and put all of it into the ring
//! ```
//!
//! Between the two, nothing else switches on that CPU. On other machines, the second part is on `sched_exit_tp` (since Linux 6.15), which
//! follows every switch, so it costs time at every switch, and no doorbell is needed. If neither is available, the user stack is recorded
//! when the thread is switched out, into the kernel's table of stacks, which stores each distinct stack once, and its memory is not copied.
//!
//! Two more programs are optional: one on `sched_waking`, where the thread that ends a long wait runs, and one on clock samples.
//!
//! If programs record switches, these note which threads wait ([`WaitNotes`]), because they already have the time and both threads: calling
//! a second program on `sched_switch` costs more than its own work.
//!
//! ```text
//!   BlockedStacks::open        maps, and the programs that come behind a switch
//!   BpfEvents::open            its program on switches with the notes, if the kernel takes it
//!   BlockedStacks::prepare     what must run before the first switch is noted
//!   BlockedStacks::attach      the rest; a program on switches of its own if no other notes who waits
//! ```

mod descriptors;
mod pythons;

use std::cell::Cell;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::doorbell::Doorbell;
use super::events::BpfError;
use super::object::{self, Choice, Given, Object};
use super::programs::{Loaded, knows_registers, newtask, of_owner};
use super::ring_buffer::RingBuffer;
use super::scope::ScopeMap;
use super::sys::{BpfSys, MapKind, MapSpec, Memory, On};
use super::types::{TypeId, Types};
use crate::code_records::CodeRecords;
use crate::cpus;
use crate::ring::RawRecord;
use crate::sys::Sys;
use crate::units::{Cpu, Nanos, Pid, Tid};
pub(super) use descriptors::Described;
pub use descriptors::{WaitObject, Waited};
use perf_event_open_sys::bindings as b;
use pythons::{FRAME_BYTES, Pythons};
pub use pythons::{PYTHON_FRAMES, Python, PythonEnd, PythonFrame};

const SWITCH: &str = "fxtrec_stacks";
const BEHIND: &str = "fxtrec_stacks_u";
const WAKING: &str = "fxtrec_stacks_w";
const CLOCK: &str = "fxtrec_stacks_c";

/// The hook at which a thread that was switched in has its memory again.
const SCHED_EXIT: &str = "sched_exit_tp";

/// The x86 function that begins the work for which a CPU has interrupted itself.
const INTERRUPTED: &str = "irq_work_entry";

/// The number of notes of waiting threads. If two threads with the same lower bits of their ids wait at the same time, the earlier wait is
/// abandoned and counted. After them are the numbers of user stacks, if these are recorded when a thread is switched out.
const NOTES: usize = 64 * 1024;

/// Size of a bell: a thousand long waits of a CPU between two reads of the samples.
const BELL_BYTES: usize = 16 << 10;

/// Size of the ring for samples: enough for about three thousand of the largest, as when many threads are switched out at the same time.
const RING_BYTES: usize = 16 << 20;

/// Size of the ring if only waits of selected threads are recorded.
const SMALL_RING_BYTES: usize = 4 << 20;

/// Size of the ring if much of each stack is copied: enough for more than two thousand samples.
const LARGE_RING_BYTES: usize = 64 << 20;

/// How much of a program's stack can be copied, in bytes; a multiple of the minimum. One more block is requested, because the first covers
/// only the rest of its page, and the kernel permits 32 KiB for each CPU's part of a map value.
pub const LEAST_COPY: usize = BLOCK;
pub const MOST_COPY: usize = 6 * BLOCK;
const BLOCK: usize = 4096;

/// The maximum number of different user stacks, before Linux 6.15.
const USER_STACKS: u32 = 16 * 1024;

/// Maximum number of frames of a user stack; no more than the kernel's default for `perf_event_max_stack`.
pub const USER_FRAMES: usize = 127;

/// The maximum number of frames of a kernel stack.
pub const KERNEL_FRAMES: usize = 64;

/// The beginning of a sample, as in `sample.h`. It is followed by the frames of the kernel, those of the program, and the top of its stack.
#[repr(C)]
pub(super) struct Head {
    pub(super) since: u64,
    pub(super) until: u64,
    pub(super) tid: u32,
    pub(super) pid: u32,
    /// Size of the user stack in bytes, or its number in the table; [`NO_PROGRAM`]; other negative values are errors.
    pub(super) user: i64,
    /// Size of the kernel's stack in bytes.
    pub(super) kernel: i64,
    pub(super) space: u64,
    pub(super) registers: Registers,
    /// How many bytes of the program's stack follow.
    pub(super) copied: u64,
    pub(super) kind: u32,
    /// The thread that was woken.
    pub(super) woken: u32,
    /// How the walk of Python functions ended, and the number of frames.
    pub(super) python: u32,
    pub(super) python_frames: u32,
    pub(super) object: Described,
}

/// The data before a sample in the memory of its CPU: a word, and a Python frame.
pub(super) const AHEAD_BYTES: usize = 2 * size_of::<u64>() + FRAME_BYTES;

/// The largest sample without the top of the stack, including the data before it.
const SCRATCH_BYTES: usize = AHEAD_BYTES
    + size_of::<Head>()
    + (KERNEL_FRAMES + USER_FRAMES + 2 * PYTHON_FRAMES) * size_of::<u64>();

const NO_PROGRAM: i64 = i32::MIN as i64;

/// The counters of the programs.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Shared {
    /// Samples that were lost because the ring was full.
    pub(super) no_room: AtomicU64,
    /// Notes that were replaced while their thread was still waiting.
    pub(super) given_up: AtomicU64,
}

/// A program's registers when it entered the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
    /// Where arm64 keeps the address that a function returns to; 0 elsewhere.
    pub link: u64,
}

/// The part of a user stack that the kernel could read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The return addresses found by frame pointers, the innermost first.
    pub frames: Vec<u64>,
    pub registers: Registers,
    /// The bytes at the stack's top, which the stack register points to; empty if they could not be read.
    pub top: Vec<u8>,
    /// Whether frame pointers lead to further frames, for which there was no space.
    pub is_cut: bool,
    /// The Python functions, the innermost first, from the interpreter's own lists.
    pub python: Vec<PythonFrame>,
    pub python_end: PythonEnd,
}

/// The outcome for a thread's user stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserStack {
    /// It was recorded after the wait.
    Walked(Box<Walked>),
    /// It has none, because it is a kernel thread.
    NoProgram,
    /// It is in the table, with this number.
    Number(u32),
    /// The first frame could not be read.
    Unreadable,
    /// The table had no space for it.
    NoRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The minimum length of a long wait.
    pub over: Nanos,
    /// The stack of the thread that ends a long wait is recorded, too.
    pub wakes: bool,
    /// The stacks of running threads are recorded, too, this many times a second on each CPU.
    pub frequency: Option<u32>,
    /// The maximum part of the program's stack to copy, in bytes, to unwind it by tables alone: from [`LEAST_COPY`] to [`MOST_COPY`];
    /// `None` for the default, which suffices for most programs.
    pub copy: Option<usize>,
    /// Only waits of selected threads are recorded: see [`BlockedStacks::choose`].
    pub chosen: bool,
    /// The only user who gets samples, in which the kernel stack is then missing: see `owner.h`.
    pub owner: Option<u32>,
}

/// The kind of event at which a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// A long wait, and where it happened.
    OffCpu,
    /// The thread that ended this wait.
    Wake(Tid),
    Cpu,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub kind: SampleKind,
    pub tid: Tid,
    pub pid: Pid,
    /// When the wait began; for a running thread, the current time.
    pub since: Nanos,
    /// When the thread was switched in again, was woken, or ran.
    pub until: Nanos,
    /// Distinguishes the memory of a program from the memory of the next program that the process executes; 0 for kernel threads.
    pub space: u64,
    pub user: UserStack,
    /// The program counters of its kernel stack, the innermost first; `None` if it could not be walked.
    pub kernel: Option<Vec<u64>>,
    /// The object for which it waited, if its system call had a descriptor.
    pub waited: Option<Box<Waited>>,
}

/// Missing samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The ring had no space for them.
    pub no_room: u64,
    /// Switches that the program did not see because it was already running on their CPU, if the kernel counts that.
    pub unseen: u64,
    /// Waits whose note was replaced by the note of another thread with the same lower bits in its id. These need not have been long waits.
    pub given_up: u64,
}

/// The data that a program that records switches needs to note which threads wait: see [`BlockedStacks::notes`].
#[derive(Clone, Copy, Debug)]
pub struct WaitNotes<'a> {
    maps: &'a Maps,
    /// The kernel's types, so that they are read only once.
    pub(super) types: &'a Types,
}

impl<'a> WaitNotes<'a> {
    /// The names of all of [`WaitNotes::maps`].
    pub(super) const NAMES: [&'static str; 7] =
        ["notes", "chosen_threads", "missing", "scratch", "samples", "bells", "user_stacks"];

    /// The program's parameters; the ways to record stacks are numbered as in `notes.h`.
    pub(super) fn choices(&self) -> [Choice; 3] {
        let Maps { taking, over, chosen, .. } = self.maps;
        let taking = match taking {
            Taking::Exit => 0,
            Taking::Interrupt(_) => 1,
            Taking::Table(_) => 2,
        };
        [("taking", taking), ("over", over.0), ("are_chosen", chosen.is_some().into())]
    }

    /// The maps that it works with. If a map does not exist, it is not used either, so any map will do.
    pub(super) fn maps(&self) -> [(&'static str, Given<'a>); 7] {
        let Maps { taking, notes, chosen, scratch, ring, shared, .. } = self.maps;
        let none = Given::Memory(notes.as_fd());
        let (bells, table) = match taking {
            Taking::Exit => (none, none),
            Taking::Interrupt(bells) => (Given::Map(bells.outer.as_fd()), none),
            Taking::Table(table) => (none, Given::Map(table.as_fd())),
        };
        let chosen = chosen.as_ref().map_or(none, |chosen| Given::Memory(chosen.fd()));
        let (shared, scratch) = (Given::Memory(shared.fd()), Given::Map(scratch.as_fd()));
        let given = [none, chosen, shared, scratch, Given::Map(ring.fd()), bells, table];
        std::array::from_fn(|at| (WaitNotes::NAMES[at], given[at]))
    }
}

/// How user stacks are recorded, with the required objects. The first way that the kernel supports is used.
#[derive(Debug)]
enum Taking {
    /// By an interrupt.
    Interrupt(Bells),
    /// After each switch.
    Exit,
    /// When a thread is switched out, into this table.
    Table(OwnedFd),
}

/// A bell for each CPU, with which it interrupts itself.
#[derive(Debug)]
struct Bells {
    outer: OwnedFd,
    bells: Vec<Doorbell>,
}

/// The maps of the programs on switches.
#[derive(Debug)]
struct Maps {
    over: Nanos,
    taking: Taking,
    notes: OwnedFd,
    chosen: Option<ScopeMap>,
    scratch: OwnedFd,
    ring: RingBuffer,
    shared: Memory,
    pythons: Pythons,
    /// The system calls that have a descriptor.
    calls: OwnedFd,
}

impl Bells {
    fn new(files: &dyn Sys, sys: &dyn BpfSys) -> io::Result<Bells> {
        let possible = cpus::possible(files).map_err(io::Error::other)?;
        let online = cpus::online(files).map_err(io::Error::other)?;
        let bell = |_| Doorbell::of_bytes(sys, BELL_BYTES);
        let bells = online.iter().map(bell).collect::<io::Result<Vec<Doorbell>>>()?;
        let possible = possible.last().map_or(1, |cpu| cpu.0 as usize + 1);
        let outer = sys.map_create(&MapSpec::of_maps(possible, bells.first().map(Doorbell::fd)))?;
        let of_cpus = online.iter().map(|cpu| cpu.0).zip(bells.iter().map(Doorbell::fd));
        sys.map_set_maps(outer.as_fd(), &of_cpus.collect::<Vec<_>>())?;
        Ok(Bells { outer, bells })
    }
}

/// The programs with their maps. Dropping this removes the programs and maps.
#[derive(Debug)]
pub struct BlockedStacks {
    sys: Box<dyn BpfSys + Send>,
    /// In the order in which they are attached: first the programs that must run before a wait is noted.
    first: Vec<Loaded>,
    /// The programs on wakeups and, if no other program notes which threads wait, on switches.
    switch: Loaded,
    waking: Option<Loaded>,
    /// The program for clock samples, with the clocks of the CPUs.
    clock: Option<(Loaded, Vec<OwnedFd>)>,
    links: Vec<OwnedFd>,
    /// The kernel's types, until all programs are loaded.
    types: Option<Box<Types>>,
    /// The source of records about loaded code, or why there is none.
    code: io::Result<CodeRecords>,
    maps: Maps,
    walks_python: bool,
    /// Waits that began earlier than this are not handed out, in nanoseconds.
    from: Arc<AtomicU64>,
}

fn map_error(what: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

impl BlockedStacks {
    /// Loads the required programs. They do not run yet.
    ///
    /// # Errors
    /// Returns [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        wanted: Wanted,
    ) -> Result<BlockedStacks, BpfError> {
        let types = Types::read(files)?;
        let object = Object::new(&object::STACKS, &types)?;
        let create = |what, spec: MapSpec<'_>| sys.map_create(&spec).map_err(map_error(what));
        let blocks = wanted.copy.map(|bytes| bytes.clamp(LEAST_COPY, MOST_COPY) / BLOCK + 1);
        let scratch = || {
            let bytes = SCRATCH_BYTES + blocks.unwrap_or(1) * BLOCK;
            create(
                "a sample",
                MapSpec { kind: MapKind::PerCpuArray, ..MapSpec::memory(bytes, false) },
            )
        };
        let shared = Memory::new(&*sys, size_of::<Shared>()).map_err(map_error("counts"))?;
        let ring_bytes = match wanted.copy {
            Some(_) => LARGE_RING_BYTES,
            None if wanted.chosen => SMALL_RING_BYTES,
            None => RING_BYTES,
        };
        let chosen = wanted.chosen.then(|| ScopeMap::new(&*sys)).transpose();
        let mut maps = Maps {
            over: wanted.over,
            taking: Taking::Exit,
            notes: create(
                "the threads that wait",
                MapSpec::memory(2 * NOTES * size_of::<u64>(), false),
            )?,
            chosen: chosen.map_err(map_error("the chosen threads"))?,
            scratch: scratch()?,
            ring: RingBuffer::new(&*sys, ring_bytes).map_err(map_error("samples"))?,
            shared,
            pythons: Pythons::new(&*sys).map_err(map_error("Python's interpreters"))?,
            calls: create("system calls", MapSpec::memory(descriptors::SET_BYTES, false))?,
        };
        let set: Vec<u8> = descriptors::set().iter().flat_map(|word| word.to_ne_bytes()).collect();
        sys.map_update(maps.calls.as_fd(), 0, &set).map_err(map_error("system calls"))?;
        // One of these programs may interrupt another, so each has separate memory.
        let of_wakes = wanted.wakes.then(scratch).transpose()?;
        let of_clocks = wanted.frequency.map(|_| scratch()).transpose()?;
        let programs = |maps: &Maps, walks_python: bool| {
            let notes = WaitNotes { maps, types: &types };
            let mut choices = notes.choices().to_vec();
            choices.push(("blocks", blocks.unwrap_or(0) as u64));
            choices.push(("walks_python", walks_python.into()));
            choices.extend(of_owner(wanted.owner));
            let mut given = notes.maps().to_vec();
            given.push(("pythons", Given::Map(maps.pythons.fd())));
            given.push(("descriptor_calls", Given::Memory(maps.calls.as_fd())));
            for (name, own) in [("scratch_of_wakes", &of_wakes), ("scratch_of_clocks", &of_clocks)]
            {
                given.push((name, Given::Map(own.as_ref().unwrap_or(&maps.scratch).as_fd())));
            }
            object.with(&choices, &given, &[])
        };
        let load = |program| Loaded::new(&*sys, &program);
        let all = |maps: &Maps, behind: Option<TypeId>, walks_python| {
            let programs = programs(maps, walks_python)?;
            let behind = behind.map(|tracepoint| load(programs.on(BEHIND, tracepoint)?));
            let behind = behind.transpose()?;
            Ok::<_, BpfError>((
                behind,
                load(programs.on(SWITCH, types.tracepoint("sched_switch")?)?)?,
            ))
        };
        // A kernel may reject the walk of Python functions as too long.
        let walks_python = Cell::new(true);
        let both = |maps: &Maps, behind| {
            let loaded = all(maps, behind, walks_python.get());
            loaded.or_else(|_| all(maps, behind, false).inspect(|_| walks_python.set(false)))
        };
        // The reason why a way is unavailable is irrelevant if another way is available.
        let mut loaded = None;
        let tracepoint = |name| types.tracepoint(name).ok().filter(|_| knows_registers());
        if let Some(interrupt) = tracepoint(INTERRUPTED)
            && let Ok(bells) = Bells::new(files, &*sys)
        {
            maps.taking = Taking::Interrupt(bells);
            loaded = both(&maps, Some(interrupt)).ok();
        }
        if let (None, Some(exit)) = (&loaded, tracepoint(SCHED_EXIT)) {
            maps.taking = Taking::Exit;
            loaded = both(&maps, Some(exit)).ok();
        }
        let (behind, switch) = match loaded {
            Some(loaded) => loaded,
            None => {
                let table = MapSpec {
                    kind: MapKind::StackTrace,
                    entries: USER_STACKS,
                    ..MapSpec::memory(USER_FRAMES * size_of::<u64>(), false)
                };
                maps.taking = Taking::Table(create("user stacks", table)?);
                both(&maps, None)?
            }
        };
        let mut first: Vec<Loaded> = behind.into_iter().collect();
        if let Some(chosen) = &maps.chosen {
            let scope = Object::new(&object::SCOPE, &types)?;
            first.push(load(newtask(&scope, &types, chosen.fd())?)?);
        }
        let programs = programs(&maps, walks_python.get())?;
        let waking =
            wanted.wakes.then(|| load(programs.on(WAKING, types.tracepoint("sched_waking")?)?));
        let clock = wanted.frequency.map(|frequency| {
            let program = load(programs.get(CLOCK, On::Samples)?)?;
            let cpus = cpus::online(files).map_err(io::Error::other);
            let cpus = cpus.map_err(map_error("the CPUs to sample"))?;
            let open = |cpu: &Cpu| files.perf_event_open(&mut clock_attr(frequency), cpu.0);
            let clocks = cpus.iter().map(open).collect::<io::Result<_>>();
            Ok::<_, BpfError>((program, clocks.map_err(map_error("the clock of a CPU"))?))
        });
        let (waking, clock) = (waking.transpose()?, clock.transpose()?);
        Ok(BlockedStacks {
            sys,
            first,
            switch,
            waking,
            clock,
            links: Vec::new(),
            types: Some(Box::new(types)),
            code: CodeRecords::open(files),
            maps,
            walks_python: walks_python.get() && cfg!(target_arch = "x86_64"),
            from: Arc::new(AtomicU64::new(0)),
        })
    }

    /// Whether the kernel accepts a program that walks Python functions.
    pub fn walks_python(&self) -> bool {
        self.walks_python
    }

    /// Stores where a process has its Python interpreter, or that it has none.
    ///
    /// # Errors
    /// Errors of bpf(2), if there is no space for another process.
    pub fn set_python(&self, pid: Pid, python: Option<&Python>) -> io::Result<()> {
        self.maps.pythons.set(&*self.sys, pid, python)
    }

    /// The data that another program needs to note which threads wait, before [`BlockedStacks::prepare`]; `None` if the way to record user
    /// stacks requires a program of this type.
    pub fn notes(&self) -> Option<WaitNotes<'_>> {
        let types = self.types.as_deref().filter(|_| !self.is_table())?;
        Some(WaitNotes { maps: &self.maps, types })
    }

    fn is_table(&self) -> bool {
        matches!(self.maps.taking, Taking::Table(_))
    }

    /// The time from which on waits count; it may be set while they are read: before COMMAND runs, its process waits for that.
    pub fn from(&self) -> Arc<AtomicU64> {
        self.from.clone()
    }

    /// Adds the threads of these processes to the selected ones; threads that they start after [`BlockedStacks::prepare`] are selected,
    /// too.
    pub fn choose(&self, pids: &[Pid]) {
        let Some(chosen) = &self.maps.chosen else { return };
        pids.iter().for_each(|pid| chosen.insert_process(*pid));
    }

    /// Whether a switch without a long wait only costs the note that its thread waits, because no program runs after the switch.
    pub fn costs_little(&self) -> bool {
        matches!(self.maps.taking, Taking::Interrupt(..))
    }

    /// Attaches the programs that must run before another program notes which threads wait.
    ///
    /// # Errors
    /// Returns [`BpfError::Attach`].
    pub fn prepare(&mut self) -> Result<(), BpfError> {
        self.types = None;
        for program in &self.first {
            self.links.push(program.attach(&*self.sys)?);
        }
        Ok(())
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is a page that begins with the structure, and lives as long as self; the programs and this change it by
        // single loads, stores and atomic additions only.
        unsafe { &*self.maps.shared.base().cast() }
    }

    /// Attaches the other programs, after [`BlockedStacks::prepare`]; including the one that notes which threads wait, unless `noted` is
    /// set because another program does.
    ///
    /// # Errors
    /// Returns [`BpfError::Attach`].
    pub fn attach(&mut self, noted: bool) -> Result<(), BpfError> {
        for program in (!noted).then_some(&self.switch).into_iter().chain(&self.waking) {
            self.links.push(program.attach(&*self.sys)?);
        }
        let Some((program, clocks)) = &self.clock else { return Ok(()) };
        for clock in clocks {
            let attached = self.sys.attach_to(program.fd(), clock.as_fd());
            self.links.push(attached.map_err(|error| BpfError::Attach { name: CLOCK, error })?);
        }
        Ok(())
    }

    /// Stops the programs; the ring stays readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Hands out the available samples, the oldest first. Anything else counts as unreadable.
    pub fn read(&mut self, mut take: impl FnMut(Option<Sample>)) {
        if let Taking::Interrupt(Bells { bells, .. }) = &self.maps.taking {
            bells.iter().for_each(Doorbell::answer);
        }
        let in_table = self.is_table();
        let from = Nanos(self.from.load(Ordering::Relaxed));
        self.maps.ring.read(|bytes| match sample(bytes, in_table) {
            Some(early) if early.kind == SampleKind::OffCpu && early.since < from => {}
            sample => take(sample),
        });
    }

    /// Passes on the data that perf has reported about the code of processes since the last call: see [`CodeRecords`].
    pub fn read_code(&mut self, take: impl FnMut(RawRecord<'_>)) {
        if let Ok(code) = &mut self.code {
            code.read(take);
        }
    }

    /// The reason why the code of processes is not reported, if so: then it must be read while they live.
    pub fn without_code(&self) -> Option<&io::Error> {
        self.code.as_ref().err()
    }

    /// The user stack with this number, the innermost frame first; `None` if there is none.
    pub fn user_stack(&self, number: u32) -> Option<Vec<u64>> {
        let mut bytes = [0; USER_FRAMES * size_of::<u64>()];
        let Taking::Table(table) = &self.maps.taking else { return None };
        self.sys.map_lookup(table.as_fd(), number, &mut bytes).ok()?;
        let frames = bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
        Some(frames.take_while(|&frame| frame != 0).collect())
    }

    /// Whether there are stacks that the thread itself recorded on a tracepoint.
    pub fn has_own_stacks(&self) -> bool {
        self.waking.is_some()
    }

    pub fn missing(&self) -> Missing {
        let programs = self.first.iter().chain([&self.switch]).chain(&self.waking);
        let Shared { no_room, given_up } = self.shared();
        Missing {
            no_room: no_room.load(Ordering::Relaxed),
            unseen: programs.map(|program| program.missed(&*self.sys)).sum(),
            given_up: given_up.load(Ordering::Relaxed),
        }
    }
}

/// A clock that fires this many samples a second.
pub(crate) fn clock_attr(frequency: u32) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr {
        size: size_of::<b::perf_event_attr>() as u32,
        type_: b::PERF_TYPE_SOFTWARE,
        config: u64::from(b::PERF_COUNT_SW_CPU_CLOCK),
        ..b::perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_freq = frequency.into();
    attr.set_freq(1);
    attr
}

/// The contents of a sample. `in_table`: user stacks are numbers in the kernel's table.
fn sample(bytes: &[u8], in_table: bool) -> Option<Sample> {
    let double = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut rest = bytes.get(size_of::<Head>()..)?;
    let mut next = |length: usize| {
        let part;
        (part, rest) = rest.split_at_checked(length)?;
        Some(part)
    };
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect()
    };
    // A stack that could not be walked has a negative length.
    let kernel = match usize::try_from(double(offset_of!(Head, kernel))?.cast_signed()) {
        Ok(length) => Some(words(next(length)?)),
        Err(_) => None,
    };
    let kind = match word(offset_of!(Head, kind))? {
        0 => SampleKind::OffCpu,
        1 => SampleKind::Wake(Tid(word(offset_of!(Head, woken))?)),
        2 => SampleKind::Cpu,
        _ => return None,
    };
    let user = match double(offset_of!(Head, user))?.cast_signed() {
        NO_PROGRAM => UserStack::NoProgram,
        number if in_table && kind == SampleKind::OffCpu => match u32::try_from(number) {
            Ok(number) => UserStack::Number(number),
            Err(_) if number == -i64::from(libc::EEXIST) || number == -i64::from(libc::ENOMEM) => {
                UserStack::NoRoom
            }
            Err(_) => UserStack::Unreadable,
        },
        length => {
            let register = |number: usize| double(offset_of!(Head, registers) + 8 * number);
            let registers = Registers {
                instruction: register(0)?,
                stack: register(1)?,
                frame: register(2)?,
                link: register(3)?,
            };
            let frames = match usize::try_from(length) {
                Ok(length) => words(next(length)?),
                Err(_) => Vec::new(),
            };
            let python_frames = word(offset_of!(Head, python_frames))? as usize;
            let python = pythons::frames(next(2 * size_of::<u64>() * python_frames)?);
            let python_end = PythonEnd::of(word(offset_of!(Head, python))?)?;
            let top = next(usize::try_from(double(offset_of!(Head, copied))?).ok()?)?.to_vec();
            let is_cut = frames.len() >= USER_FRAMES;
            UserStack::Walked(Box::new(Walked {
                frames,
                registers,
                top,
                is_cut,
                python,
                python_end,
            }))
        }
    };
    Some(Sample {
        kind,
        tid: Tid(word(offset_of!(Head, tid))?),
        pid: Pid(word(offset_of!(Head, pid))?),
        since: Nanos(double(offset_of!(Head, since))?),
        until: Nanos(double(offset_of!(Head, until))?),
        space: double(offset_of!(Head, space))?,
        user,
        kernel,
        waited: descriptors::waited(&bytes[offset_of!(Head, object)..]).map(Box::new),
    })
}

#[cfg(test)]
mod tests;
