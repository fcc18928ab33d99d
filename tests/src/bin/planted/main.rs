//! Workloads in which a thread is late for a known reason: `planted NAME`.
//!
//! The threads that matter have real-time priority, so that other load on the machine has little effect. In each, the main thread sleeps to
//! the end, so that no wait for the others is the longest wait.

mod disk;
mod memory;
mod mutex;
mod objects;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use fxtrec_tests::placement::{allowed_cpus, await_sleep, stay_on, stay_on_first};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;

/// The minimum delay of the late thread.
const LATE: Duration = Duration::from_millis(60);

/// How long each recording takes in addition.
const REST: Duration = Duration::from_millis(400);

/// Computes for this long, by the thread's own clock.
fn work(length: Duration) {
    let now = || {
        let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
        u128::try_from(clock.num_nanoseconds()).expect("it counts from 0")
    };
    let end = now() + length.as_nanos();
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Gives the calling thread a name and, unless it is 0, a real-time priority.
fn be(name: &str, priority: i32) {
    let name = CString::new(name).expect("no NUL");
    nix::sys::prctl::set_name(&name).expect("prctl");
    if priority > 0 {
        let param = libc::sched_param { sched_priority: priority };
        // SAFETY: the pointer is to a parameter that lives longer than the call; 0 is the calling thread.
        let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
        assert_eq!(result, 0, "root may have real-time threads");
    }
}

/// Gives the calling thread ten times the usual share of its CPU.
fn prefer() {
    // SAFETY: no pointers are passed; 0 is the calling thread.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) }, 0, "root may");
}

/// `audio` waits for a lock of `ui-params`, which `hog-1` and `hog-2` keep from its CPU. `lock` acquires it, and its return value holds it.
fn inversion<Guard>(lock: impl Fn() -> Guard + Sync) {
    let (held, is_held) = channel();
    let (tell, reported) = channel();
    std::thread::scope(|scope| {
        let lock = &lock;
        let (done, are_done) = channel::<()>();
        scope.spawn(move || {
            be("ui-params", 5);
            stay_on_first().expect("affinity");
            let guard = lock();
            held.send(()).expect("main waits");
            // Until the hogs have run.
            while are_done.try_recv().is_err() {
                std::hint::spin_loop();
            }
            drop(guard);
        });
        is_held.recv().expect("it holds the lock");
        scope.spawn(move || {
            be("audio", 20);
            tell.send(gettid()).expect("main waits");
            drop(lock());
        });
        await_sleep(reported.recv().expect("it says so"));
        for hog in ["hog-1", "hog-2"] {
            let done = done.clone();
            scope.spawn(move || {
                be(hog, 10);
                stay_on_first().expect("affinity");
                work(LATE / 2);
                if hog == "hog-2" {
                    done.send(()).expect("the owner waits");
                }
            });
        }
        std::thread::sleep(REST);
    });
}

/// `victim` computes, and `hog` takes its CPU.
fn hog() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("victim", 5);
            stay_on_first().expect("affinity");
            work(LATE);
        });
        scope.spawn(|| {
            be("hog", 10);
            stay_on_first().expect("affinity");
            std::thread::sleep(Duration::from_millis(20));
            work(LATE);
        });
        std::thread::sleep(REST);
    });
}

/// On each CPU, a thread computes for a millisecond repeatedly, with priority over all others, until one computation takes much longer:
/// then the host had the CPU in that time. Prints its name, or nothing if the host takes no time.
fn steal() {
    const LONGEST: Duration = Duration::from_secs(2);
    const STOLEN: Duration = Duration::from_millis(4);
    let cpus = allowed_cpus().expect("affinity");
    let begun = Instant::now();
    let is_found = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in cpus {
            let is_found = &is_found;
            scope.spawn(move || {
                let name = format!("stolen-{cpu}");
                stay_on(cpu).expect("affinity");
                be(&name, 50);
                let mut rounds = 100_000_u64;
                while begun.elapsed() < LONGEST && !is_found.load(Ordering::Relaxed) {
                    // Otherwise the kernel throttles a thread that no other thread precedes.
                    std::thread::sleep(Duration::from_micros(300));
                    let turn = Instant::now();
                    for round in 0..rounds {
                        std::hint::black_box(round);
                    }
                    let took = turn.elapsed();
                    if took < Duration::from_millis(1) {
                        rounds += rounds / 8;
                    } else if took >= STOLEN && !is_found.swap(true, Ordering::Relaxed) {
                        println!("{name}");
                    }
                }
                // This ensures that its last turn has an end.
                std::thread::sleep(Duration::from_millis(1));
            });
        }
    });
    std::thread::sleep(REST);
}

