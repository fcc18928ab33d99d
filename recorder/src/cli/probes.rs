//! The arguments of `fxtrec probes`.

use clap::Args;

use super::values::pid;

/// The arguments of `fxtrec probes`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec probes ./app                  every function and USDT probe of a program
  fxtrec probes ./app 'render::*'      those functions that a glob means
  fxtrec probes libc malloc            of a library, as the loader finds it
  fxtrec probes ./app 'usdt:*:*'       USDT probes only, with their arguments
  fxtrec probes -p 1234 libssl         of the library that process 1234 runs

What is listed can be probed: -P ./app:NAME; docs/probes.md has the grammar.

Exit status: 0, 125 when BINARY cannot be read or has nothing that GLOB means.")]
pub struct ProbesArgs {
    /// A program or library: a path, or a name as libc or bash
    pub binary: String,
    /// Only functions and USDT probes of this name; * and ? stand for others, usdt:PROVIDER:NAME
    /// for USDT probes
    pub glob: Option<String>,
    /// Look for BINARY as this process sees the files, which may be in a container
    #[arg(short, long = "pid", value_name = "PID", value_parser = pid)]
    pub pid: Option<u32>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}
