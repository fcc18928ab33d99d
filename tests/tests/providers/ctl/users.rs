//! A user without privileges: exactly what the policy grants.

use std::fs::Permissions;
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use fxtrec_tests::binary::{self, copy_program};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{root, tools, wait};
use serde_json::Value;

use crate::ctl::daemon::{Daemon, client};

const POLICY: &str = r#"
    [probes]
    allocations = "libc:malloc"

    [[allow]]
    users = ["nobody"]
    kernel = ["sched"]
    max-buffer = "32M"
"#;

fn can_run() -> bool {
    root::may_record() && tools::or_skip(&["setpriv"])
}

#[test]
fn without_rules_a_user_records_applications_of_the_same_user_and_nothing_else() {
    if !can_run() {
        return;
    }
    let daemon = Daemon::start("own-processes = false");
    // One program belongs to root, and one to the user: a copy, since that user may not read this repository.
    let folder = Folder::new();
    let program = folder.path("client");
    copy_program(client().as_ref(), &program);
    std::process::Command::new("chmod").arg("755").arg(folder.path("")).status().expect("chmod");
    let mut roots = daemon.spans(10);
    let mut own = daemon.as_nobody(&program, "65534");
    own.args(["spans", "1", "20"]);
    let mut own = daemon.application(own);
    daemon.wait_for_applications(2);

    let listed = daemon.ctl_as_nobody(&["--json", "providers"]).expect(0).stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["providers"].as_array().map(Vec::len), Some(1), "{listed}");
    let known = daemon.ctl_as_nobody(&["categories"]).expect(0).stdout;
    let line = known.lines().find(|line| line.starts_with("sched ")).expect("it is known");
    assert!(line.contains(" no "), "{line}");
    for forbidden in ["sched", "sched:waking", "irq", "syscall", "uprobe:libc:malloc"] {
        let start = ["start", "-o", "no.fxt", "--categories", forbidden];
        let refused = daemon.ctl_as_nobody(&start).expect(125);
        assert!(refused.stderr.contains("is not permitted"), "{}", refused.stderr);
        assert!(refused.stderr.contains("[[allow]]"), "what would allow it: {}", refused.stderr);
        assert!(!daemon.folder.path("no.fxt").exists());
    }
    let large = ["start", "--allow-partial", "-o", "no.fxt", "--buffer-size", "17M"];
    let refused = daemon.ctl_as_nobody(&large).expect(125);
    assert!(refused.stderr.contains("max-buffer"), "{}", refused.stderr);

    // A trace without any records would be shorter.
    let less = daemon.ctl_as_nobody(&["start", "-o", "own.fxt"]).expect(125);
    assert!(less.stderr.contains("the policy does not permit sched"), "{}", less.stderr);
    assert!(less.stderr.contains("--allow-partial"), "{}", less.stderr);
    assert!(!daemon.folder.path("own.fxt").exists());
    let partial = ["start", "-o", "own.fxt", "--allow-partial"];
    let said = daemon.ctl_as_nobody(&partial).expect(0).stderr;
    assert!(said.contains("recording without sched: the policy does not permit it"), "{said}");
    let mut line = String::new();
    own.stdout().read_line(&mut line).expect("its number, when it is through");
    assert_eq!(daemon.ask(&["status"])["kernel"]["running"], false);
    daemon.ctl_as_nobody(&["stop"]).expect(0);
    let trace = Trace::read(&daemon.folder.path("own.fxt"));
    assert_eq!(trace.events.iter().filter(|event| event.begins()).count(), 2 * 20);
    assert!(trace.switches.is_empty());
    // Root's application did not receive a request to record.
    roots.kill();
    daemon.end();
}

