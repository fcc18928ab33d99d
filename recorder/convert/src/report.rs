//! What a conversion has to say when it ends.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of what was converted, and of everything that could not be carried over as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records or events that were read.
    pub read: u64,
    remarks: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
}

impl Report {
    /// Counts `what`, which reads well behind a number, as "events without a time".
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts `what` several times.
    pub fn add(&mut self, what: &'static str, times: u64) {
        if times > 0 {
            *self.remarks.entry(what).or_default() += times;
        }
    }

    /// Adds a line that is to be told.
    pub fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// The lines that are to be told.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How often `what` was counted.
    pub fn times(&self, what: &str) -> u64 {
        self.remarks.get(what).copied().unwrap_or(0)
    }

    /// All that was counted, by name.
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
            writeln!(f, "  {times} {what}")?;
        }
        Ok(())
    }
}
