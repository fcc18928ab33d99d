//! `fxtrec why`: the sentence names the cause that was planted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::machine;
use fxtrec_tests::placement::allowed_cpus;
use fxtrec_tests::process::{Process, with_usual_signals};
use fxtrec_tests::programs;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::tools::or_skip;
use fxtrec_tests::trace::{Switch, Trace};
use serde_json::Value;

use crate::stacks::can_be_default;

const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

/// The maximum number of recordings until one is complete.
const ATTEMPTS: usize = 5;

/// A recording in a separate directory.
struct Recorded {
    folder: Folder,
    /// COMMAND's output.
    printed: String,
}

impl Recorded {
    /// The first of several recordings that has every event of COMMAND's threads. A kernel may not report some, and the answer for such a
    /// time is that it is unknown; here only known times matter.
    fn of(command: &[&str]) -> Recorded {
        Recorded::with(&[], command)
    }

    /// The same, recorded with these options.
    fn with(options: &[&str], command: &[&str]) -> Recorded {
        Recorded::first(Recorded::is_complete, options, command)
    }

    /// The first of several recordings that is suitable.
    fn first(will_do: impl Fn(&Recorded) -> bool, options: &[&str], command: &[&str]) -> Recorded {
        let mut recorded = Recorded::once(options, command);
        for _ in 1..ATTEMPTS {
            if will_do(&recorded) {
                break;
            }
            recorded = Recorded::once(options, command);
        }
        recorded
    }

    /// Whether no switch of COMMAND's threads was inferred, and every sleep and wakeup of theirs has both ends.
    fn is_complete(&self) -> bool {
        let report = self.folder.fxtrec(["report", "t.fxt", "--json"]).expect(0).stdout;
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let threads = report["threads"].as_array().expect("a list").iter();
        let missing = |thread: &Value| {
            let censored = ["blocked", "blocked_d", "wakeup", "preempt"]
                .map(|metric| thread["metrics"][metric]["censored"].as_u64().expect("a number"));
            censored.iter().sum::<u64>() + thread["inferred"].as_u64().expect("a number")
        };
        let ours = threads.filter(|thread| thread["in_command"] == true);
        ours.map(missing).sum::<u64>() == 0
    }

    fn once(options: &[&str], command: &[&str]) -> Recorded {
        let folder = Folder::new();
        // With high priority from its beginning on, so that nothing else makes it later than planned. If the kernel divides CPUs among
        // sessions first, niceness counts only within one: a new session gets more than others.
        const FIRST: &str = "[ ! -e /proc/self/autogroup ] || echo -20 > /proc/self/autogroup; exec nice -n -20 \"$@\"";
        let mut fxtrec = Command::new("setsid");
        fxtrec.args(["--wait", "sh", "-c", FIRST, "sh"]).arg(binary::fxtrec());
        fxtrec.args(["-q", "-o", "t.fxt"]).args(options).arg("--").args(command);
        let machine = machine::alone();
        let printed = folder.run(with_usual_signals(&mut fxtrec)).expect(0).stdout;
        machine.give_back();
        Recorded { folder, printed }
    }

    fn path(&self) -> PathBuf {
        self.folder.path("t.fxt")
    }

    fn why(&self, options: &[&str]) -> String {
        let mut fxtrec = binary::command();
        fxtrec.arg("why").arg(self.path()).args(options);
        let Done { stdout, .. } = self.folder.run(&mut fxtrec).expect(0);
        stdout
    }

