//! The facts that recordings contain in addition to switches and wakeups. A fact that a kernel or a source cannot provide is reported as
//! missing, not as zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use fxt_reader::ThreadState;
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::locks;
use fxtrec_tests::machine::release;
use fxtrec_tests::programs::build;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::recording::Recording;
use fxtrec_tests::trace::Wakeup;
use fxtrec_tests::workload::threads;

use crate::Outcome;
use crate::recordings::{program, record_or_refused, workload};

/// All facts, in the order of reports, each with a column that only it has in `--show causes`, and an argument of switches or wakeups that
/// only recordings with it have.
const FACTS: [(&str, Option<&str>, Option<&str>); 11] = [
    ("steal", Some("Steal ms"), Some("steal_ns")),
    ("irq", Some("IRQ ms"), Some("irq_ns")),
    ("throttled", Some("Throttled ms"), Some("throttled_ns")),
    ("migrate", Some("Moved"), None),
    ("need_resched", Some("Resched p99 ms"), Some("need_resched_ns")),
    ("waker", None, None),
    ("syscall", Some("Blocked in"), Some("syscall")),
    ("quotas", None, None),
    ("interrupt_kind", None, None),
    ("packets", None, None),
    ("requests", None, None),
];

/// The facts that the recording lists.
pub(crate) fn reported(recording: &Recording) -> BTreeSet<String> {
    let info = recording.trace.info();
    let causes = info.args.get("causes").expect("every recording says so");
    causes.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Compares the output of `fxtrec report --show causes` with the facts that the recording has.
///
/// # Panics
/// When a fact that is not recorded has a column, or is not reported as missing.
pub(crate) fn report_of(folder: &Folder, reported: &BTreeSet<String>) -> String {
    let options = ["report", "t.fxt", "--show", "causes", "--rows", "0"];
    let table = folder.fxtrec(options).expect(0).stdout;
    let missing: Vec<&str> =
        FACTS.map(|(fact, ..)| fact).into_iter().filter(|fact| !reported.contains(*fact)).collect();
    let says = table.lines().find_map(|line| line.trim().strip_prefix("not recorded: "));
    assert_eq!(says.unwrap_or_default(), missing.join(", "), "{table}");
    for (fact, column, _) in FACTS {
        let Some(column) = column else { continue };
        assert_eq!(table.contains(column), reported.contains(fact), "{fact}: {table}");
    }
    table
}

/// Whether the kernel is a PREEMPT_RT one, on which soft interrupts are threads.
fn is_realtime() -> bool {
    let version = fs::read_to_string("/proc/sys/kernel/version").expect("a version");
    version.contains("PREEMPT_RT")
}

/// The facts that this kernel can provide to this source.
fn expected(source: &str) -> BTreeSet<&'static str> {
    let mut facts = BTreeSet::from(["migrate"]);
    if source != "bpf" {
        return facts;
    }
    facts.extend(["interrupt_kind", "irq", "packets", "requests", "waker"]);
    let since = [("syscall", (5, 15)), ("need_resched", (6, 17)), ("throttled", (6, 6))];
    facts.extend(since.into_iter().filter(|(_, since)| release() >= *since).map(|(fact, _)| fact));
    if is_realtime() || release() >= (7, 0) {
        // The kernel may not survive a program on that tracepoint.
        facts.remove("need_resched");
    }
    facts
}

