//! Where threads blocked: the functions in stacks, and the waits that they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fxt_reader::check::{Promises, check};
use fxt_reader::record::EventKind;
use fxt_reader::{Koid, Reader, Record, ThreadState};
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::{Recording, record_beside, record_in, record_in_turn};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::unwinding::may_unwind;
use fxtrec_tests::wait::{self, SetOnDrop};
use nix::sys::signal::Signal;

/// Compiles the workload with frame pointers; `None` without a compiler.
fn blocker(folder: &Folder) -> Option<String> {
    let path = folder.path("blocker");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/blocker.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-C", "force-frame-pointers=yes", "-o"]).arg(&path);
    match rustc.arg(source).status() {
        Ok(status) => {
            assert!(status.success(), "rustc {source}: {status}");
            Some(path.to_str().expect("a plain path").to_owned())
        }
        Err(error) => {
            skip(&format!("there is no rustc: {error}"));
            None
        }
    }
}

/// The flag of a backtrace in which the user stack is missing, because there was no space for it.
const NO_ROOM: u32 = 16;

/// A backtrace with the names of its functions.
#[derive(Debug)]
pub(crate) struct Stack {
    time: u64,
    pub(crate) flags: u32,
    pub(crate) functions: Vec<String>,
}

/// The stacks of a trace.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) of: BTreeMap<u64, Vec<Stack>>,
    /// The counts of `stack_stats`.
    counts: BTreeMap<String, u64>,
    modules: Vec<String>,
    processes: BTreeSet<u64>,
}

impl Stacks {
    pub(crate) fn read(path: &Path) -> Stacks {
        let report = check(&mut Reader::open(path).expect("a trace"), Promises::Fxtrec);
        let report = report.expect("it can be read");
        assert!(report.is_sound(), "{:?}", report.findings);
        let mut names: BTreeMap<(Koid, u64), String> = BTreeMap::new();
        let (mut found, mut raw) = (Stacks::default(), Vec::new());
        let mut reader = Reader::open(path).expect("a trace");
        while let Some(item) = reader.next().expect("sound") {
            match item.record {
                Record::UserspaceObject(object) => {
                    names.insert((object.process, object.pointer), object.name.to_owned());
                }
                Record::Backtrace(backtrace) => {
                    let frames: Vec<u64> = backtrace.frames.iter().collect();
                    raw.push((backtrace.time.0, backtrace.flags, backtrace.thread, frames));
                }
                Record::Module(module) => found.modules.push(module.name.to_owned()),
                Record::Event(event) if event.name == "stack_stats" => {
                    assert_eq!(event.kind, EventKind::Instant);
                    for arg in &event.args {
                        let count = arg.value.to_string().parse().expect("a number");
                        found.counts.insert(arg.name.to_owned(), count);
                    }
                }
                _ => {}
            }
        }
        for (time, flags, thread, frames) in raw {
            found.processes.insert(thread.process.0);
            let process = |frame: u64| if frame >> 63 == 1 { Koid(0) } else { thread.process };
            let name = |frame: &u64| names.get(&(process(*frame), *frame)).cloned();
            let functions = frames.iter().map(|frame| name(frame).unwrap_or_default()).collect();
            found.of.entry(thread.thread.0).or_default().push(Stack { time, flags, functions });
        }
        found
    }
}

/// The time that a thread was off its CPU, for each wait that it blocked in: from, until. Waits whose end the kernel did not report are
/// left out: then no program ran that could take a stack.
fn waits(recording: &Recording, thread: u64) -> Vec<(u64, u64)> {
    let mut waits = Vec::new();
    let mut since = None;
    for switch in &recording.trace.switches {
        if switch.outgoing == thread {
            let blocks = switch.state == ThreadState::Blocked && !switch.inferred;
            since = blocks.then_some(switch.time);
        } else if switch.incoming == thread
            && let Some(since) = since.take()
            && !switch.inferred
        {
            waits.push((since, switch.time));
        }
    }
    waits
}