    /// The first explanation, after checks that hold for all.
    fn explain(&self, options: &[&str]) -> Why {
        let text = self.why(options);
        let json = self.why(&[options, &["--json"]].concat());
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let why = json["explanations"][0].clone();
        let number = |value: &Value, name: &str| value[name].as_u64().expect("a number");
        let list = |name: &str| why[name].as_array().expect("a list").clone();
        let (from, to) = (number(&why, "from_ns"), number(&why, "to_ns"));
        let parts = list("blame");
        assert_eq!(parts.iter().map(|part| number(part, "ns")).sum::<u64>(), to - from, "{why:#}");
        let mut at = from;
        for link in list("chain") {
            assert_eq!(number(&link, "from_ns"), at, "{why:#}");
            at = number(&link, "to_ns");
        }
        assert_eq!(at, to, "{why:#}");
        let causes = json["trace"]["causes"].as_array().expect("a list").clone();
        let sentence = why["sentence"].as_str().expect("a sentence").to_owned();
        println!("{text}");
        assert!(text.lines().count() <= 50, "{text}");
        Why { sentence, why, causes }
    }
}

/// An explanation.
struct Why {
    sentence: String,
    why: Value,
    /// The facts that the recording has.
    causes: Vec<Value>,
}

impl Why {
    fn has(&self, cause: &str) -> bool {
        self.causes.iter().any(|it| it == cause)
    }

    /// The sentence contains all of these, in this order. Other states of the thread, such as running on a CPU that the host took, may be
    /// in between.
    #[track_caller]
    fn says(&self, parts: &[&str]) {
        let mut rest = self.sentence.as_str();
        for part in parts {
            let Some(at) = rest.find(part) else {
                panic!("{part:?} after {parts:?} in {}", self.sentence);
            };
            rest = &rest[at + part.len()..];
        }
    }

    /// How many milliseconds the parts of this kind have, with a thread of this name if given.
    fn millis(&self, part: &str, thread: Option<&str>) -> u64 {
        let parts = self.why["blame"].as_array().expect("a list").iter();
        let fits = |it: &&Value| {
            it["part"] == part && thread.is_none_or(|name| it["thread"]["comm"] == name)
        };
        parts.filter(fits).map(|it| it["ns"].as_u64().expect("a number")).sum::<u64>() / 1_000_000
    }

    /// The class of the longest part of blocked time.
    fn class_of_longest(&self) -> &str {
        let mut parts = self.why["blame"].as_array().expect("a list").iter();
        let blocked = parts.find(|it| it["part"] == "blocked").expect("it was blocked");
        blocked["class"].as_str().expect("a class")
    }

    fn advises(&self, text: &str) -> bool {
        let all = self.why["advice"].as_array().expect("a list");
        all.iter().any(|it| it.as_str().is_some_and(|it| it.contains(text)))
    }
}

/// Records the planted scene; `None` if the recording has no wakers.
fn planted(name: &str, options: &[&str]) -> Option<Why> {
    let why = Recorded::of(&[PLANTED, name]).explain(options);
    if !why.has("waker") {
        skip("nobody tells who wakes whom here");
        return None;
    }
    Some(why)
}

#[test]
fn why_names_the_hogs_that_preempt_the_owner_of_a_lock() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("inversion", &[]) else { return };
    why.says(&[
        "audio[",
        "late: ",
        "blocked",
        "until woken by ui-params[",
        "which was preempted for",
        "hog-",
    ]);
    why.says(&["hog-1["]);
    why.says(&["hog-2["]);
    if why.has("syscall") {
        why.says(&["blocked", "in futex"]);
        assert!(why.advises("PTHREAD_PRIO_INHERIT"), "{:#}", why.why);
        assert!(why.advises("--locks"), "{:#}", why.why);
    }
    assert!(why.millis("blocked", Some("ui-params")) >= 50, "{:#}", why.why);
}

