//! The effects of cgroup quotas on threads inside and outside of them, compared with the kernel's own counts.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use fxt_reader::ThreadState;
use fxt_reader::record::EventKind;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::recording::{Ongoing, Recording, record_by_each};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::{Switch, Trace};
use serde_json::Value;

use super::causes::{has, record_machine, run};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// Bounds of a figure of the group: a period that is not over when the workload ends is counted when it is over, or never.
fn assert_is_about(found: u64, counted: u64) {
    assert!(found <= counted && found >= counted - counted / 10, "{found} ns of {counted}");
}

#[test]
fn every_source_counts_for_how_long_a_quota_stopped_its_cgroup() {
    if !may_record() {
        return;
    }
    let Some(quota) = Quota::new("counted", 20_000) else {
        return skip("no cgroup may have a quota here");
    };
    let (folder, before) = (Folder::new(), quota.throttled());
    let stopped =
        record_by_each(machine::quiet(), &folder, &["perf", "ftrace", "bpf"], &[], |_| {
            quota.run(&[WORKLOAD, "slices", "2", "30"]);
        });
    let counted = quota.throttled() - before;
    assert!(counted > 200_000_000, "the quota is used up again and again: {counted} ns");
    for (source, path, said) in stopped {
        let trace = Recording::read(&path, String::new(), said.clone()).trace;

        let reported = trace.own.iter().filter(|event| event.name == "quota_stat");
        let reported: Vec<_> = reported.filter(|event| event.arg("cgroup") == quota.name).collect();
        let [reported] = reported[..] else { panic!("{source}: {reported:?}") };
        assert_is_about(reported.number("throttled_ns"), counted);
        let [stopped, of] = ["throttled_periods", "periods"].map(|name| reported.number(name));
        assert!(stopped >= 5 && stopped <= of, "{stopped} of {of} periods");

        // The report lists which threads waited, or states that this is unknown.
        let which = has(&trace, "throttled");
        assert!(source == "bpf" || !which, "{source}");
        let unknown = "; this source does not record which threads";
        let line = said.lines().find(|line| line.contains("  quotas     stopped "));
        let line = line.unwrap_or_else(|| panic!("{source}: {said}"));
        assert!(line.contains(&quota.name), "{line}");
        assert_eq!(line.ends_with(unknown), source != "bpf", "{source}: {line}");
        let name = format!("{source}.fxt");
        let report = folder.fxtrec(["report", &name, "--show", "causes"]).expect(0).stdout;
        let line = format!("  quotas stopped {} for ", quota.name);
        assert!(report.contains(&line), "{source}: {report}");
        if which {
            // The threads of a group wait together: no longer than all of its queues were stopped, times their number.
            let sum: u64 = trace
                .switches
                .iter()
                .filter(|switch| switch.args.get("throttled_by") == Some(&quota.name))
                .map(|switch| switch.number("throttled_ns"))
                .sum();
            println!(
                "{source}: {sum} ns of waits, {} by the group",
                reported.number("throttled_ns")
            );
            assert!(sum >= counted / 2 && sum <= 3 * counted, "{sum} ns of waits, {counted}");
        }
    }
}

