use std::io::{self, Write};
use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use fxt_writer::record::{
    ContextSwitch, Initialization, KernelObject, Magic, ObjectType, ProviderInfo, Record,
    StringRecord, ThreadState, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, Ticks, Value};

use super::*;

/// Process 40 with thread 41, which runs on CPU 1 from 1 s to 3 s.
fn trace() -> Vec<u8> {
    let mut bytes = Vec::new();
    let incoming = StringRef::indexed(1).expect("in range");
    let outgoing = StringRef::indexed(2).expect("in range");
    let weight = |name, value| Arg::new(Text::Indexed(name), Value::Int32(value));
    Magic.write(&mut bytes).expect("room");
    ProviderInfo { id: ProviderId(1), name: "test" }.write(&mut bytes).expect("room");
    Initialization { ticks_per_second: 1_000_000_000 }.write(&mut bytes).expect("room");
    for (index, content) in [(incoming, "incoming_weight"), (outgoing, "outgoing_weight")] {
        StringRecord { index, content }.write(&mut bytes).expect("room");
    }
    let process = Arg::new(Text::Inline("process"), Value::Koid(Koid(40)));
    for (kind, koid, name, args) in
        [(ObjectType::Process, 40, "app", &[][..]), (ObjectType::Thread, 41, "work er", &[process])]
    {
        let name = Text::Inline(name);
        KernelObject { object_type: kind, koid: Koid(koid), name, args }
            .write(&mut bytes)
            .expect("room");
    }
    Wakeup {
        cpu: 1,
        time: Ticks(900_000_000),
        thread: Koid(41),
        args: &[Arg::new(Text::Inline("weight"), Value::Int32(1024))],
    }
    .write(&mut bytes)
    .expect("room");
    for (time, out, into, weights) in [(1, 0, 41, (1024, i32::MIN)), (3, 41, 0, (i32::MIN, 1024))] {
        ContextSwitch {
            cpu: 1,
            time: Ticks(time * 1_000_000_000),
            outgoing: Koid(out),
            incoming: Koid(into),
            outgoing_state: ThreadState::Blocked,
            args: &[weight(incoming, weights.0), weight(outgoing, weights.1)],
        }
        .write(&mut bytes)
        .expect("room");
    }
    bytes
}

fn args(line: &[&str], path: &Path) -> DumpArgs {
    let command = DumpArgs::augment_args(Command::new("dump"));
    let words = ["dump".as_ref(), path.as_os_str()];
    let line = words.into_iter().chain(line.iter().map(AsRef::as_ref));
    let matches = command.try_get_matches_from(line).expect("arguments that parse");
    DumpArgs::from_arg_matches(&matches).expect("the same")
}

/// The output of `fxtrec dump` for `bytes`, and whether the check passed.
fn run(bytes: &[u8], line: &[&str]) -> (String, bool) {
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(bytes).expect("room for the trace");
    let mut out = Vec::new();
    let sound = dump(&args(line, file.path()), Look::PLAIN, &mut out).expect("a readable trace");
    (String::from_utf8(out).expect("text"), sound)
}

/// The fields of each line, without the offset.
fn fields(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().skip(1).collect()).collect()
}

#[test]
fn every_record_is_a_line_with_names_resolved() {
    let (text, _) = run(&trace(), &[]);
    assert_eq!(text.lines().count(), 10);
    assert_eq!(
        text.lines().last(),
        Some(concat!(
            "       248           3.000000000  context_switch   ",
            "cpu=1 out=41:work er blocked in=0:idle ",
            "incoming_weight=-2147483648 outgoing_weight=1024"
        ))
    );
    assert!(text.contains("kernel_object    thread koid=41 \"work er\" process=koid:40"), "{text}");
}

