//! Input that the format forbids but every viewer accepts: it is accepted and counted, and rejected in strict mode.

use super::*;

/// The result for text that violates the format: its events as JSON again, and how often `remark` was counted. In strict mode, it must be
/// rejected for `reason`.
fn accepted(json: &str, remark: &str, reason: &str) -> (Vec<Json>, u64) {
    let refused = strictly(json);
    assert!(refused.contains(reason), "{refused}");
    let (fxt, report) = to_fxt(json);
    (events(&to_json(&fxt, Sched::Slices)), report.times(remark))
}

const COMMAS: &str = "commas before a closing bracket, ignored";

#[test]
fn commas_before_closing_brackets_anywhere() {
    let event = r#"{"ph": "i", "name": "a", "ts": 1, "pid": 1, "tid": 1, "args": {"k": [1, 2,], "l": {"m": 1,},},}"#;
    for (text, commas) in [
        (format!("[{event},]"), 5),
        (format!("[{event}, {event} , \n ]"), 9),
        (format!("{{\"traceEvents\": [{event},],}}"), 6),
        (format!("{{\"traceEvents\": [{event}], \"otherData\": {{\"a\": 1,}}, \"b\": [1,], }}"), 7),
    ] {
        let (events, times) = accepted(&text, COMMAS, "");
        assert_eq!(times, commas, "{text}");
        assert_eq!(events[0]["args"], serde_json::json!({"k": [1, 2], "l": {"m": 1}}), "{text}");
    }
    // No writer emits a comma with nothing before or after it.
    for text in ["[,]", "[{\"ph\": \"i\", \"ts\": 1,, \"pid\": 1}]", "[{\"ph\": \"i\", \"ts\":,}]"]
    {
        refused(text);
    }
}

#[test]
fn empty_events_as_at_the_end_of_an_array() {
    let text = r#"[{"ph": "i", "name": "a", "ts": 1, "pid": 1, "tid": 1}, {}]"#;
    let (events, times) = accepted(text, "empty events, left out", "has no \"ph\"");
    assert_eq!((events.len(), times), (1, 1));
}

#[test]
fn unknown_phases() {
    let text =
        r#"[{"ph": "?", "name": "a"}, {"ph": "Xx", "ts": 1}, {"ph": "i", "name": "b", "ts": 1}]"#;
    let remark = "events of unknown phases, left out as viewers do";
    let (events, times) = accepted(text, remark, "this event");
    assert_eq!((events.len(), times), (1, 2));
    assert_eq!(events[0]["name"], "b");
}

#[test]
fn ids_next_to_an_id2_may_be_empty_or_absent() {
    let text = r#"[
        {"ph": "b", "cat": "c", "name": "a", "id": "", "id2": {"local": "0x1"}, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "n", "cat": "c", "name": "a", "id2": {"local": "0x1"}, "pid": 1, "tid": 1, "ts": 2},
        {"ph": "e", "cat": "c", "name": "a", "id": "", "id2": {"local": "0x1"}, "pid": 1, "tid": 1, "ts": 3},
        {"ph": "b", "cat": "c", "name": "b", "id": "0x5", "id2": {}, "pid": 1, "tid": 1, "ts": 4},
        {"ph": "e", "cat": "c", "name": "b", "id2": "0x5", "pid": 1, "tid": 1, "ts": 5}]"#;
    let (fxt, _) = to_fxt(text);
    let ids: Vec<u64> = read_events(&fxt).into_iter().filter_map(|(kind, ..)| kind.id()).collect();
    assert_eq!(ids.len(), 5);
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[3] == 5 && ids[4] == 5, "{ids:x?}");
    let back = events(&to_json(&fxt, Sched::Slices));
    assert_eq!(
        (&back[0]["id"], &back[0]["id2"]),
        (&Json::from(""), &serde_json::json!({"local": "0x1"}))
    );
}

