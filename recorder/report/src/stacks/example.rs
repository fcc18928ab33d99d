//! A small handmade trace with stacks, for tests.

use fxt_writer::record::{
    Backtrace, ContextSwitch, KernelObject, Mapping, Module, ObjectType, ProcessName, ThreadState,
    UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, Koid as Id, Text, ThreadName, Ticks, Value, Writer};
use fxtrec_sched::backtrace::{Kind, link_flags, problem};

pub const MS: u64 = 1_000_000;
const IN_KERNEL: u64 = 0xffff_ffff_8100_0010;

/// Thread 41 "work;er" of process 40 is blocked from 10 to 15 ms and from 20 to 22 ms, each with a stack; from 30 to 33 ms without one; and
/// briefly from 40 to 40.2 ms. It gets a CPU one millisecond after each wakeup, for one millisecond. Thread 60 "waker" ends the first
/// wait, and the stack of that wakeup is recorded.
pub fn trace(with_stacks: bool) -> Vec<u8> {
    trace_of(with_stacks, "/lib/x.so", &[])
}

/// The trace of [`trace`] with code in `library`, and with a name for `named` addresses that are in no file.
pub fn trace_of(with_stacks: bool, library: &str, named: &[u64]) -> Vec<u8> {
    let names = [(0, IN_KERNEL, "pipe_read"), (40, 0x7010, "a;b::<c d>"), (40, 0x7030, "kick")];
    let others = named.iter().map(|&pointer| (40, pointer, "compiled"));
    write(with_stacks, library, names.into_iter().chain(others))
}

/// The same, without the names of the program's functions.
#[cfg(test)]
pub(crate) fn trace_without_names() -> Vec<u8> {
    write(true, "/lib/x.so", [(0, IN_KERNEL, "pipe_read")].into_iter())
}

/// The trace of [`trace`], with the number of lost stacks.
#[cfg(test)]
pub(crate) fn trace_with_losses() -> Vec<u8> {
    let mut counts = Writer::new(Vec::new());
    let (time, thread) = (Ticks(60 * MS), (Id(1), Id(1)));
    let lost = [("stacks", Value::uint(4)), ("lost", Value::uint(7))];
    counts.instant(time, thread, "fxtrec", "stack_stats", &lost).expect("room");
    [trace(true), counts.into_inner()].concat()
}

/// `names`: process, address and name of each function.
fn write(
    with_stacks: bool,
    library: &str,
    names: impl Iterator<Item = (u64, u64, &'static str)>,
) -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Id(40)))];
    for (kind, koid, name, args) in [
        (ObjectType::Process, 40, "app", &[][..]),
        (ObjectType::Thread, 41, "work;er", &process),
        (ObjectType::Thread, 60, "waker", &process),
    ] {
        let name = Text::Inline(name);
        trace.write(&KernelObject { object_type: kind, koid: Id(koid), name, args }).expect("room");
    }
    let mut switch = |time: u64, outgoing: u64, incoming: u64| {
        let weight = |koid| Value::Int32(if koid == 0 { i32::MIN } else { 1024 });
        let args = [
            Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
            Arg::new(Text::Inline("outgoing_weight"), weight(outgoing)),
        ];
        if incoming == 41 && time > 9 * MS {
            let args = [
                Arg::new(Text::Inline("weight"), Value::Int32(1024)),
                Arg::new(Text::Inline("waker"), Value::Koid(Id(60))),
            ];
            let args = if time == 16 * MS { &args[..] } else { &args[..1] };
            let time = Ticks(time - MS);
            trace.write(&Wakeup { cpu: 0, time, thread: Id(41), args }).expect("room");
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
    trace.write(&Module { time, process: of, id: 0, name: library, build_id: &[] }).expect("room");
    let (module, flags, start, length, module_address) = (0, 5, 0x7000, 0x1000, 0x200);
    trace
        .write(&Mapping { time, process: of, module, flags, start, length, module_address })
        .expect("room");
    let thread = |thread| ThreadName::Inline { process: Id(40), thread: Id(thread) };
    let link = link_flags(0);
    for (time, koid, flags, frames) in [
        (15 * MS - 100, 60, link | Kind::Wake.flags(), &[0x7030][..]),
        // The first is slightly later than its switch; the second is before its switch, which was seen late; the last belongs to a wait
        // without a length.
        (10 * MS + 300, 41, link | problem::USER_UNPROVED, &[IN_KERNEL, 0x7010, 0x9000]),
        (20 * MS - 400, 41, 0, &[IN_KERNEL, 0x7020]),
        (50 * MS + 100, 41, 0, &[IN_KERNEL]),
    ] {
        let (time, thread) = (Ticks(time), thread(koid));
        trace.write(&Backtrace { time, thread, flags, frames }).expect("room");
    }
    for (process, pointer, name) in names {
        let process = ThreadName::Inline { process: Id(process), thread: Id(process) };
        let name = Text::Inline(name);
        trace.write(&UserspaceObject { pointer, process, name, args: &[] }).expect("room");
    }
    trace.into_inner()
}