#[test]
fn filters_are_combined() {
    let (text, _) = run(&trace(), &["--type", "scheduling", "--from", "1", "--to", "2"]);
    assert_eq!(fields(&text).len(), 1, "{text}");
    assert_eq!(fields(&text)[0][0], "1.000000000");
    let (text, _) = run(&trace(), &["--koid", "40"]);
    assert_eq!(text.lines().count(), 2, "the process, and the thread that names it: {text}");
    let (text, _) = run(&trace(), &["--koid", "41", "--type", "wakeup,string"]);
    assert_eq!(fields(&text)[0][..2], ["0.900000000", "wakeup"]);
}

#[test]
fn a_range_outside_of_the_trace_is_an_error_that_says_where_the_trace_is() {
    let mut file = tempfile::NamedTempFile::new().expect("a place for it");
    file.write_all(&trace()).expect("room");
    for range in [["--from", "5000"], ["--to", "0.5"], ["--from", "1h"]] {
        let error = dump(&args(&range, file.path()), Look::PLAIN, &mut io::sink());
        let text = error.expect_err("outside").to_string();
        assert!(text.contains("the window is outside of the trace, which goes from 0.9"), "{text}");
    }
    // Inside the trace, but there is no record at that time.
    dump(&args(&["--from", "0.95", "--to", "0.96"], file.path()), Look::PLAIN, &mut io::sink())
        .expect("nothing to print");
}

#[test]
fn raw_shows_the_words_with_the_fields_of_the_header() {
    let (text, _) = run(&trace(), &["--raw", "--type", "initialization"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].ends_with("0000000000000021 TYPE=1 SIZE=2"), "{text}");
    assert!(lines[2].ends_with("000000003b9aca00"), "{text}");
}

#[test]
fn stats_count_records_and_bytes() {
    let bytes = trace();
    let (text, _) = run(&bytes, &["--stats"]);
    let rows = fields(&text);
    assert!(text.lines().any(|line| line.starts_with("context_switch ")), "{text}");
    assert_eq!(rows[rows.len() - 1][..2], ["10", &bytes.len().to_string()]);
    let (json, _) = run(&bytes, &["--stats", "--json"]);
    assert!(json.contains("\"context_switch\": {\"records\": 2, \"bytes\": 96}"), "{json}");
    assert!(json.contains("\"truncated_tail\": 0"), "{json}");
}

