//! The locations of a USDT probe's arguments: translates assembler operands to the kernel's syntax.
//!
//! ```text
//! arguments = [N@OPERAND ...]      N bytes, negative for signed, with an f for floating point
//! x86-64      %edi  $-5  (%rdi)  8(%rbp)  16(%rax,%rbx,4)  counter(%rip)  counter+4(%rip)
//! aarch64     x0  w0  5  [x0]  [sp, 60]  [x0, x1]
//! ```
//!
//! The kernel can dereference a register plus a constant, but does not support
//! index registers and floating-point registers. Such an argument is left out;
//! requesting it by its number is an error.

use crate::args::{ArgKind, Fetch, Operand, Verbatim, Width, by_assembler};
use crate::elf::Arch;

/// No probe has more arguments; the macros that define them support 12 at most.
const MOST: usize = 64;

/// The arguments that a note describes, each as the kernel can fetch it, or else its own text.
pub(crate) fn operands(
    text: &str,
    arch: Arch,
    symbol: &dyn Fn(&str) -> Option<Fetch>,
) -> Vec<Result<Operand, String>> {
    split(text)
        .into_iter()
        .take(MOST)
        .map(|text| operand(text, arch, symbol).ok_or_else(|| text.to_owned()))
        .collect()
}

/// Splits at spaces outside of brackets: aarch64 writes `[sp, 60]`.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let at_blank = |c: char| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c.is_ascii_whitespace() && depth == 0
    };
    text.split(at_blank).filter(|part| !part.is_empty()).collect()
}

fn operand(text: &str, arch: Arch, symbol: &dyn Fn(&str) -> Option<Fetch>) -> Option<Operand> {
    let (kind, place) = match text.split_once('@') {
        Some((size, place)) => (Some(kind(size)?), place),
        None => (None, text),
    };
    let (fetch, own) = match arch {
        Arch::X86_64 => x86_64(place, symbol)?,
        Arch::Aarch64 => aarch64(place)?,
    };
    // Parts beyond the register's width do not exist.
    let fits = kind.and_then(width).is_none_or(|width| own.is_none_or(|own| width <= own));
    let whole = ArgKind::Unsigned(own.unwrap_or(Width::Bits64));
    fits.then(|| Operand { fetch, kind: kind.unwrap_or(whole) })
}

fn kind(size: &str) -> Option<ArgKind> {
    let (signed, digits) = match size.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, size),
    };
    let bytes: u32 = digits.parse().ok()?;
    let width = Width::of_bits(bytes.checked_mul(8)?)?;
    Some(if signed { ArgKind::Signed(width) } else { ArgKind::Unsigned(width) })
}

fn width(kind: ArgKind) -> Option<Width> {
    match kind {
        ArgKind::Signed(width) | ArgKind::Unsigned(width) => Some(width),
        ArgKind::Str | ArgKind::Ptr => None,
    }
}

/// The value to fetch, and the width of the register if it is one.
type Place = (Fetch, Option<Width>);

fn x86_64(text: &str, symbol: &dyn Fn(&str) -> Option<Fetch>) -> Option<Place> {
    if let Some(number) = text.strip_prefix('$') {
        return Some((Verbatim::Immediate(signed(number)?).into(), None));
    }
    if let Some(name) = text.strip_prefix('%') {
        let register = by_assembler(Arch::X86_64, name)?;
        return Some((Fetch::Register(register.kernel), Some(register.width)));
    }
    let (displacement, base) = text.strip_suffix(')')?.split_once('(')?;
    let base = base.strip_prefix('%')?;
    if base == "rip" {
        return Some((symbol_and_offset(displacement, symbol)?, None));
    }
    let displacement = if displacement.is_empty() { 0 } else { sum(displacement)? };
    let register = by_assembler(Arch::X86_64, base).filter(|it| it.width == Width::Bits64)?;
    Some((Fetch::Register(register.kernel).deref(displacement), None))
}

fn aarch64(text: &str) -> Option<Place> {
    let whole = |name: &str| by_assembler(Arch::Aarch64, name);
    let Some(inner) = text.strip_prefix('[') else {
        if let Some(number) = signed(text.strip_prefix('#').unwrap_or(text)) {
            return Some((Verbatim::Immediate(number).into(), None));
        }
        let register = whole(text)?;
        return Some((Fetch::Register(register.kernel), Some(register.width)));
    };
    let (base, offset) = match inner.strip_suffix(']')?.split_once(',') {
        Some((base, offset)) => {
            let offset = offset.trim();
            (base, signed(offset.strip_prefix('#').unwrap_or(offset))?)
        }
        None => (inner.strip_suffix(']')?, 0),
    };
    let register = whole(base.trim()).filter(|it| it.width == Width::Bits64)?;
    Some((Fetch::Register(register.kernel).deref(offset), None))
}

