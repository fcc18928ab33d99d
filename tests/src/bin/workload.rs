//! Programs with known scheduling, for the tests to record: `workload NAME [ARGS]`.
//!
//! Each prints the kernel's own figures about its threads, so that a trace can be compared with them.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fxtrec_tests::placement::{await_sleep, send, stay_on};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::WaitStatus;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, fork, gettid};

/// The kernel's report about the calling thread at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    time: i64,
    switches: i64,
    cpu: i64,
}

fn clock(clock: ClockId) -> i64 {
    clock_gettime(clock).expect("a clock").num_nanoseconds()
}

fn switches() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("getrusage");
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

/// Reads time, switches and CPU clock such that no switch occurs between the readings.
fn read() -> Reading {
    loop {
        let before = switches();
        let reading = Reading {
            time: clock(ClockId::CLOCK_MONOTONIC),
            switches: before,
            cpu: clock(ClockId::CLOCK_THREAD_CPUTIME_ID),
        };
        if switches() == before {
            return reading;
        }
    }
}

/// Runs `work` and prints: tid, begin, end, switches out, nanoseconds of CPU.
fn measured(work: impl FnOnce()) {
    let begin = read();
    work();
    let end = read();
    println!(
        "{} {} {} {} {}",
        gettid(),
        begin.time,
        end.time,
        end.switches - begin.switches,
        end.cpu - begin.cpu
    );
}

fn burn(length: Duration) {
    let end = clock(ClockId::CLOCK_MONOTONIC) + length.as_nanos() as i64;
    while clock(ClockId::CLOCK_MONOTONIC) < end {
        std::hint::spin_loop();
    }
}

/// Pairs of threads that pass a byte back and forth, and threads that only compute.
fn threads(pairs: usize, rounds: usize) {
    std::thread::scope(|scope| {
        for _ in 0..pairs {
            let (mut a, mut b) = UnixStream::pair().expect("a pair of sockets");
            scope.spawn(move || {
                measured(|| {
                    for _ in 0..rounds {
                        a.write_all(&[1]).expect("write");
                        a.read_exact(&mut [0]).expect("read");
                    }
                });
            });
            scope.spawn(move || {
                measured(|| {
                    for _ in 0..rounds {
                        b.read_exact(&mut [0]).expect("read");
                        b.write_all(&[1]).expect("write");
                    }
                });
            });
        }
        scope.spawn(|| measured(|| burn(Duration::from_millis(300))));
    });
}

/// Threads that repeatedly compute for a few milliseconds and then sleep.
fn slices(threads: usize, rounds: usize) {
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                measured(|| {
                    for _ in 0..rounds {
                        burn(Duration::from_millis(3 + number as u64));
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            });
        }
    });
}

/// Is stopped and continued; waits uninterruptibly; competes for a CPU. Prints the tids of the threads that do this.
fn states() {
    // SAFETY: the program has one thread.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            kill(Pid::this(), Signal::SIGSTOP).expect("kill");
            std::process::exit(0);
        }
        ForkResult::Parent { child } => {
            use nix::sys::wait::{WaitPidFlag, waitpid};
            waitpid(child, Some(WaitPidFlag::WUNTRACED)).expect("waitpid");
            // The stop is reported before the thread is off the CPU.
            std::thread::sleep(Duration::from_millis(20));
            kill(child, Signal::SIGCONT).expect("kill");
            waitpid(child, None).expect("waitpid");
            println!("stopped {child}");
        }
    }
    // When a process starts a program, the parent waits, uninterruptibly, until the child no longer uses its memory.
    for _ in 0..20 {
        std::process::Command::new("true").status().expect("true");
    }
    println!("uninterruptible {}", gettid());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                stay_on(0).expect("affinity");
                burn(Duration::from_millis(200));
                println!("preempted {}", gettid());
            });
        }
    });
}

/// Threads with names of all kinds. Prints their tids.
fn names() {
    let named = |name: &'static [u8], label: &str| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let name = std::ffi::CString::new(name).expect("no NUL");
                nix::sys::prctl::set_name(&name).expect("prctl");
                std::thread::sleep(Duration::from_millis(1));
                println!("{label} {}", gettid());
            });
        });
    };
    named(b"plain", "plain");
    named(b"", "empty");
    named(b"bad\xff\xfeutf8", "latin");
    named(b"0123456789abcdefgh", "long");
    // A child becomes another program in the same process.
    let child = std::process::Command::new("sleep").arg("0.02").spawn().expect("sleep");
    println!("exec {}", child.id());
    child.wait_with_output().expect("wait");
    println!("main {}", gettid());
}

