//! A line: thread, CPU, time and event.
//!
//! The kernel, trace-cmd and perf write the same parts in different layouts. All of them have the time, which ends with a colon. So a line
//! is parsed from there: the text before the time from its end, the text after it from its beginning.
//!
//! ```text
//!   tracefs     bash-1234    (   1234) [001] d..2.  6604.134063: sched_switch: ...
//!   atrace      bash-1234    (   1234) [001] d..2.6604.134063: sched_switch: ...
//!   latency     bash-1234     1d..2. 6604134063us+: sched_switch: ...
//!   trace-cmd   web: bash-1234 [001]  6604.134063: (+46) sched_switch: ...
//!   perf        bash  1234/1234 [001]  6604.134063:  1  sched:sched_switch: ...
//!               task            CPU    time             event
//! ```

use super::body;
use super::header::Columns;
use fxtrec_capture::event::{Comm, Kind, Loss};
use fxtrec_units::{Cpu, Nanos, Tid};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Line {
    /// A comment, a frame of a stack, or an empty line.
    Nothing,
    Lost {
        cpu: Cpu,
        loss: Loss,
    },
    /// A scheduler event.
    Event {
        time: Nanos,
        cpu: Cpu,
        kind: Kind,
        task: Task,
    },
    /// Any other event.
    Other {
        task: Task,
    },
}

/// The reason why a line is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The position, in bytes.
    pub(super) column: usize,
    /// What was expected there.
    pub(super) expected: &'static str,
}

/// The thread that has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) tid: Tid,
    /// Its process, if the line has it.
    pub(super) process: Option<u32>,
    /// Its full name, if the line has it.
    pub(super) comm: Comm,
}

/// The part of a line before the event's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) task: Task,
    cpu: Cpu,
    time: Nanos,
    /// Whether an interrupt, and not the thread, caused the event; `None` if the text has no flags.
    interrupt: Option<bool>,
    /// Whether the time has no decimals, so that its unit is a guess.
    pub(super) plain_time: bool,
}

impl Head {
    #[cfg(test)]
    pub(super) fn of_task(tid: Tid) -> Head {
        let task = Task { tid, process: None, comm: Comm::default() };
        Head { task, cpu: Cpu(0), time: Nanos(0), interrupt: Some(false), plain_time: false }
    }

    /// Whether the thread itself caused the event, according to the text.
    pub(super) fn is_by_task(&self) -> bool {
        self.interrupt == Some(false) && self.task.tid != Tid::IDLE
    }
}

/// Beginnings of lines that are not events: from trace-cmd report, from atrace, and frames of kernel stacks.
const NO_EVENTS: [&str; 7] =
    ["cpus=", "version = ", "trace-cmd: ", "CPU ", "TRACE:", "capturing trace", " => "];

/// The maximum number of parts of a line that are tried as the time: a thread's name has room for few.
const MOST_TIMES: usize = 8;

/// The maximum length of a thread's name in layouts for latencies, in bytes.
const SHORT_NAME_BYTES: usize = 8;

/// Parses a line without its line break. `columns` has what earlier lines show about the layout.
pub(super) fn parse(line: &str, columns: &mut Columns) -> Result<Line, Problem> {
    if line.starts_with('#') {
        columns.comment(line);
        return Ok(Line::Nothing);
    }
    if line.trim().is_empty() || NO_EVENTS.iter().any(|no| line.starts_with(no)) || is_frame(line) {
        return Ok(Line::Nothing);
    }
    if let Some(lost) = lost(line) {
        return Ok(lost);
    }
    let problem = |part: &str, expected| Problem { column: offset(line, part), expected };
    let (head, rest) = head(line, columns).map_err(|(part, expected)| problem(part, expected))?;
    columns.plain_times += u64::from(head.plain_time);
    let (cpu, time, task) = (head.cpu, head.time, head.task);
    let event = event_text(rest);
    if let Some(lost) = perf_lost(event, cpu) {
        return Ok(lost);
    }
    let Some((name, text)) = event_of(event) else {
        // Lines of function tracers and perf's own records have no colon.
        return match event.contains(" <-") || event.starts_with("PERF_RECORD_") {
            true => Ok(Line::Other { task }),
            false => Err(problem(rest, "an event and a colon")),
        };
    };
    match body::parse(name, text, head) {
        Some(Ok(kind)) => Ok(Line::Event { time, cpu, kind, task }),
        Some(Err(expected)) => Err(problem(text, expected)),
        None => Ok(Line::Other { task }),
    }
}

