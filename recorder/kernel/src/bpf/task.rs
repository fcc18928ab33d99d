//! Where the programs find what they report: offsets in `struct task_struct`, and the tracepoints' ids.

use super::btf::{Btf, BtfError, TypeId};
use super::interrupts::InterruptCount;
use crate::cgroups::Hierarchy;

/// Where the scheduler keeps what it knows about a CPU. Not every kernel has it, or lets programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    /// From the beginning of a task to the address of its queue.
    pub queue: i16,
    /// From the beginning of that to the address of the CPU's run queue.
    pub run_queue: i16,
    /// From the beginning of that to the time stolen from the CPU so far, eight bytes, as of the last look at the clock:
    /// no later than a switch begins.
    pub stolen: i16,
}

/// Where it is told that a task may not run since the quota of its group is used up: what programs need that are assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleLayout {
    /// From the beginning of a task to the byte that is not 0 while the kernel keeps it off its queue (since Linux 6.18). Before, it
    /// takes the group's queue off the CPU, and its tasks stay on that.
    pub of_task: Option<i16>,
    /// The number of the function by which a program looks at queues, where those are what is throttled.
    pub cast: Option<TypeId>,
    /// From the beginning of a task to the address of its queue.
    pub queue: i16,
    /// From the beginning of a queue to the time since when its tasks were taken off, whosever quota it is, and how long they were before
    /// that, altogether.
    pub own_clock: i16,
    pub own_time: i16,
    /// From the beginning of a queue to the address of the CPU's run queue, and from there to the clock of all these times.
    pub run_queue: i16,
    pub now: i16,
}

/// The way from a task to the number of its cgroup: the places of three addresses, each from the beginning of what the one
/// before leads to, and that of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLayout(pub [i16; 4]);

/// How the programs tell whether a thread is of a process in some cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeLayout {
    pub kind: Hierarchy,
    /// The number of the hierarchy whose cgroups these are, as tracepoints tell it.
    pub hierarchy: u32,
    /// The tracepoint `cgroup_mkdir`.
    pub mkdir: TypeId,
}

/// The tracepoints of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTracepoints {
    pub enter: TypeId,
    pub exit: TypeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoints {
    pub switch: TypeId,
    pub wakeup: TypeId,
    pub wakeup_new: TypeId,
    pub waking: TypeId,
    pub migrate: TypeId,
    pub newtask: TypeId,
}

/// What the programs need to know about the running kernel. Offsets are in bytes from the beginning of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLayout {
    pub pid: i16,
    /// The id of its process.
    pub tgid: i16,
    /// Its name, 16 bytes.
    pub comm: i16,
    /// Its state, where `sched_switch` does not bring it as its fourth argument (before Linux 5.18).
    pub state: Option<StateLayout>,
    /// How programs find out whether an interrupt runs.
    pub interrupts: InterruptCount,
    /// The part of that count that says that one runs.
    pub interrupt_bits: i32,
    /// Where stolen time is counted.
    pub stolen: Option<QueueLayout>,
    /// Where throttling is told.
    pub throttle: Option<ThrottleLayout>,
    /// Whether it is told in which system call a task blocks.
    pub syscall: bool,
    /// Whether it is told on which futex it blocks. Only used together with [`TaskLayout::syscall`].
    pub futex: bool,
    pub tracepoints: Tracepoints,
}

/// Where a task tells its state. Who is about to wake it may have changed that by the time of the tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLayout {
    pub offset: i16,
    /// How many bytes it has.
    pub bytes: usize,
    /// Whether it is in a run queue, which does not change before it has left the CPU: 0 for one that goes to sleep.
    pub queued: i16,
}

/// The arguments of `sched_switch` with the state among them, the tracepoint's own data first.
const ARGUMENTS_WITH_STATE: usize = 5;

pub(super) fn offset(at: usize, name: &str) -> Result<i16, BtfError> {
    let missing = || BtfError::Missing { kind: "member within 32 KiB", name: name.to_owned() };
    i16::try_from(at).map_err(|_| missing())
}

impl TaskLayout {
    /// Looks everything up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no such thing.
    pub fn new(btf: &Btf, interrupts: InterruptCount) -> Result<TaskLayout, BtfError> {
        let task = btf.structure("task_struct")?;
        let field = |name: &str, bytes: usize| -> Result<i16, BtfError> {
            let member = btf.member(task, name)?;
            match member.bytes == Some(bytes) {
                true => offset(member.offset, name),
                false => Err(BtfError::Missing {
                    kind: "member of the known size",
                    name: name.to_owned(),
                }),
            }
        };
        let tracepoint = |name: &str| btf.typedef(&format!("btf_trace_{name}"));
        let tracepoints = Tracepoints {
            switch: tracepoint("sched_switch")?,
            wakeup: tracepoint("sched_wakeup")?,
            wakeup_new: tracepoint("sched_wakeup_new")?,
            waking: tracepoint("sched_waking")?,
            migrate: tracepoint("sched_migrate_task")?,
            newtask: tracepoint("task_newtask")?,
        };
        let state = match btf.arguments(tracepoints.switch)? >= ARGUMENTS_WITH_STATE {
            true => None,
            // It was called `state` before Linux 5.14.
            false => {
                let queued = field("on_rq", 4)?;
                let (offset, bytes) = match field("__state", 4) {
                    Ok(at) => (at, 4),
                    Err(_) => (field("state", 8)?, 8),
                };
                Some(StateLayout { offset, bytes, queued })
            }
        };
        Ok(TaskLayout {
            pid: field("pid", 4)?,
            tgid: field("tgid", 4)?,
            comm: field("comm", 16)?,
            state,
            interrupts,
            interrupt_bits: 0,
            stolen: None,
            throttle: None,
            syscall: false,
            futex: false,
            tracepoints,
        })
    }
}

