//! `fxtrec demo`: a recording of this machine in which a thread is late for a known reason.
//!
//! This thread and the thread that delays it run in another fxtrec process, `fxtrec demo --scene`. That process is recorded like any
//! COMMAND, and the page is that of `fxtrec report --html`.

mod scene;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::{Cli, Command, DemoArgs, EXIT_FAILURE};
use crate::commands::open::browser;
use crate::commands::record::{self, RecordError};
use crate::commands::report::{self, ReportError};
use crate::units::look::Look;

pub use scene::SceneError;

/// The reason why the demonstration failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// fxtrec cannot start itself.
    #[error("cannot find fxtrec's own executable: {0}")]
    Own(#[source] io::Error),
    /// The scene failed and has printed the reason.
    #[error("the recorded program exited with status {0}")]
    Status(u8),
    /// An invalid output name.
    #[error("cannot use {} as a name: {error}", path.display())]
    Name { path: PathBuf, error: clap::Error },
}

impl DemoError {
    pub fn exit_code(&self) -> u8 {
        match self {
            DemoError::Record(error) => error.exit_code(),
            _ => EXIT_FAILURE,
        }
    }
}

/// Records, creates the page and prints its path. Must be called before the process starts a second thread.
///
/// # Errors
/// Returns [`DemoError`].
pub fn run(args: &DemoArgs, err: &mut dyn Write) -> Result<(), DemoError> {
    if args.scene {
        return Ok(scene::play(args.duration.duration())?);
    }
    let (trace, page) = (with_ending(&args.output, "fxt"), with_ending(&args.output, "html"));
    let own = std::env::current_exe().map_err(DemoError::Own)?;
    let scene = [own.into_os_string(), "demo".into(), "--scene".into(), "-d".into()];
    let mut line: Vec<OsString> = ["fxtrec", "record", "-o"].map(OsString::from).to_vec();
    line.extend([trace.clone().into_os_string(), "--".into()]);
    line.extend(scene);
    line.push(format!("{}ns", args.duration.duration().as_nanos()).into());
    let parsed = parse(&trace, &line)?;
    if let Command::Record(record) = parsed {
        match record::run(record, err)? {
            0 => {}
            status => return Err(DemoError::Status(status)),
        }
    }
    let line = ["fxtrec".into(), "report".into(), trace.clone().into_os_string(), "--html".into()];
    let line: Vec<OsString> = line.into_iter().chain([page.clone().into_os_string()]).collect();
    if let Command::Report(report) = parse(&trace, &line)? {
        report::run(&report, Look::PLAIN, &mut io::sink(), err)?;
    }
    tell(args, &trace, &page, err).map_err(ReportError::Write)?;
    Ok(())
}

fn parse(path: &Path, line: &[OsString]) -> Result<Command, DemoError> {
    Cli::parse_line(line).map_err(|error| DemoError::Name { path: path.to_owned(), error })
}

/// With the extension `fxt`, `a/b.c` and `a/b.c.html` both become `a/b.c.fxt`, so the user can name either file.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let has_one = path.extension().is_some_and(|known| known == "fxt" || known == "html");
    let stem = if has_one { path.with_extension("") } else { path.to_owned() };
    let mut name = stem.into_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

fn tell(args: &DemoArgs, trace: &Path, page: &Path, err: &mut dyn Write) -> io::Result<()> {
    writeln!(err)?;
    writeln!(
        err,
        "The thread `player` was made late on purpose: `hog` took its CPU for 30 ms, twice a second."
    )?;
    let trace = trace.display();
    writeln!(err, "  fxtrec why {trace} --thread player      the worst delay in a sentence")?;
    writeln!(err, "  fxtrec report {trace} --comm player     how often, how long, and for whom")?;
    let link = std::path::absolute(page)?;
    writeln!(err, "  {}, the same for the browser", link.display())?;
    if !args.no_browser
        && let Err(why) = browser::open(&link.to_string_lossy())
    {
        writeln!(err, "  (not opened: {why})")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_named_after_the_path_with_or_without_its_ending() {
        for given in ["a/b.c", "a/b.c.fxt", "a/b.c.html"] {
            let named = ["fxt", "html"].map(|ending| with_ending(Path::new(given), ending));
            assert_eq!(named, ["a/b.c.fxt", "a/b.c.html"].map(PathBuf::from), "{given}");
        }
        assert_eq!(with_ending(Path::new("fxt"), "fxt"), Path::new("fxt.fxt"));
    }
}
