//! Writes fxtrec's man pages and shell completions into a directory: `fxtrec-manual DIR`.
//!
//! ```text
//!   DIR/man/fxtrec.1, fxtrec-report.1, ...     what `fxtrec help` prints, and the sections of [`sections`]
//!   DIR/completions/fxtrec.bash, _fxtrec, fxtrec.fish
//! ```
//!
//! Both are generated from the description of the command line, so they cannot name an option that does not exist. The completions are
//! those that `fxtrec completions` prints.

#![forbid(unsafe_code)]

mod pages;
mod sections;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use fxtrec::cli::{Cli, Shell};
use fxtrec::commands::completions::script;

/// Makes everything below `folder`, which need not exist.
fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    for (name, page) in pages::all(Cli::command())? {
        std::fs::write(man.join(name), page)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        std::fs::write(completions.join(shell.file_name()), script(shell)?)?;
    }
    Ok(())
}

/// Writes man pages to DIR/man, and completions for bash, zsh and fish to DIR/completions
#[derive(Debug, Parser)]
#[command(
    name = "fxtrec-manual",
    version,
    after_help = "\
To use completions without a package:
  bash  . DIR/completions/fxtrec.bash
  zsh   put DIR/completions/_fxtrec into a directory of $fpath
  fish  put DIR/completions/fxtrec.fish into ~/.config/fish/completions"
)]
struct Args {
    /// Folder to write below; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let Args { folder } = Args::parse();
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fxtrec-manual: cannot write below {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
