//! USDT probes of programs from other projects.

use fxtrec_tests::skip::skip;

use crate::programs::{ready, record};

const PYTHON: &str = "/usr/bin/python3";

/// Whether this interpreter has its probes: not all are built with them.
fn has_probes() -> bool {
    let notes = std::fs::read(PYTHON).unwrap_or_default();
    let has = notes.windows(9).any(|bytes| bytes == b"gc__start");
    if !has {
        skip(&format!("needs a {PYTHON} with USDT probes, such as Debian's"));
    }
    has
}

#[test]
fn collections_and_imports_of_a_python_program_are_seen() {
    if !ready() || !has_probes() {
        return;
    }
    let script = "import gc\ngc.disable()\nfor _ in range(7): gc.collect(1)\nimport colorsys\n";
    let import = "import=:usdt:python:import__find__load__start module=arg1:str";
    let recording = record(&[":usdt:python:gc__*", import], &[PYTHON, "-c", script]);
    // It collects more while it starts and ends, but always all generations.
    let generations = recording.values("python:gc__start", "arg1");
    assert!(generations.iter().filter(|generation| **generation == "1").count() >= 7);
    assert_eq!(recording.count("python:gc__done"), generations.len());
    assert!(recording.values("import", "module").contains(&"colorsys"));
}
