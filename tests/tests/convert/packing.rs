//! Formats by name and by content, packed and unpacked, in files and pipes.

use std::fs;
use std::process::{Command, Stdio};

use super::*;

const EVENTS: &str = r#"[{"name":"a","ph":"B","pid":1,"tid":1,"ts":1.5},
{"ph":"E","pid":1,"tid":1,"ts":2}"#;

#[test]
fn names_say_format_and_packing() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("in.json"), EVENTS).expect("room");
    let chain = ["in.json", "a.fxt.zst", "b.json.gz", "c.fxt.gz", "d.json.zst", "e.fxt"];
    for pair in chain.windows(2) {
        let output = run_well(&["convert", pair[0], pair[1]], folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("fxtrec: ") && said.contains(pair[1]), "{said}");
    }
    let dump = run_well(&["dump", "e.fxt", "--type", "event"], folder.path());
    let lines = String::from_utf8_lossy(&dump.stdout);
    let kinds: Vec<_> = lines.lines().map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(kinds, [Some("duration_begin"), Some("duration_end")], "{lines}");
}

#[test]
fn pipes_work_both_ways_and_content_tells_the_format() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("in"), EVENTS).expect("room");
    let open = |name: &str| fs::File::open(folder.path().join(name)).expect("there");
    let convert = |input: &str, to: &str| {
        let output = Command::new(fxtrec())
            .args(["convert", "-q", "--to", to, "-", "-"])
            .stdin(open(input))
            .stderr(Stdio::inherit())
            .output()
            .expect("it runs");
        assert!(output.status.success());
        output.stdout
    };
    fs::write(folder.path().join("packed"), convert("in", "fxt.gz")).expect("room");
    let json = String::from_utf8(convert("packed", "json")).expect("text");
    assert!(json.contains(r#""name":"a","pid":1,"tid":1,"ts":1.500}"#), "{json}");
}

#[test]
fn what_goes_wrong_is_said_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.json"), "[{\"ph\":\"B\"}]").expect("room");
    fs::write(folder.path().join("odd"), "what is this").expect("room");
    for (args, text) in [
        (&["convert", "bad.json", "out.fxt"][..], "line 1, column 2: this event has no \"ts\""),
        (&["convert", "odd", "out.fxt"], "odd is of no known format"),
        (&["convert", "bad.json", "out"], "out does not say which format"),
        (&["convert", "none.json", "out.fxt"], "cannot open none.json"),
        (&["convert", "bad.json", "out.json"], "there is no conversion"),
        (&["convert", "bad.json", "bad.json"], "bad.json is the input as well"),
    ] {
        let output = run(args, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
        assert!(!folder.path().join("out.fxt").exists(), "{args:?}");
    }
    run_well(&["convert", "--lenient", "bad.json", "out.fxt"], folder.path());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let many = format!("{EVENTS}{}]", r#",{"name":"b","ph":"i","ts":1}"#.repeat(100_000));
    fs::write(folder.path().join("in.json"), many).expect("room");
    run_well(&["convert", "-q", "in.json", "in.fxt"], folder.path());
    let mut convert = Command::new(fxtrec())
        .args(["convert", "--to", "json", "in.fxt", "-"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(convert.stdout.take());
    let output = convert.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
