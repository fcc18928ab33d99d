//! One line: who ran where and when, and what is told.

use super::body;
use fxtrec_capture::event::Kind;
use fxtrec_units::{Cpu, Nanos, Tid};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Line {
    /// Nothing: a comment, or an empty line.
    Nothing,
    Lost {
        cpu: Cpu,
        count: u64,
    },
    /// An event of the scheduler.
    Event {
        time: Nanos,
        cpu: Cpu,
        kind: Kind,
    },
    Other,
}

/// Why a line cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The byte where.
    pub(super) column: usize,
    /// What should have been there.
    pub(super) expected: &'static str,
}

/// What stands before the event's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) current: Tid,
    /// Whether that thread did it, and no interrupt; where the text has no flags, that is not known.
    pub(super) from_task: bool,
}

/// Lines of `trace-cmd report` that are no events.
const NO_EVENTS: [&str; 4] = ["cpus=", "version = ", "trace-cmd: ", "CPU "];

/// Parses a line without its end.
pub(super) fn parse(line: &str) -> Result<Line, Problem> {
    if line.trim().is_empty()
        || line.starts_with('#')
        || NO_EVENTS.iter().any(|no| line.starts_with(no))
    {
        return Ok(Line::Nothing);
    }
    if let Some(lost) = lost(line) {
        return Ok(lost);
    }
    let problem = |part: &str, expected| Problem { column: offset(line, part), expected };
    let (before, cpu, after) =
        cpu_of(line).ok_or(Problem { column: 0, expected: "TASK-PID [CPU]" })?;
    let current = current(before).ok_or(problem(before.trim_start(), "TASK-PID"))?;
    let (flags, time, rest) = time_of(after).ok_or(problem(after, "a time and a colon"))?;
    let (name, text) =
        rest.trim_start().split_once(':').ok_or(problem(rest, "an event and a colon"))?;
    let text = text.trim();
    let is_task = flags.is_some_and(|flags| !in_interrupt(flags)) && current != Tid::IDLE;
    match body::parse(name, text, Head { current, from_task: is_task }) {
        Some(Ok(kind)) => Ok(Line::Event { time, cpu, kind }),
        Some(Err(expected)) => Err(problem(text, expected)),
        None => Ok(Line::Other),
    }
}

/// Where `part` begins, which is a part of `line`.
fn offset(line: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize).min(line.len())
}

/// `CPU:1 [LOST 123 EVENTS]` or `CPU:1 [123 EVENTS DROPPED]`.
fn lost(line: &str) -> Option<Line> {
    let (cpu, rest) = line.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let words = rest.strip_suffix(']')?;
    let count = words.split(' ').find_map(|word| word.parse().ok())?;
    let told = words.starts_with("LOST") || words.ends_with("DROPPED");
    told.then_some(Line::Lost { cpu: Cpu(cpu.parse().ok()?), count })
}

/// What stands before and after `[000]`. A task's name may have brackets too; the last ones before the time count.
fn cpu_of(line: &str) -> Option<(&str, Cpu, &str)> {
    line.match_indices(" [").find_map(|(at, _)| {
        let (number, after) = line[at + 2..].split_once(']')?;
        let cpu = number.trim().parse().ok()?;
        // Behind it are flags or a time, and not the rest of a name.
        time_of(after).map(|_| (&line[..at], Cpu(cpu), after))
    })
}

/// The thread of `TASK-PID`, behind which the process may stand in parentheses.
fn current(before: &str) -> Option<Tid> {
    let before = before.trim_end();
    let task = match before.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((task, process))
            if process.trim().trim_matches('-').parse::<u32>().is_ok()
                || process.contains("---") =>
        {
            task
        }
        _ => before,
    };
    task.trim_end().rsplit_once('-')?.1.parse().ok().map(Tid)
}

/// Flags, where there are some; the time; and what is behind its colon.
fn time_of(after: &str) -> Option<(Option<&str>, Nanos, &str)> {
    let mut flags = None;
    let mut rest = after.trim_start();
    loop {
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if let Some(time) = word.strip_suffix(':') {
            return nanoseconds(time).map(|time| (flags, time, behind));
        }
        if flags.is_some() || word.is_empty() || word.len() > 8 {
            return None;
        }
        flags = Some(word);
        rest = behind.trim_start();
    }
}