/// `ticker` sleeps until times that it has chosen.
fn ticker() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("ticker", 10);
            for _ in 0..5 {
                std::thread::sleep(LATE);
            }
        });
        std::thread::sleep(REST);
    });
}

/// `client` waits for a byte through a socket, until `server` has computed it.
fn socket<Socket: Read + Write + Send>(make: impl FnOnce() -> (Socket, Socket)) {
    let (mut theirs, mut ours) = make();
    let (tell, reported) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            be("client", 10);
            tell.send(gettid()).expect("main waits");
            theirs.read_exact(&mut [0]).expect("read");
        });
        await_sleep(reported.recv().expect("it says so"));
        scope.spawn(move || {
            be("server", 10);
            work(LATE);
            ours.write_all(&[1]).expect("write");
        });
        std::thread::sleep(REST);
    });
}

/// `writer` writes to a file repeatedly, and each time waits until the data is on the disk.
fn writes() {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_DSYNC);
    let file = options.open("written").expect("a file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("writer", 10);
            for number in 0..100 {
                file.write_all_at(&[1; 4096], number * 4096).expect("written");
            }
        });
        std::thread::sleep(REST);
    });
}

/// Four threads, `writer-N`, write to separate files, bypassing caches: no thread waits for another's request.
fn direct_writes() {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                be(&format!("writer-{writer}"), 0);
                let mut options = File::options();
                options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
                let file = options.open(format!("written-{writer}")).expect("a file");
                // The kernel requires memory that is aligned to a block.
                let memory = vec![1; 8192];
                let begin = memory.as_ptr().align_offset(4096);
                for number in 0..250 {
                    let block = &memory[begin..begin + 4096];
                    file.write_all_at(block, number * 4096).expect("written");
                }
            });
        }
    });
    std::thread::sleep(REST);
}

/// `sink` reads from `filter`, and that from `source`, which computes.
fn pipeline() {
    let (mut first, mut into_first) = pipe().expect("a pipe");
    let (mut second, mut into_second) = pipe().expect("a pipe");
    let (tell, reported) = channel();
    std::thread::scope(|scope| {
        let tell_too = tell.clone();
        scope.spawn(move || {
            be("sink", 10);
            tell.send(gettid()).expect("main waits");
            second.read_exact(&mut [0]).expect("read");
        });
        await_sleep(reported.recv().expect("it says so"));
        scope.spawn(move || {
            be("filter", 10);
            tell_too.send(gettid()).expect("main waits");
            first.read_exact(&mut [0]).expect("read");
            work(Duration::from_millis(2));
            into_second.write_all(&[1]).expect("write");
        });
        await_sleep(reported.recv().expect("it says so"));
        scope.spawn(move || {
            be("source", 10);
            work(LATE);
            into_first.write_all(&[1]).expect("write");
        });
        std::thread::sleep(REST);
    });
}

/// `boss` waits for three workers, of which `straggler` takes longer than the others.
fn fork_join() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("boss", 20);
            let (tell, reported) = channel();
            std::thread::scope(|scope| {
                for (name, length) in [("quick-1", 2), ("quick-2", 2), ("straggler", 60)] {
                    let tell = tell.clone();
                    scope.spawn(move || {
                        be(name, 10);
                        work(Duration::from_millis(length));
                        tell.send(()).expect("the boss waits");
                    });
                }
                for _ in 0..3 {
                    reported.recv().expect("a worker is done");
                }
            });
        });
        std::thread::sleep(REST);
    });
}

