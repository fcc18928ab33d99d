//! Formats by name and by content, compressed and uncompressed, in files and pipes.

use std::fs::File;
use std::process::Stdio;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;

const EVENTS: &str = r#"[{"name":"a","ph":"B","pid":1,"tid":1,"ts":1.5},
{"ph":"E","pid":1,"tid":1,"ts":2}"#;

#[test]
fn names_say_format_and_packing() {
    let folder = Folder::new();
    folder.write("in.json", EVENTS);
    let chain = ["in.json", "a.fxt.zst", "b.json.gz", "c.fxt.gz", "d.json.zst", "e.fxt"];
    for pair in chain.windows(2) {
        let said = folder.fxtrec(["convert", pair[0], pair[1]]).expect(0).stderr;
        assert!(said.starts_with("fxtrec: ") && said.contains(pair[1]), "{said}");
    }
    let lines = folder.fxtrec(["dump", "e.fxt", "--type", "event"]).expect(0).stdout;
    let kinds: Vec<_> = lines.lines().map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(kinds, [Some("duration_begin"), Some("duration_end")], "{lines}");
}

#[test]
fn pipes_work_both_ways_and_content_reports_the_format() {
    let folder = Folder::new();
    folder.write("in", EVENTS);
    let open = |name: &str| File::open(folder.path(name)).expect("there");
    let convert = |input: &str, to: &str| {
        let output = binary::command()
            .args(["convert", "-q", "--to", to, "-", "-"])
            .stdin(open(input))
            .stderr(Stdio::inherit())
            .output()
            .expect("it runs");
        assert!(output.status.success());
        output.stdout
    };
    folder.write("packed", convert("in", "fxt.gz"));
    let json = String::from_utf8(convert("packed", "json")).expect("text");
    assert!(json.contains(r#""name":"a","pid":1,"tid":1,"ts":1.500}"#), "{json}");
}

#[test]
fn what_goes_wrong_is_reported_and_leaves_no_file() {
    let folder = Folder::new();
    folder.write("bad.json", "[{\"ph\":\"B\"}]");
    folder.write("odd", "what is this");
    for (args, text) in [
        (&["convert", "bad.json", "out.fxt"][..], "line 1, column 2: this event has no \"ts\""),
        (&["convert", "odd", "out.fxt"], "odd: unknown input format"),
        (&["convert", "bad.json", "out"], "out: unknown output format"),
        (&["convert", "none.json", "out.fxt"], "cannot open none.json"),
        (&["convert", "bad.json", "out.json"], "there is no conversion"),
        (&["convert", "bad.json", "bad.json"], "bad.json is the same file as the input"),
    ] {
        let done = folder.fxtrec(args);
        assert_eq!(done.code, 125, "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(text), "{args:?}: {}", done.stderr);
        assert!(!folder.path("out.fxt").exists(), "{args:?}");
    }
    folder.fxtrec(["convert", "--lenient", "bad.json", "out.fxt"]).expect(0);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = Folder::new();
    let many = format!("{EVENTS}{}]", r#",{"name":"b","ph":"i","ts":1}"#.repeat(100_000));
    folder.write("in.json", many);
    folder.fxtrec(["convert", "-q", "in.json", "in.fxt"]).expect(0);
    let mut convert = binary::command()
        .args(["convert", "--to", "json", "in.fxt", "-"])
        .current_dir(folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(convert.stdout.take());
    let output = convert.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
