//! The examples of the Trace Event Format document, in our own words: each is converted to FXT and back without loss.

use serde_json::{Value, json};

use super::*;

/// Converts events to FXT and back.
fn there_and_back(document: &Value) -> (Value, Report) {
    let (fxt, report) = to_fxt(&document.to_string());
    let json = to_json(&fxt, Sched::Slices);
    let document = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
    (document, report)
}

/// The meaning of a field that an event leaves out.
fn default_of(field: &str) -> Value {
    match field {
        "pid" | "tid" => json!(0),
        "s" => json!("t"),
        "name" | "cat" => json!(""),
        _ => Value::Null,
    }
}

/// The meaning of a time or id, which may have several notations.
fn meaning(field: &str, value: &Value) -> Value {
    match (field, value) {
        ("ts" | "dur", Value::String(text)) => json!(text.parse::<f64>().expect("a number")),
        ("ts" | "dur", Value::Number(number)) => json!(number.as_f64()),
        ("id", Value::Number(number)) => json!(format!("{:#x}", number.as_u64().expect("an id"))),
        (_, value) => value.clone(),
    }
}

/// Asserts that `found` contains everything in `expected`, and nothing else.
fn assert_same(found: &Value, expected: &Value) {
    let (found, expected) =
        (found.as_object().expect("an object"), expected.as_object().expect("an object"));
    for field in found.keys().chain(expected.keys()) {
        let of = |event: &serde_json::Map<String, Value>| {
            // Without a thread, it is the main thread, which has the id of its process.
            let field_or_main = event
                .get(field)
                .or_else(|| event.get("pid").filter(|pid| field == "tid" && pid.is_number()));
            meaning(field, field_or_main.unwrap_or(&default_of(field)))
        };
        assert_eq!(of(found), of(expected), "field {field} of {found:?} and {expected:?}");
    }
}

/// Asserts that these events are unchanged afterwards, in order of time.
fn assert_kept(expected: &[Value]) -> Report {
    let (found, report) = there_and_back(&json!(expected));
    let mut expected = expected.to_vec();
    if expected.iter().all(|event| event.get("ts").is_some()) {
        let nanos = |event: &Value| {
            (meaning("ts", &event["ts"]).as_f64().expect("a number") * 1000.0).round() as i64
        };
        expected.sort_by_key(nanos);
    }
    let found = events(&found.to_string());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_same(found, expected);
    }
    report
}

#[test]
fn a_pair_of_duration_events_in_an_array() {
    let report = assert_kept(&[
        json!({"name": "parse", "cat": "PERF", "ph": "B", "pid": 22630, "tid": 22630, "ts": 829}),
        json!({"name": "parse", "cat": "PERF", "ph": "E", "pid": 22630, "tid": 22630, "ts": 833}),
    ]);
    assert_eq!(report.remarks().count(), 0, "FXT holds all of this: {report}");
}

#[test]
fn an_array_without_its_closing_bracket() {
    for text in [
        r#"[ {"name": "a", "ph": "B", "pid": 1, "tid": 1, "ts": 1}"#,
        r#"[ {"name": "a", "ph": "B", "pid": 1, "tid": 1, "ts": 1},"#,
    ] {
        let (fxt, _) = to_fxt(text);
        assert_eq!(records(&fxt).len(), 1, "{text}");
    }
}

