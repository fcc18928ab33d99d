//! Names that are found later, for recordings without them; and names of code that is in no file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use fxt_reader::{Reader, Record};
use fxtrec::units::protobuf::{FieldValue, fields};
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{build, source, succeed};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

const ROUNDS: usize = 20;

/// The functions of the stacks of long waits, the innermost first; "?" for one without a name.
fn stacks(folder: &Folder, file: &str) -> Vec<Vec<String>> {
    folder.fxtrec(["dump", file, "--check"]).expect(0);
    let printed = folder.fxtrec(["report", file, "--stacks", "--json", "--worst", "1000000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let waits = json["worst"].as_array().expect("waits");
    let name = |frame: &Value| frame["function"].as_str().unwrap_or("?").to_owned();
    let functions = |frames: &Vec<Value>| frames.iter().map(name).collect();
    waits.iter().filter_map(|wait| wait["frames"].as_array()).map(functions).collect()
}

/// How many of the stacks have a function.
fn with(stacks: &[Vec<String>], function: &str) -> usize {
    stacks.iter().filter(|stack| stack.iter().any(|name| name == function)).count()
}

fn bytes(value: FieldValue<'_>) -> &[u8] {
    match value {
        FieldValue::Bytes(bytes) => bytes,
        FieldValue::Number(number) => panic!("{number}"),
    }
}

/// The function names of frames for Perfetto, in any stack.
fn for_perfetto(path: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut reader = Reader::open(path).expect("a trace");
    while let Some(item) = reader.next().expect("sound") {
        let Record::Blob(blob) = item.record else { continue };
        for packet in fields(blob.payload).expect("a message") {
            let packet = fields(bytes(packet.value)).expect("a packet");
            for data in packet.iter().filter(|field| field.number == 12) {
                for item in fields(bytes(data.value)).expect("interned data") {
                    if item.number == 5 {
                        let function = fields(bytes(item.value)).expect("a function");
                        let name = function.iter().find(|field| field.number == 2);
                        let name = bytes(name.expect("a name").value).to_vec();
                        names.insert(String::from_utf8(name).expect("text"));
                    }
                }
            }
        }
    }
    names
}

#[test]
fn names_that_were_not_recorded_are_found_by_build_id_and_never_by_path_alone() {
    if !may_unwind(&["gcc", "objcopy"]) {
        return;
    }
    let program = build("waits.c", &["-O2", "-Wl,--build-id=0x0123456789abcdef"]);
    let folder = Folder::new();
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(&folder, &options, &[program.text(), &ROUNDS.to_string()]);
    let before = stacks(&folder, "t.fxt");
    assert!(before.len() > ROUNDS && before.iter().flatten().all(|name| name == "?"), "{before:?}");
    let is_ours = |name: &String| name.starts_with("blocks_in_");
    assert!(!for_perfetto(&folder.path("t.fxt")).iter().any(is_ours));
    let original = fs::read(folder.path("t.fxt")).expect("it was recorded");

    // All users may read the trace. The files of the names may be unreadable for other users.
    fs::set_permissions(folder.path("t.fxt"), PermissionsExt::from_mode(0o644))
        .expect("it is ours");
    let said = folder.fxtrec(["symbolize", "t.fxt"]).expect(0).stderr;
    assert!(said.contains("functions named"), "{said}");
    let mode = folder.path("t.symbolized.fxt").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let named = stacks(&folder, "t.symbolized.fxt");
    assert_eq!(named.len(), before.len());
    let count = with(&named, "blocks_in_poll");
    println!("{count} in blocks_in_poll of {}\n{said}", named.len());
    // Waits that were not meant to be long do not occur in all rounds.
    assert!(count * 2 >= ROUNDS && with(&named, "descend") * 2 >= ROUNDS, "{named:?}");
    // The running kernel is the one that was recorded.
    assert!(with(&named, "do_syscall_64") + with(&named, "el0_svc") > count, "{named:?}");
    assert!(for_perfetto(&folder.path("t.symbolized.fxt")).contains("blocks_in_poll"));
    assert_eq!(fs::read(folder.path("t.fxt")).expect("still there"), original);
    let refused = folder.fxtrec(["symbolize", "t.fxt", "-o", "t.fxt"]).expect(125).stderr;
    assert!(refused.contains("same file as the input"), "{refused}");
    assert_eq!(fs::read(folder.path("t.fxt")).expect("still there"), original);

    // Functions with names keep them, and nothing is written twice.
    folder.fxtrec(["symbolize", "t.symbolized.fxt", "-o", "again.fxt", "-q"]).expect(0);
    assert_eq!(stacks(&folder, "again.fxt"), named);
    let size = |name| folder.path(name).metadata().expect("a file").len();
    assert_eq!(size("again.fxt"), size("t.symbolized.fxt"));

    // Another program is at this path now, with the same functions at other addresses; the symbols of the recorded one are elsewhere.
    let place = folder.path("debug/.build-id/01");
    fs::create_dir_all(&place).expect("room");
    let debug = place.join("23456789abcdef.debug");
    succeed(Command::new("objcopy").arg("--only-keep-debug").arg(program.path()).arg(&debug));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-Wl,--build-id=0x9999"]).arg(source("waits.c"));
    succeed(gcc.arg("-o").arg(program.path()));
    let said = folder.fxtrec(["symbolize", "t.fxt", "-o", "other.fxt"]).expect(0).stderr;
    assert!(said.contains("1 file with another build id, not used"), "{said}");
    assert!(said.contains("not found: ") && said.contains("0123456789abcdef"), "{said}");
    let other = stacks(&folder, "other.fxt");
    assert_eq!(other.iter().flatten().filter(|name| is_ours(name)).count(), 0, "{other:?}");
    let line = ["symbolize", "t.fxt", "-o", "found.fxt.zst", "--debug-dir", "debug"];
    folder.fxtrec(line).expect(0);
    assert_eq!(stacks(&folder, "found.fxt.zst"), named);
}

#[test]
fn a_kernel_is_named_by_its_vmlinux_if_that_is_the_recorded_build() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(&folder, &options, &["sleep", "0.05"]);
    let notes = fs::read("/sys/kernel/notes").expect("the kernel has notes");
    let id = fxtrec::kernel::code::gnu_build_id(&notes);
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    // In place of the kernel: one function for all of its text.
    folder.write(
        "k.s",
        ".globl _stext, whole_kernel\n.type whole_kernel, %function\n.text\n_stext:\n.skip 16\nwhole_kernel:\n\
         .skip 16\n.size whole_kernel, 0x4000000\n",
    );
    for (file, id) in [("vmlinux", &*id), ("other", "1234")] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-nostdlib", "-static", "-Wl,-e,_stext"]).arg(format!("-Wl,--build-id=0x{id}"));
        succeed(gcc.arg(folder.path("k.s")).arg("-o").arg(folder.path(file)));
    }
    let symbolize = |vmlinux: &str, out: &str| {
        folder.fxtrec(["symbolize", "t.fxt", "-o", out, "--vmlinux", vmlinux]).expect(0).stderr
    };
    symbolize("vmlinux", "named.fxt");
    let named = stacks(&folder, "named.fxt");
    assert!(with(&named, "whole_kernel") > 0, "{named:?}");
    // As in Debian's symbol packages, next to one of another build.
    for (file, installed) in [("other", "boot/vmlinux-1"), ("vmlinux", "lib/modules/2/vmlinux")] {
        let installed = folder.path("debug/usr/lib/debug").join(installed);
        fs::create_dir_all(installed.parent().expect("a folder")).expect("room");
        fs::copy(folder.path(file), installed).expect("room");
    }
    folder.fxtrec(["symbolize", "t.fxt", "-o", "found.fxt", "--debug-dir", "debug"]).expect(0);
    assert_eq!(stacks(&folder, "found.fxt"), named);
    let said = symbolize("other", "refused.fxt");
    assert!(said.contains("another build: other"), "{said}");
    let refused = stacks(&folder, "refused.fxt");
    assert_eq!(with(&refused, "whole_kernel"), 0);
    assert!(
        with(&refused, "hrtimer_nanosleep") + with(&refused, "do_nanosleep") > 0,
        "{refused:?}"
    );
}

