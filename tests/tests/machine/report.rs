//! `fxtrec report` compared with perf on the same workload, and the summary after recordings.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::{record_in, record_in_turn};
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// The report on a trace in the directory.
fn report(folder: &Folder, trace: &str, option: &str) -> String {
    folder.fxtrec(["report", trace, option, "--include-recorder"]).expect(0).stdout
}

#[test]
fn a_folder_of_traces_has_a_row_for_each_in_the_order_asked_for_and_groups_of_threads() {
    if !may_record() {
        return;
    }
    let _turn = machine::quiet();
    let folder = Folder::new();
    std::fs::create_dir(folder.path("runs")).expect("a folder");
    let recorded =
        ["-q", "-a", "--stacks=none", "-o", "runs/1.fxt", "--", WORKLOAD, "threads", "3", "500"];
    folder.fxtrec(recorded).expect(0);
    // A trace of the same with fewer threads, and more traces than a screen has rows of threads.
    folder.fxtrec(["cut", "runs/1.fxt", "runs/2.fxt", "--to", "5ms"]).expect(0);
    for number in 3..=9 {
        let copy = folder.path(format!("runs/{number}.fxt"));
        std::fs::copy(folder.path("runs/2.fxt"), copy).expect("room");
    }
    let rows = |options: &[&str]| {
        let words = ["report", "runs", "--show", "head"].iter().chain(options).copied();
        let text = folder.fxtrec(words).expect(0).stdout;
        let names = text.lines().filter_map(|line| line.trim().split_once(".fxt "));
        names.map(|(name, _)| name.trim_start_matches("runs/").to_owned()).collect::<Vec<_>>()
    };
    let all = rows(&[]);
    assert_eq!(all.len(), 9, "{all:?}");
    assert_eq!(rows(&["--sort", "switches"])[0], "1");
    assert_eq!(rows(&["--sort", "name"]), (1..=9).map(|it| it.to_string()).collect::<Vec<_>>());
    assert_eq!(rows(&["--rows", "2"]).len(), 2);

    let of_processes = folder.fxtrec(["report", "runs", "--by", "process"]).expect(0).stdout;
    let (_, table) = of_processes.split_once("of each process:").expect("a table");
    let (table, _) = table.split_once("\n\n").expect("more parts");
    assert!(table.lines().count() > 8 && !table.contains(" more processes"), "{table}");
    assert!(!table.contains("Max ended at s"), "times of several traces: {table}");

    // One was killed while it recorded, and one before it had recorded anything.
    std::fs::create_dir(folder.path("killed")).expect("a folder");
    let whole = std::fs::read(folder.path("runs/1.fxt")).expect("it is there");
    for (name, bytes) in [("late", whole.len() / 4 * 3 + 1), ("soon", 42)] {
        let path = folder.path(format!("killed/{name}.fxt"));
        std::fs::write(path, &whole[..bytes]).expect("room");
    }
    let text = folder.fxtrec(["report", "killed"]).expect(0).stdout;
    assert!(text.contains("\nkilled/late.fxt and killed/soon.fxt are truncated: "), "{text}");
    assert!(text.contains("\n  no events in killed/soon.fxt\n"), "{text}");
    let text = folder.fxtrec(["why", "killed"]).expect(0).stdout;
    assert!(text.contains("\nTruncated: killed/late.fxt.\n"), "{text}");
    assert!(text.contains("\nNothing to explain in killed/soon.fxt.\n"), "{text}");

    let host = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
    let json = |path: &str, by: &str| -> Value {
        let text = folder.fxtrec(["report", path, "--json", "--by", by]).expect(0).stdout;
        serde_json::from_str(&text).expect("JSON")
    };
    for path in ["runs", "runs/1.fxt"] {
        let by_host = json(path, "host");
        assert_eq!(by_host["by"], "host");
        let threads = by_host["threads"].as_array().expect("a list");
        assert!(threads.iter().all(|row| row["comm"] == host.as_str()), "{threads:?}");
        let sum = |row: &Value| row["metrics"]["runqueue"]["count"].as_u64().expect("a number");
        let all: u64 = threads.iter().map(sum).sum();
        assert_eq!(all, sum(&by_host["total"]), "the hosts together are all");
    }
    let by_cgroup = json("runs", "cgroup");
    let names: Vec<&str> = by_cgroup["threads"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["comm"].as_str().expect("a name"))
        .collect();
    assert!(
        names.iter().all(|name| name.starts_with('/') || *name == "(cgroup unknown)"),
        "{names:?}"
    );
    for metric in ["wakeup", "preempt", "runqueue", "slice", "blocked", "blocked_d"] {
        let figures = &by_cgroup["traces"][0][metric];
        assert!(figures["count"].is_u64() && figures["sum_ns"].is_u64(), "{metric}: {figures}");
    }
    let text =
        folder.fxtrec(["report", "runs", "--show", "threads", "--by", "process"]).expect(0).stdout;
    assert!(text.contains("Run-queue wait of each process:"), "{text}");
}

