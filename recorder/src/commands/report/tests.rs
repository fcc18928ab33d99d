use std::io;

use clap::{Args, Command, FromArgMatches};
use fxt_writer::Value;

use super::*;
use crate::commands::trace_file::tests::through_a_pipe;
use crate::report::scene::{Leaves, Scene};

fn trace() -> Vec<u8> {
    let mut scene = Scene::new();
    for begin in (1000..2000).step_by(100) {
        scene.wake(begin, 0, 101);
        scene.switch(begin + 5, 0, 0, Leaves::R, 101);
        scene.switch(begin + 15, 0, 101, Leaves::R, 202);
        scene.switch(begin + 30, 0, 202, Leaves::S, 101);
        scene.switch(begin + 40, 0, 101, Leaves::S, 0);
    }
    scene.bytes().to_vec()
}

fn args(line: &[&str], path: &Path) -> ReportArgs {
    let command = ReportArgs::augment_args(Command::new("report"));
    let words = ["report".as_ref(), path.as_os_str()];
    let line = words.into_iter().chain(line.iter().map(AsRef::as_ref));
    let matches = command.try_get_matches_from(line).expect("arguments that parse");
    ReportArgs::from_arg_matches(&matches).expect("the same")
}

fn report_of(bytes: &[u8], line: &[&str]) -> Result<String, ReportError> {
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), bytes).expect("room");
    let mut out = Vec::new();
    run(&args(line, file.path()), Look::PLAIN, &mut out, &mut Vec::new())?;
    Ok(String::from_utf8(out).expect("text"))
}

fn report(line: &[&str]) -> String {
    report_of(&trace(), line).expect("a report")
}

#[test]
fn who_asks_for_locks_that_are_not_recorded_is_told_how_to_record_them() {
    assert_eq!(report(&["--show", "locks"]), "Locks are not recorded: record with --locks.\n\n");
    assert!(!report(&["--all"]).contains("Locks"), "who asks for everything is not");
}

/// A client that waits for a server 40 times, usually for 0.2 ms, and once for `longest` microseconds.
fn client_and_server(longest: u64) -> Scene {
    let call = |number: u32| [("syscall", Value::Uint32(number))];
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.name(100, "sh").name(101, "client").name(102, "server");
    scene.switch(0, 0, 0, Leaves::R, 100);
    scene.wake_by(10, 1, 102, 100).wake_by(20, 0, 101, 100).switch(30, 1, 0, Leaves::R, 102);
    scene.switch_with((40, 1), 102, Leaves::S, 0, &call(232));
    scene.switch_with((50, 0), 100, Leaves::S, 101, &call(61));
    let mut now = 60;
    for request in 0..40 {
        scene.switch_with((now, 0), 101, Leaves::S, 0, &call(35));
        now += 3_000;
        scene.wake_with(now, 0, 101, &[("interrupt", Value::Bool(true))]);
        scene.switch(now + 5, 0, 0, Leaves::R, 101).wake_by(now + 20, 1, 102, 101);
        scene.switch_with((now + 30, 0), 101, Leaves::S, 0, &call(0));
        scene.switch(now + 35, 1, 0, Leaves::R, 102);
        now += if request == 20 { longest } else { 200 };
        scene.wake_by(now - 20, 0, 101, 102).switch(now - 10, 0, 0, Leaves::R, 101);
        scene.switch_with((now - 5, 1), 102, Leaves::S, 0, &call(232));
    }
    scene.switch(now, 0, 101, Leaves::X, 0);
    scene.wake_by(now + 1, 0, 100, 101).switch(now + 2, 0, 0, Leaves::R, 100);
    scene.end(now + 100);
    scene
}

#[test]
fn incidents_come_first_where_they_are_asked_for() {
    let scene = client_and_server(50_000);
    let text = report_of(scene.bytes(), &["--all"]).expect("a report");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Incidents:");
    assert!(lines[1].starts_with("  1. ") && lines[1].contains("client[101] "), "{text}");
    assert!(!report_of(scene.bytes(), &[]).expect("a report").contains("Incidents"));
    let json = |options: &[&str]| -> serde_json::Value {
        let text = report_of(scene.bytes(), options).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let all = json(&["--json", "--all"]);
    let incident = &all["incidents"][0];
    assert_eq!((&incident["comm"], &incident["tid"]), (&"client".into(), &101.into()));
    assert!(incident["length_ns"].as_u64() >= Some(49_000_000), "{incident}");
    let sentence = incident["sentence"].as_str().expect("text");
    assert!(sentence.starts_with("client[101] ") && sentence.contains("server[102]"), "{sentence}");
    assert_eq!(json(&["--json"]).get("incidents"), None);
    let page = report_of(scene.bytes(), &["--html", "-"]).expect("a page");
    let contents = page.split_once("id=\"contents\">").expect("its contents").1;
    let contents = contents.split_once("</script>").expect("their end").0;
    let contents: serde_json::Value = serde_json::from_str(contents).expect("JSON");
    let of_page = &contents["incidents"][0];
    assert_eq!((&of_page["sentence"], &of_page["who"][0]), (&incident["sentence"], &101.into()));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("id=\"incidents\"") < place("class=\"timeline\""));

    let usual = client_and_server(900);
    let text = report_of(usual.bytes(), &["--show", "incidents"]).expect("a report");
    assert_eq!(text, "No incidents: nothing unusual.\n\n");
    let chosen = ["--show", "incidents", "--comm", "server"];
    assert_eq!(report_of(scene.bytes(), &chosen).expect("a report"), "");
}

