//! A report as JSON, in the shape that `docs/reference/figures.md` describes.
//!
//! The format is guaranteed, so it has its own types, which do not change with the model.

mod fill;

use std::collections::BTreeMap;

use serde::Serialize;

use super::gates::show::JsonVerdict;
pub use fill::write_json;

/// Increases when a member changes its meaning or is removed; new members may be added at any time.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    trace: Trace<'a>,
    /// Present if there are several traces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traces: Vec<OneOfMany<'a>>,
    /// How threads are grouped, if not by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    losses: Losses,
    switches: u64,
    switches_per_s: f64,
    ignored_wakeups: u64,
    folded_threads: u64,
    work_not_conserved_ns: Option<u64>,
    total: Figures,
    cpus: Vec<Cpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Vec<Quota<'a>>>,
    processes: Vec<Process<'a>>,
    threads: Vec<Thread<'a>>,
    /// The recorder's threads, if they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder: Option<Recorder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_delay: Option<Delay<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incidents: Option<Vec<Incident<'a>>>,
    worst: Vec<Worst<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_of_command: Option<Vec<Worst<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_blocked: Option<Vec<Blocked<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<Vec<Spans<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Vec<Counter<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<Vec<LockWaits<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gates: Option<Vec<JsonVerdict>>,
}

#[derive(Serialize)]
struct Recorder {
    threads: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Delay<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    begin_ns: u64,
    able_ns: u64,
    end_ns: u64,
    length_ns: u64,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall_name: Option<&'static str>,
}

#[derive(Serialize)]
struct Incident<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    begin_ns: u64,
    end_ns: u64,
    length_ns: u64,
    sentence: &'a str,
}

#[derive(Serialize)]
struct Blocked<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    metric: &'static str,
    begin_ns: u64,
    end_ns: u64,
    length_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall_name: Option<&'static str>,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_for: Option<&'a str>,
}

#[derive(Serialize)]
struct Spans<'a> {
    category: &'a str,
    name: &'a str,
    #[serde(rename = "async", skip_serializing_if = "std::ops::Not::not")]
    is_async: bool,
    tid: u64,
    pid: Option<u64>,
    comm: &'a str,
    /// The recorded facts, by name.
    parts: BTreeMap<&'static str, Values>,
    undisturbed: Values,
    blocked_by: BTreeMap<&'static str, u64>,
    unknown_ns: u64,
}

#[derive(Serialize)]
struct Counter<'a> {
    category: &'a str,
    name: &'a str,
    process: u64,
    id: u64,
    series: &'a str,
    samples: u64,
    min: f64,
    mean: f64,
    max: f64,
    last: f64,
}

#[derive(Serialize)]
struct LockWaits<'a> {
    futex: Option<String>,
    kernel_lock: Option<String>,
    kernel_lock_kind: Option<&'static str>,
    kernel_lock_name: Option<&'a str>,
    pid: Option<u64>,
    process: &'a str,
    waits: Values,
    held_by: Vec<LockThread<'a>>,
    released_by: Vec<LockThread<'a>>,
    waiters: Vec<LockThread<'a>>,
}

/// A thread that held a lock or waited for it; `None` if unknown.
#[derive(Serialize)]
struct LockThread<'a> {
    thread: Option<Who<'a>>,
    sum_ns: u64,
}

#[derive(Serialize)]
struct Trace<'a> {
    begin_ns: u64,
    end_ns: u64,
    recorded: Option<Recorded<'a>>,
}

/// One of several traces.
#[derive(Serialize)]
struct OneOfMany<'a> {
    file: &'a str,
    host: Option<&'a str>,
    length_ns: u64,
    switches: u64,
    wakeup: Few,
    preempt: Few,
    runqueue: Few,
    slice: Few,
    blocked: Few,
    blocked_d: Few,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_ns: Option<u64>,
    lost: u64,
    gaps: u64,
}

