//! The open durations of a thread: functions and system calls that have begun and not ended.
//!
//! An end in the trace ends the duration that its thread began last, so begins and ends must be paired. But some ends are never recorded:
//! longjmp(3) leaves a function, the kernel watches at most 64 returns of a thread at once, a sample is lost. The stack pointer shows this,
//! because it is lower the deeper the calls are nested:
//!
//! ```text
//!   call of f     stack 0x1000    f
//!   call of g     stack 0x0f00    f > g
//!   call of h     stack 0x0e00    f > g > h
//!   return        stack 0x1008    is that of f: g and h must have ended before, unseen
//!   call of g     stack 0x1100    everything below 0x1100 has ended
//! ```
//!
//! When a function returns, its stack pointer is at, or just above, its value at the call. If the same probe is called again at the same
//! stack depth, the earlier call has ended. A call of another probe may be a tail call.

use fxt_writer::{Koid, Text};
use fxtrec_units::Nanos;
use rustc_hash::FxHashMap;

/// One of the recorded functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub u16);

/// The number of bytes by which the stack pointer at a return exceeds that at the call: the size of the return address, on machines that
/// keep it on the stack.
const RETURN_ADDRESS: u64 =
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) { 8 } else { 0 };

/// [`RETURN_ADDRESS`] of a 32-bit program.
const RETURN_ADDRESS_32: u64 =
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) { 4 } else { 0 };

/// A duration that is open on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A function, with the stack pointer at its call, if known.
    Function(SpanId, Option<u64>),
    /// The system call of this number.
    Syscall(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub frame: Frame,
    /// The category of its begin.
    pub category: Text<'static>,
    /// The name of its begin.
    pub name: Text<'static>,
    /// Whether it can no longer end: its program has ended, but a system call inside it is still open.
    pub gone: bool,
    /// When it began.
    pub since: Nanos,
    /// The number of losses up to that time.
    pub losses: u32,
}

/// The open durations of one thread, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    open: Vec<Open>,
}

impl Stack {
    /// How many open spans, counted from the innermost, must have ended when this function is called.
    pub fn ended_by_call(&self, id: SpanId, stack: Option<u64>) -> usize {
        let innermost = self.open.iter().rev();
        innermost.take_while(|open| has_ended(open.frame, id, stack)).count()
    }

    /// How many open spans, counted from the innermost, must be over when a system call begins.
    pub fn ended_by_syscall(&self) -> usize {
        let innermost = self.open.iter().rev();
        innermost.take_while(|open| matches!(open.frame, Frame::Syscall(_))).count()
    }

    /// The number of open spans inside the function that returns now; `None` if its call was not recorded.
    pub fn inside_of_return(
        &self,
        id: SpanId,
        stack: Option<u64>,
        is_32_bit: bool,
    ) -> Option<usize> {
        let address = if is_32_bit { RETURN_ADDRESS_32 } else { RETURN_ADDRESS };
        let at_call = stack.map(|stack| stack.wrapping_sub(address));
        self.open.iter().rev().position(|open| match (open.frame, at_call) {
            (Frame::Function(opened, Some(opened_at)), Some(at_call)) => {
                opened == id && opened_at == at_call
            }
            (Frame::Function(opened, _), _) => opened == id,
            (Frame::Syscall(_), _) => false,
        })
    }

    /// The number of open spans inside the system call that ends now; `None` if its beginning was not recorded.
    pub fn inside_of_syscall(&self, number: i64) -> Option<usize> {
        self.open.iter().rev().position(|open| open.frame == Frame::Syscall(number))
    }

    pub fn push(&mut self, open: Open) {
        self.open.push(open);
    }

    pub fn pop(&mut self) -> Option<Open> {
        self.open.pop()
    }

    /// Removes the innermost span if it cannot end by itself.
    pub fn pop_gone(&mut self) -> Option<Open> {
        self.open.pop_if(|open| open.gone)
    }

    /// The program has ended: its functions will not return.
    pub fn lose_program(&mut self) {
        for open in &mut self.open {
            open.gone |= matches!(open.frame, Frame::Function(..));
        }
    }

