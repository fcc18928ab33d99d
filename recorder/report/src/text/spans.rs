//! The table of spans: how long they took, and where that time went.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::time::Duration;

use fxtrec_blame::spans::full_name;
use fxtrec_gates::SpanPart;
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, millis, millis_or_dash};

use crate::spans::{SpanFigures, SpanName, SpanReport};

/// The maximum number of causes of blocked time that are named.
const MOST_CAUSES: usize = 2;

/// The parts that are always shown, and those that are shown only if they are not zero.
const ALWAYS: [SpanPart; 2] = [SpanPart::Cpu, SpanPart::RunQueue];
const SOMETIMES: [SpanPart; 4] =
    [SpanPart::Strangers, SpanPart::Steal, SpanPart::Irq, SpanPart::Throttled];

/// The columns that are left out first on a narrow terminal.
const SPARE: [&str; 10] = [
    "Censored",
    "Irq ms",
    "p90 ms",
    "p50 ms",
    "Stolen ms",
    "Throttled ms",
    "Strangers ms",
    "by",
    "Queue ms",
    "CPU ms",
];

fn title(part: SpanPart) -> &'static str {
    match part {
        SpanPart::Wall => "Sum ms",
        SpanPart::Cpu => "CPU ms",
        SpanPart::Steal => "Stolen ms",
        SpanPart::Irq => "Irq ms",
        SpanPart::RunQueue => "Queue ms",
        SpanPart::Strangers => "Strangers ms",
        SpanPart::Throttled => "Throttled ms",
        SpanPart::Blocked => "Blocked ms",
    }
}

/// `lock 12.345, io 2.000`
fn causes(figures: &SpanFigures) -> String {
    let named = figures.blocked_by.iter().take(MOST_CAUSES);
    let named = named.map(|(class, length)| format!("{} {}", class.name(), millis(*length)));
    named.collect::<Vec<_>>().join(", ")
}

fn called(name: &SpanName<'_>) -> String {
    let SpanName { category, name, is_async } = name;
    let name = printable(&full_name(category, name), 40);
    if *is_async { format!("{name} (async)") } else { name }
}

/// Writes the table of spans: a row for each name, the one with the longest span first, at most `rows`; nothing if there are none.
/// With `details`, a second table has the percentiles of each part.
///
/// # Errors
/// The errors of `out`.
pub fn write_spans(
    spans: &SpanReport,
    (rows, details): (Option<usize>, bool),
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names = spans.by_name();
    if names.is_empty() {
        return Ok(());
    }
    names.sort_by_key(|(_, figures)| Reverse(figures.part(SpanPart::Wall).max()));
    let any = |part: &SpanPart| {
        let sum = |figures: &SpanFigures| figures.part(*part).sum();
        spans.knows(*part) && names.iter().any(|(_, figures)| sum(figures) > Duration::ZERO)
    };
    // Without scheduling records, and for asynchronous spans, only lengths are known.
    let has_parts = names.iter().any(|(_, figures)| {
        figures.part(SpanPart::Cpu).count() > 0
            && figures.part(SpanPart::Wall).sum() > Duration::ZERO
    });
    let always = ALWAYS.into_iter().filter(|_| has_parts);
    let parts: Vec<SpanPart> = always.chain(SOMETIMES.into_iter().filter(any)).collect();
    let censored = |figures: &SpanFigures| figures.part(SpanPart::Cpu).censored();
    let uncertain = has_parts && names.iter().any(|(_, figures)| censored(figures) > 0);
    let mut headings = vec![("Span", Side::Left)];
    let numbers = ["Count", "p50 ms", "p90 ms", "p99 ms", "Max ms"];
    headings.extend(numbers.map(|heading| (heading, Side::Right)));
    headings.extend(parts.iter().map(|part| (title(*part), Side::Right)));
    if has_parts {
        headings.extend([(title(SpanPart::Blocked), Side::Right), ("by", Side::Left)]);
    }
    if uncertain {
        headings.push(("Censored", Side::Right));
    }
    let mut grid = Grid::new(&headings).spare(&SPARE);
    let shown = rows.unwrap_or(usize::MAX).min(names.len());
    for (name, figures) in &names[..shown] {
        let lengths = figures.part(SpanPart::Wall);
        let sum = |part| match figures.part(part).count() {
            0 => "-".to_owned(),
            _ => millis(figures.part(part).sum()),
        };
        let mut row = vec![called(name), count(lengths.count())];
        row.extend([50.0, 90.0, 99.0].map(|percent| millis_or_dash(lengths.percentile(percent))));
        row.push(millis_or_dash(lengths.max()));
        row.extend(parts.iter().map(|part| sum(*part)));
        if has_parts {
            row.extend([sum(SpanPart::Blocked), causes(figures)]);
        }
        if uncertain {
            row.push(count(censored(figures)));
        }
        grid.row(row);
    }
    let heading = match has_parts {
        true => "Spans, with the sum of each part of their time:",
        false => "Spans with known lengths only:",
    };
    writeln!(out, "{}", look.heading(heading))?;
    grid.write(look, out)?;
    if shown < names.len() {
        let rest = counted((names.len() - shown) as u64, "more name", "more names");
        let note = format!("and {rest} (--rows 0 shows all)");
        writeln!(out, "  {}", look.note(&note))?;
    }
    if spans.too_many {
        writeln!(out, "  more spans exist than are analysed (limit reached)")?;
    }
    if has_parts && names[..shown].iter().any(|(name, _)| name.is_async) {
        let note = "for asynchronous spans, only the length is known: their time belongs to no single thread";
        writeln!(out, "  {}", look.note(note))?;
    }
    writeln!(out)?;
    if details { write_parts(spans, &names[..shown], look, out) } else { Ok(()) }
}