/// The offset of `part` in `line`.
fn offset(line: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize).min(line.len())
}

/// Whether the line is a frame of a stack in perf's format: an address, a name, a file in parentheses.
fn is_frame(line: &str) -> bool {
    let Some((address, file)) = line.strip_prefix('\t').and_then(|it| it.trim().split_once(' '))
    else {
        return false;
    };
    address.bytes().all(|byte| byte.is_ascii_hexdigit()) && file.ends_with(')')
}

/// The kernel's `CPU:1 [LOST 123 EVENTS]`, trace-cmd's `CPU:1 [123 EVENTS DROPPED]`; in both, the count may be absent.
fn lost(line: &str) -> Option<Line> {
    let (cpu, rest) = line.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let words = rest.strip_suffix(']')?;
    let reported = words.starts_with("LOST") || words.ends_with("DROPPED");
    let count = words.split(' ').find_map(|word| word.parse().ok());
    let loss = count.map_or(Loss::unknown(), Loss::exactly);
    reported.then_some(Line::Lost { cpu: Cpu(cpu.trim().parse().ok()?), loss })
}

/// `PERF_RECORD_LOST lost 12`.
fn perf_lost(event: &str, cpu: Cpu) -> Option<Line> {
    let count = event.strip_prefix("PERF_RECORD_LOST lost ")?.trim().parse().ok()?;
    Some(Line::Lost { cpu, loss: Loss::at_most(count) })
}

/// The event's text, after trace-cmd's time difference or perf's period.
fn event_text(rest: &str) -> &str {
    let rest = rest.trim();
    let (word, behind) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let difference = word.strip_prefix("(+").and_then(|word| word.strip_suffix(')'));
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
    match is_number(difference.unwrap_or(word)) {
        true => behind.trim_start(),
        false => rest,
    }
}

/// The event's name without its group, and its text.
fn event_of(event: &str) -> Option<(&str, &str)> {
    let (mut name, mut text) = event.split_once(':')?;
    if let Some((inner, behind)) = text.split_once(':')
        && !name.contains(' ')
        && !inner.contains([' ', '='])
        && !inner.is_empty()
    {
        (name, text) = (inner, behind);
    }
    Some((name, text.trim()))
}

/// The part of the line at which something is missing, and what is missing.
type Missing<'l> = (&'l str, &'static str);

