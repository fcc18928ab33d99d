//! The code that backtraces of a piece are in: modules and mappings, which stand anywhere in the trace.
//!
//! A recorder looks a process up when it meets its first backtrace, so what explains a frame may stand long before the
//! window, or behind the backtrace. What explains no frame of the piece is left out.
//!
//! ```text
//! trace    module a  mapping a   [ backtrace in a    backtrace in b   module b  mapping b ]   module c  mapping c
//! piece                          [ module a  mapping a  backtrace in a   backtrace in b   module b  mapping b ]
//! ```

use std::collections::BTreeSet;

use fxt_reader::record::{Backtrace, Mapping, Module};
use fxt_reader::{Koid, Nanos};
use fxt_writer::Ticks;
use fxt_writer::record::{self as write, ProcessName};
use rustc_hash::FxHashMap;

use super::{Target, Window};
use crate::error::ConvertError;

/// The process whose modules are the kernel and what it has loaded.
const KERNEL: Koid = Koid(0);

/// A module, without its process.
#[derive(Clone, Debug)]
struct Known {
    time: Nanos,
    name: String,
    build_id: Vec<u8>,
    /// Whether the piece has it.
    written: bool,
}

#[derive(Debug, Default)]
pub(super) struct Code {
    modules: FxHashMap<(Koid, u16), Known>,
    /// The mappings of each process that the piece does not have.
    mappings: FxHashMap<Koid, Vec<Mapping>>,
    /// All frames of the piece. Those of any process may be the kernel's, so each is noted for both.
    frames: BTreeSet<(Koid, u64)>,
}

impl Code {
    /// Takes note of a module. One of the same number takes the place of the earlier.
    pub(super) fn module(&mut self, module: &Module<'_>) {
        let known = Known {
            time: module.time,
            name: module.name.to_owned(),
            build_id: module.build_id.to_owned(),
            written: false,
        };
        self.modules.insert((module.process, module.id), known);
    }

    /// Takes note of a mapping, and writes it if a frame of the piece is in it.
    pub(super) fn mapping(
        &mut self,
        mapping: &Mapping,
        window: &Window,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let Some(last) = last_address(mapping) else { return Ok(()) };
        let process = mapping.process;
        match self.frames.range((process, mapping.start)..=(process, last)).next() {
            Some(_) => self.write(mapping, window, target),
            None => {
                self.mappings.entry(process).or_default().push(*mapping);
                Ok(())
            }
        }
    }

    /// Writes what explains the frames of a backtrace of the piece, as far as it is known.
    pub(super) fn explain(
        &mut self,
        backtrace: &Backtrace<'_>,
        window: &Window,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        for frame in backtrace.frames.iter() {
            for process in [backtrace.thread.process, KERNEL] {
                if !self.frames.insert((process, frame)) {
                    continue;
                }
                let Some(mappings) = self.mappings.get_mut(&process) else { continue };
                let found: Vec<Mapping> =
                    mappings.extract_if(.., |mapping| mapping.contains(frame)).collect();
                for mapping in &found {
                    self.write(mapping, window, target)?;
                }
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        mapping: &Mapping,
        window: &Window,
        target: &mut Target<'_>,
    ) -> Result<(), ConvertError> {
        let (process, id) = (mapping.process, mapping.module);
        let within = |time: Nanos| Ticks(time.max(window.from).min(window.to).0);
        if let Some(module) = self.modules.get_mut(&(process, id)).filter(|known| !known.written) {
            module.written = true;
            target.write(&write::Module {
                time: within(module.time),
                process: ProcessName::Inline(process),
                id,
                name: &module.name,
                build_id: &module.build_id,
            })?;
        }
        Ok(target.write(&write::Mapping {
            time: within(mapping.time),
            process: ProcessName::Inline(process),
            module: id,
            flags: mapping.flags,
            start: mapping.start,
            length: mapping.length,
            module_address: mapping.module_address,
        })?)
    }
}

/// The last address of a mapping; none of one that is empty or ends beyond all addresses.
fn last_address(mapping: &Mapping) -> Option<u64> {
    mapping.start.checked_add(mapping.length.checked_sub(1)?)
}
