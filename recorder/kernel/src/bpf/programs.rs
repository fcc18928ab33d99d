//! The programs themselves.
//!
//! A tracing program gets the address of the tracepoint's arguments, eight
//! bytes each, in R1. Those on events do, in this order:
//!
//! ```text
//!   with a scope: leave, if the thread does not matter
//!   lane of this CPU              two array lookups, which the kernel turns into a few instructions
//!   leave, if the lane is busy    an interrupt in the middle of a wake-up
//!   count the event
//!   time                          CLOCK_MONOTONIC, by the function that perf takes its time from
//!   leave, if the lane is full    counting a loss
//!   tell losses and names         if there are any to tell
//!   the record                    on switches, who waits is noted as well, if somebody wants stacks
//!   the head
//!   ring the bell, if it is time to
//! ```
//!
//! The program on the beginning of a wake-up notes who does it, where the one on its completion finds it: the latter may
//! run on another CPU, in an interrupt. R9 holds the lane and R8 the task from then on; R0 the time, R1 the head, and
//! R2 to R5 are free.

mod event;
mod life;

pub(super) use life::newtask;

/// The arguments of `sched_switch`, eight bytes each.
pub(super) mod switched {
    pub(in super::super) const PREEMPTED: i16 = 0;
    pub(in super::super) const PREV: i16 = 8;
    pub(in super::super) const NEXT: i16 = 16;
    pub(in super::super) const PREV_STATE: i16 = 24;

    use super::super::asm::{Assembler, Reg, When, Width};
    use super::super::task::StateLayout;

    const INTERRUPTIBLE: i32 = 1;

    /// The bits that tell why a task does not run. Who wakes it sets another one first.
    const REASONS: i32 = 0xff;

    /// `into` = the state of the task in R7 that goes out; R6 has the arguments.
    pub(in super::super) fn load_state(asm: &mut Assembler, state: Option<StateLayout>, into: Reg) {
        let Some(StateLayout { offset, bytes, queued }) = state else {
            return asm.load(Width::Double, into, Reg::R6, PREV_STATE);
        };
        let width = if bytes == 8 { Width::Double } else { Width::Word };
        let (awake, done) = (asm.label(), asm.label());
        asm.load(width, into, Reg::R7, offset);
        asm.jump_if(When::Shares, into, REASONS, done);
        asm.load(Width::Word, into, Reg::R7, queued);
        asm.jump_if(When::NotEqual, into, 0, awake);
        // It goes to sleep, and another CPU has begun to wake it.
        asm.set(into, INTERRUPTIBLE);
        asm.jump(done);
        asm.place(awake);
        asm.set(into, 0);
        asm.place(done);
    }
}

use std::borrow::Cow;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::asm::{Alu, AsmError, Assembler, Insn, LICENSE, Operand, Reg, Width};
use super::lane::LaneShape;
use super::scope::{TIDS, WORD_BITS};
use super::stacks::WaitNotes;
use super::sys::{On, ProgramSpec};
use super::task::{CallLayout, ScopeLayout, TaskLayout};
use crate::extra::CallSide;

/// What the programs are made for.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Where things lie in the running kernel.
    pub task: &'a TaskLayout,
    /// How lanes are laid out.
    pub shape: LaneShape,
    /// The map of lanes, by CPU.
    pub lanes: BorrowedFd<'a>,
    pub doorbell: BorrowedFd<'a>,
    /// What is in scope, if not all is.
    pub scope: Option<Scope<'a>>,
    /// Who is waking whom: see [`super::wakers`].
    pub wakers: BorrowedFd<'a>,
    pub accounts: Accounts<'a>,
    /// Which thread waits for which lock of the kernel, if that is told: see [`super::contentions`].
    pub contentions: Option<BorrowedFd<'a>>,
    /// Who waits, if that is noted: see [`super::stacks`].
    pub notes: Option<WaitNotes<'a>>,
}

/// Which threads are reported.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// Those of a set: see [`super::scope`].
    Threads(BorrowedFd<'a>),
    /// Those of processes in some cgroups: see [`super::groups`].
    Groups(BorrowedFd<'a>, ScopeLayout),
}

/// Where interrupts and requests for a switch are counted: see [`super::account`].
#[derive(Clone, Copy, Debug)]
pub struct Accounts<'a> {
    pub map: BorrowedFd<'a>,
    /// How many CPUs there may ever be.
    pub possible: usize,
    pub irqs: bool,
    pub asking: bool,
}

