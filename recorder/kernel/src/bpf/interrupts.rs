//! How a program finds out whether it runs in an interrupt.
//!
//! The current task is the waker of a thread only if no interrupt wakes it. The kernel counts nested interrupts in a place that differs
//! between machines, and not every kernel gives programs direct access to it. So there are several ways to read it; the first one that the
//! kernel accepts is used.

use std::path::Path;

use super::types::Types;
use crate::sys::Sys;

/// Where the kernel stores its count of nested interrupts. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptCount {
    /// In a per-CPU variable (x86). The kernel must know the variable's address by name, which it does not without `CONFIG_KALLSYMS_ALL`.
    OfCpu {
        /// Offset of the count in the variable.
        offset: i32,
    },
    /// The count, at a fixed distance from the CPU's run queue, which is found from the current task.
    BesideRunQueue {
        /// From the beginning of the CPU's run queue to the count.
        distance: i32,
        reach: Reach,
    },
    /// In the current task (arm64 and others).
    OfTask,
    /// Not known. In that case no task is named as a waker, because it might be the wrong one.
    Unknown,
}

/// How a program gets from the current task to an address that no type leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It casts the address to a task and reads from that (Linux 6.2, `bpf_rdonly_cast`). The kernel's translation of the program contains
    /// no call for this.
    Cast,
    /// It reads the task directly, and copies the last step (Linux 5.11).
    CopyLast,
    /// It copies each step.
    CopyAll,
}

impl InterruptCount {
    /// The ways to try, the cheapest first. The last one always works.
    pub fn candidates(types: &Types, files: &dyn Sys) -> Vec<InterruptCount> {
        let in_task = types.has("counts_interrupts").then_some(InterruptCount::OfTask);
        let variable = types.count_variable().map(|(name, _)| name);
        let offset = match variable {
            Some("pcpu_hot") => types.fact("count_at"),
            Some(_) => Some(0),
            None => None,
        };
        let of_cpu = offset.map(|offset| InterruptCount::OfCpu { offset });
        let distance = match variable.zip(offset) {
            Some((name, offset)) => {
                types.distance("runqueues", name).map(|far| far + i64::from(offset))
            }
            // On kernels that have it in the task, no search is needed.
            None if in_task.is_none() => listed_distance(files),
            None => None,
        };
        // Without group scheduling, no path leads to the run queue.
        let distance = distance.filter(|_| types.has("leads_to_run_queue"));
        let distance = distance.and_then(|distance| i32::try_from(distance).ok());
        let beside = |reach| Some(InterruptCount::BesideRunQueue { distance: distance?, reach });
        let by_cast = types.cast().and_then(|_| beside(Reach::Cast));
        let [last, all] = [Reach::CopyLast, Reach::CopyAll].map(beside);
        let unknown = Some(InterruptCount::Unknown);
        [of_cpu, by_cast, last, in_task, all, unknown].into_iter().flatten().collect()
    }
}

/// The bits of the count that show that an interrupt runs: hard interrupts in four bits, a soft one in bit 8. They correspond to
/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ`.
///
/// Linux 7 counts in bits `[16 .. 23]` how often interrupts were disabled, and hard interrupts in the four bits above.
pub fn bits(types: &Types) -> u32 {
    match types.variable("local_interrupt_disable_state") {
        Some(_) => 0x0f00_0100,
        None => 0x000f_0100,
    }
}

/// The distance from the run queue to the count, from the kernel's list of symbols: not every kernel has type information for its variables
/// (for example Debian's Linux 5.10). `None` for users who may not see addresses.
fn listed_distance(files: &dyn Sys) -> Option<i64> {
    let list = files.read(Path::new("/proc/kallsyms")).ok()?;
    let mut places = [const { None }; 2];
    for line in list.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ');
        let (address, name) = (words.next()?, words.nth(1));
        let wanted = [b"runqueues".as_slice(), b"__preempt_count"];
        let Some(at) = wanted.iter().position(|wanted| name == Some(*wanted)) else { continue };
        let address = i64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
        // Hidden addresses are 0. If two symbols have the same name, the right one is unknown.
        if address == 0 || places[at].replace(address).is_some() {
            return None;
        }
    }
    let [queue, count] = places;
    Some(count? - queue?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn distance(list: &str) -> Option<i64> {
        let fake = Fake::default().file("/proc/kallsyms", list);
        listed_distance(&fake)
    }

    #[test]
    fn the_list_of_symbols_shows_how_far_the_count_is_from_the_run_queue() {
        let list = "000000000001a5c0 A __preempt_count\n\
                    0000000000000000 A fixed_percpu_data\n\
                    000000000002c140 A runqueues\n\
                    ffffffff81000000 T _stext\n\
                    ffffffffc0000000 t runqueues_of_others\t[other]\n";
        assert_eq!(distance(list), Some(0x1a5c0 - 0x2c140));
    }

    #[test]
    fn what_is_hidden_missing_or_there_twice_is_unknown() {
        let hidden = "0000000000000000 A __preempt_count\n0000000000000000 A runqueues\n";
        let twice = "0000000000000010 A __preempt_count\n0000000000000020 A runqueues\n\
                     0000000000000030 d runqueues\n";
        for list in ["", hidden, twice, "0000000000000020 A runqueues\n", "x\n\ny z"] {
            assert_eq!(distance(list), None, "{list:?}");
        }
    }
}
