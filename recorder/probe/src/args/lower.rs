//! Translates the arguments of a spec to those of the kernel.

use super::fetch::Fetch;
use super::registers::{self, ArgumentAt};
use super::{ArgError, ArgKind, FetchArg, FetchPoint, Verbatim, Width};
use crate::elf::Arch;
use crate::spec::{Arg, ArgType, Value};

/// The longest text of an argument that the kernel accepts, in bytes.
const LONGEST: usize = 63;

/// The meaning of `argN` in a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) fetch: Fetch,
    pub(crate) kind: ArgKind,
}

/// The meaning of `argN`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments<'a> {
    /// The locations that the calling convention specifies.
    Convention,
    /// The operands in the note of a USDT probe; an error for each one that the kernel cannot fetch.
    Note(&'a [Result<Operand, String>]),
}

/// Translates an argument into the kernel's syntax.
///
/// # Errors
/// Returns an error if there is no such register or argument, or the kernel cannot fetch it.
pub(crate) fn lower(arg: &Arg, arch: Arch, arguments: Arguments<'_>) -> Result<FetchArg, ArgError> {
    let Lowered { fetch, kind, moment } =
        place(&arg.value, arch, arguments).map_err(|problem| problem.of(arg))?;
    let kind = match (arg.ty, &fetch) {
        // The kernel only knows it as a string.
        (_, Fetch::Verbatim(Verbatim::Comm)) => return finish(arg, &fetch, ArgKind::Str, moment),
        (None, _) => kind,
        (Some(ArgType::Unsigned(width)), _) => ArgKind::Unsigned(width),
        (Some(ArgType::Signed(width)), _) => ArgKind::Signed(width),
        (Some(ArgType::Ptr), _) => ArgKind::Ptr,
        (Some(ArgType::Str), Fetch::Verbatim(Verbatim::Immediate(_))) => {
            return Err(Problem::ConstantText.of(arg));
        }
        (Some(ArgType::Str), _) => {
            return finish(arg, &fetch.deref(0), ArgKind::Str, moment);
        }
        (Some(ArgType::Text), fetch) if fetch.is_memory() => ArgKind::Str,
        (Some(ArgType::Text), _) => return Err(Problem::TextInRegister.of(arg)),
    };
    finish(arg, &fetch, kind, moment)
}

fn finish(
    arg: &Arg,
    fetch: &Fetch,
    kind: ArgKind,
    moment: FetchPoint,
) -> Result<FetchArg, ArgError> {
    let fetch = format!("{fetch}:{kind}");
    if fetch.len() > LONGEST {
        return Err(Problem::TooLong(LONGEST).of(arg));
    }
    Ok(FetchArg { name: arg.name.clone(), fetch, kind, moment })
}

struct Lowered {
    fetch: Fetch,
    kind: ArgKind,
    moment: FetchPoint,
}

fn place(value: &Value, arch: Arch, arguments: Arguments<'_>) -> Result<Lowered, Problem> {
    let word = ArgKind::Unsigned(Width::Bits64);
    let at_hit = |fetch, kind| Ok(Lowered { fetch, kind, moment: FetchPoint::Hit });
    match value {
        Value::Argument(number) => match arguments {
            Arguments::Convention => at_hit(
                match registers::argument(arch, *number) {
                    ArgumentAt::In(register) => Fetch::Register(register),
                    ArgumentAt::OnStack(offset) => Fetch::Register("sp").deref(offset),
                },
                word,
            ),
            Arguments::Note(operands) => {
                let index = (*number as usize).checked_sub(1);
                match index.and_then(|index| operands.get(index)) {
                    Some(Ok(operand)) => at_hit(operand.fetch.clone(), operand.kind),
                    Some(Err(operand)) => Err(Problem::Operand(operand.clone())),
                    None => Err(Problem::NoArgument(operands.len())),
                }
            }
        },
        Value::Returned => Ok(Lowered {
            fetch: Fetch::Returned,
            kind: ArgKind::Signed(Width::Bits64),
            moment: FetchPoint::Return,
        }),
        Value::Register(name) => match registers::by_any_name(arch, name) {
            Some(register) => {
                at_hit(Fetch::Register(register.kernel), ArgKind::Unsigned(register.width))
            }
            None => Err(Problem::NoRegister { arch, all: registers::all(arch) }),
        },
        Value::Deref { offset, of } => {
            let Lowered { fetch, moment, .. } = place(of, arch, arguments)?;
            match fetch {
                Fetch::Verbatim(Verbatim::Immediate(_) | Verbatim::Comm) => Err(Problem::NoAddress),
                fetch => Ok(Lowered { fetch: fetch.deref(*offset), kind: word, moment }),
            }
        }
        Value::Verbatim(place) => at_hit(Fetch::Verbatim(*place), place.kind()),
    }
}

