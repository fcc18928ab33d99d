//! Names for stacks: which frames are looked up, where names are stored, and what is rejected.

use fxt_reader::{Reader, Record};
use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName, UserspaceObject};
use fxt_writer::{Text, ThreadName, Ticks, Writer};
use fxtrec_kernel::code::executable_mappings;
use fxtrec_probe::elf::{self, Elf};

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fxtrec_kernel::worker::Worker;

use super::*;
use crate::symbolize::{Where, in_this_process, symbolize};

/// The C library of this test process.
struct Libc {
    path: String,
    id: Vec<u8>,
    /// The addresses of two of its functions, with their first names.
    functions: [(u64, String); 2],
}

fn libc() -> Libc {
    let mappings = executable_mappings(std::process::id()).expect("its own");
    let path = mappings
        .into_iter()
        .map(|mapping| mapping.path)
        .find(|path| path.to_string_lossy().contains("/libc.so"))
        .expect("it runs with one");
    let data = elf::open(&path).expect("it is there");
    let elf = Elf::parse(&data).expect("sound");
    let functions = elf.functions().expect("sound");
    let function = |name: &str| {
        let wanted = functions.all.iter().find(|it| it.raw == name).expect("it has that function");
        let (first, _) = functions.at(wanted.address).expect("it is in itself");
        (wanted.address, first.raw.clone())
    };
    let path = path.to_str().expect("plain").to_owned();
    let id = elf.build_id().expect("it has one").to_vec();
    Libc { path, id, functions: [function("strtol"), function("poll")] }
}

/// The address of the library in the process.
const BASE: u64 = 0x7000_0000_0000;

fn process(koid: u64) -> ThreadName {
    ThreadName::Inline { process: fxt_writer::Koid(koid), thread: fxt_writer::Koid(koid) }
}

type Trace = Writer<Vec<u8>>;

fn code(trace: &mut Trace, of: u64, id: u16, (path, build_id): (&str, &[u8])) {
    let (time, process) = (Ticks(1), ProcessName::Inline(fxt_writer::Koid(of)));
    trace.write(&Module { time, process, id, name: path, build_id }).expect("room");
    let (start, length) = (BASE, 1 << 40);
    let mapping = Mapping { time, process, module: id, flags: 5, start, length, module_address: 0 };
    trace.write(&mapping).expect("room");
}

fn stack(trace: &mut Trace, of: u64, time: u64, frames: &[u64]) {
    let frames: Vec<u64> = frames.iter().map(|frame| BASE + frame).collect();
    let (time, thread) = (Ticks(time), process(of));
    trace.write(&Backtrace { time, thread, flags: 0, frames: &frames }).expect("room");
}

fn trace() -> Trace {
    let mut trace = Writer::new(Vec::new());
    trace.start("t", 1_000_000_000).expect("room");
    trace
}

/// Without additional directories; a thread reads the files.
fn places() -> Where {
    let time = Duration::from_secs(60);
    let (debug_folders, vmlinux, show_progress) = (Vec::new(), None, false);
    Where { debug_folders, vmlinux, time, show_progress, start: in_this_process }
}

/// A summary of the new trace's records: the names, and the times of stacks.
fn named(trace: Trace) -> (Vec<String>, Report, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.fxt");
    std::fs::write(&path, trace.into_inner()).expect("room");
    let mut out = Vec::new();
    let report = symbolize(&path, &places(), None, &mut out).expect("it has stacks");
    let mut reader = Reader::from_slice(&out);
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            Record::UserspaceObject(object) => {
                let (of, at) = (object.process, object.pointer - BASE);
                found.push(format!("{}:{at:x} {}", of.0, object.name));
            }
            Record::Backtrace(stack) => found.push(format!("at {}", stack.time.0)),
            _ => {}
        }
    }
    drop(reader);
    (found, report, out)
}

#[test]
fn names_stand_before_the_first_stack_that_needs_them_and_once() {
    let Libc { path, id, functions: [(first, one), (second, other)] } = libc();
    let mut trace = trace();
    code(&mut trace, 7, 0, (&path, &id));
    stack(&mut trace, 7, 10, &[first + 4, second + 1]);
    stack(&mut trace, 7, 20, &[first + 4, first + 5]);
    // The records that explain it follow, as in a trace that keeps only the newest part of a recording. A return address may be in the next
    // function.
    stack(&mut trace, 8, 30, &[second, second]);
    code(&mut trace, 8, 3, (&path, &id));
    let (found, report, _) = named(trace);
    let name = |of: u64, at: u64, name: &str| format!("{of}:{at:x} {name}");
    let at = |time: u64| format!("at {time}");
    let expected = [
        name(7, first + 4, &one),
        name(7, second + 1, &other),
        at(10),
        name(7, first + 5, &one),
        at(20),
        name(8, second, &other),
        at(30),
    ];
    assert_eq!(found, expected);
    assert_eq!((report.times("functions named"), report.times("files found")), (4, 1));
}

