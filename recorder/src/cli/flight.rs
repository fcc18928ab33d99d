//! The options of flight recording (triggers and snapshots) and of rotation.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::units::quantity::{ByteSize, TimeSpan, ValueError};
use fxtrec_gates::Trigger;

/// The options of flight recording.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Flight recording")]
pub struct FlightArgs {
    /// In circular mode, write a snapshot when this condition is met, for example 'runqueue > 5ms'
    ///
    /// METRIC OP TIME [if CONDITION], as in 'runqueue > 5ms if comm ~ "audio*"', tests each value by itself. runqueue tests every wait for
    /// a CPU, wakeup only those after a wakeup, preempt only those after a preemption. Other metrics are slice, blocked and blocked_d and,
    /// if the recording has these facts, steal, throttled, irq and need_resched; conditions are on comm and cgroup (=, ~ with a pattern),
    /// pid, tid and cpu, joined with and, or, not. 'turn > 20ms' tests the time from a wakeup to the next sleep, 'span("app:request") >
    /// 20ms' spans of COMMAND, and 'probe("work") > 5ms' calls of a function that -P records with %span. 'lost > 0' fires on a loss, 'probe
    /// NAME' when a probe of -P is hit, 'alert NAME' on an alert of an application. Each snapshot is a separate file. Can be given more
    /// than once. SIGUSR2 writes a snapshot at any time.
    #[arg(long = "trigger", value_name = "EXPR")]
    pub triggers: Vec<Trigger>,

    /// History to keep before each trigger [default: 10s with --trigger, else all that memory holds]
    #[arg(long, value_name = "TIME")]
    pub before: Option<TimeSpan>,

    /// Time to include after each trigger, 0s for none [default: 5s with --trigger, else none]
    #[arg(long, value_name = "TIME", value_parser = TimeSpan::or_zero)]
    pub after: Option<Duration>,

    /// Maximum number of snapshots to write; with --keep, the newest are kept [default: no limit]
    #[arg(long, value_name = "N", requires = "triggers")]
    pub max_snapshots: Option<NonZeroU32>,

    /// Stop the recording after N triggered snapshots [default: no limit]
    #[arg(long, value_name = "N", requires = "triggers")]
    pub trigger_count: Option<NonZeroU32>,

    /// After each triggered snapshot, run COMMAND with the snapshot's file name as its last argument
    ///
    /// It runs as the user who called sudo, one at a time, and without a shell: words are separated by whitespace, with quotes and
    /// backslashes as in a shell. When the recording ends, fxtrec waits at most 10 s for it.
    #[arg(long, value_name = "COMMAND", requires = "triggers")]
    pub on_trigger: Option<HookCommand>,

    /// Minimum time between triggers [default: 10s]
    #[arg(long, value_name = "TIME", requires = "triggers")]
    pub trigger_interval: Option<TimeSpan>,

    /// Rotate to a new file after this size or time, for example 1GB or 10min
    ///
    /// The files of app.fxt are app.0001.fxt, app.0002.fxt and so on. Each can be read on its own. A later run continues the numbering.
    #[arg(long, value_name = "SIZE|TIME")]
    pub rotate: Option<Rotate>,

    /// Number of rotated files or snapshots to keep, counting those of earlier runs; older ones are removed
    #[arg(long, value_name = "N")]
    pub keep: Option<NonZeroU32>,

    /// Maximum size of all snapshots or rotated files, counting those of earlier runs; the oldest are removed first
    #[arg(long, value_name = "SIZE")]
    pub disk_budget: Option<ByteSize>,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand {
    text: String,
    program: String,
    arguments: Vec<String>,
}

/// The reason why a string is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookCommandError {
    #[error("expected a program and its arguments, such as 'notify --loud'")]
    Empty,
    #[error("unterminated quote or backslash")]
    Open,
}

impl HookCommand {
    pub fn program(&self) -> &str {
        &self.program
    }

    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

impl fmt::Display for HookCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for HookCommand {
    type Err = HookCommandError;

    fn from_str(text: &str) -> Result<HookCommand, HookCommandError> {
        let mut words: Vec<String> = Vec::new();
        // The word being read, and the quotation mark that is still open in it.
        let (mut word, mut quote) = (None::<String>, None);
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (letter, quote) {
                (end, Some(open)) if end == open => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                ('\\', None | Some('"')) => {
                    let escaped = letters.next().ok_or(HookCommandError::Open)?;
                    let word = word.get_or_insert_default();
                    if quote.is_some() && !matches!(escaped, '"' | '\\' | '$' | '`') {
                        word.push('\\');
                    }
                    word.push(escaped);
                }
                (blank, None) if blank.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(letter),
            }
        }
        if quote.is_some() {
            return Err(HookCommandError::Open);
        }
        let mut words = words.into_iter().chain(word);
        let program = words.next().filter(|it| !it.is_empty()).ok_or(HookCommandError::Empty)?;
        Ok(HookCommand { text: text.to_owned(), program, arguments: words.collect() })
    }
}

