//! Which file or socket a thread waited for.

use std::collections::BTreeMap;

use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record_in_turn;
use fxtrec_tests::root::may_record;
use fxtrec_tests::{binary, machine};

const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

/// How often the program waits for each.
const COUNT: usize = 20;

/// An event's object as `why` prints it, without the device of a file.
fn shown(args: &BTreeMap<String, String>) -> String {
    let arg = |name: &str| args.get(name).map(String::as_str);
    match (arg("path"), arg("remote").or(arg("local"))) {
        (Some(path), _) => path.to_owned(),
        (_, Some(end)) => format!("{} {end}", arg("object_kind").unwrap_or("").to_uppercase()),
        _ => match arg("object_kind") {
            Some("unix") => "a Unix socket".to_owned(),
            Some("eventfd") => "an eventfd".to_owned(),
            kind => format!("a {}", kind.unwrap_or("")),
        },
    }
}

#[test]
fn a_long_wait_names_the_file_or_socket_of_its_system_call() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let (options, count) = (["--source", "bpf"], COUNT.to_string());
    let command = [PLANTED, "objects", &count];
    let recording =
        record_in_turn(machine::quiet(), binary::command(), &folder, &options, &command);
    let own = recording.trace.own.iter();
    let events: Vec<_> = own.filter(|event| event.name == "waited_for").collect();
    let since = if cfg!(target_arch = "x86_64") { (5, 15) } else { (6, 15) };
    if machine::release() < since {
        // There, stacks are taken where descriptors cannot be seen.
        return assert_eq!(events.len(), 0);
    }
    let mut kinds = 0;
    for line in recording.printed.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [thread, descriptor, count, what] = words[..] else { panic!("{line:?}") };
        let (thread, count): (u64, usize) =
            (thread.parse().expect("a number"), count.parse().expect("a number"));
        let of = |event: &&&Event| event.thread == thread && shown(&event.args) == what;
        let found: Vec<_> = events.iter().filter(of).collect();
        println!("{what}: {} of {count}", found.len());
        assert!(found.len() * 10 >= count * 9, "{line}: {} of them", found.len());
        for event in found {
            assert_eq!(event.arg("fd"), descriptor, "{event:?}");
        }
        kinds += 1;
    }
    assert_eq!(kinds, 7);
    let mut report = binary::command();
    let report = report.args(["report", "--json"]).arg(folder.path("t.fxt")).output();
    let report = report.expect("it runs").stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let blocked = report["worst_blocked"].as_array().expect("a list");
    let named = blocked.iter().find(|it| it["comm"] == "waiter").expect("it is blocked longest");
    assert!(named["waited_for"].is_string(), "{named}");
}
