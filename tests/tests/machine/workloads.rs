//! Workloads end with the process that started them, so that a failing test leaves none behind.

use std::process::Stdio;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::root::may_record;
use fxtrec_tests::{binary, wait};

#[test]
fn a_workload_ends_with_the_recorder_that_is_killed() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let mut command = binary::command();
    command.arg("-o").arg(folder.path("t.fxt")).args(["--", env!("CARGO_BIN_EXE_pingpong")]);
    let mut recorder = Process::start_ready(command.arg("forever").stderr(Stdio::null()));
    let children = format!("/proc/{0}/task/{0}/children", recorder.id());
    let children = std::fs::read_to_string(children).expect("it runs");
    let workload: u32 = children.trim().parse().expect("one child");
    recorder.kill();
    // A process that has ended and was not reaped has no memory left, and so no command line.
    let command_line = format!("/proc/{workload}/cmdline");
    let is_gone = || std::fs::read(&command_line).map_or(true, |line| line.is_empty());
    wait::until("the end of the workload", is_gone);
}