/// A tool's figures for a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    runtime: f64,
    switches: u64,
    /// The longest time from a wakeup to the switch in, in milliseconds.
    max_delay: f64,
}

/// Sums up the lines of a `timehist`, perf's or fxtrec's, by thread id.
fn sum_up(timehist: &str) -> BTreeMap<u64, Figures> {
    let mut threads: BTreeMap<u64, Figures> = BTreeMap::new();
    for line in timehist.lines() {
        // time [cpu] name[tid/pid] wait delay run: names may have spaces in them.
        let Some((name, figures)) = line.rsplit_once(']') else { continue };
        let Some((_, ids)) = name.rsplit_once('[') else { continue };
        let Ok(tid) = ids.split('/').next().unwrap_or("").parse() else { continue };
        let number = |word: &str| if word == "-" { Some(0.0) } else { word.parse::<f64>().ok() };
        let mut figures = figures.split_whitespace().map_while(number);
        let (Some(_), Some(delay), Some(run)) = (figures.next(), figures.next(), figures.next())
        else {
            continue;
        };
        let thread = threads.entry(tid).or_default();
        thread.runtime += run;
        thread.switches += 1;
        thread.max_delay = thread.max_delay.max(delay);
    }
    threads
}

/// The longest delay of each thread in milliseconds, as in `perf sched latency`: after wakeups and preemptions.
fn longest_delays(latency: &str) -> BTreeMap<u64, f64> {
    let mut threads = BTreeMap::new();
    for line in latency.lines() {
        let mut columns = line.split('|');
        let tid = columns.next().and_then(|name| name.trim().rsplit_once(':'));
        let Some(Ok(tid)) = tid.map(|(_, tid)| tid.parse::<u64>()) else { continue };
        let max = line.split("max:").nth(1).and_then(|rest| rest.split_whitespace().next());
        if let Some(max) = max.and_then(|max| max.parse().ok()) {
            threads.insert(tid, max);
        }
    }
    threads
}

/// The figures of perf and fxtrec for the workload's threads, recorded at the same time.
struct Both {
    perf: BTreeMap<u64, Figures>,
    perf_longest: BTreeMap<u64, f64>,
    ours: BTreeMap<u64, Figures>,
    json: Value,
    tids: Vec<u64>,
}

fn record_both(workload: &[&str]) -> Both {
    let folder = Folder::new();
    // One CPU, so that threads wait for each other.
    let perf = ["perf", "sched", "record", "-q", "-o", "perf.data", "--", "taskset", "-c", "0"];
    let command = [&perf[..], &[WORKLOAD], workload].concat();
    // The definitions are compared here, not the sources, which do not miss the same switches on every machine.
    let options = ["-q", "--source", "perf"];
    let recording =
        record_in_turn(machine::alone(), binary::command(), &folder, &options, &command);
    let perf = |kind: &[&str]| {
        let mut command = Command::new("perf");
        command.arg("sched").args(kind).args(["-i", "perf.data"]);
        folder.run(&mut command).expect(0).stdout
    };
    Both {
        perf: sum_up(&perf(&["timehist"])),
        perf_longest: longest_delays(&perf(&["latency", "-p"])),
        ours: sum_up(&report(&folder, "t.fxt", "--timehist")),
        json: serde_json::from_str(&report(&folder, "t.fxt", "--json")).expect("JSON"),
        tids: recording.lines().iter().filter_map(|line| line.first()?.parse().ok()).collect(),
    }
}

