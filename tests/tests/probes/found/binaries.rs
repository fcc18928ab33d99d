//! The file that a spec means: COMMAND's, a library, one in a container.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use fxtrec::probe::Context;
use fxtrec::probe::locate::Program;
use fxtrec::units::Pid;
use fxtrec_tests::binary::copy_program;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::{Built, build, succeed};
use fxtrec_tests::root;

use crate::found::{NO_CONTEXT, compilers, refusal, sites, symbols, try_resolve};

fn context_of(program: &Path) -> Context {
    let candidates = vec![program.to_owned()];
    Context { program: Some(Program { given: program.into(), candidates }), ..NO_CONTEXT }
}

/// The context of a recording of a process that is past exec and has mapped this file.
fn context_of_process(process: &Process, mapped: &str) -> Context {
    process.wait_for_map(mapped);
    Context { pids: vec![Pid(process.id())], ..NO_CONTEXT }
}

#[test]
fn nothing_in_front_of_the_colon_is_command_itself() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let context = context_of(program.path());
    let own = try_resolve(":work", &context).expect("found");
    assert_eq!(own, sites(&format!("{}:work", program.text())));
    assert!(refusal(":work", &NO_CONTEXT).contains("there is no COMMAND"));
    let text = refusal(":work", &context_of(Path::new("/nowhere/app")));
    assert!(text.contains("COMMAND /nowhere/app not found"), "{text}");
}

#[test]
fn a_script_is_named_as_one_with_its_interpreter() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/usr/bin/env python3\n").expect("writable");
    succeed(Command::new("chmod").arg("+x").arg(&script));
    let text = refusal(":main", &context_of(&script));
    assert!(text.contains("a script for /usr/bin/env python3"), "{text}");
}

#[test]
fn a_library_is_the_one_that_the_loader_gives_to_command() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let ldd = succeed(Command::new("ldd").arg(program.path()));
    let line = ldd.lines().find(|line| line.contains("libc.so.6 =>")).expect("it needs libc");
    let libc = line.split_whitespace().nth(2).expect("a path");
    for (name, context) in
        [("libc", &NO_CONTEXT), ("libc.so.6", &NO_CONTEXT), ("libc", &context_of(program.path()))]
    {
        let site = &try_resolve(&format!("{name}:malloc"), context).expect("found")[0];
        let real = |path: &Path| path.canonicalize().expect("it is there");
        assert_eq!(real(&site.binary), real(Path::new(libc)));
    }
}

/// Builds a library `libhere.so.1` with one function into `folder`.
fn library(folder: &Path, function: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("writable");
    let source = folder.join("here.c");
    let path = folder.join("libhere.so.1");
    std::fs::write(&source, format!("int {function}(int x) {{ return x + 1; }}\n"))
        .expect("writable");
    succeed(
        Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libhere.so.1", "-o"])
            .arg(&path)
            .arg(&source),
    );
    path
}

/// A program with `libhere.so.1` in a neighbouring directory, which only its run path leads to.
fn program_with_library() -> (Built, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let built = library(folder.path(), "here");
    let library_flag = built.to_str().expect("plain");
    let program =
        build("calls.c", &["-Wl,-rpath,$ORIGIN/private", "-Wl,--no-as-needed", library_flag]);
    let private = library(&program.folder().join("private"), "here");
    (program, private)
}

#[test]
fn a_library_next_to_the_program_is_found_by_its_run_path() {
    if !compilers() {
        return;
    }
    let (program, private) = program_with_library();
    let found = try_resolve("libhere:here", &context_of(program.path())).expect("found");
    assert_eq!(found[0].binary, private);
    let text = refusal("libhere:here", &NO_CONTEXT);
    assert!(text.contains("library libhere not found"), "{text}");
}

#[test]
fn a_function_that_is_only_imported_is_reported_as_elsewhere() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let text = refusal(&format!("{}:pthread_join", program.text()), &NO_CONTEXT);
    assert!(text.contains("from a library") && text.contains("libc.so.6:pthread_join"), "{text}");
}

#[test]
fn a_running_process_has_its_own_executable_and_libraries() {
    if !compilers() || !root::or_skip("it looks into another process") {
        return;
    }
    let (program, private) = program_with_library();
    let process = Process::start(Command::new(program.path()).args(["1", "wait"]));
    let context = context_of_process(&process, "libhere");
    let own = try_resolve(":work", &context).expect("found");
    assert_eq!(own[0].offset, sites(&format!("{}:work", program.text()))[0].offset);
    let found = try_resolve("libhere:here", &context).expect("found");
    assert_eq!(found[0].binary, private);

    std::fs::remove_file(&private).expect("writable");
    let text = refusal("libhere:here", &context);
    assert!(text.contains("has been deleted or replaced"), "{text}");
}

#[test]
fn a_process_below_another_root_has_the_files_that_it_sees() {
    if !compilers() || !root::or_skip("it needs chroot") {
        return;
    }
    let program = build("calls.c", &["-static"]);
    let inside = tempfile::tempdir().expect("a folder");
    let bin = inside.path().join("opt/bin");
    std::fs::create_dir_all(&bin).expect("writable");
    copy_program(program.path(), &bin.join("app"));
    // Followed from outside, this link would lead to a directory of the machine's.
    symlink("/opt/bin", inside.path().join("bin")).expect("writable");
    let process =
        Process::start(Command::new("chroot").arg(inside.path()).args(["/bin/app", "1", "wait"]));
    let context = context_of_process(&process, "/opt/bin/app");

    let wanted = sites(&format!("{}:work", program.text()))[0].offset;
    for spec in [":work", "/bin/app:work", "/opt/bin/app:work"] {
        let found = try_resolve(spec, &context).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((found[0].offset, symbols(&found)), (wanted, vec!["work"]), "{spec}");
        let process = format!("/proc/{}/", process.id());
        assert!(found[0].binary.starts_with(&process), "{spec}: {:?}", found[0].binary);
        assert!(found[0].binary.exists(), "{spec}: {:?}", found[0].binary);
    }
    let text = refusal("./app:work", &context);
    assert!(text.contains("give an absolute path"), "{text}");
    let text = refusal("/usr/bin/true:main", &context);
    assert!(text.contains("cannot open /proc/"), "{text}");
}
