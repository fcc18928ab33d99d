//! Records of a ring that holds more than scheduler events.

use std::os::fd::OwnedFd;

use super::super::event::Loss;
use super::super::sched::tests::layout;
use super::*;
use fxtrec_kernel::extra::{Extra, ExtraIndex, What};
use fxtrec_units::Tid;

/// The ids that the kernel gave: 901 without registers, 902 with registers, 903 for an event that stands for several.
fn extras() -> OpenExtras {
    let mut extras = OpenExtras::default();
    let event = || OwnedFd::from(std::fs::File::open("/dev/null").expect("there is one"));
    let extra = |what, user_stack| Extra { label: String::new(), what, user_stack, filter: None };
    let shared = What::Shared { tracepoint: 12, number_at: 8 };
    extras.add(event(), 901, ExtraIndex(0), &extra(What::Tracepoint(12), false));
    extras.add(event(), 902, ExtraIndex(1), &extra(What::Tracepoint(12), true));
    extras.add(event(), 903, ExtraIndex(2), &extra(shared, false));
    extras
}

/// A sample of event `id` at time 7 with the common fields of a tracepoint of type 0, thread 42, and `more` bytes.
fn sample(id: u64, more: &[u8]) -> Vec<u8> {
    let mut raw = vec![0, 0, 0, 0];
    raw.extend(42u32.to_ne_bytes());
    raw.extend(more);
    let mut body = id.to_ne_bytes().to_vec();
    body.extend(7u64.to_ne_bytes());
    body.extend((raw.len() as u32).to_ne_bytes());
    body.extend(raw);
    body
}

fn decoded<'a>(kind: u32, body: &'a [u8], extras: &OpenExtras) -> Option<Decoded<'a>> {
    let shape = Shape { namespace_ids: false, extras: Some(extras) };
    decode(&layout(), RawRecord { kind, misc: 0, body }, shape)
}

#[test]
fn a_sample_is_known_by_the_id_of_its_event_and_keeps_its_bytes() {
    let extras = extras();
    let body = sample(901, &[1, 2, 3, 4]);
    let found = decoded(b::PERF_RECORD_SAMPLE, &body, &extras).expect("whole");
    let Kind::Sample(sample) = found.event.kind else { panic!("{found:?}") };
    assert_eq!((found.event.time, sample.current), (Nanos(7), Tid(42)));
    assert_eq!((sample.extra, sample.user), (ExtraIndex(0), None));
    assert_eq!(found.payload[8..], [1, 2, 3, 4]);
}

#[test]
fn the_stack_pointer_follows_the_bytes() {
    let extras = extras();
    for (abi, is_32_bit) in
        [(b::PERF_SAMPLE_REGS_ABI_64, false), (b::PERF_SAMPLE_REGS_ABI_32, true)]
    {
        let mut body = sample(902, &[0; 4]);
        body.extend(u64::from(abi).to_ne_bytes());
        body.extend(0x7ffd_0000_u64.to_ne_bytes());
        let found = decoded(b::PERF_RECORD_SAMPLE, &body, &extras).expect("whole");
        let Kind::Sample(sample) = found.event.kind else { panic!("{found:?}") };
        assert_eq!(sample.user, Some(UserState { stack: 0x7ffd_0000, is_32_bit }));
    }
    let mut body = sample(902, &[0; 4]);
    body.extend(u64::from(b::PERF_SAMPLE_REGS_ABI_NONE).to_ne_bytes());
    let found = decoded(b::PERF_RECORD_SAMPLE, &body, &extras).expect("whole");
    let Kind::Sample(sample) = found.event.kind else { panic!("{found:?}") };
    assert_eq!(sample.user, None, "a thread of the kernel has no program");
}

#[test]
fn a_sample_that_ends_before_its_registers_is_none() {
    let extras = extras();
    let mut body = sample(902, &[0; 4]);
    body.extend(2u64.to_ne_bytes());
    assert_eq!(decoded(b::PERF_RECORD_SAMPLE, &body, &extras), None);
}

#[test]
fn other_records_end_with_the_id_behind_their_time() {
    let extras = extras();
    let words = [5u64, 12, 99, 901].map(u64::to_ne_bytes).concat();
    let found = decoded(b::PERF_RECORD_LOST, &words, &extras).expect("whole");
    assert_eq!(found.event, Event { time: Nanos(99), kind: Kind::Lost(Loss::exactly(12)) });
}

#[test]
fn a_sample_of_an_event_that_stands_for_several_says_which_it_is_of() {
    let extras = extras();
    let body = sample(903, &7_u16.to_ne_bytes());
    let found = decoded(b::PERF_RECORD_SAMPLE, &body, &extras).expect("a sample");
    let Kind::Sample(Sample { extra, .. }) = found.event.kind else { panic!("{found:?}") };
    assert_eq!(extra, ExtraIndex(7));
    let short = sample(903, &[]);
    assert!(decoded(b::PERF_RECORD_SAMPLE, &short, &extras).is_none());
}
