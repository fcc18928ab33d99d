//! The list for programs: one JSON object per file.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::probe::{ListedFunction, ListedUsdt, Listing, Symbols};
use crate::units::escape;

/// Changes when the meaning of a member changes.
const VERSION: u32 = 1;

pub(super) fn write(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(escape::Json(&mut *out), &object(listing))
        .map_err(io::Error::from)?;
    writeln!(out)
}

fn object(listing: &Listing) -> Value {
    json!({
        "version": VERSION,
        "binary": listing.binary.to_string_lossy(),
        "arch": listing.arch.to_string(),
        "build_id": listing.build_id,
        "symbols": match listing.symbols {
            Symbols::Complete => "complete",
            Symbols::Exported => "exported",
            Symbols::Packed => "packed",
            Symbols::Stripped => "stripped",
        },
        "debug_file": listing.debug_file.as_ref().map(|path| path.to_string_lossy()),
        "functions": listing.functions.iter().map(function).collect::<Vec<_>>(),
        "usdt": listing.usdt.iter().map(usdt).collect::<Vec<_>>(),
    })
}

fn function(function: &ListedFunction) -> Value {
    json!({
        "name": function.name,
        "full_name": function.full_name,
        "linker_name": function.linker_name,
        "address": function.address,
        "offset": function.offset,
        "size": function.size,
        "ifunc": function.chooses,
    })
}

fn usdt(probe: &ListedUsdt) -> Value {
    json!({
        "provider": probe.provider,
        "name": probe.name,
        "address": probe.address,
        "offset": probe.offset,
        "semaphore": probe.semaphore,
        "arguments": probe.arguments.iter().map(|argument| match argument {
            Ok(fetch) => json!({ "fetch": fetch }),
            Err(operand) => json!({ "operand": operand }),
        }).collect::<Vec<_>>(),
    })
}