#[test]
fn each_long_wait_has_a_stack_that_names_where_the_thread_blocked() {
    if !may_record() {
        return;
    }
    const ROUNDS: usize = 50;
    const OVER: u64 = 1_000_000;
    let folder = Folder::new();
    let Some(blocker) = blocker(&folder) else { return };
    let options = ["--source", "bpf", "--stacks", "--stacks-over", "1ms"];
    // Another test's workload with that name would be in the sums.
    let command = [&*blocker, &ROUNDS.to_string()];
    let recording =
        record_in_turn(machine::alone(), binary::command(), &folder, &options, &command);
    let stacks = Stacks::read(&folder.path("t.fxt"));
    for nothing in ["kernel_unreadable", "lost", "unseen", "given_up"] {
        assert_eq!(stacks.counts[nothing], 0, "{nothing}: {:?}", stacks.counts);
    }
    let written: usize = stacks.of.values().map(Vec::len).sum();
    assert_eq!(stacks.counts["stacks"], written as u64);
    assert!(stacks.modules.iter().any(|name| name == "kernel"), "{:?}", stacks.modules);
    assert!(stacks.modules.contains(&blocker), "{:?}", stacks.modules);
    let (mut named, mut named_in_program) = (0, 0);
    // A switch that was seen late has a later time than its stack.
    let late = if recording.trace.stats().number("late_events") > 0 { OVER } else { 0 };
    for line in recording.lines() {
        let (thread, what) = (line[0].parse().expect("a thread"), line[1]);
        let own = stacks.of.get(&thread).map_or(&[][..], Vec::as_slice);
        let long: Vec<(u64, u64)> = waits(&recording, thread)
            .into_iter()
            .filter(|(since, until)| until - since > 2 * OVER)
            .collect();
        // Before Linux 5.18, the program reads the state from the task, and mistakes a thread that is woken while it is switched out for
        // one that is runnable.
        let may_look_runnable = |since: u64| {
            let mut wakeups = recording.trace.wakeups.iter();
            let at_once = since.saturating_sub(OVER)..=since + OVER;
            machine::release() < (5, 18)
                && wakeups.any(|it| it.thread == thread && at_once.contains(&it.time))
        };
        // The program reads the clock a little after the switch is recorded, which matters only close to the threshold.
        for (since, until) in &long {
            let within = own.iter().filter(|stack| (*since - late..*until).contains(&stack.time));
            let near = own.iter().map(|stack| stack.time.cast_signed() - since.cast_signed());
            let near: Vec<i64> = near.filter(|distance| distance.abs() < 20_000_000).collect();
            let mut switches = recording.trace.switches.iter();
            let left = switches.find(|it| it.outgoing == thread && it.time == *since);
            let count = within.count();
            if count == 0 && may_look_runnable(*since) {
                continue;
            }
            // A wait that was not meant to be long may be long because its CPU was stopped, as can happen in a guest, even between the two
            // clock reads: then the program considers it short. That was not the reason if the CPU is seen to continue.
            let left = left.expect("since then it waits");
            let is_asked_for = what != "short" && left.prev_state.is_none();
            let next =
                recording.trace.switches.iter().find(|it| it.cpu == left.cpu && it.time > *since);
            let goes_on = next.is_some_and(|next| until.saturating_sub(next.time) > 2 * OVER);
            if count == 0 && !is_asked_for && !goes_on {
                println!("{what} was long for {} ns by chance, and has no stack", until - since);
                continue;
            }
            assert_eq!(count, 1, "{what} for {} ns: {near:?}, {left:?}", until - since);
        }
        if what == "short" {
            continue;
        }
        named += 1;
        // A thread that is late on a busy machine need not wait.
        assert!(long.len() * 2 >= ROUNDS, "{what}: {} of {ROUNDS} waits", long.len());
        let sleeps = match what {
            "wait_for_a_byte" => ["pipe_read"].as_slice(),
            "wait_for_a_flag" => &["futex_wait", "futex_do_wait", "futex_wait_queue"],
            _ => &["hrtimer_nanosleep", "do_nanosleep"],
        };
        let has = |stack: &Stack, names: &[&str]| {
            stack.functions.iter().any(|function| names.iter().any(|name| function.contains(name)))
        };
        let own_name = format!("blocker::{what}");
        let at_home: Vec<&Stack> = own
            .iter()
            .filter(|stack| {
                long.iter().any(|(since, until)| (*since - late..*until).contains(&stack.time))
            })
            .collect();
        let in_kernel = at_home.iter().filter(|stack| has(stack, sleeps)).count();
        // By chance two stacks may have the same slot in the kernel's table.
        let kept: Vec<&&Stack> =
            at_home.iter().filter(|stack| stack.flags & NO_ROOM == 0).collect();
        let in_program = kept.iter().filter(|stack| has(stack, &[&own_name])).count();
        named_in_program += usize::from(in_program > 0);
        println!(
            "{what}: {in_kernel} and {in_program} of {}: {:?}",
            at_home.len(),
            at_home.first()
        );
        // A thread may be late for another reason, for example because a page is not in memory.
        assert!(in_kernel * 10 >= at_home.len() * 9, "{what}: {at_home:?}");
        assert!(in_program * 10 >= kept.len() * 9, "{what}: {at_home:?}");
    }
    // For the functions that only sleep, the times are those of the trace.
    let folded = folder.fxtrec(["flame", "t.fxt"]).expect(0).stdout;
    let weight = |part: &str| -> u64 {
        let lines = folded.lines().filter(|line| line.contains(part));
        lines
            .map(|line| line.rsplit(' ').next().expect("a number").parse::<u64>().expect("one"))
            .sum()
    };
    let sleepers = recording.lines();
    let sleepers = sleepers.iter().filter(|line| ["wait_for_time", "short"].contains(&line[1]));
    let mut blocked = 0;
    for line in sleepers {
        let thread: u64 = line[0].parse().expect("a thread");
        let long =
            waits(&recording, thread).into_iter().filter(|(since, until)| until - since >= OVER);
        for (since, until) in long {
            let mut wakeups = recording.trace.wakeups.iter();
            let woken =
                wakeups.find(|it| it.thread == thread && (since..=until).contains(&it.time));
            blocked += woken.map_or(0, |woken| woken.time - since);
        }
    }
    let found = weight("blocker::wait_for_time;");
    println!("blocked in sleeps: {blocked} ns, {found} of them in stacks");
    assert!(found <= blocked && found * 10 >= blocked * 8, "{found} of {blocked}:\n{folded}");
    assert_eq!(named, 3);
    assert!(named_in_program >= 2, "{named_in_program}");
}

