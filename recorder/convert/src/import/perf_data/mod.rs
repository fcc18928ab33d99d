//! perf.data, from a file or a pipe, compressed or not.
//!
//! ```text
//!  head ----> where the records are, layouts of events, descriptions of tracepoints
//!  records -> one by one, unpacked, in order of time --> layout --> tracepoints --> importer
//! ```
//!
//! The records are decoded by the same code as in a live recording. Everything is read through [`Bytes`], which cannot read beyond its end,
//! and no allocation is sized by an unchecked length: these files may be from any source.

mod error;
mod frames;
mod head;
mod layout;
mod records;
mod rounds;

use std::io::{BufReader, Read, Seek, SeekFrom};

use perf_event_open_sys::bindings as b;

use super::bytes::Bytes;
use super::error::ImportError;
use super::importer::Importer;
use super::tracepoints::{Meaning, Tracepoints};
use super::tracing_data::{Tracepoint, TracingData};
use crate::{ConvertError, Input, Report};
use fxtrec_capture::event::{Comm, Kind, LocalId, Loss};
use fxtrec_units::{Cpu, Nanos};

pub use error::PerfDataError;
pub(crate) use head::MAGICS;
use head::{Features, Head, is_native, is_pipe};
use layout::{Layouts, SAMPLE};
use records::{PerfRecord, Records};

/// Bytes to read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

// Records of the kernel.
const LOST: u32 = b::PERF_RECORD_LOST;
const COMM: u32 = b::PERF_RECORD_COMM;
const EXIT: u32 = b::PERF_RECORD_EXIT;
const FORK: u32 = b::PERF_RECORD_FORK;
const LOST_SAMPLES: u32 = b::PERF_RECORD_LOST_SAMPLES;

const COMM_EXEC: u16 = b::PERF_RECORD_MISC_COMM_EXEC as u16;

/// Reads all of `input`, which begins with one of [`MAGICS`], into a trace.
pub(crate) fn read(input: &mut Input, output: impl std::io::Write) -> Result<Report, ConvertError> {
    let first = input.first_bytes()?;
    let is_pipe = is_pipe(first);
    if is_native(first) == Some(false) {
        return Err(ImportError::ByteOrder.into());
    }
    if is_pipe {
        let head = (&mut *input).take(head::PIPE_HEAD_BYTES);
        std::io::copy(&mut { head }, &mut std::io::sink()).map_err(ConvertError::Read)?;
        let (layouts, features) = (Layouts::default(), Features::default());
        return import(Records::new(input, None, layouts, features), output);
    }
    let mut file = input.seekable()?;
    let Head { layouts, features, records } = Head::read(&file)?;
    file.seek(SeekFrom::Start(records.offset)).map_err(ConvertError::Read)?;
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    import(Records::new(file, Some(records.bytes), layouts, features), output)
}

fn import<R: Read>(
    mut records: Records<R>,
    output: impl std::io::Write,
) -> Result<Report, ConvertError> {
    // A pipe has the facts about its origin before its first record.
    let mut next = records.next()?;
    let importer = Importer::new(output, records.features.origin());
    let mut import = PerfImport { importer, tracepoints: None };
    while let Some(record) = next {
        import.record(&record, &records.features)?;
        next = records.next()?;
    }
    if import.tracepoints.is_none() {
        return Err(ImportError::NoTracepoints.into());
    }
    let split = "rounds of records that were too large to sort as a whole";
    import.importer.report.add(split, records.split_rounds());
    import.importer.finish()
}

struct PerfImport<W: std::io::Write> {
    importer: Importer<W>,
    /// All described tracepoints and their meanings; known from the first sample on.
    tracepoints: Option<(Vec<Tracepoint>, Tracepoints)>,
}

impl<W: std::io::Write> PerfImport<W> {
    fn record(&mut self, record: &PerfRecord, features: &Features) -> Result<(), ConvertError> {
        // perf's records about the state before the recording have no time, or a meaningless one.
        let time = record.common.time.filter(|time| *time > 0).map(Nanos);
        let cpu = Cpu(record.common.cpu.unwrap_or(0));
        let mut body = Bytes::new("the records", &record.body);
        match record.kind {
            SAMPLE => self.sample(record, features),
            COMM => {
                let (pid, tid) = (body.u32()?, body.u32()?);
                let name = Comm::from_bytes(body.rest());
                let Some(time) = time else {
                    self.importer.known(pid, tid, name);
                    return Ok(());
                };
                let exec = record.misc & COMM_EXEC != 0;
                let (pid, tid) = (LocalId(pid), LocalId(tid));
                self.importer.event(time, cpu, Kind::Comm { pid, tid, exec, comm: name })
            }
            FORK => {
                let [pid, parent_pid, tid, parent_tid] = ids(&mut body)?;
                self.importer.belongs(pid.0, tid.0);
                let Some(time) = time else { return Ok(()) };
                self.importer.event(time, cpu, Kind::Fork { pid, tid, parent_pid, parent_tid })
            }
            EXIT => {
                let [pid, _, tid, _] = ids(&mut body)?;
                time.map_or(Ok(()), |time| self.importer.event(time, cpu, Kind::Exit { pid, tid }))
            }
            LOST => {
                let _event = body.u64()?;
                self.lost(time, cpu, body.u64()?)
            }
            LOST_SAMPLES => self.lost(time, cpu, body.u64()?),
            _ => Ok(()),
        }
    }

    fn lost(&mut self, time: Option<Nanos>, cpu: Cpu, count: u64) -> Result<(), ConvertError> {
        match time {
            Some(time) if count > 0 => {
                self.importer.event(time, cpu, Kind::Lost(Loss::at_most(count)))
            }
            _ => Ok(()),
        }
    }

    fn sample(&mut self, record: &PerfRecord, features: &Features) -> Result<(), ConvertError> {
        let (described, tracepoints) = match &self.tracepoints {
            Some(tracepoints) => tracepoints,
            None => {
                let data = features.described.as_deref().ok_or(ImportError::NoTracepoints)?;
                let data = TracingData::parse(data)?;
                let found = Tracepoints::new(&data.tracepoints)?;
                if !found.has_switches() {
                    return Err(ImportError::NoTracepoints.into());
                }
                for (tid, comm) in data.comms {
                    self.importer.named(tid, comm);
                }
                self.tracepoints.insert((data.tracepoints, found))
            }
        };
        let time = Nanos(record.common.time.ok_or(ImportError::NoTime)?);
        let cpu = Cpu(record.common.cpu.ok_or(ImportError::NoCpu)?);
        let raw = record.layout.raw(&record.body)?.ok_or(ImportError::NoRaw)?;
        if let (Some(pid), Some(tid)) = (record.common.pid, record.common.tid) {
            self.importer.belongs(pid, tid);
        }
        match tracepoints.decode(raw) {
            Meaning::Event(kind) => self.importer.event(time, cpu, kind),
            Meaning::Other(place, current) => {
                self.importer.other(time, cpu, (place, &described[place]), current, raw)
            }
            Meaning::Unknown => {
                self.importer.report.count("samples of events other than tracepoints, left out");
                Ok(())
            }
            Meaning::Damaged => {
                self.importer.report.count("truncated samples, left out");
                Ok(())
            }
        }
    }
}

/// The four ids at the beginning of a fork or exit record: pid, parent's pid, tid, parent's tid.
fn ids(body: &mut Bytes<'_>) -> Result<[LocalId; 4], ImportError> {
    Ok([body.u32()?, body.u32()?, body.u32()?, body.u32()?].map(LocalId))
}
