//! Loads and runs the programs: all BPF objects of a recording.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::account;
use super::contentions;
use super::doorbell::Doorbell;
use super::groups::GroupScope;
use super::interrupts::InterruptCount;
use super::lane::{Lane, LaneShape};
use super::object::{self, Given, Object, ObjectError};
use super::origins;
use super::packets;
use super::programs::{
    self, Accounts, Loaded, Objects, Origins, Program, ReportOptions, Scope, Setting,
    knows_registers,
};
use super::requests;
use super::scope::{ScopeBy, ScopeMap};
use super::stacks::WaitNotes;
use super::sys::{BpfSys, MapSpec};
use super::types::Types;
use crate::cgroups::{self, Hierarchy};
use crate::sys::Sys;
use crate::units::Cpu;

mod calls;

use calls::OfCalls;

pub use super::types::BTF_PATH;

/// Eight bytes for each of `WAKERS`, as in `wakers.h`.
const WAKERS_BYTES: usize = 64 * 1024 * 8;

/// Same for `WAITS` of `waits.h`.
const WAITS_BYTES: usize = 64 * 1024 * 8;

/// Lanes are not made smaller than this when the kernel refuses memory, in bytes.
const MIN_LANE_BYTES: usize = 128 * 1024;

/// The reason why BPF programs are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The kernel does not describe its types, or not to this user.
    #[error("cannot read {path}: {error}", path = BTF_PATH)]
    NoBtf { error: io::Error },
    /// A map could not be created or mapped.
    #[error("cannot create the BPF map for {what}: {error}")]
    Map { what: &'static str, error: io::Error },
    #[error("the kernel rejected the BPF program {name}: {error}")]
    Load {
        name: &'static str,
        error: io::Error,
        /// The verifier's log; empty if none was requested.
        log: String,
    },
    /// A program could not be attached to its tracepoint.
    #[error("cannot attach the BPF program {name}: {error}")]
    Attach { name: &'static str, error: io::Error },
    /// The compiled programs could not be prepared.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl BpfError {
    /// The verifier's log, if one was requested and is not empty.
    pub fn verifier_log(&self) -> Option<&str> {
        match self {
            BpfError::Load { log, .. } => Some(log.trim_end()).filter(|log| !log.is_empty()),
            _ => None,
        }
    }

    /// Whether a limit of locked memory may be the reason.
    pub fn may_lack_memory(&self) -> bool {
        match self {
            BpfError::Map { error, .. } | BpfError::Load { error, .. } => {
                error.raw_os_error() == Some(libc::EPERM)
            }
            _ => false,
        }
    }

    /// Whether the limit of open files is the reason.
    pub fn lacks_files(&self) -> bool {
        match self {
            BpfError::Map { error, .. }
            | BpfError::Load { error, .. }
            | BpfError::Attach { error, .. } => error.raw_os_error() == Some(libc::EMFILE),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The CPUs that are online.
    pub cpus: &'a [Cpu],
    /// The number of possible CPUs: one more than the highest CPU number.
    pub possible: usize,
    /// Maximum size of each CPU's lane, in bytes.
    pub lane_bytes: usize,
    pub waking: bool,
    /// Whether to record when switches were requested.
    pub need_resched: bool,
    /// How the scope is narrowed; `None` if it is not.
    pub narrow: Option<ScopeBy>,
    /// Restricts the scope, and everything that is reported, to this user's threads.
    pub owner: Option<u32>,
    /// Whether to report stolen time.
    pub steal: bool,
    /// Whether soft interrupts run in threads, which can be preempted.
    pub threaded_softirqs: bool,
    /// Whether to report which futexes and kernel locks threads wait for.
    pub locks: bool,
    /// Whether to report the senders of packets that wake threads.
    pub packets: bool,
    /// Whether to record only switches and wakeups, without the facts that explain them.
    pub plain: bool,
    /// The system calls to record, if any: those with these numbers, or all.
    pub calls: Option<Option<&'a [u16]>>,
    /// The table that notes which threads wait, if stacks are requested.
    pub notes: Option<WaitNotes<'a>>,
}

/// The maps and programs of a recording. They are removed when this is dropped.
#[derive(Debug)]
pub struct BpfEvents {
    sys: Box<dyn BpfSys + Send>,
    shape: LaneShape,
    outer: OwnedFd,
    doorbell: Doorbell,
    scope: Option<ScopeMap>,
    groups: Option<GroupScope>,
    programs: Vec<Loaded>,
    /// The programs that only add up, for the programs on switches to report.
    adding: Vec<Loaded>,
    calls: Option<OfCalls>,
    /// The links of the running programs, in the order in which they were attached.
    links: Vec<OwnedFd>,
    reported: ReportedFacts,
    notes: bool,
}

/// The facts that programs report in addition to events, if the kernel permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedFacts {
    /// The time in interrupts, and when a switch was requested.
    pub irqs: bool,
    pub requests: bool,
    /// Stolen time, and which threads are throttled.
    pub steal: bool,
    pub throttles: bool,
    /// The system call and the futex in which a thread blocks.
    pub syscalls: bool,
    pub futexes: bool,
    /// The kernel locks that threads wait for.
    pub kernel_locks: bool,
    /// The waker, which may be an interrupt.
    pub wakers: bool,
    /// The cause of an interrupt that is a waker.
    pub origins: bool,
    /// The thread on this host that sent the packet, if a packet is the cause.
    pub packets: bool,
    /// The disk request whose completion is the cause, if it is one.
    pub disk_requests: bool,
}

impl ReportOptions {
    const LEAST: ReportOptions = ReportOptions {
        interrupts: InterruptCount::Unknown,
        steal: false,
        throttles: false,
        syscalls: false,
        futexes: false,
    };

    /// The ways to try, the best first. The last of them is the least demanding.
    fn all(types: &Types, files: &dyn Sys, wanted: &Wanted<'_>) -> Vec<ReportOptions> {
        let least = ReportOptions::LEAST;
        let mut ways = vec![least];
        if !wanted.plain {
            let queues = types.has("leads_to_run_queue");
            let steal = wanted.steal && queues && types.has("counts_steal");
            let sees_queues = types.has("marks_throttled") || types.cast().is_some();
            let throttles = queues && types.has("counts_throttling") && sees_queues;
            let syscalls = knows_registers();
            ways = vec![
                ReportOptions {
                    steal,
                    throttles,
                    syscalls,
                    futexes: wanted.locks && syscalls,
                    ..least
                },
                ReportOptions { steal, throttles, syscalls, ..least },
                ReportOptions { steal, throttles, ..least },
                ReportOptions { steal, ..least },
                least,
            ];
            ways.dedup();
        }
        let interrupts = InterruptCount::candidates(types, files);
        let with =
            |way| interrupts.iter().map(move |&interrupts| ReportOptions { interrupts, ..way });
        ways.into_iter().flat_map(with).collect()
    }
}

fn map_error(what: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

/// More than the kernel grants: of memory, or (before Linux 6.11) of a single value.
fn is_too_much(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::E2BIG | libc::EPERM | libc::EINVAL))
}

impl BpfEvents {
    /// Loads the programs, and creates the lanes of all CPUs. Nothing runs yet.
    ///
    /// # Errors
    /// Returns [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        wanted: &Wanted<'_>,
    ) -> Result<(BpfEvents, Vec<(Cpu, Lane)>), BpfError> {
        let read;
        let types = match wanted.notes {
            Some(notes) => notes.types,
            None => {
                read = Types::read(files)?;
                &read
            }
        };
        let (shape, lanes) = make_lanes(&*sys, wanted)?;
        let outer = map_of_lanes(&*sys, wanted.possible, &lanes)?;
        let doorbell = Doorbell::new(&*sys).map_err(map_error("waking the reader"))?;
        let by_thread = wanted.narrow == Some(ScopeBy::Thread);
        let scope = by_thread.then(|| ScopeMap::new(&*sys)).transpose();
        let scope = scope.map_err(map_error("the threads in scope"))?;
        let by_group = wanted.narrow == Some(ScopeBy::Cgroup);
        let groups = by_group.then(|| GroupScope::new(&*sys)).transpose();
        let groups = groups.map_err(map_error("the cgroups in scope"))?;
        let create =
            |what, bytes| sys.map_create(&MapSpec::memory(bytes, false)).map_err(map_error(what));
        let wakers = create("who wakes whom", WAKERS_BYTES)?;
        let is_narrow = wanted.narrow.is_some() || wanted.owner.is_some();
        let waits = is_narrow.then(|| create("who waits for a CPU", WAITS_BYTES)).transpose()?;
        let accounts = account::lines(wanted.possible) * account::LINE_BYTES;
        let accounts = create("interrupts", accounts)?;
        let with = |irqs, asking| {
            let (map, possible) = (accounts.as_fd(), wanted.possible);
            Accounts { map, possible, irqs, asking }
        };
        // With PREEMPT_RT such a program stopped the machine (Linux 7.3): see `machine::may_watch_requests`. With PREEMPT_RT, the end of an
        // RCU reader keeps requesting a switch, so older such kernels are not trusted either.
        let may_ask = wanted.need_resched && !wanted.threaded_softirqs;
        let origins = account::lines(wanted.possible) * origins::LINE_BYTES;
        let origins = create("what interrupts are about", origins)?;
        let told_origins = create("what wakes threads", origins::TOLD_BYTES)?;
        let of_interrupts = Object::new(&object::INTERRUPTS, types)?;
        let choices = [with(false, false).choice()];
        let given = [
            ("accounts", Given::Memory(accounts.as_fd())),
            ("origins", Given::Memory(origins.as_fd())),
        ];
        let asking = match may_ask {
            true => {
                let programs = of_interrupts.with(&choices, &given, &[])?;
                load_if_possible(&*sys, &account::on_requests(types, &programs)?)?
            }
            false => Vec::new(),
        };
        let irqs = match wanted.plain {
            true => Vec::new(),
            false => {
                let threaded = wanted.threaded_softirqs;
                let programs =
                    account::on_interrupts(types, &of_interrupts, &choices, &given, threaded)?;
                load_if_possible(&*sys, &programs)?
            }
        };
        let accounts = with(!irqs.is_empty(), !asking.is_empty());
        let (mut places, mut contentions) = (None, Vec::new());
        if wanted.locks && !wanted.plain {
            let places = places.insert(create("kernel locks", contentions::BYTES)?);
            let given = [("contentions", Given::Memory(places.as_fd()))];
            let object = Object::new(&object::CONTENTION, types)?.with(&[], &given, &[])?;
            contentions = load_if_possible(&*sys, &contentions::programs(types, &object)?)?;
        }
        let objects = Objects {
            events: Object::new(&object::EVENTS, types)?,
            scope: (scope.is_some() || groups.is_some())
                .then(|| Object::new(&object::SCOPE, types))
                .transpose()?,
        };
        let table = |what| create(what, packets::TABLE_BYTES);
        let (of_packets, of_sockets) = (table("senders of packets")?, table("senders by sockets")?);
        let object_of_packets = (wanted.packets && !irqs.is_empty())
            .then(|| Object::new(&object::PACKETS, types))
            .transpose()?;
        let of_requests = create("requests to disks", requests::TABLE_BYTES)?;
        let object_of_requests =
            (!irqs.is_empty()).then(|| Object::new(&object::REQUESTS, types)).transpose()?;
        let calls = wanted.calls.filter(|_| knows_registers());
        let calls = calls.filter(|_| types.tracepoint("sys_enter").is_ok());
        let object_of_calls = calls.map(|_| Object::new(&object::CALLS, types)).transpose()?;
        let load_with = |way, notes| {
            let mut setting = Setting {
                accounts,
                types,
                way,
                shape,
                lanes: outer.as_fd(),
                doorbell: doorbell.fd(),
                scope: match (&scope, &groups) {
                    (Some(set), _) => Some(Scope::Threads(set.fd())),
                    (None, Some(groups)) => {
                        let (kind, number) = hierarchy();
                        Some(Scope::Groups(groups.fd(), kind, number))
                    }
                    (None, None) => wanted.owner.map(|_| Scope::Owned),
                },
                owner: wanted.owner,
                wakers: wakers.as_fd(),
                waits: waits.as_ref().map(AsFd::as_fd),
                origins: (!irqs.is_empty())
                    .then_some(Origins { of_cpus: origins.as_fd(), told: told_origins.as_fd() }),
                requests: false,
                contentions: places.as_ref().filter(|_| !contentions.is_empty()).map(AsFd::as_fd),
                notes,
            };
            let requests = match &object_of_requests {
                Some(object) if way.interrupts != InterruptCount::Unknown => {
                    let table = Given::Memory(of_requests.as_fd());
                    load_if_possible(&*sys, &requests::programs(object, &setting, table)?)?
                }
                _ => Vec::new(),
            };
            setting.requests = !requests.is_empty();
            let programs = load_all(&*sys, &objects, &setting, wanted.waking)?;
            let of_calls = match calls.zip(object_of_calls.as_ref()) {
                Some((numbers, object)) => OfCalls::open(&*sys, object, wanted, numbers, &setting)?,
                None => None,
            };
            let of_packets = match &object_of_packets {
                Some(object) if way.interrupts != InterruptCount::Unknown => {
                    let tables = [
                        ("packets", Given::Memory(of_packets.as_fd())),
                        ("sockets", Given::Memory(of_sockets.as_fd())),
                    ];
                    load_if_possible(&*sys, &packets::programs(object, &setting, tables)?)?
                }
                _ => Vec::new(),
            };
            Ok((way, (programs, of_calls, of_packets, requests)))
        };
        let ways = ReportOptions::all(types, files, wanted);
        let noting = wanted.notes.map(|notes| {
            first_loaded(ways.clone(), ReportOptions::LEAST, |way| load_with(way, Some(notes)))
        });
        let notes = matches!(noting, Some(Ok(_)));
        let (way, (programs, calls, packets, requests)) = match noting {
            // Otherwise, stacks have a separate program.
            None | Some(Err(BpfError::Load { .. })) => {
                first_loaded(ways, ReportOptions::LEAST, |way| load_with(way, None))?
            }
            Some(loaded) => loaded?,
        };
        let events = BpfEvents {
            sys,
            calls,
            shape,
            outer,
            doorbell,
            scope,
            groups,
            programs,
            links: Vec::new(),
            reported: ReportedFacts {
                irqs: !irqs.is_empty(),
                requests: !asking.is_empty(),
                steal: way.steal,
                throttles: way.throttles,
                syscalls: way.syscalls,
                futexes: way.futexes,
                kernel_locks: !contentions.is_empty(),
                wakers: way.interrupts != InterruptCount::Unknown,
                packets: !packets.is_empty(),
                disk_requests: !requests.is_empty(),
                origins: !irqs.is_empty() && way.interrupts != InterruptCount::Unknown,
            },
            adding: [irqs, asking, contentions, packets, requests].into_iter().flatten().collect(),
            notes,
        };
        let maps: Vec<_> = lanes.iter().map(|(cpu, lane)| (cpu.0, lane.map())).collect();
        events.give(&maps)?;
        Ok((events, lanes))
    }

    fn give(&self, lanes: &[(u32, BorrowedFd<'_>)]) -> Result<(), BpfError> {
        give(&*self.sys, &self.outer, lanes)
    }

    /// The lanes of system calls; returned once, empty if no program reports them.
    pub fn take_call_lanes(&mut self) -> Vec<(Cpu, Lane)> {
        self.calls.as_mut().map(|calls| std::mem::take(&mut calls.lanes)).unwrap_or_default()
    }

    /// A lane of system calls for a CPU that came online later.
    ///
    /// # Errors
    /// Returns [`BpfError::Map`].
    pub fn add_call_lane(&self, cpu: Cpu) -> Result<Option<Lane>, BpfError> {
        let Some(calls) = &self.calls else { return Ok(None) };
        let lane = Lane::new(&*self.sys, self.shape).map_err(map_error("a CPU"))?;
        give(&*self.sys, &calls.outer, &[(cpu.0, lane.map())])?;
        Ok(Some(lane))
    }

    /// Whether programs report system calls.
    pub fn reports_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// A lane for a CPU that came online later.
    ///
    /// # Errors
    /// Returns [`BpfError::Map`].
    pub fn add(&self, cpu: Cpu) -> Result<Lane, BpfError> {
        let lane = Lane::new(&*self.sys, self.shape).map_err(map_error("a CPU"))?;
        self.give(&[(cpu.0, lane.map())])?;
        Ok(lane)
    }

    /// Starts the programs.
    ///
    /// # Errors
    /// Returns [`BpfError::Attach`]; programs that were already attached keep running.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        // A thread that makes a system call has been switched in before.
        let of_calls = self.calls.iter().flat_map(|calls| &calls.programs);
        for program in self.adding.iter().chain(&self.programs).chain(of_calls) {
            self.links.push(program.attach(&*self.sys)?);
        }
        Ok(())
    }

    /// Stops the programs; the lanes stay readable.
    pub fn detach(&mut self) {
        // This is in reverse order, so that no wakeup names a thread whose switch was not seen.
        while self.links.pop().is_some() {}
    }

    /// The facts that the programs report in addition to events.
    pub fn reported(&self) -> ReportedFacts {
        self.reported
    }

    /// Whether the program on switches notes which threads wait.
    pub fn notes_waits(&self) -> bool {
        self.notes
    }

    /// The threads that the programs report, if not all.
    pub fn scope(&self) -> Option<&ScopeMap> {
        self.scope.as_ref()
    }

    /// The cgroups whose threads the programs report, if cgroups are the scope.
    pub fn groups(&self) -> Option<&GroupScope> {
        self.groups.as_ref()
    }

    /// How many events no program saw because it was already running on their CPU, if the kernel counts that.
    pub fn missed(&self) -> u64 {
        self.missed_by(&self.programs)
    }

    /// How many beginnings and ends of system calls no program saw for that reason.
    pub fn missed_calls(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| self.missed_by(&calls.programs))
    }

    fn missed_by(&self, programs: &[Loaded]) -> u64 {
        programs.iter().map(|program| program.missed(&*self.sys)).sum()
    }

    /// The descriptor that poll(2) reports as readable when a lane should be read.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.fd()
    }

    /// Call this after the wait, before the lanes are read.
    pub fn answer(&self) {
        self.doorbell.answer();
    }
}

