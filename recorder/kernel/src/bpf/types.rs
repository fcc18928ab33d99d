//! The kernel's description of itself: its types, which are needed to relocate programs, and the numbers of tracepoints, functions and
//! variables.
//!
//! The kernel describes more than a hundred thousand types, and `aya-obj` compares each structure that an object uses with all of them. So
//! it gets a description of only those types that relocations of the object can lead to ([`Types::part`]), where types have other numbers.
//! The rest is read here, in one pass: where each type is described, tracepoints (typedefs that begin with `btf_trace_`),
//! `bpf_rdonly_cast`, and the per-CPU variables, with their offsets.
//!
//! User space does not check whether a structure has a field: `facts.bpf.c` checks it in the same way as the programs that use the field.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;

use aya_obj::btf::Btf;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::events::BpfError;
use super::object::{Extern, FACTS, Object, ObjectError};
use crate::sys::Sys;

/// The number of a type.
pub type TypeId = u32;

/// Where the kernel describes its types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

// Kinds of types.
const INTEGER: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCTURE: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FORWARD: u32 = 7;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const FLOAT: u32 = 16;
const TAG_OF_DECLARATION: u32 = 17;
const TAG_OF_TYPE: u32 = 18;
const LONG_ENUM: u32 = 19;

/// The size of the header, and of a type without its entries.
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

const TRACEPOINT: &[u8] = b"btf_trace_";
const CAST: &[u8] = b"bpf_rdonly_cast";
/// The structure to which programs cast.
const TASK: &[u8] = b"task_struct";

/// The types of the running kernel.
#[derive(Debug)]
pub struct Types {
    all: Description,
    facts: HashMap<String, i32>,
}

/// A description of types (BTF).
#[derive(Debug, Default)]
struct Description {
    bytes: Vec<u8>,
    /// Where names begin.
    strings: usize,
    /// Where each type is, by its number; none has number 0.
    types: Vec<usize>,
    /// Types that relocations refer to, by the hash of their name, in ascending order.
    by_name: Vec<(u64, TypeId)>,
    /// Tracepoints, variables, the function that casts, and the structure to which it does.
    ids: FxHashMap<Vec<u8>, TypeId>,
    /// The section of a variable, and its offset there.
    places: FxHashMap<TypeId, (TypeId, u32)>,
}

/// The word at this place, in this machine's byte order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, word: u32) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = word.to_ne_bytes();
    Some(())
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// What follows a type: a number of entries, and the size of each; `None` for an unknown kind.
fn entries(info: u32) -> Option<(usize, usize)> {
    let count = info as usize & 0xffff;
    Some(match kind_of(info) {
        INTEGER | VARIABLE | TAG_OF_DECLARATION => (1, 4),
        ARRAY => (1, 12),
        STRUCTURE | UNION | SECTION | LONG_ENUM => (count, 12),
        ENUM | PROTOTYPE => (count, 8),
        0 | POINTER | FORWARD..=FUNCTION | FLOAT | TAG_OF_TYPE => (0, 0),
        _ => return None,
    })
}

/// Names are the same for relocations if they differ in what follows three underscores.
fn hash(name: &[u8]) -> u64 {
    let flavor = name.windows(3).position(|three| three == b"___");
    FxBuildHasher.hash_one(&name[..flavor.unwrap_or(name.len())])
}

impl Description {
    /// `None` if it is damaged.
    fn parse(bytes: Vec<u8>) -> Option<Description> {
        let part = |at| Some(word(&bytes, 4)?.checked_add(word(&bytes, at)?)? as usize);
        let (mut at, strings) = (part(8)?, part(16)?);
        let end = at.checked_add(word(&bytes, 12)? as usize)?;
        let mut read = Description { bytes, strings, types: vec![0], ..Description::default() };
        for id in 1.. {
            if at >= end {
                break;
            }
            read.types.push(at);
            let (name, info) = (word(&read.bytes, at)?, word(&read.bytes, at + 4)?);
            let (count, size) = entries(info)?;
            let first = at + TYPE_BYTES;
            at = first + count * size;
            let kind = kind_of(info);
            if kind == SECTION {
                for entry in (first..).step_by(size).take(count) {
                    let place = (id, word(&read.bytes, entry + 4)?);
                    read.places.insert(word(&read.bytes, entry)?, place);
                }
            }
            // Most functions of the kernel are not needed, and anonymous types cannot be found.
            if name == 0 || kind == SECTION {
                continue;
            }
            let name = read.name(name)?;
            let is_known = match kind {
                FUNCTION => name == CAST,
                TYPEDEF => name.starts_with(TRACEPOINT),
                STRUCTURE => name == TASK,
                VARIABLE => true,
                _ => false,
            };
            let hash = matches!(kind, INTEGER | STRUCTURE..=TYPEDEF | FLOAT | LONG_ENUM)
                .then(|| hash(name));
            if is_known {
                let name = name.to_vec();
                read.ids.entry(name).or_insert(id);
            }
            read.by_name.extend(hash.map(|hash| (hash, id)));
        }
        read.by_name.sort_unstable();
        Some(read)
    }

