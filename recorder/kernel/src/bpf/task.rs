//! Where the programs find what they report: offsets in `struct task_struct`, and the tracepoints' ids.

use super::asm::Width;
use super::btf::{Btf, BtfError, TypeId};
use super::interrupts::{InterruptCount, bits};
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

/// What turns an address into one that programs may read from, as if a task were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// What to call for it: `bpf_rdonly_cast`, of which nothing is left when the kernel has translated a program.
    pub function: TypeId,
    /// `struct task_struct`.
    pub task: TypeId,
}

impl Cast {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] before Linux 6.2.
    pub fn new(btf: &Btf) -> Result<Cast, BtfError> {
        let function = btf.function("bpf_rdonly_cast")?;
        Ok(Cast { function, task: btf.structure("task_struct")? })
    }
}

/// How the kernel keeps a task from running whose group has used up its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// It takes each off its queue when it is about to return to its program, and says so in the task (since Linux 6.18):
    /// how far from its beginning the byte is that is not 0 then.
    OfTasks(i16),
    /// It takes the group's queue off the CPU, and its tasks stay on that.
    OfQueues {
        /// From the beginning of a queue to the number of the queues upwards, itself included, that are off; four bytes.
        count: i16,
        /// From the beginning of a task to the address of its group, and from there to that of its queues, by CPU.
        group: i16,
        queues: i16,
        cast: Cast,
    },
}

/// Where it is told that a task may not run since the quota of its group is used up.
///
/// A queue knows since when its tasks may not run, and not whose quota it was: that of the first queue upwards that is
/// throttled itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleLayout {
    pub throttling: Throttling,
    /// From the beginning of a task to the address of its queue, and to that of its group's entity on the next queue up.
    pub queue: i16,
    pub parent: i16,
    /// The same from the beginning of an entity.
    pub entity_queue: i16,
    pub entity_parent: i16,
    /// From the beginning of a queue to the time since when tasks were taken off it because of its own quota; 0 for none.
    pub clock: i16,
    /// The same since when its own tasks were, whosever quota it is, and how long they were before that, altogether.
    pub own_clock: i16,
    pub own_time: i16,
    /// From the beginning of a queue to the address of its group.
    pub group: i16,
    /// From there to the address of its cgroup, from that to its node, and from that to the node's number.
    pub cgroup: i16,
    pub node: i16,
    pub number: i16,
    /// From the beginning of a queue to the address of the CPU's run queue, and from there to the clock of all these times.
    pub run_queue: i16,
    pub now: i16,
}

/// The way from a task to the number of its cgroup: the places of three addresses, each from the beginning of what the one
/// before leads to, and that of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLayout(pub [i16; 4]);

/// How the programs tell whether a thread is of a process in some cgroup, and what is told of a new cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeLayout {
    /// From the beginning of a task to the address of its process's main thread, which says where the process is.
    pub leader: i16,
    pub group: GroupLayout,
    /// The number of the hierarchy whose cgroups these are, as tracepoints tell it.
    pub hierarchy: u32,
    /// From the beginning of a cgroup to the address of its root, and from there to the number of its hierarchy.
    pub root: i16,
    pub root_hierarchy: i16,
    /// From the beginning of a cgroup to the address of its parent's state, and from there to that of the parent.
    pub parent: i16,
    pub of_state: i16,
    /// From the beginning of a cgroup to the address of its node, and from there to its number.
    pub node: i16,
    pub number: i16,
    /// The tracepoint `cgroup_mkdir`.
    pub mkdir: TypeId,
}

/// Where the number of the system call is that a task is in, and what tells that it is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallLayout {
    /// From the beginning of a task to the four bytes of its flags.
    pub flags: i16,
    /// The same to the bits that tell of a 32-bit program, whose system calls have other numbers.
    pub narrow: i16,
    pub narrow_width: Width,
    pub narrow_bits: i32,
    /// From the beginning of its registers to the number.
    pub number: i16,
    pub number_width: Width,
}

/// What the programs on system calls need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLayout {
    pub syscall: SyscallLayout,
    pub enter: TypeId,
    pub exit: TypeId,
}