#[test]
fn why_explains_the_scene_of_the_readme() {
    if !may_record() || !or_skip(&["gcc"]) {
        return;
    }
    let audio = programs::build("audio.c", &["-fno-omit-frame-pointer"]);
    let recorded = Recorded::of(&[audio.text()]);
    let took = recorded.printed.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    let why = recorded.explain(&[]);
    if !why.has("waker") {
        return skip("nobody tells who wakes whom here");
    }
    // Its usual turn is short: this one is a unit of work that took unusually long.
    why.says(&[
        "audio[",
        " took ",
        ": blocked",
        "until woken by ui-params[",
        "which was preempted for",
    ]);
    let [late, took] = [why.millis("blocked", Some("ui-params")) as f64, took.expect("a time")];
    assert!(late > 40.0 && late <= took, "{late} ms of {took}: {:#}", why.why);
    let links = why.why["chain"].as_array().expect("a list").iter();
    let tenants = links.flat_map(|link| link["tenants"].as_array().into_iter().flatten());
    let hogs: HashSet<&str> = tenants
        .filter_map(|it| it["thread"]["comm"].as_str())
        .filter(|it| it.starts_with("hog-"))
        .collect();
    assert_eq!(hogs.len(), 2, "{:#}", why.why);
    if !can_be_default() {
        return;
    }
    let waits = why.why["waits"].as_array().expect("a list");
    let first = waits.iter().find(|wait| wait["depth"] == 0).expect("it waited");
    let stack = first["stack"].as_array().expect("where in its code").iter();
    let functions: Vec<&str> = stack.map(|it| it.as_str().expect("a name")).collect();
    let at = |name| functions.iter().position(|it| *it == name);
    let (lock, caller) = (at("update_params"), at("process_block"));
    assert!(lock.is_some() && lock < caller, "{functions:?}");
    assert!(!why.advises("--stacks"), "{:#}", why.why);
}

#[test]
fn why_names_the_holder_of_a_mutex_by_its_owner() {
    if !may_record() {
        return;
    }
    let why = Recorded::with(&["--locks"], &[PLANTED, "inversion-of-c"]).explain(&[]);
    if !why.has("waker") || !why.has("syscall") {
        return skip("nobody tells who wakes whom, or in which system call threads block here");
    }
    why.says(&["audio[", "late: ", "blocked", "on a lock (futex 0x", "held by ui-params["]);
    why.says(&["held by ui-params[", ", which was preempted for", "hog-"]);
    assert!(!why.sentence.contains("until woken by ui-params["), "{}", why.sentence);
    assert!(why.has("futex") && !why.advises("--locks"), "{:#}", why.why);
    let links = why.why["chain"].as_array().expect("a list");
    assert!(links.iter().all(|link| link["depth"] == 0 || link["thread"]["comm"] != "audio"));
    assert!(why.millis("blocked", Some("ui-params")) >= 50, "{:#}", why.why);
}

#[test]
fn with_locks_why_names_the_lock_of_the_kernel_and_who_had_it() {
    if !may_record() {
        return;
    }
    let why = Recorded::with(&["--locks"], &[PLANTED, "kernel-lock"]).explain(&["-t", "audio"]);
    if !why.has("kernel_lock") || !why.has("waker") || !why.has("syscall") {
        return skip("this kernel does not report which kernel lock a thread waits for");
    }
    why.says(&["audio[", "late: ", "blocked", "on a kernel lock (mutex 0x", ") in write"]);
    why.says(&[
        "until woken by holder[",
        ", probably the lock's owner, which was blocked",
        "in write",
    ]);
    why.says(&["until woken by pager[", ", which ran for"]);
    assert!(why.millis("blocked", Some("holder")) >= 50, "{:#}", why.why);
}

#[test]
fn why_names_the_hog_on_the_cpu_that_a_thread_may_not_leave() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("hog", &[]) else { return };
    why.says(&["victim[", "late: ", "preempted for", "by hog["]);
    assert!(why.millis("waiting", Some("hog")) >= 50, "{:#}", why.why);
    assert!(why.advises("higher priority than hog["), "{:#}", why.why);
}

#[test]
fn why_says_that_a_thread_slept_until_its_timer() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("ticker", &["--thread", "ticker", "--metric", "blocked"]) else {
        return;
    };
    let timer = match why.has("interrupt_kind") {
        true => "until woken by its own timer",
        false => "until woken by an interrupt or a timer",
    };
    why.says(&["ticker[", timer]);
    if why.has("syscall") {
        why.says(&["slept", "in clock_nanosleep"]);
    }
    assert!(why.millis("blocked", None) >= 59, "{:#}", why.why);
}

