//! Scheduling records in the three forms that JSON has for them.

use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};

use super::*;

const IDLE: i32 = i32::MIN;

/// On CPU 1: idle, then thread 41 of process 40 from 2 us, preempted at 5 us by 50, back at 6.5 us.
fn trace() -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(40)))];
    for (kind, koid, name, args) in [
        (ObjectType::Process, 40, "app", &[][..]),
        (ObjectType::Thread, 41, "worker", &process[..]),
        (ObjectType::Thread, 50, "rival", &[][..]),
    ] {
        let name = Text::Inline(name);
        trace
            .write(&KernelObject { object_type: kind, koid: Koid(koid), name, args })
            .expect("room");
    }
    let weight = Arg::new(Text::Inline("weight"), Value::Int32(1024));
    let waker = Arg::new(Text::Inline("waker"), Value::Koid(Koid(50)));
    trace
        .write(&Wakeup { cpu: 1, time: Ticks(1_000), thread: Koid(41), args: &[weight, waker] })
        .expect("room");
    for (time, out, out_weight, into, in_weight, state) in [
        (2_000, 0, IDLE, 41, 1024, ThreadState::Running),
        (5_000, 41, 1024, 50, 15, ThreadState::Running),
        (6_500, 50, 15, 41, 1024, ThreadState::Blocked),
        (9_001, 41, 1024, 0, IDLE, ThreadState::Blocked),
    ] {
        let prev_state = Arg::new(Text::Inline("prev_state"), Value::Str(Text::Inline("D")));
        let weights = [
            Arg::new(Text::Inline("incoming_weight"), Value::Int32(in_weight)),
            Arg::new(Text::Inline("outgoing_weight"), Value::Int32(out_weight)),
            prev_state,
        ];
        let args = if time == 9_001 { &weights[..] } else { &weights[..2] };
        let (outgoing, incoming) = (Koid(out), Koid(into));
        let time = Ticks(time);
        trace
            .write(&ContextSwitch { cpu: 1, time, outgoing, incoming, outgoing_state: state, args })
            .expect("room");
    }
    trace.into_inner()
}

/// Name, beginning and length of the slices on a track.
fn slices(events: &[Json], process: u64, thread: u64) -> Vec<(String, f64, f64)> {
    let of_track = |e: &&Json| e["pid"] == process && e["tid"] == thread;
    let of_phase = |phase: &'static str| {
        events.iter().filter(of_track).filter(move |event| event["ph"] == phase)
    };
    let time = |event: &Json| event["ts"].as_f64().expect("a number");
    of_phase("B")
        .zip(of_phase("E"))
        .map(|(begin, end)| {
            assert_eq!(begin["name"], end["name"], "slices do not nest");
            let length = ((time(end) - time(begin)) * 1000.0).round() / 1000.0;
            (begin["name"].as_str().expect("a name").to_owned(), time(begin), length)
        })
        .collect()
}

fn named(list: &[(&str, f64, f64)]) -> Vec<(String, f64, f64)> {
    list.iter().map(|(name, begin, length)| ((*name).to_owned(), *begin, *length)).collect()
}

#[test]
fn each_cpu_has_a_track_of_who_ran_on_it() {
    let events = events(&to_json(&trace(), Sched::Slices));
    let cpus = events.iter().find(|e| e["args"]["name"] == "CPU 1").expect("a name of the track");
    let process = cpus["pid"].as_u64().expect("a process");
    assert_eq!(
        slices(&events, process, 1),
        named(&[
            ("idle", 1.0, 1.0),
            ("worker", 2.0, 3.0),
            ("rival", 5.0, 1.5),
            ("worker", 6.5, 2.501),
        ]),
        "who comes in with the last record has no slice"
    );
}

#[test]
fn threads_show_their_states() {
    let events = events(&to_json(&trace(), Sched::Slices));
    assert_eq!(
        slices(&events, 40, 41),
        named(&[
            ("Runnable", 1.0, 1.0),
            ("Running", 2.0, 3.0),
            ("Runnable", 5.0, 1.5),
            ("Running", 6.5, 2.501),
        ])
    );
    assert_eq!(slices(&events, 50, 50), named(&[("Running", 5.0, 1.5), ("Sleeping", 6.5, 2.501)]));
}

