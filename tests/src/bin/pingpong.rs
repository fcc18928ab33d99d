//! A workload: two threads that wake each other in turn, so that each round is
//! at least two context switches.
//!
//! `pingpong ROUNDS` or `pingpong forever`. Prints `ready` before the first
//! round and `done` after the last.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;

use nix::sys::signal::Signal;

fn main() -> io::Result<()> {
    // What started it may be killed, as may the test.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let argument = std::env::args().nth(1).unwrap_or_default();
    let rounds = match argument.as_str() {
        "forever" => u64::MAX,
        number => number.parse().map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("ROUNDS or forever: {error}"))
        })?,
    };
    let (from_ping, to_pong) = io::pipe()?;
    let (from_pong, to_ping) = io::pipe()?;
    println!("ready");
    let pong = thread::spawn(move || -> io::Result<()> { turns(rounds, from_ping, to_ping) });
    let (mut from_pong, mut to_pong) = (from_pong, to_pong);
    for _ in 0..rounds {
        to_pong.write_all(&[0])?;
        from_pong.read_exact(&mut [0])?;
    }
    pong.join().map_err(|_| io::Error::other("the other thread panicked"))??;
    println!("done");
    Ok(())
}

/// Gives back every byte that comes in.
fn turns(rounds: u64, mut input: PipeReader, mut output: PipeWriter) -> io::Result<()> {
    let mut byte = [0];
    for _ in 0..rounds {
        input.read_exact(&mut byte)?;
        output.write_all(&byte)?;
    }
    Ok(())
}
