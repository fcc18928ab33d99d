//! The bpf(2) calls, behind a trait so that tests can refuse them.

use std::ffi::CStr;
use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use aya_obj::generated::{
    BPF_F_MMAPABLE, BPF_F_UPROBE_MULTI_RETURN, bpf_attach_type, bpf_attr,
    bpf_attr__bindgen_ty_14__bindgen_ty_3__bindgen_ty_7 as UprobeMulti, bpf_cmd, bpf_map_info,
    bpf_prog_info, bpf_prog_type,
};

use crate::bell::Bell;
use crate::perf::page_size;
use crate::sys::Mapping;

/// One instruction, in the kernel's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Insn {
    pub(super) fn new(code: u8, target: u8, source: u8, offset: i16, immediate: i32) -> Insn {
        let (low, high) = match cfg!(target_endian = "little") {
            true => (target, source),
            false => (source, target),
        };
        Insn { code, registers: high << 4 | low, offset, immediate }
    }
}

/// The kinds of maps in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerfEventArray = 4,
    PerCpuArray = 6,
    StackTrace = 7,
    ArrayOfMaps = 12,
    RingBuffer = 27,
}

/// A map to create.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    pub kind: MapKind,
    /// The size of a value, in bytes; a ring buffer has none.
    pub value_bytes: u32,
    /// Number of values; for a ring buffer, its bytes.
    pub entries: u32,
    /// Whether user space needs to map the values of an array.
    pub mapped: bool,
    /// For a map of maps: a template of the maps that it will hold.
    pub inner: Option<BorrowedFd<'a>>,
}

impl<'a> MapSpec<'a> {
    /// An array of one value.
    pub fn memory(bytes: usize, mapped: bool) -> MapSpec<'static> {
        let value_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        MapSpec { kind: MapKind::Array, value_bytes, entries: 1, mapped, inner: None }
    }

    /// A ring buffer of this many bytes, a power of two of at least a page.
    pub fn ring(bytes: usize) -> MapSpec<'static> {
        let entries = u32::try_from(bytes).unwrap_or(u32::MAX);
        MapSpec { kind: MapKind::RingBuffer, value_bytes: 0, entries, mapped: false, inner: None }
    }

    /// A map of this many maps like `inner`.
    pub fn of_maps(entries: usize, inner: Option<BorrowedFd<'a>>) -> MapSpec<'a> {
        let entries = u32::try_from(entries.max(1)).unwrap_or(u32::MAX);
        MapSpec { kind: MapKind::ArrayOfMaps, value_bytes: 4, entries, mapped: false, inner }
    }
}

/// Memory that programs and user space share.
#[derive(Debug)]
pub struct Memory {
    map: OwnedFd,
    mapping: Mapping,
}

impl Memory {
    /// Makes memory of this many zero bytes.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn new(sys: &dyn BpfSys, bytes: usize) -> io::Result<Memory> {
        let map = sys.map_create(&MapSpec::memory(bytes, true))?;
        let mapping = Mapping::new(Some(map.as_fd()), bytes.next_multiple_of(page_size()))?;
        Ok(Memory { map, mapping })
    }

    /// The map, for the programs.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// The eight bytes at this offset; programs and user space access them only as a whole.
    ///
    /// # Panics
    /// If there is no aligned word at this offset.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.mapping.len());
        // SAFETY: the assertion ensures that the aligned word is inside the mapping, which lives as long as self.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(at).cast()) }
    }
}

/// A program to load.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// At most 15 characters.
    pub name: &'static str,
    pub insns: &'a [Insn],
    /// In the kernel's spelling.
    pub license: &'a CStr,
    pub on: On,
}

/// The object that a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A tracepoint, by the BTF id of `btf_trace_` and its name.
    Tracepoint(u32),
    /// Samples of perf events.
    Samples,
    /// Places of programs in user space (since Linux 6.6).
    Places,
}

/// Locations in one file.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub path: &'a CStr,
    /// Whether the program runs when the functions that begin there return.
    pub on_return: bool,
    pub places: &'a [AttachedLocation],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedLocation {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Offset in the file of a counter that must be above zero while the location is attached; 0 if there is none.
    pub semaphore: u64,
    /// The value that the program gets there.
    pub cookie: u64,
}

/// The calls that a machine may refuse.
pub trait BpfSys: Debug {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd>;