/// `audio` waits for a lock behind three others, each of which holds it for a third of the time.
fn convoy() {
    const TURNS: u32 = 3;
    let lock = Mutex::new(());
    let (tell, reported) = channel();
    let (held, is_held) = channel();
    std::thread::scope(|scope| {
        let lock = &lock;
        // All have the same priority: the first to wait gets the lock first.
        for turn in 1..=TURNS + 1 {
            let (tell, held) = (tell.clone(), held.clone());
            scope.spawn(move || {
                let name = if turn > TURNS { "audio".to_owned() } else { format!("holder-{turn}") };
                be(&name, 10);
                tell.send(gettid()).expect("main waits");
                let _guard = lock.lock().expect("nobody panics");
                if turn == 1 {
                    held.send(()).expect("main waits");
                }
                if turn <= TURNS {
                    work(LATE / TURNS);
                }
            });
            let thread = reported.recv().expect("it says so");
            match turn {
                1 => is_held.recv().expect("it holds the lock"),
                _ => await_sleep(thread),
            }
        }
        std::thread::sleep(REST);
    });
}

/// `writer` flushes a file, and `disk` delays that.
fn slow_disk() {
    let folder = tempfile::tempdir().expect("a place for a file");
    let path = folder.path().join("file");
    let file = disk::slow(&path, LATE, || be("disk", 20));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            be("writer", 10);
            file.sync_all().expect("it is served");
        });
        std::thread::sleep(REST);
    });
    // Otherwise the directory could not be removed.
    umount2(&path, MntFlags::MNT_DETACH).expect("it is mounted there");
}

/// `reader` accesses pages that are missing, and `pager` provides them one after the other.
fn page_faults() {
    const PAGES: u32 = 30;
    let app = fxt_writer::provider::init("planted").expect("fxtrec listens");
    assert!(app.wait_for_session(Duration::from_secs(20)), "fxtrec records");
    let missing = memory::Missing::new(PAGES as usize);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("pager", 20);
            missing.bring(|| work(LATE / PAGES));
        });
        scope.spawn(|| {
            be("reader", 10);
            // A short one, so that the other is longer than the median.
            drop(fxt_writer::provider::duration!("app", "walk"));
            let _span = fxt_writer::provider::duration!("app", "walk");
            missing.walk();
        });
        std::thread::sleep(REST);
    });
}

/// Three threads repeatedly write to a pipe whose lock another thread holds, which writes from a page that must be loaded.
fn kernel_locks() {
    const PAGES: usize = 20;
    const WAITERS: usize = 3;
    let missing = memory::Missing::new(PAGES);
    let (_data, into) = pipe().expect("a pipe");
    // Each waits for the lock of the pipe once for each page.
    let [begin, end] = [(); 2].map(|()| Barrier::new(WAITERS + 1));
    std::thread::scope(|scope| {
        let (missing, into, begin, end) = (&missing, &into, &begin, &end);
        scope.spawn(move || {
            missing.bring(|| {
                begin.wait();
                std::thread::sleep(Duration::from_millis(2));
            });
        });
        for _ in 0..WAITERS {
            scope.spawn(move || {
                let mut into = into;
                for _ in 0..PAGES {
                    begin.wait();
                    into.write_all(&[1]).expect("write");
                    end.wait();
                }
            });
        }
        for page in 0..PAGES {
            missing.write_to(into.as_fd(), page);
            end.wait();
        }
    });
}

/// `audio` writes to a pipe whose kernel lock `holder` has, which writes from a page that `pager` must load.
fn kernel_lock() {
    let missing = memory::Missing::new(1);
    let (_data, into) = pipe().expect("a pipe");
    let (tell, reported) = channel();
    std::thread::scope(|scope| {
        let (missing, into) = (&missing, &into);
        scope.spawn(move || {
            be("pager", 10);
            missing.bring(|| {
                tell.send(()).expect("main waits");
                work(LATE);
            });
        });
        scope.spawn(|| {
            be("holder", 15);
            missing.write_to(into.as_fd(), 0);
        });
        reported.recv().expect("a fault");
        scope.spawn(move || {
            be("audio", 20);
            let mut into = into;
            into.write_all(&[1]).expect("write");
        });
        std::thread::sleep(REST);
    });
}

/// `worker-1` begins a request and hands it to `worker-2`, which waits for a byte of `backend` before it ends the request.
fn async_tasks() {
    use fxt_writer::provider::{async_begin, async_end};
    let app = fxt_writer::provider::init("planted").expect("fxtrec listens");
    assert!(app.wait_for_session(Duration::from_secs(20)), "fxtrec records");
    // This request is short, so that the other one is longer than the median.
    async_begin!("app", "request", 1_u64);
    async_end!("app", "request", 1_u64);
    let (hand, handed) = channel();
    let (mut data, mut into) = pipe().expect("a pipe");
    let (ask, asked) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            be("backend", 10);
            asked.recv().expect("the worker asks");
            work(LATE);
            into.write_all(&[1]).expect("write");
        });
        scope.spawn(move || {
            be("worker-2", 20);
            let request: u64 = handed.recv().expect("a request");
            ask.send(()).expect("the backend listens");
            data.read_exact(&mut [0]).expect("read");
            async_end!("app", "request", request);
        });
        scope.spawn(move || {
            be("worker-1", 20);
            async_begin!("app", "request", 2_u64);
            hand.send(2).expect("the other one listens");
        });
        std::thread::sleep(REST);
    });
}

