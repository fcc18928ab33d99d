//! Lanes that other threads read.

use super::tests::{decoder, raw};
use super::*;
use crate::bpf_source::Decoding;
use crate::readers::{MOST_READERS, Readers};
use fxtrec_kernel::bpf::fake::{self, LaneEnd};

/// Lanes of CPUs that are numbered from 0, all of the same size, and their other ends.
#[derive(Debug)]
struct Machine {
    merger: Merger,
    lanes: Vec<CpuLane>,
    decoders: Vec<LaneDecoder>,
    ends: Vec<LaneEnd>,
    records: usize,
}

impl Machine {
    fn new(cpus: u32, records: usize) -> Machine {
        let (lanes, decoders, ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut machine = Machine { merger: Merger::new(), lanes, decoders, ends, records };
        (0..cpus).for_each(|_| machine.add());
        machine
    }

    fn add(&mut self) {
        let cpu = Cpu(self.lanes.len() as u32);
        let (lane, end) = fake::lane(self.records).expect("memory");
        self.lanes.push(CpuLane::new(self.decoders.len(), (cpu, lane), &mut self.merger, false));
        self.decoders.push(decoder());
        self.lanes.last().expect("it was added").open();
        self.ends.push(end);
    }

    /// Writes a wakeup at each of these times into every lane, each CPU's a little later than the previous CPU's.
    fn write(&self, times: std::ops::Range<u64>) {
        for (at, end) in (0u64..).zip(&self.ends) {
            let records =
                times.clone().map(|time| raw(RecordKind::Wakeup, 0, time * (at + 1) + 1000));
            assert_eq!(end.write(records), times.clone().count());
        }
    }

    fn emitted(&mut self) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        let mut take = |time: Nanos, cpu: Cpu, event: &Event, _: &[u8]| {
            assert!(matches!(event.kind, Kind::Wake(_) | Kind::Lost(_) | Kind::Offline { .. }));
            found.push((time.0, cpu.0));
            true
        };
        let mut to = Decoding { decoders: &mut self.decoders, take: &mut take };
        self.merger.emit_with(Nanos(u64::MAX), &mut self.lanes, &mut to);
        found
    }

    fn cpus(&self) -> Vec<u32> {
        self.lanes.iter().map(|lane| lane.cpu.0).collect()
    }
}

#[test]
fn any_number_of_readers_brings_the_same_events_in_the_same_order() {
    const CPUS: u32 = 70;
    let mut expected = Vec::new();
    let shares = [(70, 0), (69, 1), (20, 3), (1, MOST_READERS)];
    for (share, threads) in shares {
        let mut machine = Machine::new(CPUS, 512);
        let mut readers = Readers::sharing(share, 0);
        assert_eq!(crate::readers::readers_for(CPUS as usize, share), threads);
        let mut looked = Vec::new();
        // In the second pass, the rest wraps around the end of the lanes.
        for times in [0..300, 30_000..30_300] {
            machine.write(times);
            let look = readers.read(&mut machine.lanes, &mut machine.merger);
            assert_eq!(look, Look { brought: 70 * 300, drained: true });
            assert!(machine.cpus().is_sorted(), "they came back in order");
            looked.push(machine.emitted());
        }
        assert_eq!(looked.concat().len(), 70 * 600);
        assert!(looked.iter().all(|events| events.is_sorted()));
        match threads {
            0 => expected = looked,
            _ => assert_eq!(looked, expected, "{threads} threads"),
        }
        assert!(readers.take_failure().is_none());
    }
}

#[test]
fn what_may_still_come_is_known_of_lanes_that_a_helper_looked_at() {
    let mut machine = Machine::new(4, 512);
    let mut readers = Readers::sharing(1, 0);
    let mut found = |machine: &mut Machine| {
        readers.read(&mut machine.lanes, &mut machine.merger);
        let of = |lane: &CpuLane| (lane.youngest().0, lane.is_complete());
        machine.lanes.iter().map(of).collect::<Vec<_>>()
    };
    machine.ends[2].write([raw(RecordKind::Wakeup, 0, 995)]);
    // A busy program may be about to write an event from before the read.
    machine.ends[3].set_busy(true);
    assert_eq!(found(&mut machine), [(0, true), (0, true), (995, true), (0, false)]);
    machine.ends[3].write([raw(RecordKind::Wakeup, 0, 994)]);
    machine.ends[3].set_busy(false);
    assert_eq!(found(&mut machine), [(0, true), (0, true), (995, true), (994, true)]);
    assert_eq!(machine.emitted(), [(994, 3), (995, 2)]);
}

