use super::*;
use crate::tally::Tally;
use crate::{Distribution, Metric};
use fxt_reader::Nanos;
use fxtrec_gates::Condition;
use fxtrec_gates::{Dimension, Total};

/// A recording without unknown values.
#[derive(Default)]
struct Known {
    /// Wakeup latencies, in milliseconds.
    wakeups: Vec<u64>,
    censored: u64,
    lost: f64,
    doubt: Doubt,
    /// Whether no thread meets any condition.
    no_thread: bool,
    /// The lengths of spans, in milliseconds.
    spans: Vec<u64>,
    lacks_records: bool,
}

impl Evidence for Known {
    fn values(&self, metric: Metric, condition: Option<&Condition>) -> Option<Distribution> {
        let mut tally = Tally::default();
        if metric == Metric::Wakeup {
            for &wakeup in &self.wakeups {
                tally.record(wakeup * 1_000_000, Nanos(0));
            }
            for _ in 0..self.censored {
                tally.censor();
            }
        }
        (condition.is_none() || !self.no_thread).then(|| tally.freeze())
    }

    fn total(&self, total: Total, condition: Option<&Condition>) -> Option<f64> {
        let found = if total == Total::Lost { self.lost } else { 1000.0 };
        (condition.is_none() || !self.no_thread).then_some(found)
    }

    fn offenders(&self, _: &Quantity, _: Option<&Condition>, at_most: usize) -> Vec<Offender> {
        let amount = Amount { number: 9e6, dimension: Dimension::Time };
        vec![Offender { amount, what: "somebody".to_owned() }; at_most]
    }

    fn lost(&self) -> u64 {
        self.lost as u64
    }

    fn doubt(&self) -> Doubt {
        self.doubt
    }

    fn lacks_records(&self) -> bool {
        self.lacks_records
    }

    fn spans(&self, _: &str, _: Option<&Condition>) -> Option<SpanFigures> {
        let mut tally = Tally::default();
        self.spans.iter().for_each(|&span| tally.record(span * 1_000_000, Nanos(0)));
        let figures = SpanFigures::of_lengths(tally.freeze());
        (!self.spans.is_empty()).then_some(figures)
    }
}

fn too_few(on_too_few: OnTooFew) -> Policy {
    Policy { on_too_few, ..Policy::default() }
}

fn finding(gate: &str, evidence: &Known) -> Finding {
    let gate: Gate = gate.parse().unwrap_or_else(|error| panic!("{gate}: {error}"));
    judge(&gate, evidence, too_few(OnTooFew::Fail)).finding
}

#[test]
fn a_gate_on_spans_of_which_records_were_dropped_is_undecided_unless_it_fails_anyway() {
    let known = |spans: &[u64], lacks_records| Known {
        spans: spans.to_vec(),
        lacks_records,
        ..Known::default()
    };
    let judge = |gate: &str, known: &Known, on_too_few| {
        let gate: Gate = gate.parse().unwrap_or_else(|error| panic!("{gate}: {error}"));
        let verdict = judge(&gate, known, too_few(on_too_few));
        (verdict.finding, verdict.failed, verdict.undecided)
    };
    let (whole, dropped) = (known(&[1, 2], false), known(&[1, 2], true));
    for gate in ["span('work').max > 5ms", "span('work').count > 9"] {
        assert_eq!(judge(gate, &whole, OnTooFew::Fail), (Finding::Kept, false, false), "{gate}");
        let expected = (Finding::RecordsLost, false, true);
        assert_eq!(judge(gate, &dropped, OnTooFew::Fail), expected, "{gate}");
    }
    let fails = "span('work').max > 1ms";
    assert_eq!(judge(fails, &dropped, OnTooFew::Fail), (Finding::Broken, true, false));
    let none = known(&[], true);
    let gate = "span('work').p50 > 1ms";
    assert_eq!(judge(gate, &none, OnTooFew::Fail), (Finding::NoThread, true, false));
    assert_eq!(judge(gate, &none, OnTooFew::Pass), (Finding::RecordsLost, false, true));
    let others = judge("wakeup.count > 9", &dropped, OnTooFew::Fail);
    assert_eq!(others, (Finding::Kept, false, false), "switches are all there");
}

fn one_to(last: u64) -> Known {
    Known { wakeups: (1..=last).collect(), ..Known::default() }
}

