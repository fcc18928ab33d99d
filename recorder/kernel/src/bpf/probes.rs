//! User probes whose hits a BPF program reports: one link holds all locations of a file, if the kernel has such links (6.6).
//!
//! ```text
//!   place 1 --+                        +--> CPU 0: perf event --> ring
//!   place 2 --+-- link --> program ----+--> CPU 1: perf event --> ring
//!   place 3 --+   cookie: which place it is, and what is taken there
//! ```
//!
//! The kernel removes perf's own probes, and events defined in tracefs, one after the other, and each time waits for all CPUs; for perf's
//! own, once more for each CPU. For a link it waits once. No probe can be left behind, because a link ends with its descriptor.
//!
//! A program reads only registers and constants. Memory of a process may be on disk, and a program of this kind must not wait for it; the
//! kernel's own probes may.

use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::events::BpfError;
use super::object::{self, Given, Object};
use super::programs::Loaded;
use super::sys::{AttachedLocation, BpfSys, MapKind, MapSpec, On, Places};
use crate::format::{self, Field};
use crate::perf::page_size;
use crate::sys::Mapping;
use crate::uprobe::{Binary, ProbeSite};

const NAME: &str = "fxtrec_probe";

/// The number of values that fit into a sample: as many as an event can have arguments.
const VALUES: usize = 15;

/// A sample, as in `probes.bpf.c`. It begins like the record of a tracepoint.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Hit {
    /// The content of a tracepoint's record before the thread: its id and flags. Zero here.
    pub(super) common: u32,
    pub(super) tid: u32,
    pub(super) cookie: u64,
    pub(super) values: [u64; VALUES],
}

/// Offset of the probe's number in a sample; 16 bits.
pub const NUMBER_AT: u16 = offset_of!(Hit, cookie) as u16;

/// The task of the program at a location, as in `probes.bpf.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct FetchPlan {
    pub(super) count: u32,
    pub(super) user_stack: u32,
    pub(super) values: [RawValue; VALUES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct RawValue {
    pub(super) is_register: u32,
    pub(super) what: i32,
}

/// A value that the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// The register at this offset in the kernel's `struct pt_regs`.
    Register(i16),
    Constant(i32),
}

impl Value {
    /// Parses tracefs's syntax for fetching a value (`%di:u32`); also returns its size in bytes. `None` if it is not a number, or not in a
    /// register.
    pub fn parse(how: &str) -> Option<(Value, usize)> {
        let (place, kind) = how.rsplit_once(':')?;
        let bits = kind.strip_prefix(['u', 's', 'x'])?;
        let bytes = ["8", "16", "32", "64"].iter().position(|known| *known == bits)?;
        let value = match place.strip_prefix('\\') {
            Some(number) => Value::Constant(number.parse().ok()?),
            None => Value::Register(register(place)?),
        };
        Some((value, 1 << bytes))
    }
}

