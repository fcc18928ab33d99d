use quick_xml::Reader;
use quick_xml::events::Event;

use super::super::evidence::{Doubt, Offender};
use super::*;
use fxtrec_gates::Gate;

fn gate(text: &str) -> Gate {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn verdict(gate: &Gate, finding: Finding, failed: bool) -> Verdict<'_> {
    let dimension = gate.quantity.dimension();
    let measured = Some(Amount { number: 23_400_000.0, dimension });
    let samples = matches!(gate.quantity, Quantity::Statistic(..)).then_some(1204);
    Verdict {
        gate,
        finding,
        failed,
        undecided: false,
        blame: None,
        measured,
        samples,
        censored: 0,
        doubt: Doubt::default(),
        offenders: Vec::new(),
    }
}

/// A violated gate with an offender whose name contains special characters.
fn broken(gate: &Gate) -> Verdict<'_> {
    let amount = Amount { number: 23_400_000.0, dimension: Dimension::Time };
    let what = "a`|<b>&\u{1}\"x (1234) on CPU 1".to_owned();
    let offenders = vec![Offender { amount, what }];
    Verdict { censored: 2, offenders, ..verdict(gate, Finding::Broken, true) }
}

#[test]
fn text_has_for_each_gate_the_verdict_the_value_and_the_worst() {
    let gates = [gate("wakeup.max > 20ms"), gate("wakeup.p99.9 > 1s"), gate("lost > 0")];
    let too_few = Finding::TooFew { needed: 10_000 };
    let verdicts = [
        broken(&gates[0]),
        verdict(&gates[1], too_few, true),
        Verdict {
            measured: Some(Amount { number: 0.0, dimension: Dimension::Count }),
            ..verdict(&gates[2], Finding::Kept, false)
        },
    ];
    let shown = Text { verdicts: &verdicts, colour: false, failures_only: false }.to_string();
    let expected = "gate   FAILED  wakeup.max > 20ms
               wakeup.max is 23.4 ms, of 1 204 values
               2 more are censored, and not counted
               23.4 ms  a`|<b>&\\x01\"x (1234) on CPU 1
gate   FAILED  wakeup.p99.9 > 1s
               wakeup.p99.9 needs 10 000 values, but there are 1 204
               --on-too-few pass would accept this
gate   passed  lost > 0
               lost is 0
";
    assert_eq!(shown, expected);
    let failures = Text { verdicts: &verdicts, colour: true, failures_only: true }.to_string();
    assert!(failures.contains("\u{1b}[1;31mFAILED\u{1b}[0m") && !failures.contains("lost"));
}

#[test]
fn markdown_is_a_table_that_no_name_breaks() {
    let gates = [gate("wakeup.max > 20ms if comm = \"a|b\""), gate("lost > 0")];
    let verdicts = [broken(&gates[0]), verdict(&gates[1], Finding::Kept, false)];
    let page = markdown(&verdicts, "tests.fxt");
    assert!(page.starts_with("### fxtrec: 1 of 2 gates failed\n"), "{page}");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 4, "{page}");
    for row in rows {
        let bars = row.matches('|').count() - row.matches("\\|").count();
        assert_eq!(bars, 4, "three cells: {row}");
    }
    assert!(page.contains("`wakeup.max > 20ms if comm = \"a\\|b\"`"), "{page}");
    assert!(page.contains("- 23.4 ms `` a`\\|<b>&\\x01\"x (1234) on CPU 1 ``"), "{page}");
}

/// Elements with their attributes, and text, as an XML parser sees them.
fn read(xml: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_reader(xml);
    let mut seen = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(element) | Event::Empty(element) => {
                let mut line = element.name().as_ref().to_owned();
                for attribute in element.attributes() {
                    let attribute = attribute.expect("an attribute");
                    let key = attribute.key.as_ref().to_owned();
                    let value =
                        quick_xml::escape::unescape(&attribute.value).expect("text").into_owned();
                    line.push_str(&format!(" {key}={value}"));
                }
                seen.push(line);
            }
            Event::Eof => return seen,
            _ => {}
        }
    }
}

