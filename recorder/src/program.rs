//! The program: what the commands have to say is printed here, and the exit status chosen.
//!
//! It is part of the library, so that the end-to-end tests have a program of their own that cargo builds with them.

use std::ffi::OsString;
use std::io::{ErrorKind, Write, sink, stderr, stdout};
use std::process::ExitCode;

use crate::cli::{self, Cli, Command, EXIT_FAILURE, EXIT_GATE_FAILED};
use crate::commands::{
    compare, convert, ctl, cut, daemon, demo, doctor, dump, flame, merge, open, probes, record,
    report, why,
};
use crate::control::{OUTPUT_PROCESS, run_output_process};
use crate::units::escape::{self, Escaping};

/// Does what the command line of this process says, and returns the exit status.
pub fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    if line.first().is_some_and(|name| name == OUTPUT_PROCESS) {
        // A part of the daemon, which sees how it ends.
        let words = line.into_iter().skip(1).filter_map(|word| word.into_string().ok());
        return ExitCode::from(u8::from(run_output_process(words).is_err()));
    }
    let command = match Cli::parse_line(&line) {
        Ok(command) => command,
        Err(error) if error.use_stderr() => {
            // It repeats arguments, which others may have chosen, and has no colours of its own.
            for text in error.render().ansi().to_string().lines() {
                // Without standard error there is nobody to tell; the status remains.
                let _ = writeln!(messages(), "{}", escape::line(text));
            }
            return ExitCode::from(cli::exit_code(&error, &line));
        }
        Err(error) => {
            return match error.print() {
                Err(unprinted) => fail(&unprinted, EXIT_FAILURE),
                Ok(()) => ExitCode::from(cli::exit_code(&error, &line)),
            };
        }
    };
    match command {
        Command::Record(args) if args.quiet > 1 => match record::run(args, &mut sink()) {
            Ok(code) => ExitCode::from(code),
            Err(error) if error.is_usage() => fail(&error, error.exit_code()),
            Err(error) => ExitCode::from(error.exit_code()),
        },
        Command::Record(args) => match record::run(args, &mut messages()) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                let code = fail(&error, error.exit_code());
                if let Some(line) = error.with_sudo() {
                    let _ = writeln!(messages(), "To try it with sudo: {line}");
                }
                code
            }
        },
        Command::Doctor(args) => match doctor::run(args, &mut *output(args.json)) {
            Ok(usable) => ExitCode::from(u8::from(!usable)),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => fail(&error, EXIT_FAILURE),
        },
        Command::Dump(args) => match dump::dump(&args, &mut *output(args.json)) {
            Ok(sound) => ExitCode::from(u8::from(!sound)),
            Err(error) => fail(&error, EXIT_FAILURE),
        },
        Command::Report(args) => {
            match report::run(&args, &mut *output(args.writes_for_programs()), &mut messages()) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::from(EXIT_GATE_FAILED),
                Err(error) => fail(&error, EXIT_FAILURE),
            }
        }
        Command::Probes(args) => done(probes::run(&args, &mut *output(args.json))),
        Command::Why(args) => done(why::run(&args, &mut *output(args.json))),
        Command::Convert(args) => done(convert::run(&args, &mut messages())),
        Command::Merge(args) => done(merge::run(&args, &mut messages())),
        Command::Cut(args) => done(cut::run(&args, &mut messages())),
        Command::Flame(args) => done(flame::run(&args, &mut *output(false), &mut messages())),
        Command::Open(args) => done(open::run(&args, &mut messages())),
        Command::Demo(args) => match demo::run(&args, &mut messages()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, error.exit_code()),
        },
        Command::Daemon(args) => done(daemon::run(&args, &mut messages())),
        Command::Ctl(args) => {
            let json = args.common.json;
            match ctl::run(args, &mut *output(json), &mut messages()) {
                Ok(code) => ExitCode::from(code),
                Err(error) => fail(&error, error.exit_code()),
            }
        }
        Command::Compare(args) => match compare::compare(&args, &mut *output(args.json)) {
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

/// Standard output as it is, for programs, or with everything escaped that a terminal would obey.
fn output(for_programs: bool) -> Box<dyn Write> {
    if for_programs { Box::new(stdout().lock()) } else { Box::new(text()) }
}

fn text() -> Escaping<impl Write> {
    Escaping::new(stdout().lock())
}

/// Standard error. What it gets may hold names that others have chosen.
fn messages() -> Escaping<impl Write> {
    Escaping::new(stderr())
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    // Without standard error there is nobody to tell; the status remains.
    let _ = writeln!(messages(), "fxtrec: {error}");
    ExitCode::from(code)
}
