//! The stacks of a trace, and what is known of their frames.

use std::collections::HashMap;
use std::fmt::Write;

use fxt_reader::record::{Mapping, Value};
use fxt_reader::{Error, Koid, ProviderId, Reader, Record};

/// The process whose code is the kernel's.
const KERNEL: Koid = Koid(0);

/// Whose a koid is: recordings that were merged have a kernel each.
type Process = (Option<ProviderId>, Koid);

#[derive(Debug)]
pub(super) struct Stack {
    pub(super) time: u64,
    pub(super) thread: Koid,
    provider: Option<ProviderId>,
    process: Koid,
    /// The innermost first.
    frames: Vec<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) all: Vec<Stack>,
    /// Which waits have one, in nanoseconds; `None` when the trace says nothing about stacks.
    pub(super) over: Option<u64>,
    functions: HashMap<(Process, u64), String>,
    modules: HashMap<(Process, u16), String>,
    mappings: HashMap<Process, Vec<Mapping>>,
}

impl Stacks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Stacks, Error> {
        let mut stacks = Stacks::default();
        loop {
            match reader.next() {
                Ok(Some(item)) => stacks.take(item.provider, &item.record),
                Ok(None) => return Ok(stacks),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, provider: Option<ProviderId>, record: &Record<'_>) {
        match record {
            Record::Backtrace(backtrace) => self.all.push(Stack {
                time: backtrace.time.0,
                thread: backtrace.thread.thread,
                provider,
                process: backtrace.thread.process,
                frames: backtrace.frames.iter().collect(),
            }),
            Record::UserspaceObject(object) => {
                let key = ((provider, object.process), object.pointer);
                self.functions.insert(key, object.name.to_owned());
            }
            Record::Module(module) => {
                let key = ((provider, module.process), module.id);
                self.modules.insert(key, module.name.to_owned());
            }
            Record::Mapping(mapping) => {
                self.mappings.entry((provider, mapping.process)).or_default().push(*mapping);
            }
            Record::Event(event) if event.category == "fxtrec" && event.name == "stack_info" => {
                self.over = match event.args.get("over_ns") {
                    Some(Value::UInt32(over)) => Some(over.into()),
                    Some(Value::UInt64(over)) => Some(over),
                    _ => None,
                };
            }
            _ => {}
        }
    }

    /// The stack of a thread of that name, the outermost function first.
    pub(super) fn line(&self, thread: &str, stack: &Stack) -> String {
        let mut line = frame(thread);
        if stack.frames.is_empty() {
            line.push_str(";[no stack]");
        }
        for &address in stack.frames.iter().rev() {
            let in_kernel = address >> 63 == 1;
            let process = (stack.provider, if in_kernel { KERNEL } else { stack.process });
            let name = match self.functions.get(&(process, address)) {
                Some(name) => frame(name),
                None => self.place(process, address),
            };
            line.push(';');
            line.push_str(&name);
            if in_kernel {
                line.push_str("_[k]");
            }
        }
        line
    }

    /// A frame without a name: its module and the address in it, or its address alone.
    fn place(&self, process: Process, address: u64) -> String {
        let mappings = self.mappings.get(&process).map_or(&[][..], Vec::as_slice);
        // The last that was told is the one that holds.
        let mapping = mappings.iter().rev().find(|mapping| mapping.contains(address));
        let mut text = String::new();
        if let Some(mapping) = mapping
            && let Some(module) = self.modules.get(&(process, mapping.module))
        {
            let name = module.rsplit('/').next().unwrap_or(module);
            let within = (address - mapping.start).wrapping_add(mapping.module_address);
            // Writing to a string cannot fail.
            let _ = write!(text, "{}+{within:#x}", frame(name));
        } else {
            let _ = write!(text, "{address:#x}");
        }
        text
    }
}

/// A name as a part of a line: without what divides parts and lines.
pub(super) fn frame(name: &str) -> String {
    let part = |letter: char| if letter == ';' || letter.is_control() { '_' } else { letter };
    name.chars().map(part).collect()
}
