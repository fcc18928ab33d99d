//! A workload: two threads that wake each other in turn, so that each round is
//! at least two context switches.
//!
//! `pingpong ROUNDS [apart]` or `pingpong forever [apart]`. Prints `ready` before
//! the first round and `done` after the last. If apart, each stays on a CPU of
//! its own.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;

use fxtrec_tests::placement::{allowed_cpus, stay_on};
use nix::sys::signal::Signal;

fn main() -> io::Result<()> {
    // The process that started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let argument = std::env::args().nth(1).unwrap_or_default();
    let rounds = match argument.as_str() {
        "forever" => u64::MAX,
        number => number.parse().map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("ROUNDS or forever: {error}"))
        })?,
    };
    let apart = std::env::args().nth(2).is_some_and(|argument| argument == "apart");
    let (from_ping, to_pong) = io::pipe()?;
    let (from_pong, to_ping) = io::pipe()?;
    println!("ready");
    let cpus = if apart { Some(two_cpus()?) } else { None };
    let pong = thread::spawn(move || -> io::Result<()> {
        cpus.map_or(Ok(()), |[_, own]| stay_on(own))?;
        turns(rounds, from_ping, to_ping)
    });
    cpus.map_or(Ok(()), |[own, _]| stay_on(own))?;
    let (mut from_pong, mut to_pong) = (from_pong, to_pong);
    for _ in 0..rounds {
        to_pong.write_all(&[0])?;
        from_pong.read_exact(&mut [0])?;
    }
    pong.join().map_err(|_| io::Error::other("the other thread panicked"))??;
    println!("done");
    Ok(())
}

/// The first two CPUs that this process may use.
fn two_cpus() -> io::Result<[usize; 2]> {
    match allowed_cpus()?[..] {
        [first, second, ..] => Ok([first, second]),
        _ => Err(io::Error::other("apart needs two CPUs")),
    }
}

/// Sends back every byte that arrives.
fn turns(rounds: u64, mut input: PipeReader, mut output: PipeWriter) -> io::Result<()> {
    let mut byte = [0];
    for _ in 0..rounds {
        input.read_exact(&mut byte)?;
        output.write_all(&byte)?;
    }
    Ok(())
}
