//! Explains why the kernel refused a call, and the smallest change that makes it accept.
//!
//! The same errno has several causes, and the kernel does not report which. Other facts distinguish them: [`Facts`]. The rules below follow
//! the order of the kernel's checks:
//!
//! ```text
//! perf_event_open   seccomp filter       EPERM or ENOSYS, whatever the rights
//!                   Debian, Ubuntu       EACCES unless CAP_SYS_ADMIN or paranoid <= 2
//!                   kernel events        EACCES unless CAP_PERFMON or paranoid < 2
//!                   tracepoint contents  EPERM  unless CAP_PERFMON or paranoid < 0
//!                   whole CPU            EACCES unless CAP_PERFMON or paranoid < 1
//! mmap of a ring    locked memory        EPERM  unless CAP_IPC_LOCK or paranoid < 0
//! ```
//!
//! Capabilities count in the initial user namespace only.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use thiserror::Error;

use super::caps::Capability;
use super::extra::ExtraCall;
use super::facts::{Facts, Limit, Lockdown};
use super::perf::{Call, OpenError};
use super::tracefs::TracefsError;
use crate::units::Cpu;

/// A refused call, explained. Shown as two or three lines: the error, its cause, and the remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{call}\n{cause}\n{remedy}")]
pub struct Refusal {
    /// The call that failed, and its error.
    pub call: String,
    /// The cause, if it can be determined.
    pub cause: String,
    /// The smallest change that helps.
    pub remedy: String,
}

/// Explains why the events of a CPU could not be opened. `rings` is the total number of wanted rings.
pub fn explain_open(error: &OpenError, rings: usize, facts: &Facts) -> Refusal {
    match error {
        OpenError::Refused { call, cpu, error } => explain(*call, *cpu, error, rings, facts),
        OpenError::Extra { label, call, cpu: Cpu(cpu), error } => {
            let (cause, remedy) = extra_cause(*call, error, facts);
            let call = call.name();
            let call = format!("{label}: {call} on CPU {cpu} failed: {}.", described(error));
            Refusal { call, cause, remedy }
        }
        OpenError::Offline(Cpu(cpu)) => Refusal {
            call: format!("The events of CPU {cpu} cannot be opened."),
            cause: "The CPU has gone offline.".to_owned(),
            remedy: "Try again.".to_owned(),
        },
        OpenError::BadRing(ring) => Refusal {
            call: format!("The kernel returned an unusable ring: {ring}."),
            cause: "No known kernel does this.".to_owned(),
            remedy: DOCTOR.to_owned(),
        },
    }
}

/// Explains why `call` on `cpu` failed with `err`.
fn explain(call: Call, cpu: Cpu, err: &io::Error, rings: usize, facts: &Facts) -> Refusal {
    use Call::{MapRing, OpenDummy, OpenSwitchRecords, OpenTracepoint};
    let (cause, remedy) = match (call, err.raw_os_error()) {
        (MapRing(bytes), Some(libc::EPERM)) => ring_limit(bytes, rings, facts),
        (OpenDummy | OpenTracepoint(_) | OpenSwitchRecords, Some(libc::EACCES | libc::EPERM)) => {
            not_allowed(err, facts)
        }
        (_, Some(errno)) => by_errno(call, errno, facts),
        (_, None) => ("The call never reached the kernel.".into(), DOCTOR.into()),
    };
    let Cpu(cpu) = cpu;
    let call = format!("{} on CPU {cpu} failed: {}.", name(call), described(err));
    Refusal { call, cause, remedy }
}

/// The reason why a non-scheduler probe or tracepoint was refused.
fn extra_cause(call: ExtraCall, err: &io::Error, facts: &Facts) -> (String, String) {
    let errno = err.raw_os_error().unwrap_or(0);
    let (cause, remedy) = match (call, errno) {
        (_, libc::EACCES | libc::EPERM) => return not_allowed(err, facts),
        (ExtraCall::SetFilter, _) => (
            "The kernel rejected the filter.",
            "The tracepoint's format file in tracefs lists the fields that a filter can use.",
        ),
        (_, libc::EINVAL | libc::EIO | libc::ENOTSUP | libc::ENOEXEC) => (
            "The kernel cannot place a breakpoint there: it is not an instruction that the \
             kernel can single-step, or not in an executable part of a regular file.",
            "Use another function or offset; `fxtrec probes BINARY` lists the functions.",
        ),
        (_, libc::ENODEV | libc::ENOENT) => (
            "The kernel does not permit perf to record it.",
            "Leave it out, or narrow the pattern.",
        ),
        _ => return by_errno(Call::OpenTracepoint(0), errno, facts),
    };
    (cause.to_owned(), remedy.to_owned())
}

