//! `--irq`: hard and soft interrupts.

use super::{ExtraError, Extras};
use crate::encode::probes::catalog::{Act, Class, Entry};
use crate::encode::probes::fields::{FieldArg, Show};
use crate::encode::strings;
use crate::kernel::cpus;
use crate::kernel::extra::{Extra, ExtraCall, What, try_open};
use crate::kernel::format::{Field, Format};
use crate::kernel::print_fmt::{Expr, parse_print_fmt};
use crate::kernel::sys::Sys;
use crate::kernel::tracefs::Tracefs;

const OPTION: &str = "--irq";

/// Adds the events for hard and soft interrupts, and for interprocessor interrupts if the kernel reports them.
pub(super) fn add(extras: &mut Extras, sys: &dyn Sys, tracefs: &Tracefs) -> Result<(), ExtraError> {
    let format = |name: &str| {
        tracefs.format_if_any(sys, "irq", name)?.ok_or_else(|| ExtraError::Missing {
            option: OPTION,
            event: format!("irq:{name}"),
            config: "CONFIG_TRACEPOINTS",
        })
    };
    let (enter, exit) = (format("irq_handler_entry")?, format("irq_handler_exit")?);
    let handler = FieldArg::new(strings::UNKNOWN, &field(&enter, "name")?, Some(Show::Text));
    put(extras, "irq", "irq", &enter, Act::HardEnter(field(&enter, "irq")?, handler))?;
    put(extras, "irq", "irq", &exit, Act::HardExit(field(&exit, "irq")?))?;

    let (enter, exit) = (format("softirq_entry")?, format("softirq_exit")?);
    extras.catalog.name_softirqs(&vector_names(&enter))?;
    put(extras, "irq", "softirq", &enter, Act::SoftEnter(field(&enter, "vec")?))?;
    put(extras, "irq", "softirq", &exit, Act::SoftExit(field(&exit, "vec")?))?;
    add_vectors(extras, sys, tracefs)
}

/// The tracepoints of x86's own interrupts: pairs of `NAME_entry` and `NAME_exit`.
fn add_vectors(extras: &mut Extras, sys: &dyn Sys, tracefs: &Tracefs) -> Result<(), ExtraError> {
    const GROUP: &str = "irq_vectors";
    let names = tracefs.names(sys, GROUP)?;
    let vectors = names.iter().filter_map(|name| name.strip_suffix("_entry"));
    for (vector, number) in vectors.zip(0..) {
        let format = |kind| tracefs.format_if_any(sys, GROUP, &format!("{vector}_{kind}"));
        if let (Some(enter), Some(exit)) = (format("entry")?, format("exit")?) {
            // perf itself uses some of these interrupts, and the kernel does not let perf record them.
            if !(is_permitted(sys, &enter) && is_permitted(sys, &exit)) {
                continue;
            }
            put(extras, GROUP, "irq", &enter, Act::VectorEnter(number))?;
            put(extras, GROUP, "irq", &exit, Act::VectorExit(number))?;
        }
    }
    Ok(())
}

/// Whether perf may record the tracepoint; other errors are explained when all events are opened.
fn is_permitted(sys: &dyn Sys, format: &Format) -> bool {
    let what = What::Tracepoint(format.id);
    let extra = Extra { label: String::new(), what, user_stack: false, filter: None };
    let cpu = cpus::first_online(sys);
    !matches!(try_open(sys, cpu, &extra), Err((ExtraCall::Open, error)) if error.raw_os_error() == Some(libc::EPERM))
}

fn put(
    extras: &mut Extras,
    group: &str,
    category: &str,
    format: &Format,
    act: Act,
) -> Result<(), ExtraError> {
    let name = format.name.strip_suffix("_entry").unwrap_or(&format.name);
    let entry = Entry {
        act,
        class: Class::Interrupt,
        category: extras.catalog.text(category)?,
        name: extras.catalog.text(name)?,
        args: Vec::new(),
        in_scope_only: false,
    };
    let label = format!("{group}:{}", format.name);
    let (what, filter) = (What::Tracepoint(format.id), None);
    extras.add(Extra { label, what, user_stack: false, filter }, entry);
    Ok(())
}

fn field(format: &Format, field: &'static str) -> Result<Field, ExtraError> {
    let found = format.find(field).cloned();
    let event = || format!("irq:{}", format.name);
    found.ok_or_else(|| ExtraError::NoField { option: OPTION, event: event(), field })
}

/// The kernel's names of softirq vectors, from 0 on, that the tracepoint's format lists.
fn vector_names(format: &Format) -> Vec<String> {
    let arguments = parse_print_fmt(&format.print_fmt).unwrap_or_default();
    let rows = arguments.iter().find_map(|argument| match argument {
        Expr::Call(name, parts) if name == "__print_symbolic" => Some(parts),
        _ => None,
    });
    let mut names = Vec::new();
    for row in rows.into_iter().flatten() {
        let Expr::Row(parts) = row else { continue };
        let [number, Expr::Text(name)] = parts.as_slice() else { continue };
        let number = number.eval(0).ok().and_then(|number| usize::try_from(number).ok());
        if number == Some(names.len()) {
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_called_what_the_kernel_calls_them() {
        let format = Format {
            name: "softirq_entry".into(),
            id: 1,
            fields: Vec::new(),
            print_fmt: r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" },
                { 1, "TIMER" }, { 2, "NET_TX" })"#
                .into(),
        };
        assert_eq!(vector_names(&format), ["HI", "TIMER", "NET_TX"]);
    }

    #[test]
    fn a_description_that_is_not_understood_names_nothing() {
        let fields = Vec::new();
        let format = Format { name: "x".into(), id: 1, fields, print_fmt: "?".into() };
        assert_eq!(vector_names(&format), [] as [&str; 0]);
    }
}
