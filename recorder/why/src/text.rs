//! Answers for people, each on one screen, and for programs.

use std::io::{self, Write};
use std::time::Duration;

use fxtrec_units::escape;
use fxtrec_units::lock_kind::LockKind;
use fxtrec_units::text::{counted, percent, some, wall_time};

use crate::answer::{Answer, Explanation, Interrupt, Link, Part, Request, Share, Trace, Wait, Who};
use crate::sentence::{OUTSIDE, in_cgroup, name_and_id, nanos};
use crate::{Reason, seconds};

/// The recorder's own time is shown if it is at least this share of the interval.
const RECORDER_SHARE: u64 = 50;

/// Maximum number of rows of the blame, and of links of the chain.
const MOST_PARTS: usize = 8;
const MOST_LINKS: usize = 12;

/// Maximum number of rows of a chain, with those that sum up shorter links.
const MOST_ROWS: usize = 20;

/// Maximum number of threads named in a link for having the CPU.
const MOST_SHARES: usize = 2;

/// The maximum number of files that are named.
const MOST_FILES: usize = 8;

/// The width of a line.
const WIDTH: usize = 100;

/// Writes the answer as JSON.
///
/// # Errors
/// The errors of `out`.
pub fn write_json(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(escape::Json(&mut *out), answer)?;
    writeln!(out)
}

impl Trace {
    /// The time of day of a time in the trace.
    fn wall(&self, time: u64) -> Option<String> {
        self.wall_clock_offset_ns.and_then(|offset| wall_time(time, offset))
    }
}

/// Writes the answer about `file` as text.
///
/// # Errors
/// The errors of `out`.
pub fn write_text(answer: &Answer, file: &str, out: &mut dyn Write) -> io::Result<()> {
    for (at, why) in answer.explanations.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let wall = answer.trace.wall(why.from_ns);
        let begin = wall.map_or_else(String::new, |wall| format!("{wall}  "));
        wrapped_at(0, &begin, &why.sentence, out)?;
        write_explanation(why, out)?;
    }
    write_limits(answer, out)?;
    write_rest(answer, file, out)
}

/// Writes a sentence for each explanation, with the time at which it begins.
///
/// # Errors
/// The errors of `out`.
pub fn write_list(answer: &Answer, file: &str, out: &mut dyn Write) -> io::Result<()> {
    let lines = answer.explanations.iter().map(|why| {
        let wall = answer.trace.wall(why.from_ns);
        let wall = wall.map_or_else(String::new, |wall| format!(" ({wall})"));
        (format!("{}{wall}", seconds(why.from_ns)), why.sentence.as_str())
    });
    write_sentences(lines, out)?;
    write_limits(answer, out)?;
    write_rest(answer, file, out)
}

/// Writes the first sentence about each of several files, with the file and the time at which it begins; then which files are truncated,
/// and which have nothing to explain.
///
/// # Errors
/// The errors of `out`.
pub fn write_files(
    answers: &[(String, Answer)],
    (truncated, silent): (&[String], &[String]),
    out: &mut dyn Write,
) -> io::Result<()> {
    for (at, (file, answer)) in answers.iter().enumerate() {
        let Some(why) = answer.explanations.first() else { continue };
        let wall = answer.trace.wall(why.from_ns);
        let wall = wall.map_or_else(String::new, |wall| format!(" ({wall})"));
        let (file, begin) = (escape::line(file), seconds(why.from_ns));
        let head = format!("{:>3}. {file}: {begin}{wall}  ", at + 1);
        wrapped_at(5, &head, &why.sentence, out)?;
    }
    for (what, files) in [("Truncated:", truncated), ("Nothing to explain in", silent)] {
        let files: Vec<String> = files.iter().map(|file| escape::line(file).into_owned()).collect();
        if !files.is_empty() {
            wrapped("", &format!("{what} {}.", some(&files, MOST_FILES)), out)?;
        }
    }
    Ok(())
}

/// Writes numbered sentences, each after the time at which it begins.
///
/// # Errors
/// The errors of `out`.
pub fn write_sentences<'a>(
    sentences: impl Iterator<Item = (String, &'a str)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (number, (time, sentence)) in (1..).zip(sentences) {
        wrapped_at(5, &format!("{number:>3}. {time}  "), sentence, out)?;
    }
    Ok(())
}

