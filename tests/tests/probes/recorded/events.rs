//! `-e`: tracepoints of the kernel.

use fxt_reader::record::EventKind;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record;

use crate::recorded::ready;

#[test]
fn a_tracepoint_has_its_fields_as_arguments_and_its_group_as_category() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["--scope", "app", "-e", "sched:sched_process_exec"], &[program, "ticks", "1"]);
    let [hit] = recording.trace.events.as_slice() else {
        panic!("one exec: {:?}", recording.trace.events)
    };
    assert_eq!((hit.kind, hit.category.as_str()), (EventKind::Instant, "sched"));
    assert_eq!(hit.name, "sched_process_exec");
    assert_eq!(hit.arg("filename"), program);
    assert_eq!(hit.arg("pid"), hit.thread.to_string());
    assert_eq!(recording.probe_count("tracepoints"), 1);
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
    assert!(recording.count("task_newtask") >= 2, "two children");
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
        (&["-e", "no_such_group:x"], "unknown tracepoint group; this kernel has: "),
        (&["-e", "sched:no_such_event"], "sched has: "),
        (&["-e", "sched:sched_switch/nobody == 1/"], "rejected the filter `nobody == 1`"),
        (&["-e", "sched:sched_switch/nobody == 1/"], "the fields are: prev_comm"),
        (&["--syscalls=no_such_call"], "no system call"),
        (&["-P", &missing], "no_such_function"),
        (&["-P", "/no/such/file:main"], "/no/such/file"),
        (&["--source", "ftrace", "--irq"], "use bpf or perf"),
    ];
    let folder = Folder::new();
    for (options, message) in cases {
        let done = folder.fxtrec([&["-o", "out.fxt"], options, &["--", "touch", "ran"]].concat());
        assert_eq!(done.code, 125, "{options:?}: {}", done.stderr);
        assert!(done.stderr.contains(message), "{options:?}: {}", done.stderr);
        for file in ["ran", "out.fxt"] {
            assert!(!folder.path(file).exists(), "{options:?}: {file}");
        }
    }
}
