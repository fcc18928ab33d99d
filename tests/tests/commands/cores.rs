//! Long traces, which commands read by several threads if there are several CPUs: their output is the same to the byte as with one CPU,
//! where one thread does everything.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::placement::{allowed_cpus, stay_on_first};
use fxtrec_tests::root::may_record;

const PINGPONG: &str = env!("CARGO_BIN_EXE_pingpong");

/// Some MiB more than the amount that a single thread reads and analyses.
const LEAST: u64 = 10 << 20;

/// fxtrec with these arguments, by one thread and by several.
fn both(folder: &Folder, args: &[&str]) -> [Done; 2] {
    let alone = thread::scope(|scope| {
        let alone = scope.spawn(|| {
            stay_on_first().expect("there is one");
            folder.fxtrec(args)
        });
        alone.join().expect("it ran")
    });
    [alone, folder.fxtrec(args)]
}

/// Both print the same output. Returns it.
#[track_caller]
fn agree(folder: &Folder, args: &[&str]) -> Done {
    let [alone, together] = both(folder, args);
    assert_eq!(together.stderr, alone.stderr, "{args:?}");
    assert!(together.stdout == alone.stdout, "{args:?}: {}{}", alone.stdout, together.stdout);
    assert_eq!(together.code, alone.code, "{args:?}");
    together
}

/// A recording of two threads that wake each other.
fn record(folder: &Folder) -> Vec<u8> {
    folder.fxtrec(["-q", "-o", "long.fxt", "--", PINGPONG, "100000"]).expect(0);
    let bytes = fs::read(folder.path("long.fxt")).expect("it is there");
    assert!(bytes.len() as u64 > LEAST, "{} bytes", bytes.len());
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn reports_of_long_traces_are_the_same_by_one_thread_and_by_several() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let bytes = record(&folder);
    let whole = agree(&folder, &["report", "--json", "long.fxt"]).expect(0);
    agree(&folder, &["report", "--all", "long.fxt"]).expect(0);
    agree(&folder, &["report", "--csv", "--comm", "pingpong", "--to", "+300ms", "long.fxt"]);
    agree(&folder, &["dump", "--stats", "long.fxt"]).expect(0);

    // In a container, in pieces of one, with a part missing, and with something after it.
    let packed = gzip(&bytes);
    folder.write("whole.gz", &packed);
    let same = agree(&folder, &["report", "--json", "whole.gz"]).expect(0);
    assert!(same.stdout == whole.stdout, "the container makes no difference");
    let (front, back) = bytes.split_at(bytes.len() / 2 + 3);
    folder.write("members.gz", [gzip(front), gzip(back)].concat());
    let same = agree(&folder, &["report", "--json", "members.gz"]).expect(0);
    assert!(same.stdout == whole.stdout, "the members make no difference");
    folder.write("cut.gz", &packed[..packed.len() * 9 / 10]);
    let cut = agree(&folder, &["report", "--json", "cut.gz"]).expect(0);
    assert!(cut.stdout != whole.stdout);
    folder.write("more.gz", [&packed[..], b"something else"].concat());
    assert_ne!(agree(&folder, &["report", "more.gz"]).code, 0);
    let mut damaged = packed;
    let length = damaged.len();
    damaged[length * 9 / 10..length * 9 / 10 + 30].fill(0x55);
    folder.write("damaged.gz", damaged);
    agree(&folder, &["report", "damaged.gz"]);

    // Truncated at some places, within records or between them, and damaged where two threads work.
    for parts in [81, 87, 93, 99] {
        folder.write("cut.fxt", &bytes[..bytes.len() / 100 * parts + parts % 24]);
        agree(&folder, &["report", "--json", "cut.fxt"]).expect(0);
    }
    let mut damaged = bytes;
    let length = damaged.len();
    for parts in [86, 90, 95] {
        let at = (length / 100 * parts).next_multiple_of(8);
        damaged[at..at + 64].fill(0);
    }
    folder.write("damaged.fxt", &damaged);
    let listed = agree(&folder, &["report", "--json", "damaged.fxt"]).expect(0);
    assert!(listed.stdout != whole.stdout);
    folder.write("empty.fxt", b"");
    assert_ne!(agree(&folder, &["report", "empty.fxt"]).code, 0);
}

#[test]
fn a_long_trace_in_a_pipe_that_stays_open_is_over_when_all_was_read_that_is_wanted() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let bytes = record(&folder);
    let mut reported = Vec::new();
    for cpus in [1, allowed_cpus().expect("they are known").len()] {
        let mut command = binary::command();
        // The pipe holds more than that, and never ends.
        command.args(["report", "--json", "--to", "+150ms", "-"]).current_dir(folder.path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = run_on(cpus, &mut command);
        let mut pipe = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let mut text = String::new();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // The reader may stop early.
                let _ = pipe.write_all(&bytes);
            });
            output.read_to_string(&mut text).expect("text");
            assert!(child.wait().expect("it ran").success());
            writer.join().expect("it wrote");
        });
        drop(pipe);
        reported.push(text);
    }
    assert!(reported[0].contains("fxtrec-report"), "{}", reported[0]);
    assert!(reported[0] == reported[1]);
}

/// Starts a program on one CPU, or on all.
fn run_on(cpus: usize, command: &mut Command) -> Child {
    thread::scope(|scope| {
        let child = scope.spawn(|| {
            if cpus == 1 {
                stay_on_first().expect("there is one");
            }
            command.spawn().expect("it is there")
        });
        child.join().expect("it was started")
    })
}
