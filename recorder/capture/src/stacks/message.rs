//! What the thread that reads samples sends to the capture thread.

use std::sync::Arc;

use fxtrec_kernel::bpf::stacks::Waited;
use fxtrec_units::{Nanos, Tid};

use super::Counts;

/// A file or a part of the kernel with code, as mapped by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) id: u16,
    pub(super) name: Arc<str>,
    pub(super) build_id: Arc<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) module: u16,
    pub(super) flags: u8,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) module_address: u64,
}

/// A message to the capture thread. A program is what a process runs from one execve(2) to the next; they are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Code {
        program: usize,
        tid: Tid,
        until: Nanos,
        modules: Vec<Module>,
        mappings: Vec<Mapping>,
    },
    Stack {
        program: usize,
        tid: Tid,
        /// The time at which the thread had this stack.
        since: Nanos,
        until: Nanos,
        /// The length of the wait, or of the wait that it ended, or the time that a sample represents.
        weight: u64,
        flags: u32,
        frames: Vec<u64>,
    },
    /// The object that a thread waited for in a wait that has a stack.
    Waited {
        tid: Tid,
        since: Nanos,
        until: Nanos,
        waited: Box<Waited>,
    },
    /// The name of the function that a program counter is in.
    Symbol {
        program: usize,
        address: u64,
        name: Arc<str>,
    },
    /// The program had no stack for a long time. If the program has a stack again, it counts as another program.
    Over {
        program: usize,
    },
    /// Everything that existed at the time of the request has been sent, with these counts.
    Settled(Counts),
}

impl Message {
    /// When the event that it is about happened.
    pub(super) fn until(&self) -> Nanos {
        match self {
            Message::Code { until, .. }
            | Message::Stack { until, .. }
            | Message::Waited { until, .. } => *until,
            Message::Symbol { .. } | Message::Over { .. } | Message::Settled(_) => Nanos(0),
        }
    }
}
