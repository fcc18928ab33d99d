//! Where the programs find what they report: offsets in `struct task_struct`, and the tracepoints' ids.

use super::btf::{Btf, BtfError, TypeId};
use super::interrupts::InterruptCount;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracepoints {
    pub switch: TypeId,
    pub wakeup: TypeId,
    pub wakeup_new: TypeId,
    pub waking: TypeId,
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
    /// Its state, where `sched_switch` does not bring it as its fourth argument (before Linux 5.18), and how many bytes
    /// it has.
    pub state: Option<(i16, usize)>,
    /// The count of nested interrupts.
    pub interrupts: InterruptCount,
    /// Where stolen time is counted.
    pub stolen: Option<QueueLayout>,
    pub tracepoints: Tracepoints,
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
            newtask: tracepoint("task_newtask")?,
        };
        let state = match btf.arguments(tracepoints.switch)? >= ARGUMENTS_WITH_STATE {
            true => None,
            // It was called `state` before Linux 5.14.
            false => Some(match field("__state", 4) {
                Ok(at) => (at, 4),
                Err(_) => (field("state", 8)?, 8),
            }),
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
            stolen: None,
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

/// In the architecture's part of the task since Linux 5.16, beside it before.
fn cpu(btf: &Btf, task: TypeId) -> Result<i16, BtfError> {
    let inner = btf.member(task, "thread_info").and_then(|info| {
        let cpu = btf.member(info.type_id, "cpu")?;
        offset(info.offset + cpu.offset, "thread_info.cpu")
    });
    inner.or_else(|_| offset(btf.member(task, "cpu")?.offset, "cpu"))
}
