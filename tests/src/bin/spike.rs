//! A workload: a thread that is late, on purpose and nobody else's account.
//!
//! `spike TIMES NAME` keeps all of it on one CPU. Each time a thread called NAME is woken by one that has real-time
//! priority and goes on computing for [`LATE`], so that the victim waits that long at least. It is woken by nothing else.
//! Prints `victim TID`, then for each time the nanoseconds of `CLOCK_MONOTONIC` before the wake-up and when the victim
//! had the CPU, and ends when standard input has.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};

/// How late the victim is made.
const LATE: Duration = Duration::from_millis(60);

/// Between two times, so that the kernel does not think that real-time threads take all of the CPU.
const PAUSE: Duration = Duration::from_millis(60);

/// The state of a thread that waits for something, in its `stat` file.
const SLEEPS: &str = "S";

fn now() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock").num_nanoseconds()
}

/// Keeps all threads to come on the first CPU that there is.
fn stay_on_one_cpu() -> nix::Result<()> {
    let mine = Pid::from_raw(0);
    let allowed = sched_getaffinity(mine)?;
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).is_ok_and(|is_set| is_set));
    let mut only = CpuSet::new();
    only.set(first.unwrap_or(0))?;
    sched_setaffinity(mine, &only)
}

/// Gives the calling thread real-time priority.
fn take_precedence() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: the call reads the structure, which outlives it, and changes this thread only.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a thread of this process does, as one letter.
fn state_of(tid: i64) -> io::Result<String> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"))?;
    // The name before it may hold anything but ends with the last parenthesis.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    Ok(after_name.split_whitespace().next().unwrap_or_default().to_owned())
}

fn main() -> io::Result<()> {
    // What started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let times: u32 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let name = std::env::args().nth(2).unwrap_or_else(|| "victim".to_owned());
    stay_on_one_cpu()?;
    let (mut heard, mut wake) = io::pipe()?;
    let (tell, told) = mpsc::channel();
    let victim = std::thread::Builder::new().name(name).spawn(move || {
        let _ = tell.send(i64::from(gettid().as_raw()));
        while heard.read_exact(&mut [0]).is_ok() {
            let _ = tell.send(now());
        }
    })?;
    let tid = told.recv().map_err(io::Error::other)?;
    println!("victim {tid}");
    take_precedence()?;
    for _ in 0..times {
        // The victim gets the CPU, and goes to sleep until the next time.
        std::thread::sleep(PAUSE);
        while state_of(tid)? != SLEEPS {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = now();
        wake.write_all(&[0])?;
        while now() - before < LATE.as_nanos() as i64 {
            std::hint::spin_loop();
        }
        let ran = told.recv().map_err(io::Error::other)?;
        println!("{before} {ran}");
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(wake);
    victim.join().map_err(|_| io::Error::other("the victim panicked"))
}
