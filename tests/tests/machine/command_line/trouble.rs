//! fxtrec is killed, or the disk is full: the data that was recorded can be read.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::command_line::run::{Fxtrec, Running, pingpong};
use crate::command_line::trace::Trace;

const SECOND: u64 = 1_000_000_000;

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(time.tv_sec()).unwrap() * SECOND + u64::try_from(time.tv_nsec()).unwrap()
}

const FORMATS: [&str; 3] = ["t.fxt", "t.fxt.gz", "t.fxt.zst"];

/// Starts a recording of a command that prints `ready` and never ends.
fn start(name: &str, command: &[&str]) -> Running {
    let running = Fxtrec::new(["-o", name, "--"]).with(|c| c.args(command)).start();
    running.wait_for_output("ready");
    running
}

/// Kills it. Returns the remaining data, and when it was read.
fn kill(running: Running, name: &str) -> (Trace, u64) {
    let killed = now();
    running.signal(Signal::SIGKILL);
    let done = running.finish().expect(1009);
    (Trace::open(&done.path(name)), killed)
}

#[test]
fn a_recorder_killed_at_full_speed_leaves_whole_records() {
    if !may_record() {
        return;
    }
    let pingpong = pingpong().to_str().unwrap();
    let _turn = machine::quiet();
    for name in FORMATS {
        let running = start(name, &[pingpong, "forever"]);
        // Many buffers, and pieces of a compressed file.
        let enough = if name == "t.fxt" { 4 << 20 } else { 1 << 18 };
        let path = running.path(name);
        let has_enough = || fs::metadata(&path).is_ok_and(|file| file.len() > enough);
        wait::until("a good deal of records", has_enough);
        let (trace, _) = kill(running, name);
        assert_eq!(trace.summary.damaged_regions, 0, "{name}");
        assert!(trace.switches > 0 && !trace.ended, "{name}");
    }
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn a_killed_recorder_lacks_no_more_than_the_last_second() {
    if !may_record() {
        return;
    }
    // Loads that leave the machine idle time, so that only fxtrec's own behaviour counts: hardly an event, some, many.
    let scripts = [
        "echo ready; exec sleep 1000",
        "echo ready; while :; do sleep 0.01; done",
        "echo ready; while :; do sleep 0.001; done & while :; do sleep 0; done",
    ];
    let _turn = machine::alone();
    for script in scripts {
        let running = FORMATS.map(|name| (start(name, &["sh", "-c", script]), name));
        let begin = now();
        wait::until("more than two seconds of records", || now() - begin > 2 * SECOND);
        for (running, name) in running {
            let (trace, killed) = kill(running, name);
            let missing = killed.saturating_sub(trace.last_time);
            assert!(missing <= SECOND, "{script}: {name} lacks the last {missing} ns");
        }
    }
}

/// A file system of a few kilobytes, which is removed at the end of the test.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(size: &str) -> SmallDisk {
        let dir = TempDir::new().unwrap();
        let options = format!("size={size}");
        let flags = MsFlags::empty();
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), flags, Some(options.as_str())).unwrap();
        SmallDisk(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_is_an_error_after_command_ended_and_the_file_can_be_read() {
    if !may_record() {
        return;
    }
    for name in FORMATS {
        let disk = SmallDisk::new("128k");
        let path = disk.path(name);
        let done = Fxtrec::new(["-o", path.to_str().unwrap(), "--"])
            .with(|command| command.arg(pingpong()).arg("100000"))
            .run()
            .expect(125);
        assert_eq!(done.stdout, b"ready\ndone\n", "COMMAND ran to its end");
        assert!(done.stderr.contains("No space left on device"), "{}", done.stderr);
        assert!(done.stderr.contains(name), "{}", done.stderr);
        let trace = Trace::open(&path);
        let length = fs::metadata(&path).unwrap().len();
        // Compressors may still hold all of it.
        let is_empty = length == 0 && name != "t.fxt";
        assert!(trace.summary.is_complete() || is_empty, "{name}: {:?}", trace.summary);
        assert!(length <= 128 * 1024);
        assert!(trace.switches > 0 || name != "t.fxt", "{name}");
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_like_a_full_disk() {
    if !may_record() {
        return;
    }
    const LIMIT: u64 = 100 * 1024;
    let done = Fxtrec::new(["-o", "t.fxt", "--"])
        .with(|command| {
            command.arg(pingpong()).arg("50000");
            // SAFETY: between fork and exec, only one system call is made.
            unsafe {
                command.pre_exec(|| {
                    setrlimit(Resource::RLIMIT_FSIZE, LIMIT, LIMIT).map_err(std::io::Error::from)
                })
            }
        })
        .run()
        .expect(125);
    assert_eq!(done.stdout, b"ready\ndone\n", "COMMAND ran to its end");
    assert!(done.stderr.contains("File too large"), "{}", done.stderr);
    let trace = Trace::open(&done.path("t.fxt"));
    assert!(trace.summary.is_complete() && trace.switches > 0, "{:?}", trace.summary);
    assert!(trace.summary.record_bytes <= LIMIT);
}

#[test]
fn a_low_limit_of_memory_ends_in_a_message_and_never_by_a_signal() {
    if !may_record() {
        return;
    }
    let mut refused = 0;
    // From what the program's file needs to what a recording needs.
    for megabytes in [50, 60, 75, 90, 110, 130] {
        let limit = move || {
            let bytes = megabytes << 20;
            setrlimit(Resource::RLIMIT_AS, bytes, bytes).map_err(Into::into)
        };
        let command = ["-o", "t.fxt", "--", "true"];
        // SAFETY: `setrlimit` is only a system call, which the child of a multi-threaded program may make before exec.
        let done = Fxtrec::new(command).with(|c| unsafe { c.pre_exec(limit) }).run();
        assert!([0, 125].contains(&done.code), "{megabytes} MiB: {} {}", done.code, done.stderr);
        assert!(done.code == 0 || done.stderr.contains("fxtrec: "), "{}", done.stderr);
        refused += u32::from(done.stderr.contains("fxtrec: out of memory"));
    }
    assert!(refused > 0, "at least one limit was below what is needed");
}

#[test]
fn a_low_limit_of_open_files_is_raised_for_the_recorder_alone() {
    if !may_record() {
        return;
    }
    const FILES: u64 = 20;
    let with_files = |soft, hard, options: &[&str]| {
        let command = ["-o", "t.fxt", "--", "sh", "-c", "ulimit -n"];
        let limit = move || setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(Into::into);
        // SAFETY: `setrlimit` is only a system call, which the child of a multi-threaded program may make before exec.
        Fxtrec::new(options).with(|c| unsafe { c.args(command).pre_exec(limit) }).run()
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The configuration with the most programs: interrupts and system calls have separate programs.
    let most = ["--syscalls", "--irq", "--stacks=offcpu,wake,cpu"];
    let by = |source| ["--source", source];
    for options in [&most[..], &[], &by("bpf"), &by("perf"), &by("ftrace")] {
        let done = with_files(FILES, hard, options).expect(0);
        assert_eq!(done.stdout, b"20\n", "COMMAND has its own: {options:?}");
    }
    let done = with_files(FILES, FILES, &[]);
    assert!(done.code != 0 && done.stderr.contains("ulimit -n"), "{}", done.stderr);
    assert!(!done.stderr.contains("mount"), "{}", done.stderr);
}
