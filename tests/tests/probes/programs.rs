//! Programs of all kinds: every hit is there, with its arguments, as often as the program says.

use std::process::Command;

use fxtrec_tests::programs::{build, succeed, tools_or_skip};

use crate::support::{Recording, record};

/// How often each function runs.
const N: usize = 25;

fn ready() -> bool {
    let tools = ["gcc", "g++", "rustc", "nm", "strip"];
    fxtrec_tests::root::or_skip("it records the machine") && tools_or_skip(&tools)
}

fn count(recording: &Recording, name: &str) -> usize {
    recording.named(name).count()
}

#[test]
fn position_independent_or_not_and_stripped_to_its_dynamic_symbols() {
    if !ready() {
        return;
    }
    for flags in [&["-pie"][..], &["-no-pie"], &["-rdynamic", "-s"], &["-static"]] {
        let program = build("calls.c", flags);
        let spec = ":work number=arg1:s32 name=arg2:str";
        let recording = record(&["-P", spec], &[program.text(), &N.to_string()]);
        let hits: Vec<_> =
            recording.hits.iter().filter(|hit| hit.name.starts_with("work")).collect();
        assert_eq!(hits.len(), N, "{flags:?}");
        for (n, hit) in hits.iter().enumerate() {
            let found = (hit.arg("number").to_owned(), hit.arg("name").to_owned());
            assert_eq!(found, (n.to_string(), format!("job-{n}")), "{flags:?}");
        }
    }
}

#[test]
fn a_stripped_program_by_address() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &["-no-pie"]);
    let symbols = succeed(Command::new("nm").arg(program.path()));
    let line = symbols.lines().find(|line| line.ends_with(" T work")).expect("it is there");
    let address = line.split_whitespace().next().expect("an address").trim_start_matches('0');
    succeed(Command::new("strip").arg(program.path()));
    let spec = format!("work=:0x{address}");
    let recording = record(&["-P", &spec], &[program.text(), &N.to_string()]);
    assert_eq!(count(&recording, "work"), N);
}

#[test]
fn names_of_cpp_with_overloads_and_templates() {
    if !ready() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let recording = record(
        &[
            "-P",
            "all=:geometry::Shape::area",
            "-P",
            "one=:geometry::Shape::area(double) const",
            "-P",
            "most=:geometry::max_of<int>%span a=arg1:s32",
            "-P",
            "boxes=:geometry::Box*::volume*",
        ],
        &[program.text(), &N.to_string()],
    );
    let hits = |name: &str| {
        recording.hits.iter().filter(|hit| hit.name.starts_with(name) && !hit.ends()).count()
    };
    assert_eq!((hits("all"), hits("one"), hits("most"), hits("boxes")), (2 * N, N, N, 2 * N));
    let first = recording.hits.iter().find(|hit| hit.name.starts_with("most")).expect("a hit");
    assert_eq!(first.arg("a"), "0");
}

#[test]
fn names_of_rust_with_modules_and_generics() {
    if !ready() {
        return;
    }
    let program = build("frames.rs", &[]);
    let recording = record(
        &["-P", ":frames::render::frame%span number=arg1:u64", "-P", "s=:frames::render::scale"],
        &[program.text(), &N.to_string()],
    );
    let frames: Vec<_> =
        recording.hits.iter().filter(|hit| hit.name == "frames::render::frame").collect();
    assert_eq!(frames.iter().filter(|hit| hit.ends()).count(), N);
    for (n, begin) in frames.iter().filter(|hit| hit.begins()).enumerate() {
        assert_eq!(begin.arg("number"), n.to_string());
    }
    let scaled = recording.hits.iter().filter(|hit| hit.name.starts_with("s")).count();
    assert_eq!(scaled, 2 * N, "two types each time");
}

#[test]
fn usdt_probes_open_their_guards_and_bring_their_arguments() {
    if !ready() {
        return;
    }
    let program = build("usdt.c", &[]);
    let out = program.folder().join("out.fxt");
    let out = out.to_str().expect("a plain path");
    let n = N.to_string();
    let words = ["-q", "-o", out, "-P", ":usdt:app:*", "--", program.text(), n.as_str()];
    let output = crate::support::run(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), N.to_string(), "the guard was open each time");
    let recording = crate::support::read(std::path::Path::new(out), said);
    let found = ["app:tick", "app:guarded", "app:done"].map(|name| count(&recording, name));
    assert_eq!(found, [N, N, 1]);
    for (n, hit) in recording.named("app:tick").enumerate() {
        assert_eq!(hit.category, "usdt");
        assert_eq!((hit.arg("arg1"), hit.arg("arg3")), (n.to_string().as_str(), "-7"));
    }
    for (n, hit) in recording.named("app:guarded").enumerate() {
        assert_eq!(hit.arg("arg1"), (n * n).to_string());
    }
    // Without a recording nobody opens it.
    assert_eq!(succeed(Command::new(program.path()).arg(&n)).trim(), "0");
}
