//! The output of `fxtrec probes` for people and for scripts.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use fxtrec_tests::binary;
use fxtrec_tests::programs::{build, succeed};
use serde_json::Value;

use crate::found::compilers;

fn probes(arguments: &[&str]) -> Output {
    binary::command().arg("probes").args(arguments).output().expect("it can be run")
}

fn json(arguments: &[&str]) -> Value {
    let Output { status, stdout, stderr } = probes(&[arguments, &["--json"]].concat());
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).expect("JSON")
}

#[test]
fn every_function_that_nm_knows_is_listed_at_its_address() {
    if !compilers() {
        return;
    }
    for (source, flags) in [
        ("calls.c", &["-no-pie"][..]),
        ("shapes.cpp", &[]),
        ("frames.rs", &["-Csymbol-mangling-version=v0"]),
    ] {
        let program = build(source, flags);
        let list = json(&[program.text()]);
        let listed: BTreeSet<u64> = list["functions"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|function| function["address"].as_u64())
            .collect();
        let readelf = succeed(Command::new("readelf").args(["--syms", "--wide", program.text()]));
        let mut known = 0;
        for line in readelf.lines() {
            // Num: Value Size Type Bind Vis Ndx Name
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, value, _, "FUNC", _, _, section, name, ..] = fields[..]
                && section != "UND"
                && !name.ends_with(".cold")
            {
                let address = u64::from_str_radix(value, 16).expect("hexadecimal");
                assert!(listed.contains(&address), "{source}: no {name} at {address:#x}");
                known += 1;
            }
        }
        assert!(known >= 8, "{source}: only {known} functions in\n{readelf}");
        assert_eq!(list["symbols"], "complete");
    }
}

#[test]
fn names_alone_are_what_a_probe_takes_each_once() {
    if !compilers() {
        return;
    }
    let program = build("shapes.cpp", &[]);
    let output = probes(&["--names", program.text()]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = text.lines().collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{text}");
    let listed = json(&[program.text()]);
    let functions = listed["functions"].as_array().expect("a list");
    let known: BTreeSet<&str> = functions.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), known);
    assert!(known.contains("main"), "{text}");
}

#[test]
fn the_table_has_names_addresses_and_arguments() {
    if !compilers() {
        return;
    }
    let program = build("usdt.c", &[]);
    let output = probes(&[program.text(), "t*"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.contains("usdt:app:tick")).expect("the USDT probe");
    assert!(line.ends_with(r"no  usdt:app:tick arg1=%di:s32 arg2=%si:u64 arg3=\-7:s32"), "{line}");
    assert!(text.lines().any(|line| line.starts_with("0x") && line.ends_with("  tick")), "{text}");
    assert!(!text.contains("main") && !text.contains("guarded\n"), "{text}");

    let shapes = build("shapes.cpp", &[]);
    let output = probes(&[shapes.text(), "geometry::max_of"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<_> = text.lines().skip(2).filter_map(|line| line.get(29..)).collect();
    assert_eq!(names, ["geometry::max_of<int>(int, int)", "geometry::max_of<long>(long, long)"]);
}

#[test]
fn usdt_probes_alone_can_be_asked_for_with_json() {
    if !compilers() {
        return;
    }
    let program = build("usdt.c", &[]);
    let list = json(&[program.text(), "usdt:app:guarded"]);
    assert_eq!(list["functions"], Value::Array(Vec::new()));
    let probe = &list["usdt"][0];
    assert_eq!(probe["name"], "guarded");
    assert!(probe["semaphore"].as_u64().is_some_and(|address| address > 0), "{probe}");
    assert_eq!(list["usdt"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_cannot_be_listed_fails_with_125_and_the_reason() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    for (arguments, part) in [
        (vec!["/none"], "cannot open /none"),
        (vec!["libnone"], "library libnone not found"),
        (vec![program.text(), "wrok"], "did you mean work?"),
        (vec![program.text(), "usdt:*:*"], "it has no USDT probes"),
    ] {
        let output = probes(&arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("fxtrec: ") && text.contains(part), "{text}");
        assert!(output.stdout.is_empty());
    }
}
