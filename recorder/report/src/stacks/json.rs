//! Blocked times and their stacks as JSON, in the format of `docs/reference/stacks.md`.

use std::io::{self, Write};

use fxtrec_sched::backtrace::PROBLEMS;
use fxtrec_units::escape;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{Blocked, Wait, Waker, nanos};
use crate::ThreadInfo;

/// Incremented when a member is removed or changes its meaning; new members may be added at any time.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    over_ns: u64,
    waits: u64,
    blocked_ns: u64,
    censored: u64,
    stacks: Vec<Place<'a>>,
    worst: Vec<Worst<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    /// `None` for the waits without a stack.
    frames: Option<Vec<Frame<'a>>>,
    lacks: Vec<&'static str>,
    waits: u64,
    blocked_ns: u64,
    max_ns: u64,
    threads: Vec<Thread<'a>>,
}

#[derive(Serialize)]
struct Thread<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    waits: u64,
    blocked_ns: u64,
}

#[derive(Serialize)]
struct Who<'a> {
    tid: u64,
    pid: Option<u64>,
    comm: &'a str,
}

impl<'a> From<&'a ThreadInfo> for Who<'a> {
    fn from(thread: &'a ThreadInfo) -> Who<'a> {
        Who { tid: thread.tid, pid: thread.pid, comm: &thread.comm }
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    function: Option<&'a str>,
    module: Option<&'a str>,
    /// Within the module, if that is known.
    address: u64,
    kernel: bool,
    /// Inlined functions are first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lines: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    function: Option<&'a str>,
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct Worst<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    begin_ns: u64,
    blocked_ns: u64,
    away_ns: u64,
    waker: Option<Who<'a>>,
    by_interrupt: bool,
    frames: Option<Vec<Frame<'a>>>,
    lacks: Vec<&'static str>,
    waker_frames: Option<Vec<Frame<'a>>>,
    waker_lacks: Vec<&'static str>,
}

fn lacks(problems: u32) -> Vec<&'static str> {
    PROBLEMS.iter().filter(|(bit, _)| problems & bit != 0).map(|(_, what)| *what).collect()
}

fn frames(blocked: &Blocked, stack: Option<usize>) -> Option<Vec<Frame<'_>>> {
    let stack = blocked.recorded.all.get(stack?)?;
    let frames = blocked.recorded.frames(stack).map(|it| {
        let (module, address) = it.module.map_or((None, it.address), |(path, at)| (Some(path), at));
        let lines = it.lines.iter().map(|of| {
            let (function, file, line) = (of.function.as_deref(), of.file.as_str(), of.line);
            Line { function, file, line }
        });
        Frame {
            function: it.function,
            module,
            address,
            kernel: it.in_kernel,
            lines: lines.collect(),
        }
    });
    Some(frames.collect())
}

fn worst<'a>(blocked: &'a Blocked, wait: &'a Wait) -> Worst<'a> {
    let (waker, by_interrupt) = match &wait.waker {
        Waker::Thread(thread) => (Some(thread.into()), false),
        Waker::Interrupt => (None, true),
        Waker::Unknown => (None, false),
    };
    let lacks = |stack: Option<usize>| {
        lacks(stack.map_or(0, |number| blocked.recorded.all[number].problems))
    };
    Worst {
        thread: (&wait.thread).into(),
        begin_ns: wait.begin,
        blocked_ns: nanos(wait.blocked),
        away_ns: nanos(wait.away),
        waker,
        by_interrupt,
        frames: frames(blocked, wait.stack),
        lacks: lacks(wait.stack),
        waker_frames: frames(blocked, wait.wake_stack),
        waker_lacks: lacks(wait.wake_stack),
    }
}

fn place<'a>(blocked: &'a Blocked, place: &super::StackWaits<'a>) -> Place<'a> {
    let mut threads: FxHashMap<u64, Thread<'a>> = FxHashMap::default();
    for wait in &place.waits {
        let thread = threads.entry(wait.thread.koid.0).or_insert_with(|| Thread {
            thread: (&wait.thread).into(),
            waits: 0,
            blocked_ns: 0,
        });
        thread.waits += 1;
        thread.blocked_ns += nanos(wait.blocked);
    }
    let mut threads: Vec<Thread<'a>> = threads.into_values().collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.blocked_ns), thread.thread.tid));
    Place {
        frames: frames(blocked, place.stack),
        lacks: lacks(place.problems),
        waits: place.waits.len() as u64,
        blocked_ns: nanos(place.blocked),
        max_ns: place.waits.iter().map(|wait| nanos(wait.blocked)).max().unwrap_or(0),
        threads,
    }
}

/// Writes all stacks, and the `most` longest waits.
///
/// # Errors
/// The errors of `out`.
pub fn write_json(blocked: &Blocked, most: usize, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        format: "fxtrec-stacks",
        version: VERSION,
        over_ns: nanos(blocked.over),
        waits: blocked.waits.len() as u64,
        blocked_ns: nanos(blocked.total()),
        censored: blocked.censored,
        stacks: blocked.places().iter().map(|it| place(blocked, it)).collect(),
        worst: blocked.waits.iter().take(most).map(|wait| worst(blocked, wait)).collect(),
    };
    serde_json::to_writer_pretty(escape::Json(&mut *out), &document)?;
    writeln!(out)
}
