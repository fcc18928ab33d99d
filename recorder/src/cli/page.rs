//! The option that turns a trace into a page.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::report::page::Budget;
use crate::units::quantity::ByteSize;

/// Where the page is written.
#[derive(Args, Clone, Debug, Default)]
pub struct PageArgs {
    /// Also write one HTML page with lanes, latencies and the longest waits
    ///
    /// With `-` only the page goes to standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "timehist", help_heading = "Format")]
    pub html: Option<PathBuf>,
    /// Maximum size of the page, or `all` [default: 2 MB per million events, at least 2 MB, at most 10 MB]
    ///
    /// If the page would be larger, it keeps exact events only around the listed waits and at intervals, has coarser summaries elsewhere,
    /// and says so.
    #[arg(long, value_name = "SIZE", value_parser = budget, requires = "html", help_heading = "Format")]
    pub html_bytes: Option<Budget>,
}

/// A size, or `all` or 0 for no limit.
fn budget(text: &str) -> Result<Budget, String> {
    match text {
        "all" | "0" => Ok(Budget::All),
        _ => {
            let size = text.parse::<ByteSize>().map_err(|error| format!("{error}, or all"))?;
            Ok(Budget::Bytes(size.bytes()))
        }
    }
}

impl PageArgs {
    /// Maximum size of the page.
    pub fn budget(&self) -> Budget {
        self.html_bytes.unwrap_or_default()
    }

    /// Whether standard output receives the page.
    pub fn to_stdout(&self) -> bool {
        self.html.as_deref() == Some(Path::new("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_size_or_everything() {
        assert_eq!((budget("all"), budget("0")), (Ok(Budget::All), Ok(Budget::All)));
        assert_eq!(budget("4M"), Ok(Budget::Bytes(4 << 20)));
        assert_eq!(
            budget("much"),
            Err("expected a number and a unit, such as 512k or 8M, or all".into())
        );
    }
}
