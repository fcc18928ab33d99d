//! Where threads block: programs of their own on the scheduler's tracepoints, which are there only when somebody asked for
//! stacks.
//!
//! ```text
//!   sched_switch, sched_exit_tp --> programs --> ring --> samples: since when, until when, who, both stacks, and what the
//!                                                         user stack can be told from without frame pointers
//! ```
//!
//! Where programs record switches, these note who waits ([`WaitNotes`]), and there is no second one on `sched_switch`.
//!
//! ```text
//!   BlockedStacks::open        maps, and the programs that come behind a switch
//!   BpfEvents::open            its program on switches with the notes, if the kernel takes it
//!   BlockedStacks::prepare     what must run before the first switch is noted
//!   BlockedStacks::attach      the rest; a program on switches of its own if nobody else notes who waits
//! ```

pub(super) mod program;
mod ring;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::asm::{Insn, LICENSE};
use super::btf::{Btf, BtfError, TypeId};
use super::doorbell::Doorbell;
use super::events::{BTF_PATH, BpfError};
use super::interrupts::InterruptCount;
use super::object::{self, Choice, Given, Object, Types};
use super::programs::{Program, newtask};
use super::scope::ScopeMap;
use super::sys::{self, BpfSys, MapKind, MapSpec, On, ProgramSpec};
use super::task::{RegisterLayout, TaskLayout, offset};
use crate::code_records::CodeRecords;
use crate::cpus;
use crate::ring::RawRecord;
use crate::sys::{Mapping, Sys};
use crate::units::{Nanos, Pid, Tid};
use perf_event_open_sys::bindings as b;
use program::{Copied, NO_PROGRAM, NOTE_BYTES, Setting, kind, part, shared};
use ring::SampleRing;

const NAME: &str = "fxtrec_stacks";
const EXIT_NAME: &str = "fxtrec_stacks_u";
const WAKE_NAME: &str = "fxtrec_stacks_w";
const CLOCK_NAME: &str = "fxtrec_stacks_c";

/// Where a thread that came in has its memory again.
const SCHED_EXIT: &str = "btf_trace_sched_exit_tp";

/// Where x86 begins what a CPU has interrupted itself for.
const INTERRUPTED: &str = "btf_trace_irq_work_entry";

/// Bytes of a bell: a thousand long waits of a CPU from one look at the samples to the next.
const BELL_BYTES: usize = 16 << 10;

/// Bytes of the ring that samples come through: some three thousand of the largest, as a herd of threads leaves at once.
const RING_BYTES: usize = 16 << 20;

/// The same where only waits of chosen threads are wanted.
const SMALL_RING_BYTES: usize = 4 << 20;

/// The same where much of each stack is copied: two thousand and more.
const LARGE_RING_BYTES: usize = 64 << 20;

/// How much of a program's stack can be copied, in bytes; a multiple of the least.
pub const LEAST_COPY: usize = program::BLOCK;
pub const MOST_COPY: usize = (program::MOST_BLOCKS - 1) * program::BLOCK;

/// How many different user stacks there is room for, before Linux 6.15.
const USER_STACKS: u32 = 16 * 1024;

/// The most frames of a user stack.
pub const USER_FRAMES: usize = program::USER_FRAMES;

/// The most frames of a kernel stack.
pub const KERNEL_FRAMES: usize = program::KERNEL_FRAMES;

/// A program's registers when it entered the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
    /// Where arm64 keeps the address that a function returns to; 0 elsewhere.
    pub link: u64,
}

/// A user stack, as far as the kernel could tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// What frame pointers lead to, the innermost first.
    pub frames: Vec<u64>,
    pub registers: Registers,
    /// The bytes at the stack's top, which the stack register points to; empty when they could not be read.
    pub top: Vec<u8>,
    /// Whether frame pointers lead on: there was no room for more.
    pub is_cut: bool,
}

