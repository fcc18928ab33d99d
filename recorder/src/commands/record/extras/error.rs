//! The reason why non-scheduler events cannot be recorded.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use crate::encode::probes::catalog::TooManyNames;
use crate::file_worker::FileWorkerError;
use crate::kernel::bpf::events::BpfError;
use crate::kernel::cpus::CpusError;
use crate::kernel::format::FormatError;
use crate::kernel::tracefs::TracefsError;
use crate::kernel::uprobe::PmuError;
use crate::kernel::uprobe::definitions::DefinitionError;

/// The existing names, for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// The maximum number of names shown.
const SHOWN: usize = 60;

impl Display for Names {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().take(SHOWN).map(String::as_str);
        let shown = shown.collect::<Vec<_>>().join(", ");
        f.write_str(if shown.is_empty() { "nothing" } else { &shown })?;
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// The reason why non-scheduler events cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtraError {
    /// A trigger on a probe that is not recorded.
    #[error("--trigger '{trigger}': unknown probe; -P records: {known}")]
    NoSuchProbe { trigger: String, known: Names },
    /// A trigger on calls of a function that are not recorded as spans.
    #[error(
        "--trigger '{trigger}': no such function is recorded from call to return: add it as -P \
         BINARY:SYMBOL%span; recorded with %span: {known}"
    )]
    NoSuchCall { trigger: String, known: Names },
    /// A trigger on an alert or a span, without providers that could record it.
    #[error(
        "--trigger '{trigger}': alerts and spans come from COMMAND and its children: give a COMMAND, without --no-providers"
    )]
    NoProviders { trigger: String },
    /// No group of tracepoints with that name.
    #[error("-e {spec}: unknown tracepoint group; this kernel has: {known}")]
    NoGroup { spec: String, known: Names },
    /// No tracepoint with that name in the group.
    #[error("-e {spec}: unknown tracepoint; {group} has: {known}")]
    NoName { spec: String, group: String, known: Names },
    /// The kernel rejects a filter.
    #[error(
        "-e {event}: the kernel rejected the filter `{filter}`: {reason}; the fields are: {fields}"
    )]
    Filter {
        event: String,
        filter: String,
        /// The kernel's message, or the text of its error number.
        reason: String,
        /// The fields that a filter of this tracepoint can use.
        fields: Names,
    },
    /// A filter that contains a NUL byte.
    #[error("-e {event}: the filter contains a NUL byte")]
    NulInFilter { event: String },
    /// No system call matches.
    #[error("--syscalls={pattern}: no system call matches; names are as in man 2 syscalls")]
    NoSyscall { pattern: String },
    /// The kernel does not have tracepoints that an option needs.
    #[error(
        "{option} needs the tracepoint {event}, which this kernel lacks: it is built without {config}"
    )]
    Missing { option: &'static str, event: String, config: &'static str },
    /// A tracepoint does not have a required field.
    #[error("{option}: tracepoint {event} has no field `{field}` on this kernel")]
    NoField { option: &'static str, event: String, field: &'static str },
    /// The requested source has only the scheduler's events.
    #[error(
        "--source {source_name} records only the scheduler: for probes, -e, --syscalls and --irq, omit --source, or use bpf or perf"
    )]
    NeedsPerf { source_name: &'static str },
    /// A probe spec matches nothing.
    #[error(transparent)]
    Probe(#[from] FileWorkerError),
    /// Placing a probe in a file waits for each process that maps it, and until then every fork on the machine waits, too.
    #[error(
        "-P: process {0} holds its memory lock, for example because it waits for a file system \
         that does not answer: placing a probe would block on it, and then no process on this \
         machine could start; end that process, or unmount its file system, first"
    )]
    Locked(u32),
    /// A probe has more arguments than an event can have.
    #[error("probe {probe} has {count} arguments: the maximum is 15")]
    TooManyArgs { probe: String, count: usize },
    /// A program to be probed cannot be opened.
    #[error("cannot open {} to place a probe: {source}", path.display())]
    Binary { path: PathBuf, source: FileWorkerError },
    /// The kernel does not report a requested argument.
    #[error("the kernel accepted a probe but not all of its arguments: {0}")]
    Field(FormatError),
    /// Too many events to distinguish.
    #[error(
        "{0} probes and tracepoints are too many: the maximum is 65 535; use narrower patterns"
    )]
    TooMany(usize),
    /// More names than the format allows.
    #[error(transparent)]
    Names(#[from] TooManyNames),
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// A BPF program cannot record the probes.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel has no user probes.
    #[error(transparent)]
    Pmu(#[from] PmuError),
    /// A user probe cannot be defined.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}
