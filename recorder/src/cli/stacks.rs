//! Options for stacks.

use clap::{Args, ValueEnum};

use crate::units::quantity::TimeSpan;

const STACKS: &str = "Stacks";

/// Where threads were in their code.
#[derive(Args, Clone, Debug, Default)]
pub struct StackArgs {
    /// Also record the stack of each thread that leaves its CPU to wait, if it stays away for long
    ///
    /// Both the kernel's stack and the program's. With wake, also the stack of the thread that ends such
    /// a wait; with cpu, also those of threads that run, -F times a second on each CPU. Needs the rights
    /// that --source bpf needs.
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

    /// How often a second --stacks=cpu looks at each CPU [default: 99]
    #[arg(
        short = 'F',
        long,
        value_name = "HZ",
        requires = "stacks",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        help_heading = STACKS
    )]
    pub frequency: Option<u32>,
}

/// Which stacks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackKind {
    /// Those of threads that wait
    Offcpu,
    /// Also those of the threads that end these waits
    Wake,
    /// Also those of threads that run
    Cpu,
}
