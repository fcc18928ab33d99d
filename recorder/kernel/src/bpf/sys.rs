//! The bpf(2) calls, behind a trait so that tests can refuse them.

use std::ffi::CStr;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::asm::Insn;
use crate::bell::Bell;

/// The kinds of maps that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    Array = 2,
    PerfEventArray = 4,
    PerCpuArray = 6,
    StackTrace = 7,
    ArrayOfMaps = 12,
    RingBuffer = 27,
}

/// A map to be made.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    pub kind: MapKind,
    /// Bytes of a value; a ring buffer has none.
    pub value_bytes: u32,
    /// How many values; for a ring buffer its bytes.
    pub entries: u32,
    /// Whether user space wants to map the values of an array.
    pub mapped: bool,
    /// For a map of maps: a map such as it will hold.
    pub inner: Option<BorrowedFd<'a>>,
}

/// A program to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// At most 15 letters.
    pub name: &'static str,
    pub insns: &'a [Insn],
    /// In the words that the kernel knows.
    pub license: &'a CStr,
    pub on: On,
}

/// What a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A tracepoint, by the id of `btf_trace_` and its name.
    Tracepoint(u32),
    /// Samples of perf events.
    Samples,
    /// Places of programs in user space (since Linux 6.6).
    Places,
}

/// Places of one file.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub path: &'a CStr,
    /// Whether the returns of the functions that begin there are meant.
    pub on_return: bool,
    pub places: &'a [AttachedPlace],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedPlace {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Offset in the file of a counter that is to be above zero as long as the place is attached; 0 if there is none.
    pub semaphore: u64,
    /// What the program is told there.
    pub cookie: u64,
}

/// The calls that a machine may refuse.
pub trait BpfSys: Debug {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd>;

