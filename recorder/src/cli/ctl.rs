//! The arguments of `fxtrec ctl`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::record::Mode;
use super::stacks::StackKind;
use super::values::pid;
use crate::control::categories::Category;
use crate::units::glob::Pattern;
use crate::units::quantity::{ByteSize, TimeSpan};
use fxtrec_gates::Trigger;

/// The arguments of `fxtrec ctl`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec ctl start -o app.fxt --categories 'app*'    record until ctl stop
  fxtrec ctl stop                                    end the recording
  fxtrec ctl start -- ./app                          record while ./app runs
  fxtrec ctl start --pid 4321 -o svc.fxt             record one process
  fxtrec ctl start --pid 4321 -o svc.fxt -- sleep 10 the same, for ten seconds
  fxtrec ctl start --mode circular --trigger 'runqueue > 5ms' -- ./app
                                                     snapshots of such delays
  fxtrec ctl start --mode circular -o last.fxt       keep events in memory
  fxtrec ctl snapshot -o now.fxt                     write events in memory
  fxtrec ctl watch --json                            state changes and alerts

`fxtrec daemon` serves the sessions; docs/reference/sessions.md says who may record what.

Exit status: 0, or COMMAND's own; 125 when the daemon refuses or cannot be reached, or when the \
trace is incomplete.")]
pub struct CtlArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: CtlVerb,
    /// Options shared by all `ctl` commands.
    #[command(flatten)]
    pub common: CtlCommon,
}

/// Options shared by all `fxtrec ctl` commands.
#[derive(Args, Clone, Debug)]
pub struct CtlCommon {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = "/run/fxtrec/control", global = true)]
    pub socket: PathBuf,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `fxtrec ctl` does.
#[derive(Clone, Debug, Subcommand)]
pub enum CtlVerb {
    /// Show whether there is a session, who owns it and what it records
    Status,
    /// List the connected applications
    Providers,
    /// List the known categories, and whether you may record them
    Categories,
    /// Start a session and record
    Start(Box<CtlStartArgs>),
    /// Stop recording, and print what was recorded
    Stop(CtlStopArgs),
    /// Write the events that a circular session or a running fxtrec holds in memory
    Snapshot(CtlSnapshotArgs),
    /// Print state changes and alerts until Ctrl-C
    Watch,
}

/// The arguments of `fxtrec ctl start`.
#[derive(Args, Clone, Debug)]
pub struct CtlStartArgs {
    /// Program to run and record; it finds the daemon by FXTREC_PROVIDER_SOCKET
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
    /// Output file, `-` for a pipe [default: COMMAND's name, or session, with .fxt]
    ///
    /// It is created with your own rights. An existing file is kept, with .old added to its name.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Categories to record, for example sched:waking,irq,app* [default: sched, and all categories of applications]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = category)]
    pub categories: Vec<String>,
    /// Restrict kernel events to these running processes and their descendants
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = pid)]
    pub pids: Vec<u32>,
    /// Restrict kernel events to processes in cgroups whose path matches this glob, and in the cgroups below them
    #[arg(long = "cgroup", value_name = "GLOB", conflicts_with = "pids")]
    pub cgroups: Vec<Pattern>,
    /// Restrict kernel events to the running processes whose name matches this glob, and their descendants
    #[arg(long = "comm", value_name = "GLOB", conflicts_with_all = ["pids", "cgroups", "command"])]
    pub comms: Vec<Pattern>,
    /// Record stacks: offcpu for threads that wait for a long time, wake for the threads that end such waits, cpu for running threads
    ///
    /// Without privileges, only stacks of your own processes are recorded, without kernel functions.
    #[arg(
        long,
        value_name = "KIND,..",
        num_args = 0..=1,
        value_delimiter = ',',
        require_equals = true,
        default_missing_value = "offcpu"
    )]
    pub stacks: Vec<StackKind>,
    /// With --mode circular, write a snapshot each time a thread meets this condition, for example 'runqueue > 5ms'
    ///
    /// The same conditions as for `fxtrec --trigger` in the form METRIC OP TIME [if CONDITION]. For app.fxt, snapshots are named app.1.fxt,
    /// app.2.fxt and so on; they are written until COMMAND ends, or until Ctrl-C with --foreground. Can be given more than once.
    #[arg(long = "trigger", value_name = "EXPR")]
    pub triggers: Vec<Trigger>,
    /// Record what the policy permits, even if that is less than requested
    #[arg(long)]
    pub allow_partial: bool,
    /// What to do when a buffer is full: write it out, stop recording, or overwrite
    #[arg(long, value_name = "MODE", default_value = "streaming")]
    pub mode: Mode,
    /// Buffer size of each application and of the kernel, in whole MiB [default: the daemon's]
    #[arg(long, value_name = "SIZE")]
    pub buffer_size: Option<ByteSize>,
    /// Buffer size or categories for applications with this name, for example db:16M:sql,net*
    #[arg(long = "provider", value_name = "NAME:[SIZE]:[NAME,..]")]
    pub providers: Vec<ProviderOverride>,
    /// How long to wait for applications to report that they are recording
    #[arg(long, value_name = "TIME")]
    pub start_timeout: Option<TimeSpan>,
    /// Send the trace only at the end; the daemon stores it until then
    #[arg(long)]
    pub defer_transfer: bool,
    /// Record until Ctrl-C, instead of until `fxtrec ctl stop`
    #[arg(long, conflicts_with = "command")]
    pub foreground: bool,
    /// Restart the session that `fxtrec ctl stop --keep` stopped; --categories adds to its categories
    #[arg(
        long,
        conflicts_with_all = ["command", "output", "pids", "cgroups", "comms", "stacks", "triggers", "allow_partial", "mode", "buffer_size", "providers", "start_timeout",
            "defer_transfer", "foreground"]
    )]
    pub again: bool,
    /// What to do with data that was recorded earlier but not written
    #[arg(long, value_name = "WHAT", requires = "again")]
    pub disposition: Option<Disposition>,
}

