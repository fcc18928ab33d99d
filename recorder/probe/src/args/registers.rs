//! Registers and calling conventions, by the names that the kernel's probes use.

use crate::elf::Arch;

use super::Width;

/// A register that the kernel saves at a probe, or the low part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    /// The kernel's name, without the percent sign.
    pub(crate) kernel: &'static str,
    /// The width of the accessed part.
    pub(crate) width: Width,
}

/// The whole register, its low halves, as x86 assemblers write them.
const X86_64: [[&str; 5]; 18] = [
    // kernel, 64, 32, 16 and 8 bits
    ["ax", "rax", "eax", "ax", "al"],
    ["bx", "rbx", "ebx", "bx", "bl"],
    ["cx", "rcx", "ecx", "cx", "cl"],
    ["dx", "rdx", "edx", "dx", "dl"],
    ["si", "rsi", "esi", "si", "sil"],
    ["di", "rdi", "edi", "di", "dil"],
    ["bp", "rbp", "ebp", "bp", "bpl"],
    ["sp", "rsp", "esp", "sp", "spl"],
    ["r8", "r8", "r8d", "r8w", "r8b"],
    ["r9", "r9", "r9d", "r9w", "r9b"],
    ["r10", "r10", "r10d", "r10w", "r10b"],
    ["r11", "r11", "r11d", "r11w", "r11b"],
    ["r12", "r12", "r12d", "r12w", "r12b"],
    ["r13", "r13", "r13d", "r13w", "r13b"],
    ["r14", "r14", "r14d", "r14w", "r14b"],
    ["r15", "r15", "r15d", "r15w", "r15b"],
    ["ip", "rip", "eip", "ip", ""],
    ["flags", "rflags", "eflags", "flags", ""],
];

const AARCH64: [[&str; 3]; 31] = [
    // kernel, 64 and 32 bits
    ["x0", "x0", "w0"],
    ["x1", "x1", "w1"],
    ["x2", "x2", "w2"],
    ["x3", "x3", "w3"],
    ["x4", "x4", "w4"],
    ["x5", "x5", "w5"],
    ["x6", "x6", "w6"],
    ["x7", "x7", "w7"],
    ["x8", "x8", "w8"],
    ["x9", "x9", "w9"],
    ["x10", "x10", "w10"],
    ["x11", "x11", "w11"],
    ["x12", "x12", "w12"],
    ["x13", "x13", "w13"],
    ["x14", "x14", "w14"],
    ["x15", "x15", "w15"],
    ["x16", "x16", "w16"],
    ["x17", "x17", "w17"],
    ["x18", "x18", "w18"],
    ["x19", "x19", "w19"],
    ["x20", "x20", "w20"],
    ["x21", "x21", "w21"],
    ["x22", "x22", "w22"],
    ["x23", "x23", "w23"],
    ["x24", "x24", "w24"],
    ["x25", "x25", "w25"],
    ["x26", "x26", "w26"],
    ["x27", "x27", "w27"],
    ["x28", "x28", "w28"],
    ["x29", "fp", "w29"],
    ["x30", "lr", "w30"],
];

/// Registers that an assembler does not name differently by size.
const AARCH64_OTHERS: [&str; 3] = ["sp", "pc", "pstate"];

/// Finds a register by the assembler's name, which implies the width.
pub(crate) fn by_assembler(arch: Arch, name: &str) -> Option<Register> {
    let widths = [Width::Bits64, Width::Bits32, Width::Bits16, Width::Bits8];
    let find = |names: &[&'static str]| {
        let (kernel, sizes) = names.split_first()?;
        let (_, width) = sizes.iter().zip(widths).find(|(size, _)| **size == name)?;
        Some(Register { kernel, width })
    };
    match arch {
        Arch::X86_64 => X86_64.iter().find_map(|names| find(names)),
        Arch::Aarch64 => {
            AARCH64.iter().find_map(|names| find(names)).or_else(|| kernel(arch, name))
        }
    }
    .filter(|_| !name.is_empty())
}

