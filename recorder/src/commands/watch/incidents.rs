//! Finds unusual intervals in successive recordings.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::unistd::geteuid;
use serde::Serialize;

use crate::commands::trace_file;
use crate::kernel::clock;
use crate::kernel::regular::{Links, Regular};
use crate::report::call_name;
use crate::units::escape;
use crate::units::text::{short, time_of_day};
use crate::why::{self, Explanation, MOST_EXPLAINED, Pick, Query, WhyError};

/// The version of the JSON. It increases when a member is removed or changes its meaning.
const VERSION: u32 = 1;

/// Analyses one recording after another.
#[derive(Debug)]
pub(super) struct Incidents {
    least_ns: u64,
    /// The end of the last recording.
    seen_until: Option<u64>,
    not_seen_ns: u64,
}

/// An interval that was unusually long.
#[derive(Debug)]
pub(super) struct Incident {
    /// How much longer than usual it took, in nanoseconds.
    pub(super) excess_ns: u64,
    /// When it ended, as a Unix time.
    end: Duration,
    explanation: Explanation,
}

impl Incidents {
    /// Looks for incidents that exceed the usual time by at least `least`.
    pub(super) fn new(least: Duration) -> Incidents {
        let least_ns = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        Incidents { least_ns, seen_until: None, not_seen_ns: 0 }
    }

    /// The time between the first and the last recording that no recording covers.
    pub(super) fn not_seen(&self) -> Duration {
        Duration::from_nanos(self.not_seen_ns)
    }

    /// The incidents that ended after the previous recording, ordered by time.
    ///
    /// # Errors
    /// Returns [`WhyError`], except that there is nothing to explain.
    pub(super) fn of(&mut self, path: &Path) -> Result<Vec<Incident>, WhyError> {
        let query = Query { pick: Pick::Incidents(MOST_EXPLAINED), ..Query::default() };
        let syscall = |machine: &str, number| call_name(machine, u16::try_from(number).ok()?);
        let (_file, path) = open(path).map_err(|source| {
            WhyError::Read(fxt_reader::Error::Open { path: path.to_owned(), source })
        })?;
        let answer = match why::explain(&query, || trace_file::read(&path), syscall) {
            Ok(answer) => answer,
            Err(WhyError::Nothing | WhyError::Empty) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let (begin, end) = (answer.trace.begin_ns, answer.trace.end_ns);
        let until = self.seen_until.replace(end).unwrap_or(begin);
        self.not_seen_ns += begin.saturating_sub(until);
        let own = u64::from(std::process::id());
        let (now, wall) = (clock::now().0, SystemTime::now());
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut found: Vec<Incident> = answer
            .explanations
            .into_iter()
            .filter(|it| it.is_unusual != Some(false) && it.to_ns > until && it.thread.tid != own)
            .map(|it| Incident {
                excess_ns: it.length_ns.saturating_sub(it.median_ns.unwrap_or(0)),
                end: wall.saturating_sub(Duration::from_nanos(now.saturating_sub(it.to_ns))),
                explanation: it,
            })
            .filter(|it| it.excess_ns >= self.least_ns)
            .collect();
        found.sort_by_key(|it| it.explanation.to_ns);
        Ok(found)
    }
}

/// Opens a recording of this user; rejects a file that another user has put in its place. The path is valid as long as the file is open.
fn open(path: &Path) -> io::Result<(File, PathBuf)> {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let held = Regular::hold_in(File::open(folder)?.as_fd(), name.as_ref(), Links::NotLast)?;
    if held.facts()?.st_uid != geteuid().as_raw() {
        return Err(io::Error::other("it is not the file that the recorder wrote"));
    }
    let file = held.open()?;
    let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok((file, open))
}

/// An incident for programs.
#[derive(Serialize)]
struct Line<'a> {
    format: &'static str,
    version: u32,
    unix_ns: u64,
    excess_ns: u64,
    cause: &'static str,
    file: Option<String>,
    incident: &'a Explanation,
}

impl Incident {
    pub(super) fn write_json(&self, file: Option<&Path>, out: &mut dyn Write) -> io::Result<()> {
        let line = Line {
            format: "fxtrec-watch",
            version: VERSION,
            unix_ns: u64::try_from(self.end.as_nanos()).unwrap_or(u64::MAX),
            excess_ns: self.excess_ns,
            cause: self.explanation.cause(),
            file: file.map(|path| path.display().to_string()),
            incident: &self.explanation,
        };
        // In one piece, because COMMAND may print to the same place meanwhile.
        let mut text = Vec::new();
        serde_json::to_writer(escape::Json(&mut text), &line)?;
        text.push(b'\n');
        out.write_all(&text)
    }

    pub(super) fn write_line(&self, file: Option<&Path>, out: &mut dyn Write) -> io::Result<()> {
        let (time, excess) = (time_of_day(self.end), short(Duration::from_nanos(self.excess_ns)));
        let file = file.map_or_else(String::new, |path| format!(" ({})", path.display()));
        writeln!(out, "{time}  {excess:>7}  {}{file}", self.explanation.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_and_another_kind_of_file_are_no_recording() {
        let folder = tempfile::tempdir().expect("a directory");
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "x").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("made");
        assert!(open(&file).is_ok());
        assert!(open(&link).is_err() && open(folder.path()).is_err());
    }
}