/// Type, times, thread and name of all events.
fn read_events(fxt: &[u8]) -> Vec<(fxt_reader::record::EventKind, u64, (u64, u64), String)> {
    let mut reader = fxt_reader::Reader::from_slice(fxt);
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        if let fxt_reader::Record::Event(event) = item.record {
            let thread = (event.thread.process.0, event.thread.thread.0);
            found.push((event.kind, event.time.0, thread, event.name.to_owned()));
        }
    }
    found
}

#[test]
fn an_event_without_a_thread_is_the_main_threads() {
    let text =
        r#"[{"ph": "i", "name": "a", "ts": 1, "pid": 7}, {"ph": "i", "name": "b", "ts": 2}]"#;
    let threads: Vec<_> = read_events(&to_fxt(text).0).into_iter().map(|event| event.2).collect();
    assert_eq!(threads, [(7, 7), (0, 0)]);
}

#[test]
fn places_and_labels_stay_on_objects_and_move_no_begin() {
    let text = r#"[
        {"ph": "M", "name": "process_sort_index", "pid": 7, "args": {"sort_index": -2}},
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "app"}},
        {"ph": "M", "name": "process_labels", "pid": 7, "args": {"labels": "one,two"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "worker"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 7, "tid": 8, "args": {"sort_index": 3}}]"#;
    let (fxt, _) = to_fxt(text);
    assert_eq!(read_events(&fxt), [], "no event, whatever its time");
    let records = records(&fxt);
    assert_eq!(records.len(), 5);
    let last_of =
        |what: &str| records.iter().rfind(|record| record.contains(what)).expect("it is there");
    assert!(
        last_of("Koid(7), name").contains("\"app\"")
            && last_of("Koid(7), name").contains("one,two"),
        "{records:?}"
    );
    assert!(last_of("Koid(8)").contains("\"worker\""), "{records:?}");
    let back = Json::from(events(&to_json(&fxt, Sched::Slices)));
    let expected: Json = serde_json::from_str(text).expect("JSON");
    assert_eq!(back, expected);
}

#[test]
fn complete_events_that_overlap_get_tracks_of_their_own() {
    use fxt_reader::record::EventKind;
    let text = r#"[
        {"ph": "X", "cat": "c", "name": "a", "pid": 1, "tid": 2, "ts": 0, "dur": 10, "args": {"k": 1}},
        {"ph": "X", "cat": "c", "name": "b", "pid": 1, "tid": 2, "ts": 5, "dur": 10, "args": {"k": 2}},
        {"ph": "X", "cat": "c", "name": "c", "pid": 1, "tid": 2, "ts": 6, "dur": 1},
        {"ph": "X", "cat": "c", "name": "d", "pid": 1, "tid": 2, "ts": 8, "dur": 10, "id": "0x7"}]"#;
    let (fxt, report) = to_fxt(text);
    let remark = "complete events that overlap with others, kept on tracks of their own";
    assert_eq!(report.times(remark), 2);
    let found = read_events(&fxt);
    let of = |name: &'static str| found.iter().filter(move |event| event.3 == name);
    let ids = |name: &'static str| of(name).filter_map(|event| event.0.id()).collect::<Vec<_>>();
    assert!(
        of("a").chain(of("c")).all(|event| matches!(event.0, EventKind::DurationComplete { .. }))
    );
    for (name, begin, end) in [("b", 5000, 15000), ("d", 8000, 18000)] {
        let found: Vec<_> = of(name).map(|event| (event.0, event.1)).collect();
        let [(EventKind::AsyncBegin { id: first }, from), (EventKind::AsyncEnd { id: second }, to)] =
            found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((first, from, to), (second, begin, end));
    }
    assert_ne!(ids("b"), ids("d"));
    let back = events(&to_json(&fxt, Sched::Slices));
    let expected: Vec<Json> = serde_json::from_str(text).expect("JSON");
    assert_eq!(back.len(), 4);
    for (found, expected) in back.iter().zip(&expected) {
        for (field, value) in expected.as_object().expect("an event") {
            let same = match value.as_f64() {
                Some(number) => found[field].as_f64() == Some(number),
                None => found[field] == *value,
            };
            assert!(same, "{field} of {found}");
        }
        assert_eq!(found.get("id"), expected.get("id"));
    }
}
