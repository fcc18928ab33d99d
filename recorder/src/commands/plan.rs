//! Turns arguments into a plan: everything that a recording will do, with all
//! choices made and all contradictions rejected.
//!
//! Creating a plan examines the system (the user database, the type of standard output), but does not change it.

mod categories;
pub mod flight;
mod providers;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flight::{FlightError, FlightPlan};
use fxt_writer::{engine, text};

use crate::capture::stacks::NAMING;
use crate::cli::StackKind;
use crate::cli::{
    self, EventSpec, Mode, Progress, RecordArgs, Scope, SourceChoice, UserSpec, Weights,
};
use crate::kernel::bpf::stacks::Wanted;
use crate::kernel::child::Launch;
use crate::kernel::terminal::stdout_is_terminal;
use crate::kernel::user::{Account, UserError};
use crate::probe::Spec;
use crate::sink::{Compression, Output, Target};
use crate::units::glob::Pattern;
use crate::units::nearest::nearest;
use crate::units::quantity::{ByteSize, TimeSpan};
use crate::units::{Nanos, Pid};

pub use providers::Providers;

/// The default of `--ring-size`, the kernel ring of each CPU, in bytes; see
/// [`default_ring_bytes`] for machines with many CPUs.
pub const DEFAULT_RING_BYTES: usize = 8 * 1024 * 1024;

/// The limit for the sum of all default rings of a large machine, in bytes.
const ALL_RINGS_BYTES: usize = 256 * 1024 * 1024;

/// The smallest default ring, in bytes.
const LEAST_RING_BYTES: usize = 1024 * 1024;

/// The smallest default lane of the source `bpf`, in bytes. Lanes of many CPUs are read in turn, so a busy lane must hold its records for
/// longer than one round over all lanes takes: this is 65 536 records, or 58 ms at 1.1 million events per second.
const LEAST_LANE_BYTES: usize = 2 * 1024 * 1024;

/// The default of `--buffer-size`, the trace buffer, in bytes.
pub const DEFAULT_BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// The smallest trace buffer that has space for any record in each of its parts, in bytes.
pub const MIN_BUFFER_BYTES: usize = 256 * 1024;

/// The largest ring or buffer; a larger value is treated as a mistake. In bytes.
const MAX_MEMORY_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// A command line is truncated to this many bytes.
const COMMAND_LINE_BYTES: usize = 4096;

/// The parameters of a recording.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program to run, if any.
    pub launch: Option<Launch>,
    /// The command line as written to the trace.
    pub command_line: String,
    pub scope: Filter,
    /// Restricts the recording to threads of this user.
    pub only_user: Option<u32>,
    /// How long to record; `None` until COMMAND or the processes end, or until Ctrl-C.
    pub duration: Option<Duration>,
    /// Whether `sched_waking` is recorded as well.
    pub waking: bool,
    /// Whether to record when each switch was requested.
    pub need_resched: bool,
    /// Whether to record the locks that threads wait for.
    pub locks: bool,
    /// Whether to record only switches and wakeups.
    pub plain: bool,
    /// Whether weights of nice 0 are left out.
    pub brief_weights: bool,
    /// Whether the recorder's own threads count in triggers.
    pub include_recorder: bool,
    /// What to record in addition to the scheduler.
    pub trace_points: TracePoints,
    /// Which stacks to record; `None` for none.
    pub stacks: Option<Wanted>,
    /// The time limit for naming functions of stacks; `None` for no names.
    pub symbols: Option<Duration>,
    /// How applications record their own events; `None` if they do not.
    pub providers: Option<Providers>,
    pub source: SourceChoice,
    pub output: Output,
    /// What happens when the trace buffer is full.
    pub mode: Mode,
    /// Kernel ring of each CPU, in bytes: a power of two; `None` for [`default_ring_bytes`].
    pub ring_bytes: Option<usize>,
    /// How many threads capture, unless that depends on the load.
    pub capture_threads: Option<usize>,
    /// Trace buffer, in bytes: a multiple of 4096.
    pub buffer_bytes: usize,
    /// Triggers, and how the output is divided.
    pub flight: FlightPlan,
    /// What is printed in addition to the trace.
    pub display: Display,
}

