//! The arguments of `fxtrec span`.

use std::ffi::OsString;

use clap::Args;

/// The arguments of `fxtrec span`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "fxtrec span [--category NAME] NAME [--] COMMAND [ARGS...]",
    after_help = "\
For shell scripts: the span is recorded if the script is, by `fxtrec -- ./script` or in a session of \
the daemon. Otherwise COMMAND still runs. `fxtrec span` exits with COMMAND's status, with \
128 plus the signal that killed it, with 127 if COMMAND is not found, and 126 if it cannot run.

Examples, in a script:
  fxtrec span fetch -- rsync -a host:/data .
  fxtrec span load -- sh -c 'for f in *.csv; do ./load \"$f\"; done'
Then:
  sudo fxtrec -- ./nightly.sh
  fxtrec why nightly.sh.fxt --span load"
)]
pub struct SpanArgs {
    /// Name of the span
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Category of the span
    #[arg(long, value_name = "NAME", default_value = "script")]
    pub category: String,
    /// Command to run while the span lasts
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}