#[test]
fn the_object_form_with_all_that_stands_next_to_the_events() {
    let document = json!({
        "traceEvents": [{"name": "a", "ph": "B", "pid": 1, "tid": 1, "ts": 8}],
        "displayTimeUnit": "ms",
        "systemTraceEvents": "not of Linux\n",
        "powerTraceAsString": "0 1.5 mA\n",
        "controllerTraceDataKey": "traceEvents",
        "otherData": {"version": "My Application v1.0", "list": [1, {"two": 3}]},
        "stackFrames": {"5": {"name": "main", "category": "my app"}},
        "samples": [{"cpu": 0, "tid": 1, "ts": 1000.0, "name": "cycles:HG", "sf": 3, "weight": 1}],
        "anything": null,
    });
    let (found, report) = there_and_back(&document);
    for (member, value) in document.as_object().expect("an object") {
        match member.as_str() {
            "traceEvents" => {}
            "samples" => assert_same(&found[member][0], &value[0]),
            _ => assert_eq!(&found[member], value, "{member}"),
        }
    }
    assert_eq!(report.times("samples of the whole system, kept as instants"), 1);
}

#[test]
fn nested_arguments_and_lists_of_categories() {
    assert_kept(&[json!({
        "name": "myName", "cat": "category,list", "ph": "B", "ts": 12345, "pid": 123, "tid": 456,
        "args": {"someArg": 1, "anotherArg": {"value": "my value"}}
    })]);
}

#[test]
fn arguments_of_begin_and_end() {
    assert_kept(&[
        json!({"name": "f", "cat": "foo", "ph": "B", "ts": 123, "pid": 2343, "tid": 2347,
               "args": {"first": 1}}),
        json!({"ph": "E", "ts": 145, "pid": 2343, "tid": 2347, "args": {"first": 4, "second": 2}}),
    ]);
}

#[test]
fn nested_durations_with_fractions_of_microseconds() {
    assert_kept(&[
        json!({"ts": 1.0, "tid": 1, "pid": 1, "ph": "B", "name": "A"}),
        json!({"ts": 1.1, "tid": 1, "pid": 1, "ph": "B", "name": "Asub"}),
        json!({"ts": 3.9, "tid": 1, "pid": 1, "ph": "E"}),
        json!({"ts": 4.0, "tid": 1, "pid": 1, "ph": "E"}),
    ]);
}

#[test]
fn threads_whose_times_interleave() {
    assert_kept(&[
        json!({"ts": 1.0, "tid": 1, "pid": 1, "ph": "B", "name": "A"}),
        json!({"ts": 0.9, "tid": 2, "pid": 1, "ph": "B", "name": "B"}),
        json!({"ts": 1.1, "tid": 1, "pid": 1, "ph": "E"}),
        json!({"ts": 4.0, "tid": 2, "pid": 1, "ph": "E"}),
    ]);
}

#[test]
fn stack_traces_by_frame_and_in_full() {
    let report = assert_kept(&[
        json!({"ts": 1, "tid": 1, "pid": 1, "ph": "B", "name": "A", "sf": 7}),
        json!({"ts": 2, "tid": 1, "pid": 1, "ph": "E", "name": "A", "sf": "9"}),
        json!({"ts": 3, "tid": 1, "pid": 1, "ph": "B", "name": "A", "stack": ["0x1", "0x2"]}),
        json!({"ts": 4, "dur": 1, "tid": 1, "pid": 1, "ph": "X", "name": "A", "stack": ["0x1"],
               "estack": ["0x2"], "esf": 8}),
    ]);
    assert_eq!(report.times("stack traces, kept as arguments"), 6);
}

#[test]
fn complete_events_with_thread_times() {
    let report = assert_kept(&[json!({
        "name": "f", "cat": "foo", "ph": "X", "ts": 123, "dur": 234, "pid": 2343, "tid": 2347,
        "tts": 17.5, "tdur": 20, "args": {"first": 1}
    })]);
    assert_eq!(report.times("thread clock times (tts, tdur), kept as arguments"), 2);
}

