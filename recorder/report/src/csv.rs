//! A report as comma-separated values (RFC 4180): a row for each thread.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use super::distribution::Distribution;
use super::facts::{Cause, Facts};
use super::model::Report;
use fxtrec_gates::Metric;
use fxtrec_units::escape;

/// The values that are written of each metric: the column name is that of the metric, an underscore and this suffix.
type Column = (&'static str, fn(&Distribution) -> Option<u64>);

const COLUMNS: [Column; 11] = [
    ("count", |of| Some(of.count())),
    ("censored", |of| Some(of.censored())),
    ("sum_ns", |of| Some(ns(of.sum()))),
    ("min_ns", |of| of.min().map(ns)),
    ("mean_ns", |of| of.mean().map(ns)),
    ("p50_ns", |of| of.percentile(50.0).map(ns)),
    ("p90_ns", |of| of.percentile(90.0).map(ns)),
    ("p99_ns", |of| of.percentile(99.0).map(ns)),
    ("p99.9_ns", |of| of.percentile(99.9).map(ns)),
    ("max_ns", |of| of.max().map(ns)),
    ("max_at_ns", |of| of.max_at().map(|at| at.0)),
];

/// A count that belongs to a fact, and its column name.
type Count = (Cause, &'static str, fn(&Facts) -> u64);

const COUNTS: [Count; 2] =
    [(Cause::Irq, "irqs", |of| of.irqs), (Cause::Migrate, "moved", |of| of.moved)];

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A field in one line, quoted if necessary. Threads choose their names, and spreadsheets interpret some as formulas: those get a leading
/// single quote, which marks text for spreadsheets.
fn field(text: &str) -> Cow<'_, str> {
    let text = escape::line(text);
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if text.starts_with(['=', '+', '-', '@']) && !is_number {
        return format!("\"'{}\"", text.replace('"', "\"\"")).into();
    }
    if text.contains(['"', ',']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text
    }
}

fn cell(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// Writes a row for each thread; unknown values are empty cells.
///
/// # Errors
/// The errors of `out`.
pub fn write_csv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "koid,tid,pid,comm,process,threads,cpu_time_ns,voluntary,involuntary,migrations,inferred"
    )?;
    // Metrics that the recording does not have get no column.
    let metrics: Vec<Metric> = Metric::every().filter(|&metric| report.knows(metric)).collect();
    for metric in &metrics {
        for (name, _) in COLUMNS {
            write!(out, ",{metric}_{name}")?;
        }
    }
    let counts: Vec<&Count> = COUNTS.iter().filter(|it| report.causes.has(it.0)).collect();
    for (_, name, _) in &counts {
        write!(out, ",{name}")?;
    }
    writeln!(out)?;
    for thread in report.threads() {
        let ids = [thread.koid.map(|koid| koid.0), thread.tid, thread.pid].map(cell);
        let stats = &thread.stats;
        write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{}",
            ids[0],
            ids[1],
            ids[2],
            field(&thread.comm),
            field(&thread.process_name),
            thread.threads,
            ns(stats.cpu_time),
            stats.voluntary,
            stats.involuntary,
            stats.migrations,
            stats.inferred
        )?;
        for &metric in &metrics {
            for (_, value) in COLUMNS {
                write!(out, ",{}", cell(value(stats.metric(metric))))?;
            }
        }
        for (_, _, of) in &counts {
            write!(out, ",{}", stats.facts.as_deref().map_or(0, of))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_a_formula_and_numbers_stay_numbers() {
        assert_eq!(field("=1+2"), "\"'=1+2\"");
        assert_eq!(field("@SUM(A1,\"x\")"), "\"'@SUM(A1,\"\"x\"\")\"");
        assert_eq!(field("+cmd|' /C calc'!A0"), "\"'+cmd|' /C calc'!A0\"");
        assert_eq!(field("-a"), "\"'-a\"");
        assert_eq!(field("\t=1"), "\\x09=1", "it begins with a backslash");
        for plain in ["-5", "+1.5", "audio-io", "a=b", "kworker/0:1"] {
            assert_eq!(field(plain), plain);
        }
    }
    use crate::scene::{Leaves, Scene};

    #[test]
    fn a_row_has_a_cell_for_each_heading_whatever_the_thread_is_called() {
        let mut scene = Scene::new();
        scene.name(101, "a \"b\",\n\x1bc");
        scene.wake(10, 0, 101);
        scene.switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 0);
        let mut out = Vec::new();
        write_csv(&scene.report(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let [headings, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let quoted = "\"a \"\"b\"\",\\x0a\\x1bc\"";
        assert!(row.starts_with(&format!("101,101,100,{quoted},p100,1,5000,1,0,0,0,")), "{row}");
        let row = row.replace(quoted, "name");
        let cells: Vec<&str> = row.split(',').collect();
        let headings: Vec<&str> = headings.split(',').collect();
        assert_eq!(cells.len(), headings.len());
        let of = |name: &str| cells[headings.iter().position(|h| *h == name).expect("a column")];
        assert_eq!((of("wakeup_max_ns"), of("slice_p99.9_ns")), ("5000", "5000"));
        assert_eq!((of("preempt_count"), of("preempt_max_ns")), ("0", ""));
        assert!(!headings.contains(&"steal_sum_ns") && !headings.contains(&"irqs"));
    }

    #[test]
    fn facts_have_columns_where_the_recording_has_them() {
        let mut scene = Scene::with_causes("irq,migrate");
        let facts =
            [("irq_ns", fxt_writer::Value::Uint64(700)), ("irqs", fxt_writer::Value::Uint32(3))];
        scene.switch(10, 0, 0, Leaves::R, 101);
        scene.switch_with((20, 0), 101, Leaves::S, 0, &facts);
        let mut out = Vec::new();
        write_csv(&scene.report(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let [headings, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let headings: Vec<&str> = headings.split(',').collect();
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!(cells.len(), headings.len());
        let of = |name: &str| cells[headings.iter().position(|h| *h == name).expect("a column")];
        assert_eq!((of("irq_sum_ns"), of("irqs"), of("moved")), ("700", "3", "0"));
        assert!(!headings.contains(&"steal_sum_ns"));
    }
}
