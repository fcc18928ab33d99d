//! A small assembler for the kernel's BPF machine: instructions by name, jumps to labels.
//!
//! Only what the programs need is here. The encoding is that of the kernel's
//! `Documentation/bpf/standardization/instruction-set.rst`.

/// One instruction, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The licence of what is assembled here, in the words that the kernel knows. Programs in C state theirs.
pub const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

impl Insn {
    /// One whose parts are known.
    pub(super) fn new(code: u8, target: u8, source: u8, offset: i16, immediate: i32) -> Insn {
        let (low, high) = match cfg!(target_endian = "little") {
            true => (target, source),
            false => (source, target),
        };
        Insn { code, registers: high << 4 | low, offset, immediate }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the stack.
    R10,
}

/// How many bytes a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Byte,
    Half,
    /// 4 bytes. A load clears the upper half of the register.
    Word,
    Double,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Xor,
    Move,
}

/// When to jump; comparisons are of unsigned 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Equal,
    NotEqual,
    /// The register is not less.
    AtLeast,
    /// A bit is set in both.
    Shares,
}

/// What memory is changed by, in one step that no other CPU can divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// The register is added.
    Add,
    /// Bits of the register are set.
    Or,
    /// Only bits of the register stay.
    And,
    /// The register is stored, ordered after every earlier and before every later access, and takes the old value.
    Exchange,
    /// The register is stored if there is what R0 has, which takes the old value.
    CompareExchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Reg(Reg),
    /// A number, extended by its sign.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        Operand::Imm(number)
    }
}

/// Functions of the kernel that programs may call. Arguments are in R1 to R5, which the call destroys; the result is
/// in R0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `bpf_map_lookup_elem(map, key)`: the address of a value, or 0.
    MapLookup = 1,
    /// `bpf_ktime_get_ns()`: CLOCK_MONOTONIC.
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    /// `bpf_perf_event_output(context, map, flags, data, size)`: 0, or a negative error.
    PerfEventOutput = 25,
    /// The ids of the process, in the upper half, and of the thread that runs.
    GetCurrentPidTgid = 14,
    /// `bpf_get_stack(context, target, size, flags)`: how many bytes of program counters of the thread that runs, or a negative
    /// error.
    GetStack = 67,
    /// `bpf_probe_read_user(target, size, address)`: 0, or a negative error; then the target is zero.
    ProbeReadUser = 112,
    /// `bpf_ringbuf_output(map, data, size, flags)`.
    RingbufOutput = 130,
    /// `bpf_get_task_stack(task, target, size, flags)`: how many bytes of program counters, or a negative error.
    GetTaskStack = 141,
    GetCurrentTaskBtf = 158,
    /// `bpf_get_attach_cookie(context)`: what the place was attached with.
    GetAttachCookie = 174,
    /// `bpf_task_pt_regs(task)`: what the task had for registers when it entered the kernel (since Linux 5.15).
    TaskPtRegs = 175,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Why a program could not be assembled: mistakes of its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AsmError {
    /// A label was jumped to and never placed.
    #[error("instruction {0} of a BPF program jumps to an undefined label")]
    NoSuchPlace(usize),
    /// A jump is too long for its 16 bits.
    #[error("instruction {0} of a BPF program jumps too far")]
    TooFar(usize),
}

// Classes, in the lower three bits of a code.
const LD: u8 = 0x00;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const JMP: u8 = 0x05;
const ALU64: u8 = 0x07;

// Modes of loads and stores.
const IMM: u8 = 0x00;
const MEM: u8 = 0x60;
const ATOMIC: u8 = 0xc0;

/// The second operand is a register.
const X: u8 = 0x08;

// Jumps that are not conditional.
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// What the immediate of a 64-bit load is.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Pseudo {
    MapFd = 1,
    MapValue = 2,
}

impl Width {
    fn code(self) -> u8 {
        match self {
            Width::Word => 0x00,
            Width::Half => 0x08,
            Width::Byte => 0x10,
            Width::Double => 0x18,
        }
    }
}

