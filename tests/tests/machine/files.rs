//! Code files that recorded programs choose: files that never respond, and files of other users.

use std::fs;
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxt_reader::{Reader, Record};
use fxtrec_tests::binary::{self, copy_program};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::{Built, build, succeed};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::unwinding::may_unwind;
use fxtrec_tests::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Two seconds: the files must be opened before the program ends, even on a busy machine.
const ROUNDS: &str = "500";

/// A file that cannot be read has no unwind tables.
const FRAMES: &str = "-fno-omit-frame-pointer";

/// The functions named in a trace, and the files of its stacks.
fn names(folder: &Folder) -> (Vec<String>, Vec<String>) {
    let (mut functions, mut modules) = (Vec::new(), Vec::new());
    let mut reader = Reader::open(folder.path("t.fxt")).expect("a trace");
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            Record::UserspaceObject(object) => functions.push(object.name.to_owned()),
            Record::Module(module) => modules.push(module.name.to_owned()),
            _ => {}
        }
    }
    (functions, modules)
}

/// The process whose id is in a file; killed when dropped.
struct Server(PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok());
        if let Some(pid) = pid {
            // It ends by itself after a minute, and may already have ended.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// A program that serves a file system with one file, and stops responding.
struct Silent {
    server: Server,
    folder: Folder,
    program: Built,
    library: Built,
}

impl Silent {
    fn new() -> Silent {
        let folder = Folder::new();
        fs::create_dir(folder.path("mount")).expect("room");
        let server = Server(folder.path("pid"));
        let program = build("silent.c", &[FRAMES]);
        let library = build("silent.c", &["-DLIBRARY", "-shared", "-fPIC", FRAMES]);
        Silent { server, folder, program, library }
    }

    /// The program with its arguments, the last of which selects its task.
    fn words(&self, what: &str) -> [String; 5] {
        let (mount, pid) = (self.folder.text("mount"), self.folder.text("pid"));
        let [program, library] = [&self.program, &self.library].map(|it| it.text().to_owned());
        [program, mount, library, pid, what.to_owned()]
    }

    fn command(&self, what: &str) -> Command {
        let [program, words @ ..] = self.words(what);
        let mut command = Command::new(program);
        command.args(words);
        command
    }

    /// Lets it serve. Returns its process id.
    fn serve(&self, what: &str) -> String {
        succeed(&mut self.command(what));
        self.folder.read("pid")
    }

    /// The one file.
    fn file(&self) -> String {
        self.folder.text("mount/lib.so")
    }
}

/// A command that runs another one with a process's view of files.
fn enter(pid: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", pid, "--mount", "--"]);
    command
}

#[test]
fn a_file_that_never_answers_has_no_names_and_is_not_waited_for() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let silent = Silent::new();
    let folder = &silent.folder;
    let command = silent.words(ROUNDS);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let recording = record_in(folder, &["--source", "bpf", "--stacks", "--scope", "app"], &command);
    // Its file system still does not respond, and the recording has ended.
    let running = folder.read("pid");
    let state = fs::read_to_string(format!("/proc/{running}/stat")).expect("it runs");
    assert!(!state.contains(") Z "), "{state}");
    let (functions, modules) = names(folder);
    assert!(modules.iter().any(|name| name.ends_with("mount/lib.so")), "{modules:?}");
    assert!(functions.iter().any(|name| name == "main"), "others have names: {functions:?}");
    assert!(!functions.iter().any(|name| name == "blocks_in_silence"), "{functions:?}");
    let said = &recording.said;
    assert!(said.contains("1 executables or libraries not read"), "{said}");
    assert!(said.contains("without names, in files that were not read"), "{said}");
}

/// Readers of files that were killed and hang: their resident memory, in KiB.
fn left_readers() -> Vec<u64> {
    let status = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("status")).ok();
    let all = fs::read_dir("/proc").expect("procfs").flatten().filter_map(status);
    let left = all.filter(|it| it.starts_with("Name:\tfxtrec-files\n") && it.contains("\tD "));
    let memory = |it: String| {
        let line = it.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    left.filter_map(memory).collect()
}