    /// Puts maps into a map of maps, by their keys.
    ///
    /// After each change of such a map, the kernel waits until every CPU has left running programs, so this makes a single change for all
    /// maps if possible.
    fn map_set_maps(
        &self,
        outer: BorrowedFd<'_>,
        inner: &[(u32, BorrowedFd<'_>)],
    ) -> io::Result<()>;

    /// `BPF_PROG_LOAD`; the verifier's messages are written to `log`, if given.
    fn program_load(&self, spec: &ProgramSpec<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd>;

    /// `BPF_RAW_TRACEPOINT_OPEN`: the program runs until the descriptor is closed.
    fn attach(&self, program: BorrowedFd<'_>) -> io::Result<OwnedFd>;

    /// `BPF_LINK_CREATE`: the program runs at each sample of the perf event until the descriptor is closed (since Linux 5.15).
    fn attach_to(&self, _program: BorrowedFd<'_>, _event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_LINK_CREATE`: the program runs at each of the locations until the descriptor is closed (since Linux 6.6).
    fn attach_to_places(&self, _program: BorrowedFd<'_>, _: &Places<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_MAP_LOOKUP_ELEM` of a map of stacks, whose values are as long as `value`.
    fn map_lookup(&self, _map: BorrowedFd<'_>, _key: u32, _value: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_MAP_UPDATE_ELEM` of a map whose values are as long as `value`.
    fn map_update(&self, _map: BorrowedFd<'_>, _key: u32, _value: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_MAP_DELETE_ELEM`.
    fn map_delete(&self, _map: BorrowedFd<'_>, _key: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How often the program did not run because it was already running on that CPU, if the kernel counts this.
    fn missed(&self, program: BorrowedFd<'_>) -> io::Result<u64>;

    /// Wakes the reader in place of a ring buffer, if a test simulates the kernel: user space can map BPF ring buffers, but not add to
    /// them.
    fn bell(&self) -> Option<Bell> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LinuxBpf;

/// The kernel's error for a command that a kind of map does not support: `ENOTSUPP`, which is not defined for user space.
const NOT_FOR_THIS_MAP: i32 = 524;

/// The arguments of a command; only the relevant ones are set.
fn arguments(set: impl FnOnce(&mut bpf_attr)) -> bpf_attr {
    // SAFETY: it consists of integers.
    let mut attr = unsafe { std::mem::zeroed() };
    set(&mut attr);
    attr
}

/// # Safety
/// Every pointer in `attr` must be valid for the command's accesses, and for the length given with it.
unsafe fn bpf(command: bpf_cmd, attr: &bpf_attr) -> io::Result<i32> {
    let (command, attr, bytes) =
        (command as libc::c_int, std::ptr::from_ref(attr), size_of::<bpf_attr>());
    // SAFETY: the kernel reads this many bytes of `attr`; the caller guarantees the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, bytes) };
    match i32::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// The same as for [`bpf`], and the command must return a new descriptor.
unsafe fn bpf_fd(command: bpf_cmd, attr: &bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the kernel has just created this descriptor, close-on-exec, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<u8>().addr() as u64
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

impl BpfSys for LinuxBpf {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
        let attr = arguments(|attr| {
            // SAFETY: all fields of every command are integers.
            let map = unsafe { &mut attr.__bindgen_anon_1 };
            map.map_type = spec.kind as u32;
            map.key_size = if spec.kind == MapKind::RingBuffer { 0 } else { 4 };
            map.value_size = spec.value_bytes;
            map.max_entries = spec.entries;
            map.map_flags = if spec.mapped { BPF_F_MMAPABLE } else { 0 };
            map.inner_map_fd = spec.inner.map_or(0, raw);
        });
        // SAFETY: there are no pointers; the command returns a descriptor.
        unsafe { bpf_fd(bpf_cmd::BPF_MAP_CREATE, &attr) }
    }

    fn map_set_maps(
        &self,
        outer: BorrowedFd<'_>,
        inner: &[(u32, BorrowedFd<'_>)],
    ) -> io::Result<()> {
        match set_at_once(outer, inner) {
            Err(error) if !knows_batches(&error) => set_side_by_side(outer, inner),
            result => result,
        }
    }

    fn program_load(&self, spec: &ProgramSpec<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
        let (kind, attached_as, tracepoint) = match spec.on {
            On::Tracepoint(id) => {
                (bpf_prog_type::BPF_PROG_TYPE_TRACING, bpf_attach_type::BPF_TRACE_RAW_TP as u32, id)
            }
            On::Samples => (bpf_prog_type::BPF_PROG_TYPE_PERF_EVENT, 0, 0),
            On::Places => {
                let attached_as = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
                (bpf_prog_type::BPF_PROG_TYPE_KPROBE, attached_as, 0)
            }
        };
        let attr = arguments(|attr| {
            // SAFETY: all fields of every command are integers.
            let program = unsafe { &mut attr.__bindgen_anon_3 };
            program.prog_type = kind as u32;
            program.expected_attach_type = attached_as;
            program.attach_btf_id = tracepoint;
            program.insn_cnt = u32::try_from(spec.insns.len()).unwrap_or(u32::MAX);
            program.insns = address(spec.insns.as_ptr());
            program.license = address(spec.license.as_ptr());
            // The last byte stays zero.
            for (to, from) in program.prog_name[..15].iter_mut().zip(spec.name.bytes()) {
                *to = from as libc::c_char;
            }
            if let Some(log) = log {
                program.log_level = 1;
                program.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
                program.log_buf = address(log.as_mut_ptr());
            }
        });
        // SAFETY: the instructions and the licence, which ends with a zero, are only read; the log is writable for the
        // length given, borrowed for the whole call. The command returns a descriptor.
        unsafe { bpf_fd(bpf_cmd::BPF_PROG_LOAD, &attr) }
    }

    fn attach(&self, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let attr = arguments(|attr| attr.raw_tracepoint.prog_fd = raw(program));
        // SAFETY: a name of null is allowed: the program knows its tracepoint. The command returns a descriptor.
        unsafe { bpf_fd(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &attr) }
    }

    fn attach_to(&self, program: BorrowedFd<'_>, event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let attr = arguments(|attr| {
            attr.link_create.__bindgen_anon_1.prog_fd = raw(program);
            attr.link_create.__bindgen_anon_2.target_fd = raw(event);
            attr.link_create.attach_type = bpf_attach_type::BPF_PERF_EVENT as u32;
        });
        // SAFETY: there are no pointers. The command returns a descriptor.
        unsafe { bpf_fd(bpf_cmd::BPF_LINK_CREATE, &attr) }
    }

    fn attach_to_places(
        &self,
        program: BorrowedFd<'_>,
        Places { path, on_return, places }: &Places<'_>,
    ) -> io::Result<OwnedFd> {
        let words =
            |word: fn(&AttachedLocation) -> u64| places.iter().map(word).collect::<Vec<u64>>();
        let (offsets, cookies) = (words(|place| place.offset), words(|place| place.cookie));
        let semaphores = words(|place| place.semaphore);
        let count = u32::try_from(places.len()).map_err(io::Error::other)?;
        let attr = arguments(|attr| {
            attr.link_create.__bindgen_anon_1.prog_fd = raw(program);
            attr.link_create.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
            attr.link_create.__bindgen_anon_3.uprobe_multi = UprobeMulti {
                path: address(path.as_ptr()),
                offsets: address(offsets.as_ptr()),
                ref_ctr_offsets: address(semaphores.as_ptr()),
                cookies: address(cookies.as_ptr()),
                cnt: count,
                flags: if *on_return { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
                pid: 0,
            };
        });
        // SAFETY: the path ends with a zero, and each array has `count` words; all are only read, and live until the call returns.
        // The command returns a descriptor.
        unsafe { bpf_fd(bpf_cmd::BPF_LINK_CREATE, &attr) }
    }

    fn map_lookup(&self, map: BorrowedFd<'_>, key: u32, value: &mut [u8]) -> io::Result<()> {
        let expected = map_value_bytes(map)?;
        if value.len() != expected {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the length of a value"));
        }
        let attr = of_element(map, &key, address(value.as_mut_ptr()));
        // SAFETY: keys of maps of stacks are four bytes; the value is writable and, as was just looked up, as long as the
        // kernel writes. Both live until the call returns.
        unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &attr) }.map(drop)
    }

    fn map_update(&self, map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
        if value.len() != map_value_bytes(map)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the length of a value"));
        }
        let attr = of_element(map, &key, address(value.as_ptr()));
        // SAFETY: keys of the maps that are created here are four bytes; the value is as long as the kernel reads, as was just looked up.
        // Both live until the call returns.
        unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &attr) }.map(drop)
    }

    fn map_delete(&self, map: BorrowedFd<'_>, key: u32) -> io::Result<()> {
        let attr = of_element(map, &key, 0);
        // SAFETY: keys of the maps that are created here are four bytes, and live until the call returns.
        unsafe { bpf(bpf_cmd::BPF_MAP_DELETE_ELEM, &attr) }.map(drop)
    }

    fn missed(&self, program: BorrowedFd<'_>) -> io::Result<u64> {
        // SAFETY: all pointers and lengths in the structure, which the kernel reads, are zero.
        Ok(unsafe { info::<bpf_prog_info>(program) }?.recursion_misses)
    }
}

/// The kernel's information about a map or a program.
///
/// # Safety
/// `T` is the kernel's structure for the command, and without buffers the kernel writes no more than that structure.
unsafe fn info<T>(of: BorrowedFd<'_>) -> io::Result<T> {
    // SAFETY: the kernel's structures consist of integers.
    let mut info = unsafe { std::mem::zeroed::<T>() };
    let attr = arguments(|attr| {
        attr.info.bpf_fd = raw(of);
        attr.info.info_len = size_of::<T>() as u32;
        attr.info.info = address(&raw mut info);
    });
    // SAFETY: `info` is writable for the length given; the caller guarantees the rest.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &attr) }?;
    Ok(info)
}

/// One element of a map: the key must live until the call.
fn of_element(map: BorrowedFd<'_>, key: &u32, value: u64) -> bpf_attr {
    arguments(|attr| {
        // SAFETY: all fields of every command are integers.
        let element = unsafe { &mut attr.__bindgen_anon_2 };
        element.map_fd = raw(map);
        element.key = address(key);
        element.__bindgen_anon_1.value = value;
    })
}

/// Whether a refusal has a reason other than missing batch commands: Linux before 5.6 has none, and before 5.19 none for maps of maps.
fn knows_batches(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | NOT_FOR_THIS_MAP))
}

/// Sets all values in one call.
fn set_at_once(outer: BorrowedFd<'_>, inner: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
    let (keys, values): (Vec<u32>, Vec<u32>) =
        inner.iter().map(|(key, map)| (*key, raw(*map))).unzip();
    let attr = arguments(|attr| {
        attr.batch.keys = address(keys.as_ptr());
        attr.batch.values = address(values.as_ptr());
        attr.batch.count = u32::try_from(inner.len()).unwrap_or(u32::MAX);
        attr.batch.map_fd = raw(outer);
    });
    // SAFETY: keys of arrays and values of maps of maps are four bytes, and there are `count` of both, which live until the
    // call returns.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_BATCH, &attr) }.map(drop)
}

/// Sets all of them in parallel, one call each, because they wait for the same event.
pub(super) fn set_side_by_side(
    outer: BorrowedFd<'_>,
    inner: &[(u32, BorrowedFd<'_>)],
) -> io::Result<()> {
    /// Enough threads that few waits follow each other, and few enough for any limit of threads.
    const SETTERS: usize = 64;
    std::thread::scope(|scope| {
        let setters = inner.chunks(inner.len().div_ceil(SETTERS).max(1)).map(|some| {
            let set = move || some.iter().try_for_each(|(key, map)| set(outer, *key, *map));
            // If there is no thread for it, it takes longer.
            std::thread::Builder::new().spawn_scoped(scope, set).map_err(|_| set())
        });
        let setters: Vec<_> = setters.collect();
        let ended =
            |setter: Result<std::thread::ScopedJoinHandle<'_, io::Result<()>>, _>| match setter {
                Ok(setter) => {
                    setter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                Err(done) => done,
            };
        setters.into_iter().try_for_each(ended)
    })
}

/// Puts a map into a map of maps, or a perf event into a map of perf events.
pub(crate) fn set(outer: BorrowedFd<'_>, key: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let value = raw(inner);
    let attr = of_element(outer, &key, address(&raw const value));
    // SAFETY: keys of arrays and values of maps of descriptors are four bytes, and both live until the call returns.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &attr) }.map(drop)
}

/// The size of a map's values, in bytes.
fn map_value_bytes(map: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: the kernel takes no address from the structure.
    Ok(unsafe { info::<bpf_map_info>(map) }?.value_size as usize)
}

/// The kernel's number of a map, which a lookup in a map of maps returns.
#[cfg(test)]
pub(super) fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: as above.
    Ok(unsafe { info::<bpf_map_info>(map) }?.id)
}

/// Loads a program; if the kernel refuses, tries again to get the verifier's messages. A signal for this thread ends the verifier with
/// EAGAIN, so that it is tried a few times.
///
/// # Errors
/// Returns the kernel's error, and the verifier's log, which may be empty.
pub fn load(sys: &dyn BpfSys, spec: &ProgramSpec<'_>) -> Result<OwnedFd, (io::Error, String)> {
    /// The verifier's log of a short program is shorter.
    const LOG_BYTES: usize = 256 * 1024;
    const TRIES: usize = 5;
    let mut tries = (0..TRIES).map(|_| sys.program_load(spec, None));
    let is_interrupted = |tried: &io::Result<OwnedFd>| matches!(tried, Err(error) if error.kind() == ErrorKind::WouldBlock);
    let tried = tries.find(|tried| !is_interrupted(tried));
    let first = match tried.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into())) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    let mut log = vec![0; LOG_BYTES];
    match sys.program_load(spec, Some(&mut log)) {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Err((first, String::from_utf8_lossy(&log[..end]).into_owned()))
        }
    }
}