#[test]
fn without_options_a_report_fits_on_a_screen() {
    let text = report(&[]);
    for heading in ["switches (", "  wakeup     p50", "Run-queue wait of each task", "longest run"]
    {
        assert!(text.contains(heading), "{heading} in {text}");
    }
    assert!(!text.contains("Histogram") && !text.contains("All threads"), "{text}");
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.switch(0, 0, 0, Leaves::R, 1);
    for at in 0..90 {
        let thread = if at % 3 == 0 { 101 + at } else { 201 + at };
        scene.wake_by(at * 100, 0, thread, 1).switch(at * 100 + at, 0, 1, Leaves::R, thread);
        scene.switch(at * 100 + 50 + at, 0, thread, Leaves::S, 1);
        scene.wake_by(at * 100 + 60 + at, 0, thread, 1);
    }
    scene.span((0, 20), 101, "a").span((30, 35), 101, "b").span((40, 45), 101, "c").end(9000);
    let text = report_of(scene.bytes(), &[]).expect("a report");
    assert!((24..=32).contains(&text.lines().count()), "{} lines:\n{text}", text.lines().count());
    assert!(text.contains("COMMAND (30 threads)") && text.contains("longest blocked"), "{text}");
    assert!(text.ends_with("--all prints everything; fxtrec why explains the worst delay.\n"));
    let two = report_of(scene.bytes(), &["--rows", "2", "--worst", "1"]).expect("a report");
    assert!(two.contains(" more threads, 28 of COMMAND (") && !two.contains("   2. "), "{two}");
}

#[test]
fn with_all_every_part_is_there() {
    let text = report(&["--all"]);
    for heading in [
        "switches (",
        "All threads",
        "Run-queue wait of each task",
        "CPU",
        "Histogram of",
        "longest",
    ] {
        assert!(text.contains(heading), "{heading} in {text}");
    }
    let only = report(&["--show", "histogram", "--metric", "slice"]);
    assert!(only.starts_with("Histogram of slice, 30 samples"), "{only}");
}

#[test]
fn filters_reach_the_analysis() {
    let rows = |line: &[&str]| {
        let csv = report(&[line, &["--csv"]].concat());
        csv.lines()
            .skip(1)
            .map(|row| row.split(',').nth(3).unwrap_or("").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&[]), ["t101", "t202"]);
    assert_eq!(rows(&["--comm", "t2*"]), ["t202"]);
    assert_eq!(rows(&["--pid", "100"]), ["t101"]);
    assert_eq!(rows(&["--tid", "101,202"]).len(), 2);
    let counts = |line: &[&str]| report(&[line, &["--show", "metrics"]].concat());
    let slices = |line: &[&str]| {
        let text = counts(line);
        let line = text.lines().find(|line| line.trim().starts_with("slice")).expect("slices");
        line.split_whitespace().nth(1).expect("a count").to_owned()
    };
    assert_eq!(slices(&[]), "30");
    assert_eq!(slices(&["--from", "+500us"]), "15");
    assert_eq!(slices(&["--to", "0.001499"]), "15");
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&trace()).expect("memory");
    let zstd = zstd::encode_all(&trace()[..], 1).expect("memory");
    for packed in [gzip.finish().expect("memory"), zstd] {
        assert_eq!(report_of(&packed, &["--csv"]).expect("a report"), report(&["--csv"]));
    }
}

#[test]
fn processes_have_rows_of_their_own() {
    let text = report(&["--by", "process", "--show", "threads"]);
    assert!(text.contains("Run-queue wait of each process"), "{text}");
    assert!(text.contains("p100:100") && text.contains("p200:200"), "{text}");
}

