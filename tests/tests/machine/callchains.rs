//! Stacks by perf's call chains: none is lost, whatever else the recorder has to do.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{sync::mpsc, thread};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::programs::build;
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::wait::SetOnDrop;
use serde_json::Value;

/// The number of functions of the program that takes a long time to read: several times as many as in a debug build of fxtrec.
const FUNCTIONS: usize = 500_000;

/// How often a thread of another process waits for a second thread during `run`: tens of thousands of times a second.
fn beside(run: impl FnOnce()) -> u64 {
    let (mut waits, is_over) = (0, AtomicBool::new(false));
    let (count, is_done) = (&mut waits, &is_over);
    thread::scope(|scope| {
        let (to, there) = mpsc::sync_channel::<()>(0);
        let (back, here) = mpsc::sync_channel::<()>(0);
        scope.spawn(move || while there.recv().is_ok() && back.send(()).is_ok() {});
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) && to.send(()).is_ok() && here.recv().is_ok() {
                *count += 1;
            }
        });
        let _over = SetOnDrop(&is_over);
        run();
    });
    waits
}

#[test]
fn none_is_lost_while_a_large_file_is_read() {
    if !may_record() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    let padding = folder.path("padding.s");
    let mut source = String::from(".text\n.section .note.GNU-stack,\"\",@progbits\n.text\n");
    for number in 0..FUNCTIONS {
        writeln!(source, ".type padding_{number},@function\npadding_{number}: ret")
            .expect("a string takes anything");
        writeln!(source, ".size padding_{number},1").expect("a string takes anything");
    }
    fs::write(&padding, source).expect("the source is written");
    let padding = padding.to_str().expect("a plain path");
    // At the end of a file, its functions are named while the program is still running.
    let program = build("waits.c", &["-O2", "-fno-omit-frame-pointer", padding]);
    let machine = machine::alone();
    // On a busy machine the second file begins late.
    let program = program.text();
    let script = format!("{program} 150; until [ -e t.0002.fxt ]; do {program} 10; done");
    let mut outer: Command = binary::command();
    outer.args(["-o", "t.fxt", "--source", "perf", "--stacks=wake", "--scope", "app"]);
    outer.args(["--rotate", "300ms", "--", "sh", "-c", &script]);
    let others = beside(|| drop(folder.run(&mut outer).expect(0)));
    machine.give_back();
    let files: Vec<String> = (1..)
        .map(|number| format!("t.{number:04}.fxt"))
        .take_while(|name| folder.path(name).exists())
        .collect();
    assert!(files.len() >= 2, "{files:?}");
    let mut named = Vec::new();
    for file in &files {
        folder.fxtrec(["dump", file, "--check"]).expect(0);
        let trace = Trace::read(&folder.path(file));
        let mut events = trace.own.iter();
        let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
        for nothing in ["lost", "given_up"] {
            assert_eq!(stats.number(nothing), 0, "{file}: {nothing}");
        }
        let printed = folder.fxtrec(["report", file, "--stacks", "--json", "--worst", "100000"]);
        let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
        for wait in json["worst"].as_array().expect("waits") {
            let of_waker = wait["waker_frames"].as_array().into_iter().flatten();
            let frames = wait["frames"].as_array().into_iter().flatten().chain(of_waker);
            named.extend(frames.filter_map(|frame| frame["function"].as_str().map(str::to_owned)));
        }
    }
    let of = |part: &str| named.iter().filter(|name| name.contains(part)).count();
    println!("{} names beside {others} waits of others", named.len());
    // A frame pointer leads past the function that blocks, in a library without frame pointers, to the functions of the large file. The
    // number of known ones varies: while a CPU's idle task is silent, perf writes none of the wakeups that it causes.
    assert!(of("descend") > 100 && of("hrtimer") > 0, "{} and {}", of("descend"), of("hrtimer"));
    // The kernel records a stack for each of these, so that the rings would be full before the file is read.
    assert!(others > 10_000, "{others} waits of others");
}
