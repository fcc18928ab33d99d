//! Numbers as people read them.

/// A count with a space between groups of three digits: `1 234 567`.
pub(super) fn count(number: u64) -> String {
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

/// Bytes in a unit that leaves few digits: `512 B`, `1.5 MiB`.
pub(super) fn bytes(number: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
