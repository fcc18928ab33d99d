//! The files for systemd: it understands them, and what they take away is not needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{root, tools};

/// Where the unit says that the binary is.
const INSTALLED: &str = "/usr/local/bin/fxtrec";

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The capabilities that the unit leaves to the daemon, as setpriv writes them.
fn capabilities() -> Vec<String> {
    let unit = unit("fxtrec.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = line.expect("the unit bounds them").split_whitespace();
    let of = |name: &str| name.strip_prefix("CAP_").expect("a capability").to_lowercase();
    names.map(of).collect()
}

/// Records the machine for a moment with no other capabilities than these, as the daemon's recorder would.
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
fn systemd_understands_the_unit_and_the_binary_its_command() {
    if !tools::or_skip(&["systemd-analyze"]) {
        return;
    }
    let folder = Folder::new();
    let here = binary::PublicCopy::new();
    let binary: PathBuf = here.path();
    let text = unit("fxtrec.service");
    assert!(text.contains(INSTALLED));
    folder.write("fxtrec.service", text.replace(INSTALLED, binary.to_str().expect("a plain path")));
    let file = folder.text("fxtrec.service");
    let verified = folder.run(Command::new("systemd-analyze").args(["verify", &file])).expect(0);
    assert_eq!(verified.stderr, "", "a warning is a mistake, too");
    let started = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("one");
    let words = started.split_whitespace().skip(1);
    folder.fxtrec(words.chain(["--help"])).expect(0);
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
fn only_user_probes_need_the_capability_that_can_be_left_out() {
    if !root::may_record() || !tools::or_skip(&["setpriv"]) {
        return;
    }
    let folder = Folder::new();
    let mut fewer = capabilities();
    fewer.retain(|capability| capability != "sys_admin");
    assert_eq!(fewer.len() + 1, capabilities().len());
    record_with(&fewer, &folder, &["--waking", "--irq", "--syscalls"]).expect(0);
    record_with(&fewer, &folder, &["-P", "libc:malloc"]).expect(125);
}