/// The hierarchy by which processes are distinguished, and its number in tracepoints.
fn hierarchy() -> (Hierarchy, u32) {
    let kind = cgroups::mounted().map_or(Hierarchy::Unified, |(kind, _)| kind);
    (kind, cgroups::own().map_or(0, |own| own.hierarchy))
}

/// The map from which programs find the lanes of all CPUs; the first lane serves the kernel as a template.
fn map_of_lanes(
    sys: &dyn BpfSys,
    possible: usize,
    lanes: &[(Cpu, Lane)],
) -> Result<OwnedFd, BpfError> {
    let example = lanes.first().map(|(_, lane)| lane.map());
    let outer = sys.map_create(&MapSpec::of_maps(possible, example));
    outer.map_err(map_error("all CPUs"))
}

fn give(
    sys: &dyn BpfSys,
    outer: &OwnedFd,
    lanes: &[(u32, BorrowedFd<'_>)],
) -> Result<(), BpfError> {
    sys.map_set_maps(outer.as_fd(), lanes).map_err(map_error("a CPU"))
}

fn lanes_of(sys: &dyn BpfSys, shape: LaneShape, cpus: &[Cpu]) -> io::Result<Vec<(Cpu, Lane)>> {
    cpus.iter().map(|cpu| Lane::new(sys, shape).map(|lane| (*cpu, lane))).collect()
}

fn make_lanes(
    sys: &dyn BpfSys,
    wanted: &Wanted<'_>,
) -> Result<(LaneShape, Vec<(Cpu, Lane)>), BpfError> {
    let mut bytes = wanted.lane_bytes;
    loop {
        let shape = LaneShape::within(bytes);
        match lanes_of(sys, shape, wanted.cpus) {
            Ok(lanes) => return Ok((shape, lanes)),
            Err(error) if is_too_much(&error) && bytes / 2 >= MIN_LANE_BYTES => bytes /= 2,
            Err(error) => return Err(BpfError::Map { what: "a CPU", error }),
        }
    }
}

/// Loads the programs in the first of several ways that the kernel accepts; if the kernel accepts none, returns the error of the least
/// demanding way.
pub(super) fn first_loaded<W, T>(
    ways: Vec<W>,
    least: W,
    load: impl Fn(W) -> Result<T, BpfError>,
) -> Result<T, BpfError> {
    for way in ways {
        match load(way) {
            Err(BpfError::Load { .. }) => {}
            result => return result,
        }
    }
    load(least)
}

fn load_all(
    sys: &dyn BpfSys,
    objects: &Objects,
    setting: &Setting<'_>,
    waking: bool,
) -> Result<Vec<Loaded>, BpfError> {
    let programs = programs::all(objects, setting, waking)?;
    let (of_scope, on_events) = programs.split_at(programs.len() - programs::ON_EVENTS.len());
    let load = |program| Loaded::new(sys, program);
    // Loads the programs of the scope first, so that a kernel without their operations reports that. Then the programs on wakeups, which
    // not every kernel accepts; last the program on switches, which takes the kernel longest to check.
    let mut loaded = of_scope.iter().map(load).collect::<Result<Vec<Loaded>, BpfError>>()?;
    let events = on_events.iter().rev().map(load).collect::<Result<Vec<Loaded>, BpfError>>()?;
    loaded.extend(events.into_iter().rev());
    Ok(loaded)
}

/// Loads all of them; returns no programs if the kernel does not support them.
///
/// # Errors
/// Errors caused by a lack of resources, which are not about the programs.
fn load_if_possible(sys: &dyn BpfSys, programs: &[Program]) -> Result<Vec<Loaded>, BpfError> {
    match programs.iter().map(|program| Loaded::new(sys, program)).collect() {
        Err(BpfError::Load { error, .. }) if !is_short(&error) => Ok(Vec::new()),
        loaded => loaded,
    }
}

/// Out of descriptors or memory.
fn is_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

#[cfg(test)]
mod tests;
