//! Checks that a trace follows the format specification and, optionally, what
//! fxtrec promises of its own traces beyond it.
//!
//! A [`Checker`] receives every item and every damaged record of a trace and
//! produces a [`Report`] of [`Finding`]s with byte offsets. [`check`] does that
//! for a whole reader. The reader is lenient and the checker is not: a set
//! reserved bit, which the reader ignores, is a finding here.
//!
//! ```
//! use fxt_reader::Reader;
//! use fxt_reader::check::{Promises, Rule, check};
//!
//! // A magic number, and a provider event of a provider never introduced.
//! let bytes: Vec<u8> = [0x0016_5478_4604_0010_u64, 0x0000_0000_0073_0010]
//!     .iter()
//!     .flat_map(|word| word.to_le_bytes())
//!     .collect();
//! let report = check(&mut Reader::from_slice(&bytes), Promises::Spec)?;
//! assert!(!report.is_sound());
//! assert_eq!(report.findings[0].rule, Rule::Provider);
//! assert_eq!(report.findings[0].offset, 8);
//! # Ok::<(), fxt_reader::Error>(())
//! ```

mod chain;
mod rule;
mod spec;

pub use rule::{Finding, Rule};

use std::collections::BTreeMap;

use crate::error::{Damage, Error};
use crate::reader::{Item, Reader};
use crate::summary::Summary;
use chain::FxtrecChecks;
use spec::SpecChecks;

/// The number of findings that a report keeps; further ones are only counted.
pub const MAX_FINDINGS: usize = 1000;

/// The rules that a trace is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promises {
    /// The format specification, which applies to traces of any writer.
    Spec,
    /// The specification and what fxtrec promises: threads named before they are
    /// scheduled, scheduling records in time order, idle sides marked, unbroken
    /// chains of threads on each CPU.
    Fxtrec,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The first [`MAX_FINDINGS`] findings, in the order of the trace.
    pub findings: Vec<Finding>,
    /// How often each rule is broken; all findings are counted.
    pub counts: BTreeMap<Rule, u64>,
    /// What was read. A truncated tail is not a finding: a recorder that was
    /// killed leaves one.
    pub summary: Summary,
}

impl Report {
    /// Whether the trace breaks no rule.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Checks the rest of a trace, from the reader's position on.
///
/// # Errors
///
/// Returns an error when the trace cannot be read; damage is a finding, not an error.
pub fn check(reader: &mut Reader<'_>, promises: Promises) -> Result<Report, Error> {
    let mut checker = Checker::new(promises);
    loop {
        match reader.next() {
            Ok(Some(item)) => checker.item(&item),
            Ok(None) => return Ok(checker.finish(reader.summary())),
            Err(Error::Damaged(damage)) => checker.damage(damage),
            Err(error) => return Err(error),
        }
    }
}

/// Checks a trace that the caller reads, item by item.
#[derive(Debug)]
pub struct Checker {
    spec: SpecChecks,
    fxtrec: Option<FxtrecChecks>,
    findings: Findings,
}

impl Checker {
    /// A checker that has not read any records yet.
    #[must_use]
    pub fn new(promises: Promises) -> Self {
        Self {
            spec: SpecChecks::default(),
            fxtrec: (promises == Promises::Fxtrec).then(FxtrecChecks::default),
            findings: Findings::default(),
        }
    }

    /// Checks the next record.
    pub fn item(&mut self, item: &Item<'_>) {
        self.spec.item(item, &mut self.findings);
        if let Some(fxtrec) = &mut self.fxtrec {
            fxtrec.item(item, &mut self.findings);
        }
    }

    /// Adds a damaged record to the findings.
    pub fn damage(&mut self, damage: Damage) {
        self.findings.add(damage.offset, Rule::of(damage.reason), damage.to_string());
        if let Some(fxtrec) = &mut self.fxtrec {
            fxtrec.damage();
        }
    }

    /// Ends the check and returns its findings; `summary` is that of the reader at the end of the
    /// trace.
    #[must_use]
    pub fn finish(mut self, summary: Summary) -> Report {
        let findings = &mut self.findings;
        if !summary.magic && !findings.counts.contains_key(&Rule::Magic) {
            findings.add(0, Rule::Magic, "the trace does not begin with the magic number".into());
        }
        self.findings.list.sort_by_key(|finding| finding.offset);
        Report { findings: self.findings.list, counts: self.findings.counts, summary }
    }
}

/// The findings so far.
#[derive(Debug, Default)]
struct Findings {
    list: Vec<Finding>,
    counts: BTreeMap<Rule, u64>,
}

impl Findings {
    fn add(&mut self, offset: u64, rule: Rule, detail: String) {
        *self.counts.entry(rule).or_default() += 1;
        if self.list.len() < MAX_FINDINGS {
            self.list.push(Finding { offset, rule, detail });
        }
    }
}
