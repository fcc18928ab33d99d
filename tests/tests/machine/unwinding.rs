//! Whether each stack names the function of the program that blocked, however the program was built.

use std::collections::BTreeMap;
use std::process::Command;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{Built, build, succeed};
use fxtrec_tests::recording::{Recording, record_in};
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

const ROUNDS: u64 = 20;

/// Threads that sleep for four milliseconds in each round, whatever the others do. Only a thread that is preempted for that long while it
/// goes to sleep finds that it need not.
const SLEEPERS: [&str; 7] = [
    "blocks_in_poll",
    "blocks_in_select",
    "blocks_in_epoll",
    "blocks_in_usleep",
    "blocks_in_nanosleep",
    "blocks_in_sigtimedwait",
    "descend",
];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The functions in stacks in which threads block.
struct Unwound {
    /// How many stacks name each function.
    right: BTreeMap<String, u64>,
    /// How many long waits the threads of each function had.
    waits: BTreeMap<String, u64>,
    /// How many stacks may be missing: lost ones, which are reported, and those of waits that begin or end with a switch that the kernel
    /// did not report, where no program runs.
    missing: u64,
}

impl Unwound {
    /// Asserts that the long waits of a function have their stacks, and that it had these in most rounds.
    fn assert_has(&self, function: &str) {
        let [right, waits] =
            [&self.right, &self.waits].map(|of| of.get(function).copied().unwrap_or(0));
        let missing = self.missing;
        println!("{function}: {right} of {waits}, {missing} may be missing");
        // Two waits may have other causes: the start of the thread, and a page that was not in memory.
        assert!(right + missing + 2 >= waits, "{function}: {right} of {waits}, missing {missing}");
        assert!((waits + missing) * 4 >= ROUNDS * 3, "{function}: {waits} of {ROUNDS}");
    }
}

/// Records a program whose threads print their ids and the functions that they block in. The stacks of each thread must show its function.
fn record(command: &[&str]) -> Unwound {
    let folder = Folder::new();
    let recording = record_in(&folder, &["--source", "bpf", "--stacks", "--scope", "app"], command);
    let own: BTreeMap<u64, &str> = recording
        .lines()
        .iter()
        .map(|line| (line[0].parse().expect("a thread"), line[1]))
        .collect();
    let mut events = recording.trace.own.iter();
    let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
    let lost = ["lost", "given_up", "unseen", "unknown_threads"].map(|name| stats.number(name));
    let inferred = recording.trace.switches.iter().filter(|switch| switch.inferred).count() as u64;
    let json = |args: &[&str]| -> Value {
        let printed = folder.fxtrec([&["report", "t.fxt", "--json"], args].concat());
        serde_json::from_str(&printed.expect(0).stdout).expect("JSON")
    };
    let stacks = json(&["--stacks", "--worst", "1000000"]);
    let report = json(&[]);
    let (mut right, mut waits): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    let (mut of, mut long): (BTreeMap<u64, u64>, BTreeMap<u64, (u64, u64)>) = Default::default();
    let mut elsewhere = Vec::new();
    for wait in stacks["worst"].as_array().expect("waits") {
        let tid = number(&wait["tid"]);
        let Some(own) = own.get(&tid) else { continue };
        // The name of a thread of `blocker` that sleeps for a short time.
        let own = if *own == "short" { &"wait_for_time" } else { own };
        *waits.entry((*own).to_owned()).or_default() += 1;
        let sums = long.entry(tid).or_default();
        *sums = (sums.0 + 1, sums.1 + number(&wait["blocked_ns"]));
        let Some(frames) = wait["frames"].as_array() else { continue };
        let functions: Vec<&str> =
            frames.iter().map(|frame| frame["function"].as_str().unwrap_or("?")).collect();
        *of.entry(tid).or_default() += 1;
        let names = |name: &&str| name.split(['(', ':']).any(|part| part == *own);
        if functions.iter().any(names) {
            *right.entry((*own).to_owned()).or_default() += 1;
        } else if wait["lacks"].as_array().is_none_or(Vec::is_empty) {
            // Before it gets to its function, a thread may wait for the lock on standard output, for its process's memory lock, or for a
            // page.
            let before =
                ["printf", "puts", "page_fault", "write", "mmap", "munmap", "mprotect", "madvise"];
            let may_be = |name: &&str| before.iter().any(|before| name.contains(before));
            if !functions.iter().any(may_be) {
                elsewhere.push(format!("{own}: {functions:?}"));
            }
        }
    }
    // On a busy machine, memory may also have to be loaded. If unwinding is wrong, it is wrong each time.
    assert!(elsewhere.len() <= 1, "not in stacks that lack nothing: {elsewhere:#?}");
    // The weights are the blocked time of the report, except for its short waits, and for waits before a run of unknown length, whose
    // beginning is unknown.
    for thread in report["threads"].as_array().expect("threads") {
        let Some(&(count, sum)) = long.get(&number(&thread["tid"])) else { continue };
        let metrics = ["blocked", "blocked_d"].map(|name| &thread["metrics"][name]);
        let both = |figure: &str| metrics.iter().map(|of| number(&of[figure])).sum::<u64>();
        let (total, others) = (both("sum_ns"), both("count") - count);
        let longest = metrics.iter().filter_map(|of| of["max_ns"].as_u64()).max().unwrap_or(0);
        assert!(
            sum <= total && total - sum <= others * longest,
            "{sum} of {total}, {others} others"
        );
    }
    for (tid, count) in of {
        if own[&tid] == "short" {
            continue;
        }
        let right = right.get(own[&tid]).copied().unwrap_or(0);
        println!("{}: {right} of {count}", own[&tid]);
        assert!(right * 10 >= count * 9 || count - right <= 2, "{}: {right} of {count}", own[&tid]);
    }
    Unwound { right, waits, missing: lost.iter().sum::<u64>() + inferred }
}