/// When a recording rotates to its next file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotate {
    /// When the file has this size on disk.
    Size(ByteSize),
    /// When this time has passed.
    Time(TimeSpan),
}

/// The reason why a string is neither a size nor a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    /// No unit, or an ambiguous one.
    #[error("ambiguous: write {size} for a size or {time} for a time")]
    Ambiguous {
        /// As a size.
        size: String,
        /// As a duration.
        time: String,
    },
    /// It is neither.
    #[error("expected a size, such as 1GB, or a time, such as 10min")]
    Neither,
    /// A size or a time, but an invalid one.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl FromStr for Rotate {
    type Err = RotateError;

    fn from_str(text: &str) -> Result<Rotate, RotateError> {
        let text = text.trim();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
        match text[digits.len()..].trim() {
            // `m` (minutes) and `M` (mebibytes) differ only in case, so a slip of the shift key changes the meaning.
            "" | "m" if !digits.is_empty() => Err(RotateError::Ambiguous {
                size: format!("{digits}M"),
                time: format!("{digits}{}", if digits.len() == text.len() { "s" } else { "min" }),
            }),
            _ => match (text.parse::<ByteSize>(), text.parse::<TimeSpan>()) {
                (Ok(size), _) => Ok(Rotate::Size(size)),
                (_, Ok(time)) => Ok(Rotate::Time(time)),
                (Err(ValueError::UnknownUnit { .. }), Err(ValueError::UnknownUnit { .. })) => {
                    Err(RotateError::Neither)
                }
                (Err(ValueError::UnknownUnit { .. }), Err(error)) | (Err(error), _) => {
                    Err(error.into())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotate(text: &str) -> Result<Rotate, String> {
        text.parse().map_err(|error: RotateError| error.to_string())
    }

    #[test]
    fn the_unit_says_whether_it_is_a_size_or_a_time() {
        let size = |text: &str| Ok(Rotate::Size(text.parse().expect("a size")));
        let time = |text: &str| Ok(Rotate::Time(text.parse().expect("a time")));
        for text in ["1GB", "64k", "1.5M", "100 MiB"] {
            assert_eq!(rotate(text), size(text), "{text}");
        }
        for text in ["10min", "1h", "250ms", "1.5 s"] {
            assert_eq!(rotate(text), time(text), "{text}");
        }
    }

    #[test]
    fn a_command_is_divided_into_words_as_in_a_shell() {
        let words = |text: &str| {
            let command: HookCommand = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(command.to_string(), text);
            [&[command.program().to_owned()][..], command.arguments()].concat()
        };
        assert_eq!(words(" notify  --loud "), ["notify", "--loud"]);
        assert_eq!(words(r#"sh -c 'cp "$1" \x' sh"#), ["sh", "-c", r#"cp "$1" \x"#, "sh"]);
        assert_eq!(words(r#"a"b c"d \"e\ f '' "\"\n""#), ["ab cd", "\"e f", "", "\"\\n"]);
        for (text, error) in [
            ("", HookCommandError::Empty),
            ("''", HookCommandError::Empty),
            ("a 'b", HookCommandError::Open),
            ("a \\", HookCommandError::Open),
        ] {
            assert_eq!(text.parse::<HookCommand>(), Err(error), "{text}");
        }
    }

    #[test]
    fn what_could_be_either_is_refused_with_both_readings() {
        let text =
            |size, time| Err(format!("ambiguous: write {size} for a size or {time} for a time"));
        assert_eq!(rotate("10m"), text("10M", "10min"));
        assert_eq!(rotate("10"), text("10M", "10s"));
    }

    #[test]
    fn what_is_neither_is_refused() {
        assert_eq!(
            rotate("10 parsecs"),
            Err("expected a size, such as 1GB, or a time, such as 10min".to_owned())
        );
        assert_eq!(rotate("0s"), Err("must be more than zero".to_owned()));
        assert_eq!(rotate("0k"), Err("must be more than zero".to_owned()));
        assert!(rotate("").is_err());
    }
}