fn write_limits(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    if let Some(text) = &answer.passed_over {
        writeln!(out)?;
        wrapped("", text, out)?;
    }
    if let Some(ran) = answer.trace.recorder_ns {
        let ran = nanos(ran);
        writeln!(out, "\nLeft out: threads of fxtrec, CPU time {ran} (--include-recorder).")?;
    }
    if answer.trace.truncated {
        writeln!(out, "\nThe file is truncated: it ends before the recording did.")?;
    }
    Ok(())
}

/// How to see the rest of COMMAND's run.
fn write_rest(answer: &Answer, file: &str, out: &mut dyn Write) -> io::Result<()> {
    let Some(command) = &answer.part_of else { return Ok(()) };
    let command = escape::line(command);
    writeln!(out, "\nAll of {command}: fxtrec why {} --critical-path", escape::line(file))
}

fn write_explanation(why: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    let (from, to) = (seconds(why.from_ns), seconds(why.to_ns));
    let who = name_and_id(&why.thread);
    writeln!(out, "Where the {} of {who} went, {from} to {to}:", nanos(why.length_ns))?;
    let (shown, rest) = why.blame.split_at(MOST_PARTS.min(why.blame.len()));
    for part in shown {
        let share = share(part.ns, why.length_ns);
        writeln!(out, "{:>10}  {share:>7}  {}", nanos(part.ns), describe(part))?;
    }
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(|part| part.ns).sum();
        let share = share(sum, why.length_ns);
        writeln!(
            out,
            "{:>10}  {share:>7}  {}",
            nanos(sum),
            counted(rest.len() as u64, "more part", "more parts")
        )?;
    }
    if let (Some(usual), Some(median)) = (&why.usual, why.median_ns) {
        wrapped_at(12, &format!("{:>10}  usually: ", nanos(median)), &usually(usual), out)?;
    }
    if why.recorder_ns > why.length_ns / RECORDER_SHARE {
        writeln!(
            out,
            "{:>10}  of these, waiting for CPUs while fxtrec ran",
            nanos(why.recorder_ns)
        )?;
    }
    writeln!(out)?;
    write_chain(why, out)?;
    write_places(why, out)?;
    if !why.advice.is_empty() {
        writeln!(out, "\nWhat to try:")?;
        for advice in &why.advice {
            wrapped("  - ", advice, out)?;
        }
    }
    if !why.missing.is_empty() {
        writeln!(out)?;
        wrapped("", &format!("Not recorded: {}.", why.missing.join("; ")), out)?;
    }
    Ok(())
}

/// The parts of a unit of median length, by kind: the threads that had its CPU, or woke it, are irrelevant.
fn usually(parts: &[Part]) -> String {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for part in parts {
        let kind = match part.part {
            "on_cpu" | "stolen" | "interrupts" | "on_cpu_undivided" => "on the CPU".to_owned(),
            "waiting" => "waiting for a CPU".to_owned(),
            "blocked" => what(part.class, part.syscall.as_deref()),
            other => other.to_owned(),
        };
        match sums.iter_mut().find(|it| it.0 == kind) {
            Some(sum) => sum.1 += part.ns,
            None => sums.push((kind, part.ns)),
        }
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let words = sums.iter().map(|(kind, ns)| format!("{} {kind}", nanos(*ns)));
    words.collect::<Vec<_>>().join(", ")
}

fn share(part: u64, whole: u64) -> String {
    percent(
        Duration::from_nanos(part).as_secs_f64() / Duration::from_nanos(whole.max(1)).as_secs_f64(),
    )
}

/// Text wrapped into lines; all but the first are indented by the length of `begin`.
fn wrapped(begin: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    wrapped_at(begin.chars().count(), begin, text, out)
}

/// Text wrapped into lines; all but the first are indented this far.
fn wrapped_at(indent: usize, begin: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut line = begin.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    writeln!(out, "{line}")
}

fn times(number: u64) -> String {
    if number > 1 { format!(" ({number} times)") } else { String::new() }
}

fn reason(name: Option<&str>) -> &'static str {
    let all = [
        Reason::NotSeen,
        Reason::Lost,
        Reason::NoWakeup,
        Reason::Inferred,
        Reason::OutOfScope,
        Reason::Unplaced,
        Reason::NotKept,
        Reason::NotFollowed,
        Reason::WakerUnseen,
    ];
    all.into_iter().find(|reason| Some(reason.name()) == name).map_or("", Reason::text)
}

