//! The list for people.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::probe::{ListedFunction, ListedUsdt, Listing, Symbols};
use crate::units::look::Look;

pub(super) fn write(listing: &Listing, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let Listing { binary, arch, functions, usdt, .. } = listing;
    writeln!(out, "# {} ({arch})", binary.display())?;
    if let Some(remark) = remark(listing) {
        writeln!(out, "{}", look.note(&format!("# {remark}")))?;
    }
    if !functions.is_empty() {
        let headings = format!("{:<18} {:>8}  function", "address", "bytes");
        writeln!(out, "{}", look.heading(&headings))?;
    }
    for ListedFunction { address, size, full_name, chooses, .. } in functions {
        let size = size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        let note = if *chooses { "  (selected at start, IFUNC)" } else { "" };
        writeln!(out, "{address:#018x} {size:>8}  {full_name}{note}")?;
    }
    if !usdt.is_empty() {
        let headings = format!("{:<18} {:>8}  USDT probe", "address", "guarded");
        writeln!(out, "{}", look.heading(&headings))?;
    }
    for ListedUsdt { provider, name, address, semaphore, arguments, .. } in usdt {
        let guarded = if semaphore.is_some() { "yes" } else { "no" };
        write!(out, "{address:#018x} {guarded:>8}  usdt:{provider}:{name}")?;
        for (index, argument) in arguments.iter().enumerate() {
            let number = index + 1;
            match argument {
                Ok(fetch) => write!(out, " arg{number}={fetch}")?,
                Err(text) => write!(out, " (arg{number}, {text}, cannot be fetched)")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Only the names, each once.
pub(super) fn write_names(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    let functions = listing.functions.iter().map(|function| function.name.clone());
    let usdt = listing.usdt.iter().map(|probe| format!("usdt:{}:{}", probe.provider, probe.name));
    let names: BTreeSet<String> = functions.chain(usdt).collect();
    names.iter().try_for_each(|name| writeln!(out, "{name}"))
}

/// A remark about the source of the names.
fn remark(listing: &Listing) -> Option<String> {
    if let Some(debug) = &listing.debug_file {
        return Some(format!("stripped; the names come from {}", debug.display()));
    }
    let id = listing.build_id.as_deref().map_or_else(String::new, |id| format!(", build ID {id}"));
    match listing.symbols {
        Symbols::Complete => None,
        Symbols::Exported => Some(format!("stripped{id}: only exported functions are known")),
        Symbols::Packed => Some(format!(
            "stripped{id}: only exported functions are known; fxtrec does not read .gnu_debugdata"
        )),
        Symbols::Stripped => Some(format!("stripped of all symbols{id}")),
    }
}
