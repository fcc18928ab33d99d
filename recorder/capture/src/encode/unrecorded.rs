//! What a trace of narrow scope does not record: the pseudo-threads that stand for it.
//!
//! Who has a CPU is recorded only where a thread of the scope goes out or comes in. The rest of the time is unknown, and
//! the idle task would be a false claim. So each CPU gets a thread of its own in the trace, of a process called
//! `not recorded`, which has the CPU whenever the trace does not say who does.

use fxt_reader::record::{NOT_RECORDED_PROCESS, NOT_RECORDED_WEIGHT};
use fxt_writer::lanes::Lanes;
use fxt_writer::record::{KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Text, Value};

use super::Closed;
use super::strings;
use fxtrec_units::Cpu;

/// The name of the process, and of each of its threads.
pub const NAME: &str = "not recorded";

/// The process of the pseudo-threads. As those of interrupts, it is beyond every tid and its first generations.
pub const PROCESS: Koid = Koid(NOT_RECORDED_PROCESS.0);

/// The weight of the pseudo-threads, which no thread has.
pub const WEIGHT: i32 = NOT_RECORDED_WEIGHT;

/// The pseudo-thread of a CPU.
pub fn thread_of(cpu: Cpu) -> Koid {
    Koid(PROCESS.0 + 1 + u64::from(cpu.0))
}

/// Names the pseudo-thread of a CPU, and the process of all of them.
///
/// # Errors
/// [`Closed`] when the trace takes no more records.
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