#[test]
fn the_periods_of_a_throttled_cgroup_are_as_long_as_it_counts_and_have_its_waits_within() {
    if !may_record() {
        return;
    }
    let Some(quota) = Quota::new("periods", 20_000) else {
        return skip("no cgroup may have a quota here");
    };
    let before = quota.throttled();
    let Some(recording) = record_machine(machine::alone(), &["--source", "bpf"], || {
        quota.run(&[WORKLOAD, "slices", "2", "50"]);
    }) else {
        return;
    };
    let (trace, counted) = (&recording.trace, quota.throttled() - before);
    if !has(trace, "throttled") {
        return skip("this kernel does not tell which tasks are throttled");
    }
    let mut open: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut periods: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut known, mut unknown, mut late) = (0, 0, 0);
    for event in recording.named("throttled").filter(|event| event.category == "sched") {
        match event.kind {
            EventKind::AsyncBegin { id } if event.arg("cgroup") == quota.name => {
                assert_eq!(open.insert(id, (event.number("cpu"), event.time)), None, "{event:?}");
            }
            EventKind::AsyncEnd { id } => {
                let Some((cpu, begin)) = open.remove(&id) else { continue };
                assert_eq!(event.number("cpu"), cpu, "{event:?}");
                if event.args.contains_key("inferred") {
                    unknown += 1;
                    continue;
                }
                let ago =
                    event.args.get("late_ns").map_or(0, |text| text.parse().expect("a number"));
                assert!(event.time - ago >= begin, "{event:?} began at {begin}");
                late = late.max(ago);
                known += 1;
                periods.entry(cpu).or_default().push((begin, event.time - ago));
            }
            _ => {}
        }
    }
    let sum: u64 = periods.values().flatten().map(|(begin, end)| end - begin).sum();
    println!(
        "{known} periods of {sum} ns, {unknown} of unknown end, {} open, the latest told {late} ns later; \
         the group counts {counted} ns",
        open.len()
    );
    assert!(known >= 10 && unknown * 10 <= known, "{known} known, {unknown} not");
    assert!(sum.abs_diff(counted) <= counted / 20, "{sum} ns of {counted}");
    for spans in periods.values() {
        assert!(
            spans.windows(2).all(|two| two[0].1 <= two[1].0),
            "periods of a CPU do not overlap"
        );
    }
    // A thread that is switched out because of this quota is switched out in a period of it.
    let mut left: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let (mut within, mut waits) = (0, 0);
    for switch in &trace.switches {
        if let Some((time, cpu)) = left.remove(&switch.incoming)
            && switch.args.get("throttled_by") == Some(&quota.name)
        {
            waits += 1;
            let spans = periods.get(&cpu).map_or(&[][..], Vec::as_slice);
            within += u64::from(spans.iter().any(|(from, to)| (*from..=*to).contains(&time)));
        }
        if switch.args.contains_key("throttled") {
            left.insert(switch.outgoing, (switch.time, u64::from(switch.cpu)));
        }
    }
    println!("{within} of {waits} waits begin in a period");
    assert!(waits >= 10 && within + unknown >= waits * 9 / 10, "{within} of {waits}");
}

/// How long each thread was runnable and did not run, according to switches and wakeups only, and how many such waits ended.
fn plain_waits(trace: &Trace) -> BTreeMap<u64, (u64, u64)> {
    let mut events: Vec<(u64, bool, u64, u64)> = Vec::new();
    let mut since: BTreeMap<u64, u64> = BTreeMap::new();
    let mut waits: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (at, wakeup) in trace.wakeups.iter().enumerate() {
        events.push((wakeup.time, false, at as u64, wakeup.thread));
    }
    for (at, switch) in trace.switches.iter().enumerate() {
        events.push((switch.time, true, at as u64, 0));
    }
    events.sort_unstable();
    for (time, is_switch, at, thread) in events {
        if !is_switch {
            since.entry(thread).or_insert(time);
            continue;
        }
        let switch = &trace.switches[at as usize];
        if let Some(begin) = since.remove(&switch.incoming) {
            let wait = waits.entry(switch.incoming).or_default();
            *wait = (wait.0 + time - begin, wait.1 + 1);
        }
        match switch.state {
            ThreadState::Running if switch.outgoing != 0 => since.insert(switch.outgoing, time),
            _ => since.remove(&switch.outgoing),
        };
    }
    waits
}

/// Threads whose state is uncertain because of an inferred switch.
fn uncertain(trace: &Trace) -> BTreeSet<u64> {
    let inferred = trace.switches.iter().filter(|switch| switch.inferred);
    inferred.flat_map(|switch| [switch.outgoing, switch.incoming]).collect()
}

