//! An application that records its own spans, for end-to-end tests.
//!
//! `spans sleeps THREADS SPANS`: spans around sleeps, of which it prints thread, begin and end in nanoseconds. `spans burst THREADS
//! EVENTS`: events as fast as it can; prints how many it recorded or dropped. `spans forever`: numbered events until it is killed; prints a
//! number when all up to it were recorded. `spans window`: a span around everything; step 0, a pause, step 1, the alert `look`; for a line
//! of input step 2. `spans flood EVENTS`: a span around everything, and in it this many events and the wait for a line of input. `spans
//! lines`: a span around everything, and in it one from each line of input to the next, which it repeats; on another thread one from the
//! first line to the last, in which nothing happens.
//! `spans race THREADS`: numbered events on each thread until a line of input arrives; prints their number. `spans alert leave|exit|kill`:
//! the alert `last words`, and then it ends, in this way.
//! `spans brief leave|exit|kill`: three spans right after it became a provider, and then it ends, in this way. `spans fleet PROCESSES
//! EVENTS`: this many processes at once, each a provider with this many events.

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fxt_writer::provider::{self, duration, instant};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Longer than fxtrec takes to send START.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
    if words.first().is_some_and(|case| case == "fleet") {
        return fleet(number(1), number(2));
    }
    if words.first().is_some_and(|case| case == "alert") {
        return alert(words.get(1).map_or("", String::as_str));
    }
    if words.first().is_some_and(|case| case == "brief") {
        return brief(words.get(1).map_or("", String::as_str));
    }
    let name = words.get(3).map_or("spans", String::as_str);
    let app = provider::init(name).map_err(io::Error::other)?;
    if !app.wait_for_session(PATIENCE) {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no manager says START"));
    }
    match words.first().map(String::as_str) {
        Some("sleeps") => sleeps(number(1), number(2)),
        Some("burst") => burst(number(1), number(2)),
        Some("forever") => forever()?,
        Some("window") => window()?,
        Some("flood") => flood(number(1))?,
        Some("lines") => lines()?,
        Some("race") => race(number(1))?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "which case?")),
    }
    Ok(())
}

/// `CLOCK_MONOTONIC`.
fn now() -> TimeSpec {
    clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock that every Linux has")
}

/// The line for a span of this thread, in nanoseconds.
fn line(begin: TimeSpec, end: TimeSpec) -> String {
    let [begin, end] = [begin, end].map(|time| Duration::from(time).as_nanos());
    format!("{} {begin} {end}\n", nix::unistd::gettid())
}

fn sleeps(threads: u64, spans: u64) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Printed at the end: writing a line evicts the measured code and data from the processor's caches.
                let mut lines = String::new();
                for number in 0..spans {
                    // After a sleep the code and data of recording are cold, which costs more than recording itself: this span takes that
                    // cost, not the one that is printed.
                    drop(duration!("app:sleep", "about to nap", number = number));
                    let begin = now();
                    let span = duration!("app:sleep", "nap", number = number);
                    thread::sleep(Duration::from_millis(2));
                    drop(span);
                    let end = now();
                    lines += &line(begin, end);
                }
                print!("{lines}");
            });
        }
    });
}

fn burst(threads: u64, events: u64) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..events {
                    instant!("app:burst", "numbered", thread = thread, number = number);
                }
            });
        }
    });
    println!("{}", threads * events);
}

fn forever() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for number in 0_u64.. {
        instant!("app", "step", number = number);
        if number.is_multiple_of(1000) {
            writeln!(out, "{number}")?;
        }
    }
    Ok(())
}

fn alert(how: &str) -> io::Result<()> {
    let app = provider::init("spans").map_err(io::Error::other)?;
    if how == "kill" {
        // An application that has not registered is unknown.
        app.wait_for_session(PATIENCE);
    }
    provider::alert("last words");
    end(how)
}

/// Ends the process without any clean-up, or lets it end as usual.
fn end(how: &str) -> io::Result<()> {
    match how {
        "exit" => std::process::exit(0),
        "kill" => Ok(nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL)?),
        _ => Ok(()),
    }
}

fn brief(how: &str) -> io::Result<()> {
    let _app = provider::init("brief").map_err(io::Error::other)?;
    for number in 0..3 {
        drop(duration!("app", "brief", number = number));
    }
    end(how)
}

/// Longer than the window that tests request.
const PAUSE: Duration = Duration::from_millis(1500);

fn step(number: u64) {
    let begin = now();
    let span = duration!("app", "step", number = number);
    thread::sleep(Duration::from_millis(2));
    drop(span);
    print!("{}", line(begin, now()));
}

fn window() -> io::Result<()> {
    let _life = duration!("app", "life");
    step(0);
    thread::sleep(PAUSE);
    step(1);
    provider::alert("look");
    io::stdin().read_line(&mut String::new())?;
    step(2);
    Ok(())
}

fn flood(events: u64) -> io::Result<()> {
    let _life = duration!("app", "life");
    (0..events).for_each(|number| instant!("app", "numbered", number = number));
    println!("through");
    io::stdin().read_line(&mut String::new()).map(drop)
}

fn lines() -> io::Result<()> {
    let _life = duration!("app", "life");
    let (end, ended) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let quiet = thread::spawn(move || {
        let _quiet = duration!("app", "quiet");
        // The waiting thread exists, and nothing is ever sent: only the end of the channel counts.
        let _ = begin.send(());
        let _ = ended.recv();
    });
    let _ = begun.recv();
    let mut open = None;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        drop(open.take());
        open = Some(duration!("app", "line", number = number as u64));
        println!("{}", line?);
    }
    drop((open, end));
    quiet.join().map_err(|_| io::ErrorKind::Other.into())
}

fn race(threads: u64) -> io::Result<()> {
    let over = AtomicBool::new(false);
    let run = |thread: u64| {
        let mut number = 0_u64;
        while !over.load(Ordering::Relaxed) {
            for _ in 0..16 {
                instant!("app:race", "numbered", thread = thread, number = number);
                number += 1;
            }
            // Otherwise there would be more than a test has time to read.
            thread::sleep(Duration::from_micros(100));
        }
        number
    };
    let events: u64 = thread::scope(|scope| {
        let run = &run;
        let runs: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        io::stdin().read_line(&mut String::new())?;
        over.store(true, Ordering::Relaxed);
        let ended = runs.into_iter().map(|run| run.join().map_err(|_| io::ErrorKind::Other.into()));
        ended.sum::<io::Result<u64>>()
    })?;
    println!("{events}");
    Ok(())
}

/// Waits until each process has recorded before any may end, so that all exist at the same time.
fn fleet(processes: u64, events: u64) -> io::Result<()> {
    let own = std::env::current_exe()?;
    let start = |number: u64| {
        let mut command = Command::new(&own);
        command.args(["burst", "1", &events.to_string(), &format!("ship {number}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    };
    let mut children = (0..processes).map(start).collect::<io::Result<Vec<_>>>()?;
    for child in &mut children {
        let mut line = String::new();
        let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        io::BufReader::new(out).read_line(&mut line)?;
        print!("{line}");
    }
    for mut child in children {
        child.wait()?;
    }
    Ok(())
}
