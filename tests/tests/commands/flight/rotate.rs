//! Long recordings in several files, each of which can be read alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fxt_reader::record::EventKind;
use fxtrec_tests::archive::{Archive, Event, Provider};
use fxtrec_tests::root;
use fxtrec_tests::trace::{Switch, Trace};
use fxtrec_tests::wait;

use crate::flight::counted::{self, Counted, THREADS, WORKLOAD, assert_all_counted, reported};
use crate::flight::{Recorder, fxtrec_says};

const WHY: &str = "it records the machine";

/// The files of a recording to `output`, in order.
fn pieces(output: &Path) -> Vec<PathBuf> {
    let name = output.file_name().expect("a name").to_string_lossy().into_owned();
    let (stem, ending) = name.split_once('.').expect("an ending");
    let path = |number: u32| output.with_file_name(format!("{stem}.{number:04}.{ending}"));
    (1..).map(path).take_while(|path| path.exists()).collect()
}

/// Records threads whose switches the kernel counts.
fn record(options: &[&str], output: &Path) -> (Vec<Counted>, String) {
    record_command(options, output, &THREADS)
}

/// The same for a command that prints no more than that workload.
fn record_command(options: &[&str], output: &Path, command: &[&str]) -> (Vec<Counted>, String) {
    let options: Vec<&str> = ["--buffer-size", "1M"].iter().chain(options).copied().collect();
    counted::record(&options, output, command)
}

/// Reads the files, each of which must meet all guarantees by itself.
fn read_alone(paths: &[PathBuf]) -> Vec<Trace> {
    let read = |path: &PathBuf| {
        fxtrec_says(&["dump", "--check", path.to_str().expect("a plain path")]);
        let trace = Trace::read(path);
        trace.assert_sound();
        let info = trace.own.iter().find(|event| event.name == "trace_info").expect("a head");
        let first = trace.switches.first().expect("there are some").time;
        assert!(info.time <= first && first - info.time < 2_000_000_000, "it begins where it does");
        trace
    };
    paths.iter().map(read).collect()
}

/// Each file begins with who has each CPU, and the names of all that live.
fn assert_begin_complete(traces: &[Trace]) {
    for pair in traces.windows(2) {
        let mut had: BTreeMap<u16, u64> = BTreeMap::new();
        had.extend(pair[0].switches.iter().map(|switch| (switch.cpu, switch.incoming)));
        let begin = pair[1].own[0].time;
        let begins = |switch: &&Switch| switch.inferred && switch.time == begin;
        let first = pair[1].switches.iter().take_while(begins);
        let given: BTreeMap<u16, u64> = first.map(|switch| (switch.cpu, switch.incoming)).collect();
        // A thread that had the CPU still has it; a CPU that was idle is not mentioned.
        had.retain(|_, thread| *thread != 0);
        assert_eq!(given, had);
        // A thread that slept all through the first file is not nameless in the second.
        let threads = pair[1].switches.iter().flat_map(|switch| [switch.outgoing, switch.incoming]);
        assert!(threads.into_iter().all(|koid| pair[1].threads.contains_key(&koid)));
    }
}

#[test]
fn the_files_together_hold_every_switch_that_the_kernel_counted_exactly_once() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (name, rotate) in [("size.fxt", "4M"), ("time.fxt.zst", "100ms")] {
        let output = folder.path().join(name);
        let (counts, said) = record(&["--rotate", rotate], &output);
        let paths = pieces(&output);
        assert!(paths.len() >= 3, "{} files: {said}", paths.len());
        assert!(said.contains(&format!("output     {} files, the last is", paths.len())), "{said}");
        assert!(!output.exists(), "all of it is in the numbered ones");
        let sizes: Vec<u64> =
            paths.iter().map(|path| path.metadata().expect("a file").len()).collect();
        // The last file contains everything that is in the rings at the end, which is one second at most.
        let before_last = &sizes[..sizes.len() - 1];
        assert!(rotate != "4M" || before_last.iter().all(|size| *size <= 4 << 20), "{sizes:?}");
        let traces = read_alone(&paths);
        assert_begin_complete(&traces);
        assert_all_counted(&counts, &traces, name);
        // For the machine, as often as the tracepoint fired; and for each file, as often as each count in it.
        let mut before = 0;
        for trace in &traces {
            let so_far = trace.stats().number("switches");
            assert_eq!(reported(trace).count() as u64, so_far - before, "{name}");
            before = so_far;
        }
        let last = traces.last().expect("several").stats();
        assert_eq!(
            (last.number("lost"), last.number("switches")),
            (0, last.number("kernel_switches"))
        );
        // No file extends into the next one. A file may be empty if the recorder had no CPU for longer than a file's length.
        let ends = |trace| reported(trace).next().zip(reported(trace).last());
        let spans: Vec<_> = traces.iter().filter_map(ends).collect();
        assert!(spans.len() >= 2, "{} of {} files have switches", spans.len(), traces.len());
        for pair in spans.windows(2) {
            let (end, begin) = (pair[0].1, pair[1].0);
            assert!(end.time <= begin.time, "{end:?} {begin:?}");
        }
    }
}

