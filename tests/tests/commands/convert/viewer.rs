//! Another project's viewer reads fxtrec's output: speedscope's importer, from npm.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::tools;

use super::recording;

/// The version whose importer `speedscope.cjs` can call.
const SPEEDSCOPE: &str = "speedscope@1.25.0";

/// A track that speedscope found: the length of each of its frames, in microseconds.
#[derive(Debug)]
struct Track {
    name: String,
    frames: BTreeMap<String, f64>,
}

/// speedscope's result for a file, and its complaints.
fn viewed(folder: &Folder, trace: &str) -> (Vec<Track>, Vec<String>) {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/convert/speedscope.cjs");
    let mut node = Command::new("node");
    let done = folder.run(node.arg(script).arg(folder.path("")).arg(folder.path(trace))).expect(0);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let tracks = found["profiles"].as_array().expect("a list").iter().map(|profile| {
        assert_eq!(profile["unit"], "microseconds");
        let frames = profile["frames"].as_object().expect("frames").iter();
        let frames = frames.map(|(name, weight)| (name.clone(), weight.as_f64().unwrap_or(-1.0)));
        Track { name: text(&profile["name"]), frames: frames.collect() }
    });
    (tracks.collect(), found["said"].as_array().expect("a list").iter().map(text).collect())
}

#[test]
fn speedscope_shows_cpus_threads_and_their_times() {
    if !tools::or_skip(&["node", "npm"]) {
        return;
    }
    let Some((folder, trace)) = recording() else { return };
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", SPEEDSCOPE]);
    folder.run(&mut npm).expect(0);

    folder.fxtrec(["convert", "-q", "t.fxt", "t.json"]).expect(0);
    let (tracks, complaints) = viewed(&folder, "t.json");
    assert_eq!(complaints, [] as [&str; 0], "speedscope finds nothing odd");

    // The thread of COMMAND has its track, and was on a CPU for as long as the trace shows.
    let (koid, _) = trace
        .threads
        .iter()
        .find(|(_, (name, _))| name == "true")
        .expect("COMMAND is in the trace");
    // The first outgoing thread of a CPU has run since the first record; the time before is unknown.
    let switches = trace.switches.iter().map(|switch| switch.time);
    let first = switches.chain(trace.wakeups.iter().map(|wakeup| wakeup.time)).min();
    let expected = trace.running(*koid, first.unwrap_or(0), u64::MAX) as f64 / 1000.0;
    let track = tracks
        .iter()
        .find(|track| track.name.ends_with(&format!("true (tid {koid})")))
        .expect("a track of COMMAND");
    // A slice of which the host took a part is called "Running, partly stolen", followed by the stolen time.
    let running = track.frames.iter().filter(|(name, _)| name.starts_with("Running"));
    let running: f64 = running.map(|(_, weight)| weight).sum();
    assert!(
        (running - expected).abs() < 1.0,
        "{running} us in the viewer, {expected} in the trace"
    );

    // Each CPU has a track, on which the thread has the same time.
    let mut cpus: Vec<u16> = trace.switches.iter().map(|switch| switch.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let on_cpus: f64 = cpus
        .iter()
        .map(|cpu| {
            let ending = format!("CPU {cpu} (tid {cpu})");
            let track = tracks.iter().find(|track| track.name.ends_with(&ending)).expect("a track");
            let of_thread = format!("\"thread\":{koid},");
            let mine = track.frames.iter().filter(|(name, _)| name.contains(&of_thread));
            mine.map(|(_, weight)| weight).sum::<f64>()
        })
        .sum();
    assert!((on_cpus - expected).abs() < 1.0, "{on_cpus} us on CPUs, {expected} in the trace");
}
