//! The content of a trace that these tests check.

use std::io::Read;
use std::path::Path;

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Reader, Record, Summary};

/// A trace that was read to its end.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The reader's report about it.
    pub(crate) summary: Summary,
    pub(crate) switches: u64,
    /// The time of the last scheduling record, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) last_time: u64,
    /// Whether fxtrec ended it: its last record, `trace_stats`, is there.
    pub(crate) ended: bool,
    /// The sum of its `lost` events.
    pub(crate) lost: u64,
    /// The losses in `trace_stats`.
    pub(crate) lost_in_stats: Option<u64>,
    /// The names of all threads and processes.
    pub(crate) names: Vec<String>,
}

impl Trace {
    /// Reads a file, compressed or not. A damaged record fails the test; an end in the middle of
    /// a record does not.
    #[track_caller]
    pub(crate) fn open(path: &Path) -> Trace {
        Trace::read(Reader::open(path).unwrap())
    }

    /// Reads the output of a pipe.
    #[track_caller]
    pub(crate) fn of(input: impl Read) -> Trace {
        Trace::read(Reader::new(input))
    }

    #[track_caller]
    fn read(mut reader: Reader<'_>) -> Trace {
        let mut trace = Trace {
            summary: Summary::default(),
            switches: 0,
            last_time: 0,
            ended: false,
            lost: 0,
            lost_in_stats: None,
            names: Vec::new(),
        };
        while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{error}")) {
            trace.add(&item.record);
        }
        trace.summary = reader.summary();
        trace
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::ContextSwitch(switch) => {
                self.switches += 1;
                self.last_time = switch.time.0;
            }
            Record::Wakeup(wakeup) => self.last_time = wakeup.time.0,
            Record::KernelObject(object) => self.names.push(object.name.to_owned()),
            Record::Event(event) if event.kind == EventKind::Instant => match event.name {
                "lost" => self.lost += number(event.args.get("count")).unwrap(),
                "trace_stats" => {
                    self.ended = true;
                    self.lost_in_stats = number(event.args.get("lost"));
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Fails the test unless the trace was ended properly and every byte of it is valid.
    #[track_caller]
    pub(crate) fn expect_complete(self) -> Trace {
        assert!(self.summary.is_complete(), "{:?}", self.summary);
        assert!(self.ended, "the trace lacks its trace_stats");
        assert!(self.switches > 0);
        self
    }
}

/// Whether the trace in a file has its end; for files that are still being written.
pub(crate) fn is_ended(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| {
        // The name of the last event is a string record, which is written just before it.
        bytes.windows(11).any(|window| window == b"trace_stats")
    })
}

fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        Value::UInt32(number) => Some(number.into()),
        Value::UInt64(number) => Some(number),
        Value::Int32(number) => number.try_into().ok(),
        Value::Int64(number) => number.try_into().ok(),
        _ => None,
    }
}
