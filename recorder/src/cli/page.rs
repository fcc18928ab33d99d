//! The option that turns a trace into a page.

use std::path::{Path, PathBuf};

use clap::Args;

/// Where the page goes.
#[derive(Args, Clone, Debug, Default)]
pub struct PageArgs {
    /// Also write one HTML page with lanes, latencies and the longest waits
    ///
    /// With `-` only the page goes to standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "timehist", help_heading = "Format")]
    pub html: Option<PathBuf>,
}

impl PageArgs {
    /// Whether the page is what goes to standard output.
    pub fn to_stdout(&self) -> bool {
        self.html.as_deref() == Some(Path::new("-"))
    }
}
