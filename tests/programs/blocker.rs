//! Threads that block in known functions, for the tests of stacks: `blocker ROUNDS`.
//!
//! Each thread prints its id, where it waits, and for how long it did so by its own clock. The tests compile it with frame pointers, so it
//! uses only the standard library.

use std::io::{PipeReader, Read, Write};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_millis(4);

/// Much shorter than the requested minimum, and so without stacks.
const SHORT: Duration = Duration::from_micros(50);

/// The thread's own id, the last part of `PID/task/TID`.
fn own_id() -> String {
    let link = std::fs::read_link("/proc/thread-self").expect("/proc");
    link.file_name().expect("an id").to_str().expect("a number").to_owned()
}

/// Prints the activity of a thread.
fn tell(what: &str, wait: impl Fn() -> u32, rounds: usize) {
    let begin = Instant::now();
    let mut sum = 0;
    for _ in 0..rounds {
        sum += wait();
    }
    println!("{} {what} {} {sum}", own_id(), begin.elapsed().as_nanos());
}

#[inline(never)]
fn wait_for_a_byte(mut from: &PipeReader) -> u32 {
    let mut byte = [0];
    from.read_exact(&mut byte).expect("a byte");
    std::hint::black_box(u32::from(byte[0]))
}

#[inline(never)]
fn wait_for_a_flag(flag: &(Mutex<u32>, Condvar)) -> u32 {
    let mut number = flag.0.lock().expect("nobody panics");
    while *number == 0 {
        number = flag.1.wait(number).expect("nobody panics");
    }
    *number -= 1;
    std::hint::black_box(1)
}

#[inline(never)]
fn wait_for_time(length: Duration) -> u32 {
    std::thread::sleep(length);
    std::hint::black_box(1)
}

fn main() {
    let rounds: usize = std::env::args().nth(1).expect("how often").parse().expect("a number");
    let (from, mut to) = std::io::pipe().expect("a pipe");
    let flag = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| tell("wait_for_a_byte", || wait_for_a_byte(&from), rounds));
        scope.spawn(|| tell("wait_for_a_flag", || wait_for_a_flag(&flag), rounds));
        scope.spawn(|| tell("wait_for_time", || wait_for_time(LONG), rounds));
        scope.spawn(|| tell("short", || wait_for_time(SHORT), rounds));
        scope.spawn(|| {
            for _ in 0..rounds {
                std::thread::sleep(LONG);
                to.write_all(&[1]).expect("somebody reads");
                *flag.0.lock().expect("nobody panics") += 1;
                flag.1.notify_one();
            }
        });
    });
    // On a busy machine, the recorder reads the process's memory map late, but must not be too late.
    std::thread::sleep(Duration::from_millis(500));
}
