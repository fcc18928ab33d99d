use std::path::Path;

use clap::{Args, Command, FromArgMatches};
use fxt_writer::Value;

use super::*;
use crate::commands::trace_file::tests::through_a_pipe;
use crate::report::scene::{Leaves, Scene};

/// A thread whose name contains terminal control characters keeps the CPU of `app` busy.
fn scene() -> Scene {
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.name(100, "app").name(201, "\x1b[2Jhog");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch(2_000, 0, 100, Leaves::R, 201);
    scene.switch(32_000, 0, 201, Leaves::R, 100);
    let facts = [("syscall", Value::Uint32(202))];
    scene.switch_with((33_000, 0), 100, Leaves::S, 201, &facts);
    scene.wake_by(38_000, 0, 100, 201);
    scene.switch(39_000, 0, 201, Leaves::R, 100);
    scene.end(100_000);
    scene
}

fn args(line: &[&str], path: &Path) -> Result<WhyArgs, clap::Error> {
    let command = WhyArgs::augment_args(Command::new("why"));
    let words = ["why".as_ref(), path.as_os_str()];
    let line = words.into_iter().chain(line.iter().map(AsRef::as_ref));
    WhyArgs::from_arg_matches(&command.try_get_matches_from(line)?)
}

fn why_of(bytes: &[u8], line: &[&str]) -> Result<String, Error> {
    let file = tempfile::NamedTempFile::new().expect("a place for a file");
    std::fs::write(file.path(), bytes).expect("room");
    let mut out = Vec::new();
    run(&args(line, file.path()).expect("arguments that parse"), &mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn why(line: &[&str]) -> String {
    why_of(scene().bytes(), line).expect("an explanation")
}

#[test]
fn what_is_there_of_a_truncated_file_is_explained_and_that_it_is_truncated_is_reported() {
    let note = "The file is truncated: it ends before the recording did.";
    assert!(!why(&[]).contains(note));
    assert!(!why(&["--json"]).contains("truncated"));
    let bytes = scene().bytes().to_vec();
    let part = &bytes[..bytes.len() - 12];
    for line in [&[][..], &["--top", "2"]] {
        let text = why_of(part, line).expect("an explanation");
        assert!(text.contains("app[100] was "), "{text}");
        assert!(text.contains(note), "{text}");
    }
    let json = why_of(part, &["--json"]).expect("an explanation");
    assert!(json.contains("\"truncated\":true"), "{json}");
}

#[test]
fn without_options_the_worst_is_explained_on_one_screen() {
    let text = why(&[]);
    let first = text.lines().next().expect("a sentence");
    assert_eq!(first, "app[100] was 30.0 ms late: preempted for 30.0 ms by \\x1b[2Jhog[201].");
    for heading in [
        "Where the 30.0 ms of app[100] went",
        "What it waited for",
        "What to try:",
        "Not recorded:",
    ] {
        assert!(text.contains(heading), "{heading} in {text}");
    }
    assert!(text.lines().count() < 24 && !text.contains('\x1b'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn options_choose_the_interval() {
    let first = |line: &[&str]| why(line).lines().next().expect("a sentence").to_owned();
    assert!(first(&["--metric", "blocked"]).contains("blocked 5.00 ms"));
    assert!(
        first(&["--thread", "100", "--from", "+1ms", "--to", "+11ms"])
            .contains("preempted for 10.0 ms")
    );
    assert!(first(&["--life"]).starts_with("app[100] lived 99.0 ms"));
    assert_eq!(
        why(&["--metric", "late", "--over", "1ms"]).matches("What it waited for").count(),
        2
    );
    assert!(first(&["--metric", "late", "--at", "+33ms"]).contains("6.00 ms late"));
}

#[test]
fn times_of_the_day_are_printed_and_taken() {
    // The trace begins at 20:37:56.
    let offset = 1_700_000_000_000_000_000 / 86_400_000_000_000 * 86_400_000_000_000;
    let offset = offset + ((20 * 60 + 37) * 60 + 56) * 1_000_000_000;
    let mut scene = Scene::of_command_at(offset, "waker,syscall", 100);
    scene.name(100, "app");
    for second in [1_000_000, 2_000_000] {
        scene.switch(second, 0, 0, Leaves::R, 100).switch(second + 2_000, 0, 100, Leaves::R, 201);
        scene.switch(second + 12_000, 0, 201, Leaves::R, 100);
        scene.switch(second + 13_000, 0, 100, Leaves::S, 0);
    }
    scene.end(3_000_000);
    let first = |line: &[&str]| {
        let text = why_of(scene.bytes(), line).expect("an explanation");
        text.lines().next().expect("a sentence").to_owned()
    };
    assert!(first(&[]).starts_with("20:37:57.002Z  app[100] was 10.0 ms late"), "{}", first(&[]));
    let listed = first(&["--top", "5"]);
    assert!(listed.starts_with("  1. 1.002000000 (20:37:57.002Z)  app[100] "), "{listed}");
    let at = ["--metric", "runqueue", "--at", "20:37:58.005"];
    assert!(first(&at).starts_with("20:37:58.002Z  app[100] "), "{}", first(&at));
    let error = why_of(scene.bytes(), &["--metric", "late", "--at", "20:38:58"]).expect_err("none");
    assert!(error.to_string().contains("outside"), "{error}");
}

#[test]
fn of_several_traces_the_worst_of_each_is_listed_and_the_worst_comes_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut short = Scene::of_command("waker,syscall", 100);
    short.name(100, "brief").switch(1_000, 0, 0, Leaves::R, 100);
    short.switch(2_000, 0, 100, Leaves::R, 201).switch(4_000, 0, 201, Leaves::R, 100);
    short.end(100_000);
    for (name, bytes) in [("a.fxt", short.bytes()), ("b.fxt", scene().bytes())] {
        std::fs::write(folder.path().join(name), bytes).expect("room");
    }
    std::fs::write(folder.path().join("c.fxt"), Scene::new().bytes()).expect("room");
    let list = |line: &[&str]| {
        let mut out = Vec::new();
        let done = run(&args(line, folder.path()).expect("arguments"), &mut out);
        done.map(|()| String::from_utf8(out).expect("text").replace("\n     ", " "))
    };
    let text = list(&[]).expect("a list");
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str, number: u32, file: &str, who: &str| {
        let file = folder.path().join(file);
        line.starts_with(&format!("  {number}. {}: 0.002000000", file.display()))
            && line.contains(&format!("  {who}[100] was "))
    };
    assert!(
        lines.len() == 3
            && begins(lines[0], 1, "b.fxt", "app")
            && begins(lines[1], 2, "a.fxt", "brief")
            && lines[2].starts_with("Nothing to explain in ")
            && lines[2].ends_with("c.fxt."),
        "{text}"
    );
    assert_eq!(list(&["--top", "1"]).expect("a list").matches(": 0.002000000").count(), 1);
    // Two incidents of one trace come before that of the other, and each trace has its own time.
    let mut twice = Scene::of_command("waker,syscall", 100);
    twice.name(100, "twice").name(101, "other");
    for (begin, koid) in [(2_000, 100), (200_000, 101)] {
        twice.switch(begin - 1_000, 0, 0, Leaves::R, koid);
        twice.switch(begin, 0, koid, Leaves::R, 201).switch(
            begin + 60_000,
            0,
            201,
            Leaves::R,
            koid,
        );
        twice.switch(begin + 61_000, 0, koid, Leaves::S, 0);
    }
    twice.end(900_000);
    std::fs::write(folder.path().join("d.fxt"), twice.bytes()).expect("room");
    let top = list(&["--top", "3"]).expect("a list");
    let files: Vec<&str> =
        top.lines().filter_map(|line| line.split(": ").next()?.rsplit('/').next()).collect();
    assert_eq!(files[..3], ["d.fxt", "d.fxt", "b.fxt"], "{top}");
    let at = list(&["--thread", "other", "--metric", "runqueue", "--at", "0.23"]).expect("a list");
    assert!(at.lines().count() == 1 && at.contains("d.fxt: ") && at.contains("other[101]"), "{at}");
    let refused = list(&["--json"]).expect_err("it is about one").to_string();
    assert!(refused.contains("--json is about one trace"), "{refused}");
    let nothing = list(&["--thread", "nobody"]).expect_err("none has it").to_string();
    assert!(nothing.contains("nothing to explain in any of 4 traces"), "{nothing}");
}

#[test]
fn json_has_the_same() {
    let json: serde_json::Value = serde_json::from_str(&why(&["--json"])).expect("JSON");
    let why = &json["explanations"][0];
    assert_eq!(json["format"], "fxtrec-why");
    assert_eq!(why["thread"]["comm"], "app");
    assert_eq!(why["blame"][0]["thread"]["comm"], "\x1b[2Jhog");
    assert_eq!(why["chain"][0]["tenants"][0]["ns"], 30_000_000);
}

#[test]
fn what_cannot_be_done_is_reported_with_the_file() {
    let error = why_of(Scene::new().bytes(), &[]).expect_err("nothing happens in it").to_string();
    assert!(error.contains("no switch and no wakeup"), "{error}");
    let error = why_of(b"this is no trace", &[]).expect_err("no trace");
    assert!(matches!(error, Error::Read(_)), "{error}");
    let missing =
        run(&args(&[], Path::new("/nowhere/at.all")).expect("it parses"), &mut Vec::new());
    assert!(missing.expect_err("no file").to_string().contains("/nowhere/at.all"));
    for line in [&["--worst", "2", "--over", "1ms"][..], &["--span", "a", "--metric", "turn"]] {
        assert!(args(line, Path::new("a.fxt")).is_err(), "{line:?}");
    }
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let mut out = Vec::new();
    let done = through_a_pipe(scene().bytes(), |path| {
        run(&args(&["--from", "+1ms"], path).expect("arguments that parse"), &mut out)
    });
    done.expect("an explanation");
    assert_eq!(String::from_utf8(out).expect("text"), why(&["--from", "+1ms"]));
}
