//! Verdicts as Markdown, for the summary page of a CI run.

use std::fmt::Write;

use super::super::evaluate::Verdict;
use super::{blame, censored, finding, headline};
use fxtrec_units::escape;

/// A heading, a table of all verdicts, and the worst contributors of the failed gates. `about` names the recording.
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

/// Arbitrary text (threads choose their names) as code, also within a table.
fn code(text: &str) -> String {
    let plain = escape::line(text);
    // The fence must be longer than any run of backticks inside.
    let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    // In a table, every `|` ends a cell, even inside code.
    format!("{fence}{space}{}{space}{fence}", plain.replace('|', "\\|"))
}
