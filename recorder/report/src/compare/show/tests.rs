use super::super::{Comparison, Number, Run};
use super::text::change;
use super::*;
use fxtrec_gates::Measure;

fn comparison(base: &[f64], new: &[f64]) -> Comparison {
    let measures: Vec<Measure> = vec!["wakeup.p99".parse().expect("a measure")];
    let runs = |name: &str, numbers: &[f64]| -> Vec<Run> {
        let run = |(at, &number): (usize, &f64)| Run {
            name: format!("{name}{at}.fxt"),
            numbers: vec![match number > 0.0 {
                true => Number::Is(number),
                false => Number::TooFew { values: 37, needed: 100 },
            }],
            lost: 0,
            doubt: Default::default(),
            recorder: None,
        };
        numbers.iter().enumerate().map(run).collect()
    };
    Comparison::new(&measures, runs("base", base), runs("new", new))
}

const BASE: [f64; 5] = [1.00e6, 1.01e6, 1.02e6, 1.03e6, 1.04e6];
const WORSE: [f64; 5] = [1.50e6, 1.53e6, 1.55e6, 1.57e6, 1.60e6];

#[test]
fn a_difference_is_shown_with_its_bound() {
    let shown = Text(&comparison(&BASE, &WORSE)).to_string();
    let expected = "\
5 base runs, 5 new runs
                 base      new  change     noise bound      p
  wakeup.p99  1.02 ms  1.55 ms   +52 %  +47 % .. +57 %  0.008  larger
";
    assert_eq!(shown, expected);
}

#[test]
fn no_difference_is_reported_and_so_is_how_many_runs_could_show_one() {
    let same = Text(&comparison(&BASE, &BASE)).to_string();
    assert!(same.ends_with("no difference is larger than the noise of these runs\n"), "{same}");
    let one = Text(&comparison(&BASE[..1], &WORSE[..1])).to_string();
    assert!(one.starts_with("1 base run, 1 new run\n"), "{one}");
    assert!(one.contains("unknown  -  too few runs\n"), "{one}");
    assert!(!one.contains("no difference is larger than the noise of these runs"), "{one}");
    assert!(
        one.ends_with(
            "too few runs to show any difference in wakeup.p99: record 4 runs per side\n"
        ),
        "{one}"
    );
}

#[test]
fn runs_that_are_left_out_or_lack_events_are_named() {
    let mut comparison = comparison(&[0.0, 1.0, 2.0], &[0.0]);
    comparison.base[1].lost = 12;
    let shown = Text(&comparison).to_string();
    assert!(shown.contains("base1.fxt lost 12 events:"), "{shown}");
    assert!(
        shown.contains("wakeup.p99: 1 base run and 1 new run have too few values and are left out"),
        "{shown}"
    );
    assert!(shown.contains("are left out (at worst 37, of 100 needed)\n"), "{shown}");
    assert!(shown.contains("  too few values: 37 of 100 needed\n"), "{shown}");
}

#[test]
fn the_change_can_be_derived_from_the_numbers_next_to_it() {
    // The pairs of these runs indicate +10 %, the medians -20 %.
    let base = [30.0e6, 31.0e6, 50.6e6, 51.0e6, 52.0e6];
    let new = [33.0e6, 34.0e6, 40.4e6, 90.0e6, 95.0e6];
    let shown = Text(&comparison(&base, &new)).to_string();
    assert!(shown.contains("  50.6 ms  40.4 ms   -20 %  "), "{shown}");
}

#[test]
fn changes_are_per_cents_until_factors_read_better() {
    for (ratio, text) in [
        (1.0, "+0.0 %"),
        (1.012, "+1.2 %"),
        (0.5, "-50 %"),
        (0.0, "-100 %"),
        (2.01, "+101 %"),
        (15.2, "x 15"),
        (f64::INFINITY, "from nothing"),
    ] {
        assert_eq!(change(ratio), text);
    }
}

#[test]
fn json_has_every_number_of_the_table_and_of_every_run() {
    let value = json(&comparison(&BASE, &WORSE), true);
    assert_eq!((&value["schema"], &value["version"]), (&"fxtrec.compare".into(), &2.into()));
    assert_eq!(value["failed"], true);
    assert_eq!(value["base"][4]["file"], "base4.fxt");
    let row = &value["metrics"][0];
    assert_eq!((&row["metric"], &row["unit"]), (&"wakeup.p99".into(), &"ns".into()));
    assert_eq!(row["new"]["runs"].as_array().map(Vec::len), Some(5));
    assert_eq!((&row["base"]["median"], &row["finding"]), (&1.02e6.into(), &"larger".into()));
    assert!(row["bound"][0].as_f64() > Some(1.4) && row["p"].as_f64() < Some(0.01));
    assert_eq!((&row["judged"], &row["fewest_values"]), (&true.into(), &serde_json::Value::Null));
    let nothing = json(&comparison(&[0.0], &[1.0]), false);
    let row = &nothing["metrics"][0];
    assert_eq!((&row["judged"], &row["finding"]), (&false.into(), &"unknown".into()));
    assert_eq!((&row["fewest_values"], &row["values_needed"]), (&37.into(), &100.into()));
    assert!(nothing["metrics"][0]["ratio"].is_null() && nothing["metrics"][0]["bound"].is_null());
}

#[test]
fn a_gap_of_unknown_size_is_reported_though_no_event_is_counted() {
    let mut comparison = comparison(&[1.0, 2.0], &[1.0]);
    comparison.new[0].doubt.unknown_gaps = 2;
    let shown = Text(&comparison).to_string();
    let told = "new0.fxt lost 0 events, and an unknown number more in 2 gaps";
    assert!(shown.contains(told), "{shown}");
}
