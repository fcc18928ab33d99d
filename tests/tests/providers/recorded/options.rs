//! The options for applications that record their own events.

use std::process::Command;

use fxtrec_tests::archive::Archive;
use fxtrec_tests::binary::{PublicCopy, copy_program, fxtrec};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::root;

use super::{APP, Recording};

#[test]
fn only_the_categories_that_were_asked_for_are_recorded() {
    if !root::may_record() {
        return;
    }
    for (categories, expected) in [("app*,net", 50), ("app:sleep", 50), ("net", 0)] {
        let folder = Folder::new();
        let output = folder.path("some.fxt");
        let options = ["--categories", categories];
        let recording = Recording::of_app(&options, &output, &["sleeps", "1", "25"]);
        let (code, _, said) = recording.end();
        assert_eq!(code, Some(0), "{said}");
        let events = Archive::read(&output).only().events;
        let naps = events.iter().filter(|event| event.name == "nap").count();
        assert!(naps == expected || naps * 2 == expected, "{categories}: {naps} events");
        assert!(expected > 0 || events.is_empty(), "{categories}: {events:?}");
    }
}

#[test]
fn applications_are_left_alone_when_that_is_asked_for() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let script = "echo \"<$FXTREC_PROVIDER_SOCKET>\"";
    let run = |options: &[&str]| {
        let mut command = Command::new(fxtrec());
        command.args(options).args(["-o", "t.fxt", "--", "sh", "-c", script]);
        folder.run(command.env_remove("FXTREC_PROVIDER_SOCKET"))
    };
    let reported = run(&[]);
    assert!(reported.stdout.starts_with("<@fxtrec-providers-"), "{}", reported.stdout);
    assert!(!reported.stderr.contains("providers"), "nobody came: {}", reported.stderr);
    assert_ne!(reported.stdout, run(&[]).stdout, "nobody can guess it");
    let alone = run(&["--no-providers"]);
    assert_eq!(alone.stdout, "<>\n", "{}", alone.stderr);
}

#[test]
fn an_application_of_another_user_is_recorded_when_it_is_the_command() {
    if !root::or_skip("it becomes another user") {
        return;
    }
    let public = PublicCopy::new();
    let app = public.path().with_file_name("spans");
    copy_program(APP.as_ref(), &app);
    let folder = Folder::new();
    let app = app.to_str().expect("a plain path");
    let done = folder.fxtrec(["-u", "nobody", "-o", "t.fxt", "--", app, "sleeps", "1", "3"]);
    assert_eq!((done.code, done.stdout.lines().count()), (0, 3), "{}", done.stderr);
    assert_eq!(Archive::read(&folder.path("t.fxt")).only().numbers("nap"), [0, 1, 2]);
}

#[test]
fn contradictions_are_refused_before_the_command_runs() {
    let folder = Folder::new();
    let refused = |options: &[&str]| {
        let done = folder.fxtrec([options, &["--", "touch", "ran"]].concat());
        assert_ne!(done.code, 0);
        assert!(!folder.path("ran").exists());
        done.stderr
    };
    let both = refused(&["--no-providers", "--categories", "net"]);
    assert!(both.contains("cannot be used with"), "{both}");
    let star = refused(&["--categories", "n*t"]);
    assert!(star.contains("'*' is only permitted at the end"), "{star}");
}
