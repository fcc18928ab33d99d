//! The option that turns a trace into a page.

use std::path::PathBuf;

use clap::Args;

/// Where the page goes.
#[derive(Args, Clone, Debug, Default)]
pub struct PageArgs {
    /// Also write a page to look at: one HTML file with lanes, latencies and the longest waits
    #[arg(long, value_name = "FILE", conflicts_with = "timehist", help_heading = "Format")]
    pub html: Option<PathBuf>,
}