/// Threads that block in one system call each, and the report about them.
pub(crate) fn facts(source: &str) -> Outcome {
    const ROUNDS: u64 = 30;
    let folder = Folder::new();
    let mut options = vec!["--source", source];
    if source == "bpf" {
        options.push("--need-resched");
    }
    let command = [&workload(), "calls", &ROUNDS.to_string()];
    let recording = match record_or_refused(binary::command(), &folder, &options, &command) {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let reported = reported(&recording);
    // Whether stolen time is available depends on the kernel's configuration, and quotas depend on the mounted file systems.
    let is_sure = |fact: &&str| !matches!(*fact, "steal" | "quotas");
    let sure: BTreeSet<&str> = reported.iter().map(String::as_str).filter(is_sure).collect();
    assert_eq!(sure, expected(source), "{}", recording.said);
    let table = report_of(&folder, &reported);
    let switches = &recording.trace.switches;
    let count = |arg: &str| switches.iter().filter(|it| it.args.contains_key(arg)).count();
    for (fact, _, arg) in FACTS {
        let Some(arg) = arg else { continue };
        let is_missing = !reported.contains(fact);
        assert!(!is_missing || count(arg) == 0, "{fact} is not recorded, and {arg} is there");
    }
    if reported.contains("irq") {
        assert!(count("irq_ns") > 0, "timers end what the threads wait for");
    }
    let mut text =
        format!("tells {}", Vec::from_iter(reported.iter().map(String::as_str)).join(", "));
    if reported.contains("syscall") {
        let named = named_calls(&recording, &table, ROUNDS);
        text.push_str(&format!("; threads blocked in {}", named.join(", ")));
    }
    Outcome::Fine(text)
}

/// Each thread of the workload is reported as blocked in its system call as often as it was, and hardly in another.
fn named_calls(recording: &Recording, table: &str, rounds: u64) -> Vec<&'static str> {
    const NAMES: [(libc::c_long, &str); 5] = [
        (libc::SYS_futex, "futex"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_read, "read"),
    ];
    let mut seen = Vec::new();
    for line in recording.lines() {
        let (thread, number) = (line[0], line[1].parse::<libc::c_long>().expect("a number"));
        let (_, name) = NAMES.into_iter().find(|(of, _)| *of == number).expect("one of them");
        let own: Vec<Vec<&str>> = table
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<&str>>())
            .filter(|row| row.first() == Some(&format!("workload:{thread}").as_str()))
            .collect();
        let row = own.iter().find(|row| row.get(1) == Some(&name));
        let row = row.unwrap_or_else(|| panic!("{thread} never in {name}: {table}"));
        let times: u64 = row[2].parse().expect("a number");
        let koid = thread.parse().expect("a number");
        let blocked = recording.trace.outs(koid).filter(|out| out.state == ThreadState::Blocked);
        let blocked = blocked.count() as u64;
        // A reader that is late on a slow machine finds its byte, and does not block.
        let least = if name == "read" { rounds / 2 } else { rounds * 9 / 10 };
        assert!(times >= least, "{name}: {times} of {rounds}");
        assert!(times <= blocked, "{name}: {times} of {blocked} waits");
        seen.push(name);
    }
    assert_eq!(seen.len(), NAMES.len(), "{}", recording.printed);
    seen
}

