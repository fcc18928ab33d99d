//! The checker: valid traces pass, and each broken rule is found where it is broken.

mod common;

use common::{HELLO, S, Side, Trace, W, inline};
use fxt_format::{blob, event, header, metadata, profiler, record_type, scheduling};
use fxt_reader::Reader;
use fxt_reader::check::{Promises, Report, Rule, check};

const IDLE: Side = Side(0, i32::MIN);
const WORK: Side = Side(41, 1024);
const OTHER: Side = Side(42, 1024);

fn report(trace: &Trace, promises: Promises) -> Report {
    check(&mut Reader::from_slice(&trace.bytes), promises).expect("readable")
}

/// Checks a valid trace of two switches followed by `last`; returns the rules
/// that are broken, all of them by the last record.
fn broken(promises: Promises, last: impl FnOnce(&mut Trace)) -> Vec<Rule> {
    let mut trace = Trace::with_switches(2);
    trace.object(42, "other", Some(40));
    assert!(report(&trace, promises).is_sound());
    last(&mut trace);
    let report = report(&trace, promises);
    let offset = trace.offsets[trace.offsets.len() - 1] as u64;
    for finding in &report.findings {
        assert_eq!(finding.offset, offset, "{finding}");
    }
    report.findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_trace_that_keeps_its_promises_is_sound() {
    let report = report(&Trace::with_switches(100), Promises::Fxtrec);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.summary.damaged_regions, 0);
}

#[test]
fn a_thread_must_be_named_before_it_is_scheduled_on_either_side() {
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.switch(9000, 1, Side(77, 1024), Side(78, 1024));
    });
    assert_eq!(rules, [Rule::Named, Rule::Named]);
    let rules = broken(Promises::Spec, |trace| {
        trace.switch(9000, 1, Side(77, 1024), Side(78, 1024));
    });
    assert_eq!(rules, []);
}

#[test]
fn a_name_must_not_be_empty_and_a_thread_must_tell_its_process() {
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.object(50, "", Some(40));
    });
    assert_eq!(rules, [Rule::Named]);
    let rules = broken(Promises::Fxtrec, |trace| {
        use fxt_format::kernel_object as table;
        let header = table::TYPE.put(record_type::KERNEL_OBJECT)
            | table::OBJECT_TYPE.put(table::ZX_OBJ_TYPE_THREAD)
            | table::NAME.put(HELLO.into());
        trace.push(header, &[W(50)]);
    });
    assert_eq!(rules, [Rule::Process]);
}

#[test]
fn scheduling_times_must_not_go_back_on_any_cpu() {
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.switch(1000, 1, IDLE, WORK);
    });
    assert_eq!(rules, [], "an equal time is in order");
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.switch(999, 1, IDLE, WORK);
    });
    assert_eq!(rules, [Rule::TimeOrder]);
}

#[test]
fn idle_and_the_idle_weight_come_together() {
    let not_marked = broken(Promises::Fxtrec, |trace| {
        trace.switch(9000, 0, Side(0, 1024), WORK);
    });
    assert_eq!(not_marked, [Rule::IdleWeight]);
    let not_idle = broken(Promises::Fxtrec, |trace| {
        trace.switch(9000, 0, IDLE, Side(41, i32::MIN));
    });
    assert_eq!(not_idle, [Rule::IdleWeight]);
}

#[test]
fn a_switch_and_a_wakeup_without_weights_break_a_promise() {
    use scheduling::{context_switch, thread_wakeup};
    let rules = broken(Promises::Fxtrec, |trace| {
        let header = context_switch::TYPE.put(record_type::SCHEDULING)
            | context_switch::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH);
        trace.push(header, &[W(9000), W(0), W(41)]);
    });
    assert_eq!(rules, [Rule::Weight, Rule::Weight]);
    let rules = broken(Promises::Fxtrec, |trace| {
        let header = thread_wakeup::TYPE.put(record_type::SCHEDULING)
            | thread_wakeup::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP);
        trace.push(header, &[W(9000), W(41)]);
    });
    assert_eq!(rules, [Rule::Weight]);
}

#[test]
fn where_the_trace_says_so_only_the_idle_task_needs_a_weight() {
    use scheduling::{context_switch, thread_wakeup};
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.own_instant(9000, fxt_reader::record::WEIGHT_INFO);
        let header = thread_wakeup::TYPE.put(record_type::SCHEDULING)
            | thread_wakeup::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP);
        trace.push(header, &[W(9000), W(41)]);
        let header = context_switch::TYPE.put(record_type::SCHEDULING)
            | context_switch::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH);
        trace.push(header, &[W(9000), W(0), W(41)]);
    });
    assert_eq!(rules, [Rule::Weight], "of the idle task, which goes out");
}

