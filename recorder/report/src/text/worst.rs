//! The longest waits, and who caused them.

use std::io::{self, Write};
use std::time::Duration;

use super::grid::printable;
use crate::{Metric, Party, Report, Wait};
use fxtrec_units::text::{count, short};

/// A thread as it is called in sentences: `cc1[1234]`.
pub fn party(party: &Party) -> String {
    format!("{}[{}]", printable(&party.comm, 32), party.tid)
}

/// Who had the CPU meanwhile, the longest first, in one line; at most `most` of them by name.
pub fn antagonists(wait: &Wait, most: usize) -> String {
    let (named, rest) = wait.antagonists.split_at(most.min(wait.antagonists.len()));
    let mut parts: Vec<String> = named
        .iter()
        .map(|antagonist| format!("{} {}", party(&antagonist.thread), short(antagonist.ran)))
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

/// Whose quota a thread waited for.
fn by(wait: &Wait) -> String {
    wait.throttled_by.as_ref().map(|by| format!(" by {}", printable(by, 100))).unwrap_or_default()
}

/// Writes the longest waits.
///
/// # Errors
/// Those of `out`.
pub fn write_worst(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.worst().is_empty() {
        return Ok(());
    }
    writeln!(out, "The longest run-queue waits, and who had the CPU meanwhile:")?;
    for (number, wait) in report.worst().iter().enumerate() {
        let (length, who) = (short(wait.length()), party(&wait.thread));
        let (begin, end) = (wait.span.begin, wait.span.end);
        let cause = match (wait.metric, &wait.waker) {
            (Metric::Preemption, _) => "preempted".to_owned(),
            (_, Some(waker)) => format!("woken by {}", party(waker)),
            (_, None) if wait.by_interrupt => "woken by an interrupt".to_owned(),
            (_, None) => "woken".to_owned(),
        };
        let place = match wait.queued_on == wait.ran_on {
            true => format!("on CPU {}", wait.queued_on),
            false => format!("for CPU {}, came in on CPU {}", wait.queued_on, wait.ran_on),
        };
        writeln!(out, "{:>4}. {length:>8}  {who} {place}, {cause}, {begin} to {end}", number + 1)?;
        for moved in &wait.moves {
            writeln!(
                out,
                "                moved from CPU {} to {} at {}",
                moved.from, moved.to, moved.at
            )?;
        }
        if !wait.throttled.is_zero() {
            writeln!(
                out,
                "                throttled{} for {} besides",
                by(wait),
                short(wait.throttled)
            )?;
        }
        let mut cpus = wait.queued_on.to_string();
        for moved in &wait.moves {
            cpus += &format!(", {}", moved.to);
        }
        writeln!(out, "                CPU {cpus}: {}", antagonists(wait, usize::MAX))?;
    }
    writeln!(out)
}
