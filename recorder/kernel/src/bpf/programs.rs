//! The objects of the recording programs, and their parameters.
//!
//! The programs on events are in `recorder/kernel/bpf/events.bpf.c`. They do, in this order:
//!
//! ```text
//!   with a scope: leave, if the thread does not matter
//!   lane of this CPU              two array lookups, which the kernel turns into a few instructions
//!   leave, if the lane is busy    an interrupt in the middle of a wakeup
//!   count the event
//!   time                          CLOCK_MONOTONIC, by the function that perf takes its time from
//!   leave, if the lane is full    counting a loss
//!   tell losses and names         if there are any to tell
//!   the record                    on switches, the waiting thread is noted too, if stacks are recorded
//!   the head
//!   ring the bell, if it is time to
//! ```
//!
//! The program on the beginning of a wakeup stores the waker for the program on its completion, which may run on another CPU, in an
//! interrupt.

use std::borrow::Cow;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::account;
use super::events::BpfError;
use super::interrupts::{self, InterruptCount, Reach};
use super::lane::{LaneShape, SPARE};
use super::object::{Choice, Extern, Given, Object, ObjectError};
use super::stacks::WaitNotes;
use super::sys::{self, BpfSys, Insn, On, ProgramSpec};
use super::types::Types;
use crate::cgroups::Hierarchy;

/// The options that determine the programs.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub types: &'a Types,
    /// The facts that they report, and which of them the running kernel provides.
    pub way: ReportOptions,
    /// The layout of lanes.
    pub shape: LaneShape,
    /// The map of lanes, by CPU.
    pub lanes: BorrowedFd<'a>,
    pub doorbell: BorrowedFd<'a>,
    /// The scope, if it is not everything.
    pub scope: Option<Scope<'a>>,
    /// The only user whose threads are in scope.
    pub owner: Option<u32>,
    /// Wakers of wakeups in progress: see `wakers.h`.
    pub wakers: BorrowedFd<'a>,
    /// Which threads in scope wait for which CPU: see `waits.h`.
    pub waits: Option<BorrowedFd<'a>>,
    pub accounts: Accounts<'a>,
    /// The cause of interrupts, on each CPU and for each thread that is being woken, if that is reported: see [`super::origins`].
    pub origins: Option<Origins<'a>>,
    /// Whether programs report which disk request is completed: see [`super::requests`].
    pub requests: bool,
    /// Which thread waits for which kernel lock, if reported: see [`super::contentions`].
    pub contentions: Option<BorrowedFd<'a>>,
    /// Which threads wait, if noted: see [`super::stacks`].
    pub notes: Option<WaitNotes<'a>>,
}

/// The facts that the programs on events report in addition to the event, and how they determine whether an interrupt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    pub interrupts: InterruptCount,
    pub steal: bool,
    pub throttles: bool,
    /// The system call in which a thread blocks, and the futex.
    pub syscalls: bool,
    pub futexes: bool,
}

/// Which threads are reported.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// The threads of a set: see [`super::scope`].
    Threads(BorrowedFd<'a>),
    /// The threads of processes in some cgroups, with the hierarchy and its number: see [`super::groups`].
    Groups(BorrowedFd<'a>, Hierarchy, u32),
    /// All threads of one user.
    Owned,
}

/// Where the causes of interrupts are noted.
#[derive(Clone, Copy, Debug)]
pub struct Origins<'a> {
    pub of_cpus: BorrowedFd<'a>,
    pub told: BorrowedFd<'a>,
}

/// Where interrupts and requests for a switch are counted: see [`super::account`].
#[derive(Clone, Copy, Debug)]
pub struct Accounts<'a> {
    pub map: BorrowedFd<'a>,
    /// The number of possible CPUs.
    pub possible: usize,
    pub irqs: bool,
    pub asking: bool,
}

impl Accounts<'_> {
    /// Where a program finds the line of a CPU.
    pub fn choice(&self) -> Choice {
        ("last_account", account::lines(self.possible) as u64 - 1)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the kernel's list of programs.
    pub name: &'static str,
    pub on: On,
    pub insns: Vec<Insn>,
    pub license: Cow<'static, CStr>,
}

impl Program {
    /// The request to the kernel to load it.
    pub fn spec(&self) -> ProgramSpec<'_> {
        let Program { name, insns, license, on } = self;
        ProgramSpec { name, insns, license, on: *on }
    }
}

/// A program that the kernel has accepted.
#[derive(Debug)]
pub(super) struct Loaded {
    name: &'static str,
    program: OwnedFd,
}