#[derive(Serialize)]
struct Few {
    count: u64,
    sum_ns: u64,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

#[derive(Serialize)]
struct Recorded<'a> {
    version: &'a str,
    command_line: &'a str,
    host: &'a str,
    release: &'a str,
    cpus: u64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<&'static str>,
}

#[derive(Serialize)]
struct Losses {
    events: u64,
    at_most: bool,
    unknown: u64,
    unreported: u64,
    others: u64,
    others_at_most: bool,
    records: u64,
    providers: Vec<ProviderLosses>,
    gaps: u64,
    damaged: u64,
    truncated: bool,
    causes: Vec<String>,
    list: Vec<Gap>,
}

#[derive(Serialize)]
struct ProviderLosses {
    name: String,
    records: u64,
    gaps: u64,
    unknown: u64,
    list: Vec<RecordGap>,
}

#[derive(Serialize)]
struct RecordGap {
    begin_ns: u64,
    end_ns: u64,
    records: Option<u64>,
}

#[derive(Serialize)]
struct Gap {
    cpu: Option<u16>,
    begin_ns: u64,
    end_ns: u64,
    events: Option<u64>,
}

#[derive(Serialize)]
struct Figures {
    cpu_time_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    inferred: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    irqs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_in: Option<Vec<BlockedIn>>,
    metrics: Metrics,
}

#[derive(Serialize)]
struct BlockedIn {
    syscall: u16,
    name: Option<&'static str>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct Metrics {
    wakeup: Values,
    preempt: Values,
    runqueue: Values,
    slice: Values,
    blocked: Values,
    blocked_d: Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    irq: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    need_resched: Option<Values>,
}

#[derive(Serialize)]
struct Values {
    count: u64,
    censored: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    #[serde(rename = "p99.9_ns")]
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
    max_at_ns: Option<u64>,
}

#[derive(Serialize)]
struct Cpu {
    cpu: u16,
    busy_ns: u64,
    idle_ns: u64,
    utilisation: Option<f64>,
    switches: u64,
    inferred: u64,
    queue_mean: Option<f64>,
    queue_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_steal_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_during_ns: Option<u64>,
    metrics: Metrics,
}

#[derive(Serialize)]
struct Quota<'a> {
    cgroup: &'a str,
    throttled_ns: u64,
    throttled_periods: u64,
    periods: u64,
    during_ns: u64,
}

#[derive(Serialize)]
struct Process<'a> {
    koid: u64,
    pid: Option<u64>,
    name: &'a str,
    threads: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Thread<'a> {
    koid: Option<u64>,
    tid: Option<u64>,
    pid: Option<u64>,
    comm: &'a str,
    process: &'a str,
    cgroup: Option<&'a str>,
    /// Present in a merged trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    threads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_command: Option<bool>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Worst<'a> {
    /// The index of its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<usize>,
    #[serde(flatten)]
    thread: Who<'a>,
    metric: &'static str,
    begin_ns: u64,
    end_ns: u64,
    length_ns: u64,
    queued_on: u16,
    ran_on: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    moves: Option<Vec<Move>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_by: Option<&'a str>,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<bool>,
    antagonists: Vec<Antagonist<'a>>,
    more_antagonists: u64,
    others_ns: u64,
    idle_ns: u64,
    unknown_ns: u64,
}

#[derive(Serialize)]
struct Move {
    at_ns: u64,
    from: u16,
    to: u16,
}

#[derive(Serialize)]
struct Antagonist<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    ran_ns: u64,
}

