//! Counters: values that programs report from time to time, each drawn as a step function.

use fxt_reader::record::{Args, Value};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::columns::Column;
use super::numbered::{Numbered, clean};
use super::spans::NameIndex;

/// The maximum number of counters, of all their values, and of the values of one counter during the pass.
const MOST_COUNTERS: usize = 200;
const MOST_VALUES: usize = 200_000;
const MOST_OF_ONE: usize = 40_000;

/// If there are too many values, only the lowest, the highest and the last of this many consecutive ones are kept.
const GROUP: usize = 8;

/// Integers up to this are exact in JavaScript.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The properties that identify a counter: its process, its id, its category, its name, and the name of the value.
type Key = (u64, u64, NameIndex, NameIndex, u32);

#[derive(Debug, Default)]
struct Counter {
    name: String,
    process: u64,
    /// Times in nanoseconds of the trace's clock.
    values: Vec<(u64, f64)>,
    /// The number of values before thinning.
    count: u64,
    lowest: f64,
    highest: f64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    names: Numbered<String>,
    by_key: FxHashMap<Key, usize>,
    list: Vec<Counter>,
    /// The number of values of counters that are not in the page.
    pub(super) left_out: u64,
}

fn number(value: Value<'_>) -> Option<f64> {
    let number = match value {
        Value::Int32(it) => it.into(),
        Value::UInt32(it) => it.into(),
        Value::Int64(it) => it as f64,
        Value::UInt64(it) => it as f64,
        Value::Double(it) => it,
        Value::Bool(it) => f64::from(u8::from(it)),
        _ => return None,
    };
    number.is_finite().then_some(number)
}

impl Counter {
    fn push(&mut self, time: u64, value: f64) {
        (self.lowest, self.highest) = match self.count {
            0 => (value, value),
            _ => (self.lowest.min(value), self.highest.max(value)),
        };
        self.count += 1;
        self.values.push((time, value));
        if self.values.len() > MOST_OF_ONE {
            self.thin();
        }
    }

    /// Keeps the lowest, the highest and the last of every few values.
    fn thin(&mut self) {
        self.values.sort_by_key(|(time, _)| *time);
        let mut kept = Vec::with_capacity(self.values.len() / 2);
        for group in self.values.chunks(GROUP) {
            let by_value =
                |a: &&(u64, f64), b: &&(u64, f64)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
            let ends = [group.iter().min_by(by_value), group.iter().max_by(by_value), group.last()];
            let is_kept = |it: &(u64, f64)| ends.iter().flatten().any(|end| std::ptr::eq(*end, it));
            kept.extend(group.iter().filter(|it| is_kept(it)).copied());
        }
        self.values = kept;
    }
}

impl Counters {
    /// Takes a counter event: each of its numbers is a counter.
    pub(super) fn take(
        &mut self,
        (process, id): (u64, u64),
        (category, name): (NameIndex, NameIndex),
        (time, text): (u64, &str),
        args: &Args<'_>,
    ) {
        for arg in args {
            let Some(value) = number(arg.value) else { continue };
            let of = match self.names.find(arg.name) {
                Some(of) => of,
                None if self.list.len() >= MOST_COUNTERS => {
                    self.left_out += 1;
                    continue;
                }
                None => self.names.number(arg.name.to_owned()).0,
            };
            let key = (process, id, category, name, of);
            let next = self.list.len();
            let at = match self.by_key.get(&key) {
                Some(at) => *at,
                None if next >= MOST_COUNTERS => {
                    self.left_out += 1;
                    continue;
                }
                None => {
                    self.by_key.insert(key, next);
                    let name = match arg.name {
                        "" | "value" => clean(text),
                        of if of == text => clean(text),
                        of => format!("{} {}", clean(text), clean(of)),
                    };
                    self.list.push(Counter { name, process, ..Counter::default() });
                    next
                }
            };
            self.list[at].push(time, value);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Sorts all values, and reduces their number to the limit.
    pub(super) fn finish(&mut self) {
        for counter in &mut self.list {
            counter.values.sort_by_key(|(time, _)| *time);
        }
        let of_one = MOST_VALUES / self.list.len().max(1);
        let all = |list: &[Counter]| list.iter().map(|it| it.values.len()).sum::<usize>();
        while all(&self.list) > MOST_VALUES {
            self.list.iter_mut().filter(|it| it.values.len() > of_one).for_each(Counter::thin);
        }
    }

    /// Reduces the number of values of each counter.
    pub(super) fn thin(&mut self) {
        self.list.iter_mut().for_each(Counter::thin);
    }

    /// For each counter: its name, its process, the lowest and the highest value, the number of values, and how many of them are in the
    /// page.
    pub(super) fn json(&self, process: impl Fn(u64) -> Option<String>) -> serde_json::Value {
        let row = |it: &Counter| {
            let process = process(it.process);
            json!([it.name, process, it.lowest, it.highest, it.count, it.values.len()])
        };
        self.list.iter().map(row).collect()
    }

    /// For each counter, whether its values are integers; then times, each relative to the previous one, the first relative to the
    /// beginning of the trace; and values, integers relative to the previous one, others unchanged.
    pub(super) fn columns(&self, begin: u64) -> Vec<Column> {
        let mut columns: [Column; 4] = Default::default();
        let [kinds, times, integers, doubles] = &mut columns;
        for counter in &self.list {
            let is_exact = |value: f64| value.fract() == 0.0 && value.abs() < EXACT;
            let are_integers = counter.values.iter().all(|(_, value)| is_exact(*value));
            kinds.byte(u8::from(are_integers));
            let (mut last_time, mut last) = (begin, 0);
            for &(time, value) in &counter.values {
                times.number(time.max(begin) - last_time);
                last_time = time.max(begin);
                if are_integers {
                    let value = value as i64;
                    integers.signed(value - last);
                    last = value;
                } else {
                    doubles.double(value);
                }
            }
        }
        columns.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_values_the_extremes_stay_and_the_last() {
        let mut counter = Counter::default();
        for n in 0..MOST_OF_ONE as u64 * 3 {
            let value = if n == 50_001 { 900.0 } else { (n % 5) as f64 };
            counter.push(n, value);
        }
        assert!(counter.values.len() <= MOST_OF_ONE, "{}", counter.values.len());
        assert_eq!(counter.count, MOST_OF_ONE as u64 * 3);
        assert!(counter.values.contains(&(50_001, 900.0)));
        assert_eq!(counter.values.last(), Some(&(MOST_OF_ONE as u64 * 3 - 1, 4.0)));
        assert!(counter.values.windows(2).all(|two| two[0].0 <= two[1].0));
        assert_eq!((counter.lowest, counter.highest), (0.0, 900.0));
    }

    #[test]
    fn all_of_them_together_have_a_limit() {
        let mut counters = Counters::default();
        for n in 0..100 {
            let mut counter = Counter::default();
            (0..10_000).for_each(|time| counter.push(time, f64::from(n)));
            counters.list.push(counter);
        }
        counters.finish();
        let values: usize = counters.list.iter().map(|it| it.values.len()).sum();
        assert!((MOST_VALUES / 4..=MOST_VALUES).contains(&values), "{values}");
    }
}
