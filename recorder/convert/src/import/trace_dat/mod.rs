//! trace.dat from trace-cmd: versions 6 and 7, compressed or not.
//!
//! ```text
//!  head -----> v6, v7 --> descriptions, where each CPU's pages are
//!  pages ----> Pages ---> kernel::ftrace::Page --> tracepoints --> events of one CPU --+
//!                                                          (one page at a time)        +--> in order of time
//! ```
//!
//! One page of each CPU is in memory at a time, regardless of the length of the trace.

mod cpu;
mod option;
mod packing;
mod v6;
mod v7;

use std::fs::File;
use std::io::Write;

use super::bytes::{Bytes, Window};
use super::error::ImportError;
use super::importer::{Importer, Origin};
use super::tracepoints::Tracepoints;
use super::tracing_data::{self, HeaderInfo, Tracepoint};
use crate::{ConvertError, Report};
use fxtrec_capture::event::Comm;
use fxtrec_kernel::ftrace::layout::PageLayout;
use fxtrec_units::{Cpu, Nanos, Tid};

use cpu::{CpuEvents, Next};
use packing::Packer;

/// The first bytes of every trace.dat.
pub(crate) const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// The headers of files and sections are read in pieces of this size, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// Clocks that do not count nanoseconds.
const NO_NANOSECONDS: [&str; 2] = ["x86-tsc", "counter"];

/// The position of a CPU's pages in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    cpu: Cpu,
    offset: u64,
    bytes: u64,
}

/// The conversion from ticks of the CPU's counter to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversion {
    mult: u32,
    shift: u32,
    offset: u64,
}

impl Conversion {
    fn nanoseconds(self, ticks: u64) -> u64 {
        let scaled = (u128::from(ticks) * u128::from(self.mult)).checked_shr(self.shift);
        let scaled = u64::try_from(scaled.unwrap_or(0)).unwrap_or(u64::MAX);
        scaled.saturating_sub(self.offset)
    }

    fn parse(data: &[u8]) -> Result<Conversion, ImportError> {
        let mut bytes = Bytes::new("the clock's conversion", data);
        Ok(Conversion { mult: bytes.u32()?, shift: bytes.u32()?, offset: bytes.u64()? })
    }
}

/// The facts about the pages of a file.
#[derive(Debug, Default)]
struct Contents {
    header: HeaderInfo,
    tracepoints: Vec<Tracepoint>,
    comms: Vec<(Tid, Comm)>,
    spans: Vec<Span>,
    /// The compression of the pages, if any.
    packer: Option<Packer>,
    /// `uname -a` of the machine.
    machine: Option<String>,
    clock: Option<String>,
    conversion: Option<Conversion>,
    /// The number of tracing instances whose pages are not in `spans`.
    further_instances: u64,
}

/// Reads a whole file into a trace.
pub(crate) fn read(file: &File, output: impl Write) -> Result<Report, ConvertError> {
    let head = Window::of(file, 0, PIECE_BYTES)?;
    let mut bytes = head.bytes("the head");
    let version = tracing_data::opening(&mut bytes, "a trace.dat")?;
    let contents = match version.as_str() {
        "6" => v6::contents(file)?,
        "7" => v7::contents(file, &mut bytes)?,
        _ => {
            let (format, known) = ("trace.dat", "6 and 7");
            return Err(ImportError::Version { format, version, known }.into());
        }
    };
    let (clock, conversion) = (contents.clock.as_deref(), contents.conversion);
    if let Some(clock) =
        clock.filter(|clock| NO_NANOSECONDS.contains(clock) && conversion.is_none())
    {
        return Err(ImportError::Clock(clock.to_owned()).into());
    }
    events(file, contents, output)
}

fn origin(contents: &Contents) -> Origin {
    // `Linux HOST RELEASE ...`
    let mut words = contents.machine.as_deref().unwrap_or_default().split_whitespace().skip(1);
    Origin {
        format: "trace.dat",
        host: words.next().map(str::to_owned),
        release: words.next().map(str::to_owned),
        command_line: None,
        clock: contents.clock.clone(),
        ..Origin::default()
    }
}

fn events(file: &File, contents: Contents, output: impl Write) -> Result<Report, ConvertError> {
    let layout = PageLayout::parse(&contents.header.page, &contents.header.event)
        .map_err(ImportError::from)?;
    let tracepoints = Tracepoints::new(&contents.tracepoints)?;
    if !tracepoints.has_switches() {
        return Err(ImportError::NoTracepoints.into());
    }
    let mut importer = Importer::new(output, origin(&contents));
    importer
        .report
        .add("tracing instances other than the first, left out", contents.further_instances);
    for (tid, comm) in contents.comms {
        importer.named(tid, comm);
    }
    let mut cpus = Vec::new();
    for span in contents.spans {
        cpus.push(CpuEvents::new(file, span, contents.packer.as_ref(), &layout, &tracepoints)?);
    }
    loop {
        // The earliest of the CPUs' next events. This takes one comparison for each CPU, less than reading the pages takes.
        let mut earliest: Option<(u64, usize)> = None;
        for (index, cpu) in cpus.iter_mut().enumerate() {
            let Some(time) = cpu.next_time(&mut importer.report)? else { continue };
            if earliest.is_none_or(|(least, _)| time < least) {
                earliest = Some((time, index));
            }
        }
        let Some((_, index)) = earliest else { break };
        let Some((time, next)) = cpus[index].take() else { break };
        let time = contents.conversion.map_or(time.0, |conversion| conversion.nanoseconds(time.0));
        let (time, cpu) = (Nanos(time), cpus[index].cpu());
        match next {
            Next::Event(kind) => importer.event(time, cpu, kind)?,
            Next::Other(place, current, raw) => {
                importer.other(time, cpu, (place, &contents.tracepoints[place]), current, &raw)?;
            }
        }
    }
    importer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_as_the_file_says() {
        // 2.5 GHz: 0.4 ns per tick.
        let conversion = Conversion { mult: 6_710_886, shift: 24, offset: 100 };
        assert_eq!(conversion.nanoseconds(2_500_000_000), 999_999_940 - 100);
        assert_eq!(conversion.nanoseconds(0), 0, "not before the beginning of time");
        let absurd = Conversion { mult: u32::MAX, shift: 0, offset: 0 };
        assert_eq!(absurd.nanoseconds(u64::MAX), u64::MAX);
        assert_eq!(Conversion { shift: 200, ..absurd }.nanoseconds(5), 0);
    }
}
