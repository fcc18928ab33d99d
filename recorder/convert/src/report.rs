//! The report at the end of a conversion.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of converted data, and of data that could not be converted unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of records or events that were read.
    pub read: u64,
    remarks: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
}

impl Report {
    /// Counts `what`, a phrase that follows a number, such as "events without a time".
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts `what` several times.
    pub fn add(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.remarks.entry(what).or_default() += times;
        }
    }

    /// Adds a line to the report.
    pub fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// The added lines.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How many times `what` was counted.
    pub fn times(&self, what: &str) -> u64 {
        self.remarks.get(what).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn remarks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.remarks.iter().map(|(what, times)| (*what, *times))
    }
}

/// One line for each remark.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.notes {
            writeln!(f, "  {line}")?;
        }
        for (what, times) in &self.remarks {
            match times {
                1 => writeln!(f, "  1 {}", of_one(what))?,
                _ => writeln!(f, "  {times} {what}")?,
            }
        }
        Ok(())
    }
}

/// Words that change with the noun at the beginning of a remark.
const OF_SEVERAL: [(&str, &str); 8] = [
    (" that are not numbers or have ", " that is not a number or has "),
    (" that are not plain numbers", " that is not a plain number"),
    (" that are not events", " that is not an event"),
    (" that overlap ", " that overlaps "),
    (" on tracks of their own", " on a track of its own"),
    (" without their ", " without its "),
    (" as arguments", " as an argument"),
    (" as instants", " as an instant"),
];

/// The singular of a remark, which begins with a plural noun.
fn of_one(what: &str) -> String {
    let noun = what.split(' ').find(|word| word.trim_end_matches(',').ends_with('s'));
    let Some(noun) = noun.map(|noun| noun.trim_end_matches(',')) else { return what.to_owned() };
    let ending = if ["addresses", "switches"].contains(&noun) { "es" } else { "s" };
    let one = what.replacen(noun, noun.strip_suffix(ending).unwrap_or(noun), 1);
    let rest = OF_SEVERAL.into_iter().find(|(several, _)| one.contains(several));
    rest.map_or(one.clone(), |(several, single)| one.replace(several, single))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_their_nouns() {
        for (several, one) in [
            ("files with another build id, not used", "1 file with another build id, not used"),
            ("damaged records, skipped", "1 damaged record, skipped"),
            ("addresses without a name", "1 address without a name"),
            ("switches missing in the input, inferred", "1 switch missing in the input, inferred"),
            ("stacks, left out", "1 stack, left out"),
            ("lines that are not events, skipped", "1 line that is not an event, skipped"),
            (
                "ids that are not plain numbers, kept as arguments",
                "1 id that is not a plain number, kept as arguments",
            ),
        ] {
            let mut report = Report::default();
            report.add(several, 1);
            assert_eq!(report.to_string().trim(), one);
            report.count(several);
            assert_eq!(report.to_string().trim(), format!("2 {several}"));
        }
    }
}
