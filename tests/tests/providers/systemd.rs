//! The files for systemd: it accepts them, and nothing that they restrict is needed.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fxt_writer::provider::wire::FromProvider;
use fxtrec::control::client::Client;
use fxtrec::kernel::seqpacket::{Address, Listener, Seqpacket};
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::process::{Process, with_usual_signals};
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{binary, root, tools, wait};
use nix::sys::signal::Signal;

/// The path of the binary in the unit.
const INSTALLED: &str = "/usr/local/bin/fxtrec";

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The capabilities that the unit leaves to the daemon, in setpriv's notation.
fn capabilities() -> Vec<String> {
    let unit = unit("fxtrec.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = line.expect("the unit bounds them").split_whitespace();
    let of = |name: &str| name.strip_prefix("CAP_").expect("a capability").to_lowercase();
    names.map(of).collect()
}

/// Records the machine for a moment with only these capabilities, as the daemon's recorder would.
fn record_with(capabilities: &[String], folder: &Folder, options: &[&str]) -> Done {
    let bounds: Vec<String> =
        capabilities.iter().map(|capability| format!(",+{capability}")).collect();
    let mut setpriv = Command::new("setpriv");
    setpriv
        .arg(format!("--bounding-set=-all{}", bounds.concat()))
        .args(["--inh-caps=-all", "--no-new-privs"])
        .arg(binary::fxtrec())
        .args(["record", "-a", "-d", "200ms", "-q", "-o", "trace.fxt"])
        .args(options);
    folder.run(&mut setpriv)
}

#[test]
fn systemd_understands_the_units_and_the_binary_their_commands() {
    if !tools::or_skip(&["systemd-analyze"]) {
        return;
    }
    let folder = Folder::new();
    let here = binary::PublicCopy::new();
    let binary: PathBuf = here.path();
    let units = ["fxtrec.service", "fxtrec-record.service", "fxtrec-flight.service"];
    let texts = units.map(unit);
    let files = [0, 1, 2].map(|at| {
        assert!(texts[at].contains(INSTALLED));
        let text = texts[at].replace(INSTALLED, binary.to_str().expect("a plain path"));
        folder.write(units[at], text);
        folder.text(units[at])
    });
    let sockets = ["fxtrec.socket", "fxtrec-providers.socket"].map(|name| {
        folder.write(name, unit(name));
        folder.text(name)
    });
    let verify = [&["verify".to_owned()], &files[..], &sockets[..]].concat();
    let verified = folder.run(Command::new("systemd-analyze").args(verify)).expect(0);
    assert_eq!(verified.stderr, "", "a warning is a mistake, too");
    for text in texts {
        let text = text.replace("\\\n", " ");
        let started = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("one");
        let words: Vec<&str> = started.split_whitespace().skip(1).collect();
        let words = words.iter().map(|word| word.trim_matches('\''));
        // It rejects unknown options before it shows its help.
        folder.fxtrec(words.filter(|word| !word.is_empty()).chain(["--help"])).expect(0);
    }
}

/// The reports of a recorder that runs for a while to the service manager when such a unit starts it, and its status.
fn lines_while_it_records(folder: &Folder, output: Stdio, options: &[&str]) -> Vec<String> {
    let path = folder.path("notify");
    let _ = std::fs::remove_file(&path);
    let listener = UnixDatagram::bind(&path).expect("a socket");
    listener.set_read_timeout(Some(Duration::from_millis(100))).expect("it can be set");
    let mut command = binary::command();
    command.args(["record", "-a", "-q"]).args(options).current_dir(folder.path(""));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    let mut recorder = Process::start(with_usual_signals(&mut command).stdout(output));
    let mut begun = Instant::now();
    let mut reported: Vec<String> = Vec::new();
    // Four seconds from when it is ready, which takes a while on a busy machine.
    while begun.elapsed() < Duration::from_secs(if reported.is_empty() { 60 } else { 4 }) {
        let mut message = [0; 64];
        if let Ok(bytes) = listener.recv(&mut message) {
            if reported.is_empty() {
                begun = Instant::now();
            }
            reported.push(String::from_utf8_lossy(&message[..bytes]).into_owned());
        }
    }
    recorder.kill();
    reported
}

#[test]
fn a_recorder_gives_signs_of_life_as_long_as_its_output_takes_something() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let beats = |reported: &[String]| reported.iter().filter(|it| *it == "WATCHDOG=1").count();
    for options in [&["-o", "t.fxt", "--rotate", "1M"][..], &["-o", "c.fxt", "--mode", "circular"]]
    {
        let reported = lines_while_it_records(&folder, Stdio::null(), options);
        assert!(reported.iter().any(|it| it == "READY=1"), "{reported:?}");
        // One per 100 ms in 4 s, minus the start-up time on a busy machine.
        assert!((8..=41).contains(&beats(&reported)), "{reported:?}");
    }
    // A pipe that is not read takes 64 KiB, which this machine fills in a moment.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let _busy = Process::start(Command::new("sh").args(["-c", "while :; do /bin/true; done"]));
    let options = ["-o", "-", "--buffer-size", "1M"];
    let stuck = lines_while_it_records(&folder, Stdio::from(writer), &options);
    drop(reader);
    let last = stuck.iter().rposition(|it| it == "WATCHDOG=1").map_or(0, |last| last + 1);
    assert!(beats(&stuck) < 25 && last <= 26, "{stuck:?}");
}