/// Where the arguments of futex(2) are, from the beginning of the registers that a program had when it entered the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexLayout {
    /// The number of the system call.
    pub call: i32,
    pub address: i16,
    pub operation: i16,
    pub value: i16,
}

/// Where a program's registers are that a stack is walked from, from the beginning of what it had when it entered the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterLayout {
    pub instruction: i16,
    pub stack: i16,
    pub frame: i16,
    /// Where arm64 keeps the address that a function returns to.
    pub link: Option<i16>,
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
    pub prio: i16,
    pub cpu: i16,
    /// Its state when it is ending.
    pub exit_state: i16,
    /// Its state, where `sched_switch` does not bring it as its fourth argument (before Linux 5.18).
    pub state: Option<StateLayout>,
    /// The count of nested interrupts.
    pub interrupts: InterruptCount,
    /// The part of that count that says that one runs.
    pub interrupt_bits: i32,
    /// Where stolen time is counted.
    pub stolen: Option<QueueLayout>,
    /// Where throttling is told.
    pub throttle: Option<ThrottleLayout>,
    /// Where the system call is told in which a task blocks.
    pub syscall: Option<SyscallLayout>,
    /// Where it is told on which futex it blocks. Only used together with [`TaskLayout::syscall`].
    pub futex: Option<FutexLayout>,
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
            prio: field("prio", 4)?,
            cpu: cpu(btf, task)?,
            exit_state: field("exit_state", 4)?,
            state,
            interrupts,
            interrupt_bits: bits(btf),
            stolen: None,
            throttle: None,
            syscall: None,
            futex: None,
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
    /// Whether the kernel says in each task that a quota keeps it from running.
    pub fn marks_tasks(&self) -> bool {
        matches!(self.throttling, Throttling::OfTasks(_))
    }

    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when this kernel has no quotas for groups (CONFIG_CFS_BANDWIDTH), or its queues do not count
    /// for how long they are throttled (before Linux 6.6).
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
        let state = btf.member(btf.structure("task_group")?, "css")?;
        let cgroup = state.offset + btf.member(state.type_id, "cgroup")?.offset;
        let entity_queue = member("sched_entity", "cfs_rq", pointer)?;
        let entity_parent = member("sched_entity", "parent", pointer)?;
        Ok(ThrottleLayout {
            throttling: throttling(btf, member)?,
            queue: offset(entity as usize + entity_queue as usize, "se.cfs_rq")?,
            parent: offset(entity as usize + entity_parent as usize, "se.parent")?,
            entity_queue,
            entity_parent,
            clock: member("cfs_rq", "throttled_clock", 8)?,
            own_clock: member("cfs_rq", "throttled_clock_self", 8)?,
            own_time: member("cfs_rq", "throttled_clock_self_time", 8)?,
            group: member("cfs_rq", "tg", pointer)?,
            cgroup: offset(cgroup, "css.cgroup")?,
            node: member("cgroup", "kn", pointer)?,
            number: member("kernfs_node", "id", 8)?,
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
        let place = |structure: &str, name: &str| -> Result<i16, BtfError> {
            offset(btf.member(btf.structure(structure)?, name)?.offset, name)
        };
        let state = btf.member(btf.structure("cgroup")?, "self")?;
        let parent = state.offset + btf.member(state.type_id, "parent")?.offset;
        Ok(ScopeLayout {
            leader: place("task_struct", "group_leader")?,
            group: GroupLayout::new(btf, kind)?,
            hierarchy,
            root: place("cgroup", "root")?,
            root_hierarchy: place("cgroup_root", "hierarchy_id")?,
            parent: offset(parent, "self.parent")?,
            of_state: place("cgroup_subsys_state", "cgroup")?,
            node: place("cgroup", "kn")?,
            number: place("kernfs_node", "id")?,
            mkdir: btf.typedef("btf_trace_cgroup_mkdir")?,
        })
    }
}

fn throttling(
    btf: &Btf,
    member: impl Fn(&str, &str, usize) -> Result<i16, BtfError>,
) -> Result<Throttling, BtfError> {
    if let Ok(at) = member("task_struct", "throttled", 1) {
        return Ok(Throttling::OfTasks(at));
    }
    let pointer = size_of::<usize>();
    Ok(Throttling::OfQueues {
        count: member("cfs_rq", "throttle_count", 4)?,
        group: member("task_struct", "sched_task_group", pointer)?,
        queues: member("task_group", "cfs_rq", pointer)?,
        cast: Cast::new(btf)?,
    })
}