/// What became of a thread's user stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserStack {
    /// It was taken after the wait.
    Walked(Box<Walked>),
    /// It has none: it is one of the kernel's own threads.
    NoProgram,
    /// It is in the table, under this number.
    Number(u32),
    /// The first frame could not be read.
    Unreadable,
    /// The table had no room for it.
    NoRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which waits are long.
    pub over: Nanos,
    /// Also that of the thread that ends a long wait.
    pub wakes: bool,
    /// Also those of threads that run, so many times a second on each CPU.
    pub frequency: Option<u32>,
    /// How much of the program's stack is copied at most, in bytes, to unwind it by tables alone: from [`LEAST_COPY`] to [`MOST_COPY`];
    /// `None` for what most programs need.
    pub copy: Option<usize>,
    /// Of waits only those of chosen threads: see [`BlockedStacks::choose`].
    pub chosen: bool,
}

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// A wait that was long, and where it was.
    OffCpu,
    /// The thread that ended the wait of this one.
    Wake(Tid),
    Cpu,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub kind: SampleKind,
    pub tid: Tid,
    pub pid: Pid,
    /// When the wait began; for a thread that runs, now.
    pub since: Nanos,
    /// When the thread came in again, was woken, or ran.
    pub until: Nanos,
    /// Tells the memory of one program from that of the next that the process executes; 0 for the kernel's own threads.
    pub space: u64,
    pub user: UserStack,
    /// The program counters of its kernel stack, the innermost first; `None` when it could not be walked.
    pub kernel: Option<Vec<u64>>,
}

/// Samples that there are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The ring had no room for them.
    pub no_room: u64,
    /// Switches that the program did not see since it was running already on their CPU, where the kernel counts that.
    pub unseen: u64,
    /// Waits whose note was given up for that of another thread with the same lower bits of its id. They need not have been
    /// long.
    pub given_up: u64,
}

/// What a program that records switches needs to note who waits: see [`BlockedStacks::notes`].
#[derive(Clone, Copy, Debug)]
pub struct WaitNotes<'a> {
    maps: &'a Maps,
}

impl<'a> WaitNotes<'a> {
    /// The names of all of [`WaitNotes::maps`].
    pub(super) const NAMES: [&'static str; 7] =
        ["notes", "chosen_threads", "missing", "scratch", "samples", "bells", "user_stacks"];

    /// What the program is told; the numbers of the ways to take stacks are those of `notes.h`.
    pub(super) fn choices(&self) -> [Choice; 4] {
        let Maps { taking, over, copied, chosen, .. } = self.maps;
        let taking = match taking {
            Taking::Exit => 0,
            Taking::Interrupt(_) => 1,
            Taking::Table(_) => 2,
        };
        [
            ("taking", taking),
            ("over", over.0),
            ("pending_at", u64::from(copied.pending().unsigned_abs())),
            ("are_chosen", chosen.is_some().into()),
        ]
    }

    /// The maps that it works with. What is not there is not used either, so any map will do.
    pub(super) fn maps(&self) -> [(&'static str, Given<'a>); 7] {
        let Maps { taking, notes, chosen, scratch, ring, shared, .. } = self.maps;
        let none = Given::Memory(notes.as_fd());
        let (bells, table) = match taking {
            Taking::Exit => (none, none),
            Taking::Interrupt(bells) => (Given::Map(bells.outer.as_fd()), none),
            Taking::Table(table) => (none, Given::Map(table.as_fd())),
        };
        let given = [
            none,
            chosen.as_ref().map_or(none, |chosen| Given::Memory(chosen.fd())),
            Given::Memory(shared.as_fd()),
            Given::Map(scratch.as_fd()),
            Given::Map(ring.fd()),
            bells,
            table,
        ];
        let mut given = given.into_iter();
        WaitNotes::NAMES.map(|name| (name, given.next().unwrap_or(none)))
    }
}

/// How user stacks are taken, with what that takes. The first of them that the kernel has is used.
#[derive(Debug)]
enum Taking {
    /// By an interrupt.
    Interrupt(Bells),
    /// Behind each switch.
    Exit,
    /// When a thread goes out, into this table.
    Table(OwnedFd),
}

/// A bell for each CPU, by which it interrupts itself.
#[derive(Debug)]
struct Bells {
    outer: OwnedFd,
    bells: Vec<Doorbell>,
}

/// What the programs on switches work with.
#[derive(Debug)]
struct Maps {
    memory: i16,
    over: Nanos,
    copied: Copied,
    taking: Taking,
    notes: OwnedFd,
    chosen: Option<ScopeMap>,
    scratch: OwnedFd,
    ring: SampleRing,
    shared: OwnedFd,
}

impl Maps {
    fn is_table(&self) -> bool {
        matches!(self.taking, Taking::Table(_))
    }

