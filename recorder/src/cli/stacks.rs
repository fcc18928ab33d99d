//! Options for stacks.

use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::kernel::bpf::stacks::{LEAST_COPY, MOST_COPY};
use crate::units::quantity::TimeSpan;

const STACKS: &str = "Stacks";

/// Where threads were in their code.
#[derive(Args, Clone, Debug, Default)]
pub struct StackArgs {
    /// Record the stack of each thread that is off its CPU for long (--stacks-over); `none` turns stacks off
    ///
    /// A stack has the kernel's functions and the program's. By default, with source bpf: stacks of COMMAND, of the processes of -p, and of
    /// their descendants; with --stacks: stacks of all recorded threads. With wake, also the stack of the thread that ends such a wait;
    /// with cpu, also samples of running threads, -F times a second on each CPU. Needs the same rights as --source bpf; if BPF is refused,
    /// and with --source perf, fxtrec unwinds by frame pointers alone, and stacks may lack a caller.
    #[arg(
        long,
        value_name = "KIND,..",
        num_args = 0..=1,
        value_delimiter = ',',
        require_equals = true,
        default_missing_value = "offcpu",
        help_heading = STACKS
    )]
    pub stacks: Option<Vec<StackKind>>,

    /// How long a thread must be off its CPU for its stack to be kept, for example 500us [default: 1ms]
    #[arg(long, value_name = "TIME", requires = "stacks", help_heading = STACKS)]
    pub stacks_over: Option<TimeSpan>,

    /// Samples that --stacks=cpu takes of each CPU, per second [default: 99]
    #[arg(
        short = 'F',
        long,
        value_name = "HZ",
        requires = "stacks",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        help_heading = STACKS
    )]
    pub frequency: Option<u32>,

    /// How to find a program's functions: auto, or dwarf[=KIB] to copy more of its stack [default: auto]
    ///
    /// fxtrec uses the tables that compilers write for exceptions (.eh_frame), and frame pointers. With auto, it copies the top 512 bytes
    /// of the stack for the tables, and 4 KiB if frame pointers lead nowhere; deeper stacks without frame pointers are truncated. dwarf
    /// copies up to KIB of each stack (default 16; 4 to 24 in steps of 4).
    #[arg(long, value_name = "HOW", requires = "stacks", help_heading = STACKS)]
    pub unwind: Option<Unwind>,

    /// Do not name the functions of stacks; `fxtrec symbolize` can name them later
    #[arg(long, requires = "stacks", help_heading = STACKS)]
    pub no_symbols: bool,

    /// Time limit for naming functions after COMMAND has ended; `fxtrec symbolize` names the rest [default: 5s]
    ///
    /// Functions that occur in most stacks come first. Each rotated file and each snapshot gets the same time limit.
    #[arg(long, value_name = "TIME", help_heading = STACKS)]
    pub naming_time: Option<TimeSpan>,
}

/// Whether `word` is a valid value of `--stacks`.
pub(super) fn names_kinds(word: &str) -> bool {
    word.split(',').all(|kind| StackKind::from_str(kind, false).is_ok())
}

/// How the functions of a program are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unwind {
    /// By the top of its stack, and by frame pointers.
    #[default]
    Auto,
    /// By tables, from this many bytes of its stack.
    Dwarf(usize),
}

/// The text is not the name of a way to unwind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected auto, dwarf, or dwarf=KIB with 4 to 24 in steps of 4")]
pub struct NoUnwind;

impl Unwind {
    const DEFAULT_COPY: usize = 16 << 10;

    /// The number of bytes of each stack that are copied; `None` for the default.
    pub fn copy(self) -> Option<usize> {
        match self {
            Unwind::Auto => None,
            Unwind::Dwarf(bytes) => Some(bytes),
        }
    }
}

impl FromStr for Unwind {
    type Err = NoUnwind;

    fn from_str(text: &str) -> Result<Unwind, NoUnwind> {
        match text.split_once('=') {
            None if text == "auto" => Ok(Unwind::Auto),
            None if text == "dwarf" => Ok(Unwind::Dwarf(Unwind::DEFAULT_COPY)),
            Some(("dwarf", kib)) => {
                let bytes = kib.parse::<usize>().ok().and_then(|kib| kib.checked_mul(1024));
                let is_possible = |bytes: &usize| {
                    (LEAST_COPY..=MOST_COPY).contains(bytes) && bytes.is_multiple_of(LEAST_COPY)
                };
                bytes.filter(is_possible).map(Unwind::Dwarf).ok_or(NoUnwind)
            }
            _ => Err(NoUnwind),
        }
    }
}

/// Which stacks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackKind {
    /// Stacks of threads that wait
    Offcpu,
    /// Also stacks of the threads that end these waits
    Wake,
    /// Also stacks of threads that run
    Cpu,
    /// No stacks
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_unwind_says_how_much_is_copied() {
        let copy = |text: &str| text.parse::<Unwind>().map(Unwind::copy);
        assert_eq!(copy("auto"), Ok(None));
        assert_eq!(copy("dwarf"), Ok(Some(16 << 10)));
        assert_eq!(copy("dwarf=4"), Ok(Some(4 << 10)));
        assert_eq!(copy("dwarf=24"), Ok(Some(24 << 10)));
        for no in
            ["", "fp", "dwarf=", "dwarf=0", "dwarf=6", "dwarf=28", "dwarf=18446744073709551615"]
        {
            assert_eq!(copy(no), Err(NoUnwind), "{no}");
        }
    }
}