/// What to record in addition to the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePoints {
    pub probes: Vec<Spec>,
    pub events: Vec<EventSpec>,
    /// System calls by name; empty for none.
    pub syscalls: Vec<Pattern>,
    pub irq: bool,
    /// Whether probes and system calls count only for the processes of COMMAND or of `-p`.
    pub in_scope_only: bool,
}

impl TracePoints {
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty() && self.events.is_empty() && self.syscalls.is_empty() && !self.irq
    }

    /// The kinds in use, in the words of the summary.
    pub fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            ("probes", !self.probes.is_empty()),
            ("events", !self.events.is_empty()),
            ("syscalls", !self.syscalls.is_empty()),
            ("interrupts", self.irq),
        ];
        kinds.into_iter().filter_map(|(kind, wanted)| wanted.then_some(kind)).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    Machine,
    /// Some processes and their descendants.
    Processes {
        /// Whether COMMAND is among them.
        command: bool,
        pids: Vec<Pid>,
    },
    /// The processes in cgroups whose path matches one of these globs.
    Cgroups(Vec<Pattern>),
    /// All threads of the user in [`Plan::only_user`].
    Owned,
}

/// The output in addition to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// When the live line is shown.
    pub progress: Progress,
    /// Whether the summary is printed at the end.
    pub summary: bool,
    /// Print only errors and warnings.
    pub quiet: bool,
    /// How often `-v` was given.
    pub verbose: u8,
}

