//! The id and the day of a trace, which determine where its tables go.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use fxt_reader::{Error, Nanos, Reader, Record};
use fxtrec_convert::traces;

use crate::rows::clock_offset;

/// The number of bytes at both ends of a file that are part of its fingerprint.
const ENDS: u64 = 64 << 10;

/// The name of the partition for an unknown day, by Hive's convention; SQL engines read it as null.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";

const NANOS_OF_DAY: i128 = 86_400_000_000_000;

/// The identity of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Equal for files with equal bytes. It begins with a letter, so that no SQL engine reads it as a number.
    pub(crate) id: String,
    /// The day in UTC, such as `2026-11-23`, by the wall clock of the machine that recorded the trace.
    pub(crate) day: String,
}

impl Identity {
    /// The identity of the trace in a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is not a trace.
    pub(crate) fn of(path: &Path) -> Result<Identity, Error> {
        let opened = |source| Error::Open { path: path.to_owned(), source };
        // A trace in another tool's format is identified by its own bytes, not by those of its conversion.
        let file = if path.is_file() { File::open(path) } else { traces::open(path) };
        let id = file.and_then(fingerprint).map_err(opened)?;
        Ok(Identity { id: format!("t{id:016x}"), day: day(&mut crate::read(path)?) })
    }
}

/// FNV-1a of the length of a file, its first bytes and its last.
fn fingerprint(mut file: File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut bytes = length.to_le_bytes().to_vec();
    file.by_ref().take(ENDS).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(length.saturating_sub(ENDS)))?;
    file.take(ENDS).read_to_end(&mut bytes)?;
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Ok(bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}

/// The day of the first scheduling event. Errors are ignored here: the export itself reports them.
fn day(reader: &mut Reader<'_>) -> String {
    let mut offset = None;
    loop {
        match reader.next() {
            Ok(Some(item)) => match (&item.record, item.record.time()) {
                (Record::Event(event), _) if event.category == "fxtrec" => {
                    let reported = event.args.get("wall_clock_offset_ns");
                    offset = reported.and_then(clock_offset).or(offset);
                }
                (
                    Record::ContextSwitch(_) | Record::LegacyContextSwitch(_) | Record::Wakeup(_),
                    Some(Nanos(time)),
                ) => {
                    let date = |offset: i64| date(i128::from(time) + i128::from(offset));
                    return offset.and_then(date).unwrap_or_else(|| NO_DAY.to_owned());
                }
                _ => {}
            },
            Err(Error::Damaged(_)) => {}
            Ok(None) | Err(_) => return NO_DAY.to_owned(),
        }
    }
}

/// The date of a time in nanoseconds since 1970; `None` if it is out of range.
fn date(nanos: i128) -> Option<String> {
    let (year, day) = of_year(u32::try_from(nanos.div_euclid(NANOS_OF_DAY)).ok()?)?;
    let february = if is_leap(year) { 29 } else { 28 };
    let mut left = day;
    for (month, days) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if left < days {
            return Some(format!("{year}-{month:02}-{:02}", left + 1));
        }
        left -= days;
    }
    None
}

/// The ISO 8601 week, such as `2026-W48`: weeks begin on Mondays, and belong to the year that has most of their days.
pub(crate) fn week(nanos: i128) -> Option<String> {
    let day = u32::try_from(nanos.div_euclid(NANOS_OF_DAY)).ok()?;
    // 1970 began on a Thursday, and a week belongs to the year of its Thursday.
    let thursday = (day + 3) / 7 * 7;
    let (year, day) = of_year(thursday)?;
    Some(format!("{year}-W{:02}", day / 7 + 1))
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

/// The year of a day since 1970, and the day within that year, from 0.
fn of_year(mut day: u32) -> Option<(u32, u32)> {
    for year in 1970..10_000 {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            return Some((year, day));
        }
        day -= days;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let of = |seconds: i128| date(seconds * 1_000_000_000);
        assert_eq!(of(0).as_deref(), Some("1970-01-01"));
        assert_eq!(of(951_782_400).as_deref(), Some("2000-02-29"));
        assert_eq!(of(1_795_391_999).as_deref(), Some("2026-11-22"));
        assert_eq!(of(1_795_392_000).as_deref(), Some("2026-11-23"));
        assert_eq!(of(4_107_542_400).as_deref(), Some("2100-03-01"));
        assert_eq!((of(-1), of(i128::from(i64::MAX))), (None, None));
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        let of = |days: i128| week(days * NANOS_OF_DAY);
        assert_eq!(of(0).as_deref(), Some("1970-W01"));
        // A Sunday and the following Monday, where the first week of the year has three days of the old year.
        assert_eq!(of(18_259).as_deref(), Some("2019-W52"), "2019-12-29");
        assert_eq!(of(18_260).as_deref(), Some("2020-W01"));
        assert_eq!(of(18_628).as_deref(), Some("2020-W53"), "2021-01-01");
        assert_eq!(of(20_781).as_deref(), Some("2026-W48"), "2026-11-24");
        assert_eq!(of(-1), None);
    }
}