/// Starts the daemon as systemd does with sockets that it has created: at descriptors 3 and 4, with the names of the units.
fn daemon_with(control: &UnixListener, providers: &Listener, folder: &Folder) -> Process {
    let script = "exec 3<&0 4<&1 </dev/null >&2; \
                  export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=control:providers; exec \"$@\"";
    let mut shell = Command::new("sh");
    with_usual_signals(&mut shell);
    shell.args(["-c", script, "sh"]).arg(binary::fxtrec()).args(["daemon", "--runtime-dir"]);
    shell.arg(folder.path("run"));
    let copies =
        [control.as_fd(), providers.as_fd()].map(|it| it.try_clone_to_owned().expect("a copy"));
    let [control, providers] = copies;
    Process::start_as_it_is(shell.stdin(control).stdout(providers).stderr(Stdio::null()))
}

#[test]
fn sockets_that_systemd_has_made_are_used_and_outlive_the_daemon() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let [at_control, at_providers] = ["control", "providers"].map(|name| folder.path(name));
    let control = UnixListener::bind(&at_control).expect("a socket");
    let providers = Listener::bind(Address::Path(at_providers.clone())).expect("a socket");
    // The second daemon is started like the first, since a client has connected in the meantime.
    for _ in 0..2 {
        // Both connect before there is a daemon.
        let mut client = Client::connect(&at_control).expect("systemd listens");
        let app =
            Seqpacket::connect(&Address::Path(at_providers.clone())).expect("systemd listens");
        let register = FromProvider::Register { name: "early".to_owned(), categories: Vec::new() };
        app.send(&register.encode().expect("it can be said"), &[]).expect("room");
        let mut daemon = daemon_with(&control, &providers, &folder);
        wait::until("the application that was there first", || {
            let known = client.providers().expect("it answers").providers;
            known.iter().any(|provider| provider.name == "early")
        });
        daemon.signal(Signal::SIGTERM);
        assert!(daemon.finish().success());
        assert!(at_control.exists() && at_providers.exists(), "they are systemd's");
        assert!(!folder.path("run/control").exists() && !folder.path("run/providers").exists());
    }
}

#[test]
fn the_capabilities_of_the_unit_are_enough_for_everything_that_a_session_can_have() {
    if !root::may_record() || !tools::or_skip(&["setpriv"]) {
        return;
    }
    let folder = Folder::new();
    let all = ["--waking", "--irq", "--syscalls", "-P", "libc:malloc"];
    record_with(&capabilities(), &folder, &all).expect(0);
    let trace = Trace::read(&folder.path("trace.fxt"));
    assert!(!trace.switches.is_empty());
}

