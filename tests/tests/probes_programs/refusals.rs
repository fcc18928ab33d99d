//! What cannot be probed is said before COMMAND starts.

use fxtrec_tests::programs::build;

use crate::{ready, run};

#[test]
fn a_spec_that_names_no_place_fails_with_125_and_command_never_runs() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let witness = folder.path().join("witness");
    let trace = folder.path().join("out.fxt");
    let in_program = |rest: &str| format!("{}:{rest}", program.text());
    for (spec, part) in [
        (in_program("decsend"), "did you mean descend?"),
        (in_program("none*"), "has no function 'none*'"),
        (in_program("pthread_join"), "which a library defines"),
        (in_program("leaf+90000"), "is not in it"),
        (in_program("0x10"), "is not in its code"),
        (in_program("usdt:a:b"), "it has none at all"),
        (in_program("work x=%nothing"), "there is no such register"),
        (in_program("work+"), "work+"),
        (in_program("work%enter"), "behind '%' comes return or span"),
        ("libnothing:work".into(), "there is no library libnothing"),
        ("/nothing:work".into(), "cannot open /nothing"),
        ("/etc/passwd:work".into(), "it is not an ELF file"),
        ("work".into(), "expected BINARY:SYMBOL"),
    ] {
        let output =
            run(&[&spec], &trace, &["--", "touch", witness.to_str().expect("a plain path")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{spec}: {said}");
        assert!(said.contains(part), "{spec}: {said}");
        assert!(!witness.exists(), "{spec}: COMMAND ran");
    }
}
