//! The memory of a recorder with default options, whatever runs: the limits of docs/reference/recording.md.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::spawn;
use fxtrec_tests::programs::{Built, build};
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;

/// The maximum resident memory of the whole recorder, in bytes.
const MOST: u64 = 256 << 20;

fn crowd(flags: &[&str]) -> Built {
    build("crowd.c", flags)
}

/// The resident memory of a process, in bytes, with its share of shared memory.
fn resident(pid: &str) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The helper processes of a recorder.
fn helpers(recorder: u32) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").expect("it is there").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().into_string().ok());
    let is_one = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(')') else { return false };
        let parent = tail.split_whitespace().nth(1).and_then(|it| it.parse().ok());
        head.ends_with("(fxtrec-files") && parent == Some(recorder)
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && is_one(pid)).collect()
}

/// The maximum resident memory of a recorder and its helpers together, as far as it was seen until `ended`, and whether a helper was seen.
fn watch(recorder: u32, ended: &AtomicBool) -> (u64, bool) {
    let (mut most, mut seen) = (0, false);
    while !ended.load(Ordering::Relaxed) {
        let helpers = helpers(recorder);
        seen |= !helpers.is_empty();
        let all = helpers.iter().map(|pid| resident(pid)).sum::<u64>();
        most = most.max(all + resident(&recorder.to_string()));
        std::thread::sleep(Duration::from_millis(20));
    }
    (most, seen)
}

/// Waits until a child ends: its exit status, and its maximum resident memory, in bytes.
fn peak(pid: u32) -> (i32, u64) {
    let mut status = 0;
    // SAFETY: rusage is a struct of integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are of local variables of the types that wait4(2) writes; nothing else waits for the child, since the caller
    // drops its handle without waiting.
    let ended = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    assert_eq!(ended, pid as libc::pid_t, "{}", std::io::Error::last_os_error());
    assert!(libc::WIFEXITED(status), "it ended by a signal: {status}");
    (libc::WEXITSTATUS(status), usage.ru_maxrss as u64 * 1024)
}

/// Records COMMAND with default options, and these: returns fxtrec's messages.
#[track_caller]
fn bounded(options: &[&str], command: &[&str]) -> String {
    let folder = Folder::new();
    let said = std::fs::File::create(folder.path("said")).expect("room");
    let mut fxtrec: Command = binary::command();
    fxtrec.current_dir(folder.path("")).args(["-o", "t.fxt"]).args(options).arg("--");
    fxtrec.args(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let pid = spawn(&mut fxtrec).id();
    let ended = AtomicBool::new(false);
    let ((status, bytes), (together, seen)) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| watch(pid, &ended));
        let peak = peak(pid);
        ended.store(true, Ordering::Relaxed);
        (peak, watched.join().expect("it only looks"))
    });
    let said = std::fs::read_to_string(folder.path("said")).expect("text");
    assert_eq!(status, 0, "{said}");
    assert!(bytes <= MOST, "{} MiB\n{said}", bytes >> 20);
    assert!(together <= MOST, "{} MiB with its helpers\n{said}", together >> 20);
    assert!(seen, "it reads files in a process of its own\n{said}");
    let trace = Trace::read(Path::new(&folder.path("t.fxt")));
    trace.assert_sound();
    said
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn four_hundred_threads_that_sleep_for_a_millisecond_take_no_gigabytes() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let crowd = crowd(&[]);
    bounded(&[], &[crowd.text(), "sleepers", "400", "600"]);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn twenty_thousand_threads_have_their_place() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let crowd = crowd(&[]);
    bounded(&["--stacks=offcpu,wake"], &[crowd.text(), "sleepers", "20000", "3"]);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn five_thousand_programs_are_not_all_kept() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let crowd = crowd(&[]);
    bounded(&[], &[crowd.text(), "programs", "5000"]);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn a_large_file_is_indexed_once_however_often_it_is_mapped() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let crowd = crowd(&["-DMANY", "-Wl,--no-eh-frame-hdr"]);
    bounded(&[], &[crowd.text(), "mappings", "208"]);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn thirty_thousand_mappings_take_no_minutes() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let crowd = crowd(&[]);
    bounded(&[], &[crowd.text(), "mappings", "30000"]);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn callers_that_programs_make_up_take_no_more_than_others() {
    if !may_record() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let _turn = machine::alone();
    let liar = build("liar.c", &[]);
    let said = bounded(&[], &[liar.text(), "6000", "16"]);
    // As many frames as there was no room for, so that the limits were reached.
    assert!(said.contains("frames unnamed"), "{said}");
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn strings_of_applications_are_not_all_kept() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let hoards = format!(
        "for number in 1 2 3 4 5 6 7 8; do {} 2000 31000 & done; wait",
        env!("CARGO_BIN_EXE_hoard")
    );
    // For a verdict, a long trace is read again.
    let said = bounded(&["--fail-if", "wakeup.p99 > 1h"], &["sh", "-c", &hoards]);
    assert!(said.contains("strings that programs registered, shown here as"), "{said}");
}
