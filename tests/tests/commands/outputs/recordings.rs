//! Recordings whose output path already exists.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::process::Stdio;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::recording::Ongoing;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::wait;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;

use super::{CALLER, names, sudo};

const OTHER: u32 = 65_531;

/// A FIFO of another user, and its read end.
fn others_fifo(folder: &Folder, name: &str) -> File {
    let path = folder.path(name);
    mkfifo(&path, Mode::from_bits_truncate(0o666)).expect("room");
    chown(&path, Some(OTHER), None).expect("root may");
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).expect("there")
}

fn got_nothing(mut reader: File) {
    let mut bytes = [0; 64];
    match reader.read(&mut bytes) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn at_a_name_that_can_be_guessed_a_recording_is_always_a_new_file() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("ours");
    let (fifo, linked) = (others_fifo(&folder, "true.fxt"), others_fifo(&folder, "fifo"));
    symlink("fifo", folder.path("system.fxt")).expect("room");
    let disk = folder.path("sh.fxt");
    mknod(&disk, SFlag::S_IFBLK, Mode::from_bits_truncate(0o666), makedev(251, 250)).expect("room");
    sudo(&folder, &["-q", "true"]).expect(0);
    sudo(&folder, &["-q", "-a", "-d", "100ms"]).expect(0);
    sudo(&folder, &["-q", "sh", "-c", "true"]).expect(0);
    for name in ["true.fxt", "system.fxt", "sh.fxt"] {
        assert!(fs::symlink_metadata(folder.path(name)).expect("there").is_file(), "{name}");
        Trace::read(&folder.path(name)).assert_sound();
    }
    got_nothing(fifo);
    got_nothing(linked);
}

#[test]
fn what_belongs_to_others_is_refused_by_name_too() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("ours");
    let reader = others_fifo(&folder, "fifo");
    symlink("/dev/null", folder.path("null")).expect("room");
    let disk = folder.path("disk");
    mknod(&disk, SFlag::S_IFBLK, Mode::from_bits_truncate(0o666), makedev(251, 250)).expect("room");
    let refused = [
        ("fifo", "it is a FIFO of uid 65531"),
        ("null", "others can write to"),
        ("disk", "block device"),
    ];
    for (name, why) in refused {
        let done = sudo(&folder, &["-q", "-o", name, "--", "touch", "ran"]).expect(125);
        assert!(done.stderr.contains(why), "{name}: {}", done.stderr);
    }
    got_nothing(reader);
    assert_eq!(names(&folder), ["disk", "fifo", "null"], "COMMAND did not run");
    // The user's own FIFO is accepted.
    chown(folder.path("fifo"), Some(CALLER.0), None).expect("root may");
    let options = || File::options().read(true).clone();
    let reader = options().custom_flags(libc::O_NONBLOCK).open(folder.path("fifo"));
    let mut reader = reader.expect("there");
    // It is read afterwards, so the whole recording must fit.
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(1 << 20)).expect("root may");
    sudo(
        &folder,
        &["-q", "-o", "fifo", "-a", "-d", "50ms", "--mode", "oneshot", "--buffer-size", "256k"],
    );
    let mut first = [0; 8];
    reader.read_exact(&mut first).expect("a trace");
    assert_eq!(u64::from_ne_bytes(first), 0x0016_5478_4604_0010);
}

#[test]
fn devices_and_descriptors_can_be_named() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    folder.fxtrec(["-q", "-o", "/dev/null", "--", "true"]).expect(0);
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let out = File::create(folder.path("out.fxt")).expect("room");
        let mut command = binary::command();
        command.args(["-q", "-o", name, "-a", "-d", "50ms"]).current_dir(folder.path(""));
        let status = command.stdout(Stdio::from(out)).status().expect("it runs");
        assert!(status.success(), "{name}");
        Trace::read(&folder.path("out.fxt")).assert_sound();
    }
    assert_eq!(names(&folder), ["out.fxt"]);
}