/// Seconds with up to nine decimals, or, where there are none, nanoseconds.
fn nanoseconds(text: &str) -> Option<Nanos> {
    let Some((seconds, fraction)) = text.split_once('.') else {
        return text.parse().ok().map(Nanos);
    };
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let fraction: u64 = fraction.parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    let nanoseconds = fraction * 10u64.pow(9 - digits);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds).map(Nanos)
}

/// The third flag tells hard and soft interrupts.
fn in_interrupt(flags: &str) -> bool {
    matches!(flags.as_bytes().get(2), Some(b'h' | b'H' | b's' | b'Z' | b'z'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxtrec_capture::event::Waker;

    fn event(line: &str) -> (u64, u32, Kind) {
        match parse(line) {
            Ok(Line::Event { time, cpu, kind }) => (time.0, cpu.0, kind),
            other => panic!("{line}: {other:?}"),
        }
    }

    const SWITCH: &str = "sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";

    #[test]
    fn a_line_of_tracefs_tells_cpu_and_time() {
        let (time, cpu, _) =
            event(&format!("             a b-7     [001] d..2.  6604.134063: {SWITCH}"));
        assert_eq!((time, cpu), (6_604_134_063_000, 1));
        let (time, cpu, _) =
            event(&format!("   a b-7     (   7) [012] ..... 1.000000001: {SWITCH}"));
        assert_eq!((time, cpu), (1_000_000_001, 12));
        let (time, ..) = event(&format!("   x-[2] d-7     (-------) [012] ..... 123456: {SWITCH}"));
        assert_eq!(time, 123_456);
    }

    #[test]
    fn only_a_thread_that_is_not_interrupted_wakes_by_itself() {
        let wake = "sched_wakeup: comm=b pid=9 prio=120 target_cpu=001";
        for (flags, pid, expected) in [
            ("d..2.", 7, true),
            ("d.h2.", 7, false),
            ("d.s2.", 7, false),
            ("d..2.", 0, false),
            ("", 7, false),
        ] {
            let (.., kind) = event(&format!("   a-{pid}     [001] {flags}  1.5: {wake}"));
            let Kind::Wake(wake) = kind else { panic!("{kind:?}") };
            assert_eq!(wake.current, Tid(pid));
            assert_eq!(wake.by == Waker::Task(Tid(pid)), expected, "{flags}");
        }
    }

    #[test]
    fn comments_losses_and_other_events_are_told_apart() {
        assert_eq!(parse("# tracer: nop"), Ok(Line::Nothing));
        assert_eq!(parse("cpus=2"), Ok(Line::Nothing));
        assert_eq!(parse("CPU:3 [LOST 12 EVENTS]"), Ok(Line::Lost { cpu: Cpu(3), count: 12 }));
        assert_eq!(parse("CPU:3 [12 EVENTS DROPPED]"), Ok(Line::Lost { cpu: Cpu(3), count: 12 }));
        assert_eq!(parse("  a-7 [000] 1.5: sys_enter: NR 1"), Ok(Line::Other));
    }

    #[test]
    fn what_is_missing_is_told_with_its_place() {
        let expected = |line: &str| parse(line).expect_err("it is not whole");
        assert_eq!(expected("nonsense"), Problem { column: 0, expected: "TASK-PID [CPU]" });
        let problem = expected("  a-x [000] 1.5: sched_switch: ");
        assert_eq!(problem, Problem { column: 2, expected: "TASK-PID" });
        let problem = expected("  a-7 [000] 1.5: sched_switch: prev_comm=a");
        assert_eq!(problem.column, 31);
        let problem = expected("  a-7 [000] 1.5: no event");
        assert_eq!(problem.expected, "an event and a colon");
    }

    #[test]
    fn any_beginning_of_a_line_is_read_without_harm() {
        let line = format!("   a b-7     (   7) [012] ..... 1.000000001: {SWITCH}");
        for len in 0..line.len() {
            let _ = parse(&line[..len]);
        }
        assert!(parse(&line).is_ok());
    }
}
