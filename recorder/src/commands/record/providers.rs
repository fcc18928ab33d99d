//! COMMAND and its children as trace providers: their own events are written to the same trace.
//!
//! ```text
//!  before COMMAND    a socket at an address that only COMMAND is told
//!  with the threads  the manager; a session that every provider joins
//!  all along         pieces --> drain thread, between fxtrec's own buffers
//!  at the end        STOP; what is left, and a line of statistics for each provider
//! ```

pub(super) mod past;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use fxt_writer::engine::Mode;
use fxt_writer::record::Record;
use fxt_writer::{Arg, Text, ThreadName, Value};

use super::alerts::Notice;
use crate::cli::Rotate;
use crate::commands::plan::Plan;
use crate::encode::encoder::own_event;
use crate::kernel::child::Launch;
use crate::kernel::namespaces::Namespaces;
use crate::kernel::seqpacket::Listener;
use crate::kernel::user::Owner;
use crate::manager::{
    Archive, Koids, Manager, Options, ProviderStatus, SOCKET_VARIABLE, Section, SessionConfig,
    SpanLimit, StartOptions, Stopped, listen_privately,
};
use crate::sink::drain::Request;
use crate::units::Nanos;
use crate::units::text::{count, counted};
use fxtrec_gates::{Lasting, Trigger, What};

/// How long providers may take to hand over their remaining records.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of providers that the summary names.
const NAMES: usize = 4;

/// The maximum number of bytes that may wait to be written; beyond that the manager waits, and providers drop and count records.
const IN_FLIGHT_BYTES: usize = 32 * 1024 * 1024;

/// The memory of a piece in addition to its records: mostly the channel that confirms the write.
const PIECE_BYTES: usize = 1024;

/// The state before COMMAND runs: the socket.
#[derive(Debug)]
pub(super) struct Invitation {
    listener: Listener,
    options: Options,
    config: SessionConfig,
}

impl Invitation {
    /// Opens the socket and puts its address into COMMAND's environment through `launch`. `None` without a COMMAND, or
    /// if providers are turned off.
    pub(super) fn new(
        plan: &Plan,
        launch: Option<&mut Launch>,
        namespaces: &Namespaces,
    ) -> io::Result<Option<Invitation>> {
        let (Some(providers), Some(launch)) = (plan.providers.as_ref(), launch) else {
            return Ok(None);
        };
        let listener = listen_privately()?;
        let address = listener.address().to_string();
        launch.environment.push((SOCKET_VARIABLE.into(), address.into()));
        let defaults = Options::default();
        let command = launch.user.as_ref().map(|user| user.uid);
        let caller = Owner::sudo_caller().map(|owner| owner.uid);
        let uids = defaults.uids.iter().copied().chain(command).chain(caller).collect();
        let divided = plan.flight.rotate.is_some();
        let archive_bytes = match plan.flight.rotate {
            Some(Rotate::Size(size)) => size.bytes(),
            _ => defaults.archive_bytes,
        };
        let koids = Koids::of(namespaces);
        let spans = plan.flight.triggers.iter().enumerate().filter_map(span_limit).collect();
        let options = Options { uids, koids, divided, archive_bytes, spans, ..defaults };
        let config = SessionConfig {
            mode: plan.engine_mode(),
            buffer_bytes: providers.buffer_bytes,
            categories: providers.categories.clone(),
            ..SessionConfig::default()
        };
        Ok(Some(Invitation { listener, options, config }))
    }
}

/// The spans that a trigger waits for, if any.
fn span_limit((number, trigger): (usize, &Trigger)) -> Option<SpanLimit> {
    let What::Lasts { what: Lasting::Span(name), comparison, limit } = &trigger.what else {
        return None;
    };
    let (comparison, limit) = (*comparison, limit.number);
    Some(SpanLimit { trigger: number, name: name.clone(), comparison, limit })
}

/// The state during the recording: the manager.
#[derive(Debug)]
pub(super) struct Providers {
    manager: Manager,
    mode: Mode,
    drain: Sender<Request>,
}

impl Providers {
    /// Starts the manager and a session, whose records are passed to the drain thread.
    pub(super) fn start(invitation: Invitation, drain: Sender<Request>) -> io::Result<Providers> {
        let Invitation { listener, options, config } = invitation;
        let manager = Manager::spawn(listener, options, archive(drain.clone()))?;
        let mode = config.mode;
        manager.start(config, StartOptions::default()).map_err(io::Error::other)?;
        Ok(Providers { manager, mode, drain })
    }