#[test]
fn what_cannot_be_reported_on_is_reported_with_the_file_and_what_to_do() {
    let error = report_of(Scene::new().bytes(), &[]).expect_err("nothing happens in it");
    assert!(matches!(error, ReportError::Empty(_)) && error.to_string().contains("dump --stats"));
    let error = report_of(b"this is no trace", &["--json"]).expect_err("no trace");
    assert!(matches!(error, ReportError::Read(ReadError::Content { .. })), "{error}");
    let mut out = Vec::new();
    let missing =
        run(&args(&[], Path::new("/nowhere/at.all")), Look::PLAIN, &mut out, &mut io::sink())
            .expect_err("no file");
    assert!(missing.to_string().contains("/nowhere/at.all"), "{missing}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), trace()).expect("room");
    for line in [&[][..], &["--timehist"], &["--json"]] {
        run(&args(line, file.path()), Look::PLAIN, &mut Closed, &mut io::sink()).expect("quiet");
    }
}

/// Whether all gates passed, and the verdicts.
fn judged(line: &[&str]) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), trace()).expect("room");
    let mut err = Vec::new();
    let passed =
        run(&args(line, file.path()), Look::PLAIN, &mut io::sink(), &mut err).expect("a report");
    (passed == Outcome::Passed, String::from_utf8(err).expect("text"))
}

#[test]
fn gates_are_about_what_the_filters_chose() {
    let (passed, text) = judged(&["--fail-if", "preempt.max > 14us"]);
    assert!(!passed && text.contains("preempt.max is 15.0 us, of 10 values"), "{text}");
    assert!(judged(&["--fail-if", "preempt.max > 15us"]).0);
    let (passed, text) = judged(&["--tid", "202", "--fail-if", "preempt.max > 14us"]);
    assert!(passed && text.contains("the recording contains no values of preempt"), "{text}");
    let (passed, _) = judged(&["--to", "+250us", "--fail-if", "slice.count > 9 if cpu = 0"]);
    assert!(passed, "the part that is read again is the part that was asked for");
    let (passed, text) = judged(&["--timehist", "--fail-if", "slice.count > 9 if cpu = 0"]);
    assert!(!passed && text.contains("slice.count is 30, of 30 values"), "{text}");
}

#[test]
fn spans_have_a_table_of_their_own_a_member_of_the_json_and_gates() {
    let mut scene = Scene::new();
    scene.switch(1000, 0, 0, Leaves::R, 101).switch(2000, 0, 101, Leaves::S, 0);
    scene.span((1000, 1500), 101, "request").end(3000);
    let text = report_of(scene.bytes(), &[]).expect("a report");
    assert!(
        text.contains("Spans, with the sum of each part") && text.contains("app:request"),
        "{text}"
    );
    let json = |line: &[&str]| -> serde_json::Value {
        let text = report_of(scene.bytes(), &[&["--json"], line].concat()).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let plain = json(&[]);
    assert_eq!(plain["spans"][0]["parts"]["cpu"]["max_ns"], 500_000);
    assert!(plain.get("gates").is_none());
    let gate = "span('app:request').max > 400us";
    let judged = json(&["--fail-if", gate]);
    assert_eq!(
        (&judged["gates"][0]["gate"], &judged["gates"][0]["verdict"]),
        (&gate.into(), &"failed".into())
    );
    assert_eq!(json(&["--from", "+100us"])["spans"].as_array().map(Vec::len), Some(0));
    assert!(
        report(&["--json"]).contains("\"worst\"") && !report(&["--json"]).contains("\"spans\"")
    );
}

#[test]
fn what_programs_tell_is_reported_without_any_scheduling() {
    let mut scene = Scene::new();
    scene.span((1_000, 3_000), 101, "request");
    scene.async_span(7, (1_000, 101), (4_000, 101), "fetch");
    scene.counter(2_000, 101, "queue", &[("depth", fxt_writer::Value::Int64(4))]);
    for line in [&[][..], &["--all"], &["--show", "spans,counters"]] {
        let text = report_of(scene.bytes(), line).expect("a report");
        for part in
            ["no scheduling records in the trace", "app:request", "app:fetch (async)", "app:queue"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    let json = report_of(scene.bytes(), &["--json"]).expect("a report");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["spans"][0]["name"], "fetch");
    assert_eq!(
        (&json["spans"][0]["async"], &json["counters"][0]["last"]),
        (&true.into(), &4.0.into())
    );
    let gate = ["--show", "spans", "--fail-if", "span('fetch').max > 2ms"];
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), scene.bytes()).expect("room");
    let outcome = run(&args(&gate, file.path()), Look::PLAIN, &mut Vec::new(), &mut Vec::new());
    assert_eq!(outcome.expect("a verdict"), Outcome::Failed);
    let folder = tempfile::tempdir().expect("a place for a page");
    let page = folder.path().join("page.html").display().to_string();
    for line in [&["--timehist"][..], &["--from", "+1ms"], &["--to", "4"], &["--html", &page]] {
        let error = report_of(scene.bytes(), line).expect_err("no switches");
        let expected = format!("{} needs switches or wakeups, and the trace has none", line[0]);
        assert!(error.to_string().contains(&expected), "{line:?}: {error}");
    }
    assert!(!std::path::Path::new(&page).exists());
}