    /// All open spans, the outermost first.
    pub fn open(&self) -> &[Open] {
        &self.open
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Whether `frame` must be over when the function `id` is called at `stack`.
fn has_ended(frame: Frame, id: SpanId, stack: Option<u64>) -> bool {
    match (frame, stack) {
        // A program calls no function while the kernel runs on its behalf.
        (Frame::Syscall(_), _) => true,
        (Frame::Function(opened, Some(opened_at)), Some(stack)) => {
            opened_at < stack || opened_at == stack && opened == id
        }
        (Frame::Function(..), _) => false,
    }
}

/// The open durations of every thread.
#[derive(Debug, Default)]
pub struct Spans {
    threads: FxHashMap<Koid, Stack>,
    /// Empty stacks, kept to avoid allocations.
    spare: Vec<Stack>,
    /// How many losses there were.
    losses: u32,
}

/// The number of empty stacks that are kept for reuse.
const MAX_SPARE: usize = 64;

impl Spans {
    /// Ends and beginnings may be missing from now on: an end may belong to a span other than the open one.
    pub fn lose(&mut self) {
        self.losses = self.losses.wrapping_add(1);
    }

    /// The number of losses so far.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// The stack of a thread, created if necessary, to push a span.
    pub fn deepen(&mut self, thread: Koid) -> &mut Stack {
        let spare = &mut self.spare;
        self.threads.entry(thread).or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// The stack of a thread, if it has any open spans.
    pub fn of(&mut self, thread: Koid) -> Option<&mut Stack> {
        self.threads.get_mut(&thread)
    }

    /// Removes a thread's stack if it is empty.
    pub fn tidy(&mut self, thread: Koid) {
        if self.threads.get(&thread).is_some_and(Stack::is_empty)
            && let Some(stack) = self.threads.remove(&thread)
            && self.spare.len() < MAX_SPARE
        {
            self.spare.push(stack);
        }
    }

    /// The stacks of all threads with open spans, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = (Koid, &Stack)> {
        self.threads.iter().map(|(koid, stack)| (*koid, stack))
    }

    /// The threads with open spans, in order.
    pub fn threads(&self) -> Vec<Koid> {
        let mut threads: Vec<Koid> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: SpanId = SpanId(1);
    const G: SpanId = SpanId(2);
    const H: SpanId = SpanId(3);

    fn open(frame: Frame) -> Open {
        let since = Nanos(0);
        Open { frame, category: Text::EMPTY, name: Text::EMPTY, gone: false, since, losses: 0 }
    }

    /// A thread that called these functions, the outermost first.
    fn inside(calls: &[(SpanId, u64)]) -> Stack {
        let mut stack = Stack::default();
        for (id, at) in calls {
            stack.push(open(Frame::Function(*id, Some(*at))));
        }
        stack
    }

    fn returned(at_call: u64) -> Option<u64> {
        Some(at_call + RETURN_ADDRESS)
    }

    /// The picture in the module's documentation.
    #[test]
    fn the_picture_holds() {
        let mut stack = inside(&[(F, 0x1000), (G, 0xf00), (H, 0xe00)]);
        assert_eq!(stack.inside_of_return(F, returned(0x1000), false), Some(2));
        assert_eq!(stack.ended_by_call(G, Some(0x1100)), 3);
        while stack.pop().is_some() {}
        assert!(stack.is_empty());
    }

    #[test]
    fn recursion_is_paired_by_depth_though_the_innermost_returns_are_not_seen() {
        let calls: Vec<(SpanId, u64)> = (0..100).map(|n| (F, 0x10_0000 - n * 0x40)).collect();
        let mut stack = inside(&calls);
        // The kernel watched the outer 64.
        assert_eq!(stack.inside_of_return(F, returned(calls[63].1), false), Some(36));
        for _ in 0..37 {
            stack.pop();
        }
        for call in calls[..63].iter().rev() {
            assert_eq!(stack.inside_of_return(F, returned(call.1), false), Some(0));
            stack.pop();
        }
        assert!(stack.is_empty());
    }

    #[test]
    fn a_second_call_from_the_same_place_replaces_the_first() {
        assert_eq!(inside(&[(F, 0x1000)]).ended_by_call(F, Some(0x1000)), 1);
    }

    #[test]
    fn a_tail_call_is_inside_of_what_called_it_and_both_return() {
        let mut stack = inside(&[(F, 0x1000)]);
        assert_eq!(stack.ended_by_call(G, Some(0x1000)), 0);
        stack.push(open(Frame::Function(G, Some(0x1000))));
        assert_eq!(stack.inside_of_return(G, returned(0x1000), false), Some(0));
        stack.pop();
        assert_eq!(stack.inside_of_return(F, returned(0x1000), false), Some(0));
    }

    #[test]
    fn a_return_from_a_call_that_was_not_seen_has_no_owner() {
        let stack = inside(&[(F, 0x1000)]);
        assert_eq!(stack.inside_of_return(F, returned(0x1040), false), None);
        assert_eq!(stack.inside_of_return(G, returned(0x1000), false), None);
        assert_eq!(stack.inside_of_syscall(1), None);
    }

    #[test]
    fn without_stack_pointers_the_last_call_returns_first() {
        let mut stack = Stack::default();
        stack.push(open(Frame::Function(F, None)));
        stack.push(open(Frame::Function(F, None)));
        assert_eq!(stack.ended_by_call(F, None), 0);
        assert_eq!(stack.inside_of_return(F, None, false), Some(0));
    }

    #[test]
    fn a_system_call_is_over_when_the_program_continues() {
        let mut stack = inside(&[(F, 0x1000)]);
        stack.push(open(Frame::Syscall(35)));
        assert_eq!(stack.ended_by_call(G, Some(0xf00)), 1);
        assert_eq!(stack.ended_by_syscall(), 1);
        assert_eq!(stack.inside_of_syscall(35), Some(0));
        assert_eq!(stack.inside_of_return(F, returned(0x1000), false), Some(1));
    }

    #[test]
    fn what_lost_its_program_ends_once_the_system_call_on_top_has() {
        let mut stack = inside(&[(F, 0x1000)]);
        stack.push(open(Frame::Syscall(59)));
        stack.lose_program();
        assert_eq!(stack.pop_gone(), None);
        stack.pop();
        assert!(stack.pop_gone().is_some());
    }

    #[test]
    fn a_thread_inside_of_nothing_is_forgotten() {
        let mut spans = Spans::default();
        spans.deepen(Koid(5)).push(open(Frame::Syscall(1)));
        spans.tidy(Koid(5));
        assert_eq!(spans.threads(), [Koid(5)]);
        spans.of(Koid(5)).expect("it is kept").pop();
        spans.tidy(Koid(5));
        assert!(spans.of(Koid(5)).is_none());
    }
}