impl Loaded {
    /// Loads it. It does not run yet.
    ///
    /// # Errors
    /// Returns [`BpfError::Load`].
    pub(super) fn new(sys: &dyn BpfSys, program: &Program) -> Result<Loaded, BpfError> {
        let name = program.name;
        match sys::load(sys, &program.spec()) {
            Ok(program) => Ok(Loaded { name, program }),
            Err((error, log)) => Err(BpfError::Load { name, error, log }),
        }
    }

    /// Runs it on its tracepoint until the descriptor is closed.
    ///
    /// # Errors
    /// Returns [`BpfError::Attach`].
    pub(super) fn attach(&self, sys: &dyn BpfSys) -> Result<OwnedFd, BpfError> {
        let failed = |error| BpfError::Attach { name: self.name, error };
        sys.attach(self.fd()).map_err(failed)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// How often it did not run because it was already running on that CPU, if the kernel counts that.
    pub(super) fn missed(&self, sys: &dyn BpfSys) -> u64 {
        sys.missed(self.fd()).unwrap_or(0)
    }
}

/// The variables of `owner.h`.
pub(super) fn of_owner(owner: Option<u32>) -> [Choice; 2] {
    [("owned", owner.is_some().into()), ("owner", owner.unwrap_or(0).into())]
}

/// The objects of [`all`].
#[derive(Debug)]
pub struct Objects {
    pub events: Object,
    /// Present if a scope is.
    pub scope: Option<Object>,
}

impl Setting<'_> {
    /// The parameters of every program that writes into lanes.
    fn of_lanes(&self) -> [Choice; 3] {
        let records = self.shape.records as u64;
        [
            ("last_record", records - 1),
            ("most_records", records - SPARE as u64),
            ("bell_records", self.shape.bell_records() as u64),
        ]
    }

    fn of_scope(&self) -> [Choice; 4] {
        let [owned, owner] = of_owner(self.owner);
        let (kind, by_controller) = match self.scope {
            None => (0, false),
            Some(Scope::Threads(_)) => (1, false),
            Some(Scope::Groups(_, kind, _)) => (2, kind == Hierarchy::Controller),
            Some(Scope::Owned) => (3, false),
        };
        [("scope_is", kind), ("by_controller", by_controller.into()), owned, owner]
    }

    /// How a program finds out whether an interrupt runs; the ways are numbered as in `wakers.h`.
    pub(super) fn of_interrupts(&self) -> [Choice; 3] {
        let (way, count) = match self.way.interrupts {
            InterruptCount::Unknown => (0, 0),
            InterruptCount::OfCpu { offset } => (1, offset),
            InterruptCount::BesideRunQueue { distance, reach } => match reach {
                Reach::Cast => (2, distance),
                Reach::CopyLast => (3, distance),
                Reach::CopyAll => (4, distance),
            },
            InterruptCount::OfTask => (5, 0),
        };
        let count = i64::from(count).cast_unsigned();
        let bits = interrupts::bits(self.types).into();
        [("interrupts_by", way), ("count_at", count), ("interrupt_bits", bits)]
    }

    pub(super) fn externs(&self) -> Vec<Extern> {
        let Setting { types, way, .. } = *self;
        let by_cast =
            matches!(way.interrupts, InterruptCount::BesideRunQueue { reach: Reach::Cast, .. });
        let sees_queues = way.throttles && !types.has("marks_throttled");
        let cast = types.cast().filter(|_| by_cast || sees_queues);
        let of_cpu = matches!(way.interrupts, InterruptCount::OfCpu { .. });
        let variable = types.count_variable().filter(|_| of_cpu);
        let variable = variable.map(|(_, variable)| Extern::Variable(variable));
        cast.into_iter().chain(variable).collect()
    }

    /// All maps of the programs on events. If a map does not exist, it is not used either, so any map will do.
    pub(super) fn maps(&self) -> Vec<(&'static str, Given<'_>)> {
        let none = Given::Memory(self.wakers);
        let (threads, groups) = match self.scope {
            Some(Scope::Threads(set)) => (Given::Memory(set), none),
            Some(Scope::Groups(sets, ..)) => (none, Given::Memory(sets)),
            Some(Scope::Owned) | None => (none, none),
        };
        let mut maps = vec![
            ("lanes", Given::Map(self.lanes)),
            ("doorbell", Given::Map(self.doorbell)),
            ("wakers", Given::Memory(self.wakers)),
            ("waits", self.waits.map_or(none, Given::Memory)),
            ("accounts", Given::Memory(self.accounts.map)),
            ("contentions", self.contentions.map_or(none, Given::Memory)),
            ("origins", self.origins.map_or(none, |origins| Given::Memory(origins.of_cpus))),
            ("told_origins", self.origins.map_or(none, |origins| Given::Memory(origins.told))),
            ("threads", threads),
            ("groups", groups),
        ];
        match self.notes {
            Some(notes) => maps.extend(notes.maps()),
            None => maps.extend(WaitNotes::NAMES.map(|name| (name, none))),
        }
        maps
    }
}