#[test]
fn a_lane_that_holds_more_than_there_is_room_for_is_read_on_and_its_losses_are_exact() {
    let mut machine = Machine::new(3, 2 * QUEUE_EVENTS);
    let mut readers = Readers::sharing(1, 0);
    let more = 2 * QUEUE_EVENTS + 10;
    for end in &machine.ends {
        let records = (1..).map(|time| raw(RecordKind::Wakeup, 0, time));
        assert_eq!(end.write(records.take(more)), 2 * QUEUE_EVENTS);
    }
    for (brought, drained) in [(QUEUE_EVENTS, false), (QUEUE_EVENTS, true), (0, true)] {
        let look = readers.read(&mut machine.lanes, &mut machine.merger);
        assert_eq!(look, Look { brought: 3 * brought, drained });
        assert_eq!(machine.emitted().len(), 3 * brought);
    }
    let Machine { lanes, decoders, merger, .. } = &mut machine;
    let lost: Vec<u64> = lanes.iter().map(|lane| lane.counts().lost).collect();
    assert_eq!(lost, [10, 10, 10]);
    lanes.iter_mut().for_each(|lane| lane.report_remaining_losses(merger, decoders));
    assert_eq!(machine.emitted().len(), 3, "one loss of each CPU");
}

#[test]
fn lanes_are_opened_and_closed_and_cpus_come_and_go_between_looks() {
    let mut machine = Machine::new(4, 512);
    let mut readers = Readers::sharing(1, 0);
    machine.write(0..10);
    let gone = &mut machine.lanes[3];
    gone.follow(false);
    readers.read(&mut machine.lanes, &mut machine.merger);
    let Machine { lanes, merger, .. } = &mut machine;
    lanes.iter_mut().for_each(|lane| lane.report_offline(merger));
    let found = machine.emitted();
    assert_eq!(found.len(), 4 * 10 + 1);
    assert_eq!(found.last(), Some(&(1000 + 9 * 4, 3)), "right behind its last event");
    machine.lanes[3].follow(true);
    machine.add();
    machine.write(10..20);
    readers.read(&mut machine.lanes, &mut machine.merger);
    assert_eq!((machine.emitted().len(), machine.cpus()), (5 * 10, vec![0, 1, 2, 3, 4]));
    assert!(machine.lanes.iter().all(CpuLane::close));
    let after = raw(RecordKind::Wakeup, 0, 5000);
    assert!(machine.ends.iter().all(|end| end.write([after]) == 0), "closed lanes take nothing");
    let look = readers.read(&mut machine.lanes, &mut machine.merger);
    assert_eq!(look, Look { brought: 0, drained: true });
}

#[test]
fn a_lane_is_read_between_looks_from_a_quarter_on() {
    let mut machine = Machine::new(1, 512);
    let mut add = |count: usize| {
        machine.ends[0].write((0..count).map(|_| raw(RecordKind::Wakeup, 0, 9)));
        assert!(!machine.lanes[0].read_if_filling(), "there is room");
        machine.lanes[0].held()
    };
    assert_eq!([add(127), add(1), add(127), add(0), add(385)], [0, 128, 128, 128, 640]);
}

/// A lane whose reader panics on request.
#[derive(Debug)]
struct Trapped(CpuLane, bool);

impl ReadRing for Trapped {
    const WORTH_SHARING: usize = 0;

    fn lane(&self) -> MergeLane {
        self.0.lane()
    }

    fn read(&mut self, queue: &mut Queue) -> Look {
        assert!(!self.1, "as the test wants it");
        self.0.read(queue)
    }
}

#[test]
fn a_reader_that_panics_is_an_error_and_the_lanes_of_the_others_are_read_on() {
    let mut machine = Machine::new(6, 512);
    machine.write(0..10);
    let trapped = |lane: CpuLane| {
        let is_it = lane.cpu == Cpu(3);
        Trapped(lane, is_it)
    };
    let mut lanes: Vec<Trapped> = machine.lanes.drain(..).map(trapped).collect();
    let mut readers = Readers::sharing(2, 0);
    let look = readers.read(&mut lanes, &mut machine.merger);
    assert_eq!(look, Look { brought: 4 * 10, drained: true });
    let error = readers.take_failure().expect("its lanes are gone");
    assert!(error.to_string().contains("panicked"), "{error}");
    machine.write(10..20);
    let look = readers.read(&mut lanes, &mut machine.merger);
    assert_eq!(look, Look { brought: 4 * 10, drained: true });
    machine.lanes = lanes.into_iter().map(|trapped| trapped.0).collect();
    assert_eq!(machine.cpus(), [0, 1, 4, 5]);
    assert_eq!(machine.emitted().len(), 4 * 20);
}
