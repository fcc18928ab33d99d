//! Stacks by perf's call chains: none is lost, whatever else there is to do.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::programs::build;
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use fxtrec_tests::trace::Trace;
use serde_json::Value;

/// How many threads of another process wait meanwhile.
const OTHERS: usize = 8;

/// How often others wait beside what `run` does, for long enough to be asked for.
fn beside(run: impl FnOnce()) -> u64 {
    let (waits, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..OTHERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(2));
                    waits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        run();
        is_over.store(true, Ordering::Relaxed);
    });
    waits.load(Ordering::Relaxed)
}

#[test]
fn none_is_lost_while_a_large_file_is_read() {
    if !may_record() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let _turn = machine::alone();
    let program = build("waits.c", &["-O2", "-fno-omit-frame-pointer"]);
    let folder = Folder::new();
    // A debug build has a hundred megabytes, and fxtrec names its functions where a file ends.
    let fxtrec = binary::fxtrec();
    let fxtrec = fxtrec.to_str().expect("a plain path");
    let script = format!("{fxtrec} -q -a -d 200ms -o inner.fxt; {} 100", program.text());
    let mut outer: Command = binary::command();
    outer.args(["-o", "t.fxt", "--source", "perf", "--stacks=wake", "--scope", "app"]);
    outer.args(["--rotate", "300ms", "--", "sh", "-c", &script]);
    let others = beside(|| drop(folder.run(&mut outer).expect(0)));
    let files: Vec<String> = (1..)
        .map(|number| format!("t.{number:04}.fxt"))
        .take_while(|name| folder.path(name).exists())
        .collect();
    assert!(files.len() >= 2, "{files:?}");
    let mut named = Vec::new();
    let mut taken = 0;
    for file in &files {
        folder.fxtrec(["dump", file, "--check"]).expect(0);
        let trace = Trace::read(&folder.path(file));
        let mut events = trace.own.iter();
        let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
        for nothing in ["lost", "given_up"] {
            assert_eq!(stats.number(nothing), 0, "{file}: {nothing}");
        }
        // Each of them may lack a caller, whether it is in the file or not.
        taken = stats.number("user_unproved");
        let printed = folder.fxtrec(["report", file, "--stacks", "--json", "--worst", "100000"]);
        let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
        for wait in json["worst"].as_array().expect("waits") {
            let of_waker = wait["waker_frames"].as_array().into_iter().flatten();
            let frames = wait["frames"].as_array().into_iter().flatten().chain(of_waker);
            named.extend(frames.filter_map(|frame| frame["function"].as_str().map(str::to_owned)));
        }
    }
    let of = |part: &str| named.iter().filter(|name| name.contains(part)).count();
    println!("{taken} stacks beside {others} waits of others, {} names", named.len());
    // A frame pointer leads past the function that blocks in a library without them.
    assert!(of("crossbeam") + of("fxtrec") > 0, "the large file was read");
    assert!(of("descend") > 1000 && of("hrtimer") > 0, "{} and {}", of("descend"), of("hrtimer"));
    // The kernel takes those of all threads.
    assert!(taken > others / 2, "{taken} stacks, {others} waits of others");
}