#[test]
fn what_hangs_at_a_file_that_never_answers_has_little_memory_and_is_no_more_than_a_few() {
    if !may_unwind(&["gcc", "nsenter"]) {
        return;
    }
    let silent = Silent::new();
    let folder = &silent.folder;
    // No other test may start such a process meanwhile.
    let turn = machine::alone();
    let running = silent.serve("-4");
    let list = || {
        let mut command = enter(&running);
        command.arg(binary::fxtrec()).args(["probes", &silent.file()]);
        command
    };
    // Each is killed after a few seconds, at which time all have begun.
    for done in folder.run_at_once::<20>(std::array::from_fn(|_| list())) {
        assert!(done.expect(125).stderr.contains("did not answer"));
    }
    let left = left_readers();
    assert!(left.len() >= 20, "{left:?}");
    assert!(left.iter().all(|memory| *memory < 1024), "in KiB: {left:?}");
    let refused = folder.run(&mut list()).expect(125).stderr;
    assert!(refused.contains("was not read: ") && refused.contains("still wait"), "{refused}");
    let options = ["--source", "bpf", "--stacks", "--scope", "app"];
    let recording = record_in(folder, &options, &["sleep", "0.1"]);
    assert!(recording.said.contains(" of earlier recordings hang: "), "{}", recording.said);
    assert_eq!(left_readers().len(), left.len(), "no more was started");
    drop(silent.server);
    turn.give_back();
    wait::until("they end", || left_readers().is_empty());
}

#[test]
fn a_file_that_never_answers_holds_no_command_that_reads_it() {
    if !may_unwind(&["gcc", "nsenter"]) {
        return;
    }
    let silent = Silent::new();
    let (folder, file) = (&silent.folder, silent.file());
    let recorded = build("waits.c", &["-O2", "-g", "-Wl,--build-id"]);
    copy_program(recorded.path(), Path::new(&file));
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(folder, &options, &[&file, "20"]);

    // From here on another file is in place of the recorded one, for this process and those that enter its namespace.
    let running = silent.serve("0");
    let there = |args: &[&str]| {
        let mut command = enter(&running);
        command.arg(binary::fxtrec()).args(args);
        command
    };
    let here = |args: &[&str]| {
        let mut command = binary::command();
        command.args(args);
        command
    };
    let probe = format!("{file}:main");
    let trace = folder.text("t.fxt");
    // Each waits for an answer for a few seconds.
    let done = folder.run_at_once([
        there(&["symbolize", &trace, "-o", &folder.text("named.fxt")]),
        there(&["report", &trace, "--stacks", "--lines"]),
        there(&["probes", &file]),
        here(&["probes", "-p", &running, &file]),
        there(&["-o", &folder.text("p.fxt"), "-P", &probe, "--", "true"]),
        here(&["-o", "q.fxt", "-P", &probe, "-p", &running, "-d", "1s"]),
    ]);
    let [symbolized, lines, listed, listed_by_process, command_refused, process_refused] = done;
    let said = symbolized.expect(0).stderr;
    assert!(said.contains("1 file that did not answer, or took too long"), "{said}");
    assert!(said.contains(&format!("no answer: {file}")), "{said}");
    let lines = lines.expect(0);
    assert!(lines.stderr.contains("1 file with missing source lines"), "{}", lines.stderr);
    let listed = listed.expect(125);
    assert!(listed.stderr.contains(&format!("{file} did not answer")), "{}", listed.stderr);
    let listed = listed_by_process.expect(125);
    assert!(listed.stderr.contains("did not answer"), "{}", listed.stderr);
    for (refused, output) in [(command_refused, "p.fxt"), (process_refused, "q.fxt")] {
        let said = refused.expect(125).stderr;
        assert!(said.contains("did not answer") && said.contains(&probe), "{said}");
        assert!(!folder.path(output).exists());
    }
}

/// Reads the output until a line contains this; returns all of it.
fn read_until(lines: &mut impl BufRead, part: &str) -> String {
    let mut said = String::new();
    while !said.contains(part) {
        assert!(lines.read_line(&mut said).expect("text") > 0, "it has ended: {said}");
    }
    said
}