/// The programs on events and their tracepoints, in the order in which they are to be attached.
pub const ON_EVENTS: [(&str, &str); 5] = [
    ("fxtrec_switch", "sched_switch"),
    ("fxtrec_migrate", "sched_migrate_task"),
    ("fxtrec_waking", "sched_waking"),
    ("fxtrec_wake_new", "sched_wakeup_new"),
    ("fxtrec_wakeup", "sched_wakeup"),
];

/// All programs, in the order in which they are to be attached: those for the scope before those for events, and switches before wakeups,
/// which name the running thread.
///
/// # Errors
/// Returns [`ObjectError::Missing`].
pub fn all(
    objects: &Objects,
    setting: &Setting<'_>,
    waking: bool,
) -> Result<Vec<Program>, ObjectError> {
    let Setting { types, way, .. } = *setting;
    let mut programs = Vec::new();
    match setting.scope.zip(objects.scope.as_ref()) {
        Some((Scope::Threads(set), object)) => programs.push(newtask(object, types, set)?),
        Some((Scope::Groups(sets, _, hierarchy), object)) => {
            let given = of_scope_alone(sets, setting.doorbell);
            let object = object.with(&[("hierarchy", hierarchy.into())], &given, &[])?;
            programs.push(object.on("fxtrec_mkdir", types.tracepoint("cgroup_mkdir")?)?);
        }
        Some((Scope::Owned, _)) | None => {}
    }
    let mut choices = vec![
        setting.accounts.choice(),
        ("reports_steal", way.steal.into()),
        ("reports_irqs", setting.accounts.irqs.into()),
        ("reports_requests", setting.accounts.asking.into()),
        ("reports_syscalls", way.syscalls.into()),
        ("reports_futexes", (way.syscalls && way.futexes).into()),
        ("reports_locks", setting.contentions.is_some().into()),
        ("reports_origins", setting.origins.is_some().into()),
        ("reports_disks", setting.requests.into()),
        ("reports_throttles", way.throttles.into()),
        ("reports_wakings", waking.into()),
        ("notes_waits", setting.notes.is_some().into()),
    ];
    choices.extend(setting.of_lanes());
    choices.extend(setting.of_scope());
    choices.extend(setting.of_interrupts());
    choices.extend(setting.notes.iter().flat_map(WaitNotes::choices));
    let externs = setting.externs();
    let events = objects.events.with(&choices, &setting.maps(), &externs)?;
    for (name, tracepoint) in ON_EVENTS {
        programs.push(events.on(name, types.tracepoint(tracepoint)?)?);
    }
    Ok(programs)
}

/// The parameters of each program that maintains the scope.
fn of_scope_alone<'a>(
    set: BorrowedFd<'a>,
    doorbell: BorrowedFd<'a>,
) -> [(&'static str, Given<'a>); 4] {
    let (set, none) = (Given::Memory(set), Given::Map(doorbell));
    [("threads", set), ("groups", set), ("doorbell", none), ("lanes", none)]
}

/// The program that adds the children of a set's threads to the set.
///
/// # Errors
/// Returns [`ObjectError::Missing`].
pub(super) fn newtask(
    scope: &Object,
    types: &Types,
    set: BorrowedFd<'_>,
) -> Result<Program, ObjectError> {
    let scope = scope.with(&[], &of_scope_alone(set, set), &[])?;
    scope.on("fxtrec_newtask", types.tracepoint("task_newtask")?)
}

/// The programs on system calls with these numbers, one bit each, or on all. The end is attached first, so that a call that began earlier
/// does not seem endless. The lanes in `setting` are those of system calls.
///
/// # Errors
/// Errors of [`all`].
pub fn on_calls(
    calls: &Object,
    setting: &Setting<'_>,
    numbers: Option<BorrowedFd<'_>>,
) -> Result<Vec<Program>, ObjectError> {
    let maps = [
        ("lanes", Given::Map(setting.lanes)),
        ("doorbell", Given::Map(setting.doorbell)),
        ("numbers", Given::Memory(numbers.unwrap_or(setting.wakers))),
    ];
    let mut choices = setting.of_lanes().to_vec();
    choices.push(("are_numbers", numbers.is_some().into()));
    let calls = calls.with(&choices, &maps, &[])?;
    Ok(vec![
        calls.on("fxtrec_call_end", setting.types.tracepoint("sys_exit")?)?,
        calls.on("fxtrec_call", setting.types.tracepoint("sys_enter")?)?,
    ])
}

/// Whether programs know where the kernel saves a thread's user registers.
pub fn knows_registers() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}