impl Alu {
    fn code(self) -> u8 {
        match self {
            Alu::Add => 0x00,
            Alu::Sub => 0x10,
            Alu::Mul => 0x20,
            Alu::Or => 0x40,
            Alu::And => 0x50,
            Alu::ShiftLeft => 0x60,
            Alu::ShiftRight => 0x70,
            Alu::Xor => 0xa0,
            Alu::Move => 0xb0,
        }
    }
}

impl When {
    fn code(self) -> u8 {
        match self {
            When::Equal => 0x10,
            When::AtLeast => 0x30,
            When::Shares => 0x40,
            When::NotEqual => 0x50,
        }
    }
}

impl Atomic {
    fn code(self) -> i32 {
        match self {
            Atomic::Add => 0x00,
            Atomic::Or => 0x40,
            Atomic::And => 0x50,
            Atomic::Exchange => 0xe1,
            Atomic::CompareExchange => 0xf1,
        }
    }
}

/// Both registers in one byte: the target in the four bits that are first in memory order.
fn registers(target: Reg, source: Reg) -> u8 {
    let (target, source) = (target as u8, source as u8);
    if cfg!(target_endian = "little") { source * 16 + target } else { target * 16 + source }
}

/// A program that is being written.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    /// Where each label is, as far as that is known.
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn new() -> Assembler {
        Assembler::default()
    }

    fn put(&mut self, code: u8, target: Reg, source: Reg, offset: i16, immediate: i32) {
        let registers = registers(target, source);
        self.insns.push(Insn { code, registers, offset, immediate });
    }

    /// A label for a place that is yet to come.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Puts the label before the next instruction.
    pub fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.insns.len());
    }

    /// `target = target op operand`; for [`Alu::Move`], `target = operand`.
    pub fn alu(&mut self, op: Alu, target: Reg, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Reg(source) => self.put(ALU64 | op.code() | X, target, source, 0, 0),
            Operand::Imm(number) => self.put(ALU64 | op.code(), target, Reg::R0, 0, number),
        }
    }

    /// `target = operand`.
    pub fn set(&mut self, target: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Move, target, operand);
    }

    /// `target = *(base + offset)`.
    pub fn load(&mut self, width: Width, target: Reg, base: Reg, offset: i16) {
        self.put(LDX | MEM | width.code(), target, base, offset, 0);
    }

    /// `*(base + offset) = value`.
    pub fn store(&mut self, width: Width, base: Reg, offset: i16, value: impl Into<Operand>) {
        match value.into() {
            Operand::Reg(value) => self.put(STX | MEM | width.code(), base, value, offset, 0),
            Operand::Imm(value) => self.put(ST | MEM | width.code(), base, Reg::R0, offset, value),
        }
    }

    /// Changes the eight bytes at `base + offset`.
    pub fn atomic(&mut self, op: Atomic, base: Reg, offset: i16, value: Reg) {
        self.put(STX | ATOMIC | Width::Double.code(), base, value, offset, op.code());
    }

    fn load_wide(&mut self, target: Reg, pseudo: Pseudo, low: i32, high: i32) {
        // The four bits of the second register hold the kind.
        let source = match pseudo {
            Pseudo::MapFd => Reg::R1,
            Pseudo::MapValue => Reg::R2,
        };
        self.put(LD | IMM | Width::Double.code(), target, source, 0, low);
        self.put(0, Reg::R0, Reg::R0, 0, high);
    }

    /// `target` = the map of this descriptor.
    pub fn load_map(&mut self, target: Reg, map: i32) {
        self.load_wide(target, Pseudo::MapFd, map, 0);
    }

    /// `target` = the address of the only value of an array map.
    pub fn load_map_value(&mut self, target: Reg, map: i32) {
        self.load_wide(target, Pseudo::MapValue, map, 0);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.put(JMP | CALL, Reg::R0, Reg::R0, 0, helper as i32);
    }

    /// Calls a function of the kernel that has no number of a helper, by its id in the kernel's type description.
    pub fn call_function(&mut self, id: u32) {
        // In the place of a register it says which kind of call this is.
        const BY_TYPE: Reg = Reg::R2;
        self.put(JMP | CALL, Reg::R0, BY_TYPE, 0, id.cast_signed());
    }

    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.put(JMP | ALWAYS, Reg::R0, Reg::R0, 0, 0);
    }

    /// Goes to `label` if the register compares so.
    pub fn jump_if(&mut self, when: When, reg: Reg, operand: impl Into<Operand>, label: Label) {
        self.jumps.push((self.insns.len(), label));
        match operand.into() {
            Operand::Reg(other) => self.put(JMP | when.code() | X, reg, other, 0, 0),
            Operand::Imm(number) => self.put(JMP | when.code(), reg, Reg::R0, 0, number),
        }
    }

    /// Ends the program with the result 0, which tracing programs must have.
    pub fn exit(&mut self) {
        self.set(Reg::R0, 0);
        self.put(JMP | EXIT, Reg::R0, Reg::R0, 0, 0);
    }

    /// The finished program.
    ///
    /// # Errors
    /// [`AsmError`] when a jump cannot be made.
    pub fn finish(mut self) -> Result<Vec<Insn>, AsmError> {
        for (at, label) in self.jumps {
            let to = self.places[label.0].ok_or(AsmError::NoSuchPlace(at))?;
            // Counted from the instruction behind the jump.
            let distance = to as i64 - (at as i64 + 1);
            self.insns[at].offset = i16::try_from(distance).map_err(|_| AsmError::TooFar(at))?;
        }
        Ok(self.insns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(write: impl FnOnce(&mut Assembler)) -> (u8, u8, i16, i32) {
        let mut asm = Assembler::new();
        write(&mut asm);
        let insn = asm.finish().expect("no jumps")[0];
        (insn.code, insn.registers, insn.offset, insn.immediate)
    }

    /// The codes are those that `clang -target bpf` and `bpftool prog dump xlated opcodes` show.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_kernel_documents_them() {
        assert_eq!(one(|a| a.set(Reg::R6, Reg::R1)), (0xbf, 0x16, 0, 0));
        assert_eq!(one(|a| a.set(Reg::R0, 7)), (0xb7, 0x00, 0, 7));
        assert_eq!(one(|a| a.load(Width::Double, Reg::R7, Reg::R6, 8)), (0x79, 0x67, 8, 0));
        assert_eq!(one(|a| a.load(Width::Word, Reg::R1, Reg::R2, -4)), (0x61, 0x21, -4, 0));
        assert_eq!(one(|a| a.store(Width::Byte, Reg::R3, 2, Reg::R4)), (0x73, 0x43, 2, 0));
        assert_eq!(one(|a| a.store(Width::Half, Reg::R3, 2, Reg::R4)), (0x6b, 0x43, 2, 0));
        assert_eq!(one(|a| a.store(Width::Word, Reg::R10, -8, 0)), (0x62, 0x0a, -8, 0));
        assert_eq!(one(|a| a.atomic(Atomic::Or, Reg::R2, 0, Reg::R1)), (0xdb, 0x12, 0, 0x40));
        assert_eq!(one(|a| a.alu(Alu::ShiftLeft, Reg::R1, Reg::R2)), (0x6f, 0x21, 0, 0));
        assert_eq!(one(|a| a.call(Helper::KtimeGetNs)), (0x85, 0x00, 0, 5));
        assert_eq!(one(|a| a.load_map(Reg::R1, 9)), (0x18, 0x11, 0, 9));
        assert_eq!(one(|a| a.load_map_value(Reg::R2, 9)), (0x18, 0x22, 0, 9));
    }

    #[test]
    fn jumps_count_from_the_next_instruction_in_both_directions() {
        let mut asm = Assembler::new();
        let (back, on) = (asm.label(), asm.label());
        asm.place(back);
        asm.jump_if(When::Equal, Reg::R1, 0, on);
        asm.load_map(Reg::R1, 3);
        asm.jump(back);
        asm.place(on);
        asm.exit();
        let insns = asm.finish().expect("both labels are placed");
        assert_eq!((insns[0].offset, insns[3].offset), (3, -4));
        assert_eq!(insns.len(), 6, "a wide load takes two places");
    }

    #[test]
    fn a_label_that_is_never_placed_is_an_error() {
        let mut asm = Assembler::new();
        let nowhere = asm.label();
        asm.exit();
        asm.jump(nowhere);
        assert_eq!(asm.finish(), Err(AsmError::NoSuchPlace(2)));
    }
}
