//! Triggers: a thread that is late on purpose, and the files that are written because of it.

use std::path::Path;
use std::process::Stdio;

use fxtrec_gates::Amount;
use fxtrec_gates::Dimension;
use fxtrec_tests::binary;
use fxtrec_tests::event::Event;
use fxtrec_tests::process::Process;
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;

use serde_json::json;

use crate::flight::Recorder;
use crate::flight::counted::{self, WORKLOAD, assert_all_counted, reported};

/// The name of a victim of `spike`, used by one test only: tests run at the same time, and each records the whole machine.
#[derive(Clone, Copy)]
struct Victim(&'static str);

impl Victim {
    /// Fires for the delays that `spike` causes, and for nothing else: only `spike` wakes the victim, and each delay is 60 ms.
    fn late(self) -> String {
        format!("wakeup > 40ms if comm = \"{}\"", self.0)
    }

    fn start(self, options: &[&str], output: &Path, times: &str) -> Recorder {
        let late = self.late();
        // Other tests that run at the same time cause a million switches while this records.
        let always = ["--mode", "circular", "--buffer-size", "64M", "--trigger", &late];
        let options: Vec<&str> = always.iter().chain(options).copied().collect();
        Recorder::start(&options, output, &[env!("CARGO_BIN_EXE_spike"), times, self.0])
    }
}

const WHY: &str = "it records the machine";

/// The output of `spike` about one time: before the wakeup, and when the victim had the CPU.
fn time_of(line: &str) -> (u64, u64) {
    let (before, ran) = line.split_once(' ').expect("two times");
    (before.parse().expect("a number"), ran.parse().expect("a number"))
}

fn victim_of(line: &str) -> u64 {
    line.strip_prefix("victim ").expect("the victim's id").parse().expect("a number")
}

/// The trigger events of a trace.
fn marks(trace: &Trace) -> Vec<&Event> {
    trace.own.iter().filter(|event| event.name == "trigger").collect()
}

/// Asserts that the trace contains the victim's wait that began after `before` and had ended when the victim ran, and returns how long it
/// was.
fn wait_in(trace: &Trace, victim: u64, (before, ran): (u64, u64)) -> u64 {
    let within = |time: u64| before <= time && time <= ran;
    let wakeups = trace.wakeups.iter();
    let woken = wakeups.filter(|wakeup| wakeup.thread == victim && within(wakeup.time));
    let woken: Vec<u64> = woken.map(|wakeup| wakeup.time).collect();
    assert_eq!(woken.len(), 1, "the victim is woken once between {before} and {ran}");
    let switches = trace.switches.iter();
    let came_in = switches.filter(|switch| switch.incoming == victim && within(switch.time));
    let came_in = came_in.map(|switch| switch.time).find(|time| *time >= woken[0]);
    came_in.expect("it came in") - woken[0]
}

/// The rest of the summary's line that begins with `name`.
fn summary<'a>(said: &'a str, name: &str) -> &'a str {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {said}")).trim_start()
}

