//! JSON with events in any order, and scheduling records outside of the events.

use fxt_reader::record::EventKind;
use fxt_reader::{Reader, Record};

use super::imported::scheduling;
use super::*;

/// Each event as `time kind name`, in the order of the file, which must be the order of time.
fn events_of(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    let (mut found, mut last) = (Vec::new(), 0);
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Some(time) = item.record.time() {
            assert!(time.0 >= last, "{time} comes behind {last} ns");
            last = time.0;
        }
        if let Record::Event(event) = item.record {
            let what = match event.kind {
                EventKind::DurationBegin => "begin",
                EventKind::DurationEnd => "end",
                EventKind::DurationComplete { .. } => "complete",
                EventKind::AsyncBegin { .. } => "async begin",
                EventKind::AsyncEnd { .. } => "async end",
                _ => "instant",
            };
            found.push(format!("{} {what} {}", event.time.0, event.name));
        }
    }
    found
}

/// The durations of a thread, paired as viewers pair them: name, begin, end.
fn durations(fxt: &[u8], thread: u64) -> Vec<(String, u64, u64)> {
    let mut reader = Reader::from_slice(fxt);
    let (mut open, mut done) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next().expect("a sound trace") {
        let Record::Event(event) = item.record else { continue };
        match event.kind {
            _ if event.thread.thread.0 != thread => {}
            EventKind::DurationBegin => open.push((event.name.to_owned(), event.time.0)),
            EventKind::DurationEnd => {
                let (name, begin) = open.pop().expect("something is open");
                done.push((name, begin, event.time.0));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    done.sort();
    done
}

#[test]
fn begins_and_ends_are_paired_by_time_in_any_order_of_the_file() {
    // outer 10..40 with a 10..20, b 20..30, an instant at 25; an empty one at 30.
    let lines = [
        r#"{"ph":"B","name":"outer","pid":1,"tid":2,"ts":10}"#,
        r#"{"ph":"B","name":"a","pid":1,"tid":2,"ts":12}"#,
        r#"{"ph":"E","name":"a","pid":1,"tid":2,"ts":20}"#,
        r#"{"ph":"B","name":"b","pid":1,"tid":2,"ts":20}"#,
        r#"{"ph":"i","name":"now","pid":1,"tid":2,"ts":25}"#,
        r#"{"ph":"E","name":"b","pid":1,"tid":2,"ts":30}"#,
        r#"{"ph":"B","name":"empty","pid":1,"tid":2,"ts":30}"#,
        r#"{"ph":"E","name":"empty","pid":1,"tid":2,"ts":30}"#,
        r#"{"ph":"E","name":"outer","pid":1,"tid":2,"ts":40}"#,
        r#"{"ph":"X","name":"other","pid":1,"tid":3,"ts":5,"dur":50}"#,
    ];
    let expected: Vec<_> = [("a", 12, 20), ("b", 20, 30), ("empty", 30, 30), ("outer", 10, 40)]
        .into_iter()
        .map(|(name, begin, end)| (name.to_owned(), begin * 1000, end * 1000))
        .collect();
    for step in [1, 3, 7, 9] {
        // Each step visits all lines in a different order.
        let order: Vec<&str> = (0..lines.len()).map(|at| lines[at * step % lines.len()]).collect();
        let (fxt, report) = to_fxt(&format!("[{}]", order.join(",\n")));
        assert_eq!(durations(&fxt, 2), expected, "{order:#?}");
        assert_eq!(events_of(&fxt).len(), lines.len());
        assert_eq!(report.notes(), ["events were not in order of time: sorted"]);
        let mut reader = Reader::from_slice(&fxt);
        let promises = fxt_reader::check::Promises::Spec;
        let checked = fxt_reader::check::check(&mut reader, promises).expect("readable");
        assert!(checked.is_sound(), "{:?}", checked.findings);
    }
    // A thread whose events are in order keeps that order, even if two have the same time.
    let text = r#"[
        {"ph":"B","name":"x","pid":1,"tid":2,"ts":10}, {"ph":"E","pid":1,"tid":2,"ts":10},
        {"ph":"B","name":"y","pid":1,"tid":2,"ts":10}, {"ph":"E","pid":1,"tid":2,"ts":11},
        {"ph":"i","name":"early","pid":1,"tid":3,"ts":1}]"#;
    let found = durations(&to_fxt(text).0, 2);
    assert_eq!(found, [("x".to_owned(), 10_000, 10_000), ("y".to_owned(), 10_000, 11_000)]);
}

#[test]
fn what_is_in_order_is_left_as_it_is() {
    let text = r#"[{"ph":"i","name":"a","pid":1,"tid":2,"ts":1}, {"ph":"i","name":"b","pid":1,"tid":2,"ts":1}]"#;
    let (fxt, report) = to_fxt(text);
    assert_eq!(events_of(&fxt), ["1000 instant a", "1000 instant b"]);
    assert_eq!(report.notes(), [] as [String; 0]);
}

#[test]
fn names_and_large_events_keep_their_places_when_events_are_sorted() {
    let many: Vec<String> =
        (0..40).map(|at| format!("\"k{at}\":\"{}\"", "v".repeat(1200))).collect();
    let text = format!(
        r#"[{{"ph":"i","name":"late","pid":"p","tid":"t","ts":9}},
            {{"ph":"i","name":"large","pid":"p","tid":"t","ts":5,"args":{{{}}}}},
            {{"ph":"M","name":"process_name","pid":"p","args":{{"name":"app"}}}}]"#,
        many.join(",")
    );
    let back = events(&to_json(&to_fxt(&text).0, Sched::Slices));
    let of = |name: &str| back.iter().find(|event| event["name"] == name).expect("it is there");
    assert_eq!((&of("late")["pid"], &of("large")["tid"]), (&Json::from("p"), &Json::from("t")));
    assert_eq!(of("large")["args"]["k39"], "v".repeat(1200));
    assert_eq!(of("process_name")["args"]["name"], "app");
}

#[test]
fn ftrace_text_next_to_events_is_scheduling() {
    let text = r##"{"traceEvents":[
        {"ph":"M","pid":70,"tid":77,"name":"thread_name","args":{"name":"the renderer"}},
        {"ph":"X","pid":70,"tid":77,"name":"frame","cat":"app","ts":200500020,"dur":900}
        ],
        "systemTraceEvents":"# tracer: nop\n#\n          <idle>-0     (-----) [001] d..2  200.500010: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=render next_pid=77 next_prio=97\n          render-77    (   70) [001] d..3  200.501000: sched_switch: prev_comm=render prev_pid=77 prev_prio=97 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n"}"##;
    // Also if it precedes the events.
    let (events, system) = text.split_once("],\n").expect("two members");
    let swapped = format!("{{{}, {}]}}", system.trim().trim_end_matches('}'), &events[1..]);
    for text in [text.to_owned(), swapped] {
        let (fxt, report) = to_fxt(&text);
        assert_eq!(
            scheduling(&fxt),
            ["200.500010000 1 0 running 77", "200.501000000 1 77 blocked 0"]
        );
        assert!(events_of(&fxt).contains(&"200500020000 complete frame".to_owned()));
        assert_eq!(report.times("members next to the events, kept in blobs"), 0);
        let names: Vec<_> =
            records(&fxt).into_iter().filter(|it| it.contains("koid: Koid(77)")).collect();
        assert!(
            !names.is_empty() && names.iter().all(|it| it.contains("the renderer")),
            "{names:?}"
        );
    }
}

