//! Writes a small trace with every event type, a scheduling story and a log
//! message, to open in a viewer such as <https://ui.perfetto.dev>.
//!
//! ```sh
//! cargo run -p fxt-writer --example every_event -- out.fxt
//! ```

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;

use fxt_writer::record::{
    Blob, BlobType, ContextSwitch, KernelObject, Log, ObjectType, ThreadState, UserspaceObject,
    Wakeup,
};
use fxt_writer::space::Output;
use fxt_writer::{Arg, Koid, Ticks, Value, Writer};

type Trace = Writer<Output<File>>;
type Outcome = Result<(), Box<dyn Error>>;

const PROCESS: Koid = Koid(100);
const MAIN: (Koid, Koid) = (PROCESS, Koid(100));
const WORKER: (Koid, Koid) = (PROCESS, Koid(101));
const IDLE: Koid = Koid(0);

fn main() -> Outcome {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("usage: every_event OUT.fxt".into());
    };
    let mut trace = Writer::new(Output::new(File::create(&path)?));
    trace.start("every_event", 1_000_000_000)?;
    names(&mut trace)?;
    durations(&mut trace)?;
    asyncs_and_flows(&mut trace)?;
    scheduling(&mut trace)?;
    others(&mut trace)?;
    trace.into_inner().finish()?.sync_all()?;
    println!("{}", path.display());
    Ok(())
}

/// A time in microseconds.
const fn at(micros: u64) -> Ticks {
    Ticks(micros * 1000)
}

/// Names of the process and its threads.
fn names(trace: &mut Trace) -> Outcome {
    let name = trace.text("every_event")?;
    let kind = ObjectType::Process;
    trace.write(&KernelObject { object_type: kind, koid: PROCESS, name, args: &[] })?;
    for ((process, koid), name) in [(MAIN, "main"), (WORKER, "worker")] {
        let name = trace.text(name)?;
        let args = [Arg::new(trace.text("process")?, Value::Koid(process))];
        trace.write(&KernelObject { object_type: ObjectType::Thread, koid, name, args: &args })?;
    }
    Ok(())
}

fn durations(trace: &mut Trace) -> Outcome {
    let every_value = [
        ("null", Value::Null),
        ("int32", (-1).into()),
        ("uint32", 1_u32.into()),
        ("int64", i64::MIN.into()),
        ("uint64", u64::MAX.into()),
        ("double", 1.5.into()),
        ("string", "text".into()),
        ("pointer", Value::Pointer(0x1000)),
        ("koid", PROCESS.into()),
        ("bool", true.into()),
    ];
    trace.duration_begin(at(100), MAIN, "example", "outer", &every_value)?;
    trace.instant(at(150), MAIN, "example", "a moment", &[])?;
    trace.duration_complete(at(200), MAIN, "example", "inner", at(300), &[])?;
    for (time, value) in [(100, 1), (200, 5), (300, 3)] {
        trace.counter(at(time), MAIN, "example", "queue", 1, &[("length", value.into())])?;
    }
    trace.duration_end(at(400), MAIN, "example", "outer", &[])?;
    Ok(())
}

fn asyncs_and_flows(trace: &mut Trace) -> Outcome {
    trace.async_begin(at(120), MAIN, "example", "request", 7, &[])?;
    trace.async_instant(at(250), WORKER, "example", "half way", 7, &[])?;
    trace.async_end(at(380), WORKER, "example", "request", 7, &[])?;

    // A flow leads from one duration to another.
    trace.duration_begin(at(410), MAIN, "example", "ask", &[])?;
    trace.flow_begin(at(420), MAIN, "example", "job", 9, &[])?;
    trace.duration_end(at(430), MAIN, "example", "ask", &[])?;
    trace.duration_begin(at(440), WORKER, "example", "work", &[])?;
    trace.flow_step(at(450), WORKER, "example", "job", 9, &[])?;
    trace.duration_end(at(460), WORKER, "example", "work", &[])?;
    trace.duration_begin(at(470), MAIN, "example", "answer", &[])?;
    trace.flow_end(at(480), MAIN, "example", "job", 9, &[])?;
    trace.duration_end(at(490), MAIN, "example", "answer", &[])?;
    Ok(())
}

/// The worker is woken by the main thread, runs, and blocks.
fn scheduling(trace: &mut Trace) -> Outcome {
    let incoming = trace.text("incoming_weight")?;
    let outgoing = trace.text("outgoing_weight")?;
    let waker = Arg::new(trace.text("waker")?, Value::Koid(MAIN.1));
    let weight = Arg::new(trace.text("weight")?, Value::Int32(1024));
    let wakeup = Wakeup { cpu: 1, time: at(435), thread: WORKER.1, args: &[weight, waker] };
    trace.write(&wakeup)?;
    // The lowest weight marks the idle task.
    let (idle, normal) = (Value::Int32(i32::MIN), Value::Int32(1024));
    let running = ThreadState::Running;
    let story = [
        (438, IDLE, WORKER.1, idle, normal, running),
        (465, WORKER.1, IDLE, normal, idle, ThreadState::Blocked),
    ];
    for (time, from, to, from_weight, to_weight, outgoing_state) in story {
        trace.write(&ContextSwitch {
            cpu: 1,
            time: at(time),
            outgoing: from,
            incoming: to,
            outgoing_state,
            args: &[Arg::new(incoming, to_weight), Arg::new(outgoing, from_weight)],
        })?;
    }
    Ok(())
}

fn others(trace: &mut Trace) -> Outcome {
    let thread = trace.thread(MAIN)?;
    let name = trace.text("queue")?;
    trace.write(&UserspaceObject { pointer: 0x1000, process: thread, name, args: &[] })?;
    let name = trace.text("notes")?;
    trace.write(&Blob { name, blob_type: BlobType::Data, payload: b"anything at all" })?;
    trace.write(&Log { time: at(495), thread, message: "done" })?;
    Ok(())
}
