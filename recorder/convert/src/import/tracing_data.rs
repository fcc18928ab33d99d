//! The descriptions of tracepoints in perf.data and trace.dat: the contents of tracefs on the recorded machine.
//!
//! ```text
//!   "header_page"  size, text      how the pages of ftrace's rings are made
//!   "header_event" size, text      how the events in them are
//!   count, (size, text)...         ftrace's own events
//!   count of groups, (name, count, (size, text)...)...   every tracepoint's `format`
//!   size, text                     kallsyms
//!   size, text                     formats of trace_printk
//!   size, text                     tids and the last known name of each
//! ```

use super::bytes::Bytes;
use super::error::ImportError;
use fxtrec_capture::event::Comm;
use fxtrec_kernel::format::Format;
use fxtrec_units::Tid;

/// The first bytes of the description.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The description of a tracepoint.
#[derive(Clone, Debug)]
pub(super) struct Tracepoint {
    /// The group, `sched` for `sched:sched_switch`.
    pub(super) group: String,
    pub(super) format: Format,
}

/// The format of ftrace's pages and events: the text of `events/header_page` and `events/header_event`.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderInfo {
    pub(super) page: String,
    pub(super) event: String,
}

/// The whole description, as in perf.data.
#[derive(Clone, Debug)]
pub(super) struct TracingData {
    pub(super) tracepoints: Vec<Tracepoint>,
    pub(super) comms: Vec<(Tid, Comm)>,
}

impl TracingData {
    /// Parses the part of a perf.data file.
    pub(super) fn parse(bytes: &[u8]) -> Result<TracingData, ImportError> {
        let mut bytes = Bytes::new("the descriptions of tracepoints", bytes);
        opening(&mut bytes, "a description of tracepoints")?;
        header_info(&mut bytes)?;
        let mut tracepoints = ftrace_events(&mut bytes)?;
        tracepoints.extend(event_formats(&mut bytes)?);
        skip_short(&mut bytes)?;
        skip_short(&mut bytes)?;
        // Older versions of perf end here.
        let comms = if bytes.is_empty() { Vec::new() } else { comms(&bytes.sized_text()?) };
        Ok(TracingData { tracepoints, comms })
    }
}

/// Magic number, version, byte order, size of a long, size of a page. Returns the version.
pub(super) fn opening(bytes: &mut Bytes<'_>, format: &'static str) -> Result<String, ImportError> {
    let found = bytes.rest().get(..MAGIC.len().min(bytes.rest().len())).unwrap_or_default();
    if found != MAGIC {
        return Err(ImportError::Magic { format, found: found.to_vec() });
    }
    bytes.take(MAGIC.len() as u64)?;
    let version = bytes.text()?;
    let big_endian = bytes.u8()? != 0;
    if big_endian != cfg!(target_endian = "big") {
        return Err(ImportError::ByteOrder);
    }
    let _long_bytes = bytes.u8()?;
    let _page_bytes = bytes.u32()?;
    Ok(version)
}

pub(super) fn header_info(bytes: &mut Bytes<'_>) -> Result<HeaderInfo, ImportError> {
    let mut info = HeaderInfo::default();
    for text in [&mut info.page, &mut info.event] {
        let _name = bytes.text()?;
        *text = bytes.sized_text()?;
    }
    Ok(info)
}

/// Parses a description. A tracepoint whose description cannot be parsed is later only known by its number.
fn tracepoint(group: &str, text: &str) -> Option<Tracepoint> {
    let format = Format::parse(text).ok()?;
    Some(Tracepoint { group: group.to_owned(), format })
}

pub(super) fn ftrace_events(bytes: &mut Bytes<'_>) -> Result<Vec<Tracepoint>, ImportError> {
    let count = bytes.u32()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.extend(tracepoint("ftrace", &bytes.sized_text()?));
    }
    Ok(found)
}

pub(super) fn event_formats(bytes: &mut Bytes<'_>) -> Result<Vec<Tracepoint>, ImportError> {
    let groups = bytes.u32()?;
    let mut found = Vec::new();
    for _ in 0..groups {
        let group = bytes.text()?;
        let count = bytes.u32()?;
        for _ in 0..count {
            found.extend(tracepoint(&group, &bytes.sized_text()?));
        }
    }
    Ok(found)
}

/// Skips kernel symbols and formats of trace_printk, which are not needed.
pub(super) fn skip_short(bytes: &mut Bytes<'_>) -> Result<(), ImportError> {
    let len = bytes.u32()?;
    bytes.take(u64::from(len)).map(drop)
}

/// The lines `TID NAME` of `saved_cmdlines`.
pub(super) fn comms(text: &str) -> Vec<(Tid, Comm)> {
    let line = |line: &str| {
        let (tid, name) = line.split_once(' ')?;
        Some((Tid(tid.parse().ok()?), Comm::from_bytes(name.as_bytes())))
    };
    text.trim_end_matches('\0').lines().filter_map(line).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn sized(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_ne_bytes()[..], text.as_bytes()].concat()
    }

    pub(in crate::import) fn opening_bytes(version: &str, big_endian: u8) -> Vec<u8> {
        let head = [MAGIC, version.as_bytes(), &[0, big_endian, 8]].concat();
        [&head[..], &4096u32.to_ne_bytes()].concat()
    }

    const FORMAT: &str = "name: one\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\nprint fmt: \"\"\n";

    fn description(comms: Option<&str>) -> Vec<u8> {
        let mut bytes = opening_bytes("0.6", 0);
        for (name, text) in [("header_page\0", "page"), ("header_event\0", "event")] {
            bytes.extend(name.as_bytes());
            bytes.extend(sized(text));
        }
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(sized("nonsense"));
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(b"sched\0");
        bytes.extend(2u32.to_ne_bytes());
        bytes.extend(sized(FORMAT));
        bytes.extend(sized("nonsense as well"));
        bytes.extend(3u32.to_ne_bytes());
        bytes.extend(b"sym");
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(comms.map(sized).unwrap_or_default());
        bytes
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn tracepoints_are_found_by_group_and_those_that_are_not_understood_are_left_out() {
        let data =
            TracingData::parse(&description(Some("12 a name\n13 b\n"))).expect("it is whole");
        let names: Vec<_> = data
            .tracepoints
            .iter()
            .map(|point| (point.group.as_str(), point.format.name.as_str(), point.format.id))
            .collect();
        assert_eq!(names, [("sched", "one", 7)]);
        let expected = [(12, "a name"), (13, "b")];
        assert_eq!(
            data.comms,
            expected.map(|(tid, name)| (Tid(tid), Comm::from_bytes(name.as_bytes())))
        );
        assert_eq!(TracingData::parse(&description(None)).expect("an older one").comms, []);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn damage_is_reported() {
        let whole = description(None);
        for len in 0..whole.len() {
            TracingData::parse(&whole[..len]).expect_err("it is cut");
        }
        let error = TracingData::parse(b"PERFILE2 and more").expect_err("something else");
        assert!(error.to_string().contains("the file begins with [50, 45"), "{error}");
        let foreign = opening_bytes("0.6", 1);
        let error = TracingData::parse(&foreign).expect_err("another machine");
        assert!(error.to_string().contains("byte order"), "{error}");
    }
}
