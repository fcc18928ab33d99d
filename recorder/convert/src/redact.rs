//! Replaces names that only the trace's owner may know: each gets a pseudonym, the same at every occurrence.
//!
//! ```text
//!   records of a trace --> copy, which asks about each text --> Redactor: kept | pseudonym --> records of another one
//! ```
//!
//! A string is kept if fxtrec or the kernel uses it in every trace (a state, a system call). All other strings are replaced: a string that
//! is not known to be harmless may be confidential.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use fxt_reader::record::{Arg, Event};
use fxt_reader::{Error, Koid, Nanos, Reader, Record};
use fxt_writer::{Value, Writer};
use fxtrec_sched::waited::key;

use crate::copy::{Role, Translate, copy};
use crate::error::ConvertError;
use crate::merge::{How, Source, merge_as};
use crate::report::Report;
use crate::shared::Shared;
use crate::traces;

/// The kinds of text that can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Secret {
    /// Values that are text: of spans, probes and tracepoints, messages of logs, and the command line of the recording.
    Args,
    /// Files that programs have mapped, with their build ids, and files in function names: `work (job.py:9)`.
    Paths,
    /// Processes and threads, and the names that applications give to their spans, counters and arguments.
    Names,
    Cgroups,
    Hosts,
    /// Functions of programs in stacks.
    Functions,
}

impl Secret {
    pub const ALL: [Secret; 6] = [
        Secret::Args,
        Secret::Paths,
        Secret::Names,
        Secret::Cgroups,
        Secret::Hosts,
        Secret::Functions,
    ];

    /// The kinds to replace before a trace is shown to other people. Functions stay: without them, stacks explain nothing.
    pub const FOR_SHARING: [Secret; 5] =
        [Secret::Args, Secret::Paths, Secret::Names, Secret::Cgroups, Secret::Hosts];

    /// Its name in the option.
    pub const fn name(self) -> &'static str {
        match self {
            Secret::Args => "args",
            Secret::Paths => "paths",
            Secret::Names => "names",
            Secret::Cgroups => "cgroups",
            Secret::Hosts => "hosts",
            Secret::Functions => "functions",
        }
    }

    /// The beginning of a pseudonym.
    const fn prefix(self) -> &'static str {
        match self {
            Secret::Args => "arg",
            Secret::Paths => "file",
            Secret::Names => "name",
            Secret::Cgroups => "cgroup",
            Secret::Hosts => "host",
            Secret::Functions => "fn",
        }
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The word does not name anything that can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected args, paths, names, cgroups, hosts, or functions")]
pub struct NoSuchSecret;

impl FromStr for Secret {
    type Err = NoSuchSecret;

    fn from_str(name: &str) -> Result<Secret, NoSuchSecret> {
        Secret::ALL.into_iter().find(|secret| secret.name() == name).ok_or(NoSuchSecret)
    }
}

/// Categories whose events have the same names on all machines: those of fxtrec, the scheduler, system calls, interrupts.
const PUBLIC_CATEGORIES: [&str; 4] = ["fxtrec", "sched", "syscall", "irq"];

/// Arguments of such events, and of scheduling records, whose values are words of fxtrec or of the kernel.
const PUBLIC_KEYS: [&str; 21] = [
    "cause",
    "causes",
    "clock",
    "device",
    "interrupt_kind",
    "interrupt_name",
    "kernel_lock_kind",
    "kernel_lock_name",
    "kind",
    "machine",
    "object_kind",
    "of",
    "pid_namespace",
    "prev_state",
    "release",
    "scope",
    "silent_cpus",
    "source",
    "state",
    "version",
    "via",
];

/// Prefixes of the names of kernel threads that every machine has; numbers follow.
const KERNEL_THREADS: [&str; 9] = [
    "cpuhp/",
    "idle_inject/",
    "ksoftirqd/",
    "kswapd",
    "kworker/",
    "migration/",
    "rcuc/",
    "rcuog/",
    "swapper/",
];

/// Names that reports depend on: the recorder, and placeholders for a CPU about which nothing is known.
fn is_public_name(name: &str) -> bool {
    let is_number = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || ":uHR-I_".contains(c));
    let is_of_kernel =
        || KERNEL_THREADS.iter().any(|start| name.strip_prefix(start).is_some_and(is_number));
    matches!(
        name,
        "" | "idle" | "kernel" | "not recorded" | "unknown" | "rcu_preempt" | "rcu_sched"
    ) || is_fxtrec(name)
        || is_of_kernel()
}

