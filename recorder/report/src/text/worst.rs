//! The longest waits, and the threads that caused them.

use std::io::{self, Write};
use std::time::Duration;

use super::threads::share;
use crate::{Metric, Recorder, Report, Sleep, Span, ThreadInfo, Wait, WorstSpan};
use fxtrec_units::convention::stand_in;
use fxtrec_units::escape;
use fxtrec_units::grid::printable;
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, short};

/// The maximum number of threads that are listed for having the CPU during the worst wait.
const MOST_NAMED: usize = 2;

/// The name of a thread in sentences: `cc1[1234]`, or `cc1[1234]@host` in a merged trace.
pub fn name_and_id(thread: &ThreadInfo) -> String {
    if let Some(name) = stand_in(&thread.comm, thread.tid) {
        return name.to_owned();
    }
    let host = thread.host.as_deref();
    let host = host.map_or_else(String::new, |host| format!("@{}", printable(host, 24)));
    format!("{}[{}]{host}", printable(&thread.comm, 32), thread.tid)
}

/// The threads that had the CPU during the wait, the longest first, in one line; at most `most` of them by name.
pub fn antagonists(wait: &Wait, most: usize) -> String {
    let (named, rest) = wait.antagonists.split_at(most.min(wait.antagonists.len()));
    let mut parts: Vec<String> = named
        .iter()
        .map(|antagonist| format!("{} {}", name_and_id(&antagonist.thread), short(antagonist.ran)))
        .collect();
    let more = rest.len() as u64 + wait.more_antagonists;
    if more > 0 {
        let ran = wait.others + rest.iter().map(|antagonist| antagonist.ran).sum::<Duration>();
        parts.push(format!("{} more {}", count(more), short(ran)));
    }
    if !wait.idle.is_zero() {
        parts.push(format!("idle {}", short(wait.idle)));
    }
    if !wait.unknown.is_zero() {
        parts.push(format!("unknown {}", short(wait.unknown)));
    }
    if parts.is_empty() { "nobody".to_owned() } else { parts.join(", ") }
}

/// The cgroup whose quota a thread waited for.
fn by(wait: &Wait) -> String {
    wait.throttled_by.as_ref().map(|by| format!(" by {}", printable(by, 100))).unwrap_or_default()
}

/// The worst delay, which `fxtrec why` explains, too: its length, and the reason of the wait. A span of a program takes precedence over all
/// delays.
pub fn worst_of_all(report: &Report) -> Option<(&'static str, String)> {
    let of_spans = report.spans.as_ref().and_then(|spans| spans.worst.as_ref());
    if let Some(worst) = of_spans.or(report.worst_span.as_ref()) {
        let WorstSpan { name, thread, span, count: number, median } = worst;
        let (length, name, end) = (short(span.length()), printable(name, 40), span.end);
        let (median, number) = (short(*median), count(*number));
        let text =
            format!("{length}: {name} on {thread}, until {end} (median {median} of {number})");
        return Some(("worst span", text));
    }
    let delay = report.delay.as_ref()?;
    let wait = report.wait_of_delay();
    let (length, who) = (short(delay.span.length()), name_and_id(&delay.thread));
    let there = |wait: &Wait| {
        let ran = antagonists(wait, MOST_NAMED);
        format!(" for CPU {}; ran instead: {ran}", report.cpu_name(wait.queued_on))
    };
    if delay.span.begin == delay.able {
        let there = wait.map_or_else(String::new, there);
        return Some(("worst wait", format!("{length}: {who}{there}")));
    }
    let blocked = Span { begin: delay.span.begin, end: delay.able }.length();
    let waited = Span { begin: delay.able, end: delay.span.end }.length();
    let call = in_call(report, delay.call);
    let until = delay.waker.as_ref().map(|waker| format!(" until woken by {}", name_and_id(waker)));
    let until = until.unwrap_or_default();
    let mut sleeps = report.threads.iter().flat_map(|thread| &thread.sleeps);
    let is_it = |sleep: &&Sleep| {
        (sleep.thread.koid, sleep.span.begin) == (delay.thread.koid, delay.span.begin)
    };
    let on = sleeps.find(is_it).map_or_else(String::new, on);
    let mut text = format!("{length}: {who} was blocked{call}{on} for {}{until}", short(blocked));
    match wait.filter(|_| waited.saturating_mul(10) >= blocked) {
        Some(wait) => text += &format!(", then waited {}{}", short(waited), there(wait)),
        None => text += &format!(", then waited {} for a CPU", short(waited)),
    }
    Some(("worst delay", text))
}

/// The object that a thread waited for, after its system call.
fn on(sleep: &Sleep) -> String {
    let what = sleep.waited_for.as_ref();
    what.map_or_else(String::new, |what| format!(" on {}", escape::line(what)))
}

/// The cost of the recorder's own threads, if they are left out.
pub fn recorder_line(report: &Report) -> Option<String> {
    let Recorder { threads, stats } = report.recorder.as_ref()?;
    let ran = short(stats.cpu_time);
    let (threads, what) = (count(*threads), if *threads == 1 { "thread" } else { "threads" });
    let waits = stats.metric(Metric::RunQueue).max();
    let waited = waits.map_or_else(String::new, |max| format!(", longest wait {}", short(max)));
    Some(format!("{threads} {what} of fxtrec: CPU time {ran}{waited} (--include-recorder)"))
}