/// The system call, and its purpose.
fn name(call: Call) -> String {
    match call {
        Call::OpenDummy => "perf_event_open (forks and names)".to_owned(),
        Call::OpenTracepoint(id) => format!("perf_event_open (tracepoint {id})"),
        Call::OpenSwitchRecords => "perf_event_open (context switches)".to_owned(),
        Call::MapRing(bytes) => format!("mmap of a ring of {} KiB", bytes / 1024),
        Call::SetOutput => "ioctl PERF_EVENT_IOC_SET_OUTPUT".to_owned(),
        Call::SetFilter => "ioctl PERF_EVENT_IOC_SET_FILTER".to_owned(),
        Call::Enable => "ioctl PERF_EVENT_IOC_ENABLE".to_owned(),
    }
}

/// Explains why tracefs cannot be used.
pub fn explain_tracefs(error: &TracefsError, facts: &Facts) -> Refusal {
    let (call, cause, remedy) = match error {
        TracefsError::Refused { path, source } => (
            format!("Reading {} failed: {}.", path.display(), described(source)),
            format!("Only root can read tracefs, and {}.", whoami(facts, "CAP_DAC_READ_SEARCH")),
            remedy(facts),
        ),
        TracefsError::NotMounted { source } => (
            format!("tracefs is not mounted; mounting it failed: {}.", described(source)),
            format!("Mounting needs CAP_SYS_ADMIN, and {}.", whoami(facts, "CAP_SYS_ADMIN")),
            "Run fxtrec with sudo, or run this once: sudo mount -t tracefs tracefs /sys/kernel/tracing"
                .to_owned(),
        ),
        TracefsError::Absent { source } if facts.lockdown == Lockdown::Confidentiality => (
            format!("tracefs cannot be mounted: {}.", described(source)),
            "The kernel is locked down (confidentiality), which denies tracefs, performance events and BPF programs even to root."
                .to_owned(),
            "Boot with lockdown=integrity, under which fxtrec records, or without lockdown.".to_owned(),
        ),
        TracefsError::Absent { source } => (
            format!("tracefs cannot be mounted: {}.", described(source)),
            "The kernel is built without tracepoints (CONFIG_TRACING), or this container has no \
             /sys of its own."
                .to_owned(),
            "Run fxtrec on the host, or with another kernel.".to_owned(),
        ),
        other => (
            format!("The description of a tracepoint is unusable: {other}."),
            "fxtrec locates every field by this description, and does not guess.".to_owned(),
            DOCTOR.to_owned(),
        ),
    };
    Refusal { call, cause, remedy }
}

const DOCTOR: &str = "`fxtrec doctor` shows what this machine allows.";

/// The command that gives fxtrec the capabilities for an ordinary user, to be pasted into a shell.
pub fn setcap_line(facts: &Facts) -> String {
    // BPF programs are the best source, and need their own capability.
    setcap_with(if facts.knows_perfmon { "cap_perfmon,cap_bpf" } else { "cap_sys_admin" }, facts)
}

fn setcap_with(events: &str, facts: &Facts) -> String {
    let binary = shell_word(&facts.binary);
    format!("sudo setcap {events},cap_dac_read_search,cap_ipc_lock+ep {binary}")
}

/// Levels of `kernel.perf_event_paranoid` that only Debian's and Ubuntu's kernels have. They refuse perf_event_open without CAP_SYS_ADMIN,
/// and check that before CAP_PERFMON.
fn is_beyond_linux(facts: &Facts) -> bool {
    facts.paranoid.is_some_and(|level| level > 2)
}

