//! Unwinds a stack from registers and a copy of its top, using the tables that compilers write for exceptions (`.eh_frame`).
//!
//! Frame pointers alone fail in the common case that an application with frame pointers blocks in a library without them: the walk then
//! skips the application's innermost function, or goes wrong at once. So the first functions are unwound by tables, from the bytes that the
//! kernel copied; where the copy ends, frame pointers take over:
//!
//! ```text
//!   the copy      | __poll | wait (libpq) | own function | own function ...
//!                   tables   tables         its table says that its frame register holds the address of its frame
//!   frame pointers                          \--> own function <-- own function <-- main     as the kernel walked them
//! ```
//!
//! Tables may be crafted to take any amount of time, so expensive ranges ([`CostlyRange`]) have a budget for each stack, and one for all
//! stacks within a second. Beyond these budgets, stacks are unwound by frame pointers, and marked.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

// On processors other than these two, nothing is unwound; the types of one of them are placeholders.
#[cfg(not(target_arch = "x86_64"))]
use framehop::aarch64::{
    CacheAarch64 as CacheNative, UnwindRegsAarch64 as UnwindRegsNative,
    UnwinderAarch64 as UnwinderNative,
};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{
    CacheX86_64 as CacheNative, UnwindRegsX86_64 as UnwindRegsNative,
    UnwinderX86_64 as UnwinderNative,
};
use framehop::{
    Error, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder as _,
};

use fxtrec_kernel::bpf::stacks::{Registers, Walked};
use fxtrec_probe::elf::CostlyRange;
use fxtrec_sched::backtrace::problem;

/// The maximum number of functions of a program in a stack: as many as a record has room for in addition to the kernel's.
pub(super) const MOST: usize = 190;

/// How much work expensive entries of tables may take for a stack: about a tenth of a millisecond.
const MOST_WORK: u32 = 64 << 10;

/// The limit of this work for all stacks within a second: about 50 ms.
const MOST_WORK_A_SECOND: u32 = 32 << 20;

/// The bytes of a section, and its address in the file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) bytes: Arc<[u8]>,
    pub(super) address: u64,
}

/// The tables of a file with which its functions are unwound.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) frames: Section,
    /// `.eh_frame_hdr`, the index that finds a function in the tables.
    pub(super) index: Section,
    /// The ranges where they are expensive.
    pub(super) costly: Arc<[CostlyRange]>,
}

impl Tables {
    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.frames.bytes.len() + self.index.bytes.len() + size_of_val(&*self.costly)
    }

    /// How much work it may take to find the rules at an address in the file; 0 if it is little.
    pub(super) fn work_at(&self, address: u64) -> u32 {
        let behind = self.costly.partition_point(|costly| costly.start <= address);
        let costly = behind.checked_sub(1).map(|at| self.costly[at]);
        costly.filter(|costly| address < costly.end).map_or(0, |costly| costly.work)
    }
}

/// The copied part of the stack, in words.
#[derive(Clone, Copy, Debug)]
struct Copy<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl Copy<'_> {
    fn word(&self, address: u64) -> Result<u64, ()> {
        let at = usize::try_from(address.checked_sub(self.from).ok_or(())?).map_err(drop)?;
        let word = self.bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
        Ok(u64::from_ne_bytes(*word))
    }
}

/// The frames that frame pointers lead to: the address of each frame, as far as the copy shows it, and the index, in the kernel's walk, of
/// the function that it returns to.
fn frames_of(walked: &Walked, copy: Copy<'_>) -> Vec<(u64, usize)> {
    let mut frames = Vec::new();
    let mut frame = walked.registers.frame;
    for returns_to in 1..walked.frames.len() {
        frames.push((frame, returns_to));
        match copy.word(frame) {
            // A frame of another stack may have a lower address.
            Ok(next) if next != frame => frame = next,
            // This is outside of the copy; only the kernel knows how it continues.
            _ => break,
        }
    }
    frames
}

/// The state of unwinding, shared by all programs.
pub(super) struct Cache {
    rules: CacheNative<MayAllocateDuringUnwind>,
    /// For frame pointers.
    without_tables: Unwinder,
    /// How much work expensive entries may still take until a second after `renewed`.
    left: u32,
    renewed: Instant,
}

