//! Two hundred threads that wait in two hundred functions and are woken at once: no stack is lost, and none belongs to another thread; also
//! in a recording with several files.

use std::collections::BTreeMap;
use std::path::Path;

use fxt_reader::record::BlobType;
use fxt_reader::{Reader, Record};
use fxtrec::units::protobuf::{FieldValue, fields};
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{Built, build};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

const THREADS: usize = 200;

fn herd() -> Built {
    build("herd.c", &["-O2"])
}

/// The function of each thread, as they print them.
fn own(printed: &str) -> BTreeMap<u64, String> {
    let own: BTreeMap<u64, String> = printed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(tid, name)| (tid.parse().expect("an id"), name.to_owned()))
        .collect();
    assert_eq!(own.len(), THREADS);
    own
}

/// The waits of the herd in a file.
#[derive(Debug, Default)]
struct Found {
    /// With the thread's own function in the stack.
    right: usize,
    /// Without a stack.
    missing: usize,
    /// These are not in a function of the herd, but show how a thread began.
    elsewhere: Vec<String>,
    /// How a thread ended. All end at once, and must wait for each other.
    ending: usize,
}

/// Whether a thread has left its function: glibc frees its stack, and the kernel ends it.
fn ends(names: &[&str]) -> bool {
    let ending = ["do_exit", "sys_exit", "madvise", "advise_stack", "nptl_free", "free_stack"];
    names.iter().any(|name| ending.iter().any(|part| name.contains(part)))
}

