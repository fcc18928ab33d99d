//! An application that uses `tracing`, with the provider's layer, for tests of it: does what its first word says.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use fxt_writer::provider;
use nix::time::{ClockId, clock_gettime};
use tracing::{Level, event_enabled, info, info_span, instrument, span_enabled, trace, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Longer than any manager of a test takes to say START.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let case = std::env::args().nth(1).unwrap_or_default();
    let app = if case == "logs" {
        let layer =
            provider::tracing::layer_with_logs(tracing_subscriber::filter::LevelFilter::WARN);
        tracing_subscriber::registry().with(layer).try_init()?;
        provider::init("traced")?
    } else {
        provider::tracing::init("traced")?
    };
    if case == "brief" {
        for number in 0..3_u64 {
            drop(info_span!(target: "app", "brief", number).entered());
        }
        return Ok(());
    }
    // Off, though a subscriber is there.
    say(u64::from(span_enabled!(Level::ERROR) || event_enabled!(Level::ERROR)));
    if !app.wait_for_session(PATIENCE) {
        return Err("no manager says START".into());
    }
    say(u64::from(event_enabled!(target: "app", Level::TRACE)));
    match case.as_str() {
        "spans" => spans(),
        "logs" => logs(),
        "targets" => targets(),
        "sleeps" => {
            sleeps();
            return Ok(());
        }
        _ => return Err(format!("no case '{case}'").into()),
    }
    say(3);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    // And right after it has ended.
    while event_enabled!(target: "app", Level::ERROR) {
        thread::yield_now();
    }
    say(2);
    Ok(())
}

fn say(number: u64) {
    let mut out = io::stdout().lock();
    // A test that is gone wants nothing any more.
    let _ = writeln!(out, "{number}").and_then(|()| out.flush());
}

#[instrument(target = "app")]
fn instrumented(number: u32, text: &str) {
    info!(target: "app", double = 0.5, yes = true, "it is {number}");
}

fn spans() {
    instrumented(7, "words");
    let outer = info_span!(target: "app", "outer", later = tracing::field::Empty, list = ?[1, 2]);
    outer.in_scope(|| trace!(target: "app", small = -1, large = u64::MAX));
    outer.record("later", "now");
    // The same span on another thread.
    thread::scope(|scope| {
        scope.spawn(|| outer.in_scope(|| warn!(target: "app", "elsewhere")));
    });
    // Left in another order than they were entered in.
    let (first, second) = (info_span!(target: "app", "first"), info_span!(target: "app", "second"));
    let first = first.entered();
    let second = second.entered();
    drop(first);
    drop(second);
}

/// Spans around sleeps, of which it prints thread, begin and end in nanoseconds.
fn sleeps() {
    let now = || {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock that every Linux has");
        Duration::from(time).as_nanos()
    };
    for number in 0..25 {
        let begin = now();
        let span = info_span!(target: "app", "nap", number).entered();
        thread::sleep(Duration::from_millis(2));
        drop(span);
        println!("{} {begin} {}", nix::unistd::gettid(), now());
    }
}

fn logs() {
    warn!(target: "app", code = 3, name = "x", "lost {}", "it");
    info!(target: "app", "no log");
}

fn targets() {
    info!(target: "app::net", "wanted");
    info!(target: "other", "not wanted");
    let _span = info_span!(target: "other", "not wanted either").entered();
    info!(target: "application", "wanted too");
}
