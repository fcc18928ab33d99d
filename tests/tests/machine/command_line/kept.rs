//! The fate of the output while it was written: the trace is read back through its descriptor, and a missing file is reported by the last
//! line and a failure.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxtrec_tests::root::may_record;
use fxtrec_tests::{binary, wait};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::command_line::run::{Finished, Fxtrec};
use crate::command_line::trace::Trace;

/// A user that every Debian and Fedora has.
const NOBODY: u32 = 65_534;

/// A trace without any events: the magic number record.
const EMPTY: [u8; 8] = [0x10, 0x00, 0x04, 0x46, 0x78, 0x54, 0x16, 0x00];

fn last_line(done: &Finished) -> &str {
    done.stderr.lines().last().unwrap_or_default()
}

/// A gate that fails for any trace with a slice, so that every recording fails it, and an empty one does not.
const GATE: [&str; 2] = ["--fail-if", "slice.count > 0"];

#[test]
fn what_command_puts_in_the_place_of_the_trace_is_not_judged() {
    if !may_record() {
        return;
    }
    for script in [
        "mv good.fxt t.fxt",
        "ln -sf good.fxt t.fxt",
        // Opening it waits for the other end.
        "rm t.fxt; mkfifo t.fxt",
    ] {
        let fxtrec = Fxtrec::new(["-o", "t.fxt", GATE[0], GATE[1], "--", "sh", "-c", script]);
        fs::write(fxtrec.path("good.fxt"), EMPTY).unwrap();
        let done = fxtrec.run().expect(3);
        let missing = "fxtrec: the trace is missing: t.fxt was removed while it was being written";
        assert!(last_line(&done).starts_with(missing), "{script}: {}", done.stderr);
    }
}

#[test]
fn a_trace_that_was_removed_or_moved_is_a_failure_that_the_last_line_names() {
    if !may_record() {
        return;
    }
    let record = |name: &str, script: &str| {
        let fxtrec = Fxtrec::new(["-o", name, "--", "sh", "-c", script]);
        fs::create_dir(fxtrec.path("d")).unwrap();
        fxtrec.run()
    };
    let done = record("t.fxt", "rm t.fxt").expect(125);
    assert!(last_line(&done).contains("t.fxt was removed"), "{}", done.stderr);
    assert!(!done.stderr.contains("ui.perfetto.dev"), "{}", done.stderr);
    let done = record("d/t.fxt", "rm -r d").expect(125);
    assert!(last_line(&done).contains("d/t.fxt was removed"), "{}", done.stderr);
    for (name, script, now) in
        [("t.fxt", "mv t.fxt u.fxt", "u.fxt"), ("d/t.fxt", "mv d e", "e/t.fxt")]
    {
        let done = record(name, script).expect(125);
        let line = last_line(&done);
        assert!(line.contains("is no longer the trace") && line.contains(now), "{}", done.stderr);
        Trace::open(&done.path(now)).expect_complete();
    }
    // COMMAND's own failure takes precedence.
    record("t.fxt", "rm t.fxt; exit 7").expect(7);
}

#[test]
fn commands_user_cannot_write_to_the_trace_that_will_be_his() {
    if !may_record() {
        return;
    }
    let script = "test $(id -u) = 65534 && cp /dev/null t.fxt; echo wrote $?";
    let fxtrec = Fxtrec::new(["-o", "t.fxt", "-u", "nobody", "--", "sh", "-c", script]);
    let fxtrec = fxtrec.with(|command| {
        let caller = NOBODY.to_string();
        command.env("SUDO_UID", &caller).env("SUDO_GID", &caller).env("SUDO_USER", "nobody")
    });
    fs::set_permissions(fxtrec.path(""), Permissions::from_mode(0o777)).unwrap();
    let done = fxtrec.run().expect(0);
    let wrote = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(wrote.starts_with("wrote ") && wrote != "wrote 0\n", "{wrote}{}", done.stderr);
    Trace::open(&done.path("t.fxt")).expect_complete();
    assert_eq!(fs::metadata(done.path("t.fxt")).unwrap().uid(), NOBODY, "now it is his");
}

