//! perf.data, from a file or a pipe, packed or not.
//!
//! The parser of the format and the order of its records are the crate's; what the records mean is decided here, by the
//! same decoding as in a live recording.

use std::io::{BufReader, Read};

use linux_perf_data::linux_perf_event_reader::{
    CommonData, EventRecord, RawEventRecord, RecordType, SampleRecord,
};
use linux_perf_data::{
    Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord, PerfRecordIter,
};

use super::error::ImportError;
use super::importer::{Importer, Origin};
use super::perf_pipe::{self, Described};
use super::tracepoints::{Meaning, Tracepoints};
use super::tracing_data::{Tracepoint, TracingData};
use crate::capture::event::{Comm, Kind, LocalId};
use crate::convert::{ConvertError, Input, Report};
use crate::units::{Cpu, Nanos};

/// What the first bytes of every perf.data file are, in either byte order.
pub(in crate::convert) const MAGICS: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Reads all of `input`, which begins with one of [`MAGICS`], into a trace.
pub(in crate::convert) fn read(
    input: &mut Input,
    output: impl std::io::Write,
) -> Result<Report, ConvertError> {
    if perf_pipe::is_pipe(input.first_bytes()?) {
        let (input, described) = perf_pipe::split(input);
        let reader = PerfFileReader::parse_pipe(input).map_err(ImportError::from)?;
        return records(reader.perf_file, reader.record_iter, &described, output);
    }
    let input = BufReader::with_capacity(BUFFER_BYTES, input.seekable()?);
    let reader = PerfFileReader::parse_file(input).map_err(ImportError::from)?;
    let described = Described::default();
    if let Some(bytes) = reader.perf_file.feature_section_data(Feature::TRACING_DATA) {
        described.set(bytes.to_vec());
    }
    records(reader.perf_file, reader.record_iter, &described, output)
}

fn origin(file: &PerfFile) -> Origin {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let command_line = file.cmdline().ok().flatten().map(|words| words.join(" "));
    Origin {
        format: "perf.data",
        host: owned(file.hostname().ok().flatten()),
        release: owned(file.os_release().ok().flatten()),
        command_line,
        clock: None,
    }
}

fn records<R: Read>(
    mut file: PerfFile,
    mut iter: PerfRecordIter<R>,
    described: &Described,
    output: impl std::io::Write,
) -> Result<Report, ConvertError> {
    let native = match cfg!(target_endian = "big") {
        true => Endianness::BigEndian,
        false => Endianness::LittleEndian,
    };
    if file.endian() != native {
        return Err(ImportError::ByteOrder.into());
    }
    let mut import =
        PerfImport { importer: Importer::new(output, origin(&file)), tracepoints: None };
    while let Some(record) = iter.next_record(&mut file).map_err(ImportError::from)? {
        if let PerfFileRecord::EventRecord { record, .. } = record {
            import.record(&record, described)?;
        }
    }
    if import.tracepoints.is_none() {
        return Err(ImportError::NoTracepoints.into());
    }
    import.importer.finish()
}

struct PerfImport<W: std::io::Write> {
    importer: Importer<W>,
    /// Known from the first sample on: all that are described, and what they mean.
    tracepoints: Option<(Vec<Tracepoint>, Tracepoints)>,
}

fn id(number: i32) -> u32 {
    number.cast_unsigned()
}