#[test]
fn a_rule_gives_what_it_names_and_a_session_belongs_to_who_began_it() {
    if !can_run() {
        return;
    }
    let daemon = Daemon::start(POLICY);
    let known = daemon.ctl_as_nobody(&["--json", "categories"]).expect(0).stdout;
    let known: Value = serde_json::from_str(&known).expect("JSON");
    let permitted = |name: &str| {
        let list = known["categories"].as_array().expect("a list");
        let category = list.iter().find(|category| category["name"] == name);
        category.unwrap_or_else(|| panic!("{name} in {known}"))["permitted"].as_bool()
    };
    assert_eq!(permitted("sched"), Some(true));
    assert_eq!(permitted("irq"), Some(false));
    assert_eq!(permitted("uprobe:allocations"), Some(false));
    let probe = ["start", "-o", "no.fxt", "--categories", "uprobe:alocations"];
    let slip = daemon.ctl_as_nobody(&probe).expect(125);
    assert!(slip.stderr.contains("did you mean allocations?"), "{}", slip.stderr);

    let start = ["start", "-o", "sched.fxt", "--categories", "sched", "--buffer-size", "32M"];
    daemon.ctl_as_nobody(&start).expect(0);
    assert_eq!(daemon.ask(&["status"])["kernel"]["running"], true);
    daemon.ctl_as_nobody(&["stop"]).expect(0);
    assert!(!Trace::read(&daemon.folder.path("sched.fxt")).switches.is_empty());

    daemon.ctl(&["start", "-o", "roots.fxt", "--categories", "uprobe:allocations"]).expect(0);
    let stop = daemon.ctl_as_nobody(&["stop"]).expect(125);
    assert!(stop.stderr.contains("is not permitted"), "{}", stop.stderr);
    let seen = daemon.ctl_as_nobody(&["--json", "status"]).expect(0).stdout;
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen["state"], "started");
    assert_eq!(seen.get("output"), None, "where root writes is root's business");
    daemon.ctl(&["stop"]).expect(0);
    let probed = Trace::read(&daemon.folder.path("roots.fxt"));
    assert!(probed.events.iter().any(|event| event.name == "allocations"), "by the policy's name");
    assert!(probed.switches.is_empty());
    daemon.end();
}

/// A program that runs on CPU 1 until it is killed, as the user with this id.
fn competitor(uid: &str, name: &str, folder: &Folder, words: &[&str]) -> Process {
    let program = folder.path(name);
    copy_program("/bin/sh".as_ref(), &program);
    let mut command = Command::new("setpriv");
    let ids = [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()];
    command.args(ids).args(["taskset", "-c", "1"]).arg(program).args(words);
    Process::start(command.stdout(Stdio::null()))
}

const SPIN: [&str; 2] = ["-c", "while :; do :; done"];