/// Whether fxtrec uses this name for itself as a provider, or for one of its threads.
pub(crate) fn is_fxtrec(name: &str) -> bool {
    let rest = name.strip_prefix("fxtrec");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ' ']))
}

/// The kind of secret that a string may be; `None` if it is known not to be secret.
fn secret_of(role: Role<'_>, text: &str, of_fxtrec: bool) -> Option<Secret> {
    let is_public = |category: &str| of_fxtrec && PUBLIC_CATEGORIES.contains(&category);
    match role {
        Role::Object if is_public_name(text) => None,
        Role::Object => Some(Secret::Names),
        // The kernel's functions are the same on all machines with its release.
        Role::Address(Koid(0)) => None,
        Role::Address(_) => Some(Secret::Functions),
        Role::Module if text.starts_with('[') && text.ends_with(']') => None,
        Role::Module => Some(Secret::Paths),
        Role::Category if is_public(text) => None,
        Role::Event { category } if is_public(category) => None,
        Role::Key(None) => None,
        Role::Key(Some(category)) if is_public(category) => None,
        Role::Category | Role::Event { .. } | Role::Key(_) => Some(Secret::Names),
        Role::Value { category, key } if category.is_none_or(is_public) => match key {
            "host" => Some(Secret::Hosts),
            "cgroup" | "throttled_by" => Some(Secret::Cgroups),
            "name" if !is_public_name(text) => Some(Secret::Names),
            "name" => None,
            key::PATH => Some(Secret::Paths),
            key::LOCAL | key::REMOTE => Some(Secret::Hosts),
            key if PUBLIC_KEYS.contains(&key) => None,
            _ => Some(Secret::Args),
        },
        Role::Value { .. } | Role::Message => Some(Secret::Args),
    }
}

/// The function, the file and the line in a function name that contains its location: `work (job.py:9)`.
fn place(text: &str) -> Option<(&str, &str, &str)> {
    let (function, place) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    is_line.then_some((function, file, line))
}

/// The metric that a trigger tests, and the rest of its expression: `runqueue > 2ms if` and ` cgroup = "/a"`, or `span` and
/// `("app:request") > 20ms`.
fn divided(expression: &str) -> (&str, &str) {
    const IF: &str = " if";
    let tested = expression.find(" if ").map_or(expression.len(), |at| at + IF.len());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match expression[..tested].contains(['"', '\'', '(']) {
        true => expression.split_at(expression.find(|c| !is_word(c)).unwrap_or(0)),
        false => expression.split_at(tested),
    }
}

/// The pseudonyms of one run. They are generated with a random key, so that a name cannot be found by guessing.
#[derive(Debug)]
pub(crate) struct Redactor {
    key: RandomState,
    secrets: Vec<Secret>,
}

impl Redactor {
    fn new(secrets: &[Secret]) -> Redactor {
        Redactor { key: RandomState::new(), secrets: secrets.to_vec() }
    }

    /// The pseudonym of a string, if it must be replaced.
    pub(crate) fn text(&self, role: Role<'_>, text: &str, of_fxtrec: bool) -> Option<String> {
        let secret = secret_of(role, text, of_fxtrec)?;
        if secret == Secret::Functions
            && let Some((function, file, line)) = place(text)
        {
            let other = self.replacement(secret, function);
            let other_file = self.replacement(Secret::Paths, file);
            let is_other = other.is_some() || other_file.is_some();
            let (function, file) =
                (other.as_deref().unwrap_or(function), other_file.as_deref().unwrap_or(file));
            return is_other.then(|| format!("{function} ({file}:{line})"));
        }
        if let Role::Value { key: "expression", .. } = role
            && secret == Secret::Args
            && of_fxtrec
        {
            // The metric that the trigger tests stays: without it, the delay that fired the trigger would be taken for another kind.
            let (tested, rest) = divided(text);
            return self.replacement(secret, rest).map(|rest| format!("{tested} {rest}"));
        }
        self.replacement(secret, text)
    }

