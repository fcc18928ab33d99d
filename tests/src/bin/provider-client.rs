//! An application with trace points, for tests of the provider in it: its first argument selects the case.
//!
//! `provider-client CASE [NUMBER]...`; the manager's address is in `FXTREC_PROVIDER_SOCKET`. It waits for a session before it begins,
//! prints the values that a test needs, one number per line, and where noted waits for a line of input.

use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use fxt_writer::provider::{
    self, Provider, Site, alert, async_begin, async_end, async_instant, blob, counter, duration,
    enabled, flow_begin, flow_end, flow_step, instant, log,
};
use fxt_writer::record::EventKind;
use fxt_writer::{Koid, Text, Value};

/// Longer than any manager of a test takes to send START.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_default();
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);

    if case == "hasty" {
        return hasty();
    }
    let app =
        provider::Builder::new("client").category("told:early").init().map_err(io::Error::other)?;
    if case == "idle" {
        idle();
        return Ok(());
    }
    if !app.wait_for_session(PATIENCE) {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no manager says START"));
    }
    match case.as_str() {
        "everything" => everything(),
        "odd_texts" => odd_texts(),
        "threads" => println!("{}", threads(number(0), number(1))),
        "one_by_one" => one_by_one(number(0)),
        "spans" => {
            say(spans(number(0), number(1)));
            wait_for_input();
        }
        "strings" => strings(number(0)),
        "categories" => categories(),
        "sessions" => sessions(&app)?,
        "forever" => forever()?,
        "fork" => fork(number(0))?,
        "heir" => heir(number(0))?,
        "orphan" => orphan()?,
        "flush" => flush(&app)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no case '{case}'"))),
    }
    Ok(())
}

/// Records at once, whether or not a session is running: two events that tests request, one that they do not, and queries that are not
/// events. Prints how many milliseconds it took to become a provider, and waits.
fn hasty() -> io::Result<()> {
    let begin = std::time::Instant::now();
    let app = provider::init("hasty").map_err(io::Error::other)?;
    let took = begin.elapsed();
    drop(duration!("app", "early span"));
    instant!("app", "early");
    instant!("other", "unwanted");
    let asked = enabled!("app");
    say(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    wait_for_input();
    app.wait_for_session(PATIENCE);
    instant!("app", "late", asked = asked);
    wait_for_input();
    Ok(())
}

/// Waits for a line of input, or its end.
fn wait_for_input() {
    let mut line = String::new();
    // A test that has ended needs no output.
    let _ = io::stdin().lock().read_line(&mut line);
}

fn say(number: u64) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{number}").and_then(|()| out.flush());
}

/// Every macro once, with every type of argument.
fn everything() {
    let target = 5_u8;
    let pointer = &raw const target;
    {
        let _outer =
            duration!("app:all", "outer", small = -1_i8, large = i64::MIN, "any key" = u64::MAX);
        let _inner = duration!("app:all", "inner");
        instant!(
            "app:all",
            "moment",
            double = 0.5,
            yes = true,
            text = "words",
            owned = String::from("more"),
            pointer = pointer,
            koid = Koid(77),
            none = None::<u32>,
            some = Some(7_usize),
        );
        flow_begin!("app:all", "flow", 9);
        flow_step!("app:all", "flow", 9, at = 1);
        flow_end!("app:all", "flow", 9);
    }
    counter!("app:all", "queue", waiting = 3, running = 1);
    counter!("app:all", "queue", 4, waiting = 2);
    async_begin!("app:all", "request", 11, path = "/");
    async_instant!("app:all", "headers", 11);
    async_end!("app:all", "request", 11);
    blob!("app:all", "short", b"bytes");
    blob!("app:all", "long", vec![7; 70_000]);
    blob!("app:all", "empty", []);
    log!("app:all", "plain");
    log!("app:all", "{} and {target}", "formatted");
    alert!("app:all", "look here");
    provider::alert("a name that is too long");
    say(u64::from(std::process::id()));
    say(pointer.addr() as u64);
}

/// Strings that no record can carry unchanged.
fn odd_texts() {
    let long = "x".repeat(40_000);
    instant!("app", "long", text = long.as_str(), number = 1);
    instant!("app", "nul", text = "before\0after", number = 2);
    let big = "y".repeat(20_000);
    instant!("app", "two big", one = big.as_str(), two = big.as_str());
    log!("app", "{long}");
    log!("app", "{}", "log\0more");
    Site::leaked("app", "bad\nname").armed().expect("a session").event(EventKind::Instant, &[], []);
    let args: Vec<_> =
        (0..20).map(|_| fxt_writer::Arg::new(Text::Inline("many"), Value::Int32(1))).collect();
    Site::leaked("app", "").armed().expect("a session").event_with(EventKind::Instant, &args);
}

