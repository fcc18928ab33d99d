//! A fake machine that answers as the test configures it, and remembers the calls.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perf_event_open_sys::bindings::{perf_event_attr, perf_event_mmap_page};

use super::facts::Facts;
use super::namespaces::{Namespaces, ProcView};
use super::perf::{FORMAT_ENABLED, FORMAT_LOST, Options, page_size};
use super::sys::{Mapping, PerfWords, Sys};

/// Small rings and two tracepoints, 11 and 12.
pub fn options() -> Options {
    Options {
        ring_bytes: 1 << 20,
        wake_bytes: 1 << 16,
        tracepoints: vec![11, 12],
        namespace_ids: false,
        lives: Vec::new(),
        extras: Arc::new([]),
    }
}

/// Files and refusals by name. A file that was not added does not exist; a call that was not refused works.
///
/// Clones refer to the same machine, so that a test can keep one.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    files: Shared<HashMap<PathBuf, Result<Vec<u8>, i32>>>,
    behind_mount: Option<PathBuf>,
    mount_errno: Option<i32>,
    mounts: Shared<Vec<PathBuf>>,
    refused: HashMap<&'static str, i32>,
    largest_map: Option<usize>,
    refuses_read_format: bool,
    asked: Shared<Vec<String>>,
    attrs: Shared<Vec<perf_event_attr>>,
    appended: Shared<Vec<String>>,
    events: Shared<HashMap<RawFd, FakeEvent>>,
    /// Both ends: messages about devices are written to one end, and read from the other.
    device_messages: Option<Arc<(UnixDatagram, UnixDatagram)>>,
}

/// A perf event that is open, or was.
#[derive(Clone, Copy, Debug, Default)]
struct FakeEvent {
    cpu: u32,
    attr: perf_event_attr,
    /// How long it ran; this grows a little at each read.
    enabled: u64,
    fired: u64,
    lost: u64,
    dead: bool,
}

#[derive(Clone, Debug, Default)]
struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fake {
    pub fn file(self, path: &str, content: &str) -> Fake {
        self.write(path, content);
        self
    }

    /// Changes or adds a file.
    pub fn write(&self, path: &str, content: &str) {
        self.files.lock().insert(path.into(), Ok(content.as_bytes().to_vec()));
    }

    /// Makes reading `path` fail with `errno`.
    pub fn refuse(self, path: &str, errno: i32) -> Fake {
        self.files.lock().insert(path.into(), Err(errno));
        self
    }

    /// Makes rings of more than this number of bytes, including the control page, fail like rings that exceed locked memory.
    pub fn map_at_most(mut self, bytes: usize) -> Fake {
        self.largest_map = Some(bytes);
        self
    }

    /// Makes events with a read format fail, as a kernel before 6.0 does for the one with lost samples.
    pub fn without_lost_counts(mut self) -> Fake {
        self.refuses_read_format = true;
        self
    }

    /// The perf calls so far, in short form.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// The attributes of the events that were requested so far.
    pub fn attrs(&self) -> Vec<perf_event_attr> {
        self.attrs.lock().clone()
    }

    /// The lines that were added to files that take commands.
    pub fn appended(&self) -> Vec<String> {
        self.appended.lock().clone()
    }

    /// Makes a directory appear once tracefs is mounted.
    pub fn mount_shows(mut self, path: &str) -> Fake {
        self.behind_mount = Some(path.into());
        self
    }

    /// Makes mounting fail with `errno`.
    pub fn mount_fails(mut self, errno: i32) -> Fake {
        self.mount_errno = Some(errno);
        self
    }

    /// Makes the method `call` of [`Sys`] fail with `errno`.
    pub fn fail(mut self, call: &'static str, errno: i32) -> Fake {
        self.refused.insert(call, errno);
        self
    }

    pub fn mounts(&self) -> Vec<PathBuf> {
        self.mounts.lock().clone()
    }

    /// Makes the kernel send messages about devices.
    pub fn with_device_messages(mut self) -> Fake {
        let (tell, hear) = UnixDatagram::pair().expect("a pair of sockets");
        self.device_messages = Some(Arc::new((tell, hear)));
        self
    }

    /// Sends a message about a device.
    pub fn tell_device(&self, message: &str) {
        let (tell, _) = &**self.device_messages.as_ref().expect("messages are wanted");
        tell.send(message.as_bytes()).expect("there is room for a message");
    }

    /// Ends everything that is open on a CPU, as happens when it goes offline.
    pub fn kill_cpu(&self, cpu: u32) {
        self.events
            .lock()
            .values_mut()
            .filter(|event| event.cpu == cpu)
            .for_each(|e| e.dead = true);
    }

    /// Makes the open events of a CPU whose attributes match have lost this many records.
    pub fn lose(&self, cpu: u32, fits: impl Fn(&perf_event_attr) -> bool, lost: u64) {
        let mut events = self.events.lock();
        let fitting = events.values_mut().filter(|e| e.cpu == cpu && !e.dead && fits(&e.attr));
        fitting.for_each(|event| event.lost = lost);
    }

    /// Sets how often the open events of a CPU with matching attributes have fired.
    pub fn fire(&self, cpu: u32, fits: impl Fn(&perf_event_attr) -> bool, fired: u64) {
        let mut events = self.events.lock();
        let fitting = events.values_mut().filter(|e| e.cpu == cpu && !e.dead && fits(&e.attr));
        fitting.for_each(|event| event.fired = fired);
    }

    fn answer(&self, call: &str) -> io::Result<()> {
        self.refused.get(call).map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(*errno)))
    }
}

