//! What interrupts took of slices, and since when their end was asked for.

use std::collections::{BTreeMap, BTreeSet};

use fxt_reader::ThreadState;
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::{Switch, Trace, now};
use fxtrec_tests::tracing::{Instance, Seen, has_event};

use super::causes::{has, record_machine, run};

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

/// Interrupts within a slice: how many, and how long they took, nested ones counted once.
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

/// The switches of a CPU.
fn of_cpu(trace: &Trace, cpu: u16) -> Vec<&Switch> {
    trace.switches.iter().filter(|switch| switch.cpu == cpu).collect()
}

#[test]
fn interrupts_in_slices_are_as_many_and_as_long_as_a_tracing_instance_sees_them() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let instance = Instance::new("irqs", &interrupts());
    let mut times = (0, 0);
    let Some(recording) = record_machine(&["--source", "bpf"], || {
        instance.switch(true);
        times.0 = now();
        run(&["slices", "3", "400"]);
        times.1 = now();
        instance.switch(false);
    }) else {
        return;
    };
    let trace = &recording.trace;
    if !has(trace, "irq") {
        return skip("this kernel does not let programs count interrupts");
    }
    let (mut all, mut slices, mut untold) = ((0, 0), 0, 0);
    let cpus: BTreeSet<u16> = trace.switches.iter().map(|switch| switch.cpu).collect();
    for cpu in cpus {
        let seen = instance.read(cpu);
        let (mut found, mut expected) = ((0, 0), (0, 0));
        for pair in of_cpu(trace, cpu).windows(2) {
            let [before, switch] = pair else { continue };
            if before.time < times.0 || switch.time > times.1 {
                continue;
            }
            let [nanos, count] = ["irq_ns", "irqs"].map(|name| switch.number(name));
            if before.inferred || switch.inferred {
                // Nobody knows whose they are.
                assert_eq!(count, 0, "{switch:?}");
                continue;
            }
            let (known, known_nanos) = within(&seen, before.time, switch.time);
            slices += u64::from(known > 0);
            if count == 0 && known > 0 {
                // The encoder lost sight of who had the CPU, as when an id is another's by now.
                untold += 1;
                continue;
            }
            assert_eq!(count, known, "{switch:?} after {before:?}");
            assert!(nanos <= switch.time - before.time, "{switch:?} after {before:?}");
            assert_eq!(nanos > 0, count > 0, "{switch:?}");
            found = (found.0 + count, found.1 + nanos);
            expected = (expected.0 + known, expected.1 + known_nanos);
        }
        println!("CPU {cpu}: {found:?}, the instance saw {expected:?}");
        let tolerance = expected.1 / 20;
        assert!(found.1.abs_diff(expected.1) <= tolerance, "CPU {cpu}: {found:?}, {expected:?}");
        all = (all.0 + found.0, all.1 + found.1);
    }
    println!("of {slices} slices with interrupts, {untold} do not tell of them");
    assert!(untold * 100 <= slices, "{untold} of {slices}");
    assert!(all.0 > 500 && all.1 > 500_000, "{all:?}: a tick, and a timer for each sleep");
}

#[test]
fn a_switch_of_a_thread_that_would_run_on_was_asked_for_within_its_slice() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let mut printed = String::new();
    let Some(recording) = record_machine(&["--source", "bpf", "--need-resched"], || {
        printed = run(&["slices", "4", "300"]);
    }) else {
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
        // When an inferred switch happened is not known.
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
    // A sleep may be over before the thread has left.
    assert!(unasked.len() * 100 <= asked, "{} of {asked}: {:?}", unasked.len(), unasked.first());
    assert!(slept >= 300, "they sleep when nobody asks: {slept}");
}