    /// The replacement for a string of this kind, if requested.
    fn replacement(&self, secret: Secret, text: &str) -> Option<String> {
        if !self.secrets.contains(&secret) || text.is_empty() {
            return None;
        }
        Some(match secret {
            // Names below a name that stays visible.
            Secret::Paths | Secret::Cgroups => {
                let parts = text.split('/').map(|part| match part {
                    "" => String::new(),
                    part => self.pseudonym(secret, part),
                });
                parts.collect::<Vec<_>>().join("/")
            }
            secret => self.pseudonym(secret, text),
        })
    }

    /// They have 40 bits: among 10 000 names, two collide in 1 of 20 000 traces. A thread name has at most 15 bytes, so the pseudonym must
    /// fit.
    fn pseudonym(&self, secret: Secret, text: &str) -> String {
        format!("{}-{:010x}", secret.prefix(), self.key.hash_one((secret, text)) >> 24)
    }
}

/// Writes the trace at `path` to `out`, with pseudonyms for `secrets`. Bulk data is left out, whatever its content.
///
/// # Errors
///
/// Returns an error when the trace cannot be read, or the output cannot be written.
pub fn redact(
    path: &Path,
    secrets: &[Secret],
    show_progress: bool,
    out: &mut dyn Write,
) -> Result<Report, ConvertError> {
    let source = Source { path: path.to_owned(), offset: None };
    let how = How { same_machine: true, show_progress, ..How::default() };
    merge_as(&[source], &how, Some(&Redactor::new(secrets)), out)
}

/// All strings of a trace that could be replaced, each with its number of occurrences. Strings in bulk data are not included.
///
/// # Errors
///
/// Returns an error when the trace cannot be read.
pub fn texts(path: &Path) -> Result<BTreeMap<(&'static str, String), u64>, ConvertError> {
    let opened = |source| ConvertError::Open { path: path.to_owned(), source };
    let mut reader = Reader::from_file(traces::open(path).map_err(opened)?, |file| file);
    let found = Texts::default();
    let shared = Shared::default();
    let mut writer = Writer::new(shared.clone()).with_long_strings();
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                if let Record::ProviderInfo(info) = &item.record {
                    found.add("names", info.name);
                }
                // A record that cannot be written again has still been examined.
                let _ = copy(&item.record, &mut writer, &found);
                shared.take();
            }
            Ok(None) => return Ok(found.0.into_inner()),
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Changes nothing, and records every text.
#[derive(Debug, Default)]
struct Texts(RefCell<BTreeMap<(&'static str, String), u64>>);

impl Texts {
    fn add(&self, kind: &'static str, text: &str) {
        *self.0.borrow_mut().entry((kind, text.to_owned())).or_default() += 1;
    }
}

impl Translate for Texts {
    fn text(&self, role: Role<'_>, text: &str) -> Option<String> {
        self.add(secret_of(role, text, true).map_or("public", Secret::name), text);
        None
    }
}

/// A translation that also replaces strings, for the records of one provider.
pub(crate) struct Redacting<'a, T> {
    pub(crate) inner: &'a T,
    pub(crate) redactor: Option<&'a Redactor>,
    /// Whether the provider is fxtrec.
    pub(crate) of_fxtrec: bool,
}

impl<T: Translate> Translate for Redacting<'_, T> {
    fn koid(&self, koid: Koid) -> Koid {
        self.inner.koid(koid)
    }

    fn time(&self, time: Nanos) -> Nanos {
        self.inner.time(time)
    }

    fn cpu(&self, cpu: u16) -> u16 {
        self.inner.cpu(cpu)
    }

    fn host(&self) -> Option<&str> {
        self.inner.host()
    }

    fn first_cpu(&self) -> Option<u16> {
        self.inner.first_cpu()
    }

    fn module(&self, process: Koid, id: u16) -> u16 {
        self.inner.module(process, id)
    }

    fn correlation(&self, event: &Event<'_>, id: u64) -> u64 {
        self.inner.correlation(event, id)
    }

    fn argument(&self, event: &Event<'_>, arg: &Arg<'_>) -> Option<Value<'static>> {
        self.inner.argument(event, arg)
    }

    fn text(&self, role: Role<'_>, text: &str) -> Option<String> {
        self.redactor.and_then(|redactor| redactor.text(role, text, self.of_fxtrec))
    }
}

/// The name of a provider in the new trace.
pub(crate) fn provider_name(name: &str, redactor: Option<&Redactor>) -> String {
    let other = redactor.and_then(|redactor| redactor.text(Role::Object, name, false));
    other.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests;
