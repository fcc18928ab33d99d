//! The processes and threads at the beginning of a recording, with their names, from `/proc`.
//!
//! [`Snapshot::take`] walks `/proc` with the procfs crate, whose directory handles ensure that a process that vanishes is not mistaken for
//! a later one with the same number. The files themselves are read as bytes: a thread's name may contain anything, and need not be UTF-8. A
//! process that exits during this is left out; this is not an error, because its exit is among the events.
//!
//! All ids are those of the pid namespace that `/proc` was mounted for. [`super::namespaces`] determines which namespace that is, and
//! [`Thread::ids`] has the ids of the same thread in inner namespaces.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use procfs::process::{Process as Directory, Task};
use procfs::{FromRead, ProcError, ProcResult};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::patience::patiently;
use crate::{cgroups, limits, regular};

/// The kernel truncates the name of a thread to this many bytes.
const COMM_CUT: usize = 15;

/// The kernel thread that creates all other kernel threads, in the initial pid namespace.
const KTHREADD: u32 = 2;

/// The suffix that the kernel appends to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// `/proc` cannot be walked.
#[derive(Debug, Error)]
#[error("cannot read the list of processes: {0}{remedy}", remedy = remedy(.0))]
pub struct ProcfsError(#[from] ProcError);

fn remedy(error: &ProcError) -> &'static str {
    const USUAL: &str = "; mount /proc";
    match error {
        ProcError::Io(error, _) => limits::remedy_or(USUAL, error),
        _ => USUAL,
    }
}

/// The processes at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// In the order of `/proc`, which is by id.
    pub processes: Vec<Process>,
}

/// A process, which has at least one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id (tgid).
    pub pid: u32,
    /// The id of its parent; 0 if it has none, or none in this namespace.
    pub parent: u32,
    /// Its name: see [`display_name`]. May be empty.
    pub name: Vec<u8>,
    /// The path of its cgroup: see [`cgroups::of_process`]. `None` also for kernel threads, which are nearly always in the root's, and
    /// number thousands on a machine with many CPUs.
    pub cgroup: Option<String>,
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    /// Its name: up to 15 bytes, longer for kernel threads, and possibly empty.
    pub comm: Vec<u8>,
    /// Its ids from the namespace of `/proc` inwards; the first is [`Thread::tid`].
    pub ids: Vec<u32>,
}

impl Snapshot {
    /// Walks `/proc`.
    ///
    /// # Errors
    /// Returns [`ProcfsError`] when `/proc` itself cannot be listed.
    pub fn take() -> Result<Snapshot, ProcfsError> {
        let all = procfs::process::all_processes()?;
        Ok(Snapshot { processes: all.filter_map(|found| read_process(&found.ok()?)).collect() })
    }

    /// Walks `/proc`, and keeps the processes of a user.
    ///
    /// # Errors
    /// The same as for [`Snapshot::take`].
    pub fn take_of(uid: u32) -> Result<Snapshot, ProcfsError> {
        let mut snapshot = Snapshot::take()?;
        // A name that was read earlier may belong to another user's program now.
        snapshot.processes.retain(|process| is_of_user(process.pid, uid));
        Ok(snapshot)
    }

