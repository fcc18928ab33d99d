//! Whose values a gate looks at.

use glob::Pattern;

/// A thread on a CPU, which a condition is true of or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The thread's name.
    pub comm: &'a str,
    /// Its process.
    pub pid: u64,
    /// Its id.
    pub tid: u64,
    /// The CPU that the value belongs to.
    pub cpu: u16,
}

/// A condition on the thread and the CPU of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The thread has this name.
    Comm(String),
    /// The thread's name fits this pattern.
    CommLike(Pattern),
    /// The thread is of this process.
    Pid(u64),
    /// It is this thread.
    Tid(u64),
    /// It is about this CPU.
    Cpu(u64),
    /// The opposite.
    Not(Box<Condition>),
    /// All of them.
    All(Vec<Condition>),
    /// One of them at least.
    Any(Vec<Condition>),
}

impl Condition {
    /// Whether it is true of `subject`.
    pub fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Condition::Comm(name) => subject.comm == name,
            Condition::CommLike(pattern) => pattern.matches(subject.comm),
            Condition::Pid(pid) => subject.pid == *pid,
            Condition::Tid(tid) => subject.tid == *tid,
            Condition::Cpu(cpu) => u64::from(subject.cpu) == *cpu,
            Condition::Not(inner) => !inner.holds(subject),
            Condition::All(parts) => parts.iter().all(|part| part.holds(subject)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(subject)),
        }
    }

    /// Whether it can be told without the CPU.
    pub fn names_no_cpu(&self) -> bool {
        match self {
            Condition::Cpu(_) => false,
            Condition::Comm(_) | Condition::CommLike(_) | Condition::Pid(_) | Condition::Tid(_) => {
                true
            }
            Condition::Not(inner) => inner.names_no_cpu(),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().all(Condition::names_no_cpu)
            }
        }
    }
}
