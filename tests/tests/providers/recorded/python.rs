//! The package `fxt_provider` for Python.

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Reader, Record};
use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{root, tools};

use super::agreement::{MICROSECOND, agreement};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/traced.py");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fxt-writer/python");

/// Records the program into `python.fxt`; `None` if that is not possible here.
fn record(folder: &Folder, options: &[&str], program: &[&str]) -> Option<Done> {
    if !root::may_record() || !tools::or_skip(&["python3"]) {
        return None;
    }
    let mut fxtrec = binary::command();
    fxtrec.args(["-o", "python.fxt"]).args(options).args(["--", "python3", "-B", PROGRAM]);
    Some(folder.run(fxtrec.args(program).env("PYTHONPATH", PACKAGE)).expect(0))
}

fn count(provider: &Provider, name: &str, is_kind: impl Fn(EventKind) -> bool) -> usize {
    provider.events.iter().filter(|event| event.name == name && is_kind(event.kind)).count()
}

#[test]
fn spans_of_python_lie_where_the_scheduler_saw_their_threads() {
    let folder = Folder::new();
    let Some(done) = record(&folder, &[], &["3", "20"]) else { return };
    let path = folder.path("python.fxt");
    let provider = Archive::read(&path).only();
    let trace = Trace::read(&path);
    trace.assert_sound();
    let lines: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 60);
    let gap = agreement(&provider, "nap", &lines, &trace);
    assert!(gap < 1000 * MICROSECOND, "the closest span is {gap} ns from what was printed");
    assert_eq!((provider.name.as_str(), provider.stats["dropped"]), ("python", 0));
}

#[test]
fn events_of_all_kinds_arrive_with_their_values_in_every_mode() {
    for mode in ["streaming", "circular", "oneshot"] {
        let folder = Folder::new();
        let Some(_) = record(&folder, &["--mode", mode, "--categories", "app*"], &["1", "2"])
        else {
            return;
        };
        let path = folder.path("python.fxt");
        let provider = Archive::read(&path).only();
        assert_eq!(count(&provider, "not wanted", |_| true), 0, "{mode}");
        let begun = |kind| matches!(kind, EventKind::AsyncBegin { .. });
        let ended = |kind| matches!(kind, EventKind::AsyncEnd { .. });
        assert_eq!(
            (count(&provider, "request", begun), count(&provider, "request", ended)),
            (3, 3)
        );
        assert_eq!(provider.numbers("begun"), [0, 1, 2], "{mode}");
        assert_eq!(provider.numbers("level"), [17]);
        let counter = |kind| kind == EventKind::Counter { id: 3 };
        assert_eq!(count(&provider, "level", counter), 1);
        let flows = |kind| matches!(kind, EventKind::FlowBegin { .. } | EventKind::FlowEnd { .. });
        assert_eq!(count(&provider, "way", flows), 2, "{mode}");
        values_are_right(&path);
    }
}

fn values_are_right(path: &std::path::Path) {
    let mut reader = Reader::open(path).expect("a trace");
    let (mut values, mut bytes, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            Record::Event(event) if event.name == "all" && !event.args.is_empty() => {
                let args = event.args.iter();
                values.extend(args.map(|arg| (arg.name.to_owned(), format!("{:?}", arg.value))));
            }
            Record::Blob(blob) if blob.name == "bytes" => bytes.extend_from_slice(blob.payload),
            Record::Log(log) => logs.push(log.message.to_owned()),
            _ => {}
        }
    }
    let expected = [
        ("whole", Value::Int64(-5)),
        ("large", Value::UInt64(1 << 63)),
        ("real", Value::Double(0.5)),
        ("truth", Value::Bool(true)),
        ("text", Value::Str("fünf")),
        ("none", Value::Null),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), format!("{value:?}")));
    assert_eq!(values, expected);
    let all: Vec<u8> = (0..=255).collect();
    assert!(bytes == all.repeat(256), "{} bytes", bytes.len());
    assert_eq!(logs, ["a message"]);
}

#[test]
fn what_has_no_room_is_dropped_and_counted() {
    for mode in ["streaming", "oneshot"] {
        let folder = Folder::new();
        let options = ["--mode", mode, "--provider-buffer", "64k"];
        let Some(_) = record(&folder, &options, &["10", "2000", "flood"]) else { return };
        let provider = Archive::read(&folder.path("python.fxt")).only();
        let numbers = provider.numbers("flood");
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order");
        assert_eq!(numbers.len() as u64 + provider.stats["dropped"], 20_000, "{mode}");
        assert!(numbers.len() > 500, "{mode}: {}", numbers.len());
        assert_eq!(provider.stats["unfinished"], 0);
    }
}

#[test]
fn the_last_records_are_kept_in_a_circular_buffer() {
    let folder = Folder::new();
    let options = ["--mode", "circular", "--provider-buffer", "64k"];
    let Some(_) = record(&folder, &options, &["10", "2000", "flood"]) else { return };
    let numbers = Archive::read(&folder.path("python.fxt")).only().numbers("flood");
    let first = numbers.first().copied().expect("some");
    assert!(first > 0, "older ones were overwritten");
    assert_eq!(numbers, (first..20_000).collect::<Vec<_>>());
}

#[test]
fn a_child_records_nothing_until_it_is_a_provider_itself() {
    let folder = Folder::new();
    let Some(_) = record(&folder, &[], &["1", "3", "fork"]) else { return };
    let archive = Archive::read(&folder.path("python.fxt"));
    let of = |name: &str| {
        let mut providers = archive.providers.values().filter(|it| it.name == name);
        providers.next().unwrap_or_else(|| panic!("{name}: {archive:?}")).clone()
    };
    let (parent, child) = (of("python"), of("child"));
    let begun = |kind| kind == EventKind::DurationBegin;
    assert_eq!(count(&parent, "nap", begun), 3, "those of the child are not its own");
    assert_eq!(child.events.len(), 1);
    assert_ne!(child.events[0].process, parent.events[0].process);
}

#[test]
fn handlers_of_signals_may_record() {
    let folder = Folder::new();
    let Some(_) = record(&folder, &[], &["1", "1", "signal"]) else { return };
    let path = folder.path("python.fxt");
    Trace::read(&path).assert_sound();
    let provider = Archive::read(&path).only();
    let begun = |kind| kind == EventKind::DurationBegin;
    let ended = |kind| kind == EventKind::DurationEnd;
    let turns = (count(&provider, "turn", begun), count(&provider, "turn", ended));
    assert!(turns.0 == turns.1 && turns.0 > 10, "{turns:?}");
    assert!(count(&provider, "tick", |_| true) > 10);
}

#[test]
fn a_thread_is_called_as_the_program_has_it() {
    for (how, expected) in [("named", "loader number 0"), ("plain", "python3")] {
        let folder = Folder::new();
        let Some(done) = record(&folder, &[], &["1", "3", how]) else { return };
        let tid = done.stdout.split_whitespace().next().expect("a line");
        let tid: u64 = tid.parse().expect("a number");
        let report = folder.fxtrec(["report", "python.fxt", "--json"]).expect(0).stdout;
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let threads = report["threads"].as_array().expect("a list");
        let thread = threads.iter().find(|thread| thread["tid"] == tid);
        let comm = thread.expect("it ran")["comm"].as_str().expect("text");
        // Python itself names all threads since 3.14.
        assert!(comm == expected || how == "plain" && comm.starts_with("Thread-"), "{comm}");
    }
}
