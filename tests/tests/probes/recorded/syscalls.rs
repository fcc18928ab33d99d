//! `--syscalls`: durations on the threads of the scope.

use fxtrec_tests::event::Event;
use fxtrec_tests::recording::record;

use crate::recorded::ready;

#[test]
fn each_call_is_a_duration_with_what_it_returns() {
    let Some(program) = ready() else { return };
    let recording = record(&["--syscalls=*nanosleep,execve"], &[program, "nap", "2", "10"]);
    let calls: Vec<&Event> =
        recording.trace.events.iter().filter(|hit| hit.name.ends_with("nanosleep")).collect();
    let begins: Vec<&&Event> = calls.iter().filter(|hit| hit.begins()).collect();
    assert_eq!(begins.len(), 20);
    for begin in begins {
        assert_eq!(begin.category, "syscall");
        let later = calls.iter().filter(|hit| hit.thread == begin.thread && hit.ends());
        let end = later.filter(|hit| hit.time >= begin.time).min_by_key(|hit| hit.time);
        let end = end.expect("it returned");
        assert_eq!(end.arg("ret"), "0");
        assert!(end.time - begin.time >= 1_000_000, "it sleeps for a millisecond");
    }
    // Calls that were not requested are not recorded.
    assert!(
        recording
            .trace
            .events
            .iter()
            .all(|hit| hit.name.ends_with("sleep") || hit.name == "execve")
    );
    assert!(recording.said.contains(" system calls"), "{}", recording.said);
}

#[test]
fn a_call_is_inside_of_the_function_that_makes_it() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["-P", ":nap%span", "--syscalls=*nanosleep"], &[program, "nap", "1", "5"]);
    let names: Vec<(bool, bool)> =
        recording.trace.events.iter().map(|hit| (hit.name == "nap", hit.begins())).collect();
    let one = [(true, true), (false, true), (false, false), (true, false)];
    assert_eq!(names, one.repeat(5));
}

#[test]
fn all_calls_are_named_and_what_never_returns_is_marked() {
    let Some(program) = ready() else { return };
    let recording = record(&["--syscalls"], &[program, "ticks", "1"]);
    let exit = recording.named("exit_group").find(|hit| hit.ends()).expect("it is ended");
    assert_eq!(exit.arg("unfinished"), "true");
    assert_eq!(recording.named("syscall").count(), 0, "each has a name");
    let begins = recording.trace.events.iter().filter(|hit| hit.begins()).count();
    assert_eq!(recording.probe_count("syscalls"), begins as u64);
}

#[test]
fn programs_in_the_kernel_and_samples_of_perf_tell_the_same_calls() {
    let Some(program) = ready() else { return };
    for which in ["--syscalls", "--syscalls=*nanosleep,write,execve"] {
        // For the thread that naps, from its first nap on: the scheduler decides which of the two threads runs first.
        let calls = |source: &str| -> Vec<(String, bool)> {
            let recording = record(&["--source", source, which], &[program, "nap", "1", "200"]);
            let stats = recording.said.contains("lost       nothing");
            assert!(stats, "{source}: {}", recording.said);
            let first = recording.named("clock_nanosleep").next().expect("it naps").thread;
            let calls = recording.trace.events.iter().filter(|hit| hit.category == "syscall");
            // The last call is made by the kernel's own code when a recorder of another test probes a return in the C library.
            let own = calls.filter(|hit| hit.thread == first && hit.name != "uretprobe");
            own.map(|hit| (hit.name.clone(), hit.begins()))
                .skip_while(|(name, _)| name != "clock_nanosleep")
                .collect()
        };
        let [by_programs, by_samples] = ["bpf", "perf"].map(calls);
        assert!(by_programs.len() >= 400, "{}", by_programs.len());
        assert_eq!(by_programs, by_samples, "{which}");
    }
}
