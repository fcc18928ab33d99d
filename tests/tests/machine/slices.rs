//! The time that interrupts took from slices, and since when their end was requested.

use std::collections::{BTreeMap, BTreeSet};

use fxt_reader::ThreadState;
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::{Switch, Trace, now};
use fxtrec_tests::tracing::{Instance, Seen, has_event};

use super::causes::{assert_stolen_as_counted, has, record_machine, run};

/// The begins of interrupts, each followed by its end.
fn interrupts() -> Vec<String> {
    let version = std::fs::read_to_string("/proc/version").expect("a version");
    let mut pairs = vec!["irq/irq_handler".to_owned()];
    if !version.contains("PREEMPT_RT") {
        pairs.push("irq/softirq".to_owned());
    }
    let vectors = std::fs::read_dir("/sys/kernel/tracing/events/irq_vectors");
    for vector in vectors.into_iter().flatten() {
        let name = vector.expect("an entry").file_name().into_string().expect("text");
        pairs.extend(name.strip_suffix("_entry").map(|name| format!("irq_vectors/{name}")));
    }
    let ends = |pair: &String| ["entry", "exit"].map(|end| format!("{pair}_{end}"));
    pairs.iter().flat_map(ends).filter(|event| has_event(event)).collect()
}

/// Interrupts within a slice: their number, and their time, with nested ones counted once.
fn within(seen: &[Seen], from: u64, to: u64) -> (u64, u64) {
    let begin = seen.partition_point(|seen| seen.time <= from);
    let end = seen.partition_point(|seen| seen.time <= to);
    let (mut count, mut sum, mut depth, mut since) = (0, 0, 0_u64, 0);
    for Seen { time, event } in &seen[begin..end] {
        if event.is_multiple_of(2) {
            count += 1;
            depth += 1;
            since = if depth == 1 { *time } else { since };
        } else {
            depth -= 1;
            sum += if depth == 0 { time - since } else { 0 };
        }
    }
    (count, sum)
}

/// The relative difference of two figures.
fn share(found: u64, expected: u64) -> f64 {
    found.abs_diff(expected) as f64 / expected as f64
}

/// The interrupts of a slice, according to two recorders.
struct Times {
    count: u64,
    found: u64,
    other: u64,
}

/// Asserts that the time of interrupts in slices equals the other recorder's for the same slices.
///
/// The two read the clock one after the other, at the beginning and at the end of an interrupt: time in between is in only one of them,
/// whether it is the other one's write or stolen time. That write takes a few hundred nanoseconds of each interrupt, more on a slow
/// machine, and many interrupts are not much longer; stolen time distorts the sum, but never the median.
fn assert_close(what: &str, times: &[Times]) {
    let median = |of: fn(&Times) -> f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let relative = median(|times| share(times.found, times.other));
    let each = median(|times| times.found.abs_diff(times.other) as f64 / times.count as f64);
    let sum = |of: fn(&Times) -> u64| times.iter().map(of).sum::<u64>();
    let (found, other) = (sum(|times| times.found), sum(|times| times.other));
    let apart = share(found, other);
    let text = format!(
        "{what}: {found} ns in {} slices, {other} by the other: {apart}; at the median {relative}, {each} ns for each interrupt",
        times.len()
    );
    println!("{text}");
    assert!(relative.min(apart) <= 0.05 || each <= 1500.0, "{text}");
    assert!(apart <= 0.25, "{text}");
}

/// The switches of a CPU.
fn of_cpu(trace: &Trace, cpu: u16) -> Vec<&Switch> {
    trace.switches.iter().filter(|switch| switch.cpu == cpu).collect()
}

#[test]
fn what_the_host_and_interrupts_took_of_slices_is_as_the_kernel_counts_and_an_instance_sees_it() {
    if !may_record() {
        return;
    }
    let instance = Instance::new("irqs", &interrupts());
    let mut times = (0, 0);
    let Some(recording) = record_machine(machine::alone(), &["--source", "bpf"], || {
        instance.switch(true);
        times.0 = now();
        run(&["slices", "3", "250"]);
        times.1 = now();
        instance.switch(false);
    }) else {
        return;
    };
    let trace = &recording.trace;
    assert_stolen_as_counted(trace);
    if !has(trace, "irq") {
        return skip("this kernel does not let programs count interrupts");
    }
    let (mut all, mut slices) = ((0, 0), 0);
    let cpus: BTreeSet<u16> = trace.switches.iter().map(|switch| switch.cpu).collect();
    for cpu in cpus {
        let seen = instance.read(cpu);
        let (mut found, mut reported) = ((0, 0), Vec::new());
        for pair in of_cpu(trace, cpu).windows(2) {
            let [before, switch] = pair else { continue };
            if before.time < times.0 || switch.time > times.1 {
                continue;
            }
            let [nanos, count] = ["irq_ns", "irqs"].map(|name| switch.number(name));
            if before.inferred || switch.inferred {
                // Their owner is unknown.
                assert_eq!(count, 0, "{switch:?}");
                continue;
            }
            let (known, known_nanos) = within(&seen, before.time, switch.time);
            slices += u64::from(known > 0);
            assert_eq!(count, known, "{switch:?} after {before:?}");
            assert!(nanos <= switch.time - before.time, "{switch:?} after {before:?}");
            assert_eq!(nanos > 0, count > 0, "{switch:?}");
            if count > 0 {
                reported.push(Times { count, found: nanos, other: known_nanos });
            }
            found = (found.0 + count, found.1 + nanos);
        }
        assert_close(&format!("CPU {cpu}"), &reported);
        all = (all.0 + found.0, all.1 + found.1);
    }
    println!("{slices} slices with interrupts");
    assert!(all.0 > 500 && all.1 > 500_000, "{all:?}: a tick, and a timer for each sleep");
}