#[test]
fn why_follows_a_pipeline_to_the_stage_that_works() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("pipeline", &["--thread", "sink"]) else { return };
    why.says(&[
        "sink[",
        "blocked",
        "until woken by filter[",
        "blocked",
        "until woken by source[",
        "ran for",
    ]);
    if why.has("syscall") {
        why.says(&["in read", "in read"]);
    }
}

#[test]
fn why_names_the_straggler_of_several_workers() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("fork-join", &["--thread", "boss"]) else { return };
    why.says(&["boss[", "blocked", "until woken by straggler[", "which ran for"]);
    assert!(why.advises("straggler["), "{:#}", why.why);
}

#[test]
fn why_follows_a_lock_convoy_from_one_holder_to_the_one_before() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of(&[PLANTED, "convoy"]);
    let why = recorded.explain(&["--thread", "audio"]);
    if !why.has("waker") {
        return skip("nobody tells who wakes whom here");
    }
    why.says(&[
        "audio[",
        "late: ",
        "blocked",
        "until woken by holder-3[",
        "until woken by holder-2[",
        "holder-1[",
    ]);
    why.says(&["ran for"]);
    assert!(why.millis("blocked", Some("holder-3")) >= 59, "{:#}", why.why);
    let report = recorded.folder.fxtrec(["report", "t.fxt"]).expect(0).stdout;
    let (_, blocked) = report.split_once("The longest blocked times").expect("a list");
    let is_it = |line: &str| line.contains("audio[") && line.contains("woken by holder-3[");
    assert!(blocked.lines().any(is_it), "{report}");
    let table = report.lines().skip_while(|line| !line.contains("----")).skip(1);
    let rows: Vec<&str> = table.take_while(|line| !line.contains("COMMAND (")).collect();
    let is_ours = |row: &&str| ["holder-", "audio:", "planted:"].iter().any(|it| row.contains(it));
    assert!(!rows.is_empty() && rows.iter().all(is_ours), "{report}");
}

#[test]
fn why_names_the_disk_that_an_fsync_waits_for() {
    if !may_record() {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        return skip("there is no FUSE here");
    }
    let Some(why) = planted("slow-disk", &["--thread", "writer"]) else { return };
    why.says(&["writer[", "late: ", "blocked", "until woken by disk[", "which slept"]);
    if why.has("syscall") {
        why.says(&["blocked", "in fsync on ", "until woken by disk[", "in clock_nanosleep until"]);
    }
    assert!(why.millis("blocked", Some("disk")) >= 59, "{:#}", why.why);
    assert_eq!(why.class_of_longest(), if why.has("syscall") { "disk" } else { "unknown" });
}

#[test]
fn why_tells_sockets_of_a_network_from_others_where_there_are_stacks() {
    if !may_record() {
        return;
    }
    for (scene, stacks, class, clause) in [
        ("network", true, "network", "in recvfrom on TCP 127.0.0.1:"),
        // The packet wakes from an interrupt, and is known to be the server's.
        ("network", false, "socket", "in recvfrom until woken by server["),
        ("local-socket", true, "socket", "in recvfrom on a Unix socket until woken by server["),
    ] {
        let options: &[&str] = if stacks { &["--stacks"] } else { &["--stacks=none"] };
        let recorded = Recorded::with(options, &[PLANTED, scene]);
        let why = recorded.explain(&["--thread", "client", "--metric", "blocked"]);
        if !why.has("waker") || !why.has("syscall") {
            return skip("nobody tells who wakes whom, or in which system call threads block here");
        }
        why.says(&["client[", "blocked", clause]);
        assert_eq!(why.class_of_longest(), class, "{scene} {stacks}: {:#}", why.why);
    }
}