#[test]
fn what_cannot_be_symbolized_is_refused_with_the_reason() {
    let folder = Folder::new();
    let fails = |line: &[&str], why: &str| {
        let said = folder.fxtrec(line).expect(125).stderr;
        assert!(said.contains(why), "{said}");
    };
    fails(&["symbolize", "-"], "name it with -o");
    for command in [
        &["symbolize"][..],
        &["flame"],
        &["report", "--stacks"],
        &["why"],
        &["cut", "--from", "1s", "-o", "part.fxt"],
    ] {
        fails(&[command, &["none.fxt"]].concat(), "cannot open none.fxt: No such file");
    }
    for command in ["symbolize", "flame"] {
        fails(&[command, "."], "cannot open .: is a directory");
    }
    folder.write("no.fxt", 0x0016_5478_4604_0010_u64.to_le_bytes());
    fails(&["symbolize", "no.fxt"], "the trace has no stacks: record it with --stacks");
    assert!(!folder.path("no.symbolized.fxt").exists());
    folder.fxtrec(["symbolize"]).expect(2);
    folder.fxtrec(["--no-symbols", "true"]).expect(125);
}

#[test]
fn code_that_a_program_compiled_itself_is_called_as_its_runtime_tells_perf() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    // The program continues until its map is read, however slow a debug build reads everything else.
    let rounds = 2 * ROUNDS;
    let program = build("made.c", &["-fno-omit-frame-pointer"]);
    for more in [&[][..], &["--no-symbols"], &["--mode", "circular"]] {
        let folder = Folder::new();
        let mut fxtrec = binary::command();
        fxtrec.args(["-o", "t.fxt", "--source", "bpf", "--stacks", "--scope", "app"]).args(more);
        fxtrec.arg("--").args([program.text(), &rounds.to_string()]);
        let printed = folder.run(&mut fxtrec).expect(0).stdout;
        assert!(printed.contains("made_up"), "{printed}");
        let found = stacks(&folder, "t.fxt");
        let made: Vec<&Vec<String>> =
            found.iter().filter(|stack| stack.iter().any(|name| name == "made_up")).collect();
        println!("{more:?}: {} of {rounds}: {:?}", made.len(), made.first());
        assert!(made.len() * 2 >= rounds, "{found:?}");
        if more.contains(&"--no-symbols") {
            continue;
        }
        for stack in made {
            let at = stack.iter().position(|name| name == "blocks").expect("it blocks there");
            let callers: Vec<&str> = stack[at..].iter().map(String::as_str).collect();
            assert_eq!(callers[..4], ["blocks", "made_up", "calls_what_was_made", "main"]);
        }
    }
}

