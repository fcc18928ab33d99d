//! The options for non-scheduler events: user probes, tracepoints, system calls, interrupts.

use std::str::FromStr;

use clap::Args;

use crate::kernel::syscalls;
use crate::probe::Spec;
use crate::units::glob::Pattern;

const MORE: &str = "More events";

/// What to record in addition to the scheduler.
#[derive(Args, Clone, Debug, Default)]
pub struct TracePointArgs {
    /// Record each call of a function or hit of a USDT probe, for example ./app:render or 'libc:malloc%span n=arg1:u64'
    ///
    /// %return records returns instead of calls; %span records the time from call to return. BINARY is a path, a
    /// library's name, or empty for COMMAND. docs/reference/probes.md has the grammar; `fxtrec probes BINARY` lists what can be
    /// probed. With a COMMAND, its processes are recorded; with -p, that process; with -a, all. Can be given more than
    /// once.
    #[arg(
        short = 'P',
        long = "probe",
        value_name = "[NAME=]BINARY:SYMBOL[%return|%span][ ARG..]",
        help_heading = MORE
    )]
    pub probes: Vec<Spec>,

    /// Record a kernel tracepoint, for example sched:sched_process_exec
    ///
    /// GROUP and NAME may contain `*`, `?` and `[...]`. FILTER is a condition in the kernel's filter language:
    /// 'block:block_rq_issue/bytes > 4096/'. Each hit is an event on the thread that had the CPU, with the tracepoint's
    /// fields as arguments. Can be given more than once.
    #[arg(short = 'e', long = "event", value_name = "GROUP:NAME[/FILTER/]", help_heading = MORE)]
    pub events: Vec<EventSpec>,

    /// Record system calls, all or those that match, for example --syscalls=futex,epoll_*
    ///
    /// Each is a duration on its thread, with the return value. With a COMMAND, its processes are recorded; with -a, all.
    #[arg(
        long,
        value_name = "GLOB,..",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "*",
        help_heading = MORE
    )]
    pub syscalls: Vec<Pattern>,

    /// Record hard and soft interrupts, on a track per CPU
    #[arg(long, help_heading = MORE)]
    pub irq: bool,
}

/// Whether `word` is a valid value of `--syscalls`.
pub(super) fn names_syscalls(word: &str) -> bool {
    let is_one =
        |name: &str| name.contains('*') || syscalls::native().any(|call| call.name == name);
    word.split(',').all(is_one)
}

/// One tracepoint, or several by pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The group, such as `sched`.
    pub group: Pattern,
    /// The name, such as `sched_switch`.
    pub name: Pattern,
    /// A condition in the kernel's filter language.
    pub filter: Option<String>,
}

/// The reason why a string does not name a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventSpecError {
    /// There is no colon.
    #[error("expected GROUP:NAME, for example sched:sched_process_exec")]
    NoColon,
    /// The group or the name is empty.
    #[error("GROUP and NAME must not be empty; GROUP:* selects all tracepoints of a group")]
    Empty,
    /// A filter without a closing slash.
    #[error("the filter has no closing slash: GROUP:NAME/FILTER/")]
    OpenFilter,
    /// A filter that is empty.
    #[error("the filter is empty: GROUP:NAME/FILTER/")]
    EmptyFilter,
    /// An invalid pattern.
    #[error("{0}")]
    Pattern(String),
}

impl FromStr for EventSpec {
    type Err = EventSpecError;

    fn from_str(text: &str) -> Result<EventSpec, EventSpecError> {
        let (group, rest) = text.split_once(':').ok_or(EventSpecError::NoColon)?;
        // The filter can contain slashes; the name cannot.
        let (name, filter) = match rest.split_once('/') {
            None => (rest, None),
            Some((name, filter)) => {
                let filter = filter.strip_suffix('/').ok_or(EventSpecError::OpenFilter)?;
                (name, Some(filter.trim().to_owned()))
            }
        };
        if group.is_empty() || name.is_empty() {
            return Err(EventSpecError::Empty);
        }
        if filter.as_deref() == Some("") {
            return Err(EventSpecError::EmptyFilter);
        }
        let pattern = |text: &str| {
            Pattern::new(text)
                .map_err(|error| EventSpecError::Pattern(format!("`{text}`: {error}")))
        };
        Ok(EventSpec { group: pattern(group)?, name: pattern(name)?, filter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, RecordArgs};

    fn record(words: &[&str]) -> Result<RecordArgs, String> {
        let line = ["fxtrec"].iter().chain(words).copied();
        match Cli::parse_line(line) {
            Ok(Command::Record(args)) => Ok(args),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_filter_stands_between_slashes_and_may_hold_some() {
        let spec: EventSpec = "block:block_rq_issue/bytes > 8 / 2/".parse().expect("good");
        assert_eq!(spec.name.as_str(), "block_rq_issue");
        assert_eq!(spec.filter.as_deref(), Some("bytes > 8 / 2"));
        let plain: EventSpec = "sched:sched_process_*".parse().expect("good");
        assert_eq!((plain.group.as_str(), plain.filter), ("sched", None));
    }

    #[test]
    fn what_names_no_tracepoint_is_told_why() {
        let error = |text: &str| text.parse::<EventSpec>().expect_err(text);
        assert_eq!(error("sched_switch"), EventSpecError::NoColon);
        assert_eq!(error("sched:"), EventSpecError::Empty);
        assert_eq!(error("a:b/c"), EventSpecError::OpenFilter);
        assert_eq!(error("a:b//"), EventSpecError::EmptyFilter);
        assert!(matches!(error("a:[b"), EventSpecError::Pattern(_)));
    }

    #[test]
    fn system_calls_are_off_all_or_some() {
        let syscalls = |words: &[&str]| {
            let args = record(words).expect("good");
            let patterns = args.trace_points.syscalls.iter().map(|glob| glob.as_str().to_owned());
            (patterns.collect::<Vec<_>>(), args.command.len())
        };
        assert_eq!(syscalls(&["--", "ls"]), (vec![], 1));
        assert_eq!(syscalls(&["--syscalls", "ls"]), (vec!["*".to_owned()], 1));
        assert_eq!(syscalls(&["--syscalls=read,p*", "ls"]), (vec!["read".into(), "p*".into()], 1));
    }
}