/// Whether this is why this user was refused despite CAP_PERFMON.
pub fn wants_administrator(facts: &Facts) -> bool {
    is_beyond_linux(facts) && facts.may_trace() && !facts.capabilities.has(Capability::SysAdmin)
}

/// The smallest change that lets the recorder trace the machine.
pub fn remedy(facts: &Facts) -> String {
    if !facts.namespaces.initial_user {
        "Run fxtrec outside the user namespace: on the host, not in a rootless container."
            .to_owned()
    } else if facts.user == 0 {
        format!(
            "Give the container {}: with docker or podman, run it with --cap-add={}.",
            perfmon_name(facts),
            perfmon_name(facts).trim_start_matches("CAP_")
        )
    } else {
        let line = format!("Run fxtrec with sudo, or run this once: {}", setcap_line(facts));
        match is_beyond_linux(facts) && facts.knows_perfmon {
            true => format!(
                "{line}\nIf that is refused as well, as Debian's and Ubuntu's kernels do with this kernel.perf_event_paranoid, also run: {LOWER_PARANOID}"
            ),
            false => line,
        }
    }
}

/// A lower setting for a distribution's special level, which still excludes ordinary users.
const LOWER_PARANOID: &str = "sudo sysctl kernel.perf_event_paranoid=2";

/// This very command line under sudo, to be pasted into a shell.
pub fn sudo_line(binary: &Path, args: impl Iterator<Item = OsString>) -> String {
    let words = args.map(|word| shell_word(Path::new(&word)));
    let words: Vec<String> = std::iter::once(shell_word(binary)).chain(words).collect();
    format!("sudo {}", words.join(" "))
}

/// The reason why the recorder's user does not have the right that `capability` gives: the middle of a sentence.
fn whoami(facts: &Facts, capability: &str) -> String {
    if !facts.namespaces.initial_user {
        "inside a user namespace, even root has no rights over the machine".to_owned()
    } else if facts.user == 0 {
        format!("this root user lacks {capability}")
    } else {
        format!("user {} lacks {capability}", facts.user)
    }
}

fn perfmon_name(facts: &Facts) -> &'static str {
    if facts.knows_perfmon { "CAP_PERFMON" } else { "CAP_SYS_ADMIN" }
}

/// EACCES and EPERM of perf_event_open.
fn not_allowed(err: &io::Error, facts: &Facts) -> (String, String) {
    let unexpected = facts.may_trace()
        || (err.raw_os_error() == Some(libc::EPERM) && facts.paranoid.is_some_and(|p| p >= 2));
    if unexpected && facts.seccomp {
        return (
            "A seccomp filter of the container refuses this system call.".to_owned(),
            "Allow perf_event_open: with docker or podman, run with --cap-add=PERFMON, or \
             --security-opt seccomp=unconfined."
                .to_owned(),
        );
    }
    if err.raw_os_error() == Some(libc::EACCES) && wants_administrator(facts) {
        let level = facts.paranoid.unwrap_or_default();
        let line = setcap_with("cap_sys_admin", facts);
        return (
            format!(
                "kernel.perf_event_paranoid is {level}: a level that Debian and Ubuntu added, \
                 which refuses perf events even with CAP_PERFMON."
            ),
            format!("Run fxtrec with sudo, or run this once: {LOWER_PARANOID} (or: {line})"),
        );
    }
    if facts.may_trace() {
        return (
            format!(
                "fxtrec has {}, so a security module (SELinux, AppArmor) refused it.",
                perfmon_name(facts)
            ),
            "Look for the denial with: sudo dmesg | grep -iE 'denied|avc'".to_owned(),
        );
    }
    let paranoid = match facts.paranoid {
        Some(level) => format!("kernel.perf_event_paranoid is {level}"),
        None => "kernel.perf_event_paranoid cannot be read".to_owned(),
    };
    (format!("{paranoid}, and {}.", whoami(facts, perfmon_name(facts))), remedy(facts))
}