/// Two processes with the same pid, one after the other. Prints the pid.
fn reuse() {
    let last = |pid: i32| std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string());
    let run = || {
        // SAFETY: the program has one thread, and the child only sleeps and ends.
        match unsafe { fork() }.expect("fork") {
            ForkResult::Child => {
                std::thread::sleep(Duration::from_millis(2));
                std::process::exit(0);
            }
            ForkResult::Parent { child } => {
                nix::sys::wait::waitpid(child, None).expect("waitpid");
                child.as_raw()
            }
        }
    };
    // Another process may take the number in between and keep it: then try again with a new number.
    for _ in 0..1000 {
        let first = run();
        last(first).expect("root may choose the next pid");
        if run() == first {
            println!("{first}");
            // The thread that waited for it may be switched in before it has left its CPU for the last time, and the recording ends with
            // this process.
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
    }
    panic!("no pid was given out again");
}

/// A process that reuses the id of another one that the kernel has not released yet. Prints the result of `measured` for the second thread,
/// which sleeps `sleeps` times, a millisecond each.
fn heir(sleeps: usize) {
    let last = |pid: i32| std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string());
    let run = |inherits: &dyn Fn() -> bool| {
        // SAFETY: the program has one thread.
        match unsafe { fork() }.expect("fork") {
            ForkResult::Child => {
                let inherits = inherits();
                if inherits {
                    let nap = || std::thread::sleep(Duration::from_millis(1));
                    measured(|| (0..sleeps).for_each(|_| nap()));
                }
                std::process::exit(i32::from(inherits));
            }
            ForkResult::Parent { child } => {
                let status = nix::sys::wait::waitpid(child, None).expect("waitpid");
                (child.as_raw(), status == WaitStatus::Exited(child, 1))
            }
        }
    };
    // Another process may take the number in between: try again.
    for _ in 0..1000 {
        let (first, _) = run(&|| false);
        last(first).expect("root may choose the next pid");
        let inherits = || std::process::id().cast_signed() == first;
        if run(&inherits).1 {
            return;
        }
    }
    panic!("no pid was given out again");
}

/// Very many threads that live for microseconds. Prints how many.
fn brief(count: usize) {
    for _ in 0..count {
        std::thread::spawn(|| ()).join().expect("join");
    }
    println!("{count}");
}

/// A thread other than the first one executes another program.
fn takeover() {
    println!("{}", std::process::id());
    std::thread::spawn(|| {
        use std::os::unix::process::CommandExt;
        std::thread::sleep(Duration::from_millis(2));
        let error = std::process::Command::new("sleep").arg("0.01").exec();
        panic!("exec: {error}");
    })
    .join()
    .expect("join");
}

/// The calling thread stays on CPU 0, has a name, and, if requested, has priority over every ordinary thread.
fn be(name: &std::ffi::CStr, real_time: bool) {
    nix::sys::prctl::set_name(name).expect("prctl");
    stay_on(0).expect("affinity");
    if real_time {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: the pointer is to a parameter that lives longer than the call; 0 is the calling thread.
        let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
        assert_eq!(result, 0, "root may have real-time threads");
    }
}

/// A thread `latecomer` that is woken repeatedly by a real-time thread `hog`, which then keeps the CPU for a few milliseconds: each wakeup
/// is at least that late, whatever else the machine does.
fn late(rounds: usize, millis: u64) {
    let (mut reader, mut writer) = UnixStream::pair().expect("a pair of sockets");
    let (tell, reported) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            be(c"latecomer", false);
            tell.send(gettid()).expect("the hog waits for it");
            for _ in 0..rounds {
                reader.read_exact(&mut [0]).expect("read");
                reader.write_all(&[1]).expect("write");
            }
        });
        scope.spawn(move || {
            let latecomer = reported.recv().expect("the latecomer says so");
            be(c"hog", true);
            for _ in 0..rounds {
                // The kernel gives real-time threads at most 95 % of the time.
                std::thread::sleep(Duration::from_millis(1 + millis / 4));
                await_sleep(latecomer);
                writer.write_all(&[1]).expect("write");
                burn(Duration::from_millis(millis));
                writer.read_exact(&mut [0]).expect("read");
            }
        });
    });
}