#[test]
fn why_knows_a_write_that_waits_for_a_disk_by_its_stack_and_a_read_of_a_pipe_as_no_such_thing() {
    if !may_record() {
        return;
    }
    let stacks: &[&str] = &["--stacks", "--stacks-over", "10us"];
    let piped = Recorded::with(stacks, &[PLANTED, "pipeline"]).explain(&["--thread", "sink"]);
    if !piped.has("syscall") {
        return skip("nobody tells in which system call threads block here");
    }
    assert_eq!(piped.class_of_longest(), "io", "{:#}", piped.why);
    let recorded = Recorded::with(stacks, &[PLANTED, "writes"]);
    let type_of = nix::sys::statfs::statfs(&recorded.path()).expect("a file system");
    if type_of.filesystem_type() != nix::sys::statfs::EXT4_SUPER_MAGIC {
        return skip("the folder for temporary files is not on ext4");
    }
    let why = recorded.explain(&["--thread", "writer", "--metric", "blocked"]);
    why.says(&["writer[", "blocked", "in pwrite64 on "]);
    assert_eq!(why.class_of_longest(), "disk", "{:#}", why.why);
}

#[test]
fn why_names_the_thread_that_brings_the_pages_of_a_storm_of_faults() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("page-faults", &[]) else { return };
    why.says(&["reader[", " for 'walk', ", "blocked", "until woken by pager["]);
    if why.has("syscall") {
        why.says(&["blocked", "outside of system calls (a page fault"]);
    }
    assert!(why.millis("blocked", Some("pager")) >= 50, "{:#}", why.why);
}

#[test]
fn why_follows_a_request_that_one_thread_begins_and_another_ends() {
    if !may_record() {
        return;
    }
    let Some(why) = planted("async", &["--span", "request"]) else { return };
    why.says(&["worker-2[", " for 'request', which worker-1[", " began, ", "the median of 2: "]);
    why.says(&["blocked", "until woken by backend["]);
    assert_eq!(why.why["begun_on"]["comm"], "worker-1");
    assert!(why.millis("blocked", Some("backend")) >= 50, "{:#}", why.why);
}