    /// Puts maps into a map of maps, by their keys.
    ///
    /// After each change of such a map the kernel waits until every CPU has left the programs that run, so this makes one change
    /// of all of them where it can.
    fn map_set_maps(
        &self,
        outer: BorrowedFd<'_>,
        inner: &[(u32, BorrowedFd<'_>)],
    ) -> io::Result<()>;

    /// `BPF_PROG_LOAD`, with what the verifier says written into `log` if there is one.
    fn program_load(&self, spec: &ProgramSpec<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd>;

    /// `BPF_RAW_TRACEPOINT_OPEN`: the program runs until the descriptor is closed.
    fn attach(&self, program: BorrowedFd<'_>) -> io::Result<OwnedFd>;

    /// `BPF_LINK_CREATE`: the program runs at each sample of the perf event until the descriptor is closed (since Linux 5.15).
    fn attach_to(&self, _program: BorrowedFd<'_>, _event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_LINK_CREATE`: the program runs at each of the places until the descriptor is closed (since Linux 6.6).
    fn attach_to_places(&self, _program: BorrowedFd<'_>, _: &Places<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `BPF_MAP_LOOKUP_ELEM` of a map of stacks, whose values are as long as `value`.
    fn map_lookup(&self, _map: BorrowedFd<'_>, _key: u32, _value: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How often the program did not run since it was running already on that CPU, where the kernel counts it.
    fn missed(&self, program: BorrowedFd<'_>) -> io::Result<u64>;

    /// What wakes the reader in place of a ring buffer, where somebody plays the kernel: user space can map BPF's ring buffers, but
    /// not add to them.
    fn bell(&self) -> Option<Bell> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LinuxBpf;

// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_UPDATE_BATCH: libc::c_int = 26;
const LINK_CREATE: libc::c_int = 28;

/// What the kernel returns for a command that a kind of map does not have; `ENOTSUPP`, which is not for user space.
const NOT_FOR_THIS_MAP: i32 = 524;

const MMAPABLE: u32 = 1 << 10;

const TRACING: u32 = 26;

const TRACE_RAW_TP: u32 = 23;

const KPROBE: u32 = 2;

const PERF_EVENT: u32 = 7;

/// `BPF_PERF_EVENT`, what such a program is attached as.
const TO_PERF_EVENT: u32 = 41;

/// `BPF_TRACE_UPROBE_MULTI`
const TO_PLACES: u32 = 48;

/// `BPF_F_UPROBE_MULTI_RETURN`
const ON_RETURN: u32 = 1;

#[derive(Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
}

#[derive(Default)]
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct MapBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

#[derive(Default)]
#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[derive(Default)]
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct LinkPlaces {
    link: LinkCreate,
    path: u64,
    offsets: u64,
    semaphores: u64,
    cookies: u64,
    count: u32,
    flags: u32,
    pid: u32,
    padding: u32,
}

#[derive(Default)]
#[repr(C)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to `recursion_misses`.
#[derive(Default)]
#[repr(C)]
struct ProgInfo {
    before: [u64; 26],
    recursion_misses: u64,
}

/// `struct bpf_map_info` up to `map_flags`.
#[derive(Default)]
#[repr(C)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// One of the structures above, which the kernel's `union bpf_attr` begins with.
///
/// # Safety
/// Every pointer in `attr` must be valid for what the command does with it, and for the lengths beside it.
unsafe fn bpf<T>(command: libc::c_int, attr: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads size_of::<T>() bytes of `attr`; the rest is the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    match i32::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// As for [`bpf`], and the command must return a new descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the kernel has just made this descriptor, close-on-exec, and nobody else owns it.
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
        let attr = MapCreate {
            map_type: spec.kind as u32,
            key_size: if spec.kind == MapKind::RingBuffer { 0 } else { 4 },
            value_size: spec.value_bytes,
            max_entries: spec.entries,
            map_flags: if spec.mapped { MMAPABLE } else { 0 },
            inner_map_fd: spec.inner.map_or(0, raw),
        };
        // SAFETY: the structure has no pointers; the command returns a descriptor.
        unsafe { bpf_fd(MAP_CREATE, &attr) }
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
        let mut prog_name = [0; 16];
        let name = spec.name.as_bytes();
        let len = name.len().min(15);
        prog_name[..len].copy_from_slice(&name[..len]);
        let (log_level, log_size, log_buf) = match log {
            Some(log) => {
                (1, u32::try_from(log.len()).unwrap_or(u32::MAX), address(log.as_mut_ptr()))
            }
            None => (0, 0, 0),
        };
        let (prog_type, expected_attach_type, attach_btf_id) = match spec.on {
            On::Tracepoint(id) => (TRACING, TRACE_RAW_TP, id),
            On::Samples => (PERF_EVENT, 0, 0),
            On::Places => (KPROBE, TO_PLACES, 0),
        };
        let attr = ProgLoad {
            prog_type,
            insn_cnt: u32::try_from(spec.insns.len()).unwrap_or(u32::MAX),
            insns: address(spec.insns.as_ptr()),
            license: address(spec.license.as_ptr()),
            log_level,
            log_size,
            log_buf,
            prog_name,
            expected_attach_type,
            attach_btf_id,
            ..ProgLoad::default()
        };
        // SAFETY: the instructions and the licence, which ends with a zero, are only read; the log is writable for the
        // length given, borrowed for the whole call. The command returns a descriptor.
        unsafe { bpf_fd(PROG_LOAD, &attr) }
    }

    fn attach(&self, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let attr = RawTracepointOpen { prog_fd: raw(program), ..RawTracepointOpen::default() };
        // SAFETY: a name of null is allowed: the program knows its tracepoint. The command returns a descriptor.
        unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &attr) }
    }

    fn attach_to(&self, program: BorrowedFd<'_>, event: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let (prog_fd, target_fd) = (raw(program), raw(event));
        let attr = LinkCreate { prog_fd, target_fd, attach_type: TO_PERF_EVENT, flags: 0 };
        // SAFETY: the structure has no pointers. The command returns a descriptor.
        unsafe { bpf_fd(LINK_CREATE, &attr) }
    }

    fn attach_to_places(
        &self,
        program: BorrowedFd<'_>,
        Places { path, on_return, places }: &Places<'_>,
    ) -> io::Result<OwnedFd> {
        let words = |word: fn(&AttachedPlace) -> u64| places.iter().map(word).collect::<Vec<u64>>();
        let (offsets, cookies) = (words(|place| place.offset), words(|place| place.cookie));
        let semaphores = words(|place| place.semaphore);
        let attr = LinkPlaces {
            link: LinkCreate {
                prog_fd: raw(program),
                attach_type: TO_PLACES,
                ..LinkCreate::default()
            },
            path: address(path.as_ptr()),
            offsets: address(offsets.as_ptr()),
            semaphores: address(semaphores.as_ptr()),
            cookies: address(cookies.as_ptr()),
            count: u32::try_from(places.len()).map_err(io::Error::other)?,
            flags: if *on_return { ON_RETURN } else { 0 },
            ..LinkPlaces::default()
        };
        // SAFETY: the path ends with a zero, and each array has `count` words; all are only read, and live until the call returns.
        // The command returns a descriptor.
        unsafe { bpf_fd(LINK_CREATE, &attr) }
    }

    fn map_lookup(&self, map: BorrowedFd<'_>, key: u32, value: &mut [u8]) -> io::Result<()> {
        let expected = map_value_bytes(map)?;
        if value.len() != expected {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the length of a value"));
        }
        let attr = MapUpdate {
            map_fd: raw(map),
            key: address(&raw const key),
            value: address(value.as_mut_ptr()),
            ..MapUpdate::default()
        };
        // SAFETY: keys of maps of stacks are four bytes; the value is writable and, as was just looked up, as long as the
        // kernel writes. Both live until the call returns.
        unsafe { bpf(MAP_LOOKUP_ELEM, &attr) }.map(drop)
    }

    fn missed(&self, program: BorrowedFd<'_>) -> io::Result<u64> {
        let mut info = ProgInfo::default();
        let attr = GetInfo {
            bpf_fd: raw(program),
            info_len: size_of::<ProgInfo>() as u32,
            info: address(&raw mut info),
        };
        // SAFETY: `info` is writable for the length given. The kernel reads some of its pointers and lengths, which are
        // all zero, so it writes nowhere else.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &attr) }?;
        Ok(info.recursion_misses)
    }
}

/// Whether a refusal has another reason than a kernel without batches: before Linux 5.6 there are none, and before 5.19 none for
/// maps of maps.
fn knows_batches(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | NOT_FOR_THIS_MAP))
}

/// By one call.
fn set_at_once(outer: BorrowedFd<'_>, inner: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
    let (keys, values): (Vec<u32>, Vec<u32>) =
        inner.iter().map(|(key, map)| (*key, raw(*map))).unzip();
    let attr = MapBatch {
        keys: address(keys.as_ptr()),
        values: address(values.as_ptr()),
        count: u32::try_from(inner.len()).unwrap_or(u32::MAX),
        map_fd: raw(outer),
        ..MapBatch::default()
    };
    // SAFETY: keys of arrays and values of maps of maps are four bytes, and there are `count` of both, which live until the
    // call returns.
    unsafe { bpf(MAP_UPDATE_BATCH, &attr) }.map(drop)
}

/// By one call for each, all at the same time: they wait for the same.
pub(super) fn set_side_by_side(
    outer: BorrowedFd<'_>,
    inner: &[(u32, BorrowedFd<'_>)],
) -> io::Result<()> {
    /// Enough that few waits follow each other, and few enough for any limit of threads.
    const SETTERS: usize = 64;
    std::thread::scope(|scope| {
        let setters = inner.chunks(inner.len().div_ceil(SETTERS).max(1)).map(|some| {
            let set = move || some.iter().try_for_each(|(key, map)| set(outer, *key, *map));
            // Without a thread of its own it takes longer.
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

/// Puts a map into a map of maps, or a perf event into a map of these.
pub(crate) fn set(outer: BorrowedFd<'_>, key: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let value = raw(inner);
    let attr = MapUpdate {
        map_fd: raw(outer),
        key: address(&raw const key),
        value: address(&raw const value),
        ..MapUpdate::default()
    };
    // SAFETY: keys of arrays and values of maps of descriptors are four bytes, and both live until the call returns.
    unsafe { bpf(MAP_UPDATE_ELEM, &attr) }.map(drop)
}

/// How long the values of a map are that has one of each, in bytes.
fn map_value_bytes(map: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(map_info(map)?.value_size as usize)
}

/// The kernel's number of a map, which is what a lookup in a map of maps finds.
#[cfg(test)]
pub(super) fn map_id(map: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(map_info(map)?.id)
}

fn map_info(map: BorrowedFd<'_>) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    let attr = GetInfo {
        bpf_fd: raw(map),
        info_len: size_of::<MapInfo>() as u32,
        info: address(&raw mut info),
    };
    // SAFETY: `info` is writable for the length given, and the kernel takes no address from it.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &attr) }?;
    Ok(info)
}

/// Loads a program; when the kernel refuses, asks again for what the verifier has to say.
///
/// # Errors
/// What the kernel returned, and the verifier's log, empty when there is none.
pub fn load(sys: &dyn BpfSys, spec: &ProgramSpec<'_>) -> Result<OwnedFd, (io::Error, String)> {
    /// The verifier's log of a short program is shorter.
    const LOG_BYTES: usize = 256 * 1024;
    let first = match sys.program_load(spec, None) {
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
