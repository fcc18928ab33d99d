//! `fxtrec ctl start`: from the options to a session that records.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use super::file::TraceFile;
use super::{CtlError, connect, run, show, stop};
use crate::cli::{CtlCommon, CtlStartArgs, Disposition, Mode, ProviderOverride};
use crate::commands::plan::flight::{FlightError, snapshot_path};
use crate::control::client::Client;
use crate::control::wire::{
    BufferDisposition, BufferingMode, KnownCategory, ProviderSpec, ProviderStats, SessionState,
    StartOptions, Started, TraceConfig,
};
use crate::kernel::child::{Held, Launch};
use crate::kernel::procfs::{self, Process, Snapshot};
use crate::kernel::signals::Signals;
use crate::manager::SOCKET_VARIABLE;
use crate::units::glob::Pattern;
use crate::units::quantity::ByteSize;
use crate::units::text::{bytes, counted};

const MIB: u64 = 1024 * 1024;

/// The messages of `ctl start`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    /// The file that gets the trace; null for standard output.
    output: Option<&'a Path>,
    /// Whether the session continues after ctl has ended.
    detached: bool,
    started: u32,
    /// Applications that did not report in time.
    late: Vec<String>,
    /// The requested data that is not recorded, because the policy does not permit it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_permitted: Vec<String>,
    /// The exit status of COMMAND.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<u8>,
    /// The recorded data of each application; set when the recording has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_stats: Option<Vec<ProviderStats>>,
    #[serde(skip)]
    has_kernel: bool,
    /// The reason why the trace in the file is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
}

/// Starts a session, and waits for its end unless it is detached. Returns the exit status.
pub(super) fn start(
    mut args: CtlStartArgs,
    common: &CtlCommon,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, CtlError> {
    let path = args.output.clone().unwrap_or_else(|| default_output(&args));
    let detached = args.command.is_empty() && !args.foreground;
    if detached && path == Path::new("-") {
        return Err(CtlError::DetachedPipe);
    }
    if !args.triggers.is_empty() {
        check_triggers(&args, &path, detached)?;
    }
    let system = |source| CtlError::System { doing: "set up signals", source };
    // Must run before the client may start a thread, and before COMMAND is forked.
    let signals = if detached { None } else { Some(Signals::catch().map_err(system)?) };
    let mut client = connect(common)?;
    let known = client.known_categories()?.categories;
    let is_own = is_own(&args.categories, &known);
    if is_own {
        args.categories = OWN.map(str::to_owned).to_vec();
    }
    let not_permitted = not_permitted(&args.categories, &known);
    if !not_permitted.is_empty() {
        if !args.allow_partial {
            return Err(CtlError::Partial(not_permitted));
        }
        let without = not_permitted.join(", ");
        remark(common, err, &format!("recording without {without}: the policy does not permit it"));
    }
    if !args.comms.is_empty() {
        args.pids = named_so(&args.comms, is_own)?;
    }
    let file = TraceFile::create(&path, args.output.is_some(), common)?;
    let has_triggers = !args.triggers.is_empty();
    let begun = prepare((args, is_own), detached, common, &file, signals.as_ref(), &mut client);
    let (started, held) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            file.discard();
            return Err(error);
        }
    };
    if is_own {
        let text = "recording your own processes; others are \"another user\" (the policy does not permit sched)";
        remark(common, err, text);
    }
    let mut answer = Answer {
        output: file.path(),
        detached,
        started: started.started,
        late: started.late,
        not_permitted,
        exit_status: None,
        provider_stats: None,
        has_kernel: false,
        incomplete: None,
    };
    if let Some(signals) = signals {
        if held.is_none() {
            remark(common, err, &format!("recording to {}; Ctrl-C stops it", name(&file)));
        }
        let mut written = 0;
        let mut look = || take_fired(&mut client, (&path, &mut written), common, err);
        let look = has_triggers.then_some(&mut look as &mut dyn FnMut() -> Result<(), CtlError>);
        let outcome = match run::until_the_end(signals, held, common, look) {
            Ok(outcome) => outcome,
            Err(error) => {
                // COMMAND did not run, so the trace is empty and useless.
                let _ = client.terminate();
                file.discard();
                return Err(error);
            }
        };
        if outcome.lost {
            let error = stop::why_lost(&mut client);
            return match outcome.exit_status {
                Some(failed) if failed != 0 => {
                    remark(common, err, &error.to_string());
                    Ok(failed)
                }
                _ => Err(error),
            };
        }
        answer.exit_status = outcome.exit_status;
        answer.has_kernel = client.status()?.kernel.has_recorded();
        let ending = stop::end(&mut client, true)?;
        answer.provider_stats = Some(ending.provider_stats);
        let removed = || format!("{} was removed while it was being written", name(&file));
        answer.incomplete = ending.incomplete.or_else(|| file.is_removed().then(removed));
    }
    let code = answer.exit_status.unwrap_or(0);
    if common.json {
        show::answer(true, &answer, out, |_, _| Ok(()))?;
    } else if detached {
        text(&answer, &file, out)?;
    } else {
        // Standard output belongs to COMMAND or carries the trace.
        text(&answer, &file, err)?;
    }
    match answer.incomplete {
        Some(why) if code != 0 => {
            remark(common, err, &CtlError::Incomplete(why).to_string());
            Ok(code)
        }
        Some(why) => Err(CtlError::Incomplete(why)),
        None => Ok(code),
    }
}

