//! Values of the command line: times in a trace, process ids, users.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::units::quantity::{TimeSpan, ValueError};
use fxt_reader::Nanos;

use crate::report::TimeSpec;

/// Process ids stay below the kernel's PID_MAX_LIMIT, 2^22.
const PID_MAX: u32 = 4_194_304;

/// A process id.
pub(super) fn pid(text: &str) -> Result<u32, String> {
    let why =
        || format!("a process id is a number from 1 to {PID_MAX}; `pgrep NAME` prints a program's");
    text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid)).ok_or_else(why)
}

/// A number without a unit, such as a CPU or a thread id.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { "is too large" } else { "expected a number" }.to_owned()
    })
}

/// A time in a trace: seconds of its clock as printed; with a unit or a plus, an offset from the trace's beginning; or a time of day.
/// `--from` and `--to` of report, why, cut and dump share this syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    In(TimeSpec),
    /// A time of day in UTC, in nanoseconds since midnight.
    OfDay(u64),
}

impl TimePoint {
    /// The time, unless it is a time of day, which depends on the trace's date.
    pub fn moment(self) -> Option<TimeSpec> {
        match self {
            TimePoint::In(moment) => Some(moment),
            TimePoint::OfDay(_) => None,
        }
    }
}

/// HH:MM:SS, with or without a fraction and a Z, in nanoseconds since midnight.
fn of_day(text: &str) -> Option<u64> {
    let (hours, rest) = text.strip_suffix('Z').unwrap_or(text).split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let part = |text: &str, most: u64| {
        let is_number = text.len() == 2 && text.bytes().all(|it| it.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| is_number && *number < most)
    };
    let seconds = (part(hours, 24)? * 60 + part(minutes, 60)?) * 60 + part(seconds, 60)?;
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|it| it.is_ascii_digit());
    let nanos = format!("{fraction:0<9}").parse::<u64>().ok().filter(|_| is_fraction)?;
    Some(seconds * 1_000_000_000 + nanos)
}

impl FromStr for TimePoint {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<TimePoint, ValueError> {
        let nanos = |text: &str| match text.parse::<TimeSpan>() {
            Ok(span) => u64::try_from(span.duration().as_nanos()).map_err(|_| ValueError::TooLarge),
            // A trace may begin at that time.
            Err(ValueError::Zero) => Ok(0),
            Err(error) => Err(error),
        };
        if text.contains(':') {
            return of_day(text).map(TimePoint::OfDay).ok_or(ValueError::NoTimeOfDay);
        }
        let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
        match text.strip_prefix('+') {
            Some(after) => nanos(after).map(TimeSpec::After),
            None if has_unit => nanos(text).map(TimeSpec::After),
            None => nanos(text).map(|nanos| TimeSpec::At(Nanos(nanos))),
        }
        .map(TimePoint::In)
    }
}

/// The user to run COMMAND as, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserSpec {
    /// By login name.
    Name(String),
    /// By number.
    Uid(u32),
    /// `@sudo`: the user who called sudo.
    SudoCaller,
}

impl FromStr for UserSpec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<UserSpec, Infallible> {
        Ok(match text {
            "@sudo" => UserSpec::SudoCaller,
            _ => match text.parse() {
                Ok(uid) => UserSpec::Uid(uid),
                Err(_) => UserSpec::Name(text.to_owned()),
            },
        })
    }
}

impl fmt::Display for UserSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserSpec::Name(name) => write!(f, "{name}"),
            UserSpec::Uid(uid) => write!(f, "uid {uid}"),
            UserSpec::SudoCaller => write!(f, "@sudo"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_or_a_unit_counts_from_the_beginning() {
        let parse = |text: &str| text.parse::<TimePoint>().map(|it| it.moment().expect("no day"));
        assert_eq!(parse("+1.5s"), Ok(TimeSpec::After(1_500_000_000)));
        assert_eq!(parse("200ms"), Ok(TimeSpec::After(200_000_000)));
        assert_eq!((parse("+1.5"), parse("0s")), (parse("1.5s"), parse("+0")));
        assert_eq!(parse("1234.000000001"), Ok(TimeSpec::At(Nanos(1_234_000_000_001))));
        assert_eq!((parse("+0"), parse("0")), (Ok(TimeSpec::After(0)), Ok(TimeSpec::At(Nanos(0)))));
        assert!(parse("+").is_err() && parse("soon").is_err());
    }

    #[test]
    fn a_colon_makes_it_a_time_of_the_day() {
        let parse = |text: &str| text.parse::<TimePoint>();
        assert_eq!(parse("00:00:01"), Ok(TimePoint::OfDay(1_000_000_000)));
        let late = TimePoint::OfDay(86_399_250_000_000);
        assert_eq!((parse("23:59:59.25"), parse("23:59:59.250Z")), (Ok(late), Ok(late)));
        for text in ["24:00:00", "1:00:00", "10:60:00", "10:00", "+1:00:00", "10:00:0x"] {
            assert_eq!(parse(text), Err(ValueError::NoTimeOfDay), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_says_what_is_expected() {
        assert!(pid("abc").unwrap_err().contains("a process id is a number from 1 to 4194304"));
        for text in ["", "0", "-5", "4194305"] {
            assert!(pid(text).is_err(), "{text}");
        }
        assert_eq!((pid("1"), pid("4194304")), (Ok(1), Ok(4_194_304)));
        assert_eq!(number::<u16>("cpu0"), Err("expected a number".to_owned()));
        assert_eq!(number::<u16>("65536"), Err("is too large".to_owned()));
        assert_eq!(number::<u16>("65535"), Ok(65_535));
    }

    #[test]
    fn users_are_names_numbers_or_the_sudo_caller() {
        let parse = |text: &str| text.parse::<UserSpec>().unwrap();
        assert_eq!(parse("nobody"), UserSpec::Name("nobody".into()));
        assert_eq!(parse("1000"), UserSpec::Uid(1000));
        assert_eq!(parse("@sudo"), UserSpec::SudoCaller);
        assert_eq!(parse("4294967296"), UserSpec::Name("4294967296".into()));
    }
}
