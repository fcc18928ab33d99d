//! Recordings of programs whose calls are known: of every language and way of linking, what the
//! trace has is what the program did.

mod containers;
mod languages;
mod linking;
mod refusals;
mod usdt;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Reader, Record};
use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::programs::tools_or_skip;
use fxtrec_tests::root;

/// An event of a probe.
#[derive(Clone, Debug)]
struct Hit {
    thread: u64,
    kind: EventKind,
    category: String,
    name: String,
    args: BTreeMap<String, String>,
}

fn ready() -> bool {
    root::or_skip("it records the machine")
        && tools_or_skip(&["gcc", "g++", "rustc", "nm", "strip", "chroot"])
}

/// The events of probes in a trace, by time.
fn hits(path: &Path) -> Vec<Hit> {
    let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut hits = Vec::new();
    while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{path:?}: {error}")) {
        let Record::Event(event) = &item.record else { continue };
        if event.category != "uprobe" && event.category != "usdt" {
            continue;
        }
        let text = |value: Value<'_>| match value {
            Value::Str(text) => text.to_owned(),
            other => other.to_string(),
        };
        let args = event.args.iter().map(|arg| (arg.name.to_owned(), text(arg.value)));
        hits.push(Hit {
            thread: event.thread.thread.0,
            kind: event.kind,
            category: event.category.to_owned(),
            name: event.name.to_owned(),
            args: args.collect(),
        });
    }
    hits
}

/// Runs fxtrec with `-P` for each spec, the output and then these words.
fn run(specs: &[&str], output: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(fxtrec());
    for spec in specs {
        command.args(["-P", spec]);
    }
    command.arg("-o").arg(output).args(words).output().expect("fxtrec can be run")
}

/// Records COMMAND with these probes: the hits, and what COMMAND printed.
fn record(specs: &[&str], command: &[&str]) -> (Vec<Hit>, String) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("out.fxt");
    let output = run(specs, &path, &[&["--"], command].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{specs:?}: {errors}");
    (hits(&path), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The arguments `name` of the hits called `hit`, in order.
fn values<'a>(hits: &'a [Hit], hit: &str, name: &str) -> Vec<&'a str> {
    let named = hits.iter().filter(|it| it.name == hit);
    named.filter_map(|it| it.args.get(name).map(String::as_str)).collect()
}

fn count(hits: &[Hit], name: &str) -> usize {
    hits.iter().filter(|hit| hit.name == name).count()
}