    /// The alerts and the long spans since the last call.
    pub(super) fn notices(&self) -> impl Iterator<Item = Notice> {
        let spans = self.manager.spans().try_iter().map(Notice::Span);
        self.manager.alerts().try_iter().map(Notice::Alert).chain(spans)
    }

    /// Waits until all messages that were sent so far have been handled.
    pub(super) fn settle(&self) {
        // If the manager's thread has ended, no more messages arrive.
        let _ = self.manager.settle();
    }

    /// A copy of the records that they have not handed over; in circular mode, of all records.
    pub(super) fn sections(&self) -> Vec<Section> {
        self.manager.sections().unwrap_or_default()
    }

    /// Continues their records in another file: everything that was recorded so far is passed to the drain thread, followed by `next`,
    /// followed by the records after `time`. Does not wait for the result.
    pub(super) fn rotate(&self, time: Nanos, next: Request) {
        let next = SendOnDrop { drain: self.drain.clone(), request: Some(next) };
        // If the manager has ended, dropping the request has already passed it on.
        let _ = self.manager.begin_rotate(time, move || drop(next));
    }

    /// Stops the session. When this returns, the drain thread has all pieces.
    pub(super) fn finish(self) -> Stopped {
        let circular = self.mode == Mode::Circular;
        // So that providers that connected only briefly are listed, too.
        self.settle();
        // Only this call stops the manager, so the only error is that its thread has ended; then there are no results.
        let stopped = self.manager.stop(!circular, STOP_TIMEOUT).unwrap_or_default();
        // The begin records of open spans may have been overwritten.
        let until = past::deadline();
        let sections = if circular { self.sections() } else { Vec::new() };
        for section in sections {
            // Each is freed before the next is copied: together they may have 73 MiB.
            write_and_wait(&self.drain, past::whole(&section, until));
        }
        stopped
    }
}

/// Waits until the drain thread has written these records, and freed them.
pub(super) fn write_and_wait(drain: &Sender<Request>, records: Vec<u8>) {
    let (written, is_written) = bounded(1);
    // If the drain thread is gone, so is the output.
    if drain.send(Request::Piece { records, written }).is_ok() {
        let _ = is_written.recv();
    }
}

/// A request that dropping this value sends to the drain thread, which waits for it.
struct SendOnDrop {
    drain: Sender<Request>,
    request: Option<Request>,
}

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            // If the drain thread has ended, so has the output.
            let _ = self.drain.send(request);
        }
    }
}

/// Passes pieces to the drain thread, and waits while too much is in flight.
fn archive(drain: Sender<Request>) -> Archive {
    let mut on_the_way: VecDeque<(usize, Receiver<()>)> = VecDeque::new();
    let mut bytes = 0;
    Box::new(move |records| {
        let (written, is_written) = bounded(1);
        let takes = records.capacity() + PIECE_BYTES;
        bytes += takes;
        on_the_way.push_back((takes, is_written));
        // If the drain thread has ended, the piece is lost and counts as written.
        let _ = drain.send(Request::Piece { records, written });
        on_the_way.retain(|(length, is_written)| {
            let waits = is_written.try_recv() == Err(TryRecvError::Empty);
            bytes -= if waits { 0 } else { *length };
            waits
        });
        while bytes > IN_FLIGHT_BYTES
            && let Some((length, is_written)) = on_the_way.pop_front()
        {
            let _ = is_written.recv();
            bytes -= length;
        }
    })
}

/// Events `provider_stats` of fxtrec, one for each provider.
pub(super) fn statistics(stopped: &Stopped, recorder: ThreadName, ended: Nanos) -> Vec<u8> {
    let mut records = Vec::new();
    for provider in &stopped.providers {
        let args = stats_args(provider);
        let event = own_event(ended, recorder, Text::Inline("provider_stats"), &args);
        // A name or fault text that the format cannot express loses only this event.
        let _ = event.write(&mut records);
    }
    records
}

fn stats_args(provider: &ProviderStatus) -> Vec<Arg<'_>> {
    let number = |name, value| Arg::new(Text::Inline(name), Value::uint(value));
    let text = |name, value| Arg::new(Text::Inline(name), Value::Str(Text::Inline(value)));
    let stats = &provider.stats;
    let mut args = vec![
        number("id", provider.id.0.into()),
        text("name", &provider.name),
        number("pid", provider.pid.into()),
        number("uid", provider.uid.into()),
        text("state", provider.state.name()),
        number("records", stats.tally.records),
        number("dropped", stats.dropped),
        number("unfinished", stats.tally.unfinished),
        number("refused", stats.tally.refused),
        number("cut_bytes", stats.tally.cut_bytes),
        number("buffers", stats.buffers),
        number("bytes", stats.durable_bytes + stats.rolling_bytes),
        Arg::new(Text::Inline("durable_used"), Value::Double(stats.durable_used)),
    ];
    args.extend((stats.buffer_short > 0).then(|| number("buffer_short", stats.buffer_short)));
    args.extend(provider.fault.as_deref().map(|fault| text("fault", fault)));
    args
}

