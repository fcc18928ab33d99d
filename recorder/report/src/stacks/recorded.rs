//! The stacks of a trace, and the known facts about their frames.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use fxt_reader::record::{Backtrace, Mapping};
use fxt_reader::{Error, Koid, ProviderId, Reader, Record};
use fxtrec_sched::backtrace::{self, Kind};
use fxtrec_sched::unsigned;
use fxtrec_sched::waited::WaitedFor;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// The process whose code is the kernel.
const KERNEL: Koid = Koid(0);

/// The owner of a koid: each of several merged recordings has its own kernel.
type Process = (Option<ProviderId>, Koid);

/// The stack of a thread at a time.
#[derive(Clone, Debug)]
pub struct Stack {
    /// In nanoseconds.
    pub time: u64,
    pub thread: Koid,
    pub kind: Kind,
    /// See [`backtrace::problem`].
    pub problems: u32,
    pub(crate) provider: Option<ProviderId>,
    /// See [`backtrace::link`].
    pub(crate) link: u32,
    process: Koid,
    /// The number of mappings of its process that were recorded before it: later ones may belong to the next program.
    mapped: usize,
    /// The innermost first. Stacks with equal addresses share them.
    addresses: Arc<[u64]>,
}

/// A function of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame<'a> {
    pub address: u64,
    /// Whether it is in the kernel.
    pub in_kernel: bool,
    /// The name of the function, if known.
    pub function: Option<&'a str>,
    /// The path of the file that it is in, and the address in the file, if known.
    pub module: Option<(&'a str, u64)>,
    /// The places in the source code, if they were looked up; inlined functions are first.
    pub lines: &'a [Line],
}

/// A location in source code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Line {
    pub function: Option<String>,
    /// The path that the compiler used.
    pub file: String,
    pub line: u32,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        write!(f, "{file}:{}", self.line)
    }
}

impl Stack {
    /// The program counters, the innermost first.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    pub fn process(&self) -> Koid {
        self.process
    }

    /// The stack as numbers, to be read by [`Stack::of_words`].
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let kind = (self.kind as u64) << 32 | u64::from(self.problems);
        let provider = self.provider.map_or(0, |provider| u64::from(provider.0) + 1);
        let link = self.link.into();
        let head = [self.time, self.thread.0, self.process.0, kind, provider, link];
        head.into_iter().chain([self.mapped as u64]).chain(self.addresses.iter().copied())
    }

    pub fn of_words(words: &[u64]) -> Option<Stack> {
        let (&[time, thread, process, kind, provider, link, mapped], addresses) =
            words.split_first_chunk()?;
        let provider = match provider.checked_sub(1) {
            Some(provider) => Some(ProviderId(provider.try_into().ok()?)),
            None => None,
        };
        Some(Stack {
            time,
            thread: Koid(thread),
            kind: [Kind::OffCpu, Kind::Wake, Kind::Cpu].into_iter().nth((kind >> 32) as usize)?,
            problems: kind as u32,
            provider,
            link: link as u32,
            process: Koid(process),
            mapped: mapped as usize,
            addresses: addresses.into(),
        })
    }
}

impl Frame<'_> {
    /// The label of the frame: its function, or the file and the address in it, or only its address.
    pub fn label(&self) -> String {
        let by_line = self.lines.last().and_then(|line| line.function.as_deref());
        match (self.function.or(by_line), self.file()) {
            (Some(function), _) => function.to_owned(),
            (None, Some((file, within))) => format!("{file}+{within:#x}"),
            (None, None) => format!("{:#x}", self.address),
        }
    }

    /// Whether it is a function of an interpreted program, whose name has its file and line.
    pub fn is_interpreted(&self) -> bool {
        self.address >> 62 == 1
    }

    /// The name of its file, without directories, and the address in the file.
    pub fn file(&self) -> Option<(&str, u64)> {
        let (path, within) = self.module?;
        Some((path.rsplit('/').next().unwrap_or(path), within))
    }
}

fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The index of the first frame of the program.
fn first_of_program(stack: &Stack) -> usize {
    stack.addresses.iter().take_while(|address| is_kernel(**address)).count()
}

/// Prefixes of the kernel functions that handle the entry of a system call.
const CALL_ENTRIES: [&str; 4] = ["do_syscall", "entry_SYSCALL", "el0_svc", "invoke_syscall"];

/// All stacks of a trace.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub all: Vec<Stack>,
    /// Waits longer than this, in nanoseconds, have a stack; `None` if the trace has no information about stacks.
    pub over: Option<u64>,
    /// Whether only some processes have stacks.
    pub of_some: bool,
    /// The number of stacks that were lost.
    pub lost: u64,
    /// How many times per second CPUs were sampled; 0 if they were not.
    pub frequency: u64,
    /// Function names by address and, if known, by the module that contains it, since a process may execute another program.
    functions: FxHashMap<(Process, Option<u16>, u64), String>,
    /// Paths with build ids.
    modules: FxHashMap<(Process, u16), (String, Vec<u8>)>,
    /// For each program counter, and whether it is a return address.
    lines: FxHashMap<(Process, Option<u16>, u64, bool), Vec<Line>>,
    mappings: FxHashMap<Process, Vec<Mapping>>,
    /// What threads waited for, by thread and beginning of the wait.
    waited: FxHashMap<(Koid, u64), WaitedFor>,
    /// The addresses of all stacks, each list once.
    known: FxHashSet<Arc<[u64]>>,
}