/// Which threads end the waits of threads that wait for each other, and of one that waits for its timer.
pub(crate) fn wakers() -> Outcome {
    const ROUNDS: usize = 500;
    let record = |command: &[&str]| {
        record_or_refused(binary::command(), &Folder::new(), &["--source", "bpf"], command)
    };
    let workload = workload();
    let recording = match record(&[&workload, "threads", "2", &ROUNDS.to_string()]) {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    assert!(reported(&recording).contains("waker"), "{}", recording.said);
    let threads = threads(&recording.printed);
    let is_ours = |koid: u64| threads.iter().any(|thread| thread.koid == koid);
    let mut pairs = BTreeMap::new();
    let (mut by_partner, mut all) = (0, 0);
    for thread in &threads {
        let wakeups = &recording.trace.wakeups;
        let own = wakeups.iter().filter(|it| it.thread == thread.koid && thread.has(it.time));
        let own: Vec<_> = own.collect();
        let partners: BTreeSet<u64> =
            own.iter().filter_map(|it| it.waker).filter(|waker| is_ours(*waker)).collect();
        assert!(partners.len() <= 1, "{thread:?} is woken by its partner: {partners:?}");
        // The thread that only computes never waits.
        let Some(&partner) = partners.first() else { continue };
        by_partner += own.iter().filter(|it| it.waker == Some(partner) && !it.interrupt).count();
        all += own.len();
        pairs.insert(thread.koid, partner);
    }
    // One thread of a pair may never wait, because its byte is always there first.
    let both: BTreeSet<_> = pairs.iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
    let members: BTreeSet<_> = both.iter().flat_map(|(a, b)| [a, b]).collect();
    assert_eq!((both.len(), members.len()), (2, 4), "two pairs: {pairs:?}");
    // A thread between a lock and its end of a socket may be woken by an interrupt, but hardly ever.
    assert!(by_partner * 100 >= all * 98, "{by_partner} of {all}");
    // Which of the two waits in a round is a race: the late one finds its byte, and does not block.
    assert!(all >= ROUNDS, "{all} waits in {ROUNDS} rounds of two pairs");

    let recording = match record(&[&workload, "calls", "50"]) {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let name = |koid: u64| recording.trace.threads[&koid].0.as_str();
    let by_timer = |wakeup: &&Wakeup| match wakeup.waker {
        None => wakeup.interrupt,
        Some(waker) => {
            is_realtime() && ["ktimers/", "ksoftirqd/"].iter().any(|it| name(waker).starts_with(it))
        }
    };
    let (mut timers, mut timed) = (0, 0);
    for line in recording.lines() {
        let numbers: Vec<u64> = line.iter().map(|word| word.parse().expect("a number")).collect();
        let [thread, call, begin, end] = numbers[..] else { panic!("{line:?}") };
        if call == libc::SYS_read as u64 {
            continue;
        }
        let within = |it: &&Wakeup| it.thread == thread && (begin..=end).contains(&it.time);
        let own: Vec<&Wakeup> = recording.trace.wakeups.iter().filter(within).collect();
        timers += own.iter().filter(|it| by_timer(it)).count();
        timed += own.len();
    }
    assert!(timed >= 180 && timers * 100 >= timed * 95, "{timers} of {timed} by their timers");
    Outcome::Fine(format!(
        "{by_partner} of {all} wakeups by the partner, {timers} of {timed} by timers"
    ))
}

/// Which lock each thread waits for, and its owner.
pub(crate) fn locks() -> Outcome {
    const ROUNDS: usize = 20;
    let program = build("locks.c", &[]);
    let command = [program.text(), &ROUNDS.to_string()];
    let options = ["--source", "bpf", "--locks"];
    let recorded = record_or_refused(binary::command(), &Folder::new(), &options, &command);
    let recording = match recorded {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let is_reported = reported(&recording).contains("futex");
    assert_eq!(is_reported, release() >= (5, 15), "{}", recording.said);
    if !is_reported {
        assert!(recording.said.contains("locks are not recorded"), "{}", recording.said);
        return Outcome::Fine("not recorded, and fxtrec says so".to_owned());
    }
    let waits = locks::compare(&recording, ROUNDS);
    Outcome::Fine(format!(
        "{waits} waits, each with its lock and the owner that the program printed"
    ))
}

/// The output of `fxtrec why` for a thread that is late for a planted reason. Emulated machines start COMMAND slowly, so its beginning may
/// be later than the planted delay: the thread is named explicitly.
pub(crate) fn why(scene: &str) -> Outcome {
    let (thread, parts): (_, &[&str]) = match scene {
        "inversion" => {
            ("audio", &["late: blocked", "until woken by ui-params[", "preempted for", "hog-"])
        }
        "pipeline" => (
            "sink",
            &["late: blocked", "until woken by filter[", "until woken by source[", "ran for"],
        ),
        other => panic!("no scene {other}"),
    };
    let folder = Folder::new();
    let planted = program("planted");
    let command = [planted.to_str().expect("a plain path"), scene];
    let recorded = record_or_refused(binary::command(), &folder, &["--source", "bpf"], &command);
    if let Err(refused) = recorded {
        return refused;
    }
    let done = folder.fxtrec(["why", "t.fxt", "--thread", thread, "--json"]).expect(0);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let sentence = answer["explanations"][0]["sentence"].as_str().expect("a sentence");
    let mut rest = sentence;
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            panic!("{part:?} is not in its place: {sentence}");
        };
        rest = behind;
    }
    Outcome::Fine(sentence.to_owned())
}

/// A cgroup with a quota, in version 1 or version 2 of cgroups, and two threads in it that use it up repeatedly.
pub(crate) fn quota(version: &str) -> Outcome {
    let group = Group::new(version);
    let folder = Folder::new();
    let quota = group.quota();
    let words = quota.words(&[&workload(), "slices", "2", "120"]);
    let command: Vec<&str> = words.iter().map(String::as_str).collect();
    let before = quota.throttled();
    let recorded = record_or_refused(binary::command(), &folder, &["--source", "bpf"], &command);
    let counted = quota.throttled() - before;
    let recording = match recorded {
        Ok(recording) => recording,
        Err(refused) => return refused,
    };
    let reported = reported(&recording);
    assert_eq!(
        reported.contains("throttled"),
        expected("bpf").contains("throttled"),
        "{reported:?}"
    );
    let table = report_of(&folder, &reported);
    let own = recording.trace.own.iter();
    let mut stats = own.filter(|it| it.name == "quota_stat" && it.arg("cgroup") == quota.name);
    let stat = stats.next().expect("the group's own count").number("throttled_ns");
    assert!(stat.abs_diff(counted) <= counted / 20, "{stat} ns of {counted}");
    assert!(counted > 500_000_000, "the quota is used up again and again: {counted} ns");
    if !reported.contains("throttled") {
        let arg = recording.trace.switches.iter().find(|it| it.args.contains_key("throttled_by"));
        assert_eq!(arg, None, "it is not recorded");
        return Outcome::Fine(format!(
            "in all {} ms of {} ms that the group counts; whose is not recorded, and said so",
            stat / 1_000_000,
            counted / 1_000_000
        ));
    }
    let covered = covered(&recording, &quota.name);
    assert!(table.contains("Throttled ms"), "{table}");
    let apart = covered.abs_diff(counted);
    assert!(apart <= counted / 20, "{covered} ns of {counted} that the group counts");
    Outcome::Fine(format!(
        "throttled for {} ms, {:.2} % from the group's own count",
        covered / 1_000_000,
        apart as f64 * 100.0 / counted as f64
    ))
}

/// How long threads were throttled by this group, each CPU's time counted once, as the group itself counts.
fn covered(recording: &Recording, name: &str) -> u64 {
    let mut out: BTreeMap<u64, (u64, u16)> = BTreeMap::new();
    let mut spans: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
    for switch in &recording.trace.switches {
        if let Some((since, cpu)) = out.remove(&switch.incoming)
            && switch.args.get("throttled_by").is_some_and(|by| by == name)
        {
            let end = since + switch.number("throttled_ns");
            spans.entry(cpu).or_default().push((since, end));
        }
        out.insert(switch.outgoing, (switch.time, switch.cpu));
    }
    let mut sum = 0;
    for spans in spans.values_mut() {
        spans.sort_unstable();
        let mut end = 0;
        for (from, to) in spans {
            sum += (*to).saturating_sub((*from).max(end));
            end = end.max(*to);
        }
    }
    sum
}

/// The only cgroup of a guest, and its hierarchy.
struct Group {
    /// `None` once it is being removed.
    quota: Option<Quota>,
    is_first_version: bool,
}

impl Group {
    /// # Panics
    /// When the kernel has no such groups.
    fn new(version: &str) -> Group {
        let is_first_version = version == "1";
        let root = if is_first_version { "/tmp/cgroup" } else { "/sys/fs/cgroup" };
        if is_first_version {
            fs::create_dir_all(root).expect("a folder");
            // A controller that the other cgroup version used is not available at once.
            let mount = || {
                let command = ["-t", "cgroup", "-o", "cpu", "cpu", root];
                Command::new("mount").args(command).status().is_ok_and(|status| status.success())
            };
            let is_mounted = (0..100).any(|_| {
                let is_mounted = mount();
                if !is_mounted {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                is_mounted
            });
            assert!(is_mounted, "cgroups of the first version cannot be mounted");
        } else {
            let file = Path::new(root).join("cgroup.subtree_control");
            fs::write(&file, "+cpu").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        let quota = Quota::below(Path::new(root), "busy", 20_000);
        Group { quota: Some(quota.expect("root may make a group")), is_first_version }
    }

    fn quota(&self) -> &Quota {
        self.quota.as_ref().expect("it is not removed yet")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.quota = None;
        if self.is_first_version {
            let _ = Command::new("umount").arg("/tmp/cgroup").status();
        } else {
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "-cpu");
        }
    }
}