/// The reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A COMMAND that does not exist and resembles a subcommand.
    #[error(
        "{word}: command not found; did you mean `{near}`? To run a program with that name: fxtrec -- {word}"
    )]
    Mistyped {
        word: String,
        /// The names that may have been meant.
        near: String,
    },
    /// A value as a separate word after an option that needs an equals sign.
    #[error(
        "{option} takes its value with an equals sign: {option}={value}; to run a program with that name: -- {value}"
    )]
    WithoutEquals { option: &'static str, value: String },
    /// None of COMMAND, `-a` and `-p` was given.
    #[error(
        "nothing to record: give a COMMAND, -a for the whole machine, -p for a process, or --cgroup for the processes of a cgroup"
    )]
    NothingToRecord,
    /// A category that exists only in sessions.
    #[error("the category sched:own is for `fxtrec ctl`; here, use -p, --cgroup or --scope app")]
    OwnCategory,
    /// `-a` with `-p` or with `--scope app`.
    #[error("-a records the whole machine, but {0} only part of it: use one of them")]
    AllAndPart(&'static str),
    #[error("--scope app records COMMAND and its descendants: give a COMMAND")]
    ScopeWithoutCommand,
    #[error("-p records some processes, but --scope all the whole machine: use one of them")]
    PidsAndAll,
    #[error("-u names the user to run COMMAND as: give a COMMAND")]
    UserWithoutCommand,
    /// The user named by `-u` is unknown.
    #[error(transparent)]
    User(#[from] UserError),
    /// A trace on a terminal.
    #[error(
        "-o - would write the binary trace to a terminal: redirect standard output, or name a file"
    )]
    TraceToTerminal,
    /// A compression that fxtrec does not support.
    #[error("{}: cannot compress to .{ending}: use .gz or .zst", .path.display())]
    UnknownCompression {
        /// The output as the user wrote it.
        path: PathBuf,
        ending: String,
    },
    /// A user probe given by its name in the daemon's policy.
    #[error(
        "uprobe:{0} is a name in the daemon's policy, which a recording does not read: use \
         uprobe:BINARY:SYMBOL, or -P"
    )]
    NamedProbe(String),
    /// Invalid options of flight recording.
    #[error(transparent)]
    Flight(#[from] FlightError),
    /// A sampling frequency without samples.
    #[error("--frequency needs --stacks=cpu")]
    FrequencyWithoutSamples,
    #[error("--stacks=none turns stacks off: use it alone")]
    StacksAndNone,
    /// An implausible amount of memory.
    #[error("{option}: {bytes} bytes is too large: the maximum is 64G")]
    TooMuchMemory { option: &'static str, bytes: u64 },
}

impl Plan {
    /// The engine's mode.
    pub fn engine_mode(&self) -> engine::Mode {
        match self.mode {
            Mode::Streaming => engine::Mode::Streaming,
            Mode::Oneshot => engine::Mode::Oneshot,
            Mode::Circular => engine::Mode::Circular,
        }
    }

    /// The running processes to record.
    pub fn pids(&self) -> &[Pid] {
        match &self.scope {
            Filter::Machine | Filter::Cgroups(_) | Filter::Owned => &[],
            Filter::Processes { pids, .. } => pids,
        }
    }

    /// Makes the plan for these arguments.
    ///
    /// # Errors
    /// Returns an error if the arguments contradict each other, or name an unknown user or an unsuitable output.
    pub fn new(args: RecordArgs) -> Result<Plan, PlanError> {
        Plan::with_stdout(args, stdout_is_terminal())
    }

    fn with_stdout(mut args: RecordArgs, stdout_is_terminal: bool) -> Result<Plan, PlanError> {
        refuse_mistyped(&args)?;
        let categories = categories::switch_on(&mut args)?;
        let scope = scope(&args)?;
        let output = output(&args)?;
        if output.target == Target::Stdout && stdout_is_terminal {
            return Err(PlanError::TraceToTerminal);
        }
        let gates = !args.gates.fail_if.is_empty();
        let stacks = stacks(&args, &scope)?;
        let naming_time = args.stacks.naming_time.map_or(NAMING, TimeSpan::duration);
        let flight = FlightPlan::new(args.flight, args.mode, &output, gates)?;
        let ring_bytes = memory("--ring-size", args.ring_size)?;
        let buffer_bytes =
            memory("--buffer-size", args.buffer_size)?.unwrap_or(flight.default_buffer_bytes());
        let typed = || command_line(std::env::args_os(), &args.command, args.keep_arguments);
        let command_line = args.command_line.clone().unwrap_or_else(typed);
        let launch = launch(args.command, args.user, output.target == Target::Stdout)?;
        Ok(Plan {
            launch,
            command_line,
            scope,
            duration: args.duration.map(|span| span.duration()),
            waking: args.waking,
            need_resched: args.need_resched,
            locks: args.locks,
            plain: args.plain || args.only_user.is_some(),
            only_user: args.only_user,
            brief_weights: args.weights == Weights::Special,
            include_recorder: args.gates.include_recorder,
            trace_points: TracePoints {
                probes: args.trace_points.probes,
                events: args.trace_points.events,
                syscalls: args.trace_points.syscalls,
                irq: args.trace_points.irq,
                in_scope_only: !args.all,
            },
            stacks,
            symbols: (!args.stacks.no_symbols).then_some(naming_time),
            providers: Providers::new(&args.providers, categories, !flight.triggers.is_empty())?,
            source: args.source.choice.unwrap_or_default(),
            output,
            mode: args.mode,
            capture_threads: args.capture_threads.map(usize::from),
            ring_bytes: ring_bytes.map(|bytes| bytes.max(page_bytes()).next_power_of_two()),
            buffer_bytes: buffer_bytes.max(MIN_BUFFER_BYTES).next_multiple_of(4096),
            flight,
            display: Display {
                progress: match args.progress {
                    Progress::Auto if args.quiet > 0 => Progress::Never,
                    _ if args.quiet > 1 => Progress::Never,
                    progress => progress,
                },
                summary: !args.no_summary && args.quiet == 0,
                quiet: args.quiet > 0,
                verbose: args.verbose,
            },
        })
    }
}

/// Rejects a COMMAND that was probably meant as a subcommand. After `--`, any word is a program.
fn refuse_mistyped(args: &RecordArgs) -> Result<(), PlanError> {
    let word = args.command.first().and_then(|word| word.to_str());
    let (Some(before), Some(word)) = (&args.before_command, word) else { return Ok(()) };
    if let Some(option) = cli::takes_as_value(before, &args.command[0]) {
        return Err(PlanError::WithoutEquals { option, value: word.to_owned() });
    }
    if word.contains('/') || is_in_path(word) {
        return Ok(());
    }
    match nearest(word, cli::subcommands().iter().copied(), 1).first() {
        Some(&near) => Err(PlanError::Mistyped { word: word.to_owned(), near: near.to_owned() }),
        None => Ok(()),
    }
}

fn is_in_path(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(word).is_file())
}

