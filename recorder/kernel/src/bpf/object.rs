//! Programs that were compiled from C (`recorder/kernel/bpf`), prepared for the running kernel.
//!
//! ```text
//!   object (ELF, BTF) --> fields where this kernel has them --> choices and maps in their places --> instructions
//!                         aya-obj, once                         for each way that is tried
//! ```
//!
//! `aya-obj` reads the object and relocates it. The neighbouring modules create and share the maps, so an object only names them. The
//! remaining steps are done here:
//!
//! - A choice is a variable that a program only reads. The load becomes a constant, so the kernel's verifier removes disabled code, and the
//!   program loads nothing from memory for it at run time.
//! - A map that is memory becomes the address of its value.
//! - Functions, variables and types of the kernel that have no fixed number are marked by numbers that have no other meaning
//!   ([`Extern`]).

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};

use aya_obj::generated::bpf_insn;

use super::programs::Program;
use super::sys::{Insn, On};
use super::types::{TypeId, Types};

/// The reason why a compiled program cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    #[error("cannot read the kernel's type information: {0}")]
    Types(aya_obj::btf::BtfError),
    #[error("cannot read the kernel's type information: it is damaged")]
    Damaged,
    #[error("the kernel has no tracepoint '{name}'")]
    NoTracepoint { name: String },
    #[error("cannot read the BPF programs '{object}': {error}")]
    Parse { object: &'static str, error: aya_obj::ParseError },
    #[error("the BPF programs '{object}' do not fit this kernel's types: {error}")]
    Fields { object: &'static str, error: aya_obj::btf::BtfRelocationError },
    #[error("cannot link the BPF programs '{object}': {error}")]
    Link { object: &'static str, error: aya_obj::relocation::EbpfRelocationError },
    /// An internal error.
    #[error("the BPF programs '{object}' have no {what}")]
    Missing { object: &'static str, what: String },
}

/// The bytes of an object, aligned so that its structures can be read in place.
#[repr(C, align(8))]
#[derive(Debug)]
struct Aligned<T: ?Sized>(T);

/// A compiled source file.
#[derive(Debug)]
pub struct Compiled {
    pub name: &'static str,
    bytes: &'static Aligned<[u8]>,
}

macro_rules! compiled {
    ($name:literal) => {
        Compiled {
            name: $name,
            #[cfg(target_arch = "x86_64")]
            bytes: &Aligned(*include_bytes!(concat!("../../bpf/objects/x86_64/", $name, ".o"))),
            // On other machines, the registers of programs at that point are unknown, and stores would need explicit ordering.
            #[cfg(not(target_arch = "x86_64"))]
            bytes: &Aligned(*include_bytes!(concat!("../../bpf/objects/aarch64/", $name, ".o"))),
        }
    };
}

/// The programs on system calls.
pub static CALLS: Compiled = compiled!("calls");
/// The programs that count for metrics.
pub static COUNTS: Compiled = compiled!("counts");
/// The programs on switches and wakeups.
pub static EVENTS: Compiled = compiled!("events");
/// The features of the kernel.
pub static FACTS: Compiled = compiled!("facts");
/// The programs on new threads and cgroups.
pub static SCOPE: Compiled = compiled!("scope");
/// The programs that take stacks, and note which threads wait if the program on switches does not.
pub static STACKS: Compiled = compiled!("stacks");
/// The programs on kernel locks.
pub static CONTENTION: Compiled = compiled!("contention");
/// The programs that follow packets.
pub static PACKETS: Compiled = compiled!("packets");
/// The programs that follow disk requests.
pub static REQUESTS: Compiled = compiled!("requests");
/// The program that probes run.
pub static PROBES: Compiled = compiled!("probes");
/// The programs on interrupts, and on requests for a switch.
pub static INTERRUPTS: Compiled = compiled!("interrupts");

/// A variable that a program only reads, and its value.
pub type Choice = (&'static str, u64);

/// The kernel functions, variables and types without a fixed number that a program uses, by the number of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extern {
    /// `bpf_rdonly_cast`, and the structure to which programs cast.
    Cast { function: TypeId, task: TypeId },
    /// The variable in which x86 counts interrupts.
    Variable(TypeId),
}

/// The parameters of the programs of an object.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// A map that programs look up.
    Map(BorrowedFd<'a>),
    /// A map whose only value programs use in place.
    Memory(BorrowedFd<'a>),
}

impl Given<'_> {
    fn fd(self) -> i32 {
        let (Given::Map(fd) | Given::Memory(fd)) = self;
        fd.as_raw_fd()
    }
}

/// An object with field offsets for the running kernel.
#[derive(Debug)]
pub struct Object {
    name: &'static str,
    inner: aya_obj::Object,
}

impl Object {
    /// Reads the object, and puts the places of fields into it.
    ///
    /// # Errors
    /// Returns [`ObjectError`].
    pub fn new(compiled: &Compiled, types: &Types) -> Result<Object, ObjectError> {
        let mut object = Object::without_fields(compiled)?;
        if let Some(own) = &object.inner.btf {
            let relocated = object.inner.relocate_btf(&types.part(own)?);
            relocated.map_err(|error| ObjectError::Fields { object: object.name, error })?;
        }
        Ok(object)
    }

    /// Reads an object that uses no fields of the kernel.
    ///
    /// # Errors
    /// Returns [`ObjectError::Parse`].
    pub fn without_fields(compiled: &Compiled) -> Result<Object, ObjectError> {
        let name = compiled.name;
        let inner = aya_obj::Object::parse(&compiled.bytes.0);
        let inner = inner.map_err(|error| ObjectError::Parse { object: name, error })?;
        Ok(Object { name, inner })
    }

    /// The numbers that its functions return (the functions do nothing else), without those for which this kernel has no number.
    pub fn numbers(&self) -> HashMap<String, i32> {
        let number = |(name, program): (&String, &aya_obj::Program)| {
            let function = self.inner.functions.get(&program.function_key())?;
            let first = function.instructions.first().filter(|first| first.code == MOVE_NUMBER)?;
            Some((name.clone(), first.imm))
        };
        self.inner.programs.iter().filter_map(number).collect()
    }

    /// The programs with these parameters and maps, and the kernel objects that they use, which must exist even if only a disabled branch
    /// uses them.
    ///
    /// # Errors
    /// Returns [`ObjectError`], if the object has no such parameter, or has a map that is not given.
    pub fn with(
        &self,
        choices: &[Choice],
        maps: &[(&'static str, Given<'_>)],
        externs: &[Extern],
    ) -> Result<Programs, ObjectError> {
        let (object, mut inner) = (self.name, self.inner.clone());
        let missing = |what| ObjectError::Missing { object, what };
        let bytes: Vec<_> =
            choices.iter().map(|(name, value)| (*name, value.to_ne_bytes())).collect();
        let values: HashMap<&str, (&[u8], bool)> =
            bytes.iter().map(|(name, value)| (*name, (&value[..], true))).collect();
        inner.patch_map_data(values).map_err(|error| ObjectError::Parse { object, error })?;
        let named = std::mem::take(&mut inner.maps);
        let mut memory = HashSet::new();
        let mut bound = Vec::new();
        for (name, map) in &named {
            let fd = match maps.iter().find(|(it, _)| it == name) {
                Some((_, given)) => {
                    if let Given::Memory(_) = given {
                        memory.insert(given.fd());
                    }
                    given.fd()
                }
                None if name == CHOICES => CHOICES_FD,
                None => return Err(missing(format!("map for '{name}'"))),
            };
            bound.push((name.as_str(), fd, map));
        }
        let choices = named.get(CHOICES).map_or(&[][..], |map| map.data());
        inner
            .relocate_maps(bound.into_iter(), &HashSet::new())
            .map_err(|error| ObjectError::Link { object, error })?;
        let mut programs = HashMap::new();
        for (name, program) in &inner.programs {
            let function = inner.functions.get(&program.function_key());
            let function = function.ok_or_else(|| missing(format!("function '{name}'")))?;
            let insns = finish(&function.instructions, choices, &memory, externs)
                .ok_or_else(|| missing(format!("usable choices in '{name}'")))?;
            programs.insert(name.clone(), insns);
        }
        Ok(Programs { object, license: inner.license, programs })
    }
}

/// The section of the choices.
const CHOICES: &str = ".rodata";
/// In place of a map's descriptor.
const CHOICES_FD: i32 = i32::MIN;

// Codes of instructions, and the pseudo-register in a load of eight bytes.
const LOAD_WIDE: u8 = 0x18;
const LOAD_DOUBLE: u8 = 0x79;
const MOVE_NUMBER: u8 = 0xb7;
const JUMP: u8 = 0x05;
const OF_MAP: u8 = 1;
const OF_VALUE: u8 = 2;
const OF_TYPE: u8 = 3;
const CALL: u8 = 0x85;
/// The value of the register field in a call of a function by the number of its type.
const BY_TYPE: u8 = 2;

/// Used by programs in place of [`Extern`], as in `fxtrec.h`.
const CAST_MARK: i32 = 0x10001;
const VARIABLE_MARK: i32 = 0x10002;
const TASK_MARK: i32 = 0x10003;

/// The instructions of a program whose maps are descriptors; `None` if a parameter is not loaded in the expected way.
fn finish(
    insns: &[bpf_insn],
    choices: &[u8],
    memory: &HashSet<i32>,
    externs: &[Extern],
) -> Option<Vec<Insn>> {
    let cast = externs.iter().find_map(|known| match *known {
        Extern::Cast { function, task } => Some((function.cast_signed(), task.cast_signed())),
        Extern::Variable(_) => None,
    });
    let variable = externs.iter().find_map(|known| match *known {
        Extern::Variable(id) => Some(id.cast_signed()),
        Extern::Cast { .. } => None,
    });
    let insn = |it: &bpf_insn| Insn::new(it.code, it.dst_reg(), it.src_reg(), it.off, it.imm);
    // The kernel removes jumps to the next instruction.
    let nothing = Insn::new(JUMP, 0, 0, 0, 0);
    let mut finished: Vec<Insn> = insns.iter().map(insn).collect();
    let mut at = 0;
    while let Some(load) = insns.get(at) {
        let target = load.dst_reg();
        if load.code == LOAD_WIDE && load.src_reg() == OF_VALUE && load.imm == CHOICES_FD {
            let use_of_it = insns.get(at + 2).filter(|it| {
                it.code == LOAD_DOUBLE && (it.src_reg(), it.dst_reg()) == (target, target)
            })?;
            let begin = insns[at + 1].imm.checked_add(use_of_it.off.into())?;
            let value = choices.get(usize::try_from(begin).ok()?..)?.first_chunk()?;
            let value = u64::from_ne_bytes(*value);
            [finished[at], finished[at + 1], finished[at + 2]] =
                match i32::try_from(value.cast_signed()) {
                    Ok(value) => [nothing, nothing, Insn::new(MOVE_NUMBER, target, 0, 0, value)],
                    Err(_) => {
                        let [low, high] = [value as u32, (value >> 32) as u32];
                        let low = Insn::new(LOAD_WIDE, target, 0, 0, low.cast_signed());
                        [low, Insn::new(0, 0, 0, 0, high.cast_signed()), nothing]
                    }
                };
        } else if load.code == LOAD_WIDE && load.src_reg() == OF_MAP && memory.contains(&load.imm) {
            finished[at] = Insn::new(LOAD_WIDE, target, OF_VALUE, 0, load.imm);
            finished[at + 1] = Insn::new(0, 0, 0, 0, 0);
        } else if (load.code, load.src_reg(), load.imm) == (LOAD_WIDE, 0, VARIABLE_MARK) {
            if let Some(id) = variable {
                finished[at] = Insn::new(LOAD_WIDE, target, OF_TYPE, 0, id);
            }
        } else if let Some((function, task)) = cast {
            match (load.code, load.src_reg(), load.imm) {
                (CALL, 0, CAST_MARK) => finished[at] = Insn::new(CALL, 0, BY_TYPE, 0, function),
                (LOAD_WIDE, 0, TASK_MARK) => {
                    finished[at] = Insn::new(LOAD_WIDE, target, 0, 0, task);
                }
                _ => {}
            }
        }
        at += if load.code == LOAD_WIDE { 2 } else { 1 };
    }
    Some(finished)
}

/// Programs that can be loaded.
#[derive(Debug)]
pub struct Programs {
    object: &'static str,
    license: CString,
    programs: HashMap<String, Vec<Insn>>,
}

impl Programs {
    /// The program with this name, for a tracepoint.
    ///
    /// # Errors
    /// Returns [`ObjectError::Missing`].
    pub fn on(&self, name: &'static str, tracepoint: u32) -> Result<Program, ObjectError> {
        self.get(name, On::Tracepoint(tracepoint))
    }

    /// The program with this name, and its attach point.
    ///
    /// # Errors
    /// Returns [`ObjectError::Missing`].
    pub fn get(&self, name: &'static str, on: On) -> Result<Program, ObjectError> {
        let insns = self.programs.get(name).cloned();
        let insns = insns.ok_or_else(|| ObjectError::Missing {
            object: self.object,
            what: format!("program '{name}'"),
        })?;
        Ok(Program { name, on, insns, license: self.license.clone().into() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::mem::offset_of;
    use std::os::fd::AsFd;

    use aya_obj::btf::{Btf, BtfKind};

    use super::*;
    use crate::bpf::stacks::{AHEAD_BYTES, Head, KERNEL_FRAMES, Python, Registers, Shared};
    use crate::bpf::types::BTF_PATH;
    use crate::bpf::{
        account, contentions, counts, groups, lane, origins, packets, probes, requests,
    };

    fn read(compiled: &Compiled) -> aya_obj::Object {
        aya_obj::Object::parse(&compiled.bytes.0).expect(compiled.name)
    }

    /// The size of a structure in the object, and the offsets of its members, according to the object's own type information.
    fn structure(compiled: &Compiled, name: &str) -> (usize, HashMap<String, usize>) {
        let btf = read(compiled).btf.expect("objects keep their types");
        let id = btf.id_by_type_name_kind(name, BtfKind::Struct).expect(name);
        let bytes = btf.to_bytes();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a word"));
        let strings = (word(4) + word(16)) as usize;
        let text = |at: usize| {
            let text = bytes[strings + word(at) as usize..].split(|byte| *byte == 0).next();
            String::from_utf8_lossy(text.expect("one at least")).into_owned()
        };
        let mut at = (word(4) + word(8)) as usize;
        let entries = |at: usize| word(at + 4) as usize & 0xffff;
        for _ in 1..id {
            at += 12
                + match word(at + 4) >> 24 & 0x1f {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * entries(at),
                    6 | 13 => 8 * entries(at),
                    _ => 0,
                };
        }
        let members = (at + 12..).step_by(12).take(entries(at));
        let members = members.map(|at| (text(at), word(at + 8) as usize / 8)).collect();
        (word(at + 8) as usize, members)
    }

    fn assert_places(compiled: &Compiled, name: &str, bytes: usize, places: &[(&str, i16)]) {
        let (found, members) = structure(compiled, name);
        assert_eq!(found, bytes, "{name}");
        for (member, place) in places {
            let place = usize::try_from(*place).expect("positive");
            assert_eq!(members.get(*member), Some(&place), "{name}.{member}");
        }
    }

    fn assert_member(compiled: &Compiled, name: &str, member: &str, place: usize) {
        assert_eq!(structure(compiled, name).1.get(member), Some(&place), "{name}.{member}");
    }

    #[test]
    fn what_programs_and_user_space_share_lies_where_both_think() {
        assert_places(&INTERRUPTS, "account", account::LINE_BYTES, &[]);
        assert_places(&INTERRUPTS, "origins", origins::LINE_BYTES, &[]);
        assert_places(&PACKETS, "sent", packets::TABLE_BYTES / 1024, &[]);
        assert_places(&REQUESTS, "request_note", requests::TABLE_BYTES / 1024, &[]);
        assert_places(&EVENTS, "told_origin", origins::TOLD_BYTES / 1024, &[]);
        use lane::at as of_lane;
        let parts = [
            ("head", of_lane::HEAD),
            ("busy", of_lane::BUSY),
            ("lost", of_lane::LOST),
            ("told", of_lane::TOLD),
            ("nested", of_lane::NESTED),
            ("fired", of_lane::FIRED),
            ("tail", of_lane::TAIL),
            ("bell", of_lane::BELL),
        ];
        // Seven bytes of padding follow the beginning of the records.
        assert_places(&EVENTS, "lane", lane::at::RECORDS + lane::RECORD_BYTES, &parts);
        assert_member(&EVENTS, "lane", "records", lane::at::RECORDS);
        use lane::part;
        let kind = ("kind", part::KIND);
        let flags = ("flags", part::FLAGS);
        let time = ("time", part::TIME);
        let tid = ("tid", part::TID);
        let own = ("own_cgroup", part::OWN_CGROUP);
        let records: [(&str, &[(&str, i16)]); 15] = [
            (
                "switch_record",
                &[
                    time,
                    ("prev", part::TID),
                    ("next", part::SECOND_TID),
                    ("state", part::STATE),
                    ("syscall", part::SYSCALL),
                    kind,
                    flags,
                    ("prio", part::PRIO),
                    ("next_prio", part::SECOND_PRIO),
                ],
            ),
            (
                "wake_record",
                &[
                    time,
                    tid,
                    ("current", part::SECOND_TID),
                    ("waker", part::WAKER),
                    kind,
                    flags,
                    ("prio", part::PRIO),
                    ("cpu", part::CPU),
                ],
            ),
            ("lost_record", &[time, ("count", part::COUNT), kind]),
            ("name_record", &[("comm", part::NAME), ("tid", part::NAMED_TID), kind]),
            ("slice_record", &[("stolen", part::STOLEN), kind]),
            (
                "taken_record",
                &[
                    ("irq_ns", part::IRQ_NS),
                    ("asked_ns", part::ASKED_NS),
                    ("irqs", part::IRQS),
                    kind,
                    flags,
                ],
            ),
            (
                "throttled_record",
                &[("kept", part::KEPT), ("cgroup", part::CGROUP), own, kind, flags],
            ),
            (
                "wait_record",
                &[("kept", part::KEPT), tid, ("cpu", part::WAIT_CPU), own, kind, flags],
            ),
            (
                "moved_record",
                &[time, tid, ("to_cpu", part::TO_CPU), ("from_cpu", part::FROM_CPU), kind],
            ),
            (
                "futex_record",
                &[
                    ("address", part::ADDRESS),
                    ("word", part::WORD),
                    ("after_8", part::WORD_AFTER_8),
                    ("value", part::VALUE),
                    kind,
                    ("operation", part::OPERATION),
                    ("after_16", part::WORD_AFTER_16),
                ],
            ),
            ("contention_record", &[("address", part::ADDRESS), ("flags", part::LOCK_FLAGS), kind]),
            (
                "call_record",
                &[
                    time,
                    ("result", part::RESULT),
                    ("tid", part::CALLER),
                    kind,
                    flags,
                    ("number", part::NUMBER),
                ],
            ),
            (
                "origin_record",
                &[
                    ("what", part::WHAT),
                    ("since", part::SINCE),
                    ("number", part::ORIGIN_NUMBER),
                    kind,
                    ("origin", part::ORIGIN),
                ],
            ),
            ("more_record", &[("bytes", part::MORE), kind]),
            (
                "occupant_record",
                &[
                    time,
                    ("tid", part::TID),
                    ("cpu", part::OCCUPIED_CPU),
                    kind,
                    ("prio", part::PRIO),
                ],
            ),
        ];
        for (record, parts) in records {
            // A structure that consists of bytes has no padding.
            let bytes = if record == "more_record" { 21 } else { lane::RECORD_BYTES };
            assert_places(&EVENTS, record, bytes, parts);
        }
        let members = groups::at::MEMBERS as i16;
        assert_places(&SCOPE, "groups", groups::at::END, &[("members", members)]);
        assert_member(&SCOPE, "groups", "parents", groups::at::PARENTS);
        assert_member(&SCOPE, "groups", "made", groups::at::MADE);
        assert_member(&SCOPE, "groups", "full", groups::at::FULL);
        for (member, place) in [
            ("since", offset_of!(Head, since)),
            ("until", offset_of!(Head, until)),
            ("tid", offset_of!(Head, tid)),
            ("pid", offset_of!(Head, pid)),
            ("user", offset_of!(Head, user)),
            ("kernel", offset_of!(Head, kernel)),
            ("space", offset_of!(Head, space)),
            ("registers", offset_of!(Head, registers)),
            ("copied", offset_of!(Head, copied)),
            ("kind", offset_of!(Head, kind)),
            ("woken", offset_of!(Head, woken)),
            ("python", offset_of!(Head, python)),
            ("python_frames", offset_of!(Head, python_frames)),
            ("object", offset_of!(Head, object)),
            ("frames", size_of::<Head>()),
        ] {
            assert_member(&STACKS, "sample", member, place);
        }
        for (member, place) in [
            ("instruction", offset_of!(Registers, instruction)),
            ("stack", offset_of!(Registers, stack)),
            ("frame", offset_of!(Registers, frame)),
            ("link", offset_of!(Registers, link)),
        ] {
            assert_member(&STACKS, "user_registers", member, place);
        }
        use crate::bpf::stacks::Described;
        for (member, place) in [
            ("kind", offset_of!(Described, kind)),
            ("descriptor", offset_of!(Described, descriptor)),
            ("family", offset_of!(Described, family)),
            ("protocol", offset_of!(Described, protocol)),
            ("local_port", offset_of!(Described, local_port)),
            ("remote_port", offset_of!(Described, remote_port)),
            ("peer", offset_of!(Described, peer)),
            ("local", offset_of!(Described, local)),
            ("remote", offset_of!(Described, remote)),
            ("device", offset_of!(Described, device)),
            ("name", offset_of!(Described, name)),
            ("parent", offset_of!(Described, parent)),
        ] {
            assert_member(&STACKS, "described", member, place);
        }
        assert_places(&STACKS, "described", size_of::<Described>(), &[]);
        let bytes = size_of::<Head>() + KERNEL_FRAMES * size_of::<u64>();
        assert_places(&STACKS, "sample", bytes, &[]);
        assert_places(
            &STACKS,
            "scratch",
            AHEAD_BYTES + bytes,
            &[("pending", 0), ("sample", i16::try_from(AHEAD_BYTES).expect("near"))],
        );
        let mut at = (0..).step_by(8);
        for member in [
            "interpreter",
            "key",
            "threads",
            "next_thread",
            "thread_id",
            "thread_frame",
            "inner_frame",
            "frame_bytes",
            "previous",
            "code",
            "instruction",
            "entry",
            "least_entry",
        ] {
            assert_member(&STACKS, "python", member, at.next().expect("endless"));
        }
        assert_places(&STACKS, "python", size_of_val(&Python::default().words()), &[]);
        assert_places(&STACKS, "counts_of_stacks", size_of::<Shared>(), &[]);
        assert_member(&STACKS, "counts_of_stacks", "no_room", offset_of!(Shared, no_room));
        assert_member(&STACKS, "counts_of_stacks", "given_up", offset_of!(Shared, given_up));
        use counts::layout::{Counted, CpuHead, PLACE_BYTES, Slot};
        assert_places(&COUNTS, "place", PLACE_BYTES, &[]);
        let at = |offset: usize| i16::try_from(offset).expect("near");
        let of_cpu = [
            ("table", at(offset_of!(CpuHead, table))),
            ("evicted", at(offset_of!(CpuHead, evicted))),
            ("overflowed", at(offset_of!(CpuHead, overflowed))),
            ("stolen", at(offset_of!(CpuHead, stolen))),
            ("slots", at(size_of::<CpuHead>())),
        ];
        assert_places(&COUNTS, "cpu", size_of::<CpuHead>() + size_of::<Slot>(), &of_cpu);
        let of_slot = [
            ("key", at(offset_of!(Slot, key))),
            ("comm", at(offset_of!(Slot, comm))),
            ("steal_ns", at(offset_of!(Slot, steal_ns))),
            ("throttled_ns", at(offset_of!(Slot, throttled_ns))),
            ("steals", at(offset_of!(Slot, steals))),
            ("throttles", at(offset_of!(Slot, throttles))),
            ("unknown", at(offset_of!(Slot, unknown))),
            ("process", at(offset_of!(Slot, process))),
            ("histograms", at(offset_of!(Slot, histograms))),
        ];
        assert_places(&COUNTS, "slot", size_of::<Slot>(), &of_slot);
        let of_histogram = [
            ("sum", at(offset_of!(Counted, sum))),
            ("max", at(offset_of!(Counted, max))),
            ("censored", at(offset_of!(Counted, censored))),
            ("buckets", at(offset_of!(Counted, buckets))),
        ];
        assert_places(&COUNTS, "histogram", size_of::<Counted>(), &of_histogram);
        use probes::{FetchPlan, Hit, RawValue};
        let of_hit = [
            ("common", at(offset_of!(Hit, common))),
            ("tid", at(offset_of!(Hit, tid))),
            ("cookie", at(offset_of!(Hit, cookie))),
            ("values", at(offset_of!(Hit, values))),
        ];
        assert_places(&PROBES, "hit", size_of::<Hit>(), &of_hit);
        let of_way = [
            ("count", at(offset_of!(FetchPlan, count))),
            ("user_stack", at(offset_of!(FetchPlan, user_stack))),
            ("values", at(offset_of!(FetchPlan, values))),
        ];
        assert_places(&PROBES, "way", size_of::<FetchPlan>(), &of_way);
        let of_value = [
            ("is_register", at(offset_of!(RawValue, is_register))),
            ("what", at(offset_of!(RawValue, what))),
        ];
        assert_places(&PROBES, "value", size_of::<RawValue>(), &of_value);
        assert_places(&CONTENTION, "contention", contentions::BYTES >> 16, &[]);
    }

    #[test]
    fn every_program_fits_the_running_kernel_and_has_a_name_that_is_not_cut() {
        let Ok(bytes) = std::fs::read(BTF_PATH) else {
            eprintln!("skipped: the kernel does not describe its types");
            return;
        };
        let types = Types::parse(bytes).expect("it is the kernel's");
        let file = File::open("/dev/null").expect("it is everywhere");
        let maps = [
            "accounts",
            "bells",
            "chosen_threads",
            "contentions",
            "cpus",
            "descriptor_calls",
            "doorbell",
            "groups",
            "hits",
            "hits_with_stacks",
            "lanes",
            "missing",
            "notes",
            "numbers",
            "origins",
            "packets",
            "places",
            "pythons",
            "samples",
            "scratch",
            "scratch_of_clocks",
            "scratch_of_wakes",
            "sockets",
            "threads",
            "told_origins",
            "user_stacks",
            "waits",
            "wakers",
            "ways",
        ];
        let maps = maps.map(|name| (name, Given::Memory(file.as_fd())));
        for compiled in
            [&CALLS, &CONTENTION, &COUNTS, &EVENTS, &INTERRUPTS, &PACKETS, &PROBES, &SCOPE, &STACKS]
        {
            let object = Object::new(compiled, &types).expect(compiled.name);
            let programs = object.with(&[], &maps, &[]).expect(compiled.name);
            assert_eq!(programs.license.as_bytes(), b"Dual MIT/GPL");
            assert!(!programs.programs.is_empty());
            assert!(programs.programs.keys().all(|name| name.len() < 16), "{programs:?}");
        }
    }

    #[test]
    fn fields_are_found_in_the_part_of_the_types_that_an_object_needs_as_in_all_of_them() {
        let Ok(bytes) = std::fs::read(BTF_PATH) else {
            eprintln!("skipped: the kernel does not describe its types");
            return;
        };
        let all = Btf::parse(&bytes, Default::default()).expect("it is the kernel's");
        let types = Types::parse(bytes).expect("it is the kernel's");
        let insns = |object: &aya_obj::Object| -> Vec<_> {
            let functions = object.functions.values().flat_map(|it| &it.instructions);
            functions.map(|it| (it.code, it.dst_reg(), it.src_reg(), it.off, it.imm)).collect()
        };
        for compiled in [
            &CALLS,
            &CONTENTION,
            &COUNTS,
            &EVENTS,
            &FACTS,
            &INTERRUPTS,
            &PACKETS,
            &PROBES,
            &REQUESTS,
            &SCOPE,
            &STACKS,
        ] {
            let by_part = Object::new(compiled, &types).expect(compiled.name).inner;
            let mut by_all = read(compiled);
            let own = insns(&by_all);
            by_all.relocate_btf(&all).expect(compiled.name);
            let (part, all) = (insns(&by_part), insns(&by_all));
            let differ: Vec<_> =
                part.iter().zip(&all).enumerate().filter(|(_, (a, b))| a != b).collect();
            assert_eq!(differ, [], "{}", compiled.name);
            let uses_fields = ![CONTENTION.name, PROBES.name].contains(&compiled.name);
            assert_eq!(insns(&by_part) != own, uses_fields, "{}", compiled.name);
        }
    }

    fn of(compiled: &Compiled, name: &str) -> (aya_obj::Object, Vec<bpf_insn>) {
        let object = read(compiled);
        let key = object.programs[name].function_key();
        let insns = object.functions[&key].instructions.clone();
        (object, insns)
    }

    #[test]
    fn a_choice_becomes_a_constant_and_memory_an_address() {
        let (mut object, _) = of(&INTERRUPTS, "fxtrec_decided");
        let maps = std::mem::take(&mut object.maps);
        let bound = maps
            .iter()
            .map(|(name, map)| (name.as_str(), if name == CHOICES { CHOICES_FD } else { 9 }, map));
        object.relocate_maps(bound, &HashSet::new()).expect("all are bound");
        let insns = object.functions[&object.programs["fxtrec_decided"].function_key()].clone();
        let finished = |value: u64| {
            finish(&insns.instructions, &value.to_ne_bytes(), &HashSet::from([9]), &[])
                .expect("loads")
        };
        let has = |insns: &[Insn], code, source, immediate| {
            let like = |target| Insn::new(code, target, source, 0, immediate);
            (0..10).any(|target| insns.contains(&like(target)))
        };
        let small = finished(255);
        assert!(has(&small, MOVE_NUMBER, 0, 255), "{small:?}");
        assert!(has(&small, LOAD_WIDE, OF_VALUE, 9), "{small:?}");
        assert!(
            !has(&small, LOAD_WIDE, OF_VALUE, CHOICES_FD) && !has(&small, LOAD_WIDE, OF_MAP, 9)
        );
        assert!(has(&finished(u64::MAX), MOVE_NUMBER, 0, -1));
        let large = finished(7 << 32 | 5);
        assert!(has(&large, LOAD_WIDE, 0, 5) && has(&large, 0, 0, 7), "{large:?}");
        assert_eq!(finish(&insns.instructions, &[0; 4], &HashSet::new(), &[]), None);
    }

    #[test]
    fn an_unknown_choice_and_a_map_that_is_not_given_are_named() {
        let Ok(bytes) = std::fs::read(BTF_PATH) else { return };
        let types = Types::parse(bytes).expect("it is the kernel's");
        let object = Object::new(&CONTENTION, &types).expect("it uses no field");
        let error = object.with(&[], &[], &[]).expect_err("no map");
        assert!(error.to_string().contains("'contentions'"), "{error}");
        assert!(object.with(&[("no_such_choice", 1)], &[], &[]).is_err());
        let error = Programs { object: "x", license: CString::default(), programs: HashMap::new() };
        assert!(error.on("fxtrec_none", 1).is_err());
    }
}
