//! The sources of stacks: BPF programs, or perf's call chains.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::bpf::events::BpfError;
use crate::bpf::stacks::{BlockedStacks, Missing, Python, Sample, SampleKind, WaitNotes};
use crate::callchains::{CallchainError, CallchainStacks};
use crate::ring::RawRecord;
use crate::units::Pid;

/// The reason why stacks could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StackSourceError {
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Callchains(#[from] CallchainError),
}

#[derive(Debug)]
pub enum StackSource {
    /// The programs decide in the kernel which waits are long, and copy the stack memory for unwinding.
    Bpf(BlockedStacks),
    /// By frame pointers alone.
    Callchains(CallchainStacks),
}

impl StackSource {
    /// The data that a source of switches needs to note which threads wait, so that stacks need no separate program on switches.
    pub fn notes(&self) -> Option<WaitNotes<'_>> {
        match self {
            StackSource::Bpf(stacks) => stacks.notes(),
            StackSource::Callchains(_) => None,
        }
    }

    /// Selects the processes whose waits are recorded, if not all are.
    pub fn choose(&self, pids: &[Pid]) {
        if let StackSource::Bpf(stacks) = self {
            stacks.choose(pids);
        }
    }

    /// See [`BlockedStacks::costs_little`].
    pub fn costs_little(&self) -> bool {
        matches!(self, StackSource::Bpf(stacks) if stacks.costs_little())
    }

    /// See [`BlockedStacks::from`].
    pub fn from(&self) -> Option<Arc<AtomicU64>> {
        match self {
            StackSource::Bpf(stacks) => Some(stacks.from()),
            StackSource::Callchains(_) => None,
        }
    }

    /// Call this before such a source runs.
    ///
    /// # Errors
    /// Returns [`StackSourceError`] when the kernel refuses.
    pub fn prepare(&mut self) -> Result<(), StackSourceError> {
        match self {
            StackSource::Bpf(stacks) => Ok(stacks.prepare()?),
            StackSource::Callchains(_) => Ok(()),
        }
    }

    /// Starts recording. `noted` is whether the source of switches notes which threads wait.
    ///
    /// # Errors
    /// Returns [`StackSourceError`] when the kernel refuses.
    pub fn attach(&mut self, noted: bool) -> Result<(), StackSourceError> {
        match self {
            StackSource::Bpf(stacks) => Ok(stacks.attach(noted)?),
            StackSource::Callchains(stacks) => Ok(stacks.attach()?),
        }
    }

    /// Stops the recording of stacks; recorded samples stay readable.
    pub fn detach(&mut self) {
        match self {
            StackSource::Bpf(stacks) => stacks.detach(),
            StackSource::Callchains(stacks) => stacks.detach(),
        }
    }

    /// Passes on the available samples. `None` represents an unreadable sample.
    pub fn read(&mut self, mut take: impl FnMut(Option<Sample>)) {
        match self {
            StackSource::Bpf(stacks) => stacks.read(take),
            StackSource::Callchains(stacks) => stacks.read(|sample| take(Some(sample))),
        }
    }

    /// Passes on perf's records of the code of processes since the last call.
    pub fn read_code(&mut self, take: impl FnMut(RawRecord<'_>)) {
        match self {
            StackSource::Bpf(stacks) => stacks.read_code(take),
            StackSource::Callchains(stacks) => stacks.read_code(take),
        }
    }

    /// The reason why there are no records of the code of processes, if there are none; processes must then be inspected while they live.
    pub fn without_code(&self) -> Option<&io::Error> {
        match self {
            StackSource::Bpf(stacks) => stacks.without_code(),
            StackSource::Callchains(stacks) => stacks.without_code(),
        }
    }

    /// Whether Python functions are walked.
    pub fn walks_python(&self) -> bool {
        matches!(self, StackSource::Bpf(stacks) if stacks.walks_python())
    }

    /// See [`BlockedStacks::set_python`].
    ///
    /// # Errors
    /// Returns an error if there is no space for another process.
    pub fn set_python(&self, pid: Pid, python: Option<&Python>) -> io::Result<()> {
        match self {
            StackSource::Bpf(stacks) => stacks.set_python(pid, python),
            StackSource::Callchains(_) => Ok(()),
        }
    }

    /// The user stack with this number in the kernel's table, the innermost frame first; `None` if there is none.
    pub fn user_stack(&self, number: u32) -> Option<Vec<u64>> {
        match self {
            StackSource::Bpf(stacks) => stacks.user_stack(number),
            StackSource::Callchains(_) => None,
        }
    }

    /// Whether some stacks begin with the functions that take them.
    pub fn has_own_stacks(&self) -> bool {
        match self {
            StackSource::Bpf(stacks) => stacks.has_own_stacks(),
            StackSource::Callchains(_) => true,
        }
    }

    /// Whether stacks of this kind are recorded by the thread itself, on a tracepoint.
    pub fn is_own_stack(&self, kind: SampleKind) -> bool {
        match kind {
            SampleKind::OffCpu => matches!(self, StackSource::Callchains(_)),
            SampleKind::Wake(_) => true,
            SampleKind::Cpu => false,
        }
    }

    pub fn missing(&self) -> Missing {
        match self {
            StackSource::Bpf(stacks) => stacks.missing(),
            StackSource::Callchains(stacks) => stacks.missing(),
        }
    }
}