/// Parses the part before the event.
fn head<'l>(line: &'l str, columns: &mut Columns) -> Result<(Head, &'l str), Missing<'l>> {
    if let Some(found) = verbose(line) {
        return Ok(found);
    }
    let mut missing = (&line[..0], "TASK-PID [CPU] and a time with a colon");
    let times = line.match_indices(':').filter_map(|(at, _)| {
        time_before(&line[..at], columns).map(|(time, before)| (at, time, before))
    });
    let times: Vec<_> = times.take(MOST_TIMES).collect();
    for (at, time, before) in times {
        match place(before, columns) {
            Ok(place) => {
                let Place { task, cpu, flags } = place;
                let interrupt = flags.map(|flags| columns.in_interrupt(flags));
                let Time { nanos: time, plain: plain_time } = time;
                let head = Head { task, cpu, time, interrupt, plain_time };
                return Ok((head, &line[at + 1..]));
            }
            // A name may look like a CPU and a time, too; the first error is about the most likely position.
            Err(why) if missing.0.is_empty() => missing = why.unwrap_or(missing),
            Err(_) => {}
        }
    }
    Err(missing)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    nanos: Nanos,
    /// Whether it has no decimals and no unit.
    plain: bool,
}

/// The time at the end of `text`, and the text before it. The time may be followed by `us` and a mark for the delay. Flags may precede it
/// directly, with a dot or digits at their end.
fn time_before<'l>(text: &'l str, columns: &Columns) -> Option<(Time, &'l str)> {
    let trimmed = text.trim_end_matches(['+', '!', '#', '*', '@', '$', ' ']);
    if let Some(text) = trimmed.strip_suffix("us") {
        let (before, digits) = split_digits(text);
        let micros: u64 = digits.parse().ok()?;
        return Some((Time { nanos: Nanos(micros.checked_mul(1000)?), plain: false }, before));
    }
    let (before, digits) = split_digits(text);
    let Some(before) = before.strip_suffix('.').filter(|_| !digits.is_empty()) else {
        let nanos = digits.parse().ok().map(Nanos)?;
        let apart = before.is_empty() || before.ends_with([' ', '\t', ']']);
        return apart.then_some((Time { nanos, plain: true }, before));
    };
    let fraction = digits;
    let (before, seconds) = split_digits(before);
    let seconds = match before.is_empty() || before.ends_with([' ', '\t', ']']) {
        true => seconds,
        // `d..2.42.000001`: the number of flags is known from the header or from an earlier line, or only one number is possible.
        false => {
            let word = before.rfind([' ', '\t', ']']).map_or(0, |at| at + 1);
            let glued = text.get(word..before.len() + seconds.len())?;
            let flags = columns.flags_of(glued)?;
            let end = word + flags;
            let nanos = nanoseconds(text.get(end..before.len() + seconds.len())?, fraction)?;
            return Some((Time { nanos, plain: false }, &text[..end]));
        }
    };
    let nanos = nanoseconds(seconds, fraction)?;
    Some((Time { nanos, plain: false }, before))
}

/// The decimal digits at the end of a string, and the text before them.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.trim_end_matches(|it: char| it.is_ascii_digit()).len())
}

/// Seconds with up to nine decimals.
fn nanoseconds(seconds: &str, fraction: &str) -> Option<Nanos> {
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let fraction: u64 = fraction.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    let nanoseconds = fraction * 10u64.pow(9 - digits);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds).map(Nanos)
}

/// The part before the time.
struct Place<'l> {
    task: Task,
    cpu: Cpu,
    flags: Option<&'l str>,
}

/// Parses the part before the time, from its end. An error without a message means that this is not an event line at all.
fn place<'l>(before: &'l str, columns: &mut Columns) -> Result<Place<'l>, Option<Missing<'l>>> {
    let before = before.trim_end();
    let (rest, word) = before.split_at(before.rfind([' ', '\t', ']']).map_or(0, |at| at + 1));
    // A bracket may directly precede the flags: `[000]d..2.`.
    let has_flags = Columns::are_flags(word);
    let (numbered, flags) = if has_flags { (rest, Some(word)) } else { (before, None) };
    let numbered = numbered.trim_end();
    if let Some(open) = numbered.strip_suffix(']')
        && let Some((task, cpu)) = open.rsplit_once('[')
        && let Ok(cpu) = cpu.trim().parse()
    {
        let found = task_of(task, true).ok_or(Some((task.trim_start(), "TASK-PID")))?;
        if let Some(flags) = flags {
            columns.seen(flags.len());
        }
        return Ok(Place { task: found, cpu: Cpu(cpu), flags });
    }
    // In layouts for latencies, where names are short, the CPU's number has no brackets: `  1d..2.`.
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (cpu, flags) = word.split_at(digits);
    let cpu = cpu.parse().map_err(|_| None)?;
    let flags = (!flags.is_empty()).then_some(flags);
    if flags.is_some_and(|flags| !Columns::are_flags(flags)) {
        return Err(None);
    }
    let rest = without_instance(rest);
    let is_short = rest.get(..SHORT_NAME_BYTES).is_some_and(|name| !name.trim().is_empty())
        && matches!(rest.as_bytes().get(SHORT_NAME_BYTES), Some(b'-' | b' '));
    let task = task_of(rest, false).filter(|_| is_short).ok_or(None)?;
    Ok(Place { task, cpu: Cpu(cpu), flags })
}

