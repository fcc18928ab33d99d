//! The daemon's counts for Prometheus, compared with a recording of the same time.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::Process;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::recording::Ongoing;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use nix::sys::signal::Signal;
use serde_json::Value;

const PINGPONG: &str = env!("CARGO_BIN_EXE_pingpong");
const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// How long the programs of one of the two counters run between its readings, in seconds. Far more than they take on a quiet machine, and
/// far less than a wait that matters.
const BESIDE: f64 = 2e-6;

/// A daemon that serves metrics. Ended when dropped.
struct Scraped {
    process: Process,
    address: String,
    _folder: Folder,
}

impl Scraped {
    fn start(options: &[&str]) -> Scraped {
        let folder = Folder::new();
        let mut command = binary::command();
        command.args(["daemon", "--metrics", "0", "--runtime-dir"]).arg(folder.path("run"));
        command.args(options).stderr(Stdio::piped());
        let mut process = Process::start(&mut command);
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            let got = process.stderr().read_line(&mut line).expect("it says text");
            assert!(got > 0, "no metrics: {said}");
            let address = line.trim().strip_prefix("fxtrec: metrics at http://");
            if let Some(address) = address.and_then(|it| it.strip_suffix("/metrics")) {
                break address.to_owned();
            }
            said += &line;
        };
        Scraped { process, address, _folder: folder }
    }

    /// The whole answer.
    fn ask(&self, request: &str) -> String {
        let mut peer = TcpStream::connect(&self.address).expect("it listens");
        peer.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        peer.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        peer.read_to_string(&mut answer).expect("answered");
        answer
    }

    /// The body of the metrics.
    fn scrape(&self, accept: &str) -> String {
        let host = &self.address;
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
        let answer = self.ask(&head);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
    }
}

impl Drop for Scraped {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGTERM);
        self.process.finish();
    }
}

/// Values by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let sample = |line: &'_ str| -> Option<(usize, f64)> {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.len(), value.parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (length, value) = sample(line).unwrap_or_else(|| panic!("no sample: {line}"));
            (&line[..length], value)
        })
        .collect()
}

/// The value for a cgroup, 0 if there is none.
fn of(samples: &BTreeMap<&str, f64>, name: &str, labels: &str) -> f64 {
    samples.get(format!("{name}{{{labels}}}").as_str()).copied().unwrap_or(0.0)
}

#[track_caller]
fn assert_within(counted: f64, recorded: f64, slack: f64, what: &str) {
    let difference = (counted - recorded).abs();
    assert!(
        difference <= 0.02 * recorded + slack,
        "{what}: counted {counted}, recorded {recorded}"
    );
}

#[test]
fn what_is_counted_without_records_is_within_two_percent_of_a_recording() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    // More than there are CPUs: it is never used up.
    let Some(group) = Quota::new("metrics", 100_000_000) else {
        return skip("no cgroup may be made here");
    };
    let scraped = Scraped::start(&[]);
    let folder = Folder::new();
    let ongoing = match Ongoing::start(&folder.path("t.fxt"), &["--source", "bpf"]) {
        Ok(ongoing) => ongoing,
        Err(said) => return skip(&format!("bpf is refused here: {said}")),
    };
    group.run(&[PINGPONG, "20000", "apart"]);
    group.run(&[PINGPONG, "5000"]);
    let text = scraped.scrape("");
    ongoing.stop();
    machine.give_back();

    let report = folder.fxtrec(["report", "t.fxt", "--json", "--comm", "pingpong"]).expect(0);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["losses"]["events"], 0, "{}", report["losses"]);
    let metric = |name: &str, member: &str| -> f64 {
        report["total"]["metrics"][name][member].as_f64().expect("a figure")
    };
    let counted = samples(&text);
    let labels = format!("cgroup=\"{}\"", group.name);
    for (name, more, recorded) in [
        ("fxtrec_wakeup_latency_seconds", "", "wakeup"),
        ("fxtrec_runqueue_wait_seconds", "", "runqueue"),
        ("fxtrec_slice_seconds", "", "slice"),
        ("fxtrec_blocked_seconds", ",state=\"S\"", "blocked"),
    ] {
        let labels = format!("{labels}{more}");
        let count = of(&counted, &format!("{name}_count"), &labels);
        let sum = of(&counted, &format!("{name}_sum"), &labels);
        println!(
            "{name}: count {count} of {}, sum {sum} of {}",
            metric(recorded, "count"),
            metric(recorded, "sum_ns") / 1e9
        );
        // The shell that puts itself into the cgroup has some more, under another name.
        assert_within(count, metric(recorded, "count"), 50.0, name);
        // Each counter includes the time that the other's programs use between its readings.
        let both = BESIDE * count;
        assert_within(sum, metric(recorded, "sum_ns") / 1e9, 0.02 + both, name);
        let last = of(&counted, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""));
        assert_eq!(last, count, "{name}: the last bucket has all");
        // Half of all values are below some bound, and so they are in the recording, whose median is at most 0.8 % too high.
        let below = |bound: f64| {
            of(&counted, &format!("{name}_bucket"), &format!("{labels},le=\"{bound:?}\""))
        };
        let median = metric(recorded, "p50_ns") / 1e9;
        let bounds: Vec<f64> = (-24..=8).map(|power| 2_f64.powi(power)).collect();
        let above = bounds.iter().find(|bound| **bound >= median * 1.02 + BESIDE).expect("a bound");
        let under = bounds.iter().rev().find(|bound| **bound <= median * 0.98 - BESIDE);
        assert!(below(*above) >= count * 0.48, "{name}: {median} {}", below(*above));
        if let Some(under) = under {
            assert!(below(*under) <= count * 0.52, "{name}: {median} {}", below(*under));
        }
    }
    assert!(metric("wakeup", "count") > 20_000.0, "{}", report["total"]);
    assert_eq!(of(&counted, "fxtrec_lost_total", "reason=\"other\""), 0.0);
}