#[test]
fn a_thread_that_is_late_on_purpose_fires_once_and_the_window_holds_its_wait() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("spike.fxt");
    let thread = Victim("late once");
    let options = ["--before", "400ms", "--after", "50ms"];
    let mut recorder = thread.start(&options, &output, "1");
    let victim = victim_of(&recorder.printed());
    let spike = time_of(&recorder.printed());
    // The recording continues; the file is there before it ends.
    let line = recorder.said();
    let named = format!("trigger {}: {} ({victim}) on CPU ", thread.late(), thread.0);
    assert!(line.contains(&named) && line.ends_with("spike.1.fxt"), "{line}");
    let window = Trace::read(&folder.path().join("spike.1.fxt"));
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(summary(&said, "triggers"), "1 fired");
    assert_eq!(summary(&said, "snapshots"), "1 written");
    assert!(!folder.path().join("spike.2.fxt").exists());

    window.assert_sound();
    let wait = wait_in(&window, victim, spike);
    let marks = marks(&window);
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0].args["expression"], thread.late());
    assert_eq!(marks[0].number("thread"), victim);
    assert_eq!(marks[0].number("value_ns"), wait);
    assert!(wait >= 60_000_000, "{wait}");
    let listed = Amount { number: wait as f64, dimension: Dimension::Time };
    assert!(line.contains(&format!(", {listed}: snapshot of ")), "{line}");
    let at = marks[0].time;
    let infos = window.own.iter().filter(|event| event.name == "snapshot_info");
    let infos: Vec<&Event> = infos.collect();
    assert_eq!(infos.len(), 1);
    assert_eq!(infos[0].args["expression"], thread.late());
    let listed = ["thread", "from_ns", "trigger_ns", "value_ns"].map(|name| infos[0].number(name));
    assert_eq!(listed, [victim, at - wait, at, wait]);
    let mut why = binary::command();
    why.args(["why", "--json"]).arg(folder.path().join("spike.1.fxt"));
    let why = why.output().expect("it runs");
    let why: serde_json::Value = serde_json::from_slice(&why.stdout).expect("JSON");
    let why = &why["explanations"][0];
    assert_eq!((&why["trigger"], &why["thread"]["tid"]), (&json!(thread.late()), &json!(victim)));
    assert_eq!((&why["from_ns"], &why["to_ns"]), (&json!(at - wait), &json!(at)));
    // It contains nothing but the window.
    let window_ns = at - 400_000_000..=at + 50_000_000;
    assert!(window.switches.iter().all(|switch| window_ns.contains(&switch.time)));
    assert!(window.own.iter().all(|event| window_ns.contains(&event.time)), "{:?}", window.own);
    let last = window.switches.last().expect("there are some").time;
    assert!(last > at, "what came after it is there as well");
    // At its beginning, each CPU that is not idle is assigned to its thread.
    let from = window.switches[0].time;
    let made_up = window.switches.iter().take_while(|switch| switch.time == from);
    assert!(made_up.filter(|switch| switch.inferred).all(|switch| switch.outgoing == 0));
    // The file at the end contains all of it.
    let whole = Trace::read(&output);
    whole.assert_sound();
    assert_eq!(wait_in(&whole, victim, spike), wait);
}

#[test]
fn an_armed_recorder_keeps_every_switch_that_the_kernel_counted_in_its_window_and_at_the_end() {
    if !root::or_skip(WHY) {
        return;
    }
    for source in ["bpf", "perf", "ftrace"] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let output = folder.path().join("armed.fxt");
        // The counted threads sleep and compute, so both conditions are checked at each of their switches; only the second one fires.
        let never = "runqueue > 1h if comm ~ \"work*\"";
        let once = "slice > 1ns if comm = \"workload\"";
        let mut options = vec!["--source", source, "--mode", "circular", "--buffer-size", "256M"];
        options.extend(["--trigger", never, "--trigger", once, "--trigger-interval", "1h"]);
        options.extend(["--before", "1h", "--after", "1h"]);
        let threads = [WORKLOAD, "threads", "3", "8000"];
        let (counts, said) = counted::record(&options, &output, &threads);
        assert_eq!(summary(&said, "triggers"), "1 fired", "{source}: {said}");
        for file in ["armed.1.fxt", "armed.fxt"] {
            let trace = Trace::read(&folder.path().join(file));
            trace.assert_sound();
            let stats = trace.stats();
            assert_eq!(stats.number("lost"), 0, "{source}: {said}");
            let found = reported(&trace).count() as u64;
            assert!(found >= 40_000, "only {found} switches");
            assert_eq!(found, stats.number("switches"), "{source}: {file}");
            // For the machine as a whole, as often as the tracepoint fired, which the kernel does not report to ftrace.
            if file == "armed.fxt" && source != "ftrace" {
                assert_eq!(found, stats.number("kernel_switches"), "{source}");
            }
            assert_all_counted(&counts, &[trace], &format!("{file} by {source}"));
        }
    }
}