#[test]
fn tables_fit_a_terminal_and_colours_change_nothing_else() {
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), trace()).expect("room");
    let written = |look| {
        let mut out = Vec::new();
        run(&args(&["--all"], file.path()), look, &mut out, &mut io::sink()).expect("a report");
        String::from_utf8(out).expect("text")
    };
    let narrow = written(Look { colour: false, columns: Some(80) });
    let tables = narrow.split("\n\n").filter(|part| part.contains("----"));
    for line in tables.flat_map(str::lines).filter(|line| !line.contains("work not conserved")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let wide = written(Look::PLAIN);
    assert!(narrow.contains("columns hidden: widen to ") && !wide.contains("hidden"), "{narrow}");
    assert!(wide.contains("  Migr\n") && !narrow.contains("  Migr\n"), "{narrow}");
    let coloured = written(Look { colour: true, columns: None });
    assert!(coloured.contains("\x1b[1mTask"), "{coloured}");
    let plain = ["\x1b[1m", "\x1b[2m", "\x1b[0m"];
    assert_eq!(plain.iter().fold(coloured, |text, it| text.replace(it, "")), wide);
}

#[test]
fn a_directory_has_one_report_with_a_row_for_each_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b.fxt", "a.fxt"] {
        std::fs::write(folder.path().join(name), trace()).expect("room");
    }
    let report_all = |line: &[&str]| {
        let mut out = Vec::new();
        let outcome = run(&args(line, folder.path()), Look::PLAIN, &mut out, &mut Vec::new())?;
        Ok::<_, ReportError>((outcome, String::from_utf8(out).expect("text")))
    };
    let (_, text) = report_all(&[]).expect("a report");
    for part in ["2 traces of unknown hosts", "/a.fxt", "/b.fxt", "t101 (2 threads)", " of /"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let one = parse(&report(&["--json"]));
    let all = parse(&report_all(&["--json"]).expect("a report").1);
    let of = |document: &serde_json::Value, member: &str| {
        document["total"]["metrics"]["runqueue"][member].as_u64().expect("a number")
    };
    for member in ["count", "sum_ns"] {
        assert_eq!(of(&all, member), 2 * of(&one, member), "{member}");
    }
    for member in ["min_ns", "p50_ns", "p99_ns", "max_ns"] {
        assert_eq!(of(&all, member), of(&one, member), "{member}");
    }
    assert_eq!(all["switches"].as_u64(), one["switches"].as_u64().map(|it| 2 * it));
    assert_eq!(all["traces"].as_array().map(Vec::len), Some(2));
    let first = all["worst"][0]["trace"].as_u64().expect("of one of them");
    assert!(first < 2 && one["worst"][0].get("trace").is_none());
    let judged = |gate: &str| report_all(&["--fail-if", gate]).map(|it| it.0);
    assert_eq!(judged("runqueue.max > 1s").expect("a verdict"), Outcome::Passed);
    assert_eq!(judged("runqueue.count > 1").expect("a verdict"), Outcome::Failed);
    let error = judged("runqueue.max > 1s if cpu = 0").expect_err("CPUs of which host");
    assert!(error.to_string().contains("check the traces one by one"), "{error}");
    let error = report_all(&["--timehist"]).expect_err("times of which host");
    assert!(error.to_string().starts_with("--timehist needs a single trace"), "{error}");
}

#[test]
fn gates_and_stacks_take_a_trace_from_a_pipe() {
    let of_pipe = |bytes: &[u8], line: &[&str]| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let done =
            through_a_pipe(bytes, |path| run(&args(line, path), Look::PLAIN, &mut out, &mut err));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (done.expect("a report"), text(out), text(err))
    };
    let (outcome, _, verdicts) = of_pipe(&trace(), &["--fail-if", "wakeup.max > 1us if cpu = 0"]);
    assert!(matches!(outcome, Outcome::Failed), "{verdicts}");
    let stacks = crate::report::stacks::example::trace(true);
    let (_, text, _) = of_pipe(&stacks, &["--stacks"]);
    assert_eq!(text, report_of(&stacks, &["--stacks"]).expect("stacks"));
    assert!(text.contains("pipe_read"), "{text}");
}
