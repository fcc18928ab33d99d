//! `fxtrec completions`: prints the script with which a shell completes fxtrec's command line.
//!
//! The script is generated from the command line's definition, so it cannot name an option that does not exist. [`values`] adds values that
//! are looked up at completion time.

mod values;

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell as Generator;

use crate::cli::{Cli, CompletionsArgs, Shell};

impl Shell {
    fn generator(self) -> Generator {
        match self {
            Shell::Bash => Generator::Bash,
            Shell::Zsh => Generator::Zsh,
            Shell::Fish => Generator::Fish,
        }
    }

    /// The file name under which the shell looks for the script.
    pub fn file_name(self) -> &'static str {
        match self {
            Shell::Bash => "fxtrec.bash",
            Shell::Zsh => "_fxtrec",
            Shell::Fish => "fxtrec.fish",
        }
    }
}

/// Prints the script that `args` request.
///
/// # Errors
/// Returns an error when the script cannot be written. An output that is closed early is not an error.
pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> io::Result<()> {
    match out.write_all(script(args.shell)?.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The script for a shell.
///
/// # Errors
/// Returns an error when clap's script has an unknown form.
pub fn script(shell: Shell) -> io::Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell.generator(), &mut Cli::command(), "fxtrec", &mut script);
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    values::add(shell, script)
}
