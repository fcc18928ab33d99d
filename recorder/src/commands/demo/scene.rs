//! The recorded scene: three threads of one process share one CPU.
//!
//! ```text
//!   player      1 ms of work every 10 ms
//!   hog         30 ms of work every 500 ms, before everybody else: real-time
//!   background  works all the time, as nice as can be
//! ```

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::kernel::priority::{self, ThreadId};
use crate::kernel::sys::Linux;

const PERIOD: Duration = Duration::from_millis(10);
const WORK: Duration = Duration::from_millis(1);
const HOG_PERIOD: Duration = Duration::from_millis(500);
const HOG_WORK: Duration = Duration::from_millis(30);

/// The reason why the scene cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SceneError {
    #[error("cannot keep the threads on one CPU: {0}")]
    Pin(#[source] Errno),
    #[error("cannot give `hog` a real-time priority: {0}; try it as root")]
    RealTime(#[source] Errno),
    #[error("cannot start a thread: {0}")]
    Start(#[source] io::Error),
    #[error("a thread panicked")]
    Panicked,
}

/// Runs the scene for this long.
///
/// # Errors
/// Returns [`SceneError`], when the kernel refuses a priority, the CPU or a thread.
pub(super) fn play(time: Duration) -> Result<(), SceneError> {
    stay_on_one_cpu().map_err(SceneError::Pin)?;
    let end = Instant::now() + time;
    let hog = start("hog", move || {
        let prior = ThreadId::current().make_real_time(&Linux).map_err(SceneError::RealTime);
        prior.map(|()| repeat(end, HOG_PERIOD, HOG_WORK))
    })?;
    let background = start("background", move || {
        priority::lower();
        work_until(end);
        Ok(())
    })?;
    let player = start("player", move || {
        repeat(end, PERIOD, WORK);
        Ok(())
    })?;
    for thread in [hog, background, player] {
        thread.join().map_err(|_| SceneError::Panicked)??;
    }
    Ok(())
}

type Playing = thread::JoinHandle<Result<(), SceneError>>;

fn start(
    name: &str,
    play: impl FnOnce() -> Result<(), SceneError> + Send + 'static,
) -> Result<Playing, SceneError> {
    thread::Builder::new().name(name.to_owned()).spawn(play).map_err(SceneError::Start)
}

/// Pins the process to the last CPU that it may use, since on many machines the first CPU handles most interrupts.
fn stay_on_one_cpu() -> Result<(), Errno> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.unwrap_or(0))?;
    sched_setaffinity(this, &one)
}

/// Works at the beginning of each period.
fn repeat(end: Instant, period: Duration, work: Duration) {
    let mut next = Instant::now() + period;
    while next < end {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        work_until(Instant::now() + work);
        next += period;
    }
}

fn work_until(end: Instant) {
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
