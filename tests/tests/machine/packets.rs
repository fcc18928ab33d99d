//! The causes of wakeups by interrupts: packets of threads on this host, timers.

use std::collections::BTreeMap;

use fxtrec_tests::recording::{Recording, record};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;

const PACKETS: &str = env!("CARGO_BIN_EXE_packets");
const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

/// Whether the recording has this fact.
fn tells(recording: &Recording, fact: &str) -> bool {
    let causes = recording.trace.info().args.get("causes").cloned().unwrap_or_default();
    causes.split(',').any(|cause| cause == fact)
}

/// The data in the wakeups of the threads of pairs.
#[derive(Debug, Default)]
struct Wakers {
    right: usize,
    /// Wakeups by a thread other than the sender of the packet.
    wrong: Vec<(String, String)>,
    /// By an interrupt without a sender, by its cause.
    missing: BTreeMap<String, usize>,
    /// By a thread, without a packet of it.
    by_threads: usize,
}

fn other_end(name: &str) -> Option<String> {
    let (side, pair) = name.split_once('-')?;
    match side {
        "client" => Some(format!("server-{pair}")),
        "server" => Some(format!("client-{pair}")),
        _ => None,
    }
}

fn wakers(recording: &Recording) -> Wakers {
    let name = |koid: u64| recording.trace.threads.get(&koid).map_or("", |it| it.0.as_str());
    let mut found = Wakers::default();
    for wakeup in &recording.trace.wakeups {
        let woken = name(wakeup.thread);
        let Some(sender) = other_end(woken) else { continue };
        match (wakeup.waker.map(name), wakeup.sent) {
            (Some(waker), Some(_)) if waker == sender => found.right += 1,
            // The thread that began it, before it was a server.
            (Some(waker), Some(_)) => found.wrong.push((woken.to_owned(), waker.to_owned())),
            (Some(_), None) => found.by_threads += 1,
            (None, _) => {
                let why = match &wakeup.interrupt_kind {
                    Some(kind) => {
                        format!("{kind} {}", wakeup.interrupt_name.as_deref().unwrap_or(""))
                    }
                    None => "unknown".to_owned(),
                };
                *found.missing.entry(why).or_default() += 1;
            }
        }
    }
    found
}

/// In separate network namespaces, where the path between both ends can be configured.
fn pairs(way: &str, protocol: &str, setup: &str, rounds: usize) {
    const PAIRS: usize = 4;
    let run = format!(
        "mount -t sysfs sysfs /sys && ip link set lo up && {setup} exec {PACKETS} {way} {protocol} {PAIRS} {rounds}"
    );
    let options = ["-a", "--source", "bpf", "--stacks=none", "--ring-size", "16M"];
    let recording = record(&options, &["unshare", "-n", "-m", "sh", "-c", &run]);
    if !tells(&recording, "packets") {
        skip("the kernel does not tell of packets");
        return;
    }
    let found = wakers(&recording);
    println!("{way} {protocol} {setup:?}: {found:?}");
    // A thread that finds its packet there does not wait, and a pair on one CPU alternates.
    assert!(found.right * 4 > PAIRS * rounds, "{found:?}");
    assert!(found.wrong.is_empty(), "{found:?}");
    let missing: usize = found.missing.values().sum();
    assert!(missing * 50 <= found.right, "{found:?}");
}

const RPS: &str = "for file in /sys/class/net/*/queues/rx-0/rps_cpus; do echo 3 > $file; done;";

#[test]
fn whom_a_packet_of_tcp_wakes_was_woken_by_who_sent_it() {
    if !may_record() {
        return;
    }
    for setup in ["", RPS] {
        pairs("lo", "tcp", setup, 2_500);
    }
}

#[test]
fn whom_a_packet_of_udp_wakes_was_woken_by_who_sent_it() {
    if !may_record() {
        return;
    }
    for setup in ["", RPS] {
        pairs("lo", "udp", setup, 2_500);
    }
}

#[test]
fn a_packet_is_followed_from_one_network_namespace_to_another() {
    if !may_record() {
        return;
    }
    for protocol in ["tcp", "udp"] {
        pairs("veth", protocol, "", 2_500);
    }
}

#[test]
fn a_thread_that_sleeps_is_woken_by_its_own_timer() {
    if !may_record() {
        return;
    }
    let recording = record(&["-a", "--source", "bpf", "--stacks=none"], &[PLANTED, "ticker"]);
    if !tells(&recording, "interrupt_kind") {
        skip("the kernel does not tell of interrupts");
        return;
    }
    let named = |koid: u64| recording.trace.threads.get(&koid).is_some_and(|it| it.0 == "ticker");
    let by_interrupt = recording.trace.wakeups.iter().filter(|it| named(it.thread) && it.interrupt);
    let found: Vec<_> = by_interrupt.map(|it| (&it.interrupt_kind, &it.interrupt_name)).collect();
    let timer = (&Some("hrtimer".to_owned()), &Some("hrtimer_wakeup".to_owned()));
    let timers = found.iter().filter(|it| **it == timer).count();
    // The other wakeups belong to its start and end.
    assert!(timers >= 3 && timers * 2 > found.len(), "{found:?}");
}
