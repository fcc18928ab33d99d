//! Conditions select the threads whose values a gate tests.

use fxtrec_units::glob::Pattern;

/// A thread on a CPU, against which a condition is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    pub comm: &'a str,
    /// Its process, if known.
    pub pid: Option<u64>,
    /// Its thread id; `None` for threads that were summed up.
    pub tid: Option<u64>,
    /// The path of its process's cgroup, if known.
    pub cgroup: Option<&'a str>,
    /// The CPU that the value belongs to, if a condition needs it.
    pub cpu: Option<u16>,
    /// The functions in which the value was measured, if a condition needs them.
    pub stack: &'a [String],
    /// Whether COMMAND started it.
    pub in_command: bool,
}

/// A condition on the thread and the CPU of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The thread has this name.
    Comm(String),
    /// The thread's name matches this pattern.
    CommLike(Pattern),
    /// The thread's process is in this cgroup.
    Cgroup(String),
    /// The path of its cgroup matches this pattern.
    CgroupLike(Pattern),
    /// The thread belongs to this process.
    Pid(u64),
    Tid(u64),
    /// The value belongs to this CPU.
    Cpu(u64),
    /// A function of its stack matches this pattern.
    StackLike(Pattern),
    /// COMMAND started the thread.
    Command,
    Not(Box<Condition>),
    All(Vec<Condition>),
    /// At least one of them holds.
    Any(Vec<Condition>),
}

impl Condition {
    /// Whether it is true of `subject`.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Condition::Comm(name) => subject.comm == name,
            Condition::CommLike(pattern) => pattern.matches(subject.comm),
            Condition::Cgroup(path) => subject.cgroup == Some(path),
            Condition::CgroupLike(pattern) => {
                subject.cgroup.is_some_and(|path| pattern.matches(path))
            }
            Condition::Pid(pid) => subject.pid == Some(*pid),
            Condition::Tid(tid) => subject.tid == Some(*tid),
            Condition::Cpu(cpu) => subject.cpu.map(u64::from) == Some(*cpu),
            Condition::StackLike(pattern) => {
                subject.stack.iter().any(|function| pattern.matches(function))
            }
            Condition::Command => subject.in_command,
            Condition::Not(inner) => !inner.holds(subject),
            Condition::All(parts) => parts.iter().all(|part| part.holds(subject)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(subject)),
        }
    }

    /// Whether the condition may be true for `subject`, in which some functions have no known name.
    pub fn may_hold(&self, subject: &Subject<'_>) -> bool {
        self.known(subject) != Some(false)
    }

    /// Whether the condition is true for `subject`; `None` if that depends on the functions without names.
    fn known(&self, subject: &Subject<'_>) -> Option<bool> {
        // `decides`: a part with this value determines the whole.
        let combine = |parts: &[Condition], decides: bool| {
            let mut all = parts.iter().map(|part| part.known(subject));
            let decided = all.clone().any(|part| part == Some(decides));
            let unknown = all.any(|part| part.is_none());
            if decided { Some(decides) } else { (!unknown).then_some(!decides) }
        };
        match self {
            Condition::StackLike(_) => self.holds(subject).then_some(true),
            Condition::Not(inner) => inner.known(subject).map(|holds| !holds),
            Condition::All(parts) => combine(parts, false),
            Condition::Any(parts) => combine(parts, true),
            _ => Some(self.holds(subject)),
        }
    }

    /// Whether it tests names of threads.
    pub fn names_comm(&self) -> bool {
        match self {
            Condition::Comm(_) | Condition::CommLike(_) => true,
            Condition::Not(inner) => inner.names_comm(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().any(Condition::names_comm)
            }
            _ => false,
        }
    }

    /// Whether it tests process or thread ids, which differ from recording to recording.
    pub fn names_ids(&self) -> bool {
        match self {
            Condition::Pid(_) | Condition::Tid(_) => true,
            Condition::Not(inner) => inner.names_ids(),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().any(Condition::names_ids),
            _ => false,
        }
    }

    /// Whether it tests which threads COMMAND started.
    pub fn names_command(&self) -> bool {
        match self {
            Condition::Command => true,
            Condition::Not(inner) => inner.names_command(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().any(Condition::names_command)
            }
            _ => false,
        }
    }

    /// The CPUs that it names, unsorted and with repetitions. If empty, it can be checked without knowing the CPU.
    pub fn cpus(&self) -> Vec<u64> {
        match self {
            Condition::Cpu(cpu) => vec![*cpu],
            Condition::Comm(_)
            | Condition::CommLike(_)
            | Condition::Cgroup(_)
            | Condition::CgroupLike(_)
            | Condition::Pid(_)
            | Condition::Tid(_)
            | Condition::Command
            | Condition::StackLike(_) => Vec::new(),
            Condition::Not(inner) => inner.cpus(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().flat_map(Condition::cpus).collect()
            }
        }
    }

    /// Whether checking it requires the stack.
    pub fn names_stack(&self) -> bool {
        match self {
            Condition::StackLike(_) => true,
            Condition::Comm(_)
            | Condition::CommLike(_)
            | Condition::Cgroup(_)
            | Condition::CgroupLike(_)
            | Condition::Pid(_)
            | Condition::Tid(_)
            | Condition::Command
            | Condition::Cpu(_) => false,
            Condition::Not(inner) => inner.names_stack(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().any(Condition::names_stack)
            }
        }
    }
}
