//! The kernel's description of itself: its types, which are needed to relocate programs, and the numbers of tracepoints, functions and
//! variables.
//!
//! `aya-obj` reads the types. The names that it does not expose are read here, in one pass: tracepoints (typedefs that begin with
//! `btf_trace_`), `bpf_rdonly_cast`, and the per-CPU variables, with their offsets.
//!
//! User space does not check whether a structure has a field: `facts.bpf.c` checks it in the same way as the programs that use the field.

use std::collections::HashMap;
use std::path::Path;

use aya_obj::btf::Btf;

use super::events::BpfError;
use super::object::{FACTS, Object, ObjectError};
use crate::sys::Sys;

/// The number of a type.
pub type TypeId = u32;

/// Where the kernel describes its types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

// Kinds of types.
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;

const TRACEPOINT: &[u8] = b"btf_trace_";
const CAST: &[u8] = b"bpf_rdonly_cast";

/// The types of the running kernel.
#[derive(Debug)]
pub struct Types {
    pub(super) btf: Btf,
    names: Names,
    facts: HashMap<String, i32>,
}

#[derive(Debug, Default)]
struct Names {
    ids: HashMap<Vec<u8>, TypeId>,
    /// The section of a variable, and its offset there.
    places: HashMap<TypeId, (TypeId, u32)>,
}

impl Names {
    /// Reads the content of [`BTF_PATH`]; `None` if it is damaged.
    fn parse(bytes: &[u8]) -> Option<Names> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let part = |at: usize| Some(word(4)?.checked_add(word(at)?)? as usize);
        let (mut at, strings) = (part(8)?, part(16)?);
        let end = at.checked_add(word(12)? as usize)?;
        let mut names = Names::default();
        for id in 1.. {
            if at >= end {
                break;
            }
            let (name, info) = (word(at)? as usize, word(at + 4)?);
            let (kind, entries) = (info >> 24 & 0x1f, info as usize & 0xffff);
            let first = at + 12;
            if [TYPEDEF, FUNCTION, VARIABLE].contains(&kind) {
                let name =
                    bytes.get(strings.checked_add(name)?..)?.split(|byte| *byte == 0).next()?;
                if match kind {
                    TYPEDEF => name.starts_with(TRACEPOINT),
                    FUNCTION => name == CAST,
                    _ => true,
                } {
                    names.ids.entry(name.to_vec()).or_insert(id);
                }
            }
            if kind == SECTION {
                for entry in (first..).step_by(12).take(entries) {
                    names.places.insert(word(entry)?, (id, word(entry + 4)?));
                }
            }
            at = first
                + match kind {
                    1 | VARIABLE | 17 => 4,
                    3 => 12,
                    4 | 5 | SECTION | 19 => 12 * entries,
                    6 | 13 => 8 * entries,
                    0 | 2 | 7..=18 => 0,
                    _ => return None,
                };
        }
        Some(names)
    }
}

impl Types {
    /// Reads the types of the running kernel.
    ///
    /// # Errors
    /// Returns [`BpfError::NoBtf`], [`BpfError::Object`].
    pub fn read(files: &dyn Sys) -> Result<Types, BpfError> {
        let bytes = files.read(Path::new(BTF_PATH)).map_err(|error| BpfError::NoBtf { error })?;
        Ok(Types::parse(&bytes)?)
    }

    /// Reads the content of [`BTF_PATH`].
    ///
    /// # Errors
    /// Returns [`ObjectError`].
    pub fn parse(bytes: &[u8]) -> Result<Types, ObjectError> {
        // Their byte order is that of this machine.
        let btf = Btf::parse(bytes, Default::default()).map_err(ObjectError::Types)?;
        let names = Names::parse(bytes).ok_or(ObjectError::Damaged)?;
        let mut types = Types { btf, names, facts: HashMap::new() };
        types.facts = Object::new(&FACTS, &types)?.numbers();
        Ok(types)
    }

