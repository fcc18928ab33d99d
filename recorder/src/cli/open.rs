//! The arguments of `fxtrec open`.

use std::path::PathBuf;

use clap::Args;

/// The port from which the Perfetto UI may load files of this machine.
const PERFETTO_PORT: u16 = 9001;

/// The arguments of `fxtrec open`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The file is served on this machine only, at a link that nobody can guess, to your own browser and
the Perfetto UI only, and once: fxtrec ends when the browser has it. It is not sent anywhere else.

Examples:
  fxtrec open make.fxt                   opens a browser
  fxtrec open make.fxt --no-browser      prints the link to open
  ssh -L 9001:localhost:9001 HOST fxtrec open --no-browser make.fxt")]
pub struct OpenArgs {
    /// The trace: FXT, plain or inside gzip or zstd; other formats are converted
    pub file: PathBuf,
    /// The port to serve it on; the Perfetto UI accepts no other than 9001 by itself
    #[arg(long, default_value_t = PERFETTO_PORT)]
    pub port: u16,
    /// Print the link, open no browser
    #[arg(long)]
    pub no_browser: bool,
}
