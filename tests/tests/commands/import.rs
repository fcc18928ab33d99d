//! Traces of other recorders agree with one of fxtrec's that is recorded at the same time.

mod other;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use flate2::write::ZlibEncoder;
use fxtrec_tests::binary;
use fxtrec_tests::event::Event;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use fxtrec_tests::trace::{Switch, Trace};

use crate::page::scene::Scene;
use other::{Instance, PINGPONG, hide_function_filters};

/// Two recorders stamp the same event at slightly different times, and the host of a virtual machine may take the CPU away in between.
const CLOCK_ERROR: u64 = 50_000_000;

/// Two thousand rounds of the workload switch at least this often, wherever its two threads are.
const MANY: usize = 2000;

/// Bits of a tid in a koid.
const TIDS: u64 = 1 << 22;

/// Converts a file of the directory, and checks the guarantees that hold for every trace.
fn convert(folder: &Folder, input: &str) -> Trace {
    folder.fxtrec(["convert", input, "theirs.fxt"]).expect(0);
    folder.fxtrec(["dump", "--check", "theirs.fxt"]).expect(0);
    Trace::read(&folder.path("theirs.fxt"))
}

/// Records with fxtrec while a command runs in the directory, often another recorder.
fn record(folder: &Folder, command: &[&str]) -> Trace {
    // The switches of another source would differ, since it may see switches that this one does not.
    record_in(folder, &["--quiet", "--source", "perf"], command).trace
}

/// The facts on which two recorders must agree.
fn pair(switch: &Switch) -> (u64, u64) {
    (switch.outgoing % TIDS, switch.incoming % TIDS)
}

/// The switches that were seen on one CPU, in order.
fn seen(trace: &Trace, cpu: u16) -> Vec<&Switch> {
    trace.switches.iter().filter(|switch| switch.cpu == cpu && !switch.inferred).collect()
}

/// Asserts that `other` has, on each CPU and while it was recording, exactly the switches of `ours`. Returns how many.
fn assert_same_switches(other: &Trace, ours: &Trace) -> usize {
    assert_eq!(ours.stats().number("lost"), 0);
    assert_eq!(other.stats().number("lost"), 0);
    let mut count = 0;
    let cpus = 1 + other.switches.iter().map(|switch| switch.cpu).max().expect("it has switches");
    for cpu in 0..cpus {
        let (other, ours) = (seen(other, cpu), seen(ours, cpu));
        let Some(first) = other.first() else { continue };
        let is_first = |switch: &&Switch| {
            pair(switch) == pair(first) && switch.time.abs_diff(first.time) < CLOCK_ERROR
        };
        // The same pair may switch often: the start is where all following switches agree.
        let candidates = ours.iter().enumerate().filter(|(_, switch)| is_first(switch));
        let matching = candidates.map(|(at, _)| at).find(|at| {
            ours[*at..].iter().zip(&other).all(|(ours, other)| {
                pair(ours) == pair(other) && ours.prev_state == other.prev_state
            })
        });
        let at = matching.unwrap_or_else(|| panic!("CPU {cpu}: {:?} is not followed alike", first));
        assert!(ours.len() - at >= other.len(), "CPU {cpu}: ours was on for longer");
        for (ours, other) in ours[at..].iter().zip(&other) {
            assert!(ours.time.abs_diff(other.time) < CLOCK_ERROR, "{ours:?} is not {other:?}");
            assert_eq!(ours.weights, other.weights);
        }
        count += other.len();
    }
    count
}

#[test]
fn perf_data_reports_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !may_record() || !tools::or_skip(&["perf"]) {
        return;
    }
    let folder = Folder::new();
    for way in ["", "-z"] {
        let script = format!(
            "exec perf record -q -a -k mono -m 4M {way} -o perf.data \
             -e sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new -- {PINGPONG} 2000"
        );
        let ours = record(&folder, &["sh", "-c", &script]);
        let theirs = convert(&folder, "perf.data");
        let count = assert_same_switches(&theirs, &ours);
        assert!(count >= MANY, "{way}: {count} switches");
        let names: Vec<&String> = theirs.threads.values().map(|(name, _)| name).collect();
        assert!(names.iter().any(|name| *name == "pingpong"), "{names:?}");
    }
}