/// Twenty recorders of the machine with these options; returns the one that records, and the messages of the others.
fn twenty(folder: &Folder, options: &[&str]) -> (Process, Vec<String>) {
    let mut all: Vec<Process> = (0..20)
        .map(|_| {
            let mut command = binary::command();
            command.args(["-a", "--no-summary"]).args(options).current_dir(folder.path(""));
            Process::start(command.stdin(Stdio::null()).stderr(Stdio::piped()))
        })
        .collect();
    wait::until("nineteen to end", || {
        all.iter_mut().filter_map(|one| one.is_over().then_some(())).count() >= 19
    });
    let winner = all.iter_mut().position(|one| !one.is_over()).expect("one that records");
    let winner = all.swap_remove(winner);
    let said = all.iter_mut().map(|one| {
        let said = std::io::read_to_string(one.stderr()).expect("text");
        assert_eq!(one.finish().code(), Some(125), "{said}");
        said
    });
    let said = said.collect();
    (winner, said)
}

#[test]
fn of_twenty_recorders_with_one_name_one_records_and_the_others_are_reported() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    folder.write("t.fxt", "earlier");
    folder.write("t.fxt.old", "older");
    let (mut winner, said) = twenty(&folder, &["-o", "t.fxt"]);
    for said in said {
        assert!(said.contains("is recording to it"), "{said}");
        assert!(said.contains("(fxtrec)"), "{said}");
    }
    // A later recorder reports the owner and touches nothing.
    let before = names(&folder);
    let done = folder.fxtrec(["-o", "t.fxt", "--", "touch", "ran"]).expect(125);
    let reported = format!("process {} (fxtrec) is recording to it", winner.id());
    assert!(done.stderr.contains(&reported), "{}", done.stderr);
    assert_eq!(names(&folder), before);
    let done = folder.fxtrec(["convert", "t.fxt.old", "t.fxt"]);
    assert_ne!(done.code, 0, "{}", done.stderr);
    winner.signal(Signal::SIGINT);
    assert!(winner.finish().success());
    Trace::read(&folder.path("t.fxt")).assert_sound();
    assert_eq!(folder.read("t.fxt.old"), "earlier");
    assert_eq!(names(&folder), ["t.fxt", "t.fxt.old"], "no lock is left");
}

#[test]
fn a_recording_in_several_files_keeps_others_from_all_of_them() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let mut command = binary::command();
    command.args(["-a", "-q", "-o", "t.fxt", "--rotate", "100ms", "--keep", "2"]);
    let mut first = Process::start(command.current_dir(folder.path("")));
    wait::until("the third piece", || folder.path("t.0003.fxt").exists());
    for _ in 0..3 {
        let again = ["-a", "-d", "1s", "-o", "t.fxt", "--rotate", "100ms"];
        let done = folder.fxtrec(again).expect(125);
        assert!(done.stderr.contains(&format!("process {}", first.id())), "{}", done.stderr);
        assert!(!folder.path("t.0001.fxt").exists());
    }
    first.signal(Signal::SIGINT);
    assert!(first.finish().success());
    let left = names(&folder);
    assert_eq!(left.len(), 2, "{left:?}");
    for name in left {
        Trace::read(&folder.path(&name)).assert_sound();
    }
}

#[test]
fn what_was_killed_is_no_longer_in_the_way_and_leaves_nothing_but_its_trace() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let path = folder.path("t.fxt");
    let killed = Ongoing::start(&path, &["-q"]).expect("it records");
    killed.kill();
    assert_eq!(names(&folder), ["t.fxt"]);
    folder.fxtrec(["-q", "-o", "t.fxt", "--", "true"]).expect(0);
    assert_eq!(names(&folder), ["t.fxt", "t.fxt.old"]);
    Trace::read(&path).assert_sound();
    assert!(fs::metadata(folder.path("t.fxt.old")).is_ok_and(|old| old.len() > 0));
    // It can be followed while it is written, under its own name.
    let script = "test -s t.fxt || sleep 1; test -s t.fxt";
    folder.fxtrec(["-q", "-o", "t.fxt", "--", "sh", "-c", script]).expect(0);
}
