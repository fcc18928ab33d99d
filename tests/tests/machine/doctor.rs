//! `fxtrec doctor` with different rights and in different namespaces.
//!
//! Each test creates one situation with the tools of util-linux and
//! libcap, and compares doctor's output with the facts.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use fxtrec_tests::binary::PublicCopy;
use fxtrec_tests::root;

/// Doctor's output, and whether it found that the main uses work.
struct Diagnosis {
    text: String,
    works: bool,
}

impl Diagnosis {
    /// The status of a check or a use, and its text up to the end of the line.
    fn row(&self, name: &str) -> (&str, &str) {
        let row = self.text.lines().find_map(|line| {
            let (status, rest) = line.split_once(' ')?;
            Some((status, rest.trim_start().strip_prefix(name)?.trim_start()))
        });
        row.unwrap_or_else(|| panic!("no row {name} in\n{}", self.text))
    }

    fn has(&self, text: &str) {
        assert!(self.text.contains(text), "no `{text}` in\n{}", self.text);
    }

    /// The exit status and the verdicts agree, and are these.
    fn verdict(&self, works: bool) {
        assert_eq!(self.works, works, "exit status:\n{}", self.text);
        let answer = if works { "yes" } else { "NO" };
        for usage in ["fxtrec -- COMMAND", "fxtrec -a", "fxtrec -p PID", "latency in CI"] {
            assert_eq!(self.row(usage).0, answer, "{usage}:\n{}", self.text);
        }
        assert_eq!(self.text.contains("What to do:"), !works, "{}", self.text);
    }
}

/// Runs doctor through `wrapper`, a program with arguments that runs another one.
fn doctor(copy: &PublicCopy, wrapper: &str) -> Diagnosis {
    let wrapper: Vec<&str> = wrapper.split_whitespace().collect();
    doctor_behind(copy, &wrapper)
}

fn doctor_behind(copy: &PublicCopy, wrapper: &[&str]) -> Diagnosis {
    let path = copy.path();
    let mut command = match wrapper {
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&path);
            command
        }
        [] => Command::new(&path),
    };
    let Output { status, stdout, stderr } =
        command.arg("doctor").current_dir("/").output().expect("the wrapper is installed");
    let text = String::from_utf8(stdout).expect("doctor prints text");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(matches!(status.code(), Some(0 | 1)), "{wrapper:?}: {status}\n{text}{errors}");
    assert_eq!(errors, "", "{wrapper:?}: results go to standard output alone");
    Diagnosis { text, works: status.code() == Some(0) }
}

/// The same if the tracepoints can be read, and no tracing instance can be created.
fn behind_closed_tracefs(copy: &PublicCopy, wrapper: &str) -> Diagnosis {
    let close = "mount -o remount,bind,ro /sys/kernel/tracing && exec \"$0\" \"$@\"";
    let unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", close];
    let words: Vec<&str> = unshare.into_iter().chain(wrapper.split_whitespace()).collect();
    doctor_behind(copy, &words)
}

const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

#[test]
fn root_can_do_everything() {
    if !root::or_skip("it asks what root may do") {
        return;
    }
    let found = doctor(&PublicCopy::new(), "");
    found.verdict(true);
    for check in
        ["tracefs", "tracepoints", "perf events", "ftrace", "capabilities", "paranoid level"]
    {
        assert_eq!(found.row(check).0, "ok", "{check}:\n{}", found.text);
    }
    assert!(!found.text.contains("FAIL"), "{}", found.text);
}

#[test]
fn an_ordinary_user_is_shown_what_is_closed_and_how_to_open_it() {
    let copy = PublicCopy::new();
    let is_root = nix::unistd::geteuid().is_root();
    let found = doctor(&copy, if is_root { NOBODY } else { "" });
    found.verdict(false);
    assert_eq!(found.row("tracefs").0, "FAIL");
    assert_eq!(found.row("capabilities"), ("warn", "none that fxtrec can use"));
    found.has("What to do: Run fxtrec with sudo, or run this once: sudo setcap cap_perfmon,");
    found.has(&format!("+ep {}", copy.path().display()));
}

#[test]
fn a_user_made_by_su_is_told_the_same() {
    if !root::or_skip("su asks others for a password") {
        return;
    }
    let copy = PublicCopy::new();
    let path = copy.path();
    let line = format!("{} doctor", path.display());
    let output = Command::new("su")
        .args(["-s", "/bin/sh", "-c", &line, "nobody"])
        .current_dir("/")
        .output()
        .expect("su is installed");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("What to do: Run fxtrec with sudo"), "{text}");
}