/// `threads` threads record `events` numbered events each, concurrently; returns the total.
fn threads(threads: u64, events: u64) -> u64 {
    let barrier = Barrier::new(usize::try_from(threads).expect("few threads"));
    thread::scope(|scope| {
        for thread in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                // This is verified from outside as well: threads have the same names.
                barrier.wait();
                for number in 0..events {
                    instant!("app", "numbered", thread = thread, number = number);
                }
                barrier.wait();
            });
        }
    });
    threads * events
}

/// This many threads one after the other, each with one event.
fn one_by_one(threads: u64) {
    for thread in 0..threads {
        let _ = thread::spawn(move || instant!("app", "alone", thread = thread)).join();
    }
}

/// `threads` threads record `spans` pairs of nested spans each; returns the total.
fn spans(threads: u64, spans: u64) -> u64 {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for number in 0..spans {
                    let _outer = duration!("app", "outer", number = number);
                    let _inner = duration!("app", "inner", number = number);
                }
            });
        }
    });
    threads * spans * 2
}

/// This many trace points, each with a different name.
fn strings(names: u64) {
    for number in 0..names {
        let site = Site::leaked("app", &format!("name {number}"));
        site.armed().expect("a session").event(EventKind::Instant, &[], []);
    }
}

/// Events of several categories, only some of which are recorded.
fn categories() {
    say(u64::from(enabled!("app:yes")));
    say(u64::from(enabled!("other")));
    instant!("app:yes", "wanted");
    instant!("application", "wanted");
    instant!("exact", "wanted");
    instant!("exactly", "not wanted", never = unreachable_number());
    instant!("other", "not wanted");
}

fn unreachable_number() -> u64 {
    unreachable!("arguments of what is not recorded are not computed")
}

/// One event per session, as long as there is input.
fn sessions(app: &Provider) -> io::Result<()> {
    for number in 0_u64.. {
        if !app.wait_for_session(PATIENCE) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        instant!("app", "session", number = number);
        say(number);
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Numbered events until the process is killed; prints each number after it was recorded.
fn forever() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for number in 0_u64.. {
        let _span = duration!("app", "step", number = number);
        if number % 1000 == 0 {
            writeln!(out, "{number}")?;
        }
    }
    Ok(())
}

/// Events without a session, which have no effect.
fn idle() {
    for number in 0..1_000_000_u64 {
        let _span = duration!("app", "nothing", number = number);
    }
    say(1);
    wait_for_input();
}

/// Records, forks children that try to, and continues.
fn fork(events: u64) -> io::Result<()> {
    let _open = duration!("app", "around");
    instant!("app", "parent", number = 0);
    let children = [nix_fork, raw_fork];
    for fork in children {
        let child = fork()?;
        if let ControlFlow::Break(()) = child {
            for number in 0..events {
                instant!("app", "child", number = number);
                let _span = duration!("app", "child span");
            }
            drop(_open);
            // Children end without the parent's exit handlers.
            unsafe_exit(7);
        }
    }
    instant!("app", "parent", number = 1);
    Ok(())
}

/// A child that becomes a provider itself.
fn heir(events: u64) -> io::Result<()> {
    instant!("app", "parent", number = 0);
    if let ControlFlow::Break(()) = nix_fork()? {
        let own = provider::init("heir").map_err(io::Error::other)?;
        let started = own.wait_for_session(PATIENCE);
        for number in 0..events {
            instant!("app", "child", number = number);
        }
        drop(own);
        unsafe_exit(if started { 7 } else { 1 });
    }
    instant!("app", "parent", number = 1);
    Ok(())
}

/// Ends, and leaves a child behind that lives as long as there is input.
fn orphan() -> io::Result<()> {
    instant!("app", "parent", number = 0);
    // SAFETY: the child only waits and ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            wait_for_input();
            unsafe_exit(0)
        }
        _ => Ok(()),
    }
}

/// Forks; the parent waits for the child, which must end with 7.
fn nix_fork() -> io::Result<ControlFlow<()>> {
    // SAFETY: the child only records and ends; see the cases above.
    after(unsafe { libc::fork() })
}

/// The same as [`nix_fork`], with the system call only: no handler of the library runs.
fn raw_fork() -> io::Result<ControlFlow<()>> {
    // SAFETY: as above; without flags and a stack, `clone` is a fork.
    after(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t)
}

fn after(child: libc::pid_t) -> io::Result<ControlFlow<()>> {
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ControlFlow::Break(())),
        child => {
            let mut status = 0;
            // SAFETY: the pointer is to a number of our own.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7 {
                return Ok(ControlFlow::Continue(()));
            }
            Err(io::Error::other(format!("the child ended with status {status:#x}")))
        }
    }
}

fn unsafe_exit(code: i32) -> ! {
    // SAFETY: ends this process without running anything.
    unsafe { libc::_exit(code) }
}

/// Records, requests that it be saved, prints that, and waits.
fn flush(app: &Provider) -> io::Result<()> {
    instant!("app", "before");
    say(u64::from(app.flush(PATIENCE)));
    wait_for_input();
    instant!("app", "after");
    Ok(())
}
