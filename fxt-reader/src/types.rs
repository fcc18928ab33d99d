//! Units and identities, so that one cannot be passed where another belongs.

use std::fmt;

use fxt_writer::layout::scheduling::thread_state;
use fxt_writer::layout::{kernel_object, record_type};

/// A time in nanoseconds on the trace's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Seconds with nine decimals, as `12.000000345`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A kernel object id: in traces from Linux a thread id or process id, possibly
/// with a generation above bit 22.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Koid(pub u64);

impl fmt::Display for Koid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u16);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number by which an archive tells its trace providers apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(pub u32);

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A thread and the process it belongs to, as thread refs name them
/// ("Thread references").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process.
    pub process: Koid,
    /// The thread.
    pub thread: Koid,
}

/// The state in which a thread leaves a CPU ("Thread States").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadState {
    /// Created, never ran.
    New,
    /// Still able to run: it was preempted.
    Running,
    /// Suspended, for example stopped by a signal.
    Suspended,
    /// Waiting for something.
    Blocked,
    /// On its way out.
    Dying,
    /// Gone.
    Dead,
    /// A value that the format does not define.
    Undefined(u8),
}

impl ThreadState {
    pub(crate) fn from_field(value: u64) -> Self {
        match value {
            thread_state::NEW => Self::New,
            thread_state::RUNNING => Self::Running,
            thread_state::SUSPENDED => Self::Suspended,
            thread_state::BLOCKED => Self::Blocked,
            thread_state::DYING => Self::Dying,
            thread_state::DEAD => Self::Dead,
            other => Self::Undefined(u8::try_from(other).unwrap_or(u8::MAX)),
        }
    }
}

impl fmt::Display for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Running => f.write_str("running"),
            Self::Suspended => f.write_str("suspended"),
            Self::Blocked => f.write_str("blocked"),
            Self::Dying => f.write_str("dying"),
            Self::Dead => f.write_str("dead"),
            Self::Undefined(value) => write!(f, "state-{value}"),
        }
    }
}

/// What kind of kernel object a koid is, one of Zircon's `ZX_OBJ_TYPE` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectType {
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// Any other type, by its number.
    Other(u8),
}

impl ObjectType {
    pub(crate) fn from_field(value: u64) -> Self {
        match value {
            kernel_object::ZX_OBJ_TYPE_PROCESS => Self::Process,
            kernel_object::ZX_OBJ_TYPE_THREAD => Self::Thread,
            other => Self::Other(u8::try_from(other).unwrap_or(u8::MAX)),
        }
    }
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Thread => f.write_str("thread"),
            Self::Other(value) => write!(f, "object-type-{value}"),
        }
    }
}

/// The four bits that every record header begins with ("Record Types").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordType(pub u8);

impl RecordType {
    /// The type's name in the format specification, where it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match u64::from(self.0) {
            record_type::METADATA => Some("metadata"),
            record_type::INITIALIZATION => Some("initialization"),
            record_type::STRING => Some("string"),
            record_type::THREAD => Some("thread"),
            record_type::EVENT => Some("event"),
            record_type::BLOB => Some("blob"),
            record_type::USERSPACE_OBJECT => Some("userspace object"),
            record_type::KERNEL_OBJECT => Some("kernel object"),
            record_type::SCHEDULING => Some("scheduling"),
            record_type::LOG => Some("log"),
            record_type::LARGE => Some("large"),
            _ => None,
        }
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} record"),
            None => write!(f, "record of unknown type {}", self.0),
        }
    }
}