fn look(folder: &Folder, file: &str, own: &BTreeMap<u64, String>) -> Found {
    folder.fxtrec(["dump", file, "--check"]).expect(0);
    let printed = folder.fxtrec(["report", file, "--stacks", "--json", "--worst", "1000000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let mut found = Found::default();
    for wait in json["worst"].as_array().expect("waits") {
        let Some(own) = own.get(&wait["tid"].as_u64().expect("an id")) else { continue };
        let Some(frames) = wait["frames"].as_array() else {
            found.missing += 1;
            continue;
        };
        let names: Vec<&str> =
            frames.iter().map(|frame| frame["function"].as_str().unwrap_or("?")).collect();
        let herds: Vec<&&str> = names.iter().filter(|name| name.starts_with("waits_")).collect();
        match herds[..] {
            [name] => {
                assert_eq!(*name, own, "{names:?}");
                found.right += 1;
            }
            [] if ends(&names) => found.ending += 1,
            [] => found.elsewhere.push(names.join(" ")),
            _ => panic!("{own}: {names:?}"),
        }
    }
    println!("{file}: {found:?}");
    found
}

/// How many samples the trace has for Perfetto, and how many stacks.
fn for_perfetto(path: &Path) -> (usize, usize) {
    let mut reader = Reader::open(path).expect("a trace");
    let (mut samples, mut stacks) = (0, 0);
    while let Some(item) = reader.next().expect("sound") {
        match item.record {
            Record::Backtrace(_) => stacks += 1,
            Record::Blob(blob) if blob.blob_type == BlobType::Perfetto => {
                for packet in fields(blob.payload).expect("a message") {
                    let FieldValue::Bytes(packet) = packet.value else { panic!("{packet:?}") };
                    let of_packet = fields(packet).expect("a message");
                    samples += of_packet.iter().filter(|field| field.number == 135).count();
                }
            }
            _ => {}
        }
    }
    (samples, stacks)
}

/// The times of all stacks, the earliest first.
fn stack_times(path: &Path) -> Vec<u64> {
    let mut reader = Reader::open(path).expect("a trace");
    let mut times = Vec::new();
    while let Some(item) = reader.next().expect("sound") {
        if let Record::Backtrace(backtrace) = item.record {
            times.push(backtrace.time.0);
        }
    }
    times.sort_unstable();
    times
}

#[test]
fn no_stack_of_a_thundering_herd_is_lost_or_another_threads() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    const ROUNDS: usize = 5;
    let (folder, herd) = (Folder::new(), herd());
    let options = ["--source", "bpf", "--stacks", "--scope", "app"];
    let command = [herd.text(), &ROUNDS.to_string(), "50"];
    let recording = record_in(&folder, &options, &command);
    let own = own(&recording.printed);
    let mut events = recording.trace.own.iter();
    let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
    // Other threads may have the same slot in the kernel's table.
    let reported = ["unseen", "given_up"].map(|name| stats.number(name) as usize);
    assert_eq!((stats.number("lost"), stats.number("unknown_threads")), (0, 0));
    let inferred = recording.trace.switches.iter().filter(|switch| switch.inferred).count();
    let excused = reported.iter().sum::<usize>() + inferred;
    let found = look(&folder, "t.fxt", &own);
    assert!(found.missing <= excused, "{found:?}, {excused} told");
    // On a busy machine, a thread may be too late to wait in some rounds.
    assert!(found.right + found.missing >= THREADS * (ROUNDS - 1), "{found:?}");
    assert!(found.elsewhere.len() <= THREADS / 10, "{found:?}");
    let (samples, stacks) = for_perfetto(&folder.path("t.fxt"));
    assert_eq!(samples, stacks);
    assert!(samples >= found.right);
    // On a busy machine the herd may start late.
    let times = stack_times(&folder.path("t.fxt"));
    let [from, to] = [1, 3].map(|quarter| {
        let time = times[times.len() * quarter / 4];
        format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    });
    folder.fxtrec(["cut", "t.fxt", "part.fxt", "--from", &from, "--to", &to]).expect(0);
    let part = for_perfetto(&folder.path("part.fxt"));
    assert!(part.0 == part.1 && part.0 > 0 && part.0 < samples, "{part:?} of {samples}");
    folder.fxtrec(["merge", "t.fxt", "part.fxt", "-o", "both.fxt"]).expect(0);
    assert_eq!(for_perfetto(&folder.path("both.fxt")).0, samples + part.0);
}

#[test]
fn each_file_of_a_divided_recording_explains_its_own_stacks() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let (folder, herd) = (Folder::new(), herd());
    let options = ["-o", "t.fxt", "--stacks", "--scope", "app", "--rotate", "400ms"];
    let mut fxtrec = binary::command();
    fxtrec.args(options).arg("--").args([herd.text(), "20", "100"]);
    let own = own(&folder.run(&mut fxtrec).expect(0).stdout);
    let files: Vec<String> = (1..)
        .map(|number| format!("t.{number:04}.fxt"))
        .take_while(|name| folder.path(name).exists())
        .collect();
    // A debug build needs some time to find the names in itself, which COMMAND's process ran at first.
    assert!(files.len() >= 2, "{files:?}");
    let mut all = 0;
    for file in &files {
        let found = look(&folder, file, &own);
        // The first piece shows how threads began; in the others all threads only wait.
        assert!(found.elsewhere.len() <= THREADS / 10, "{found:?}");
        let (samples, stacks) = for_perfetto(&folder.path(file));
        assert_eq!(samples, stacks, "{file}");
        all += found.right;
    }
    // A wait that continues in the next file has no known length there.
    assert!(all >= THREADS * 10, "{all}");
}

#[test]
fn the_newest_part_of_a_recording_explains_its_stacks() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let (folder, herd) = (Folder::new(), herd());
    // The requested one in the middle, and the one at the end.
    let script = format!("{} 20 100 & sleep 1; kill -USR2 $PPID; wait", herd.text());
    let options = ["-o", "t.fxt", "--stacks", "--scope", "app", "--mode", "circular"];
    let mut fxtrec = binary::command();
    fxtrec.args(options).args(["--buffer-size", "1M", "--", "sh", "-c", &script]);
    let own = own(&folder.run(&mut fxtrec).expect(0).stdout);
    for file in ["t.1.fxt", "t.fxt"] {
        Trace::read(&folder.path(file)).assert_sound();
        let found = look(&folder, file, &own);
        assert!(found.right >= THREADS, "{found:?}");
        assert!(found.elsewhere.len() <= THREADS / 10, "{found:?}");
        // Overwritten samples may still exist for Perfetto.
        let (samples, stacks) = for_perfetto(&folder.path(file));
        assert!(samples >= stacks && stacks >= found.right, "{file}: {samples}, {stacks}");
    }
}