#[test]
fn a_command_that_not_even_a_kill_ends_is_left_behind_at_the_second_signal() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let silent = Silent::new();
        let folder = &silent.folder;
        let mut command = binary::command();
        command.current_dir(folder.path("")).args(["-o", "t.fxt", "--scope", "app", "--"]);
        command.args(silent.words("-2"));
        let mut running = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let hangs = read_until(running.stdout(), " hangs");
        let (pid, _) = hangs.split_once(' ').expect("its process id");
        wait::until("COMMAND waits for its page", || {
            // It is blocked, and not in a system call.
            let call = fs::read_to_string(format!("/proc/{pid}/syscall")).expect("it is there");
            call.starts_with("-1 ")
        });
        let server = format!("/proc/{}/comm", folder.read("pid"));
        wait::until("the page was requested", || {
            fs::read_to_string(&server).expect("it is there") == "silent-to-one\n"
        });
        running.signal(signal);
        // The first SIGINT is primarily for COMMAND. A pending one would hide another.
        if signal == Signal::SIGTERM {
            read_until(running.stderr(), "recorded ");
        } else {
            let status = format!("/proc/{}/status", running.id());
            wait::until("the first signal is read", || {
                let status = fs::read_to_string(&status).expect("it runs");
                status.lines().any(|line| line == "ShdPnd:\t0000000000000000")
            });
        }
        running.signal(signal);
        let said = read_until(running.stderr(), "COMMAND is still running");
        assert_eq!(running.finish().code(), Some(125), "{said}");
        assert!(!Trace::read(&folder.path("t.fxt")).switches.is_empty(), "{said}");
    }
}

#[test]
fn a_command_on_a_file_system_that_never_answers_does_not_hold_fxtrec() {
    if !may_unwind(&["gcc", "nsenter"]) {
        return;
    }
    let silent = Silent::new();
    let folder = &silent.folder;
    let mut command = enter(&silent.serve("0"));
    command.arg(binary::fxtrec());
    command.args(["-o", &folder.text("t.fxt"), "--", &silent.file()]);
    let mut running = Process::start(command.stderr(Stdio::piped()));
    // Its threads run: COMMAND is next.
    wait::until("the trace has begun", || {
        fs::metadata(folder.path("t.fxt")).is_ok_and(|file| file.len() > 0)
    });
    running.signal(Signal::SIGTERM);
    let said = read_until(running.stderr(), "ended by a signal while waiting");
    assert_eq!(running.finish().code(), Some(125), "{said}");
    let (functions, _) = names(folder);
    assert!(functions.is_empty(), "it is readable, and nothing ran: {functions:?}");
}

#[test]
fn a_process_that_holds_the_lock_of_its_memory_holds_no_recording_and_no_probe_waits_for_it() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let silent = Silent::new();
    let folder = &silent.folder;
    // No other test may place probes in this time.
    let turn = machine::alone();
    let mut locked = Process::start(silent.command("-3").stdout(Stdio::piped()));
    read_until(locked.stdout(), "locks");
    let state = format!("/proc/{}/stat", locked.id());
    wait::until("it waits with the lock", || {
        fs::read_to_string(&state).expect("it runs").contains(") D ")
    });
    let pid = locked.id().to_string();
    let fxtrec = |words: &[&str], output: &str| {
        let mut command = binary::command();
        command.args(words).args(["-o", output]);
        command
    };
    // Each of them waits for the lock for a few seconds.
    let probed = || {
        let mut command = fxtrec(&[], "p.fxt");
        command.args(["-P", "libc.so.6:getppid", "--", "true"]);
        command
    };
    let done = folder.run_at_once([
        fxtrec(&["-a", "--stacks", "-d", "500ms"], "a.fxt"),
        fxtrec(&["-p", &pid, "--stacks", "-d", "500ms"], "b.fxt"),
        fxtrec(&["-a", "--source", "perf", "-d", "500ms"], "c.fxt"),
        probed(),
    ]);
    // It still does.
    let still = fs::read_to_string(&state).expect("it runs");
    drop(silent.server);
    locked.finish();
    turn.give_back();
    assert!(still.contains(") D "), "{still}");
    let [machine, process, by_perf, refused] = done;
    for (done, output) in [(machine, "a.fxt"), (process, "b.fxt"), (by_perf, "c.fxt")] {
        let said = done.expect(0).stderr;
        assert!(!Trace::read(&folder.path(output)).switches.is_empty(), "{said}");
    }
    let said = refused.expect(125).stderr;
    assert!(said.contains(&format!("process {pid} holds its memory lock")), "{said}");
    folder.run(&mut probed()).expect(0);
}

/// The process that reads files for a command.
fn reader_of(command: &Process) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", command.id())).ok()?;
    let children =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|all| all.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect();
    children.into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "fxtrec-files\n")
    })
}

