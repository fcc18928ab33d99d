//! `fxtrec record`: the recording, from the plan to the summary.
//!
//! ```text
//!  main thread      setup ............ wait for COMMAND, signals, time .......... stop, summary
//!  capture thread          rings -> events -> records -> engine ......................|
//!  drain thread                                          engine -> sink ..............|
//! ```
//!
//! Everything that can be refused is tried before COMMAND runs, in this order:
//! perf events, COMMAND's process, the processes to record, the output. COMMAND's process is created when events are already being
//! recorded, and is held before its first instruction until the other two threads run.

mod alerts;
mod capture;
mod choose;
mod describe;
mod error;
mod extras;
mod flight;
mod live;
mod pace;
mod pieces;
mod pipeline;
mod providers;
mod retained;
mod round;
mod rt_priority;
mod session;
pub(super) mod setup;
mod summary;

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

pub use error::RecordError;
pub use setup::bpf::{EventKernel, RunningKernel};

use choose::Chosen;
use fxt_writer::Koid;
use fxtrec_gates::{Metric, Trigger, What};

use describe::{Beginning, Watches};
use extras::Extras;
use pipeline::{Inputs, Pipeline};
use providers::Invitation;
use retained::Retained;
use session::{Outcome, Session, say};

use crate::capture::event::LocalId;
use crate::capture::source::{Causes, SourceKind};
use crate::cli::{EXIT_FAILURE, Mode, RecordArgs, SourceChoice};
use crate::commands::gates::{Gates, Style};
use crate::commands::plan::flight::piece_number;
use crate::commands::plan::{Filter, Plan};
use crate::commands::report::recorded::{self, Purpose};
use crate::control::{RUNTIME_DIR, control_socket};
use crate::encode::ids::Ids;
use crate::encode::lookup::ProcLookup;
use crate::encode::snapshot;
use crate::encode::threads::Threads;
use crate::kernel::cgroups;
use crate::kernel::child::{self, Held};
use crate::kernel::clock;
use crate::kernel::facts::Facts;
use crate::kernel::limits;
use crate::kernel::notify::{self, Notice};
use crate::kernel::procfs::Snapshot;
use crate::kernel::signals::{Guard, Signals};
use crate::kernel::stack_source::StackSource;
use crate::kernel::stop_token::StopToken;
use crate::kernel::symbols::KernelSymbols;
use crate::kernel::sys::Linux;
use crate::kernel::terminal::Terminal;
use crate::kernel::trace_memory::TraceMemory;
use crate::kernel::user::Owner;
use crate::sink::outfile::{Given, Hold};
use crate::sink::{self, IsPiece, Opened, Target};
use crate::units::Pid;
use crate::units::glob::{self, Pattern};

/// If a signal that requests the end was not read for this long, the main thread may be blocked forever. fxtrec waits just as long for
/// COMMAND after the second signal.
const PATIENCE: Duration = Duration::from_secs(3);

/// Records what the arguments request. Returns the status to exit with if fxtrec itself did not fail: COMMAND's.
///
/// Must be called before the process starts a second thread. Messages are written to `err`.
///
/// # Errors
/// Returns [`RecordError`], which knows the status to exit with. A trace that was started is completed as far as possible.
pub fn run(args: RecordArgs, err: &mut dyn Write) -> Result<u8, RecordError> {
    run_on(&RunningKernel, args, err)
}

/// Records like [`run`], but if the source is `bpf`, it gets its events from a simulated kernel, as in the benchmarks of machines with many
/// CPUs.
///
/// # Errors
/// See [`run`].
pub fn run_on(
    kernel: &dyn EventKernel,
    args: RecordArgs,
    err: &mut dyn Write,
) -> Result<u8, RecordError> {
    // Before any child is started, which would inherit the socket.
    notify::adopt();
    let mut kept = KeptFiles::default();
    let result = record(kernel, args, &mut kept, err);
    // No more data is read from them.
    if let Some(Err(error)) = kept.output.map(|output| output.hand_over()) {
        say(err, format_args!("the output still belongs to root: {error}"));
    }
    // They already have been handed over, unless the recording was cut short.
    if let Some(error) = kept.others.and_then(|others| others.hand_over().failed) {
        say(err, error);
    }
    result
}