#[test]
fn each_cpu_has_a_chain_of_its_own_that_must_not_break() {
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.switch(9000, 1, OTHER, IDLE);
    });
    assert_eq!(rules, [], "the first switch of a CPU begins its chain");
    let rules = broken(Promises::Fxtrec, |trace| {
        trace.switch(9000, 0, OTHER, IDLE);
    });
    assert_eq!(rules, [Rule::Chain]);
}

#[test]
fn a_chain_is_not_judged_across_damage() {
    let clean = Trace::with_switches(10);
    let mut trace = clean.clone();
    let at = clean.offsets[clean.offsets.len() - 5];
    trace.bytes[at..at + 8].fill(0);
    let report = report(&trace, Promises::Fxtrec);
    assert_eq!(report.counts.into_iter().collect::<Vec<_>>(), [(Rule::Framing, 1)]);
}

#[test]
fn a_time_before_the_length_of_a_tick_is_known_breaks_a_promise_once() {
    let mut trace = Trace::new();
    let instant = event::TYPE.put(record_type::EVENT);
    trace.magic().provider_info(1, "p");
    trace.push(instant, &[W(1), W(2), W(3)]).push(instant, &[W(1), W(2), W(3)]);
    let found = report(&trace, Promises::Fxtrec);
    assert_eq!(found.counts.into_iter().collect::<Vec<_>>(), [(Rule::TickLength, 1)]);
    assert!(report(&trace, Promises::Spec).is_sound());
}

#[test]
fn reserved_bits_padding_and_length_are_checked() {
    let reserved = broken(Promises::Spec, |trace| {
        trace.push(event::TYPE.put(record_type::EVENT), &[W(1), W(2), W(3)]);
        trace.initialization(1_000_000_000);
        let header = trace.bytes.len() - 16;
        trace.bytes[header + 2] = 1;
    });
    assert_eq!(reserved, [Rule::ReservedBits]);
    let padding = broken(Promises::Spec, |trace| {
        trace.string(9, "padded");
        let last = trace.bytes.len() - 1;
        trace.bytes[last] = 1;
    });
    assert_eq!(padding, [Rule::Padding]);
    let length = broken(Promises::Spec, |trace| {
        trace.push(event::TYPE.put(record_type::EVENT), &[W(1), W(2), W(3), W(0)]);
    });
    assert_eq!(length, [Rule::Length]);
}

#[test]
fn references_to_nothing_and_bad_framing_are_distinguished() {
    let rules = broken(Promises::Spec, |trace| {
        trace.push(event::TYPE.put(record_type::EVENT) | event::NAME.put(99), &[W(1), W(2), W(3)]);
    });
    assert_eq!(rules, [Rule::Reference]);
    let rules = broken(Promises::Spec, |trace| {
        trace.push(event::TYPE.put(record_type::EVENT) | event::NAME.put(inline("x")), &[W(1)]);
    });
    assert_eq!(rules, [Rule::Framing]);
}

#[test]
fn what_the_specification_does_not_define_is_found() {
    let undefined = [
        header::TYPE.put(13),
        metadata::METADATA_TYPE.put(7),
        scheduling::TYPE.put(record_type::SCHEDULING) | scheduling::SCHEDULING_TYPE.put(9),
        blob::TYPE.put(record_type::BLOB) | blob::BLOB_TYPE.put(4),
        metadata::provider_event::METADATA_TYPE.put(metadata::PROVIDER_EVENT)
            | metadata::provider_event::PROVIDER_ID.put(1)
            | metadata::provider_event::EVENT_ID.put(2),
    ];
    for header_word in undefined {
        let rules = broken(Promises::Spec, |trace| {
            trace.push(header_word, &[]);
        });
        assert_eq!(rules, [Rule::Undefined], "{header_word:#x}");
    }
}

#[test]
fn providers_are_introduced_first_and_index_zero_is_not_set() {
    let rules = broken(Promises::Spec, |trace| {
        trace.provider_section(5);
    });
    assert_eq!(rules, [Rule::Provider]);
    let rules = broken(Promises::Spec, |trace| {
        trace.string(0, "nothing");
    });
    assert_eq!(rules, [Rule::TableIndex]);
    let rules = broken(Promises::Spec, |trace| {
        trace.thread(0, 1, 2);
    });
    assert_eq!(rules, [Rule::TableIndex]);
}