/// EPERM of mmap: too much locked memory.
fn ring_limit(bytes: usize, rings: usize, facts: &Facts) -> (String, String) {
    let wanted = bytes.saturating_mul(rings) / 1024;
    let free = facts.mlock_kib.map_or("?".to_owned(), |kib| kib.to_string());
    let own = match facts.memlock {
        Limit::At(bytes) => format!("{} KiB", bytes / 1024),
        Limit::Unlimited => "no limit".to_owned(),
        Limit::Unknown => "an unknown amount".to_owned(),
    };
    (
        format!(
            "{rings} rings need {wanted} KiB; a user without CAP_IPC_LOCK has {free} KiB per CPU \
             (kernel.perf_event_mlock_kb) and {own} of locked memory (ulimit -l), which other \
             recorders share."
        ),
        format!(
            "Use a smaller --ring-size or sudo, or run: sudo sysctl kernel.perf_event_mlock_kb={}",
            bytes / 1024 + 64
        ),
    )
}

/// The cause and the remedy of EMFILE, whichever call returned it.
pub fn too_many_files(facts: &Facts) -> (String, String) {
    let limit = match facts.open_files {
        Limit::At(files) => format!(" of {files}"),
        Limit::Unlimited | Limit::Unknown => String::new(),
    };
    (
        format!("fxtrec holds several files per CPU and reached its limit{limit}."),
        "Raise it in this shell with `ulimit -n 65536`, then try again.".to_owned(),
    )
}

/// Causes that need no other facts.
fn by_errno(call: Call, errno: i32, facts: &Facts) -> (String, String) {
    let (cause, remedy) = match errno {
        libc::EMFILE => return too_many_files(facts),
        libc::ENFILE => (
            "The machine has reached its limit of open files.",
            "Raise the limit: sudo sysctl fs.file-max=1000000",
        ),
        libc::ENOSYS if facts.paranoid.is_some() => (
            "The kernel has performance events, so a seccomp filter blocks the call.",
            "Allow perf_event_open in the container, or run fxtrec on the host.",
        ),
        libc::ENOSYS => (
            "The kernel is built without performance events (CONFIG_PERF_EVENTS).",
            "Use another kernel.",
        ),
        libc::ENOMEM => {
            ("The kernel is out of memory.", "Use a smaller --ring-size, or free memory.")
        }
        libc::ENOSPC => (
            "The kernel has no free slot for another event of this kind.",
            "Stop other recorders (perf, bpftrace, debuggers), then try again.",
        ),
        libc::EBUSY => (
            "Another program has reserved the event.",
            "Stop other recorders (perf, bpftrace, debuggers), then try again.",
        ),
        libc::ENODEV | libc::ENXIO => ("The CPU has gone offline.", "Try again."),
        libc::ENOENT | libc::EOPNOTSUPP => ("This kernel does not have the event.", DOCTOR),
        libc::EINVAL | libc::E2BIG => match call {
            Call::MapRing(_) => (
                "The kernel accepts only rings of a power of two pages.",
                "Give --ring-size as a power of two, such as 1M.",
            ),
            _ => ("This kernel is older than Linux 4.9, which fxtrec needs.", DOCTOR),
        },
        _ => ("fxtrec does not know why.", DOCTOR),
    };
    (cause.to_owned(), remedy.to_owned())
}

/// An error with its symbolic name: `Permission denied (EACCES)`.
fn described(err: &io::Error) -> String {
    match err.raw_os_error().map(nix::errno::Errno::from_raw) {
        Some(errno) => format!("{} ({errno:?})", errno.desc()),
        None => err.to_string(),
    }
}

