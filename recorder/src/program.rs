//! The program: prints the commands' output and chooses the exit status.
//!
//! It is part of the library, so that cargo can build a program for the end-to-end tests.

use std::ffi::OsString;
use std::io::{ErrorKind, Write, sink, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use crate::capture::stacks::READER_PROCESS;
use crate::cli::{self, Cli, Command, EXIT_FAILURE, EXIT_GATE_FAILED};
use crate::commands::trace_file::warn_of_newer;
use crate::commands::{
    compare, completions, convert, ctl, cut, daemon, demo, doctor, dump, export, flame, merge,
    open, probes, query, record, report, span, symbolize, top, watch, why,
};
use crate::config::Config;
use crate::control::{OUTPUT_PROCESS, run_output_process};
use crate::file_worker;
pub use crate::kernel::allocator::Allocator;
use crate::kernel::caps::drop_file_capabilities;
use crate::kernel::pager::Pager;
use crate::kernel::rights::without_file_capabilities;
use crate::kernel::signals::survive_file_size_limit;
use crate::kernel::terminal::{Awaiting, Terminal, choose_colour};
use crate::units::escape::{self, Escaping};
use crate::units::fold::Fold;
use crate::units::look::Look;

/// Runs the command line of this process and returns the exit status.
pub fn main() -> ExitCode {
    // Without this, a write beyond the file size limit would end the process.
    let _ = survive_file_size_limit();
    let line: Vec<OsString> = std::env::args_os().collect();
    if line.first().is_some_and(|name| name == OUTPUT_PROCESS) {
        // A helper process of the daemon, which checks its exit status.
        let words = line.into_iter().skip(1).filter_map(|word| word.into_string().ok());
        return ExitCode::from(u8::from(run_output_process(words).is_err()));
    }
    if line.first().is_some_and(|name| name == READER_PROCESS) {
        // A helper process of a recording or another command, which checks its exit status.
        let word = line.get(1).map(OsString::as_os_str);
        let result = drop_file_capabilities().and_then(|()| file_worker::run(word));
        return ExitCode::from(u8::from(result.is_err()));
    }
    let (mut command, display) = match Cli::parse_all(&line) {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            // The message repeats arguments, which are not trusted, and has no colours.
            for text in error.render().ansi().to_string().lines() {
                // If standard error is closed, only the exit status reports the error.
                let _ = writeln!(messages(), "{}", escape::line(text));
            }
            return ExitCode::from(cli::exit_code(&error, &line));
        }
        Err(error) => {
            return match error.print() {
                // The reader has closed the output early.
                Err(unprinted) if unprinted.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
                Err(unprinted) => fail(&unprinted, EXIT_FAILURE),
                Ok(()) => ExitCode::from(cli::exit_code(&error, &line)),
            };
        }
    };
    if !records(&command) {
        // The capabilities are for recording only; they would also allow reading every file.
        if let Err(error) = drop_file_capabilities() {
            return fail(&error, EXIT_FAILURE);
        }
    }
    let config = match (&command, display.no_config) {
        // Doctor reports on the configuration file, and must work without it.
        (Command::Doctor(_), _) | (_, true) => Config::default(),
        _ => match without_file_capabilities(Config::find) {
            Ok(Ok(config)) => config,
            Ok(Err(error)) => return fail(&error, EXIT_FAILURE),
            Err(error) => return fail(&error, EXIT_FAILURE),
        },
    };
    config.apply(&mut command);
    choose_colour(display.color.or(config.color).unwrap_or_default().colour());
    let pages = Pages { wanted: !display.no_pager, usual: config.pager.as_deref() };
    let explained = match &command {
        Command::Report(args) => Some(&args.file),
        Command::Why(args) => Some(&args.file),
        Command::Dump(args) if args.check => Some(&args.file),
        _ => None,
    };
    if let Some(path) = explained {
        warn_of_newer(path, &mut messages());
    }
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
        Command::Doctor(args) => {
            match shown(args.json, pages, |out| doctor::run(args, display.no_config, look(), out)) {
                Ok(usable) => ExitCode::from(u8::from(!usable)),
                Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
                Err(error) => fail(&error, EXIT_FAILURE),
            }
        }
        Command::Dump(args) => {
            // Input from a pipe is printed as it arrives.
            let pages = pages.unless(args.file == Path::new("-"));
            match shown(args.json, pages, |out| dump::dump(&args, look(), out)) {
                Ok(sound) => ExitCode::from(u8::from(!sound)),
                Err(error) => fail(&error, EXIT_FAILURE),
            }
        }
        Command::Report(args) => {
            // Verdicts are written to the terminal, too, through standard error.
            let pages = pages.unless(!args.gates.fail_if.is_empty());
            let run = |out: &mut dyn Write| report::run(&args, look(), out, &mut messages());
            match shown(args.writes_for_programs(), pages, run) {
                Ok(outcome) => ExitCode::from(outcome.exit_code()),
                Err(error) => fail(&error, EXIT_FAILURE),
            }
        }
        Command::Probes(args) => {
            done(shown(args.json, pages.unless(args.names), |out| probes::run(&args, look(), out)))
        }
        Command::Why(args) => {
            done(shown(args.json, pages, |out| why::run(&args, &mut folded(args.json, out))))
        }
        Command::Convert(args) => done(convert::run(&args, &mut messages())),
        Command::Export(args) => done(export::run(&args, &mut messages())),
        Command::Query(args) => done(query::run(&args)),
        Command::Completions(args) => done(completions::run(&args, &mut stdout().lock())),
        Command::Span(args) => match span::run(&args) {
            Ok(code) => ExitCode::from(code),
            Err(error) => fail(&error, error.exit_code()),
        },
        Command::Merge(args) => done(merge::run(&args, &mut messages())),
        Command::Cut(args) => done(cut::run(&args, &mut messages())),
        Command::Flame(args) => done(flame::run(&args, &mut text(), &mut messages())),
        Command::Symbolize(args) => done(symbolize::run(&args, &mut messages())),
        Command::Open(args) => done(open::run(&args, &mut messages())),
        Command::Demo(args) => match demo::run(&args, &mut messages()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, error.exit_code()),
        },
        Command::Top(args) => done(top::run(&args, &mut text(), &mut messages())),
        Command::Watch(args) => {
            let watched = match args.json {
                true => watch::run(&args, &mut stdout().lock(), &mut messages()),
                false => watch::run(&args, &mut text(), &mut messages()),
            };
            match watched {
                Ok(status) => ExitCode::from(status),
                Err(error) => fail(&error, EXIT_FAILURE),
            }
        }
        Command::Daemon(args) => done(daemon::run(&args, &mut messages())),
        Command::Ctl(args) => {
            let json = args.common.json;
            match shown(json, pages.unless(true), |out| {
                ctl::run(args, look(), out, &mut messages())
            }) {
                Ok(code) => ExitCode::from(code),
                Err(error) => fail(&error, error.exit_code()),
            }
        }
        Command::Compare(args) => match shown(args.json, pages, |out| {
            compare::compare(&args, &mut folded(args.json, out))
        }) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(EXIT_GATE_FAILED),
            Err(error) => fail(&error, EXIT_FAILURE),
        },
    }
}