/// A thread that sleeps for 5 ms repeatedly, in a process that is not selected.
fn another_process() -> Process {
    let script = "while :; do sleep 0.005; done";
    Process::start(Command::new("sh").args(["-c", script]))
}

/// Each stack belongs to a long wait of its thread, and none to a shorter one or to two waits: the program that records switches notes the
/// time that it records.
fn assert_of_long_waits(recording: &Recording, stacks: &Stacks) {
    const OVER: u64 = 1_000_000;
    for (thread, own) in &stacks.of {
        let waits: BTreeMap<u64, u64> = waits(recording, *thread).into_iter().collect();
        for stack in own {
            // The end of a wait that ends with an inferred switch is unknown.
            let Some(until) = waits.get(&stack.time) else {
                let mut switches = recording.trace.switches.iter();
                let is_of_one = switches.any(|it| it.outgoing == *thread && it.time == stack.time);
                assert!(is_of_one, "{thread}: {stack:?} is of no switch");
                continue;
            };
            assert!(until - stack.time >= OVER, "{thread}: {stack:?} until {until}");
        }
    }
}

/// Whether nothing runs after a switch without a long wait, as required for stacks by default.
pub(crate) fn can_be_default() -> bool {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let has = |name: &str| {
        let name = format!("btf_trace_{name}\0");
        types.windows(name.len()).any(|part| part == name.as_bytes())
    };
    let known = has("irq_work_entry") && machine::release() >= (5, 15);
    if !known {
        skip("here stacks would cost each switch more");
    }
    known
}