impl Default for Cache {
    fn default() -> Cache {
        let (rules, without_tables) = Default::default();
        Cache { rules, without_tables, left: MOST_WORK_A_SECOND, renewed: Instant::now() }
    }
}

impl Cache {
    /// Gives it a new budget if the last one is a second old.
    pub(super) fn renew(&mut self, now: Instant) {
        if now.saturating_duration_since(self.renewed) >= Duration::from_secs(1) {
            (self.left, self.renewed) = (MOST_WORK_A_SECOND, now);
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// The tables of a program, at the addresses where it has mapped them.
#[derive(Default)]
pub(super) struct Unwinder(UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>);

impl fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwinder").finish_non_exhaustive()
    }
}

#[cfg(target_arch = "x86_64")]
fn start(registers: Registers) -> UnwindRegsNative {
    let Registers { instruction, stack, frame, .. } = registers;
    UnwindRegsNative::new(instruction, stack, frame)
}

#[cfg(target_arch = "x86_64")]
fn frame_of(registers: &UnwindRegsNative) -> u64 {
    registers.bp()
}

#[cfg(not(target_arch = "x86_64"))]
fn start(registers: Registers) -> UnwindRegsNative {
    let Registers { stack, frame, link, .. } = registers;
    UnwindRegsNative::new(link, stack, frame)
}

#[cfg(not(target_arch = "x86_64"))]
fn frame_of(registers: &UnwindRegsNative) -> u64 {
    registers.fp()
}

/// The unwinding data for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// There are tables for its file; finding its rules may take this much work, 0 for little.
    Tables(u32),
    /// There are no tables, so only frame pointers can be used.
    NoTables,
    /// It is not code.
    None,
}

impl Unwinder {
    /// Adds the tables of a file of which `range` is mapped; `module_address` is the address of its beginning according to the file.
    pub(super) fn add(&mut self, range: (u64, u64), module_address: u64, tables: &Tables) {
        // The tables' addresses are relative to the beginning of the file.
        let Some(base) = range.0.checked_sub(module_address) else { return };
        let range_of = |section: &Section| {
            section.address..section.address.saturating_add(section.bytes.len() as u64)
        };
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(range_of(&tables.frames)),
            eh_frame: Some(tables.frames.bytes.clone()),
            eh_frame_hdr_svma: Some(range_of(&tables.index)),
            eh_frame_hdr: Some(tables.index.bytes.clone()),
            ..ExplicitModuleSectionInfo::default()
        };
        self.0.remove_module(range.0);
        self.0.add_module(Module::new(String::new(), range.0..range.1, base, info));
    }

    fn step(
        &self,
        cache: &mut CacheNative<MayAllocateDuringUnwind>,
        address: FrameAddress,
        registers: &mut UnwindRegsNative,
        copy: Copy<'_>,
    ) -> Result<Option<u64>, Error> {
        self.0.unwind_frame(address, registers, cache, &mut |at| copy.word(at))
    }
}

/// A stack that is being unwound.
#[derive(Debug)]
pub(super) struct Stack<'a> {
    walked: &'a Walked,
    copy: Copy<'a>,
    registers: UnwindRegsNative,
    address: FrameAddress,
    frames: Vec<u64>,
    problems: u32,
    /// How much work expensive entries may still take.
    left: u32,
    is_done: bool,
}