#[test]
fn why_finds_the_frame_that_took_longer_than_the_others() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of(&[PLANTED, "frames"]);
    let why = recorded.explain(&[]);
    let timer = match why.has("interrupt_kind") {
        true => "until woken by its own timer",
        false => "until woken by an interrupt or a timer",
    };
    why.says(&["audio[", " for 'mix', ", "more than the median of 15: ", timer]);
    assert_eq!((&why.why["subject"], &why.why["spans"]), (&"span".into(), &15.into()));
    assert!(why.millis("blocked", None) >= 59, "{:#}", why.why);
    // Time in interrupts is not the thread's own, although its clock includes it.
    let parts = why.why["blame"].as_array().expect("a list").iter();
    let on_cpu = ["on_cpu", "stolen", "interrupts", "on_cpu_undivided"];
    let ran = parts.filter(|it| on_cpu.iter().any(|name| it["part"] == *name));
    let ran: u64 = ran.map(|it| it["ns"].as_u64().expect("a number")).sum();
    assert!(ran >= 1_000_000, "{:#}", why.why);
    let three = recorded.why(&["--span", "mix", "--worst", "3", "--json"]);
    let three: Value = serde_json::from_str(&three).expect("JSON");
    let lengths: Vec<u64> = three["explanations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|why| why["length_ns"].as_u64().expect("a number"))
        .collect();
    assert!(lengths.len() == 3 && lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
}

#[test]
fn why_names_the_quota_that_is_used_up() {
    if !may_record() {
        return;
    }
    let Some(quota) = Quota::new("why", 10_000) else {
        return skip("no cgroup may have a quota here");
    };
    // Otherwise a group with a high load makes it later than its quota does.
    quota.prefer();
    let words = quota.words(&[PLANTED, "busy", "80"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let why = Recorded::of(&words).explain(&[]);
    if !why.has("throttled") {
        return skip("this kernel does not tell which tasks are throttled");
    }
    why.says(&["busy[", "late: ", "throttled for", "by the quota of /fxtrec-why-"]);
    assert!(why.millis("throttled", None) >= 30, "{:#}", why.why);
    assert!(why.advises("raise the quota of /fxtrec-why-"), "{:#}", why.why);
}

/// The host of this machine may or may not take CPUs away at this time. The kernel counts the time that it took, and the answer agrees with
/// it.
#[test]
fn why_names_the_host_where_it_takes_the_cpu() {
    if !may_record() {
        return;
    }
    // If it names no thread, no answer depends on the missing data.
    let will_do = |recorded: &Recorded| recorded.printed.is_empty() || recorded.is_complete();
    let recorded = Recorded::first(will_do, &[], &[PLANTED, "steal"]);
    let trace = Trace::read(&recorded.path());
    let of_host = trace.own.iter().filter(|event| event.name == "host_steal");
    let counted: u64 = of_host.map(|event| event.number("steal_ns")).sum();
    let found: u64 = trace.switches.iter().map(|switch| switch.number("steal_ns")).sum();
    println!("of slices {found} ns, by /proc/stat {counted} ns");
    if counted == 0 && found == 0 {
        // Whatever delayed the threads, it was not the host.
        let why = recorded.why(&[]);
        assert!(!why.contains("the host took"), "{why}");
        let report = recorded.folder.fxtrec(["report", "t.fxt", "--all"]).expect(0).stdout;
        assert!(!report.contains("the host took"), "{report}");
    }
    let Some(stolen) = recorded.printed.lines().next() else {
        println!("for two seconds of full load nothing took a CPU for 4 ms: nothing to name");
        return;
    };
    let why = recorded.explain(&["--thread", stolen, "--metric", "turn"]);
    // A slice of that thread for which the kernel reports it. The parts of its turn that others took belong to no state.
    let is_stolen = |switch: &&Switch| {
        let known = trace.threads.get(&switch.outgoing);
        known.is_some_and(|(name, _)| name == stolen) && switch.number("steal_ns") > 0
    };
    let most = trace.switches.iter().filter(is_stolen).map(|it| it.number("steal_ns")).max();
    match most.unwrap_or(0) {
        0 => {
            assert_eq!(why.millis("stolen", None), 0, "{:#}", why.why);
            assert!(!why.sentence.contains("the host took"), "{}", why.sentence);
        }
        // The longest turn is another one, or the host has a small part in it.
        most if most < 3_000_000 => println!("the host took {most} ns of a slice: not the cause"),
        _ => {
            why.says(&[stolen, "ran for", "of which the host took"]);
            assert!(why.millis("stolen", None) >= 2, "{:#}", why.why);
            assert!(why.advises("give the virtual machine dedicated CPUs"), "{:#}", why.why);
        }
    }
}

#[test]
fn why_says_what_cannot_be_explained() {
    let folder = Folder::new();
    let done = folder.fxtrec(["why", "nothing.fxt"]).expect(125);
    assert!(done.stderr.contains("nothing.fxt"), "{}", done.stderr);
    folder.fxtrec(["why", "a.fxt", "--worst", "1", "--over", "1ms"]).expect(2);
}

/// A thread that sleeps 5 ms at a time, as for requests, in an interpreter whose lock another thread holds in one long call.
const INTERPRETER: &str = "
import threading, time, re
def name(text): open('/proc/self/task/%d/comm' % threading.get_native_id(), 'w').write(text)
def report():
    name('pdf-export')
    time.sleep(0.4)
    re.match('(a+)+$', 'a' * 23 + 'b')
thread = threading.Thread(target=report)
thread.start()
name('request-loop')
while thread.is_alive(): time.sleep(0.005)
for _ in range(60): time.sleep(0.005)
";

#[test]
fn why_finds_the_unusual_unit_of_a_program_that_others_wrote_and_who_let_it_go_on() {
    if !may_record() || !or_skip(&["python3"]) {
        return;
    }
    let why = Recorded::of(&["sh", "-c", "python3 -c \"$0\"; exit 0", INTERPRETER]).explain(&[]);
    if !why.has("waker") || !why.has("syscall") {
        return skip("nobody tells who wakes whom, or in which system call threads block here");
    }
    assert_eq!(why.why["subject"], "unit", "{:#}", why.why);
    why.says(&[
        "request-loop[",
        " took ",
        "from one idle wait in clock_nanosleep to the next",
        "blocked",
    ]);
    why.says(&["in futex", " until finally woken by pdf-export[", ", which ran for "]);
    // A usual unit is the work between two sleeps.
    let [length, median] =
        ["length_ns", "median_ns"].map(|it| why.why[it].as_u64().expect("a number"));
    assert!(length > 50_000_000 && median < length / 10, "{length} and {median}");
}

#[test]
fn a_script_is_explained_as_a_whole_whatever_waits_in_its_pipelines() {
    if !may_record() {
        return;
    }
    let pipeline = "seq 1 100000 | sort -R | head -n 30000 | sort -r | tail -n 1";
    let programs = "seq 1 100000 >numbers; sort -r numbers >sorted; gzip -9 sorted";
    for script in [
        format!("{pipeline}; {pipeline}"),
        format!("{pipeline}; sleep 0.2; {pipeline}"),
        format!("{programs}; true"),
    ] {
        let why = Recorded::of(&["sh", "-c", &script]).explain(&[]);
        if !why.has("waker") || !why.has("syscall") {
            return skip("nobody tells who wakes whom, or in which system call threads block here");
        }
        assert_eq!(why.why["subject"], "critical_path", "{script}: {}", why.sentence);
        why.says(&["sh[", " took ", " from its start to its end: "]);
    }
}

/// Outsiders alternate with COMMAND on its only CPU.
#[test]
fn in_a_narrow_scope_every_thread_that_had_the_cpu_is_named() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    let cpu = allowed_cpus().expect("affinity")[0].to_string();
    let folder = Folder::new();
    let rivals: Vec<Process> = ["one", "two", "three", "four"]
        .iter()
        .map(|name| {
            std::os::unix::fs::symlink("/bin/sh", folder.path(name)).expect("a link");
            let mut rival = Command::new("taskset");
            rival.args(["-c", &cpu]).arg(folder.path(name));
            rival.args(["-c", "echo ready; while :; do :; done"]);
            Process::start_ready(&mut rival)
        })
        .collect();
    for source in ["bpf", "perf", "ftrace"] {
        let mut fxtrec = binary::command();
        fxtrec.args(["-q", "-o", "t.fxt", "--scope", "app", "--source", source, "--"]);
        fxtrec.args(["taskset", "-c", &cpu, PLANTED, "busy", "200"]).stdin(Stdio::null());
        folder.run(&mut fxtrec).expect(0);
        let why = folder.fxtrec(["why", "t.fxt", "--thread", "busy", "--json"]).expect(0).stdout;
        let why: Value = serde_json::from_str(&why).expect("JSON");
        let why = &why["explanations"][0];
        let waits = why["blame"].as_array().expect("a list").iter();
        let waits = waits.filter(|it| it["part"] == "waiting");
        let of = |tenant: &str| -> u64 {
            let ns = waits.clone().filter(|it| it["tenant"] == tenant).map(|it| &it["ns"]);
            ns.map(|ns| ns.as_u64().expect("a number")).sum()
        };
        let names: Vec<&str> =
            waits.clone().filter_map(|it| it["thread"]["comm"].as_str()).collect();
        let rivals = ["one", "two", "three", "four"];
        let named = rivals.iter().filter(|rival| names.contains(rival)).count();
        assert!(named >= 3, "{source}: {names:?} in {why:#}");
        assert!(of("thread") > 1_000_000, "{source}: {why:#}");
        assert_eq!((of("out_of_scope"), of("unknown")), (0, 0), "{source}: {why:#}");
        let report = folder.fxtrec(["report", "t.fxt"]).expect(0).stdout;
        let worst = report.lines().find(|line| line.contains("busy[") && line.contains("for CPU"));
        assert!(worst.is_some_and(|line| !line.contains("unknown")), "{source}: {report}");
    }
    drop(rivals);
    machine.give_back();
}
