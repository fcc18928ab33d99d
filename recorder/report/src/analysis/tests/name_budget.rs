//! Names that programs give their threads.

use fxt_reader::Reader;
use fxt_writer::record::{
    ContextSwitch, Event, EventKind, KernelObject, Magic, ObjectType, ProviderInfo,
    ProviderSection, Record, StringRecord, ThreadState,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, ThreadName, Ticks, Value};

use crate::analysis::{Analysis, Options, analyse_alone};
use fxtrec_blame::threads::MOST_NAME_BYTES;

/// A trace in which the provider `id` names this many threads and processes, each twice.
fn named_by(id: u32, number: u64, length: usize) -> Vec<u8> {
    let mut trace = Vec::new();
    let mut put = |record: &dyn Fn(&mut Vec<u8>)| record(&mut trace);
    put(&|out| Magic.write(out).expect("memory"));
    for (id, name) in [(1, "fxtrec"), (2, "app")] {
        put(&|out| ProviderInfo { id: ProviderId(id), name }.write(out).expect("memory"));
    }
    put(&|out| ProviderSection { id: ProviderId(id) }.write(out).expect("memory"));
    for koid in 1..=number {
        let name = format!("{koid:0length$}");
        let args = [Arg::new(Text::Inline("process"), Value::Koid(Koid(7)))];
        for object_type in [ObjectType::Thread, ObjectType::Thread, ObjectType::Process] {
            let (koid, name) = (Koid(koid), Text::Inline(&name));
            let object = KernelObject { object_type, koid, name, args: &args };
            put(&|out| object.write(out).expect("memory"));
        }
    }
    trace
}

fn left_out(trace: &[u8]) -> u64 {
    let report = analyse_alone(Reader::from_slice(trace), Options::default());
    report.expect("a trace").names_left_out
}

#[test]
fn names_that_programs_tell_have_a_bound_in_bytes_and_the_recorders_have_none() {
    const LENGTH: usize = 30_000;
    let number = (MOST_NAME_BYTES / LENGTH) as u64;
    let out = left_out(&named_by(2, number, LENGTH));
    // Each name may also be stored as an earlier name; threads and processes share the limit.
    assert!((number..=2 * number).contains(&out), "{out} of {number}");
    assert_eq!(left_out(&named_by(1, number, LENGTH)), 0);
    assert_eq!(left_out(&named_by(2, 1000, 20)), 0);
}

/// A trace in which the provider `id` reports for this many threads that they moved to another CPU, that cgroups were throttled, and that
/// fxtrec lost events.
fn scheduled_by(id: u32, number: u64) -> Vec<u8> {
    let mut trace = named_by(id, 0, 1);
    let put = |event: Event<'_>, trace: &mut Vec<u8>| event.write(trace).expect("memory");
    let switch = ContextSwitch {
        cpu: 0,
        time: Ticks(1),
        outgoing: Koid(5),
        incoming: Koid(6),
        outgoing_state: ThreadState::Running,
        args: &[],
    };
    switch.write(&mut trace).expect("memory");
    for koid in 1..=number {
        let cpu = |name| Arg::new(Text::Inline(name), Value::Int32(0));
        let cgroup = Arg::new(Text::Inline("cgroup"), Value::Str(Text::Inline("/a")));
        let event = |category, name, kind, args| Event {
            kind,
            time: Ticks(koid),
            thread: ThreadName::Inline { process: Koid(7), thread: Koid(koid) },
            category: Text::Inline(category),
            name: Text::Inline(name),
            args,
        };
        let moved = [cpu("orig_cpu"), cpu("dest_cpu")];
        put(event("sched", "migrate", EventKind::Instant, &moved), &mut trace);
        let period = [cgroup, cpu("cpu")];
        put(event("sched", "throttled", EventKind::AsyncBegin { id: koid }, &period), &mut trace);
        put(event("fxtrec", "lost", EventKind::Instant, &[cpu("cpu")]), &mut trace);
    }
    trace
}

#[test]
fn what_a_program_says_of_the_scheduler_and_of_the_recorder_is_not_taken_for_theirs() {
    let analysis = |id| {
        let mut analysis = Analysis::new(Options::default(), ());
        let trace = scheduled_by(id, 1000);
        Reader::from_slice(&trace).show_all(&mut analysis).expect("a trace");
        analysis
    };
    let (reported, own) = (analysis(2), analysis(1));
    assert!(reported.thread_figures.made <= 2, "{} threads", reported.thread_figures.made);
    assert!(reported.periods.is_empty() && !own.periods.is_empty());
    assert_eq!((reported.losses.gaps, own.losses.gaps), (0, 1000));
    assert!(own.thread_figures.made >= 1000);
}

#[test]
fn strings_for_which_the_reader_has_no_room_are_counted_and_said() {
    let mut trace = named_by(2, 0, 1);
    for index in 1..=1000 {
        let index = StringRef::indexed(index).expect("in range");
        let content = &format!("{:01000}", 7);
        StringRecord { index, content }.write(&mut trace).expect("memory");
    }
    let report = |most: usize| {
        let reader = Reader::from_slice(&trace).max_table_bytes(most);
        analyse_alone(reader, Options::default()).expect("a trace")
    };
    assert_eq!(report(usize::MAX).strings_left_out, 0);
    let report = report(100_000);
    assert!((900..1000).contains(&report.strings_left_out), "{}", report.strings_left_out);
    let mut said = Vec::new();
    crate::text::write_brief(&report, &mut said).expect("memory");
    let said = String::from_utf8(said).expect("text");
    assert!(said.contains("strings that programs registered, shown here as \"?\""), "{said}");
}
