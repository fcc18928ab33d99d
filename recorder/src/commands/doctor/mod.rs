//! `fxtrec doctor`: reports what this machine allows and what to change.
//!
//! The machine is examined once ([`examine`]), mainly by opening and mapping the
//! events that a recording uses. The findings are output as lines of text ([`checks`]) and one verdict per use ([`verdict`]).

mod checks;
mod examine;
mod verdict;

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::config::Config;
use crate::kernel::sys::Linux;
use crate::units::escape;
use crate::units::look::Look;
use fxtrec_sessions::settings::SettingsError;
use verdict::Verdict;

/// The width of the column with the checks' names.
const CHECK_WIDTH: usize = 16;

/// The width of the column with the command lines.
const USAGE_WIDTH: usize = 20;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    /// Increases when the meaning of a member changes.
    version: u32,
    /// The versions of fxtrec and the kernel, and the user.
    machine: &'a str,
    /// Whether the main use cases work: the exit status.
    works: bool,
    checks: Vec<Check>,
    uses: Vec<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    /// Recording works, with a restriction.
    Warn,
    Fail,
}

/// A finding, in one or a few lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    status: Status,
    name: &'static str,
    /// The finding. Line breaks are kept.
    text: String,
}

impl Check {
    fn new(status: Status, name: &'static str, text: impl Into<String>) -> Check {
        Check { status, name, text: text.into() }
    }
}

/// Examines the machine and prints the findings to `out`.
///
/// True when the main uses work: recording a command, the machine, and a process.
///
/// # Errors
/// Returns an error when `out` cannot be written.
pub fn run(args: DoctorArgs, no_config: bool, look: Look, out: &mut dyn Write) -> io::Result<bool> {
    let examination = examine::examine(&Linux);
    let (mut checks, verdicts) = (checks::checks(&examination), verdict::verdicts(&examination));
    checks.push(match no_config {
        true => Check::new(Status::Ok, "configuration", "not read (--no-config)"),
        false => configuration(&Config::find()),
    });
    let works = verdicts.iter().all(|verdict| verdict.works);
    let remedy = verdict::remedy(&examination);
    if args.json {
        let findings = Findings {
            version: 1,
            machine: &examination.headline,
            works,
            checks,
            uses: verdicts,
            remedy,
        };
        serde_json::to_writer_pretty(escape::Json(&mut *out), &findings)?;
        writeln!(out)?;
        return Ok(works);
    }
    writeln!(out, "{}\n", look.heading(&examination.headline))?;
    for check in checks {
        let status = match check.status {
            Status::Ok => ("ok", "ok".to_owned()),
            Status::Warn => ("warn", look.doubtful("warn")),
            Status::Fail => ("FAIL", look.bad("FAIL")),
        };
        row(out, status, (check.name, CHECK_WIDTH), &check.text)?;
    }
    writeln!(out, "\n{}", look.heading("What this machine allows:"))?;
    for verdict in &verdicts {
        let answer = match verdict.works {
            true => ("yes", "yes".to_owned()),
            false => ("NO", look.bad("NO")),
        };
        row(out, answer, (verdict.usage, USAGE_WIDTH), &verdict.text)?;
    }
    if let Some(remedy) = remedy {
        writeln!(out, "\n{} {remedy}", look.heading("What to do:"))?;
    }
    Ok(works)
}

/// The configuration file in use.
fn configuration(found: &Result<Config, SettingsError>) -> Check {
    let (status, text) = match found {
        Ok(Config { path: Some(path), .. }) => (Status::Ok, format!("{} is used", path.display())),
        Ok(_) => (Status::Ok, "there is no file; defaults are used".to_owned()),
        Err(error) => (Status::Warn, format!("{error}; other commands fail without --no-config")),
    };
    Check::new(status, "configuration", text)
}

/// Writes a row; further lines of `text` are indented below its first line. `status` is given both without and with colour.
fn row(
    out: &mut dyn Write,
    (status, painted): (&str, String),
    (name, width): (&str, usize),
    text: &str,
) -> io::Result<()> {
    let head = format!("{status:<6}{name:<width$}");
    let next = format!("\n{:1$}", "", head.len());
    let head = head.replacen(status, &painted, 1);
    writeln!(out, "{head}{}", text.lines().collect::<Vec<_>>().join(&next))
}