/// A path as one word of a shell command.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::caps::{Capabilities, Capability};
    use crate::fake::{Fake, ordinary_user};
    use crate::perf::{CpuEvents, Options};
    use crate::tracefs::Tracefs;

    /// The message if the kernel answers each perf_event_open with `errno`.
    fn refused(errno: i32, facts: &Facts) -> Refusal {
        let options = Options {
            ring_bytes: 1 << 20,
            wake_bytes: 1 << 16,
            tracepoints: vec![11],
            namespace_ids: false,
            lives: Vec::new(),
            extras: std::sync::Arc::new([]),
        };
        let sys = Fake::default().fail("perf_event_open", errno);
        let error = CpuEvents::open(&sys, Cpu(1), &options, 1 << 20).expect_err("told to fail");
        explain_open(&error, 2, facts)
    }

    fn root() -> Facts {
        let capabilities = Capabilities::of(&[Capability::SysAdmin, Capability::Perfmon]);
        Facts { user: 0, capabilities, ..ordinary_user() }
    }

    #[test]
    fn the_line_for_sudo_is_what_was_typed_with_the_whole_path() {
        let words = ["-o", "a trace.fxt", "--", "ls", "-R"].map(OsString::from);
        let line = sudo_line(Path::new("/opt/fxtrec"), words.into_iter());
        assert_eq!(line, "sudo /opt/fxtrec -o 'a trace.fxt' -- ls -R");
    }

    #[test]
    fn an_ordinary_user_is_told_the_call_the_paranoid_level_and_both_remedies() {
        assert_eq!(
            refused(libc::EACCES, &ordinary_user()).to_string(),
            "perf_event_open (forks and names) on CPU 1 failed: Permission denied (EACCES).\n\
             kernel.perf_event_paranoid is 2, and user 1000 lacks CAP_PERFMON.\n\
             Run fxtrec with sudo, or run this once: sudo setcap \
             cap_perfmon,cap_bpf,cap_dac_read_search,cap_ipc_lock+ep /opt/fxtrec"
        );
    }

    #[test]
    fn levels_of_debian_and_ubuntu_are_distinguished_from_a_missing_capability() {
        let capabilities = Capabilities::of(&[Capability::Perfmon, Capability::Bpf]);
        for level in [3, 4] {
            let paranoid = Some(level);
            let without = refused(libc::EACCES, &Facts { paranoid, ..ordinary_user() });
            assert!(without.cause.contains("user 1000 lacks CAP_PERFMON"), "{without}");
            assert!(without.remedy.contains("cap_perfmon,cap_bpf,"), "{without}");
            assert!(without.remedy.contains("sysctl kernel.perf_event_paranoid=2"), "{without}");
            let with = Facts { paranoid, capabilities, ..ordinary_user() };
            let refusal = refused(libc::EACCES, &with);
            let cause = format!("kernel.perf_event_paranoid is {level}: a level that Debian");
            assert!(refusal.cause.starts_with(&cause), "{refusal}");
            assert!(
                refusal.remedy.contains("sysctl kernel.perf_event_paranoid=2 (or: "),
                "{refusal}"
            );
            assert!(refusal.remedy.contains("setcap cap_sys_admin,"), "{refusal}");
        }
        // At Linux's own levels, the cause is a security module.
        let with = Facts { capabilities, ..ordinary_user() };
        assert!(refused(libc::EACCES, &with).cause.contains("security module"));
        let root = Facts { paranoid: Some(4), ..root() };
        assert!(refused(libc::EACCES, &root).cause.contains("security module"));
    }

    #[test]
    fn before_linux_5_8_the_administrators_capability_is_named() {
        let refusal = refused(libc::EACCES, &Facts { knows_perfmon: false, ..ordinary_user() });
        assert!(refusal.cause.contains("CAP_SYS_ADMIN"), "{refusal}");
        assert!(refusal.remedy.contains("setcap cap_sys_admin,"), "{refusal}");
    }

    #[test]
    fn the_root_of_a_user_namespace_is_sent_out_of_it() {
        let mut facts = root();
        facts.namespaces.initial_user = false;
        let refusal = refused(libc::EACCES, &facts);
        assert!(refusal.cause.contains("user namespace"), "{refusal}");
        assert!(!refusal.remedy.contains("sudo"), "{refusal}");
    }

    #[test]
    fn the_root_of_a_container_without_the_capability_is_asked_to_add_it() {
        let refusal =
            refused(libc::EACCES, &Facts { capabilities: Capabilities::default(), ..root() });
        assert!(refusal.cause.contains("this root user lacks CAP_PERFMON"), "{refusal}");
        assert!(refusal.remedy.contains("--cap-add=PERFMON"), "{refusal}");
    }

    #[test]
    fn a_seccomp_filter_is_distinguished_from_a_missing_capability() {
        let filtered = refused(libc::EPERM, &Facts { seccomp: true, ..root() });
        assert!(filtered.cause.contains("seccomp"), "{filtered}");
        let odd_errno = refused(libc::EPERM, &Facts { seccomp: true, ..ordinary_user() });
        assert!(odd_errno.cause.contains("seccomp"), "the kernel itself says EACCES: {odd_errno}");
        let rights = refused(libc::EACCES, &Facts { seccomp: true, ..ordinary_user() });
        assert!(rights.cause.contains("CAP_PERFMON"), "{rights}");
        let hidden = refused(libc::ENOSYS, &root());
        assert!(hidden.cause.contains("seccomp"), "{hidden}");
        let missing = refused(libc::ENOSYS, &Facts { paranoid: None, ..root() });
        assert!(missing.cause.contains("CONFIG_PERF_EVENTS"), "{missing}");
    }

    #[test]
    fn a_refusal_in_spite_of_all_rights_points_to_the_security_modules() {
        let refusal = refused(libc::EACCES, &root());
        assert!(refusal.cause.contains("SELinux"), "{refusal}");
    }

    #[test]
    fn rings_beyond_the_limit_are_counted_up_and_a_sufficient_sysctl_is_given() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let call = Call::MapRing((1 << 20) + 4096);
        let refusal =
            explain_open(&OpenError::Refused { call, cpu: Cpu(0), error }, 2, &ordinary_user());
        assert!(refusal.cause.starts_with("2 rings need 2056 KiB"), "{refusal}");
        assert!(refusal.cause.contains("516 KiB per CPU"), "{refusal}");
        assert!(refusal.remedy.contains("perf_event_mlock_kb=1092"), "{refusal}");
    }

    #[test]
    fn a_full_table_of_files_names_its_limit() {
        let refusal = refused(libc::EMFILE, &ordinary_user());
        assert!(refusal.cause.contains("limit of 1024"), "{refusal}");
        assert!(refusal.remedy.contains("ulimit -n"), "{refusal}");
    }

    #[test]
    fn every_errno_of_every_call_gets_exactly_three_lines() {
        let calls = [
            Call::OpenDummy,
            Call::OpenTracepoint(7),
            Call::OpenSwitchRecords,
            Call::MapRing(4096),
            Call::SetOutput,
            Call::Enable,
        ];
        for call in calls {
            for errno in 1..134 {
                for facts in [root(), ordinary_user()] {
                    let error = io::Error::from_raw_os_error(errno);
                    let refused = OpenError::Refused { call, cpu: Cpu(0), error };
                    let text = explain_open(&refused, 2, &facts).to_string();
                    assert_eq!(text.lines().count(), 3, "{text}");
                    assert!(text.lines().all(|line| line.len() > 9), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_closed_tracefs_and_a_refused_mount_get_different_remedies() {
        let explained = |sys: &Fake| {
            let error = Tracefs::find(sys).expect_err("told to fail");
            explain_tracefs(&error, &ordinary_user())
        };
        let closed = explained(&Fake::default().refuse("/sys/kernel/tracing/events", libc::EACCES));
        assert!(closed.remedy.contains("setcap"), "{closed}");
        let unmounted = explained(&Fake::default().mount_fails(libc::EPERM));
        assert!(unmounted.remedy.contains("mount -t tracefs"), "{unmounted}");
        let absent = explained(&Fake::default().mount_fails(libc::ENODEV));
        assert!(absent.cause.contains("CONFIG_TRACING"), "{absent}");
    }

    #[test]
    fn a_tracefs_that_lockdown_closes_is_no_missing_one() {
        // The kernel's answer if another tracefs seems to be mounted, which shows nothing about permissions.
        let error = Tracefs::find(&Fake::default().mount_fails(libc::EBUSY)).expect_err("told to");
        let facts = Facts { lockdown: Lockdown::Confidentiality, ..ordinary_user() };
        let explained = explain_tracefs(&error, &facts);
        assert!(explained.cause.contains("locked down"), "{explained}");
        assert!(explained.remedy.contains("lockdown=integrity"), "{explained}");
    }

    #[test]
    fn a_path_with_spaces_is_one_word_in_the_line_to_paste() {
        let facts = Facts { binary: PathBuf::from("/my tools/it's/fxtrec"), ..ordinary_user() };
        assert!(setcap_line(&facts).ends_with(r"'/my tools/it'\''s/fxtrec'"));
    }
}
