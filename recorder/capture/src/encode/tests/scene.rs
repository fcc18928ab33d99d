//! An encoder with its trace in memory.

use std::convert::Infallible;
use std::fmt::Write;

use fxt_reader::check::{Promises, check};
use fxt_reader::record::{
    ABSENT_WEIGHT_ARG, ContextSwitch, Event as EventRecord, KernelObject, WEIGHT_INFO, Wakeup,
};
use fxt_reader::{Reader, Record, ThreadState};
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection, Record as _};
use fxt_writer::{Arg, Koid, Text, ThreadName, Value, WriteError};

use super::Proc;
use crate::encode::encoder::Encoder;
use crate::encode::ids::Ids;
use crate::encode::strings;
use crate::encode::threads::Threads;
use crate::encode::weight;
use crate::event::{Event, Kind};
use fxtrec_units::convention::PROVIDER;
use fxtrec_units::{Cpu, Nanos};

/// The thread that fxtrec's own events belong to.
const RECORDER: Koid = Koid(999);

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) encoder: Encoder<Vec<u8>>,
    /// How many records were already returned.
    reported: usize,
    pub(super) mode: PassMode,
}

/// How events are passed to the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassMode {
    /// Through the public methods.
    Public,
    /// The same, counting plain events.
    Counting(u64),
    /// They are never passed on as plain events.
    Thorough,
}

fn head() -> Result<Vec<u8>, WriteError<Infallible>> {
    let mut head = Vec::new();
    Magic.write(&mut head)?;
    ProviderInfo { id: PROVIDER, name: "fxtrec" }.write(&mut head)?;
    ProviderSection { id: PROVIDER }.write(&mut head)?;
    Initialization { ticks_per_second: 1_000_000_000 }.write(&mut head)?;
    strings::write(&mut head)?;
    Ok(head)
}

impl Scene {
    /// A recording of the whole machine in the initial pid namespace, with nothing known yet.
    pub(super) fn new() -> Scene {
        Scene::of(Threads::new(Ids::Initial, Box::new(Proc::default())))
    }

    pub(super) fn of(threads: Threads) -> Scene {
        Scene::with(threads, false)
    }

    /// Only threads in scope.
    pub(super) fn narrow(threads: Threads) -> Scene {
        Scene::with(threads, true)
    }

    fn with(threads: Threads, narrow: bool) -> Scene {
        let head = head().expect("a head");
        let recorder = ThreadName::Inline { process: RECORDER, thread: RECORDER };
        let encoder = Encoder::new(head, threads, narrow, recorder);
        Scene { encoder, reported: 0, mode: PassMode::Public }
    }

    /// Omits usual weights from now on, and records this fact.
    pub(super) fn leave_out_usual_weights(&mut self) {
        self.encoder.leave_out_usual_weights();
        let args = [Arg::new(Text::Inline(ABSENT_WEIGHT_ARG), Value::Int32(weight::NICE_0))];
        let name = Text::Inline(WEIGHT_INFO);
        self.encoder.instant(Nanos(0), name, &args).expect("memory takes every record");
        self.reported();
    }

    /// Drops the trace so far, and starts a new trace that begins with this after its head.
    pub(super) fn begin_anew(&mut self, beginning: &[u8]) {
        *self.encoder.lanes() = head().expect("a head");
        self.encoder.lanes().extend(beginning);
        self.reported = 0;
    }

    pub(super) fn at(&mut self, time: u64, cpu: u32, kind: impl Into<Kind>) {
        let time = Nanos(time);
        let event = Event { time, kind: kind.into() };
        let (encoder, cpu) = (&mut self.encoder, Cpu(cpu));
        let taken = match &mut self.mode {
            PassMode::Public => encoder.event(time, cpu, &event, &[]),
            PassMode::Thorough => encoder.any_event(time, cpu, &event, &[]),
            PassMode::Counting(plain) => match encoder.plain_event(time, cpu, &event) {
                Ok(true) => {
                    *plain += 1;
                    Ok(())
                }
                _ => encoder.any_event(time, cpu, &event, &[]),
            },
        };
        taken.expect("memory takes every record");
    }

