//! USDT probes, compared with readelf.

use std::process::Command;

use fxtrec::probe::SiteKind;
use fxtrec_tests::programs::{build, succeed};

use crate::found::{NO_CONTEXT, as_in, compilers, refusal, sites};

/// One note as readelf prints it: name, location and semaphore.
fn notes(program: &str) -> Vec<(String, u64, u64)> {
    let text = succeed(Command::new("readelf").args(["--notes", program]));
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(&format!("{name}: 0x")).expect(name).1;
        u64::from_str_radix(rest.split(',').next().expect("a number"), 16).expect("hexadecimal")
    };
    let mut notes = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some((_, text)) = line.split_once("Name: ") {
            name = text.to_owned();
        } else if line.contains("Location: ") {
            notes.push((name.clone(), number(line, "Location"), number(line, "Semaphore")));
        }
    }
    notes.sort();
    notes
}

#[test]
fn usdt_probes_are_where_their_notes_say_with_semaphores_and_arguments() {
    if !compilers() {
        return;
    }
    for flags in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = build("usdt.c", &flags);
        let notes = notes(program.text());
        assert_eq!(notes.len(), 3, "{notes:?}");
        let all = sites(&format!("{}:usdt:app:*", program.text()));
        assert_eq!(all.len(), 3);
        let file = std::fs::read(program.path()).expect("it was just built");
        for (site, (name, location, semaphore)) in all.iter().zip(&notes) {
            assert_eq!(site.symbol, format!("app:{name}"));
            assert_eq!((site.kind, site.category()), (SiteKind::Usdt, "usdt"));
            let by_address = sites(&format!("{}:{location:#x}", program.text()));
            assert_eq!(site.offset, by_address[0].offset);
            assert_eq!(file[usize::try_from(site.offset).expect("small")], 0x90, "a nop");
            assert_eq!(site.semaphore.is_some(), *semaphore != 0);
        }
        let guarded = &all[1];
        let counter = usize::try_from(guarded.semaphore.expect("it is guarded")).expect("small");
        assert_eq!(&file[counter..counter + 2], [0, 0]);
        let section = succeed(Command::new("readelf").args(["-SW", program.text()]));
        let line = section.lines().find(|line| line.contains(" .probes ")).expect("the section");
        let fields: Vec<&str> = line.split_whitespace().collect();
        let place = fields.iter().position(|field| *field == ".probes").expect("the name");
        let offset = usize::from_str_radix(fields[place + 3], 16).expect("hexadecimal");
        assert_eq!(counter, offset, "the only thing in its section");
        let fetches: Vec<_> = all[2].args.iter().map(|arg| arg.fetch.as_str()).collect();
        assert_eq!(fetches, ["%di:s32", "%si:u64", r"\-7:s32"]);
    }
}

#[test]
fn arguments_of_usdt_probes_can_be_named_and_read_as_text() {
    if !compilers() {
        return;
    }
    let program = build("usdt.c", &[]);
    let site = &sites(&format!("{}:usdt:app:tick text=arg2:str n=arg1", program.text()))[0];
    let args: Vec<_> =
        site.args.iter().map(|arg| (arg.name.as_str(), arg.fetch.as_str())).collect();
    assert_eq!(args, [("text", "+0(%si):string"), ("n", "%di:s32")]);
    let text = refusal(&format!("{}:usdt:app:tick arg4", program.text()), &NO_CONTEXT);
    assert!(text.contains("has 3 arguments"), "{text}");
}

#[test]
fn a_usdt_probe_that_is_not_there_is_answered_with_those_that_are() {
    if !compilers() {
        return;
    }
    let program = build("usdt.c", &[]);
    let text = refusal(&format!("{}:usdt:app:tack", program.text()), &NO_CONTEXT);
    assert!(text.contains("no USDT probe app:tack; it has app:tick, app:done"), "{text}");
    let without = build("calls.c", &[]);
    let text = refusal(&format!("{}:usdt:*:*", without.text()), &NO_CONTEXT);
    assert!(text.contains("it has no USDT probes"), "{text}");
}

#[test]
fn stripping_a_program_leaves_its_usdt_probes() {
    if !compilers() {
        return;
    }
    let program = build("usdt.c", &[]);
    let before = sites(&format!("{}:usdt:app:*", program.text()));
    succeed(Command::new("strip").arg(program.path()));
    assert_eq!(as_in(&before, sites(&format!("{}:usdt:app:*", program.text()))), before);
}
