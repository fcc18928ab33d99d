//! Traces of other recorders, taken at the same time as one of fxtrec's own, tell the same.

mod other;

use std::path::Path;
use std::process::{Command, Stdio};

use fxt_reader::record::Value;
use fxt_reader::{Reader, Record};
use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::root;
use fxtrec_tests::trace::{Switch, Trace};

use other::{Instance, hide_function_filters, pingpong};

/// Two recorders stamp the same event a little apart, and the host of a virtual machine may take the CPU away between.
const CLOCK_ERROR: u64 = 50_000_000;

/// Two thousand rounds of the workload switch at least this often, wherever its two threads are.
const MANY: usize = 2000;

/// Bits of a tid in a koid.
const TIDS: u64 = 1 << 22;

/// Runs `fxtrec convert`.
fn convert(input: &Path, output: &Path) -> Trace {
    let run =
        Command::new(fxtrec()).arg("convert").args([input, output]).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let sound = Command::new(fxtrec())
        .args(["dump", "--check"])
        .arg(output)
        .stdout(Stdio::piped())
        .output()
        .expect("it runs");
    assert!(sound.status.success(), "{}", String::from_utf8_lossy(&sound.stdout));
    Trace::read(output)
}

/// Records with fxtrec while `command` runs.
fn record(output: &Path, command: &mut Command) -> Trace {
    let mut recorder = Command::new(fxtrec());
    // The switches of another source would be others where that source sees what this one does not.
    recorder
        .args(["--quiet", "--source", "perf", "-o"])
        .arg(output)
        .arg("--")
        .arg(command.get_program());
    let run = recorder.args(command.get_args()).output().expect("fxtrec runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Trace::read(output)
}

/// What two recorders must agree on.
fn pair(switch: &Switch) -> (u64, u64) {
    (switch.outgoing % TIDS, switch.incoming % TIDS)
}

/// The switches that were seen on one CPU, in order.
fn seen(trace: &Trace, cpu: u16) -> Vec<&Switch> {
    trace.switches.iter().filter(|switch| switch.cpu == cpu && !switch.inferred).collect()
}

/// Asserts that `other` has, on each CPU and while it was on, the very switches of `ours`. Returns how many.
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
        // The same pair may switch often: the start is where all that follow agree.
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
fn perf_data_tells_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !root::or_skip("it records the machine") || !other::tool_or_skip("perf", "linux-perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    for (name, way) in [("file.data", vec![]), ("packed.data", vec!["-z"])] {
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-a", "-k", "mono", "-m", "4M"])
            .args(way)
            .arg("-o")
            .arg(path(name));
        perf.args(["-e", "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new", "--"]);
        perf.arg(pingpong()).arg("2000");
        let ours = record(&path("ours.fxt"), &mut perf);
        let theirs = convert(&path(name), &path("theirs.fxt"));
        let count = assert_same_switches(&theirs, &ours);
        assert!(count >= MANY, "{name}: {count} switches");
        let names: Vec<&String> = theirs.threads.values().map(|(name, _)| name).collect();
        assert!(names.iter().any(|name| *name == "pingpong"), "{names:?}");
    }
}