/// Differences between perf and fxtrec beyond the bounds in docs/reference/figures.md.
fn disagreements(both: &Both) -> Vec<String> {
    let mut found = Vec::new();
    let threads = both.json["threads"].as_array().expect("threads");
    for tid in &both.tids {
        let (Some(perf), Some(ours)) = (both.perf.get(tid), both.ours.get(tid)) else {
            found.push(format!("{tid} is not known to both"));
            continue;
        };
        let json = threads.iter().find(|thread| thread["tid"] == *tid).expect("a thread");
        let number = |of: &Value| of.as_f64().unwrap_or(0.0);
        let switches = number(&json["voluntary"]) + number(&json["involuntary"]);
        let cpu_time = number(&json["cpu_time_ns"]) / 1e6;
        let longest = number(&json["metrics"]["runqueue"]["max_ns"]) / 1e6;
        // `perf sched latency` leaves out some waits after a wakeup that `perf sched timehist` has, for the same file.
        let perf_longest = both.perf_longest.get(tid).copied().unwrap_or(0.0).max(perf.max_delay);
        let mut compare = |what: &str, a: f64, b: f64, bound: f64| {
            if (a - b).abs() > bound {
                found.push(format!("{what} of {tid}: perf {a}, fxtrec {b}"));
            }
        };
        compare("run time", perf.runtime, ours.runtime, 0.01 * perf.runtime + 0.2);
        compare("CPU time", perf.runtime, cpu_time, 0.01 * perf.runtime + 0.2);
        compare("switches", perf.switches as f64, ours.switches as f64, 1.0);
        compare("switches", perf.switches as f64, switches, 1.0);
        compare("longest wakeup", perf.max_delay, ours.max_delay, 0.01 * perf.max_delay + 0.2);
        compare("longest wait", perf_longest, longest, 0.01 * perf_longest + 0.2);
    }
    found
}

#[test]
fn run_times_switches_and_longest_delays_are_those_that_perf_finds_at_the_same_time() {
    if !may_record() || !tools::or_skip(&["perf"]) {
        return;
    }
    // The two read the time one after the other. If the host takes the CPU in between, they differ; that does not happen five times in a
    // row.
    let mut tries = Vec::new();
    for _ in 0..5 {
        let both = record_both(&["slices", "3", "80"]);
        assert_eq!(both.tids.len(), 3, "the workload prints its threads");
        let found = disagreements(&both);
        if found.is_empty() {
            let waited = |tid| both.perf_longest.get(tid).is_some_and(|longest| *longest > 1.0);
            assert!(
                both.tids.iter().all(waited),
                "threads that share a CPU wait: {:?}",
                both.perf_longest
            );
            return;
        }
        tries.push(found);
    }
    panic!("perf and fxtrec disagree: {tries:#?}");
}

#[test]
fn a_recording_ends_with_a_short_form_wherever_the_trace_goes() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let said = |options: &[&str]| {
        let line = [options, &["--", WORKLOAD, "slices", "2", "10"]].concat();
        folder.fxtrec(line).expect(0).stderr
    };
    for output in ["trace.fxt", "trace.fxt.zst", "trace.fxt.gz", "-"] {
        let said = said(&["-o", output]);
        for line in ["  wakeup     p50 ", "  slice      p50 ", "  worst ", "  busy       CPU 0 "] {
            assert!(said.contains(line), "{line} with -o {output}: {said}");
        }
    }
    let circular = said(&["-o", "trace.fxt", "--mode", "circular"]);
    assert!(circular.contains("  wakeup     p50 "), "{circular}");
    for quiet in
        [&["--no-summary", "-o", "trace.fxt"][..], &["-q", "-o", "-"], &["-o", "/dev/null"]]
    {
        let said = said(quiet);
        assert!(!said.contains("p50"), "with {quiet:?}: {said}");
    }
}

#[test]
fn the_report_is_the_same_from_a_file_from_a_pipe_and_packed() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let recording = record_in(&folder, &["-q"], &[WORKLOAD, "threads", "1", "2000"]);
    let json = report(&folder, "t.fxt", "--json");
    folder.run(Command::new("zstd").args(["-q", "t.fxt"])).expect(0);
    assert_eq!(report(&folder, "t.fxt.zst", "--json"), json);
    let trace = std::fs::File::open(folder.path("t.fxt")).expect("it was recorded");
    let mut piped = binary::command();
    piped.args(["report", "-", "--json", "--include-recorder"]).stdin(Stdio::from(trace));
    assert_eq!(succeed(&mut piped), json);
    // It also has the same content as the trace.
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let whole = recording.trace;
    let reported = whole.switches.iter().filter(|switch| !switch.inferred).count() as u64;
    assert_eq!(document["switches"], reported);
    let outs = document["threads"].as_array().expect("threads").iter().map(|thread| {
        thread["voluntary"].as_u64().expect("a count")
            + thread["involuntary"].as_u64().expect("a count")
    });
    let ours = |switch: &&fxtrec_tests::trace::Switch| !switch.inferred && switch.outgoing != 0;
    assert_eq!(outs.sum::<u64>(), whole.switches.iter().filter(ours).count() as u64);
}