/// A part in words.
fn describe(part: &Part) -> String {
    let text = match part.part {
        "on_cpu" => "on the CPU".to_owned(),
        "stolen" => "on the CPU, but the host had taken it".to_owned(),
        "interrupts" => "on the CPU, in interrupts".to_owned(),
        "on_cpu_undivided" => {
            "on the CPU, or taken by the host or interrupts (here or in the rest of the slice)"
                .to_owned()
        }
        "waiting" => match (part.tenant, &part.thread) {
            (Some("thread"), Some(who)) => {
                format!(
                    "waiting for a CPU while {} ran",
                    in_cgroup(name_and_id(who), part.cgroup.as_deref())
                )
            }
            (Some("idle"), _) => "waiting for a CPU that was idle".to_owned(),
            (Some("out_of_scope"), _) => {
                "waiting for a CPU (what ran there is outside the scope)".to_owned()
            }
            _ => "waiting for a CPU (what ran there is unknown)".to_owned(),
        },
        "throttled" => match &part.cgroup {
            Some(cgroup) => format!("throttled by the quota of {}", escape::line(cgroup)),
            None => "throttled by a quota".to_owned(),
        },
        "blocked" => blocked(part.class, part.syscall.as_deref(), part.uninterruptible, part),
        "underway" => "woken, not yet runnable".to_owned(),
        "packet" => "a packet on its way".to_owned(),
        "request" => "a request in the queue of a disk, or in the disk".to_owned(),
        _ => format!("unknown: {}", reason(part.reason)),
    };
    format!("{text}{}", times(part.times))
}

fn blocked(
    class: Option<&str>,
    syscall: Option<&str>,
    uninterruptible: Option<bool>,
    part: &Part,
) -> String {
    let mut text = what(class, syscall).to_owned();
    if uninterruptible == Some(true) {
        text += ", uninterruptibly";
    }
    match (part.ended_by, &part.thread) {
        (Some("thread"), Some(who)) => text += &format!(", until woken by {}", name_and_id(who)),
        (Some("interrupt"), _) => {
            text += &format!(", until woken by {}", cause(part.interrupt.as_ref()));
        }
        (Some("not_yet"), _) => text += ", beyond the end",
        _ => text += "; its waker is unknown",
    }
    text
}

/// The cause of a thread's wakeup.
fn cause(interrupt: Option<&Interrupt>) -> &str {
    interrupt.map_or("an interrupt or a timer", |interrupt| &interrupt.text)
}

/// A sentence for a request that this thread waited for, and how long it took.
pub(crate) fn until_done(request: &Request, waiter: &Who) -> String {
    let Request { text, thread, .. } = request;
    let whose = match thread {
        Some(who) if who.koid == waiter.koid => format!("its {text}"),
        Some(who) => format!("a {text} by {}", name_and_id(who)),
        None => format!("a {text}"),
    };
    match request.times.as_str() {
        "" => format!("{whose} was done"),
        times => format!("{whose} was done ({times})"),
    }
}

/// A sentence for a thread that was blocked, and its system call.
fn what(class: Option<&str>, syscall: Option<&str>) -> String {
    match (class, syscall) {
        (Some("stopped"), _) => "stopped".to_owned(),
        (Some("ended"), _) => "ended".to_owned(),
        (Some("sleep"), Some(call)) => format!("asleep in {call}"),
        (Some("lock"), Some(call)) => format!("blocked in {call} (a lock or a join)"),
        (Some("join"), _) => "blocked joining a thread".to_owned(),
        (Some("kernel_lock"), call) => format!("blocked on a kernel lock {}", in_call(call)),
        (_, Some(call)) => format!("blocked in {call}"),
        (Some("no_syscall"), None) => format!("blocked {OUTSIDE}"),
        _ => "blocked".to_owned(),
    }
}

