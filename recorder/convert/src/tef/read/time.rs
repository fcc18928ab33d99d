//! Times as decimal microseconds, without floating point.

use serde_json::value::RawValue;

/// A time in nanoseconds, and whether it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) nanos: u64,
    /// False if the text has more decimals, or a value that FXT cannot represent.
    pub(super) exact: bool,
}

/// The time in a value: a number, or a string with a number. `None` for any other text.
pub(super) fn time(value: &RawValue) -> Option<Time> {
    let json = value.get();
    let text = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    decimal(text.as_bytes()).or_else(|| floating(text))
}

/// Digits with an optional fraction.
fn decimal(text: &[u8]) -> Option<Time> {
    let mut nanos: u64 = 0;
    let mut decimals = None;
    let mut exact = true;
    let mut digits = 0;
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                match &mut decimals {
                    Some(3..) => {
                        exact &= byte == b'0';
                        continue;
                    }
                    Some(count) => *count += 1,
                    None => {}
                }
                nanos = nanos.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            }
            b'.' if decimals.is_none() && digits > 0 => decimals = Some(0),
            _ => return None,
        }
    }
    let scale = 10_u64.pow(3 - decimals.unwrap_or(0));
    (digits > 0).then_some(())?;
    Some(Time { nanos: nanos.checked_mul(scale)?, exact })
}

/// Any other notation of a number: with an exponent, a sign, or more digits than fit.
fn floating(text: &str) -> Option<Time> {
    let nanos = text.parse::<f64>().ok().filter(|value| value.is_finite())? * 1000.0;
    // Casts to integers saturate.
    let rounded = nanos.round() as u64;
    Some(Time { nanos: rounded, exact: rounded as f64 == nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<(u64, bool)> {
        let value: &RawValue = serde_json::from_str(json).expect("JSON");
        time(value).map(|time| (time.nanos, time.exact))
    }

    #[test]
    fn decimals_become_nanoseconds_exactly() {
        assert_eq!(read("829"), Some((829_000, true)));
        assert_eq!(read("0.001"), Some((1, true)));
        assert_eq!(read("1234523.3"), Some((1_234_523_300, true)));
        assert_eq!(read("18446744073709551.615"), Some((u64::MAX, true)));
        assert_eq!(read("9007199254740993.001"), Some((9_007_199_254_740_993_001, true)));
        assert_eq!(read("\"4\""), Some((4_000, true)), "the document has times as strings");
    }

    #[test]
    fn finer_times_are_cut_and_said_to_be() {
        assert_eq!(read("1.0019"), Some((1_001, false)));
        assert_eq!(read("1.001000"), Some((1_001, true)));
    }

    #[test]
    fn exponents_and_signs_are_understood() {
        assert_eq!(read("1.5e3"), Some((1_500_000, true)));
        assert_eq!(read("-2"), Some((0, false)));
        assert_eq!(read("1e30"), Some((u64::MAX, false)));
    }

    #[test]
    fn what_is_no_number_is_no_time() {
        for json in ["null", "\"soon\"", "[1]", "\"\"", "true"] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
