//! Python functions in stacks: each version of CPython that is installed, and a program that pretends to be one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{build, source};
use fxtrec_tests::recording::{Recording, record_in};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::{machine, tools};

use crate::stacks::{Stack, Stacks, can_be_default};

/// The flag of a backtrace in which Python functions are missing.
const LACKS: u32 = 1 << 7;

const OPTIONS: [&str; 6] = ["--source", "bpf", "--scope", "app", "--stacks", "--stacks-over=1ms"];

/// The interpreters of versions that are known, in the usual places.
fn interpreters() -> Vec<PathBuf> {
    let versions = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let installed = versions.map(|root| root.join("versions").read_dir());
    let installed = installed.into_iter().flatten().flatten().flatten();
    let folders = installed.map(|version| version.path().join("bin"));
    let folders = folders.chain(["/usr/bin", "/usr/local/bin"].map(PathBuf::from));
    let name = |minor| format!("python3.{minor}");
    let found = folders.flat_map(|bin| (8..=14).map(move |minor| bin.join(name(minor))));
    found.filter(|path| path.is_file()).collect()
}

/// The names of the functions of each thread's stacks, the innermost first, each stack with its flags.
fn stacks(trace: &Path) -> BTreeMap<u64, Vec<(u32, Vec<String>)>> {
    let of_thread = |stacks: Vec<Stack>| {
        stacks.into_iter().map(|stack| (stack.flags, stack.functions)).collect()
    };
    let stacks = Stacks::read(trace).of.into_iter();
    stacks.map(|(thread, stacks)| (thread, of_thread(stacks))).collect()
}

/// Where the program waits, in the expected form.
const WAITS: [&str; 3] =
    ["wait_here (blocker.py:11)", "middle (blocker.py:17)", "outer (blocker.py:23)"];

/// Whether a stack has these functions, one below the other except for native functions between them.
fn has(functions: &[String], wanted: &[&str]) -> bool {
    let mut python = functions.iter().filter(|name| name.contains(".py:"));
    wanted.iter().all(|name| python.next().is_some_and(|it| it == name))
}

#[test]
fn each_version_of_python_names_the_functions_in_which_its_threads_wait() {
    if !may_record() || !can_be_default() {
        return;
    }
    let interpreters = interpreters();
    if interpreters.is_empty() {
        return skip("there is no CPython of a version that is known");
    }
    const ROUNDS: usize = 100;
    let program = source("blocker.py");
    let program = program.to_str().expect("a plain path");
    let script = format!("for python; do \"$python\" {program} {ROUNDS} $PPID & done; wait");
    let mut command = vec!["sh", "-c", &script, "sh"];
    command.extend(interpreters.iter().map(|python| python.to_str().expect("a plain path")));
    let folder = Folder::new();
    let turn = machine::quiet();
    let recording = record_in(&folder, &OPTIONS, &command);
    turn.give_back();
    let stacks = stacks(&folder.path("t.fxt"));
    let lines = recording.lines();
    assert_eq!(lines.len(), interpreters.len(), "{}", recording.printed);
    for line in lines {
        let [first, second, python] = line[..] else { panic!("{}", recording.printed) };
        for (thread, last) in [(first, "<module> (blocker.py:56)"), (second, "run (threading.py:")]
        {
            let own = &stacks[&thread.parse::<u64>().expect("a thread")];
            let wanted = |functions: &[String]| {
                let mut outer = functions.iter().filter(|name| name.contains(".py:")).skip(3);
                has(functions, &WAITS) && outer.next().is_some_and(|it| it.contains(last))
            };
            let right = own.iter().filter(|(_, functions)| wanted(functions)).count();
            // Other threads are where they wait for the interpreter's lock.
            let in_round = |functions: &[String]| {
                let sleeps = functions
                    .iter()
                    .any(|name| name.contains("nanosleep") || name.contains("select"));
                let warms_up = functions.iter().any(|name| name.starts_with("warm_up"));
                sleeps && !warms_up
            };
            let wrong =
                own.iter().filter(|(_, functions)| in_round(functions) && !wanted(functions));
            let wrong: Vec<_> = wrong.collect();
            println!("{python}: {right} of {ROUNDS} right, {} wrong", wrong.len());
            // Where this kernel does not report a switch, a wait has no stack.
            assert!(
                right * 100 >= ROUNDS * 90 && right * 100 >= (right + wrong.len()) * 99,
                "{python}, {last}: {right} right, {:#?}",
                own.last()
            );
            assert!(wrong.len() * 100 <= ROUNDS, "{python}, {last}: {wrong:#?}");
            let lacking =
                own.iter().filter(|(flags, functions)| wanted(functions) && flags & LACKS != 0);
            assert_eq!(lacking.count(), 0, "{python}, {last}");
        }
        let flame = folder.fxtrec(["flame", "t.fxt", "-p", first]).expect(0).stdout;
        let is_ours = |line: &&str| line.contains(";wait_here (blocker.py:11);");
        let line = flame.lines().find(is_ours).unwrap_or_else(|| panic!("{flame}"));
        assert!(line.contains(";middle (blocker.py:17);"), "{line}");
    }
}

/// Records the program that pretends to be Python.
fn liar(says: &str) -> (Recording, Vec<(u32, Vec<String>)>) {
    let built = build("python_liar.c", &["-O1", "-rdynamic", "-fno-omit-frame-pointer"]);
    let folder = Folder::new();
    let recording = record_in(&folder, &OPTIONS, &[built.text(), says]);
    let stacks = stacks(&folder.path("t.fxt")).into_values().flatten();
    let is_of_round = |(_, names): &(u32, Vec<String>)| {
        names.iter().any(|name| name.contains("nanosleep"))
            && !names.iter().any(|name| name.is_empty())
    };
    (recording, stacks.filter(is_of_round).collect())
}

#[test]
fn a_program_that_pretends_to_be_python_with_endless_lists_is_walked_for_a_while_and_marked() {
    if !may_record() || !can_be_default() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let turn = machine::quiet();
    let (_, known) = liar("known");
    let marked =
        known.iter().filter(|(_, names)| names.iter().any(|it| it == "[more Python functions]"));
    let marked: Vec<_> = marked.collect();
    assert!(marked.len() >= 45, "{} of {}: {:#?}", marked.len(), known.len(), known.last());
    for (flags, names) in marked {
        assert_ne!(flags & LACKS, 0, "{names:?}");
        let unread = names.iter().filter(|name| name.contains("could not be read")).count();
        assert_eq!(unread, 64, "{names:?}");
        assert!(names.iter().any(|name| name == "main"), "{names:?}");
    }
    let (_, unknown) = liar("unknown");
    assert!(unknown.len() >= 45);
    assert!(unknown.iter().all(|(_, names)| !names.iter().any(|it| it.contains("Python"))));
    turn.give_back();
}
