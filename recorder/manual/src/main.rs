//! Writes fxtrec's man pages and shell completions into a folder: `fxtrec-manual DIR`.
//!
//! ```text
//!   DIR/man/fxtrec.1, fxtrec-report.1, ...     what `fxtrec help` prints, and the sections of [`sections`]
//!   DIR/completions/fxtrec.bash, _fxtrec, fxtrec.fish
//! ```
//!
//! Both follow from the command line's own description, so they cannot name an option that does not exist. [`values`] adds to
//! the completions what is looked up when it is asked for.

#![forbid(unsafe_code)]

mod pages;
mod sections;
mod values;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use fxtrec::cli::Cli;

/// Makes everything below `folder`, which need not exist.
fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    for (name, page) in pages::all(Cli::command())? {
        std::fs::write(man.join(name), page)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let file = clap_complete::generate_to(shell, &mut Cli::command(), "fxtrec", &completions)?;
        let script = values::add(shell, std::fs::read_to_string(&file)?)?;
        std::fs::write(file, script)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(folder), None): (Option<OsString>, _) = (words.next(), words.next()) else {
        eprintln!("usage: fxtrec-manual DIR");
        return ExitCode::from(2);
    };
    match write(&PathBuf::from(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fxtrec-manual: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