/// Files that may belong to root until the end.
#[derive(Debug, Default)]
struct KeptFiles {
    /// The output, or the first of its files.
    output: Option<Arc<Hold>>,
    /// Rotated files and snapshots.
    others: Option<Arc<Retained>>,
}

/// Records, and evaluates the gates. `kept` receives the files that are written.
fn record(
    kernel: &dyn EventKernel,
    args: RecordArgs,
    kept: &mut KeptFiles,
    err: &mut dyn Write,
) -> Result<u8, RecordError> {
    let gate_args = args.gates.clone();
    let mut plan = Plan::new(args)?;
    let gates = Gates::prepare_for(&gate_args, &plan.output)?;
    let signals = Signals::catch_stops_too().map_err(RecordError::while_doing("catch signals"))?;
    // From here on, a signal ends any wait of this thread, such as a wait for a stopped terminal, or for a COMMAND on a file system that
    // hangs.
    let guard = Guard::start(&signals, PATIENCE, EXIT_FAILURE);
    let guard =
        guard.map_err(RecordError::while_doing("start the thread that watches for signals"))?;
    let facts = Facts::gather(&Linux);
    let inherited_limits = limits::Inherited::now();
    // Stacks come first. Each source raises it as its CPUs require.
    limits::raise_open_files(0);
    // Declared before the source, so that its definitions are dropped after the events that use them.
    let bpf = kernel.bpf();
    let may_use_bpf = matches!(plan.source, SourceChoice::Auto | SourceChoice::Bpf);
    // It takes a long time, and the other CPUs have nothing to do until the programs are loaded.
    let read_symbols = || KernelSymbols::read(&Linux);
    let symbols = (may_use_bpf || plan.stacks.is_some())
        .then(|| thread::Builder::new().name("fxtrec-symbols".to_owned()).spawn(read_symbols).ok())
        .flatten();
    let extras = Extras::new(&Linux, may_use_bpf.then_some(&*bpf), &plan)?;
    let stacks = setup::stacks::open(&plan, &facts);
    let notes = stacks.as_ref().ok().and_then(|it| it.as_ref()?.source.notes());
    let chosen = choose::open(kernel, &facts, &plan, &extras.events(), notes).map_err(|error| {
        let wanted = (plan.pids(), plan.launch.is_some());
        error.ask_daemon(wanted, facts.user, has_daemon)
    })?;
    let Chosen { mut source, instead } = chosen;
    if let Some(reason) = instead.filter(|_| !plan.display.quiet) {
        say(err, reason);
    }
    // Stacks that were not requested are recorded only if they cost almost nothing.
    let by_default = plan.stacks.is_some_and(|wanted| wanted.chosen);
    let stacks = stacks?.filter(|_| !by_default || source.notes_waits());
    let (mut stacks, instead) = match stacks {
        Some(opened) => (Some(opened.source), opened.instead),
        None => {
            plan.stacks = None;
            (None, None)
        }
    };
    if let Some(reason) = instead.filter(|_| !plan.display.quiet) {
        say(err, reason);
    }
    if let Some(error) = stacks.as_ref().and_then(StackSource::without_code)
        && !by_default
    {
        let text = "stacks of short-lived programs may lack names: cannot follow loaded code";
        say(err, format_args!("{text}: {error}"));
    }
    // All of the memory is filled before any of it is reused.
    let memory = (plan.mode == Mode::Circular).then(|| TraceMemory::new(plan.buffer_bytes));
    let memory =
        memory.transpose().map_err(RecordError::while_doing("reserve the trace buffer"))?;
    let cpus = source.cpus().len();
    let explain = |error| setup::explain(error, cpus, &facts);
    let refused = |error| setup::stacks::explain(error, &facts);
    if let Some(stacks) = &mut stacks {
        stacks.prepare().map_err(refused)?;
    }
    let symbols = symbols.and_then(|reader| reader.join().ok());
    let symbols = match (source.kind(), &stacks) {
        (SourceKind::Bpf, _) | (_, Some(_)) => symbols.unwrap_or_else(read_symbols),
        (_, None) => KernelSymbols::default(),
    };
    source.enable().map_err(explain)?;
    if let Some(stacks) = &mut stacks {
        // Created after the source, so that a switch precedes the stack that belongs to it.
        stacks.attach(source.notes_waits()).map_err(refused)?;
    }
    let silent = source.find_silent().map_err(explain)?;
    let watches = match plan.only_user {
        None => Watches::begin(),
        // Cgroups are everybody's.
        Some(_) => Watches::of_host(),
    };
    // The setup no longer disturbs the machine, and is not in the trace.
    let time = source.begin();
    let inherited = signals.inherited();
    let mut launch = plan.launch.clone();
    let invitation = Invitation::new(&plan, launch.as_mut(), &facts.namespaces)
        .map_err(RecordError::while_doing("listen for applications' own events"))?;
    let held = launch.as_ref().map(|launch| Held::start(launch, &inherited)).transpose()?;
    if let Some(held) = &held {
        inherited_limits.give_to(held.pid());
    }
    let (watched, absent) = watch(&plan)?;
    for pid in absent.iter().filter(|_| !plan.display.quiet) {
        say(err, format_args!("process {} does not exist; the others are recorded", pid.0));
    }
    if let Filter::Processes { command, pids } = &plan.scope {
        let command = held.as_ref().map(|held| Pid(held.pid())).filter(|_| *command);
        let wanted: Vec<Pid> = pids.iter().copied().chain(command).collect();
        source.narrow(&wanted);
    }
    // Up to this point, COMMAND's process waits for fxtrec.
    let from = stacks.as_ref().and_then(StackSource::from).filter(|_| by_default && held.is_some());
    if let Some(from) = &from {
        from.store(u64::MAX, Ordering::Relaxed);
    }
    if let Some(stacks) = &stacks {
        let is_recorded = plan.scope == Filter::Machine
            || matches!(plan.scope, Filter::Processes { command: true, .. });
        let command = held.as_ref().map(|held| Pid(held.pid())).filter(|_| is_recorded);
        stacks.choose(&plan.pids().iter().copied().chain(command).collect::<Vec<_>>());
    }
    let chosen_in_kernel = match &plan.scope {
        Filter::Cgroups(globs) => {
            if !plan.display.quiet && !any_cgroup_matches(globs) {
                say(
                    err,
                    "no cgroup matches --cgroup yet; compare the glob with systemd-cgls or /proc/PID/cgroup",
                );
            }
            source.narrow_to_cgroups(globs)
        }
        _ => false,
    };
    let command = held.as_ref().map(Held::pid);
    let threads = known_threads(&plan, &facts, command, chosen_in_kernel)?;
    let owner = Owner::sudo_caller();
    let place = match &plan.output.target {
        Target::Path(path) => Some(sink::place(path, owner)?),
        Target::Stdout => None,
    };
    let is_series = plan.flight.rotate.is_some() || plan.mode == Mode::Circular;
    let given = given(&plan, owner);
    // The command of --on-trigger needs its files at once.
    let given_others = if plan.flight.on_trigger.is_some() { Given::AtOnce } else { given };
    let series = place.as_ref().filter(|_| is_series);
    let retained = Retained::find(&plan.flight, series, given_others)?;
    kept.others = Some(retained.clone());
    let output = plan.flight.first_output(&plan.output, retained.next());
    let is_sibling = |name: &OsStr| match &plan.output.target {
        Target::Path(path) => piece_number(path, name).is_some(),
        Target::Stdout => false,
    };
    let pieces = plan.flight.rotate.map(|_| &is_sibling as IsPiece<'_>);
    let room = plan.flight.rotate.map(|_| retained.clone() as _);
    let opened = sink::open_series(&output, owner, given, pieces, room)?;
    let Opened { sink, kept_old, owner_error, undo, hold, is_device } = opened;
    kept.output.clone_from(&hold);
    let causes = Causes { quotas: watches.quotas.is_readable(), ..source.causes(&silent) };
    for metric in unrecorded_metrics(&plan.flight.triggers, causes) {
        let text = "never fires: this recording does not have that fact";
        say(
            err,
            format_args!("a trigger on {metric} {text} (fxtrec doctor, docs/reference/causes.md)"),
        );
    }
    let unrecorded = [
        ("locks", causes.futex, "that needs the source bpf, and Linux 5.15 on x86-64 or arm64"),
        ("kernel locks", causes.kernel_lock, "that needs Linux 5.19"),
    ];
    for (which, _, why) in unrecorded.into_iter().filter(|it| plan.locks && !it.1) {
        say(err, format_args!("{which} are not recorded: {why} (docs/reference/locks.md)"));
    }
    // The report lists the facts that this kernel does not provide to the default source.
    let lacking = match source.kind() {
        SourceKind::Bpf => Vec::new(),
        _ => causes.lacking(),
    };
    let beginning = Beginning {
        time,
        recorder: describe::recorder(&facts.namespaces),
        source: source.kind(),
        causes,
        scope: scope_name(&plan),
        cpus,
        ring_bytes: source.ring_bytes(),
        silent,
        names: extras.catalog.names(),
        initial_pid_namespace: facts.namespaces.initial_pid,
        brief_weights: plan.brief_weights,
        command_line: plan.command_line.clone(),
        command: held
            .as_ref()
            .filter(|_| facts.namespaces.initial_pid)
            .map(|held| Koid(held.pid().into())),
        stacks: plan.stacks.filter(|_| stacks.is_some()),
        watches,
    };
    if plan.display.verbose > 0 {
        say(err, &beginning);
    }
    let purpose = match (&gates, plan.display.summary && plan.flight.rotate.is_none()) {
        (Some(_), _) => Purpose::Verdict,
        (None, true) => Purpose::Brief,
        (None, false) => Purpose::None,
    };
    let path = match &output.target {
        Target::Stdout => Path::new("standard output"),
        Target::Path(path) => path,
    };
    let about = recorded::Output { path, hold: hold.clone(), is_device };
    let (sink, figures) = recorded::prepare(sink, &about, purpose, gate_args.include_recorder)
        .map_err(RecordError::while_doing("start the report thread"))?;
    let attention = StopToken::new().map_err(RecordError::while_doing("create an eventfd"))?;
    let inputs = Inputs {
        source,
        extras,
        stacks,
        threads,
        symbols: Arc::new(symbols),
        invitation,
        place,
        given: given_others,
        retained,
        hold,
        memory,
    };
    let pipeline = Pipeline::start(&plan, inputs, sink, beginning, &attention)?;
    if let Some(from) = from {
        from.store(clock::now().0, Ordering::Relaxed);
    }
    let child = match held.map(Held::release).transpose() {
        Ok(child) => child,
        Err(error) => {
            pipeline.stop();
            pipeline.finish()?;
            if let Some(undo) = undo {
                undo.take_back();
            }
            return Err(error.into());
        }
    };
    pipeline.trim();
    if let Some(old) = kept_old.filter(|_| !plan.display.quiet) {
        say(err, format_args!("the earlier file is now {}", old.display()));
    }
    if let Some(error) = owner_error {
        say(err, format_args!("the output still belongs to root: {error}"));
    }
    // COMMAND may send its own notifications there.
    if child.is_none()
        && let Err(error) = notify::tell(&Notice::Ready)
    {
        say(
            err,
            format_args!("cannot notify the service manager that recording has started: {error}"),
        );
    }
    let mut session = Session::new(&plan, signals, attention, child, watched, err);
    if gates.is_none() {
        session.lead(&guard);
    }
    let outcome = session.run(pipeline, figures, (cpus, &lacking))?;
    let Outcome { code, report, failure, missing, cut_short } = outcome;
    if cut_short && gates.is_none() {
        return Ok(if code == 0 { EXIT_FAILURE } else { code });
    }
    // COMMAND's own failure takes precedence.
    match failure {
        Some(error) if code == 0 => return Err(error),
        Some(error) => {
            say(err, error);
            return Ok(code);
        }
        None => {}
    }
    let verdict = match gates {
        Some(gates) => {
            let colour = Terminal::of_stderr().colour;
            let style = Style { colour, failures_only: plan.display.quiet };
            let own = about.hold.as_deref().filter(|hold| hold.is_ours());
            gates.judge_recording((path, own), report.as_ref(), style, err)?.exit_code()
        }
        None => 0,
    };
    let code = if code == 0 { verdict } else { code };
    match missing {
        Some(error) if code == 0 => Err(error),
        Some(error) => {
            say(err, error);
            Ok(code)
        }
        None => Ok(code),
    }
}

/// The time at which files are given to the user who called sudo. If COMMAND runs as that user, it could change what it has done so far, or
/// what gates read back.
fn given(plan: &Plan, owner: Option<Owner>) -> Given {
    let user = plan.launch.as_ref().and_then(|launch| launch.user.as_ref());
    let is_commands = owner.zip(user).is_some_and(|(owner, user)| owner.uid == user.uid);
    match is_commands {
        true => Given::AtLast,
        false => Given::AtOnce,
    }
}

/// Descriptors of the processes of `-p`, to detect their end where the kernel has such descriptors, and the processes that do not exist.
///
/// # Errors
/// None of the processes exists.
fn watch(plan: &Plan) -> Result<(Vec<OwnedFd>, Vec<Pid>), RecordError> {
    let (mut watched, mut absent) = (Vec::new(), Vec::new());
    for pid in plan.pids() {
        let number = i32::try_from(pid.0).unwrap_or(i32::MAX);
        match child::open_pidfd(number) {
            Ok(process) => watched.push(process),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {
                absent.push(*pid);
            }
            // Without them, Ctrl-C or -d ends the recording.
            Err(_) => {}
        }
    }
    match absent.first() {
        Some(pid) if absent.len() == plan.pids().len() => Err(RecordError::NoProcess(pid.0)),
        _ => Ok((watched, absent)),
    }
}

fn any_cgroup_matches(globs: &[Pattern]) -> bool {
    let paths = cgroups::mounted().map(|(_, root)| cgroups::paths(&root)).unwrap_or_default();
    paths.values().any(|path| glob::chooses_cgroup(globs, path))
}

/// All processes in `/proc`, with those to record marked.
fn known_threads(
    plan: &Plan,
    facts: &Facts,
    command: Option<u32>,
    chosen_in_kernel: bool,
) -> Result<Threads, RecordError> {
    let namespaces = &facts.namespaces;
    let ids = if namespaces.initial_pid { Ids::Initial } else { Ids::inner() };
    let mut threads = Threads::new(ids, Box::new(ProcLookup::new(namespaces, plan.only_user)));
    if let Filter::Cgroups(globs) = &plan.scope {
        threads.look_for_cgroups(globs);
        if !chosen_in_kernel {
            threads.include_cgroups(globs.clone());
        }
    }
    let snapshot = match plan.only_user {
        None => Snapshot::take()?,
        Some(uid) => Snapshot::take_of(uid)?,
    };
    snapshot::load(&mut threads, &snapshot, namespaces, clock::now());
    if let Filter::Processes { command: with_command, pids } = &plan.scope {
        let command = command.filter(|_| *with_command);
        for pid in pids.iter().map(|pid| pid.0).chain(command) {
            threads.include(LocalId(pid));
        }
    } else if let Some(command) =
        command.filter(|_| plan.scope == Filter::Machine && plan.trace_points.in_scope_only)
    {
        // Switches of all threads are recorded, probes only for COMMAND's processes.
        threads.include(LocalId(command));
    }
    Ok(threads)
}

/// The scope in a word or two.
fn scope_name(plan: &Plan) -> &'static str {
    match &plan.scope {
        Filter::Machine => "all",
        Filter::Cgroups(_) => "cgroups",
        Filter::Owned => "user",
        Filter::Processes { command: true, pids } if pids.is_empty() => "app",
        Filter::Processes { command: true, .. } => "app and processes",
        Filter::Processes { command: false, .. } => "processes",
    }
}

/// The metrics that triggers test and that the recording will not have.
fn unrecorded_metrics(triggers: &[Trigger], causes: Causes) -> Vec<Metric> {
    let lacking = causes.lacking();
    let lacks = |trigger: &Trigger| match trigger.what {
        What::Length { metric, .. } => Some(metric).filter(|it| lacking.contains(&it.name())),
        _ => None,
    };
    triggers.iter().filter_map(lacks).collect()
}

/// Whether a daemon runs that this user may use.
fn has_daemon() -> bool {
    UnixStream::connect(control_socket(Path::new(RUNTIME_DIR))).is_ok()
}