#[test]
fn names_that_are_there_stay_and_a_second_time_changes_nothing() {
    let Libc { path, id, functions: [(first, _), (second, other)] } = libc();
    let mut trace = trace();
    code(&mut trace, 7, 0, (&path, &id));
    stack(&mut trace, 7, 10, &[first, second + 2]);
    let (pointer, name) = (BASE + first, Text::Inline("known by the recorder"));
    let object = UserspaceObject { pointer, process: process(7), name, args: &[] };
    trace.write(&object).expect("room");
    let (found, _, out) = named(trace);
    let expected = [
        format!("7:{:x} {other}", second + 2),
        "at 10".to_owned(),
        format!("7:{first:x} known by the recorder"),
    ];
    assert_eq!(found, expected);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.fxt");
    std::fs::write(&path, &out).expect("room");
    let mut again = Vec::new();
    symbolize(&path, &places(), None, &mut again).expect("it has stacks");
    assert_eq!(again, out);
}

#[test]
fn a_file_of_another_build_or_without_one_is_not_taken() {
    let Libc { path, id, functions: [(first, _), _] } = libc();
    for (build_id, remark) in [
        (&[&id[..], &[1]].concat()[..], "files with another build id, not used"),
        (&[][..], "files without a build id, left out"),
    ] {
        let mut trace = trace();
        code(&mut trace, 7, 0, (&path, build_id));
        stack(&mut trace, 7, 10, &[first]);
        let (found, report, _) = named(trace);
        assert_eq!(found, ["at 10"]);
        assert_eq!(report.times(remark), 1, "{report}");
        assert_eq!(report.times("functions named"), 0);
    }
}

#[test]
fn the_code_that_counts_is_what_had_been_told_by_then() {
    let Libc { path, id, functions: [(first, _), (second, other)] } = libc();
    let mut trace = trace();
    code(&mut trace, 7, 0, ("/nowhere", &[9; 20]));
    stack(&mut trace, 7, 10, &[first]);
    // The process executes another program.
    code(&mut trace, 7, 1, (&path, &id));
    stack(&mut trace, 7, 20, &[second]);
    let (found, report, _) = named(trace);
    assert_eq!(found, ["at 10".to_owned(), format!("7:{second:x} {other}"), "at 20".to_owned()]);
    assert_eq!(report.times("files not found"), 1);
    assert!(report.notes()[0].starts_with("not found: /nowhere (build id 0909"), "{report}");
}

/// A worker whose files never respond. It ends when it is abandoned.
fn hanging(_: u64) -> io::Result<Worker> {
    let (ours, theirs) = UnixStream::pair()?;
    std::thread::spawn(move || io::Read::read_to_end(&mut &theirs, &mut Vec::new()));
    Ok(Worker::at(ours))
}

#[test]
fn all_files_together_have_an_end_and_those_of_most_stacks_come_first() {
    let mut trace = trace();
    code(&mut trace, 7, 0, ("/rare", &[1; 20]));
    code(&mut trace, 8, 0, ("/frequent", &[2; 20]));
    stack(&mut trace, 7, 10, &[1, 2, 3]);
    for time in 20..24 {
        stack(&mut trace, 8, time, &[1]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.fxt");
    std::fs::write(&path, trace.into_inner()).expect("room");
    let run =
        |places: &Where| symbolize(&path, places, None, &mut Vec::new()).expect("it has stacks");
    let files = |report: &Report, why: &str| {
        let notes = report.notes().iter().filter_map(|note| note.strip_prefix(why));
        notes.map(|note| note.split(' ').next().expect("a path").to_owned()).collect::<Vec<_>>()
    };
    let found = run(&places());
    assert_eq!(files(&found, "not found: "), ["/frequent", "/rare"], "{found}");
    let late = run(&Where { time: Duration::from_millis(50), start: hanging, ..places() });
    assert_eq!(files(&late, "no time: "), ["/frequent", "/rare"], "{late}");
    assert_eq!(late.times("files not read to the end: --naming-time had expired"), 2);
    assert_eq!(late.times("addresses without a name"), 4);
}
