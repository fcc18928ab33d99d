//! Exit statuses, and the state that COMMAND inherits and returns.

use fxtrec_tests::binary::copy_program;
use fxtrec_tests::process::with_usual_signals;
use fxtrec_tests::root::may_record;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::command_line::run::Fxtrec;
use crate::command_line::trace::Trace;

#[test]
fn the_exit_status_is_that_of_command() {
    if !may_record() {
        return;
    }
    for code in [0, 3, 255] {
        let done = Fxtrec::script(&format!("exit {code}")).run().expect(code);
        Trace::open(&done.path("t.fxt")).expect_complete();
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_and_its_number() {
    if !may_record() {
        return;
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139)] {
        let done = Fxtrec::script(&format!("kill -{signal} $$")).run().expect(code);
        Trace::open(&done.path("t.fxt")).expect_complete();
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_run_is_126() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["no-such-command-anywhere"]).run().expect(127);
    assert!(done.stderr.contains("no-such-command-anywhere: command not found"), "{}", done.stderr);
    assert!(done.files().is_empty(), "an empty trace helps nobody: {:?}", done.files());

    let fxtrec = Fxtrec::new(["./plain"]);
    fs::write(fxtrec.path("plain"), "#!/bin/sh\n").unwrap();
    fs::write(fxtrec.path("plain.fxt"), "earlier").unwrap();
    let done = fxtrec.run().expect(126);
    assert!(done.stderr.contains("./plain"), "{}", done.stderr);
    assert!(done.stderr.contains("execute permission"), "{}", done.stderr);
    assert_eq!(done.files(), ["plain", "plain.fxt"]);
    assert_eq!(fs::read(done.path("plain.fxt")).unwrap(), b"earlier");

    Fxtrec::new(["/"]).run().expect(126);
}

#[test]
fn mistakes_in_the_command_line_are_125_and_nothing_is_run() {
    for line in [
        &[][..],
        &["--bogus", "touch", "ran"],
        &["-d", "0", "touch", "ran"],
        &["-a", "-p", "1"],
        &["-u", "no-such-user", "touch", "ran"],
        &["-o", "no/such/directory/t.fxt", "touch", "ran"],
    ] {
        let done = Fxtrec::new(line).run().expect(125);
        assert!(!done.stderr.is_empty() && done.stdout.is_empty(), "{line:?}");
        assert!(done.files().is_empty(), "{line:?} left {:?}", done.files());
    }
}

#[test]
fn help_goes_to_stdout_and_is_a_success() {
    for option in ["-h", "--help", "--version"] {
        let done = Fxtrec::new([option]).run().expect(0);
        assert!(String::from_utf8(done.stdout).unwrap().contains("fxtrec"));
        assert_eq!(done.stderr, "");
    }
}

#[test]
fn standard_input_and_output_belong_to_command() {
    if !may_record() {
        return;
    }
    let script = "cat; echo words >&2";
    let mut running = Fxtrec::new(["-q", "-o", "t.fxt", "sh", "-c", script])
        .with(|command| command.stdin(Stdio::piped()))
        .start();
    running.write_input("through and through\n");
    let done = running.finish().expect(0);
    assert_eq!(done.stdout, b"through and through\n");
    assert_eq!(done.stderr, "words\n");
}

/// A program's output without fxtrec, and with it.
fn without_and_with_fxtrec(program: &str, argument: &str) -> [String; 2] {
    let mut without = Command::new(program);
    let without = with_usual_signals(without.arg(argument).stdin(Stdio::null())).output().unwrap();
    let with = Fxtrec::new(["-q", "-o", "t.fxt", program, argument]).run().expect(0);
    [without.stdout, with.stdout].map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn command_gets_no_descriptor_of_fxtrec() {
    if !may_record() {
        return;
    }
    let [without, with] = without_and_with_fxtrec("ls", "/proc/self/fd");
    assert_eq!(with, without);
}

#[test]
fn command_gets_the_signals_fxtrec_was_started_with() {
    if !may_record() {
        return;
    }
    // No program can rely on signals 32 and 33, which belong to the C library.
    const REAL: u64 = !0x1_8000_0000;
    let signals = |status: &str| {
        ["SigBlk:", "SigIgn:", "SigCgt:"].map(|field| {
            let set = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            u64::from_str_radix(set.trim(), 16).unwrap() & REAL
        })
    };
    let [without, with] = without_and_with_fxtrec("cat", "/proc/self/status");
    assert_eq!(signals(&with), signals(&without));
}

#[test]
fn a_program_can_be_called_like_a_subcommand() {
    if !may_record() {
        return;
    }
    let fxtrec = Fxtrec::new(["-q", "--", "doctor"]);
    let program = fxtrec.path("doctor");
    let source = tempfile::NamedTempFile::new().unwrap();
    fs::write(&source, "#!/bin/sh\necho the other doctor\n").unwrap();
    copy_program(source.path(), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", fxtrec.path("").display(), std::env::var("PATH").unwrap());
    let done = fxtrec.with(|command| command.env("PATH", path)).run().expect(0);
    assert_eq!(done.stdout, b"the other doctor\n");
    assert_eq!(done.files(), ["doctor", "doctor.fxt"]);
}

#[test]
fn command_can_run_as_another_user() {
    if !may_record() {
        return;
    }
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let script = "id -u; id -g; echo $USER $LOGNAME $HOME";
    let expected =
        format!("{0}\n{1}\nnobody nobody {2}\n", nobody.uid, nobody.gid, nobody.dir.display());
    let done =
        Fxtrec::new(["-q", "-o", "t.fxt", "-u", "nobody", "sh", "-c", script]).run().expect(0);
    assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
    let done = Fxtrec::new(["-q", "-o", "t.fxt", "-u", "@sudo", "sh", "-c", script])
        .with(|command| command.env("SUDO_UID", nobody.uid.to_string()))
        .run()
        .expect(0);
    assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
    let done = Fxtrec::new(["-u", "@sudo", "true"]).run().expect(125);
    assert!(done.stderr.contains("SUDO_UID"), "{}", done.stderr);
}

#[test]
fn an_ordinary_user_is_shown_what_to_do_and_nothing_is_run() {
    if !may_record() {
        return;
    }
    let copy = fxtrec_tests::binary::PublicCopy::new();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let output = Command::new(copy.path())
        .args(["--", "touch", "ran"])
        .current_dir(dir.path())
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("sudo"), "{stderr}");
    assert!(!stderr.contains("fxtrec ctl start"), "COMMAND is the user's own: {stderr}");
    assert!(!dir.path().join("ran").exists());

    // For another user's process, the daemon is suggested first.
    let roots = std::process::id().to_string();
    let output = Command::new(copy.path())
        .args(["-p", &roots, "-d", "100ms", "-o", "roots.fxt"])
        .current_dir(dir.path())
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    let place = |text: &str| stderr.find(text).unwrap_or_else(|| panic!("{text} in {stderr}"));
    assert!(place("fxtrec ctl start --foreground") < place("sudo setcap"), "{stderr}");
    assert!(!dir.path().join("roots.fxt").exists());
}