    /// `root` and all its descendants, by their current parents.
    ///
    /// A process whose parent has ended belongs to the process that adopted it, and is not found.
    pub fn descendants(&self, root: u32) -> FxHashSet<u32> {
        let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for process in &self.processes {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let mut found = FxHashSet::default();
        let mut waiting = vec![root];
        while let Some(pid) = waiting.pop() {
            if found.insert(pid) {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found
    }
}

/// Whether the process `pid` exists.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether all user ids of the process `pid` equal this id; false if the process no longer exists.
pub fn is_of_user(pid: u32, uid: u32) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = ids.split_ascii_whitespace().peekable();
    ids.peek().is_some() && ids.all(|id| id.parse() == Ok(uid))
}

/// The current name of the process `pid`; `None` if it no longer exists.
///
/// For use at an exec, when the name has just changed.
pub fn process_name(pid: u32) -> Option<Vec<u8>> {
    let directory = Path::new("/proc").join(pid.to_string());
    let comm = comm_of(&std::fs::read(directory.join("comm")).ok()?);
    Some(display_name(comm, || {
        let path = directory.join("cmdline");
        let arguments = patiently(|| std::fs::read(path).unwrap_or_default());
        (arguments.unwrap_or_default(), executable(&directory))
    }))
}

/// The current threads of the process `pid`; empty if it has ended.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    listed.map(|entries| entries.filter_map(name).collect()).unwrap_or_default()
}

/// The process that the thread `tid` belongs to; `None` if the thread has ended.
pub fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read(Path::new("/proc").join(tid.to_string()).join("status")).ok()?;
    field(&status, "Tgid")?.parse().ok()
}

/// The name of a process whose main thread is called `comm`.
///
/// The kernel truncates a thread's name to 15 bytes. If it may have done so, the whole name is taken from the beginning of the command line
/// (where an interpreter and its options may precede the script) or from the executable, whichever has a basename that begins with `comm`.
/// `command_line` returns the content of `cmdline` and the path of the executable, and is called only if needed.
pub fn display_name(comm: Vec<u8>, command_line: impl FnOnce() -> (Vec<u8>, Vec<u8>)) -> Vec<u8> {
    if comm.len() != COMM_CUT {
        return comm;
    }
    let (arguments, exe) = command_line();
    let candidates = arguments.split(|byte| *byte == 0).take(3).chain([exe.as_slice()]);
    let mut basenames = candidates.filter_map(|path| path.rsplit(|byte| *byte == b'/').next());
    match basenames.find(|name| name.len() > COMM_CUT && name.starts_with(&comm)) {
        Some(name) => name.to_vec(),
        None => comm,
    }
}

/// The path of the program that a process runs, from its directory in `/proc`. Empty if there is none.
///
/// It is not read by the procfs crate, which reports a deleted executable as an error. The kernel adds ` (deleted)` to the path of such a
/// file; the text is part of the name only if a file with that name is the one that runs.
fn executable(directory: &Path) -> Vec<u8> {
    let link = directory.join("exe");
    let path = std::fs::read_link(&link).unwrap_or_default().into_os_string().into_vec();
    let Some(before) = path.strip_suffix(DELETED) else { return path };
    let shown = Path::new(OsStr::from_bytes(&path));
    match regular::is_cached(&link, &directory.join("root"), shown) {
        true => path,
        false => before.to_vec(),
    }
}

fn read_process(directory: &Directory) -> Option<Process> {
    let pid = u32::try_from(directory.pid()).ok()?;
    let status = Status::parse(&raw(directory.read("status"))?);
    let threads: Vec<Thread> = if status.threads == 1 {
        // Nearly all processes have a single thread, including thousands of kernel threads on a machine with many CPUs: their thread
        // directory would repeat this, in four more files.
        let comm = comm_of(&raw(directory.read("comm"))?);
        let ids = if status.ids.is_empty() { vec![pid] } else { status.ids.clone() };
        vec![Thread { tid: pid, comm, ids }]
    } else {
        directory.tasks().ok()?.filter_map(|task| read_thread(&task.ok()?, &status)).collect()
    };
    let main = threads.iter().find(|thread| thread.tid == pid).or(threads.first())?;
    let name = display_name(main.comm.clone(), || {
        let read = |mut file: File| {
            let mut arguments = Vec::new();
            file.read_to_end(&mut arguments).map(|_| arguments).unwrap_or_default()
        };
        let file = directory.open_relative("cmdline").ok();
        let arguments = file.and_then(|file| patiently(move || read(file))).unwrap_or_default();
        (arguments, executable(&Path::new("/proc").join(pid.to_string())))
    });
    let is_of_kernel = pid == KTHREADD || status.parent == KTHREADD;
    let cgroup = match is_of_kernel {
        true => None,
        false => raw(directory.read("cgroup")).and_then(|file| cgroups::membership(&file)),
    };
    let cgroup = cgroup.map(|found| found.path);
    Some(Process { pid, parent: status.parent, name, cgroup, threads })
}