#[test]
fn windows_that_overlap_are_each_whole() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("spike.fxt.zst");
    let options = ["--trigger-interval", "1ms", "--before", "10s", "--after", "10s"];
    // Higher than the actual time: a switch that the kernel does not report, as on some virtual machines, measures nothing.
    let mut recorder = Victim("late in all").start(&options, &output, "6");
    let victim = victim_of(&recorder.printed());
    let spikes: Vec<(u64, u64)> = (0..6).map(|_| time_of(&recorder.printed())).collect();
    // None of the windows has ended: each ends with the recording.
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
    let fired = summary(&said, "triggers").strip_suffix(" fired").expect("a number");
    assert_eq!(summary(&said, "snapshots"), format!("{fired} written"));
    let fired: usize = fired.parse().expect("a number");
    assert!(fired >= 3, "{said}");
    for number in 1..=fired {
        let window = Trace::read(&folder.path().join(format!("spike.{number}.fxt.zst")));
        window.assert_sound();
        let marks = marks(&window);
        assert_eq!(marks.len(), fired, "window {number} has what was before and after");
        for mark in &marks {
            assert_eq!(mark.number("thread"), victim, "{mark:?}");
            let woken = mark.time - mark.number("value_ns");
            let mut wakeups = window.wakeups.iter();
            assert!(wakeups.any(|it| (it.thread, it.time) == (victim, woken)), "{mark:?}");
            let mut switches = window.switches.iter();
            assert!(switches.any(|it| (it.incoming, it.time) == (victim, mark.time)), "{mark:?}");
        }
        // On a busy machine the victim may be late at other times, too.
        let of_spike = |(before, ran): &&(u64, u64)| {
            marks.iter().any(|mark| (*before..=*ran).contains(&mark.time))
        };
        let fired = spikes.iter().filter(of_spike);
        let waits: Vec<u64> = fired.map(|spike| wait_in(&window, victim, *spike)).collect();
        assert!(waits.len() >= 3, "{waits:?} of {spikes:?}");
    }
}

#[test]
fn what_comes_too_soon_or_is_too_much_is_counted_and_not_written() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("spike.fxt");
    let ended = |options: &[&str]| {
        // Higher than the actual time: a switch that the kernel does not report, as on some virtual machines, measures nothing.
        let (code, said) = Victim("late six times").start(options, &output, "6").end();
        assert_eq!(code, 0, "{said}");
        said
    };
    let said = ended(&["--trigger-interval", "1h"]);
    assert_eq!(summary(&said, "triggers"), "1 fired");
    assert!(said.contains("more suppressed within --trigger-interval of another"), "{said}");

    let said = ended(&["--trigger-interval", "1ms", "--max-snapshots", "2"]);
    assert_eq!(summary(&said, "triggers"), "2 fired");
    assert!(said.contains("more suppressed after the limit was reached"), "{said}");
    let there = |number: u32| folder.path().join(format!("spike.{number}.fxt")).exists();
    assert_eq!([1, 2, 3, 4].map(there), [true, true, true, false], "they follow the first run's");
    assert!(!folder.path().join("spike.1.fxt.old").exists());

    let said = ended(&["--trigger-interval", "1ms", "--max-snapshots", "3", "--disk-budget", "1k"]);
    assert_eq!(
        summary(&said, "snapshots"),
        "3 written, 2 of them and 3 of earlier runs removed to stay within limits"
    );
    assert_eq!((1..=7).filter(|number| there(*number)).collect::<Vec<_>>(), [6], "the youngest");
    assert!(output.exists(), "and what is no snapshot is left alone");
}

#[test]
fn a_command_runs_for_each_snapshot_as_the_caller_and_so_many_snapshots_end_the_recording() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let nobody = nix::unistd::User::from_name("nobody").expect("users").expect("on any system");
    nix::unistd::chown(folder.path(), Some(nobody.uid), Some(nobody.gid)).expect("as root");
    let output = folder.path().join("spike.fxt");
    let late = Victim("late for all").late();
    let hook = r#"sh -c 'id -u > "$1.uid"; id -G > "$1.groups"; exit 3' sh"#;
    let mut fxtrec = binary::command();
    fxtrec.args(["--mode", "circular", "--trigger", &late, "--before", "1s", "--after", "1ms"]);
    fxtrec.args(["--trigger-interval", "1ms", "--trigger-count", "2", "--on-trigger", hook]);
    fxtrec.env("SUDO_UID", nobody.uid.to_string()).env("SUDO_GID", nobody.gid.to_string());
    // Higher than the actual time: a switch that the kernel does not report, as on some virtual machines, measures nothing.
    fxtrec.arg("-o").arg(&output).arg("--").args([env!("CARGO_BIN_EXE_spike"), "6"]);
    fxtrec.arg("late for all").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = Recorder(Process::start(&mut fxtrec));
    // The recording ends by itself: COMMAND waits for the end of its input.
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.contains("  snapshots  ")) {
        said.push(recorder.said());
    }
    let said = said.join("\n");
    assert_eq!(summary(&said, "triggers"), "2 fired", "{said}");
    assert_eq!(summary(&said, "snapshots"), "2 written", "{said}");
    for number in [1, 2] {
        let path = folder.path().join(format!("spike.{number}.fxt"));
        let failed = format!("--on-trigger: {hook} failed for {}: exit status: 3", path.display());
        assert!(said.contains(&failed), "{said}");
        let by = |what| std::fs::read_to_string(format!("{}.{what}", path.display()));
        assert_eq!(by("uid").expect("it ran").trim(), nobody.uid.to_string());
        assert_eq!(by("groups").expect("it ran").trim(), nobody.gid.to_string());
    }
    assert!(!folder.path().join("spike.3.fxt").exists());
    let (code, rest) = recorder.end();
    assert_eq!(code, 0, "{rest}");
}