#[test]
fn other_tracepoints_and_uprobes_of_perf_become_events_with_their_fields() {
    if !root::or_skip("it records the machine") || !other::tool_or_skip("perf", "linux-perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (input, output) = (folder.path().join("perf.data"), folder.path().join("out.fxt"));
    let status = Command::new("perf")
        .args(["record", "-q", "-a", "-o"])
        .arg(&input)
        .args(["-e", "sched:sched_switch,sched:sched_process_exec", "--", "sh", "-c"])
        .arg("/bin/true; /bin/true; exec /bin/true")
        .status()
        .expect("perf runs");
    assert!(status.success());
    let switches = convert(&input, &output).switches.len();
    assert!(switches > 0);
    let events = instants(&output, "sched", "sched_process_exec");
    let execs = events.iter().filter(|args| args.contains("filename=/bin/true"));
    assert_eq!(execs.count(), 3, "{events:?}");
}

/// The arguments of all instant events of that category and name, one line of text for each.
fn instants(path: &Path, category: &str, name: &str) -> Vec<String> {
    let mut reader = Reader::open(path).expect("it can be opened");
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("it can be read") {
        if let Record::Event(event) = &item.record
            && (event.category, event.name) == (category, name)
        {
            let arg = |arg: fxt_reader::record::Arg<'_>| match arg.value {
                Value::Str(text) => format!("{}={text}", arg.name),
                other => format!("{}={other:?}", arg.name),
            };
            found.push(event.args.iter().map(arg).collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[test]
fn perf_data_from_a_pipe_tells_as_much_as_from_a_file() {
    if !root::or_skip("it records the machine") || !other::tool_or_skip("perf", "linux-perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    let script = format!(
        "perf record -q -a -k mono -m 4M -o - -e sched:sched_switch,sched:sched_wakeup -- {} 2000 >{}",
        pingpong().display(),
        path("piped.data").display()
    );
    let ours = record(&path("ours.fxt"), Command::new("sh").args(["-c", &script]));
    let theirs = convert(&path("piped.data"), &path("theirs.fxt"));
    let count = assert_same_switches(&theirs, &ours);
    assert!(count >= MANY, "{count} switches");
}

#[test]
fn the_text_of_ftrace_tells_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !root::or_skip("it records the machine") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    let instance = Instance::new("text");
    instance.write("buffer_size_kb", "8192");
    instance.write("trace_clock", "mono");
    let events = ["sched_switch", "sched_wakeup", "sched_wakeup_new"];
    let on = instance.path("tracing_on");
    let script =
        format!("echo 1 >{on} && {} 2000; echo 0 >{on}", pingpong().display(), on = on.display());
    instance.write("tracing_on", "0");
    for event in events {
        instance.write(&format!("events/sched/{event}/enable"), "1");
    }
    let ours = record(&path("ours.fxt"), Command::new("sh").args(["-c", &script]));
    std::fs::copy(instance.path("trace"), path("trace.txt")).expect("tracefs can be read");
    let theirs = convert(&path("trace.txt"), &path("theirs.fxt"));
    let count = assert_same_switches(&theirs, &ours);
    assert!(count >= MANY, "{count} switches");
}

#[test]
fn trace_dat_of_both_versions_tells_the_switches_that_fxtrec_saw_at_the_same_time() {
    if !root::or_skip("it records the machine") || !other::tool_or_skip("trace-cmd", "trace-cmd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    for (name, way) in [
        ("six.dat", "--file-version 6"),
        ("seven.dat", "--file-version 7 --compression none"),
        ("packed.dat", "--file-version 7 --compression zstd"),
    ] {
        let script = format!(
            "{}; exec trace-cmd record -q -b 8192 -C mono {way} -o {} -e sched:sched_switch \
             -e sched:sched_wakeup -e sched:sched_wakeup_new {} 2000",
            hide_function_filters(folder.path()),
            path(name).display(),
            pingpong().display()
        );
        let ours =
            record(&path("ours.fxt"), Command::new("unshare").args(["-m", "sh", "-c", &script]));
        let theirs = convert(&path(name), &path("theirs.fxt"));
        let count = assert_same_switches(&theirs, &ours);
        assert!(count >= MANY, "{name}: {count} switches");

        // The same by the text that trace-cmd prints, as far as its microseconds go.
        let text =
            Command::new("trace-cmd").arg("report").arg(path(name)).output().expect("it runs");
        std::fs::write(path("report.txt"), text.stdout).expect("the folder is ours");
        let told = convert(&path("report.txt"), &path("told.fxt"));
        let pairs = |trace: &Trace| trace.switches.iter().map(pair).collect::<Vec<_>>();
        assert_eq!(pairs(&told), pairs(&theirs), "{name}");
    }
}

#[test]
fn what_is_no_trace_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (input, output) = (folder.path().join("perf.data"), folder.path().join("out.fxt"));
    for (content, said) in [
        (&b"PERFILE2"[..], "cannot be read"),
        (b"\x17\x08\x44tracing9\0\0\x08\0\x10\0\0", "trace.dat of version 9 is not known"),
        (b"# tracer: nop\n nonsense\n", "line 2, column 1: ` nonsense` where TASK-PID [CPU]"),
    ] {
        std::fs::write(&input, content).expect("the folder is ours");
        let run = Command::new(fxtrec())
            .arg("convert")
            .args([&input, &output])
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(!output.exists(), "half a file would be taken for a whole one");
    }
}