#[test]
fn a_command_is_recorded_with_the_stacks_of_its_own_long_waits_and_why_names_the_function() {
    if !may_record() || !can_be_default() {
        return;
    }
    let folder = Folder::new();
    let Some(blocker) = blocker(&folder) else { return };
    let (options, command) = (["--source", "bpf"], [&*blocker, "30"]);
    let fxtrec = binary::command();
    let recording =
        record_beside(machine::quiet(), another_process, fxtrec, &folder, &options, &command);
    let stacks = Stacks::read(&folder.path("t.fxt"));
    for nothing in ["lost", "unseen", "given_up"] {
        assert_eq!(stacks.counts[nothing], 0, "{nothing}: {:?}", stacks.counts);
    }
    assert_eq!(stacks.processes.len(), 1, "a process other than COMMAND has stacks: {stacks:?}");
    assert_of_long_waits(&recording, &stacks);
    let mut named = 0;
    for line in recording.lines() {
        let (thread, what) = (line[0].parse().expect("a thread"), line[1]);
        let own = stacks.of.get(&thread).map_or(&[][..], Vec::as_slice);
        if what == "short" {
            continue;
        }
        let own_name = format!("blocker::{what}");
        let has = |stack: &&Stack| stack.functions.iter().any(|it| it.contains(&own_name));
        let at_home = own.iter().filter(has).count();
        assert!(at_home >= 20, "{what}: {at_home} of {own:?}");
        let args = ["why", "t.fxt", "--metric", "blocked", "--thread", line[0]];
        let why = folder.fxtrec(args).expect(0).stdout;
        assert!(why.contains(&own_name), "{what}: {why}");
        named += 1;
    }
    assert_eq!(named, 3);
    // Waits of other threads are not missing: their stacks were not requested.
    let folded = folder.fxtrec(["flame", "t.fxt"]).expect(0).stdout;
    let others =
        folded.lines().filter(|line| line.starts_with("sleep;") || line.starts_with("sh;"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new(), "{folded}");
}

#[test]
fn a_process_is_recorded_with_the_stacks_of_its_own_long_waits() {
    if !may_record() || !can_be_default() {
        return;
    }
    let folder = Folder::new();
    let Some(blocker) = blocker(&folder) else { return };
    let machine = machine::quiet();
    let other = another_process();
    let process = Process::start(Command::new(&blocker).arg("100000").stdout(Stdio::null()));
    let pid = process.id().to_string();
    let recording = record_in(&folder, &["--source", "bpf", "-d", "400ms", "-p", &pid], &[]);
    drop((process, other));
    machine.give_back();
    let stacks = Stacks::read(&folder.path("t.fxt"));
    assert_eq!(stacks.processes.iter().map(u64::to_string).collect::<Vec<_>>(), [pid]);
    assert_of_long_waits(&recording, &stacks);
    for what in ["wait_for_a_byte", "wait_for_a_flag", "wait_for_time"] {
        let own_name = format!("blocker::{what}");
        let has = |stack: &&Stack| stack.functions.iter().any(|it| it.contains(&own_name));
        let count = stacks.of.values().flatten().filter(has).count();
        assert!(count >= 10, "{what}: {count} in {stacks:?}");
    }
}

#[test]
fn nothing_else_has_stacks_unless_requested() {
    if !may_record() {
        return;
    }
    let cases: [&[&str]; 5] =
        [&["--plain"], &["--stacks=none"], &["--source", "perf"], &["--source", "ftrace"], &["-a"]];
    for options in cases {
        let folder = Folder::new();
        record_in(&folder, options, &["sleep", "0.05"]);
        let stacks = Stacks::read(&folder.path("t.fxt"));
        assert!(stacks.of.is_empty() && stacks.counts.is_empty(), "{options:?}: {stacks:?}");
        assert!(stacks.modules.is_empty(), "{options:?}: {stacks:?}");
    }
}

#[test]
fn a_command_without_long_waits_has_no_stacks_and_nothing_is_read_for_them() {
    if !may_record() || !can_be_default() {
        return;
    }
    let folder = Folder::new();
    // A wait may be long by chance on a busy machine; then it has a stack, and this test does not check it.
    let without = (0..10).any(|_| {
        let options = ["--source", "bpf"];
        let recording =
            record_in_turn(machine::quiet(), binary::command(), &folder, &options, &["true"]);
        let stacks = Stacks::read(&folder.path("t.fxt"));
        assert_of_long_waits(&recording, &stacks);
        let fxtrec = stacks.of.values().flatten().flat_map(|stack| &stack.functions);
        let fxtrec: Vec<_> = fxtrec.filter(|it| it.contains("fxtrec")).collect();
        assert!(fxtrec.is_empty(), "before COMMAND its process is fxtrec: {fxtrec:?}");
        let is_empty = stacks.counts["stacks"] == 0;
        assert!(!is_empty || (stacks.counts["symbols"] == 0 && stacks.modules.is_empty()));
        is_empty
    });
    assert!(without, "each of ten had long waits");
}

/// The latest time of a record that precedes a scheduling record with an earlier time, with that time.
fn too_early(path: &Path) -> Option<(String, u64, u64)> {
    let mut reader = Reader::open(path).expect("a trace");
    let mut latest = (0, String::new());
    while let Some(item) = reader.next().expect("sound") {
        let Some(time) = item.record.time() else { continue };
        let is_scheduling = matches!(item.record, Record::ContextSwitch(_) | Record::Wakeup(_));
        if is_scheduling && time.0 < latest.0 {
            return Some((latest.1, latest.0, time.0));
        }
        latest = latest.max((time.0, format!("{:?}", item.record)));
    }
    None
}

#[test]
fn nothing_of_stacks_stands_before_switches_that_were_earlier() {
    if !may_record() {
        return;
    }
    let is_over = AtomicBool::new(false);
    let folder = Folder::new();
    thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        // There are long waits from the first moment on.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(300));
            }
        });
        let wanted = ["--stacks=wake", "--stacks-over", "200us", "-a"];
        for (how, files) in [
            (&["-d", "500ms", "-o", "whole.fxt"][..], &["whole.fxt"][..]),
            (&["-d", "500ms", "-o", "last.fxt", "--mode", "circular"], &["last.fxt"]),
            (&["-q", "-o", "part.fxt", "--rotate", "200ms"], &["part.0001.fxt", "part.0002.fxt"]),
        ] {
            let mut fxtrec = binary::command();
            fxtrec.args(how).args(wanted);
            if how.contains(&"-d") {
                folder.run(&mut fxtrec).expect(0);
            } else {
                // A file ends when its functions have names, which takes a while if other programs are busy.
                let mut recorder = Process::start(fxtrec.current_dir(folder.path("")));
                wait::until("a third file", || folder.path("part.0003.fxt").exists());
                recorder.signal(Signal::SIGINT);
                assert!(recorder.finish().success());
            }
            for file in files {
                let path = folder.path(file);
                assert_eq!(too_early(&path), None, "{file}");
                let trace = Trace::read(&path);
                let mut own = trace.own.iter();
                let begun = own.next().filter(|event| event.name == "trace_info");
                let about = own.find(|event| event.name == "stack_info");
                let [begun, about] = [begun, about].map(|it| it.expect("it is told").time);
                assert_eq!(begun, about, "{file}");
                let found = Stacks::read(&path);
                assert!(found.of.values().flatten().count() > 20, "{file}: {:?}", found.counts);
            }
        }
    });
}