/// The line without the name of the instance or file with which trace-cmd prefixes each line.
fn without_instance(text: &str) -> &str {
    match text.split_once(": ") {
        Some((instance, task)) if !instance.trim().is_empty() && !instance.contains(' ') => {
            // Names of instances are padded after the colon; the column of threads has its own width.
            task
        }
        _ => text,
    }
}

/// The thread in `TASK-PID`, `TASK PID` or `TASK PID/TID`, optionally followed by the process in parentheses. `whole` means that names are
/// not cut.
fn task_of(text: &str, whole: bool) -> Option<Task> {
    let text = text.trim_end();
    let (text, process) = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((task, process)) if !process.trim().is_empty() => {
            let number = process.trim().parse().ok();
            let known = number.is_some() || process.bytes().all(|byte| byte == b'-');
            if known { (task.trim_end(), number) } else { (text, None) }
        }
        _ => (text, None),
    };
    let by_dash =
        text.rsplit_once('-').and_then(|(name, tid)| Some((name, process, tid.parse().ok()?)));
    let (name, process, tid) = match by_dash {
        Some(found) => found,
        None => {
            let (name, ids) = text.split_at(text.rfind([' ', '\t'])?);
            let (process, tid) = match ids.trim().split_once('/') {
                Some((process, tid)) => (Some(process.parse().ok()?), tid),
                None => (None, ids.trim()),
            };
            (name, process, tid.parse().ok()?)
        }
    };
    let comm = if whole {
        body::comm(without_instance(name.trim_start()).trim())
    } else {
        Comm::default()
    };
    Some(Task { tid: Tid(tid), process: process.filter(|pid| *pid != 0), comm })
}

