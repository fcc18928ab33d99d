//! System calls: their beginnings and ends, which programs write into lanes of their own.
//!
//! A system call is entered with interrupts on, and an interrupt in the middle of the program on it may wake somebody. So the
//! records of calls do not share a lane with those of switches and wake-ups, which would find it busy. Should a kernel preempt
//! the program in favour of another thread that makes a call, that call is counted, and told as lost.

use super::btf::{Btf, BtfError, TypeId};
use super::task::SyscallLayout;

/// A program compares so many numbers at most; of more calls, all are told.
pub const MOST_NUMBERS: usize = 64;

/// Numbers from this one on are not those of a call, but of what returns from a signal.
pub const NO_CALL: i32 = 0x7fff;

/// What the programs on system calls need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLayout {
    pub syscall: SyscallLayout,
    pub enter: TypeId,
    pub exit: TypeId,
}

impl CallLayout {
    /// Looks it up.
    ///
    /// # Errors
    /// [`BtfError::Missing`], on other machines than x86-64 and arm64 also.
    pub fn new(btf: &Btf) -> Result<CallLayout, BtfError> {
        Ok(CallLayout {
            syscall: SyscallLayout::new(btf)?,
            enter: btf.typedef("btf_trace_sys_enter")?,
            exit: btf.typedef("btf_trace_sys_exit")?,
        })
    }
}