#[test]
fn stacks_are_of_named_threads_and_mappings_of_known_modules() {
    let header_word = |kind| profiler::TYPE.put(record_type::PROFILER) | profiler::KIND.put(kind);
    let module = |trace: &mut Trace, process| {
        let id = profiler::module::MODULE_ID.put(3);
        trace.push(header_word(profiler::MODULE) | id, &[W(1), W(process)]);
    };
    let mapping = |trace: &mut Trace, start, length| {
        let id = profiler::mapping::MODULE_ID.put(3);
        let body = [W(1), W(40), W(start), W(length), W(0)];
        trace.push(header_word(profiler::MAPPING) | id, &body);
    };
    let backtrace = |trace: &mut Trace, thread| {
        trace.push(header_word(profiler::BACKTRACE), &[W(1), W(40), W(thread)]);
    };
    let rules = broken(Promises::Fxtrec, |trace| {
        module(trace, 40);
        mapping(trace, u64::MAX - 1, 2);
        backtrace(trace, 41);
    });
    assert_eq!(rules, []);
    let rules = broken(Promises::Fxtrec, |trace| {
        module(trace, 50);
        mapping(trace, 0x1000, 0x1000);
    });
    assert_eq!(rules, [Rule::Module]);
    let rules = broken(Promises::Fxtrec, |trace| backtrace(trace, 999));
    assert_eq!(rules, [Rule::Named]);
    let rules = broken(Promises::Spec, |trace| mapping(trace, u64::MAX, 2));
    assert_eq!(rules, [Rule::Undefined]);
}

#[test]
fn a_trace_without_magic_number_or_provider_is_not_sound() {
    let mut trace = Trace::new();
    trace.string(1, "one").string(2, "two").thread(1, 2, 3).log_line("hi");
    let found = report(&trace, Promises::Spec);
    let rules: Vec<Rule> = found.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules.len(), 2, "{:?}", found.findings);
    assert!(rules.contains(&Rule::Magic) && rules.contains(&Rule::Provider));
}

#[test]
fn a_truncated_tail_is_noted_and_no_finding() {
    let mut trace = Trace::with_switches(3);
    trace.bytes.truncate(trace.bytes.len() - 9);
    let report = report(&trace, Promises::Fxtrec);
    assert!(report.is_sound());
    assert_eq!(report.summary.truncated_tail, 39);
}

#[test]
fn findings_are_kept_up_to_a_number_and_all_are_counted() {
    let mut trace = Trace::new();
    trace.preamble();
    for _ in 0..3000 {
        trace.push(header::TYPE.put(13), &[S("unknown")]);
    }
    trace.string(30, "end");
    let report = report(&trace, Promises::Spec);
    assert_eq!(report.findings.len(), fxt_reader::check::MAX_FINDINGS);
    assert_eq!(report.counts[&Rule::Undefined], 3000);
}

#[test]
fn records_of_one_thread_must_not_go_back_in_time() {
    use fxt_writer::record::{EventKind, Log};
    use fxt_writer::{Koid, ThreadName, Ticks, Writer};
    let rules = |events: &[(u64, u64, EventKind)], message: Option<u64>| {
        let mut trace = Writer::new(Vec::<u8>::new());
        trace.start("app", 1_000_000_000).expect("room");
        for (time, thread, kind) in events {
            let thread = (Koid(1), Koid(*thread));
            trace.event(*kind, Ticks(*time), thread, "c", "work", &[]).expect("room");
        }
        if let Some(time) = message {
            let thread = ThreadName::Inline { process: Koid(1), thread: Koid(2) };
            trace.write(&Log { time: Ticks(time), thread, message: "late" }).expect("room");
        }
        let trace = trace.into_inner();
        let of = |promises| {
            let report = check(&mut Reader::from_slice(&trace), promises);
            report.expect("readable").counts.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(Promises::Spec), [], "the specification allows any order");
        of(Promises::Fxtrec)
    };
    let complete = |end| EventKind::DurationComplete { end: Ticks(end) };
    let (begin, end) = (EventKind::DurationBegin, EventKind::DurationEnd);
    let back = [(Rule::ThreadOrder, 1)];
    assert_eq!(rules(&[(20, 2, end), (10, 2, begin)], None), back);
    assert_eq!(rules(&[(20, 2, begin), (10, 3, begin), (20, 2, end)], None), []);
    // Complete events in the order of their ends, or of their begins.
    assert_eq!(rules(&[(12, 2, complete(15)), (10, 2, complete(20))], None), []);
    assert_eq!(rules(&[(10, 2, complete(20)), (12, 2, complete(15))], None), []);
    assert_eq!(rules(&[(12, 2, complete(15)), (1, 2, complete(2))], None), back);
    assert_eq!(rules(&[(20, 2, EventKind::Instant)], Some(19)), back);
}

#[test]
fn lost_records_stand_behind_an_applications_records_whatever_the_scheduler_writes_later() {
    use fxt_writer::{Koid, Ticks, Writer};
    let rules = |name: &str| {
        let mut trace = Writer::new(Vec::<u8>::new());
        trace.start("app", 1_000_000_000).expect("room");
        for (time, category, name) in [(20, "fxtrec", name), (10, "sched", "migrate")] {
            let thread = (Koid(1), Koid(2));
            trace.instant(Ticks(time), thread, category, name, &[]).expect("room");
        }
        let trace = trace.into_inner();
        let report = check(&mut Reader::from_slice(&trace), Promises::Fxtrec);
        report.expect("readable").counts.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(rules("lost_records"), []);
    assert_eq!(rules("trigger"), [(Rule::ThreadOrder, 1)]);
}