/// What to do with data that was recorded earlier but not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Disposition {
    /// Discard it
    ClearEntire,
    /// Discard it, except names and other records that later records refer to
    ClearNondurable,
    /// Keep it
    Retain,
}

/// The arguments of `fxtrec ctl stop`.
#[derive(Args, Clone, Debug)]
pub struct CtlStopArgs {
    /// Discard what is still in the buffers
    #[arg(long)]
    pub no_write: bool,
    /// Stop, but keep the session for `fxtrec ctl start --again`
    #[arg(long)]
    pub keep: bool,
}

/// The arguments of `fxtrec ctl snapshot`.
#[derive(Args, Clone, Debug)]
pub struct CtlSnapshotArgs {
    /// Output file, `-` for a pipe [default: snapshot.fxt]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Request the snapshot from this running `fxtrec --mode circular` instead of the daemon; it writes next to its own output
    #[arg(
        short,
        long,
        value_name = "PID",
        conflicts_with = "output",
        value_parser = pid
    )]
    pub pid: Option<u32>,
}

/// Settings for the applications with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOverride {
    /// Their name.
    pub name: String,
    /// Their buffer size, if it differs from the session's.
    pub buffer: Option<ByteSize>,
    /// Their categories, instead of those of the session; empty means those of the session.
    pub categories: Vec<String>,
}

impl FromStr for ProviderOverride {
    type Err = String;

    fn from_str(text: &str) -> Result<ProviderOverride, String> {
        let mut parts = text.splitn(3, ':');
        let name =
            parts.next().filter(|name| !name.is_empty()).ok_or("expected NAME:SIZE:CATEGORIES")?;
        let part = |part: Option<&str>| part.filter(|text| !text.is_empty()).map(str::to_owned);
        let buffer = part(parts.next())
            .map(|text| text.parse().map_err(|error| format!("'{text}': {error}")))
            .transpose()?;
        let categories = part(parts.next());
        let categories = categories.iter().flat_map(|list| list.split(',')).map(category);
        let categories = categories.collect::<Result<Vec<_>, _>>()?;
        if buffer.is_none() && categories.is_empty() {
            return Err(format!(
                "no SIZE and no CATEGORIES for {name}; expected NAME:SIZE:CATEGORIES"
            ));
        }
        Ok(ProviderOverride { name: name.to_owned(), buffer, categories })
    }
}

/// Checks a category and returns its text, which is sent to the daemon.
fn category(text: &str) -> Result<String, String> {
    match text.parse::<Category>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    fn ctl(words: &[&str]) -> Result<CtlArgs, String> {
        match Cli::parse_line(["fxtrec", "ctl"].iter().chain(words).copied()) {
            Ok(Command::Ctl(args)) => Ok(args),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn start(words: &[&str]) -> CtlStartArgs {
        match ctl(words).expect("good").verb {
            CtlVerb::Start(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_socket_and_json_may_stand_before_and_behind_the_verb() {
        for words in
            [["--json", "--socket", "/x", "status"], ["status", "--json", "--socket", "/x"]]
        {
            let common = ctl(&words).expect("good").common;
            assert!(common.json);
            assert_eq!(common.socket, PathBuf::from("/x"));
        }
    }

    #[test]
    fn options_behind_the_dashes_are_commands_own() {
        let args = start(&["start", "-o", "x.fxt", "--", "app", "--json", "-o", "y"]);
        assert_eq!(args.command, ["app", "--json", "-o", "y"]);
        assert_eq!(args.output, Some("x.fxt".into()));
    }

    #[test]
    fn an_override_has_a_size_or_categories_or_both() {
        let of = |text: &str| text.parse::<ProviderOverride>();
        let both = of("db:16M:sql,net*").expect("good");
        assert_eq!(both.buffer.map(ByteSize::bytes), Some(16 << 20));
        assert_eq!(both.categories, ["sql", "net*"]);
        assert_eq!(of("db::sql").expect("good").buffer, None);
        assert!(of("db:1M").expect("good").categories.is_empty());
        for bad in ["", "db", "db::", ":1M", "db:much", "db::*x"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_session_that_is_started_again_has_its_settings() {
        assert!(start(&["start", "--again", "--disposition", "retain"]).again);
        for contradiction in [["--mode", "oneshot"], ["-o", "x"], ["--buffer-size", "1M"]] {
            let words = [&["start", "--again"][..], &contradiction].concat();
            assert!(ctl(&words).is_err(), "{words:?}");
        }
        assert!(ctl(&["start", "--disposition", "retain"]).is_err(), "there is nothing before it");
    }

    #[test]
    fn a_category_that_is_none_is_refused_before_the_daemon_is_asked() {
        let error = ctl(&["start", "--categories", "sched:wakin"]).expect_err("refused");
        assert!(error.contains("did you mean sched:waking?"), "{error}");
    }
}
