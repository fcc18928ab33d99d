//! `-e`: any tracepoint of the kernel.

use std::ffi::CString;

use super::error::Names;
use super::{ExtraError, Extras};
use crate::cli::EventSpec;
use crate::encode::probes::catalog::{Class, own_fields};
use crate::kernel::cpus;
use crate::kernel::extra::{Extra, ExtraCall, What, try_open};
use crate::kernel::format::Format;
use crate::kernel::sys::Sys;
use crate::kernel::tracefs::Tracefs;

/// Adds every tracepoint that matches the spec.
pub(super) fn add(
    extras: &mut Extras,
    sys: &dyn Sys,
    tracefs: &Tracefs,
    spec: &EventSpec,
    in_scope_only: bool,
) -> Result<(), ExtraError> {
    for (group, format) in find(sys, tracefs, spec)? {
        let label = format!("{group}:{}", format.name);
        let filter = spec.filter.as_deref().map(CString::new).transpose();
        let filter = filter.map_err(|_| ExtraError::NulInFilter { event: format!("{spec:?}") })?;
        let extra = Extra { label, what: What::Tracepoint(format.id), user_stack: false, filter };
        check_filter(sys, tracefs, &group, &format, &extra)?;
        let entry = extras.catalog.tracepoint(Class::Tracepoint, &group, &format, in_scope_only)?;
        extras.add(extra, entry);
    }
    Ok(())
}

fn find(
    sys: &dyn Sys,
    tracefs: &Tracefs,
    spec: &EventSpec,
) -> Result<Vec<(String, Format)>, ExtraError> {
    let groups = tracefs.groups(sys)?;
    let shown = format!("{}:{}", spec.group, spec.name);
    let mut found = Vec::new();
    let mut known = None;
    for group in groups.iter().filter(|group| spec.group.matches(group)) {
        let names = tracefs.names(sys, group)?;
        let mut events = Vec::new();
        for name in &names {
            if !spec.name.matches(name) {
                continue;
            }
            if let Some(format) = tracefs.format_if_any(sys, group, name)? {
                events.push((group.clone(), format));
            }
        }
        let files = ["enable", "filter", "format", "header_event", "header_page"];
        let names = names.into_iter().filter(|name| !files.contains(&name.as_str())).collect();
        // If nothing is found, the message shows the first group.
        known.get_or_insert((group.clone(), Names(names)));
        found.append(&mut events);
    }
    match (found.is_empty(), known) {
        (false, _) => Ok(found),
        (true, Some((group, known))) => Err(ExtraError::NoName { spec: shown, group, known }),
        (true, None) => {
            let files = ["enable", "header_event", "header_page"];
            let groups = groups.into_iter().filter(|name| !files.contains(&name.as_str()));
            Err(ExtraError::NoGroup { spec: shown, known: Names(groups.collect()) })
        }
    }
}

/// Tests a filter with the kernel before anything else is opened, since perf itself does not report the error in it.
fn check_filter(
    sys: &dyn Sys,
    tracefs: &Tracefs,
    group: &str,
    format: &Format,
    extra: &Extra,
) -> Result<(), ExtraError> {
    let Some(filter) = &extra.filter else { return Ok(()) };
    let opened = try_open(sys, cpus::first_online(sys), extra);
    let Err((ExtraCall::SetFilter, error)) = opened else {
        // Any other error occurs again, and is explained, when all events are opened.
        return Ok(());
    };
    let filter = filter.to_string_lossy().into_owned();
    let objection = tracefs.objection_to_filter(sys, group, &format.name, &filter);
    Err(ExtraError::Filter {
        event: extra.label.clone(),
        filter,
        reason: objection.unwrap_or_else(|| error.to_string()),
        fields: Names(own_fields(format).map(|field| field.name.clone()).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::Fake;

    const EVENTS: &str = "/sys/kernel/tracing/events";

    fn format(name: &str, id: u32) -> String {
        format!(
            "name: {name}\nID: {id}\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        )
    }

    fn machine() -> (Fake, Tracefs) {
        let sys = Fake::default()
            .refuse(EVENTS, libc::EISDIR)
            .file("/sys/devices/system/cpu/online", "0\n")
            .file(&format!("{EVENTS}/sched/sched_switch/format"), &format("sched_switch", 7))
            .file(&format!("{EVENTS}/sched/sched_stat/format"), &format("sched_stat", 8))
            .file(&format!("{EVENTS}/sched/enable"), "0")
            .file(&format!("{EVENTS}/net/netif_rx/format"), &format("netif_rx", 9));
        let tracefs = Tracefs::find(&sys).expect("mounted");
        (sys, tracefs)
    }

    fn added(sys: &Fake, tracefs: &Tracefs, spec: &str) -> Result<Vec<String>, ExtraError> {
        let mut extras = Extras::default();
        let spec = spec.parse().expect("a good spec");
        add(&mut extras, sys, tracefs, &spec, false)?;
        Ok(extras.events.into_iter().map(|extra| extra.label).collect())
    }

    #[test]
    fn patterns_find_events_and_nothing_else_that_lies_beside_them() {
        let (sys, tracefs) = machine();
        let found = added(&sys, &tracefs, "sched:*").expect("two");
        assert_eq!(found, ["sched:sched_stat", "sched:sched_switch"]);
        assert_eq!(added(&sys, &tracefs, "*:netif_rx").expect("one"), ["net:netif_rx"]);
    }

    #[test]
    fn what_there_is_is_named_when_nothing_is_found() {
        let (sys, tracefs) = machine();
        let error = added(&sys, &tracefs, "schde:x").expect_err("no group").to_string();
        assert!(error.ends_with("this kernel has: net, sched"), "{error}");
        let error = added(&sys, &tracefs, "sched:x").expect_err("no event").to_string();
        assert!(error.ends_with("sched has: sched_stat, sched_switch"), "{error}");
    }

    #[test]
    fn a_refused_filter_names_the_fields_that_there_are() {
        let (sys, tracefs) = machine();
        let sys = sys.fail("perf_set_filter", libc::EINVAL);
        let error = added(&sys, &tracefs, "sched:sched_stat/pidd==1/").expect_err("refused");
        let error = error.to_string();
        assert!(error.contains("`pidd==1`") && error.ends_with("the fields are: pid"), "{error}");
        assert_eq!(added(&machine().0, &tracefs, "net:*/pid==1/").expect("taken").len(), 1);
    }
}
