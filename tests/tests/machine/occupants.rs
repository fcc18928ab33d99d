//! Which threads have a CPU while a thread in scope waits for it: the same as in a recording of the whole machine at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use fxt_reader::record::is_not_recorded;
use fxt_reader::{Koid, ThreadState};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::placement::allowed_cpus;
use fxtrec_tests::process::Process;
use fxtrec_tests::recording::Ongoing;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{binary, machine};

use crate::cgroups::Group;

/// Works and sleeps in turn, and starts a program each time.
const OURS: &str = "echo ready
    while :; do sleep 0.002; i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; done";

/// Thread ids wrap around at this number, in the two recordings perhaps at different times.
const GENERATION: u64 = 0x40_0000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wait {
    begin: u64,
    end: u64,
    cpu: u16,
    /// Who had the CPU, in order.
    by: Vec<u64>,
}

/// The waits of these threads for one CPU each, in order: from a wakeup, or from being preempted, until they are switched in there.
fn waits(trace: &Trace, threads: &BTreeSet<u64>) -> BTreeMap<u64, Vec<Wait>> {
    let mut begun: BTreeMap<u64, (u64, u16)> = BTreeMap::new();
    let mut found: BTreeMap<u64, Vec<Wait>> = BTreeMap::new();
    let mut history: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut wakeups, mut moves) = (trace.wakeups.iter().peekable(), trace.moves.iter().peekable());
    let id = |koid: u64| if is_not_recorded(Koid(koid)) { koid } else { koid % GENERATION };
    for switch in &trace.switches {
        while let Some(wakeup) = wakeups.next_if(|it| it.time <= switch.time) {
            begun.insert(wakeup.thread, (wakeup.time, wakeup.cpu));
        }
        while let Some(moved) = moves.next_if(|it| it.time <= switch.time) {
            begun.remove(&moved.thread);
        }
        if let Some((begin, cpu)) = begun.remove(&switch.incoming)
            && cpu == switch.cpu
            && threads.contains(&id(switch.incoming))
            && !switch.inferred
        {
            let had = history.get(&cpu).map(Vec::as_slice).unwrap_or_default();
            let first = had.partition_point(|(time, _)| *time <= begin).saturating_sub(1);
            let mut by: Vec<u64> = had[first..].iter().map(|(_, who)| *who).collect();
            // Between two outsiders there is a moment that is not recorded.
            let times = had[first..].iter().map(|(time, _)| *time);
            let ends = times.skip(1).chain([switch.time]);
            let lasts: Vec<bool> =
                had[first..].iter().zip(ends).map(|((from, _), to)| *from < to).collect();
            let mut lasts = lasts.into_iter();
            by.retain(|who| lasts.next().unwrap_or(true) || !is_not_recorded(Koid(*who)));
            by.dedup();
            let wait = Wait { begin, end: switch.time, cpu, by };
            found.entry(id(switch.incoming)).or_default().push(wait);
        }
        if switch.state == ThreadState::Running {
            begun.insert(switch.outgoing, (switch.time, switch.cpu));
        } else {
            begun.remove(&switch.outgoing);
        }
        history.entry(switch.cpu).or_default().push((switch.time, id(switch.incoming)));
    }
    found
}

/// How many waits are the same in both; what is wrong if too few are.
fn compare(narrow: &Trace, whole: &Trace) -> Result<usize, String> {
    // Only wakeups of threads in scope are in it.
    let ours: BTreeSet<u64> = narrow.wakeups.iter().map(|it| it.thread % GENERATION).collect();
    let (ours, theirs) = (waits(narrow, &ours), waits(whole, &ours));
    let (mut same, mut other) = (0, Vec::new());
    for (thread, waits) in &ours {
        for wait in waits {
            // By the same clock, but each recorder reads it for itself.
            let near = |it: &&Wait| {
                it.cpu == wait.cpu
                    && it.end.abs_diff(wait.end) < 50_000
                    && it.begin.abs_diff(wait.begin) < 50_000
            };
            let Some(truth) = theirs.get(thread).and_then(|of| of.iter().find(near)) else {
                continue;
            };
            match truth.by == wait.by {
                true => same += 1,
                false => other.push(format!("\n  {thread}: {wait:?}, and {:?}", truth.by)),
            }
        }
    }
    // The kernel does not report each switch to each of them.
    match same >= 50 && other.len() * 50 <= same {
        true => Ok(same),
        false => Err(format!("{same} are the same, {} not: {}", other.len(), other.concat())),
    }
}

#[test]
fn in_every_scope_the_threads_are_known_for_which_a_thread_waited() {
    if !may_record() {
        return;
    }
    let Some(group) = Group::new("occupants") else { return skip("no cgroup can be made here") };
    let cpu = allowed_cpus().expect("affinity")[0].to_string();
    let ours = ["taskset", "-c", &cpu, "sh", "-c", OURS];
    let pinned = |script: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu, "sh", "-c", script]);
        command
    };
    let record = |scope: &str, source: &str, name: &str, pid: &str| {
        let mut fxtrec = binary::command();
        fxtrec.args(["-q", "-o", name, "--source", source]);
        match scope {
            "app" => fxtrec.args(["--scope", "app", "--", "timeout", "1"]).args(&ours[..]),
            "cgroup" => fxtrec.args(["-d", "1s", "--cgroup", &group.path]),
            // The kernel does not apply the scope then.
            "probe" => fxtrec.args(["-d", "1s", "-p", pid, "-e", "sched:sched_process_exec"]),
            _ => fxtrec.args(["-d", "1s", "-p", pid]),
        };
        fxtrec
    };
    let mut left = vec![
        ("app", vec!["bpf", "perf", "ftrace"]),
        ("process", vec!["bpf", "perf"]),
        ("cgroup", vec!["bpf", "perf"]),
        ("probe", vec!["bpf"]),
    ];
    let mut faults = Vec::new();
    for _ in 0..3 {
        let folder = Folder::new();
        let machine = machine::quiet();
        let rivals = ["while :; do :; done", "while :; do sleep 0.001; done"];
        let rivals =
            rivals.map(|does| Process::start_ready(&mut pinned(&format!("echo ready; {does}"))));
        let options = ["--source", "bpf", "-q"];
        let whole = Ongoing::start(&folder.path("whole.fxt"), &options).expect("it records");
        for (scope, sources) in &left {
            let inside = format!("echo $$ >{}; {OURS}", group.procs());
            let running = (*scope != "app").then(|| Process::start_ready(&mut pinned(&inside)));
            let pid = running.as_ref().map_or(0, Process::id).to_string();
            for source in sources {
                let mut fxtrec = record(scope, source, &format!("{scope}.{source}.fxt"), &pid);
                folder.run(&mut fxtrec).expect(if *scope == "app" { 124 } else { 0 });
            }
        }
        let (whole, _) = whole.stop();
        drop(rivals);
        machine.give_back();
        let whole = Trace::read(&whole);
        faults.clear();
        for (scope, sources) in &mut left {
            sources.retain(|source| {
                let narrow = Trace::read(&folder.path(format!("{scope}.{source}.fxt")));
                let fault = compare(&narrow, &whole).err();
                faults.extend(fault.as_ref().map(|fault| format!("{scope} by {source}: {fault}")));
                fault.is_some()
            });
        }
        left.retain(|(_, sources)| !sources.is_empty());
        if left.is_empty() {
            return;
        }
    }
    panic!("in each of three recordings: {}", faults.join("\n"));
}