fn read_thread(task: &Task, process: &Status) -> Option<Thread> {
    let tid = u32::try_from(task.tid).ok()?;
    let comm = comm_of(&raw(task.read("comm"))?);
    // The threads of a process share its pid namespace, so most need no second file.
    let ids = if process.ids.len() > 1 {
        Status::parse(&raw(task.read("status"))?).ids
    } else {
        Vec::new()
    };
    Some(Thread { tid, comm, ids: if ids.is_empty() { vec![tid] } else { ids } })
}

/// The name in a `comm` file.
///
/// The file of a kernel worker also contains its current work; that part is cut off.
fn comm_of(file: &[u8]) -> Vec<u8> {
    let comm = file.strip_suffix(b"\n").unwrap_or(file);
    if comm.starts_with(b"kworker/") {
        let place = comm.iter().position(|byte| *byte == b':').unwrap_or(comm.len());
        let work = comm[place..].iter().position(|byte| matches!(byte, b'-' | b'+'));
        return comm[..work.map_or(comm.len(), |at| place + at)].to_vec();
    }
    comm.to_vec()
}

/// The id in `/proc` that shows the memory, root directory and program of a process: that of its main thread or, if the main thread ended
/// before others, of a live thread.
pub fn living(pid: u32) -> u32 {
    let has_ended = |file: std::io::Result<Vec<u8>>| {
        let state = file.ok().and_then(|file| field(&file, "State"));
        state.is_none_or(|state| state.starts_with(['Z', 'X']))
    };
    let main = std::fs::read(format!("/proc/{pid}/status"));
    // There is no such id for a process that has ended.
    if main.is_err() || !has_ended(main) {
        return pid;
    }
    let lives = |tid: &u32| !has_ended(std::fs::read(format!("/proc/{pid}/task/{tid}/status")));
    thread_ids(pid).into_iter().find(lives).unwrap_or(pid)
}

/// Whether the process has a different id in its own pid namespace.
pub fn has_inner_ids(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/status"))
        .is_ok_and(|file| Status::parse(&file).ids.len() > 1)
}

/// The threads of a process: their ids in the process's own pid namespace, and here. Threads that end during this are left out.
pub fn inner_thread_ids(pid: u32) -> impl Iterator<Item = (u32, u32)> {
    thread_ids(pid).into_iter().filter_map(move |tid| {
        let file = std::fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        Some((*Status::parse(&file).ids.last()?, tid))
    })
}

/// The needed parts of a `status` file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) parent: u32,
    /// `NSpid`, outermost visible namespace first; empty on kernels before 4.1.
    pub(super) ids: Vec<u32>,
    /// `Threads`; 0 if it is missing, as for a process that has ended.
    pub(super) threads: u32,
}

impl Status {
    /// Reads a `status` file; missing or damaged fields stay empty.
    pub(super) fn parse(file: &[u8]) -> Status {
        let number = |word: &str| word.parse().ok();
        Status {
            parent: field(file, "PPid").and_then(|value| number(&value)).unwrap_or(0),
            ids: field(file, "NSpid")
                .and_then(|value| value.split_whitespace().map(number).collect())
                .unwrap_or_default(),
            threads: field(file, "Threads").and_then(|value| number(&value)).unwrap_or(0),
        }
    }
}

/// The value of the line `name:` of a `status` file.
///
/// A process chooses the content of the `Name` line, but cannot break it: the kernel escapes line breaks.
pub(super) fn field(file: &[u8], name: &str) -> Option<String> {
    file.split(|byte| *byte == b'\n').find_map(|line| {
        let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
        Some(String::from_utf8_lossy(value).trim().to_owned())
    })
}

