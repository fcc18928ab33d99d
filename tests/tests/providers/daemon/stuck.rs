//! Outputs that do not accept data: the daemon never waits for them, and never reports success.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fxtrec::kernel::linger::BriefClose;
use fxtrec::kernel::stream;
use fxtrec_tests::root;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

use super::archive::Archive;
use super::rights::as_nobody;
use super::*;

/// The name of the process that writes an output.
const OUTPUT_PROCESS: &str = "fxtrec-output";

/// A file system with one file, `f`, which stops responding on request.
struct Fuse {
    mounted: TempDir,
    silent: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

/// Requests of the kernel's protocol, by number.
const FORGETS: [u32; 3] = [2, 36, 42];
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const WRITE_TO: u32 = 16;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

/// The size of a request's header in bytes.
const HEAD: usize = 40;

impl Fuse {
    fn mount() -> Fuse {
        let mounted = tempfile::tempdir().expect("a folder");
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/fuse")
            .expect("the kernel has FUSE");
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let none = MsFlags::empty();
        mount(Some("fuse"), mounted.path(), Some("fuse"), none, Some(&*options)).expect("mounted");
        let (silent, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (is_silent, is_over) = (silent.clone(), over.clone());
        let server = std::thread::spawn(move || {
            let mut request = vec![0; 1 << 18];
            while !is_over.load(Ordering::Relaxed) {
                let mut polled = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut polled, PollTimeout::from(20_u16));
                let Ok(count) = (&device).read(&mut request) else { continue };
                if let Some(answer) = answer(&request[..count], is_silent.load(Ordering::Relaxed)) {
                    // An interrupted request is no longer waited for.
                    let _ = (&device).write(&answer);
                }
            }
            // Closing the device informs all waiting processes that there will be no answer.
        });
        Fuse { mounted, silent, over, server: Some(server) }
    }

    fn open(&self) -> File {
        OpenOptions::new().write(true).open(self.mounted.path().join("f")).expect("it answers")
    }

    fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = umount2(self.mounted.path(), MntFlags::MNT_DETACH);
        self.over.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The answer to a request, if any.
fn answer(request: &[u8], silent: bool) -> Option<Vec<u8>> {
    let (opcode, unique) = (word(request, 4), &request[8..16]);
    if FORGETS.contains(&opcode) || (silent && [GETATTR, WRITE_TO, FLUSH].contains(&opcode)) {
        return None;
    }
    let longs = |values: &[u64]| values.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<u8>>();
    let words = |values: &[u32]| values.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<u8>>();
    let attributes = |node: u64| {
        let mode = if node == 1 { 0o040_755 } else { 0o100_666 };
        [longs(&[node, 0, 0, 0, 0, 0]), words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
    };
    let node = u64::from_ne_bytes(request[16..24].try_into().expect("eight bytes"));
    let (error, body) = match opcode {
        INIT => (0, words(&[7, 31, 65536, 0, 0x000c_000c, 65536, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        LOOKUP if request[HEAD..].starts_with(b"f\0") => {
            (0, [longs(&[2, 0, 3600, 0, 0]), attributes(2)].concat())
        }
        LOOKUP => (-libc::ENOENT, Vec::new()),
        // Attributes are never cached for long: every query reaches the server.
        GETATTR | SETATTR => (0, [longs(&[0, 0]), attributes(node)].concat()),
        // Bypasses the page cache.
        OPEN => (0, [longs(&[1]), words(&[1, 0])].concat()),
        WRITE_TO => (0, words(&[word(request, HEAD + 16), 0])),
        RELEASE | FLUSH => (0, Vec::new()),
        _ => (-libc::ENOSYS, Vec::new()),
    };
    let length = u32::try_from(16 + body.len()).expect("few bytes");
    Some([&length.to_ne_bytes()[..], &i32::to_ne_bytes(error), unique, &body].concat())
}

/// The processes that write outputs for this daemon.
fn writers(daemon: &Daemon) -> BTreeSet<u32> {
    let parent = daemon.process.id().to_string();
    let numbers = std::fs::read_dir("/proc")
        .expect("there")
        .filter_map(|entry| entry.expect("an entry").file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let (name, rest) = stat.rsplit_once(')').expect("a name");
        name.ends_with(OUTPUT_PROCESS) && rest.split_whitespace().nth(1) == Some(&*parent)
    };
    numbers.filter(is_one).collect()
}

/// The threads of the daemon that nothing can wake.
fn asleep_for_good(daemon: &Daemon) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.process.id())).expect("it runs");
    let is_stuck = |task: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
    };
    tasks.flatten().filter(is_stuck).count()
}

/// Ends the daemon with SIGTERM, which must not take longer than documented.
fn end_in_time(daemon: &mut Daemon) {
    daemon.process.signal(Signal::SIGTERM);
    wait::until("the end of the daemon", || daemon.process.is_over());
}

/// One ordinary session, from its beginning to its end.
fn record_as_usual(daemon: &Daemon) {
    let output = daemon.path("usual.fxt");
    let mut client = daemon.client();
    client
        .initialize(everything(BufferingMode::Streaming), create(&output))
        .expect("none is there");
    client.start(now()).expect("it starts");
    assert!(daemon.app(&["sleeps", "1", "3", "napper"]).finish().success());
    assert_eq!(client.stop(WRITE).expect("it stops").incomplete, None);
    assert_eq!(client.terminate().expect("it ends").incomplete, None);
    assert_eq!(Archive::read(&output).count("napper", "nap"), 3);
}

/// Begins a session whose output is on a file system that no longer responds, with data to write.
fn begin_in_silence(daemon: &Daemon, fuse: &Fuse) -> Client {
    let mut client = daemon.client();
    let config = everything(BufferingMode::Streaming);
    client.initialize(config, fuse.open().into()).expect("it answers still");
    fuse.fall_silent();
    client.start(now()).expect("it starts");
    assert!(daemon.app(&["sleeps", "1", "3", "napper"]).finish().success());
    assert_eq!(writers(daemon).len(), 1);
    client
}

/// A TCP connection whose close waits for an hour, and its other end, which reads nothing.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    setsockopt(&listener, sockopt::RcvBuf, &4096).expect("a socket may");
    let mut near = TcpStream::connect(listener.local_addr().expect("one")).expect("there");
    let far = listener.accept().expect("it has come").0;
    let linger = libc::linger { l_onoff: 1, l_linger: 3600 };
    setsockopt(&near, sockopt::Linger, &linger).expect("a socket may");
    setsockopt(&near, sockopt::SndBuf, &4096).expect("a socket may");
    near.set_nonblocking(true).expect("its own");
    while near.write(&[0; 1 << 16]).is_ok() {}
    near.set_nonblocking(false).expect("its own");
    (near, far)
}

#[test]
fn descriptors_whose_close_waits_hold_no_socket_of_the_daemon_up() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let register = FromProvider::Register { name: "lingers".to_owned(), categories: Vec::new() };
    let mut others = Vec::new();
    for message in [register.encode().expect("it can be said"), vec![7]] {
        let socket = Address::Path(providers_socket(&daemon.runtime_dir()));
        let application = Seqpacket::connect(&socket).expect("it listens");
        let (near, far) = lingering();
        // From Linux 6.16 on, the kernel refuses it, and the test has the last descriptor.
        let near = BriefClose::from(near);
        let _ = application.send(&message, &[near.as_fd()]);
        others.push((OwnedFd::from(far), None));
        drop((near, application));
    }
    // More connections than a user may have: data from the last is not read before they are closed.
    let control = daemon.control();
    let clients = as_nobody(|| {
        let client = |_| {
            let client = UnixStream::connect(&control).expect("it listens");
            let (near, far) = lingering();
            // The daemon may have closed it already.
            if let Err(error) = stream::send(&client, b"{", &[near.as_fd()]) {
                assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
            }
            (OwnedFd::from(far), Some(client))
        };
        (0..70).map(client).collect::<Vec<_>>()
    });
    others.extend(clients);
    let mut client = Client::connect(&daemon.control()).expect("it answers");
    client.providers().expect("the manager answers");
}

#[test]
fn a_file_system_that_does_not_answer_any_more_blocks_no_thread_and_the_trace_is_reported_as_incomplete()
 {
    if !root::may_record() {
        return;
    }
    let (mut daemon, fuse) = (Daemon::start(), Fuse::mount());
    let mut client = begin_in_silence(&daemon, &fuse);
    let incomplete = client.stop(WRITE).expect("it stops").incomplete.expect("not all is there");
    assert!(incomplete.contains("are missing from the file"), "{incomplete}");
    client.terminate().expect("it ends").incomplete.expect("not all is there");
    assert_eq!(asleep_for_good(&daemon), 0);
    record_as_usual(&daemon);
    end_in_time(&mut daemon);
}

