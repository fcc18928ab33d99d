//! The arguments of `fxtrec merge`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::convert::sync::Messages;
use crate::units::quantity::{TimeSpan, ValueError};

/// The arguments of `fxtrec merge`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
fxtrec aligns the files by the wall clock: each recording of fxtrec contains the offset of its clock, and the error if the kernel knew it. If the wall clocks of two machines differ too much for your purpose, give --offset, or --sync if messages went both ways between them: FXT flows with the same id, or events with two names and the same arguments. fxtrec prints how wrong the offset can be. Threads and CPUs of different files stay separate, unless you give --same-machine.

Examples:
  fxtrec merge client.fxt server.fxt -o both.fxt
  fxtrec merge client.fxt server.fxt --offset -1.5ms -o both.fxt.zst
  fxtrec merge client.fxt server.fxt --sync -o both.fxt
  fxtrec merge client.fxt server.fxt --sync=rpc:send,rpc:receive,id -o both.fxt
  fxtrec merge system.fxt app.fxt --same-machine --offset 0 -o all.fxt")]
pub struct MergeArgs {
    /// FXT traces to read, plain, gzip or zstd
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub inputs: Vec<PathBuf>,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// How far the clock of the second file is ahead of the first file's; repeat for the third
    #[arg(long = "offset", value_name = "TIME", allow_hyphen_values = true)]
    pub offsets: Vec<Offset>,
    /// Align clocks by messages between the machines: flows, or SEND,RECEIVE,ARGUMENT for events with equal arguments
    #[arg(long, value_name = "MESSAGES", num_args = 0..=1, require_equals = true, default_missing_value = "flows", conflicts_with = "offsets")]
    pub sync: Option<Messages>,
    /// Treat equal thread ids and CPU numbers in all files as the same
    #[arg(long)]
    pub same_machine: bool,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}

/// A distance between two clocks: a time with an optional sign, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// In nanoseconds.
    pub nanos: i64,
}

impl FromStr for Offset {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (negative, length) = match text.strip_prefix('-') {
            Some(length) => (true, length),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let nanos = match length.parse::<TimeSpan>() {
            Ok(span) => {
                i64::try_from(span.duration().as_nanos()).map_err(|_| ValueError::TooLarge)?
            }
            Err(ValueError::Zero) => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_a_time_with_a_sign_or_none() {
        let nanos = |text: &str| text.parse::<Offset>().map(|offset| offset.nanos);
        assert_eq!(nanos("-1.5ms"), Ok(-1_500_000));
        assert_eq!(nanos("+2s"), Ok(2_000_000_000));
        assert_eq!(nanos("0"), Ok(0));
        assert!(nanos("later").is_err());
    }
}