/// Checks that snapshots will be written, and where.
fn check_triggers(args: &CtlStartArgs, path: &Path, detached: bool) -> Result<(), CtlError> {
    if args.mode != Mode::Circular {
        return Err(FlightError::NeedsCircular("--trigger").into());
    }
    if path == Path::new("-") {
        let path = "standard output".into();
        return Err(FlightError::NoFile { option: "--trigger", path }.into());
    }
    if detached { Err(CtlError::DetachedTrigger) } else { Ok(()) }
}

/// Writes the snapshots of triggers that have fired, next to the output.
fn take_fired(
    client: &mut Client,
    (path, written): (&Path, &mut u32),
    common: &CtlCommon,
    err: &mut dyn Write,
) -> Result<(), CtlError> {
    for _ in 0..client.status()?.kernel.fired {
        *written += 1;
        let file = TraceFile::create(&snapshot_path(path, *written), false, common)?;
        match client.fired_snapshot(file.descriptor()?) {
            Ok(size) => {
                let (size, name) = (bytes(size), name(&file));
                remark(common, err, &format!("a trigger fired: {size} written to {name}"));
            }
            Err(error) => {
                file.discard();
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// The running processes whose name matches; with `own`, only those of the user.
fn named_so(globs: &[Pattern], own: bool) -> Result<Vec<u32>, CtlError> {
    let found = match own {
        true => Snapshot::take_of(nix::unistd::getuid().as_raw())?,
        false => Snapshot::take()?,
    };
    let matches = |process: &Process| {
        let main = process.threads.iter().find(|thread| thread.tid == process.pid);
        let comm = main.map_or("".into(), |main| String::from_utf8_lossy(&main.comm));
        globs.iter().any(|glob| glob.matches(&comm))
    };
    let pids: Vec<u32> = found.processes.iter().filter(|it| matches(it)).map(|it| it.pid).collect();
    if pids.is_empty() {
        let globs = globs.iter().map(|glob| glob.as_str().to_owned()).collect();
        return Err(CtlError::NoSuchName { globs, own });
    }
    Ok(pids)
}

/// Starts a stopped session again.
pub(super) fn again(
    args: CtlStartArgs,
    common: &CtlCommon,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut client = connect(common)?;
    if client.status()?.state == SessionState::Ready {
        return Err(CtlError::NoSession("start again"));
    }
    let started = client.start(StartOptions {
        buffer_disposition: args.disposition.map(|disposition| match disposition {
            Disposition::ClearEntire => BufferDisposition::ClearEntire,
            Disposition::ClearNondurable => BufferDisposition::ClearNondurable,
            Disposition::Retain => BufferDisposition::Retain,
        }),
        additional_categories: Some(args.categories).filter(|list| !list.is_empty()),
    })?;
    Ok(show::answer(common.json, &started, out, |started, out| {
        writeln!(out, "recording again: {}", applications(started.started, &started.late))
    })?)
}

/// COMMAND's process, held before exec, and a recording session. If the session cannot be started, this has no effect.
fn prepare(
    (args, is_own): (CtlStartArgs, bool),
    detached: bool,
    common: &CtlCommon,
    file: &TraceFile,
    signals: Option<&Signals>,
    client: &mut Client,
) -> Result<(Started, Option<Held>), CtlError> {
    let mut config = config(&args, detached);
    let chooses = !args.pids.is_empty() || !args.cgroups.is_empty();
    let held = signals.map(|signals| hold(args.command, common, file, signals)).transpose()?;
    if let Some(Some(held)) = held.as_ref().filter(|_| is_own && !chooses) {
        config.processes = Some(vec![held.pid()]);
    }
    let mut tries = 10;
    while let Err(error) = client.initialize(config.clone(), file.descriptor()?) {
        // A process that was chosen by its name may have ended since.
        let is_gone = |pid: &u32| !procfs::exists(*pid);
        let has_ended = config.processes.as_ref().is_some_and(|pids| pids.iter().any(is_gone));
        if args.comms.is_empty() || !has_ended || tries == 0 {
            return Err(error.into());
        }
        tries -= 1;
        config.processes = Some(named_so(&args.comms, is_own)?);
    }
    let started = client.start(StartOptions::default()).inspect_err(|_| {
        if detached {
            // Reports why the session did not start; other errors are consequences of the closed connection.
            let _ = client.terminate();
        }
    });
    Ok((started?, held.flatten()))
}

/// The data that is recorded for users who may not record all processes: all application categories, and the user's own processes.
const OWN: [&str; 2] = ["*", "sched:own"];

/// Whether a request for the default categories may record only the user's own processes.
fn is_own(wanted: &[String], known: &[KnownCategory]) -> bool {
    let permitted = |name: &str| known.iter().any(|known| known.name == name && known.permitted);
    wanted.is_empty() && !permitted("sched") && permitted("sched:own")
}

/// The data that the daemon would leave out silently: it reduces empty lists and wildcards to what is permitted.
fn not_permitted(wanted: &[String], known: &[KnownCategory]) -> Vec<String> {
    let is_wanted = |name: &str| {
        let covers = |wanted: &String| {
            let stem = wanted.strip_suffix('*').filter(|stem| stem.starts_with("uprobe:"));
            stem.is_some_and(|stem| name.starts_with(stem))
        };
        if wanted.is_empty() { name == "sched" } else { wanted.iter().any(covers) }
    };
    let left_out = known.iter().filter(|known| !known.permitted && is_wanted(&known.name));
    left_out.map(|known| known.name.clone()).collect()
}

fn config(args: &CtlStartArgs, detached: bool) -> TraceConfig {
    let provider_specs: Vec<_> = args.providers.iter().map(provider_spec).collect();
    let names = args.stacks.iter().filter_map(ValueEnum::to_possible_value);
    let stacks = names.map(|kind| kind.get_name().to_owned()).collect();
    TraceConfig {
        categories: Some(args.categories.clone()).filter(|list| !list.is_empty()),
        buffer_size_megabytes_hint: args.buffer_size.map(megabytes),
        start_timeout_milliseconds: args
            .start_timeout
            .map(|span| u64::try_from(span.duration().as_millis()).unwrap_or(u64::MAX)),
        buffering_mode: Some(match args.mode {
            Mode::Streaming => BufferingMode::Streaming,
            Mode::Oneshot => BufferingMode::Oneshot,
            Mode::Circular => BufferingMode::Circular,
        }),
        provider_specs: Some(provider_specs).filter(|list| !list.is_empty()),
        version: None,
        processes: Some(args.pids.clone()).filter(|list| !list.is_empty()),
        cgroups: Some(args.cgroups.iter().map(|glob| glob.as_str().to_owned()).collect())
            .filter(|list: &Vec<String>| !list.is_empty()),
        stacks: Some(stacks).filter(|list: &Vec<String>| !list.is_empty()),
        triggers: Some(args.triggers.iter().map(ToString::to_string).collect())
            .filter(|list: &Vec<String>| !list.is_empty()),
        defer_transfer: args.defer_transfer.then_some(true),
        detached: detached.then_some(true),
    }
}

fn provider_spec(special: &ProviderOverride) -> ProviderSpec {
    ProviderSpec {
        name: special.name.clone(),
        buffer_size_megabytes_hint: special.buffer.map(megabytes),
        categories: Some(special.categories.clone()).filter(|list| !list.is_empty()),
    }
}

/// Rounded up to whole MiB, the smallest unit of the protocol.
fn megabytes(size: ByteSize) -> u32 {
    u32::try_from(size.bytes().div_ceil(MIB)).unwrap_or(u32::MAX)
}

/// COMMAND's process, which does not run yet: it is released when the session records.
fn hold(
    command: Vec<std::ffi::OsString>,
    common: &CtlCommon,
    file: &TraceFile,
    signals: &Signals,
) -> Result<Option<Held>, CtlError> {
    let mut words = command.into_iter();
    let Some(program) = words.next() else { return Ok(None) };
    let providers = common.socket.with_file_name("providers");
    let launch = Launch {
        program,
        args: words.collect(),
        environment: vec![(SOCKET_VARIABLE.into(), providers.into())],
        user: None,
        stdout_to_stderr: file.path().is_none(),
    };
    Ok(Some(Held::start(&launch, &signals.inherited())?))
}

fn default_output(args: &CtlStartArgs) -> PathBuf {
    let program = args.command.first().map(Path::new).and_then(Path::file_name);
    let mut name = program.unwrap_or("session".as_ref()).to_owned();
    name.push(".fxt");
    name.into()
}

fn text(answer: &Answer<'_>, file: &TraceFile, out: &mut dyn Write) -> std::io::Result<()> {
    if let Some(old) = file.kept_old() {
        writeln!(out, "the earlier file is now {}", old.display())?;
    }
    match &answer.provider_stats {
        None => {
            let who = applications(answer.started, &answer.late);
            writeln!(out, "recording to {}: {who}", name(file))?;
            writeln!(out, "fxtrec ctl stop ends it")
        }
        Some(stats) => {
            writeln!(out, "the trace is {}", name(file))?;
            show::provider_stats(stats, answer.has_kernel, out)
        }
    }
}

fn applications(started: u32, late: &[String]) -> String {
    let late = match late {
        [] => String::new(),
        late => format!(", late: {}", show::list(late, "")),
    };
    format!("{}{late}", counted(started.into(), "application", "applications"))
}

fn name(file: &TraceFile) -> String {
    file.path().map_or_else(|| "standard output".to_owned(), |path| path.display().to_string())
}

fn remark(common: &CtlCommon, err: &mut dyn Write, text: &str) {
    if !common.json {
        // If standard error is closed, the message is lost.
        let _ = writeln!(err, "fxtrec: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, CtlVerb};

    fn config_of(words: &[&str]) -> TraceConfig {
        let line = ["fxtrec", "ctl", "start"].iter().chain(words).copied();
        let Ok(Command::Ctl(args)) = Cli::parse_line(line) else { panic!("{words:?}") };
        let CtlVerb::Start(args) = args.verb else { panic!("{words:?}") };
        config(&args, false)
    }

    #[test]
    fn what_is_not_asked_for_is_left_to_the_daemon() {
        let streaming = TraceConfig {
            buffering_mode: Some(BufferingMode::Streaming),
            ..TraceConfig::default()
        };
        assert_eq!(config_of(&[]), streaming);
    }

    #[test]
    fn every_option_is_in_the_configuration() {
        let words = "--categories sched,app* --mode circular --buffer-size 1500k --start-timeout 2s \
                     --defer-transfer --provider db:16M:sql --pid 17,18 --stacks --trigger runqueue>5ms";
        let config = config_of(&words.split_whitespace().collect::<Vec<_>>());
        let expected = TraceConfig {
            categories: Some(vec!["sched".into(), "app*".into()]),
            buffer_size_megabytes_hint: Some(2),
            start_timeout_milliseconds: Some(2000),
            buffering_mode: Some(BufferingMode::Circular),
            provider_specs: Some(vec![ProviderSpec {
                name: "db".into(),
                buffer_size_megabytes_hint: Some(16),
                categories: Some(vec!["sql".into()]),
            }]),
            version: None,
            processes: Some(vec![17, 18]),
            cgroups: None,
            stacks: Some(vec!["offcpu".into()]),
            triggers: Some(vec!["runqueue>5ms".into()]),
            defer_transfer: Some(true),
            detached: None,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn what_a_wildcard_or_an_empty_list_loses_is_named() {
        let known = |name: &str, permitted| {
            let (name, description) = (name.to_owned(), String::new());
            KnownCategory { name, description, permitted }
        };
        let known = [
            known("app", true),
            known("irq", false),
            known("sched", false),
            known("uprobe:queries", false),
            known("uprobe:render", true),
        ];
        let lost = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            not_permitted(&wanted, &known).join(" ")
        };
        assert_eq!(lost(&[]), "sched");
        assert!(!is_own(&[], &known), "it is not known to be permitted");
        let own =
            [known[2].clone(), KnownCategory { name: "sched:own".to_owned(), ..known[0].clone() }];
        assert!(is_own(&[], &own) && !is_own(&["sched".to_owned()], &own));
        assert_eq!(lost(&["*", "app"]), "", "a wildcard asks for nothing of the kernel");
        assert_eq!(lost(&["uprobe:*"]), "uprobe:queries");
        assert_eq!(lost(&["uprobe:re*"]), "");
    }

    #[test]
    fn applications_that_are_late_are_named() {
        assert_eq!(applications(1, &[]), "1 application");
        assert_eq!(applications(2, &["db".into()]), "2 applications, late: db");
    }
}
