//! Workloads in which a thread is late for a known reason: `planted NAME`.
//!
//! Threads that matter have real-time priority, so that what else the machine does changes little. In each, the main thread
//! sleeps to the end, so that nothing that waits for the others is the longest wait.

use std::ffi::CString;
use std::io::{Read, Write, pipe};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};

/// How late somebody is, at least.
const LATE: Duration = Duration::from_millis(60);

/// How long each recording takes besides.
const REST: Duration = Duration::from_millis(400);

/// Computes for so long, by the clock of the thread itself.
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

/// Keeps the calling thread on the first CPU that there is.
fn stay() {
    let mine = Pid::from_raw(0);
    let allowed = sched_getaffinity(mine).expect("an affinity");
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).is_ok_and(|is_set| is_set));
    let mut only = CpuSet::new();
    only.set(first.expect("a CPU")).expect("a CPU");
    sched_setaffinity(mine, &only).expect("affinity");
}

/// Waits until a thread of this process is asleep.
fn await_sleep(thread: Pid) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("stat");
        // The name is in parentheses, and the state behind it.
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `audio` waits for a lock of `ui-params`, which `hog-1` and `hog-2` keep from its CPU.
fn inversion() {
    let lock = Mutex::new(());
    let (held, is_held) = channel();
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let lock = &lock;
        let (done, are_done) = channel::<()>();
        scope.spawn(move || {
            be("ui-params", 5);
            stay();
            let guard = lock.lock().expect("nobody panics");
            held.send(()).expect("main waits");
            // Until the hogs have been there.
            while are_done.try_recv().is_err() {
                std::hint::spin_loop();
            }
            drop(guard);
        });
        is_held.recv().expect("it holds the lock");
        scope.spawn(move || {
            be("audio", 20);
            tell.send(gettid()).expect("main waits");
            drop(lock.lock().expect("nobody panics"));
        });
        await_sleep(told.recv().expect("it says so"));
        for hog in ["hog-1", "hog-2"] {
            let done = done.clone();
            scope.spawn(move || {
                be(hog, 10);
                stay();
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
            stay();
            work(LATE);
        });
        scope.spawn(|| {
            be("hog", 10);
            stay();
            std::thread::sleep(Duration::from_millis(20));
            work(LATE);
        });
        std::thread::sleep(REST);
    });
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

/// `sink` reads from `filter`, and that from `source`, which computes.
fn pipeline() {
    let (mut first, mut into_first) = pipe().expect("a pipe");
    let (mut second, mut into_second) = pipe().expect("a pipe");
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let tell_too = tell.clone();
        scope.spawn(move || {
            be("sink", 10);
            tell.send(gettid()).expect("main waits");
            second.read_exact(&mut [0]).expect("read");
        });
        await_sleep(told.recv().expect("it says so"));
        scope.spawn(move || {
            be("filter", 10);
            tell_too.send(gettid()).expect("main waits");
            first.read_exact(&mut [0]).expect("read");
            work(Duration::from_millis(2));
            into_second.write_all(&[1]).expect("write");
        });
        await_sleep(told.recv().expect("it says so"));
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
            let (tell, told) = channel();
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
                    told.recv().expect("a worker is done");
                }
            });
        });
        std::thread::sleep(REST);
    });
}

/// `audio` mixes a frame again and again, and sleeps in the middle of one.
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

/// `busy` computes for so many milliseconds. It is an ordinary thread, to which quotas apply.
fn busy(millis: u64) {
    be("busy", 0);
    work(Duration::from_millis(millis));
}

fn main() {
    // What started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).expect("prctl");
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words[0] != "busy" {
        // Before those that it starts, of which some compute without end until it has started the others.
        be("planted", 30);
    }
    match words[0].as_str() {
        "inversion" => inversion(),
        "hog" => hog(),
        "ticker" => ticker(),
        "pipeline" => pipeline(),
        "fork-join" => fork_join(),
        "frames" => frames(),
        "busy" => busy(words[1].parse().expect("a number")),
        other => panic!("nothing like {other} is planted"),
    }
}