#[test]
fn time_in_which_a_quota_is_used_up_is_counted_apart_from_waits() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    let Some(quota) = Quota::new("throttles", 20_000) else {
        return skip("no cgroup may have a quota here");
    };
    let scraped = Scraped::start(&["--metrics-comm"]);
    let folder = Folder::new();
    let ongoing = match Ongoing::start(&folder.path("t.fxt"), &["--source", "bpf"]) {
        Ok(ongoing) => ongoing,
        Err(said) => return skip(&format!("bpf is refused here: {said}")),
    };
    quota.run(&[WORKLOAD, "slices", "2", "30"]);
    let text = scraped.scrape("");
    ongoing.stop();
    machine.give_back();
    let counted = samples(&text);
    if !text.contains("# TYPE fxtrec_throttled_seconds_total counter") {
        return skip("this kernel does not tell which tasks are throttled");
    }
    let report = folder.fxtrec(["report", "t.fxt", "--json", "--comm", "workload"]).expect(0);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let metric = |name: &str, member: &str| -> f64 {
        report["total"]["metrics"][name][member].as_f64().expect("a figure")
    };
    let labels = format!("cgroup=\"{}\",comm=\"workload\"", quota.name);
    let throttled = of(&counted, "fxtrec_throttled_seconds_total", &labels);
    let recorded = metric("throttled", "sum_ns") / 1e9;
    println!("throttled {throttled} s of {recorded}");
    assert!(recorded > 0.2, "the quota is used up again and again: {recorded} s");
    assert_within(throttled, recorded, 0.005, "throttled");
    let wait = of(&counted, "fxtrec_runqueue_wait_seconds_sum", &labels);
    // In the recording, the thread also has the waits of the shell that it was before. There is far more throttled time.
    assert_within(wait, metric("runqueue", "sum_ns") / 1e9, 0.1, "waits");
}

#[test]
fn names_of_threads_are_reported_only_if_they_are_asked_for() {
    if !may_record() {
        return;
    }
    for (options, reported) in [(&[][..], false), (&["--metrics-comm"][..], true)] {
        let scraped = Scraped::start(options);
        let done = Command::new(WORKLOAD).args(["slices", "1", "2"]).output().expect("it runs");
        assert!(done.status.success());
        let text = scraped.scrape("");
        assert_eq!(text.contains("comm=\"workload\""), reported, "{options:?}");
        assert_eq!(text.contains("comm="), reported, "{options:?}");
    }
}

#[test]
fn other_requests_are_refused_and_slow_ones_end() {
    if !may_record() {
        return;
    }
    let scraped = Scraped::start(&["--metrics-series", "1"]);
    let host = &scraped.address;
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "404 Not Found"),
        (format!("POST /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"), "405 Method Not Allowed"),
        ("GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n".to_owned(), "421 Misdirected"),
        ("nonsense\r\n\r\n".to_owned(), "400 Bad Request"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20_000)), "400 Bad Request"),
    ] {
        let answer = scraped.ask(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    // A client that never finishes its request delays the others for a few seconds only.
    let mut slow = TcpStream::connect(host).expect("it listens");
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost").expect("sent");
    let text = scraped.scrape("");
    let counted = samples(&text);
    assert_eq!(of_none(&counted, "fxtrec_series_limit"), 1.0);
    assert!(of_none(&counted, "fxtrec_series") <= 2.0, "one, and the rest as another");
}

fn of_none(samples: &BTreeMap<&str, f64>, name: &str) -> f64 {
    *samples.get(name).expect("it is told")
}

/// Python that parses both formats with Prometheus's client library, and prints how many buckets they have.
const PARSE: &str = r#"
import sys
from prometheus_client.parser import text_string_to_metric_families as plain
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
for path, parse in ((sys.argv[1], plain), (sys.argv[2], openmetrics)):
    families = {family.name: family for family in parse(open(path).read())}
    buckets = [s for s in families["fxtrec_slice_seconds"].samples if s.name.endswith("_bucket")]
    assert families["fxtrec_slice_seconds"].type == "histogram", families
    assert families["fxtrec_censored"].type == "counter", families
    assert all(s.labels["cgroup"] for s in buckets), buckets
    print(len(buckets))
"#;

#[test]
fn the_parsers_of_prometheus_s_client_library_read_both_forms() {
    if !may_record() {
        return;
    }
    let has_library = |python: &&str| {
        let done = Command::new(python).args(["-c", "import prometheus_client"]).output();
        done.is_ok_and(|done| done.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_library) else {
        return skip("needs prometheus_client (apt install python3-prometheus-client)");
    };
    let scraped = Scraped::start(&["--metrics-comm"]);
    let folder = Folder::new();
    folder.write("plain", scraped.scrape("text/plain"));
    folder.write("open", scraped.scrape("application/openmetrics-text; version=1.0.0"));
    assert!(folder.read("open").ends_with("# EOF\n"));
    let mut python = Command::new(python);
    let done = folder.run(python.args(["-c", PARSE, "plain", "open"])).expect(0);
    let buckets: Vec<u32> =
        done.stdout.lines().map(|line| line.parse().expect("a count")).collect();
    assert_eq!(buckets.len(), 2);
    assert!(buckets.iter().all(|count| *count >= 34 && count % 34 == 0), "{buckets:?}");
}