/// The expected output of a program without children.
fn check(command: &[&str]) {
    let unwound = record(command);
    for sleeper in SLEEPERS {
        unwound.assert_has(sleeper);
    }
}

fn rounds() -> String {
    ROUNDS.to_string()
}

#[test]
fn an_application_with_frame_pointers_keeps_its_callers_in_a_libc_without_them() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("waits.c", &["-O2", "-fno-omit-frame-pointer"]);
    check(&[program.text(), &rounds()]);
    // The shell becomes the program.
    let exec = format!("exec {} {ROUNDS}", program.text());
    check(&["sh", "-c", &exec]);
}

#[test]
fn programs_without_frame_pointers_static_ones_and_cpp_name_their_functions() {
    if !may_unwind(&["gcc", "g++"]) {
        return;
    }
    let without = build("waits.c", &["-O2", "-fomit-frame-pointer"]);
    check(&[without.text(), &rounds()]);
    let fixed = build("waits.c", &["-O2", "-static", "-no-pie"]);
    check(&[fixed.text(), &rounds()]);
    let cpp = build("waits.cpp", &["-O2", "-pthread"]);
    check(&[cpp.text(), &rounds()]);
}

#[test]
fn a_stripped_program_is_named_by_its_separate_file_and_a_loaded_library_by_its_own() {
    if !may_unwind(&["gcc", "objcopy"]) {
        return;
    }
    let program = build("waits.c", &["-O2", "-Wl,--build-id"]);
    let symbols = program.folder().join("waits.debug");
    let objcopy = |args: &[&str], at: &Built| {
        succeed(Command::new("objcopy").current_dir(at.folder()).args(args));
    };
    objcopy(&["--only-keep-debug", "waits", "waits.debug"], &program);
    objcopy(&["--strip-all", "--add-gnu-debuglink=waits.debug", "waits"], &program);
    assert!(symbols.is_file());
    check(&[program.text(), &rounds()]);
    let library = build("waits.c", &["-O2", "-shared", "-fPIC"]);
    let loads = build("loads.c", &["-ldl"]);
    check(&[loads.text(), library.text(), &rounds()]);
}

#[test]
fn a_rust_program_without_frame_pointers_names_its_functions() {
    if !may_unwind(&["rustc"]) {
        return;
    }
    let program = build("blocker.rs", &[]);
    record(&[program.text(), &rounds()]).assert_has("wait_for_time");
}

