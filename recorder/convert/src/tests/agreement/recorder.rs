//! The recorder's encoder, which gets a story as kernel events and writes the trace.

use fxt_writer::{Koid, Text, ThreadName};
use fxtrec_capture::encode::encoder::Encoder;
use fxtrec_capture::encode::ids::Ids;
use fxtrec_capture::encode::strings;
use fxtrec_capture::encode::threads::{Lookup, Threads};
use fxtrec_capture::event::{Comm, Event, Kind, Loss, Switch, Wake, WakeKind, Waker};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_report::scene::{Leaves, Scene};
use fxtrec_units::{Cpu, LocalId, Nanos, Tid};

use super::play::{CPUS, THREADS};

#[derive(Debug)]
struct NoProc;

impl Lookup for NoProc {
    fn process_of(&self, _: LocalId) -> Option<LocalId> {
        None
    }

    fn process_name(&self, _: LocalId) -> Option<Vec<u8>> {
        None
    }
}

fn tid(koid: u64) -> Tid {
    Tid(u32::try_from(koid).expect("a small number"))
}

fn comm(koid: u64) -> Comm {
    Comm::from_bytes(format!("t{koid}").as_bytes())
}

fn letter(leaves: Leaves) -> char {
    match leaves {
        Leaves::R => 'R',
        Leaves::S => 'S',
        Leaves::D => 'D',
        Leaves::I => 'I',
        Leaves::T => 'T',
        Leaves::X => 'X',
    }
}

pub(super) struct Recorder {
    encoder: Encoder<Vec<u8>>,
}

impl Recorder {
    pub(super) fn new(narrow: bool) -> Recorder {
        let mut threads = Threads::new(Ids::Initial, Box::new(NoProc));
        threads.begin_snapshot(Nanos(0));
        for pid in [100, 500] {
            let process = threads.add_process(LocalId(pid), b"process");
            for koid in THREADS.into_iter().filter(|koid| koid / 100 * 100 == u64::from(pid)) {
                threads.add_thread(
                    process,
                    Some(LocalId(tid(koid).0)),
                    Some(tid(koid)),
                    comm(koid),
                );
            }
        }
        threads.include(LocalId(100));
        let mut head = Scene::of_scope(if narrow { "app" } else { "all" }).bytes().to_vec();
        strings::write(&mut head).expect("memory");
        let recorder = ThreadName::Inline { process: Koid(999), thread: Koid(999) };
        Recorder { encoder: Encoder::new(head, threads, narrow, recorder) }
    }

    fn event(&mut self, micros: u64, cpu: u16, kind: Kind) {
        let time = Nanos(micros * 1000);
        let event = Event { time, kind };
        self.encoder.event(time, Cpu(cpu.into()), &event, &[]).expect("memory takes it");
    }

    pub(super) fn switch(
        &mut self,
        micros: u64,
        cpu: u16,
        (prev, leaves): (u64, Leaves),
        next: u64,
    ) {
        let switch = Switch {
            prev: tid(prev),
            next: tid(next),
            prev_prio: 120,
            next_prio: 120,
            state: PrevState { letter: letter(leaves), preempted: false },
            syscall: None,
            in_scope: None,
            prev_comm: comm(prev),
            next_comm: comm(next),
        };
        self.event(micros, cpu, Kind::Switch(switch));
    }

    /// An interrupt on a CPU that is always idle wakes a thread, so that the wakeup reveals nothing about the other CPUs.
    pub(super) fn wake(&mut self, micros: u64, target: u16, thread: u64) {
        let wake = Wake {
            kind: WakeKind::Wakeup,
            tid: tid(thread),
            prio: 120,
            target: Cpu(target.into()),
            comm: comm(thread),
            current: Tid::IDLE,
            by: Waker::Interrupt,
            same_process: None,
            in_scope: None,
        };
        self.event(micros, CPUS, Kind::Wake(wake));
    }

    pub(super) fn lose(&mut self, micros: u64, cpu: u16) {
        self.event(micros, cpu, Kind::Lost(Loss::exactly(1)));
    }

    pub(super) fn end(mut self, micros: u64) -> Vec<u8> {
        let name = Text::Inline("trace_stats");
        self.encoder.instant(Nanos(micros * 1000), name, &[]).expect("memory takes it");
        self.encoder.into_lanes()
    }
}