#[test]
fn no_more_files_are_kept_than_wanted_or_than_the_disk_may_hold() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (name, bounds) in
        [("keep.fxt", ["--keep", "2"]), ("budget.fxt", ["--disk-budget", "1500k"])]
    {
        let output = folder.path().join(name);
        let options = ["--rotate", "512k", bounds[0], bounds[1]];
        let (_, said) = record(&options, &output);
        assert!(said.contains("of them removed to stay within limits"), "{said}");
        let stem = name.strip_suffix("fxt").expect("the ending");
        let there = std::fs::read_dir(folder.path()).expect("it is there");
        let names = there.map(|entry| entry.expect("an entry").file_name());
        let mut left: Vec<PathBuf> = names
            .filter(|name| name.to_string_lossy().starts_with(stem))
            .map(|name| folder.path().join(name))
            .collect();
        left.sort();
        let size = |path| std::fs::metadata(path).expect("just listed").len();
        let (count, bytes) = (left.len(), left.iter().map(size).sum::<u64>());
        // The last file stays, though it contains everything that was in the rings at the end.
        let is_within = match bounds[0] {
            "--keep" => count <= 2,
            _ => bytes <= 1500 << 10 || count == 1,
        };
        assert!(is_within, "{bytes} bytes: {left:?}");
        let complete = &left[..count - 1];
        assert!(complete.iter().all(|path| size(path) <= 512 << 10), "{left:?}");
        let last = said.rsplit("the last is ").next().expect("it is named").trim();
        assert_eq!(left.last(), Some(&PathBuf::from(last.lines().next().expect("a line"))));
        read_alone(&left);
    }
}

/// The names in a directory, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn runs_that_were_killed_leave_no_more_files_than_are_kept() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("t.fxt");
    let options = ["--rotate", "1GB", "--keep", "2"];
    for _ in 0..3 {
        let mut killed = Recorder::start(&options, &output, &["sh", "-c", "echo up; read word"]);
        assert_eq!(killed.printed(), "up");
        // When recording has begun, which is when COMMAND runs.
        wait::until("the oldest to go", || names(folder.path()).len() <= 2);
        killed.kill();
    }
    assert_eq!(names(folder.path()), ["t.0002.fxt", "t.0003.fxt"], "the first made room");
    // A file from a full disk, another user's file, and something that is not a file.
    std::fs::write(folder.path().join("t.0004.fxt"), "").expect("room");
    std::fs::write(folder.path().join("t.0005.fxt"), "another's").expect("room");
    std::os::unix::fs::chown(folder.path().join("t.0005.fxt"), Some(4321), None).expect("root may");
    std::fs::create_dir(folder.path().join("t.0006.fxt")).expect("room");
    let (code, said) = Recorder::start(&options, &output, &["true"]).end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("1 of earlier runs removed to stay within limits"), "{said}");
    assert_eq!(
        names(folder.path()),
        ["t.0003.fxt", "t.0005.fxt", "t.0006.fxt", "t.0007.fxt"],
        "{said}"
    );
    for name in ["t.0003.fxt", "t.0007.fxt"] {
        fxtrec_says(&["dump", "--check", folder.path().join(name).to_str().expect("plain")]);
    }
}

