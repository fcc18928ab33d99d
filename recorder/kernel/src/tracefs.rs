//! Finds or mounts tracefs, where the kernel describes its tracepoints.
//!
//! tracefs is searched for in its usual places and in those that `/proc/mounts` lists. If it is not mounted, it is mounted in its standard
//! place, as `perf` does; this requires the right to mount, and the errors say so.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::format::{Format, FormatError};
use super::sys::Sys;

/// The directory that the kernel creates for mounting tracefs.
const STANDARD: &str = "/sys/kernel/tracing";

/// Where debugfs shows tracefs; on older machines, this is the only place.
const UNDER_DEBUGFS: &str = "/sys/kernel/debug/tracing";

/// The directory that every tracefs has.
///
/// Reading it as a file distinguishes all cases: it does not exist, it cannot be opened, or it is a directory. A file inside would not
/// work, because a locked-down kernel closes most of them but not the formats.
const EVENTS: &str = "events";

/// A tracefs that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    path: PathBuf,
}

/// The reason why tracefs, or a tracepoint in it, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TracefsError {
    /// tracefs exists, but this user is not allowed to read it.
    #[error("cannot read {path}: {source}; run fxtrec with sudo")]
    Refused {
        /// The file that could not be read.
        path: PathBuf,
        source: io::Error,
    },
    /// tracefs is not mounted, and this user is not allowed to mount it.
    #[error(
        "cannot mount tracefs: {source}; run fxtrec with sudo, or first `sudo mount -t tracefs \
         tracefs /sys/kernel/tracing`"
    )]
    NotMounted { source: io::Error },
    /// The kernel has no tracefs, or this container does not show it.
    #[error(
        "cannot mount tracefs at /sys/kernel/tracing: {source}; the kernel is built without \
         CONFIG_TRACING, or this container has no /sys"
    )]
    Absent { source: io::Error },
    /// The kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {group}:{name} (looked in {})", path.display())]
    NoEvent {
        /// The tracepoint's group, such as `sched`.
        group: String,
        name: String,
        /// The file that does not exist.
        path: PathBuf,
    },
    /// A file of tracefs cannot be read for another reason.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A `format` file was read, but its content is not understood.
    #[error("{}: {source}", path.display())]
    Format {
        path: PathBuf,
        /// The error in it.
        source: FormatError,
    },
}

impl Tracefs {
    /// Finds tracefs, and mounts it at `/sys/kernel/tracing` if it is not mounted.
    ///
    /// # Errors
    /// Returns [`TracefsError`], which contains the remedy.
    pub fn find(sys: &dyn Sys) -> Result<Tracefs, TracefsError> {
        if let Some(found) = Tracefs::find_mounted(sys)? {
            return Ok(found);
        }
        if let Err(source) = sys.mount_tracefs(Path::new(STANDARD)) {
            return match source.raw_os_error() {
                // Another process was faster; whether tracefs can be read is checked below.
                Some(libc::EBUSY) => Tracefs::look_again(sys, source),
                Some(libc::EPERM | libc::EACCES) => Err(TracefsError::NotMounted { source }),
                _ => Err(TracefsError::Absent { source }),
            };
        }
        Tracefs::look_again(sys, io::ErrorKind::NotFound.into())
    }

    /// Finds tracefs without mounting anything; `None` if it is not mounted.
    ///
    /// # Errors
    /// Returns [`TracefsError::Refused`] if the only tracefs cannot be read.
    pub fn find_mounted(sys: &dyn Sys) -> Result<Option<Tracefs>, TracefsError> {
        let mut refused = None;
        for path in candidates(sys) {
            let probe = path.join(EVENTS);
            match sys.read(&probe) {
                Err(source) if source.kind() == io::ErrorKind::IsADirectory => {
                    return Ok(Some(Tracefs { path }));
                }
                Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert(TracefsError::Refused { path: probe, source });
                }
                _ => {}
            }
        }
        refused.map_or(Ok(None), Err)
    }

    fn look_again(sys: &dyn Sys, source: io::Error) -> Result<Tracefs, TracefsError> {
        Tracefs::find_mounted(sys)?.ok_or(TracefsError::Absent { source })
    }

    /// A tracefs at a known place.
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Tracefs {
        Tracefs { path: path.to_owned() }
    }

    /// The directory in which `events/` is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format of a tracepoint, such as `sched`, `sched_switch`.
    ///
    /// # Errors
    /// Returns [`TracefsError::NoEvent`] if the kernel does not have the tracepoint, other errors if it cannot be read or parsed.
    pub fn event_format(
        &self,
        sys: &dyn Sys,
        group: &str,
        name: &str,
    ) -> Result<Format, TracefsError> {
        let path = self.path.join(EVENTS).join(group).join(name).join("format");
        let text = match sys.read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(source) => {
                return Err(match source.kind() {
                    io::ErrorKind::NotFound => {
                        TracefsError::NoEvent { group: group.into(), name: name.into(), path }
                    }
                    io::ErrorKind::PermissionDenied => TracefsError::Refused { path, source },
                    _ => TracefsError::Read { path, source },
                });
            }
        };
        Format::parse(&text).map_err(|source| TracefsError::Format { path, source })
    }
}

