//! `-e`: tracepoints of the kernel.

use fxt_reader::record::EventKind;

use crate::ready;
use crate::support::{record, run};

#[test]
fn a_tracepoint_has_its_fields_as_arguments_and_its_group_as_category() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["--scope", "app", "-e", "sched:sched_process_exec"], &[program, "ticks", "1"]);
    let [hit] = recording.hits.as_slice() else { panic!("one exec: {:?}", recording.hits) };
    assert_eq!((hit.kind, hit.category.as_str()), (EventKind::Instant, "sched"));
    assert_eq!(hit.name, "sched_process_exec");
    assert_eq!(hit.arg("filename"), program);
    assert_eq!(hit.arg("pid"), hit.thread.to_string());
    assert_eq!(recording.count("tracepoints"), 1);
}

#[test]
fn patterns_and_filters_are_the_kernels() {
    let Some(program) = ready() else { return };
    let recording = record(
        &[
            "--scope",
            "app",
            "-e",
            "task:task_*",
            "-e",
            "sched:sched_switch/prev_comm == \"spans\"/",
        ],
        &[program, "tree", "1"],
    );
    let names = |name: &str| recording.named(name).count();
    assert!(names("task_newtask") >= 2, "two children");
    let switches: Vec<_> = recording.named("sched_switch").collect();
    assert!(!switches.is_empty());
    for hit in switches {
        assert_eq!(hit.arg("prev_comm"), "spans");
        // The same tracepoint serves the scheduling records.
        let sides = [hit.arg("prev_pid"), hit.arg("next_pid")];
        let same =
            recording.trace.switches.iter().any(|switch| {
                [switch.outgoing, switch.incoming].map(|koid| koid.to_string()) == sides
            });
        assert!(same, "{hit:?}");
    }
}

/// Each is refused with its message, and COMMAND does not run.
#[test]
fn what_cannot_be_recorded_is_refused_before_the_command_starts() {
    let Some(program) = ready() else { return };
    let missing = format!("{program}:no_such_function");
    let cases: [(&[&str], &str); 8] = [
        (&["-e", "no_such_group:x"], "no such group of tracepoints; it has: "),
        (&["-e", "sched:no_such_event"], "sched has: "),
        (&["-e", "sched:sched_switch/nobody == 1/"], "does not take the filter `nobody == 1`"),
        (&["-e", "sched:sched_switch/nobody == 1/"], "its fields are: prev_comm"),
        (&["--syscalls=no_such_call"], "no system call"),
        (&["-P", &missing], "no_such_function"),
        (&["-P", "/no/such/file:main"], "/no/such/file"),
        (&["--source", "ftrace", "--irq"], "need --source perf"),
    ];
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (options, message) in cases {
        let witness = folder.path().join("ran");
        let out = folder.path().join("out.fxt");
        let mut words = vec!["-o", out.to_str().expect("plain")];
        words.extend(options);
        words.extend(["--", "touch", witness.to_str().expect("plain")]);
        let output = run(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        assert!(said.contains(message), "{options:?}: {said}");
        assert!(!witness.exists() && !out.exists(), "{options:?}");
    }
}