#[test]
fn commands_user_cannot_write_to_rotated_files_and_snapshots_before_the_end() {
    if !may_record() {
        return;
    }
    let record = |options: &[&str], script: &str| {
        let mut words = options.to_vec();
        words.extend(["-u", "nobody", "--", "sh", "-c", script]);
        let fxtrec = Fxtrec::new(words).with(|command| {
            let caller = NOBODY.to_string();
            command.env("SUDO_UID", &caller).env("SUDO_GID", &caller).env("SUDO_USER", "nobody")
        });
        fs::set_permissions(fxtrec.path(""), Permissions::from_mode(0o777)).unwrap();
        fxtrec.run()
    };
    let repeat = |act: &str| format!("for i in 1 2 3 4 5; do sleep 0.2; {act}; done; exit 0");
    let each = |act: &str| repeat(&format!("for f in t.*.fxt*; do {act}; done"));
    let rotate = &["-o", "t.fxt.zst", "--rotate", "200ms"][..];
    let trigger = ["--trigger", "blocked > 1us", "--after", "0s", "--trigger-interval", "200ms"];
    let circular = [&["-o", "t.fxt", "--mode", "circular"][..], &trigger].concat();
    for options in [rotate, &circular] {
        let empty = each("cp /dev/null $f 2> /dev/null && echo wrote");
        let done = record(options, &empty).expect(0);
        assert!(!String::from_utf8_lossy(&done.stdout).contains("wrote"), "{}", done.stderr);
        let files: Vec<_> = fs::read_dir(done.path("")).unwrap().map(|it| it.unwrap()).collect();
        assert!(files.len() > 2, "{files:?}");
        for file in files {
            let facts = file.metadata().unwrap();
            assert!(facts.len() > 0 && facts.uid() == NOBODY, "{file:?} {facts:?}");
            Trace::open(&file.path()).expect_complete();
        }

        let replace = each("rm -f $f; echo forged > $f");
        let done = record(options, &replace).expect(125);
        let line = last_line(&done);
        assert!(line.contains("not what fxtrec wrote there"), "{}", done.stderr);

        let complete = repeat("ls t.*.fxt* | head -n -1 | xargs -r rm -f");
        let done = record(options, &complete).expect(0);
        assert!(!done.stderr.contains("not what fxtrec"), "removing is allowed: {}", done.stderr);
    }
}

#[test]
fn files_next_to_the_trace_do_not_go_where_command_moved_the_folder_to() {
    if !may_record() {
        return;
    }
    let swap = "mv d moved; mv other d";
    let start = |words: &[&str], script: &str| {
        let command = ["-u", "nobody", "--", "sh", "-c", script];
        let fxtrec = Fxtrec::new(words.iter().chain(&command).copied())
            .with(|command| command.stdin(Stdio::piped()));
        for folder in ["d", "other"] {
            fs::create_dir(fxtrec.path(folder)).unwrap();
        }
        fs::set_permissions(fxtrec.path(""), Permissions::from_mode(0o777)).unwrap();
        fxtrec
    };
    let names = |done: &Finished, folder: &str| fs::read_dir(done.path(folder)).unwrap().count();

    let gate = ["--fail-if", "slice.count == 0", "--junit", "d/verdict.xml", "-o", "t.fxt"];
    let done = start(&gate, swap).run().expect(125);
    let line = last_line(&done);
    assert!(line.contains("--junit d/verdict.xml") && line.contains("moved"), "{}", done.stderr);
    assert_eq!((names(&done, "d"), names(&done, "moved")), (0, 0), "no verdict anywhere");

    let script = format!("{swap}; echo ready; read word");
    let mut running = start(&["--mode", "circular", "-o", "d/t.fxt"], &script).start();
    running.wait_for_output("ready");
    running.signal(Signal::SIGUSR2);
    running.write_input("word\n");
    let done = running.finish().expect(125);
    assert!(last_line(&done).contains("1 snapshot is missing"), "{}", done.stderr);
    assert_eq!(names(&done, "d"), 0, "nothing goes into the other folder");

    let script = format!("{swap}; sleep 0.5; mv d other; mv moved d");
    let done = start(&["--rotate", "100ms", "-o", "d/t.fxt"], &script).run().expect(125);
    let line = last_line(&done);
    assert!(line.contains("of the recording's files") && line.contains("moved"), "{}", done.stderr);
    assert_eq!(names(&done, "other"), 0, "all files are in one folder");
}

