//! Selects the records for the output, and writes the names that they need.

use std::collections::HashMap;

use fxt_reader::record::{KernelObject, Value, is_not_recorded};
use fxt_reader::{Cpu, Koid, ObjectType, Record};
use fxt_writer::record as write;
use rustc_hash::FxHashSet;

use super::Target;
use crate::copy::{AsItIs, arguments};
use crate::error::ConvertError;
use fxtrec_capture::encode::unrecorded;
use fxtrec_sched::{is_period, period_of};
use fxtrec_units as units;

/// The idle tasks of all CPUs.
const IDLE: Koid = Koid(0);

/// Which records to keep; empty lists keep all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only scheduling of these CPUs.
    pub cpus: Vec<u16>,
    /// Only threads with these names, or of processes with these names.
    pub comms: Vec<String>,
    /// Only threads of these processes, by koid.
    pub pids: Vec<u64>,
}

impl Filter {
    /// Whether only some threads are selected, so that the output does not show what the others do.
    pub(super) fn chooses_threads(&self) -> bool {
        !self.comms.is_empty() || !self.pids.is_empty()
    }

    /// The occupant of a CPU when the output does not show it: a pseudo-thread if only some threads are selected, otherwise the idle task.
    pub(super) fn not_shown(&self, cpu: Cpu) -> Koid {
        match self.chooses_threads() {
            true => unrecorded::thread_of(units::Cpu(cpu.0.into())),
            false => IDLE,
        }
    }

    pub(super) fn admits_cpu(&self, cpu: Cpu) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu.0)
    }

    /// Whether the thread is selected. The idle task is only selected if all threads are.
    pub(super) fn admits_thread(&self, thread: Koid, names: &Names) -> bool {
        if !self.chooses_threads() {
            return true;
        }
        let known = names.threads.get(&thread);
        let process = known.and_then(|known| known.process).unwrap_or(thread);
        let is_called = |name: Option<&String>| name.is_some_and(|name| self.comms.contains(name));
        self.pids.contains(&process.0)
            || is_called(known.map(|known| &known.name))
            || is_called(names.processes.get(&process).map(|known| &known.name))
    }

    pub(super) fn admits(&self, record: &Record<'_>, names: &Names) -> bool {
        match record {
            Record::Wakeup(wakeup) => {
                self.admits_cpu(wakeup.cpu) && self.admits_thread(wakeup.koid, names)
            }
            Record::LegacyContextSwitch(switch) => {
                self.admits_cpu(switch.cpu)
                    && (self.admits_thread(switch.outgoing.thread, names)
                        || self.admits_thread(switch.incoming.thread, names))
            }
            Record::Event(event) if is_period(event) => {
                let cpu = period_of(event).map(|(_, cpu)| cpu);
                cpu.is_none_or(|cpu| self.admits_cpu(cpu))
            }
            Record::Event(event) => {
                event.category == "fxtrec" || self.admits_thread(event.thread.thread, names)
            }
            Record::Log(log) => self.admits_thread(log.thread.thread, names),
            Record::Backtrace(backtrace) => self.admits_thread(backtrace.thread.thread, names),
            Record::LargeBlob(blob) => {
                blob.metadata.is_none_or(|about| self.admits_thread(about.thread.thread, names))
            }
            _ => true,
        }
    }
}

/// The name of a thread, and its process.
#[derive(Clone, Debug)]
pub(super) struct ThreadName {
    pub(super) name: String,
    pub(super) process: Option<Koid>,
}

/// The arguments that a process's record may have.
const FACTS: [&str; 2] = ["cgroup", "host"];

/// The name of a process, and these arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessName {
    pub(super) name: String,
    facts: [Option<String>; FACTS.len()],
}

impl From<String> for ProcessName {
    fn from(name: String) -> ProcessName {
        ProcessName { name, ..ProcessName::default() }
    }
}

/// The names of koids so far, and which of them are in the output.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) threads: HashMap<Koid, ThreadName>,
    pub(super) processes: HashMap<Koid, ProcessName>,
    written: FxHashSet<Koid>,
}