    /// The name at this offset.
    fn name(&self, offset: u32) -> Option<&[u8]> {
        let text = self.bytes.get(self.strings.checked_add(offset as usize)?..)?;
        text.split(|byte| *byte == 0).next()
    }

    /// The type with this number.
    fn get(&self, id: TypeId) -> Option<Type<'_>> {
        let at = *self.types.get(id as usize)?;
        let info = word(&self.bytes, at + 4)?;
        let (count, size) = entries(info)?;
        let bytes = self.bytes.get(at..at + TYPE_BYTES + count * size)?;
        Some(Type { bytes, kind: kind_of(info), count, size })
    }

    /// The types with the names of those in `object`, and the types that relocations compare with them or find in them, as a description of
    /// their own: a relocation follows pointers from a definition to a structure, but none out of a structure. `None` if the description is
    /// damaged.
    fn part(&self, object: &Description) -> Option<Vec<u8>> {
        let mut ids = Vec::new();
        for names in object.by_name.chunk_by(|a, b| a.0 == b.0) {
            let first = self.by_name.partition_point(|it| it.0 < names[0].0);
            let same = self.by_name[first..].iter().take_while(|it| it.0 == names[0].0);
            ids.extend(same.map(|it| it.1));
        }
        ids.sort_unstable();
        let mut numbers: FxHashMap<TypeId, u32> = ids.iter().copied().zip(1..).collect();
        numbers.insert(0, 0);
        for in_structures in [false, true] {
            let mut next = 0;
            while let Some(&id) = ids.get(next) {
                next += 1;
                let it = self.get(id)?;
                if match in_structures {
                    false => matches!(it.kind, STRUCTURE | UNION),
                    true => it.kind == POINTER,
                } {
                    continue;
                }
                for at in it.references() {
                    let id = word(it.bytes, at)?;
                    let new = numbers.len() as u32;
                    numbers.entry(id).or_insert_with(|| {
                        ids.push(id);
                        new
                    });
                }
            }
        }
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        let mut offsets = FxHashMap::from_iter([(0, 0)]);
        for id in ids {
            let it = self.get(id)?;
            let mut copy = it.bytes.to_vec();
            for at in it.references() {
                // Others are behind pointers.
                let new = numbers.get(&word(&copy, at)?).copied().unwrap_or(0);
                put(&mut copy, at, new)?;
            }
            for at in it.names() {
                let old = word(&copy, at)?;
                let new = match offsets.get(&old) {
                    Some(new) => *new,
                    None => {
                        let new = u32::try_from(strings.len()).ok()?;
                        strings.extend_from_slice(self.name(old)?);
                        strings.push(0);
                        offsets.insert(old, new);
                        new
                    }
                };
                put(&mut copy, at, new)?;
            }
            types.append(&mut copy);
        }
        let [of_types, of_strings] = [types.len(), strings.len()].map(u32::try_from);
        let header = [HEADER_BYTES as u32, 0, of_types.ok()?, of_types.ok()?, of_strings.ok()?];
        let mut part = self.bytes.get(..HEADER_BYTES)?.to_vec();
        for (at, word) in (4..).step_by(4).zip(header) {
            put(&mut part, at, word)?;
        }
        part.append(&mut types);
        part.append(&mut strings);
        Some(part)
    }
}

/// A type in a description.
#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    bytes: &'a [u8],
    kind: u32,
    /// The number of its entries, and the size of each.
    count: usize,
    size: usize,
}

impl Type<'_> {
    /// Where it names a type.
    fn references(self) -> impl Iterator<Item = usize> {
        let own: &[usize] = match self.kind {
            POINTER | TYPEDEF..=VARIABLE | TAG_OF_DECLARATION | TAG_OF_TYPE => &[8],
            ARRAY => &[12, 16],
            _ => &[],
        };
        let has_types = matches!(self.kind, STRUCTURE | UNION | PROTOTYPE);
        own.iter().copied().chain(self.entries(has_types).map(|at| at + 4))
    }

    /// Where it has a name.
    fn names(self) -> impl Iterator<Item = usize> {
        let has_names = matches!(self.kind, STRUCTURE | UNION | ENUM | PROTOTYPE | LONG_ENUM);
        [0].into_iter().chain(self.entries(has_names))
    }

    fn entries(self, are_wanted: bool) -> impl Iterator<Item = usize> {
        let Type { count, size, .. } = self;
        (0..if are_wanted { count } else { 0 }).map(move |entry| TYPE_BYTES + entry * size)
    }
}

impl Types {
    /// Reads the types of the running kernel.
    ///
    /// # Errors
    /// Returns [`BpfError::NoBtf`], [`BpfError::Object`].
    pub fn read(files: &dyn Sys) -> Result<Types, BpfError> {
        let bytes = files.read(Path::new(BTF_PATH)).map_err(|error| BpfError::NoBtf { error })?;
        Ok(Types::parse(bytes)?)
    }

