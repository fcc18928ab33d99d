//! Verdicts as JUnit XML, which CI systems read.
//!
//! Each gate is a test case. A gate that passes because it has too few values, or although it was disturbed, is a skipped test case. A
//! disturbed gate that neither fails nor passes is an error: its result is unknown.

use std::io::{self, Write};

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::super::evaluate::{Finding, Verdict};
use super::{blame, censored, finding};
use fxtrec_units::escape;

/// Writes a complete document. `about` names the recording.
///
/// # Errors
/// The errors of `out`.
pub fn write_junit(verdicts: &[Verdict<'_>], about: &str, out: impl Write) -> io::Result<()> {
    let mut writer = Writer::new_with_indent(out, b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let failures = verdicts.iter().filter(|verdict| verdict.failed).count();
    let errors = verdicts.iter().filter(|verdict| verdict.undecided).count();
    let skipped = verdicts.iter().filter(|verdict| is_skipped(verdict)).count();
    let counts = [
        ("tests", verdicts.len().to_string()),
        ("failures", failures.to_string()),
        ("errors", errors.to_string()),
        ("skipped", skipped.to_string()),
    ];
    let counts = || counts.iter().map(|(name, count)| (*name, count.as_str()));
    writer
        .create_element("testsuites")
        .with_attribute(("name", "fxtrec"))
        .with_attributes(counts())
        .write_inner_content(|writer| {
            writer
                .create_element("testsuite")
                .with_attribute(("name", clean(about).as_str()))
                .with_attributes(counts())
                .write_inner_content(|writer| {
                    verdicts.iter().try_for_each(|verdict| write_case(verdict, writer))
                })?;
            Ok(())
        })?;
    writer.get_mut().write_all(b"\n")?;
    writer.get_mut().flush()
}

fn is_skipped(verdict: &Verdict<'_>) -> bool {
    let disturbed = verdict.is_disturbed() && !verdict.undecided;
    !verdict.failed && (disturbed || verdict.finding.is_open())
}

fn write_case<W: Write>(verdict: &Verdict<'_>, writer: &mut Writer<W>) -> io::Result<()> {
    let finding = finding(verdict);
    let name = clean(&verdict.gate.to_string());
    let case = writer
        .create_element("testcase")
        .with_attribute(("classname", "fxtrec.gates"))
        .with_attribute(("name", name.as_str()))
        .with_attribute(("time", "0"));
    case.write_inner_content(|writer| {
        if is_skipped(verdict) {
            let skipped = writer.create_element("skipped");
            let message = match blame(verdict) {
                Some(blame) => format!("{finding}; {blame}"),
                None => finding,
            };
            skipped.with_attribute(("message", message.as_str())).write_empty()?;
        } else if verdict.failed || verdict.undecided {
            let kind = match verdict.finding {
                Finding::NotRecorded => "not recorded",
                Finding::TooFew { .. } | Finding::NoThread => "too few values",
                Finding::Broken if verdict.is_disturbed() => "disturbed",
                Finding::RecordsLost => "records lost",
                Finding::NamesMissing => "names missing",
                Finding::Broken | Finding::Kept => "latency",
            };
            let more = blame(verdict).into_iter();
            let more = more.chain(verdict.offenders.iter().map(ToString::to_string));
            let more = more.chain(censored(verdict));
            let more: Vec<String> = more.map(|line| clean(&line)).collect();
            writer
                .create_element(if verdict.failed { "failure" } else { "error" })
                .with_attribute(("message", finding.as_str()))
                .with_attribute(("type", kind))
                .write_text_content(BytesText::new(&more.join("\n")))?;
        } else {
            let output = writer.create_element("system-out");
            output.write_text_content(BytesText::new(&finding))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Escapes control characters: threads choose their names, and XML cannot represent most control characters.
fn clean(text: &str) -> String {
    escape::line(text).into_owned()
}