#[test]
fn snapshots_that_could_not_be_written_are_a_failure() {
    if !may_record() {
        return;
    }
    let script = "echo ready; read word";
    let start = || {
        let words = ["--mode", "circular", "-o", "d/t.fxt", "--", "sh", "-c", script];
        let fxtrec = Fxtrec::new(words).with(|command| command.stdin(Stdio::piped()));
        fs::create_dir(fxtrec.path("d")).unwrap();
        let running = fxtrec.start();
        running.wait_for_output("ready");
        running
    };
    let mut running = start();
    fs::create_dir(running.path("d/t.1.fxt")).unwrap();
    running.signal(Signal::SIGUSR2);
    running.write_input("word\n");
    let done = running.finish().expect(125);
    assert!(last_line(&done).contains("1 snapshot is missing"), "{}", done.stderr);
    Trace::open(&done.path("d/t.fxt")).expect_complete();
    let mut running = start();
    fs::remove_dir_all(running.path("d")).unwrap();
    running.signal(Signal::SIGUSR2);
    running.write_input("word\n");
    let done = running.finish().expect(125);
    let line = last_line(&done);
    assert!(line.contains("d/t.fxt was removed"), "{}", done.stderr);
    assert!(line.contains("1 snapshot is missing"), "{}", done.stderr);
}

#[test]
fn snapshots_and_rotated_files_that_find_no_inode_or_are_removed_are_a_failure() {
    if !may_record() {
        return;
    }
    let running =
        Fxtrec::new(["--rotate", "50ms", "-o", "t.fxt", "--", "sh", "-c", "echo ready; read word"])
            .with(|command| command.stdin(Stdio::piped()));
    let mut running = running.start();
    running.wait_for_output("ready");
    let second = running.path("t.0002.fxt");
    wait::until("a second file", || second.exists());
    // The last is removed while it is written; one that ends meanwhile, when it was complete.
    let newest = || {
        let names = fs::read_dir(running.path("")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().ends_with(".fxt")).max()
    };
    let mut removed = 0;
    wait::until("five files to remove", || {
        removed += u32::from(newest().is_some_and(|path| fs::remove_file(path).is_ok()));
        removed >= 5
    });
    running.write_input("word\n");
    let done = running.finish().expect(125);
    assert!(last_line(&done).contains("of the recording's files"), "{}", done.stderr);
    assert!(last_line(&done).contains("missing"), "{}", done.stderr);

    // All inodes of a file system with this many are in use.
    let fxtrec = Fxtrec::new([
        "--mode",
        "circular",
        "-o",
        "d/t.fxt",
        "--",
        "sh",
        "-c",
        "echo ready; read word",
    ]);
    let fxtrec = fxtrec.with(|command| command.stdin(Stdio::piped()));
    fs::create_dir(fxtrec.path("d")).unwrap();
    let Ok(small) = Mounted::tmpfs(&fxtrec.path("d"), "nr_inodes=8") else { return };
    let mut running = fxtrec.start();
    running.wait_for_output("ready");
    let taken = (0..8).map_while(|number| File::create(running.path(&format!("d/{number}"))).ok());
    assert!((1..8).contains(&taken.count()));
    running.signal(Signal::SIGUSR2);
    running.write_input("word\n");
    let done = running.finish().expect(125);
    assert!(last_line(&done).contains("1 snapshot is missing"), "{}", done.stderr);
    drop(small);
}