#[test]
fn the_stack_of_the_waker_is_reported_with_the_wait() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("waits.c", &["-O2"]);
    let folder = Folder::new();
    let options = ["--source", "bpf", "--stacks=offcpu,wake"];
    let recording = record_in(&folder, &options, &[program.text(), &rounds()]);
    let ids: BTreeMap<&str, u64> =
        recording.lines().iter().map(|line| (line[1], line[0].parse().expect("an id"))).collect();
    let printed = folder.fxtrec(["report", "t.fxt", "--stacks", "--json", "--worst", "1000000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let (mut by_main, mut slept) = (0, 0);
    for wait in json["worst"].as_array().expect("waits") {
        let Some(frames) = wait["waker_frames"].as_array() else { continue };
        let functions: Vec<&str> =
            frames.iter().map(|frame| frame["function"].as_str().unwrap_or("?")).collect();
        let tid = number(&wait["tid"]);
        // The code that records the stack is not part of it.
        let own = ["bpf_trace", "__bpf_", "__traceiter_"];
        let has_own = |name: &&str| own.iter().any(|own| name.starts_with(own));
        assert!(!functions.first().is_some_and(has_own), "{functions:?}");
        let has = |part: &str| functions.iter().any(|name| name.contains(part));
        let is_whole = wait["waker_lacks"].as_array().is_some_and(Vec::is_empty);
        // It also waits for the lock on standard output, when all threads print their ids.
        if tid == ids["blocks_in_semaphore"] && has("futex") && !has("lll_lock") && is_whole {
            assert!(functions.contains(&"main"), "{functions:?}");
            assert_eq!(wait["waker"]["pid"], wait["pid"]);
            by_main += 1;
        }
        if tid == ids["blocks_in_usleep"] && wait["by_interrupt"] == true {
            let timer = |name: &&str| name.contains("hrtimer");
            assert!(functions.iter().any(timer), "{functions:?}");
            slept += 1;
        }
    }
    println!("{by_main} by main, {slept} by the clock");
    // A thread that is late finds the semaphore free. Another thread may be reported for a wait that is already over when the interrupt
    // occurs.
    assert!(by_main * 2 >= ROUNDS && slept * 2 >= ROUNDS, "{by_main}, {slept}");
    let folded = folder.fxtrec(["flame", "t.fxt", "--wake"]).expect(0).stdout;
    assert!(folded.lines().any(|line| line.contains(";main;")), "{folded}");
}

#[test]
fn a_table_to_unwind_by_that_jumps_in_circles_does_not_keep_the_recorder() {
    if !may_unwind(&["gcc", "timeout"]) || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let program = build("endless.c", &["-O2"]);
    let folder = Folder::new();
    let mut recorder = Command::new("timeout");
    recorder.args(["-s", "KILL", "120"]).arg(binary::fxtrec());
    recorder.args(["-q", "--source", "bpf", "--stacks", "-o"]).arg(folder.path("t.fxt"));
    succeed(recorder.arg("--").arg(program.text()));
    let folded = folder.fxtrec(["flame", "t.fxt", "--comm", "endless"]).expect(0).stdout;
    assert!(folded.contains("waits_without_end"), "{folded}");
}

#[test]
fn tables_to_unwind_by_that_are_expensive_do_not_keep_the_recorder() {
    if !may_unwind(&["gcc", "timeout"]) || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    for flags in [&[][..], &["-DEXPRESSION"]] {
        let program = build("dear.c", flags);
        let folder = Folder::new();
        let trace = folder.path("t.fxt");
        let mut recorder = Command::new("timeout");
        // Without a limit on the work, this took ten minutes.
        recorder.args(["-s", "KILL", "60"]).arg(binary::fxtrec());
        recorder.args(["-q", "--source", "bpf", "--stacks", "-o"]).arg(&trace);
        succeed(recorder.arg("--").args([program.text(), "50", "1"]));
        let own = Trace::read(&trace).own;
        let stats = own.iter().find(|event| event.name == "stack_stats").expect("they are counted");
        let (written, unproved) = (stats.number("stacks"), stats.number("user_unproved"));
        assert!(written > 0 && unproved * 2 > written, "{flags:?}: {unproved} of {written}");
        let folded = folder.fxtrec(["flame", "t.fxt", "--comm", "dear"]).expect(0).stdout;
        assert!(folded.contains(";sled;run;sleeps;"), "{flags:?}: {folded}");
    }
}

#[test]
fn samples_of_running_threads_name_where_they_ran() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("burn.c", &["-O1"]);
    let folder = Folder::new();
    let options = ["--source", "bpf", "--stacks=cpu", "-F", "499", "--scope", "app"];
    let recording = record_in(&folder, &options, &[program.text()]);
    assert!(recording.said.contains("stacks"), "{}", recording.said);
    let folded = folder.fxtrec(["flame", "t.fxt", "--cpu", "--comm", "burn"]).expect(0).stdout;
    let weight = |part: &str| -> u64 {
        let lines = folded.lines().filter(|line| line.contains(part));
        lines.map(|line| line.rsplit(' ').next().expect("one").parse::<u64>().expect("ns")).sum()
    };
    let (all, here) = (weight(""), weight(";burns_here"));
    println!("{here} of {all} ns");
    // The program ran for 500 ms. The kernel's clock counts stolen time as the program's, and may miss some.
    assert!(all > 100_000_000, "{all} ns:\n{folded}");
    assert!(here * 10 >= all * 8, "{here} of {all} ns:\n{folded}");
}

