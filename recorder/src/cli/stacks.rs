//! Options for stacks.

use clap::{Args, ValueEnum};

use crate::units::quantity::TimeSpan;

const STACKS: &str = "Stacks";

/// Where threads were in their code.
#[derive(Args, Clone, Debug, Default)]
pub struct StackArgs {
    /// Also record the stack of each thread that leaves its CPU to wait, if it stays away for long
    ///
    /// Both the kernel's stack and the program's, as far as its code has frame pointers. Needs the rights
    /// that --source bpf needs.
    #[arg(
        long,
        value_name = "KIND",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "offcpu",
        help_heading = STACKS
    )]
    pub stacks: Option<StackKind>,

    /// How long a thread must be off its CPU for its stack to be kept, for example 500us [default: 1ms]
    #[arg(long, value_name = "TIME", requires = "stacks", help_heading = STACKS)]
    pub stacks_over: Option<TimeSpan>,
}

/// Which stacks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackKind {
    /// Those of threads that wait
    Offcpu,
}
