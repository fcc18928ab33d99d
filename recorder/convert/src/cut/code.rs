//! The code of a piece's backtraces: modules and mappings, which may be anywhere in the trace.
//!
//! A recorder looks up a process at its first backtrace, so the records that explain a frame may be long before the window, or after the
//! backtrace. Records that explain no frame of the piece are left out.
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

/// The process whose modules are the kernel and its loadable modules.
const KERNEL: Koid = Koid(0);

/// A module, without its process.
#[derive(Clone, Debug)]
struct Known {
    time: Nanos,
    name: String,
    build_id: Vec<u8>,
    /// Whether the part contains it.
    written: bool,
}

#[derive(Debug, Default)]
pub(super) struct Code {
    modules: FxHashMap<(Koid, u16), Known>,
    /// The mappings of each process that the piece does not have.
    mappings: FxHashMap<Koid, Vec<Mapping>>,
    /// All frames of the piece. An address may be the kernel's in any process, so each is noted for both.
    frames: BTreeSet<(Koid, u64)>,
}

impl Code {
    /// Remembers a module. It replaces an earlier one with the same number.
    pub(super) fn module(&mut self, module: &Module<'_>) {
        let known = Known {
            time: module.time,
            name: module.name.to_owned(),
            build_id: module.build_id.to_owned(),
            written: false,
        };
        self.modules.insert((module.process, module.id), known);
    }

    /// Remembers a mapping, and writes it if a frame of the piece is in it.
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

    /// Writes the known modules and mappings for the frames of a backtrace of the piece.
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

/// The last address of a mapping; `None` if it is empty or exceeds the address space.
fn last_address(mapping: &Mapping) -> Option<u64> {
    mapping.start.checked_add(mapping.length.checked_sub(1)?)
}