impl Sys for Fake {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.files.lock().get(path) {
            Some(Ok(content)) => Ok(content.clone()),
            Some(Err(errno)) => Err(io::Error::from_raw_os_error(*errno)),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    fn append(&self, _path: &Path, text: &str) -> io::Result<()> {
        self.answer("append")?;
        self.appended.lock().push(text.to_owned());
        Ok(())
    }

    /// A directory exists if it contains a file.
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let files = self.files.lock();
        let below = files.keys().filter_map(|file| file.strip_prefix(path).ok());
        let first = below.filter_map(|rest| rest.iter().next());
        let names: BTreeSet<String> =
            first.map(|name| name.to_string_lossy().into_owned()).collect();
        match names.is_empty() {
            true => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            false => Ok(names.into_iter().collect()),
        }
    }

    fn mount_tracefs(&self, at: &Path) -> io::Result<()> {
        self.mounts.lock().push(at.to_owned());
        if let Some(path) = &self.behind_mount {
            self.files.lock().insert(path.clone(), Err(libc::EISDIR));
        }
        self.mount_errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.asked.lock().push(format!("mkdir {}", path.display()));
        self.answer("make_dir")
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.asked.lock().push(format!("rmdir {}", path.display()));
        self.answer("remove_dir")
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.asked.lock().push(format!("{name} {}", String::from_utf8_lossy(content)));
        self.answer("write_file")
    }