    /// The records that were written since the last call, one line each.
    pub(super) fn reported(&mut self) -> Vec<String> {
        let bytes = self.encoder.lanes().clone();
        let report = check(&mut Reader::from_slice(&bytes), Promises::Fxtrec).expect("memory");
        assert_eq!(report.findings, [], "the trace keeps its promises");
        let mut reader = Reader::from_slice(&bytes);
        let mut lines = Vec::new();
        while let Some(item) = reader.next().expect("the trace is sound") {
            lines.extend(line(&item.record));
        }
        let new = lines.split_off(self.reported);
        self.reported += new.len();
        new
    }

    /// The same without names.
    pub(super) fn scheduled(&mut self) -> Vec<String> {
        let is_name = |line: &String| line.starts_with("process ") || line.starts_with("thread ");
        self.reported().into_iter().filter(|line| !is_name(line)).collect()
    }

    /// The names that were written since the last call, and nothing else.
    pub(super) fn named(&mut self) -> Vec<String> {
        let is_name = |line: &String| line.starts_with("process ") || line.starts_with("thread ");
        self.reported().into_iter().filter(is_name).collect()
    }
}

/// A record as text; `None` for records of the head.
fn line(record: &Record<'_>) -> Option<String> {
    match record {
        Record::KernelObject(object) => Some(object_line(object)),
        Record::ContextSwitch(switch) => Some(switch_line(switch)),
        Record::Wakeup(wakeup) => Some(wakeup_line(wakeup)),
        Record::Event(event) => Some(event_line(event)),
        Record::ProviderEvent(event) => {
            Some(format!("provider {} reports {:?}", event.id, event.event))
        }
        Record::MagicNumber
        | Record::ProviderInfo(_)
        | Record::ProviderSection(_)
        | Record::Initialization(_)
        | Record::String(_) => None,
        other => panic!("the encoder never writes {other:?}"),
    }
}

fn object_line(object: &KernelObject<'_>) -> String {
    let mut line = format!("{} {} = {}", object.object_type, object.koid, object.name);
    if let Some(process) = object.process() {
        let _ = write!(line, " of {process}");
    }
    if let Some(cgroup) = object.args.str("cgroup") {
        let _ = write!(line, " in {cgroup}");
    }
    line
}

fn weight_text(weight: Option<i32>) -> String {
    // The checker has already checked whether the weight may be absent.
    match weight {
        None => "usual".to_owned(),
        Some(weight::IDLE) => "idle".to_owned(),
        Some(weight) => weight.to_string(),
    }
}

fn switch_line(switch: &ContextSwitch<'_>) -> String {
    let state = match switch.outgoing_state {
        ThreadState::Running => "running",
        ThreadState::Blocked => "blocked",
        ThreadState::Suspended => "suspended",
        ThreadState::Dying => "dying",
        ThreadState::Dead => "dead",
        other => panic!("no thread goes out {other}"),
    };
    let mut line = format!(
        "{} cpu {}: {} ({}) {state} -> {} ({})",
        switch.time.0,
        switch.cpu,
        switch.outgoing,
        weight_text(switch.outgoing_weight()),
        switch.incoming,
        weight_text(switch.incoming_weight()),
    );
    for arg in switch.args.iter().filter(|arg| !arg.name.ends_with("_weight")) {
        let _ = write!(line, " {}={}", arg.name, arg.value);
    }
    line
}

fn wakeup_line(wakeup: &Wakeup<'_>) -> String {
    let weight = weight_text(wakeup.weight());
    let mut line =
        format!("{} cpu {}: wakes {} ({weight})", wakeup.time.0, wakeup.cpu, wakeup.koid);
    for arg in wakeup.args.iter().filter(|arg| arg.name != "weight") {
        let _ = write!(line, " {}={}", arg.name, arg.value);
    }
    line
}

fn event_line(event: &EventRecord<'_>) -> String {
    let thread = event.thread;
    let mut line = format!(
        "{} {}/{}: {}:{}",
        event.time.0, thread.process, thread.thread, event.category, event.name
    );
    for arg in event.args.iter() {
        let _ = write!(line, " {}={}", arg.name, arg.value);
    }
    line
}

#[test]
fn the_head_of_a_scene_registers_every_string() {
    let mut scene = Scene::new();
    assert_eq!(scene.reported(), [] as [&str; 0]);
    let time = Nanos(7);
    scene.encoder.instant(time, Text::Inline("word"), &[]).expect("memory takes every record");
    assert_eq!(scene.reported(), ["7 999/999: fxtrec:word"]);
}