fn scope(args: &RecordArgs) -> Result<Filter, PlanError> {
    let command = !args.command.is_empty();
    if !args.cgroups.is_empty() {
        return Ok(Filter::Cgroups(args.cgroups.clone()));
    }
    if args.only_user.is_some() && args.pids.is_empty() {
        return Ok(Filter::Owned);
    }
    if !command && !args.all && args.pids.is_empty() {
        return Err(PlanError::NothingToRecord);
    }
    if args.all && !args.pids.is_empty() {
        return Err(PlanError::AllAndPart("-p"));
    }
    let pids: Vec<Pid> = args.pids.iter().copied().map(Pid).collect();
    match args.scope {
        Some(Scope::App) if args.all => Err(PlanError::AllAndPart("--scope app")),
        Some(Scope::App) if !command => Err(PlanError::ScopeWithoutCommand),
        Some(Scope::App) => Ok(Filter::Processes { command: true, pids }),
        Some(Scope::All) if !pids.is_empty() => Err(PlanError::PidsAndAll),
        None if !pids.is_empty() => Ok(Filter::Processes { command: false, pids }),
        Some(Scope::All) | None => Ok(Filter::Machine),
    }
}

/// The default of `--stacks-over`.
const DEFAULT_STACKS_OVER: Duration = Duration::from_millis(1);

/// The default of `-F`; not a multiple of common timer rates, to avoid sampling in step with them.
const DEFAULT_FREQUENCY: u32 = 99;

/// The stacks to record, if any. By default, stacks of COMMAND and of the processes of `-p`, if that costs almost nothing.
fn stacks(args: &RecordArgs, scope: &Filter) -> Result<Option<Wanted>, PlanError> {
    let of_some = match scope {
        Filter::Machine => !args.command.is_empty() && !args.all,
        Filter::Processes { .. } => args.only_user.is_none(),
        Filter::Cgroups(_) | Filter::Owned => false,
    };
    let source = args.source.choice.unwrap_or_default();
    let can_be = matches!(source, SourceChoice::Auto | SourceChoice::Bpf);
    let owner = args.only_user;
    let in_one_file = args.mode == Mode::Streaming && args.flight.rotate.is_none();
    let by_default = of_some && can_be && in_one_file && !args.plain;
    let default = [StackKind::Offcpu];
    let args = &args.stacks;
    let (kinds, chosen) = match &args.stacks {
        Some(kinds) if kinds.contains(&StackKind::None) => {
            return if kinds.len() == 1 { Ok(None) } else { Err(PlanError::StacksAndNone) };
        }
        Some(kinds) => (&kinds[..], false),
        None if by_default => (&default[..], true),
        None => return Ok(None),
    };
    let over = args.stacks_over.map_or(DEFAULT_STACKS_OVER, TimeSpan::duration);
    let over = Nanos(u64::try_from(over.as_nanos()).unwrap_or(u64::MAX));
    let frequency = args.frequency.unwrap_or(DEFAULT_FREQUENCY);
    let frequency = kinds.contains(&StackKind::Cpu).then_some(frequency);
    if frequency.is_none() && args.frequency.is_some() {
        return Err(PlanError::FrequencyWithoutSamples);
    }
    let wakes = kinds.contains(&StackKind::Wake);
    let copy = args.unwind.unwrap_or_default().copy();
    Ok(Some(Wanted { over, wakes, frequency, copy, chosen, owner }))
}

/// The command line for the trace. It has COMMAND's arguments only on request, since passwords may be among them.
fn command_line(
    words: impl Iterator<Item = OsString>,
    command: &[OsString],
    with_arguments: bool,
) -> String {
    let mut words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let arguments = command.len().saturating_sub(1);
    if arguments > 0 && !with_arguments {
        words.truncate(words.len().saturating_sub(arguments));
        words.push("...".to_owned());
    }
    let line = words.join(" ");
    let line = text::clean(line.as_bytes());
    let mut ends = (0..=COMMAND_LINE_BYTES.min(line.len())).rev();
    let end = ends.find(|end| line.is_char_boundary(*end));
    line[..end.unwrap_or(0)].to_owned()
}

