//! The arguments of `fxtrec open`.

use std::path::PathBuf;

use clap::Args;

/// The only local port from which the Perfetto UI may load traces.
const PERFETTO_PORT: u16 = 9001;

/// The arguments of `fxtrec open`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
fxtrec serves the file on this machine only, at an unguessable link, to your own browser and the \
Perfetto UI, and exits when the browser has loaded it. The file is not sent anywhere else.

Examples:
  fxtrec open make.fxt                   opens a browser
  fxtrec open make.fxt --no-browser      prints the link to open
  ssh -L 9001:localhost:9001 HOST fxtrec open --no-browser make.fxt")]
pub struct OpenArgs {
    /// Trace to open: FXT, plain, gzip or zstd; other formats are converted
    pub file: PathBuf,
    /// Port to serve on; the Perfetto UI loads from port 9001 only
    #[arg(long, default_value_t = PERFETTO_PORT)]
    pub port: u16,
    /// Print the link instead of opening a browser
    #[arg(long)]
    pub no_browser: bool,
}