#[test]
fn a_quota_changes_nothing_of_the_waits_of_threads_outside_of_it() {
    if !may_record() {
        return;
    }
    let machine = machine::quiet();
    let Some(quota) = Quota::new("inside", 20_000) else {
        return skip("no cgroup may have a quota here");
    };
    let folder = Folder::new();
    let ongoing = match Ongoing::start(&folder.path("t.fxt"), &["--source", "bpf"]) {
        Ok(ongoing) => ongoing,
        Err(said) => return skip(&format!("bpf is refused here: {said}")),
    };
    let words = quota.words(&[WORKLOAD, "slices", "4", "20"]);
    let mut inside = Command::new(&words[0]);
    inside.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut inside = inside.spawn().expect("a shell");
    // One thread that competes with them for both CPUs, and one that sleeps and wakes.
    run(&["slices", "2", "50"]);
    run(&["threads", "2", "500"]);
    assert!(inside.wait().expect("it is ours").success());
    let (path, said) = ongoing.stop();
    machine.give_back();
    let trace = Recording::read(&path, String::new(), said).trace;
    if !has(&trace, "throttled") {
        return skip("this kernel does not tell which tasks are throttled");
    }

    let held = trace.switches.iter().filter(|it| it.args.contains_key("throttled_by"));
    let (ours, others): (Vec<_>, Vec<_>) =
        held.partition(|switch| switch.args.get("throttled_by") == Some(&quota.name));
    let group: BTreeSet<u64> = ours.iter().map(|switch| switch.incoming).collect();
    let elsewhere: BTreeSet<u64> = others.iter().map(|switch| switch.incoming).collect();
    assert!(group.len() >= 2, "the threads of the group are throttled: {group:?}");

    let json = folder.fxtrec(["report", "t.fxt", "--json"]).expect(0).stdout;
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let threads = report["threads"].as_array().expect("threads");
    let (plain, uncertain) = (plain_waits(&trace), uncertain(&trace));
    let (mut outside, mut inside) = (0, 0);
    for thread in threads {
        let koid = thread["koid"].as_u64().expect("a koid");
        let metrics = &thread["metrics"];
        let figure = |metric: &str, name: &str| metrics[metric][name].as_u64().expect("a number");
        if uncertain.contains(&koid) || elsewhere.contains(&koid) {
            continue;
        }
        let waited = figure("runqueue", "sum_ns");
        let throttled = figure("throttled", "sum_ns");
        let Some((expected, count)) = plain.get(&koid) else { continue };
        if group.contains(&koid) {
            // Nothing is counted twice, and nothing is left out.
            assert_eq!(waited + throttled, *expected, "{thread}");
            assert!(throttled > 0, "{thread}");
            inside += 1;
        } else {
            assert_eq!((throttled, figure("throttled", "count")), (0, 0), "{thread}");
            assert_eq!((waited, figure("runqueue", "count")), (*expected, *count), "{thread}");
            outside += 1;
        }
    }
    println!("{inside} threads inside, {outside} outside");
    assert!(inside >= 1 && outside >= 4, "{inside} and {outside}");
}

#[test]
fn a_wait_that_a_quota_prolongs_fires_a_trigger_on_it_and_says_where_none_can() {
    if !may_record() {
        return;
    }
    let Some(quota) = Quota::new("trigger", 20_000) else {
        return skip("no cgroup may have a quota here");
    };
    let never = "a trigger on throttled never fires";
    let words = quota.words(&[WORKLOAD, "slices", "2", "16"]);
    for source in ["bpf", "perf"] {
        let folder = Folder::new();
        let options = ["--source", source, "--mode", "circular", "--max-snapshots", "1"];
        let trigger = ["--trigger", "throttled > 20ms", "--after", "100ms", "-o", "t.fxt", "--"];
        let mut all: Vec<&str> = options.into_iter().chain(trigger).collect();
        all.extend(words.iter().map(String::as_str));
        let machine = machine::quiet();
        let said = folder.fxtrec(all).expect(0).stderr;
        machine.give_back();
        let snapshot = folder.path("t.1.fxt");
        assert_eq!(said.contains(never), !snapshot.exists(), "{source}: {said}");
        if !snapshot.exists() {
            continue;
        }
        let trace = Trace::read(&snapshot);
        let fired = trace.own.iter().find(|event| event.name == "trigger").expect("it fired");
        assert_eq!(fired.arg("expression"), "throttled > 20ms");
        let value = fired.number("value_ns");
        assert!(value > 20_000_000, "{value}");
        let is_it = |it: &&fxtrec_tests::trace::Switch| {
            it.time == fired.time && it.number("throttled_ns") == value
        };
        assert!(trace.switches.iter().any(|it| is_it(&it)), "the wait that fired is in the file");
    }
}

