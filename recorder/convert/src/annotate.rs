//! Copies a trace and adds the results of its analysis: a track of incidents, and a track with the parts of each.
//!
//! ```text
//!   fxtrec why / incidents   [ audio took 60.9 ms ..., 60.4 ms more than the median of 188 ... ]
//!              chain         [waited][ran][   hog ran   ][ preempted ][ran]
//!                                   \--->\------------>\------------>\---> arrows, in order of time
//! ```

use std::io::{self, Write};
use std::path::Path;

use fxt_format::metadata::MAGIC_WORD;
use fxt_reader::{Error, Nanos, ProviderId as ReadProvider, Reader, Record};
use fxt_writer::record::{
    EventKind, Initialization, KernelObject, ObjectType, ProviderInfo, ProviderSection,
};
use fxt_writer::space::Output as RecordOutput;
use fxt_writer::{Arg, Koid, ProviderId, Text, Ticks, Value, Writer, text};

use crate::ConvertError;
use crate::cut::{Filter, Window, cut};
use crate::input::Input;
use crate::traces;

/// The process of the tracks. No thread has this id: Linux uses none above 4 194 304, and Perfetto's thread ids have 31 bits.
const PROCESS: Koid = Koid(0x7fff_0000);

const NAME: &str = "fxtrec why";
const CATEGORY: &str = "why";

/// The maximum length of a string in a record; the sentence of an incident may be longer.
const MOST_TEXT: usize = 1024;

/// The contents of a slice on a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub from_ns: u64,
    pub to_ns: u64,
    pub name: String,
    /// The thread that it is about.
    pub thread: u64,
}

/// An incident, and its parts in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub whole: Mark,
    pub chain: Vec<Mark>,
}

/// Writes the trace at `path` to `out`, followed by the incidents.
///
/// # Errors
///
/// Returns an error if the trace cannot be read, or the output cannot be written.
pub fn annotate(
    path: &Path,
    incidents: &[Incident],
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    let opened = |source| ConvertError::Open { path: path.to_owned(), source };
    let mut reader = Reader::from_file(traces::open(path).map_err(opened)?, |file| file);
    let mut last = 0;
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                if let Record::ProviderInfo(info) = &item.record {
                    let ReadProvider(id) = info.id;
                    last = last.max(id);
                }
            }
            Ok(None) => break,
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut input = Input::open_trace(path, false)?;
    let is_native = input.first_bytes()?.starts_with(&MAGIC_WORD.to_ne_bytes());
    if is_native && reader.summary().is_complete() {
        io::copy(&mut input, out).map_err(ConvertError::Write)?;
    } else {
        // Nothing can follow an incomplete record.
        let window = Window { from: Nanos(0), to: Nanos(u64::MAX), filter: Filter::default() };
        cut(&mut Reader::new(&mut input), &window, out)?;
    }
    write(ProviderId(last.saturating_add(1)), incidents, out)
}

fn write(
    provider: ProviderId,
    incidents: &[Incident],
    out: &mut dyn Write,
) -> Result<(), ConvertError> {
    let mut writer = Writer::new(RecordOutput::new(out)).with_long_strings();
    writer.write(&ProviderInfo { id: provider, name: NAME })?;
    writer.write(&ProviderSection { id: provider })?;
    writer.write(&Initialization { ticks_per_second: 1_000_000_000 })?;
    let process = writer.text(NAME)?;
    writer.write(&KernelObject {
        object_type: ObjectType::Process,
        koid: PROCESS,
        name: process,
        args: &[],
    })?;
    let mut flow = u64::from(provider.0) << 48;
    for (at, incident) in (0..).zip(incidents) {
        // Incidents may overlap, so each has its own tracks.
        let tracks = [("incident", 1), ("chain", 2)].map(|(name, offset)| {
            (format!("{name} {}", at + 1), Koid(PROCESS.0 + at * 2 + offset))
        });
        for (name, koid) in &tracks {
            let (name, home) = (writer.text(name)?, writer.text("process")?);
            writer.write(&KernelObject {
                object_type: ObjectType::Thread,
                koid: *koid,
                name,
                args: &[Arg::new(home, Value::Koid(PROCESS))],
            })?;
        }
        let [whole, chain] = tracks.map(|(_, koid)| (PROCESS, koid));
        slice(&mut writer, whole, &incident.whole, &[])?;
        let last = incident.chain.len().saturating_sub(1);
        for (at, link) in incident.chain.iter().enumerate() {
            let ends = (at > 0).then_some(EventKind::FlowEnd { id: flow });
            let begins = (at < last).then_some(EventKind::FlowBegin { id: flow + 1 });
            flow += 1;
            let flows: Vec<EventKind> = ends.into_iter().chain(begins).collect();
            slice(&mut writer, chain, link, &flows)?;
        }
    }
    writer.into_inner().finish().map(drop).map_err(ConvertError::Write)
}

