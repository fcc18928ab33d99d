//! The events that samples become; complete before the recording begins.
//!
//! Every name in the catalog is registered as a string at the head of the trace, after the strings of all traces, so a hit refers to its
//! probe, category and arguments with two bytes each.

use fxt_writer::record::{Record, StringRecord};
use fxt_writer::{StringRef, Text};
use rustc_hash::FxHashMap;

use super::fields::{FieldArg, MAX_ARGS};
use super::spans::SpanId;
use crate::encode::strings;
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_kernel::format::{Field, Format};

#[derive(Clone, Debug)]
pub enum Act {
    Instant,
    Call(SpanId),
    Return(SpanId),
    /// A system call begins; the field contains its number.
    SyscallEnter(Field),
    /// A system call ends; the fields contain its number and return value.
    SyscallExit(Field, Field),
    /// A device interrupt begins; the fields contain its number, and its name as an argument.
    HardEnter(Field, FieldArg),
    HardExit(Field),
    /// A soft interrupt begins; the field contains its vector.
    SoftEnter(Field),
    SoftExit(Field),
    /// An interrupt between CPUs, or of a single CPU, begins.
    VectorEnter(u16),
    VectorExit(u16),
}

/// The count that a sample increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Probe,
    Tracepoint,
    Syscall,
    Interrupt,
}

/// The kind of event that the samples become.
#[derive(Clone, Debug)]
pub struct Entry {
    pub act: Act,
    /// The count that they increment.
    pub class: Class,
    /// The category of their events.
    pub category: Text<'static>,
    /// The name of their events, if it is always the same.
    pub name: Text<'static>,
    pub args: Vec<FieldArg>,
    /// Whether only samples of threads in scope count.
    pub in_scope_only: bool,
}

impl Entry {
    /// Whether a sample is a hit of a user probe.
    fn is_hit(&self) -> bool {
        self.class == Class::Probe && matches!(self.act, Act::Instant | Act::Call(_))
    }
}

/// More names than the format has indices for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the probes have more than 32 000 different names: use narrower patterns")]
pub struct TooManyNames;

/// The maximum number of names in a catalog.
const MAX_NAMES: usize = 32_000;

const _: () =
    assert!(MAX_NAMES + strings::COUNT_OF_ALL as usize <= 0x7fff, "the format's last index");

/// The non-scheduler events that may arrive.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    entries: Vec<Entry>,
    names: Vec<String>,
    by_name: FxHashMap<String, Text<'static>>,
    /// The requested system calls, by number.
    syscalls: Vec<Option<Text<'static>>>,
    /// The requested system calls of 32-bit programs, which use other numbers.
    syscalls_32: Vec<Option<Text<'static>>>,
    /// Whether system calls without a name are requested, too.
    unnamed_syscalls: bool,
    softirqs: Vec<Text<'static>>,
}

