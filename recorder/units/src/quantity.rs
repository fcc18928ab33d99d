//! Quantities as people write them: sizes and durations.
//!
//! Numbers may have a decimal fraction. They are scaled as integers, so `0.1s` is exactly 100 ms, and values out of range are detected.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
];

const TIME_UNITS: &[(&str, u64)] = &[
    ("", 1_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The reason why a value with a unit was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The number is missing.
    NoNumber {
        /// A valid value.
        example: &'static str,
    },
    /// An unknown unit follows the number.
    UnknownUnit {
        unit: String,
        /// The units that are accepted.
        known: &'static str,
    },
    /// Zero, or less than one of the smallest unit.
    Zero,
    /// Too large for 64 bits of the smallest unit.
    TooLarge,
    /// There is a colon, and no time of the day.
    NoTimeOfDay,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::NoTimeOfDay => {
                write!(f, "expected a time of day in UTC, such as 20:37:56 or 20:37:56.250")
            }
            ValueError::NoNumber { example } => {
                write!(f, "expected a number and a unit, such as {example}")
            }
            ValueError::UnknownUnit { unit, known } => {
                write!(f, "unknown unit '{unit}'; expected {known}")
            }
            ValueError::Zero => f.write_str("must be more than zero"),
            ValueError::TooLarge => f.write_str("is too large"),
        }
    }
}

impl Error for ValueError {}

/// A number of bytes, more than zero. Units are binary: `64k` is 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<ByteSize, ValueError> {
        scale(text, SIZE_UNITS, "512k or 8M", "k, M or G").map(ByteSize)
    }
}

/// A duration, more than zero, to the nanosecond. A number without a unit means seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(Duration);

impl TimeSpan {
    pub fn duration(self) -> Duration {
        self.0
    }

    /// A duration that may be zero, in the same form.
    ///
    /// # Errors
    /// Returns [`ValueError`]; never [`ValueError::Zero`].
    pub fn or_zero(text: &str) -> Result<Duration, ValueError> {
        match text.parse::<TimeSpan>() {
            Ok(span) => Ok(span.0),
            Err(ValueError::Zero) => Ok(Duration::ZERO),
            Err(error) => Err(error),
        }
    }
}

impl FromStr for TimeSpan {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<TimeSpan, ValueError> {
        scale(text, TIME_UNITS, "10s or 250ms", "ns, us, ms, s, min or h")
            .map(|nanos| TimeSpan(Duration::from_nanos(nanos)))
    }
}

fn scale(
    text: &str,
    units: &[(&str, u64)],
    example: &'static str,
    known: &'static str,
) -> Result<u64, ValueError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(ValueError::NoNumber { example });
    }
    let lower = unit.to_lowercase();
    let factor = units
        .iter()
        .find(|(name, _)| *name == lower)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| ValueError::UnknownUnit { unit: unit.to_owned(), known })?;

    let whole = digits(whole).ok_or(ValueError::TooLarge)?;
    // Digits beyond the 18th are less than one of the smallest unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = digits(fraction).ok_or(ValueError::TooLarge)? * u128::from(factor);
    let value = whole
        .checked_mul(u128::from(factor))
        .and_then(|value| value.checked_add(part / 10_u128.pow(fraction.len() as u32)))
        .and_then(|value| u64::try_from(value).ok())
        .ok_or(ValueError::TooLarge)?;
    if value == 0 { Err(ValueError::Zero) } else { Ok(value) }
}

/// The value of decimal digits; an empty text is 0.
fn digits(text: &str) -> Option<u128> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Result<u64, ValueError> {
        text.parse().map(ByteSize::bytes)
    }

    fn nanos(text: &str) -> Result<u128, ValueError> {
        text.parse().map(|span: TimeSpan| span.duration().as_nanos())
    }

    #[test]
    fn sizes_take_binary_units_in_any_case() {
        for (text, bytes) in [
            ("1", 1),
            ("512b", 512),
            ("64k", 65_536),
            ("64K", 65_536),
            ("64 kB", 65_536),
            ("8M", 8_388_608),
            ("8MiB", 8_388_608),
            ("1.5M", 1_572_864),
            (".5k", 512),
            ("2G", 2_147_483_648),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn times_take_units_and_a_plain_number_is_seconds() {
        for (text, expected) in [
            ("10", 10_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1s", 100_000_000),
            ("10ms", 10_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("7ns", 7),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(nanos(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused_with_an_example() {
        for text in ["", "M", "-1M", "1.2.3M", ".", "ten"] {
            assert!(matches!(size(text), Err(ValueError::NoNumber { .. })), "{text}");
        }
        assert_eq!(
            nanos("soon").unwrap_err().to_string(),
            "expected a number and a unit, such as 10s or 250ms"
        );
    }

    #[test]
    fn an_unknown_unit_is_named_together_with_the_known_ones() {
        assert_eq!(
            nanos("10parsecs").unwrap_err().to_string(),
            "unknown unit 'parsecs'; expected ns, us, ms, s, min or h"
        );
        assert_eq!(size("8T").unwrap_err().to_string(), "unknown unit 'T'; expected k, M or G");
    }

    #[test]
    fn zero_and_what_rounds_to_it_are_refused() {
        for text in ["0", "0k", "0.0M", "0.5"] {
            assert_eq!(size(text), Err(ValueError::Zero), "{text}");
        }
        assert_eq!(nanos("0.1ns"), Err(ValueError::Zero));
    }

    #[test]
    fn the_largest_values_fit_and_the_next_do_not() {
        assert_eq!(size("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(size("18446744073709551616"), Err(ValueError::TooLarge));
        assert_eq!(size("17179869183.999999999999999999G"), Ok(u64::MAX));
        assert_eq!(size("17179869184G"), Err(ValueError::TooLarge));
        assert_eq!(nanos("99999999999h"), Err(ValueError::TooLarge));
        assert_eq!(size("9999999999999999999999999999"), Err(ValueError::TooLarge));
    }
}