/// Whether the command needs a recorder's capabilities.
fn records(command: &Command) -> bool {
    matches!(
        command,
        Command::Record(_)
            | Command::Daemon(_)
            | Command::Demo(_)
            | Command::Doctor(_)
            | Command::Probes(_)
            | Command::Top(_)
            | Command::Watch(_)
    )
}

fn done<E: std::error::Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, EXIT_FAILURE),
    }
}

/// Whether long output is shown in a pager, and in which one unless the environment names one.
#[derive(Clone, Copy)]
struct Pages<'a> {
    wanted: bool,
    usual: Option<&'a str>,
}

impl Pages<'_> {
    fn unless(self, not: bool) -> Self {
        Pages { wanted: self.wanted && !not, ..self }
    }
}

/// Passes standard output to `run`: unchanged for programs; otherwise with control characters escaped, and through a
/// pager if wanted. When this returns, everything is shown and the pager has ended.
fn shown<T>(for_programs: bool, pages: Pages<'_>, run: impl FnOnce(&mut dyn Write) -> T) -> T {
    if for_programs {
        return run(&mut stdout().lock());
    }
    let colour = Terminal::of_stdout().colour;
    match pages.wanted.then(|| Pager::of_stdout(stdout().lock(), pages.usual)).flatten() {
        Some(pager) => run(&mut Escaping::coloured(pager, colour)),
        None => run(&mut text()),
    }
}

/// Lines that fit the terminal, if they are for people.
fn folded(for_programs: bool, out: &mut dyn Write) -> Fold<&mut dyn Write> {
    Fold::new(out, look().columns.filter(|_| !for_programs))
}

/// The style of text on standard output.
fn look() -> Look {
    Terminal::of_stdout().look()
}

/// Standard output for people, without a pager.
fn text() -> Escaping<impl Write> {
    Escaping::coloured(stdout().lock(), Terminal::of_stdout().colour)
}

/// Standard error, with control characters escaped, since names in it are not trusted.
pub(crate) fn messages() -> Escaping<impl Write> {
    Escaping::coloured(Awaiting(stderr()), Terminal::of_stderr().colour)
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    // If standard error is closed, only the exit status reports the error.
    let _ = writeln!(messages(), "fxtrec: {error}");
    ExitCode::from(code)
}
