//! How a program finds out whether it runs in an interrupt.
//!
//! Who wakes a thread is the current task only if no interrupt does it. The
//! kernel counts nested interrupts, at a place that differs between machines,
//! and that not every kernel lets a program get at directly. So there are
//! several ways; the first that the kernel accepts is taken.

use super::btf::{Btf, BtfError, TypeId};
use super::task::offset;

/// Where the kernel keeps its count of nested interrupts. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptCount {
    /// In a variable of which each CPU has its own (x86). The kernel must know the variable's address by name, which
    /// it does not without `CONFIG_KALLSYMS_ALL`.
    OfCpu {
        variable: TypeId,
        /// From its beginning to the count.
        offset: i16,
    },
    /// The same variable, at its distance from the run queue of the CPU, which the task that runs leads to.
    BesideRunQueue {
        /// From the beginning of the task to the address of its queue.
        queue: i16,
        /// From the beginning of that to the address of the CPU's run queue.
        run_queue: i16,
        /// From the beginning of the CPU's run queue to the count.
        distance: i32,
    },
    /// In the task that runs (arm64 and others).
    OfTask {
        /// From the beginning of the task.
        offset: i16,
    },
    /// Nobody says. No task is then named as a waker, rather than the wrong one.
    Unknown,
}

impl InterruptCount {
    /// The ways that are worth trying, what costs least first. The last of them always works.
    pub fn candidates(btf: &Btf) -> Vec<InterruptCount> {
        let variable = variable(btf);
        let of_cpu = variable
            .as_ref()
            .ok()
            .map(|(_, id, offset)| InterruptCount::OfCpu { variable: *id, offset: *offset });
        let beside = variable.and_then(|(name, _, offset)| beside(btf, name, offset)).ok();
        let found = [of_cpu, beside, in_task(btf).ok(), Some(InterruptCount::Unknown)];
        found.into_iter().flatten().collect()
    }
}

/// The variable that the count is in: its name, its id, and the count's place in it.
fn variable(btf: &Btf) -> Result<(&'static str, TypeId, i16), BtfError> {
    if let Ok((id, _)) = btf.variable("__preempt_count") {
        return Ok(("__preempt_count", id, 0));
    }
    // From Linux 6.1 to 6.14, x86 kept it among others.
    let name = "pcpu_hot";
    let (id, kind) = btf.variable(name)?;
    Ok((name, id, offset(btf.member(kind, "preempt_count")?.offset, name)?))
}

fn beside(btf: &Btf, name: &str, within: i16) -> Result<InterruptCount, BtfError> {
    let task = btf.structure("task_struct")?;
    let entity = btf.member(task, "se")?;
    let queue = entity.offset + btf.member(entity.type_id, "cfs_rq")?.offset;
    let run_queue = btf.member(btf.structure("cfs_rq")?, "rq")?.offset;
    let distance = btf.distance("runqueues", name)? + i64::from(within);
    let far = |_| BtfError::Missing { kind: "variable near the run queue", name: name.to_owned() };
    Ok(InterruptCount::BesideRunQueue {
        queue: offset(queue, "se.cfs_rq")?,
        run_queue: offset(run_queue, "rq")?,
        distance: i32::try_from(distance).map_err(far)?,
    })
}

fn in_task(btf: &Btf) -> Result<InterruptCount, BtfError> {
    let info = btf.member(btf.structure("task_struct")?, "thread_info")?;
    let at = info.offset + btf.member(info.type_id, "preempt_count")?.offset;
    Ok(InterruptCount::OfTask { offset: offset(at, "thread_info.preempt_count")? })
}
