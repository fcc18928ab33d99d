//! A workload: a thread that is late on purpose, not because of other threads.
//!
//! `spike TIMES NAME` keeps all of it on one CPU. Each time, a thread called NAME is woken by a thread that has real-time priority and
//! continues computing for [`LATE`], so the victim waits at least that long. Nothing else wakes it. Prints `victim TID`, then each time the
//! nanoseconds of `CLOCK_MONOTONIC` before the wakeup and when the victim had the CPU; ends when standard input ends.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use fxtrec_tests::placement::{await_sleep, stay_on_first};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};

/// How late the victim is made.
const LATE: Duration = Duration::from_millis(60);

/// A pause between two times, so that real-time threads do not exceed the kernel's limit.
const PAUSE: Duration = Duration::from_millis(60);

fn now() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock").num_nanoseconds()
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

fn main() -> io::Result<()> {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let times: u32 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let name = std::env::args().nth(2).unwrap_or_else(|| "victim".to_owned());
    stay_on_first()?;
    let (mut heard, mut wake) = io::pipe()?;
    let (tell, reported) = mpsc::channel();
    let victim = std::thread::Builder::new().name(name).spawn(move || {
        let _ = tell.send(i64::from(gettid().as_raw()));
        while heard.read_exact(&mut [0]).is_ok() {
            let _ = tell.send(now());
        }
    })?;
    let tid = reported.recv().map_err(io::Error::other)?;
    println!("victim {tid}");
    let thread = Pid::from_raw(i32::try_from(tid).map_err(io::Error::other)?);
    take_precedence()?;
    for _ in 0..times {
        // The victim gets the CPU, and sleeps until its next turn.
        std::thread::sleep(PAUSE);
        await_sleep(thread);
        let before = now();
        wake.write_all(&[0])?;
        while now() - before < LATE.as_nanos() as i64 {
            std::hint::spin_loop();
        }
        let ran = reported.recv().map_err(io::Error::other)?;
        println!("{before} {ran}");
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(wake);
    victim.join().map_err(|_| io::Error::other("the victim panicked"))
}
