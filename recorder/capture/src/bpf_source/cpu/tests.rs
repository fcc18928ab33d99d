//! How records of a lane are decoded.

use super::*;
use fxtrec_kernel::bpf::lane;
use fxtrec_kernel::format::Format;

fn events(decoder: &mut Decoder, record: Record) -> Vec<Kind> {
    let states = States::new(&current()).expect("the known table");
    let mut found = Vec::new();
    decoder.decode(record, &states, |event| found.push(event.kind));
    found
}

fn switch(prev: u32, next: u32) -> Record {
    Record::Switch {
        time: Nanos(5),
        prev: Tid(prev),
        next: Tid(next),
        prev_prio: 120,
        next_prio: 98,
        state: 1,
        syscall: None,
        preempted: false,
        prev_in_scope: false,
        next_in_scope: true,
        waited_for: false,
    }
}

/// Thread 5 has the CPU.
fn wake(waker: u32, in_interrupt: bool) -> Record {
    Record::Wake {
        kind: RecordKind::Wakeup,
        time: Nanos(6),
        tid: Tid(9),
        current: Tid(5),
        waker: Tid(waker),
        prio: 120,
        target: Cpu(1),
        in_interrupt,
        same_process: false,
    }
}

fn name(tid: u32, name: &str) -> Record {
    Record::Name { tid: Tid(tid), name: Comm::from_bytes(name.as_bytes()).0 }
}

#[test]
fn a_name_is_the_threads_until_another_takes_its_place() {
    let mut decoder = Decoder::new(Cpu(1), None, None);
    assert!(events(&mut decoder, name(7, "seven")).is_empty());
    let other = 7 + NAMES as u32;
    let of = |decoder: &mut Decoder, tid| match events(decoder, switch(1, tid))[0] {
        Kind::Switch(switch) => switch.next_comm,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&mut decoder, 7), Comm::from_bytes(b"seven"));
    assert_eq!(of(&mut decoder, other), Comm::default());
    events(&mut decoder, name(other, "other"));
    assert_eq!(of(&mut decoder, 7), Comm::default());
    assert_eq!(of(&mut decoder, other), Comm::from_bytes(b"other"));
}

#[test]
fn the_waker_is_who_began_it_unless_an_interrupt_did_or_it_is_not_known() {
    let by = |record| match events(&mut Decoder::new(Cpu(1), None, None), record)[0] {
        Kind::Wake(wake) => wake.by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by(wake(4, false)), Waker::Task(Tid(4)));
    assert_eq!(by(wake(4, true)), Waker::Interrupt);
    assert_eq!(by(wake(0, false)), Waker::Unknown);
}

#[test]
fn with_a_scope_a_gap_in_the_chain_is_told_and_without_one_it_is_for_the_encoder() {
    let mut narrow = Decoder::new(Cpu(1), Some(ScopeBy::Thread), None);
    assert_eq!(events(&mut narrow, switch(1, 2)).len(), 1);
    assert_eq!(events(&mut narrow, switch(2, 5)).len(), 1);
    assert_eq!(events(&mut narrow, wake(4, false)).len(), 1);
    assert_eq!(events(&mut narrow, switch(3, 1))[0], Kind::Skipped);
    assert_eq!(events(&mut narrow, wake(4, false))[0], Kind::Skipped);
    let mut wide = Decoder::new(Cpu(1), None, None);
    assert_eq!(events(&mut wide, switch(1, 2)).len(), 1);
    assert_eq!(events(&mut wide, switch(3, 1)).len(), 1);
}