/// The usual places, then every other mount of type tracefs.
fn candidates(sys: &dyn Sys) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(STANDARD), PathBuf::from(UNDER_DEBUGFS)];
    let mounts = sys.read(Path::new("/proc/mounts")).unwrap_or_default();
    for line in String::from_utf8_lossy(&mounts).lines() {
        let mut words = line.split(' ');
        if let (Some(_), Some(at), Some("tracefs")) = (words.next(), words.next(), words.next()) {
            let path = PathBuf::from(unescape(at));
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

/// `/proc/mounts` writes white space and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const SWITCH: &str = "/sys/kernel/tracing/events/sched/sched_switch/format";

    fn mounted_at(path: &str) -> Fake {
        Fake::default().refuse(&format!("{path}/events"), libc::EISDIR)
    }

    #[test]
    fn the_standard_place_is_taken_before_the_one_under_debugfs() {
        let both = mounted_at(STANDARD).refuse("/sys/kernel/debug/tracing/events", libc::EISDIR);
        assert_eq!(Tracefs::find(&both).expect("mounted").path(), Path::new(STANDARD));
        let old = mounted_at(UNDER_DEBUGFS);
        assert_eq!(Tracefs::find(&old).expect("mounted").path(), Path::new(UNDER_DEBUGFS));
    }

    #[test]
    fn a_tracefs_at_an_unusual_place_is_found_by_the_list_of_mounts() {
        let sys = mounted_at("/mnt/my traces")
            .file("/proc/mounts", "proc /proc proc rw 0 0\nx /mnt/my\\040traces tracefs rw 0 0\n");
        assert_eq!(Tracefs::find(&sys).expect("mounted").path(), Path::new("/mnt/my traces"));
        assert!(sys.mounts().is_empty(), "nothing to mount");
    }

    #[test]
    fn a_tracefs_that_is_mounted_nowhere_is_mounted_at_its_standard_place() {
        let sys = Fake::default().mount_shows(&format!("{STANDARD}/events"));
        assert_eq!(Tracefs::find(&sys).expect("mounted now").path(), Path::new(STANDARD));
        assert_eq!(sys.mounts(), [Path::new(STANDARD)]);
    }

    #[test]
    fn a_closed_tracefs_is_not_mounted_over_but_reported() {
        let sys = Fake::default().refuse(&format!("{STANDARD}/events"), libc::EACCES);
        let error = Tracefs::find(&sys).expect_err("closed");
        assert!(matches!(error, TracefsError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("sudo"), "{error}");
        assert!(sys.mounts().is_empty());
    }

    #[test]
    fn a_refused_mount_says_how_to_mount_and_a_missing_one_what_is_missing() {
        let refused = Tracefs::find(&Fake::default().mount_fails(libc::EPERM));
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("mount -t tracefs"), "{text}");
        for errno in [libc::ENODEV, libc::ENOENT] {
            let absent = Tracefs::find(&Fake::default().mount_fails(errno));
            assert!(matches!(absent, Err(TracefsError::Absent { .. })), "{absent:?}");
        }
    }

    #[test]
    fn a_missing_tracepoint_is_named() {
        let sys = mounted_at(STANDARD);
        let tracefs = Tracefs::find(&sys).expect("mounted");
        let error = tracefs.event_format(&sys, "sched", "sched_switch").expect_err("not there");
        assert!(error.to_string().contains("no tracepoint sched:sched_switch"), "{error}");
    }

    #[test]
    fn a_damaged_or_closed_format_is_reported_with_its_path() {
        let sys = mounted_at(STANDARD).file(SWITCH, "name: sched_switch\n");
        let tracefs = Tracefs::find(&sys).expect("mounted");
        let error = tracefs.event_format(&sys, "sched", "sched_switch").expect_err("damaged");
        assert!(error.to_string().starts_with(SWITCH), "{error}");
        let sys = sys.refuse(SWITCH, libc::EACCES);
        let error = tracefs.event_format(&sys, "sched", "sched_switch").expect_err("closed");
        assert!(matches!(error, TracefsError::Refused { .. }), "{error:?}");
    }
}