#[test]
fn a_full_disk_takes_the_oldest_files_before_the_recording_ends() {
    if !root::or_skip(WHY) {
        return;
    }
    // Compressed, the same data needs a tenth of the space.
    for (name, size, earlier) in [("t.fxt", "4M", 2 << 20), ("t.fxt.zst", "1280k", 768 << 10)] {
        let disk = SmallDisk::new(size);
        let output = disk.path().join(name);
        // A file of an earlier run, which takes half of the space.
        std::fs::write(disk.path().join(name.replacen("t.", "t.0001.", 1)), vec![1; earlier])
            .expect("room");
        let options = ["--buffer-size", "256k", "--rotate", "256k", "--keep", "100"];
        let (_, said) = counted::record(&options, &output, &THREADS);
        assert!(said.contains("removed to stay within limits"), "{said}");
        let left: Vec<PathBuf> =
            names(disk.path()).into_iter().map(|name| disk.path().join(name)).collect();
        let traces = read_alone(&left);
        let last = traces.last().expect("one").stats();
        assert_eq!(last.number("lost"), 0, "{name}");
    }
}

/// A file system of this many bytes, which is removed at the end of the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> SmallDisk {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let (kind, options) = (Some("tmpfs"), format!("size={size}"));
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(kind, folder.path(), kind, flags, Some(options.as_str()))
            .expect("root may mount");
        SmallDisk(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn every_file_knows_the_applications_that_recorded_themselves_before_it() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let client = env!("CARGO_BIN_EXE_provider-client");
    let workload = env!("CARGO_BIN_EXE_workload");
    let script = format!("{client} spans 1 1 </dev/null && {workload} threads 3 20000");
    let options = ["--buffer-size", "1M", "--rotate", "100ms"];
    let (code, said) = Recorder::start(&options, &output, &["sh", "-c", &script]).end();
    assert_eq!(code, 0, "{said}");
    let paths = pieces(&output);
    assert!(paths.len() >= 3, "{} files: {said}", paths.len());
    read_alone(&paths);
    let last = paths.last().and_then(|path| path.to_str()).expect("a plain path");
    let dumped = fxtrec_says(&["dump", last]);
    let introduced = |line: &str| line.contains("provider_info") && line.contains("\"client\"");
    assert!(dumped.lines().any(introduced), "what comes later would refer to nothing");
}

