//! Verdicts as Markdown, for the page that a CI shows beside a run.

use std::fmt::Write;

use super::super::evaluate::Verdict;
use super::{blame, censored, finding, headline};
use fxtrec_units::escape;

/// A heading, a table of all verdicts, and the worst offenders of those that failed. `about` says of which recording.
pub fn markdown(verdicts: &[Verdict<'_>], about: &str) -> String {
    let mut page = String::new();
    // Writing to a String does not fail.
    let _ = write_markdown(verdicts, about, &mut page);
    page
}

fn write_markdown(verdicts: &[Verdict<'_>], about: &str, page: &mut String) -> std::fmt::Result {
    writeln!(page, "### fxtrec: {}\n", headline(verdicts))?;
    writeln!(page, "Recording: {}\n", code(about))?;
    writeln!(page, "| verdict | fails if | measured |\n| --- | --- | --- |")?;
    for verdict in verdicts {
        let word = match (verdict.is_disturbed(), verdict.failed) {
            (true, true) => "❌ disturbed",
            (true, false) => "⚠️ disturbed",
            (false, true) => "❌ failed",
            _ if verdict.undecided => "⚠️ undecided",
            (false, false) => "✅ passed",
        };
        let more = [censored(verdict), blame(verdict)].into_iter().flatten();
        let more: String = more.map(|text| format!("; {text}")).collect();
        let gate = code(&verdict.gate.to_string());
        writeln!(page, "| {word} | {gate} | {}{more} |", finding(verdict))?;
    }
    writeln!(page)?;
    for verdict in verdicts.iter().filter(|verdict| !verdict.offenders.is_empty()) {
        writeln!(page, "Worst for {}:\n", code(&verdict.gate.to_string()))?;
        for offender in &verdict.offenders {
            writeln!(page, "- {} {}", offender.amount, code(&offender.what))?;
        }
        writeln!(page)?;
    }
    Ok(())
}

/// Text that may hold anything (threads choose their names) as code, also inside of a table.
fn code(text: &str) -> String {
    let plain = escape::line(text);
    // The fence must be longer than any run of back quotes inside.
    let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    // A table ends its cell at every bar, even inside of code.
    format!("{fence}{space}{}{space}{fence}", plain.replace('|', "\\|"))
}