    fn setting<'a>(&'a self, task: &'a TaskLayout) -> Setting<'a> {
        Setting {
            task,
            memory: self.memory,
            over: self.over,
            notes: self.notes.as_fd(),
            chosen: self.chosen.as_ref().map(ScopeMap::fd),
            by_interrupt: matches!(self.taking, Taking::Interrupt(_)),
            copied: self.copied,
            scratch: self.scratch.as_fd(),
            ring: self.ring.fd(),
            shared: self.shared.as_fd(),
        }
    }
}

impl Bells {
    fn new(files: &dyn Sys, sys: &dyn BpfSys) -> io::Result<Bells> {
        let possible = cpus::possible(files).map_err(io::Error::other)?;
        let online = cpus::online(files).map_err(io::Error::other)?;
        let bell = |_| Doorbell::of_bytes(sys, BELL_BYTES);
        let bells = online.iter().map(bell).collect::<io::Result<Vec<Doorbell>>>()?;
        let outer = sys.map_create(&MapSpec {
            kind: MapKind::ArrayOfMaps,
            value_bytes: 4,
            entries: possible.last().map_or(1, |cpu| cpu.0 + 1),
            mapped: false,
            inner: bells.first().map(Doorbell::fd),
        })?;
        let of_cpus = online.iter().map(|cpu| cpu.0).zip(bells.iter().map(Doorbell::fd));
        sys.map_set_maps(outer.as_fd(), &of_cpus.collect::<Vec<_>>())?;
        Ok(Bells { outer, bells })
    }
}

/// The program with its maps. All of it vanishes with this.
#[derive(Debug)]
pub struct BlockedStacks {
    sys: Box<dyn BpfSys + Send>,
    /// With their names, in the order in which they are attached: those that must be there before a wait is noted.
    first: Vec<(&'static str, OwnedFd)>,
    /// And the others.
    programs: Vec<(&'static str, OwnedFd)>,
    /// The clocks of the CPUs, and the program for their samples.
    clocks: Vec<OwnedFd>,
    clocked: Option<OwnedFd>,
    links: Vec<OwnedFd>,
    /// What tells of code as it is loaded, or why nothing does.
    code: io::Result<CodeRecords>,
    shared_values: Mapping,
    maps: Maps,
    /// The program on switches, for where no other notes who waits.
    switch: OwnedFd,
    /// Waits that began earlier are not handed out, in nanoseconds.
    from: Arc<AtomicU64>,
    /// Which the other programs go on using.
    _more_scratch: Vec<OwnedFd>,
}

fn map_error(what: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

fn load(
    sys: &dyn BpfSys,
    name: &'static str,
    insns: &[Insn],
    tracepoint: Option<u32>,
) -> Result<(&'static str, OwnedFd), BpfError> {
    let on = tracepoint.map_or(On::Samples, On::Tracepoint);
    let spec = ProgramSpec { name, insns, license: LICENSE, on };
    let failed = |(error, log)| BpfError::Load { name, error, log };
    Ok((name, sys::load(sys, &spec).map_err(failed)?))
}

fn load_program(sys: &dyn BpfSys, program: &Program) -> Result<(&'static str, OwnedFd), BpfError> {
    let failed = |(error, log)| BpfError::Load { name: program.name, error, log };
    Ok((program.name, sys::load(sys, &program.spec()).map_err(failed)?))
}

impl BlockedStacks {
    /// Loads the programs for what is wanted. They do not run yet.
    ///
    /// # Errors
    /// [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        wanted: Wanted,
    ) -> Result<BlockedStacks, BpfError> {
        let bytes = files.read(Path::new(BTF_PATH)).map_err(|error| BpfError::NoBtf { error })?;
        let types = Types::parse(&bytes)?;
        let btf = Btf::parse(bytes)?;
        let noting = Object::new(&object::STACKS, &types)?;
        let task = TaskLayout::new(&btf, InterruptCount::Unknown)?;
        let memory = memory(&btf)?;
        let array = |value_bytes: usize, mapped| MapSpec {
            kind: MapKind::Array,
            value_bytes: u32::try_from(value_bytes).unwrap_or(u32::MAX),
            entries: 1,
            mapped,
            inner: None,
        };
        let create = |what, spec: MapSpec<'_>| sys.map_create(&spec).map_err(map_error(what));
        let registers = RegisterLayout::new(&btf);
        let copied = match wanted.copy {
            Some(bytes) => {
                // One more: of the first there is what is left of its page.
                Copied::Blocks((bytes / program::BLOCK + 1).clamp(1, program::MOST_BLOCKS))
            }
            None => Copied::Usual,
        };
        let scratch =
            || MapSpec { kind: MapKind::PerCpuArray, ..array(copied.scratch_bytes(), false) };
        let scratch = || create("a sample", scratch());
        let shared = create("counts", array(shared::BYTES, true))?;
        let shared_values = Mapping::new(Some(shared.as_fd()), crate::perf::page_size())
            .map_err(map_error("counts"))?;
        let ring_bytes = match wanted.copy {
            Some(_) => LARGE_RING_BYTES,
            None if wanted.chosen => SMALL_RING_BYTES,
            None => RING_BYTES,
        };
        let chosen = wanted.chosen.then(|| ScopeMap::new(&*sys)).transpose();
        let mut maps = Maps {
            memory,
            over: wanted.over,
            copied,
            taking: Taking::Exit,
            notes: create("the threads that wait", array(2 * NOTE_BYTES, false))?,
            chosen: chosen.map_err(map_error("the chosen threads"))?,
            scratch: scratch()?,
            ring: SampleRing::new(&*sys, ring_bytes).map_err(map_error("samples"))?,
            shared,
        };
        let load = |name, insns: &[Insn], tracepoint| load(&*sys, name, insns, tracepoint);
        let both = |maps: &Maps, behind: Option<TypeId>| {
            let setting = maps.setting(&task);
            let behind = behind.map(|tracepoint| {
                let registers = *registers.as_ref().map_err(Clone::clone)?;
                load(EXIT_NAME, &program::switched(setting, registers)?, Some(tracepoint))
            });
            let first = behind.transpose()?.into_iter().collect::<Vec<_>>();
            let notes = WaitNotes { maps };
            let mut choices = vec![("state_is_told", task.state.is_none().into())];
            choices.extend(notes.choices());
            let switch = noting.with(&choices, &notes.maps(), &[])?;
            let switch = switch.on(NAME, task.tracepoints.switch)?;
            Ok::<_, BpfError>((first, load_program(&*sys, &switch)?.1))
        };
        // Why a way is not there is of no interest as long as there is another.
        let mut loaded = Err(());
        if let (Ok(interrupt), Ok(_)) = (btf.typedef(INTERRUPTED), &registers)
            && let Ok(bells) = Bells::new(files, &*sys)
        {
            maps.taking = Taking::Interrupt(bells);
            loaded = both(&maps, Some(interrupt)).map_err(drop);
        }
        if let (Err(_), Ok(exit), Ok(_)) = (&loaded, btf.typedef(SCHED_EXIT), &registers) {
            maps.taking = Taking::Exit;
            loaded = both(&maps, Some(exit)).map_err(drop);
        }
        let (mut first, switch) = match loaded {
            Ok(loaded) => loaded,
            Err(_) => {
                let table = MapSpec {
                    kind: MapKind::StackTrace,
                    entries: USER_STACKS,
                    ..array(USER_FRAMES * size_of::<u64>(), false)
                };
                maps.taking = Taking::Table(create("user stacks", table)?);
                both(&maps, None)?
            }
        };
        let (setting, mut programs) = (maps.setting(&task), Vec::new());
        if let Some(chosen) = setting.chosen {
            let scope = Object::new(&object::SCOPE, &types)?;
            let program = newtask(&scope, chosen, task.tracepoints.newtask)?;
            first.push(load_program(&*sys, &program)?);
        }
        let mut more_scratch = Vec::new();
        if wanted.wakes {
            let (scratch, registers) = (scratch()?, *registers.as_ref().map_err(Clone::clone)?);
            let setting = Setting { scratch: scratch.as_fd(), ..setting };
            let insns = program::waking(setting, registers)?;
            programs.push(load(WAKE_NAME, &insns, Some(task.tracepoints.waking))?);
            more_scratch.push(scratch);
        }
        let (mut clocks, mut clocked) = (Vec::new(), None);
        if let Some(frequency) = wanted.frequency {
            let (scratch, registers) = (scratch()?, registers?);
            let setting = Setting { scratch: scratch.as_fd(), ..setting };
            clocked = Some(load(CLOCK_NAME, &program::running(setting, registers)?, None)?.1);
            more_scratch.push(scratch);
            for cpu in cpus::online(files).map_err(|error| BpfError::Map {
                what: "the CPUs to sample",
                error: io::Error::other(error),
            })? {
                let opened = files.perf_event_open(&mut clock_attr(frequency), cpu.0);
                clocks.push(opened.map_err(map_error("the clock of a CPU"))?);
            }
        }
        Ok(BlockedStacks {
            sys,
            first,
            programs,
            clocks,
            clocked,
            links: Vec::new(),
            code: CodeRecords::open(files),
            shared_values,
            maps,
            switch,
            from: Arc::new(AtomicU64::new(0)),
            _more_scratch: more_scratch,
        })
    }

    /// What another program needs to note who waits; `None` where that takes what only a program of this has.
    pub fn notes(&self) -> Option<WaitNotes<'_>> {
        (!self.maps.is_table()).then_some(WaitNotes { maps: &self.maps })
    }

    /// Since when waits are of interest, which may be told while they are read: before its COMMAND runs, a process waits for that.
    pub fn from(&self) -> Arc<AtomicU64> {
        self.from.clone()
    }

    /// Puts the threads of these processes among the chosen, to which belongs what they start from [`BlockedStacks::prepare`] on.
    pub fn choose(&self, pids: &[Pid]) {
        let Some(chosen) = &self.maps.chosen else { return };
        pids.iter().for_each(|pid| chosen.insert_process(*pid));
    }

    /// Whether a switch without a long wait costs no more than a note: nothing runs behind it.
    pub fn costs_little(&self) -> bool {
        matches!(self.maps.taking, Taking::Interrupt(..))
    }

    /// Lets those run that must be there before another program notes who waits.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn prepare(&mut self) -> Result<(), BpfError> {
        for (name, program) in &self.first {
            let attached = self.sys.attach(program.as_fd());
            self.links.push(attached.map_err(|error| BpfError::Attach { name, error })?);
        }
        Ok(())
    }

