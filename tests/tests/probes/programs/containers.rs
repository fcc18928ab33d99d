//! A process below another root directory.

use std::process::Command;

use fxtrec_tests::binary::copy_program;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::record;

use crate::programs::ready;

#[test]
fn calls_of_a_process_below_another_root_are_recorded_by_the_path_it_knows() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &["-static"]);
    let inside = Folder::new();
    copy_program(program.path(), &inside.path("app"));
    let process =
        Process::start(Command::new("chroot").arg(inside.path("")).args(["/app", "1", "beat"]));
    process.wait_for_map("/app");
    let pid = process.id().to_string();
    for spec in ["/app:beat n=arg1:u32", ":beat n=arg1:u32"] {
        let recording = record(&["-P", spec, "-p", &pid, "-d", "0.3"], &[]);
        let values = recording.values("beat", "n").into_iter();
        let numbers: Vec<u32> = values.map(|value| value.parse().expect("a number")).collect();
        assert!(numbers.len() > 2, "a beat every millisecond: {numbers:?}");
        let follows = |two: &[u32]| two[0] + 1 == two[1];
        assert!(numbers.windows(2).all(follows), "none is left out: {numbers:?}");
    }
}