#[test]
fn other_tracepoints_and_uprobes_of_perf_become_events_with_their_fields() {
    if !may_record() || !tools::or_skip(&["perf"]) {
        return;
    }
    let folder = Folder::new();
    // The whole machine is recorded, and another process may run /bin/true.
    let ours = folder.path("ours");
    std::os::unix::fs::symlink("/bin/true", &ours).expect("the folder can be written to");
    let ours = ours.to_str().expect("paths of tests are text");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-o", "perf.data"])
        .args(["-e", "sched:sched_switch,sched:sched_process_exec", "--", "sh", "-c"])
        .arg(format!("{ours}; {ours}; exec {ours}"));
    folder.run(&mut perf).expect(0);
    let trace = convert(&folder, "perf.data");
    assert!(!trace.switches.is_empty());
    let execs: Vec<&Event> =
        trace.events.iter().filter(|event| event.name == "sched_process_exec").collect();
    let count = execs.iter().filter(|exec| exec.arg("filename") == ours).count();
    assert_eq!(count, 3, "{execs:?}");
    assert!(execs.iter().all(|exec| exec.category == "sched"), "{execs:?}");
}

#[test]
fn perf_data_from_a_pipe_tells_as_much_as_from_a_file() {
    if !may_record() || !tools::or_skip(&["perf"]) {
        return;
    }
    let folder = Folder::new();
    let script = format!(
        "perf record -q -a -k mono -m 4M -o - -e sched:sched_switch,sched:sched_wakeup \
         -- {PINGPONG} 2000 >piped.data"
    );
    let ours = record(&folder, &["sh", "-c", &script]);
    let count = assert_same_switches(&convert(&folder, "piped.data"), &ours);
    assert!(count >= MANY, "{count} switches");
}

#[test]
fn the_text_of_ftrace_reports_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let instance = Instance::new("text");
    instance.write("buffer_size_kb", "8192");
    instance.write("trace_clock", "mono");
    instance.write("tracing_on", "0");
    for event in ["sched_switch", "sched_wakeup", "sched_wakeup_new"] {
        instance.write(&format!("events/sched/{event}/enable"), "1");
    }
    let on = instance.path("tracing_on");
    let script = format!("echo 1 >{on} && {PINGPONG} 2000; echo 0 >{on}", on = on.display());
    let ours = record(&folder, &["sh", "-c", &script]);
    let text = instance.path("trace");
    std::fs::copy(text, folder.path("trace.txt")).expect("tracefs can be read");
    let count = assert_same_switches(&convert(&folder, "trace.txt"), &ours);
    assert!(count >= MANY, "{count} switches");
}

#[test]
fn trace_dat_of_both_versions_reports_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !may_record() || !tools::or_skip(&["trace-cmd"]) {
        return;
    }
    let folder = Folder::new();
    for way in [
        "--file-version 6",
        "--file-version 7 --compression none",
        "--file-version 7 --compression zstd",
    ] {
        // It reads /proc/kallsyms twice, before it records, and gives up if a BPF program was loaded or unloaded in between: so it sees a
        // copy.
        let script = format!(
            "{} && cat /proc/kallsyms >symbols && mount --bind symbols /proc/kallsyms && \
             exec trace-cmd record -q -b 8192 -C mono {way} -o trace.dat \
             -e sched:sched_switch -e sched:sched_wakeup -e sched:sched_wakeup_new {PINGPONG} 2000",
            hide_function_filters(&folder.path(""))
        );
        let ours = record(&folder, &["unshare", "-m", "sh", "-c", &script]);
        let theirs = convert(&folder, "trace.dat");
        let count = assert_same_switches(&theirs, &ours);
        assert!(count >= MANY, "{way}: {count} switches");

        // The same with trace-cmd's text output, which has microseconds only.
        let text = folder.run(Command::new("trace-cmd").args(["report", "trace.dat"])).expect(0);
        folder.write("report.txt", text.stdout);
        let reported = convert(&folder, "report.txt");
        let pairs = |trace: &Trace| trace.switches.iter().map(pair).collect::<Vec<_>>();
        assert_eq!(pairs(&reported), pairs(&theirs), "{way}");
    }
}

#[test]
fn what_is_no_trace_is_refused_and_leaves_no_file() {
    let folder = Folder::new();
    for (content, said) in [
        (&b"PERFILE2"[..], "cannot read this perf.data"),
        (b"\x17\x08\x44tracing9\0\0\x08\0\x10\0\0", "trace.dat version 9 is not supported"),
        (b"# tracer: nop\n nonsense\n", "line 2, column 1: expected TASK-PID [CPU]"),
    ] {
        folder.write("perf.data", content);
        let done = folder.fxtrec(["convert", "perf.data", "out.fxt"]).expect(125);
        assert!(done.stderr.contains(said), "{}", done.stderr);
        assert!(!folder.path("out.fxt").exists(), "half a file would be taken for a whole one");
    }
}

