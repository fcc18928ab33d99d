//! Queries with an engine that the test controls, so none has to be installed. `scripts/check-sql` runs them on DuckDB.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::end_with_thread;
use fxtrec_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A directory with a trace that has a span, and a program `duckdb` with this script.
fn folder(script: &str) -> Folder {
    let folder = Folder::new();
    folder.write(
        "a.json",
        r#"[{"ph":"X","ts":1,"dur":2,"pid":1,"tid":1,"name":"load","cat":"app"}]"#,
    );
    folder.fxtrec(["convert", "-q", "a.json", "-o", "a.fxt"]).expect(0);
    folder.write("duckdb", format!("#!/bin/sh\n{script}\n"));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path("duckdb"), mode).expect("its own file");
    std::fs::create_dir(folder.path("tmp")).expect("room");
    folder
}

fn query(folder: &Folder, words: &[&str]) -> Command {
    let path = format!("{}:/usr/bin:/bin", folder.text(""));
    let mut command = binary::command();
    command.arg("query").args(words).env("PATH", path).env("TMPDIR", folder.path("tmp"));
    command
}

fn temporary(folder: &Folder) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(folder.path("tmp")).expect("a folder");
    inside.map(|entry| entry.expect("readable").path()).collect()
}

#[test]
fn a_trace_becomes_csv_of_the_tables_that_the_sql_names() {
    let folder = folder("printf '%s\\n' \"$@\"; cat \"$TMPDIR\"/*/span/*/*/span.csv");
    let sql = "SELECT name FROM span";
    let done = folder.run(&mut query(&folder, &["a.fxt", sql, "--json"])).expect(0);
    let expected = "CREATE VIEW \"span\" AS SELECT * FROM read_csv(";
    assert!(done.stdout.contains(expected), "{}", done.stdout);
    assert!(done.stdout.contains("'dur': 'BIGINT'") && done.stdout.contains(sql));
    assert!(!done.stdout.contains("VIEW \"wait\""), "{}", done.stdout);
    assert!(done.stdout.contains("1000,2000,"), "{}", done.stdout);
    assert_eq!(temporary(&folder), Vec::<PathBuf>::new(), "nothing stays behind");
    // From the exported tables, in either format.
    for format in ["csv", "parquet"] {
        folder.fxtrec(["export", "-q", "a.fxt", "-o", format, "--format", format]).expect(0);
        let done = folder.run(&mut query(&folder, &[format, "SELECT 1"]));
        assert!(done.stdout.contains(&format!("read_{format}([")), "{}", done.stdout);
        assert!(done.stdout.contains("VIEW \"wait\""), "{}", done.stdout);
    }
}

#[test]
fn a_signal_takes_the_temporary_directory_along() {
    let folder =
        folder("touch \"$TMPDIR\"/ready; while kill -0 $PPID 2>/dev/null; do sleep 0.02; done");
    let mut command = query(&folder, &["a.fxt", "SELECT 1 FROM span"]);
    command.current_dir(folder.path("")).stdout(Stdio::null());
    let mut fxtrec = end_with_thread(&mut command).spawn().expect("it starts");
    until("the engine runs", || folder.path("tmp/ready").exists());
    assert_eq!(temporary(&folder).len(), 2, "the tables, and what says that it runs");
    // For the moment in which the engine starts, a signal ends fxtrec at once.
    let pid = Pid::from_raw(i32::try_from(fxtrec.id()).expect("a pid"));
    until("signals are handled", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        blocked.is_some_and(|set| set & 1 << (Signal::SIGTERM as u32 - 1) != 0)
    });
    kill(pid, Signal::SIGTERM).expect("it runs");
    let ended = fxtrec.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(Signal::SIGTERM as i32), "{ended}");
    assert_eq!(temporary(&folder), [folder.path("tmp/ready")]);
}

#[test]
fn everything_that_is_missing_is_reported_at_once() {
    let folder = Folder::new();
    let mut command = binary::command();
    command.args(["query", "absent.fxt", "SELECT 1"]).env("PATH", folder.path("empty"));
    let done = folder.run(&mut command).expect(125);
    for part in ["no program `duckdb`", "install it: curl ", "absent.fxt: No such file"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn help_ends_quietly_when_its_reader_has_left() {
    for words in [&["--help"][..], &["--version"], &["help", "report"], &["completions", "zsh"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = binary::command();
        let output = command.args(words).stdout(writer).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
}