impl Catalog {
    /// The string for a name, registered at the head of the trace.
    ///
    /// # Errors
    /// Returns [`TooManyNames`].
    pub fn text(&mut self, name: &str) -> Result<Text<'static>, TooManyNames> {
        if let Some(text) = self.by_name.get(name) {
            return Ok(*text);
        }
        if self.names.len() >= MAX_NAMES {
            return Err(TooManyNames);
        }
        let index = index_of(self.names.len());
        let text = Text::Indexed(StringRef::indexed(index).map_err(|_| TooManyNames)?);
        self.names.push(fxt_writer::text::clean(name.as_bytes()).into_owned());
        self.by_name.insert(name.to_owned(), text);
        Ok(text)
    }

    /// Adds the event that the samples of the next tracepoint or probe become. Events must be added in the order in which they are opened.
    pub fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The samples of a tracepoint become instants, with the first 15 of its own fields as arguments.
    ///
    /// # Errors
    /// Returns [`TooManyNames`].
    pub fn tracepoint(
        &mut self,
        class: Class,
        category: &str,
        format: &Format,
        in_scope_only: bool,
    ) -> Result<Entry, TooManyNames> {
        let mut args = Vec::new();
        for field in own_fields(format).take(MAX_ARGS) {
            args.push(FieldArg::new(self.text(&field.name)?, field, None));
        }
        let (category, name) = (self.text(category)?, self.text(&format.name)?);
        Ok(Entry { act: Act::Instant, class, category, name, args, in_scope_only })
    }

    /// Marks a system call as requested, and names it.
    ///
    /// # Errors
    /// Returns [`TooManyNames`].
    pub fn add_syscall(&mut self, number: usize, name: &str) -> Result<(), TooManyNames> {
        let text = self.text(name)?;
        set(&mut self.syscalls, number, text);
        Ok(())
    }

    /// Marks a system call of 32-bit programs as requested, and names it.
    ///
    /// # Errors
    /// Returns [`TooManyNames`].
    pub fn add_32_bit_syscall(&mut self, number: usize, name: &str) -> Result<(), TooManyNames> {
        let text = self.text(name)?;
        set(&mut self.syscalls_32, number, text);
        Ok(())
    }

    /// Marks system calls without a name as requested, too.
    pub fn want_unnamed_syscalls(&mut self) {
        self.unnamed_syscalls = true;
    }

    /// Names the vectors of soft interrupts, from 0 on.
    ///
    /// # Errors
    /// Returns [`TooManyNames`].
    pub fn name_softirqs(&mut self, names: &[String]) -> Result<(), TooManyNames> {
        self.softirqs = names.iter().map(|name| self.text(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many events may produce samples.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The event that the samples become.
    pub fn entry(&self, index: ExtraIndex) -> Option<&Entry> {
        self.entries.get(usize::from(index.0))
    }

    /// The events that are hits of the user probe of this name. Returns are left out if calls of the same function are recorded too: they
    /// end the span that the call began.
    pub fn probes_called(&self, name: &str) -> impl Iterator<Item = ExtraIndex> {
        let name = self.by_name.get(name).copied();
        let entries = (0..).map(ExtraIndex).zip(&self.entries);
        entries.filter(move |(_, entry)| entry.is_hit() && Some(entry.name) == name).map(|it| it.0)
    }

    /// The names of all user probes, some more than once.
    pub fn probe_names(&self) -> impl Iterator<Item = &str> {
        let hits: Vec<Text<'static>> =
            self.entries.iter().filter(|entry| entry.is_hit()).map(|entry| entry.name).collect();
        let names = self.by_name.iter();
        names.filter(move |(_, text)| hits.contains(text)).map(|(name, _)| name.as_str())
    }

    /// Whether any event is of this class.
    pub fn has(&self, class: Class) -> bool {
        self.entries.iter().any(|entry| entry.class == class)
    }

    /// The name of a system call. `None` if it is not requested; `Some(None)` if it is requested but has no name.
    pub fn syscall(&self, number: i64, is_32_bit: bool) -> Option<Option<Text<'static>>> {
        let calls = if is_32_bit { &self.syscalls_32 } else { &self.syscalls };
        let known = usize::try_from(number).ok().and_then(|number| calls.get(number));
        match known {
            Some(Some(name)) => Some(Some(*name)),
            _ => self.unnamed_syscalls.then_some(None),
        }
    }

    /// The name of a soft interrupt's vector.
    pub fn softirq(&self, vector: i64) -> Text<'static> {
        let known = usize::try_from(vector).ok().and_then(|vector| self.softirqs.get(vector));
        known.copied().unwrap_or(strings::UNKNOWN)
    }

    /// The number of names.
    pub fn names_count(&self) -> usize {
        self.names.len()
    }

    /// The records that register every name.
    pub fn names(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for record in self.names_from(0) {
            let written = record.write(&mut out);
            debug_assert!(written.is_ok(), "names were cleaned, and memory has room");
        }
        out
    }

    /// The records that register the names from index `first` on.
    pub fn names_from(&self, first: usize) -> impl Iterator<Item = StringRecord<'_>> {
        self.names.iter().enumerate().skip(first).filter_map(|(at, content)| {
            let index = StringRef::indexed(index_of(at)).ok()?;
            Some(StringRecord { index, content })
        })
    }
}

fn set(calls: &mut Vec<Option<Text<'static>>>, number: usize, name: Text<'static>) {
    if calls.len() <= number {
        calls.resize(number + 1, None);
    }
    calls[number] = Some(name);
}

/// The tracepoint's own fields, without the common ones and those that perf adds to its probes.
pub fn own_fields(format: &Format) -> impl Iterator<Item = &Field> {
    let foreign = ["common_", "__probe_"];
    format.fields.iter().filter(move |field| !foreign.iter().any(|by| field.name.starts_with(by)))
}

/// The string index of the name at this position; the strings of every trace have the first indices.
fn index_of(at: usize) -> u16 {
    // There are at most MAX_NAMES of them, after about twenty others.
    strings::COUNT_OF_ALL + 1 + at as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_registered_once() {
        let mut catalog = Catalog::default();
        let first = catalog.text("render").expect("there is room");
        assert_eq!(catalog.text("render"), Ok(first));
        assert_ne!(catalog.text("present"), Ok(first));
        assert_eq!(catalog.names, ["render", "present"]);
    }

    #[test]
    fn names_beyond_the_formats_indices_are_refused() {
        let mut catalog = Catalog::default();
        for n in 0..MAX_NAMES {
            catalog.text(&n.to_string()).expect("there is room");
        }
        assert_eq!(catalog.text("one more"), Err(TooManyNames));
    }

    #[test]
    fn only_wanted_system_calls_have_a_name() {
        let mut catalog = Catalog::default();
        catalog.add_syscall(3, "close").expect("there is room");
        let close = catalog.text("close").expect("it is there");
        assert_eq!(catalog.syscall(3, false), Some(Some(close)));
        assert_eq!((catalog.syscall(2, false), catalog.syscall(-1, false)), (None, None));
        assert_eq!(catalog.syscall(3, true), None, "another call of a 32-bit program");
        catalog.want_unnamed_syscalls();
        assert_eq!(catalog.syscall(999, false), Some(None));
    }
}