impl<W: std::io::Write> PerfImport<W> {
    fn record(
        &mut self,
        record: &RawEventRecord<'_>,
        described: &Described,
    ) -> Result<(), ConvertError> {
        let common = record.common_data().map_err(ImportError::PerfRecord)?;
        // What perf writes about what was there already has no time, or none that means something.
        let time = common.timestamp.filter(|time| *time > 0).map(Nanos);
        let cpu = Cpu(common.cpu.unwrap_or(0));
        match record.parse().map_err(ImportError::PerfRecord)? {
            EventRecord::Sample(sample) => self.sample(&sample, described),
            EventRecord::Comm(comm) => {
                let (pid, tid) = (id(comm.pid), id(comm.tid));
                let name = Comm::from_bytes(&comm.name.as_slice());
                let Some(time) = time else {
                    self.importer.known(pid, tid, name);
                    return Ok(());
                };
                let kind = Kind::Comm {
                    pid: LocalId(pid),
                    tid: LocalId(tid),
                    exec: comm.is_execve,
                    comm: name,
                };
                self.importer.event(time, cpu, kind)
            }
            EventRecord::Fork(fork) => {
                self.importer.belongs(id(fork.pid), id(fork.tid));
                let Some(time) = time else { return Ok(()) };
                let kind = Kind::Fork {
                    pid: LocalId(id(fork.pid)),
                    tid: LocalId(id(fork.tid)),
                    parent_pid: LocalId(id(fork.ppid)),
                    parent_tid: LocalId(id(fork.ptid)),
                };
                self.importer.event(time, cpu, kind)
            }
            EventRecord::Exit(exit) => {
                let (pid, tid) = (LocalId(id(exit.pid)), LocalId(id(exit.tid)));
                time.map_or(Ok(()), |time| self.importer.event(time, cpu, Kind::Exit { pid, tid }))
            }
            EventRecord::Lost(lost) => self.lost(time, cpu, lost.count),
            EventRecord::Raw(raw) => self.raw(&raw, &common, time, cpu),
            _ => Ok(()),
        }
    }

    fn lost(&mut self, time: Option<Nanos>, cpu: Cpu, count: u64) -> Result<(), ConvertError> {
        match time {
            Some(time) if count > 0 => self.importer.event(time, cpu, Kind::Lost { count }),
            _ => Ok(()),
        }
    }

    /// Records that the crate leaves as they are.
    fn raw(
        &mut self,
        raw: &RawEventRecord<'_>,
        common: &CommonData,
        time: Option<Nanos>,
        cpu: Cpu,
    ) -> Result<(), ConvertError> {
        match raw.record_type {
            RecordType::LOST_SAMPLES => {
                let bytes = raw.data.as_slice();
                let count = bytes.first_chunk().map_or(0, |count| u64::from_ne_bytes(*count));
                self.lost(time, cpu, count)
            }
            RecordType::SWITCH_CPU_WIDE if raw.misc & SWITCH_OUT == 0 => {
                let (Some(pid), Some(tid), Some(time)) = (common.pid, common.tid, time) else {
                    return Ok(());
                };
                let (pid, tid) = (LocalId(id(pid)), LocalId(id(tid)));
                self.importer.event(time, cpu, Kind::Running { pid, tid })
            }
            _ => Ok(()),
        }
    }

    fn sample(
        &mut self,
        sample: &SampleRecord<'_>,
        described: &Described,
    ) -> Result<(), ConvertError> {
        let (described, tracepoints) = match &self.tracepoints {
            Some(tracepoints) => tracepoints,
            None => {
                let data = described.get().ok_or(ImportError::NoTracepoints)?;
                let data = TracingData::parse(&data)?;
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
        let time = Nanos(sample.timestamp.ok_or(ImportError::NoTime)?);
        let cpu = Cpu(sample.cpu.ok_or(ImportError::NoCpu)?);
        let raw = sample.raw.ok_or(ImportError::NoRaw)?;
        if let (Some(pid), Some(tid)) = (sample.pid, sample.tid) {
            self.importer.belongs(id(pid), id(tid));
        }
        match tracepoints.decode(&raw.as_slice()) {
            Meaning::Event(kind) => self.importer.event(time, cpu, kind),
            Meaning::Other(place, current) => {
                let tracepoint = (place, &described[place]);
                self.importer.other(time, cpu, tracepoint, current, &raw.as_slice())
            }
            Meaning::Unknown => {
                self.importer.report.count("samples that are no tracepoint's, left out");
                Ok(())
            }
            Meaning::Damaged => {
                self.importer.report.count("samples that are too short, left out");
                Ok(())
            }
        }
    }
}

/// `PERF_RECORD_MISC_SWITCH_OUT`.
const SWITCH_OUT: u16 = perf_event_open_sys::bindings::PERF_RECORD_MISC_SWITCH_OUT as u16;