/// The bytes of a file of `/proc`, through the procfs crate's handles.
struct Raw(Vec<u8>);

impl FromRead for Raw {
    fn from_read<R: Read>(mut reader: R) -> ProcResult<Raw> {
        // Most files of /proc are shorter than this: one call reads the content, and a second one finds the end.
        let mut bytes = Vec::with_capacity(4096);
        reader.read_to_end(&mut bytes)?;
        Ok(Raw(bytes))
    }
}

fn raw(file: ProcResult<Raw>) -> Option<Vec<u8>> {
    file.ok().map(|Raw(bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_process_is_shown_by_a_thread_that_lives() {
        let own = std::process::id();
        assert_eq!(living(own), own);
        assert_eq!(living(u32::MAX), u32::MAX, "there is none");
        let program = "import ctypes, sys, threading\n\
                       threading.Thread(target=sys.stdin.read).start()\n\
                       ctypes.CDLL(None).pthread_exit(None)";
        let mut command = Command::new("python3");
        command.args(["-c", program]).stdin(Stdio::piped());
        // Where this is not possible, only the test of a whole recording covers it.
        let Ok(mut child) = command.spawn() else { return };
        let pid = child.id();
        let mut shown = pid;
        for _ in 0..6000 {
            shown = living(pid);
            if shown != pid || child.try_wait().expect("ours").is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let maps = crate::code::executable_mappings(pid).unwrap_or_default();
        drop(child.stdin.take());
        child.wait().expect("ours");
        assert_ne!(shown, pid);
        assert!(!maps.is_empty());
    }

    fn named(comm: &str, arguments: &str, exe: &str) -> String {
        let name = display_name(comm.into(), || (arguments.into(), exe.into()));
        String::from_utf8(name).expect("the test's names are text")
    }

    /// Copies cat to a program that can be executed immediately.
    ///
    /// Another process writes it: a child that another test starts at the same time would inherit the descriptor that this process writes
    /// to, and a file that is open for writing is too busy to be executed (ETXTBSY).
    fn copy_of_cat(to: &Path) {
        let copied = Command::new("cp").arg("/bin/cat").arg(to).status().expect("cp runs");
        assert!(copied.success(), "cat cannot be copied to {}", to.display());
    }

    /// A copy of cat that has answered once, so its exec is complete, and that runs until its input ends.
    fn running_cat(program: &Path) -> Child {
        let pipes = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = pipes.expect("it runs");
        let input = child.stdin.as_mut().expect("a pipe");
        input.write_all(b"?").expect("cat reads");
        let output = child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut [0]).expect("cat answers");
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().expect("cat ends");
    }

    #[test]
    fn a_name_that_was_cut_is_completed_from_the_command_line() {
        assert_eq!(
            named("chromium-browse", "/opt/chromium-browser\0-x\0", "/usr/bin/x"),
            "chromium-browser"
        );
        assert_eq!(
            named("a-long-script-n", "/bin/sh\0-e\0./a-long-script-name\0", "/bin/dash"),
            "a-long-script-name"
        );
        assert_eq!(
            named("a-long-daemon-n", "worker 3\0", "/sbin/a-long-daemon-name"),
            "a-long-daemon-name"
        );
    }

    #[test]
    fn a_name_that_was_not_cut_or_was_chosen_stays() {
        assert_eq!(named("bash", "bash-with-a-longer-name\0", "/bin/bash"), "bash");
        assert_eq!(named("renamed-by-prctl", "/bin/app\0", "/bin/app"), "renamed-by-prctl");
        assert_eq!(named("fifteen-letters", "/bin/fifteen-letters\0", ""), "fifteen-letters");
        assert_eq!(named("", "/bin/app\0", "/bin/app"), "");
    }

    #[test]
    fn a_kernel_worker_is_called_by_its_place_and_not_by_its_work() {
        let cut = |comm: &str| String::from_utf8(comm_of(comm.as_bytes())).expect("text");
        assert_eq!(cut("kworker/0:1H-kblockd\n"), "kworker/0:1H");
        assert_eq!(cut("kworker/u8:2+flush-254:0\n"), "kworker/u8:2");
        assert_eq!(cut("kworker/R-netns\n"), "kworker/R-netns");
        assert_eq!(cut("jbd2/vda-8\n"), "jbd2/vda-8");
    }

    #[test]
    fn names_keep_line_ends_and_bytes_that_are_no_text() {
        assert_eq!(comm_of(b"a\nb\xff\n"), b"a\nb\xff");
        assert_eq!(comm_of(b"\n"), b"");
    }

    #[test]
    fn a_status_file_gives_the_ids_of_all_namespaces() {
        let file = b"Name:\t\xff\xfe\nPid:\t40\nPPid:\t7\nThreads:\t2\nNSpid:\t40\t3\t1\n";
        assert_eq!(Status::parse(file), Status { parent: 7, ids: vec![40, 3, 1], threads: 2 });
    }

    #[test]
    fn damaged_or_old_status_files_leave_gaps_and_do_not_fail() {
        assert_eq!(Status::parse(b""), Status::default());
        assert_eq!(Status::parse(b"PPid:\tx\nNSpid:\t1 -2\n\xff\xff"), Status::default());
    }

    #[test]
    fn descendants_are_found_over_several_generations_and_around_loops() {
        let process =
            |pid, parent| Process { pid, parent, name: vec![], cgroup: None, threads: vec![] };
        let processes = vec![process(9, 5), process(5, 1), process(6, 1), process(12, 9)];
        let snapshot = Snapshot { processes };
        assert_eq!(snapshot.descendants(5), FxHashSet::from_iter([5, 9, 12]));
        let looped = Snapshot { processes: vec![process(1, 2), process(2, 1)] };
        assert_eq!(looped.descendants(1), FxHashSet::from_iter([1, 2]));
    }

    #[test]
    fn every_thread_of_this_process_is_in_the_snapshot_under_its_own_name() {
        let (reported, tid) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let name = c"odd\xffname";
            // SAFETY: PR_SET_NAME reads a string that ends in a null byte; the literal does.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            reported.send(nix::unistd::gettid()).expect("the test listens");
            let _ = wait.recv();
        });
        let tid = tid.recv().expect("the thread tells").as_raw().cast_unsigned();
        let snapshot = Snapshot::take().expect("/proc is there");
        drop(go);
        thread.join().expect("the thread ends well");

        let own = std::process::id();
        let process = snapshot.processes.iter().find(|p| p.pid == own).expect("this process");
        assert_eq!(process.parent, std::os::unix::process::parent_id());
        let thread = process.threads.iter().find(|t| t.tid == tid).expect("the thread");
        assert_eq!(thread.comm, b"odd\xffname");
        assert_eq!(thread.ids.first(), Some(&tid));
    }

    #[test]
    fn a_running_program_with_a_long_name_has_its_whole_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("a-name-longer-than-the-cut");
        copy_of_cat(&program);
        let child = running_cat(&program);
        let snapshot = Snapshot::take().expect("/proc is there");
        let single = process_name(child.id());
        let pid = child.id();
        end(child);

        let process = snapshot.processes.iter().find(|p| p.pid == pid).expect("the child");
        assert_eq!(process.name, b"a-name-longer-than-the-cut");
        assert_eq!(single.as_deref(), Some(b"a-name-longer-than-the-cut".as_slice()));
        assert!(snapshot.descendants(std::process::id()).contains(&pid));
    }

    /// The name from the executable only: the command line has another one.
    fn name_by_executable(program: &Path, delete: bool) -> (Vec<u8>, Option<Vec<u8>>) {
        use std::os::unix::process::CommandExt;
        copy_of_cat(program);
        let pipes = Command::new(program)
            .arg0("other")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = pipes.expect("it runs");
        child.stdin.as_mut().expect("a pipe").write_all(b"?").expect("cat reads");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("cat answers");
        if delete {
            std::fs::remove_file(program).expect("it is deleted");
        }
        let snapshot = Snapshot::take().expect("/proc is there");
        let (pid, single) = (child.id(), process_name(child.id()));
        end(child);
        let process = snapshot.processes.into_iter().find(|process| process.pid == pid);
        (process.expect("the child").name, single)
    }

    #[test]
    fn a_deleted_program_keeps_its_name_and_no_other_word_is_added_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, delete, expected) in [
            ("a-name-longer-than-the-cut", true, "a-name-longer-than-the-cut"),
            ("a-name-longer-still (deleted)", false, "a-name-longer-still (deleted)"),
            ("a-name-longer-yet (deleted)", true, "a-name-longer-yet (deleted)"),
        ] {
            let (name, single) = name_by_executable(&folder.path().join(file), delete);
            assert_eq!(String::from_utf8_lossy(&name), expected, "{file}");
            assert_eq!(single.as_deref(), Some(expected.as_bytes()), "{file}");
        }
        // A second link keeps the file, but its name in the original directory no longer exists.
        let (first, second) =
            (folder.path().join("a-name-that-was-linked"), folder.path().join("b"));
        copy_of_cat(&first);
        std::fs::hard_link(&first, &second).expect("it is linked");
        let child = running_cat(&first);
        std::fs::remove_file(&first).expect("it is deleted");
        let path = executable(&Path::new("/proc").join(child.id().to_string()));
        end(child);
        assert!(path.ends_with(b"/a-name-that-was-linked"), "{}", String::from_utf8_lossy(&path));
    }

    #[test]
    fn a_process_of_one_thread_has_that_thread_with_its_name_and_ids() {
        let mut child = std::process::Command::new("cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().expect("cat waits");
        let pid = child.id();
        // The exec changes the name, which was that of the test.
        while process_name(pid).is_some_and(|name| name != b"cat") {
            std::thread::yield_now();
        }
        let snapshot = Snapshot::take().expect("/proc is mounted");
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
        let process = snapshot.processes.iter().find(|process| process.pid == pid);
        let process = process.expect("it was there");
        let [thread] = process.threads.as_slice() else { panic!("{process:?}") };
        assert_eq!((thread.tid, thread.comm.as_slice()), (pid, &b"cat"[..]));
        assert_eq!(thread.ids.first(), Some(&pid));
        assert_eq!((process.name.as_slice(), process.parent), (&b"cat"[..], std::process::id()));
    }

    #[test]
    fn threads_that_come_and_go_meanwhile_do_not_spoil_a_snapshot() {
        let stop = AtomicBool::new(false);
        let snapshots = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::spawn(|| {}).join().expect("it does nothing");
                    }
                });
            }
            // Checked outside of the scope, which waits for its threads.
            let taken: Vec<_> = (0..30).map(|_| Snapshot::take()).collect();
            stop.store(true, Ordering::Relaxed);
            taken
        });
        let own = std::process::id();
        for snapshot in snapshots {
            let snapshot = snapshot.expect("/proc is there");
            let process = snapshot.processes.iter().find(|p| p.pid == own).expect("this process");
            assert!(process.threads.iter().any(|thread| thread.tid == own), "its main thread");
            assert!(snapshot.processes.iter().all(|p| !p.threads.is_empty()));
        }
    }

    #[test]
    fn a_process_that_has_ended_has_no_name() {
        let child = running_cat(Path::new("/bin/cat"));
        let pid = child.id();
        assert_eq!(process_name(pid).as_deref(), Some(b"cat".as_slice()));
        end(child);
        assert_eq!(process_name(pid), None);
    }
}
