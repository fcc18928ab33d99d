//! Malformed input is reported with its position, and skipped on request.

use super::*;

const GOOD: &str = r#"{"name": "good", "ph": "i", "ts": 1, "pid": 1, "tid": 1}"#;

#[test]
fn syntax_errors_have_line_and_column() {
    let text = format!("[{GOOD},\n {{\"name\": \"bad\", \"ph\": }},\n{GOOD}]");
    assert_eq!(refused(&text), "line 2, column 24: expected value");
    assert_eq!(refused("[{\"ph\": \"B\" \"ts\": 1}]"), "line 1, column 13: expected `,` or `}`");
}

#[test]
fn what_an_event_lacks_is_reported() {
    assert_eq!(
        refused("[\n  {\"name\": \"a\", \"ph\": \"B\"}]"),
        "line 2, column 3: this event has no \"ts\": expected a number of microseconds"
    );
    let text = refused("[{\"ph\": \"B\", \"ts\": \"soon\"}]");
    assert!(
        text.contains("the field \"ts\" of this event is \"soon\": expected a number"),
        "{text}"
    );
    let text = strictly("[{\"ph\": \"%\", \"ts\": 1}]");
    assert!(text.contains("\"%\": expected one of B E X"), "{text}");
    let text = refused("[{\"ph\": \"b\", \"ts\": 1}]");
    assert!(text.contains("has no \"id\""), "{text}");
    let text = refused("[{\"ph\": \"B\", \"ts\": 1, \"args\": [1]}]");
    assert!(text.contains("\"args\" of this event is [1]: expected an object"), "{text}");
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(refused("").contains("this file is empty"), "{}", refused(""));
    assert!(refused("42").contains("begins with '4'"), "{}", refused("42"));
    assert!(refused("[1]").contains("expected an object"), "{}", refused("[1]"));
    let text = refused(&format!("[{GOOD}] x"));
    assert!(text.contains("expected the end of the file after the trace, found 'x'"), "{text}");
    let text = refused(&format!("[{GOOD} {GOOD}]"));
    assert!(text.contains("expected ',', found '{' after an event"), "{text}");
    let text = refused(&format!("{{\"traceEvents\": [{GOOD}]"));
    assert!(text.contains("the end of the file after a member"), "{text}");
}

#[test]
fn a_lenient_reader_continues_after_what_is_malformed() {
    let bad =
        ["{\"ph\": \"B\"}", "{\"ph\": oops}", "{\"ph\" \"B\", \"args\": {\"a\": \"}\"}}", "7"];
    for bad in bad {
        let (fxt, report) = leniently(&format!("[{GOOD},{bad},{GOOD},{GOOD}]"));
        assert_eq!(records(&fxt).len(), 3, "{bad}");
        assert_eq!(report.times("malformed events, left out"), 1, "{bad}");
    }
    let (fxt, report) = leniently(&format!("[{GOOD} {GOOD}]"));
    assert_eq!((records(&fxt).len(), report.times("malformed events, left out")), (2, 1));
    let (fxt, _) = leniently(&format!("{{\"traceEvents\": [{GOOD},{GOOD}, {{\"ph\": \"B"));
    assert_eq!(records(&fxt).len(), 2);
}

#[test]
fn a_lenient_reader_keeps_events_of_unknown_phases() {
    let (fxt, report) = leniently("[{\"ph\": \"%\", \"name\": \"odd\", \"ts\": 1}]");
    assert_eq!(report.times("events of unknown phases, kept as instants"), 1);
    assert_eq!(events(&to_json(&fxt, Sched::Slices))[0]["ph"], "%");
}

#[test]
fn every_prefix_of_a_trace_is_read_or_refused_without_harm() {
    let text = format!("{{\"otherData\": {{\"a\": [1]}}, \"traceEvents\": [{GOOD}, {GOOD}]}}");
    for end in 0..text.len() {
        let _ = refused(&text[..end]);
        if end > 0 {
            let options = Options { lenient: true, ..Options::default() };
            let result = converted(&text.as_bytes()[..end], Format::Json, Format::Fxt, options);
            if let Ok((fxt, _)) = result {
                records(&fxt);
            }
        }
    }
}
