use super::*;

fn measures(texts: &[&str]) -> Vec<Measure> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Runs with these numbers, one number for each measure in each run.
fn runs<const N: usize>(numbers: impl IntoIterator<Item = [f64; N]>) -> Vec<Run> {
    let run = |numbers: [f64; N]| Run {
        name: "run.fxt".to_owned(),
        numbers: numbers
            .into_iter()
            .map(|number| match number.is_finite() {
                true => Number::Is(number),
                false => Number::TooFew { values: 37, needed: 100 },
            })
            .collect(),
        lost: 0,
        doubt: Default::default(),
        recorder: None,
    };
    numbers.into_iter().map(run).collect()
}

fn findings(comparison: &Comparison) -> Vec<Finding> {
    comparison.rows.iter().map(|row| row.finding).collect()
}

#[test]
fn what_doubled_is_larger_what_halved_is_smaller_and_what_varies_is_the_same() {
    let base =
        [[10.0, 9.0, 5.0], [11.0, 8.0, 6.0], [12.0, 9.5, 7.0], [10.5, 8.5, 8.0], [11.5, 9.2, 9.0]];
    let new = base.map(|[a, b, c]| [a * 2.0, b / 2.0, 14.0 - c]);
    let measures = measures(&["wakeup.p50", "wakeup.p99", "wakeup.max"]);
    let comparison = Comparison::new(&measures, runs(base), runs(new));
    assert_eq!(findings(&comparison), [Finding::Larger, Finding::Smaller, Finding::Same]);
    let worse = |share| comparison.worse_than(share).len();
    assert_eq!((worse(0.1), worse(0.9), worse(1.1)), (1, 1, 0));
    assert!(comparison.not_judged().is_empty());
}

#[test]
fn four_runs_a_side_show_something_in_one_row_and_nothing_in_two() {
    let base = [[1.0, 1.0], [1.1, 1.0], [1.2, 1.0], [1.3, 1.0]];
    let new = base.map(|[a, b]| [a + 5.0, b]);
    let names = ["wakeup.p99", "wakeup.p50"];
    let two = Comparison::new(&measures(&names), runs(base), runs(new));
    assert_eq!(findings(&two), [Finding::Unknown, Finding::Unknown]);
    assert_eq!(two.not_judged().len(), 2);
    let first = |numbers: [[f64; 2]; 4]| runs(numbers.map(|[a, _]| [a]));
    let one = Comparison::new(&measures(&names[..1]), first(base), first(new));
    assert_eq!(findings(&one), [Finding::Larger]);
    assert!(one.not_judged().is_empty());
}

#[test]
fn so_many_runs_a_side_are_said_to_be_needed_as_are() {
    for rows in 1..40 {
        let needed = runs_needed(rows);
        let shows = |runs: usize| ranks::least_p(runs, runs) * rows as f64 <= ALPHA;
        assert!(shows(needed) && !shows(needed - 1), "{rows} rows, {needed} runs");
    }
    assert_eq!([1, 2, 5].map(runs_needed), [4, 5, 5]);
}

#[test]
fn a_run_with_too_few_values_is_left_out_of_that_row_alone() {
    let none = f64::NAN;
    let base = [[1.0, none], [2.0, none]];
    let new = [[3.0, 1.0], [none, 2.0]];
    let measures = measures(&["wakeup.p50", "wakeup.p99"]);
    let comparison = Comparison::new(&measures, runs(base), runs(new));
    assert_eq!((comparison.rows[0].base.len(), comparison.rows[0].new.len()), (2, 1));
    assert_eq!(findings(&comparison), [Finding::Unknown, Finding::Unknown]);
    assert_eq!([0, 1].map(|row| comparison.rows[row].fewest), [Some((37, 100)); 2]);
    assert_eq!(comparison.rows[1].effect, None);
    assert!(comparison.worse_than(0.0).is_empty());
}