#[test]
fn a_thread_outside_the_scope_is_told_while_one_in_scope_waits_for_its_cpu() {
    let switch = |waited_for, next_in_scope| {
        let mut record = switch(7, 8);
        if let Record::Switch { waited_for: waited, next_in_scope: next, .. } = &mut record {
            (*waited, *next) = (waited_for, next_in_scope);
        }
        record
    };
    let mut decoder = Decoder::new(Cpu(3), Some(ScopeBy::Thread), None);
    assert!(events(&mut decoder, name(8, "eight")).is_empty());
    let comm = Comm::from_bytes(b"eight");
    let reported = events(&mut decoder, switch(true, false));
    assert_eq!(reported[1..], [Kind::Occupant { cpu: Cpu(3), tid: Tid(8), prio: 98, comm }]);
    let mut decoder = Decoder::new(Cpu(3), Some(ScopeBy::Thread), None);
    assert_eq!(events(&mut decoder, switch(false, false)).len(), 1);
    let mut decoder = Decoder::new(Cpu(3), Some(ScopeBy::Thread), None);
    assert_eq!(events(&mut decoder, switch(true, true)).len(), 1, "it is shown anyway");
    // The CPU need not be that of the lane.
    let elsewhere = Record::Occupant { time: Nanos(7), tid: Tid(9), cpu: Cpu(1), prio: 120 };
    let comm = Comm::default();
    let expected = Kind::Occupant { cpu: Cpu(1), tid: Tid(9), prio: 120, comm };
    assert_eq!(events(&mut decoder, elsewhere), [expected]);
}

/// A record of this kind and time; a record about a thread is about thread 7.
pub(super) fn raw(kind: RecordKind, flags: u8, time: u64) -> RawRecord {
    let mut raw = RawRecord::default();
    raw[..8].copy_from_slice(&time.to_ne_bytes());
    raw[8] = 7;
    raw[lane::part::KIND as usize] = kind as u8;
    raw[lane::part::FLAGS as usize] = flags;
    raw
}

pub(super) fn decoder() -> LaneDecoder {
    LaneDecoder::new(States::new(&current()).expect("the known table"), Cpu(1), None, None)
}

fn hand_out(held: &mut Held, decoder: &mut LaneDecoder, until: u64) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut take = |event: &Event| {
        let kind = format!("{:?}", event.kind);
        found.push((event.time.0, kind.split('(').next().unwrap_or_default().to_owned()));
        true
    };
    assert!(held.hand_out(Nanos(until), |record| decoder.decode(record, &mut take)));
    found
}

#[test]
fn records_wait_for_their_turn_with_what_they_tell_of_the_next() {
    use RecordKind::{Lost, Moved, Slice, Switch, Wait, Wakeup};
    let (mut held, mut decoder) = (Held::default(), decoder());
    let records = [
        raw(Switch, 0, 10),
        raw(Slice, 0, 3),
        raw(Switch, 0, 20),
        raw(Moved, 0, 30),
        raw(Wait, lane::flag::FIRST, 5),
        raw(Lost, 0, 40),
        [0xff; lane::RECORD_BYTES],
        raw(Wakeup, 0, 50),
        raw(Slice, 0, 3),
    ];
    let (add, drained) = (records, true);
    assert!(held.add(|room, to| {
        assert_eq!(room, QUEUE_EVENTS);
        to.extend(add);
        drained
    }));
    assert_eq!((held.first(), held.youngest), (Some(Nanos(10)), Nanos(50)));
    assert_eq!(held.lost(), 7, "the record that waits has told it");
    let of = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
        list.iter().map(|(time, kind)| (*time, (*kind).to_owned())).collect()
    };
    assert_eq!(hand_out(&mut held, &mut decoder, 19), of(&[(10, "Switch")]));
    assert_eq!(held.first(), Some(Nanos(20)), "what is told of the slice is of this switch");
    assert_eq!(hand_out(&mut held, &mut decoder, 29), of(&[(20, "Slice"), (20, "Switch")]));
    let moved = of(&[(30, "Moved { tid: Tid"), (30, "Kept")]);
    assert_eq!(
        hand_out(&mut held, &mut decoder, 30),
        moved,
        "what the new queue says is of the move"
    );
    assert_eq!(hand_out(&mut held, &mut decoder, 45), of(&[(40, "Lost")]));
    assert_eq!((held.lost(), decoder.reported_lost, decoder.unknown), (0, 7, 1));
    assert_eq!(hand_out(&mut held, &mut decoder, u64::MAX), of(&[(50, "Wake")]));
    assert_eq!((held.first(), held.records.len()), (None, 0));
    // The last record reported a later switch.
    held.add(|room, to| {
        assert_eq!(room, QUEUE_EVENTS);
        to.push_back(raw(Switch, 0, 60));
        true
    });
    let rest = hand_out(&mut held, &mut decoder, u64::MAX);
    assert_eq!(rest, of(&[(60, "Switch")]), "of a slice whose begin was lost");
}