#[test]
fn the_setcap_line_that_is_recommended_is_enough() {
    if !root::or_skip("it gives capabilities to a file") {
        return;
    }
    let copy = PublicCopy::new();
    let before = doctor(&copy, NOBODY);
    let line = before.text.lines().find_map(|line| line.split_once("sudo setcap "));
    let (_, arguments) = line.expect("a line with setcap");
    let status = Command::new("setcap").args(arguments.split(' ')).status();
    assert!(status.expect("setcap is installed").success(), "{arguments}");
    let after = doctor(&copy, NOBODY);
    after.verdict(true);
    assert_eq!(after.row("perf events").0, "ok");

    // The capabilities are for recording: they must not allow reading files that only their owner may read.
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret.fxt");
    std::fs::write(&secret, "secret").expect("room");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("it is ours");
    for command in [&["dump"][..], &["report"], &["why"], &["probes", "--names"]] {
        let mut line: Vec<&str> = NOBODY.split_whitespace().collect();
        let path = copy.path();
        line.push(path.to_str().expect("UTF-8"));
        line.extend(command);
        line.push(secret.to_str().expect("UTF-8"));
        let output = Command::new(line[0]).args(&line[1..]).current_dir("/").output();
        let output = output.expect("setpriv is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{command:?}: {said}");
        assert!(said.to_lowercase().contains("permission denied"), "{command:?}: {said}");
    }

    // A recorder uses them, but not to read the configuration file, whose path its user chooses.
    let config = folder.path().join("fxtrec/config.toml");
    std::fs::create_dir(folder.path().join("fxtrec")).expect("room");
    std::os::unix::fs::symlink(&secret, &config).expect("room");
    for path in [folder.path(), &folder.path().join("fxtrec")] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
    }
    let mut line: Vec<&str> = NOBODY.split_whitespace().collect();
    let path = copy.path();
    line.extend([path.to_str().expect("UTF-8"), "record", "-a", "-d", "10ms", "-o", "/dev/null"]);
    let output = Command::new(line[0])
        .args(&line[1..])
        .current_dir("/")
        .env("XDG_CONFIG_HOME", folder.path())
        .output()
        .expect("setpriv is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "as if it was not there: {said}");
    assert!(!said.contains("config.toml"), "no line of it is printed: {said}");
}

#[test]
fn what_keeps_a_recorder_from_being_in_time_is_tried_and_reported() {
    if !root::or_skip("it drops capabilities") {
        return;
    }
    let copy = PublicCopy::new();
    let without = "setpriv --bounding-set -sys_nice,-ipc_lock --inh-caps -sys_nice,-ipc_lock";
    // A user who has either through a limit does not need the capability.
    let limits = "prlimit --rtprio=0 --memlock=65536";
    let found = doctor(&copy, &format!("{limits} {without}"));
    found.verdict(true);
    let (status, text) = found.row("real-time");
    assert_eq!(status, "warn");
    assert!(
        text.starts_with("real-time priority was refused: EPERM; it needs CAP_SYS_NICE"),
        "{text}"
    );
    let (status, text) = found.row("locked memory");
    assert_eq!(status, "warn");
    assert!(text.starts_with("locking memory was refused: ENOMEM"), "{text}");
    assert_eq!(doctor(&copy, "").row("locked memory").0, "ok");
}

#[test]
fn the_root_of_a_user_namespace_is_not_taken_for_root() {
    if !root::or_skip("machines differ in who may make a user namespace") {
        return;
    }
    let copy = PublicCopy::new();
    let found = behind_closed_tracefs(&copy, "unshare --user --map-root-user");
    found.verdict(false);
    assert_eq!(found.row("perf events").0, "FAIL");
    assert_eq!(found.row("user namespace").0, "warn");
    found.has("but only inside this user namespace");
    found.has("What to do: Run fxtrec outside the user namespace");
    // The files of tracefs belong to the machine's root, who this is: ftrace is available.
    let found = doctor(&copy, "unshare --user --map-root-user");
    found.verdict(true);
    assert_eq!((found.row("perf events").0, found.row("ftrace").0), ("warn", "ok"));
}

#[test]
fn in_a_pid_namespace_recording_works_and_it_is_said_whose_ids_count() {
    if !root::or_skip("it makes a pid namespace") {
        return;
    }
    let copy = PublicCopy::new();
    let with_own_proc = doctor(&copy, "unshare --pid --fork --mount-proc");
    with_own_proc.verdict(true);
    assert_eq!(with_own_proc.row("pid namespace").0, "warn");
    with_own_proc.has("the trace has the host's thread ids");
    let with_the_hosts = doctor(&copy, "unshare --pid --fork");
    with_the_hosts.verdict(true);
    let (status, text) = with_the_hosts.row("pid namespace");
    assert_eq!(status, "warn");
    assert!(text.contains("/proc is the host's"), "{text}");
}