#[derive(Serialize)]
struct Who<'a> {
    koid: u64,
    tid: u64,
    pid: Option<u64>,
    comm: &'a str,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scene::{Leaves, Scene};

    fn document() -> Value {
        let mut scene = Scene::new();
        scene.wake_by(10, 0, 101, 202);
        scene.switch(15, 0, 0, Leaves::R, 101);
        scene.switch(20, 0, 101, Leaves::D, 0);
        scene.lose(30, 0, 3);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn the_document_says_what_it_is_and_has_every_part() {
        let document = document();
        assert_eq!(document["format"], "fxtrec-report");
        assert_eq!(document["version"], VERSION);
        let keys: Vec<&str> = document.as_object().expect("one").keys().map(|k| &**k).collect();
        let mut documented = include_str!("../../../docs/reference/figures.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter(|key| keys.contains(key))
            .collect::<Vec<_>>();
        documented.sort_unstable();
        documented.dedup();
        assert_eq!(
            documented.len(),
            keys.len(),
            "docs/reference/figures.md has {documented:?} of {keys:?}"
        );
    }

    #[test]
    fn figures_are_numbers_and_what_is_not_known_is_null() {
        let document = document();
        let thread = &document["threads"][0];
        assert_eq!((&thread["tid"], &thread["comm"]), (&json!(101), &json!("t101")));
        let wakeup = &thread["metrics"]["wakeup"];
        let figures = ["count", "censored", "sum_ns", "p99_ns", "p99.9_ns", "max_ns", "max_at_ns"];
        let expected = [1, 0, 5_000, 5_000, 5_000, 5_000, 15_000];
        assert_eq!(figures.map(|name| wakeup[name].as_u64()), expected.map(Some));
        assert_eq!(thread["metrics"]["preempt"]["max_ns"], Value::Null);
        assert_eq!(document["losses"]["list"][0]["events"], 3);
        assert_eq!(document["worst"][0]["waker"]["tid"], 202);
        assert_eq!(document["worst"][0]["idle_ns"], 5_000);
        assert!(thread.get("in_command").is_none() && document.get("worst_of_command").is_none());
    }

    #[test]
    fn what_a_recording_does_not_report_is_no_member_and_what_it_tells_is_one_even_if_there_is_none()
     {
        let names = ["steal", "throttled", "irq", "need_resched"];
        let plain = document();
        let metrics = &plain["total"]["metrics"];
        assert!(names.iter().all(|name| metrics.get(*name).is_none()), "{metrics}");
        let wait = &plain["worst"][0];
        for member in ["moves", "throttled_ns", "throttled_by", "interrupt"] {
            assert!(wait.get(member).is_none(), "{wait}");
        }
        assert!(plain["trace"]["recorded"].get("causes").is_none());
        assert!(plain["total"].get("irqs").is_none() && plain["total"].get("moved").is_none());

        let mut scene = Scene::with_causes("steal,throttled,migrate,waker");
        scene.wake(10, 0, 101).switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 0);
        scene.host_steal(30, 0, 3, 30);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let causes = json!(["steal", "throttled", "migrate", "waker"]);
        assert_eq!(document["trace"]["recorded"]["causes"], causes);
        let total = &document["total"];
        assert_eq!(total["metrics"]["steal"]["sum_ns"], 0);
        assert_eq!(total["metrics"]["throttled"]["max_ns"], Value::Null);
        assert!(total["metrics"].get("irq").is_none() && total.get("irqs").is_none());
        assert_eq!(total["moved"], 0);
        let wait = &document["worst"][0];
        assert_eq!((&wait["moves"], &wait["throttled_ns"]), (&json!([]), &json!(0)));
        assert_eq!(wait["interrupt"], false);
        assert!(document.get("quotas").is_none() && total.get("blocked_in").is_none());
        let cpu = &document["cpus"][0];
        assert_eq!((&cpu["host_steal_ns"], &cpu["host_during_ns"]), (&json!(3000), &json!(30_000)));
    }

    #[test]
    fn of_a_command_its_threads_its_waits_and_what_blocked_it_are_reported() {
        let mut scene = Scene::of_command("waker,syscall", 100);
        scene.switch(0, 0, 0, Leaves::R, 101).wake_by(10, 0, 201, 101);
        let call = [("syscall", fxt_writer::Value::Uint32(202))];
        scene.switch_with((60, 0), 101, Leaves::S, 201, &call);
        scene.wake_by(80, 0, 101, 201).switch(85, 0, 201, Leaves::S, 101);
        scene.switch(95, 0, 101, Leaves::R, 0).end(200);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let tids = |list: &str| -> Vec<u64> {
            let list = document[list].as_array().expect("a list").iter();
            list.map(|it| it["tid"].as_u64().expect("a number")).collect()
        };
        assert_eq!((tids("worst"), tids("worst_of_command")), (vec![201, 101], vec![101]));
        let is_of_command = |thread: &Value| (thread["tid"].clone(), thread["in_command"].clone());
        let threads: Vec<_> =
            document["threads"].as_array().expect("a list").iter().map(is_of_command).collect();
        assert_eq!(threads, [(json!(201), json!(false)), (json!(101), json!(true))]);
        let expected = json!([{
            "koid": 101, "tid": 101, "pid": 100, "comm": "t101", "metric": "blocked",
            "begin_ns": 60_000, "end_ns": 80_000, "length_ns": 20_000, "syscall": 202,
            "syscall_name": "futex", "interrupt": false,
            "waker": {"koid": 201, "tid": 201, "pid": 200, "comm": "t201"},
        }]);
        assert_eq!(document["worst_blocked"], expected);
    }

    #[test]
    fn without_usual_weights_the_same_is_reported() {
        let reported = |brief: bool| {
            let mut scene = Scene::of_command("waker,syscall", 100);
            if brief {
                scene.leave_out_usual_weights();
            }
            scene.switch(0, 0, 0, Leaves::R, 101);
            scene.wake_with(10, 0, 201, &[("interrupt", fxt_writer::Value::Bool(true))]);
            let call = [("syscall", fxt_writer::Value::Uint32(202))];
            scene.switch_with((60, 0), 101, Leaves::D, 201, &call);
            scene.wake_by(80, 0, 101, 201).switch(85, 0, 201, Leaves::S, 0);
            scene.switch(95, 0, 0, Leaves::R, 101).end(200);
            let mut out = Vec::new();
            write_json(&scene.report(), None, &mut out).expect("memory");
            let mut document: Value = serde_json::from_slice(&out).expect("JSON");
            let bytes = document["trace"].as_object_mut().and_then(|trace| trace.remove("bytes"));
            (document, bytes)
        };
        let (all, brief) = (reported(false), reported(true));
        assert_eq!(all.0["worst_blocked"][0]["syscall_name"], "futex");
        assert_eq!(all.0["worst"][0]["interrupt"], true);
        assert_eq!(all.0, brief.0);
    }

    #[test]
    fn quotas_that_stopped_cgroups_are_listed_where_the_recording_knows() {
        let mut scene = Scene::with_causes("quotas");
        scene.switch(10, 0, 0, Leaves::R, 101).quota_stat(30, "/x", 12, (3, 4));
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let expected = json!([{
            "cgroup": "/x", "throttled_ns": 12_000, "throttled_periods": 3, "periods": 4, "during_ns": 30_000,
        }]);
        assert_eq!(document["quotas"], expected);
    }

    #[test]
    fn the_system_calls_that_a_thread_was_blocked_in_are_listed_with_their_times() {
        let in_call = |number| [("syscall", fxt_writer::Value::Uint32(number))];
        let mut scene = Scene::with_causes("syscall");
        scene.switch(10, 0, 0, Leaves::R, 101);
        for (out, number, back) in [(20, 202, 50), (60, 0, 70), (80, 202, 90)] {
            scene.switch_with((out, 0), 101, Leaves::S, 0, &in_call(number));
            scene.wake(back, 0, 101).switch(back + 1, 0, 0, Leaves::R, 101);
        }
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let thread = document["threads"]
            .as_array()
            .expect("threads")
            .iter()
            .find(|thread| thread["koid"] == 101);
        let calls = &thread.expect("it is there")["blocked_in"];
        let expected = json!([
            {"syscall": 202, "name": "futex", "count": 2, "sum_ns": 40_000, "max_ns": 30_000},
            {"syscall": 0, "name": "read", "count": 1, "sum_ns": 10_000, "max_ns": 10_000},
        ]);
        assert_eq!(calls, &expected);
        assert_eq!(document["total"]["blocked_in"], expected);
    }
}
