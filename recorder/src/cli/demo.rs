//! The arguments of `fxtrec demo`.

use std::path::PathBuf;

use clap::Args;

use crate::units::quantity::TimeSpan;

/// The arguments of `fxtrec demo`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Three threads share one CPU: `player` wants it for 1 ms every 10 ms, `hog` takes it for 30 ms twice a \
second with a real-time priority, and `background` takes the rest. Every other thread of the machine is recorded too.

Examples:
  sudo fxtrec demo                 writes fxtrec-demo.fxt and fxtrec-demo.html
  sudo fxtrec demo -o /tmp/demo    writes /tmp/demo.fxt and /tmp/demo.html")]
pub struct DemoArgs {
    /// Path of the trace and the page, with or without an extension
    #[arg(short, long, value_name = "PATH", default_value = "fxtrec-demo")]
    pub output: PathBuf,
    /// How long to record
    #[arg(short, long, value_name = "TIME", default_value = "5s")]
    pub duration: TimeSpan,
    /// Print where the page is instead of opening a browser
    #[arg(long)]
    pub no_browser: bool,
    /// Internal: fxtrec runs itself with this option, and records the run
    #[arg(long, hide = true)]
    pub scene: bool,
}
