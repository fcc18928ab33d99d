//! Durations from a function's call to its return.

use std::io::BufRead;
use std::process::{Command, Stdio};

use fxt_reader::ThreadState;
use fxtrec_tests::binary;
use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::recording::{Recording, record};

use crate::recorded::ready;

#[test]
fn a_span_holds_the_sleep_that_is_inside_of_it() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["-P", ":nap%span n=arg1:s32 after=ret:s32"], &[program, "nap", "3", "10"]);
    let hits: Vec<&Event> = recording.named("nap").collect();
    assert_eq!(hits.len(), 60, "thirty begins and thirty ends");
    let mut threads: Vec<u64> = hits.iter().map(|hit| hit.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 3);
    for thread in threads {
        let own: Vec<&&Event> = hits.iter().filter(|hit| hit.thread == thread).collect();
        for (n, pair) in own.chunks(2).enumerate() {
            let [begin, end] = pair else { panic!("an odd number of hits") };
            assert!(begin.begins() && end.ends(), "{pair:?}");
            assert_eq!(begin.arg("n"), n.to_string());
            assert_eq!(end.arg("after"), (n + 1).to_string());
            let slept = recording.trace.outs(thread).any(|switch| {
                switch.state == ThreadState::Blocked
                    && (begin.time..=end.time).contains(&switch.time)
            });
            assert!(slept, "{begin:?} to {end:?}");
        }
    }
    assert_eq!(recording.probe_count("unfinished") + recording.probe_count("inferred_ends"), 0);
}

#[test]
fn recursion_nests_and_what_the_kernel_does_not_watch_is_marked() {
    let Some(program) = ready() else { return };
    let recording = record(&["-P", ":dive%span depth=arg1:s32"], &[program, "dive", "99"]);
    let hits: Vec<&Event> = recording.named("dive").collect();
    let begins: Vec<&&Event> = hits.iter().filter(|hit| hit.begins()).collect();
    let depths: Vec<String> = begins.iter().map(|hit| hit.arg("depth").to_owned()).collect();
    let expected: Vec<String> = (0..=99).rev().map(|depth: i32| depth.to_string()).collect();
    assert_eq!(depths, expected);
    let ends: Vec<&&Event> = hits.iter().filter(|hit| hit.ends()).collect();
    assert_eq!(ends.len(), 100);
    // The kernel watches 64 returns of a thread at once: the inner ones end unseen, all before the first that is seen.
    let inferred = ends.iter().filter(|hit| hit.arg("inferred") == "true").count();
    assert_eq!(inferred as u64, recording.probe_count("inferred_ends"));
    assert!(ends[..inferred].iter().all(|hit| hit.arg("inferred") == "true"));
    assert_eq!(recording.probe_count("unmatched_ends"), 0);
}

#[test]
fn a_function_that_is_left_by_longjmp_ends_when_that_shows() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["-P", ":outer%span n=arg1:s32", "-P", ":leap%span"], &[program, "leap", "20"]);
    for name in ["outer", "leap"] {
        assert_eq!(recording.named(name).filter(|hit| hit.begins()).count(), 20, "{name}");
    }
    let mut depth = 0_i32;
    for hit in &recording.trace.events {
        depth += i32::from(hit.begins()) - i32::from(hit.ends());
        assert!(depth <= 2, "each is over before the next begins: {hit:?}");
    }
    // The last ones end with the process.
    assert_eq!(
        (recording.probe_count("inferred_ends"), recording.probe_count("unfinished")),
        (38, 2)
    );
}

#[test]
fn a_thread_that_ends_inside_ends_its_span() {
    let Some(program) = ready() else { return };
    let recording = record(&["-P", ":quit%span"], &[program, "quit", "5"]);
    let ends: Vec<&Event> = recording.named("quit").filter(|hit| hit.ends()).collect();
    assert_eq!(ends.len(), 5);
    for end in ends {
        assert_eq!(end.arg("unfinished"), "true");
        let last = recording.trace.outs(end.thread).last().expect("it went out for good");
        assert_eq!(end.time, last.time, "it ends when its thread does");
    }
}

#[test]
fn a_program_that_becomes_another_ends_its_spans() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["-P", ":change%span", "--syscalls=execve"], &[program, "exec", "/bin/true"]);
    let end = recording.named("change").find(|hit| hit.ends()).expect("it ends");
    assert_eq!(end.arg("unfinished"), "true");
    let call = recording.named("execve").filter(|hit| hit.ends()).last().expect("it succeeded");
    assert_eq!((call.arg("ret"), call.time), ("0", end.time));
}

#[test]
fn what_is_not_over_at_the_end_is_ended_and_marked() {
    let Some(program) = ready() else { return };
    let folder = Folder::new();
    let path = folder.path("out.fxt");
    let mut fxtrec = Process::start(
        binary::command()
            .args(["-d", "0.5", "-P", ":linger%span", "-o"])
            .arg(&path)
            .args(["--", program, "linger"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped()),
    );
    // The summary is printed when the recording is over; COMMAND waits for its line of input until then.
    let mut said = String::new();
    while !said.contains("output ") {
        assert_ne!(fxtrec.stderr().read_line(&mut said).expect("text"), 0, "{said}");
    }
    fxtrec.tell("go");
    assert!(fxtrec.finish().success());
    let recording = Recording::read(&path, String::new(), said);
    let end = recording.named("linger").find(|hit| hit.ends()).expect("it is ended");
    assert_eq!(end.arg("unfinished"), "true");
}

#[test]
fn a_process_that_runs_already_is_recorded_from_its_next_call_on() {
    let Some(program) = ready() else { return };
    let process = Process::start_ready(Command::new(program).arg("linger"));
    let (pid, probe) = (process.id().to_string(), format!("{program}:linger%span"));
    let recording = record(&["-p", &pid, "-d", "0.2", "-P", &probe], &[]);
    assert_eq!(recording.trace.events, [], "the call that was there before is not invented");
}
