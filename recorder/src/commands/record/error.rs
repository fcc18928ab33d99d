//! The reason why a recording failed, and the exit status for it.

use std::io;
use std::os::unix::fs::MetadataExt;

use super::extras::ExtraError;
use crate::capture::tracepoint::LayoutError;
use crate::cli::EXIT_FAILURE;
use crate::commands::gates::GatesError;
use crate::commands::plan::PlanError;
use crate::kernel::child::LaunchError;
use crate::kernel::cpus::CpusError;
use crate::kernel::limits;
use crate::kernel::procfs::ProcfsError;
use crate::kernel::refusal::{self, Refusal};
use crate::sink::{SinkError, Unsaved};
use crate::units::Pid;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The arguments contradict each other or cannot be used here.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernel refused something that a recording needs.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A non-scheduler event cannot be recorded.
    #[error(transparent)]
    Extra(#[from] ExtraError),
    /// The CPUs cannot be listed.
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// The format of the tracepoints is unknown.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The running processes cannot be listed.
    #[error(transparent)]
    Procfs(#[from] ProcfsError),
    /// COMMAND could not be run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A process that should be recorded does not exist.
    #[error("cannot record process {0}: it does not exist")]
    NoProcess(u32),
    /// The trace could not be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The output failed while it was being written.
    #[error("{source}: {unsaved}")]
    Output {
        source: SinkError,
        /// What it lacks.
        unsaved: Unsaved,
    },
    /// An output file was removed, or was never written.
    #[error("{0}")]
    Missing(String),
    /// The requested buffer size is impossible.
    #[error("--buffer-size: {0}")]
    Buffer(#[from] fxt_writer::engine::ConfigError),
    /// The gates cannot be evaluated.
    #[error(transparent)]
    Gates(#[from] GatesError),
    /// A system call failed that normally cannot fail.
    #[error("cannot {doing}: {source}{remedy}", remedy = limits::remedy_or("", source))]
    System { doing: &'static str, source: io::Error },
}

impl RecordError {
    /// Additional information in [`RecordError::System`].
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> RecordError {
        move |source| RecordError::System { doing, source }
    }

    /// The same, if `user` wants to record these processes, or COMMAND: the daemon should record them, not a program that gives its rights
    /// to every user who runs it. A user's own processes need no line in the policy.
    pub(super) fn ask_daemon(
        self,
        (pids, has_command): (&[Pid], bool),
        user: u32,
        has_daemon: impl FnOnce() -> bool,
    ) -> RecordError {
        let RecordError::Refused(refusal) = self else { return self };
        let is_others = |pid: &&Pid| {
            let folder = std::fs::metadata(format!("/proc/{}", pid.0));
            user != 0 && folder.is_ok_and(|folder| folder.uid() != user)
        };
        let own = "The daemon records your own processes".to_owned();
        let (said, what) = match pids.iter().find(is_others) {
            Some(pid) => {
                let of = format!(
                    "Process {} belongs to another user. The daemon records it for you",
                    pid.0
                );
                let of = format!("{of} if its policy permits you sched");
                (of, format!("--foreground --pid {} -o FILE", pid.0))
            }
            None if user == 0 || !has_daemon() => return RecordError::Refused(refusal),
            None if has_command => (own, "-o FILE -- COMMAND".to_owned()),
            None if pids.is_empty() => (own, "--foreground -o FILE".to_owned()),
            None => {
                let pids: Vec<String> = pids.iter().map(|pid| pid.0.to_string()).collect();
                (own, format!("--foreground --pid {} -o FILE", pids.join(",")))
            }
        };
        let remedy =
            format!("{said}: fxtrec ctl start {what}.\nWithout the daemon: {}", refusal.remedy);
        RecordError::Refused(Refusal { remedy, ..refusal })
    }

    /// A command that retries with more rights, if an ordinary user can get them.
    pub fn with_sudo(&self) -> Option<String> {
        let RecordError::Refused(refusal) = self else { return None };
        let helps = refusal.remedy.contains("sudo") && !nix::unistd::geteuid().is_root();
        let binary = std::env::current_exe().ok().filter(|_| helps)?;
        Some(refusal::sudo_line(&binary, std::env::args_os().skip(1)))
    }

    /// Whether the request is invalid on every machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, RecordError::Plan(_) | RecordError::Buffer(_))
    }

    /// The status to exit with.
    pub fn exit_code(&self) -> u8 {
        match self {
            RecordError::Launch(error) => error.exit_code(),
            // The same as for any other COMMAND that is not found.
            RecordError::Plan(PlanError::Mistyped { .. }) => 127,
            _ => EXIT_FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_daemon_is_named_to_those_who_want_to_record_their_own_processes() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let mut nobodys = Command::new("sleep").arg("60").uid(65_534).spawn().expect("it starts");
        let pid = Pid(nobodys.id());
        let said = |user, has_daemon| {
            let [call, cause, remedy] = ["call", "cause", "remedy"].map(str::to_owned);
            let refused = RecordError::Refused(Refusal { call, cause, remedy });
            refused.ask_daemon((&[pid], false), user, || has_daemon).to_string()
        };
        let [own, without, others, root] =
            [said(65_534, true), said(65_534, false), said(1000, false), said(0, true)];
        nobodys.kill().and_then(|()| nobodys.wait()).expect("it ends");
        let command = format!("fxtrec ctl start --foreground --pid {} -o FILE", pid.0);
        assert!(own.contains(&format!("your own processes: {command}")), "{own}");
        assert!(
            others.contains("belongs to another user") && others.contains(&command),
            "{others}"
        );
        assert_eq!([&without, &root], ["call\ncause\nremedy"; 2]);
        let all = |has_command| {
            let [call, cause, remedy] = ["call", "cause", "remedy"].map(str::to_owned);
            let refused = RecordError::Refused(Refusal { call, cause, remedy });
            refused.ask_daemon((&[], has_command), 65_534, || true).to_string()
        };
        let of = |what: &str| format!("your own processes: fxtrec ctl start {what}.\n");
        assert!(all(true).contains(&of("-o FILE -- COMMAND")), "{}", all(true));
        assert!(all(false).contains(&of("--foreground -o FILE")), "{}", all(false));
    }
}