/// `counter`, `counter+4`, `4+counter`: the variable's location plus this many bytes.
fn symbol_and_offset(text: &str, symbol: &dyn Fn(&str) -> Option<Fetch>) -> Option<Fetch> {
    let sign = text.char_indices().skip(1).find(|(_, c)| matches!(c, '+' | '-'));
    let (name, offset) = match sign {
        Some((at, _)) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            (text[at..].strip_prefix('+')?, signed(&text[..at])?)
        }
        Some((at, _)) => (&text[..at], sum(&text[at..])?),
        None => (text, 0),
    };
    match symbol(name)? {
        Fetch::Verbatim(Verbatim::FileMemory(place)) => {
            Some(Verbatim::FileMemory(place.checked_add_signed(offset)?).into())
        }
        other => (offset == 0).then_some(other),
    }
}

/// A number, or a sum of them: compilers write `8+16(%rsp)`.
fn sum(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let sign = rest.len() - rest.trim_start_matches(['+', '-']).len();
        let end = rest[sign..].find(['+', '-']).map_or(rest.len(), |end| end + sign);
        total = total.checked_add(signed(&rest[..end])?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(total)
}

fn signed(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
    let magnitude: i128 = match digits.strip_prefix("0x") {
        Some(hex) if plain => u64::from_str_radix(hex, 16).ok()?.into(),
        None if plain => digits.parse::<u64>().ok()?.into(),
        _ => return None,
    };
    // Assemblers print a constant's 64 bits without its sign.
    let value = if negative { -magnitude } else { magnitude };
    i64::try_from(value).or_else(|_| u64::try_from(value).map(u64::cast_signed)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(text: &str, arch: Arch) -> Vec<Result<String, String>> {
        let symbol =
            |name: &str| (name == "counter").then_some(Verbatim::FileMemory(0x3000).into());
        operands(text, arch, &symbol)
            .into_iter()
            .map(|operand| operand.map(|it| format!("{}:{}", it.fetch, it.kind)))
            .collect()
    }

    fn x86(text: &str) -> String {
        fetched(text, Arch::X86_64).remove(0).unwrap_or_else(|text| format!("not {text}"))
    }

    fn arm(text: &str) -> String {
        fetched(text, Arch::Aarch64).remove(0).unwrap_or_else(|text| format!("not {text}"))
    }

    #[test]
    fn operands_of_x86_64_are_put_into_the_kernels_words() {
        for (text, fetch) in [
            ("-4@%edi", "%di:s32"),
            ("8@%rdi", "%di:u64"),
            ("1@%al", "%ax:u8"),
            ("-2@%r10w", "%r10:s16"),
            ("-4@$5", r"\5:s32"),
            ("-4@$-5", r"\-5:s32"),
            ("8@$0xffffffffffffffff", r"\-1:u64"),
            ("8@8(%rbp)", "+8(%bp):u64"),
            ("-4@-20(%rbp)", "-20(%bp):s32"),
            ("8@(%rax)", "+0(%ax):u64"),
            ("8@8+16(%rsp)", "+24(%sp):u64"),
            ("4@counter(%rip)", "@+0x3000:u32"),
            ("4@counter+4(%rip)", "@+0x3004:u32"),
            ("4@4+counter(%rip)", "@+0x3004:u32"),
            ("%rdi", "%di:u64"),
        ] {
            assert_eq!(x86(text), fetch, "{text}");
        }
    }

    #[test]
    fn operands_of_aarch64_are_put_into_the_kernels_words() {
        for (text, fetch) in [
            ("-4@w0", "%x0:s32"),
            ("8@x19", "%x19:u64"),
            ("-4@[sp, 60]", "+60(%sp):s32"),
            ("8@[x29, #-8]", "-8(%x29):u64"),
            ("8@[x0]", "+0(%x0):u64"),
            ("-4@5", r"\5:s32"),
            ("-4@-5", r"\-5:s32"),
        ] {
            assert_eq!(arm(text), fetch, "{text}");
        }
        assert_eq!(fetched("-4@[sp, 12] 8@x0", Arch::Aarch64).len(), 2);
    }

    #[test]
    fn what_the_kernel_cannot_follow_keeps_its_text() {
        for text in [
            "8@16(%rax,%rbx,4)",
            "8f@%xmm0",
            "4@%ah",
            "8@%edi",
            "16@%rdi",
            "8@other(%rip)",
            "8@",
            "@",
            "4@8(%edi)",
            "8@(%rax",
            "4@$",
            "4@9223372036854775808999(%rax)",
        ] {
            assert_eq!(x86(text), format!("not {text}"));
        }
        for text in ["8@[x0, x1]", "8@d0", "8@[sp, 8", "8@[w0]"] {
            assert_eq!(arm(text), format!("not {text}"));
        }
    }

    #[test]
    fn one_bad_argument_leaves_the_others_in_place() {
        let all = fetched("-4@%edi 8f@%xmm0 8@%rdx", Arch::X86_64);
        assert_eq!(all, [Ok("%di:s32".into()), Err("8f@%xmm0".into()), Ok("%dx:u64".into())]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-0-9@%$()\\[\\],a-z+ x#]{0,40}") {
            fetched(&text, Arch::X86_64);
            fetched(&text, Arch::Aarch64);
        }
    }
}
