//! The content of records in addition to threads and times: facts of slices, waits and wakeups.

use fxt_reader::record::{Args, Value};
use fxt_reader::{Cpu, Koid};

/// The content of a switch in addition to the two threads and the usual state of the outgoing thread. For a fact that the recording does
/// not have, it is also 0 or absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchArgs<'a> {
    /// The kernel's letters for the state of the outgoing thread.
    pub detail: Option<&'a str>,
    /// Whether the switch was inferred, not reported.
    pub inferred: bool,
    /// How long the host had the CPU in the slice that ends, in nanoseconds.
    pub steal: u64,
    /// How long interrupts had the CPU, in nanoseconds.
    pub irq: u64,
    /// The number of these interrupts.
    pub irqs: u64,
    /// How long the scheduler had wanted the slice to end, in nanoseconds.
    pub need_resched: Option<u64>,
    /// Whether it ends because a quota is used up.
    pub throttled: bool,
    /// How long a quota held back the incoming thread, in nanoseconds of its wait.
    pub held: u64,
    /// The cgroup whose quota that was.
    pub held_by: Option<&'a str>,
    /// The number of the system call in which the outgoing thread blocks.
    pub syscall: Option<u64>,
    /// The address of the futex on which it waits.
    pub futex: Option<u64>,
    /// The owner of that lock when the wait began.
    pub futex_owner: Option<Koid>,
    /// The thread whose end it waits for there.
    pub futex_end_of: Option<Koid>,
    /// The id of the kernel lock that it waits for, and its kind.
    pub kernel_lock: Option<u64>,
    pub kernel_lock_kind: Option<&'a str>,
    /// Its name, if it is a variable of the kernel.
    pub kernel_lock_name: Option<&'a str>,
}

/// How many arguments records have that contain only weights, so that their arguments need not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualArgs {
    pub of_switch: usize,
    pub of_wakeup: usize,
}

impl UsualArgs {
    /// In a recording that leaves usual weights out, an argument may be anything.
    pub const WITHOUT_WEIGHTS: UsualArgs = UsualArgs { of_switch: 0, of_wakeup: 0 };
}

impl Default for UsualArgs {
    /// There is a weight for each side of a switch, and for the thread that is woken.
    fn default() -> UsualArgs {
        UsualArgs { of_switch: 2, of_wakeup: 1 }
    }
}

impl<'a> SwitchArgs<'a> {
    /// The content of a switch's arguments.
    #[inline]
    pub fn of(args: Args<'a>) -> SwitchArgs<'a> {
        let mut said = SwitchArgs::default();
        for arg in &args {
            match (arg.name, arg.value) {
                ("prev_state", Value::Str(letters)) => said.detail = Some(letters),
                ("inferred", Value::Bool(is)) => said.inferred = is,
                ("throttled", Value::Bool(is)) => said.throttled = is,
                ("throttled_by", Value::Str(cgroup)) => said.held_by = Some(cgroup),
                ("steal_ns", value) => said.steal = unsigned(value).unwrap_or(0),
                ("irq_ns", value) => said.irq = unsigned(value).unwrap_or(0),
                ("irqs", value) => said.irqs = unsigned(value).unwrap_or(0),
                ("need_resched_ns", value) => said.need_resched = unsigned(value),
                ("throttled_ns", value) => said.held = unsigned(value).unwrap_or(0),
                ("syscall", value) => said.syscall = unsigned(value),
                ("futex", Value::Pointer(address)) => said.futex = Some(address),
                ("futex_owner", Value::Koid(owner)) => said.futex_owner = Some(owner),
                ("futex_end_of", Value::Koid(thread)) => said.futex_end_of = Some(thread),
                ("kernel_lock", Value::Pointer(id)) => said.kernel_lock = Some(id),
                ("kernel_lock_kind", Value::Str(kind)) => said.kernel_lock_kind = Some(kind),
                ("kernel_lock_name", Value::Str(name)) => said.kernel_lock_name = Some(name),
                _ => {}
            }
        }
        said
    }

    /// Whether it contains anything about the slice that ends.
    #[inline]
    pub fn has_slice_facts(&self) -> bool {
        self.steal > 0 || self.irq > 0 || self.irqs > 0 || self.need_resched.is_some()
    }
}

/// The content of a wakeup in addition to the woken thread and its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeupFacts<'a> {
    /// The waker.
    pub waker: Option<Koid>,
    /// How long before the wakeup it sent the packet that woke the thread.
    pub sent: Option<u64>,
    /// Whether an interrupt was the waker.
    pub interrupt: bool,
    /// The kind of the interrupt, and its name.
    pub interrupt_kind: Option<&'a str>,
    pub interrupt_name: Option<&'a str>,
    /// The disk request whose completion caused it.
    pub request: Option<RequestFacts>,
    /// Whether a quota holds back the woken thread.
    pub throttled: bool,
}

/// A wakeup's data about a disk request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    pub bytes: u64,
    /// The thread that submitted it.
    pub by: Option<Koid>,
    /// How long before the wakeup it was submitted, and when the disk got it.
    pub started: Option<u64>,
    pub issued: Option<u64>,
}

impl<'a> WakeupFacts<'a> {
    /// The content of a wakeup's arguments.
    #[inline]
    pub fn of(args: Args<'a>) -> WakeupFacts<'a> {
        let mut said = WakeupFacts::default();
        for arg in &args {
            match (arg.name, arg.value) {
                ("waker", Value::Koid(koid)) => said.waker = Some(koid),
                ("interrupt", Value::Bool(is)) => said.interrupt = is,
                ("interrupt_kind", Value::Str(kind)) => said.interrupt_kind = Some(kind),
                ("interrupt_name" | "packet", Value::Str(name)) => said.interrupt_name = Some(name),
                ("sent_ns", value) => said.sent = unsigned(value),
                ("request_bytes", value) => {
                    said.request.get_or_insert_default().bytes = unsigned(value).unwrap_or(0);
                }
                ("request_by", Value::Koid(koid)) => {
                    said.request.get_or_insert_default().by = Some(koid);
                }
                ("request_ns", value) => {
                    said.request.get_or_insert_default().started = unsigned(value);
                }
                ("device_ns", value) => {
                    said.request.get_or_insert_default().issued = unsigned(value);
                }
                ("throttled", Value::Bool(is)) => said.throttled = is,
                _ => {}
            }
        }
        said
    }
}

/// A number, whatever its type.
pub fn signed(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        value => unsigned(value).and_then(|number| i64::try_from(number).ok()),
    }
}

/// A number that is not negative, whatever its type.
pub fn unsigned(value: Value<'_>) -> Option<u64> {
    match value {
        Value::UInt32(value) => Some(value.into()),
        Value::UInt64(value) => Some(value),
        Value::Int32(value) => u64::try_from(value).ok(),
        Value::Int64(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

/// The CPU with that name.
pub fn cpu_of(args: Args<'_>, name: &str) -> Option<Cpu> {
    args.get(name).and_then(unsigned).and_then(|cpu| u16::try_from(cpu).ok()).map(Cpu)
}