#[test]
fn stats_name_the_version_that_recorded_and_not_one_that_imported() {
    let text = |name, value| Arg::new(Text::Inline(name), Value::Str(Text::Inline(value)));
    let stats = |source| {
        let mut bytes = trace();
        let info = fxt_writer::record::Event {
            kind: fxt_writer::record::EventKind::Instant,
            time: Ticks(0),
            thread: fxt_writer::ThreadName::Inline { process: Koid(1), thread: Koid(1) },
            category: Text::Inline("fxtrec"),
            name: Text::Inline("trace_info"),
            args: &[text("version", "0.1.7"), text("source", source)],
        };
        info.write(&mut bytes).expect("room");
        (run(&bytes, &["--stats"]).0, run(&bytes, &["--stats", "--json"]).0)
    };
    let (table, json) = stats("bpf");
    assert!(table.ends_with("\nrecorded by fxtrec 0.1.7\n"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["recorded_by"], "0.1.7");
    let (table, json) = stats("perf.data");
    assert!(!table.contains("0.1.7") && !json.contains("0.1.7"), "{table}{json}");
}

#[test]
fn a_sound_trace_passes_the_check_and_a_broken_chain_does_not() {
    let bytes = trace();
    let (text, sound) = run(&bytes, &["--check"]);
    assert!(sound, "{text}");
    assert!(text.starts_with("# valid: 10 records"), "{text}");

    // The same last switch again: CPU 1 is idle at that time.
    let mut broken = bytes.clone();
    broken.extend_from_slice(&bytes[bytes.len() - 48..]);
    let (text, sound) = run(&broken, &["--check"]);
    assert!(!sound);
    assert!(text.starts_with("byte 296: chain: CPU 1 ran 0, but 41 is switched out"), "{text}");
    let (_, sound) = run(&broken, &["--check", "--spec-only"]);
    assert!(sound, "the format alone has no such rule");

    let json = |bytes: &[u8]| {
        let (text, sound) = run(bytes, &["--check", "--json"]);
        let check: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(check["valid"], sound);
        check
    };
    let check = json(&bytes);
    assert_eq!((&check["version"], &check["records"]), (&1.into(), &10.into()));
    assert_eq!(
        (&check["rules"], &check["findings"]),
        (&serde_json::json!({}), &serde_json::json!([]))
    );
    let check = json(&broken);
    assert_eq!(check["rules"], serde_json::json!({ "chain": 1 }));
    let (offset, detail) = (&check["findings"][0]["offset"], &check["findings"][0]["detail"]);
    assert_eq!(*offset, 296);
    assert!(detail.as_str().expect("text").starts_with("CPU 1 ran 0"), "{detail}");
}

#[test]
fn damage_and_truncation_are_remarked_where_they_are() {
    let mut bytes = trace();
    let at = bytes.len() - 96;
    bytes[at..at + 8].fill(0);
    bytes.extend_from_slice(&trace()[8..20]);
    let (text, _) = run(&bytes, &[]);
    assert!(text.contains(&format!("# damaged metadata record at byte {at}: its size is zero")));
    assert!(text.contains("# damaged in 1 place, 48 bytes skipped"), "{text}");
    assert!(text.contains("# truncated: the last 12 bytes are an incomplete record"), "{text}");
}

#[test]
fn what_is_no_trace_is_an_error_that_names_the_file() {
    let mut file = tempfile::NamedTempFile::new().expect("a place for it");
    file.write_all(b"PERFILE2 and so on").expect("room");
    let error = dump(&args(&[], file.path()), Look::PLAIN, &mut io::sink()).expect_err("no trace");
    let name = file.path().display().to_string();
    assert_eq!(error.to_string().matches(&name).count(), 1, "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named_once() {
    let path = Path::new("/nonexistent/trace.fxt");
    let error = dump(&args(&[], path), Look::PLAIN, &mut io::sink()).expect_err("no file");
    assert_eq!(error.to_string().matches("trace.fxt").count(), 1, "{error}");
}

#[test]
fn an_output_that_is_closed_early_ends_it_quietly() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(&trace()).expect("room");
    assert!(dump(&args(&[], file.path()), Look::PLAIN, &mut Closed).expect("quiet"));
}

#[test]
fn stacks_are_lines_and_are_found_by_their_koids() {
    use fxt_writer::ThreadName;
    use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName};

    let mut bytes = trace();
    let (time, process) = (Ticks(2_000_000_000), ProcessName::Inline(Koid(40)));
    Module { time, process, id: 3, name: "lib\u{1b}x.so", build_id: &[0xab, 0x01] }
        .write(&mut bytes)
        .expect("room");
    let (start, length, module_address) = (0x7000, 0x2000, 0x1000);
    Mapping { time, process, module: 3, flags: 5, start, length, module_address }
        .write(&mut bytes)
        .expect("room");
    let thread = ThreadName::Inline { process: Koid(40), thread: Koid(41) };
    Backtrace { time, thread, flags: 1, frames: &[u64::MAX, 0x7010] }
        .write(&mut bytes)
        .expect("room");
    let (text, _) = run(&bytes, &["--type", "profiler"]);
    let lines: Vec<&str> = text.lines().map(|line| &line[34..]).collect();
    let expected = [
        "module           process=40:app id=3 \"lib\\u{1b}x.so\" build_id=ab01",
        "mapping          process=40:app module=3 start=0x7000 length=0x2000 \
         module_address=0x1000 flags=0x5",
        "backtrace        process=40:app thread=41:work er flags=0x1 frames=2 \
         0xffffffffffffffff 0x7010",
    ];
    assert_eq!(lines, expected);
    assert_eq!(run(&bytes, &["--type", "backtrace", "--koid", "41"]).0.lines().count(), 1);
    assert_eq!(run(&bytes, &["--type", "profiler", "--koid", "40"]).0.lines().count(), 3);
    assert_eq!(run(&bytes, &["--type", "profiler", "--koid", "42"]).0, "");
    let (json, _) = run(&bytes, &["--stats", "--json"]);
    assert!(json.contains("\"backtrace\": {\"records\": 1, \"bytes\": 48}"), "{json}");
    assert!(run(&bytes, &["--check"]).1);
}

