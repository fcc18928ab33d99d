//! Histograms, drawn with block characters.

use std::io::{self, Write};
use std::time::Duration;

use crate::Distribution;
use fxtrec_units::text::{count, counted, percent, short};

/// The width of the longest bar, in columns.
const BAR: usize = 40;

/// Partial blocks, in steps of an eighth.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar for this share of the longest; anything above zero is visible.
fn bar(part: u64, most: u64) -> String {
    let eighths = (part as f64 / most.max(1) as f64 * (BAR * 8) as f64).round() as usize;
    let eighths = eighths.clamp(usize::from(part > 0), BAR * 8);
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

/// The samples by powers of two: the exponent, and the number from 2^exponent up to the next power.
fn by_powers(distribution: &Distribution) -> Vec<(u32, u64)> {
    let mut powers: Vec<(u32, u64)> = Vec::new();
    for bucket in distribution.buckets() {
        let power = bucket.nanos.max(1).ilog2();
        let mut next = powers.last().map_or(power, |(last, _)| last + 1);
        while next <= power {
            // Empty rows in between are part of the picture.
            powers.push((next, 0));
            next += 1;
        }
        if let Some((_, sum)) = powers.last_mut() {
            *sum += bucket.count;
        }
    }
    powers
}

/// Writes the histogram of a distribution.
///
/// # Errors
/// The errors of `out`.
pub fn write_histogram(
    title: &str,
    distribution: &Distribution,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = distribution.count();
    writeln!(out, "Histogram of {title}, {}:", counted(total, "sample", "samples"))?;
    let powers = by_powers(distribution);
    let most = powers.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let mut seen = 0;
    for (power, number) in powers {
        seen += number;
        let edge = |power: u32| match power {
            // Zero is in the row of one nanosecond.
            0 => Duration::ZERO,
            _ => Duration::from_nanos(2_u64.checked_pow(power).unwrap_or(u64::MAX)),
        };
        let (from, to) = (short(edge(power)), short(edge(power + 1)));
        let (bar, upto) = (bar(number, most), percent(seen as f64 / total as f64));
        writeln!(out, "  {from:>8} .. {to:>8}  {:>11} {upto:>7}  {bar}", count(number))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use fxt_reader::Nanos;

    use super::*;
    use crate::tally::Tally;

    fn drawn(samples: &[u64]) -> String {
        let mut tally = Tally::default();
        for &sample in samples {
            tally.record(sample, Nanos(0));
        }
        let mut out = Vec::new();
        write_histogram("waits", &tally.freeze(), &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn samples_stand_in_powers_of_two_with_empty_ones_between() {
        let mut samples = vec![1_100; 8];
        samples.extend([2_000, 9_000]);
        let drawn = drawn(&samples);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "Histogram of waits, 10 samples:");
        assert!(lines[1].contains("1.02 us ..  2.05 us"), "{drawn}");
        assert!(lines[1].contains(" 9  90.0 %"), "{drawn}");
        assert!(lines[1].ends_with(&"█".repeat(BAR)), "{drawn}");
        assert!(lines[2].trim_end().ends_with("0  90.0 %"), "{drawn}");
        assert!(lines[4].contains("8.19 us ..  16.4 us"), "{drawn}");
        assert!(lines[4].ends_with("████▌"), "a ninth of forty: {drawn}");
        assert_eq!(lines.len(), 6, "{drawn}");
    }

    #[test]
    fn one_among_a_million_is_still_seen() {
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 1_000_000), "");
    }

    #[test]
    fn nothing_is_drawn_as_nothing_and_the_longest_there_is_does_not_overflow() {
        assert_eq!(drawn(&[]).lines().count(), 2, "a title and an empty line");
        assert!(drawn(&[0, u64::MAX / 2]).contains("0 ns"));
    }
}
