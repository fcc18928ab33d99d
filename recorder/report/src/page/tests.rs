//! A trace that is built record by record, and its page.

use fxt_reader::Reader;
use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};
use serde_json::Value as Json;

use super::Page;
use super::state::State;
use crate::scene::{Leaves, Scene};
use crate::{Options, analysis};

mod within;

type Trace = Writer<Vec<u8>>;

const IDLE: i32 = i32::MIN;

fn trace() -> Trace {
    let mut trace = Writer::new(Vec::new());
    trace.start("fxtrec", 1_000_000_000).unwrap();
    trace
}

fn name(trace: &mut Trace, kind: ObjectType, koid: u64, name: &str, process: u64) {
    let args = [Arg::new(Text::Inline("process"), Value::Koid(Koid(process)))];
    let args = if kind == ObjectType::Thread { &args[..] } else { &[] };
    let name = Text::Inline(name);
    trace.write(&KernelObject { object_type: kind, koid: Koid(koid), name, args }).unwrap();
}

fn switch(trace: &mut Trace, time: u64, out: (u64, ThreadState), incoming: u64) {
    let weight = |koid| Value::Int32(if koid == 0 { IDLE } else { 1024 });
    let args = [
        Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
        Arg::new(Text::Inline("outgoing_weight"), weight(out.0)),
    ];
    let (outgoing, incoming) = (Koid(out.0), Koid(incoming));
    let time = Ticks(time);
    let outgoing_state = out.1;
    trace
        .write(&ContextSwitch { cpu: 0, time, outgoing, incoming, outgoing_state, args: &args })
        .unwrap();
}

fn wake(trace: &mut Trace, time: u64, thread: u64, waker: u64) {
    let args = [Arg::new(Text::Inline("waker"), Value::Koid(Koid(waker)))];
    trace.write(&Wakeup { cpu: 0, time: Ticks(time), thread: Koid(thread), args: &args }).unwrap();
}

