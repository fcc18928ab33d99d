//! The reports of rings about CPU hotplug and about missing records.

use super::super::event::{Comm, Switch};
use super::super::sched::tests::layout;
use super::*;
use fxtrec_kernel::fake::Fake;
use fxtrec_kernel::prev_state::PrevState;

fn switch(prev: u32, next: u32) -> Event {
    let comm = Comm::default();
    let kind = Kind::Switch(Switch {
        prev: Tid(prev),
        next: Tid(next),
        prev_prio: 120,
        next_prio: 120,
        state: PrevState { letter: 'S', preempted: false },
        syscall: None,
        in_scope: None,
        prev_comm: comm,
        next_comm: comm,
    });
    Event { time: Nanos(0), kind }
}

fn is_silent(events: &[Event]) -> bool {
    let mut watch = ChainWatch::default();
    events.iter().for_each(|event| watch.see(event));
    watch.is_silent()
}

#[test]
fn a_cpu_that_leaves_idle_unseen_is_silent() {
    assert!(is_silent(&[switch(1, 0), switch(2, 0), switch(2, 3)]));
}

#[test]
fn a_cpu_that_leaves_idle_seen_is_not() {
    assert!(!is_silent(&[switch(1, 0), switch(0, 2), switch(2, 0)]));
}

#[test]
fn any_task_that_leaves_unseen_makes_a_cpu_silent() {
    assert!(is_silent(&[switch(1, 2), switch(3, 1)]));
}

#[test]
fn a_cpu_that_lost_events_or_shows_every_task_is_not() {
    assert!(!is_silent(&[switch(1, 2), switch(2, 1)]));
    let lost = Event { time: Nanos(0), kind: Kind::Lost(Loss::exactly(1)) };
    assert!(!is_silent(&[switch(1, 0), lost, switch(2, 1)]));
}

const ONLINE: &str = "/sys/devices/system/cpu/online";

fn rings_on(machine: &Fake, merger: &mut Merger) -> PerfRings {
    let layout = layout();
    let options = Options {
        ring_bytes: 1 << 16,
        wake_bytes: 1 << 12,
        tracepoints: layout.tracepoints(),
        namespace_ids: false,
        lives: Vec::new(),
        extras: std::sync::Arc::new([]),
    };
    let sys = Box::new(machine.clone());
    PerfRings::open(sys, layout, options, 1 << 16, merger).expect("it opens")
}

fn numbers(rings: &PerfRings) -> Vec<u32> {
    rings.cpus().iter().map(|cpu| cpu.0).collect()
}

