//! The table of spans: how long they took, and where that time went.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::time::Duration;

use fxtrec_gates::SpanPart;
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, millis, millis_or_dash};

use crate::spans::{SpanFigures, SpanReport};

/// So many causes of blocked time are named.
const MOST_CAUSES: usize = 2;

/// The parts that each recording has, and those that are shown only if there is any of them.
const ALWAYS: [SpanPart; 2] = [SpanPart::Cpu, SpanPart::RunQueue];
const SOMETIMES: [SpanPart; 4] =
    [SpanPart::Strangers, SpanPart::Steal, SpanPart::Irq, SpanPart::Throttled];

/// What gives way on a narrow terminal.
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

/// Writes the table of spans, those of a name in one row, the name with the longest one first; nothing if there are none. At
/// most so many rows.
///
/// # Errors
/// Those of `out`.
pub fn write_spans(
    spans: &SpanReport,
    rows: Option<usize>,
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
    let parts: Vec<SpanPart> =
        ALWAYS.into_iter().chain(SOMETIMES.into_iter().filter(any)).collect();
    let censored = |figures: &SpanFigures| figures.part(SpanPart::Cpu).censored();
    let uncertain = names.iter().any(|(_, figures)| censored(figures) > 0);
    let mut headings = vec![("Span", Side::Left)];
    let numbers = ["Count", "p50 ms", "p90 ms", "p99 ms", "Max ms"];
    headings.extend(numbers.map(|heading| (heading, Side::Right)));
    headings.extend(parts.iter().map(|part| (title(*part), Side::Right)));
    headings.extend([(title(SpanPart::Blocked), Side::Right), ("by", Side::Left)]);
    if uncertain {
        headings.push(("Censored", Side::Right));
    }
    let mut grid = Grid::new(&headings).spare(&SPARE);
    let shown = rows.unwrap_or(usize::MAX).min(names.len());
    for ((category, name), figures) in &names[..shown] {
        let lengths = figures.part(SpanPart::Wall);
        let mut row = vec![printable(&format!("{category}:{name}"), 40), count(lengths.count())];
        row.extend([50.0, 90.0, 99.0].map(|percent| millis_or_dash(lengths.percentile(percent))));
        row.push(millis_or_dash(lengths.max()));
        row.extend(parts.iter().map(|part| millis(figures.part(*part).sum())));
        row.extend([millis(figures.part(SpanPart::Blocked).sum()), causes(figures)]);
        if uncertain {
            row.push(count(censored(figures)));
        }
        grid.row(row);
    }
    writeln!(out, "{}", look.heading("Spans, and the sums of the parts of their time:"))?;
    grid.write(look, out)?;
    if shown < names.len() {
        let rest = count((names.len() - shown) as u64);
        let note = format!("and {rest} more names (--rows 0 shows all)");
        writeln!(out, "  {}", look.note(&note))?;
    }
    if spans.too_many {
        writeln!(out, "  there are more spans than are looked at")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::*;
    use crate::scene::{Leaves, Scene};
    use crate::selection::Selection;

    fn written(scene: &Scene, rows: Option<usize>) -> String {
        let open = || Ok(Reader::from_slice(scene.bytes()));
        let spans = crate::spans::measure(open, &Selection::default(), &scene.report());
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
Spans, and the sums of the parts of their time:
  Span         Count  p50 ms  p90 ms  p99 ms  Max ms  CPU ms  Queue ms  Strangers ms  Blocked ms  by
  ----------------------------------------------------------------------------------------------------------
  app:request      1  10.000  10.000  10.000  10.000   4.000     4.000         4.000       2.000  lock 2.000
  app:parse        1   0.500   0.500   0.500   0.500   0.500     0.000         0.000       0.000

";
        assert_eq!(written(&scene, None), expected);
        let one = written(&scene, Some(1));
        assert!(one.contains("and 1 more names") && !one.contains("app:parse"), "{one}");
    }

    #[test]
    fn without_spans_there_is_no_table() {
        let mut scene = Scene::new();
        scene.switch(0, 0, 0, Leaves::R, 101).switch(5, 0, 101, Leaves::S, 0).end(10);
        assert_eq!(written(&scene, None), "");
    }
}
