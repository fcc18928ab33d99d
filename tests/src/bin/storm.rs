//! A workload: threads that all sleep for a moment by a timer, repeatedly, so that every sleep is a wakeup from an interrupt and two
//! context switches.
//!
//! `storm THREADS SLEEPS [US]`, with this many sleeps per thread, of this many microseconds. Prints the total time in nanoseconds.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

/// Short enough that more threads are runnable at once than a small machine can run.
const MICROSECONDS: u32 = 50;

fn main() -> io::Result<()> {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let numbers: Result<Vec<u32>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let Ok([threads, sleeps, rest @ ..]) = numbers.as_deref() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: storm THREADS SLEEPS [US]",
        ));
    };
    let sleep = Duration::from_micros(rest.first().copied().unwrap_or(MICROSECONDS).into());
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..*threads {
            scope.spawn(|| (0..*sleeps).for_each(|_| thread::sleep(sleep)));
        }
    });
    println!("{} ns", begun.elapsed().as_nanos());
    Ok(())
}
