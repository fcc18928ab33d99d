//! Traces of earlier versions: fxtrec's output about them must equal that of those versions. See `tests/golden/README.md`.

use std::path::{Path, PathBuf};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::trace::Trace;
use serde_json::Value;

/// The stored outputs for each trace: the arguments without the trace, and the extension of the file with the answer.
const QUESTIONS: [(&[&str], &str); 3] = [
    (&["report", "--json"], "report.json"),
    (&["why", "--json"], "why.json"),
    (&["dump", "--stats", "--json"], "stats.json"),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Asserts that all of `expected` is in `found`, which may have more members. The wording of sentences may change.
fn assert_has(found: &Value, expected: &Value, at: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, value) in expected.iter().filter(|it| it.0 != "sentence") {
                let at = format!("{at}.{name}");
                let found = found.get(name).unwrap_or_else(|| panic!("{at} is missing"));
                assert_has(found, value, &at);
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{at}");
            for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_has(found, expected, &format!("{at}[{number}]"));
            }
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}

#[test]
fn a_trace_of_each_version_is_read_as_that_version_read_it() {
    let folder = Folder::new();
    let entries = std::fs::read_dir(golden()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a plain name"));
    let versions: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".fxt.zst")?.to_owned())).collect();
    assert!(versions.contains(&"0.1".to_owned()), "{versions:?}");
    for version in versions {
        let trace = golden().join(format!("{version}.fxt.zst"));
        let path = trace.to_str().expect("a plain path");
        folder.fxtrec(["dump", "--check", path]).expect(0);
        for (words, ending) in QUESTIONS {
            let found = folder.fxtrec(words.iter().copied().chain([path])).expect(0).stdout;
            let found: Value = serde_json::from_str(&found).expect("JSON");
            let expected = std::fs::read_to_string(golden().join(format!("{version}.{ending}")));
            let expected: Value =
                serde_json::from_str(&expected.expect("it is there")).expect("JSON");
            assert_has(&found, &expected, &format!("{version} {ending}"));
        }
        let reported = Trace::read(&trace);
        assert!(reported.info().args["version"].starts_with(&format!("{version}.")), "{version}");
        assert!(reported.info().number("schema") >= 1);
    }
}

/// Otherwise it would compare nothing.
#[test]
#[should_panic(expected = "x.b[1]")]
fn a_figure_that_changed_is_found() {
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let more = value(r#"{"a": 1, "b": [1, 3], "c": 2}"#);
    assert_has(&more, &value(r#"{"a": 1, "b": [1, 3]}"#), "x");
    assert_has(&more, &value(r#"{"a": 1, "b": [1, 2]}"#), "x");
}
