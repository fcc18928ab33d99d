use std::io::Write;
use std::path::Path;

use fxt_writer::record::{
    Backtrace, ContextSwitch, KernelObject, Mapping, Module, ObjectType, ProcessName, ThreadState,
    UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, Koid as Id, Text, ThreadName, Ticks, Value, Writer};

use super::*;

const MS: u64 = 1_000_000;
const IN_KERNEL: u64 = 0xffff_ffff_8100_0010;

/// Thread 41 "work;er" of process 40 is blocked from 10 to 15 ms and from 20 to 22 ms, each with a stack; from 30 to 33
/// without one; and from 40 to 40.2, which is short. It has a CPU a millisecond after each wake-up, for a millisecond.
fn trace(with_stacks: bool) -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Id(40)))];
    for (kind, koid, name, args) in
        [(ObjectType::Process, 40, "app", &[][..]), (ObjectType::Thread, 41, "work;er", &process)]
    {
        let name = Text::Inline(name);
        trace.write(&KernelObject { kind, koid: Id(koid), name, args }).expect("room");
    }
    let mut switch = |time: u64, outgoing: u64, incoming: u64| {
        let weight = |koid| Value::Int32(if koid == 0 { i32::MIN } else { 1024 });
        let args = [
            Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
            Arg::new(Text::Inline("outgoing_weight"), weight(outgoing)),
        ];
        if incoming == 41 && time > 9 * MS {
            let args = [Arg::new(Text::Inline("weight"), Value::Int32(1024))];
            let time = Ticks(time - MS);
            trace.write(&Wakeup { cpu: 0, time, thread: Id(41), args: &args }).expect("room");
        }
        trace
            .write(&ContextSwitch {
                cpu: 0,
                time: Ticks(time),
                outgoing: Id(outgoing),
                incoming: Id(incoming),
                outgoing_state: ThreadState::Blocked,
                args: &args,
            })
            .expect("room");
    };
    switch(9 * MS, 0, 41);
    for (begin, end) in
        [(10 * MS, 15 * MS), (20 * MS, 22 * MS), (30 * MS, 33 * MS), (40 * MS, 40 * MS + 200_000)]
    {
        switch(begin, 41, 0);
        switch(end + MS, 0, 41);
        switch(end + 2 * MS, 41, 0);
        switch(end + 2 * MS + 1000, 0, 41);
    }
    switch(50 * MS, 41, 0);
    if !with_stacks {
        return trace.into_inner();
    }
    let (info, thread) = ([("over_ns", Value::uint(2 * MS))], (Id(1), Id(1)));
    trace.instant(Ticks(1), thread, "fxtrec", "stack_info", &info).expect("room");
    let (time, of) = (Ticks(16 * MS), ProcessName::Inline(Id(40)));
    trace
        .write(&Module { time, process: of, id: 0, name: "/lib/x.so", build_id: &[] })
        .expect("room");
    let (module, flags, start, length, module_address) = (0, 5, 0x7000, 0x1000, 0x200);
    trace
        .write(&Mapping { time, process: of, module, flags, start, length, module_address })
        .expect("room");
    let thread = ThreadName::Inline { process: Id(40), thread: Id(41) };
    for (time, frames) in [
        // The first a little behind its switch, the second before it, which was seen late; the last of a wait that has no length.
        (10 * MS + 300, &[IN_KERNEL, 0x7010, 0x9000][..]),
        (20 * MS - 400, &[IN_KERNEL, 0x7020]),
        (50 * MS + 100, &[IN_KERNEL]),
    ] {
        trace.write(&Backtrace { time: Ticks(time), thread, flags: 0, frames }).expect("room");
    }
    for (process, pointer, name) in [(0, IN_KERNEL, "pipe_read"), (40, 0x7010, "a;b::<c d>")] {
        let process = ThreadName::Inline { process: Id(process), thread: Id(process) };
        let name = Text::Inline(name);
        trace.write(&UserspaceObject { pointer, process, name, args: &[] }).expect("room");
    }
    trace.into_inner()
}

fn flame(bytes: &[u8], comms: &[&str]) -> Result<(String, String), FlameError> {
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(bytes).expect("room");
    let comms = comms.iter().map(|comm| comm.parse().expect("a glob")).collect();
    let args = FlameArgs { file: file.path().to_owned(), comms, pids: Vec::new() };
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    run(&args, &mut out, &mut messages)?;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ok((text(out), text(messages)))
}

#[test]
fn blocked_times_are_folded_by_stack_and_those_without_one_are_named() {
    let (lines, messages) = flame(&trace(true), &[]).expect("stacks");
    let expected = [
        "work_er;0x9000;a_b::<c d>;pipe_read_[k] 5000000",
        "work_er;[no stack] 3000000",
        "work_er;x.so+0x220;pipe_read_[k] 2000000",
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    assert_eq!(messages, "fxtrec: 1 stacks left out: their wait is censored\n");
}

#[test]
fn threads_that_nobody_asked_for_are_left_out() {
    assert_eq!(flame(&trace(true), &["work*"]).expect("stacks").0.lines().count(), 3);
    assert_eq!(flame(&trace(true), &["other"]).expect("stacks").0, "");
}

#[test]
fn a_trace_without_stacks_and_input_that_ends_are_refused() {
    let error = flame(&trace(false), &[]).expect_err("no stacks");
    assert!(error.to_string().contains("--stacks"), "{error}");
    let args = FlameArgs { file: Path::new("-").to_owned(), comms: Vec::new(), pids: Vec::new() };
    let error = run(&args, &mut Vec::new(), &mut Vec::new()).expect_err("standard input");
    assert!(error.to_string().contains("read twice"), "{error}");
}