/// Threads that repeatedly block in one system call each. Prints for each: tid, the call's number, begin and end.
fn calls(rounds: usize) {
    static NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let futex = || {
        let word = 0_u32;
        // SAFETY: the word and the time live until the call returns; no thread wakes it.
        unsafe {
            libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT, 0, &raw const NAP);
        }
    };
    // SAFETY: the time lives until the call returns, and the remaining time is not requested.
    let sleep = || unsafe {
        libc::syscall(libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC, 0, &raw const NAP, 0);
    };
    // SAFETY: no descriptor is looked at; the time lives until the call returns.
    let poll = || unsafe {
        libc::syscall(libc::SYS_ppoll, 0, 0, &raw const NAP, 0, 0);
    };
    // SAFETY: it takes no pointer.
    let list = unsafe { libc::epoll_create1(0) };
    let epoll = move || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        unsafe {
            libc::syscall(libc::SYS_epoll_pwait, list, &raw mut event, 1, 2, 0, 0);
        }
    };
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let read = move || reader.read_exact(&mut [0]).expect("read");
    let reported = |number: libc::c_long, mut call: Box<dyn FnMut() + Send>| {
        let begin = clock(ClockId::CLOCK_MONOTONIC);
        (0..rounds).for_each(|_| call());
        println!("{} {number} {begin} {}", gettid(), clock(ClockId::CLOCK_MONOTONIC));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| reported(libc::SYS_futex, Box::new(futex)));
        scope.spawn(|| reported(libc::SYS_clock_nanosleep, Box::new(sleep)));
        scope.spawn(|| reported(libc::SYS_ppoll, Box::new(poll)));
        scope.spawn(|| reported(libc::SYS_epoll_pwait, Box::new(epoll)));
        scope.spawn(move || reported(libc::SYS_read, Box::new(read)));
        for _ in 0..rounds {
            std::thread::sleep(Duration::from_millis(2));
            writer.write_all(&[1]).expect("write");
        }
    });
}

/// A thread that moves from CPU to CPU: by its own request, moved by another thread while it computes, and moved while it sleeps. Prints
/// its tid, and for each of the three: begin, end, and the CPUs that it should have been on.
fn places(rounds: usize) {
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
    // Not simply in turn, because some steps have no effect.
    let path: Vec<usize> = (0..rounds).map(|round| (round * round / 3 + round) % 2).collect();
    let now = || clock(ClockId::CLOCK_MONOTONIC);
    let reported = |begin: i64, path: &[usize]| {
        let words: Vec<String> = path.iter().map(usize::to_string).collect();
        println!("{begin} {} {}", now(), words.join(","));
    };
    let (tid, place, over) = (AtomicI32::new(0), AtomicI32::new(-1), AtomicBool::new(false));
    let (tell, go) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (tid, place, over, path) = (&tid, &place, &over, &path);
        scope.spawn(move || {
            println!("{}", gettid());
            let begin = now();
            for cpu in path {
                stay_on(*cpu).expect("affinity");
                burn(Duration::from_micros(300));
            }
            reported(begin, path);
            tid.store(gettid().as_raw(), SeqCst);
            while !over.load(SeqCst) {
                // SAFETY: it has no arguments.
                place.store(unsafe { libc::sched_getcpu() }, SeqCst);
            }
            for () in go {
                // SAFETY: as above.
                place.store(unsafe { libc::sched_getcpu() }, SeqCst);
            }
        });
        while tid.load(SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mover = Pid::from_raw(tid.load(SeqCst));
        let arrives = |cpu: usize| {
            while place.load(SeqCst) != cpu as i32 {
                std::thread::sleep(Duration::from_micros(100));
            }
        };
        let begin = now();
        for cpu in path {
            send(mover, *cpu).expect("affinity");
            arrives(*cpu);
        }
        reported(begin, path);
        over.store(true, SeqCst);
        await_sleep(mover);
        let begin = now();
        for cpu in path {
            send(mover, *cpu).expect("affinity");
            place.store(-1, SeqCst);
            tell.send(()).expect("it waits");
            arrives(*cpu);
            await_sleep(mover);
        }
        reported(begin, path);
        drop(tell);
    });
}

/// Creates a process in the cgroup of a directory, which differs from its own, and prints its id. Linux 5.7.
fn born(folder: &str) {
    const CLONE_INTO_CGROUP: u64 = 1 << 33;
    let folder = std::fs::File::open(folder).expect("a cgroup");
    // SAFETY: the structure consists of numbers, of which 0 requests nothing.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = Signal::SIGCHLD as u64;
    args.cgroup = u64::try_from(folder.as_raw_fd()).expect("a descriptor");
    // SAFETY: the structure outlives the call. This process has one thread, so its copy may call any function.
    let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    if child == 0 {
        // The recorder looks up the name a fraction of a second later; wait for that.
        std::thread::sleep(Duration::from_millis(500));
        std::process::exit(0);
    }
    assert!(child > 0, "clone3: {}", std::io::Error::last_os_error());
    println!("{child}");
    nix::sys::wait::waitpid(Pid::from_raw(child as i32), None).expect("a child");
}

fn main() {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).expect("prctl");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse().expect("a number");
    match words[0].as_str() {
        "threads" => threads(number(1), number(2)),
        "slices" => slices(number(1), number(2)),
        "states" => states(),
        "names" => names(),
        "reuse" => reuse(),
        "heir" => heir(number(1)),
        "brief" => brief(number(1)),
        "takeover" => takeover(),
        "calls" => calls(number(1)),
        "places" => places(number(1)),
        "born" => born(&words[1]),
        "late" => late(number(1), number(2) as u64),
        other => panic!("no workload {other}"),
    }
}
