//! The messages about places that cannot be probed.

use std::process::Command;

use fxtrec::probe::Context;
use fxtrec_tests::programs::{build, succeed};

use crate::found::{NO_CONTEXT, as_in, compilers, refusal, sites, symbols};

#[test]
fn a_mistyped_name_is_answered_with_those_like_it() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let text = refusal(&format!("{}:decsend", program.text()), &NO_CONTEXT);
    assert!(text.contains("no function 'decsend'; did you mean descend?"), "{text}");
    let text = refusal(&format!("{}:zebra*", program.text()), &NO_CONTEXT);
    assert!(text.contains("no function 'zebra*'; fxtrec probes BINARY lists"), "{text}");
}

#[test]
fn a_stripped_program_says_so_and_what_it_still_exports() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-rdynamic"]);
    succeed(Command::new("strip").arg(program.path()));
    assert_eq!(symbols(&sites(&format!("{}:work", program.text()))), ["work"]);
    let text = refusal(&format!("{}:leaf", program.text()), &NO_CONTEXT);
    assert!(text.contains("it is stripped, so only exported functions"), "{text}");
    assert!(text.contains("install its debug symbols"), "{text}");
}

#[test]
fn names_that_are_packed_into_the_program_are_said_to_be_there() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-rdynamic"]);
    let packed = program.folder().join("packed");
    std::fs::write(&packed, "xz").expect("writable");
    succeed(Command::new("strip").arg(program.path()));
    let section = format!(".gnu_debugdata={}", packed.display());
    succeed(Command::new("objcopy").args(["--add-section", &section]).arg(program.path()));
    assert_eq!(symbols(&sites(&format!("{}:work", program.text()))), ["work"]);
    let text = refusal(&format!("{}:leaf", program.text()), &NO_CONTEXT);
    assert!(text.contains("does not read the symbols in its .gnu_debug"), "{text}");
}

#[test]
fn a_program_without_any_names_says_so_and_takes_addresses() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-static", "-no-pie"]);
    let before = sites(&format!("{}:work", program.text()))[0].offset;
    let nm = succeed(Command::new("nm").arg(program.path()));
    let line = nm.lines().find(|line| line.ends_with(" work")).expect("it has names yet");
    succeed(Command::new("strip").arg(program.path()));
    let text = refusal(&format!("{}:work", program.text()), &NO_CONTEXT);
    assert!(text.contains("it is stripped of all symbols"), "{text}");
    let site = &sites(&format!("{}:0x{}", program.text(), &line[..16]))[0];
    assert_eq!(site.offset, before);
    assert!(site.symbol.starts_with("0x"), "{site:?}");
}

#[test]
fn names_in_a_separate_debug_file_of_the_same_build_are_found() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-Wl,--build-id"]);
    let before = sites(&format!("{}:leaf", program.text()));
    let debug = program.folder().join("calls.debug");
    let objcopy = |arguments: &[&str]| {
        succeed(Command::new("objcopy").current_dir(program.folder()).args(arguments))
    };
    objcopy(&["--only-keep-debug", "calls", "calls.debug"]);
    objcopy(&["--strip-all", "--add-gnu-debuglink=calls.debug", "calls"]);
    assert_eq!(as_in(&before, sites(&format!("{}:leaf", program.text()))), before);

    // A file of another build would name other addresses.
    let other = build("calls.c", &["-Wl,--build-id", "-O0"]);
    std::fs::copy(other.path(), &debug).expect("writable");
    let text = refusal(&format!("{}:leaf", program.text()), &NO_CONTEXT);
    assert!(text.contains("it is stripped"), "{text}");
}

#[test]
fn what_is_no_program_is_reported_as_what_it_is() {
    if !compilers() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    std::fs::write(path("text"), "hello\n").expect("writable");
    std::fs::write(path("e.c"), "int e(void) { return 0; }\n").expect("writable");
    succeed(Command::new("gcc").args(["-c", &path("e.c"), "-o", &path("e.o")]));
    // The machine number, changed to that of a Motorola 68000.
    let mut foreign = std::fs::read(build("calls.c", &[]).path()).expect("just built");
    foreign[18] = 4;
    std::fs::write(path("foreign"), &foreign).expect("writable");
    // Also that of the other machine that fxtrec supports.
    let (other, number) =
        if cfg!(target_arch = "x86_64") { ("aarch64", 183) } else { ("x86-64", 62) };
    foreign[18] = number;
    std::fs::write(path("other"), &foreign).expect("writable");
    for (file, part) in [
        ("text", "not an ELF file"),
        ("e.o", "an object file (.o) is not executable"),
        ("foreign", "another processor (ELF machine 4)"),
        ("other", &format!("is for {other}, but this machine is")),
        ("none", "No such file or directory"),
        (".", "not a regular file"),
    ] {
        let text = refusal(&format!("{}:main", path(file)), &NO_CONTEXT);
        assert!(text.contains(part), "{file}: {text}");
        assert!(text.starts_with(&format!("probe '{}:main': ", path(file))), "{text}");
    }
}

#[test]
fn a_function_that_is_chosen_at_start_is_refused() {
    if !compilers() {
        return;
    }
    let text = refusal("libc:strlen", &NO_CONTEXT);
    assert!(text.contains("is an IFUNC") && text.contains("probe an implementation"), "{text}");
}

#[test]
fn what_nobody_calls_has_no_return_to_probe() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    for mode in ["return", "span"] {
        let text = refusal(&format!("{}:_start%{mode}", program.text()), &NO_CONTEXT);
        assert!(text.contains("'_start' of") && text.contains("not called"), "{text}");
        let all = sites(&format!("{}:*t*%{mode}", program.text()));
        let names = symbols(&all);
        assert!(names.contains(&"beat") && !names.contains(&"_start"), "{names:?}");
    }
    assert_eq!(symbols(&sites(&format!("{}:_start", program.text()))), ["_start"]);
}

#[test]
fn a_glob_that_means_too_much_is_refused_with_its_number() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let few = Context { most: 3, ..NO_CONTEXT };
    let all = sites(&format!("{}:*", program.text())).len();
    let text = refusal(&format!("{}:*", program.text()), &few);
    assert!(text.contains(&format!("it matches {all} locations: the maximum is 3")), "{text}");
}
