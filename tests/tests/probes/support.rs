//! The program that is probed, recordings of it, and what they hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Reader, Record};
use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::trace::Trace;
use tempfile::TempDir;

/// `spans.c`, built once.
///
/// `None`, and a word about it, where there is no C compiler; never under CI.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref().map(|(_, path)| path.as_path())
}

fn build() -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let source = folder.path().join("spans.c");
    std::fs::write(&source, include_str!("spans.c")).expect("it is ours");
    let program = folder.path().join("spans");
    let compiler = Command::new("cc")
        .args(["-O1", "-g0", "-pthread", "-o"])
        .args([&program, &source])
        .output();
    match compiler {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "cc cannot build spans.c: {errors}");
            Some((folder, program))
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI must have a C compiler: {error}");
            eprintln!("skipped: needs the C compiler cc ({error})");
            None
        }
    }
}

/// An event of the trace that is not fxtrec's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) time: u64,
    pub(crate) process: u64,
    pub(crate) thread: u64,
    pub(crate) kind: EventKind,
    pub(crate) category: String,
    pub(crate) name: String,
    pub(crate) args: BTreeMap<String, String>,
}

impl Hit {
    pub(crate) fn begins(&self) -> bool {
        self.kind == EventKind::DurationBegin
    }

    pub(crate) fn ends(&self) -> bool {
        self.kind == EventKind::DurationEnd
    }

    pub(crate) fn arg(&self, name: &str) -> &str {
        self.args.get(name).map_or("", String::as_str)
    }
}

/// A finished recording.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) hits: Vec<Hit>,
    pub(crate) trace: Trace,
    pub(crate) said: String,
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Str(text) => text.to_owned(),
        other => other.to_string(),
    }
}

/// Every event of the file that is not fxtrec's own.
fn hits(path: &Path) -> Vec<Hit> {
    let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut hits = Vec::new();
    while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{path:?}: {error}")) {
        let Record::Event(event) = &item.record else { continue };
        if event.category == "fxtrec" {
            continue;
        }
        let args = event.args.iter().map(|arg| (arg.name.to_owned(), text(arg.value)));
        hits.push(Hit {
            time: event.time.0,
            process: event.thread.process.0,
            thread: event.thread.thread.0,
            kind: event.kind,
            category: event.category.to_owned(),
            name: event.name.to_owned(),
            args: args.collect(),
        });
    }
    hits
}

/// Runs fxtrec with these words and waits for it.
pub(crate) fn run<I, S>(words: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(fxtrec());
    command.args(words).output().expect("fxtrec can be run")
}

/// Records COMMAND with these options, and asserts that both went well.
pub(crate) fn record(options: &[&str], command: &[&str]) -> Recording {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("out.fxt");
    let file = path.to_str().expect("a plain path");
    let mut words = vec!["-o", file];
    words.extend(options);
    if !command.is_empty() {
        words.push("--");
        words.extend(command);
    }
    let output = run(&words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    read(&path, said)
}

/// Reads a recording, and asserts that it keeps its promises and lost nothing.
pub(crate) fn read(path: &Path, said: String) -> Recording {
    let trace = Trace::read(path);
    trace.assert_sound();
    assert_eq!(trace.stats().number("lost"), 0, "{said}");
    let recording = Recording { hits: hits(path), trace, said };
    recording.assert_durations_nest();
    recording
}

impl Recording {
    /// A count of `probe_stats`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let stats = self.trace.own.iter().find(|event| event.name == "probe_stats");
        stats.expect("something was hit").number(name)
    }

    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Hit> {
        self.hits.iter().filter(move |hit| hit.name == name)
    }

    /// Each end must be that of what its thread began last, and nothing may be left open.
    fn assert_durations_nest(&self) {
        let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for hit in &self.hits {
            let stack = open.entry(hit.thread).or_default();
            if hit.begins() {
                stack.push(&hit.name);
            } else if hit.ends() {
                assert_eq!(stack.pop(), Some(hit.name.as_str()), "{hit:?}");
            }
        }
        open.retain(|_, stack| !stack.is_empty());
        assert_eq!(open, BTreeMap::new(), "all that begins ends");
    }
}