/// A file system that is unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(path: &Path, options: &str) -> nix::Result<Mounted> {
        nix::mount::mount(
            Some("none"),
            path,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options),
        )?;
        Ok(Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_trace_that_was_cut_short_is_a_failure() {
    if !may_record() {
        return;
    }
    let fxtrec = Fxtrec::new(["-a", "-o", "fifo"]);
    mkfifo(&fxtrec.path("fifo"), Mode::S_IRWXU).unwrap();
    let mut reader = File::options().read(true).write(true).open(fxtrec.path("fifo")).unwrap();
    // This is less than the shortest recording needs.
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let running = fxtrec.start();
    // Only the line that shows that it records is read from it.
    reader.read_exact(&mut [0; 8]).unwrap();
    wait::until("the end after two signals", || {
        running.signal(Signal::SIGTERM);
        running.is_over()
    });
    let done = running.finish().expect(125);
    let said = "stopped before the trace was complete: the written part is readable";
    assert!(done.stderr.contains(said), "{}", done.stderr);
}

#[test]
fn a_signal_ends_fxtrec_when_its_messages_have_no_room() {
    if !may_record() {
        return;
    }
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let was = OFlag::from_bits_retain(fcntl(&writer, FcntlArg::F_GETFL).unwrap());
    fcntl(&writer, FcntlArg::F_SETFL(was | OFlag::O_NONBLOCK)).unwrap();
    while nix::unistd::write(&writer, &[b'.'; 4096]).is_ok() {}
    while nix::unistd::write(&writer, b".").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(was)).unwrap();
    let fxtrec = Fxtrec::new(["-o", "t.fxt", "--", "true"]);
    let running = fxtrec.with(|command| command.stderr(Stdio::from(writer))).start();
    let path = running.path("t.fxt");
    let is_begun = || fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    wait::until("the end of the trace", || is_begun() && Trace::open(&path).ended);
    wait::until("the end after signals", || {
        running.signal(Signal::SIGTERM);
        running.is_over()
    });
    // The trace is complete, so the status is COMMAND's.
    let done = running.finish().expect(0);
    assert!(Trace::open(&done.path("t.fxt")).ended);
    drop(reader);
}

#[test]
fn an_interrupt_that_was_ignored_at_start_ends_a_recording() {
    if !may_record() {
        return;
    }
    // As with `fxtrec -a &` in a script, whose shell does not control jobs.
    let script = "\"$0\" -a -o t.fxt & echo $! >pid; wait $!; echo ended $?";
    let fxtrec = Fxtrec::new([] as [&str; 0]);
    let folder = fxtrec.path("");
    let running = fxtrec
        .with(|command| {
            *command = Command::new("sh");
            command.args(["-c", script]).arg(binary::fxtrec()).current_dir(folder);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
        })
        .start();
    let has_records = || fs::metadata(running.path("t.fxt")).is_ok_and(|file| file.len() > 0);
    wait::until("the first records", has_records);
    let pid = fs::read_to_string(running.path("pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    let done = running.finish().expect(0);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "ended 0\n", "{}", done.stderr);
    Trace::open(&done.path("t.fxt")).expect_complete();
}

/// Every command that writes a file, called with the trace t.fxt and an earlier `out`.
const WRITERS: [&[&str]; 9] = [
    &["record", "-o", "out", "--", "true"],
    &["report", "--html", "out", "t.fxt"],
    &["convert", "--to", "json", "t.fxt", "out"],
    &["cut", "t.fxt", "out", "--from", "+0ms"],
    &["merge", "-o", "out", "t.fxt", "t.fxt"],
    &["symbolize", "-o", "out", "t.fxt"],
    &["report", "--json", "t.fxt"],
    &["dump", "t.fxt"],
    &["doctor", "--json"],
];

#[test]
fn a_limit_of_file_sizes_is_an_error_of_every_command_and_spoils_nothing() {
    if !may_record() {
        return;
    }
    const LIMIT: u64 = 64;
    // With a wait that is long enough to have a stack.
    let trace = Fxtrec::script("sleep 0.02").run().expect(0);
    for words in WRITERS {
        let fxtrec = Fxtrec::new(words);
        fs::copy(trace.path("t.fxt"), fxtrec.path("t.fxt")).unwrap();
        fs::write(fxtrec.path("out"), "earlier").unwrap();
        let to_stdout = !words.contains(&"out");
        let printed = File::create(fxtrec.path("printed")).unwrap();
        let done = fxtrec
            .with(|command| {
                // SAFETY: between fork and exec, only one system call is made.
                unsafe {
                    command.pre_exec(|| {
                        setrlimit(Resource::RLIMIT_FSIZE, LIMIT, LIMIT)
                            .map_err(std::io::Error::from)
                    });
                }
                if to_stdout { command.stdout(printed) } else { command }
            })
            .run();
        assert_eq!(done.code, 125, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains("File too large"), "{words:?}: {}", done.stderr);
        let (mut files, mut earlier) = (vec!["out", "printed", "t.fxt"], "out");
        if words[0] == "record" {
            // The written part of a recording can be read.
            files = vec!["out", "out.old", "printed", "t.fxt"];
            earlier = "out.old";
        }
        assert_eq!(done.files(), files, "{words:?}");
        assert_eq!(fs::read_to_string(done.path(earlier)).unwrap(), "earlier", "{words:?}");
    }
}
