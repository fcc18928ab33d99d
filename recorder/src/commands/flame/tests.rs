use std::io::Write;
use std::path::Path;

use super::*;
use crate::commands::trace_file::tests::through_a_pipe;
use crate::report::stacks::example::trace;

fn args_of(file: &Path) -> FlameArgs {
    let (offcpu, wake, cpu, output) = (false, false, false, None);
    FlameArgs {
        file: file.to_owned(),
        offcpu,
        wake,
        cpu,
        output,
        comms: Vec::new(),
        pids: Vec::new(),
        cgroups: Vec::new(),
    }
}

fn flame(bytes: &[u8], comms: &[&str]) -> Result<(String, String), FlameError> {
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(bytes).expect("room");
    let comms = comms.iter().map(|comm| comm.parse().expect("a glob")).collect();
    let args = FlameArgs { comms, ..args_of(file.path()) };
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    run(&args, &mut out, &mut messages)?;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ok((text(out), text(messages)))
}

#[test]
fn blocked_times_are_folded_by_stack_and_those_without_one_are_named() {
    let (lines, messages) = flame(&trace(true), &[]).expect("stacks");
    let expected = [
        "work_er;0x9000;a_b::<c d>;pipe_read_[k] 5000000",
        "work_er;[no stack] 3000000",
        "work_er;x.so+0x220;pipe_read_[k] 2000000",
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    assert_eq!(messages, "fxtrec: 1 stack left out: the wait is censored\n");
}

#[test]
fn threads_that_nobody_asked_for_are_left_out() {
    assert_eq!(flame(&trace(true), &["work*"]).expect("stacks").0.lines().count(), 3);
    assert_eq!(flame(&trace(true), &["other"]).expect("stacks").0, "");
}

#[test]
fn a_trace_without_stacks_is_refused() {
    let error = flame(&trace(false), &[]).expect_err("no stacks");
    assert!(error.to_string().contains("--stacks"), "{error}");
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let done = through_a_pipe(&trace(true), |path| run(&args_of(path), &mut out, &mut messages));
    done.expect("stacks");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    assert_eq!((text(out), text(messages)), flame(&trace(true), &[]).expect("stacks"));
}

#[test]
fn the_ending_of_the_output_chooses_the_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("t.fxt");
    std::fs::write(&input, trace(true)).expect("room");
    let written = |name: &str, wake: bool| {
        let output = folder.path().join(name);
        let args = FlameArgs { wake, output: Some(output.clone()), ..args_of(&input) };
        run(&args, &mut Vec::new(), &mut Vec::new()).map(|()| std::fs::read(output).expect("there"))
    };
    let text = |bytes| String::from_utf8(bytes).expect("text");
    assert_eq!(text(written("w.folded", true).expect("stacks")), "waker;kick 5000000\n");
    assert!(text(written("a.svg", false).expect("stacks")).contains("a_b::&lt;c d&gt;: 5.00 ms"));
    assert_eq!(written("a.pb.gz", false).expect("stacks")[..2], [0x1f, 0x8b]);
    assert!(text(written("a.json", false).expect("stacks")).contains("ended waits"));
    assert!(!text(written("w.json", true).expect("stacks")).contains("blocked"));
    let error = written("a.txt", false).expect_err("no format").to_string();
    assert!(error.contains(".svg"), "{error}");
    let args = FlameArgs { cpu: true, ..args_of(&input) };
    let error = run(&args, &mut Vec::new(), &mut Vec::new()).expect_err("no samples");
    assert!(error.to_string().contains("--stacks=cpu"), "{error}");
}