    fn open_nonblocking(&self, path: &Path) -> io::Result<OwnedFd> {
        let name = path.display().to_string();
        self.asked.lock().push(format!("open {name}"));
        self.answer("open_nonblocking")?;
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn perf_event_open(&self, attr: &mut perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
        self.asked.lock().push(format!("open {} {} cpu {cpu}", attr.type_, attr.config));
        self.attrs.lock().push(*attr);
        self.answer("perf_event_open")?;
        if self.refuses_read_format && attr.read_format & FORMAT_LOST != 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd: OwnedFd = std::fs::File::open("/dev/null")?.into();
        let event = FakeEvent { cpu, attr: *attr, ..FakeEvent::default() };
        self.events.lock().insert(fd.as_raw_fd(), event);
        Ok(fd)
    }

    fn perf_mmap(&self, _event: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        self.asked.lock().push(format!("mmap {len}"));
        self.answer("perf_mmap")?;
        if self.largest_map.is_some_and(|largest| len > largest) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let mapping = Mapping::new(None, len)?;
        let page = mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping is zeroed, writable and larger than the structure, and nothing else refers to it yet.
        unsafe {
            (*page).data_offset = page_size() as u64;
            (*page).data_size = (len - page_size()) as u64;
        }
        Ok(mapping)
    }

    fn perf_set_output(&self, _event: BorrowedFd<'_>, _ring: BorrowedFd<'_>) -> io::Result<()> {
        self.asked.lock().push("set_output".to_owned());
        self.answer("perf_set_output")
    }

    fn perf_give(&self, _event: BorrowedFd<'_>, _map: BorrowedFd<'_>, cpu: u32) -> io::Result<()> {
        self.asked.lock().push(format!("give cpu {cpu}"));
        self.answer("perf_give")
    }

    fn perf_set_filter(&self, _event: BorrowedFd<'_>, filter: &CStr) -> io::Result<()> {
        self.asked.lock().push(format!("set_filter {}", filter.to_string_lossy()));
        self.answer("perf_set_filter")
    }

    /// Events are numbered from 1 in the order in which they are opened.
    fn perf_id(&self, _event: BorrowedFd<'_>) -> io::Result<u64> {
        self.answer("perf_id").map(|()| self.attrs.lock().len() as u64)
    }

    fn perf_enable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        self.asked.lock().push("enable".to_owned());
        self.answer("perf_enable")
    }

    fn perf_disable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        self.answer("perf_disable")
    }

    fn schedule(&self, _thread: libc::pid_t, policy: i32, priority: i32) -> io::Result<()> {
        self.asked.lock().push(format!("schedule {policy} {priority}"));
        self.answer("schedule")
    }

    fn lock_memory(&self) -> io::Result<()> {
        self.asked.lock().push("lock_memory".to_owned());
        self.answer("lock_memory")
    }

    fn unlock_memory(&self) -> io::Result<()> {
        self.asked.lock().push("unlock_memory".to_owned());
        self.answer("unlock_memory")
    }

    fn perf_read(&self, event: BorrowedFd<'_>) -> io::Result<PerfWords> {
        self.answer("perf_read")?;
        let mut events = self.events.lock();
        let event = events.get_mut(&event.as_raw_fd()).ok_or(io::ErrorKind::NotFound)?;
        event.enabled += u64::from(!event.dead);
        let mut words = vec![event.fired];
        if event.attr.read_format & FORMAT_ENABLED != 0 {
            words.push(event.enabled);
        }
        if event.attr.read_format & FORMAT_LOST != 0 {
            words.push(event.lost);
        }
        Ok(PerfWords::new(&words))
    }

    fn device_messages(&self) -> io::Result<OwnedFd> {
        let sockets = self.device_messages.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(sockets.1.try_clone()?.into())
    }
}

/// A host on which the recorder runs as an ordinary user.
pub fn ordinary_user() -> Facts {
    let namespaces = Namespaces {
        initial_pid: true,
        initial_user: true,
        proc_view: ProcView::Initial,
        own_ids: vec![70],
    };
    Facts::of(&machine(), namespaces, PathBuf::from("/opt/fxtrec"))
}

fn machine() -> Fake {
    Fake::default()
        .file("/proc/self/status", "Uid:\t9\t1000\t0\t0\nCapEff:\t0\nSeccomp:\t0\n")
        .file(
            "/proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\n\
             Max locked memory         8388608              unlimited            bytes\n\
             Max open files            1024                 4096                 files\n",
        )
        .file("/proc/sys/kernel/cap_last_cap", "40\n")
        .file("/proc/sys/kernel/perf_event_paranoid", "2\n")
        .file("/proc/sys/kernel/perf_event_mlock_kb", "516\n")
        .file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
}