impl Recorded {
    /// Reads only the stacks of a trace.
    ///
    /// # Errors
    /// The errors of the reader; damaged records are left out.
    pub fn read(reader: &mut Reader<'_>) -> Result<Recorded, Error> {
        let mut stacks = Recorded::default();
        loop {
            match reader.next() {
                Ok(Some(item)) => stacks.take(item.provider, &item.record),
                Ok(None) => return Ok(stacks),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Processes a record about stacks. A stack is added at the end of `all`.
    pub fn take(&mut self, provider: Option<ProviderId>, record: &Record<'_>) {
        match record {
            Record::Backtrace(record) => {
                if let Some(mut stack) = self.alone(provider, record) {
                    stack.addresses = self.shared(stack.addresses);
                    self.all.push(stack);
                }
            }
            Record::UserspaceObject(object) => {
                let module = backtrace::module_of_name(&object.args);
                let key = ((provider, object.process), module, object.pointer);
                self.functions.insert(key, object.name.to_owned());
            }
            Record::Module(module) => {
                let key = ((provider, module.process), module.id);
                self.modules.insert(key, (module.name.to_owned(), module.build_id.to_owned()));
            }
            Record::Mapping(mapping) => {
                self.mappings.entry((provider, mapping.process)).or_default().push(*mapping);
            }
            Record::Event(event) if event.category == "fxtrec" && event.name == "stack_info" => {
                self.over = event.args.get("over_ns").and_then(unsigned);
                let frequency = event.args.get("frequency").and_then(unsigned);
                self.frequency = frequency.unwrap_or(0);
                let of = event.args.get("of").map(|of| of.to_string());
                self.of_some = of.is_some_and(|of| of.trim_matches('"') == backtrace::OF_CHOSEN);
            }
            Record::Event(event) if event.category == "fxtrec" && event.name == "stack_stats" => {
                self.lost += event.args.get("lost").and_then(unsigned).unwrap_or(0);
            }
            Record::Event(event) => {
                if let Some(waited) = WaitedFor::of(event) {
                    self.waited.insert((event.thread.thread, event.time.0), waited);
                }
            }
            _ => {}
        }
    }

    /// The file or socket that a thread waited for in the wait that this stack is of.
    pub fn waited_for(&self, stack: &Stack) -> Option<&WaitedFor> {
        self.waited.get(&(stack.thread, stack.time))
    }

    /// A thread that waited for the other end of this connection.
    pub fn other_end(&self, waited: &WaitedFor) -> Option<Koid> {
        let other = self.waited.iter().filter(|(_, other)| other.is_other_end_of(waited));
        other.map(|((thread, _), _)| *thread).min()
    }

    /// The stack of a record, without adding it.
    pub fn alone(&self, provider: Option<ProviderId>, record: &Backtrace<'_>) -> Option<Stack> {
        Some(Stack {
            time: record.time.0,
            thread: record.thread.thread,
            kind: Kind::of(record.flags)?,
            problems: record.flags & backtrace::problem::ALL,
            provider,
            link: backtrace::link(record.flags),
            process: record.thread.process,
            mapped: self.mappings.get(&(provider, record.thread.process)).map_or(0, Vec::len),
            addresses: record.frames.iter().collect(),
        })
    }

    /// The files whose code the process of a stack has mapped, according to the trace.
    pub(super) fn files_of(&self, stack: &Stack) -> impl Iterator<Item = &str> {
        let own = (stack.provider, stack.process);
        let modules = self.modules.iter().filter(move |((process, _), _)| *process == own);
        modules.map(|(_, (path, _))| path.as_str())
    }

    fn shared(&mut self, addresses: Arc<[u64]>) -> Arc<[u64]> {
        if let Some(known) = self.known.get(&addresses) {
            return Arc::clone(known);
        }
        self.known.insert(Arc::clone(&addresses));
        addresses
    }

    /// The build id of the file that contains an address of a stack, and the range of the file's mapping that contains the address.
    pub fn file(&self, stack: &Stack, address: u64) -> Option<(&[u8], u64, u64)> {
        let process = (stack.provider, if is_kernel(address) { KERNEL } else { stack.process });
        let mapping = self.mapping(process, address, stack)?;
        let (_, build_id) = self.modules.get(&(process, mapping.module))?;
        Some((build_id, mapping.start, mapping.start.saturating_add(mapping.length)))
    }

    /// Whether waits of this thread should have stacks, according to the trace: if only some processes have stacks, then only threads with
    /// a stack.
    pub fn is_about(&self, thread: Koid) -> bool {
        !self.of_some || self.all.iter().any(|stack| stack.thread == thread)
    }

    /// The stack of a wait of a thread, from when it left its CPU until it was woken, and the stack of its waker.
    pub fn of_wait(
        &self,
        thread: Koid,
        (since, until): (u64, u64),
    ) -> Option<(&Stack, Option<&Stack>)> {
        let is_it = |stack: &&Stack| {
            stack.kind == Kind::OffCpu
                && stack.thread == thread
                && stack.time < until
                && stack.time.saturating_add(super::LATE) >= since
        };
        let stack = self.all.iter().filter(is_it).max_by_key(|stack| stack.time)?;
        let ends_it = |wake: &&Stack| {
            wake.kind == Kind::Wake
                && (wake.provider, wake.link) == (stack.provider, stack.link)
                && (stack.time..=until.saturating_add(super::LATE)).contains(&wake.time)
        };
        let wake = (stack.link != 0).then(|| self.all.iter().find(ends_it)).flatten();
        Some((stack, wake))
    }

    /// The functions of a stack, the innermost first.
    pub fn frames<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = Frame<'a>> {
        let calls = self.first_that_calls(stack);
        stack.addresses.iter().enumerate().map(move |(at, &address)| {
            let in_kernel = is_kernel(address);
            let process = (stack.provider, if in_kernel { KERNEL } else { stack.process });
            let mapping = self.mapping(process, address, stack);
            let module = mapping.map(|mapping| mapping.module);
            let by = |module| self.functions.get(&(process, module, address));
            let function = module.and_then(|id| by(Some(id))).or_else(|| by(None));
            let lines = self.lines.get(&(process, module, address, at >= calls));
            Frame {
                address,
                in_kernel,
                function: function.map(String::as_str),
                module: self
                    .within(process, address, mapping)
                    .map(|((path, _), within)| (path.as_str(), within)),
                lines: lines.map_or(&[][..], Vec::as_slice),
            }
        })
    }

    /// Identifies the frames of a stack: stacks with equal results have the same frames. The parts are the recording, the process, a module
    /// of the program that the process ran, and the addresses.
    pub fn place<'a>(
        &self,
        stack: &'a Stack,
    ) -> (Option<ProviderId>, Koid, Option<u16>, &'a [u64]) {
        let process = (stack.provider, stack.process);
        // Different programs of a process have no module in common.
        let innermost = stack.addresses.get(first_of_program(stack));
        let mapping = innermost.and_then(|&address| self.mapping(process, address, stack));
        let module = mapping.map(|mapping| mapping.module);
        (stack.provider, stack.process, module, &stack.addresses)
    }

    /// Finds the source lines of all programs: `look` is called with the path of a file, its build id and an address within it.
    pub fn find_lines(&mut self, mut look: impl FnMut(&str, &[u8], u64) -> Vec<Line>) {
        let mut lines = std::mem::take(&mut self.lines);
        for stack in &self.all {
            let (process, first) = ((stack.provider, stack.process), first_of_program(stack));
            let calls = self.first_that_calls(stack);
            for (at, &address) in stack.addresses.iter().enumerate().skip(first) {
                let mapping = self.mapping(process, address, stack);
                let module = mapping.map(|mapping| mapping.module);
                let Entry::Vacant(place) = lines.entry((process, module, address, at >= calls))
                else {
                    continue;
                };
                let found =
                    self.within(process, address, mapping).map(|((path, build_id), within)| {
                        // The call instruction is before its return address.
                        look(path, build_id, within.saturating_sub(u64::from(at >= calls)))
                    });
                place.insert(found.unwrap_or_default());
            }
        }
        self.lines = lines;
    }

    /// The first of the program's frames whose address is a return address. The innermost address is where the processor was, unless it is
    /// the address after the instruction that entered the kernel.
    fn first_that_calls(&self, stack: &Stack) -> usize {
        let first = first_of_program(stack);
        let kernel = (stack.provider, KERNEL);
        let by_call = stack.addresses[..first].iter().any(|&address| {
            let module = self.mapping(kernel, address, stack).map(|mapping| mapping.module);
            let by = |module| self.functions.get(&(kernel, module, address));
            let name = module.and_then(|id| by(Some(id))).or_else(|| by(None));
            name.is_some_and(|name| CALL_ENTRIES.iter().any(|entry| name.starts_with(entry)))
        });
        first + usize::from(!by_call)
    }

    /// The mapping of a process that contained an address when the stack was recorded.
    fn mapping(&self, process: Process, address: u64, stack: &Stack) -> Option<&Mapping> {
        let all = self.mappings.get(&process)?;
        // The number of mappings does not matter for the kernel, which keeps its mappings.
        let mapped = if process.1 == KERNEL { all.len() } else { stack.mapped };
        let (before, behind) = all.split_at(mapped.min(all.len()));
        let has = |mapping: &&Mapping| mapping.contains(address);
        // The last mapping that was recorded applies. If only a part of a recording is kept, all mappings are written at its end, with the
        // time of the last stack that is in them.
        let reported = before.iter().rev().find(has);
        let later = || {
            let later = behind.iter().rev().filter(has);
            later.min_by_key(|mapping| {
                (mapping.time.0 < stack.time, mapping.time.0.abs_diff(stack.time))
            })
        };
        reported.or_else(later)
    }

    /// The file that contains an address of a process, and the address in the file.
    fn within(
        &self,
        process: Process,
        address: u64,
        mapping: Option<&Mapping>,
    ) -> Option<(&(String, Vec<u8>), u64)> {
        let mapping = mapping?;
        let module = self.modules.get(&(process, mapping.module))?;
        Some((module, (address - mapping.start).wrapping_add(mapping.module_address)))
    }
}
