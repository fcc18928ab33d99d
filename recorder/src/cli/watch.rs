//! The arguments of `fxtrec watch`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::values::{number, pid};
use crate::units::quantity::TimeSpan;

/// The arguments of `fxtrec watch`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "fxtrec watch [OPTIONS] [-p PID | --cgroup GLOB]\n       fxtrec watch [OPTIONS] [--] COMMAND [ARGS...]",
    after_help = "\
fxtrec watch records in circular mode and analyses the recording every 10 seconds. It derives what is usual for a thread from the units of work that the thread did in that time, as fxtrec why does (docs/reference/why.md). Each incident is one line: when it ended, by how \
much longer it took than usual, and why.

Examples:
  sudo fxtrec watch                              the whole machine, until Ctrl-C
  sudo fxtrec watch -p 812 --min 20ms            one process
  sudo fxtrec watch --cgroup '/kubepods*'        some cgroups, and those below
  sudo fxtrec watch --keep 5 -o /var/lib/watch   keep recordings of the worst
  sudo fxtrec watch --json | jq -r .incident.sentence
  sudo fxtrec watch -- ./app                     COMMAND, until it exits"
)]
pub struct WatchArgs {
    /// Only these running processes
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = pid, conflicts_with = "command")]
    pub pids: Vec<u32>,
    /// Only processes in cgroups whose path matches this glob, and in the cgroups below them; can be given more than once
    #[arg(long = "cgroup", value_name = "GLOB", conflicts_with_all = ["pids", "command"])]
    pub cgroups: Vec<String>,
    /// Stop after this long
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<TimeSpan>,
    /// Run COMMAND as this user
    #[arg(short, long, value_name = "USER", requires = "command")]
    pub user: Option<String>,

    /// How often to analyse what was recorded since the last time
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub every: TimeSpan,
    /// Only incidents that took at least this much longer than usual
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    pub min: TimeSpan,
    /// Number of worst incidents to keep recordings of
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    pub keep: Option<usize>,
    /// Directory for these recordings: watch.1.fxt, watch.2.fxt ...
    #[arg(short, long, value_name = "DIR", requires = "keep", default_value = ".")]
    pub output: PathBuf,
    /// Print a JSON object per line (members: docs/reference/why.md#json-of-fxtrec-watch)
    #[arg(long)]
    pub json: bool,

    /// The program to run and watch, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}