    fn shared(&self, at: i16) -> &AtomicU64 {
        let at = usize::from(at.unsigned_abs()) % shared::BYTES / 8 * 8;
        // SAFETY: an aligned u64 within the page that the mapping has, which lives as long as self; the program and this
        // change it by single loads, stores and atomic additions only.
        unsafe { AtomicU64::from_ptr(self.shared_values.base().add(at).cast()) }
    }

    /// Lets the other programs run, behind [`BlockedStacks::prepare`]; with one that notes who waits, unless `noted` says that another
    /// does.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&mut self, noted: bool) -> Result<(), BpfError> {
        if !noted {
            let attached = self.sys.attach(self.switch.as_fd());
            self.links.push(attached.map_err(|error| BpfError::Attach { name: NAME, error })?);
        }
        for (name, program) in &self.programs {
            let attached = self.sys.attach(program.as_fd());
            self.links.push(attached.map_err(|error| BpfError::Attach { name, error })?);
        }
        for (program, clock) in
            self.clocked.iter().flat_map(|it| self.clocks.iter().map(move |clock| (it, clock)))
        {
            let attached = self.sys.attach_to(program.as_fd(), clock.as_fd());
            let failed = |error| BpfError::Attach { name: CLOCK_NAME, error };
            self.links.push(attached.map_err(failed)?);
        }
        Ok(())
    }

