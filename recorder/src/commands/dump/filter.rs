//! Which records to show.

use fxt_reader::record::Value;
use fxt_reader::{Koid, Nanos, Record};

use crate::cli::{DumpArgs, Kinds};
use crate::commands::trace_file::{ReadError, resolve};

/// The conditions for a record to be shown.
#[derive(Debug)]
pub(super) struct Filter {
    kinds: Vec<Kinds>,
    koids: Vec<u64>,
    from: Option<Nanos>,
    to: Option<Nanos>,
}

impl Filter {
    pub(super) fn new(args: &DumpArgs) -> Result<Self, ReadError> {
        let (from, to) = resolve(&args.file, args.from, args.to)?;
        Ok(Self { kinds: args.types.clone(), koids: args.koids.clone(), from, to })
    }

    /// Whether `record` meets every condition. Conditions of one kind are alternatives; a record without a time does not meet a condition
    /// on time.
    pub(super) fn admits(&self, record: &Record<'_>) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|kinds| kinds.contains(record.kind())))
            && self.admits_time(record)
            && (self.koids.is_empty() || self.names_koid(record))
    }

    fn admits_time(&self, record: &Record<'_>) -> bool {
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        record.time().is_some_and(|time| {
            self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time <= to)
        })
    }

    fn names_koid(&self, record: &Record<'_>) -> bool {
        let wanted = |koid: Koid| self.koids.contains(&koid.0);
        let own = match record {
            Record::ContextSwitch(switch) => wanted(switch.outgoing) || wanted(switch.incoming),
            Record::Wakeup(wakeup) => wanted(wakeup.koid),
            Record::KernelObject(object) => wanted(object.koid),
            Record::UserspaceObject(object) => wanted(object.process),
            Record::Event(event) => wanted(event.thread.thread) || wanted(event.thread.process),
            Record::Log(log) => wanted(log.thread.thread) || wanted(log.thread.process),
            Record::Module(module) => wanted(module.process),
            Record::Mapping(mapping) => wanted(mapping.process),
            Record::Backtrace(backtrace) => {
                wanted(backtrace.thread.thread) || wanted(backtrace.thread.process)
            }
            Record::Thread(thread) => wanted(thread.thread.thread) || wanted(thread.thread.process),
            Record::LegacyContextSwitch(switch) => {
                wanted(switch.outgoing.thread) || wanted(switch.incoming.thread)
            }
            _ => false,
        };
        own || record
            .args()
            .iter()
            .flatten()
            .any(|arg| matches!(arg.value, Value::Koid(koid) if wanted(koid)))
    }
}
