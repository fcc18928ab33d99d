//! Where instructions begin.
//!
//! A breakpoint in the middle of an instruction changes the instruction, and the
//! program's behaviour becomes undefined. The kernel cannot detect that, so it is
//! checked here, by decoding instructions from the function's start.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};
use object::ReadRef;

use super::{Arch, Elf, Function, Functions};

/// No function is decoded further than this, in bytes.
const FURTHEST: u64 = 16 << 20;

/// No instruction of x86-64 is longer, in bytes.
const LONGEST_INSTRUCTION: u64 = 15;

/// Instructions of AArch64 all have this size, in bytes.
const AARCH64_INSTRUCTION: u64 = 4;

/// The reason why a location is not known to be the start of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// It is beyond the end of the function.
    #[error(
        "{function}+{offset:#x} is beyond the function, which has {size:#x} ({size}) bytes; to \
         find its last instruction, use objdump -d"
    )]
    Beyond {
        function: String,
        size: u64,
        /// The requested offset.
        offset: u64,
    },
    /// It is in the middle of an instruction.
    #[error(
        "{function}+{offset:#x} is inside an instruction: a breakpoint there would break the \
         program; instructions begin at +{before:#x} and +{after:#x}"
    )]
    Inside {
        function: String,
        /// The requested offset.
        offset: u64,
        /// The offset of the instruction that it is in.
        before: u64,
        /// The offset of the next instruction.
        after: u64,
    },
    /// The code before it cannot be decoded.
    #[error(
        "{function}+{offset:#x} may not be the start of an instruction: the bytes at +{at:#x} cannot be decoded"
    )]
    Undecodable {
        function: String,
        /// The requested offset.
        offset: u64,
        /// The offset of bytes that are not an instruction.
        at: u64,
    },
}

/// Checks that an instruction begins `offset` bytes into `function`, which is called `name`.
///
/// # Errors
/// Returns an error when no instruction begins there, or that cannot be determined.
pub fn check<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    functions: &Functions,
    function: &Function,
    name: &str,
    offset: u64,
) -> Result<(), BoundsError> {
    if offset == 0 {
        return Ok(());
    }
    let size = extent(elf, functions, function);
    if offset >= size {
        return Err(BoundsError::Beyond { function: name.to_owned(), size, offset });
    }
    begins(elf, function.address, size, name, offset)
}

/// Checks that an instruction begins at `address`, at which no function is known, if unwind information permits.
///
/// # Errors
/// Returns an error when none does.
pub fn check_unnamed<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    address: u64,
) -> Result<(), BoundsError> {
    // Instructions of a fixed size can be found without a known beginning.
    let start = match elf.arch() {
        Arch::Aarch64 => Some(address - address % AARCH64_INSTRUCTION),
        Arch::X86_64 => elf.code_start(address),
    };
    let Some(start) = start else { return Ok(()) };
    let into = address - start;
    match begins(elf, start, into.saturating_add(1), &format!("{start:#x}"), into) {
        // The bytes between two functions need not be code.
        Err(BoundsError::Undecodable { .. }) => Ok(()),
        result => result,
    }
}

fn begins<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    start: u64,
    size: u64,
    name: &str,
    offset: u64,
) -> Result<(), BoundsError> {
    match elf.arch() {
        Arch::Aarch64 if offset.is_multiple_of(AARCH64_INSTRUCTION) => Ok(()),
        Arch::Aarch64 => {
            let before = offset - offset % AARCH64_INSTRUCTION;
            let after = before + AARCH64_INSTRUCTION;
            Err(BoundsError::Inside { function: name.to_owned(), offset, before, after })
        }
        Arch::X86_64 => {
            let most = size.saturating_add(LONGEST_INSTRUCTION).min(FURTHEST);
            // The requested instruction must be readable as well.
            let code = elf.mapped(start, most).unwrap_or_default();
            follow(code, name, offset)
        }
    }
}

/// The size of the function in bytes; up to the next function if the file does not contain it.
fn extent<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, functions: &Functions, function: &Function) -> u64 {
    let address = function.address;
    let segment = elf.segments().iter().find(|segment| segment.contains(address));
    let rest = segment.map_or(0, |segment| segment.size - (address - segment.address));
    let next = functions.next_after(address).map_or(rest, |next| next - address);
    function.size.unwrap_or(next).min(rest)
}

fn follow(code: &[u8], name: &str, offset: u64) -> Result<(), BoundsError> {
    let function = name.to_owned();
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.ip();
        if at == offset {
            return Ok(());
        }
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            return Err(BoundsError::Undecodable { function, offset, at });
        }
        let after = decoder.ip();
        if after > offset {
            return Err(BoundsError::Inside { function, offset, before: at, after });
        }
    }
    let at = decoder.ip();
    if at == offset { Ok(()) } else { Err(BoundsError::Undecodable { function, offset, at }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // push %rbp; mov %rsp,%rbp; sub $0x10,%rsp; vaddps %ymm2,%ymm1,%ymm0; ret
    const CODE: [u8; 13] =
        [0x55, 0x48, 0x89, 0xE5, 0x48, 0x83, 0xEC, 0x10, 0xC5, 0xF4, 0x58, 0xC2, 0xC3];

    #[test]
    fn only_where_an_instruction_begins_can_a_probe_be() {
        let begins: Vec<u64> =
            (0..13).filter(|offset| follow(&CODE, "f", *offset).is_ok()).collect();
        assert_eq!(begins, [0, 1, 4, 8, 12]);
    }

    #[test]
    fn inside_of_an_instruction_its_neighbours_are_named() {
        let error = follow(&CODE, "f", 6).expect_err("inside of sub");
        let wanted = BoundsError::Inside { function: "f".into(), offset: 6, before: 4, after: 8 };
        assert_eq!(error, wanted);
    }

    #[test]
    fn what_is_no_instruction_is_not_followed() {
        // 0x06 is not an instruction of 64-bit code.
        let error = follow(&[0x90, 0x06, 0x90, 0x90], "f", 3).expect_err("behind 0x06");
        assert_eq!(error, BoundsError::Undecodable { function: "f".into(), offset: 3, at: 1 });
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            code in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
            offset in 0_u64..70,
        ) {
            let _ = follow(&code, "f", offset);
        }
    }
}
