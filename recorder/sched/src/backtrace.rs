//! The flags of fxtrec's backtraces, for the code that writes them and the code that reads them. No public document defines these 28 bits.
//!
//! ```text
//!   bits  0 to  7   what is missing: [`problem`]
//!   bits  8 to  9   which stack it is: [`Kind`]
//!   bits 10 to 27   for the stacks of a wait and of who ended it: a number that both have, see [`link`]
//! ```

use fxt_reader::record::Args;

use crate::unsigned;

/// The value of the argument `of` of `stack_info` if only some processes have stacks: COMMAND, those of `-p`, and their descendants.
pub const OF_CHOSEN: &str = "processes";

/// The argument of a function's name that holds the number of its process's module.
pub const NAME_MODULE: &str = "module";

/// That module's number, from the arguments of a name.
pub fn module_of_name(args: &Args<'_>) -> Option<u16> {
    args.get(NAME_MODULE).and_then(unsigned).and_then(|id| u16::try_from(id).ok())
}

/// The missing parts of a stack; see [`PROBLEMS`].
pub mod problem {
    /// The kernel's stack could not be walked.
    pub const KERNEL_UNREADABLE: u32 = 1 << 0;
    /// The kernel's stack has more frames.
    pub const KERNEL_TOO_DEEP: u32 = 1 << 1;
    /// The program's stack could not be walked.
    pub const USER_UNREADABLE: u32 = 1 << 2;
    /// The program's stack has more frames.
    pub const USER_TOO_DEEP: u32 = 1 << 3;
    /// The program's stack was not stored because there was no space.
    pub const USER_NO_ROOM: u32 = 1 << 4;
    /// The program's stack ends early.
    pub const USER_CUT: u32 = 1 << 5;
    /// The caller of the innermost function may be missing: the stack was walked by frame pointers alone.
    pub const USER_UNPROVED: u32 = 1 << 6;
    /// Python functions are missing; or they could not be inserted in the positions of the native functions that evaluate them, and come
    /// first.
    pub const PYTHON: u32 = 1 << 7;

    /// All of these bits.
    pub const ALL: u32 = 0xff;
}

/// Each problem in words.
pub const PROBLEMS: [(u32, &str); 8] = [
    (problem::KERNEL_UNREADABLE, "the kernel stack could not be read"),
    (problem::KERNEL_TOO_DEEP, "the kernel stack is deeper"),
    (problem::USER_UNREADABLE, "the user stack could not be read"),
    (problem::USER_TOO_DEEP, "the user stack is deeper"),
    (problem::USER_NO_ROOM, "there was no space for the user stack"),
    (problem::USER_CUT, "the user stack ends early"),
    (problem::USER_UNPROVED, "the innermost function may lack its caller"),
    (problem::PYTHON, "Python functions are missing or misplaced"),
];

/// Which stack of a thread a backtrace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    OffCpu,
    /// Taken where the thread woke another thread.
    Wake,
    /// Taken where the thread ran when it was sampled.
    Cpu,
}

const KIND_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 10;
const LINK_MASK: u32 = (1 << 18) - 1;

impl Kind {
    /// The kind as a part of the flags.
    pub const fn flags(self) -> u32 {
        (self as u32) << KIND_SHIFT
    }

    /// The kind in these flags; `None` for a kind of a later version.
    pub const fn of(flags: u32) -> Option<Kind> {
        match flags >> KIND_SHIFT & 3 {
            0 => Some(Kind::OffCpu),
            1 => Some(Kind::Wake),
            2 => Some(Kind::Cpu),
            _ => None,
        }
    }
}

/// A number as a part of the flags. Each wait that has a waker's stack gets the next number; after 2^18 - 1, numbering starts again at 1. 0
/// means that there is none.
pub const fn link_flags(number: u64) -> u32 {
    let number = (number % LINK_MASK as u64) as u32 + 1;
    number << LINK_SHIFT
}

/// The number that links the stack of a wait to the stack of its waker; 0 for none.
pub const fn link(flags: u32) -> u32 {
    flags >> LINK_SHIFT & LINK_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_flags_do_not_touch_each_other_and_fit_into_28_bits() {
        let problems = PROBLEMS.iter().fold(0, |all, (bit, _)| all | bit);
        assert_eq!(problems.count_ones() as usize, PROBLEMS.len());
        for kind in [Kind::OffCpu, Kind::Wake, Kind::Cpu] {
            for number in [0, 1, 77, u64::from(LINK_MASK) - 1] {
                let flags = problems | kind.flags() | link_flags(number);
                assert!(flags < 1 << 28);
                assert_eq!(Kind::of(flags), Some(kind));
                assert_eq!(u64::from(link(flags)), number + 1);
                assert_eq!(flags & 0xff, problems);
            }
        }
        assert_eq!(link(link_flags(u64::from(LINK_MASK))), 1, "they begin anew, and never with 0");
        assert_eq!((link(0), Kind::of(3 << KIND_SHIFT)), (0, None));
    }
}