#[test]
fn a_gate_is_broken_when_what_it_says_is_so() {
    let hundred = one_to(100);
    for (statistic, value) in [
        ("min", "1ms"),
        ("p50", "50ms"),
        ("mean", "50.5ms"),
        ("max", "100ms"),
        ("sum", "5050ms"),
        ("count", "100"),
    ] {
        let exactly = |sign: &str| finding(&format!("wakeup.{statistic} {sign} {value}"), &hundred);
        // Percentiles are up to 1 % too high.
        if statistic != "p50" {
            assert_eq!(exactly(">"), Finding::Kept, "{statistic}");
            assert_eq!(exactly("<="), Finding::Broken, "{statistic}");
        }
        assert_eq!(exactly(">="), Finding::Broken, "{statistic}");
        assert_eq!(exactly("<"), Finding::Kept, "{statistic}");
    }
    assert_eq!(finding("lost > 0", &Known::default()), Finding::Kept);
    assert_eq!(finding("lost > 0", &Known { lost: 3.0, ..Known::default() }), Finding::Broken);
    let unknown =
        Known { doubt: Doubt { unknown_gaps: 1, ..Doubt::default() }, ..Known::default() };
    assert_eq!(finding("lost > 9", &unknown), Finding::Broken, "nobody knows that it is not so");
    assert_eq!(finding("lost < 1", &unknown), Finding::Broken, "as far as it was counted");
    assert_eq!(finding("switches > 2000", &unknown), Finding::Kept, "that was counted");
    assert_eq!(finding("switches_per_s < 2000", &Known::default()), Finding::Broken);
}

#[test]
fn a_percentile_of_too_few_values_is_none() {
    for (statistic, needed) in [("p90", 10), ("p99", 100), ("p99.9", 1000)] {
        let gate = format!("wakeup.{statistic} > 1h");
        assert_eq!(finding(&gate, &one_to(needed - 1)), Finding::TooFew { needed }, "{gate}");
        assert_eq!(finding(&gate, &one_to(needed)), Finding::Kept, "{gate}");
        let gate = format!("wakeup.{statistic} > 1ns");
        assert_eq!(finding(&gate, &one_to(needed - 1)), Finding::TooFew { needed }, "{gate}");
        assert_eq!(finding(&gate, &one_to(needed)), Finding::Broken, "{gate}");
    }
}

#[test]
fn what_is_too_few_fails_or_passes_as_asked() {
    let gate: Gate = "wakeup.p99 > 1h".parse().expect("a gate");
    let failed = |on_too_few| judge(&gate, &one_to(99), on_too_few).failed;
    assert_eq!((failed(too_few(OnTooFew::Fail)), failed(too_few(OnTooFew::Pass))), (true, false));
    let gate: Gate = "wakeup.count > 5 if comm = 'nobody'".parse().expect("a gate");
    let no_thread = Known { no_thread: true, ..one_to(9) };
    let verdict = |on_too_few| judge(&gate, &no_thread, on_too_few);
    assert_eq!(verdict(too_few(OnTooFew::Fail)).finding, Finding::NoThread);
    assert_eq!(
        (verdict(too_few(OnTooFew::Fail)).failed, verdict(too_few(OnTooFew::Pass)).failed),
        (true, false)
    );
    // This gate needs values.
    let gate: Gate = "wakeup.max > 5ms".parse().expect("a gate");
    assert!(judge(&gate, &no_thread, too_few(OnTooFew::Pass)).failed);
}

#[test]
fn without_a_value_none_is_too_large_or_too_small() {
    let nothing = one_to(0);
    for gate in ["wakeup.max > 1ms", "wakeup.max >= 1ms", "wakeup.min < 1ms", "wakeup.sum > 1ms"] {
        assert_eq!(finding(gate, &nothing), Finding::Kept, "{gate}");
    }
    for gate in ["wakeup.max < 1ms", "wakeup.min > 1ms", "wakeup.mean > 1ms", "wakeup.p50 > 1ms"] {
        assert_eq!(finding(gate, &nothing), Finding::TooFew { needed: 1 }, "{gate}");
    }
    assert_eq!(finding("wakeup.count = 0", &nothing), Finding::Broken);
}

#[test]
fn a_verdict_says_what_was_measured_from_how_much_and_who_was_worst() {
    let evidence = Known { censored: 7, ..one_to(120) };
    let gate: Gate = "wakeup.max > 20ms".parse().expect("a gate");
    let verdict = judge(&gate, &evidence, too_few(OnTooFew::Fail));
    assert_eq!(verdict.measured, Some(Amount { number: 120e6, dimension: Dimension::Time }));
    assert_eq!((verdict.samples, verdict.censored), (Some(120), 7));
    assert_eq!(verdict.offenders.len(), 3);
    let gate: Gate = "wakeup.max > 120ms".parse().expect("a gate");
    assert!(
        judge(&gate, &evidence, too_few(OnTooFew::Fail)).offenders.is_empty(),
        "nobody did anything"
    );
}