impl<'a> Stack<'a> {
    pub(super) fn new(walked: &'a Walked) -> Stack<'a> {
        let Registers { instruction, stack, .. } = walked.registers;
        let copy = Copy { from: stack, bytes: &walked.top };
        let registers = start(walked.registers);
        let address = FrameAddress::from_instruction_pointer(instruction);
        let mut own = Stack {
            walked,
            copy,
            registers,
            address,
            frames: vec![instruction],
            problems: 0,
            left: MOST_WORK,
            is_done: false,
        };
        if walked.top.is_empty() {
            own.take_rest(0, problem::USER_UNPROVED);
        }
        own
    }

    /// The address whose code must be known to continue; `None` at the end.
    pub(super) fn next(&self) -> Option<u64> {
        (!self.is_done).then(|| self.address.address_for_lookup())
    }

    /// Unwinds one function, whose code is `code`.
    pub(super) fn step(&mut self, code: Code, unwinder: &Unwinder, cache: &mut Cache) {
        let (mut unwinder, mut paid) = (unwinder, 0);
        match code {
            Code::Tables(work) if work > self.left.min(cache.left) => {
                unwinder = &cache.without_tables;
                self.problems |= problem::USER_UNPROVED;
            }
            Code::Tables(work) => paid = work,
            Code::NoTables => self.problems |= problem::USER_UNPROVED,
            Code::None => {
                // This was taken for a code address, but it is not one.
                if self.frames.len() > 1 {
                    self.frames.pop();
                }
                return self.end(problem::USER_CUT);
            }
        }
        let frame = frame_of(&self.registers);
        let found = cache.rules.stats().misses();
        let rules = &mut cache.rules;
        let stepped = unwinder.step(rules, self.address, &mut self.registers, self.copy);
        // Rules that are already known cost nothing.
        if rules.stats().misses() > found {
            self.left -= paid;
            cache.left -= paid;
        }
        match stepped {
            Ok(Some(returns_to)) => {
                let Some(address) = FrameAddress::from_return_address(returns_to) else {
                    return self.end(0);
                };
                self.address = address;
                self.frames.push(returns_to);
                if self.frames.len() >= MOST {
                    self.end(problem::USER_TOO_DEEP);
                }
            }
            Ok(None) => self.end(0),
            // The read failed at the function's own frame, by its frame register, outside of the copy.
            Err(Error::CouldNotReadStack(at)) if at == frame || at == frame.wrapping_add(8) => {
                let frames = frames_of(self.walked, self.copy);
                match frames.iter().find(|(address, _)| *address == frame) {
                    Some(&(_, returns_to)) => self.take_rest(returns_to, 0),
                    None => self.end(problem::USER_CUT),
                }
            }
            Err(_) => self.end(problem::USER_CUT),
        }
    }

    /// Ends with the frames that the kernel walked from there on.
    fn take_rest(&mut self, from: usize, problems: u32) {
        let rest = self.walked.frames.get(from..).unwrap_or_default();
        match from {
            // The kernel's walk begins with the function itself, too.
            0 if !rest.is_empty() => self.frames = rest.to_vec(),
            _ => self.frames.extend_from_slice(rest),
        }
        let is_whole = !self.walked.is_cut && self.frames.len() <= MOST;
        self.frames.truncate(MOST);
        self.end(problems | if is_whole { 0 } else { problem::USER_TOO_DEEP });
    }

    fn end(&mut self, problems: u32) {
        self.problems |= problems;
        self.is_done = true;
    }

    /// The functions, the innermost first, and their problems.
    pub(super) fn finish(self) -> (Vec<u64>, u32) {
        (self.frames, self.problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0x7000_0000;

    /// A stack of `words` at [`TOP`].
    fn walked(frame: u64, frames: &[u64], words: &[u64]) -> Walked {
        Walked {
            frames: frames.to_vec(),
            registers: Registers { instruction: frames[0], stack: TOP, frame, link: 0 },
            top: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            ..Walked::default()
        }
    }

    fn unwind(walked: &Walked, code: impl Fn(u64) -> Code) -> (Vec<u64>, u32) {
        let mut stack = Stack::new(walked);
        let (unwinder, mut cache) = (Unwinder::default(), Cache::default());
        while let Some(address) = stack.next() {
            stack.step(code(address), &unwinder, &mut cache);
        }
        stack.finish()
    }

    #[test]
    fn where_the_copy_ends_the_kernels_walk_goes_on_from_the_same_frame() {
        // Frames at TOP + 16 and, outside of the copy, at TOP + 0x100.
        let chain = [0x1000, 0x2000, 0x3000, 0x4000];
        let walked = walked(TOP + 16, &chain, &[0, 0, TOP + 0x100, 0x2000]);
        assert_eq!(frames_of(&walked, Stack::new(&walked).copy), [(TOP + 16, 1), (TOP + 0x100, 2)]);
        let (frames, problems) = unwind(&walked, |_| Code::NoTables);
        assert_eq!((&frames[..], problems), (&chain[..], problem::USER_UNPROVED));
    }

    #[test]
    fn what_the_kernel_walked_from_another_frame_is_not_taken() {
        // The register leads to a frame outside of the copy, and its value in the caller leads to another one.
        let walked = walked(TOP + 0x200, &[0x1000, 0x2000], &[0, 0]);
        let mut stack = Stack::new(&walked);
        stack.registers = start(Registers { frame: TOP + 0x300, ..walked.registers });
        stack.step(Code::Tables(0), &Unwinder::default(), &mut Cache::default());
        assert_eq!(stack.finish(), (vec![0x1000], problem::USER_CUT));
    }

    #[test]
    fn without_a_copy_the_walk_is_taken_and_said_to_be_unproved() {
        let walked = walked(TOP, &[0x1000, 0x2000], &[]);
        let expected = (vec![0x1000, 0x2000], problem::USER_UNPROVED);
        assert_eq!(unwind(&walked, |_| Code::Tables(0)), expected);
    }

    #[test]
    fn what_is_no_code_ends_the_stack() {
        let walked = walked(TOP + 16, &[0x1000, 0x2000], &[0, 0, TOP + 32, 0x2000, 0, 0]);
        let code = |at: u64| if at < 0x1800 { Code::Tables(0) } else { Code::None };
        assert_eq!(unwind(&walked, code), (vec![0x1000], problem::USER_CUT));
    }

    #[test]
    fn expensive_tables_have_a_budget_for_each_stack_and_second() {
        let words: Vec<u64> = (0..8).flat_map(|at| [TOP + 16 * (at + 1), 0x2000 + at]).collect();
        let walked = walked(TOP, &[0x1000, 0x2000], &words);
        let (unwinder, mut cache) = (Unwinder::default(), Cache::default());
        let unwind = |cache: &mut Cache, base: u64, work| {
            let mut stack = Stack::new(&walked);
            stack.address = FrameAddress::from_instruction_pointer(base);
            let mut spent = Vec::new();
            while stack.next().is_some() {
                stack.step(Code::Tables(work), &unwinder, cache);
                spent.push((MOST_WORK - stack.left) / work);
            }
            (spent, stack.finish().1 & problem::USER_UNPROVED != 0)
        };
        // The third one exceeds the budget of the stack.
        let (spent, is_unproved) = unwind(&mut cache, 0x1000, MOST_WORK / 2);
        assert_eq!((&spent[..4], is_unproved), (&[1, 2, 2, 2][..], true));
        assert_eq!(cache.left, MOST_WORK_A_SECOND - MOST_WORK);
        // For another stack at the same place, the first two are known, and two more are found.
        let (spent, is_unproved) = unwind(&mut cache, 0x1000, MOST_WORK / 2);
        assert_eq!((&spent[..6], is_unproved), (&[0, 0, 1, 2, 2, 2][..], true));
        // The rest of this second's budget is not enough.
        cache.left = MOST_WORK / 2 - 1;
        let renewed = cache.renewed;
        cache.renew(renewed + Duration::from_millis(999));
        assert_eq!(unwind(&mut cache, 0x1001, MOST_WORK / 2).0[0], 0);
        cache.renew(renewed + Duration::from_secs(1));
        assert_eq!(unwind(&mut cache, 0x1002, MOST_WORK / 2).0[0], 1);
    }

    #[test]
    fn work_is_looked_up_by_address() {
        let section = || Section { bytes: Arc::default(), address: 0 };
        let costly = [(10, 20, 7), (20, 30, 8), (50, u64::MAX, 9)];
        let costly = costly.map(|(start, end, work)| CostlyRange { start, end, work });
        let tables = Tables { frames: section(), index: section(), costly: costly.into() };
        let work = [9, 10, 19, 20, 29, 30, 49, 50].map(|address| tables.work_at(address));
        assert_eq!(work, [0, 7, 7, 8, 8, 0, 0, 9]);
    }

    #[test]
    fn a_stack_that_continues_forever_ends() {
        let words: Vec<u64> = (0..400).flat_map(|at| [TOP + 16 * (at + 1), 0x2000 + at]).collect();
        let walked = walked(TOP, &[0x1000, 0x2000], &words);
        let (frames, problems) = unwind(&walked, |_| Code::Tables(0));
        assert_eq!((frames.len(), problems), (MOST, problem::USER_TOO_DEEP));
    }
}