#[test]
fn what_reads_files_has_bounded_memory_and_is_the_first_that_the_kernel_kills_for_it() {
    if !may_unwind(&["gcc", "nsenter"]) {
        return;
    }
    let silent = Silent::new();
    let folder = &silent.folder;
    let mut asks = enter(&silent.serve("0"));
    asks.arg(binary::fxtrec()).args(["probes", &silent.file()]);
    let mut records = binary::command();
    records.current_dir(folder.path("")).args(["--source", "bpf", "--stacks", "-o", "t.fxt", "--"]);
    records.args(["sh", "-c", "for i in $(seq 2000); do sleep 0.01; done"]);
    for (mut command, most) in [(asks, 1536_u64 << 20), (records, 192 << 20)] {
        let mut running = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let of_reader = |name: &str| {
            let pid = reader_of(&running)?;
            fs::read_to_string(format!("/proc/{pid}/{name}")).ok()
        };
        wait::until("it is the first to go", || {
            of_reader("oom_score_adj").is_some_and(|it| it == "1000\n")
        });
        let limits = of_reader("limits").expect("it runs");
        let memory = limits.lines().find(|line| line.starts_with("Max address space"));
        let words: Vec<&str> = memory.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words.get(3).and_then(|it| it.parse().ok()), Some(most), "{limits}");
        // COMMAND receives it, too.
        running.signal(Signal::SIGTERM);
        running.finish();
    }
}

#[test]
fn no_probe_is_put_at_a_file_that_may_fall_silent_meanwhile() {
    if !may_unwind(&["gcc", "nsenter", "mount"]) {
        return;
    }
    let silent = Silent::new();
    let (folder, file) = (&silent.folder, silent.file());
    // It answers all requests of fxtrec, and would have to answer the kernel, too.
    let running = silent.serve("-1");
    let listed = folder.fxtrec(["probes", "-p", &running, &file]).expect(0);
    assert!(listed.stdout.contains("blocks_in_silence"), "{}", listed.stdout);
    for name in ["overlay", "empty"] {
        fs::create_dir(folder.path(name)).expect("room");
    }
    let layers = format!("lowerdir={}:{}", folder.text("mount"), folder.text("empty"));
    let mut over = enter(&running);
    over.args(["mount", "-t", "overlay", "-o", &layers]);
    succeed(over.args(["overlay", &folder.text("overlay")]));
    for file in [file, folder.text("overlay/lib.so")] {
        let probe = format!("{file}:blocks_in_silence");
        let refused = folder.fxtrec(["-o", "p.fxt", "-P", &probe, "-p", &running, "-d", "1s"]);
        let said = refused.expect(125).stderr;
        assert!(said.contains("(FUSE)") && said.contains(&file), "{said}");
        assert!(!folder.path("p.fxt").exists());
    }
}

#[test]
fn a_file_that_is_deleted_is_let_go_and_its_functions_have_names() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    let program = build("waits.c", &["-O2"]);
    copy_program(program.path(), &folder.path("short"));
    let holds = |ending: &str| format!("ls -l /proc/$PPID/fd | grep -q '/short{ending}$'");
    let script = format!(
        "./short 20; until {}; do sleep 0.02; done; rm short; while {}; do sleep 0.02; done",
        holds(""),
        holds(" (deleted)")
    );
    let options = ["--source", "bpf", "--stacks", "--scope", "app"];
    record_in(&folder, &options, &["sh", "-c", &script]);
    let (functions, modules) = names(&folder);
    assert!(modules.iter().any(|name| name.ends_with("/short")), "{modules:?}");
    assert!(functions.iter().any(|name| name == "blocks_in_poll"), "{functions:?}");
}

#[test]
fn functions_with_names_that_are_too_expensive_are_called_as_the_linker_does() {
    if !may_unwind(&["gcc", "objcopy"]) {
        return;
    }
    // Each `nw` doubles the work of a parser that tries one alternative after the other.
    let expensive = |times: usize| format!("_Z1aDt{}", "nw".repeat(times));
    let program = build("waits.c", &["-O2", "-Wl,--build-id", FRAMES]);
    let mut change = Command::new("objcopy");
    change.args(["--redefine-sym", &format!("blocks_in_poll={}", expensive(60))]);
    for times in 61..160 {
        // Only one name is listed for an address.
        let symbol = format!("{}=.text:{},function,global", expensive(times), times - 60);
        change.args(["--add-symbol", &symbol]);
    }
    succeed(change.arg(program.path()));
    let folder = Folder::new();
    let listed = folder.fxtrec(["probes", "--names", program.text()]).expect(0).stdout;
    for times in 60..160 {
        let name = expensive(times);
        assert!(listed.lines().any(|line| line == name), "{times}: {listed}");
    }
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(&folder, &options, &[program.text(), "20"]);
    folder.fxtrec(["symbolize", "t.fxt", "-o", "named.fxt"]).expect(0);
    fs::rename(folder.path("named.fxt"), folder.path("t.fxt")).expect("it is there");
    let (functions, _) = names(&folder);
    assert!(functions.contains(&expensive(60)), "{functions:?}");
    folder.fxtrec(["report", "t.fxt", "--stacks", "--lines"]).expect(0);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn tables_that_take_long_are_not_followed_for_longer_than_the_program_runs() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    let program = build("costly.c", &["-O1", "-pthread"]);
    let mut command = binary::command();
    command.current_dir(folder.path("")).args(["-o", "t.fxt", "--stacks", "--scope", "app", "--"]);
    command.args([program.text(), "50", "2000"]);
    let mut running = Process::start(&mut command);
    // Without a limit it takes ten minutes.
    wait::until("the recording ends", || running.is_over());
    assert_eq!(running.finish().code(), Some(0));
    assert!(!Trace::read(&folder.path("t.fxt")).switches.is_empty());
}