impl Accounts<'_> {
    fn tells(&self) -> bool {
        self.irqs || self.asking
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called, where the kernel lists programs.
    pub name: &'static str,
    /// The id of its tracepoint.
    pub tracepoint: u32,
    pub insns: Vec<Insn>,
    pub license: Cow<'static, CStr>,
}

impl Program {
    pub(super) fn assembled(name: &'static str, tracepoint: u32, insns: Vec<Insn>) -> Program {
        Program { name, tracepoint, insns, license: LICENSE.into() }
    }

    /// How the kernel is asked to load it.
    pub fn spec(&self) -> ProgramSpec<'_> {
        let Program { name, insns, license, .. } = self;
        ProgramSpec { name, insns, license, on: On::Tracepoint(self.tracepoint) }
    }
}

/// All programs, in the order in which they are to be attached: who is in scope comes before what is done, and switches
/// before wake-ups, which name who runs.
///
/// # Errors
/// [`AsmError`], which no setting brings about.
pub fn all(setting: &Setting<'_>, waking: bool) -> Result<Vec<Program>, AsmError> {
    let tracepoints = &setting.task.tracepoints;
    let program = Program::assembled;
    let mut programs = Vec::new();
    match setting.scope {
        Some(Scope::Threads(set)) => {
            let insns = life::newtask(setting.task, set)?;
            programs.push(program("fxtrec_newtask", tracepoints.newtask, insns));
        }
        Some(Scope::Groups(map, layout)) => {
            let insns = life::mkdir(map, layout, setting.doorbell)?;
            programs.push(program("fxtrec_mkdir", layout.mkdir, insns));
        }
        None => {}
    }
    programs.push(program("fxtrec_switch", tracepoints.switch, event::switch(setting)?));
    let insns = event::migrate(setting)?;
    programs.push(program("fxtrec_migrate", tracepoints.migrate, insns));
    let insns = event::waking(setting, waking)?;
    programs.push(program("fxtrec_waking", tracepoints.waking, insns));
    programs.push(program("fxtrec_wake_new", tracepoints.wakeup_new, event::wake_new(setting)?));
    programs.push(program("fxtrec_wakeup", tracepoints.wakeup, event::wakeup(setting)?));
    Ok(programs)
}

/// The programs on system calls with these numbers, or on all. The end comes first: what has begun before is not taken for
/// something that never ends. The lanes of the setting are those of calls.
///
/// # Errors
/// As of [`all`].
pub fn on_calls(
    setting: &Setting<'_>,
    layout: CallLayout,
    numbers: Option<&[u16]>,
) -> Result<Vec<Program>, AsmError> {
    let program = Program::assembled;
    let insns = |side| event::call(setting, layout, side, numbers);
    Ok(vec![
        program("fxtrec_call_end", layout.exit, insns(CallSide::Exit)?),
        program("fxtrec_call", layout.enter, insns(CallSide::Enter)?),
    ])
}

/// `word` = the address of the word of the set that has the bit of the thread `task`, and `bit` = the place of the bit
/// in it, by its lower six bits.
pub(super) fn find_bit(
    asm: &mut Assembler,
    layout: &TaskLayout,
    scope: BorrowedFd<'_>,
    task: Reg,
    word: Reg,
    bit: Reg,
    base: Reg,
) {
    asm.load(Width::Word, bit, task, layout.pid);
    asm.set(word, bit);
    asm.alu(Alu::And, word, number(TIDS - 1));
    asm.alu(Alu::ShiftRight, word, number(WORD_BITS.ilog2() as usize));
    asm.alu(Alu::ShiftLeft, word, number(size_of::<u64>().ilog2() as usize));
    asm.load_map_value(base, scope.as_raw_fd());
    asm.alu(Alu::Add, word, base);
    asm.alu(Alu::And, bit, number(WORD_BITS - 1));
}

/// Has the kernel wake the reader though the ring buffer is not read from.
pub(super) const FORCE_WAKEUP: i32 = 2;

/// A constant as an operand. All of them are far below 2^31.
pub(super) fn number(value: usize) -> Operand {
    Operand::Imm(i32::try_from(value).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests;
