//! Which events are handed out, when, and in which order.

use super::*;
use crate::event::Loss;

const NONE: &[NoBacklog] = &[];

fn event(time: u64) -> Event {
    Event { time: Nanos(time), kind: Kind::Lost(Loss::exactly(time)) }
}

fn emitted(merger: &mut Merger, watermark: u64) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    merger.emit(Nanos(watermark), |time, cpu, _, _| {
        found.push((time.0, cpu.0));
        true
    });
    found
}

/// The picture in the module's documentation, in milliseconds.
#[test]
fn the_picture_holds() {
    const MS: u64 = 1_000_000;
    let mut merger = Merger::new();
    let lanes = [0, 1, 2].map(|cpu| merger.lane(Cpu(cpu)));
    for ms in 290..=302 {
        merger.push(lanes[0], event(ms * MS));
    }
    for ms in 290..=292 {
        merger.push(lanes[1], event(ms * MS));
    }
    for ms in 290..=297 {
        merger.push(lanes[2], event(ms * MS));
    }
    // At 303 ms, the quiet CPU 1 holds the others back at the time of its last event ...
    assert_eq!(merger.watermark(Nanos(303 * MS), NONE), Nanos(291 * MS));
    assert_eq!(emitted(&mut merger, 291 * MS).len(), 6);
    // ... but not for more than a window: then CPU 2's newest event, minus the slack, is the limit.
    assert_eq!(merger.watermark(Nanos(396 * MS), NONE), Nanos(296 * MS));
    let rest = emitted(&mut merger, 296 * MS);
    assert_eq!(rest.len(), 1 + 5 + 5);
    assert_eq!(merger.held(), 6 + 1);
}

#[test]
fn an_interrupt_that_was_stored_before_what_it_interrupted_is_put_after_it() {
    let mut merger = Merger::new();
    let lane = merger.lane(Cpu(0));
    for time in [10, 30, 31, 20, 40] {
        merger.push(lane, event(time));
    }
    let times: Vec<u64> = emitted(&mut merger, u64::MAX).iter().map(|pair| pair.0).collect();
    assert_eq!(times, [10, 20, 30, 31, 40]);
    assert_eq!(merger.late().0, 0);
}

#[test]
fn what_comes_behind_the_watermark_is_late_and_time_does_not_go_back() {
    let mut merger = Merger::new();
    let lanes = [0, 1].map(|cpu| merger.lane(Cpu(cpu)));
    merger.push(lanes[0], event(100));
    assert_eq!(emitted(&mut merger, 100), [(100, 0)]);
    merger.push(lanes[1], event(60));
    merger.push(lanes[1], event(101));
    assert_eq!(emitted(&mut merger, 200), [(100, 1), (101, 1)]);
    assert_eq!(merger.late(), (1, Nanos(40)));
}

#[test]
fn a_full_queue_makes_room_though_another_cpu_is_quiet() {
    let mut merger = Merger::new();
    let busy = merger.lane(Cpu(0));
    merger.lane(Cpu(1));
    // All of it is within the window, so the quiet CPU would delay it.
    const MS: u64 = 1_000_000;
    for event_number in 0..QUEUE_EVENTS as u64 {
        merger.push(busy, event(500 * MS + event_number));
    }
    merger.set_drained(busy, false);
    assert!(merger.is_full(busy));
    let watermark = merger.watermark(Nanos(502 * MS), NONE);
    assert_eq!(watermark, Nanos(499 * MS + QUEUE_EVENTS as u64 - 1));
    merger.push(busy, event(510 * MS));
    let watermark = merger.watermark(Nanos(512 * MS), NONE);
    assert_eq!(emitted(&mut merger, watermark.0).len(), QUEUE_EVENTS);
    assert!(!merger.is_full(busy));
}

#[test]
fn a_cpu_that_was_not_read_to_its_end_holds_up_the_others_however_late_it_is() {
    let mut merger = Merger::new();
    let lanes = [0, 1].map(|cpu| merger.lane(Cpu(cpu)));
    const MS: u64 = 1_000_000;
    merger.push(lanes[0], event(1000 * MS));
    merger.push(lanes[1], event(10 * MS));
    merger.set_drained(lanes[1], false);
    assert_eq!(merger.watermark(Nanos(2000 * MS), NONE), Nanos(9 * MS));
    merger.set_drained(lanes[1], true);
    assert_eq!(merger.watermark(Nanos(2000 * MS), NONE), Nanos(1900 * MS));
}

#[test]
fn taking_can_stop_between_two_events() {
    let mut merger = Merger::new();
    let lane = merger.lane(Cpu(0));
    (1..=3).for_each(|time| merger.push(lane, event(time)));
    let mut taken = 0;
    merger.emit(Nanos(10), |_, _, _, _| {
        taken += 1;
        false
    });
    assert_eq!((taken, merger.held()), (1, 2));
    assert_eq!(emitted(&mut merger, 10), [(2, 0), (3, 0)]);
}