#[test]
fn text_of_another_system_stays_what_it_is() {
    let text = r#"{"traceEvents":[],"systemTraceEvents":"ETW \"\ud83d\ude00\" \u00e9\n"}"#;
    let (fxt, report) = to_fxt(text);
    assert_eq!(report.times("members next to the events, kept in blobs"), 1);
    let back: Json = serde_json::from_str(&to_json(&fxt, Sched::Slices)).expect("JSON");
    assert_eq!(back["systemTraceEvents"], "ETW \"\u{1f600}\" é\n");
    let text =
        r#"{"traceEvents":[],"systemTraceEvents":{"type":"other","events":[{"a":1}],"more":2}}"#;
    let back: Json = serde_json::from_str(&to_json(&to_fxt(text).0, Sched::Slices)).expect("JSON");
    let expected: Json = serde_json::from_str(text).expect("JSON");
    assert_eq!(back["systemTraceEvents"], expected["systemTraceEvents"]);
    for damaged in [
        r#"{"systemTraceEvents":"\x"}"#,
        r#"{"systemTraceEvents":"\ud83d x"}"#,
        r#"{"systemTraceEvents":"a"#,
    ] {
        refused(damaged);
    }
}

const RECORDING: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/fxt/recording"));

#[test]
fn fxtrecs_own_shapes_of_scheduling_come_back_whole() {
    let plain = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let original = records(RECORDING);
    let fuchsia = to_fxt(&to_json(RECORDING, Sched::Fuchsia)).0;
    assert_eq!(plain(records(&fuchsia)), plain(original.clone()), "every record of every type");
    assert_eq!(scheduling(&fuchsia), scheduling(RECORDING), "in order");
    let ftrace = to_fxt(&to_json(RECORDING, Sched::Ftrace)).0;
    assert_eq!(scheduling(&ftrace), scheduling(RECORDING));
    let others = |records: &[String]| {
        let is_other = |it: &&String| !it.starts_with("ContextSwitch") && !it.starts_with("Wakeup");
        plain(records.iter().filter(is_other).cloned().collect())
    };
    assert_eq!(others(&records(&ftrace)), others(&original));
    assert!(scheduling(RECORDING).len() > 20, "a recording");
    for back in [fuchsia, ftrace] {
        let promises = fxt_reader::check::Promises::Fxtrec;
        let checked = fxt_reader::check::check(&mut Reader::from_slice(&back), promises);
        let checked = checked.expect("readable");
        assert!(checked.is_sound(), "{:?}", checked.findings);
    }
}