    /// Reads the content of [`BTF_PATH`].
    ///
    /// # Errors
    /// Returns [`ObjectError`].
    pub fn parse(bytes: Vec<u8>) -> Result<Types, ObjectError> {
        let all = Description::parse(bytes).ok_or(ObjectError::Damaged)?;
        let mut types = Types { all, facts: HashMap::new() };
        types.facts = Object::new(&FACTS, &types)?.numbers();
        Ok(types)
    }

    /// The types that relocations of an object with these types can lead to.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(super) fn part(&self, object: &Btf) -> Result<Btf, ObjectError> {
        let object = Description::parse(object.to_bytes()).ok_or(ObjectError::Damaged)?;
        let part = self.all.part(&object).ok_or(ObjectError::Damaged)?;
        // Its byte order is that of this machine.
        Btf::parse(&part, Default::default()).map_err(ObjectError::Types)
    }

    /// The tracepoint of this name.
    ///
    /// # Errors
    /// Returns [`ObjectError::NoTracepoint`].
    pub fn tracepoint(&self, name: &str) -> Result<TypeId, ObjectError> {
        let id = self.all.ids.get(&[TRACEPOINT, name.as_bytes()].concat());
        id.copied().ok_or_else(|| ObjectError::NoTracepoint { name: name.to_owned() })
    }

    /// The per-CPU variable with this name.
    pub fn variable(&self, name: &str) -> Option<TypeId> {
        self.all.ids.get(name.as_bytes()).copied()
    }

    /// The function with which a program may read from untyped addresses (`bpf_rdonly_cast`, since Linux 6.2), and the structure as which it
    /// reads, that of a task.
    pub fn cast(&self) -> Option<Extern> {
        let id = |name: &[u8]| self.all.ids.get(name).copied();
        Some(Extern::Cast { function: id(CAST)?, task: id(TASK)? })
    }

    /// The variable in which x86 counts interrupts: from Linux 6.1 to 6.14, among others.
    pub fn count_variable(&self) -> Option<(&'static str, TypeId)> {
        ["__preempt_count", "pcpu_hot"].iter().find_map(|name| Some((*name, self.variable(name)?)))
    }

    /// The distance in bytes from one variable to another in the same section; negative if the other one precedes it.
    pub fn distance(&self, from: &str, to: &str) -> Option<i64> {
        let place = |name| self.all.places.get(&self.variable(name)?);
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

    /// The types of this kernel, and how `aya-obj` reads all of them.
    fn of_this_kernel() -> Option<(Types, Btf)> {
        let bytes = std::fs::read(BTF_PATH).ok()?;
        let all = Btf::parse(&bytes, Default::default()).expect("it is the kernel's");
        Some((Types::parse(bytes).expect("it is the kernel's"), all))
    }

    #[test]
    fn tracepoints_variables_and_facts_of_the_running_kernel_are_found() {
        let Some((types, all)) = of_this_kernel() else {
            eprintln!("skipped: the kernel does not describe its types");
            return;
        };
        let typedef = |name: &str| all.id_by_type_name_kind(name, BtfKind::Typedef).ok();
        let id = types.tracepoint("sched_switch").ok();
        assert!(id.is_some() && id == typedef("btf_trace_sched_switch"));
        let error = types.tracepoint("no_such_thing").expect_err("none");
        assert!(error.to_string().contains("'no_such_thing'"), "{error}");
        let variable = |name: &str| all.id_by_type_name_kind(name, BtfKind::Var).ok();
        assert_eq!(types.variable("runqueues"), variable("runqueues"));
        assert_eq!(types.distance("runqueues", "no_such_thing"), None);
        if types.variable("runqueues").is_some() {
            assert_eq!(types.distance("runqueues", "runqueues"), Some(0));
        }
        assert!(types.has("leads_to_run_queue"), "all that is tested on has groups of tasks");
        assert_eq!(types.fact("no_such_thing"), None);
        let task = all.id_by_type_name_kind("task_struct", BtfKind::Struct).expect("it has tasks");
        let cast = all.id_by_type_name_kind("bpf_rdonly_cast", BtfKind::Func).ok();
        assert_eq!(types.cast(), cast.map(|function| Extern::Cast { function, task }));
        let places = types.variable("pcpu_hot").and(types.fact("count_at"));
        assert!(places.is_none_or(|at| (1..64).contains(&at)), "{places:?}");
    }

    #[test]
    fn a_description_that_is_cut_is_refused_and_never_read_beyond() {
        let Ok(bytes) = std::fs::read(BTF_PATH) else { return };
        for length in [0, 3, 8, 23, 24, 100, bytes.len() / 2] {
            assert!(Description::parse(bytes[..length].to_vec()).is_none(), "{length}");
        }
        let mut unknown = bytes[..24].to_vec();
        for (at, word) in [(4, 24_u32), (8, 0), (12, 12), (16, 12), (20, 0)] {
            unknown[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        unknown.extend([0; 4]);
        unknown.extend((31_u32 << 24).to_ne_bytes());
        unknown.extend([0; 4]);
        assert!(Description::parse(unknown).is_none(), "a kind that nobody knows");
    }
}
