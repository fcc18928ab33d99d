//! Machines with many CPUs, which a process simulates: see `fxtrec_tests::synthetic`.

use std::process::Command;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::synthetic::player::Played;
use fxtrec_tests::synthetic::verdict::{Verdict, judge};

/// 512 CPUs in blocks of 64, with holes between them, and as many again that are offline.
const ONLINE: &str = "0-63,96-159,192-255,288-351,384-447,480-543,576-639,672-735";
const POSSIBLE: &str = "0-1023";

/// Records what is simulated on them with these options of `fxtrec` and these arguments after COMMAND's files, after `limit` was set.
fn record(folder: &Folder, limit: &[&str], options: &[&str], play: &[&str]) -> Command {
    let many = env!("CARGO_BIN_EXE_many");
    let path = |name: &str| folder.text(name);
    let mut command = Command::new("prlimit");
    command.args(limit).arg("--").arg(many).args(["record", ONLINE, POSSIBLE]);
    command.args([&path("wiring"), &path("figures"), "fxtrec", "-a", "--no-summary"]);
    command.args(["--source", "bpf", "-o", &path("t.fxt")]).args(options);
    command.args(["--", many, "play", &path("wiring"), &path("played")]).args(play);
    command
}

/// The simulated events and the events in the trace, if they agree.
fn judged(folder: &Folder) -> (Played, Verdict) {
    let played = std::fs::read_to_string(folder.path("played")).expect("it was played");
    let played = serde_json::from_str(&played).ok().and_then(|json| Played::from_json(&json));
    let played = played.expect("what was played");
    let verdict = judge(&folder.path("t.fxt"), &played).expect("the trace can be read");
    assert!(verdict.faults.is_empty(), "{:#?}", verdict.faults);
    let check = folder.fxtrec(["dump", "--check", "t.fxt"]);
    check.expect(0);
    (played, verdict)
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn all_events_of_512_cpus_are_in_the_trace_and_in_order() {
    if !may_record() {
        return;
    }
    let _alone = machine::alone();
    let folder = Folder::new();
    // Far fewer than the lanes have room for: however slow the machine is, nothing is lost. fxtrec has to raise the limit.
    let limit = ["--nofile=1024:"];
    let play = ["200000", "1", "even"];
    folder.run(&mut record(&folder, &limit, &[], &play)).expect(0);
    let (played, verdict) = judged(&folder);
    assert_eq!(played.cpus.len(), 512);
    assert!(played.cpus.iter().all(|(_, switches, _)| *switches > 0), "every CPU did something");
    assert_eq!((played.lost, verdict.recorded), (0, played.produced));
}

#[test]
fn what_full_lanes_lose_is_counted_for_each_cpu() {
    if !may_record() {
        return;
    }
    for threads in ["1", "4"] {
        let machine = machine::quiet();
        let folder = Folder::new();
        let limit = ["--nofile=1024:"];
        let options = ["--ring-size", "64K", "--capture-threads", threads];
        let play = ["0", "0", "overflow"];
        folder.run(&mut record(&folder, &limit, &options, &play)).expect(0);
        machine.give_back();
        let (played, verdict) = judged(&folder);
        let of_full = |(at, (_, _, lost)): (usize, &(u32, u64, u64))| (at % 64 == 0) == (*lost > 0);
        assert!(
            played.cpus.iter().enumerate().all(of_full),
            "eight lanes were full: {:?}",
            played.cpus
        );
        assert_eq!(verdict.lost, played.lost, "{threads} threads");
    }
}

#[test]
fn a_limit_of_open_files_that_cannot_be_raised_is_named() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // Root may raise a hard limit, too, but not without this capability.
    let limit = ["--nofile=1024:1024", "setpriv", "--bounding-set=-sys_resource"];
    let mut command = record(&folder, &limit, &[], &["1000", "1", "even"]);
    let done = folder.run(&mut command);
    assert_ne!(done.code, 0);
    let said = &done.stderr;
    assert!(said.contains("1024") && said.contains("ulimit -n"), "{said}");
}
