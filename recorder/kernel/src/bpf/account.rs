//! Activity of each CPU outside of running threads: the time in interrupts, and when a switch was requested.
//!
//! Programs on interrupts (`interrupts.bpf.c`) add up times and write no records; the program on switches reports the growth since the
//! previous switch. Each CPU has its own cache line, which no other CPU writes to, with one exception: a CPU that requests a switch of
//! another CPU. It holds the lock of that CPU's run queue, as a switch does.
//!
//! Hard interrupts run with interrupts off, so their programs are never interrupted. A hard interrupt in the middle of the program for a
//! soft one finds and restores the same depth. Its time is missing if it occurs between the store of the soft interrupt and the store of
//! the soft interrupt's beginning: within these ten or so nanoseconds, time is lost rather than counted twice.

use super::object::{Choice, Given, Object, ObjectError, Programs};
use super::programs::Program;
use super::types::Types;

/// Size of a CPU's line in bytes.
pub const LINE_BYTES: usize = 64;

/// The number of lines: a power of two, so that the verifier can see that a program stays within them.
pub fn lines(possible: usize) -> usize {
    possible.max(1).next_power_of_two()
}

/// Handlers of devices and soft interrupts, and the x86 vectors that have their own tracepoints because no device handler runs for them.
pub(super) const HANDLERS: [&str; 13] = [
    "irq_handler",
    "softirq",
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
    "error_apic",
    "spurious_apic",
];

/// The programs on device interrupts, soft interrupts (unless these are `threaded`), vectors, and timers. None if the kernel has no
/// tracepoints for the first two. The ends are attached first; otherwise an interrupt that has already begun would never end.
///
/// # Errors
/// Returns [`ObjectError`].
pub fn on_interrupts(
    types: &Types,
    object: &Object,
    choices: &[Choice],
    maps: &[(&'static str, Given<'_>)],
    threaded: bool,
) -> Result<Vec<Program>, ObjectError> {
    let (mut ends, mut begins) = (Vec::new(), Vec::new());
    for (number, name) in HANDLERS.iter().enumerate() {
        let tracepoint = |end: &str| types.tracepoint(&format!("{name}_{end}"));
        match (tracepoint("entry"), tracepoint("exit")) {
            (Ok(_), Ok(_)) if threaded && number == 1 => {}
            (Ok(entry), Ok(exit)) => {
                let choices = [choices, &[("vector", number as u64)]].concat();
                let programs = object.with(&choices, maps, &[])?;
                let (begin, end) = match number {
                    0 => ("fxtrec_dev_in", "fxtrec_irq_out"),
                    1 => ("fxtrec_soft_in", "fxtrec_soft_out"),
                    _ => ("fxtrec_irq_in", "fxtrec_irq_out"),
                };
                ends.push(programs.on(end, exit)?);
                begins.push(programs.on(begin, entry)?);
            }
            _ if number < 2 => return Ok(Vec::new()),
            _ => {}
        }
    }
    let programs = object.with(choices, maps, &[])?;
    for [begin, end, entry, exit] in [
        ["fxtrec_hrtimer", "fxtrec_hr_end", "hrtimer_expire_entry", "hrtimer_expire_exit"],
        ["fxtrec_timer", "fxtrec_tmr_end", "timer_expire_entry", "timer_expire_exit"],
    ] {
        if let (Ok(entry), Ok(exit)) = (types.tracepoint(entry), types.tracepoint(exit)) {
            ends.push(programs.on(end, exit)?);
            begins.push(programs.on(begin, entry)?);
        }
    }
    ends.append(&mut begins);
    Ok(ends)
}

/// The programs on requests for a switch, and on the scheduler's decision; none if the kernel has no such tracepoints (6.16 has only the
/// second, 6.18 has both).
///
/// # Errors
/// Returns [`ObjectError::Missing`].
pub fn on_requests(types: &Types, programs: &Programs) -> Result<Vec<Program>, ObjectError> {
    let tracepoints =
        [types.tracepoint("sched_set_need_resched_tp"), types.tracepoint("sched_exit_tp")];
    let [Ok(asked), Ok(decided)] = tracepoints else { return Ok(Vec::new()) };
    Ok(vec![programs.on("fxtrec_decided", decided)?, programs.on("fxtrec_asked", asked)?])
}