/// The sizes of the files of a recording, each of which is read by itself, and the functions named in the stacks of all of them.
fn rotated(folder: &Folder, ending: &str) -> (Vec<u64>, BTreeSet<String>) {
    let (mut sizes, mut named) = (Vec::new(), BTreeSet::new());
    for number in 1.. {
        let path = folder.path(format!("t.{number:04}.{ending}"));
        let Ok(about) = std::fs::metadata(&path) else { break };
        sizes.push(about.len());
        Trace::read(&path).assert_sound();
        for stack in Stacks::read(&path).of.into_values().flatten() {
            named.extend(stack.functions);
        }
    }
    (sizes, named)
}

#[test]
fn no_rotated_file_is_larger_than_its_size_however_many_functions_its_stacks_have() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    const LIMIT: u64 = 2 << 20;
    let program = build("many_stacks.c", &["-fno-omit-frame-pointer"]);
    for ending in ["fxt", "fxt.zst"] {
        let folder = Folder::new();
        let output = format!("t.{ending}");
        let options = ["--stacks", "--stacks-over", "50us", "--rotate", "2M", "-o", &output];
        let mut fxtrec = binary::command();
        fxtrec.args(["--scope", "app"]).args(options).arg("--").args([program.text(), "6000", "8"]);
        folder.run(&mut fxtrec).expect(0);
        let (sizes, named) = rotated(&folder, ending);
        assert!(sizes.len() >= 2, "{ending}: {sizes:?}");
        assert!(sizes.iter().all(|size| *size <= LIMIT), "{ending}: {sizes:?}");
        let of_program = named.iter().filter(|name| name.starts_with("a_function_with_a_name"));
        assert!(of_program.count() > 500, "{ending}: {named:?}");
    }
}

/// A live thread represents a process whose main thread has ended: `/proc/PID/maps` is empty then.
#[test]
fn a_process_whose_main_thread_has_ended_has_names_and_probes() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("leader.c", &["-fno-omit-frame-pointer"]);
    let mut leader = Process::start(Command::new(program.path()).stdout(Stdio::null()));
    let status = format!("/proc/{}/status", leader.id());
    wait::until("the end of the main thread", || {
        std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tZ"))
    });
    let pid = leader.id().to_string();
    let folder = Folder::new();
    let probe = format!("{}:waits_in_worker", program.text());
    let options = ["--stacks", "-p", &pid, "-P", &probe, "-d", "500ms"];
    let recording = record_in(&folder, &options, &[]);
    let hits = recording.named("waits_in_worker").count();
    assert!(hits > 0, "{}", recording.said);
    let stacks = Stacks::read(&folder.path("t.fxt"));
    let functions: BTreeSet<&str> = stacks
        .of
        .values()
        .flatten()
        .flat_map(|stack| stack.functions.iter().map(String::as_str))
        .collect();
    assert!(functions.contains("waits_in_worker"), "{functions:?} {}", recording.said);
    assert!(leader.finish().success());
}