#[test]
fn a_file_system_that_does_not_answer_any_more_does_not_keep_the_daemon_from_its_end() {
    if !root::may_record() {
        return;
    }
    let (mut daemon, fuse) = (Daemon::start(), Fuse::mount());
    let _session = begin_in_silence(&daemon, &fuse);
    end_in_time(&mut daemon);
}

#[test]
fn a_file_that_says_nothing_of_itself_is_refused_and_each_user_has_few_of_these() {
    if !root::may_record() {
        return;
    }
    let mut daemon = Daemon::start();
    let fuse = Fuse::mount();
    let file = fuse.open();
    fuse.fall_silent();
    // It is passed without being closed here, which would block as well.
    let ask = || {
        let connection = UnixStream::connect(daemon.control()).expect("it listens");
        let call = b"{\"method\":\"fxtrec.Controller.InitializeTracing\",\
                     \"parameters\":{\"config\":{\"categories\":[\"*\"]},\"output\":0}}\0";
        stream::send(&connection, call, &[file.as_fd()]).expect("sent");
        let mut answer = Vec::new();
        BufReader::new(connection).read_until(0, &mut answer).expect("an answer");
        String::from_utf8(answer).expect("text")
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| as_nobody(ask))).collect();
        for one in all {
            let answer = one.join().expect("no panic");
            assert!(answer.contains("file system hangs"), "{answer}");
        }
    });
    assert_eq!(asleep_for_good(&daemon), 0);
    // They cannot even be killed.
    let answer = as_nobody(ask);
    assert!(answer.contains("outputs of this user are already being written"), "{answer}");
    // No process is started here while the file is open: each new process would close a copy of it, and block.
    assert_eq!(daemon.state(), SessionState::Ready);
    drop(fuse);
    let fit = daemon.path("fit.fxt");
    let fit = create(&fit);
    wait::until("a place", || {
        as_nobody(|| {
            let config = applications(BufferingMode::Oneshot);
            let copy = fit.try_clone().expect("a copy");
            daemon.client().initialize(config, copy).is_ok()
        })
    });
    end_in_time(&mut daemon);
}

#[test]
fn pipes_and_sockets_that_nothing_reads_hold_up_neither_a_session_nor_the_end() {
    if !root::may_record() {
        return;
    }
    let (reader, writer) = pipe().expect("a pipe");
    let (one, other) = UnixStream::pair().expect("a pair");
    for output in [OwnedFd::from(writer), OwnedFd::from(one)] {
        let mut daemon = Daemon::start();
        let mut client = daemon.client();
        let copy = output.try_clone().expect("a copy");
        client.initialize(everything(BufferingMode::Streaming), copy).expect("none is there");
        client.start(now()).expect("it starts");
        // More than pipes and sockets hold.
        assert!(daemon.app(&["burst", "1", "100000"]).finish().success());
        client.stop(WRITE).expect("nobody waits for the reader");
        client.terminate().expect("nor now");
        record_as_usual(&daemon);
        // It has time to read; that of the previous session has ended, sooner or later.
        wait::until("one process that writes", || writers(&daemon).len() == 1);
        let left = writers(&daemon);
        end_in_time(&mut daemon);
        let lives = |pid: &u32| std::fs::exists(format!("/proc/{pid}")).expect("a path");
        wait::until("the end of its process", || !left.iter().any(lives));
    }
    drop((reader, other));
}

#[test]
fn a_file_on_a_full_disk_aborts_the_session_with_the_reason() {
    if !root::may_record() {
        return;
    }
    let mut daemon = Daemon::start();
    let disk = tempfile::tempdir().expect("a folder");
    let none = MsFlags::empty();
    mount(Some("none"), disk.path(), Some("tmpfs"), none, Some("size=64k")).expect("mounted");
    let mut client = daemon.client();
    let output = create(&disk.path().join("t.fxt"));
    client.initialize(everything(BufferingMode::Streaming), output).expect("none is there");
    client.start(now()).expect("it starts");
    // The kernel's records may have filled the disk before: in that case nothing starts the session, and it fails.
    daemon.app(&["burst", "1", "100000"]).finish();
    daemon.wait_for(SessionState::Stopped);
    let answer = refused(client.stop(WRITE));
    let ControllerError::Aborted { reason } = &answer else { panic!("{answer:?}") };
    assert!(reason.contains("No space left on device"), "{reason}");
    client.terminate().expect("it ends");
    record_as_usual(&daemon);
    end_in_time(&mut daemon);
    umount2(disk.path(), MntFlags::MNT_DETACH).expect("mounted");
}