#[test]
fn functions_that_a_program_compiled_itself_without_telling_perf_are_counted() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("made.c", &["-fno-omit-frame-pointer"]);
    let rounds = ROUNDS.to_string();
    let said = |more: &[&str]| {
        let folder = Folder::new();
        let mut fxtrec = binary::command();
        fxtrec.args(["-o", "t.fxt", "--source", "bpf", "--stacks", "--scope", "app"]).args(more);
        fxtrec.arg("--").args([program.text(), &rounds, "quietly"]);
        let said = folder.run(&mut fxtrec).expect(0).stderr;
        let dump = folder.fxtrec(["dump", "t.fxt"]).expect(0).stdout;
        (said, dump.contains("stacks_unnamed") && dump.contains("generated="))
    };
    // Names in perf maps are used without symbols, too.
    for more in [&[][..], &["--mode", "circular"], &["--no-symbols"]] {
        let (said, is_recorded) = said(more);
        assert!(said.contains("frames unnamed: their programs generated"), "{more:?} {said}");
        assert!(is_recorded, "{more:?}");
    }
}

#[test]
fn samples_in_the_vdso_name_its_functions_and_their_callers() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("clock.c", &["-O1"]);
    let folder = Folder::new();
    let options = ["--source", "bpf", "--stacks=cpu", "-F", "499", "--scope", "app"];
    record_in(&folder, &options, &[program.text()]);
    let folded = folder.fxtrec(["flame", "t.fxt", "--cpu", "--comm", "clock"]).expect(0).stdout;
    let weight = |parts: &[&str]| -> u64 {
        let lines = folded.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        lines.map(|line| line.rsplit(' ').next().expect("one").parse::<u64>().expect("ns")).sum()
    };
    let vdso = match cfg!(target_arch = "aarch64") {
        true => ";__kernel_clock_gettime",
        false => ";__vdso_clock_gettime",
    };
    let (all, in_vdso, known) =
        (weight(&[]), weight(&[vdso]), weight(&[";reads_the_clock;", vdso]));
    println!("{in_vdso} of {all} ns in the vDSO, {known} of them with callers");
    assert!(all > 100_000_000 && in_vdso * 5 > all, "{folded}");
    assert!(known * 10 >= in_vdso * 9, "{folded}");
    folder.fxtrec(["dump", "t.fxt", "--check"]).expect(0);
}