fn in_call(syscall: Option<&str>) -> String {
    syscall.map_or_else(|| OUTSIDE.to_owned(), |call| format!("in {call}"))
}

fn write_chain(why: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "What it waited for, in order:")?;
    // The longest links; those between them are summed up.
    let mut order: Vec<usize> = (0..why.chain.len()).collect();
    order.sort_by_key(|&at| u64::MAX - (why.chain[at].to_ns - why.chain[at].from_ns));
    let mut shown = vec![false; why.chain.len()];
    for &at in order.iter().take(MOST_LINKS) {
        shown[at] = true;
        if rows(&shown) > MOST_ROWS {
            shown[at] = false;
            break;
        }
    }
    let mut skipped = (0_usize, 0_u64);
    let width = seconds(why.from_ns).len();
    for (link, shown) in why.chain.iter().zip(shown) {
        let length = link.to_ns - link.from_ns;
        if !shown {
            skipped = (skipped.0 + 1, skipped.1 + length);
            continue;
        }
        write_skipped(&mut skipped, width, out)?;
        let at = seconds(link.from_ns);
        let indent = "  ".repeat(link.depth.min(6));
        let text = format!("{}{} {}", indent, name_and_id(&link.thread), describe_link(link));
        writeln!(out, "  {at}  {:>8}  {text}", nanos(length))?;
    }
    write_skipped(&mut skipped, width, out)
}

/// The rows of a chain of which these links are shown: one for each link, and one for each sequence of others.
fn rows(shown: &[bool]) -> usize {
    shown.chunk_by(|a, b| a == b).map(|run| if run[0] { run.len() } else { 1 }).sum()
}

/// Maximum number of stacks shown in which threads were blocked, among those that take a fifth of the interval.
const MOST_PLACES: usize = 3;
const PLACE_SHARE: u64 = 5;

/// Maximum number of functions shown of a stack.
const MOST_FUNCTIONS: usize = 6;

/// Where in their code threads were blocked, if recorded.
fn write_places(why: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    let worth = |wait: &&Wait| {
        (wait.to_ns - wait.from_ns).saturating_mul(PLACE_SHARE) >= why.length_ns
            && wait.stack.is_some()
    };
    let mut places = why.waits.iter().filter(worth).take(MOST_PLACES).peekable();
    if places.peek().is_some() {
        writeln!(out, "\nWhere in the code:")?;
    }
    for wait in places {
        let length = nanos(wait.to_ns - wait.from_ns);
        let lists = [("was blocked", &wait.stack), ("was woken", &wait.waker_stack)];
        for (what, stack) in lists {
            let Some(stack) = stack else { continue };
            let begin = format!("{length:>10}  {} {what} in ", name_and_id(&wait.thread));
            wrapped_at(10 + 2, &begin, &functions(stack), out)?;
        }
        if !wait.stack_lacks.is_empty() {
            wrapped_at(12, &" ".repeat(12), &format!("({})", wait.stack_lacks.join("; ")), out)?;
        }
    }
    Ok(())
}

/// The program's functions, the innermost first, and those of the kernel if there are no others.
fn functions(stack: &[String]) -> String {
    let own = stack.iter().filter(|name| !name.ends_with("_[k]")).collect::<Vec<_>>();
    let all = if own.is_empty() { stack.iter().collect() } else { own };
    let mut words: Vec<String> = all
        .iter()
        .take(MOST_FUNCTIONS)
        .map(|name| escape::line(name).chars().take(80).collect())
        .collect();
    if all.len() > MOST_FUNCTIONS {
        words.push(format!("{} more", all.len() - MOST_FUNCTIONS));
    }
    words.join(" < ")
}

fn write_skipped(skipped: &mut (usize, u64), width: usize, out: &mut dyn Write) -> io::Result<()> {
    let (number, length) = std::mem::take(skipped);
    if number == 0 {
        return Ok(());
    }
    let links = if number == 1 { "shorter link" } else { "shorter links" };
    writeln!(out, "  {:width$}  {:>8}  ({number} {links})", "", nanos(length))
}

