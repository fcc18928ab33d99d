//! The arguments of `fxtrec probes`.

use clap::Args;

use super::values::pid;

/// The arguments of `fxtrec probes`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec probes ./app                  each function and USDT probe of a program
  fxtrec probes ./app 'render::*'      functions that match a glob
  fxtrec probes libc malloc            one function of a library
  fxtrec probes ./app 'usdt:*:*'       USDT probes only, with their arguments
  fxtrec probes --names libc 'mem*'    names only, for scripts
  fxtrec probes -p 1234 libssl         a library as process 1234 has it loaded

Every entry can be recorded with -P ./app:NAME; docs/reference/probes.md has the grammar.

Exit status: 0, or 125 when BINARY cannot be read or GLOB matches nothing.")]
pub struct ProbesArgs {
    /// Program or library: a path, or a name such as libc or bash
    pub binary: String,
    /// Only functions and USDT probes that match; usdt:PROVIDER:NAME matches USDT probes
    pub glob: Option<String>,
    /// Resolve BINARY in this process's view of the file system, for example in a container
    #[arg(short, long = "pid", value_name = "PID", value_parser = pid)]
    pub pid: Option<u32>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only the names, one per line, as -P takes them after BINARY:
    #[arg(long, conflicts_with = "json")]
    pub names: bool,
}
