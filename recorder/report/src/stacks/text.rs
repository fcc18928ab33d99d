//! Blocked times and their stacks as text.

use std::io::{self, Write};
use std::time::Duration;

use fxtrec_sched::backtrace::PROBLEMS;
use fxtrec_units::text::{count, counted, noun, percent, short};

use super::{Blocked, StackWaits, Wait, Waker};
use crate::text::{name_and_id, printable};

/// The maximum width of a function's name.
const NAME: usize = 100;

fn waker(wait: &Wait) -> String {
    match &wait.waker {
        Waker::Thread(thread) => format!("woken by {}", name_and_id(thread)),
        Waker::Interrupt => "woken by an interrupt".to_owned(),
        Waker::Unknown => "woken".to_owned(),
    }
}

/// The functions of a stack, the innermost first, and its missing parts.
fn write_stack(
    blocked: &Blocked,
    stack: Option<usize>,
    problems: u32,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(stack) = stack.and_then(|number| blocked.recorded.all.get(number)) else {
        return writeln!(out, "          no stack");
    };
    for frame in blocked.recorded.frames(stack) {
        let name = printable(&frame.label(), NAME);
        let (outer, inner) = match frame.lines {
            [inner @ .., outer] => (Some(outer), inner),
            [] => (None, &[][..]),
        };
        for line in inner {
            let name = printable(line.function.as_deref().unwrap_or("?"), NAME);
            writeln!(out, "          {name}  {} (inlined)", printable(&line.to_string(), NAME))?;
        }
        match frame.file() {
            _ if frame.in_kernel => writeln!(out, "          {name} [k]")?,
            Some((file, _)) if frame.function.is_some() || outer.is_some() => {
                let line = outer.map(|line| printable(&line.to_string(), NAME) + "  ");
                let line = line.unwrap_or_default();
                writeln!(out, "          {name}  {line}({})", printable(file, NAME))?;
            }
            _ => writeln!(out, "          {name}")?,
        }
    }
    for (_, what) in PROBLEMS.iter().filter(|(bit, _)| problems & bit != 0) {
        writeln!(out, "          ({what})")?;
    }
    Ok(())
}

/// The threads that waited in one location: the one with the longest time, and the number of others.
fn threads(place: &StackWaits<'_>) -> String {
    let mut of: Vec<(u64, Duration, &Wait)> = Vec::new();
    for wait in &place.waits {
        match of.iter_mut().find(|(koid, ..)| *koid == wait.thread.koid.0) {
            Some((_, sum, _)) => *sum += wait.blocked,
            None => of.push((wait.thread.koid.0, wait.blocked, wait)),
        }
    }
    of.sort_by_key(|(_, sum, _)| std::cmp::Reverse(*sum));
    let named: Vec<String> =
        of.iter().take(3).map(|(.., wait)| name_and_id(&wait.thread)).collect();
    match of.len() - named.len() {
        0 => named.join(", "),
        more => format!("{}, {} more", named.join(", "), count(more as u64)),
    }
}

/// Writes the `worst` longest waits with their stacks, and at most `rows` stacks with the time that threads were blocked in each.
///
/// # Errors
/// The errors of `out`.
pub fn write_text(
    blocked: &Blocked,
    (worst, rows): (usize, Option<usize>),
    out: &mut dyn Write,
) -> io::Result<()> {
    let (total, waits) = (blocked.total(), blocked.waits.len() as u64);
    let over = short(blocked.over);
    if waits == 0 {
        return writeln!(out, "None of the selected threads was off its CPU for {over} or longer.");
    }
    let plural = if waits == 1 { "" } else { "s" };
    writeln!(
        out,
        "{} wait{plural} of {over} and longer, in which threads were blocked for {}",
        count(waits),
        short(total)
    )?;
    let without: Vec<&Wait> = blocked.waits.iter().filter(|wait| wait.stack.is_none()).collect();
    if !without.is_empty() {
        let length = short(without.iter().map(|wait| wait.blocked).sum());
        let have = noun(without.len() as u64, "has", "have");
        writeln!(out, "{} of them {have} no stack: {length}", count(without.len() as u64))?;
    }
    if blocked.censored > 0 {
        let number = counted(blocked.censored, "more stack is", "more stacks are");
        writeln!(out, "{number} of waits whose length is unknown")?;
    }
    if worst > 0 {
        writeln!(out, "\nThe longest, innermost function first:")?;
    }
    for (number, wait) in blocked.waits.iter().take(worst).enumerate() {
        let (length, who) = (short(wait.blocked), name_and_id(&wait.thread));
        let seconds =
            |nanos: u64| format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        let end = wait.begin + super::nanos(wait.blocked);
        writeln!(
            out,
            "{:>4}. {length:>8}  {who}, {} to {}, {}",
            number + 1,
            seconds(wait.begin),
            seconds(end),
            waker(wait)
        )?;
        let problems = wait.stack.map_or(0, |number| blocked.recorded.all[number].problems);
        write_stack(blocked, wait.stack, problems, out)?;
        if let Some(stack) = wait.wake_stack {
            writeln!(out, "        woken from:")?;
            write_stack(blocked, Some(stack), blocked.recorded.all[stack].problems, out)?;
        }
    }
    let places = blocked.places();
    let shown = rows.unwrap_or(usize::MAX).min(places.len());
    writeln!(out, "\nBy stack:")?;
    for (number, place) in places.iter().take(shown).enumerate() {
        let share = place.blocked.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
        let waits = place.waits.len() as u64;
        let longest = short(place.waits.first().map_or(Duration::ZERO, |wait| wait.blocked));
        writeln!(
            out,
            "{:>4}. {:>8} {:>7}  {} time{}, at most {longest}: {}",
            number + 1,
            short(place.blocked),
            percent(share),
            count(waits),
            if waits == 1 { "" } else { "s" },
            threads(place)
        )?;
        write_stack(blocked, place.stack, place.problems, out)?;
    }
    if shown < places.len() {
        let more = counted((places.len() - shown) as u64, "more stack", "more stacks");
        writeln!(out, "{more}; --rows 0 shows all")?;
    }
    let stacks = blocked.waits.iter().flat_map(|wait| [wait.stack, wait.wake_stack]);
    let stacks = stacks.flatten().map(|number| &blocked.recorded.all[number]);
    for (number, runtime) in blocked.recorded.nameless_runtimes(stacks).into_iter().enumerate() {
        let gap = if number == 0 { "\n" } else { "" };
        writeln!(out, "{gap}Functions without names: {}", runtime.advice())?;
    }
    Ok(())
}