/// `audio` mixes a frame repeatedly, and sleeps in the middle of one.
fn frames() {
    let app = fxt_writer::provider::init("planted").expect("fxtrec listens");
    assert!(app.wait_for_session(Duration::from_secs(20)), "fxtrec records");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            be("audio", 10);
            for frame in 0..15 {
                let _span = fxt_writer::provider::duration!("app", "mix");
                work(Duration::from_millis(1));
                if frame == 9 {
                    std::thread::sleep(LATE);
                }
            }
        });
    });
}

/// `server` answers this many requests, each of which takes this many milliseconds of its CPU. It is an ordinary thread, on the first CPU.
fn requests(count: u64, millis: u64) {
    let app = fxt_writer::provider::init("planted").expect("fxtrec listens");
    assert!(app.wait_for_session(Duration::from_secs(20)), "fxtrec records");
    be("server", 0);
    stay_on_first().expect("affinity");
    for _ in 0..count {
        {
            let _span = fxt_writer::provider::duration!("app", "request");
            work(Duration::from_millis(millis));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// The same next to a thread of this program that computes on the same CPU without end.
fn requests_beside_thread(count: u64, millis: u64) {
    std::thread::spawn(|| {
        be("rival", 0);
        stay_on_first().expect("affinity");
        prefer();
        work(Duration::from_secs(600));
    });
    requests(count, millis);
}

/// The same next to a process that this one starts.
fn requests_beside_process(count: u64, millis: u64) {
    let itself = std::env::current_exe().expect("a program");
    stay_on_first().expect("affinity");
    let mut rival = std::process::Command::new(itself);
    let mut rival = rival.args(["rival", "600000"]).spawn().expect("a process");
    requests(count, millis);
    rival.kill().expect("it is there");
    rival.wait().expect("it was there");
}

/// `busy` computes for this many milliseconds. It is an ordinary thread, to which quotas apply.
fn busy(millis: u64) {
    be("busy", 0);
    work(Duration::from_millis(millis));
}

fn main() {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).expect("prctl");
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !["busy", "rival"].contains(&&*words[0]) && !words[0].starts_with("requests") {
        // This comes before the threads that it starts, some of which compute without end until it has started the others.
        be("planted", 30);
    }
    let number = |at: usize| words[at].parse().expect("a number");
    match words[0].as_str() {
        "requests" => requests(number(1), number(2)),
        "requests-beside-thread" => requests_beside_thread(number(1), number(2)),
        "requests-beside-process" => requests_beside_process(number(1), number(2)),
        "inversion" => {
            let lock = Mutex::new(());
            inversion(|| lock.lock().expect("nobody panics"));
        }
        "inversion-of-c" => {
            let lock = mutex::Mutex::default();
            inversion(|| lock.lock());
        }
        "hog" => hog(),
        "ticker" => ticker(),
        "pipeline" => pipeline(),
        "fork-join" => fork_join(),
        "async" => async_tasks(),
        "convoy" => convoy(),
        "slow-disk" => slow_disk(),
        "network" => socket(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let address = listener.local_addr().expect("it has one");
            let client = TcpStream::connect(address).expect("it listens");
            (client, listener.accept().expect("a client").0)
        }),
        "local-socket" => socket(|| UnixStream::pair().expect("sockets")),
        "writes" => writes(),
        "direct-writes" => direct_writes(),
        "steal" => steal(),
        "page-faults" => page_faults(),
        "kernel-lock" => kernel_lock(),
        "kernel-locks" => kernel_locks(),
        "objects" => objects::wait(number(1) as usize),
        "frames" => frames(),
        "rival" => {
            prefer();
            busy(number(1));
        }
        "busy" => busy(number(1)),
        other => panic!("nothing like {other} is planted"),
    }
}