#[test]
fn any_mix_of_cpus_comes_out_sorted_and_whole() {
    let mut merger = Merger::new();
    let lanes: Vec<Lane> = (0..256).map(|cpu| merger.lane(Cpu(cpu))).collect();
    let mut seed = 1u64;
    for round in 0..20u64 {
        for lane in &lanes {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            merger.push(*lane, event(round * 1000 + (seed >> 54)));
        }
    }
    let times: Vec<u64> = emitted(&mut merger, u64::MAX).iter().map(|pair| pair.0).collect();
    assert_eq!(times.len(), 20 * 256);
    assert!(times.is_sorted());
    assert_eq!(merger.late().0, 0);
}

/// A backlog that the test fills.
#[derive(Debug)]
struct Sorted {
    cpu: Cpu,
    queue: Lane,
    events: VecDeque<Event>,
    youngest: Nanos,
    complete: bool,
    /// The events that are added between the two parts of a read, and the number of reads.
    ring: VecDeque<Event>,
    looks: usize,
}

impl Backlog for Sorted {
    type Item = Event;

    fn number(&self) -> usize {
        self.cpu.0 as usize
    }
    fn cpu(&self) -> Cpu {
        self.cpu
    }
    fn queue(&self) -> Lane {
        self.queue
    }
    fn first(&mut self) -> Option<Nanos> {
        self.events.front().map(|event| event.time)
    }
    fn youngest(&self) -> Nanos {
        self.youngest
    }
    fn is_drained(&self) -> bool {
        true
    }
    fn is_complete(&self) -> bool {
        self.complete
    }
    fn read_if_filling(&mut self) -> bool {
        self.looks += 1;
        let room = QUEUE_EVENTS.saturating_sub(self.events.len());
        let some = self.ring.len().min(room);
        self.events.extend(self.ring.drain(..some));
        !self.ring.is_empty()
    }
    fn held(&self) -> usize {
        self.events.len()
    }
    fn hand_out(&mut self, until: Nanos, mut take: impl FnMut(&Event) -> bool) -> bool {
        while let Some(event) = self.events.front().copied().filter(|event| event.time <= until) {
            self.events.pop_front();
            if !take(&event) {
                return false;
            }
        }
        true
    }
}

#[test]
fn events_in_backlogs_go_out_as_those_in_queues_do() {
    const CPUS: u32 = 5;
    let mut seed = 1u64;
    let mut roll = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    // Two queues for each CPU; the second is short, and the first is a backlog in the other merger.
    let (mut plain, mut other) = (Merger::new(), Merger::new());
    let queues: Vec<[Lane; 2]> =
        (0..CPUS).map(|cpu| [plain.another_lane(Cpu(cpu)), plain.another_lane(Cpu(cpu))]).collect();
    let mut backlogs: Vec<Sorted> = (0..CPUS)
        .map(|cpu| {
            let queue = other.another_lane(Cpu(cpu));
            let (events, youngest) = (VecDeque::new(), Nanos(0));
            let (ring, looks) = (VecDeque::new(), 0);
            Sorted { cpu: Cpu(cpu), queue, events, youngest, complete: false, ring, looks }
        })
        .collect();
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let mut times = [1000u64; CPUS as usize];
    for round in 0..200 {
        for _ in 0..roll(300) {
            let cpu = roll(u64::from(CPUS)) as usize;
            // Often at the same time as other events, and in sequences.
            for _ in 0..=roll(4) {
                times[cpu] += roll(3);
                let rare = roll(10) == 0;
                let event = Event { time: Nanos(times[cpu]), kind: Kind::Online };
                plain.push(queues[cpu][usize::from(rare)], event);
                let backlog = &mut backlogs[cpu];
                match rare {
                    true => other.push(backlog.queue, event),
                    false => {
                        backlog.events.push_back(event);
                        backlog.youngest = event.time;
                    }
                }
            }
        }
        // Some of the following events are late.
        let watermark = times.iter().min().map_or(0, |time| time + roll(20));
        let watermark = if round == 199 { u64::MAX } else { watermark };
        // Now and then, `take` stops at some event.
        let last = roll(100) as usize;
        expected.clear();
        plain.emit(Nanos(watermark), |time, cpu, event, _| {
            expected.push((time, cpu, event.time));
            expected.len() != last
        });
        found.clear();
        let mut take = |time: Nanos, cpu: Cpu, event: &Event, _: &[u8]| {
            found.push((time, cpu, event.time));
            found.len() != last
        };
        other.emit_with(Nanos(watermark), &mut backlogs, &mut take);
        assert_eq!(found, expected, "round {round}");
    }
    assert_eq!(plain.late(), other.late());
    assert!(plain.late().0 > 0, "nothing was late");
}