fn shares(tenants: &[Share]) -> String {
    let mut words: Vec<String> = Vec::new();
    for share in tenants.iter().take(MOST_SHARES) {
        let who = match (&share.thread, share.tenant) {
            (Some(who), _) => in_cgroup(name_and_id(who), share.cgroup.as_deref()),
            (None, "idle") => "idle".to_owned(),
            (None, "out_of_scope") => "out of scope".to_owned(),
            (None, "others") => "others".to_owned(),
            (None, _) => "unknown".to_owned(),
        };
        words.push(format!("{who} {}", nanos(share.ns)));
    }
    let rest: u64 = tenants.iter().skip(MOST_SHARES).map(|share| share.ns).sum();
    if rest > 0 {
        words.push(format!("{} more {}", tenants.len() - MOST_SHARES, nanos(rest)));
    }
    words.join(", ")
}

/// A link of a chain in words: its thread, its activity, and the reason of its wait.
pub fn describe_link(link: &Link) -> String {
    let cpu = link.cpu_name.as_ref().map(|cpu| format!("CPU {cpu}")).unwrap_or_default();
    match link.state {
        "on_cpu" => {
            let mut text = format!("ran on {cpu}");
            for (what, taken) in [("the host", link.steal_ns), ("interrupts", link.irq_ns)] {
                if let Some(taken) = taken.filter(|taken| *taken > 0) {
                    text += &format!(", {what} took {}", nanos(taken));
                }
            }
            text
        }
        "waiting" => {
            let why = if link.woken_by.is_some() { "waited" } else { "was preempted, waited" };
            format!("{why} for {cpu}: {}", shares(&link.tenants))
        }
        "throttled" => match &link.cgroup {
            Some(cgroup) => format!("was throttled by the quota of {}", escape::line(cgroup)),
            None => "was throttled by a quota".to_owned(),
        },
        "blocked" => {
            let mut text = match (&link.futex, &link.owner) {
                (Some(_), None) if link.end_of.is_some() => {
                    let thread = link.end_of.as_ref().map(name_and_id).unwrap_or_default();
                    format!("was blocked joining {thread}")
                }
                (Some(futex), Some(owner)) => {
                    format!("was blocked on a lock (futex {futex}) held by {}", name_and_id(owner))
                }
                (Some(futex), None) => format!("was blocked in futex ({futex}, unknown owner)"),
                (None, _) if link.kernel_lock.is_some() => {
                    let kind = LockKind::parse(link.kernel_lock_kind.unwrap_or_default());
                    let id = link.kernel_lock_name.as_deref().or(link.kernel_lock.as_deref());
                    let id = escape::line(id.unwrap_or_default());
                    let lock = format!("({} {id}{})", kind.noun(), kind.access());
                    let call = in_call(link.syscall.as_deref());
                    format!("was blocked on a kernel lock {lock} {call}")
                }
                (None, _) => format!("was {}", what(link.class, link.syscall.as_deref())),
            };
            if let Some(object) = &link.object {
                text += &format!(" on {}", object.text);
            }
            match (link.ended_by, &link.waker) {
                (Some("thread"), Some(who)) => {
                    let by = if link.via.is_some() { " (by a packet)" } else { "" };
                    text += &format!(" until woken by {}{by}", name_and_id(who));
                }
                (Some("interrupt"), _) => {
                    text += &match &link.request {
                        Some(request) => format!(" until {}", until_done(request, &link.thread)),
                        None => format!(" until woken by {}", cause(link.interrupt.as_ref())),
                    };
                }
                (Some("not_yet"), _) => text += ", beyond the end",
                _ => text += "; its waker is unknown",
            }
            if link.reason.is_some() {
                text += &format!(" ({})", reason(link.reason));
            }
            text
        }
        "underway" => "was waking the next thread (wakeup still in progress)".to_owned(),
        "packet" => "had sent a packet, which was on its way".to_owned(),
        "request" => {
            let made = link.request.as_ref().map(|it| (it.text.as_str(), it.times.as_str()));
            let (request, times) = made.unwrap_or_default();
            format!("had begun a {request}: {times}")
        }
        _ => format!("unknown: {}", reason(link.reason)),
    }
}