    /// The tracepoint of this name.
    ///
    /// # Errors
    /// Returns [`ObjectError::NoTracepoint`].
    pub fn tracepoint(&self, name: &str) -> Result<TypeId, ObjectError> {
        let id = self.names.ids.get(&[TRACEPOINT, name.as_bytes()].concat());
        id.copied().ok_or_else(|| ObjectError::NoTracepoint { name: name.to_owned() })
    }

    /// The per-CPU variable with this name.
    pub fn variable(&self, name: &str) -> Option<TypeId> {
        self.names.ids.get(name.as_bytes()).copied()
    }

    /// The function with which a program may read from untyped addresses (`bpf_rdonly_cast`, since Linux 6.2).
    pub fn cast(&self) -> Option<TypeId> {
        self.names.ids.get(CAST).copied()
    }

    /// The variable in which x86 counts interrupts: from Linux 6.1 to 6.14, among others.
    pub fn count_variable(&self) -> Option<(&'static str, TypeId)> {
        ["__preempt_count", "pcpu_hot"].iter().find_map(|name| Some((*name, self.variable(name)?)))
    }

    /// The distance in bytes from one variable to another in the same section; negative if the other one precedes it.
    pub fn distance(&self, from: &str, to: &str) -> Option<i64> {
        let place = |name| self.names.places.get(&self.variable(name)?);
        let ((section, from), (other, to)) = (place(from)?, place(to)?);
        (section == other).then(|| i64::from(*to) - i64::from(*from))
    }

    /// The value of this fact in `facts.bpf.c`; `None` if it has no number on this kernel.
    pub fn fact(&self, name: &str) -> Option<i32> {
        self.facts.get(name).copied()
    }

    /// Whether the fact holds.
    pub fn has(&self, name: &str) -> bool {
        self.fact(name).is_some_and(|number| number != 0)
    }
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;

    fn of_this_kernel() -> Option<Types> {
        let bytes = std::fs::read(BTF_PATH).ok()?;
        Some(Types::parse(&bytes).expect("it is the kernel's"))
    }

    #[test]
    fn tracepoints_variables_and_facts_of_the_running_kernel_are_found() {
        let Some(types) = of_this_kernel() else {
            eprintln!("skipped: the kernel does not describe its types");
            return;
        };
        let typedef = |name: &str| types.btf.id_by_type_name_kind(name, BtfKind::Typedef).ok();
        let id = types.tracepoint("sched_switch").ok();
        assert!(id.is_some() && id == typedef("btf_trace_sched_switch"));
        let error = types.tracepoint("no_such_thing").expect_err("none");
        assert!(error.to_string().contains("'no_such_thing'"), "{error}");
        let variable = |name: &str| types.btf.id_by_type_name_kind(name, BtfKind::Var).ok();
        assert_eq!(types.variable("runqueues"), variable("runqueues"));
        assert_eq!(types.distance("runqueues", "no_such_thing"), None);
        if types.variable("runqueues").is_some() {
            assert_eq!(types.distance("runqueues", "runqueues"), Some(0));
        }
        assert!(types.has("leads_to_run_queue"), "all that is tested on has groups of tasks");
        assert_eq!(types.fact("no_such_thing"), None);
        let places = types.variable("pcpu_hot").and(types.fact("count_at"));
        assert!(places.is_none_or(|at| (1..64).contains(&at)), "{places:?}");
    }

    #[test]
    fn a_description_that_is_cut_is_refused_and_never_read_beyond() {
        let Ok(bytes) = std::fs::read(BTF_PATH) else { return };
        for length in [0, 3, 8, 23, 24, 100, bytes.len() / 2] {
            assert!(Names::parse(&bytes[..length]).is_none(), "{length}");
        }
        let mut unknown = bytes[..24].to_vec();
        for (at, word) in [(4, 24_u32), (8, 0), (12, 12), (16, 12), (20, 0)] {
            unknown[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        unknown.extend([0; 4]);
        unknown.extend((31_u32 << 24).to_ne_bytes());
        unknown.extend([0; 4]);
        assert!(Names::parse(&unknown).is_none(), "a kind that nobody knows");
    }
}
