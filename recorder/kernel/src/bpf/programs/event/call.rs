//! The programs on system calls, which write into lanes of their own.
//!
//! A system call is entered with interrupts on, and an interrupt in the middle of the program on it may wake somebody. So the
//! records of calls do not share a lane with those of switches and wake-ups, which would find it busy. Should a kernel preempt
//! the program in favour of another thread that makes a call, that call is counted, and told as lost.

use super::super::super::asm::{AsmError, Insn, When, Width};
use super::super::super::lane::{self, RecordKind, flag, part};
use super::super::super::task::CallLayout;
use super::super::{Reg::*, Setting};
use super::Event;
use crate::extra::CallSide;

/// So many numbers are compared at most; of more calls, all are told.
pub(in super::super) const MOST_NUMBERS: usize = 64;

/// Numbers from this one on are not those of a call, but of what returns from a signal.
const NO_CALL: i32 = 0x7fff;

/// The registers that the program had: the first argument of both.
const REGISTERS: i16 = 0;
/// The second of `sys_enter` is the number, and that of `sys_exit` what the call returns.
const SECOND: i16 = 8;

/// `sys_enter(registers, number)` and `sys_exit(registers, result)`, of calls with these numbers, or of all.
pub(in super::super) fn call(
    setting: &Setting<'_>,
    layout: CallLayout,
    side: CallSide,
    numbers: Option<&[u16]>,
) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    let (out, of_call) = (event.out, event.asm.label());
    let asm = &mut event.asm;
    asm.set(R6, R1);
    match side {
        CallSide::Enter => asm.load(Width::Double, R7, R6, SECOND),
        CallSide::Exit => {
            asm.load(Width::Double, R2, R6, REGISTERS);
            asm.load(layout.syscall.number_width, R7, R2, layout.syscall.number);
        }
    }
    if let Some(numbers) = numbers.filter(|numbers| numbers.len() <= MOST_NUMBERS) {
        let wanted = asm.label();
        for number in numbers {
            asm.jump_if(When::Equal, R7, i32::from(*number), wanted);
        }
        asm.jump(out);
        asm.place(wanted);
    }
    // Behind an end without a call, or of one with a number that none has.
    let known = asm.label();
    asm.jump_if(When::AtLeast, R7, NO_CALL, of_call);
    asm.jump(known);
    asm.place(of_call);
    asm.set(R7, -1);
    asm.place(known);
    asm.call(super::Helper::GetCurrentTaskBtf);
    asm.set(R8, R0);
    event.find_lane();
    event.begin_alone();
    event.slot();
    let asm = &mut event.asm;
    asm.store(Width::Double, R2, part::TIME, R0);
    let ends = side == CallSide::Exit;
    if ends {
        asm.load(Width::Double, R3, R6, SECOND);
        asm.store(Width::Double, R2, part::RESULT, R3);
    } else {
        asm.store(Width::Double, R2, part::RESULT, 0);
    }
    asm.load(Width::Word, R3, R8, setting.task.pid);
    asm.store(Width::Word, R2, part::CALLER, R3);
    asm.store(Width::Half, R2, part::NUMBER, R7);
    let wide = asm.label();
    let flags = if ends { flag::FIRST } else { 0 };
    asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags));
    asm.load(layout.syscall.narrow_width, R3, R8, layout.syscall.narrow);
    asm.alu(super::Alu::And, R3, layout.syscall.narrow_bits);
    asm.jump_if(When::Equal, R3, 0, wide);
    asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags | flag::NARROW));
    asm.place(wide);
    event.kind(RecordKind::Call);
    event.end()
}

impl Event<'_> {
    /// Takes the lane, R0 = the time, R1 = the head. Nothing but losses stands before the record, and it is not counted.
    fn begin_alone(&mut self) {
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R9, lane::at::BUSY);
        asm.jump_if(When::NotEqual, R1, 0, self.busy);
        asm.store(Width::Double, R9, lane::at::BUSY, 1);
        self.make_room();
    }
}