#[test]
fn a_short_memory_is_reported() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("spike.fxt");
    // More switches than the buffer holds, and then a late one.
    let script = format!(
        "{} 20000 >&2 && exec {} 1 late-at-last",
        env!("CARGO_BIN_EXE_pingpong"),
        env!("CARGO_BIN_EXE_spike")
    );
    let late = Victim("late-at-last").late();
    let options =
        ["--mode", "circular", "--buffer-size", "256k", "--trigger", &late, "--before", "1h"];
    let (code, said) = Recorder::start(&options, &output, &["sh", "-c", &script]).end();
    assert_eq!(code, 0, "{said}");
    let line = said.lines().find(|line| line.contains("trigger wakeup")).expect("it fired");
    assert!(line.contains("memory held only") && line.contains("of 3600 s"), "{line}");
    Trace::read(&folder.path().join("spike.1.fxt")).assert_sound();
}

#[test]
fn a_probe_fires_when_it_is_hit() {
    if !root::or_skip(WHY) || !fxtrec_tests::tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("calls.fxt");
    let program = fxtrec_tests::programs::build("calls.c", &[]);
    let options =
        ["--mode", "circular", "-P", ":work", "--trigger", "probe work", "--before", "1s"];
    let (code, said) = Recorder::start(&options, &output, &[program.text(), "3"]).end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(summary(&said, "triggers"), "1 fired");
    assert!(said.contains("2 more suppressed within"), "three calls: {said}");
    assert!(said.contains("trigger probe work: calls ("), "{said}");
    let window = Trace::read(&folder.path().join("calls.1.fxt"));
    window.assert_sound();
    assert_eq!(marks(&window)[0].args["expression"], "probe work");

    let work = format!("{}:work", program.text());
    let unknown = ["--mode", "circular", "-P", &work, "--trigger", "probe wrk"];
    let started = folder.path().join("started");
    let script = format!("touch {}; exec {} 3", started.display(), program.text());
    let (code, said) = Recorder::start(&unknown, &output, &["sh", "-c", &script]).end();
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("unknown probe; -P records: work"), "{said}");
    assert!(!started.exists(), "{said}");
}

/// An application that registers manually, raises an alert and stays until its input ends.
const ALERTS: &str = r#"
import os, socket, struct, sys
address = os.environ["FXTREC_PROVIDER_SOCKET"]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
manager.connect("\0" + address[1:])
for kind, text in [(1, b"handmade\n"), (4, b"look here")]:
    manager.send(struct.pack("=HHIQ", kind, 1, len(text), 0) + text)
sys.stdin.read()
"#;