/// The interrupts that `--irq` records, by CPU, as an instance would report them.
fn recorded_interrupts(trace: &Trace) -> BTreeMap<u16, Vec<Seen>> {
    let mut by_cpu: BTreeMap<u16, Vec<Seen>> = BTreeMap::new();
    for event in trace.events.iter().filter(|event| event.begins() || event.ends()) {
        let (name, _) = &trace.threads[&event.thread];
        let cpu = name.strip_prefix("CPU ").and_then(|cpu| cpu.parse().ok()).expect("a CPU");
        let seen = Seen { time: event.time, event: usize::from(event.ends()) };
        by_cpu.entry(cpu).or_default().push(seen);
    }
    by_cpu
}

#[test]
fn interrupts_in_slices_take_as_long_as_those_that_are_recorded_one_by_one() {
    if !may_record() {
        return;
    }
    let Some(recording) = record_machine(machine::alone(), &["--source", "bpf", "--irq"], || {
        run(&["slices", "3", "200"]);
    }) else {
        return;
    };
    let trace = &recording.trace;
    if !has(trace, "irq") {
        return skip("this kernel does not let programs count interrupts");
    }
    let by_cpu = recorded_interrupts(trace);
    let (mut slices, mut times) = (0, Vec::new());
    for (cpu, seen) in &by_cpu {
        for pair in of_cpu(trace, *cpu).windows(2) {
            let [before, switch] = pair else { continue };
            let [nanos, count] = ["irq_ns", "irqs"].map(|name| switch.number(name));
            if count == 0 {
                continue;
            }
            slices += 1;
            // perf reports neither the interrupts that it uses itself nor those of silent tasks.
            let (known, known_nanos) = within(seen, before.time, switch.time);
            assert!(known <= count, "{known} recorded in {switch:?} after {before:?}");
            if known == count {
                times.push(Times { count, found: nanos, other: known_nanos });
            }
        }
    }
    println!("{} of {slices} slices have as many of them", times.len());
    assert!(times.len() * 2 > slices && times.len() > 500, "{} of {slices}", times.len());
    assert_close("recorded one by one", &times);
}

#[test]
fn a_switch_of_a_thread_that_would_run_on_was_asked_for_within_its_slice() {
    if !may_record() {
        return;
    }
    let mut printed = String::new();
    let Some(recording) =
        record_machine(machine::alone(), &["--source", "bpf", "--need-resched"], || {
            printed = run(&["slices", "4", "150"]);
        })
    else {
        return;
    };
    let trace = &recording.trace;
    if !has(trace, "need_resched") {
        return skip("this kernel does not tell when a switch is asked for");
    }
    let threads: Vec<u64> = printed
        .lines()
        .map(|line| line.split(' ').next().expect("a word").parse().expect("a thread"))
        .collect();
    let mut before: BTreeMap<u16, &Switch> = BTreeMap::new();
    let (mut asked, mut unasked, mut slept) = (0, Vec::new(), 0);
    for switch in &trace.switches {
        let begin = before.insert(switch.cpu, switch);
        let request = switch.args.contains_key("need_resched_ns");
        // It is unknown when an inferred switch happened.
        if let Some(begin) = begin.filter(|begin| request && !begin.inferred) {
            let within = switch.time - begin.time;
            let nanos = switch.number("need_resched_ns");
            assert!(nanos > 0 && nanos <= within, "{switch:?} after {within} ns");
        }
        if !threads.contains(&switch.outgoing) || switch.inferred {
            continue;
        }
        match switch.state {
            // It computes or sleeps, and never yields.
            ThreadState::Running if !switch.args.contains_key("throttled") => match request {
                true => asked += 1,
                false => unasked.push(switch),
            },
            _ => slept += u64::from(!request),
        }
    }
    println!("{asked} asked for, {} not, {slept} of their own accord", unasked.len());
    assert!(asked >= 100, "four threads share the CPUs: {asked}");
    // A sleep may be over before the thread has been switched out.
    assert!(unasked.len() * 100 <= asked, "{} of {asked}: {:?}", unasked.len(), unasked.first());
    assert!(slept >= 300, "they sleep when nobody asks: {slept}");
}
