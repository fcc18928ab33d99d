//! A number with its dimension, printed as people read it: `1.84 ms`, `12 345`, `48 210/s`.

use std::fmt;

use super::Dimension;

/// A measured value or a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    /// Nanoseconds, a count, or events per second.
    pub number: f64,
    pub dimension: Dimension,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dimension {
            Dimension::Time => write_time(self.number, f),
            Dimension::Count => write_grouped(self.number, f),
            Dimension::Rate => {
                write_grouped(self.number, f)?;
                f.write_str("/s")
            }
        }
    }
}

/// Three significant digits, in the unit that leaves one to three digits before the decimal point.
fn write_time(nanos: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const UNITS: [(&str, f64); 3] = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    if nanos < 999.5 {
        return write!(f, "{nanos:.0} ns");
    }
    // Rounding precedes the choice of the unit: 999.96 us is 1.00 ms.
    let (unit, scale) =
        UNITS.into_iter().find(|(_, scale)| nanos / scale < 999.5).unwrap_or(UNITS[2]);
    let value = nanos / scale;
    let places = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    write!(f, "{value:.places$} {unit}")
}

/// A whole number with a space between groups of three digits; fractions are shown only below 100.
fn write_grouped(number: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if number.fract() != 0.0 && number < 100.0 {
        return write!(f, "{number:.1}");
    }
    let digits = format!("{number:.0}");
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            f.write_str(" ")?;
        }
        write!(f, "{digit}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: f64, dimension: Dimension) -> String {
        Amount { number, dimension }.to_string()
    }

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        for (nanos, text) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1.00 us"),
            (1_840_000.0, "1.84 ms"),
            (9_999_000.0, "10.0 ms"),
            (99_990_000.0, "100 ms"),
            (999_900.0, "1.00 ms"),
            (123_456_789.0, "123 ms"),
            (61_500_000_000.0, "61.5 s"),
            (4_000_000_000_000.0, "4000 s"),
        ] {
            assert_eq!(shown(nanos, Dimension::Time), text);
        }
    }

    #[test]
    fn counts_are_grouped_and_rates_say_per_what() {
        assert_eq!(shown(0.0, Dimension::Count), "0");
        assert_eq!(shown(1_234_567.0, Dimension::Count), "1 234 567");
        assert_eq!(shown(48_210.4, Dimension::Rate), "48 210/s");
        assert_eq!(shown(2.5, Dimension::Rate), "2.5/s");
    }
}
