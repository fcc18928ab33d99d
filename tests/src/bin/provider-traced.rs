//! An application that uses `tracing`, with the provider's layer, for tests of it: its first argument selects the case. `log` and
//! `attribute` are for the crate `log` and for `#[traced]`.

use std::error::Error;
use std::future::Future;
use std::io::{self, BufRead, Write};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fxt_writer::provider::{self, traced};
use log::LevelFilter;
use nix::time::{ClockId, clock_gettime};
use tracing::{Level, event_enabled, info, info_span, instrument, span_enabled, trace, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Longer than any manager of a test takes to send START.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let case = std::env::args().nth(1).unwrap_or_default();
    match case.as_str() {
        "log" => return logger(),
        "attribute" => return attribute(),
        _ => {}
    }
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
    // It is disabled, although there is a subscriber.
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
    io::stdin().lock().read_line(&mut String::new())?;
    // The same right after it has ended.
    while event_enabled!(target: "app", Level::ERROR) {
        thread::yield_now();
    }
    say(2);
    Ok(())
}

fn say(number: u64) {
    let mut out = io::stdout().lock();
    // A test that has ended needs no output.
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
    // Exited in a different order than they were entered.
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

/// The records that the logger behind ours received.
static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Printer;

impl log::Log for Printer {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() != "app::quiet"
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut printed = PRINTED.lock().expect("nobody panics");
        printed.push(record.args().to_string());
    }

    fn flush(&self) {}
}

fn logger() -> Result<(), Box<dyn Error>> {
    let app = provider::log::init_before("traced", Box::new(Printer), LevelFilter::Warn)?;
    // The session begins when a number has been printed.
    log::warn!(target: "app", "early");
    say(u64::from(log::log_enabled!(log::Level::Info)));
    if !app.wait_for_session(PATIENCE) {
        return Err("no manager says START".into());
    }
    say(u64::from(log::log_enabled!(target: "app", log::Level::Trace)));
    let code = 3;
    log::warn!(target: "app", "lost {code}");
    log::error!(target: "app::quiet", "not printed");
    log::trace!(target: "app::net", "not\0printed {}", "either");
    log::error!(target: "other", "not recorded");
    say(3);
    io::stdin().lock().read_line(&mut String::new())?;
    while log::log_enabled!(target: "app", log::Level::Trace) {
        thread::yield_now();
    }
    let printed = PRINTED.lock().expect("nobody panics").join(", ");
    say(2 + u64::from(printed != "early, lost 3, not recorded"));
    Ok(())
}

/// Is ready when it is polled for the second time.
struct Later(bool);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[traced]
fn plain<T: Clone>(value: &T) -> T {
    value.clone()
}

#[traced("app", number = number, "twice as much" = number * 2)]
pub(crate) fn early(number: u32) -> Result<u32, ()> {
    if number > 6 {
        return Err(());
    }
    Ok(number)
}

struct Server;

impl Server {
    #[traced("app", "a request", path = path)]
    async fn request(&self, path: &str) -> usize {
        plain(&());
        Later(false).await;
        path.len()
    }
}

fn attribute() -> Result<(), Box<dyn Error>> {
    let app = provider::init("traced")?;
    say(0);
    if !app.wait_for_session(PATIENCE) {
        return Err("no manager says START".into());
    }
    say(1);
    let _ = early(plain(&7));
    let mut context = Context::from_waker(Waker::noop());
    let mut request = Box::pin(Server.request("/a/path"));
    let mut abandoned = pin!(Server.request("/"));
    let pending = request.as_mut().poll(&mut context).is_pending()
        && abandoned.as_mut().poll(&mut context).is_pending();
    abandoned.set(Server.request("never polled"));
    // It ends on another thread.
    let end = move || request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let ended = thread::spawn(end).join().map_err(|_| "it panicked")?;
    say(3 + u64::from(!pending || ended != Poll::Ready(7)));
    io::stdin().lock().read_line(&mut String::new())?;
    while provider::enabled!("app") {
        thread::yield_now();
    }
    // It is not in any session any more.
    let _ = early(1);
    say(2);
    Ok(())
}
