//! Counters: values that programs report about themselves.
//!
//! They may be anywhere in the file, so the trace is read once more for them.

use std::collections::HashMap;

use fxt_reader::record::{EventKind, Value};
use fxt_reader::{Error, Item, Nanos, Reader, Record, Visitor};

use super::model::{Report, Span};
use super::selection::Selection;

/// The maximum number of series that are distinguished.
const MOST: usize = 4096;

/// The counters of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterReport {
    /// Sorted by category, name, process, id and series.
    pub rows: Vec<CounterRow>,
    /// Whether there are more series than the limit.
    pub too_many: bool,
}

/// One series of a counter: an argument of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterRow {
    pub category: String,
    pub name: String,
    /// The process that reports it.
    pub process: u64,
    /// Distinguishes counters with the same name.
    pub id: u64,
    pub series: String,
    pub samples: u64,
    pub min: f64,
    pub max: f64,
    /// The mean of all samples, regardless of how long each value lasted.
    pub mean: f64,
    pub last: f64,
}

type Key = (String, String, u64, u64, String);

#[derive(Debug, Default)]
struct Series {
    samples: u64,
    min: f64,
    max: f64,
    sum: f64,
    last: (u64, f64),
}

impl Series {
    fn add(&mut self, time: u64, value: f64) {
        (self.min, self.max) = match self.samples {
            0 => (value, value),
            _ => (self.min.min(value), self.max.max(value)),
        };
        self.samples += 1;
        self.sum += value;
        if time >= self.last.0 {
            self.last = (time, value);
        }
    }
}

/// Collects only the counters.
struct Collector {
    within: (u64, u64),
    series: HashMap<Key, Series>,
    too_many: bool,
}

fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::UInt32(number) => Some(number.into()),
        Value::Int64(number) => Some(number as f64),
        Value::UInt64(number) => Some(number as f64),
        Value::Double(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    }
}

impl Visitor for Collector {
    #[inline]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        let Record::Event(event) = &item.record else { return true };
        let EventKind::Counter { id } = event.kind else { return true };
        let Nanos(time) = event.time;
        if time < self.within.0 || time > self.within.1 {
            return true;
        }
        for arg in event.args.iter() {
            let Some(value) = number(arg.value) else { continue };
            let (category, name) = (event.category.to_owned(), event.name.to_owned());
            let key = (category, name, event.thread.process.0, id, arg.name.to_owned());
            if self.series.len() >= MOST && !self.series.contains_key(&key) {
                self.too_many = true;
                continue;
            }
            self.series.entry(key).or_default().add(time, value);
        }
        true
    }
}

/// The counters of a trace, in the part of it that `report` covers.
///
/// # Errors
/// The errors of [`Reader::next`], except for damage.
pub fn measure(
    mut reader: Reader<'_>,
    selection: &Selection,
    report: &Report,
) -> Result<CounterReport, Error> {
    let range = selection.range;
    let within = match range.from.is_some() || range.to.is_some() {
        true => {
            let Span { begin, end } = report.span;
            (begin.0, end.0)
        }
        false => (0, u64::MAX),
    };
    let mut collector = Collector { within, series: HashMap::new(), too_many: false };
    loop {
        match reader.show_all(&mut collector) {
            Ok(_) => break,
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut rows: Vec<CounterRow> = collector
        .series
        .into_iter()
        .map(|((category, name, process, id, series), of)| CounterRow {
            category,
            name,
            process,
            id,
            series,
            samples: of.samples,
            min: of.min,
            max: of.max,
            mean: of.sum / of.samples as f64,
            last: of.last.1,
        })
        .collect();
    let key = |row: &CounterRow| {
        (row.category.clone(), row.name.clone(), row.process, row.id, row.series.clone())
    };
    rows.sort_by_key(key);
    Ok(CounterReport { rows, too_many: collector.too_many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Leaves, Scene};

    fn scene() -> Scene {
        let mut scene = Scene::new();
        scene.switch(0, 0, 0, Leaves::R, 101);
        for (at, value) in [(10, 4), (20, 10), (30, 1)] {
            scene.counter(at, 101, "queue", &[("depth", fxt_writer::Value::Int64(value))]);
        }
        let both =
            [("used", fxt_writer::Value::Double(0.5)), ("text", fxt_writer::Value::Bool(true))];
        scene.counter(40, 201, "memory", &both).switch(50, 0, 101, Leaves::S, 0).end(60);
        scene
    }

    #[test]
    fn each_series_has_a_row_with_its_samples() {
        let scene = scene();
        let report = scene.report();
        assert!(report.has_counters);
        let reader = Reader::from_slice(scene.bytes());
        let found = measure(reader, &Selection::default(), &report).expect("a trace");
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|it| (&*it.name, &*it.series, it.process, it.samples, it.min, it.max, it.last))
            .collect();
        let expected =
            [("memory", "used", 200, 1, 0.5, 0.5, 0.5), ("queue", "depth", 100, 3, 1.0, 10.0, 1.0)];
        assert_eq!(rows, expected);
        assert_eq!(found.rows[1].mean, 5.0);
        let mut text = Vec::new();
        let look = fxtrec_units::look::Look::PLAIN;
        crate::text::write_counters(&found, Some(1), look, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        let cells: Vec<&str> = text.lines().nth(3).expect("a row").split_whitespace().collect();
        assert_eq!(cells, ["app:memory", "used", "1", "0.5", "0.5", "0.5", "0.5"], "{text}");
        assert!(text.contains("and 1 more"), "{text}");
    }
}