/// The facts of all threads in a file: for each fact, the number of samples and their sum.
fn facts_of(folder: &Folder, file: &str) -> BTreeMap<&'static str, (u64, u64)> {
    let json = folder.fxtrec(["report", file, "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).expect("the report is JSON");
    let total = &json["total"];
    let of = |name| {
        let metric = &total["metrics"][name];
        let sum = metric["sum_ns"].as_u64().unwrap_or(0);
        Some((name, (metric["count"].as_u64()?, sum)))
    };
    let names = ["steal", "throttled", "irq", "need_resched"];
    let mut facts: BTreeMap<_, _> = names.into_iter().filter_map(of).collect();
    for name in ["irqs", "moved"] {
        facts.insert(name, (total[name].as_u64().expect("the fact is recorded"), 0));
    }
    // The report names wakers and system calls of only a few waits.
    let trace = Trace::read(&folder.path(file));
    let wakers = trace.wakeups.iter().filter(|it| it.waker.is_some()).count();
    let interrupts = trace.wakeups.iter().filter(|it| it.interrupt).count();
    facts.insert("wakers", (wakers as u64, interrupts as u64));
    let calls = trace.switches.iter().filter(|it| it.args.contains_key("syscall")).count();
    let moves = trace.moves.len() as u64;
    facts.extend([("syscalls", (calls as u64, 0)), ("moves", (moves, 0))]);
    facts
}

#[test]
fn facts_are_kept_in_a_window_and_of_a_scope_and_when_such_files_are_cut_merged_and_exported() {
    if !may_record() {
        return;
    }
    let Some(quota) = Quota::new("kept", 10_000) else {
        return skip("no cgroup may have a quota here");
    };
    for (option, value) in [("--mode", "circular"), ("--scope", "app")] {
        let folder = Folder::new();
        let words = quota.words(&[WORKLOAD, "slices", "2", "16"]);
        let mut args = vec!["-q", "--source", "bpf", "--need-resched", option, value];
        args.extend(["-o", "t.fxt", "--"]);
        args.extend(words.iter().map(String::as_str));
        let machine = machine::alone();
        folder.fxtrec(args).expect(0);
        machine.give_back();
        let trace = Trace::read(&folder.path("t.fxt"));
        trace.assert_sound();
        if !["steal", "throttled", "irq"].iter().all(|cause| has(&trace, cause)) {
            return skip("this kernel does not tell all of these facts");
        }
        let by = |switch: &&Switch| switch.args.get("throttled_by") == Some(&quota.name);
        let waits = trace.switches.iter().filter(by).count() as u64;
        let slices = trace.switches.iter().filter(|it| it.args.contains_key("irq_ns")).count();
        let periods = trace.events.iter().filter(|event| event.arg("cgroup") == quota.name).count();
        println!("{value}: {waits} waits, {periods} periods, {slices} slices with interrupts");
        assert!(waits >= 5 && periods >= 5 && slices >= 5, "{waits}, {periods}, {slices}");

        let facts = facts_of(&folder, "t.fxt");
        println!("{facts:?}");
        let throttled = facts.get("throttled").map_or(0, |(count, _)| *count);
        assert!(throttled >= waits && facts.contains_key("steal"), "{waits} waits: {facts:?}");
        for fact in ["irq", "irqs", "wakers", "syscalls"] {
            assert!(facts.get(fact).is_some_and(|(count, _)| *count > 0), "{fact}: {facts:?}");
        }
        let asked = facts.get("need_resched").is_some_and(|(count, _)| *count > 0);
        assert_eq!(asked, has(&trace, "need_resched"), "{facts:?}");
        folder.fxtrec(["cut", "t.fxt", "cut.fxt"]).expect(0);
        assert_eq!(facts_of(&folder, "cut.fxt"), facts, "{value}");
        folder.fxtrec(["merge", "t.fxt", "t.fxt", "-o", "both.fxt"]).expect(0);
        let twice = facts.iter().map(|(name, (count, sum))| (*name, (2 * count, 2 * sum)));
        assert_eq!(facts_of(&folder, "both.fxt"), twice.collect(), "{value}");
        folder.fxtrec(["convert", "t.fxt", "t.json"]).expect(0);
        let json = std::fs::read_to_string(folder.path("t.json")).expect("it was written");
        let drawn = json.matches(r#""name":"throttled""#).count();
        assert!(drawn as u64 >= waits, "{drawn} of {waits} are drawn");
    }
}
