//! The options of a recording.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::providers::ProviderArgs;
use super::source::SourceArgs;
use super::stacks::StackArgs;
use super::trace_points::TracePointArgs;
use super::values::{UserSpec, pid};
use crate::units::glob::Pattern;
use crate::units::quantity::{ByteSize, TimeSpan};

const WHAT: &str = "What to record";
const OUTPUT: &str = "Output";
pub(super) const BUFFERS: &str = "Memory and threads";
pub(super) const DISPLAY: &str = "Display";

/// The arguments of `fxtrec` and of `fxtrec record`.
#[derive(Args, Clone, Debug, Default)]
pub struct RecordArgs {
    /// The program to run and record, with its arguments; fxtrec's own options come before it
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<OsString>,

    /// The word before COMMAND, unless that word is `--`, after which any word names a program.
    #[arg(skip)]
    pub before_command: Option<OsString>,

    /// Record the whole machine, until -d has passed or Ctrl-C
    #[arg(short, long, help_heading = WHAT)]
    pub all: bool,

    /// Record these running processes, until they exit, -d has passed or Ctrl-C
    ///
    /// With a COMMAND, the processes are recorded while it runs; COMMAND itself is in the trace only
    /// with `--scope app`.
    #[arg(
        short,
        long = "pid",
        value_name = "PID,..",
        value_delimiter = ',',
        value_parser = pid,
        help_heading = WHAT
    )]
    pub pids: Vec<u32>,

    /// Record the processes in cgroups whose path matches this glob, and in the cgroups below them, until -d has passed or Ctrl-C; can be
    /// given more than once
    ///
    /// A process is recorded while it is in such a cgroup, including cgroups created during the recording. A glob that no process matched
    /// is reported at the end. `*` stands for any characters, including `/`: '/system.slice/docker-*', '/kubepods*'. A process belongs to
    /// the cgroup of its main thread. With a COMMAND, the recording ends with it.
    #[arg(
        long = "cgroup",
        value_name = "GLOB",
        conflicts_with_all = ["all", "pids", "scope"],
        help_heading = WHAT
    )]
    pub cgroups: Vec<Pattern>,

    /// Record only threads of the user with this id; for other users, record only that they had a CPU
    ///
    /// The kernel checks the credentials at each event. `fxtrec daemon` uses this for users who may not record the machine.
    #[arg(
        long,
        value_name = "UID",
        hide = true,
        conflicts_with_all = [
            "all", "command", "scope", "need_resched", "locks", "probes", "events", "syscalls", "irq",
        ],
        help_heading = WHAT
    )]
    pub only_user: Option<u32>,

    /// Internal: `command_line` of the trace, if fxtrec runs itself
    #[arg(long, value_name = "TEXT", hide = true)]
    pub command_line: Option<String>,

    /// Stop recording after this long, for example 10s, 1.5s, 250ms, 2min
    ///
    /// A plain number is in seconds. If COMMAND is still running, fxtrec closes the trace and waits
    /// for it to exit.
    #[arg(short, long, value_name = "TIME", help_heading = WHAT)]
    pub duration: Option<TimeSpan>,

    /// Threads whose switches to record: all threads of the machine, or COMMAND and its descendants
    ///
    /// With `app`, as with -p and --cgroup, other threads are recorded only while they have a CPU that one of these waits for.
    ///
    /// [default: all; with -p, the processes named there]
    #[arg(long, value_name = "SCOPE", help_heading = WHAT)]
    pub scope: Option<Scope>,

    /// Also record sched_waking, which names the waker of every wakeup
    ///
    /// Without it, a wakeup that another CPU completes in an interrupt has no known waker. Costs one
    /// more event per wakeup.
    #[arg(long, help_heading = WHAT)]
    pub waking: bool,

    /// Also record how long before each switch the scheduler requested it (source bpf, Linux 6.17 to 6.19)
    ///
    /// Adds the argument need_resched_ns to switches, and the metric need_resched to reports. For each requested switch, recording costs
    /// about twice as much. Not available on real-time kernels and since Linux 7.0, where it can hang the machine
    /// (docs/reference/sources.md).
    #[arg(long, help_heading = WHAT)]
    pub need_resched: bool,

    /// Also record which lock each thread blocks on: futexes with their owner (source bpf), and those of the kernel
    ///
    /// Adds the arguments futex and futex_owner to switches. Owners are known for mutexes of the GNU C library, and for robust and
    /// priority-inheritance locks (docs/reference/locks.md). `fxtrec why` names them. Futexes need x86-64 or arm64. For kernel locks, the
    /// arguments are kernel_lock and kernel_lock_kind; their owner is not recorded, but the thread that ends the wait was probably the
    /// owner.
    #[arg(long, help_heading = WHAT)]
    pub locks: bool,

    /// Record only switches and wakeups, not the facts that explain them (source bpf)
    ///
    /// Leaves out the time that the host, interrupts and quotas took, and the system calls in which threads block
    /// (docs/reference/causes.md). `fxtrec why` then says what is missing.
    #[arg(long, help_heading = WHAT, conflicts_with_all = ["need_resched", "locks"])]
    pub plain: bool,

    /// Which thread weights to write: all, or only those other than the weight of nice 0
    ///
    /// Nearly all threads have nice 0. Without their weights, files are a quarter smaller, and circular mode holds a third more events.
    /// fxtrec treats both the same; other readers may show such a thread without a priority (docs/reference/trace.md).
    #[arg(long, value_name = "WHICH", value_enum, default_value_t, help_heading = WHAT)]
    pub weights: Weights,

    /// Write COMMAND's arguments to the trace; they may contain passwords or customer names
    ///
    /// Without this option, `command_line` of the trace ends with COMMAND's name and `...`.
    #[arg(long, requires = "command", help_heading = WHAT)]
    pub keep_arguments: bool,

    /// Run COMMAND as this user: a name, a uid, or @sudo for the user who called sudo
    #[arg(short, long, value_name = "USER", help_heading = WHAT)]
    pub user: Option<UserSpec>,

    /// Output file, `-` for a pipe; the extensions .gz and .zst compress
    ///
    /// Default: COMMAND's name with the extension .fxt, system.fxt for -a, pid-N.fxt for -p. An existing file is kept, with .old added to
    /// its name. fxtrec writes to a FIFO or device only if it is named here and belongs to you or root. With `-`, the trace goes to
    /// standard output, and COMMAND's standard output goes to standard error.
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,

    /// What to do when the trace buffer is full: write it out, stop recording, or overwrite
    ///
    /// On SIGUSR2, circular mode writes the events in memory to a separate file (app.1.fxt for app.fxt) and continues.
    #[arg(long, value_name = "MODE", default_value = "streaming", help_heading = OUTPUT)]
    pub mode: Mode,

    /// Size of each CPU's kernel ring, rounded up to a power of two, for example 512k, 8M
    ///
    /// The ring absorbs bursts while the output is slow. A full ring loses events; the trace and
    /// the summary report how many. With source bpf at most 512M.
    #[arg(long, value_name = "SIZE", help_heading = BUFFERS)]
    pub ring_size: Option<ByteSize>,

    /// Size of the trace buffer between the recorder and the output, for example 4M
    #[arg(long, value_name = "SIZE", help_heading = BUFFERS)]
    pub buffer_size: Option<ByteSize>,

    /// Number of threads that read and merge events and write records, 1 to 16
    ///
    /// By default one, and more while that one is busy: at most one for each 8 CPUs.
    #[arg(long, value_name = "N", help_heading = BUFFERS,
        value_parser = clap::value_parser!(u8).range(1..=16))]
    pub capture_threads: Option<u8>,

    /// Where events come from
    #[command(flatten)]
    pub source: SourceArgs,

    /// What to wait for in circular mode, and how to divide long recordings
    #[command(flatten)]
    pub flight: super::flight::FlightArgs,

    /// Gates, and where their verdicts go.
    #[command(flatten)]
    pub gates: super::gates::GateArgs,

    /// What to record in addition to the scheduler
    #[command(flatten)]
    pub trace_points: TracePointArgs,

    /// Where threads were in their code
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Applications that record their own events
    #[command(flatten)]
    pub providers: ProviderArgs,

    /// Print only errors, warnings, losses and failed gates; -qq: print nothing
    ///
    /// With -qq, only the exit status shows the outcome; usage errors are still printed.
    #[arg(
        short,
        long,
        action = clap::ArgAction::Count,
        conflicts_with = "verbose",
        help_heading = DISPLAY
    )]
    pub quiet: u8,

    /// Print details of the setup: CPUs, rings, and what the kernel does not report
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = DISPLAY)]
    pub verbose: u8,

    /// Do not print the summary at the end
    #[arg(long, help_heading = DISPLAY)]
    pub no_summary: bool,

    /// When to show the status line on standard error
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = DISPLAY)]
    pub progress: Progress,
}

/// Whose switches are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// COMMAND, its threads and its descendants
    App,
    /// Every thread of the machine
    All,
}

/// Which weights are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Weights {
    /// The weights of all threads
    #[default]
    All,
    /// Only the weights of real-time and idle threads, and of threads with a nice value other than 0
    Special,
}

/// What happens when the trace buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Write full halves of the buffer out while recording goes on
    #[default]
    Streaming,
    /// Keep the first events that fit, and write them at the end
    Oneshot,
    /// Keep the last events that fit, and write them at the end, on a trigger and on SIGUSR2
    Circular,
}

/// When the status line is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// When standard error is a terminal and COMMAND does not write to one
    #[default]
    Auto,
    /// Even when standard error is not a terminal
    Always,
    /// Never
    Never,
}