/// Finds a register by the kernel's name or the assembler's; the kernel's name means the whole register.
pub(crate) fn by_any_name(arch: Arch, name: &str) -> Option<Register> {
    kernel(arch, name).or_else(|| by_assembler(arch, name))
}

fn kernel(arch: Arch, name: &str) -> Option<Register> {
    let kernel = match arch {
        Arch::X86_64 => X86_64.iter().map(|names| names[0]).find(|kernel| *kernel == name),
        Arch::Aarch64 => AARCH64
            .iter()
            .map(|names| names[0])
            .chain(AARCH64_OTHERS)
            .find(|kernel| *kernel == name),
    };
    kernel.map(|kernel| Register { kernel, width: Width::Bits64 })
}

/// All registers, by the kernel's names, for messages.
pub(super) fn all(arch: Arch) -> String {
    match arch {
        Arch::X86_64 => X86_64.map(|names| names[0]).join(", "),
        Arch::Aarch64 => "x0 to x30, sp, pc, pstate".to_owned(),
    }
}

/// Where a function finds an argument of at most 64 bits, except floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentAt {
    /// In this register, by the kernel's name.
    In(&'static str),
    /// This many bytes above the stack pointer, at the first instruction.
    OnStack(i64),
}

/// Where argument `number`, from 1, is at a function's first instruction.
pub(super) fn argument(arch: Arch, number: u32) -> ArgumentAt {
    // The stack begins with the return address on x86-64, where a call pushes it.
    let (registers, first): (&[&'static str], i64) = match arch {
        Arch::X86_64 => (&["di", "si", "dx", "cx", "r8", "r9"], 8),
        Arch::Aarch64 => (&["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"], 0),
    };
    let index = number.saturating_sub(1);
    match usize::try_from(index).ok().and_then(|index| registers.get(index)) {
        Some(register) => ArgumentAt::In(register),
        None => {
            let on_stack = i64::from(index) - registers.len() as i64;
            ArgumentAt::OnStack(first + on_stack * Width::Bits64.bytes() as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assemblers_name_says_which_part_of_a_register() {
        let of = |arch, name| by_assembler(arch, name).map(|it| (it.kernel, it.width.bits()));
        assert_eq!(of(Arch::X86_64, "rdi"), Some(("di", 64)));
        assert_eq!(of(Arch::X86_64, "ax"), Some(("ax", 16)));
        assert_eq!(of(Arch::X86_64, "r10b"), Some(("r10", 8)));
        assert_eq!(of(Arch::X86_64, "xmm0"), None);
        assert_eq!(of(Arch::X86_64, "ah"), None);
        assert_eq!(of(Arch::X86_64, ""), None);
        assert_eq!(of(Arch::Aarch64, "w3"), Some(("x3", 32)));
        assert_eq!(of(Arch::Aarch64, "x29"), Some(("x29", 64)));
        assert_eq!(of(Arch::Aarch64, "sp"), Some(("sp", 64)));
    }

    #[test]
    fn the_kernels_name_means_the_whole_register() {
        let ax = by_any_name(Arch::X86_64, "ax").expect("a register");
        assert_eq!(ax.width, Width::Bits64);
    }

    #[test]
    fn arguments_are_in_registers_and_then_on_the_stack() {
        assert_eq!(argument(Arch::X86_64, 1), ArgumentAt::In("di"));
        assert_eq!(argument(Arch::X86_64, 6), ArgumentAt::In("r9"));
        assert_eq!(argument(Arch::X86_64, 7), ArgumentAt::OnStack(8));
        assert_eq!(argument(Arch::X86_64, 8), ArgumentAt::OnStack(16));
        assert_eq!(argument(Arch::Aarch64, 8), ArgumentAt::In("x7"));
        assert_eq!(argument(Arch::Aarch64, 9), ArgumentAt::OnStack(0));
    }
}