/// The output of a command for the trace `t`, which is also its standard input, in two pieces, and its exit status.
fn answer(folder: &Folder, command: &str) -> (i32, String) {
    let line = format!("(head -c 5 t; sleep 0.02; tail -c +6 t) | \"$0\" {command}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).arg(binary::fxtrec());
    shell.env("PATH", format!("{}:/usr/bin:/bin", folder.text("")));
    shell.env("TMPDIR", folder.path("tmp"));
    let done = folder.run(&mut shell);
    (done.code, done.stdout)
}

#[test]
fn commands_answer_of_a_perfetto_trace_as_of_what_it_is_converted_to() {
    let made = Folder::new();
    let scene = Scene { cpus: 2, threads: 6, events: 500, spans: true, gap: true };
    made.write("scene.fxt", scene.trace());
    for name in ["t.pftrace", "t.pftrace.gz", "t.pftrace.zst"] {
        made.fxtrec(["convert", "-q", "scene.fxt", name]).expect(0);
    }
    made.fxtrec(["convert", "-q", "t.pftrace", "t.fxt"]).expect(0);
    let folder = |trace: &str| {
        let folder = Folder::new();
        std::fs::copy(made.path(trace), folder.path("t")).expect("there is room");
        folder.write("duckdb", "#!/bin/sh\ncat \"$TMPDIR\"/*/wait/*/*/*.csv\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path("duckdb"), mode).expect("its own file");
        std::fs::create_dir(folder.path("tmp")).expect("there is room");
        folder
    };
    let converted = folder("t.fxt");
    let direct = ["t.pftrace", "t.pftrace.gz", "t.pftrace.zst"].map(folder);
    for (command, code) in [
        ("report t", 0),
        ("report t --json --from +1ms", 0),
        ("report t --fail-if 'wakeup.max > 1ns'", 3),
        ("why t", 0),
        ("why t --json", 0),
        ("why t --annotate marked.fxt && \"$0\" dump marked.fxt", 0),
        (
            "why t --annotate m.pftrace && \"$0\" dump m.pftrace | grep 'begin .*\"why\" .*worker'",
            0,
        ),
        ("dump t", 0),
        ("dump t --check", 0),
        ("dump t --json", 0),
        ("query t 'SELECT * FROM wait'", 0),
        ("cut t piece.fxt --from +1ms && \"$0\" dump piece.fxt", 0),
        ("merge t t -o both.fxt && \"$0\" dump both.fxt", 0),
        ("compare t -- t", 0),
        ("report -", 0),
        ("dump -", 0),
        // The same pipe through a path.
        ("report /dev/stdin", 0),
        ("report - --fail-if 'wakeup.max > 1ns if cpu = 1'", 3),
        ("why -", 0),
        ("why /dev/stdin", 0),
        ("dump - --from +1ms", 0),
        ("query /dev/stdin 'SELECT * FROM wait'", 0),
        ("compare /dev/stdin -- t", 0),
        ("dump /dev/stdin", 0),
        ("cut /dev/stdin piece.fxt --cpu 1 && \"$0\" dump piece.fxt", 0),
        ("cut - piece.fxt --cpu 1 && \"$0\" dump piece.fxt", 0),
    ] {
        let expected = answer(&converted, command);
        assert_eq!(expected.0, code, "{command}: {}", expected.1);
        assert!(!expected.1.is_empty(), "{command}");
        for folder in &direct {
            assert_eq!(answer(folder, command), expected, "{command}");
        }
    }
}

/// A Protocol Buffers field with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(content);
    field
}

#[test]
fn a_small_perfetto_trace_that_unpacks_into_much_takes_bounded_memory() {
    const MOST: usize = (64 << 20) - 100;
    let folder = Folder::new();
    // A column of a compact bundle with a number in each byte; a snapshot of clocks that have no fields.
    let column = field(1, &field(4, &field(1, &vec![0; MOST])));
    let clocks = field(6, &[10, 0].repeat(MOST / 2));
    for packet in [column, clocks] {
        let mut packer = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&field(1, &packet)).expect("memory");
        let packed = packer.finish().expect("memory");
        let mut compressed = vec![0x92, 0x03];
        compressed.extend(&field(1, &packed)[1..]);
        // A normal packet is first.
        folder.write("bomb.pftrace", [field(1, &[10 << 3, 1]), field(1, &compressed)].concat());
        let line = "ulimit -v 400000 && exec \"$0\" convert -q bomb.pftrace out.fxt";
        folder.run(Command::new("sh").args(["-c", line]).arg(binary::fxtrec())).expect(0);
    }
}