/// At most `most` of the longest waits: those of COMMAND's threads first, followed by others.
fn waits(report: &Report, most: usize) -> Vec<&Wait> {
    let mine = report.worst_of_command();
    let is_mine = |wait: &&Wait| {
        mine.iter().any(|it| (it.thread.koid, it.span) == (wait.thread.koid, wait.span))
    };
    let others: Vec<&Wait> = report.worst().iter().filter(|wait| !is_mine(wait)).collect();
    let (first, rest) = share(most, mine.len(), others.len());
    mine[..first].iter().chain(others[..rest].iter().copied()).collect()
}

/// Writes the longest waits, at most `most`; those of COMMAND's threads first. For each wait, `named` of the threads that had the CPU are
/// listed.
///
/// # Errors
/// The errors of `out`.
pub fn write_worst(
    report: &Report,
    most: usize,
    named: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let waits = waits(report, most);
    let worst = worst_of_all(report).filter(|_| most > 0);
    if let Some((what, text)) = &worst {
        writeln!(out, "{} {text}", look.heading(&format!("The {what}:")))?;
    }
    if waits.is_empty() {
        if worst.is_some() {
            writeln!(out)?;
        }
        return Ok(());
    }
    let title = "The longest run-queue waits, and what ran instead:";
    writeln!(out, "{}", look.heading(title))?;
    for (number, wait) in waits.into_iter().enumerate() {
        let (length, who) = (short(wait.length()), name_and_id(&wait.thread));
        let (begin, end) = (wait.span.begin, wait.span.end);
        let cause = match (wait.metric, &wait.waker) {
            (Metric::Preemption, _) => "preempted".to_owned(),
            (_, Some(waker)) => format!("woken by {}", name_and_id(waker)),
            (_, None) if wait.by_interrupt => "woken by an interrupt".to_owned(),
            (_, None) => "woken".to_owned(),
        };
        let cpu = |cpu| report.cpu_name(cpu);
        let place = match wait.queued_on == wait.ran_on {
            true => format!("on CPU {}", cpu(wait.queued_on)),
            false => {
                format!("for CPU {}, switched in on CPU {}", cpu(wait.queued_on), cpu(wait.ran_on))
            }
        };
        let of = wait.trace.and_then(|at| report.traces.get(at));
        let of = of.map_or_else(String::new, |row| format!(" of {}", printable(&row.name, 100)));
        writeln!(
            out,
            "{:>4}. {length:>8}  {who} {place}, {cause}, {begin} to {end}{of}",
            number + 1
        )?;
        for moved in &wait.moves {
            writeln!(
                out,
                "                moved from CPU {} to {} at {}",
                cpu(moved.from),
                cpu(moved.to),
                moved.at
            )?;
        }
        if !wait.throttled.is_zero() {
            writeln!(
                out,
                "                also throttled{} for {}",
                by(wait),
                short(wait.throttled)
            )?;
        }
        let mut cpus = cpu(wait.queued_on);
        for moved in &wait.moves {
            cpus += &format!(", {}", cpu(moved.to));
        }
        writeln!(out, "                CPU {cpus}: {}", antagonists(wait, named))?;
    }
    writeln!(out)
}

/// The system call in which a thread was blocked: `futex`, or nothing if unknown.
fn in_call(report: &Report, call: Option<u16>) -> String {
    let call = call.map(|number| match report.call_name(number) {
        Some(name) => format!(" in {name}"),
        None => format!(" in system call {number}"),
    });
    call.unwrap_or_default()
}

/// Writes the longest blocked times of threads, at most `most`.
///
/// # Errors
/// The errors of `out`.
pub fn write_blocked(
    report: &Report,
    most: usize,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let blocked = report.blocked();
    if blocked.sleeps.is_empty() {
        return Ok(());
    }
    let kind = if blocked.only_uninterruptible { "uninterruptibly blocked" } else { "blocked" };
    let title = format!("The longest {kind} times of each thread, and who woke it:");
    writeln!(out, "{}", look.heading(&title))?;
    for (number, sleep) in blocked.sleeps.iter().take(most).enumerate() {
        let (length, who) = (short(sleep.span.length()), name_and_id(&sleep.thread));
        let how = match sleep.metric {
            Metric::BlockedUninterruptible if !blocked.only_uninterruptible => ", uninterruptibly",
            _ => "",
        };
        let woken = match &sleep.waker {
            Some(waker) => format!("woken by {}", name_and_id(waker)),
            None if sleep.by_interrupt => "woken by an interrupt or a timer".to_owned(),
            None => "woken".to_owned(),
        };
        let (begin, end) = (sleep.span.begin, sleep.span.end);
        let call = in_call(report, sleep.call);
        let on = on(sleep);
        writeln!(
            out,
            "{:>4}. {length:>8}  {who} blocked{call}{on}{how}, {woken}, {begin} to {end}",
            number + 1
        )?;
    }
    writeln!(out)
}