/// Writes the percentiles of each part for each name, over the spans whose time is fully known.
fn write_parts(
    spans: &SpanReport,
    names: &[(SpanName<'_>, SpanFigures)],
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut grid = Grid::new(&[
        ("Span", Side::Left),
        ("Part", Side::Left),
        ("Count", Side::Right),
        ("p50 ms", Side::Right),
        ("p90 ms", Side::Right),
        ("p99 ms", Side::Right),
        ("Max ms", Side::Right),
        ("Sum ms", Side::Right),
    ])
    .spare(&["p90 ms", "Count", "Sum ms"]);
    let mut is_empty = true;
    for (name, figures) in names {
        let has =
            |part: &&SpanPart| spans.knows(**part) && figures.part(**part).sum() > Duration::ZERO;
        for part in SpanPart::PARTS.iter().filter(has) {
            let values = figures.part(*part);
            let mut row = vec![called(name), part.name().to_owned(), count(values.count())];
            let percentiles = [50.0, 90.0, 99.0].map(|percent| values.percentile(percent));
            row.extend(percentiles.map(millis_or_dash));
            row.extend([millis_or_dash(values.max()), millis(values.sum())]);
            grid.row(row);
            is_empty = false;
        }
    }
    if is_empty {
        return Ok(());
    }
    writeln!(out, "{}", look.heading("Parts of spans, per span:"))?;
    grid.write(look, out)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::*;
    use crate::scene::{Leaves, Scene};
    use crate::selection::Selection;

    fn written(scene: &Scene, rows: Option<usize>) -> String {
        written_with(scene, (rows, false))
    }

    fn written_with(scene: &Scene, rows: (Option<usize>, bool)) -> String {
        let open = || Ok(Reader::from_slice(scene.bytes()));
        let spans = crate::spans::measure(
            open,
            &Selection::default(),
            &scene.report(),
            crate::spans::Room::OF_COMMANDS,
        );
        let mut out = Vec::new();
        write_spans(&spans.expect("a trace"), rows, Look::PLAIN, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_name_has_a_row_with_its_lengths_and_the_sums_of_its_parts() {
        let mut scene = Scene::of_command("waker,syscall,steal", 100);
        scene.switch(0, 0, 0, Leaves::R, 101);
        scene.switch(2_000, 0, 101, Leaves::R, 201).switch(6_000, 0, 201, Leaves::S, 101);
        let sleeps = [("syscall", fxt_writer::Value::Uint32(202))];
        scene.switch_with((7_000, 0), 101, Leaves::S, 0, &sleeps);
        scene.wake_by(9_000, 0, 101, 102).switch(9_000, 0, 0, Leaves::R, 101);
        scene.span((0, 10_000), 101, "request").span((9_000, 9_500), 101, "parse");
        scene.switch(10_000, 0, 101, Leaves::S, 0).end(20_000);
        let expected = "\
Spans, with the sum of each part of their time:
  Span         Count  p50 ms  p90 ms  p99 ms  Max ms  CPU ms  Queue ms  Strangers ms  Blocked ms  by
  ----------------------------------------------------------------------------------------------------------
  app:request      1  10.000  10.000  10.000  10.000   4.000     4.000         4.000       2.000  lock 2.000
  app:parse        1   0.500   0.500   0.500   0.500   0.500     0.000         0.000       0.000

";
        assert_eq!(written(&scene, None), expected);
        let one = written(&scene, Some(1));
        assert!(one.contains("and 1 more name (") && !one.contains("app:parse"), "{one}");
    }

    #[test]
    fn a_name_without_a_category_stands_alone() {
        let called = |category, name| called(&SpanName { category, name, is_async: false });
        assert_eq!(called("", "GET /"), "GET /");
        assert_eq!(called("app", "GET /"), "app:GET /");
        // The displayed text can be used to choose a span.
        let is_called = fxtrec_blame::spans::is_called;
        assert!(is_called(("", "GET /"), "GET /") && is_called(("app", "GET /"), "app:GET /"));
    }

    #[test]
    fn with_details_each_part_has_its_percentiles() {
        let mut scene = Scene::of_command("waker,syscall,steal", 100);
        let mut at = 0;
        for waited in [1_000, 1_000, 1_000, 7_000] {
            scene.switch(at, 0, 0, Leaves::R, 101).switch(at + 500, 0, 101, Leaves::R, 201);
            scene.switch(at + 500 + waited, 0, 201, Leaves::S, 101);
            let end = at + 1_000 + waited;
            scene.span((at, end), 101, "request").switch(end, 0, 101, Leaves::S, 0);
            at = end + 1_000;
        }
        scene.end(at);
        let text = written_with(&scene, (None, true));
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("Parts of spans"))
            .filter(|line| line.contains("app:request"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let cpu = ["app:request", "cpu", "4", "1.000", "1.000", "1.000", "1.000", "4.000"];
        let queue = ["app:request", "runqueue", "4", "1.000", "7.000", "7.000", "7.000", "10.000"];
        assert_eq!(rows[..2], [cpu.to_vec(), queue.to_vec()], "{text}");
    }

    #[test]
    fn asynchronous_spans_have_a_row_with_their_lengths_only() {
        let mut scene = Scene::of_command("waker,syscall,steal", 100);
        scene.switch(0, 0, 0, Leaves::R, 101).switch(5_000, 0, 101, Leaves::S, 0);
        scene.async_span(7, (1_000, 101), (4_000, 101), "fetch");
        scene.span((1_000, 2_000), 101, "request").end(6_000);
        let text = written_with(&scene, (None, true));
        let row = text.lines().find(|line| line.contains("app:fetch (async)")).expect(&text);
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["1", "3.000", "3.000", "3.000", "3.000", "-", "-", "-", "1"], "{text}");
        assert!(text.contains("for asynchronous spans, only the length is known"), "{text}");
        assert!(!text.contains("app:fetch (async)  cpu"), "{text}");
    }

    #[test]
    fn where_only_lengths_are_known_there_are_no_columns_for_parts() {
        let mut scene = Scene::new();
        scene.span((1_000, 5_000), 101, "request").span((2_000, 2_000), 101, "mark");
        scene.async_span(7, (1_000, 101), (4_000, 101), "fetch");
        let expected = "\
Spans with known lengths only:
  Span               Count  p50 ms  p90 ms  p99 ms  Max ms
  --------------------------------------------------------
  app:request            1   4.000   4.000   4.000   4.000
  app:fetch (async)      1   3.000   3.000   3.000   3.000
  app:mark               1   0.000   0.000   0.000   0.000

";
        assert_eq!(written_with(&scene, (None, true)), expected);
    }

    #[test]
    fn without_spans_there_is_no_table() {
        let mut scene = Scene::new();
        scene.switch(0, 0, 0, Leaves::R, 101).switch(5, 0, 101, Leaves::S, 0).end(10);
        assert_eq!(written(&scene, None), "");
    }
}