#[test]
fn cpus_that_come_are_opened_and_enabled_and_those_that_go_are_closed() {
    let machine = Fake::default().file(ONLINE, "0,2\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    assert_eq!(numbers(&rings), [0, 2]);
    let opened = machine.asked().len();

    machine.write(ONLINE, "0-1\n");
    rings.look_for_cpus(&MaybeOffline::These(Vec::new()), &mut merger).expect("nothing is refused");
    assert_eq!(numbers(&rings), [0, 1]);
    let asked = machine.asked().split_off(opened);
    assert!(asked.iter().all(|call| !call.ends_with("cpu 0")), "CPU 0 stays open: {asked:?}");
    assert_eq!(asked.iter().filter(|call| *call == "enable").count(), 4, "{asked:?}");

    machine.write(ONLINE, "0-2\n");
    rings.look_for_cpus(&MaybeOffline::These(Vec::new()), &mut merger).expect("nothing is refused");
    assert_eq!(numbers(&rings), [0, 1, 2]);
}

#[test]
fn a_list_of_cpus_that_cannot_be_read_leaves_the_recorded_ones_alone() {
    let machine = Fake::default().file(ONLINE, "0-1\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    machine.write(ONLINE, "nonsense\n");
    rings
        .look_for_cpus(&MaybeOffline::These(Vec::new()), &mut merger)
        .expect_err("expected a list");
    assert_eq!(numbers(&rings), [0, 1]);
}

fn listed(merger: &mut Merger) -> Vec<(u32, Kind)> {
    let mut found = Vec::new();
    merger.emit(Nanos(u64::MAX), |_, cpu, event, _| {
        found.push((cpu.0, event.kind));
        true
    });
    found
}

const AWAY_AND_BACK: [&str; 2] = [
    "offline@/devices/system/cpu/cpu1\0ACTION=offline\0",
    "online@/devices/system/cpu/cpu1\0ACTION=online\0",
];

#[test]
fn a_cpu_that_was_away_between_two_looks_is_opened_again_and_its_gap_reported() {
    let machine = Fake::default().with_device_messages().file(ONLINE, "0-1\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    assert!(!rings.follow_hotplug(&mut merger).expect("nothing happened"));
    rings.is_silent(Cpu(1)).expect("nothing is refused");
    let opened = machine.asked().len();

    machine.kill_cpu(1);
    AWAY_AND_BACK.iter().for_each(|message| machine.tell_device(message));
    assert!(rings.follow_hotplug(&mut merger).expect("nothing is refused"));
    assert_eq!(numbers(&rings), [0, 1]);
    let asked = machine.asked().split_off(opened);
    assert!(asked.iter().all(|call| !call.ends_with("cpu 0")), "CPU 0 stays open: {asked:?}");
    let opens = asked.iter().filter(|call| call.ends_with("cpu 1")).count();
    assert_eq!(opens, 2 + layout().tracepoints().len(), "switch records too: {asked:?}");
    let expected = [
        Kind::Offline { goes_idle: true },
        Kind::Online,
        Kind::Lost(Loss::unknown()),
        Kind::LostLives { count: None },
    ];
    assert_eq!(listed(&mut merger), expected.map(|kind| (1, kind)));

    // Late messages about a CPU that is online change nothing.
    AWAY_AND_BACK.iter().for_each(|message| machine.tell_device(message));
    let opened = machine.asked().len();
    rings.follow_hotplug(&mut merger).expect("nothing is refused");
    assert_eq!(machine.asked().len(), opened);
    assert!(listed(&mut merger).is_empty());
}

#[test]
fn without_the_kernels_messages_every_look_finds_the_dead() {
    let machine = Fake::default().file(ONLINE, "0-1\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    machine.kill_cpu(1);
    rings.look_for_cpus(&MaybeOffline::All, &mut merger).expect("nothing is refused");
    assert_eq!(listed(&mut merger).len(), 4);
    assert_eq!(numbers(&rings), [0, 1]);
}

#[test]
fn rings_without_the_scheduler_lose_only_lives_when_their_cpu_was_away() {
    let machine = Fake::default().with_device_messages().file(ONLINE, "0-1\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    rings.options.tracepoints.clear();
    machine.kill_cpu(1);
    machine.tell_device(AWAY_AND_BACK[1]);
    rings.follow_hotplug(&mut merger).expect("nothing is refused");
    let expected =
        [Kind::Offline { goes_idle: false }, Kind::Online, Kind::LostLives { count: None }];
    assert_eq!(listed(&mut merger), expected.map(|kind| (1, kind)));
}

fn ring_of(rings: &mut PerfRings) -> &mut CpuRing {
    rings.rings.first_mut().expect("CPU 0 is open")
}

fn lose(machine: &Fake, lives: u64, switch_records: u64, samples: u64) {
    machine.lose(0, |attr| attr.type_ == 1 && attr.comm() == 1, lives);
    machine.lose(0, |attr| attr.type_ == 1 && attr.context_switch() == 1, switch_records);
    let first = layout().tracepoints()[0];
    machine.lose(0, |attr| attr.type_ == 2 && attr.config == first, samples);
}

/// The picture in [`CpuRing::divide`]'s documentation, and the steps after it.
#[test]
fn of_what_a_ring_lost_only_samples_are_lost_events() {
    let machine = Fake::default().file(ONLINE, "0\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    rings.is_silent(Cpu(0)).expect("nothing is refused");
    let ring = ring_of(&mut rings);
    let mut divide = |count, lives, switch_records, samples| {
        lose(&machine, lives, switch_records, samples);
        ring.divide(count, ring.events.lost_aside(&machine))
    };
    let loss = |events, switch_records| {
        Some(Loss { events: Some(events), at_most: false, switch_records })
    };
    assert_eq!(divide(7, 0, 2, 5), (loss(5, 2), None));
    assert_eq!(divide(5, 1, 3, 8), (loss(3, 1), Some(1)));
    assert_eq!(divide(2, 3, 3, 8), (None, Some(2)), "no switch is missing");
    assert_eq!(divide(4, 3, 7, 8), (loss(0, 4), None), "who came in is");
    // One more sample and two more records are lost before the ring could report it.
    lose(&machine, 3, 9, 9);
    rings.report_remaining_losses(&mut merger);
    assert_eq!(listed(&mut merger), [(0, Kind::Lost(loss(1, 2).expect("a loss")))]);
    rings.report_remaining_losses(&mut merger);
    assert!(listed(&mut merger).is_empty(), "nothing is told twice");
}

#[test]
fn counts_that_are_ahead_of_the_ring_add_up_in_the_end() {
    let machine = Fake::default().file(ONLINE, "0\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    rings.is_silent(Cpu(0)).expect("nothing is refused");
    let ring = ring_of(&mut rings);
    // 5 samples and then 5 switch records were lost; both are counted when the first part is read.
    lose(&machine, 0, 5, 5);
    let aside = ring.events.lost_aside(&machine);
    let parts = [ring.divide(5, aside), ring.divide(5, aside)];
    let events = |part: &(Option<Loss>, Option<u64>)| part.0.and_then(|loss| loss.events);
    assert_eq!(parts.iter().filter_map(events).sum::<u64>(), 5);
    let records = parts.iter().filter_map(|part| part.0).map(|loss| loss.switch_records);
    assert_eq!(records.sum::<u64>(), 5);
}

#[test]
fn events_that_were_counted_and_neither_written_nor_lost_are_unreported() {
    let machine = Fake::default().file(ONLINE, "0-1\n");
    let mut merger = Merger::new();
    let mut rings = rings_on(&machine, &mut merger);
    let (first, second) = (layout().tracepoints()[0], layout().tracepoints()[1]);
    let is_first = |attr: &perf_event_open_sys::bindings::perf_event_attr| {
        attr.type_ == 2 && attr.config == first
    };
    for cpu in [0, 1] {
        machine.fire(cpu, is_first, 20);
        machine.lose(cpu, is_first, 6);
    }
    rings.rings[0].reported.switches = 9;
    rings.rings[0].undecoded = 1;
    rings.rings[1].reported.switches = 14;
    machine.fire(1, |attr| attr.type_ == 2 && attr.config == second, 3);
    rings.rings[1].reported.others = 1;
    assert_eq!(rings.stats().unreported.total(), 0, "there may be more in the rings");
    // For one CPU, that is the end of the recording; the other one ends earlier.
    machine.write(ONLINE, "0\n");
    rings.look_for_cpus(&MaybeOffline::These(Vec::new()), &mut merger).expect("nothing is refused");
    rings.report_remaining_losses(&mut merger);
    assert_eq!(rings.stats().unreported, SchedEvents { switches: 4, others: 2 });
    let lost = listed(&mut merger).into_iter().filter(|(_, kind)| matches!(kind, Kind::Lost(_)));
    assert_eq!(lost.count(), 2, "they are in no gap");
}

#[test]
fn a_kernel_that_does_not_count_by_event_leaves_a_bound() {
    let machine = Fake::default().without_lost_counts().file(ONLINE, "0\n");
    let mut rings = rings_on(&machine, &mut Merger::new());
    let ring = ring_of(&mut rings);
    let aside = ring.events.lost_aside(&machine);
    assert_eq!(ring.divide(9, aside), (Some(Loss::at_most(9)), None));
    machine.fire(0, |_| true, 20);
    assert_eq!(ring_of(&mut rings).unreported(), SchedEvents::default(), "they may be lost");
}
