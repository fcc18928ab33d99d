use super::super::event::{Loss, WakeKind, Waker};
use super::super::sched::tests::{layout, raw_switch, raw_wake};
use super::*;
use fxtrec_units::{Cpu, Tid};

fn sample(time: u64, raw: &[u8]) -> Vec<u8> {
    let mut body = time.to_ne_bytes().to_vec();
    body.extend((raw.len() as u32).to_ne_bytes());
    body.extend(raw);
    body
}

const PLAIN: Shape<'static> = Shape { namespace_ids: false, extras: None };

fn decode_body(kind: u32, misc: u32, body: &[u8]) -> Option<Decoded<'_>> {
    decode(&layout(), RawRecord { kind, misc: misc as u16, body }, PLAIN)
}

#[test]
fn a_switch_is_read_by_its_format() {
    let body = sample(77, &raw_switch(2));
    let event = decode_body(b::PERF_RECORD_SAMPLE, 0, &body).expect("whole").event;
    let Kind::Switch(switch) = event.kind else { panic!("{event:?}") };
    assert_eq!((event.time, switch.prev, switch.next), (Nanos(77), Tid(10), Tid(11)));
    assert_eq!((switch.prev_prio, switch.next_prio), (120, 98));
    assert_eq!((switch.state.letter, switch.state.preempted), ('D', false));
    assert_eq!(
        (switch.prev_comm.as_bytes(), switch.next_comm.as_bytes()),
        (&b"out"[..], &b"in"[..])
    );
}

#[test]
fn a_waker_is_named_only_by_a_task_outside_interrupts() {
    let (task, unknown) = (Waker::Task(Tid(5)), Waker::Unknown);
    for (flags, current, by) in
        [(0u8, 5, task), (0x08, 5, unknown), (0x10, 5, unknown), (0, 0, unknown), (0x01, 5, task)]
    {
        let body = sample(1, &raw_wake(301, flags, current));
        let event = decode_body(b::PERF_RECORD_SAMPLE, 0, &body).expect("whole").event;
        let Kind::Wake(wake) = event.kind else { panic!("{event:?}") };
        assert_eq!(wake.by, by, "flags {flags:#x} current {current}");
        assert_eq!((wake.kind, wake.tid, wake.target), (WakeKind::Wakeup, Tid(42), Cpu(3)));
    }
}

#[test]
fn namespace_ids_come_before_the_time_and_become_an_identity() {
    let mut body = 2u32.to_ne_bytes().to_vec();
    body.extend(3u32.to_ne_bytes());
    body.extend(sample(9, &raw_wake(302, 0, 500)));
    let record = RawRecord { kind: b::PERF_RECORD_SAMPLE, misc: 0, body: &body };
    let shape = Shape { namespace_ids: true, ..PLAIN };
    let found = decode(&layout(), record, shape).expect("whole");
    let identity = found.identity.expect("an identity");
    let expected = Kind::Identity { tid: Tid(500), local_pid: LocalId(2), local_tid: LocalId(3) };
    assert_eq!(identity, Event { time: Nanos(9), kind: expected });
}

#[test]
fn side_band_records_end_with_their_time() {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let with_time = |mut body: Vec<u8>| {
        body.extend(55u64.to_ne_bytes());
        body
    };
    let kind = |record, misc, body: Vec<u8>| {
        let event = decode_body(record, misc, &body).expect("whole").event;
        assert_eq!(event.time, Nanos(55));
        event.kind
    };
    // FORK: pid, parent's pid, tid, parent's tid, time of the fork; then the ids.
    let mut fork = words(&[20, 10, 21, 11]);
    fork.extend(54u64.to_ne_bytes());
    let expected = Kind::Fork {
        pid: LocalId(20),
        tid: LocalId(21),
        parent_pid: LocalId(10),
        parent_tid: LocalId(11),
    };
    assert_eq!(kind(b::PERF_RECORD_FORK, 0, with_time(fork.clone())), expected);
    let exit = kind(b::PERF_RECORD_EXIT, 0, with_time(fork));
    assert_eq!(exit, Kind::Exit { pid: LocalId(20), tid: LocalId(21) });

    let mut renamed = words(&[20, 21]);
    renamed.extend(b"name\0\0\0\0");
    let exec = b::PERF_RECORD_MISC_COMM_EXEC;
    let comm = Comm::from_bytes(b"name");
    let expected = Kind::Comm { pid: LocalId(20), tid: LocalId(21), exec: true, comm };
    assert_eq!(kind(b::PERF_RECORD_COMM, exec, with_time(renamed)), expected);

    let mut lost = 1u64.to_ne_bytes().to_vec();
    lost.extend(99u64.to_ne_bytes());
    assert_eq!(kind(b::PERF_RECORD_LOST, 0, with_time(lost)), Kind::Lost(Loss::exactly(99)));

    // SWITCH_CPU_WIDE: the outgoing thread, then the ids, which are those of the incoming thread.
    let switched = with_time(words(&[30, 31, 40, 41]));
    let expected = Kind::Running { pid: LocalId(40), tid: LocalId(41) };
    assert_eq!(kind(b::PERF_RECORD_SWITCH_CPU_WIDE, 0, switched.clone()), expected);
    let reaped = with_time(words(&[30, 31, u32::MAX, u32::MAX]));
    assert_eq!(decode_body(b::PERF_RECORD_SWITCH_CPU_WIDE, 0, &reaped), None);
    let out = b::PERF_RECORD_MISC_SWITCH_OUT;
    assert_eq!(decode_body(b::PERF_RECORD_SWITCH_CPU_WIDE, out, &switched), None);
}

#[test]
fn a_record_cut_anywhere_is_nothing_and_no_panic() {
    let body = sample(77, &raw_switch(1));
    for len in 0..body.len() {
        assert_eq!(decode_body(b::PERF_RECORD_SAMPLE, 0, &body[..len]), None, "{len} bytes");
    }
    for kind in 0..20 {
        for len in 0..40 {
            let body = vec![0xff; len];
            let found = decode_body(kind, 0, &body);
            assert!(found.is_none_or(|found| found.event.time == Nanos(u64::MAX)));
        }
    }
}