impl SyscallLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] on other machines than x86-64 and arm64.
    pub fn new(btf: &Btf) -> Result<SyscallLayout, BtfError> {
        /// `TS_COMPAT` of x86, in which a 32-bit system call is noted while it lasts.
        const COMPAT_CALL: i32 = 1 << 1;
        /// `TIF_32BIT` of arm64.
        const COMPAT_TASK: i32 = 1 << 22;
        let (narrow, narrow_width, narrow_bits, number, number_width) = match std::env::consts::ARCH
        {
            "x86_64" => ("status", Width::Word, COMPAT_CALL, "orig_ax", Width::Double),
            "aarch64" => ("flags", Width::Double, COMPAT_TASK, "syscallno", Width::Word),
            other => {
                let name = other.to_owned();
                return Err(BtfError::Missing { kind: "known system calls of", name });
            }
        };
        let task = btf.structure("task_struct")?;
        let info = btf.member(task, "thread_info")?;
        let narrow_at = info.offset + btf.member(info.type_id, narrow)?.offset;
        Ok(SyscallLayout {
            flags: offset(btf.member(task, "flags")?.offset, "flags")?,
            narrow: offset(narrow_at, narrow)?,
            narrow_width,
            narrow_bits,
            number: offset(btf.member(btf.structure("pt_regs")?, number)?.offset, number)?,
            number_width,
        })
    }
}

impl CallLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`], on other machines than x86-64 and arm64 also.
    pub fn new(btf: &Btf) -> Result<CallLayout, BtfError> {
        Ok(CallLayout {
            syscall: SyscallLayout::new(btf)?,
            enter: btf.typedef("btf_trace_sys_enter")?,
            exit: btf.typedef("btf_trace_sys_exit")?,
        })
    }
}

impl FutexLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] on other machines than x86-64 and arm64.
    pub fn new(btf: &Btf) -> Result<FutexLayout, BtfError> {
        match std::env::consts::ARCH {
            "x86_64" => {
                let registers = btf.structure("pt_regs")?;
                let member = |name: &str| offset(btf.member(registers, name)?.offset, name);
                let (address, operation, value) = (member("di")?, member("si")?, member("dx")?);
                Ok(FutexLayout { call: 202, address, operation, value })
            }
            // The first registers of the user interface, which is fixed. They keep their values until the call returns.
            "aarch64" => Ok(FutexLayout { call: 98, address: 0, operation: 8, value: 16 }),
            other => {
                let name = other.to_owned();
                Err(BtfError::Missing { kind: "known futex(2) of", name })
            }
        }
    }
}

impl RegisterLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`] on other machines than x86-64 and arm64.
    pub fn new(btf: &Btf) -> Result<RegisterLayout, BtfError> {
        let registers = btf.structure("pt_regs")?;
        let member = |name: &str| offset(btf.member(registers, name)?.offset, name);
        match std::env::consts::ARCH {
            "x86_64" => Ok(RegisterLayout {
                instruction: member("ip")?,
                stack: member("sp")?,
                frame: member("bp")?,
                link: None,
            }),
            // Its structure begins with that of the user interface, which is fixed: 31 registers, sp, pc.
            "aarch64" => Ok(RegisterLayout {
                instruction: 32 * 8,
                stack: 31 * 8,
                frame: 29 * 8,
                link: Some(30 * 8),
            }),
            other => {
                let name = other.to_owned();
                Err(BtfError::Missing { kind: "known registers of", name })
            }
        }
    }
}

/// In the architecture's part of the task since Linux 5.16, beside it before.
fn cpu(btf: &Btf, task: TypeId) -> Result<i16, BtfError> {
    let inner = btf.member(task, "thread_info").and_then(|info| {
        let cpu = btf.member(info.type_id, "cpu")?;
        offset(info.offset + cpu.offset, "thread_info.cpu")
    });
    inner.or_else(|_| offset(btf.member(task, "cpu")?.offset, "cpu"))
}
