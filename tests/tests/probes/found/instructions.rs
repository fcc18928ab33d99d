//! Where instructions begin, compared with the output of objdump.

use std::collections::BTreeSet;
use std::process::Command;

use fxtrec_tests::programs::{build, succeed};

use crate::found::{NO_CONTEXT, compilers, refusal, sites, symbols, try_resolve};

/// The offsets at which instructions of a function begin, according to objdump.
fn instructions(program: &str, function: &str) -> BTreeSet<u64> {
    let option = format!("--disassemble={function}");
    let code = succeed(Command::new("objdump").args([&option, "--no-show-raw-insn", program]));
    let addresses: Vec<u64> = code
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_once(":\t")?.0.trim(), 16).ok())
        .collect();
    let first = *addresses.first().unwrap_or_else(|| panic!("no code of {function} in\n{code}"));
    addresses.into_iter().map(|address| address - first).collect()
}

#[test]
fn a_probe_goes_where_an_instruction_begins_and_nowhere_else() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-O2", "-mavx2", "-ftree-vectorize"]);
    for function in ["main", "work", "many"] {
        let begins = instructions(program.text(), function);
        let last = *begins.last().expect("it has code");
        for offset in 0..=last {
            let spec = format!("{}:{function}+{offset}", program.text());
            match try_resolve(&spec, &NO_CONTEXT) {
                Ok(sites) => {
                    assert!(begins.contains(&offset), "{spec}");
                    let symbol = if offset == 0 {
                        function.to_owned()
                    } else {
                        format!("{function}+{offset:#x}")
                    };
                    assert_eq!(symbols(&sites), [symbol]);
                }
                Err(error) => {
                    assert!(!begins.contains(&offset), "{error}");
                    let before = *begins.range(..offset).next_back().expect("the first");
                    let after = begins.range(offset..).next();
                    let error = error.to_string();
                    assert!(error.contains(&format!("+{before:#x} and +")), "{error}");
                    if let Some(after) = after {
                        assert!(error.contains(&format!("and +{after:#x}")), "{error}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_names_unwind_information_shows_where_instructions_begin() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-no-pie"]);
    let nm = succeed(Command::new("nm").arg(program.path()));
    let line = nm.lines().find(|line| line.ends_with(" main")).expect("it has names yet");
    let main = u64::from_str_radix(&line[..16], 16).expect("an address");
    let begins = instructions(program.text(), "main");
    succeed(Command::new("strip").arg(program.path()));
    for offset in 0..=*begins.last().expect("it has code") {
        let spec = format!("{}:{:#x}", program.text(), main + offset);
        match try_resolve(&spec, &NO_CONTEXT) {
            Ok(_) => assert!(begins.contains(&offset), "{spec}"),
            Err(error) => {
                assert!(!begins.contains(&offset), "{error}");
                let error = error.to_string();
                assert!(error.contains(&format!("{main:#x}+{offset:#x} is inside an")), "{error}");
            }
        }
    }
}

#[test]
fn behind_the_function_there_is_nothing_of_it() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &[]);
    let text = refusal(&format!("{}:leaf+5000", program.text()), &NO_CONTEXT);
    assert!(text.contains("leaf+0x1388 is beyond the function, which has 0x"), "{text}");
}

#[test]
fn an_address_is_one_of_code_and_of_an_instruction() {
    if !compilers() {
        return;
    }
    let program = build("calls.c", &["-fno-pie", "-no-pie"]);
    let nm = succeed(Command::new("nm").arg(program.path()));
    let address = |name: &str| -> u64 {
        let line = nm.lines().find(|line| line.ends_with(&format!(" {name}"))).expect(name);
        u64::from_str_radix(&line[..16], 16).expect("an address")
    };
    let second = *instructions(program.text(), "work").iter().nth(1).expect("a second one");
    let inside = address("work") + second;
    let spec = format!("{}:{inside:#x}", program.text());
    assert_eq!(symbols(&sites(&spec)), [format!("work+{second:#x}")]);

    let text = refusal(&format!("{}:{:#x}", program.text(), address("sink")), &NO_CONTEXT);
    assert!(text.contains("is not in its code, which is at 0x"), "{text}");
    let text = refusal(&format!("{spec}%return"), &NO_CONTEXT);
    assert!(text.contains("not known to be the start of a function"), "{text}");
    let text = refusal(&format!("{spec} arg1"), &NO_CONTEXT);
    assert!(text.contains("name the register instead"), "{text}");
    assert_eq!(sites(&format!("{}:{:#x}%span arg1", program.text(), address("work"))).len(), 1);
}
