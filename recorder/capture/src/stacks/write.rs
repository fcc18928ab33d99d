//! Samples as records.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName, UserspaceObject};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value, text};
use rustc_hash::FxHashMap;

use super::Counts;
use super::collector::{KERNEL, Told};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::encode::encoder::owner::Owner;
use fxtrec_kernel::bpf::stacks::Wanted;
use fxtrec_units::{Nanos, Tid};

/// The process that the kernel's code is put on: that of the idle task.
const KERNEL_PROCESS: Koid = Koid(0);

/// Writes what the collector tells.
#[derive(Debug)]
pub(super) struct Records {
    wanted: Wanted,
    /// The processes of programs.
    processes: FxHashMap<usize, Koid>,
    written: u64,
    unknown_threads: u64,
    begun: bool,
}

impl Records {
    pub(super) fn new(wanted: Wanted) -> Records {
        let processes = FxHashMap::from_iter([(KERNEL, KERNEL_PROCESS)]);
        Records { wanted, processes, written: 0, unknown_threads: 0, begun: false }
    }

    pub(super) fn write<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        told: &Told,
    ) -> Result<(), Closed> {
        match told {
            Told::Code { program, tid, until, modules, mappings } => {
                let process = self.process(encoder, *program, (*tid, *until))?;
                let Some(process) = process else { return Ok(()) };
                let (time, process) = (Ticks(until.0), ProcessName::Inline(process));
                for module in modules {
                    let (id, name, build_id) = (module.id, &*module.name, &*module.build_id);
                    encoder.lanes().rolling(&Module { time, process, id, name, build_id })?;
                }
                for mapping in mappings {
                    encoder.lanes().rolling(&Mapping {
                        time,
                        process,
                        module: mapping.module,
                        flags: mapping.flags,
                        start: mapping.start,
                        length: mapping.end - mapping.start,
                        module_address: mapping.module_address,
                    })?;
                }
                Ok(())
            }
            Told::Stack { tid, since, until, flags, frames } => {
                self.begin(encoder, *since)?;
                let (process, thread) = match encoder.owner(*tid, *until)? {
                    // An interrupt of an idle CPU wakes somebody.
                    _ if *tid == Tid(0) => (KERNEL_PROCESS, KERNEL_PROCESS),
                    Owner::Recorded { process, thread } => (process, thread),
                    // It is left out as its switches are.
                    Owner::Unwanted => return Ok(()),
                    Owner::Unknown => {
                        self.unknown_threads += 1;
                        return Ok(());
                    }
                };
                self.written += 1;
                let thread = ThreadName::Inline { process, thread };
                let time = Ticks(since.0);
                encoder.lanes().rolling(&Backtrace { time, thread, flags: *flags, frames })?;
                Ok(())
            }
            Told::Symbol { program, address, name } => {
                let Some(&process) = self.processes.get(program) else { return Ok(()) };
                encoder.lanes().rolling(&UserspaceObject {
                    pointer: *address,
                    process: ThreadName::Inline { process, thread: process },
                    name: Text::Inline(&text::clean(name.as_bytes())),
                    args: &[],
                })?;
                Ok(())
            }
        }
    }

    /// The process that runs a program: that of the thread, when it is new.
    fn process<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        program: usize,
        (tid, time): (Tid, Nanos),
    ) -> Result<Option<Koid>, Closed> {
        if let Some(&known) = self.processes.get(&program) {
            return Ok(Some(known));
        }
        let Owner::Recorded { process, .. } = encoder.owner(tid, time)? else { return Ok(None) };
        self.processes.insert(program, process);
        Ok(Some(process))
    }

    /// Says what the stacks are of, before the first.
    fn begin<L: Lanes>(&mut self, encoder: &mut Encoder<L>, time: Nanos) -> Result<(), Closed> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let Wanted { over, wakes, frequency } = self.wanted;
        let kind = match (wakes, frequency.is_some()) {
            (false, false) => "offcpu",
            (true, false) => "offcpu,wake",
            (false, true) => "offcpu,cpu",
            (true, true) => "offcpu,wake,cpu",
        };
        let args = [
            Arg::new(Text::Inline("kind"), Value::Str(Text::Inline(kind))),
            Arg::new(Text::Inline("over_ns"), Value::uint(over.0)),
            Arg::new(Text::Inline("frequency"), Value::uint(frequency.unwrap_or(0).into())),
        ];
        let args = if frequency.is_some() { &args[..] } else { &args[..2] };
        encoder.instant(time, Text::Inline("stack_info"), args)
    }

    /// Counts with those that only this knows.
    pub(super) fn counted(&self, counts: Counts) -> Counts {
        Counts { written: self.written, unknown_threads: self.unknown_threads, ..counts }
    }

    /// Says what became of all stacks.
    pub(super) fn write_counts<L: Lanes>(
        &mut self,
        encoder: &mut Encoder<L>,
        time: Nanos,
        counts: &Counts,
    ) -> Result<(), Closed> {
        self.begin(encoder, time)?;
        let args = [
            ("stacks", counts.written),
            ("kernel_unreadable", counts.kernel_unreadable),
            ("kernel_too_deep", counts.kernel_too_deep),
            ("user_unreadable", counts.user_unreadable),
            ("user_too_deep", counts.user_too_deep),
            ("user_no_room", counts.user_no_room),
            ("user_cut", counts.user_cut),
            ("user_unproved", counts.user_unproved),
            ("lost", counts.lost),
            ("unseen", counts.unseen),
            ("given_up", counts.given_up),
            ("unknown_threads", counts.unknown_threads),
            ("unknown_processes", counts.unknown_processes),
            ("lost_mappings", counts.lost_mappings),
            ("symbols", counts.symbols),
        ]
        .map(|(name, count)| Arg::new(Text::Inline(name), Value::uint(count)));
        encoder.instant(time, Text::Inline("stack_stats"), &args)
    }
}