/// One line about the providers, the most active first: `2: app 1 234 records, db 77 records`. `None` if there were no providers.
pub(super) fn summary(stopped: &Stopped) -> Option<Line> {
    let mut by_name: Vec<(&str, u64)> = Vec::new();
    let mut dropped = 0_u64;
    for ProviderStatus { name, stats, .. } in &stopped.providers {
        dropped = dropped.saturating_add(stats.dropped);
        match by_name.iter_mut().find(|(known, _)| known == name) {
            Some((_, records)) => *records += stats.tally.records,
            None => by_name.push((name, stats.tally.records)),
        }
    }
    by_name.sort_by_key(|&(_, records)| std::cmp::Reverse(records));
    let few = by_name.iter().take(NAMES);
    let mut names: Vec<String> = few
        .map(|(name, records)| format!("{name} {}", counted(*records, "record", "records")))
        .collect();
    if by_name.len() > NAMES {
        names.push(format!("{} more", by_name.len() - NAMES));
    }
    let providers = stopped.providers.len();
    let text = format!("{}: {}", count(providers as u64), names.join(", "));
    (providers > 0).then_some(Line { text, dropped })
}

/// The number of their records.
pub(super) fn records(stopped: &Stopped) -> u64 {
    stopped.providers.iter().map(|provider| provider.stats.tally.records).sum()
}

/// A line of the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) dropped: u64,
}

/// Problems of providers, one line each.
pub(super) fn warnings(stopped: &Stopped) -> Vec<String> {
    let mut warnings = Vec::new();
    for ProviderStatus { name, pid, fault, missed_start, .. } in &stopped.providers {
        if *missed_start {
            warnings.push(format!(
                "provider {name} (process {pid}) exited before it started to record: its events are missing"
            ));
        }
        let blamed = fault.as_ref().map(|fault| {
            format!("provider {name} (process {pid}) violated the protocol and was recorded only up to that point: {fault}")
        });
        warnings.extend(blamed);
    }
    let short = stopped.providers.iter().filter(|it| it.stats.buffer_short > 0).count() as u64;
    if short > 0 {
        warnings.push(format!(
            "{} smaller than requested, with less history: their shared memory limit was reached (docs/reference/providers.md)",
            counted(short, "provider's buffer was", "providers' buffers were")
        ));
    }
    let left_out = |it: &ProviderStatus| it.stats.categories_left_out;
    let left_out = stopped.providers.iter().map(left_out).fold(0, u64::saturating_add);
    if left_out > 0 {
        warnings.push(format!(
            "{} not listed: the limit of 4 MiB for all providers' category names was reached",
            counted(left_out, "category of providers is", "categories of providers are")
        ));
    }
    let repeated = [
        (
            stopped.left_out.names,
            "name of providers is",
            "names of providers are",
            "missing from later files",
            24,
        ),
        (
            stopped.left_out.spans,
            "open span of providers was",
            "open spans of providers were",
            "not continued in the next file",
            8,
        ),
    ];
    for (number, one, several, what, most) in repeated.into_iter().filter(|it| it.0 > 0) {
        warnings.push(format!(
            "{} {what}: the limit of {most} MiB was reached (docs/reference/providers.md)",
            counted(number, one, several)
        ));
    }
    for name in &stopped.silent {
        warnings.push(format!(
            "provider {name} did not stop within {} s: only its committed events are in the trace",
            STOP_TIMEOUT.as_secs()
        ));
    }
    let refusals = &stopped.refusals;
    let kinds = [
        (refusals.too_many, "the maximum is 100 providers at a time"),
        (refusals.foreign_user, "of a user other than COMMAND's"),
        (refusals.invisible, "of a process that is not visible in this pid namespace"),
        (refusals.unregistered, "not registered according to the protocol"),
    ];
    for (number, why) in kinds.into_iter().filter(|(number, _)| *number > 0) {
        let were = counted(number, "provider was", "providers were");
        warnings.push(format!("{were} rejected: {why}"));
    }
    if stopped.forgotten > 0 {
        warnings.push(format!(
            "the events of {} were discarded: there were too many to keep until the end",
            counted(stopped.forgotten, "exited provider", "exited providers")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
