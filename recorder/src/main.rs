//! The `fxtrec` binary: what the library has to say is printed here, and the exit status chosen.

use std::io::{ErrorKind, Write, sink, stderr, stdout};
use std::process::ExitCode;

use fxtrec::cli::{self, Cli, Command, EXIT_FAILURE, EXIT_GATE_FAILED};
use fxtrec::commands::{
    compare, convert, ctl, cut, daemon, doctor, dump, merge, open, probes, record, report,
};

fn main() -> ExitCode {
    let command = match Cli::parse_line(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            // When even the help cannot be printed, the status still says what it was.
            let _ = error.print();
            return ExitCode::from(cli::exit_code(&error));
        }
    };
    match command {
        Command::Record(args) if args.quiet > 1 => match record::run(args, &mut sink()) {
            Ok(code) => ExitCode::from(code),
            Err(error) if error.is_usage() => fail(&error, error.exit_code()),
            Err(error) => ExitCode::from(error.exit_code()),
        },
        Command::Record(args) => match record::run(args, &mut stderr()) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                let code = fail(&error, error.exit_code());
                if let Some(line) = error.with_sudo() {
                    let _ = writeln!(stderr(), "To try it with sudo: {line}");
                }
                code
            }
        },
        Command::Doctor(args) => match doctor::run(args, &mut stdout().lock()) {
            Ok(usable) => ExitCode::from(u8::from(!usable)),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => fail(&error, EXIT_FAILURE),
        },
        Command::Dump(args) => match dump::dump(&args, &mut stdout().lock()) {
            Ok(sound) => ExitCode::from(u8::from(!sound)),
            Err(error) => fail(&error, EXIT_FAILURE),
        },
        Command::Report(args) => match report::run(&args, &mut stdout().lock(), &mut stderr()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(EXIT_GATE_FAILED),
            Err(error) => fail(&error, EXIT_FAILURE),
        },
        Command::Probes(args) => done(probes::run(&args, &mut stdout().lock())),
        Command::Convert(args) => done(convert::run(&args, &mut stderr())),
        Command::Merge(args) => done(merge::run(&args, &mut stderr())),
        Command::Cut(args) => done(cut::run(&args, &mut stderr())),
        Command::Open(args) => done(open::run(&args, &mut stderr())),
        Command::Daemon(args) => done(daemon::run(&args, &mut stderr())),
        Command::Ctl(args) => match ctl::run(args, &mut stdout(), &mut stderr()) {
            Ok(code) => ExitCode::from(code),
            Err(error) => fail(&error, error.exit_code()),
        },
        Command::Compare(args) => match compare::compare(&args, &mut stdout().lock()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(EXIT_GATE_FAILED),
            Err(error) => fail(&error, EXIT_FAILURE),
        },
    }
}

fn done<E: std::error::Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, EXIT_FAILURE),
    }
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    // Without standard error there is nobody to tell; the status remains.
    let _ = writeln!(stderr(), "fxtrec: {error}");
    ExitCode::from(code)
}
