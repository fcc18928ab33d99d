//! Formats durations, counts, sizes and shares for people.

use std::time::Duration;

/// Milliseconds with three decimals, as perf prints them.
pub fn millis(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1e3)
}

/// The same, or a dash for `None`.
pub fn millis_or_dash(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), millis)
}

/// Three significant digits in the unit that fits: `4.10 us`, `61.0 us`, `2.15 ms`.
pub fn short(duration: Duration) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let nanos = duration.as_nanos() as f64;
    // A value that would be rounded up to 1000 gets the next larger unit.
    let fits = |(_, size): &&(&str, f64)| nanos < 999.5 * size;
    let (unit, size) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let value = nanos / size;
    let decimals = match value {
        _ if *size == 1.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// The same, or a dash for `None`.
pub fn short_or_dash(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), short)
}

/// A count with a space between groups of three digits: `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun in the singular or plural: `1 gap`, `2 gaps`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), noun(number, one, many))
}

/// The first `most` names of a list: `a and b`, or `a, b and 3 more`.
pub fn some(names: &[String], most: usize) -> String {
    let (named, rest) = names.split_at(most.min(names.len()));
    let mut words = named.to_vec();
    if !rest.is_empty() {
        words.push(format!("{} more", count(rest.len() as u64)));
    }
    match &words[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// Only the noun, in the singular or plural.
pub fn noun<'n>(number: u64, one: &'n str, many: &'n str) -> &'n str {
    if number == 1 { one } else { many }
}

/// Bytes in a unit that leaves few digits: `512 B`, `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A fraction of 1 as a percentage, with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The time of the day in UTC.
pub fn time_of_day(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}Z", seconds % 60, since_1970.subsec_millis())
}

/// The time of day in UTC for a time of a trace whose clock is this far behind the wall clock.
pub fn wall_time(time: u64, offset: i64) -> Option<String> {
    time.checked_add_signed(offset).map(|nanos| time_of_day(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_kept_across_the_units() {
        let texts = [0, 7, 999, 1_000, 4_104, 61_049, 99_960, 999_400, 999_600, 2_150_000]
            .map(|nanos| short(Duration::from_nanos(nanos)));
        let expected = [
            "0 ns", "7 ns", "999 ns", "1.00 us", "4.10 us", "61.0 us", "100 us", "999 us",
            "1.00 ms", "2.15 ms",
        ];
        assert_eq!(texts, expected);
        assert_eq!(short(Duration::from_secs(86_400)), "86400 s");
    }

    #[test]
    fn the_time_of_the_day_is_that_of_utc() {
        assert_eq!(time_of_day(Duration::from_millis(1_795_906_799_250)), "22:59:59.250Z");
        assert_eq!(time_of_day(Duration::ZERO), "00:00:00.000Z");
        let wall = wall_time(5_000_000_000, 1_795_906_794_250_000_000);
        assert_eq!(wall.as_deref(), Some("22:59:59.250Z"));
        assert_eq!(wall_time(5, -6), None, "before 1970");
    }

    #[test]
    fn milliseconds_have_three_decimals() {
        assert_eq!(millis(Duration::from_nanos(12_345_678)), "12.346");
        assert_eq!(millis_or_dash(None), "-");
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        let texts = [0, 999, 1000, 12_345, 1_234_567].map(count);
        assert_eq!(texts, ["0", "999", "1 000", "12 345", "1 234 567"]);
    }

    #[test]
    fn bytes_get_the_unit_that_fits() {
        let texts = [0, 1023, 1024, 1_572_864, 5 << 40, 5000 << 40].map(bytes);
        assert_eq!(texts, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 TiB", "5000.0 TiB"]);
    }
}
