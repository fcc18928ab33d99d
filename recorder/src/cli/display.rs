//! Options of all subcommands: how text looks, and where it goes.

use clap::{Args, ValueEnum};

use super::record::DISPLAY;
use crate::kernel::terminal::Colour;

/// How text for people looks.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DisplayArgs {
    /// When to use colour: auto (on a terminal, as NO_COLOR, CLICOLOR and CLICOLOR_FORCE permit), always, never
    #[arg(long, value_name = "WHEN", hide_possible_values = true, global = true, help_heading = DISPLAY)]
    pub color: Option<ColorWhen>,
    /// Do not show long output in a pager (FXTREC_PAGER, else PAGER, else less)
    #[arg(long, global = true, help_heading = DISPLAY)]
    pub no_pager: bool,
    /// Do not read the configuration file (docs/reference/output.md)
    #[arg(long, global = true, help_heading = DISPLAY)]
    pub no_config: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal
    #[default]
    Auto,
    /// Also in files and pipes, but not in JSON, CSV and traces
    Always,
    /// Never
    Never,
}

impl ColorWhen {
    /// When to use colours on the terminal.
    pub fn colour(self) -> Colour {
        match self {
            ColorWhen::Auto => Colour::Auto,
            ColorWhen::Always => Colour::Always,
            ColorWhen::Never => Colour::Never,
        }
    }
}