#[test]
fn no_more_records_are_taken_than_there_is_room_for_and_taking_can_stop_between_two() {
    let mut held = Held::default();
    for time in 0..3 {
        held.add(|_, to| {
            to.push_back(raw(RecordKind::Wakeup, 0, time));
            true
        });
    }
    held.add(|room, _| {
        assert_eq!(room, QUEUE_EVENTS - 3);
        true
    });
    let mut taken = 0;
    assert!(!held.hand_out(Nanos(9), |_| {
        taken += 1;
        taken < 2
    }));
    assert_eq!((taken, held.first()), (2, Some(Nanos(2))));
}

fn slice(stolen: u64) -> Record {
    Record::Slice { stolen: Nanos(stolen) }
}

/// The stolen time that is reported with a switch.
fn reported(decoder: &mut Decoder, prev: u32, next: u32) -> Option<u64> {
    events(decoder, switch(prev, next)).into_iter().find_map(|kind| match kind {
        Kind::Slice(facts) => Some(facts.steal.0),
        _ => None,
    })
}

#[test]
fn what_befell_a_slice_is_told_when_both_its_ends_are_known() {
    let mut decoder = Decoder::new(Cpu(1), None, None);
    assert!(events(&mut decoder, slice(900)).is_empty());
    assert_eq!(reported(&mut decoder, 1, 2), None, "it goes back to before the recording");
    events(&mut decoder, slice(30));
    assert_eq!(reported(&mut decoder, 2, 3), Some(30));
    assert_eq!(reported(&mut decoder, 3, 2), None, "nothing more");
    events(&mut decoder, slice(40));
    decoder.began = false;
    assert_eq!(reported(&mut decoder, 2, 3), None, "something was lost");
}

#[test]
fn a_request_for_a_switch_is_reported_even_of_a_slice_whose_begin_is_not_known() {
    let taken = Taken { irq: Nanos(70), irqs: 3, asked: Some(Nanos(5)) };
    let record = || Record::Taken { irq: taken.irq, irqs: taken.irqs, asked: taken.asked };
    let mut decoder = Decoder::new(Cpu(1), None, None);
    assert!(events(&mut decoder, record()).is_empty());
    let part = Taken { irq: Nanos(0), irqs: 0, ..taken };
    assert_eq!(events(&mut decoder, switch(1, 2))[0], Kind::Taken(part));
    events(&mut decoder, record());
    assert_eq!(events(&mut decoder, switch(2, 1))[0], Kind::Taken(taken));
    assert_eq!(events(&mut decoder, switch(1, 2)).len(), 1, "it is told once");
    decoder.began = false;
    events(&mut decoder, Record::Taken { irq: Nanos(70), irqs: 3, asked: None });
    assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "nothing is known of this one");
}

#[test]
fn that_a_thread_is_throttled_is_told_whatever_is_known_of_its_slice() {
    let mut decoder = Decoder::new(Cpu(1), None, None);
    events(&mut decoder, slice(900));
    let (kept, cgroup, own, now, of_queues) = (Nanos(9), 12, 13, true, false);
    let record = Record::Throttled { kept, cgroup, own, now, of_queues };
    events(&mut decoder, record);
    let throttle = Throttle { kept, cgroup, own, now, of_queues };
    let throttled = Some(throttle);
    let expected = Kind::Slice(SliceFacts { throttled, ..SliceFacts::default() });
    assert_eq!(events(&mut decoder, switch(1, 2))[0], expected);
    let (tid, kept, cpu) = (Tid(1), Nanos(20), Cpu(1));
    let (begins, goes_on) = (false, false);
    let wait = Record::Wait { tid, kept, cpu, own, of_queues, begins, goes_on };
    assert!(events(&mut decoder, wait).is_empty());
    let moved = Record::Moved { time: Nanos(7), tid, from: Cpu(1), to: Cpu(0) };
    let said = Kept { tid, kept, cpu, own, of_queues, begins, goes_on };
    let expected = [Kind::Kept(said), Kind::Moved { tid, from: Cpu(1), to: Cpu(0) }];
    assert_eq!(events(&mut decoder, moved), expected);
    assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "it is told once");
    // The report of the queue to which the thread was moved follows the move.
    let wait = Record::Wait { tid, kept, cpu, own, of_queues, begins: true, goes_on };
    let expected = [Kind::Kept(Kept { begins: true, ..said })];
    assert_eq!(events(&mut decoder, wait), expected);
    // A thread may be woken in such a queue, too.
    events(&mut decoder, record);
    assert_eq!(events(&mut decoder, wake(3, false))[0], Kind::Queued(throttle));
    assert_eq!(events(&mut decoder, wake(3, false)).len(), 1, "it is told once");
}