#[test]
fn deep_stacks_without_frame_pointers_are_whole_if_more_of_them_is_copied() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("deep.c", &["-O2", "-fomit-frame-pointer"]);
    let stacks_of = |unwind: &str| -> Vec<(usize, bool, Vec<String>)> {
        let folder = Folder::new();
        let options =
            ["--source", "bpf", "--stacks=offcpu,wake", "--scope", "app", "--unwind", unwind];
        let recording = record_in(&folder, &options, &[program.text(), &rounds()]);
        let tid: u64 = recording.lines()[0][0].parse().expect("an id");
        let printed = folder.fxtrec(["report", "t.fxt", "--stacks", "--json", "--worst", "1000"]);
        let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
        let texts = |list: &Value, of: &dyn Fn(&Value) -> Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.map(|it| of(it).as_str().unwrap_or("?").to_owned()).collect()
        };
        let own = json["worst"].as_array().expect("waits").iter();
        own.filter(|wait| number(&wait["tid"]) == tid)
            .filter_map(|wait| {
                let functions = texts(&wait["frames"], &|frame| frame["function"].clone());
                let deep = functions.iter().filter(|name| *name == "descends").count();
                let lacks = texts(&wait["lacks"], &Value::clone);
                let has_main = functions.iter().any(|name| name == "main");
                (deep > 0).then_some((deep, has_main, lacks))
            })
            .collect()
    };
    for (unwind, is_whole) in [("auto", false), ("dwarf", true), ("dwarf=24", true)] {
        let stacks = stacks_of(unwind);
        println!("{unwind}: {} stacks, {:?}", stacks.len(), stacks.first());
        assert!(stacks.len() as u64 * 2 >= ROUNDS, "{unwind}: {stacks:?}");
        for (deep, has_main, lacks) in &stacks {
            let is_right = match is_whole {
                true => *deep == 101 && *has_main && lacks.is_empty(),
                false => *deep < 101 && !lacks.is_empty(),
            };
            assert!(is_right, "{unwind}: {stacks:?}");
        }
    }
}

