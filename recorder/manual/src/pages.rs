//! One page for fxtrec, one for each subcommand, and one for each nested subcommand, such as fxtrec-ctl-start.

use std::io;

use clap::Command;
use clap_mangen::{Man, roff};
use roff::{Roff, bold, roman};

use crate::sections::{self, Entry};

/// The pages: their file names, and their text in roff.
pub(crate) fn all(root: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(root, "fxtrec", &mut pages)?;
    Ok(pages)
}

/// The page of a command, and the pages of its subcommands.
fn add(command: Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let subs: Vec<Command> =
        command.get_subcommands().filter(|sub| sub.get_name() != "help").cloned().collect();
    pages.push(page(command, name)?);
    for sub in subs {
        let name = format!("{name}-{}", sub.get_name());
        add(sub, &name, pages)?;
    }
    Ok(())
}

/// `name` is the name of the page: the command with hyphens.
fn page(command: Command, name: &str) -> io::Result<(String, Vec<u8>)> {
    let sub = name.strip_prefix("fxtrec-");
    let has_subcommands = command.has_subcommands();
    let options = command.get_arguments().next().is_some();
    let man = Man::new(command.display_name(name)).title(name.to_uppercase()).manual("fxtrec");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if options {
        man.render_options_section(&mut text)?;
    }
    if has_subcommands {
        man.render_subcommands_section(&mut text)?;
    }
    section(&mut text, "EXIT STATUS", sections::exit_status(sub))?;
    section(&mut text, "ENVIRONMENT", sections::environment(sub))?;
    section(&mut text, "FILES", sections::files(sub))?;
    section(&mut text, "EXAMPLES", sections::examples(sub))?;
    see_also(&mut text, sub)?;
    Ok((format!("{name}.1"), text))
}

/// A heading, and a paragraph for each entry; empty if there are no entries.
fn section(text: &mut Vec<u8>, heading: &str, entries: Vec<Entry>) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::default();
    roff.control("SH", [heading]);
    for (what, meaning) in entries {
        roff.control("TP", []).text([bold(what)]).text([roman(meaning)]);
    }
    roff.to_writer(text)
}

fn see_also(text: &mut Vec<u8>, sub: Option<&str>) -> io::Result<()> {
    let mut roff = Roff::default();
    roff.control("SH", ["SEE ALSO"]);
    let main = sub.map(|_| "fxtrec(1), ").unwrap_or_default();
    let also =
        format!("{main}perf\\-sched(1), trace\\-cmd(1). Traces open at https://ui.perfetto.dev.");
    roff.text([roman(also.replace("\\-", "-"))]);
    roff.to_writer(text)
}