    /// Stops the programs; what is in the ring stays readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Hands out the samples that there are, the oldest first. What is not one counts as unreadable.
    pub fn read(&mut self, mut take: impl FnMut(Option<Sample>)) {
        if let Taking::Interrupt(Bells { bells, .. }) = &self.maps.taking {
            bells.iter().for_each(Doorbell::answer);
        }
        let in_table = self.maps.is_table();
        let from = Nanos(self.from.load(Ordering::Relaxed));
        self.maps.ring.read(|bytes| match sample(bytes, in_table) {
            Some(early) if early.kind == SampleKind::OffCpu && early.since < from => {}
            sample => take(sample),
        });
    }

    /// Hands out what perf has told of the code of processes since the last call: see [`CodeRecords`].
    pub fn read_code(&mut self, take: impl FnMut(RawRecord<'_>)) {
        if let Ok(code) = &mut self.code {
            code.read(take);
        }
    }

    /// Why nothing is told of the code of processes, if so: it must be asked for, as long as they live.
    pub fn without_code(&self) -> Option<&io::Error> {
        self.code.as_ref().err()
    }

    /// The user stack of this number, the innermost frame first; `None` when there is none.
    pub fn user_stack(&self, number: u32) -> Option<Vec<u64>> {
        let mut bytes = [0; USER_FRAMES * size_of::<u64>()];
        let Taking::Table(table) = &self.maps.taking else { return None };
        self.sys.map_lookup(table.as_fd(), number, &mut bytes).ok()?;
        let frames = bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
        Some(frames.take_while(|&frame| frame != 0).collect())
    }

    /// Whether there are stacks that were taken on a tracepoint, by the thread itself.
    pub fn has_own_stacks(&self) -> bool {
        self.programs.iter().any(|(name, _)| *name == WAKE_NAME)
    }

    pub fn missing(&self) -> Missing {
        Missing {
            no_room: self.shared(shared::NO_ROOM).load(Ordering::Relaxed),
            unseen: self
                .first
                .iter()
                .chain(&self.programs)
                .map(|(_, program)| program)
                .chain([&self.switch])
                .map(|program| self.sys.missed(program.as_fd()).unwrap_or(0))
                .sum(),
            given_up: self.shared(shared::GIVEN_UP).load(Ordering::Relaxed),
        }
    }
}

/// A clock that takes so many samples a second.
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

/// From the beginning of a task to the address of its memory.
fn memory(btf: &Btf) -> Result<i16, BtfError> {
    offset(btf.member(btf.structure("task_struct")?, "mm")?.offset, "mm")
}

/// What the bytes of a sample say. `in_table` tells that user stacks are numbers of the kernel's table.
fn sample(bytes: &[u8], in_table: bool) -> Option<Sample> {
    let double = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut rest = bytes.get(part::FRAMES..)?;
    let mut next = |length: usize| {
        let part;
        (part, rest) = rest.split_at_checked(length)?;
        Some(part)
    };
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect()
    };
    // What could not be walked has a negative length.
    let kernel = match usize::try_from(double(part::KERNEL)?.cast_signed()) {
        Ok(length) => Some(words(next(length)?)),
        Err(_) => None,
    };
    let kind = match word(part::KIND)?.cast_signed() {
        kind::OFF_CPU => SampleKind::OffCpu,
        kind::WAKE => SampleKind::Wake(Tid(word(part::WOKEN)?)),
        kind::CPU => SampleKind::Cpu,
        _ => return None,
    };
    let user = match double(part::USER)?.cast_signed() {
        NO_PROGRAM => UserStack::NoProgram,
        number if in_table && kind == SampleKind::OffCpu => match u32::try_from(number) {
            Ok(number) => UserStack::Number(number),
            Err(_) if number == -i64::from(libc::EEXIST) || number == -i64::from(libc::ENOMEM) => {
                UserStack::NoRoom
            }
            Err(_) => UserStack::Unreadable,
        },
        length => {
            let [instruction, stack, frame, link] = part::REGISTERS.map(double);
            let registers =
                Registers { instruction: instruction?, stack: stack?, frame: frame?, link: link? };
            let frames = match usize::try_from(length) {
                Ok(length) => words(next(length)?),
                Err(_) => Vec::new(),
            };
            let top = next(usize::try_from(double(part::COPIED)?).ok()?)?.to_vec();
            let is_cut = frames.len() >= USER_FRAMES;
            UserStack::Walked(Box::new(Walked { frames, registers, top, is_cut }))
        }
    };
    Some(Sample {
        kind,
        tid: Tid(word(part::TID)?),
        pid: Pid(word(part::PID)?),
        since: Nanos(double(part::SINCE)?),
        until: Nanos(double(part::UNTIL)?),
        space: double(part::SPACE)?,
        user,
        kernel,
    })
}

#[cfg(test)]
mod tests;