fn slice<W: Write>(
    writer: &mut Writer<RecordOutput<W>>,
    track: (Koid, Koid),
    mark: &Mark,
    flows: &[EventKind],
) -> Result<(), ConvertError> {
    let name = short(&mark.name);
    let thread = ("thread", Value::Koid(Koid(mark.thread)));
    let cut = (name.len() < mark.name.len()).then(|| text::clean(mark.name.as_bytes()));
    let whole = cut.as_ref().map(|text| ("sentence", Value::Str(Text::Inline(text))));
    let args: Vec<_> = [Some(thread), whole].into_iter().flatten().collect();
    let (from, to) = (Ticks(mark.from_ns), Ticks(mark.to_ns));
    writer.duration_begin(from, track, CATEGORY, &name, &args)?;
    for flow in flows {
        writer.event(*flow, from, track, CATEGORY, "then", &[])?;
    }
    Ok(writer.duration_end(to, track, CATEGORY, &name, &[])?)
}

/// Cuts a string to the maximum length of a name.
fn short(whole: &str) -> std::borrow::Cow<'_, str> {
    let end = (0..=MOST_TEXT.min(whole.len())).rev().find(|end| whole.is_char_boundary(*end));
    text::clean(&whole.as_bytes()[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_its_records_and_behind_them_incidents_with_arrows_along_their_chains() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.fxt");
        let mut own = Writer::new(Vec::<u8>::new());
        own.start("app", 1_000_000_000).expect("memory");
        own.instant(Ticks(5), (Koid(7), Koid(8)), "app", "here", &[]).expect("memory");
        let own = own.into_inner();
        let mark =
            |from_ns, to_ns, name: &str| Mark { from_ns, to_ns, name: name.into(), thread: 8 };
        let chain = vec![mark(1, 4, "waited"), mark(4, 6, "ran"), mark(6, 9, "blocked")];
        let incidents = [Incident { whole: mark(1, 9, &"long ".repeat(500)), chain }];
        // If a trace ends within a record, the records before it are kept.
        for cut in [0, 8] {
            std::fs::write(&path, &own[..own.len() - cut]).expect("room");
            let mut out = Vec::new();
            annotate(&path, &incidents, &mut out).expect("a trace");
            let mut reader = Reader::from_slice(&out);
            let mut found = Vec::new();
            while let Some(item) = reader.next().expect("sound") {
                if let Record::Event(event) = item.record {
                    let kind = format!("{:?}", event.kind);
                    let kind = kind.split(' ').next().unwrap_or_default().to_owned();
                    let name: String = event.name.chars().take(9).collect();
                    found.push(format!("{} {kind} {name}", event.time.0));
                    if event.name.starts_with("long") && event.args.iter().count() > 0 {
                        let whole = event.args.str("sentence").map(str::len);
                        assert_eq!((event.name.len(), whole), (MOST_TEXT, Some(2500)));
                    }
                }
            }
            let expected = [
                "5 Instant here",
                "1 DurationBegin long long",
                "9 DurationEnd long long",
                "1 DurationBegin waited",
                "1 FlowBegin then",
                "4 DurationEnd waited",
                "4 DurationBegin ran",
                "4 FlowEnd then",
                "4 FlowBegin then",
                "6 DurationEnd ran",
                "6 DurationBegin blocked",
                "6 FlowEnd then",
                "9 DurationEnd blocked",
            ];
            assert_eq!(found, expected[usize::from(cut > 0)..]);
        }
    }
}