#[test]
fn a_ring_that_fills_is_read_while_much_goes_out_and_waits_for_the_next_watermark() {
    let mut merger = Merger::new();
    let queue = merger.another_lane(Cpu(0));
    let other = merger.another_lane(Cpu(1));
    let count = 2 * BETWEEN_LOOKS as u64;
    (0..count).step_by(2).for_each(|time| merger.push(other, event(time)));
    let mut backlogs = vec![Sorted {
        cpu: Cpu(0),
        queue,
        events: (1..QUEUE_EVENTS as u64).step_by(2).map(event).collect(),
        youngest: Nanos(QUEUE_EVENTS as u64),
        complete: true,
        ring: (0..10).map(|more| event(10 * WINDOW.0 + more)).collect(),
        looks: 0,
    }];
    let mut times = Vec::new();
    let mut take = |time: Nanos, _: Cpu, _: &Event, _: &[u8]| {
        times.push(time.0);
        true
    };
    let all = merger.round_with(&mut backlogs, |_, _| false, || Nanos(9 * WINDOW.0), &mut take);
    assert!(all && times.is_sorted());
    assert_eq!(times.len(), BETWEEN_LOOKS + QUEUE_EVENTS / 2);
    assert_eq!((backlogs[0].looks, backlogs[0].held(), merger.late().0), (1, 10, 0));
}

#[test]
fn a_limited_round_leaves_events_for_the_next_and_loses_none() {
    let mut merger = Merger::new();
    let queues = [merger.lane(Cpu(0)), merger.lane(Cpu(1))];
    // A single CPU is active for a while and has many events.
    (0..5000).for_each(|time| merger.push(queues[0], event(time * 10_000)));
    (0..10).for_each(|time| merger.push(queues[1], event(60_000_000 + time)));
    merger.limit_rounds(Some(1000));
    let mut sizes = Vec::new();
    let mut times = Vec::new();
    loop {
        let before = times.len();
        let all = merger.round(
            |_| false,
            || Nanos(u64::MAX),
            |time, _, _, _| {
                times.push(time.0);
                true
            },
        );
        assert!(all);
        sizes.push(times.len() - before);
        if !merger.has_more() {
            break;
        }
    }
    assert!(sizes.len() >= 5 && sizes.iter().all(|size| *size <= 1101), "{sizes:?}");
    assert!(times.is_sorted() && times.len() == 5010);
}

#[test]
fn one_hot_cpu_is_crowded_long_before_its_queue_is_full() {
    const MS: u64 = 1_000_000;
    let mut merger = Merger::new();
    let lanes = [0, 1].map(|cpu| merger.lane(Cpu(cpu)));
    let mut held_back = |count: usize| {
        let fill = |merger: &mut Merger| {
            for _ in 0..count {
                merger.push(lanes[0], event(995 * MS));
            }
            false
        };
        merger.round(fill, || Nanos(1000 * MS), |_, _, _, _| true);
        1000 * MS - merger.watermark(Nanos(1000 * MS), NONE).0
    };
    assert_eq!(held_back(CROWDED_CPU - 1), WINDOW.0);
    assert_eq!(held_back(1), CROWDED_WINDOW.0);
    assert_eq!(held_back(0), CROWDED_WINDOW.0, "they are still there");
    merger.emit(Nanos(u64::MAX), |_, _, _, _| true);
    merger.round(|_| false, || Nanos(1000 * MS), |_, _, _, _| true);
    assert_eq!(merger.watermark(Nanos(1000 * MS), NONE), Nanos(900 * MS));
}

#[test]
fn a_backlog_counts_for_the_watermark_as_a_queue_does() {
    const MS: u64 = 1_000_000;
    let mut merger = Merger::new();
    let queue = merger.another_lane(Cpu(0));
    merger.push(queue, event(500 * MS));
    let backlog = |youngest: u64| Sorted {
        cpu: Cpu(0),
        queue,
        events: VecDeque::new(),
        youngest: Nanos(youngest),
        complete: false,
        ring: VecDeque::new(),
        looks: 0,
    };
    assert_eq!(merger.watermark(Nanos(510 * MS), &[backlog(490 * MS)]), Nanos(489 * MS));
    // A complete backlog does not delay the queue.
    let complete = Sorted { complete: true, ..backlog(490 * MS) };
    assert_eq!(merger.watermark(Nanos(510 * MS), &[complete]), Nanos(499 * MS));
    assert_eq!(merger.watermark(Nanos(510 * MS), &[backlog(505 * MS)]), Nanos(499 * MS));
    let mut full = backlog(505 * MS);
    full.events = (0..QUEUE_EVENTS as u64).map(event).collect();
    assert_eq!(merger.watermark(Nanos(510 * MS), &[full]), Nanos(509 * MS));
}