#[test]
fn an_alert_of_an_application_fires() {
    if !root::or_skip(WHY) || !fxtrec_tests::tools::or_skip(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("alert.fxt");
    let options = ["--mode", "circular", "--trigger", "alert 'look here'", "--after", "1ms"];
    let mut recorder = Recorder::start(&options, &output, &["python3", "-c", ALERTS]);
    let line = recorder.said();
    assert!(line.contains("trigger alert 'look here': raised by handmade ("), "{line}");
    let (code, said) = recorder.end();
    assert_eq!((code, summary(&said, "triggers")), (0, "1 fired"), "{said}");
    let window = Trace::read(&folder.path().join("alert.1.fxt"));
    window.assert_sound();
    assert_eq!(marks(&window)[0].args["expression"], "alert 'look here'");
}

/// Asserts that the first snapshot is about something of more than `least_ms` of a thread, all of which is in it, and that `why` explains
/// just that. Returns the snapshot, and the time range in which the delay occurred.
pub(super) fn lasted(path: &Path, expression: &str, least_ms: u64) -> (Trace, u64, u64) {
    let window = Trace::read(path);
    window.assert_sound();
    let infos = window.own.iter().filter(|event| event.name == "snapshot_info");
    let infos: Vec<&Event> = infos.collect();
    assert_eq!((infos.len(), infos[0].args["expression"].as_str()), (1, expression));
    let [thread, from, at, value] =
        ["thread", "from_ns", "trigger_ns", "value_ns"].map(|name| infos[0].number(name));
    assert_eq!(at - from, value);
    assert!(value > least_ms * 1_000_000, "{value}");
    let mut why = binary::command();
    let why = why.args(["why", "--json"]).arg(path).output().expect("it runs");
    let why: serde_json::Value = serde_json::from_slice(&why.stdout).expect("JSON");
    let why = &why["explanations"][0];
    assert_eq!((&why["trigger"], &why["subject"]), (&json!(expression), &json!("trigger")));
    assert_eq!((&why["from_ns"], &why["to_ns"]), (&json!(from), &json!(at)), "{why}");
    assert_eq!(why["thread"]["tid"], json!(thread));
    (window, from, at)
}

#[test]
fn a_call_that_takes_too_long_fires_at_its_return_and_all_of_it_is_in_the_file() {
    if !root::or_skip(WHY) || !fxtrec_tests::tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("call.fxt");
    let program = fxtrec_tests::programs::build("lasts.c", &[]);
    let name = Path::new(program.text()).file_name().expect("a file").to_string_lossy();
    // Less than the length of the call is kept before a trigger.
    let kept = ["--mode", "circular", "--before", "1ms", "--after", "1ms"];
    for function in ["work".to_owned(), format!("{name}:work")] {
        let trigger = format!("probe(\"{function}\") > 40ms");
        let options = [&kept[..], &["-P", ":work%span", "--trigger", &trigger]].concat();
        let command = [program.text(), "0", "60", "0"];
        let (code, said) = Recorder::start(&options, &output, &command).end();
        assert_eq!((code, summary(&said, "triggers")), (0, "1 fired"), "{said}");
        let written = said.lines().find_map(|line| line.split_once(" written to "));
        let path = Path::new(written.expect("a file").1).to_owned();
        let (window, from, at) = lasted(&path, &trigger, 40);
        let work = window.events.iter().filter(|event| event.name == "work");
        let work: Vec<u64> = work.map(|event| event.time).filter(|time| *time >= from).collect();
        assert_eq!(work[..2], [from, at], "its begin and its end");
    }
    let trigger = ["--mode", "circular", "-P", ":work", "--trigger", "probe('work') > 40ms"];
    let (code, said) = Recorder::start(&trigger, &output, &[program.text()]).end();
    assert_eq!(code, 125, "{said}");
    assert!(
        said.contains("add it as -P BINARY:SYMBOL%span; recorded with %span: nothing"),
        "{said}"
    );
}

#[test]
fn a_turn_that_takes_too_long_fires_when_its_thread_sleeps_again() {
    if !root::or_skip(WHY) || !fxtrec_tests::tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("turn.fxt");
    let program = fxtrec_tests::programs::build("lasts.c", &[]);
    for source in ["bpf", "perf"] {
        let trigger = "turn > 40ms if comm = \"lasts\"";
        let options = ["--source", source, "--mode", "circular", "--trigger", trigger];
        // Higher than the actual time: a switch that the kernel does not report, as on some virtual machines, measures nothing.
        let command = [program.text(), "60", "60", "60", "60"];
        let (code, said) = Recorder::start(&options, &output, &command).end();
        assert_eq!((code, summary(&said, "triggers")), (0, "1 fired"), "{said}");
        let written = said.lines().find_map(|line| line.split_once(" written to "));
        let path = Path::new(written.expect("a file").1).to_owned();
        let (window, from, at) = lasted(&path, trigger, 40);
        assert!(window.wakeups.iter().any(|wakeup| wakeup.time == from), "{source}");
        assert!(window.switches.iter().any(|switch| switch.time == at), "{source}");
    }
}