impl Names {
    /// Remembers the name of an object. If the output already uses its koid, or if it is neither a process nor a thread, the record is
    /// copied.
    pub(super) fn learn(
        &mut self,
        object: &KernelObject<'_>,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let koid = object.koid;
        match object.object_type {
            ObjectType::Process => {
                let facts = FACTS.map(|fact| object.args.str(fact).map(str::to_owned));
                let name = object.name.to_owned();
                self.processes.insert(koid, ProcessName { name, facts });
            }
            ObjectType::Thread => {
                let (name, process) = (object.name.to_owned(), object.process());
                self.threads.insert(koid, ThreadName { name, process });
            }
            _ => {
                self.written.insert(koid);
            }
        }
        if !self.written.contains(&koid) {
            return Ok(());
        }
        let args = arguments(object.args, None, target, &AsItIs)?;
        let name = target.text(object.name)?;
        let kind = object.object_type;
        Ok(target.write(&write::KernelObject {
            object_type: kind,
            koid,
            name,
            args: args.as_slice(),
        })?)
    }

    /// Writes the name of a koid to the output, unless the output already has it.
    pub(super) fn need(&mut self, koid: Koid, target: &mut Target<'_>) -> Result<(), ConvertError> {
        if !self.written.insert(koid) {
            return Ok(());
        }
        if let Some(ProcessName { name, facts }) = self.processes.get(&koid) {
            let name = target.text(name)?;
            let mut args = Vec::new();
            for (fact, value) in FACTS.iter().zip(facts) {
                if let Some(value) = value {
                    let value = fxt_writer::Value::Str(target.text(value)?);
                    args.push(fxt_writer::Arg::new(target.text(fact)?, value));
                }
            }
            let (kind, koid) = (write::ObjectType::Process, koid);
            target.write(&write::KernelObject { object_type: kind, koid, name, args: &args })?;
        }
        let Some(ThreadName { name, process }) = self.threads.get(&koid).cloned() else {
            return Ok(());
        };
        if let Some(process) = process {
            self.need(process, target)?;
        }
        let of_process = target.text("process")?;
        let args: Vec<_> = process
            .map(|process| fxt_writer::Arg::new(of_process, process.into()))
            .into_iter()
            .collect();
        let name = target.text(&name)?;
        let (kind, koid) = (write::ObjectType::Thread, koid);
        Ok(target.write(&write::KernelObject { object_type: kind, koid, name, args: &args })?)
    }

    /// Ensures that the output has the name of the idle task, with which a cut fills CPUs without an occupant. A recording of CPUs that
    /// were never idle does not have it.
    pub(super) fn need_idle(&mut self, target: &mut Target<'_>) -> Result<(), ConvertError> {
        if !self.threads.contains_key(&IDLE) {
            let name = || "swapper".to_owned();
            self.processes.entry(IDLE).or_insert_with(|| name().into());
            self.threads.insert(IDLE, ThreadName { name: name(), process: Some(IDLE) });
            self.written.remove(&IDLE);
        }
        self.need(IDLE, target)
    }

    /// Ensures that the output has the name of a CPU's occupant, which may be the idle task or the pseudo-thread for time that is not
    /// recorded.
    pub(super) fn need_occupant(
        &mut self,
        koid: Koid,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        if koid == IDLE {
            return self.need_idle(target);
        }
        if is_not_recorded(koid) && !self.threads.contains_key(&koid) {
            let (name, process) = (unrecorded::NAME.to_owned(), Some(unrecorded::PROCESS));
            self.processes.entry(unrecorded::PROCESS).or_insert_with(|| name.clone().into());
            self.threads.insert(koid, ThreadName { name, process });
        }
        self.need(koid, target)
    }

    /// Ensures that the output has the names of all koids of a record.
    pub(super) fn need_all(
        &mut self,
        record: &Record<'_>,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let thread = match record {
            Record::Event(event) => Some(event.thread),
            Record::Log(log) => Some(log.thread),
            Record::Backtrace(backtrace) => Some(backtrace.thread),
            Record::LargeBlob(blob) => blob.metadata.map(|about| about.thread),
            Record::LegacyContextSwitch(switch) => {
                self.need(switch.incoming.thread, target)?;
                Some(switch.outgoing)
            }
            _ => None,
        };
        if let Some(thread) = thread {
            self.need(thread.process, target)?;
            self.need(thread.thread, target)?;
        }
        if let Record::Wakeup(wakeup) = record {
            self.need(wakeup.koid, target)?;
        }
        for arg in record.args().iter().flat_map(fxt_reader::record::Args::iter) {
            if let Value::Koid(koid) = arg.value {
                self.need(koid, target)?;
            }
        }
        Ok(())
    }
}
