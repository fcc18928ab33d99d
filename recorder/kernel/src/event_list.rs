//! Lists tracepoints, and lets the kernel check filters.

use std::io;
use std::path::PathBuf;

use super::format::Format;
use super::ftrace::owner::Owner;
use super::sys::Sys;
use super::tracefs::{Tracefs, TracefsError};

impl Tracefs {
    /// The groups of tracepoints.
    ///
    /// # Errors
    /// Returns [`TracefsError::Read`].
    pub fn groups(&self, sys: &dyn Sys) -> Result<Vec<String>, TracefsError> {
        list(sys, self.path().join("events"))
    }

    /// The tracepoints of a group, and a few files that are not tracepoints; empty if there is no such group.
    ///
    /// # Errors
    /// Returns [`TracefsError::Read`].
    pub fn names(&self, sys: &dyn Sys, group: &str) -> Result<Vec<String>, TracefsError> {
        match list(sys, self.path().join("events").join(group)) {
            Err(TracefsError::Read { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// The format of a tracepoint; `None` if there is no such tracepoint.
    ///
    /// # Errors
    /// Returns [`TracefsError`] if it exists but cannot be read.
    pub fn format_if_any(
        &self,
        sys: &dyn Sys,
        group: &str,
        name: &str,
    ) -> Result<Option<Format>, TracefsError> {
        match self.event_format(sys, group, name) {
            Ok(format) => Ok(Some(format)),
            Err(TracefsError::NoEvent { .. }) => Ok(None),
            Err(TracefsError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotADirectory =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The kernel's objection to a filter, in its own words.
    ///
    /// perf only returns an error code. The kernel gives a message only in an instance of tracefs, so one is created for this. `None` if
    /// the kernel cannot be queried or has no objection.
    pub fn objection_to_filter(
        &self,
        sys: &dyn Sys,
        group: &str,
        name: &str,
        filter: &str,
    ) -> Option<String> {
        let instance = self.path().join("instances").join(Owner::current(sys).new_name());
        sys.make_dir(&instance).ok()?;
        let file = instance.join("events").join(group).join(name).join("filter");
        let refused = sys.append(&file, filter).is_err();
        let answer = sys.read(&file);
        // If it cannot be removed, it is empty and records nothing, and the next start removes it like all instances of dead owners.
        let _ = sys.remove_dir(&instance);
        objection(&String::from_utf8_lossy(&answer.ok()?), refused)
    }
}

/// The message in a filter's file after a filter was written to it.
fn objection(answer: &str, refused: bool) -> Option<String> {
    let mut lines = answer.lines().filter(|_| refused);
    lines.find_map(|line| line.strip_prefix("parse_error: ")).map(str::to_owned)
}

fn list(sys: &dyn Sys, path: PathBuf) -> Result<Vec<String>, TracefsError> {
    sys.list(&path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => TracefsError::Refused { path, source },
        _ => TracefsError::Read { path, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const EVENTS: &str = "/sys/kernel/tracing/events";

    fn tracefs(sys: Fake) -> (Fake, Tracefs) {
        let sys = sys.refuse(EVENTS, libc::EISDIR);
        let tracefs = Tracefs::find(&sys).expect("mounted");
        (sys, tracefs)
    }

    #[test]
    fn a_group_that_is_not_there_has_no_tracepoints() {
        let (sys, tracefs) = tracefs(
            Fake::default()
                .file(&format!("{EVENTS}/sched/sched_switch/format"), "")
                .file(&format!("{EVENTS}/sched/enable"), "0"),
        );
        assert_eq!(tracefs.groups(&sys).expect("a list"), ["sched"]);
        assert_eq!(tracefs.names(&sys, "sched").expect("a list"), ["enable", "sched_switch"]);
        assert_eq!(tracefs.names(&sys, "nothing").expect("a list"), [] as [&str; 0]);
        assert_eq!(tracefs.format_if_any(&sys, "sched", "enable").expect("no event"), None);
    }

    #[test]
    fn the_kernels_own_words_about_a_filter_are_found() {
        let answer = "pidd == 1\n     ^\nparse_error: Field not found\n";
        let text = objection(answer, true);
        assert_eq!(text.as_deref(), Some("Field not found"));
    }

    #[test]
    fn a_filter_that_is_taken_has_no_objection() {
        assert_eq!(objection("pid == 1\n", false), None);
    }
}
