//! Stacks with weights, for the profile formats, and as folded text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fxtrec_sched::backtrace::Kind;

use super::{Blocked, Frame, Stack, nanos};
use crate::ThreadInfo;

/// The weighted stacks of one kind.
#[derive(Debug)]
pub struct Profile<'a> {
    pub kind: Kind,
    pub samples: Vec<Sample<'a>>,
}

/// A stack of a thread, with its weight.
#[derive(Debug)]
pub struct Sample<'a> {
    pub thread: &'a ThreadInfo,
    /// When the wait began or ended, or the thread ran, in nanoseconds.
    pub time: u64,
    /// The innermost first; empty if there is no stack.
    pub frames: Vec<Frame<'a>>,
    /// In nanoseconds.
    pub weight: u64,
}

impl<'a> Profile<'a> {
    /// The profile of a kind. For waits: the blocked time of each long wait, by the stack of the waiting thread or by that of its waker.
    /// For time on a CPU: each sample represents the same time.
    pub fn of(kind: Kind, blocked: &'a Blocked) -> Profile<'a> {
        let running = &blocked.running;
        let stack = |number: Option<usize>| number.map(|number| &blocked.recorded.all[number]);
        let frames = |stack: Option<&'a Stack>| {
            stack.map(|stack| blocked.recorded.frames(stack).collect()).unwrap_or_default()
        };
        let samples = match kind {
            Kind::OffCpu => blocked
                .waits
                .iter()
                .map(|wait| Sample {
                    thread: &wait.thread,
                    time: wait.begin,
                    frames: frames(stack(wait.stack)),
                    weight: nanos(wait.blocked),
                })
                .collect(),
            Kind::Wake => blocked
                .waits
                .iter()
                .filter_map(|wait| {
                    let stack = stack(Some(wait.wake_stack?))?;
                    Some(Sample {
                        thread: running.get(&stack.thread.0)?,
                        time: stack.time,
                        frames: frames(Some(stack)),
                        weight: nanos(wait.blocked),
                    })
                })
                .collect(),
            Kind::Cpu => {
                let weight = 1_000_000_000 / blocked.recorded.frequency.max(1);
                let all = blocked.recorded.all.iter().filter(|stack| stack.kind == Kind::Cpu);
                all.filter_map(|stack| {
                    let thread = running.get(&stack.thread.0)?;
                    Some(Sample { thread, time: stack.time, frames: frames(Some(stack)), weight })
                })
                .collect()
            }
        };
        Profile { kind, samples }
    }

    /// The meaning of the weights.
    pub fn title(&self) -> &'static str {
        match self.kind {
            Kind::OffCpu => "blocked",
            Kind::Wake => "blocked, by waker",
            Kind::Cpu => "on a CPU",
        }
    }

    /// The weight of each distinct stack: the thread's name, then the functions, the outermost first.
    pub fn folded(&self) -> BTreeMap<Vec<String>, u64> {
        let mut lines: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for sample in &self.samples {
            let mut line = vec![part(&sample.thread.comm)];
            line.extend(sample.frames.iter().rev().map(|frame| part(&label(frame))));
            if sample.frames.is_empty() {
                line.push("[no stack]".to_owned());
            }
            *lines.entry(line).or_default() += sample.weight;
        }
        lines
    }
}

/// The name of a function; kernel functions end in `_[k]`.
pub(super) fn label(frame: &Frame<'_>) -> String {
    match frame.in_kernel {
        true => format!("{}_[k]", frame.label()),
        false => frame.label(),
    }
}

/// A name as a part of a line: without separators of parts and lines, and never blank.
fn part(name: &str) -> String {
    if name.trim().is_empty() {
        return "[no name]".to_owned();
    }
    // Some readers also end lines at the separators of Unicode.
    let divides =
        |letter: char| matches!(letter, ';' | '\u{2028}' | '\u{2029}') || letter.is_control();
    name.chars().map(|letter| if divides(letter) { '_' } else { letter }).collect()
}

/// Writes a line for each distinct stack, for flamegraph.pl, inferno and speedscope.
///
/// # Errors
/// The errors of `out`.
pub fn write_folded(profile: &Profile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let folded = profile.folded();
    folded.iter().try_for_each(|(line, weight)| writeln!(out, "{} {weight}", line.join(";")))
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn no_name_breaks_a_line_or_a_part_of_it() {
        for (name, expected) in [
            ("", "[no name]"),
            (" \t", "[no name]"),
            ("a;b\nc\r\0", "a_b_c__"),
            ("a\u{2028}b\u{85}", "a_b_"),
            ("two words 12", "two words 12"),
        ] {
            assert_eq!(part(name), expected);
            assert!(part(name).lines().count() == 1 && !part(name).contains(';'));
        }
    }
}