#[test]
fn instants_of_all_scopes_and_the_deprecated_kind() {
    assert_kept(&[
        json!({"name": "oom", "ph": "i", "ts": 1234523.3, "pid": 2343, "tid": 2347, "s": "g"}),
        json!({"name": "oom", "ph": "i", "ts": 1234523.4, "pid": 2343, "tid": 2347, "s": "p"}),
        json!({"name": "oom", "ph": "i", "ts": 1234523.5, "pid": 2343, "tid": 2347, "s": "t"}),
        json!({"name": "oom", "ph": "i", "ts": 1234523.6, "pid": 2343, "tid": 2347}),
    ]);
    let (found, _) =
        there_and_back(&json!([{"name": "old", "ph": "I", "ts": 5, "pid": 1, "tid": 1}]));
    assert_eq!(events(&found.to_string())[0]["ph"], "I");
}

#[test]
fn counters_of_one_and_of_several_series() {
    let report = assert_kept(&[
        json!({"name": "ctr", "ph": "C", "pid": 1, "ts": 0, "args": {"cats": 0}}),
        json!({"name": "ctr", "ph": "C", "pid": 1, "ts": 10, "args": {"cats": 10, "dogs": 4.5}}),
        json!({"name": "ctr", "ph": "C", "pid": 1, "ts": 20, "id": "0xa", "args": {"cats": 0}}),
    ]);
    assert_eq!(report.remarks().count(), 0, "{report}");
}

#[test]
fn async_events_and_their_children() {
    assert_kept(&[
        json!({"cat": "foo", "name": "read", "ts": 0, "id": "0x100", "ph": "b",
               "args": {"name": "~/.bashrc"}}),
        json!({"cat": "foo", "name": "url_request", "ph": "b", "ts": "0", "id": 256}),
        json!({"cat": "foo", "name": "url_headers", "ph": "b", "ts": "1", "id": 256}),
        json!({"cat": "foo", "name": "http_cache", "ph": "n", "ts": "3", "id": 256}),
        json!({"cat": "foo", "name": "url_headers", "ph": "e", "ts": "2", "id": 256,
               "args": {"step": "headers_complete", "response_code": 200}}),
        json!({"cat": "foo", "name": "url_request", "ph": "e", "ts": "4", "id": 256}),
        json!({"cat": "foo", "name": "read", "ts": 9, "id": "0x100", "ph": "e"}),
    ]);
}

#[test]
fn deprecated_async_events() {
    let report = assert_kept(&[
        json!({"cat": "net", "name": "get", "ph": "S", "ts": 1, "id": "0x7"}),
        json!({"cat": "net", "name": "get", "ph": "T", "ts": 2, "id": "0x7", "args": {"step": "dns"}}),
        json!({"cat": "net", "name": "get", "ph": "p", "ts": 3, "id": "0x7", "args": {"step": "tcp"}}),
        json!({"cat": "net", "name": "get", "ph": "F", "ts": 4, "id": "0x7"}),
    ]);
    assert_eq!(
        report.times("events with a phase that FXT lacks, kept as events of another type"),
        4
    );
}

#[test]
fn flows_with_both_ways_to_bind() {
    assert_kept(&[
        json!({"cat": "ipc", "name": "call", "ph": "s", "ts": 1, "pid": 1, "tid": 1, "id": "0x5"}),
        json!({"cat": "ipc", "name": "call", "ph": "t", "ts": 2, "pid": 1, "tid": 2, "id": "0x5"}),
        json!({"cat": "ipc", "name": "call", "ph": "f", "ts": 3, "pid": 1, "tid": 3, "id": "0x5"}),
        json!({"cat": "ipc", "name": "call", "ph": "f", "ts": 4, "pid": 1, "tid": 3, "id": "0x5",
               "bp": "e"}),
    ]);
}

#[test]
fn samples_on_a_thread() {
    assert_kept(&[
        json!({"name": "sample", "cat": "foo", "ph": "P", "ts": 123, "pid": 234, "tid": 645}),
        json!({"name": "sample", "cat": "foo", "ph": "P", "ts": 124, "pid": 234, "tid": 645, "sf": 3}),
    ]);
}