/// The offset of a register in `struct pt_regs`, by its name in tracefs.
fn register(place: &str) -> Option<i16> {
    /// In the order of the structure.
    #[cfg(target_arch = "x86_64")]
    const ORDER: [&str; 20] = [
        "%r15", "%r14", "%r13", "%r12", "%bp", "%bx", "%r11", "%r10", "%r9", "%r8", "%ax", "%cx",
        "%dx", "%si", "%di", "", "%ip", "", "%flags", "%sp",
    ];
    #[cfg(target_arch = "aarch64")]
    const ORDER: [&str; 34] = [
        "%x0", "%x1", "%x2", "%x3", "%x4", "%x5", "%x6", "%x7", "%x8", "%x9", "%x10", "%x11",
        "%x12", "%x13", "%x14", "%x15", "%x16", "%x17", "%x18", "%x19", "%x20", "%x21", "%x22",
        "%x23", "%x24", "%x25", "%x26", "%x27", "%x28", "%x29", "%x30", "%sp", "%pc", "%pstate",
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const ORDER: [&str; 0] = [];
    let name = match place {
        "$retval" if cfg!(target_arch = "x86_64") => "%ax",
        "$retval" => "%x0",
        "$stack" => "%sp",
        place => place,
    };
    let index = ORDER.iter().position(|known| *known == name && !name.is_empty())?;
    i16::try_from(index * size_of::<u64>()).ok()
}

/// A location, and the values to read there.
#[derive(Clone, Debug)]
pub struct Probe {
    pub place: ProbeSite,
    /// The number of its samples, at [`NUMBER_AT`].
    pub number: u16,
    /// Whether its samples are written to the second output.
    pub user_stack: bool,
    pub values: Vec<Value>,
}

/// The field of a sample for the value at this index, with this number of bytes; `None` if samples have no space for it.
pub fn field(name: &str, index: usize, bytes: usize) -> Option<Field> {
    // Values have 64 bits, of which the lower ones are used.
    let skipped = if cfg!(target_endian = "big") { 8_usize.checked_sub(bytes)? } else { 0 };
    (index < VALUES).then(|| Field {
        name: name.to_owned(),
        ctype: "u64".to_owned(),
        offset: offset_of!(Hit, values) + index * size_of::<u64>() + skipped,
        size: bytes,
        signed: false,
        place: format::FieldLocation::Inline,
        array_len: None,
    })
}

/// The map in which the program finds the perf event of its CPU. `possible` is the number of possible CPUs.
///
/// # Errors
/// Returns [`BpfError::Map`].
pub fn output(sys: &dyn BpfSys, possible: usize) -> Result<Arc<OwnedFd>, BpfError> {
    let map = sys.map_create(&MapSpec {
        kind: MapKind::PerfEventArray,
        value_bytes: 4,
        entries: u32::try_from(possible.max(1)).unwrap_or(u32::MAX),
        mapped: false,
        inner: None,
    });
    map.map(Arc::new).map_err(|error| BpfError::Map { what: "hits of probes", error })
}

/// The links that hold the locations. Dropping this detaches them.
#[derive(Debug)]
#[must_use]
pub struct Links {
    _links: Vec<OwnedFd>,
}

impl Links {
    /// Attaches the program to all locations. It writes to `outputs`; samples with a stack pointer are written to the second one. Nothing
    /// is written while a CPU has no enabled event in that map.
    ///
    /// # Errors
    /// Returns [`BpfError`] of the first call that the kernel refuses; nothing stays attached then.
    pub fn open(
        sys: &dyn BpfSys,
        probes: &[Probe],
        outputs: [Option<BorrowedFd<'_>>; 2],
    ) -> Result<Links, BpfError> {
        let mut plans: Vec<FetchPlan> = probes.iter().map(FetchPlan::of).collect();
        plans.sort_unstable();
        plans.dedup();
        let map = map_of(sys, &plans)?;
        // No way uses an output that does not exist.
        let output = |wanted: usize| outputs[wanted].or(outputs[1 - wanted]).unwrap_or(map.as_fd());
        let maps = [
            ("ways", Given::Memory(map.as_fd())),
            ("hits", Given::Map(output(0))),
            ("hits_with_stacks", Given::Map(output(1))),
        ];
        let choices = [("number_of_ways", plans.len() as u64)];
        let programs = Object::without_fields(&object::PROBES)?.with(&choices, &maps, &[])?;
        let program = Loaded::new(sys, &programs.get(NAME, On::Places)?)?;
        let mut groups: Vec<(&Binary, bool, Vec<AttachedLocation>)> = Vec::new();
        for probe in probes {
            let ProbeSite { binary, offset, on_return, semaphore } = &probe.place;
            // An equal way is already among them.
            let way = plans.binary_search(&FetchPlan::of(probe)).unwrap_or_default();
            let cookie = (way as u64) << WAY_SHIFT | u64::from(probe.number);
            let semaphore = semaphore.unwrap_or(0);
            let place = AttachedLocation { offset: *offset, semaphore, cookie };
            let same = |group: &&mut (&Binary, bool, _)| {
                group.0.name() == binary.name() && group.1 == *on_return
            };
            match groups.iter_mut().find(same) {
                Some((.., places)) => places.push(place),
                None => groups.push((binary, *on_return, vec![place])),
            }
        }
        let attach = |(binary, on_return, places): &(&Binary, bool, Vec<AttachedLocation>)| {
            let places = Places { path: binary.name(), on_return: *on_return, places };
            let attached = sys.attach_to_places(program.fd(), &places);
            attached.map_err(|error| BpfError::Attach { name: NAME, error })
        };
        Ok(Links { _links: groups.iter().map(attach).collect::<Result<_, _>>()? })
    }
}

/// The lower bits of a cookie are the number of the probe.
const WAY_SHIFT: i32 = 16;

impl FetchPlan {
    fn of(probe: &Probe) -> FetchPlan {
        let mut values = [RawValue::default(); VALUES];
        for (raw, value) in values.iter_mut().zip(&probe.values) {
            *raw = match *value {
                Value::Register(at) => RawValue { is_register: 1, what: at.into() },
                Value::Constant(what) => RawValue { is_register: 0, what },
            };
        }
        let count = probe.values.len().min(VALUES) as u32;
        FetchPlan { count, user_stack: probe.user_stack.into(), values }
    }
}

/// The map from which the program learns what to fetch for each probe.
fn map_of(sys: &dyn BpfSys, plans: &[FetchPlan]) -> Result<OwnedFd, BpfError> {
    let failed = |error| BpfError::Map { what: "what probes take", error };
    let bytes = size_of_val(plans).max(1);
    let map = sys.map_create(&MapSpec {
        kind: MapKind::Array,
        value_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        entries: 1,
        mapped: true,
        inner: None,
    });
    let map = map.map_err(failed)?;
    let mapping = Mapping::new(Some(map.as_fd()), bytes.next_multiple_of(page_size()));
    let mapping = mapping.map_err(failed)?;
    // SAFETY: the mapping is as long as the plans, begins at a page, and nothing else uses it yet.
    unsafe {
        plans.as_ptr().copy_to_nonoverlapping(mapping.base().cast(), plans.len());
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::sync::Mutex;

    use super::*;
    use crate::bpf::fake;
    use crate::bpf::sys::ProgramSpec;

    /// Grants everything, and remembers the locations of each link.
    #[derive(Debug, Default)]
    struct Granting {
        refuses_links: bool,
        /// For each link: whether it is on return, offsets, semaphores and cookies.
        links: Mutex<Vec<(bool, Vec<AttachedLocation>)>>,
    }

    fn descriptor() -> io::Result<OwnedFd> {
        Ok(File::open("/dev/null")?.into())
    }

    impl BpfSys for Granting {
        fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
            if spec.kind == MapKind::PerfEventArray {
                assert_eq!(spec.entries, 4);
            }
            fake::map(spec)
        }

        fn map_set_maps(&self, _: BorrowedFd<'_>, _: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn program_load(
            &self,
            spec: &ProgramSpec<'_>,
            _: Option<&mut [u8]>,
        ) -> io::Result<OwnedFd> {
            assert_eq!(spec.on, On::Places);
            descriptor()
        }

        fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn attach_to_places(&self, _: BorrowedFd<'_>, places: &Places<'_>) -> io::Result<OwnedFd> {
            if self.refuses_links {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let mut links = self.links.lock().expect("no test panicked");
            links.push((places.on_return, places.places.to_vec()));
            descriptor()
        }

        fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
            Ok(0)
        }
    }

    fn binary() -> Binary {
        Binary::new(File::open("/dev/null").expect("there is one"))
    }

    fn probe(binary: &Binary, number: u16, on_return: bool, values: &[Value]) -> Probe {
        let semaphore = (number == 2).then_some(0x4010);
        let (binary, offset) = (binary.clone(), 0x1000 + u64::from(number));
        let place = ProbeSite { binary, offset, on_return, semaphore };
        Probe { place, number, user_stack: false, values: values.to_vec() }
    }

    fn open(sys: &Granting, probes: &[Probe]) -> Result<Links, BpfError> {
        let output = output(sys, 4)?;
        Links::open(sys, probes, [Some(output.as_fd()), None])
    }

    #[test]
    fn places_of_a_file_share_a_link_and_are_distinguished_by_cookies() {
        let (sys, one, other) = (Granting::default(), binary(), binary());
        let argument = [Value::Register(112)];
        let probes = [
            probe(&one, 0, false, &[]),
            probe(&one, 1, false, &argument),
            probe(&one, 2, false, &argument),
            probe(&one, 3, true, &argument),
            probe(&other, 4, false, &[]),
        ];
        let links = open(&sys, &probes).expect("nothing is refused");
        assert_eq!(links._links.len(), 3);
        let place = |number: u64, semaphore, way: u64| AttachedLocation {
            offset: 0x1000 + number,
            semaphore,
            cookie: way << 16 | number,
        };
        let expected = [
            (false, vec![place(0, 0, 0), place(1, 0, 1), place(2, 0x4010, 1)]),
            (true, vec![place(3, 0, 1)]),
            (false, vec![place(4, 0, 0)]),
        ];
        assert_eq!(*sys.links.lock().expect("no test panicked"), expected);
    }

    #[test]
    fn the_running_kernel_takes_the_program() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: this needs root");
            return;
        }
        let values = [Value::Register(112), Value::Constant(-7)].repeat(8);
        let sys = crate::bpf::sys::LinuxBpf;
        let (plain, stacks) = (output(&sys, 4), output(&sys, 4));
        let (plain, stacks) = (plain.expect("a map"), stacks.expect("a map"));
        let mut probes = [probe(&binary(), 0, false, &values), probe(&binary(), 1, false, &[])];
        probes[1].user_stack = true;
        let outputs = [Some(plain.as_fd()), Some(stacks.as_fd())];
        // A file without pages cannot contain a location.
        match Links::open(&sys, &probes, outputs).expect_err("not a program's file") {
            BpfError::Attach { .. } => {}
            BpfError::Load { log, .. } if log.contains("invalid func") => {
                eprintln!("skipped: this kernel has no cookies (before 5.15)");
            }
            error => panic!("{error}\n{}", error.verifier_log().unwrap_or_default()),
        }
    }

    #[test]
    fn a_kernel_without_such_links_is_an_error() {
        let sys = Granting { refuses_links: true, ..Granting::default() };
        let error = open(&sys, &[probe(&binary(), 0, false, &[])]).expect_err("refused");
        assert!(matches!(error, BpfError::Attach { name: NAME, .. }), "{error}");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn registers_and_constants_are_taken_and_memory_is_not() {
        for (how, value) in [
            ("%di:u32", Some((Value::Register(112), 4))),
            ("%r15:s8", Some((Value::Register(0), 1))),
            ("%flags:x64", Some((Value::Register(144), 8))),
            ("$stack:x64", Some((Value::Register(152), 8))),
            ("$retval:s16", Some((Value::Register(80), 2))),
            (r"\-7:s64", Some((Value::Constant(-7), 8))),
            (r"\4294967296:u64", None),
            ("+8(%di):u32", None),
            ("+0(%si):string", None),
            ("$comm:string", None),
            ("$stack3:u8", None),
            ("@0x4010:s32", None),
            ("%orig_ax:u64", None),
            ("%di", None),
        ] {
            assert_eq!(Value::parse(how), value, "{how}");
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn registers_and_constants_are_taken_and_memory_is_not() {
        for (how, value) in [
            ("%x0:u32", Some((Value::Register(0), 4))),
            ("$retval:s16", Some((Value::Register(0), 2))),
            ("$stack:x64", Some((Value::Register(248), 8))),
            ("%pstate:x64", Some((Value::Register(264), 8))),
            ("+8(%x0):u32", None),
        ] {
            assert_eq!(Value::parse(how), value, "{how}");
        }
    }

    #[test]
    fn fields_follow_each_other_and_end_with_the_sample() {
        let at = |index, bytes| field("n", index, bytes).map(|field| (field.offset, field.size));
        if cfg!(target_endian = "little") {
            assert_eq!([at(0, 4), at(1, 8)], [Some((16, 4)), Some((24, 8))]);
        }
        assert!(at(14, 8).is_some() && at(15, 8).is_none());
        assert_eq!(at(usize::MAX, 8), None);
    }
}
