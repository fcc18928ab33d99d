//! `--syscalls`: system calls of programs.
//!
//! All calls pass two tracepoints, which report the call's number. So two events
//! are enough for any number of calls, with a kernel filter on the number.

use std::collections::BTreeSet;
use std::ffi::CString;

use super::{ExtraError, Extras};
use crate::encode::probes::catalog::{Act, Class, Entry};
use crate::kernel::extra::{CallSide, Calls, Extra, What};
use crate::kernel::format::{Field, Format};
use crate::kernel::sys::Sys;
use crate::kernel::syscalls::{native, of_32_bit_programs};
use crate::kernel::tracefs::Tracefs;
use crate::units::glob::Pattern;

const OPTION: &str = "--syscalls";
const GROUP: &str = "raw_syscalls";

/// The kernel accepts filters of at most one page.
const LONGEST_FILTER: usize = 4000;

/// Adds the events for the system calls that match.
pub(super) fn add(
    extras: &mut Extras,
    sys: &dyn Sys,
    tracefs: &Tracefs,
    patterns: &[Pattern],
    in_scope_only: bool,
) -> Result<(), ExtraError> {
    let numbers = name_calls(extras, patterns)?;
    let all = patterns.iter().any(is_all);
    let filter = filter(&numbers).filter(|_| !all);
    if all {
        extras.catalog.want_unnamed_syscalls();
    }
    let numbers = numbers.iter().map(|number| u16::try_from(*number).ok()).collect();
    let numbers: Option<Vec<u16>> = if all { None } else { numbers };
    let category = extras.catalog.text("syscall")?;
    for name in ["sys_enter", "sys_exit"] {
        let format = tracefs.format_if_any(sys, GROUP, name)?.ok_or_else(|| {
            let config = "CONFIG_FTRACE_SYSCALLS";
            ExtraError::Missing { option: OPTION, event: format!("{GROUP}:{name}"), config }
        })?;
        let number = field(&format, "id")?;
        let act = match name {
            "sys_enter" => Act::SyscallEnter(number),
            _ => Act::SyscallExit(number, field(&format, "ret")?),
        };
        let extra = Extra {
            label: format!("{GROUP}:{name}"),
            what: What::Calls(Calls {
                tracepoint: format.id,
                side: if name == "sys_enter" { CallSide::Enter } else { CallSide::Exit },
                numbers: numbers.clone(),
            }),
            // Also returns whether the program is a 32-bit program, whose system calls have other numbers.
            user_stack: true,
            filter: filter.clone(),
        };
        let (class, args) = (Class::Syscall, Vec::new());
        extras.add(extra, Entry { act, class, category, name: category, args, in_scope_only });
    }
    Ok(())
}

fn field(format: &Format, field: &'static str) -> Result<Field, ExtraError> {
    let event = || format!("{GROUP}:{}", format.name);
    let found = format.find(field).cloned();
    found.ok_or_else(|| ExtraError::NoField { option: OPTION, event: event(), field })
}

fn is_all(pattern: &Pattern) -> bool {
    pattern.as_str() == "*"
}

/// Adds the matching calls to the catalog and returns their numbers.
fn name_calls(extras: &mut Extras, patterns: &[Pattern]) -> Result<BTreeSet<usize>, ExtraError> {
    let mut numbers = BTreeSet::new();
    for pattern in patterns {
        let before = numbers.len();
        let mut found = false;
        for call in native().filter(|call| pattern.matches(call.name)) {
            extras.catalog.add_syscall(call.number, call.name)?;
            found = true;
            numbers.insert(call.number);
        }
        for call in of_32_bit_programs().filter(|call| pattern.matches(call.name)) {
            extras.catalog.add_32_bit_syscall(call.number, call.name)?;
            found = true;
            numbers.insert(call.number);
        }
        if !found {
            debug_assert_eq!(before, numbers.len());
            return Err(ExtraError::NoSyscall { pattern: pattern.as_str().to_owned() });
        }
    }
    Ok(numbers)
}

/// The kernel's filter for these numbers, if it is short enough; the samples are filtered again.
fn filter(numbers: &BTreeSet<usize>) -> Option<CString> {
    let terms: Vec<String> = numbers.iter().map(|number| format!("id=={number}")).collect();
    let filter = terms.join("||");
    (filter.len() <= LONGEST_FILTER).then(|| CString::new(filter).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(patterns: &[&str]) -> Result<BTreeSet<usize>, ExtraError> {
        let patterns: Vec<Pattern> =
            patterns.iter().map(|text| Pattern::new(text).expect("good")).collect();
        name_calls(&mut Extras::default(), &patterns)
    }

    #[test]
    fn the_kernel_is_told_the_numbers_of_both_tables() {
        let found = numbers(&["nanosleep"]).expect("there is such a call");
        let own = libc::SYS_nanosleep as usize;
        assert!(found.contains(&own), "{found:?}");
        let filter = filter(&found).expect("short");
        let terms: Vec<String> = found.iter().map(|number| format!("id=={number}")).collect();
        assert_eq!(filter.to_str().expect("text"), terms.join("||"));
    }

    #[test]
    fn a_call_that_does_not_exist_is_named() {
        let error = numbers(&["read", "nanoslep"]).expect_err("a slip");
        assert!(error.to_string().contains("--syscalls=nanoslep"), "{error}");
    }

    #[test]
    fn all_calls_are_too_many_for_a_filter() {
        assert_eq!(filter(&numbers(&["*"]).expect("all")), None);
    }
}
