//! The examples for C and C++, against the static library and the shared one, and as they are installed.

use std::path::Path;

use fxt_reader::record::EventKind;
use fxtrec_tests::c_example::{
    build, build_by_cmake, build_by_pkg_config, build_cpp, build_statically, compile_strictly,
    install, libraries,
};
use fxtrec_tests::tools;

use super::app::App;
use super::archive::Archive;
use super::manager::{Ask, Manager};

fn run(program: &Path) -> (Archive, Vec<String>) {
    let manager = Manager::new();
    let program = program.to_str().expect("a plain path");
    let app = App::start_program(program, &manager, "", &[]);
    let mut peer = manager.accept();
    assert_eq!(peer.name, "c example");
    let recording = peer.start(Ask::default());
    let archive = peer.save_to_death(recording);
    app.end_well();
    (archive, peer.alerts)
}

fn assert_example(archive: &Archive, alerts: &[String]) {
    // The events of each thread are in order, and those of two threads are ordered by their times.
    let mut events: Vec<_> = archive.events.iter().collect();
    events.sort_by_key(|event| event.time);
    let events: Vec<_> = events
        .into_iter()
        .map(|event| {
            let args = event.args.iter().map(|(name, value)| format!(" {name}={value}"));
            let kind = match event.kind {
                EventKind::DurationBegin => "begin",
                EventKind::DurationEnd => "end",
                EventKind::Instant => "instant",
                EventKind::Counter { id: 0 } => "counter",
                EventKind::AsyncBegin { .. } => "async begin",
                EventKind::AsyncInstant { .. } => "async instant",
                EventKind::AsyncEnd { .. } => "async end",
                EventKind::FlowBegin { .. } => "flow begin",
                EventKind::FlowStep { .. } => "flow step",
                EventKind::FlowEnd { .. } => "flow end",
                _ => "other",
            };
            format!("{kind} {}{}", event.name, args.collect::<String>())
        })
        .filter(|event| !event.starts_with("begin work"))
        .collect();
    let expected = [
        "begin everything",
        "begin first half with=\"words\"",
        "async begin request id=koid:7",
        "flow begin request",
        "flow step request",
        "instant round number=0",
        "instant round number=1",
        "instant round number=2",
        "async instant answered",
        "end work",
        "flow end request",
        "async end request",
        "end first half",
        "counter queue waiting=3 load=0.5 full=true",
        "end everything",
    ];
    assert_eq!(events, expected);
    let work = archive.named("work").next().expect("its begin");
    assert!(work.arg("argument").is_some_and(|address| address.starts_with("0x")));
    assert_eq!(archive.open_spans(), 0);
    assert_eq!(archive.threads.len(), 2);
    assert_eq!(archive.blobs["state"], b"bytes");
    let logs: Vec<_> = archive.logs.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(logs, ["all is done"]);
    assert_eq!(alerts, ["done"]);
}

#[test]
fn the_c_example_records_with_the_static_library() {
    if !tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_statically(folder.path());
    let (archive, alerts) = run(&program);
    assert_example(&archive, &alerts);
}

#[test]
fn the_c_example_records_with_the_shared_library() {
    if !tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let libraries = libraries();
    let search = libraries.to_str().expect("a plain path");
    let rpath = format!("-Wl,-rpath,{search}");
    let program = build(folder.path(), &["-L", search, "-lfxt_provider", &rpath]);
    let (archive, alerts) = run(&program);
    assert_example(&archive, &alerts);
}

#[test]
fn the_example_for_cpp_records_the_same() {
    if !tools::or_skip(&["g++"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, alerts) = run(&build_cpp(folder.path()));
    assert_example(&archive, &alerts);
}

#[test]
fn what_is_installed_is_found_by_pkg_config_and_by_cmake() {
    if !tools::or_skip(&["gcc", "g++", "pkg-config", "cmake", "make"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("prefix");
    install(&prefix);
    let mut programs = build_by_cmake(&prefix, folder.path()).to_vec();
    programs.push(build_by_pkg_config(&prefix, folder.path()));
    for program in programs {
        let (archive, alerts) = run(&program);
        assert_example(&archive, &alerts);
    }
}

#[test]
fn the_headers_give_no_warnings_by_any_standard() {
    let folder = tempfile::tempdir().expect("a folder");
    if !tools::or_skip(&["gcc", "g++"]) {
        return;
    }
    compile_strictly(folder.path(), ["gcc", "g++"]);
    // The compiler's warnings are different. CI has none.
    if Path::new("/usr/bin/clang++").exists() {
        compile_strictly(folder.path(), ["clang", "clang++"]);
    }
}
