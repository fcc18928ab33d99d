//! A place that cannot be probed is reported before COMMAND starts.

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::build;

use crate::programs::ready;

#[test]
fn a_spec_that_names_no_place_fails_with_125_and_command_never_runs() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let folder = Folder::new();
    let in_program = |rest: &str| format!("{}:{rest}", program.text());
    for (spec, part) in [
        (in_program("decsend"), "did you mean descend?"),
        (in_program("none*"), "has no function 'none*'"),
        (in_program("pthread_join"), "imports it from a library"),
        (in_program("leaf+90000"), "is beyond the function"),
        (in_program("0x10"), "is not in its code"),
        (in_program("usdt:a:b"), "it has no USDT probes"),
        (in_program("work x=%nothing"), "unknown register"),
        (in_program("work+"), "work+"),
        (in_program("work%enter"), "expected return or span after '%'"),
        ("libnothing:work".into(), "library libnothing not found"),
        ("/nothing:work".into(), "cannot open /nothing"),
        ("/etc/passwd:work".into(), "not an ELF file"),
        ("work".into(), "expected BINARY:SYMBOL"),
    ] {
        let done = folder.fxtrec(["-o", "out.fxt", "-P", &spec, "--", "touch", "ran"]);
        assert_eq!(done.code, 125, "{spec}: {}", done.stderr);
        assert!(done.stderr.contains(part), "{spec}: {}", done.stderr);
        assert!(!folder.path("ran").exists(), "{spec}: COMMAND ran");
    }
}
