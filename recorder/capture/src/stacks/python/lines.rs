//! The source lines of Python instructions, from the tables of code objects.

use std::iter::from_fn;

/// The line of the instruction at `at`, in bytes from the beginning; `None` if it has none. The function begins in line `first`, and
/// `table` has the format of version 3.`minor`.
pub(in super::super) fn line(minor: u8, first: u32, table: &[u8], at: u64) -> Option<u32> {
    let first = i64::from(first);
    let line = match minor {
        ..10 => of_pairs(first, table, at),
        10 => of_ranges(first, table, at),
        _ => of_locations(first, table, at),
    }?;
    u32::try_from(line).ok()
}

/// `co_lnotab`: the distance to the next line in bytecode, and the number of lines in between.
fn of_pairs(mut line: i64, table: &[u8], at: u64) -> Option<i64> {
    let mut address = 0;
    for &[bytes, lines] in table.as_chunks().0 {
        address += u64::from(bytes);
        if address > at {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    Some(line)
}

/// `co_linetable` of 3.10: the length of each range, and its distance in lines from the last range that has a line.
fn of_ranges(mut line: i64, table: &[u8], at: u64) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let mut end = 0;
    for &[bytes, lines] in table.as_chunks().0 {
        end += u64::from(bytes);
        let lines = lines.cast_signed();
        line += if lines == NO_LINE { 0 } else { lines.into() };
        if at < end {
            return (lines != NO_LINE).then_some(line);
        }
    }
    None
}

/// `co_linetable` since 3.11: entries whose head has bit 7 set, which describes the format of the rest, and the number of instructions
/// covered.
fn of_locations(mut line: i64, table: &[u8], at: u64) -> Option<i64> {
    let (mut rest, mut end) = (table.iter().copied(), 0);
    while let Some(head) = rest.next() {
        end += (u64::from(head & 7) + 1) * 2;
        let kind = head >> 3 & 0xf;
        line += match kind {
            10..=12 => i64::from(kind - 10),
            13 | 14 => signed(&mut rest)?,
            _ => 0,
        };
        if at < end {
            const NONE: u8 = 15;
            return (kind != NONE).then_some(line);
        }
        // Columns, and the last line.
        match kind {
            ..10 => drop(rest.next()),
            10..=12 => drop(rest.nth(1)),
            14 => drop(from_fn(|| unsigned(&mut rest)).nth(2)),
            _ => {}
        }
    }
    None
}

/// A number of six bits a byte, the lowest first; bit 6 means that more follow.
fn unsigned(rest: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0;
    for shift in (0..60).step_by(6) {
        let byte = rest.next()?;
        number |= i64::from(byte & 0x3f) << shift;
        if byte & 0x40 == 0 {
            return Some(number);
        }
    }
    None
}

/// A number as for [`unsigned`], with the sign in the lowest bit.
fn signed(rest: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let number = unsigned(rest)?;
    Some(if number & 1 != 0 { -(number >> 1) } else { number >> 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version, the table of a function, and lines, each with its number of instructions.
    type Compiled = (u8, &'static str, &'static [(u32, u64)]);

    /// A function of fifteen instructions or more, with a loop, `finally`, and a last line far from the others, as each version compiles
    /// it, with the lines according to the version itself; 0 means none.
    const COMPILED: [Compiled; 6] = [
        (
            8,
            "0001040202010401020102ff0c03060102ff087f001a",
            &[(4, 2), (6, 1), (7, 2), (8, 1), (9, 1), (8, 6), (11, 3), (12, 1), (11, 4), (164, 2)],
        ),
        (
            9,
            "0001040202010401020102ff0403060102ff06fd0403060102ff0e0102ff087f001a",
            &[
                (4, 2),
                (6, 1),
                (7, 2),
                (8, 1),
                (9, 1),
                (8, 2),
                (11, 3),
                (12, 1),
                (11, 3),
                (8, 2),
                (11, 3),
                (12, 1),
                (11, 7),
                (12, 1),
                (11, 4),
                (164, 2),
            ],
        ),
        (
            10,
            "0401020204010201020104ff0603020108ff02fc0604020106ff007f041a008106e6020108ff",
            &[
                (4, 2),
                (6, 1),
                (7, 2),
                (8, 1),
                (9, 1),
                (8, 2),
                (11, 3),
                (12, 1),
                (11, 4),
                (7, 1),
                (11, 3),
                (12, 1),
                (11, 3),
                (164, 2),
                (11, 3),
                (12, 1),
                (11, 4),
            ],
        ),
        (
            11,
            "8000d808098041f00407050ad80b0cf000020917d81415d81415f103011516f006020d0af000020d0ad81718f003020d\
             0af100020d0af400020d0a88018801f009020917f008020d0af000020d0ad81718f003020d0af100020d0af400020d0a\
             88018801f8f000020d0af000020d0ad81718f003020d0af100020d0af400020d0a8801f00002090af00002090af00002\
             090af00002090af07204000c108834",
            &[
                (3, 1),
                (4, 2),
                (6, 1),
                (7, 2),
                (8, 1),
                (9, 1),
                (8, 2),
                (11, 2),
                (12, 1),
                (11, 10),
                (7, 1),
                (11, 2),
                (12, 1),
                (11, 10),
                (0, 1),
                (11, 2),
                (12, 1),
                (11, 13),
                (164, 2),
            ],
        ),
        (
            12,
            "8000d808098041f00407050ad90b0cd81415d81415f103011516f008001819f603020d0ad812138a41f003020d0a8801\
             f100020d0af009000c0df00a001819f603020d0ad812138a41f003020d0a8801f000020d0af07204000c10f9f2730402\
             0d0af9f200020d0af8d81718f603020d0ad812138a41f003020d0a8801f100020d0af9f200020d0afa",
            &[
                (3, 1),
                (4, 2),
                (6, 1),
                (7, 2),
                (8, 1),
                (9, 1),
                (8, 2),
                (12, 1),
                (11, 7),
                (12, 4),
                (11, 4),
                (7, 1),
                (12, 1),
                (11, 7),
                (12, 4),
                (11, 3),
                (164, 1),
                (0, 2),
                (11, 3),
                (0, 2),
                (11, 3),
                (0, 1),
                (12, 1),
                (11, 7),
                (12, 4),
                (11, 4),
                (0, 2),
                (11, 3),
                (0, 3),
            ],
        ),
        (
            13,
            "8000d808098041f00407050ade0b0cd81415d81415f103011516f108001819f303020d0ad9171890218a419171f00300\
             090af000020d0a8801f009000c0df10a001819f303020d0ad9171890218a419171f00300090af000020d0af07204000c\
             10f9f27304020d0af9f200020d0af8d91718f303020d0ad9171890218a419171f00300090af000020d0a8801f9f20002\
             0d0afa",
            &[
                (3, 1),
                (4, 2),
                (6, 1),
                (7, 7),
                (8, 1),
                (9, 1),
                (8, 2),
                (12, 2),
                (11, 4),
                (12, 8),
                (11, 3),
                (7, 1),
                (12, 2),
                (11, 4),
                (12, 8),
                (11, 2),
                (164, 1),
                (0, 2),
                (11, 3),
                (0, 2),
                (11, 3),
                (0, 1),
                (12, 2),
                (11, 4),
                (12, 8),
                (11, 3),
                (0, 2),
                (11, 3),
                (0, 3),
            ],
        ),
    ];

    fn bytes(text: &str) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        (0..text.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn each_version_has_the_lines_that_it_gives_itself() {
        for (minor, table, lines) in COMPILED {
            let table = bytes(table);
            let each = lines.iter().flat_map(|(line, times)| (0..*times).map(|_| *line));
            for (number, expected) in each.enumerate() {
                let found = line(minor, 3, &table, 2 * number as u64);
                assert_eq!(found.unwrap_or(0), expected, "3.{minor}, instruction {number}");
            }
        }
    }

    #[test]
    fn damaged_tables_end_and_give_no_line_below_the_first_one() {
        let mut number = 1_u64;
        for length in 0..400 {
            let mut byte = || {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (number >> 33) as u8
            };
            let table: Vec<u8> = (0..length).map(|_| byte()).collect();
            for minor in 8..15 {
                line(minor, u32::MAX, &table, 7);
                line(minor, 0, &table, u64::MAX);
            }
        }
        assert_eq!(line(11, 3, &[0xe8, 0xff, 0xff], 0), None, "a number without an end");
        assert_eq!(line(9, 0, &[0, 0x80], 0), None, "a line before the first");
        assert_eq!(line(12, 3, &[], 0), None);
    }
}