/// How many stacks of a recording are as deep as those of `deep.c`, and how many of these have the stack of the waker.
fn deep_chains(folder: &Folder, recording: &Recording) -> (u64, u64) {
    let tids: Vec<u64> =
        recording.lines().iter().map(|line| line[0].parse().expect("an id")).collect();
    let printed = folder.fxtrec(["report", "t.fxt", "--stacks", "--json", "--worst", "1000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let (mut deep, mut woken) = (0, 0);
    for wait in json["worst"].as_array().expect("waits") {
        if !tids.contains(&number(&wait["tid"])) {
            continue;
        }
        let names = |frames: &Value| -> Vec<String> {
            let all = frames.as_array().into_iter().flatten();
            all.map(|frame| frame["function"].as_str().unwrap_or("?").to_owned()).collect()
        };
        let functions = names(&wait["frames"]);
        let count = functions.iter().filter(|name| *name == "descends").count();
        if count == 0 {
            continue;
        }
        deep += 1;
        // The C library's function has no frame pointer: its caller may be left out.
        assert!(count >= 90, "{functions:?}");
        assert!(functions.iter().any(|name| name.contains("nanosleep")), "{functions:?}");
        let lacks = wait["lacks"].as_array().expect("a list");
        assert!(lacks.iter().any(|it| it == "the innermost function may lack its caller"));
        let waker = names(&wait["waker_frames"]);
        woken += u64::from(waker.iter().any(|name| name.contains("hrtimer")));
    }
    (deep, woken)
}

#[test]
fn without_bpf_stacks_are_call_chains_by_frame_pointers_that_say_what_they_may_lack() {
    if !may_record() || !tools::or_skip(&["gcc", "taskset"]) {
        return;
    }
    let program = build("deep.c", &["-O2", "-fno-omit-frame-pointer"]);
    // The clock may interrupt any thread.
    let options = ["--source", "perf", "--stacks=wake,cpu", "-F", "499"];
    // For a CPU whose idle task is silent, perf writes neither the ends of waits nor the wakers; not all CPUs are silent at once.
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    let run = format!("{} {ROUNDS}", program.text());
    let script: String =
        (0..cpus).map(|cpu| format!("taskset -c {cpu} {run} || {run}; ")).collect();
    let is_whole = (0..3).any(|_| {
        let folder = Folder::new();
        let recording = record_in(&folder, &options, &["sh", "-c", &script]);
        let mut events = recording.trace.own.iter();
        let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
        assert!(recording.said.contains("by frame pointers alone"), "{}", recording.said);
        folder.fxtrec(["dump", "t.fxt", "--check"]).expect(0);
        let (deep, woken) = deep_chains(&folder, &recording);
        let [lost, given_up] = ["lost", "given_up"].map(|what| stats.number(what));
        println!(
            "{deep} deep stacks, {woken} with what the clock did; {lost} lost, {given_up} given up"
        );
        // The stacks of all threads of the machine are recorded, so on a busy one some are lost, which is reported.
        deep * 2 >= ROUNDS && woken * 2 >= ROUNDS && lost + given_up == 0
    });
    assert!(is_whole, "one of three recordings has the stacks of one CPU and lost nothing");
}

#[test]
fn where_bpf_is_refused_stacks_are_taken_by_call_chains_and_that_is_reported() {
    if !may_record() || !tools::or_skip(&["setpriv", "taskset"]) {
        return;
    }
    let folder = Folder::new();
    // A sleep that ends in a silent idle task is not written, which is reported; not all CPUs are silent at once.
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    let sleeps: Vec<String> =
        (0..cpus).map(|cpu| format!("taskset -c {cpu} sleep 0.1 || sleep 0.1; ")).collect();
    let run = |source: &str| {
        let mut setpriv = Command::new("setpriv");
        let without = ["--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"];
        setpriv.args(without).arg(binary::fxtrec());
        setpriv.args(["-o", "t.fxt", "--source", source, "--stacks", "--scope", "app"]);
        folder.run(setpriv.args(["--", "sh", "-c", &sleeps.concat()]))
    };
    let is_reported = (0..3).any(|_| {
        let done = run("auto").expect(0);
        assert!(done.stderr.contains("because BPF is refused"), "{}", done.stderr);
        let printed = folder.fxtrec(["report", "t.fxt", "--stacks", "--json"]).expect(0).stdout;
        let json: Value = serde_json::from_str(&printed).expect("JSON");
        json["worst"].as_array().expect("waits").iter().any(|wait| {
            let frames = wait["frames"].as_array().into_iter().flatten();
            let names: Vec<&str> = frames.filter_map(|frame| frame["function"].as_str()).collect();
            let own = ["__traceiter_", "perf_"];
            let is_own = |name: &&str| own.iter().any(|own| name.starts_with(own));
            assert!(!names.first().is_some_and(is_own), "{names:?}");
            names.iter().any(|name| name.contains("nanosleep"))
        })
    });
    assert!(is_reported, "one sleep of three recordings has its stack");
    let done = run("bpf").expect(125);
    assert!(done.stderr.contains("BPF"), "{}", done.stderr);
}
