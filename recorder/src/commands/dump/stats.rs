//! The number of records of each type, and their sizes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fxt_reader::record::Record;
use fxt_reader::{Error, Kind, Reader, Summary};

use super::filter::Filter;
use super::json::VERSION;
use crate::report::Origin;
use crate::units::escape;
use crate::units::look::Look;

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    records: u64,
    bytes: u64,
}

/// Counts by record type, in the order of the format specification.
#[derive(Debug, Default)]
pub(super) struct Stats {
    shares: BTreeMap<Kind, Share>,
    total: Share,
    /// The version of fxtrec that recorded it.
    recorder: Option<String>,
}

impl Stats {
    /// Counts the remaining records that pass `filter`. Damage is counted in the
    /// reader's summary.
    pub(super) fn gather(reader: &mut Reader<'_>, filter: &Filter) -> Result<Self, Error> {
        let mut stats = Self::default();
        loop {
            match reader.next() {
                Ok(Some(item)) => {
                    if let Record::Event(event) = &item.record
                        && stats.recorder.is_none()
                        && (event.category, event.name) == ("fxtrec", "trace_info")
                    {
                        let text = |name| event.args.str(name).unwrap_or_default();
                        let recorder = Origin::recorded_by(text("version"), text("source"));
                        stats.recorder = recorder.map(str::to_owned);
                    }
                    if !filter.admits(&item.record) {
                        continue;
                    }
                    let bytes = item.raw.bytes().len() as u64;
                    let share = stats.shares.entry(item.record.kind()).or_default();
                    for share in [share, &mut stats.total] {
                        share.records += 1;
                        share.bytes += bytes;
                    }
                }
                Err(Error::Damaged(_)) => {}
                Ok(None) => return Ok(stats),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn write_table(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let headings = format!("{:<22} {:>12} {:>14} {:>7}", "type", "records", "bytes", "share");
        writeln!(out, "{}", look.heading(&headings))?;
        let rows = self.shares.iter().map(|(kind, share)| (kind.name(), *share));
        for (name, share) in rows.chain([("total", self.total)]) {
            // Tenths of a percent, rounded, without a division by zero.
            let tenths = (share.bytes * 1000 + self.total.bytes / 2) / self.total.bytes.max(1);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            let Share { records, bytes } = share;
            writeln!(out, "{name:<22} {records:>12} {bytes:>14} {whole:>4}.{tenth}%")?;
        }
        match &self.recorder {
            Some(version) => writeln!(out, "recorded by fxtrec {}", escape::line(version)),
            None => Ok(()),
        }
    }

    /// One object. Every name in it, and every text but the version, is a plain identifier.
    pub(super) fn write_json(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
        let object = |share: &Share| {
            format!("{{\"records\": {}, \"bytes\": {}}}", share.records, share.bytes)
        };
        let types: Vec<String> = self
            .shares
            .iter()
            .map(|(kind, share)| format!("    \"{kind}\": {}", object(share)))
            .collect();
        writeln!(out, "{{\n  \"version\": {VERSION},")?;
        writeln!(out, "  \"types\": {{\n{}\n  }},", types.join(",\n"))?;
        writeln!(out, "  \"total\": {},", object(&self.total))?;
        writeln!(out, "  \"container\": \"{}\",", summary.container)?;
        if let Some(version) = &self.recorder {
            let version = serde_json::to_string(version)?;
            writeln!(out, "  \"recorded_by\": {},", escape::json(&version))?;
        }
        let numbers = [
            ("unknown_arguments", summary.unknown_arguments),
            ("damaged_regions", summary.damaged_regions),
            ("damaged_bytes", summary.damaged_bytes),
            ("truncated_tail", summary.truncated_tail),
        ];
        for (name, number) in numbers {
            writeln!(out, "  \"{name}\": {number},")?;
        }
        writeln!(out, "  \"container_truncated\": {}\n}}", summary.container_truncated)
    }
}