#[test]
fn a_user_records_the_users_own_processes_and_of_others_only_that_they_had_the_cpu() {
    if !can_run() || !tools::or_skip(&["taskset"]) {
        return;
    }
    let daemon = Daemon::start("");
    let folder = Folder::new();
    Command::new("chmod").arg("755").arg(folder.path("")).status().expect("chmod");
    // It sets its user id to root's each time that it is executed, and leaves the scope.
    let suid = folder.path("secretsuid");
    copy_program("/bin/sleep".as_ref(), &suid);
    std::fs::set_permissions(&suid, Permissions::from_mode(0o4755)).expect("it is ours");
    let executes = format!("while :; do {} 0.01; done", suid.display());
    let own = [
        competitor("65534", "own_one", &folder, &SPIN),
        competitor("65534", "own_two", &folder, &["-c", &executes]),
    ];
    let not_chosen = competitor("65534", "own_three", &folder, &SPIN);
    let secret = competitor("12345", "secretname", &folder, &[SPIN[0], SPIN[1], "secretargument"]);

    let refused = daemon.ctl_as_nobody(&["start", "--pid", &secret.id().to_string()]).expect(125);
    assert!(refused.stderr.contains("it belongs to another user"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("recording your own"), "{}", refused.stderr);
    assert!(refused.stderr.contains("kernel = [\"sched\"]"), "{}", refused.stderr);
    let refused = daemon.ctl_as_nobody(&["start", "--pid", "4194304"]).expect(125);
    assert!(refused.stderr.contains("process 4194304 does not exist"), "{}", refused.stderr);

    let pids = own.iter().map(|it| it.id().to_string()).collect::<Vec<_>>().join(",");
    for (file, scope) in [("some.fxt", &["--pid", &pids][..]), ("all.fxt", &[])] {
        let start = [&["start", "-o", file][..], scope].concat();
        let said = daemon.ctl_as_nobody(&start).expect(0).stderr;
        assert!(said.contains("recording your own processes"), "{said}");
        std::thread::sleep(Duration::from_millis(700));
        let stopped = daemon.ctl_as_nobody(&["stop"]).expect(0).stdout;
        assert!(!stopped.contains("no application"), "the scheduler was recorded: {stopped}");
        let mut report = binary::command();
        report.args(["report", file, "--rows", "0"]);
        let report = daemon.folder.run(&mut report).expect(0).stdout;
        let recorded = "fxtrec daemon, for processes of user 65534\n";
        assert!(report.contains(&format!("): {recorded}")), "{report}");
        assert!(report.contains("another user "), "it had the CPU: {report}");
        for strange in ["another user:", "another user[", "fxtrec-output:"] {
            assert!(!report.contains(strange), "{strange} in {report}");
        }
        let path = daemon.folder.path(file);
        let bytes = std::fs::read(&path).expect("it is there");
        let hidden = b"secret";
        assert!(!bytes.windows(hidden.len()).any(|part| part == hidden), "{file} names others");
        let trace = Trace::read(&path);
        let switches = |name: &str| {
            let is = |koid: &u64| trace.threads.get(koid).is_some_and(|(it, _)| it == name);
            trace.switches.iter().filter(|it| is(&it.outgoing) || is(&it.incoming)).count()
        };
        for name in ["own_one", "own_two", "another user"] {
            assert!(switches(name) > 5, "{file}: {name} {}", switches(name));
        }
        // Threads that took the CPU also have a name if they belong to the user.
        assert!(switches("own_three") > 5, "{file}: {}", switches("own_three"));
        let is_secret = |koid: &u64| *koid == u64::from(secret.id());
        assert!(!trace.threads.keys().any(is_secret), "{file} has the other's thread");
        let stands_for_others = |(koid, (name, _)): &(&u64, &(String, u64))| {
            name == "another user" && *koid % 0x40_0000 < 4_000_000
        };
        assert_eq!(trace.threads.iter().find(stands_for_others), None, "it looks like a process");
        let waits = waits_of(&daemon, file, "own_one");
        assert!(!waits.is_empty(), "{file}");
        let nameless = waits.iter().find(|(tenant, _)| tenant != "thread" && tenant != "idle");
        assert_eq!(nameless, None, "{file}: {waits:?}");
    }
    drop((own, not_chosen, secret));

    // COMMAND is selected before it runs.
    let command = ["start", "-o", "command.fxt", "--", "/bin/sleep", "0.1"];
    daemon.ctl_as_nobody(&command).expect(0);
    let trace = Trace::read(&daemon.folder.path("command.fxt"));
    assert!(trace.threads.values().any(|(name, _)| name == "sleep"), "{:?}", trace.threads);
    let mixed = ["start", "-o", "no.fxt", "--categories", "sched:own,irq"];
    daemon.ctl_as_nobody(&mixed).expect(125);
    daemon.end();
}

/// What had the CPU while a thread of this name waited longest, and for which threads it was.
fn waits_of(daemon: &Daemon, file: &str, name: &str) -> Vec<(String, String)> {
    let mut why = binary::command();
    why.args(["why", file, "--thread", name, "--json"]);
    let why = daemon.folder.run(&mut why).expect(0).stdout;
    let why: Value = serde_json::from_str(&why).expect("JSON");
    let parts = why["explanations"][0]["blame"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    parts
        .filter(|part| part["part"] == "waiting")
        .map(|part| (text(&part["tenant"]), text(&part["thread"]["comm"])))
        .collect()
}

/// What a trace says line by line, which must not name others, nor have addresses of the kernel.
fn dumped(daemon: &Daemon, file: &str) -> Vec<String> {
    let bytes = std::fs::read(daemon.folder.path(file)).expect("it is there");
    let hidden = b"secret";
    assert!(!bytes.windows(hidden.len()).any(|part| part == hidden), "{file} names others");
    let dump = daemon.folder.run(binary::command().args(["dump", file])).expect(0).stdout;
    assert!(!dump.contains("0xffff"), "{file} has addresses of the kernel");
    dump.lines().map(str::to_owned).collect()
}

#[test]
fn stacks_within_the_rule_are_those_of_threads_whose_memory_the_user_may_read() {
    if !can_run() || !tools::or_skip(&["taskset", "python3"]) {
        return;
    }
    let daemon = Daemon::start("");
    let folder = Folder::new();
    Command::new("chmod").arg("755").arg(folder.path("")).status().expect("chmod");
    for name in ["own_sleep", "secretsleep"] {
        copy_program("/bin/sleep".as_ref(), &folder.path(name));
    }
    let sleeps = |name: &str| format!("while :; do {} 0.01; done", folder.path(name).display());
    let (own, secret) = (sleeps("own_sleep"), sleeps("secretsleep"));
    // The user may not inspect it, by the kernel's rule for programs that belonged to another user.
    let closes = "import ctypes, time; of = ctypes.CDLL(None).prctl; of(15, b'closed'); of(4, 0)\n\
                  while True: time.sleep(0.01)";
    let mut closed = daemon.as_nobody("/usr/bin/python3".as_ref(), "65534");
    let running = [
        competitor("65534", "own_one", &folder, &["-c", &own]),
        competitor("65534", "own_two", &folder, &SPIN),
        Process::start(closed.args(["-c", closes])),
        competitor("12345", "secretname", &folder, &["-c", &secret]),
    ];
    let comm = format!("/proc/{}/comm", running[2].id());
    let is_closed = || std::fs::read_to_string(&comm).is_ok_and(|name| name == "closed\n");
    wait::until("a program that is closed", is_closed);
    let chosen = ["--comm", "own_*", "--comm", "closed"];
    let start = ["start", "-o", "own.fxt", "--stacks=offcpu,wake,cpu"];
    daemon.ctl_as_nobody(&[&start[..], &chosen].concat()).expect(0);
    std::thread::sleep(Duration::from_millis(1000));
    daemon.ctl_as_nobody(&["stop"]).expect(0);
    drop(running);
    let lines = dumped(&daemon, "own.fxt");
    let stacks = |name: &str| {
        let of = format!(":{name} flags=");
        lines.iter().filter(|line| line.contains(" backtrace ") && line.contains(&of)).count()
    };
    for name in ["own_one", "own_two", "own_sleep"] {
        assert!(stacks(name) > 5, "{name}: {}", stacks(name));
    }
    assert!(lines.iter().any(|line| line.contains("\"closed\"")), "it is recorded");
    assert_eq!(stacks("closed"), 0);
    assert!(!lines.iter().any(|line| line.contains("/python3")), "its file is named");

    let nothing = daemon.ctl_as_nobody(&["start", "-o", "no.fxt", "--comm", "secret*"]).expect(125);
    assert!(nothing.stderr.contains("no running process of yours matches"), "{}", nothing.stderr);
    daemon.end();
    let daemon = Daemon::start(POLICY);
    let all = ["start", "-o", "no.fxt", "--categories", "sched", "--stacks"];
    let refused = daemon.ctl_as_nobody(&all).expect(125);
    assert!(refused.stderr.contains("sched:own"), "{}", refused.stderr);
    // Additions to the user's own session have no effect either.
    let keep = ["start", "-o", "own.fxt", "--categories", "sched:own", "--stacks"];
    daemon.ctl_as_nobody(&keep).expect(0);
    daemon.ctl_as_nobody(&["stop", "--keep"]).expect(0);
    let again = ["start", "--again", "--categories", "sched"];
    let refused = daemon.ctl_as_nobody(&again).expect(125);
    assert!(refused.stderr.contains("stacks of all users"), "{}", refused.stderr);
    daemon.ctl_as_nobody(&["stop"]).expect(0);
    daemon.end();
}

#[test]
fn triggers_within_the_rule_fire_for_the_users_own_threads_only() {
    if !can_run() || !tools::or_skip(&["taskset", "timeout"]) {
        return;
    }
    let daemon = Daemon::start("");
    let folder = Folder::new();
    Command::new("chmod").arg("755").arg(folder.path("")).status().expect("chmod");
    let program = folder.path("own_one").display().to_string();
    copy_program("/bin/sh".as_ref(), program.as_ref());
    // They wait for each other, and the user's threads for them.
    let secret = ["secretone", "secrettwo"].map(|name| competitor("12345", name, &folder, &SPIN));
    let start = ["start", "-o", "own.fxt", "--mode", "circular", "--stacks"];
    let command = ["--", "timeout", "3", "taskset", "-c", "1", &program, SPIN[0], SPIN[1]];
    let others = ["--trigger", "runqueue > 1us if comm ~ 'secret*'"];
    daemon.ctl_as_nobody(&[&start[..], &others, &command].concat()).expect(124);
    assert!(!daemon.folder.path("own.1.fxt").exists(), "the delay of another fired");
    let own = ["--trigger", "runqueue > 1ms"];
    let said = daemon.ctl_as_nobody(&[&start[..], &own, &command].concat()).expect(124).stderr;
    assert!(said.contains("a trigger fired") && said.contains("own.1.fxt"), "{said}");
    drop(secret);
    let lines = dumped(&daemon, "own.1.fxt");
    assert!(
        lines.iter().any(|line| line.contains("\"snapshot_info\"") && line.contains(" from_ns="))
    );
    let why = daemon.folder.run(binary::command().args(["why", "own.1.fxt"])).expect(0).stdout;
    assert!(why.contains("(trigger 'runqueue > 1ms')"), "{why}");

    for (words, why) in [
        (&["--trigger", "runqueue > 1ms", "--", "true"][..], "--mode circular"),
        (&["--trigger", "runqueue > 1ms", "--mode", "circular"], "--foreground"),
        (&["--trigger", "lost > 0", "--mode", "circular", "--foreground"], "METRIC OP TIME"),
    ] {
        let refused =
            daemon.ctl_as_nobody(&[&["start", "-o", "no.fxt"], words].concat()).expect(125);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    daemon.end();
}

#[test]
fn who_is_not_in_the_group_cannot_connect_and_is_told_about_it() {
    if !can_run() {
        return;
    }
    let daemon = Daemon::start("");
    let copy = binary::PublicCopy::new();
    let open = std::process::Command::new("chmod").arg("755").arg(daemon.folder.path("")).status();
    assert!(open.expect("chmod").success());
    let mut stranger = daemon.as_nobody(&copy.path(), "12345");
    stranger.arg("ctl").arg("--socket").arg(daemon.folder.path("run/control")).arg("status");
    let refused = daemon.folder.run(&mut stranger).expect(125);
    assert!(refused.stderr.contains("the socket's group"), "{}", refused.stderr);
    daemon.end();
}

#[test]
fn a_daemon_with_a_mistake_in_its_policy_does_not_start_and_says_where_it_is() {
    if !root::or_skip("the daemon does") {
        return;
    }
    let folder = Folder::new();
    folder.write("policy.toml", "[[allow]]\nusers = [\"root\"]\nkernl = []\n");
    let policy = folder.text("policy.toml");
    let mut daemon = binary::command();
    daemon.args(["daemon", "--policy", &policy]).arg("--runtime-dir").arg(folder.path("run"));
    let refused = folder.run(daemon.stderr(Stdio::piped())).expect(125);
    let expected = format!("{policy}:3:1: unknown key 'kernl', did you mean 'kernel'?");
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    assert!(!folder.path("run/control").exists());
}
