//! The verbs that only query: status, providers, categories.

use std::io::{self, Write};

use super::show::{self, list, plain};
use super::{CtlError, connect};
use crate::cli::CtlCommon;
use crate::control::policy::POLICY_PATH;
use crate::control::wire::{KnownCategories, Providers, SessionState, Status};
use crate::kernel::user::Account;
use crate::manager::MAX_PROVIDERS;
use crate::units::look::Look;
use crate::units::text::{bytes, counted};

pub(super) fn status(common: &CtlCommon, out: &mut dyn Write) -> Result<(), CtlError> {
    let status = connect(common)?.status()?;
    Ok(show::answer(common.json, &status, out, status_text)?)
}

pub(super) fn providers(
    common: &CtlCommon,
    look: Look,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let providers = connect(common)?.providers()?;
    Ok(show::answer(common.json, &providers, out, |it, out| providers_text(it, look, out))?)
}

pub(super) fn categories(
    common: &CtlCommon,
    look: Look,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let categories = connect(common)?.known_categories()?;
    Ok(show::answer(common.json, &categories, out, |it, out| categories_text(it, look, out))?)
}

fn status_text(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    let mut pairs = vec![("state", status.state.name().to_owned())];
    if status.state != SessionState::Ready {
        if let Some(uid) = status.owner_uid {
            pairs.push(("owner", owner(uid, status.owner_pid)));
        }
        pairs.push(("categories", list(&status.categories, "all")));
        if let Some(output) = &status.output {
            pairs.push(("output", plain(output)));
        }
        pairs.push(("recorded", bytes(status.bytes)));
        let kernel = match (&status.kernel.problem, status.kernel.running) {
            (Some(problem), _) => format!("not recorded: {}", plain(problem)),
            (None, true) => format!("is being recorded, {} so far", bytes(status.kernel.bytes)),
            (None, false) if status.kernel.bytes > 0 => bytes(status.kernel.bytes),
            (None, false) => "not recorded".to_owned(),
        };
        pairs.push(("kernel", kernel));
    }
    show::pairs(&pairs, out)
}

fn owner(uid: u32, pid: Option<u32>) -> String {
    let name = Account::by_uid(uid).map_or_else(|_| format!("uid {uid}"), |account| account.name);
    let pid = pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    format!("{name}{pid}")
}

fn providers_text(answer: &Providers, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let none = answer.providers.is_empty();
    if none {
        writeln!(out, "no application is connected")?;
    }
    let rows = answer.providers.iter().map(|it| {
        [
            it.id.to_string(),
            it.pid.to_string(),
            it.uid.to_string(),
            plain(&it.state),
            plain(&it.name),
            list(&it.categories, "-"),
        ]
    });
    let headings = [" id", " pid", " uid", "state", "application", "categories"];
    if !none {
        show::table(headings, rows.collect(), look, out)?;
    }
    if answer.turned_away > 0 {
        writeln!(
            out,
            "{} rejected: the maximum is {MAX_PROVIDERS}, and per user \
             providers-per-user in {POLICY_PATH}",
            counted(answer.turned_away, "application was", "applications were")
        )?;
    }
    Ok(())
}

fn categories_text(answer: &KnownCategories, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let rows = answer.categories.iter().map(|it| {
        let may = if it.permitted { "yes" } else { "no" };
        [plain(&it.name), may.to_owned(), plain(&it.description)]
    });
    show::table(["category", "permitted", "what it records"], rows.collect(), look, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::wire::{KernelStats, KnownCategory};

    fn text<T>(answer: &T, write: fn(&T, &mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(answer, &mut out).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_status_without_a_session_is_one_line() {
        assert_eq!(text(&Status::default(), status_text), "state  ready\n");
    }

    #[test]
    fn a_status_says_why_the_kernel_is_not_recorded() {
        let status = Status {
            state: SessionState::Started,
            owner_uid: Some(0),
            owner_pid: Some(7),
            categories: vec!["sched".into(), "net".into()],
            bytes: 4096,
            kernel: KernelStats {
                problem: Some("no perf events".into()),
                ..KernelStats::default()
            },
            output: Some("/tmp/t.fxt".into()),
        };
        let shown = text(&status, status_text);
        let expected = "state       started\nowner       root, process 7\ncategories  sched,net\n\
                        output      /tmp/t.fxt\nrecorded    4.0 KiB\nkernel      not recorded: no perf events\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn categories_say_whether_they_may_be_recorded() {
        let known = |name: &str, permitted| KnownCategory {
            name: name.into(),
            description: "events".into(),
            permitted,
        };
        let answer = KnownCategories { categories: vec![known("irq", false), known("net", true)] };
        let expected = "category  permitted  what it records\nirq       no         events\n\
                        net       yes        events\n";
        let shown = text(&answer, |it, out| categories_text(it, Look::PLAIN, out));
        assert_eq!(shown, expected);
    }
}
