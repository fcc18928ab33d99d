//! The reason why the kernel refused a tracing instance, and the smallest change that makes it accept one.

use super::error::FtraceError;
use crate::facts::{Facts, Lockdown};
use crate::refusal::{Refusal, remedy};

/// Explains why an instance cannot be used.
pub fn explain(error: &FtraceError, facts: &Facts) -> Refusal {
    let errno = error.source_error().and_then(std::io::Error::raw_os_error);
    let doctor = "`fxtrec doctor` shows what this machine allows.".to_owned();
    let (cause, remedy) = match (error, errno) {
        (FtraceError::Layout(_), _) => {
            ("fxtrec decodes the rings by this description and does not guess.".to_owned(), doctor)
        }
        (_, Some(libc::EACCES | libc::EPERM)) if facts.lockdown == Lockdown::Confidentiality => (
            "The kernel is locked down (confidentiality).".to_owned(),
            "Boot without lockdown=confidentiality.".to_owned(),
        ),
        (_, Some(libc::EACCES | libc::EPERM)) => {
            (format!("User {} may not write to tracefs.", facts.user), remedy(facts))
        }
        (_, Some(libc::EROFS)) => (
            "tracefs is mounted read-only, as in most containers.".to_owned(),
            "Mount it writable: mount -o remount,rw /sys/kernel/tracing".to_owned(),
        ),
        (FtraceError::Create { .. }, Some(libc::ENOENT)) => (
            "This kernel has no tracing instances (they came with Linux 3.10).".to_owned(),
            "Use another source, such as --source perf.".to_owned(),
        ),
        (_, Some(libc::EMFILE)) => (
            "fxtrec has reached its limit of open files.".to_owned(),
            "Raise it in this shell with `ulimit -n 65536`.".to_owned(),
        ),
        (_, Some(libc::ENOMEM)) => (
            "There is not enough memory for the rings.".to_owned(),
            "Use smaller ones with --ring-size.".to_owned(),
        ),
        _ => ("The kernel gives no reason.".to_owned(), doctor),
    };
    Refusal { call: format!("{error}."), cause, remedy }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::fake::Fake;

    fn refused(errno: i32) -> Refusal {
        let error = FtraceError::Create {
            path: "/sys/kernel/tracing/instances/x".into(),
            source: io::Error::from_raw_os_error(errno),
        };
        explain(&error, &Facts::gather(&Fake::default()))
    }

    #[test]
    fn each_refusal_says_what_was_tried_and_what_to_do() {
        for (errno, remedy) in [
            (libc::EROFS, "remount,rw"),
            (libc::ENOENT, "--source perf"),
            (libc::ENOMEM, "--ring-size"),
            (libc::EMFILE, "ulimit"),
            (libc::EBUSY, "doctor"),
        ] {
            let refusal = refused(errno);
            assert!(refusal.call.contains("instances/x"), "{refusal}");
            assert!(refusal.remedy.contains(remedy), "{refusal}");
        }
    }

    #[test]
    fn a_user_without_rights_is_told_how_to_get_them() {
        assert!(!refused(libc::EACCES).remedy.is_empty());
        assert!(refused(libc::EACCES).cause.contains("may not write to tracefs"));
    }
}