#[test]
fn objects_live_die_and_are_shown() {
    let name = "MyObject";
    assert_kept(&[
        json!({"name": name, "ph": "N", "id": "0x1000", "ts": 0, "pid": 1, "tid": 1}),
        json!({"name": name, "ph": "O", "id": "0x1000", "ts": 10, "pid": 1, "tid": 1, "cat": "cat",
               "args": {"snapshot": {"cat": "real_cat", "base_type": "Base", "deep": [{"a": {}}]}}}),
        json!({"name": name, "ph": "D", "id": "0x1000", "ts": 20, "pid": 1, "tid": 1}),
        json!({"name": "Other", "ph": "N", "id": "0x1000", "ts": 20, "pid": 1, "tid": 1}),
        json!({"name": "Other", "ph": "D", "id": "0x1000", "ts": 25, "pid": 1, "tid": 1}),
        json!({"name": name, "ph": "N", "id": "0x1000", "scope": "s", "ts": 30, "pid": 1, "tid": 1}),
    ]);
}

#[test]
fn the_birth_of_an_object_names_its_pointer() {
    let (fxt, _) =
        to_fxt(r#"[{"name": "Frame", "ph": "N", "id": "0x1000", "ts": 0, "pid": 7, "tid": 8}]"#);
    let object = records(&fxt).into_iter().find(|record| record.starts_with("UserspaceObject"));
    let object = object.expect("a userspace object");
    assert!(object.contains("Koid(7)") && object.contains("pointer: 4096"), "{object}");
}

#[test]
fn references_to_objects() {
    assert_kept(&[
        json!({"name": "A", "ph": "B", "ts": 10, "pid": 1, "tid": 1,
               "args": {"obj": {"id_ref": "0x1000"}}}),
        json!({"name": "B", "ph": "B", "ts": 11, "pid": 1, "tid": 1,
               "args": {"obj": {"id_ref": "0x1000", "scope": "id_scope"}}}),
    ]);
}

#[test]
fn all_five_items_of_metadata() {
    assert_kept(&[
        json!({"name": "process_name", "ph": "M", "pid": 2343, "args": {"name": "Renderer"}}),
        json!({"name": "process_labels", "ph": "M", "pid": 2343, "args": {"labels": "one,two"}}),
        json!({"name": "process_sort_index", "ph": "M", "pid": 2343, "args": {"sort_index": -5}}),
        json!({"name": "thread_name", "ph": "M", "pid": 2343, "tid": 2347,
               "args": {"name": "RendererThread"}}),
        json!({"name": "thread_sort_index", "ph": "M", "pid": 2343, "tid": 2347,
               "args": {"sort_index": 3}}),
    ]
    .map(|event| event)
    .iter()
    // Events without a time wait for an event with one; this keeps them in order.
    .flat_map(|event| [json!({"name": "t", "ph": "i", "ts": 1, "pid": 1, "tid": 1}), event.clone()])
    .collect::<Vec<_>>());
}

#[test]
fn names_become_the_names_of_koids() {
    let (fxt, _) = to_fxt(
        r#"[{"name": "thread_name", "ph": "M", "pid": 5, "tid": 6, "args": {"name": "worker"}},
            {"name": "process_name", "ph": "M", "pid": 5, "args": {"name": "app"}}]"#,
    );
    let found = records(&fxt);
    assert!(found[0].contains("Thread") && found[0].contains("\"worker\""), "{found:?}");
    assert!(found[0].contains("\"process\": Koid(Koid(5))"), "{found:?}");
    assert!(found[1].contains("Process") && found[1].contains("\"app\""), "{found:?}");
}