/// The spans of a file: thread, name, and whether begin and end are those of the span itself. Every end must have its
/// begin, and every begin its end.
fn spans(events: &[Event]) -> Vec<(u64, String, [bool; 2])> {
    let is_own = |event: &Event| !event.numbers.contains_key("cut");
    let mut open: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in events {
        let stack = open.entry(event.thread).or_default();
        match event.kind {
            EventKind::DurationBegin => stack.push(event),
            EventKind::DurationEnd => {
                let begin = stack.pop().unwrap_or_else(|| panic!("no begin of {event:?}"));
                assert_eq!(begin.name, event.name);
                assert!(begin.time <= event.time, "{begin:?} {event:?}");
                spans.push((event.thread, begin.name.clone(), [begin, event].map(is_own)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    spans
}

/// The program in a file. On a busy machine, a file may be full before the program has begun: then no file has it yet.
fn provider_in(path: &Path, has_begun: bool) -> Option<Provider> {
    let archive = Archive::read(path);
    (has_begun || !archive.providers.is_empty()).then(|| archive.only())
}

#[test]
fn spans_that_are_open_over_several_files_are_whole_in_each_of_them() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let app = env!("CARGO_BIN_EXE_spans");
    let mut recorder = Recorder::start(&["--rotate", "200ms"], &output, &[app, "lines"]);
    // Each line begins in one file and ends in a later one.
    for number in 0..4 {
        recorder.say("on");
        recorder.wait_for("on");
        let before = pieces(&output).len();
        wait::until(&format!("a file after line {number}"), || pieces(&output).len() > before + 1);
    }
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    let paths = pieces(&output);
    let traces = read_alone(&paths);
    let mut found: BTreeMap<String, Vec<[bool; 2]>> = BTreeMap::new();
    for (trace, path) in traces.iter().zip(&paths) {
        let Some(provider) = provider_in(path, !found.is_empty()) else { continue };
        assert_eq!(provider.name, "spans", "{path:?}");
        for (thread, name, own) in spans(&provider.events) {
            assert!(trace.threads.contains_key(&thread), "{thread} has no name");
            found.entry(name).or_default().push(own);
        }
    }
    // Each span begins in one file, however little there is to write, and ends in another.
    for (name, times) in [("life", 1), ("quiet", 1), ("line", 4)] {
        let count = |kind| found[name].iter().filter(|own| **own == kind).count();
        let kinds = [[true, false], [false, true], [true, true]].map(count);
        assert_eq!(kinds, [times, times, 0], "{name}: {:?}", found[name]);
    }
    assert!(found["life"].len() >= 8 && found["quiet"].len() >= 8, "and is in all between");
}

#[test]
fn what_threads_record_while_files_end_is_in_one_of_them_and_in_order() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let app = env!("CARGO_BIN_EXE_spans");
    let options = ["--rotate", "100ms", "--provider-buffer", "256k"];
    let mut recorder = Recorder::start(&options, &output, &[app, "race", "3"]);
    wait::until("six files", || pieces(&output).len() >= 6);
    recorder.say("over");
    let attempted: u64 = recorder.printed().parse().expect("a number");
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut with_events, mut dropped) = (0, 0);
    for path in pieces(&output) {
        let Some(provider) = provider_in(&path, with_events > 0) else { continue };
        let events = provider.events.iter().filter(|event| event.name == "numbered");
        for event in events.clone() {
            numbers.entry(event.numbers["thread"]).or_default().push(event.numbers["number"]);
        }
        with_events += u64::from(events.count() > 0);
        dropped += provider.stats.get("dropped").copied().unwrap_or(0);
    }
    assert!(with_events >= 4, "{with_events} files have some");
    assert_eq!(numbers.len(), 3);
    assert!(numbers.values().all(|numbers| numbers.is_sorted_by(|one, next| one < next)));
    let recorded: usize = numbers.values().map(Vec::len).sum();
    assert_eq!(recorded as u64 + dropped, attempted, "{dropped} were dropped");
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn a_hundred_applications_with_full_buffers_lose_no_event_of_the_kernel_where_files_end() {
    const EVENTS: u64 = 20_000;
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let app = env!("CARGO_BIN_EXE_spans");
    let script = format!("{app} fleet 100 {EVENTS} >/dev/null & {WORKLOAD} threads 3 20000; wait");
    // The buffers hold many times as much as the trace buffer.
    let options = ["--rotate", "100ms", "--provider-buffer", "1M"];
    let (counts, said) = record_command(&options, &output, &["sh", "-c", &script]);
    let paths = pieces(&output);
    assert!(paths.len() >= 3, "{} files: {said}", paths.len());
    let traces = read_alone(&paths);
    assert_all_counted(&counts, &traces, "app.fxt");
    let last = traces.last().expect("several").stats();
    assert_eq!((last.number("lost"), last.number("switches")), (0, last.number("kernel_switches")));
    // For each application as well: in order; events that are in no file were dropped by the application and counted.
    let mut ships: BTreeMap<String, (Vec<u64>, u64, usize)> = BTreeMap::new();
    for path in &paths {
        for (_, provider) in Archive::read(path).providers {
            let (numbers, dropped, files) = ships.entry(provider.name).or_default();
            let events = provider.events.iter().filter(|event| event.name == "numbered");
            numbers.extend(events.map(|event| event.numbers["number"]));
            *dropped += provider.stats.get("dropped").copied().unwrap_or(0);
            *files += 1;
        }
    }
    assert_eq!(ships.len(), 100);
    assert!(ships.values().any(|(_, _, files)| *files > 1), "a file ended while they recorded");
    for (name, (numbers, dropped, _)) in &ships {
        assert!(numbers.is_sorted_by(|one, next| one < next), "{name}");
        assert_eq!(numbers.len() as u64 + dropped, EVENTS, "{name}: {dropped} were dropped");
    }
}