/// The layout for ftrace's options `latency-format` and `verbose` together:
///
/// ```text
///   bash   16508   0 9 00000002 00000006 [3b932899] 999499.929ms (+0.006ms): sched_waking: ...
///   name   thread  CPU, flags as a number, preemption, place
/// ```
fn verbose(line: &str) -> Option<(Head, &str)> {
    // Bits of the number.
    const INTERRUPTS: u32 = 0x08 | 0x10 | 0x40;
    let at = line.find("ms (+")?;
    let end = at + line[at..].find("ms): ")? + "ms):".len();
    let mut words = line[..at].rsplit([' ', '\t']).filter(|word| !word.is_empty());
    let (millis, micros) = words.next()?.split_once('.')?;
    let stamp = words.next()?;
    stamp.strip_prefix('[')?.strip_suffix(']')?;
    let (_place, _preemption) = (words.next()?, words.next()?);
    let flags: u32 = words.next()?.parse().ok()?;
    let cpu = Cpu(words.next()?.parse().ok()?);
    let tid = words.next()?;
    let name = &line[..offset(line, tid)];
    let millis: u64 = millis.parse().ok()?;
    let micros: u64 = micros.parse().ok().filter(|micros| *micros < 1000)?;
    let time = Nanos(millis.checked_mul(1000)?.checked_add(micros)?.checked_mul(1000)?);
    let task = Task { tid: Tid(tid.parse().ok()?), process: None, comm: body::comm(name.trim()) };
    let interrupt = Some(flags & INTERRUPTS != 0);
    Some((Head { task, cpu, time, interrupt, plain_time: false }, &line[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxtrec_capture::event::Waker;

    fn parsed(line: &str) -> Result<Line, Problem> {
        parse(line, &mut Columns::default())
    }

    fn event(line: &str) -> (u64, u32, Kind, Task) {
        match parsed(line) {
            Ok(Line::Event { time, cpu, kind, task }) => (time.0, cpu.0, kind, task),
            other => panic!("{line}: {other:?}"),
        }
    }

    const SWITCH: &str = "sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";
    const WAKE: &str = "sched_wakeup: comm=b pid=9 prio=120 target_cpu=001";

    #[test]
    fn every_layout_tells_time_cpu_thread_and_whether_an_interrupt_woke() {
        // The part before the event: time, CPU, process and name; and whether the thread itself caused the event, if known.
        let short = Comm::default();
        let name = Comm::from_bytes(b"a b");
        for (head, time, cpu, process, comm, woke) in [
            (
                "             a b-7     [001] d..2.  6604.134063: ",
                6_604_134_063_000,
                1,
                None,
                name,
                true,
            ),
            (
                "             a b-7     [001] d..2   6604.134063: ",
                6_604_134_063_000,
                1,
                None,
                name,
                true,
            ),
            (
                "             a b-7     [001] d.h2.  6604.134063: ",
                6_604_134_063_000,
                1,
                None,
                name,
                false,
            ),
            (
                "             a b-7     [001] d..s2..  6604.134063: ",
                6_604_134_063_000,
                1,
                None,
                name,
                false,
            ),
            (
                "   a b-7     (  70) [012] ..... 1.000000001: ",
                1_000_000_001,
                12,
                Some(70),
                name,
                true,
            ),
            ("   a b-7     (-----) [000] d..2.42.000001: ", 42_000_001_000, 0, None, name, true),
            ("   a b-7     (-----) [000] dNsa. 42.000501: ", 42_000_501_000, 0, None, name, false),
            ("   a b-7     [000]42000501: ", 42_000_501, 0, None, name, false),
            ("   a b-7     [000]  42.5: ", 42_500_000_000, 0, None, name, false),
            ("     a b-7       1d..2. 999498379us+: ", 999_498_379_000, 1, None, short, true),
            ("     a b-7       1dNs3. 999498379us : ", 999_498_379_000, 1, None, short, false),
            ("     a b-7       1d..2.  1041.294867: ", 1_041_294_867_000, 1, None, short, true),
            (
                "web:      a b-7       1d..2.  1041.294867: ",
                1_041_294_867_000,
                1,
                None,
                short,
                true,
            ),
            (
                "web:             a b-7     [001]  1041.294867: (+46)    ",
                1_041_294_867_000,
                1,
                None,
                name,
                false,
            ),
            (
                "             a b     7 [001]  1016.315787:     sched:",
                1_016_315_787_000,
                1,
                None,
                name,
                false,
            ),
            ("a b 7 [001] 1016.315787: sched:", 1_016_315_787_000, 1, None, name, false),
            (
                "  a b    70/7    [001]  1016.315787116:     1   sched:",
                1_016_315_787_116,
                1,
                Some(70),
                name,
                false,
            ),
            (
                "     a b     7   1  1016.315787:     sched:",
                1_016_315_787_000,
                1,
                None,
                short,
                false,
            ),
            (
                "   a b   7   1 1 00000002 0000000c [3b93292c] 999500.076ms (+0.005ms): ",
                999_500_076_000,
                1,
                None,
                name,
                true,
            ),
            (
                "   a b   7   1 9 00000002 0000000c [3b93292c] 999500.076ms (+0.005ms): ",
                999_500_076_000,
                1,
                None,
                name,
                false,
            ),
        ] {
            let (found, at, _, task) = event(&format!("{head}{SWITCH}"));
            assert_eq!((found, at), (time, cpu), "{head}");
            assert_eq!(task, Task { tid: Tid(7), process, comm }, "{head}");
            let (.., kind, _) = event(&format!("{head}{WAKE}"));
            let Kind::Wake(wake) = kind else { panic!("{kind:?}") };
            assert_eq!((wake.by == Waker::Task(Tid(7)), wake.current), (woke, Tid(7)), "{head}");
        }
        let (.., kind, _) = event(&format!("  <idle>-0     [001] d..2.  1.5: {WAKE}"));
        assert!(matches!(kind, Kind::Wake(wake) if wake.by == Waker::Unknown), "idle wakes nobody");
    }

    #[test]
    fn names_that_look_like_other_columns_are_names() {
        let (time, cpu, _, task) =
            event(&format!("   x-[2] 1.5: d-7     (-------) [012] ..... 3.5: {SWITCH}"));
        assert_eq!((time, cpu, task.tid), (3_500_000_000, 12, Tid(7)));
        assert_eq!(task.comm, Comm::from_bytes(b"x-[2] 1.5: d"));
        for none in ["<...>", "<idle>"] {
            let (.., task) = event(&format!("   {none}-7 [012] ..... 3.5: {SWITCH}"));
            assert_eq!(task.comm, Comm::default());
        }
        // Fields without a CPU, with a thread name that looks like one.
        parsed(&format!("        thread 3 17576  1016.315787:     sched:{SWITCH}"))
            .expect_err("no CPU");
    }

    #[test]
    fn comments_losses_frames_and_other_events_are_distinguished() {
        for nothing in [
            "# tracer: nop",
            "cpus=2",
            "TRACE:",
            "",
            " => schedule",
            "\tffffffff8139bab9 schedule+0x29 ([kernel.kallsyms])",
        ] {
            assert_eq!(parsed(nothing), Ok(Line::Nothing), "{nothing}");
        }
        let lost = |loss| Ok(Line::Lost { cpu: Cpu(3), loss });
        assert_eq!(parsed("CPU:3 [LOST 12 EVENTS]"), lost(Loss::exactly(12)));
        assert_eq!(parsed("CPU:3 [12 EVENTS DROPPED]"), lost(Loss::exactly(12)));
        assert_eq!(parsed("CPU:3 [LOST EVENTS]"), lost(Loss::unknown()));
        assert_eq!(parsed("CPU:3 [EVENTS DROPPED]"), lost(Loss::unknown()));
        assert_eq!(parsed("  a 7 [003] 1.5: PERF_RECORD_LOST lost 12"), lost(Loss::at_most(12)));
        for other in [
            "sys_enter: NR 1",
            "schedule <-worker",
            "PERF_RECORD_SWITCH IN",
            "tracing_mark_write: B|1|x",
        ] {
            assert!(
                matches!(parsed(&format!("  a-7 [000] 1.5: {other}")), Ok(Line::Other { .. })),
                "{other}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_reported_with_its_place() {
        let expected = |line: &str| parsed(line).expect_err("it is not whole");
        assert_eq!(expected("nonsense").column, 0);
        let problem = expected("  a-x [000] 1.5: sched_switch: ");
        assert_eq!(problem, Problem { column: 2, expected: "TASK-PID" });
        let problem = expected("  a-7 [000] 1.5: sched_switch: prev_comm=a");
        assert_eq!(problem.column, 31);
        let problem = expected("  a-7 [000] 1.5: no event");
        assert_eq!(problem.expected, "an event and a colon");
    }

    #[test]
    fn any_beginning_of_a_line_is_read_without_harm() {
        for line in [
            format!("   a b-7     (   7) [012] ..... 1.000000001: {SWITCH}"),
            format!(
                "   a b   7   1 9 00000002 0000000c [3b93292c] 999500.076ms (+0.005ms): {WAKE}"
            ),
            format!("lto cgü.-16482     0dNs3. 999498379us+: {WAKE}"),
        ] {
            for len in (0..line.len()).filter(|len| line.is_char_boundary(*len)) {
                let _ = parsed(&line[..len]);
            }
        }
    }
}