/// The page of a trace, and its table of contents.
fn page(trace: Trace, tile_events: u32) -> (String, Json) {
    let bytes = trace.into_inner();
    let page = Page::with_tiles_of(tile_events);
    let reader = Reader::from_slice(&bytes);
    let (report, page) = analysis::observe(reader, Options::default(), page).unwrap();
    let mut out = Vec::new();
    page.write(&report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let contents = contents(&text);
    (text, contents)
}

fn contents(page: &str) -> Json {
    let (_, rest) = page.split_once("id=\"contents\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// One thread that sleeps, is woken by another, waits and runs.
fn waiting() -> Trace {
    let mut trace = trace();
    name(&mut trace, ObjectType::Process, 40, "server", 0);
    name(&mut trace, ObjectType::Thread, 41, "worker", 40);
    name(&mut trace, ObjectType::Thread, 50, "hog </script>", 50);
    name(&mut trace, ObjectType::Thread, 60, "never seen", 60);
    switch(&mut trace, 1_000, (41, ThreadState::Blocked), 50);
    wake(&mut trace, 2_000, 41, 50);
    switch(&mut trace, 5_000, (50, ThreadState::Running), 41);
    switch(&mut trace, 9_000, (41, ThreadState::Blocked), 0);
    trace
}

#[test]
fn the_contents_name_threads_cpus_and_the_length_of_the_trace() {
    let (_, contents) = page(waiting(), 100);
    assert_eq!(contents["length"], 8_000);
    assert_eq!(contents["begin"], "1000");
    assert_eq!((&contents["switches"], &contents["wakeups"]), (&3.into(), &1.into()));
    let names: Vec<&str> =
        contents["threads"].as_array().unwrap().iter().map(|t| t[1].as_str().unwrap()).collect();
    assert_eq!(names, ["idle", "worker", "hog </script>"]);
    // Koid, name, process and its name, running and waiting time, longest wait.
    let worker = &contents["threads"][1];
    assert_eq!(worker.to_string(), r#"[41,"worker",40,"server",4000,3000,3000]"#);
    // Busy until it becomes idle; the worker had it first.
    assert_eq!(contents["cpus"].to_string(), "[[0,8000]]");
}

#[test]
fn the_longest_wait_says_when_and_who_had_the_cpu() {
    let (_, contents) = page(waiting(), 100);
    let wait = &contents["worst"][0];
    assert_eq!(wait["who"].to_string(), r#"[41,"worker"]"#);
    assert_eq!((&wait["from"], &wait["to"]), (&1_000.into(), &4_000.into()));
    assert_eq!(wait["by"].to_string(), r#"[[[50,"hog </script>"],3000]]"#);
    assert_eq!(contents["latency"][0]["of"]["count"], 1);
    assert_eq!(contents["latency"][0]["of"]["max"], 3_000);
}

#[test]
fn every_block_that_the_contents_name_is_in_the_page_once() {
    let mut trace = waiting();
    trace.duration_begin(Ticks(1_100), (Koid(50), Koid(50)), "app", "work", &[]).unwrap();
    trace.duration_end(Ticks(4_900), (Koid(50), Koid(50)), "app", "work", &[]).unwrap();
    let (text, contents) = page(trace, 3);
    let tiles = contents["tiles"].as_array().unwrap();
    assert_eq!(tiles.len(), 2);
    assert_eq!(tiles.iter().map(|tile| tile[0].as_u64().unwrap()).collect::<Vec<_>>(), [0, 4_000]);
    assert_eq!(tiles.iter().map(|tile| tile[1].as_u64().unwrap()).collect::<Vec<_>>(), [3, 2]);
    let mut named: Vec<u64> =
        tiles.iter().flat_map(|tile| [&tile[2], &tile[3]]).filter_map(Json::as_u64).collect();
    for level in contents["levels"].as_array().unwrap() {
        for chunk in level[1].as_array().unwrap() {
            named.extend([&chunk[0], &chunk[1]].into_iter().filter_map(|block| block.as_u64()));
        }
    }
    named.sort_unstable();
    let blocks = text.matches("id=\"block-").count() as u64;
    assert_eq!(named, (0..blocks).collect::<Vec<_>>());
    assert_eq!(contents["depths"].to_string(), "[[2,1]]");
    assert_eq!(contents["names"].to_string(), r#"["work"]"#);
}

#[test]
fn lost_events_are_a_gap_since_the_last_switch_of_their_cpu() {
    let mut trace = waiting();
    let args = [("count", Value::Uint64(17)), ("cpu", Value::Uint32(0))];
    trace.instant(Ticks(9_500), (Koid(1), Koid(1)), "fxtrec", "lost", &args).unwrap();
    let (_, contents) = page(trace, 100);
    assert_eq!(contents["gaps"].to_string(), "[[0,8000,8500,17]]");
}

#[test]
fn records_that_an_application_dropped_are_on_the_page() {
    let mut trace = waiting();
    let args = [
        ("provider", Value::Str(Text::Inline("app"))),
        ("during_ns", Value::Uint64(50)),
        ("count", Value::Uint64(17)),
    ];
    trace.instant(Ticks(9_500), (Koid(1), Koid(1)), "fxtrec", "lost_records", &args).unwrap();
    let (_, contents) = page(trace, 100);
    let expected = r#"{"others":0,"providers":[["app",17,0]],"records":17,"unknownRecords":0}"#;
    assert_eq!(contents["lost"].to_string(), expected);
    assert_eq!(contents["gaps"].to_string(), "[]");
}

#[test]
fn a_gap_of_unknown_size_is_not_one_of_none() {
    let mut trace = waiting();
    let args = [("cpu", Value::Uint32(0))];
    trace.instant(Ticks(9_500), (Koid(1), Koid(1)), "fxtrec", "lost", &args).unwrap();
    let (_, contents) = page(trace, 100);
    assert_eq!(contents["gaps"].to_string(), "[[0,8000,8500,null]]");
}

#[test]
fn an_empty_trace_is_a_page_too() {
    let (text, contents) = page(trace(), 100);
    assert_eq!((&contents["length"], &contents["worst"]), (&0.into(), &Json::Array(Vec::new())));
    assert_eq!(contents["tiles"].to_string(), "[[0,0,null,null]]");
    assert!(text.ends_with("</html>\n"));
}

#[test]
fn the_charting_library_is_the_released_one() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/assets/uplot");
    let check = std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// The intervals of a thread in the page, in microseconds.
#[derive(Default)]
struct Stretches(Vec<(State, u64, u64)>, Vec<(u64, u64)>);

impl super::lanes::Observer for Stretches {
    fn on_cpu(&mut self, _: u16, _: super::threads::ThreadIndex, _: u64, _: u64) {}

    fn in_state(&mut self, thread: super::threads::ThreadIndex, state: State, from: u64, to: u64) {
        if thread.0 == 1 && from < to {
            self.0.push((state, from / 1000, to / 1000));
        }
    }

    fn ran_less(&mut self, thread: super::threads::ThreadIndex, stolen: u64, from: u64, to: u64) {
        self.1.push((stolen, to));
        self.in_state(thread, State::Running, from, to);
    }
}

#[test]
fn throttled_and_stolen_time_is_in_the_tiles_wherever_they_end() {
    let mut scene = Scene::with_causes("steal,throttled,migrate");
    let throttled = ("throttled", Value::Bool(true));
    let by = ("throttled_by", Value::Str(Text::Inline("/a")));
    let held = |micros: u64| ("throttled_ns", Value::Uint64(micros * 1000));
    scene.switch(10, 0, 0, Leaves::R, 101);
    let taken = ("steal_ns", Value::Uint64(5_000));
    scene.switch_with((30, 0), 101, Leaves::R, 0, &[throttled, taken]);
    scene.switch_with((100, 0), 0, Leaves::R, 101, &[held(50), by]);
    scene.switch(110, 0, 101, Leaves::R, 202);
    scene.throttle(120, "/a", 0).release(140, "/a", 0);
    scene.switch_with((150, 0), 202, Leaves::S, 101, &[held(20), by]);
    scene.switch(160, 0, 101, Leaves::S, 0);
    scene.wake_with(170, 0, 101, &[throttled]);
    scene.switch_with((190, 0), 0, Leaves::R, 101, &[held(20), by]);
    scene.switch(200, 0, 101, Leaves::S, 0).end(200);
    for tile_events in 1..=14 {
        let page = Page::with_tiles_of(tile_events);
        let reader = Reader::from_slice(scene.bytes());
        let (_, Page { mut extract, .. }) =
            analysis::observe(reader, Options::default(), page).unwrap();
        let (_, end) = extract.finish().unwrap();
        let mut found = Stretches::default();
        extract.replay(end, &mut found).unwrap();
        let expected = [
            (State::Running, 10, 30),
            (State::Throttled, 30, 80),
            (State::Preempted, 80, 100),
            (State::Running, 100, 110),
            (State::Preempted, 110, 120),
            (State::Throttled, 120, 140),
            (State::Preempted, 140, 150),
            (State::Running, 150, 160),
            (State::Sleeping, 160, 170),
            (State::WokenThrottled, 170, 190),
            (State::Running, 190, 200),
        ];
        assert_eq!(found.0, expected, "tiles of {tile_events}");
        assert_eq!(found.1, [(5_000, 30_000)]);
        // The time waiting for a CPU is what remains of the waits.
        let thread = super::threads::ThreadIndex(1);
        assert_eq!(extract.usage.waiting(thread), 40_000);
    }
}

#[test]
fn the_contents_say_which_facts_there_are_and_what_the_host_took() {
    let mut scene = Scene::with_causes("steal,irq");
    scene.switch(10, 0, 0, Leaves::R, 101);
    let taken = [("steal_ns", Value::Uint32(700))];
    scene.switch_with((20, 0), 101, Leaves::S, 0, &taken);
    scene.host_steal(30, 0, 4, 100).host_steal(30, 1, 0, 100).end(30);
    let reader = Reader::from_slice(scene.bytes());
    let (report, page) = analysis::observe(reader, Options::default(), Page::new()).unwrap();
    let mut out = Vec::new();
    page.write(&report, &mut out).unwrap();
    let contents = contents(&String::from_utf8(out).unwrap());
    assert_eq!(contents["causes"].to_string(), r#"["steal","irq"]"#);
    assert_eq!(contents["stolen"].to_string(), "[[0,4000,100000]]");
    let metrics = contents["latency"].as_array().unwrap();
    assert_eq!((metrics.len(), &metrics[6]["name"]), (7, &"steal".into()));
}

#[test]
fn arguments_beyond_what_has_room_are_left_out_and_counted() {
    let mut trace = waiting();
    let long = "x".repeat(2_000);
    for n in 0..6_000_u32 {
        let text = format!("{n:07} {long}");
        let args = [("text", Value::Str(Text::Inline(&text[..1_000])))];
        trace
            .instant(Ticks(1_100 + u64::from(n)), (Koid(50), Koid(50)), "app", "mark", &args)
            .unwrap();
    }
    let (text, contents) = page(trace, 100);
    let left_out = contents["told"]["leftOut"][1].as_u64().unwrap();
    // Each takes about a third of 1 kB, because half is cut, and there is space for 1 MB.
    assert!((2_000..5_000).contains(&left_out), "{left_out}");
    assert!(contents["told"]["arguments"].is_u64());
    assert!(text.contains("fx.told ="));
}

#[test]
fn a_page_of_a_trace_that_contains_nothing_else_has_no_script_for_it() {
    let (text, contents) = page(waiting(), 100);
    assert!(contents["told"].is_null() && contents["stacks"].is_null());
    assert!(!text.contains("fx.told ="));
}