#[test]
fn a_number_that_runs_do_not_report_is_not_judged_and_says_why() {
    let mut base = runs([[1.0, 1.0], [1.1, 1.0], [1.2, 1.0], [1.3, 1.0], [1.4, 1.0]]);
    let new = runs([[5.0, 5.0], [5.1, 5.1], [5.2, 5.2], [5.3, 5.3], [5.4, 5.4]]);
    base.iter_mut().for_each(|run| run.numbers[1] = Number::NotRecorded);
    let names = ["wakeup.p50", "steal.sum"];
    let comparison = Comparison::new(&measures(&names), base, new);
    assert_eq!(findings(&comparison), [Finding::Larger, Finding::Unknown]);
    assert_eq!(comparison.rows[1].not_recorded, 5);
    assert_eq!(show::why_not_judged(&comparison.rows[1]), "not recorded in 5 runs");
    let text = show::Text(&comparison).to_string();
    assert!(text.contains("steal.sum: 5 runs left out: not recorded there\n"), "{text}");
    assert!(!text.contains("too few runs"), "{text}");
    let json = show::json(&comparison, false);
    assert_eq!(json["metrics"][1]["runs_not_recorded"], 5);
    assert!(json["metrics"][0].get("runs_not_recorded").is_none());
}

#[test]
fn from_nothing_to_something_is_worse_than_any_share() {
    let base = [[0.0]; 5];
    let new = [[1.0]; 5];
    let comparison = Comparison::new(&measures(&["lost"]), runs(base), runs(new));
    assert_eq!(comparison.worse_than(1e9).len(), 1);
}

#[test]
fn rows_that_cannot_be_judged_ask_nothing_of_the_others() {
    let none = f64::NAN;
    // The last number is missing in two runs of a side; the third is missing in one run. Five runs against four could show a difference
    // only if this were the only row.
    let base: [[f64; 4]; 5] = [
        [1.0, 4.0, 1.0, 1.0],
        [1.1, 4.1, 1.1, 1.1],
        [1.2, 4.2, 1.2, 1.2],
        [1.3, 4.3, 1.3, none],
        [1.4, 4.4, none, none],
    ];
    let new = base.map(|row| row.map(|number| number * 2.0));
    let measures = measures(&["wakeup.p50", "wakeup.max", "wakeup.p99", "preempt.p99"]);
    let comparison = Comparison::new(&measures, runs(base), runs(new));
    let [larger, unknown] = [Finding::Larger, Finding::Unknown];
    assert_eq!(findings(&comparison), [larger, larger, unknown, unknown]);
    let bounds: Vec<bool> =
        comparison.rows.iter().map(|row| row.effect.is_some_and(|it| it.bound.is_some())).collect();
    assert_eq!(bounds, [true, true, false, false]);
    assert_eq!(comparison.worse_than(0.1).len(), 2);
}

#[test]
fn what_is_found_is_what_the_printed_bound_says() {
    let mut random = Random(7);
    let measures = measures(&OF_MACHINE);
    for trial in 0..500 {
        let factor = 1.0 + f64::from(trial % 10) * 0.1;
        let mut side = |factor: f64| {
            runs(
                (0..5 + trial as usize % 4)
                    .map(|_| [(); 5].map(|()| factor * random.lognormal(0.1))),
            )
        };
        let comparison = Comparison::new(&measures, side(1.0), side(factor));
        for row in &comparison.rows {
            let effect = row.effect.expect("numbers on both sides");
            let (low, high) = effect.bound.expect("enough runs");
            assert!(low <= effect.ratio && effect.ratio <= high, "{row:?}");
            let expected = match () {
                () if low > 1.0 => Finding::Larger,
                () if high < 1.0 => Finding::Smaller,
                () => Finding::Same,
            };
            assert_eq!(row.finding, expected, "{row:?}");
        }
    }
}

mod simulated;
use simulated::Random;