#[test]
fn the_futex_that_a_thread_blocks_on_is_told_whatever_is_known_of_its_slice() {
    let mut decoder = Decoder::new(Cpu(1), None, None);
    events(&mut decoder, slice(900));
    let raw = lane::Futex { address: 0x1000, value: 2, word: 2, ..lane::Futex::default() };
    events(&mut decoder, Record::Futex(lane::Futex { after_8: 7, ..raw }));
    let futex = Some(Futex { address: 0x1000, owner: Some(Tid(7)), is_end: false });
    let expected = Kind::Slice(SliceFacts { futex, ..SliceFacts::default() });
    assert_eq!(events(&mut decoder, switch(1, 2))[0], expected);
    assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "it is told once");
}

#[test]
fn with_a_scope_what_befell_slices_out_of_it_is_not_told() {
    let mut narrow = Decoder::new(Cpu(1), Some(ScopeBy::Thread), None);
    events(&mut narrow, switch(1, 2));
    events(&mut narrow, slice(30));
    assert_eq!(reported(&mut narrow, 5, 1), None, "of more slices than one");
    events(&mut narrow, slice(20));
    assert_eq!(reported(&mut narrow, 1, 5), Some(20));
}

fn table(rows: &str, mask: &str, plus: &str) -> StateTable {
    let text = format!(
        "name: sched_switch\nID: 1\nformat:\n\n\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\n\
         print fmt: \"%s%s\", __print_flags(REC->prev_state & {mask}, \"|\", {rows}), \
         REC->prev_state & {plus} ? \"+\" : \"\"\n"
    );
    StateTable::parse(&Format::parse(&text).expect("a format")).expect("a table")
}

pub(super) fn current() -> StateTable {
    let rows = r#"{ 1, "S" }, { 2, "D" }, { 4, "T" }, { 8, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }"#;
    table(rows, "0xff", "0x100")
}

fn text(state: u32, preempted: bool) -> String {
    let decoded = States::new(&current()).expect("the known table").decode(state, preempted);
    format!("{}{}", decoded.letter, if decoded.preempted { "+" } else { "" })
}

#[test]
fn states_are_those_that_the_kernel_reports() {
    // TASK_DEAD with EXIT_DEAD and with EXIT_ZOMBIE, TASK_WAKEKILL with TASK_UNINTERRUPTIBLE and with __TASK_STOPPED,
    // TASK_FREEZABLE with TASK_INTERRUPTIBLE, and so on.
    let known = [
        (0, "R"),
        (0x1, "S"),
        (0x2, "D"),
        (0x90, "X"),
        (0xa0, "Z"),
        (0x102, "D"),
        (0x104, "T"),
        (0x8, "t"),
        (0x40, "P"),
        (0x402, "I"),
        (0x2001, "S"),
        (0x1000, "D"),
        (0x8000, "D"),
        (0x8402, "D"),
        (0x800, "R"),
    ];
    for (state, letters) in known {
        assert_eq!(text(state, false), letters, "{state:#x}");
    }
}

#[test]
fn a_preempted_thread_is_runnable_whatever_its_state() {
    assert_eq!(text(0, true), "R+");
    assert_eq!(text(0x402, true), "R+");
}

#[test]
fn a_kernel_that_numbers_states_in_another_way_is_not_guessed_at() {
    let rows = r#"{ 1, "D" }, { 2, "S" }"#;
    assert!(States::new(&table(rows, "0x3", "0x4")).is_none());
}
