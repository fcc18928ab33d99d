//! The pseudo-threads that represent the time that a trace with a narrow scope does not record.
//!
//! The thread on a CPU is recorded only where a thread in scope is switched out or in. The rest of the time is unknown, and showing the
//! idle task would be wrong. So each CPU gets a pseudo-thread in the trace, in a process called `not recorded`, which is shown whenever the
//! thread on the CPU is not recorded.

use fxt_reader::record::{NOT_RECORDED_PROCESS, NOT_RECORDED_WEIGHT};
use fxt_writer::lanes::Lanes;
use fxt_writer::record::{KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Text, Value};

use super::Closed;
use super::strings;
use fxtrec_units::Cpu;

/// The name of the process, and of each of its threads.
pub const NAME: &str = "not recorded";

/// The process of the pseudo-threads. Like that of interrupts, its koid is beyond every tid and its first generations.
pub const PROCESS: Koid = Koid(NOT_RECORDED_PROCESS.0);

/// The weight of the pseudo-threads; no real thread has it.
pub const WEIGHT: i32 = NOT_RECORDED_WEIGHT;

/// The pseudo-thread of a CPU.
pub fn thread_of(cpu: Cpu) -> Koid {
    Koid(PROCESS.0 + 1 + u64::from(cpu.0))
}

/// Names the pseudo-thread of a CPU, and the process of all of them.
///
/// # Errors
/// Returns [`Closed`] if the trace accepts no more records.
pub fn objects(lanes: &mut impl Lanes, cpu: Cpu) -> Result<(), Closed> {
    let name = Text::Inline(NAME);
    lanes.durable(&KernelObject {
        object_type: ObjectType::Process,
        koid: PROCESS,
        name,
        args: &[],
    })?;
    lanes.durable(&KernelObject {
        object_type: ObjectType::Thread,
        koid: thread_of(cpu),
        name,
        args: &[Arg::new(strings::PROCESS, Value::Koid(PROCESS))],
    })?;
    Ok(())
}
