//! Which disk requests woke the threads that had submitted them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;

const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

/// The kernel's counts for the disk of a directory: the number of writes done, and the sum of their times in milliseconds.
fn writes_below(folder: &Path) -> Option<(u64, u64)> {
    let device = fs::metadata(folder).expect("it is there").dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let numbers: Vec<u64> = stat.split_whitespace().map(|it| it.parse().unwrap_or(0)).collect();
    Some((*numbers.get(4)?, *numbers.get(7)?))
}

#[test]
fn whom_the_end_of_a_request_wakes_is_who_made_it() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let place = folder.path(".");
    let Some(before) = writes_below(&place) else {
        return skip("the folder for temporary files is on no disk");
    };
    let options = ["-a", "--source", "bpf", "--stacks=none"];
    let run = format!("cd {} && exec {PLANTED} direct-writes", place.display());
    let recording = record(&options, &["sh", "-c", &run]);
    let causes = recording.trace.info().args.get("causes").cloned().unwrap_or_default();
    if !causes.split(',').any(|cause| cause == "requests") {
        return skip("the kernel does not tell of requests");
    }
    let after = writes_below(&place).expect("as before");
    let (mut right, mut merged, mut queued, mut in_disk) = (0, 0, 0, 0);
    let mut others = BTreeMap::<String, usize>::new();
    let name = |koid: u64| recording.trace.threads.get(&koid).map_or("", |it| it.0.as_str());
    for wakeup in &recording.trace.wakeups {
        if !name(wakeup.thread).starts_with("writer-") || !wakeup.interrupt {
            continue;
        }
        let kind = wakeup.interrupt_kind.as_deref().unwrap_or("unknown");
        let what = wakeup.interrupt_name.as_deref().unwrap_or("");
        let by = wakeup.request_by.map(|by| if by == wakeup.thread { "own" } else { name(by) });
        if kind == "request" && what.starts_with("write ") && by == Some("own") {
            // The kernel may merge writes of two threads to neighbouring blocks.
            assert!(wakeup.request_bytes.is_some_and(|it| it % 4096 == 0 && it > 0), "{wakeup:?}");
            merged += usize::from(wakeup.request_bytes != Some(4096));
            let (whole, device) = (wakeup.request_ns, wakeup.device_ns);
            let (whole, device) = whole.zip(device).expect("both are known of one's own");
            assert!(device > 0 && device <= whole, "{wakeup:?}");
            queued += whole - device;
            in_disk += device;
            right += 1;
        } else {
            *others.entry(format!("{kind} {what} by {by:?}")).or_default() += 1;
        }
    }
    println!("{right} right, {queued} ns queued, {in_disk} ns in the disk, others: {others:?}");
    // A write that is done before its thread sleeps wakes no thread.
    assert!(right >= 800, "{right} of 1000, others: {others:?}");
    assert!(merged * 20 <= right, "{merged} of {right} were merged");
    assert!(others.values().sum::<usize>() * 50 <= right, "{others:?}");
    // A page of their program that several wait for was read for one of them.
    let is_anothers = |it: &String| it.starts_with("request write ") && it.contains("writer-");
    assert!(!others.keys().any(is_anothers), "another's: {others:?}");
    let (count, millis) = (after.0 - before.0, after.1 - before.1);
    assert!(right as u64 <= count, "the disk did {count} writes");
    // The kernel counts each in whole milliseconds, from when it began until it was done; a wakeup follows that.
    let sum = (queued + in_disk) / 1_000_000;
    assert!(sum <= millis + count, "{sum} ms of {millis} ms in {count} writes");
}
