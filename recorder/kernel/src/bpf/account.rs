//! What each CPU does besides running threads: time in interrupts, and since when a switch is asked for.
//!
//! Programs on interrupts add up here, and write no records; the program on switches tells what has grown since the
//! switch before. A CPU has a cache line of its own, which no other CPU writes to, with one exception: who asks another
//! CPU for a switch holds the lock of that CPU's run queue, as a switch does.
//!
//! ```text
//!   0     how many interrupts are nested now
//!   8     when the outermost of them began
//!   16    how many hard interrupts there were
//!   24    how many soft interrupts there were
//!   32    the time in interrupts, nested ones counted once
//!   40    when a switch was first asked for; 0 when none is
//!   48    the thread that is to make room
//! ```
//!
//! Hard interrupts run with interrupts off, so their programs are never interrupted. A hard interrupt in the middle of
//! the program on a soft one finds and leaves the same depth. Its time is missing if it comes after the soft one was
//! noted and before its begin was: some ten nanoseconds in which it is lost rather than counted twice.

use super::object::{ObjectError, Programs};
use super::programs::Program;
use super::sys::{MapKind, MapSpec};
use super::types::{TypeId, Types};

/// The places of the parts, in bytes from the beginning of a CPU's line.
pub mod at {
    pub const DEPTH: i16 = 0;
    pub const SINCE: i16 = 8;
    pub const HARD: i16 = 16;
    pub const SOFT: i16 = 24;
    pub const TOTAL: i16 = 32;
    pub const ASKED: i16 = 40;
    pub const ASKED_TID: i16 = 48;
}

/// Bytes of a CPU's line.
pub const LINE_BYTES: usize = 64;

/// How many lines there are: a power of two, so that a program can show that it stays within them.
pub fn lines(possible: usize) -> usize {
    possible.max(1).next_power_of_two()
}

/// The map that holds them, which only the programs use.
pub fn map(possible: usize) -> MapSpec<'static> {
    MapSpec {
        kind: MapKind::Array,
        value_bytes: u32::try_from(lines(possible) * LINE_BYTES).unwrap_or(u32::MAX),
        entries: 1,
        mapped: false,
        inner: None,
    }
}

/// The begin and the end of a kind of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    pub entry: TypeId,
    pub exit: TypeId,
    pub is_soft: bool,
}

/// Handlers of devices and soft ones, and the vectors of x86 that have tracepoints of their own, since no handler of a device runs for
/// them.
const HANDLERS: [&str; 13] = [
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

/// The interrupts that this kernel tells of: those of devices, soft ones unless these are `threaded`, and vectors. Empty
/// where it does not tell of the first two.
pub fn handlers(types: &Types, threaded: bool) -> Vec<Handler> {
    let handler = |name: &str| {
        let tracepoint = |end: &str| types.tracepoint(&format!("{name}_{end}")).ok();
        let (entry, exit) = (tracepoint("entry")?, tracepoint("exit")?);
        Some(Handler { entry, exit, is_soft: name == "softirq" })
    };
    let found = HANDLERS.map(handler);
    if found[..2].iter().any(Option::is_none) {
        return Vec::new();
    }
    found.into_iter().flatten().filter(|handler| !(threaded && handler.is_soft)).collect()
}

/// The tracepoints that tell when a switch is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Somebody asks for a switch.
    pub asked: TypeId,
    /// The scheduler has decided; its first argument says whether for a switch.
    pub decided: TypeId,
}

impl Asking {
    /// `None` where the kernel has no such tracepoints (6.16 has only the second, 6.18 has both).
    pub fn new(types: &Types) -> Option<Asking> {
        let asked = types.tracepoint("sched_set_need_resched_tp").ok()?;
        Some(Asking { asked, decided: types.tracepoint("sched_exit_tp").ok()? })
    }
}

/// The programs on interrupts. The ends come first: what has begun before is not taken for something that never ends.
///
/// # Errors
/// [`ObjectError::Missing`].
pub fn on_interrupts(
    programs: &Programs,
    handlers: &[Handler],
) -> Result<Vec<Program>, ObjectError> {
    let ends = handlers.iter().map(|handler| programs.on("fxtrec_irq_out", handler.exit));
    let begins = handlers.iter().map(|handler| {
        let name = if handler.is_soft { "fxtrec_soft_in" } else { "fxtrec_irq_in" };
        programs.on(name, handler.entry)
    });
    ends.chain(begins).collect()
}

/// The programs on requests for a switch.
///
/// # Errors
/// [`ObjectError::Missing`].
pub fn on_requests(programs: &Programs, asking: Asking) -> Result<Vec<Program>, ObjectError> {
    Ok(vec![
        programs.on("fxtrec_decided", asking.decided)?,
        programs.on("fxtrec_asked", asking.asked)?,
    ])
}