#[test]
fn states_of_threads_are_on_a_track_of_their_own_and_come_back() {
    let text = r#"{"traceEvents":[
        {"ph":"M","pid":40,"tid":41,"name":"thread_name","args":{"name":"io-pool"}},
        {"ph":"T","cat":"thread_state","name":"Running","pid":40,"tid":41,"ts":1000,"dur":400,"args":{"cpu":0}},
        {"ph":"T","cat":"thread_state","name":"D","pid":40,"tid":41,"ts":1400,"dur":900,"args":{"io_wait":1,"blocked_function":"some_wait"}},
        {"ph":"T","cat":"thread_state","name":"R","pid":40,"tid":41,"ts":2300,"dur":50},
        {"ph":"T","cat":"thread_state","name":"S","pid":40,"tid":41,"ts":2350}]}"#;
    let (fxt, _) = to_fxt(text);
    let expected = [
        "1000000 async begin Running",
        "1400000 async end Running",
        "1400000 async begin D",
        "2300000 async end D",
        "2300000 async begin R",
        "2350000 async end R",
        "2350000 instant S",
    ];
    assert_eq!(events_of(&fxt), expected);
    let back = Json::from(events(&to_json(&fxt, Sched::Slices)));
    let original: Json = serde_json::from_str(text).expect("JSON");
    assert_eq!(back, original["traceEvents"]);
    // In other places the letter is a step of an operation, which must have an id.
    let error = refused(r#"[{"ph":"T","cat":"c","name":"x","pid":1,"tid":1,"ts":1}]"#);
    assert!(error.contains("has no \"id\""), "{error}");
}