#[test]
fn a_root_without_the_capability_can_record_by_ftrace_and_is_shown_what_perf_lacks() {
    if !root::or_skip("it gives up capabilities") {
        return;
    }
    let without = "setpriv --bounding-set -perfmon,-sys_admin --inh-caps -all";
    let found = doctor(&PublicCopy::new(), without);
    found.verdict(true);
    assert_eq!((found.row("perf events").0, found.row("ftrace").0), ("warn", "ok"));
    found.has("this root user lacks CAP_PERFMON");
    found.has("uses ftrace instead");
}

#[test]
fn a_root_without_the_capability_and_with_a_closed_tracefs_is_shown_what_the_container_needs() {
    if !root::or_skip("it gives up capabilities and mounts") {
        return;
    }
    let without = "setpriv --bounding-set -perfmon,-sys_admin --inh-caps -all";
    let found = behind_closed_tracefs(&PublicCopy::new(), without);
    found.verdict(false);
    assert_eq!((found.row("perf events").0, found.row("ftrace").0), ("FAIL", "warn"));
    found.has("mounted read-only");
    found.has("--cap-add=PERFMON");
}

#[test]
fn a_user_with_little_locked_memory_gets_small_rings_on_every_cpu_and_is_warned() {
    if !root::or_skip("it gives capabilities to a user") {
        return;
    }
    // A separate user, since the kernel counts locked memory per user.
    let little = "setpriv --reuid 65533 --regid 65533 --clear-groups \
                  --inh-caps +perfmon,+dac_read_search --ambient-caps +perfmon,+dac_read_search \
                  prlimit --memlock=0";
    let found = doctor(&PublicCopy::new(), little);
    found.verdict(true);
    let (status, text) = found.row("ring memory");
    assert_eq!(status, "warn");
    assert!(text.contains("KiB were granted instead of"), "{text}");
    found.has("losses are more likely with these small rings");
}

#[test]
fn too_few_open_files_are_said_to_be_the_reason() {
    if !root::or_skip("it opens the machine's events") {
        return;
    }
    let found = doctor(&PublicCopy::new(), "prlimit --nofile=6");
    found.verdict(false);
    found.has("(EMFILE)");
    found.has("reached its limit of 6");
    found.has("What to do: Raise it in this shell with `ulimit -n 65536`");
}

#[test]
fn a_tracefs_that_is_not_mounted_is_mounted_by_root() {
    if !root::or_skip("it mounts") {
        return;
    }
    // In a separate mount namespace, so that the machine's tracefs does not change.
    let hide = "umount --quiet --lazy /sys/kernel/debug; umount --lazy /sys/kernel/tracing; \
                test ! -e /sys/kernel/tracing/events && exec \"$0\" \"$@\"";
    let found = doctor_behind(
        &PublicCopy::new(),
        &["unshare", "--mount", "--propagation", "private", "sh", "-c", hide],
    );
    found.verdict(true);
    assert_eq!(found.row("tracefs"), ("ok", "at /sys/kernel/tracing"));
}

#[test]
fn json_says_what_the_table_says() {
    let run = |arguments: &[&str]| {
        let mut command = fxtrec_tests::binary::command();
        command.args(arguments).output().expect("doctor runs")
    };
    let (table, json) = (run(&["doctor"]), run(&["doctor", "--json"]));
    assert_eq!(table.status.code(), json.status.code());
    let table = String::from_utf8(table.stdout).expect("text");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["works"].as_bool(), Some(!table.contains("What to do:")));
    assert!(table.starts_with(json["machine"].as_str().expect("a headline")), "{table}");
    let checks = json["checks"].as_array().expect("a list");
    assert!(checks.len() > 3, "{checks:?}");
    for check in checks {
        let (status, name) = (&check["status"], check["name"].as_str().expect("a name"));
        let status = status.as_str().expect("a status");
        let shown = if status == "fail" { "FAIL" } else { status };
        // Whether the idle task is silent is measured each time, and a busy CPU has no idle time.
        let agrees = |line: &str| line.starts_with(shown) || name == "idle task";
        let is_row =
            |line: &str| line.get(6..).is_some_and(|rest| rest.starts_with(name)) && agrees(line);
        assert!(table.lines().any(is_row), "no {status} {name} in\n{table}");
    }
    assert_eq!(
        json["uses"].as_array().map(Vec::len),
        Some(table.matches("\nyes ").count() + table.matches("\nNO ").count())
    );
}