fn launch(
    command: Vec<OsString>,
    user: Option<UserSpec>,
    trace_on_stdout: bool,
) -> Result<Option<Launch>, PlanError> {
    let mut words = command.into_iter();
    let Some(program) = words.next() else {
        return if user.is_some() { Err(PlanError::UserWithoutCommand) } else { Ok(None) };
    };
    let user = user.map(|spec| account(&spec)).transpose()?;
    Ok(Some(Launch {
        program,
        args: words.collect(),
        environment: Vec::new(),
        user,
        stdout_to_stderr: trace_on_stdout,
    }))
}

fn account(spec: &UserSpec) -> Result<Account, UserError> {
    match spec {
        UserSpec::Name(name) => Account::by_name(name),
        UserSpec::Uid(uid) => Account::by_uid(*uid),
        UserSpec::SudoCaller => Account::sudo_caller(),
    }
}

fn output(args: &RecordArgs) -> Result<Output, PlanError> {
    let path = match &args.output {
        Some(path) if path == Path::new("-") => {
            let compression = Compression::None;
            return Ok(Output { target: Target::Stdout, compression, named: true });
        }
        Some(path) => path.clone(),
        None => default_output(args),
    };
    let compression = compression(&path)?;
    Ok(Output { target: Target::Path(path), compression, named: args.output.is_some() })
}

/// The file that a recording with these arguments writes, `-` for standard output.
pub fn output_path(args: &RecordArgs) -> PathBuf {
    args.output.clone().unwrap_or_else(|| default_output(args))
}

/// The default of `-o`: a file in the current directory, named after the recorded command or processes.
fn default_output(args: &RecordArgs) -> PathBuf {
    let mut name = match (args.command.first(), args.pids.first()) {
        (Some(program), _) => {
            Path::new(program).file_name().unwrap_or(OsStr::new("command")).to_owned()
        }
        (None, Some(pid)) => format!("pid-{pid}").into(),
        (None, None) if !args.cgroups.is_empty() => "cgroup".into(),
        (None, None) => "system".into(),
    };
    name.push(".fxt");
    name.into()
}

/// The file's extension selects the compression. Any other extension means plain FXT, except those of
/// compressions that fxtrec does not support.
fn compression(path: &Path) -> Result<Compression, PlanError> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or("").to_ascii_lowercase();
    match ending.as_str() {
        "gz" => Ok(Compression::Gzip),
        "zst" => Ok(Compression::Zstd),
        "bz2" | "xz" | "lzma" | "lz4" | "br" | "zip" | "7z" | "z" | "zstd" | "gzip" => {
            Err(PlanError::UnknownCompression { path: path.to_owned(), ending })
        }
        _ => Ok(Compression::None),
    }
}

/// The default size of each CPU's ring, in bytes: [`DEFAULT_RING_BYTES`], or less, down to 1 MiB, if the rings of many CPUs would exceed
/// 256 MiB in total.
pub fn default_ring_bytes(cpus: usize) -> usize {
    let share = ALL_RINGS_BYTES / cpus.max(1);
    let share = share.clamp(LEAST_RING_BYTES, DEFAULT_RING_BYTES);
    // The kernel needs a power of two: the largest within the share.
    1 << share.ilog2()
}

/// The same as [`default_ring_bytes`], for the source `bpf`: at least 2 MiB, of which a lane takes 1.6 MiB.
pub fn default_lane_bytes(cpus: usize) -> usize {
    default_ring_bytes(cpus).max(LEAST_LANE_BYTES)
}

fn memory(option: &'static str, asked: Option<ByteSize>) -> Result<Option<usize>, PlanError> {
    let Some(bytes) = asked.map(ByteSize::bytes) else { return Ok(None) };
    let too_much = PlanError::TooMuchMemory { option, bytes };
    if bytes > MAX_MEMORY_BYTES {
        return Err(too_much);
    }
    usize::try_from(bytes).map(Some).map_err(|_| too_much)
}

fn page_bytes() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(4096)
}

#[cfg(test)]
mod tests;
