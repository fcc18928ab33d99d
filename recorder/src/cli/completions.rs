//! The arguments of `fxtrec completions`.

use clap::{Args, ValueEnum};

/// The arguments of `fxtrec completions`.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Packages install completions; this is for other builds.

Examples:
  . <(fxtrec completions bash)                  in ~/.bashrc
  fxtrec completions zsh > ~/.zfunc/_fxtrec     with fpath+=~/.zfunc in ~/.zshrc
  fxtrec completions fish > ~/.config/fish/completions/fxtrec.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// A shell that can complete fxtrec's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
