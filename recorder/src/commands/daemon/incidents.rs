//! `fxtrec daemon --incidents`: counts the incidents of the machine by their cause.
//!
//! ```text
//!   fxtrec watch --json  (a child process)  -->  a line for each incident, with its cause  -->  counters of /metrics
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::kernel::helper::Launcher;
use crate::why::CAUSES;

/// A line is shorter: an explanation has a bounded number of links.
const MOST_BYTES: u64 = 16 << 20;

/// The incidents since the daemon started, by cause. `None` if incidents are no longer counted.
#[derive(Clone, Debug)]
pub(super) struct Counts(Arc<Mutex<Option<BTreeMap<&'static str, u64>>>>);

/// The members that are read from a line of `fxtrec watch --json`.
#[derive(Deserialize)]
struct Line {
    cause: String,
}

impl Counts {
    fn new() -> Counts {
        // A counter that appears with its first incident would hide that incident from rate().
        let all = CAUSES.iter().map(|cause| (*cause, 0)).collect();
        Counts(Arc::new(Mutex::new(Some(all))))
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<&'static str, u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the counting; returns whether it had not ended yet.
    fn end(&self) -> bool {
        self.lock().take().is_some()
    }

    /// Counts the incident of a line.
    fn add(&self, line: &str) {
        let Ok(Line { cause }) = serde_json::from_str(line) else { return };
        if let Some(count) = self.lock().as_mut().and_then(|all| all.get_mut(cause.as_str())) {
            *count += 1;
        }
    }

    /// Each cause with its number of incidents.
    pub(super) fn now(&self) -> Option<Vec<(&'static str, u64)>> {
        self.lock().as_ref().map(|all| all.iter().map(|(cause, count)| (*cause, *count)).collect())
    }
}

/// The process that watches, and the thread that reads its lines. Dropping this ends both.
pub(super) struct Incidents {
    watch: Arc<Mutex<Child>>,
    counts: Counts,
    reader: Option<JoinHandle<()>>,
    _launcher: Launcher,
}

impl fmt::Debug for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incidents").finish_non_exhaustive()
    }
}

/// Starts to count the incidents that took at least `min` longer than usual.
///
/// # Errors
/// Returns an error if the process or the thread cannot be started.
pub(super) fn start(min: Duration) -> io::Result<(Incidents, Counts)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["watch", "--json", "--min"]).arg(format!("{}ns", min.as_nanos()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let launcher = Launcher::new()?;
    let mut child = launcher.spawn(command)?;
    let lines = child.stdout.take();
    let (watch, counts) = (Arc::new(Mutex::new(child)), Counts::new());
    let (watch_of_reader, counts_of_reader) = (watch.clone(), counts.clone());
    let reader =
        std::thread::Builder::new().name("fxtrec-incident".to_owned()).spawn(move || {
            if let Some(lines) = lines {
                read(lines, &counts_of_reader);
            }
            let ended = lock(&watch_of_reader).wait();
            // Counters that no longer count would look as if no incidents occurred.
            if counts_of_reader.end() {
                let status = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                // If standard error is closed, the message has no reader.
                let _ =
                    writeln!(io::stderr(), "fxtrec: incidents are no longer counted ({status})");
            }
        })?;
    let incidents =
        Incidents { watch, counts: counts.clone(), reader: Some(reader), _launcher: launcher };
    Ok((incidents, counts))
}

fn read(lines: ChildStdout, counts: &Counts) {
    let mut lines = BufReader::new(lines);
    loop {
        let mut line = String::new();
        match lines.by_ref().take(MOST_BYTES).read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => counts.add(&line),
        }
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Incidents {
    fn drop(&mut self) {
        self.counts.end();
        {
            let mut watch = lock(&self.watch);
            // After the process was reaped, its id may be reused.
            if matches!(watch.try_wait(), Ok(None))
                && let Ok(pid) = i32::try_from(watch.id())
            {
                // The process may just be ending.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
        }
        // The thread has already reported its panic.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_cause_and_others_are_not() {
        let counts = Counts::new();
        for line in [
            r#"{"format":"fxtrec-watch","cause":"lock","incident":{"cause":"disk"}}"#,
            r#"{"cause":"lock"}"#,
            r#"{"cause":"no such cause"}"#,
            r#"{"incident":{"cause":"disk"}}"#,
            "lock",
            "",
        ] {
            counts.add(line);
        }
        let now = counts.now().expect("they are counted");
        assert_eq!(now.len(), CAUSES.len());
        for (cause, count) in now {
            assert_eq!(count, if cause == "lock" { 2 } else { 0 }, "{cause}");
        }
        assert!(counts.end() && !counts.end());
        counts.add(r#"{"cause":"lock"}"#);
        assert_eq!(counts.now(), None);
    }
}