/// The reason why the kernel cannot fetch a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("unknown register on {arch}; expected {all}")]
    NoRegister { arch: Arch, all: String },
    #[error("the probe has {0} arguments; fxtrec probes BINARY lists them")]
    NoArgument(usize),
    #[error("the kernel cannot fetch this argument, which is at '{0}'")]
    Operand(String),
    #[error("a constant is not a string")]
    ConstantText,
    #[error(
        "string needs text in memory, but this is a value: for text that the value points to, use str"
    )]
    TextInRegister,
    #[error("this value is not an address")]
    NoAddress,
    #[error("argument too long: the kernel accepts at most {0} characters")]
    TooLong(usize),
}

impl Problem {
    fn of(self, arg: &Arg) -> ArgError {
        ArgError { arg: arg.text.clone(), problem: self.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    fn lowered(text: &str, arch: Arch) -> Result<Vec<(String, String)>, String> {
        let spec: Spec = text.parse().expect("a spec");
        spec.args
            .iter()
            .map(|arg| lower(arg, arch, Arguments::Convention))
            .map(|result| {
                result.map(|arg| (arg.name, arg.fetch)).map_err(|error| error.to_string())
            })
            .collect()
    }

    fn one(text: &str) -> String {
        lowered(&format!(":f%span {text}"), Arch::X86_64).expect("fetched").remove(0).1
    }

    #[test]
    fn arguments_follow_the_calling_convention() {
        let x86 = lowered(":f arg1:u32 n=arg2:str arg7:i8", Arch::X86_64).expect("fetched");
        let fetches: Vec<_> = x86.iter().map(|(_, fetch)| fetch.as_str()).collect();
        assert_eq!(fetches, ["%di:u32", "+0(%si):string", "+8(%sp):s8"]);
        let arm = lowered(":f arg1:u32 n=arg2:str arg9:ptr", Arch::Aarch64).expect("fetched");
        let fetches: Vec<_> = arm.iter().map(|(_, fetch)| fetch.as_str()).collect();
        assert_eq!(fetches, ["%x0:u32", "+0(%x1):string", "+0(%sp):x64"]);
    }

    #[test]
    fn every_kind_of_place_is_put_into_the_kernels_words() {
        for (text, fetch) in [
            ("arg3", "%dx:u64"),
            ("ret", "$retval:s64"),
            ("ret:str", "+0($retval):string"),
            ("%rdi", "%di:u64"),
            ("%edi", "%di:u32"),
            ("%ax", "%ax:u64"),
            ("%al:i8", "%ax:s8"),
            ("+8(%si):x16", "+8(%si):u16"),
            ("+8(%si):string", "+8(%si):string"),
            ("+8(%si):str", "+0(+8(%si)):string"),
            ("-16(+0(arg1))", "-16(+0(%di)):u64"),
            ("$stack", "$stack:x64"),
            ("$stack3:u8", "$stack3:u8"),
            ("$comm", "$comm:string"),
            ("@0x4010:s32", "@0x4010:s32"),
            ("@+0x10:string", "@+0x10:string"),
            (r"\7:u8", r"\7:u8"),
            (r"\-7", r"\-7:s64"),
        ] {
            assert_eq!(one(text), fetch, "{text}");
        }
    }

    #[test]
    fn a_returned_value_is_fetched_at_the_return_and_others_at_the_hit() {
        let spec: Spec = ":f%span a=arg1 b=ret c=+8(ret)".parse().expect("a spec");
        let moments: Vec<_> = spec
            .args
            .iter()
            .map(|arg| lower(arg, Arch::X86_64, Arguments::Convention).expect("fetched").moment)
            .collect();
        assert_eq!(moments, [FetchPoint::Hit, FetchPoint::Return, FetchPoint::Return]);
    }

    #[test]
    fn what_the_kernel_cannot_fetch_is_refused_with_the_argument() {
        for (text, part) in [
            (":f x=%xmm0", "x=%xmm0: unknown register on x86-64; expected ax, bx"),
            (":f %di:string", "for text that the value points to, use str"),
            (r":f \5:str", "not a string"),
            (":f +8($comm)", "not an address"),
            (
                ":f +1000000000(+1000000000(+1000000000(+1000000000(+1000000000(%di)))))",
                "at most 63 characters",
            ),
        ] {
            let error = lowered(text, Arch::X86_64).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn arguments_of_a_note_are_what_the_note_says() {
        let operands = [
            Ok(Operand { fetch: Fetch::Register("bx"), kind: ArgKind::Signed(Width::Bits32) }),
            Err("8@%xmm0".to_owned()),
        ];
        let of = |text: &str| {
            let spec: Spec = format!(":usdt:a:b {text}").parse().expect("a spec");
            lower(&spec.args[0], Arch::X86_64, Arguments::Note(&operands))
                .map(|arg| arg.fetch)
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("n=arg1"), Ok("%bx:s32".into()));
        assert_eq!(of("n=arg1:u8"), Ok("%bx:u8".into()));
        assert_eq!(of("arg1:str"), Ok("+0(%bx):string".into()));
        assert!(of("arg2").expect_err("in a vector register").contains("8@%xmm0"));
        assert!(of("arg3").expect_err("one too many").contains("has 2 arguments"));
    }
}