#[test]
fn a_thread_whose_cpu_another_leaves_runs_no_more_and_the_other_not_since_the_beginning() {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).expect("room");
    for (time, out, into, state) in [
        (1_000, 0, 41, ThreadState::Running),
        // The switch to 50 is missing.
        (3_000, 50, 60, ThreadState::Blocked),
        (7_000, 60, 41, ThreadState::Blocked),
        (8_000, 41, 0, ThreadState::Running),
    ] {
        let (time, outgoing, incoming) = (Ticks(time), Koid(out), Koid(into));
        let switch =
            ContextSwitch { cpu: 1, time, outgoing, incoming, outgoing_state: state, args: &[] };
        trace.write(&switch).expect("room");
    }
    let events = events(&to_json(&trace.into_inner(), Sched::Slices));
    let states = [41, 50, 60].map(|thread| slices(&events, thread, thread));
    assert_eq!(states[0], named(&[("Running", 1.0, 2.0), ("Running", 7.0, 1.0)]));
    assert_eq!(states[1], named(&[("Sleeping", 3.0, 5.0)]));
    assert_eq!(states[2], named(&[("Running", 3.0, 4.0), ("Sleeping", 7.0, 1.0)]));
}

#[test]
fn threads_with_durations_of_their_own_show_states_beside_them() {
    let mut trace = Writer::new(trace());
    let thread = (Koid(40), Koid(41));
    trace.duration_begin(Ticks(9_500), thread, "c", "own", &[]).expect("room");
    trace.duration_end(Ticks(9_900), thread, "c", "own", &[]).expect("room");
    let events = events(&to_json(&trace.into_inner(), Sched::Slices));
    let sleep: Vec<_> =
        events.iter().filter(|e| e["name"] == "Uninterruptible sleep").map(|e| &e["ph"]).collect();
    assert_eq!(sleep, ["b", "e"], "the last state overlaps with the thread's own slice");
}

#[test]
fn scheduling_comes_back_from_slices() {
    let original = trace();
    let (back, report) = to_fxt(&to_json(&original, Sched::Slices));
    assert_eq!(records(&back), records(&original));
    assert_eq!(report.remarks().count(), 0, "{report}");
}

#[test]
fn fuchsias_shape_has_switches_wake_ups_and_names() {
    let json = to_json(&trace(), Sched::Fuchsia);
    let document: Json = serde_json::from_str(&json).expect("JSON");
    let system = &document["systemTraceEvents"];
    assert_eq!(system["type"], "fuchsia");
    let list = system["events"].as_array().expect("an array");
    let phases: Vec<&str> = list.iter().map(|e| e["ph"].as_str().expect("a phase")).collect();
    assert_eq!(phases, ["w", "k", "k", "k", "k", "p", "t", "t"]);
    assert_eq!(
        list[1],
        serde_json::json!({
            "ph": "k", "ts": 2, "cpu": 1,
            "out": {"tid": 0, "state": 1, "prio": IDLE}, "in": {"tid": 41, "prio": 1024}
        })
    );
    assert_eq!(list[4]["args"]["prev_state"], "D", "what has no place of its own");
    assert!(events(&json).iter().all(|event| event["cat"] != "sched"));
}

#[test]
fn ftrace_text_is_as_the_kernel_writes_it() {
    let json = to_json(&trace(), Sched::Ftrace);
    let document: Json = serde_json::from_str(&json).expect("JSON");
    let text = document["systemTraceEvents"].as_str().expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# tracer: nop");
    assert_eq!(
        lines[2],
        "           rival-50      [001] .... 0.000001000: sched_wakeup: comm=worker pid=41 \
         prio=120 target_cpu=001"
    );
    assert_eq!(
        lines[6],
        "          worker-41      [001] .... 0.000009001: sched_switch: prev_comm=worker \
         prev_pid=41 prev_prio=120 prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120"
    );
    assert_eq!(lines.len(), 7);
}
