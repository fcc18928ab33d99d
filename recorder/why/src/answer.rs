//! The findings, as plain data. The names of its fields are those of the JSON, which `docs/reference/why.md` describes.

use serde::Serialize;

/// The version of the JSON. It changes when a field changes its meaning or is removed.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub format: &'static str,
    pub version: u32,
    pub trace: Trace,
    /// One explanation for each interval, in the order of the query: the longest first.
    pub explanations: Vec<Explanation>,
    /// The name of COMMAND, if fxtrec chose to explain a part of its life.
    #[serde(skip)]
    pub part_of: Option<String>,
    /// The reason why the wait that the report calls the worst is not an incident.
    #[serde(skip)]
    pub passed_over: Option<String>,
}

impl Answer {
    /// By how much the interval of the first explanation is longer than usual; 0 if it is not an incident.
    pub fn severity(&self) -> u64 {
        let is_incident = |why: &&Explanation| {
            why.is_unusual != Some(false) && !matches!(why.subject, "critical_path" | "life")
        };
        let first = self.explanations.first().filter(is_incident);
        first.map_or(0, |why| why.length_ns.saturating_sub(why.median_ns.unwrap_or(0)))
    }
}

/// The known facts about the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub command_line: Option<String>,
    pub source: Option<String>,
    pub scope: Option<String>,
    /// The facts that the recording has.
    pub causes: Vec<&'static str>,
    /// The nanoseconds to add to its times to get the time since 1970.
    pub wall_clock_offset_ns: Option<i64>,
    /// How often events were lost.
    pub gaps: u64,
    /// Whether the file ends before the recording did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How long fxtrec's own threads had CPUs, if they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Hash, PartialOrd, Ord)]
pub struct Who {
    pub koid: u64,
    pub tid: u64,
    pub comm: String,
    /// The host, in a merged trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The reason why a thread took so long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// `span`, `unit`, `wait`, `critical_path`, `late`, `runqueue`, `blocked`, `turn`, `trigger`, `life` or `range`.
    pub subject: &'static str,
    pub span: Option<String>,
    /// The number of spans with that name.
    pub spans: Option<u64>,
    /// The number of units of work that the thread did, and the system call in which it waited between them, if this is a unit. For `wait`,
    /// the number of waits that it is compared with.
    pub units: Option<u64>,
    pub idle_in: Option<String>,
    /// Whether this unit or wait is an incident.
    pub is_unusual: Option<bool>,
    /// The median length of those spans, units or waits.
    pub median_ns: Option<u64>,
    /// The parts of a unit or wait of that length, if this one is unusual.
    pub usual: Option<Vec<Part>>,
    /// The expression of the trigger for which the file was written, if this is what fired it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The thread on which it began, if it is an asynchronous span. `thread` is the thread on which it ended.
    pub begun_on: Option<Who>,
    pub thread: Who,
    pub from_ns: u64,
    pub to_ns: u64,
    pub length_ns: u64,
    pub sentence: String,
    /// For a unit, the threads that ran longest in it, except its own thread.
    pub meanwhile: Vec<Share>,
    /// How long the thread, or the threads that it waited for, waited for CPUs that the recorder had.
    pub recorder_ns: u64,
    /// The parts of the interval, which add up to its length.
    pub blame: Vec<Part>,
    /// The critical path, in order of time: it tiles the interval.
    pub chain: Vec<Link>,
    pub advice: Vec<String>,
    /// Where threads of the path were blocked, the longest first.
    pub waits: Vec<Wait>,
    /// Facts that are relevant here but missing in the recording.
    pub missing: Vec<String>,
}

/// A part of the thread's own time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// `on_cpu`, `stolen`, `interrupts`, `on_cpu_undivided`, `waiting`, `throttled`, `blocked`, `underway` or `unknown`.
    pub part: &'static str,
    pub ns: u64,
    /// The number of intervals that it consists of.
    pub times: u64,
    /// For `waiting`, the occupant of the CPU: `thread`, `idle`, `out_of_scope` or `unknown`.
    pub tenant: Option<&'static str>,
    /// The thread that had the CPU or, for `blocked`, that ended it.
    pub thread: Option<Who>,
    /// For `throttled`, the cgroup with the quota. For `waiting`, the cgroup of the thread that had the CPU, if the waiting thread is in
    /// another.
    pub cgroup: Option<String>,
    /// For `blocked`, the class of the object that the thread waited for.
    pub class: Option<&'static str>,
    /// For `blocked`, the system call: its name, or its number.
    pub syscall: Option<String>,
    /// For `blocked`, what ended the wait: `thread`, `interrupt`, `unknown` or `not_yet`.
    pub ended_by: Option<&'static str>,
    /// The cause of the interrupt that ended it.
    pub interrupt: Option<Interrupt>,
    /// For `blocked`, whether it could not be interrupted.
    pub uninterruptible: Option<bool>,
    /// The reason why it is unknown.
    pub reason: Option<&'static str>,
}

