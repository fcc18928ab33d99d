//! The arguments of `fxtrec cut`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::convert::output;
use super::values::{TimePoint, number};
use crate::convert::redact::Secret;

/// The arguments of `fxtrec cut`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Times are seconds as `fxtrec dump` prints them; with a unit or a plus they count from the first scheduling record: --from 50ms, --from +2. OUT can be read on its own: it begins with the names, \
running threads, open operations and counters from before --from. Records added for this have the argument `inferred` or `cut`.

Examples:
  fxtrec cut day.fxt -o minute.fxt --from 60min --to 61min
  fxtrec cut system.fxt -o app.fxt.zst --comm app --from 2s --to 3s
  fxtrec cut system.fxt cpu0.fxt --cpu 0 --from 12.5
  fxtrec cut system.fxt shared.fxt --for-sharing")]
pub struct CutArgs {
    /// FXT trace to read, plain, gzip or zstd; - for standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete
    #[arg(value_name = "OUT", required_unless_present = "named_output")]
    pub output: Option<PathBuf>,
    /// The same as OUT
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "output")]
    pub named_output: Option<PathBuf>,
    /// Start of the window [default: start of the trace]
    #[arg(long, value_name = "TIME")]
    pub from: Option<TimePoint>,
    /// End of the window [default: end of the trace]
    #[arg(long, value_name = "TIME")]
    pub to: Option<TimePoint>,
    /// Only scheduling records of these CPUs
    #[arg(long = "cpu", value_name = "CPU", value_delimiter = ',', value_parser = number::<u16>)]
    pub cpus: Vec<u16>,
    /// Only threads with this name, or of processes with this name
    #[arg(long = "comm", value_name = "NAME")]
    pub comms: Vec<String>,
    /// Only threads of these processes
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = number::<u64>)]
    pub pids: Vec<u64>,
    /// Replace args, paths, names, cgroups, hosts or functions with pseudonyms; equal strings get the same pseudonym
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Secret>,
    /// The same as --redact args,paths,names,cgroups,hosts, in addition to what --redact names
    #[arg(long)]
    pub for_sharing: bool,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}

impl CutArgs {
    /// What gets pseudonyms.
    pub fn secrets(&self) -> Vec<Secret> {
        let shared = if self.for_sharing { &Secret::FOR_SHARING[..] } else { &[] };
        shared.iter().chain(&self.redact).copied().collect()
    }

    /// Whether the whole trace is wanted.
    pub fn is_of_all(&self) -> bool {
        self.from.is_none()
            && self.to.is_none()
            && self.cpus.is_empty()
            && self.comms.is_empty()
            && self.pids.is_empty()
    }

    /// Where to write.
    pub fn output(&self) -> &Path {
        output(&self.output, &self.named_output)
    }
}
