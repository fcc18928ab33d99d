//! The strings that every trace of fxtrec refers to by index.
//!
//! They are registered once, at the head of the file, so a context switch names
//! its arguments in two bytes each.

use fxt_writer::record::{Record, StringRecord};
use fxt_writer::{StringRef, Text, WriteError};

const fn text(index: u16) -> Text<'static> {
    match StringRef::indexed(index) {
        Ok(index) => Text::Indexed(index),
        Err(_) => panic!("an index between 1 and 0x7fff"),
    }
}

macro_rules! strings {
    ($($name:ident = $index:literal, $content:literal;)*) => {
        $(#[doc = concat!("`", $content, "`")]
        pub const $name: Text<'static> = text($index);)*

        const ALL: &[(u16, &str)] = &[$(($index, $content),)*];
    };
}

strings! {
    PROCESS = 1, "process";
    INCOMING_WEIGHT = 2, "incoming_weight";
    OUTGOING_WEIGHT = 3, "outgoing_weight";
    WEIGHT = 4, "weight";
    WAKER = 5, "waker";
    PREV_STATE = 6, "prev_state";
    INFERRED = 7, "inferred";
    FXTREC = 8, "fxtrec";
    LOST = 9, "lost";
    COUNT = 10, "count";
    CPU = 11, "cpu";
    SCHED = 12, "sched";
    WAKING = 13, "waking";
    THREAD = 14, "thread";
    TRACE_INFO = 15, "trace_info";
    TRACE_STATS = 16, "trace_stats";
    UNKNOWN = 17, "unknown";
    UNFINISHED = 18, "unfinished";
    RET = 19, "ret";
    NUMBER = 20, "number";
    SYSCALL = 21, "syscall";
    PROBE_STATS = 22, "probe_stats";
    AT_MOST = 23, "at_most";
    SWITCH_RECORDS = 24, "switch_records";
    LOST_LIVES = 25, "lost_lives";
    CPU_OFFLINE = 26, "cpu_offline";
    CPU_ONLINE = 27, "cpu_online";
    PREEMPTED = 28, "R+";
    UNINTERRUPTIBLE = 29, "D";
    IDLE_SLEEP = 30, "I";
    PARKED = 31, "P";
    TRACED = 32, "t";
    OTHER = 33, "?";
    STEAL_NS = 34, "steal_ns";
    INTERRUPT = 35, "interrupt";
    THROTTLED = 36, "throttled";
    THROTTLED_NS = 37, "throttled_ns";
    THROTTLED_BY = 38, "throttled_by";
    MIGRATE = 39, "migrate";
    ORIG_CPU = 40, "orig_cpu";
    DEST_CPU = 41, "dest_cpu";
    IRQ_NS = 42, "irq_ns";
    IRQS = 43, "irqs";
    NEED_RESCHED_NS = 44, "need_resched_ns";
    CGROUP = 45, "cgroup";
    LATE_NS = 46, "late_ns";
    FUTEX = 47, "futex";
    FUTEX_OWNER = 48, "futex_owner";
    FUTEX_END_OF = 49, "futex_end_of";
    KERNEL_LOCK = 50, "kernel_lock";
    KERNEL_LOCK_KIND = 51, "kernel_lock_kind";
    KERNEL_LOCK_NAME = 52, "kernel_lock_name";
    INTERRUPT_KIND = 53, "interrupt_kind";
    INTERRUPT_NAME = 54, "interrupt_name";
    HRTIMER = 55, "hrtimer";
    TIMER = 56, "timer";
    DEVICE = 57, "device";
    SOFTIRQ = 58, "softirq";
    VECTOR = 59, "vector";
    PACKET = 60, "packet";
    VIA = 61, "via";
    SENT_NS = 62, "sent_ns";
    REQUEST = 63, "request";
    REQUEST_BYTES = 64, "request_bytes";
    REQUEST_BY = 65, "request_by";
    REQUEST_NS = 66, "request_ns";
    DEVICE_NS = 67, "device_ns";
}

/// The number of these strings; their indices start at 1.
pub const COUNT_OF_ALL: u16 = ALL.len() as u16;

/// Registers all of these strings.
///
/// # Errors
/// `None` in memory, where the head of a trace is built.
pub fn write(out: &mut Vec<u8>) -> Result<(), WriteError<std::convert::Infallible>> {
    all().try_for_each(|string| string.write(out))
}

/// The records that register these strings.
pub fn all() -> impl Iterator<Item = StringRecord<'static>> {
    let record = |(index, content)| {
        // Every index is in range: each was stored as a `Text` above.
        StringRef::indexed(index).ok().map(|index| StringRecord { index, content })
    };
    ALL.iter().copied().filter_map(record)
}