/// A thread, or idle time, that had a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    pub tenant: &'static str,
    pub thread: Option<Who>,
    /// The thread's cgroup, if the thread that waited is in another.
    pub cgroup: Option<String>,
    pub ns: u64,
}

/// A link of the critical path: an activity of a thread that had to end first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    pub from_ns: u64,
    pub to_ns: u64,
    /// How many threads wait for this one.
    pub depth: usize,
    pub thread: Who,
    /// As `part` of the blame, without a breakdown of the CPU time.
    pub state: &'static str,
    pub cpu: Option<u16>,
    /// Its name in text.
    #[serde(skip)]
    pub cpu_name: Option<String>,
    /// For `waiting`, the thread that had the CPU.
    pub tenants: Vec<Share>,
    /// For `waiting`, its waker; absent if it was preempted.
    pub woken_by: Option<&'static str>,
    pub cgroup: Option<String>,
    pub class: Option<&'static str>,
    pub syscall: Option<String>,
    /// The object that the system call referred to.
    pub object: Option<Object>,
    pub ended_by: Option<&'static str>,
    /// The cause of the interrupt that ended it.
    pub interrupt: Option<Interrupt>,
    /// The address of the futex that it was blocked on, and the owner of that lock when the wait began.
    pub futex: Option<String>,
    pub owner: Option<Who>,
    /// The thread that it waited for on that futex to exit.
    pub end_of: Option<Who>,
    /// The id of the kernel lock that it was blocked on, the kind of the lock, and its name if it is a variable.
    pub kernel_lock: Option<String>,
    pub kernel_lock_kind: Option<&'static str>,
    pub kernel_lock_name: Option<String>,
    /// For `blocked`, the waker, and the interrupt or packet through which it woke the thread, if the wakeup was indirect.
    pub waker: Option<Who>,
    pub via: Option<&'static str>,
    /// The disk request, if its completion ended it, or of `request`.
    pub request: Option<Request>,
    pub steal_ns: Option<u64>,
    pub irq_ns: Option<u64>,
    pub reason: Option<&'static str>,
}

/// The cause of an interrupt that woke a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// As recorded, if at all.
    pub kind: Option<String>,
    pub name: Option<String>,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
}

/// A disk request. Unknown values are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    pub operation: Option<String>,
    pub disk: Option<String>,
    pub bytes: u64,
    /// The thread that submitted the request.
    pub thread: Option<Who>,
    /// The time from when the request was made until the disk got it, and from then until it was done; or, if this is not recorded, the
    /// time until it was done.
    pub queued_ns: Option<u64>,
    pub device_ns: Option<u64>,
    pub length_ns: Option<u64>,
    /// Threads known to have had requests in the disk at the same time.
    pub beside: Vec<OtherRequests>,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
    #[serde(skip)]
    pub times: String,
}

/// A thread whose requests a disk had, and how many bytes of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherRequests {
    pub thread: Who,
    pub bytes: u64,
}

/// The file or socket behind the descriptor of the system call in which a thread waited. Unknown values are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    pub kind: String,
    pub fd: u64,
    /// The last two parts of a file's path, and the device that it is on.
    pub path: Option<String>,
    pub device: Option<String>,
    /// The ends of a socket.
    pub local: Option<String>,
    pub remote: Option<String>,
    /// A thread of the process at the other end.
    pub peer: Option<Who>,
    /// The same as text; without the peer if the thread that ended the wait is of its process.
    #[serde(skip)]
    pub text: String,
}

/// A time in which a thread of the path was blocked, and where in its code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    pub from_ns: u64,
    pub to_ns: u64,
    /// How many threads wait for this one.
    pub depth: usize,
    pub thread: Who,
    pub class: &'static str,
    pub syscall: Option<String>,
    /// As in [`Link`].
    pub object: Option<Object>,
    /// The address of the futex, the owner of that lock when the wait began, or the thread that it waited for to exit.
    pub futex: Option<String>,
    pub owner: Option<Who>,
    pub end_of: Option<Who>,
    /// As in [`Link`].
    pub kernel_lock: Option<String>,
    pub kernel_lock_kind: Option<&'static str>,
    pub kernel_lock_name: Option<String>,
    /// The parts of the owner's time during the wait, if another thread ended the wait, or if it has not ended.
    pub owner_blame: Option<Vec<Part>>,
    pub ended_by: &'static str,
    /// As in [`Link`].
    pub request: Option<Request>,
    /// As in [`Link`].
    pub interrupt: Option<Interrupt>,
    pub waker: Option<Who>,
    pub via: Option<&'static str>,
    /// Whether the waker ended at that time, so that the thread may have waited for its end.
    pub waker_ended: bool,
    /// The functions in which it was blocked, the innermost first; kernel functions end in `_[k]`.
    pub stack: Option<Vec<String>>,
    /// The missing parts of that stack.
    pub stack_lacks: Vec<&'static str>,
    /// The functions from which it was woken.
    pub waker_stack: Option<Vec<String>>,
}
