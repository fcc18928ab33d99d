//! Files of code that recorded programs choose: those that never answer, and those of others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fxt_reader::{Reader, Record};
use fxtrec_tests::binary::{self, copy_program};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{Built, build, succeed};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::unwinding::may_unwind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Two seconds: the files are to be opened before the program ends, on a machine with other work too.
const ROUNDS: &str = "500";

/// What cannot be read has no tables to unwind by.
const FRAMES: &str = "-fno-omit-frame-pointer";

/// The functions that a trace names, and the files that its stacks are in.
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

/// The process whose id is in a file; ended when dropped.
struct Server(PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok());
        if let Some(pid) = pid {
            // It ends by itself after a minute, and may have.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[test]
fn a_file_that_never_answers_has_no_names_and_is_not_waited_for() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("silent.c", &[FRAMES]);
    let library = build("silent.c", &["-DLIBRARY", "-shared", "-fPIC", FRAMES]);
    let folder = Folder::new();
    fs::create_dir(folder.path("mount")).expect("room");
    let server = Server(folder.path("pid"));
    let (mount, pid) = (folder.text("mount"), folder.text("pid"));
    let command = [program.text(), &mount, library.text(), &pid, ROUNDS];
    let recording =
        record_in(&folder, &["--source", "bpf", "--stacks", "--scope", "app"], &command);
    // Its file system is still silent, and the recording has ended.
    let running = fs::read_to_string(folder.path("pid")).expect("it was written");
    let state = fs::read_to_string(format!("/proc/{running}/stat")).expect("it runs");
    assert!(!state.contains(") Z "), "{state}");
    let (functions, modules) = names(&folder);
    assert!(modules.iter().any(|name| name.ends_with("mount/lib.so")), "{modules:?}");
    assert!(functions.iter().any(|name| name == "main"), "others have names: {functions:?}");
    assert!(!functions.iter().any(|name| name == "blocks_in_silence"), "{functions:?}");
    let said = &recording.said;
    assert!(said.contains("1 file") && said.contains("of code not read"), "{said}");
    assert!(said.contains("without a name, in such files"), "{said}");
    drop(server);
}

#[test]
fn a_file_that_never_answers_holds_no_command_that_reads_it() {
    if !may_unwind(&["gcc", "nsenter"]) {
        return;
    }
    let folder = Folder::new();
    fs::create_dir(folder.path("mount")).expect("room");
    let (mount, file) = (folder.text("mount"), folder.text("mount/lib.so"));
    let recorded = build("waits.c", &["-O2", "-g", "-Wl,--build-id"]);
    copy_program(recorded.path(), Path::new(&file));
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(&folder, &options, &[&file, "20"]);

    let program = build("silent.c", &[FRAMES]);
    let library = build("silent.c", &["-DLIBRARY", "-shared", "-fPIC", FRAMES]);
    let server = Server(folder.path("pid"));
    let (pid, library) = (folder.text("pid"), library.text());
    // From here on something else is in the place of the recorded file, for this one and what enters its namespace.
    succeed(Command::new(program.path()).args([&mount, library, &pid, "0"]));
    let running = folder.read("pid");
    let there = |args: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["-t", &running, "--mount", "--"]).arg(binary::fxtrec()).args(args);
        folder.run(&mut command)
    };
    let symbolized = there(&["symbolize", &folder.text("t.fxt"), "-o", &folder.text("named.fxt")]);
    let said = symbolized.expect(0).stderr;
    assert!(said.contains("1 file that did not answer, or took too long"), "{said}");
    assert!(said.contains(&format!("no answer: {file}")), "{said}");
    let lines = there(&["report", &folder.text("t.fxt"), "--stacks", "--lines"]).expect(0);
    assert!(lines.stderr.contains("1 file without lines"), "{}", lines.stderr);
    let listed = there(&["probes", &file]).expect(125);
    assert!(listed.stderr.contains(&format!("{file} did not answer")), "{}", listed.stderr);
    let listed = folder.fxtrec(["probes", "-p", &running, &file]).expect(125);
    assert!(listed.stderr.contains("did not answer"), "{}", listed.stderr);
    let probe = format!("{file}:main");
    for refused in [
        there(&["-o", &folder.text("p.fxt"), "-P", &probe, "--", "true"]),
        folder.fxtrec(["-o", "p.fxt", "-P", &probe, "-p", &running, "-d", "1s"]),
    ] {
        let said = refused.expect(125).stderr;
        assert!(said.contains("did not answer") && said.contains(&probe), "{said}");
    }
    assert!(!folder.path("p.fxt").exists());
    drop(server);
}

#[test]
fn no_probe_is_put_at_a_file_that_may_fall_silent_meanwhile() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    fs::create_dir(folder.path("mount")).expect("room");
    let (mount, pid) = (folder.text("mount"), folder.text("pid"));
    let program = build("silent.c", &[FRAMES]);
    let library = build("silent.c", &["-DLIBRARY", "-shared", "-fPIC", FRAMES]);
    let server = Server(folder.path("pid"));
    // It answers all questions of fxtrec, and would have to answer the kernel too.
    succeed(Command::new(program.path()).args([&mount, library.text(), &pid, "-1"]));
    let running = folder.read("pid");
    let file = folder.text("mount/lib.so");
    let listed = folder.fxtrec(["probes", "-p", &running, &file]).expect(0);
    assert!(listed.stdout.contains("blocks_in_silence"), "{}", listed.stdout);
    let probe = format!("{file}:blocks_in_silence");
    let refused = folder.fxtrec(["-o", "p.fxt", "-P", &probe, "-p", &running, "-d", "1s"]);
    let said = refused.expect(125).stderr;
    assert!(said.contains("(FUSE)") && said.contains("mount/lib.so"), "{said}");
    assert!(!folder.path("p.fxt").exists());
    drop(server);
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
    // Each `nw` doubles the work of who tries one meaning after the other.
    let expensive = |times: usize| format!("_Z1aDt{}", "nw".repeat(times));
    let program = build("waits.c", &["-O2", "-Wl,--build-id", FRAMES]);
    let mut change = Command::new("objcopy");
    change.args(["--redefine-sym", &format!("blocks_in_poll={}", expensive(60))]);
    for times in 61..160 {
        // An address is listed by one name.
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

/// Takes the symbols off a program and puts them into a file that it names.
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