#[test]
fn memory_dumps_marks_and_clock_syncs() {
    assert_kept(&[
        json!({"id": "dump_id", "ts": 10, "ph": "V", "args": {"ram": {"total": "1f00"}}}),
        json!({"id": "dump_id", "ts": 11, "ph": "v", "pid": 42, "args": {"heaps": [[1, 2], []]}}),
        json!({"name": "firstLayout", "ts": 10, "ph": "R", "cat": "blink.user_timing", "pid": 42,
               "tid": 983}),
        json!({"name": "clock_sync", "ph": "c", "ts": 123, "args": {"sync_id": "guid1"}}),
        json!({"name": "clock_sync", "ph": "c", "ts": 6790,
               "args": {"sync_id": "guid1", "issue_ts": 6789}}),
    ]);
}

#[test]
fn contexts_links_and_explicit_ids() {
    assert_kept(&[
        json!({"name": "Ctx", "ph": "(", "ts": 123, "id": "0x1234"}),
        json!({"name": "Ctx", "ph": ")", "ts": 124, "id": "0x1234"}),
        json!({"cat": "foo", "name": "read", "ph": "b", "ts": 1, "id": "0x1000"}),
        json!({"cat": "foo", "name": "link", "ph": "=", "ts": 2, "id": "0x1000",
               "args": {"linked_id": "0x2000"}}),
        json!({"cat": "foo", "name": "read", "ph": "e", "ts": 3, "id": "0x2000"}),
        json!({"cat": "foo", "name": "read", "ph": "b", "ts": 4, "id2": {"local": "0x1000"}}),
        json!({"cat": "foo", "name": "obj", "ph": "N", "ts": 5, "id2": {"global": "0x2000"}}),
        json!({"cat": "foo", "name": "read", "ph": "e", "ts": 6, "id": "text", "scope": "mine"}),
    ]);
}

#[test]
fn colours_and_instruction_counts() {
    assert_kept(&[json!({
        "name": "f", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "cname": "good",
        "tidelta": 12345678901_u64, "ticount": 7
    })]);
}

#[test]
fn processes_and_threads_that_are_no_numbers_or_no_good_ones() {
    assert_kept(&[
        json!({"name": "a", "ph": "i", "ts": 1, "pid": "GPU", "tid": "main", "s": "t"}),
        json!({"name": "b", "ph": "i", "ts": 2, "pid": 1, "tid": 1, "s": "t"}),
        json!({"name": "c", "ph": "i", "ts": 3, "pid": 2, "tid": 1, "s": "t"}),
        json!({"name": "d", "ph": "i", "ts": 4, "pid": -1, "tid": 1.5, "s": "t"}),
    ]);
}

#[test]
fn more_arguments_than_a_record_holds() {
    let many: serde_json::Map<String, Value> =
        (0..40).map(|number| (format!("arg{number:02}"), json!({"v": number}))).collect();
    let report = assert_kept(&[json!({"name": "a", "ph": "i", "ts": 1, "s": "t", "args": many})]);
    assert_eq!(
        report.times("events with more arguments than a record holds, the rest kept as text"),
        1
    );
}

#[test]
fn texts_longer_than_a_record_and_with_zeros() {
    let report = assert_kept(&[
        json!({"name": "a", "ph": "O", "id": "0x1", "ts": 1, "pid": 1, "tid": 1,
               "args": {"snapshot": "y".repeat(200_000)}}),
        json!({"name": "x".repeat(40_000), "ph": "B", "ts": 2, "pid": 1, "tid": 1}),
        json!({"name": "nul\u{0}inside", "ph": "B", "ts": 3, "pid": 1, "tid": 1}),
    ]);
    assert_eq!(report.times("events larger than a record, kept in blobs"), 3);
}

#[test]
fn numbers_beyond_those_of_fxt() {
    let text = r#"[{"name":"a","ph":"i","ts":1.2345,"pid":0,"tid":0,"s":"t","args":{"n":123456789012345678901234567890}}]"#;
    let (fxt, _) = to_fxt(text);
    let json = to_json(&fxt, Sched::Slices);
    assert!(json.contains("\"n\":123456789012345678901234567890"), "{json}");
    assert!(json.contains("\"ts\":1.2345"), "{json}");
}
