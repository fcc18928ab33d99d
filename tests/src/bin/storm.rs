//! A workload: threads that all sleep for a moment by a timer, over and over, so that every sleep is a wake-up from an
//! interrupt and two context switches.
//!
//! `storm THREADS SLEEPS`, with that many sleeps of each thread. Prints the nanoseconds that all of it took.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

/// Short enough that the threads of a small machine are more than it can run at once.
const SLEEP: Duration = Duration::from_micros(50);

fn main() -> io::Result<()> {
    // What started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let numbers: Result<Vec<u32>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let Ok([threads, sleeps]) = numbers.as_deref() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: storm THREADS SLEEPS"));
    };
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..*threads {
            scope.spawn(|| (0..*sleeps).for_each(|_| thread::sleep(SLEEP)));
        }
    });
    println!("{} ns", begun.elapsed().as_nanos());
    Ok(())
}