#[test]
fn junit_is_well_formed_and_has_a_case_for_each_gate() {
    let gates = [
        gate("wakeup.max > 20ms if comm != \"<&>\""),
        gate("wakeup.p99 > 1s"),
        gate("wakeup.p99 > 2s"),
        gate("slice.max > 1s if comm = 'none'"),
    ];
    let verdicts = [
        broken(&gates[0]),
        verdict(&gates[1], Finding::Kept, false),
        verdict(&gates[2], Finding::TooFew { needed: 5000 }, false),
        verdict(&gates[3], Finding::NoThread, true),
    ];
    let mut xml = Vec::new();
    write_junit(&verdicts, "a & b.fxt", &mut xml).expect("memory takes everything");
    let counts = "tests=4 failures=2 errors=0 skipped=1";
    let case = "testcase classname=fxtrec.gates name=";
    let expected = [
        format!("testsuites name=fxtrec {counts}"),
        format!("testsuite name=a & b.fxt {counts}"),
        format!("{case}wakeup.max > 20ms if comm != \"<&>\" time=0"),
        "failure message=wakeup.max is 23.4 ms, of 1 204 values type=latency".to_owned(),
        format!("{case}wakeup.p99 > 1s time=0"),
        "system-out".to_owned(),
        format!("{case}wakeup.p99 > 2s time=0"),
        "skipped message=wakeup.p99 needs 5 000 values, but there are 1 204".to_owned(),
        format!("{case}slice.max > 1s if comm = 'none' time=0"),
        "failure message=no thread of the recording matches the condition type=too few values"
            .to_owned(),
    ];
    assert_eq!(read(&xml), expected);
    let text = String::from_utf8(xml).expect("UTF-8");
    assert!(!text.contains('\u{1}'), "XML 1.0 cannot have it, not even escaped: {text}");
    assert!(text.contains(r"a`|&lt;b&gt;&amp;\x01"), "{text}");
}

#[test]
fn what_is_not_known_about_losses_is_reported() {
    let gate = gate("lost > 0");
    let lost = |doubt| Verdict { doubt, ..verdict(&gate, Finding::Broken, true) };
    let said = |verdict: &Verdict<'_>| super::finding(verdict);
    let bound = lost(Doubt { at_most: true, ..Doubt::default() });
    assert!(said(&bound).starts_with("lost is at most "), "{}", said(&bound));
    let unknown = lost(Doubt { unknown_gaps: 2, ..Doubt::default() });
    assert!(
        said(&unknown).ends_with(", and an unknown number more in 2 gaps"),
        "{}",
        said(&unknown)
    );
}

/// A gate on spans that is violated because strangers had the CPU.
fn disturbed(gate: &Gate, failed: bool, undecided: bool) -> Verdict<'_> {
    let amount = |number| Amount { number, dimension: Dimension::Time };
    let parts = vec![(fxtrec_gates::SpanPart::Strangers, amount(320e6))];
    let blame = Some(Blame::Others(Taken { undisturbed: amount(4.1e6), parts, uncertain: 0 }));
    Verdict { undecided, blame, samples: Some(200), ..verdict(gate, Finding::Broken, failed) }
}

#[test]
fn what_is_disturbed_is_said_everywhere_and_with_what_it_counts_as() {
    let gate = gate(r#"span("app:request").p99 > 5ms"#);
    let blame = "disturbed: without the time that others took it is 4.10 ms \
                 (taken from all spans: strangers 320 ms)";
    for (failed, undecided, word, heading, element, counts) in [
        (true, false, "❌ disturbed", "the gate failed", "failure", ["1", "0", "0"]),
        (false, true, "⚠️ disturbed", "no gate failed", "error", ["0", "1", "0"]),
        (false, false, "⚠️ disturbed", "the gate passed", "skipped", ["0", "0", "1"]),
    ] {
        let verdicts = [disturbed(&gate, failed, undecided)];
        let text = Text { verdicts: &verdicts, colour: false, failures_only: false }.to_string();
        assert!(text.starts_with("gate   DISTURBED  span("), "{text}");
        assert!(text.contains(blame) && text.contains("--on-disturbed"), "{text}");
        let quiet = Text { verdicts: &verdicts, colour: false, failures_only: true }.to_string();
        assert_eq!(!quiet.is_empty(), failed || undecided, "{quiet}");
        let page = markdown(&verdicts, "t.fxt");
        assert!(
            page.starts_with(&format!("### fxtrec: {heading}, disturbed by others\n")),
            "{page}"
        );
        assert!(page.contains(&format!("| {word} |")) && page.contains(blame), "{page}");
        let mut xml = Vec::new();
        write_junit(&verdicts, "t.fxt", &mut xml).expect("memory");
        let xml = String::from_utf8(xml).expect("text");
        let [failures, errors, skipped] = counts;
        let all =
            format!(r#"tests="1" failures="{failures}" errors="{errors}" skipped="{skipped}""#);
        assert_eq!(xml.matches(&all).count(), 2, "{xml}");
        assert!(xml.contains(&format!("<{element} ")) && xml.contains(blame), "{xml}");
        let json = serde_json::to_value(JsonVerdict::of(&verdicts[0])).expect("JSON");
        let counts_as = if failed {
            "failed"
        } else if undecided {
            "undecided"
        } else {
            "passed"
        };
        assert_eq!((&json["finding"], &json["verdict"]), (&"disturbed".into(), &counts_as.into()));
        assert_eq!((json["undisturbed"].as_f64(), &json["unit"]), (Some(4.1e6), &"ns".into()));
    }
    let mut lost = disturbed(&gate, true, false);
    lost.blame = Some(Blame::Lost);
    let text = Text { verdicts: &[lost], colour: false, failures_only: false }.to_string();
    assert!(
        text.contains("FAILED") && text.contains("whether it was disturbed is unknown"),
        "{text}"
    );
}