#[test]
fn without_debians_levels_the_capability_that_can_be_left_out_is_not_needed() {
    if !root::may_record() || !tools::or_skip(&["setpriv"]) {
        return;
    }
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("a level");
    let level: i32 = paranoid.trim().parse().expect("a number");
    assert!(level <= 2, "{level} is a level of Debian's: this test cannot run here");
    let folder = Folder::new();
    let mut fewer = capabilities();
    fewer.retain(|capability| capability != "sys_admin");
    assert_eq!(fewer.len() + 1, capabilities().len());
    let specs = ["libc:malloc", "sized=libc:malloc size=arg1:u64", "libc:free%span"];
    let probes = specs.map(|spec| ["-P", spec]).concat();
    let all = [&["--waking", "--irq", "--syscalls"], &probes[..]].concat();
    record_with(&fewer, &folder, &all).expect(0);
    let trace = Trace::read(&folder.path("trace.fxt"));
    for name in ["malloc", "sized", "free"] {
        assert!(trace.events.iter().any(|event| event.name == name), "{name}");
    }
}

#[test]
fn the_unit_is_exposed_to_little() {
    if !tools::or_skip(&["systemd-analyze"]) {
        return;
    }
    let folder = Folder::new();
    folder.write("fxtrec.service", unit("fxtrec.service"));
    let file = folder.text("fxtrec.service");
    // Tenths; for larger numbers, the command fails.
    let options = ["security", "--no-pager", "--offline=true", "--threshold=30"];
    folder.run(Command::new("systemd-analyze").args(options).arg(file)).expect(0);
}

/// Calls that the kernel puts into a process while a program probes a function's return or beginning (`uretprobe`, `uprobe`); its filters
/// let them pass. strace may not have their names.
const OF_PROBES: [&str; 4] = ["uretprobe", "syscall_0x14f", "uprobe", "syscall_0x150"];

/// The call by which the kernel reports how well the clock is set. The unit refuses it, as a set of calls that could also set the clock; a
/// trace then does not contain by how much its wall clock may be wrong.
const REFUSED: [&str; 2] = ["adjtimex", "clock_adjtime"];

/// The system calls of a set of systemd's, with those of the sets in it.
fn system_calls(set: &str, folder: &Folder) -> BTreeSet<String> {
    let shown = folder.run(Command::new("systemd-analyze").args(["syscall-filter", set])).expect(0);
    let lines = shown.stdout.lines().skip(1).map(str::trim);
    let members = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let calls = members.flat_map(|member| match member.starts_with('@') {
        true => system_calls(member, folder),
        false => BTreeSet::from([member.to_owned()]),
    });
    calls.collect()
}

#[test]
fn recording_makes_no_system_call_that_the_unit_forbids() {
    if !root::may_record() || !tools::or_skip(&["systemd-analyze", "strace"]) {
        return;
    }
    let folder = Folder::new();
    let text = unit("fxtrec.service");
    let filter = text.lines().find_map(|line| line.strip_prefix("SystemCallFilter="));
    let mut allowed = BTreeSet::new();
    for word in filter.expect("the unit has one").split_whitespace() {
        match word.starts_with('@') {
            true => allowed.append(&mut system_calls(word, &folder)),
            false => _ = allowed.insert(word.to_owned()),
        }
    }
    assert!(allowed.contains("openat") && !allowed.contains("reboot"), "{allowed:?}");
    assert!(!REFUSED.iter().any(|name| allowed.contains(*name)), "{allowed:?}");
    for source in ["bpf", "perf", "ftrace"] {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(folder.path("calls")).arg(binary::fxtrec());
        strace.args(["record", "-a", "-d", "200ms", "-q", "--source", source, "-o", "trace.fxt"]);
        if source == "perf" {
            // Few programs call it. strace itself is recorded too, and makes other calls for each call that it sees.
            strace.args(["--irq", "-P", "libc:getppid size=arg1:u64"]);
        }
        folder.run(&mut strace).expect(0);
        let calls = std::fs::read_to_string(folder.path("calls")).expect("strace wrote it");
        // `PID NAME(...`; lines that continue an unfinished call, and signals, have no name there.
        let names =
            calls.lines().filter_map(|line| line.split_whitespace().nth(1)?.split_once('('));
        let made = |name: &str| !OF_PROBES.contains(&name) && !REFUSED.contains(&name);
        let names: BTreeSet<&str> = names.map(|(name, _)| name).filter(|name| made(name)).collect();
        assert!(names.contains("openat"), "{names:?}");
        let forbidden: Vec<_> = names.iter().filter(|name| !allowed.contains(**name)).collect();
        assert!(forbidden.is_empty(), "{source}: {forbidden:?}");
    }
}
