//! Types for units and identities that must not be confused, and how people read and write them.
//!
//! The lowest crate of the recorder: all other crates may use it, and it uses none of them.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod convention;
pub mod escape;
pub mod fold;
pub mod glob;
pub mod grid;
pub mod lock_kind;
pub mod look;
pub mod nearest;
pub mod protobuf;
pub mod quantity;
pub mod text;

/// A CPU's number as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cpu(pub u32);

/// A thread id in the initial pid namespace; 0 is the idle task of any CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tid(pub u32);

/// A process id (thread group id) in the initial pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pid(pub u32);

/// A process or thread id in the recorder's own pid namespace, which need not be the initial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LocalId(pub u32);

/// A point in time or a duration in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Tid {
    /// The idle tasks: every CPU has one, and all share this id.
    pub const IDLE: Tid = Tid(0);
}