#[test]
fn files_of_a_process_that_executes_another_program_are_distinguished_without_names() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("waits.c", &["-O2"]);
    let folder = Folder::new();
    let script = format!("sleep 0.05; exec {} {ROUNDS}", program.text());
    let options = ["--source", "bpf", "--stacks", "--no-symbols", "--scope", "app"];
    record_in(&folder, &options, &["sh", "-c", &script]);
    folder.fxtrec(["symbolize", "t.fxt", "-o", "named.fxt"]).expect(0);
    let printed = folder.fxtrec(["report", "named.fxt", "--stacks", "--json", "--worst", "100000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let (mut shell, mut own) = (0, 0);
    for wait in json["worst"].as_array().expect("waits") {
        let frames = wait["frames"].as_array().into_iter().flatten();
        let (kernel, user): (Vec<&Value>, Vec<&Value>) =
            frames.partition(|it| it["kernel"] == true);
        let has = |frames: &[&Value], key: &str, part: &str| {
            frames.iter().any(|frame| frame[key].as_str().is_some_and(|it| it.contains(part)))
        };
        let is_ours = has(&user, "function", "blocks_in_");
        // Only the shell waits for a child.
        if has(&kernel, "function", "wait4") {
            assert!(has(&user, "module", "sh") && !has(&user, "module", program.text()), "{wait}");
            shell += 1;
        } else if is_ours {
            assert!(
                has(&user, "module", program.text()) && !has(&user, "module", "/dash"),
                "{wait}"
            );
            own += 1;
        }
    }
    assert!(shell == 1 && own >= ROUNDS, "{shell}, {own}");
}

/// In which of its two functions a process waited, in the order of the waits.
fn waited_in(folder: &Folder, file: &str) -> Vec<&'static str> {
    folder.fxtrec(["dump", file, "--check"]).expect(0);
    let printed = folder.fxtrec(["report", file, "--stacks", "--json", "--worst", "1000000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let mut found = Vec::new();
    for wait in json["worst"].as_array().expect("waits") {
        let begun = wait["begin_ns"].as_u64().expect("a time");
        let frames = wait["frames"].as_array().into_iter().flatten();
        let names: Vec<&str> = frames.filter_map(|frame| frame["function"].as_str()).collect();
        for of in ["first_waits", "later_waits"] {
            if names.contains(&of) {
                found.push((begun, of));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, of)| of).collect()
}

#[test]
fn two_programs_of_one_process_have_their_own_names_at_the_same_addresses() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let heir = |name: &str, id: &str| {
        let flags = [&format!("-DWAITS={name}"), "-O2", "-static", "-no-pie", id];
        build("heir.c", &flags)
    };
    let first = heir("first_waits", "-Wl,--build-id=0x0123456789abcdf1");
    let later = heir("later_waits", "-Wl,--build-id=0x0123456789abcdf2");
    let rounds = ROUNDS.to_string();
    let command = [first.text(), &rounds, later.text(), &rounds];
    let folder = Folder::new();
    let check = |file: &str| {
        let found = waited_in(&folder, file);
        let of_first = found.iter().take_while(|of| **of == "first_waits").count();
        let of_later = found[of_first..].iter().filter(|of| **of == "later_waits").count();
        println!("{file}: {of_first} and {of_later}");
        assert!(of_first * 4 >= ROUNDS * 3 && of_later * 4 >= ROUNDS * 3, "{file}: {found:?}");
        assert_eq!(of_first + of_later, found.len(), "{file}: {found:?}");
    };
    let options = ["--source", "bpf", "--stacks", "--scope", "app"];
    record_in(&folder, &options, &command);
    check("t.fxt");
    // Its modules get other numbers there.
    folder.fxtrec(["merge", "t.fxt", "t.fxt", "-o", "both.fxt"]).expect(0);
    let both = waited_in(&folder, "both.fxt");
    let of_later = both.iter().filter(|of| **of == "later_waits").count();
    assert!(of_later * 2 >= ROUNDS * 3 && both.len() - of_later >= ROUNDS, "{both:?}");
    record_in(&folder, &[&options[..], &["--no-symbols"]].concat(), &command);
    assert_eq!(waited_in(&folder, "t.fxt"), [""; 0]);
    folder.fxtrec(["symbolize", "t.fxt"]).expect(0);
    check("t.symbolized.fxt");
    // The code of earlier programs is recorded at the end of these.
    let mut circular = binary::command();
    circular.args(["-o", "last.fxt", "--mode", "circular"]).args(options).arg("--").args(command);
    folder.run(&mut circular).expect(0);
    check("last.fxt");
}