fn library(name: &str) -> Built {
    build("swaps.c", &[&format!("-DNAME={name}"), "-shared", "-fPIC", FRAMES])
}

#[test]
fn a_link_in_the_place_of_a_library_gives_no_names_of_the_file_that_it_leads_to() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("swaps.c", &[FRAMES]);
    let (own, secret) = (library("own_name"), library("secret_name"));
    let folder = Folder::new();
    fs::copy(own.path(), folder.path("lib.so")).expect("room");
    let path = folder.text("lib.so");
    let command = [program.text(), &path, secret.text(), ROUNDS];
    record_in(&folder, &["--source", "bpf", "--stacks", "--scope", "app"], &command);
    assert_eq!(fs::read_link(folder.path("lib.so")).expect("a link by now"), secret.path());
    let (functions, modules) = names(&folder);
    assert!(modules.iter().any(|name| name.contains("lib.so")), "{modules:?}");
    assert!(functions.iter().any(|name| name == "main"), "others have names: {functions:?}");
    assert!(!functions.iter().any(|name| name == "secret_name"), "{functions:?}");
}

/// Moves the symbols of a program to a separate file that it names.
fn strip_to(debug: &Path, program: &Path) {
    succeed(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(debug));
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    succeed(Command::new("objcopy").arg("--strip-all").arg(link).arg(program));
}

#[test]
fn a_separate_file_of_symbols_gives_no_names_that_the_process_may_not_read() {
    if !may_unwind(&["gcc", "objcopy"]) {
        return;
    }
    let program = build("waits.c", &["-O2", "-Wl,--build-id"]);
    let debug = program.folder().join("waits.debug");
    strip_to(&debug, program.path());
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    mode(program.folder(), 0o755);
    let is_named = || {
        let folder = Folder::new();
        let options = ["--source", "bpf", "--stacks", "--scope", "app", "-u", "nobody"];
        record_in(&folder, &options, &[program.text(), "20"]);
        let (functions, modules) = names(&folder);
        assert!(modules.iter().any(|name| name == program.text()), "{modules:?}");
        functions.iter().any(|name| name == "blocks_in_poll")
    };
    mode(&debug, 0o600);
    assert!(!is_named(), "only root may read it");
    mode(&debug, 0o644);
    assert!(is_named(), "everybody may read it");
}

#[test]
fn a_program_gives_no_names_that_its_user_may_only_run_and_not_read() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("waits.c", &["-O2", "-Wl,--build-id"]);
    let mode = |mode| {
        let set = |path: &Path, mode| {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
        };
        set(program.folder(), 0o755);
        set(program.path(), mode);
    };
    let recorded = || {
        let folder = Folder::new();
        let options = ["--source", "bpf", "--stacks", "--scope", "app", "-u", "nobody"];
        record_in(&folder, &options, &[program.text(), "20"]);
        let (functions, modules) = names(&folder);
        assert!(modules.iter().any(|name| name == program.text()), "{modules:?}");
        let mut dump: Command = binary::command();
        let dump = dump.arg("dump").arg(folder.path("t.fxt")).output().expect("it runs");
        let is_counted = String::from_utf8_lossy(&dump.stdout).contains("stacks_unnamed");
        (functions.iter().any(|name| name == "blocks_in_poll"), is_counted)
    };
    for only_run in [0o711, 0o4711] {
        mode(only_run);
        assert_eq!(recorded(), (false, true), "{only_run:o}");
    }
    mode(0o755);
    assert!(recorded().0, "everybody may read it");
}