/// The lines of `--json`: all between the first and the last, and the last.
fn json_lines(bytes: &[u8], line: &[&str]) -> (Vec<serde_json::Value>, serde_json::Value) {
    let (text, _) = run(bytes, &[line, &["--json"]].concat());
    let parse = |line| serde_json::from_str::<serde_json::Value>(line).expect("an object");
    let mut lines: Vec<serde_json::Value> = text.lines().map(parse).collect();
    assert_eq!(lines.remove(0)["version"], 1, "{text}");
    let end = lines.pop().expect("a last line")["end"].take();
    (lines, end)
}

#[test]
fn a_line_of_json_stands_for_each_line_of_text() {
    for line in [&[][..], &["--type", "scheduling"], &["--koid", "40"], &["--type", "blob"]] {
        let (text, _) = run(&trace(), line);
        let (records, end) = json_lines(&trace(), line);
        assert_eq!(records.len(), text.lines().count(), "{line:?}");
        assert_eq!(end["records"], records.len());
        for (text, record) in text.lines().zip(&records) {
            assert!(text.contains(record["type"].as_str().expect("a name")), "{text} {record}");
        }
    }
}

#[test]
fn json_has_the_fields_of_a_record_with_names_and_types() {
    let (records, _) = json_lines(&trace(), &["--type", "scheduling"]);
    let thread = serde_json::json!({ "koid": 41, "name": "work er" });
    assert_eq!(records[0]["thread"], thread);
    assert_eq!((&records[0]["time_ns"], &records[0]["cpu"]), (&900_000_000.into(), &1.into()));
    let weight = serde_json::json!([{ "name": "weight", "type": "int32", "value": 1024 }]);
    assert_eq!(records[0]["args"], weight);
    assert_eq!(records[1]["incoming"], thread);
    assert_eq!(records[1]["outgoing_state"], "blocked");
    assert_eq!(records[2]["args"][0]["value"], i32::MIN);
}

#[test]
fn json_reports_a_truncated_end() {
    let mut bytes = trace();
    let words = bytes.len() / 8;
    bytes.truncate((words - 1) * 8);
    let (records, end) = json_lines(&bytes, &[]);
    assert!(records.iter().all(|record| record["offset"].is_u64()));
    assert!(end["truncated_tail"].as_u64().is_some_and(|bytes| bytes > 0), "{end}");
    let (text, _) = run(&bytes, &[]);
    assert_eq!(records.len() + 1, text.lines().count(), "and a remark: {text}");
}

#[test]
fn koid_zero_is_idle_only_in_scheduling_and_in_what_records_it() {
    let of_provider = |name: &str| {
        let mut trace = fxt_writer::Writer::new(trace());
        trace.write(&ProviderInfo { id: ProviderId(9), name }).expect("room");
        let no_thread = (Koid(0), Koid(0));
        trace.instant(Ticks(4), no_thread, "c", "event", &[]).expect("room");
        run(&trace.into_inner(), &["--type", "instant"]).0
    };
    let imported = of_provider("trace events");
    assert!(imported.contains("process=0 thread=0") && !imported.contains("idle"), "{imported}");
    let recorded = of_provider("fxtrec");
    assert!(recorded.contains("process=0:idle thread=0:idle"), "{recorded}");
    assert!(run(&trace(), &[]).0.contains("in=0:idle"), "in scheduling records always");
}