impl QueueLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no queues for groups of tasks (CONFIG_FAIR_GROUP_SCHED), or does not
    /// take stolen time off its tasks' clocks (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    pub fn new(btf: &Btf) -> Result<QueueLayout, BtfError> {
        let entity = btf.member(btf.structure("task_struct")?, "se")?;
        let queue = entity.offset + btf.member(entity.type_id, "cfs_rq")?.offset;
        let run_queue = btf.member(btf.structure("cfs_rq")?, "rq")?.offset;
        let stolen = btf.member(btf.structure("rq")?, "prev_steal_time_rq")?;
        if stolen.bytes != Some(8) {
            let name = "prev_steal_time_rq".to_owned();
            return Err(BtfError::Missing { kind: "member of the known size", name });
        }
        Ok(QueueLayout {
            queue: offset(queue, "se.cfs_rq")?,
            run_queue: offset(run_queue, "rq")?,
            stolen: offset(stolen.offset, "prev_steal_time_rq")?,
        })
    }
}

impl ThrottleLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no quotas for groups (CONFIG_CFS_BANDWIDTH), its queues do not count
    /// for how long they are throttled (before Linux 6.6), or programs cannot look at queues.
    pub fn new(btf: &Btf) -> Result<ThrottleLayout, BtfError> {
        let member = |structure: &str, name: &str, bytes: usize| -> Result<i16, BtfError> {
            let member = btf.member(btf.structure(structure)?, name)?;
            match member.bytes == Some(bytes) {
                true => offset(member.offset, name),
                false => Err(BtfError::Missing {
                    kind: "member of the known size",
                    name: name.to_owned(),
                }),
            }
        };
        let pointer = size_of::<usize>();
        let entity = offset(btf.member(btf.structure("task_struct")?, "se")?.offset, "se")?;
        let entity_queue = member("sched_entity", "cfs_rq", pointer)?;
        let of_task = member("task_struct", "throttled", 1).ok();
        let cast = match of_task {
            Some(_) => None,
            None => Some(btf.function("bpf_rdonly_cast")?),
        };
        Ok(ThrottleLayout {
            of_task,
            cast,
            queue: offset(entity as usize + entity_queue as usize, "se.cfs_rq")?,
            own_clock: member("cfs_rq", "throttled_clock_self", 8)?,
            own_time: member("cfs_rq", "throttled_clock_self_time", 8)?,
            run_queue: member("cfs_rq", "rq", pointer)?,
            now: member("rq", "clock", 8)?,
        })
    }
}

impl GroupLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no cgroups, or none for the scheduler.
    pub fn new(btf: &Btf, hierarchy: Hierarchy) -> Result<GroupLayout, BtfError> {
        let place = |structure: &str, name: &str| -> Result<i16, BtfError> {
            offset(btf.member(btf.structure(structure)?, name)?.offset, name)
        };
        let state = btf.member(btf.structure("task_group")?, "css")?;
        let of_state = state.offset + btf.member(state.type_id, "cgroup")?.offset;
        let (group, cgroup) = match hierarchy {
            Hierarchy::Unified => (place("task_struct", "cgroups")?, place("css_set", "dfl_cgrp")?),
            Hierarchy::Controller => {
                (place("task_struct", "sched_task_group")?, offset(of_state, "css.cgroup")?)
            }
        };
        Ok(GroupLayout([group, cgroup, place("cgroup", "kn")?, place("kernfs_node", "id")?]))
    }
}

impl ScopeLayout {
    /// Looks it up, for the hierarchy of this kind and number.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no cgroups, or none for the scheduler.
    pub fn new(btf: &Btf, kind: Hierarchy, hierarchy: u32) -> Result<ScopeLayout, BtfError> {
        GroupLayout::new(btf, kind)?;
        Ok(ScopeLayout { kind, hierarchy, mkdir: btf.typedef("btf_trace_cgroup_mkdir")? })
    }
}

/// Whether programs know where a thread's system call is told.
pub fn knows_calls() -> bool {
    super::programs::knows_registers()
}

impl CallTracepoints {
    /// Looks them up.
    ///
    /// # Errors
    /// [`BtfError::Missing`], on other machines than x86-64 and arm64 also.
    pub fn new(btf: &Btf) -> Result<CallTracepoints, BtfError> {
        if !knows_calls() {
            let name = std::env::consts::ARCH.to_owned();
            return Err(BtfError::Missing { kind: "known system calls of", name });
        }
        Ok(CallTracepoints {
            enter: btf.typedef("btf_trace_sys_enter")?,
            exit: btf.typedef("btf_trace_sys_exit")?,
        })
    }
}
