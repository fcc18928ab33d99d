//! The arguments of spans: each distinct list once.

use fxt_reader::record::{Args, Value};

use super::columns::Column;
use super::numbered::{Numbered, bytes_of, clean};
use super::stacks::room;
use super::threads::ThreadIndex;

/// The number of a list of arguments; 0 is the empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ArgsIndex(pub(super) u32);

/// Values are truncated to this many characters.
const MOST_LETTERS: usize = 500;

/// The size of an argument in the page without its strings, in bytes.
const ARGUMENT_BYTES: u64 = 4;

/// The keys under which the page stores the threads, by index, on which an operation began and ended. No other
/// argument has such a key.
const BEGAN_ON: &str = "\u{1}began on";
const ENDED_ON: &str = "\u{1}ended on";

#[derive(Debug)]
pub(super) struct Arguments {
    keys: Numbered<String>,
    values: Numbered<String>,
    lists: Numbered<Vec<(u32, u32)>>,
    bytes: u64,
    /// The number of events with arguments.
    events: u64,
    /// The number of these that are not in the page.
    pub(super) left_out: u64,
}

impl Default for Arguments {
    fn default() -> Self {
        let (keys, values) = (Numbered::default(), Numbered::default());
        Self { keys, values, lists: Numbered::from(1), bytes: 0, events: 0, left_out: 0 }
    }
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int32(it) => it.to_string(),
        Value::UInt32(it) => it.to_string(),
        Value::Int64(it) => it.to_string(),
        Value::UInt64(it) => it.to_string(),
        Value::Double(it) => it.to_string(),
        Value::Str(it) => it.to_owned(),
        Value::Pointer(it) => format!("{it:#x}"),
        Value::Koid(it) => it.0.to_string(),
        Value::Bool(it) => it.to_string(),
        Value::Unknown { argument_type } => format!("of type {argument_type}"),
        _ => "of an unknown type".to_owned(),
    }
}

impl Arguments {
    /// The list `before`, extended by these arguments.
    pub(super) fn and(&mut self, before: ArgsIndex, args: &Args<'_>) -> ArgsIndex {
        if args.is_empty() {
            return before;
        }
        self.events += 1;
        let more: Vec<(String, String)> =
            args.iter().map(|arg| (clean(arg.name), text(arg.value))).collect();
        self.add(before, more)
    }

    /// The list `before`, extended by the threads on which an operation began and ended.
    pub(super) fn on(
        &mut self,
        before: ArgsIndex,
        began: ThreadIndex,
        ended: Option<ThreadIndex>,
    ) -> ArgsIndex {
        let threads = [(BEGAN_ON, Some(began)), (ENDED_ON, ended)];
        let more = threads
            .into_iter()
            .filter_map(|(key, thread)| Some((key.to_owned(), thread?.to_string())));
        self.add(before, more.collect())
    }

    fn add(&mut self, before: ArgsIndex, more: Vec<(String, String)>) -> ArgsIndex {
        if self.bytes >= room(self.events) {
            self.left_out += 1;
            return before;
        }
        let mut list = self.lists.get(before.0).cloned().unwrap_or_default();
        for (key, value) in more {
            let mut value = clean(&value);
            if let Some((end, _)) = value.char_indices().nth(MOST_LETTERS) {
                value.truncate(end);
                value.push('…');
            }
            let bytes = (bytes_of(&key), bytes_of(&value));
            let (key, is_new) = self.keys.number(key);
            self.bytes += u64::from(is_new) * bytes.0;
            let (value, is_new) = self.values.number(value);
            self.bytes += u64::from(is_new) * bytes.1;
            list.push((key, value));
        }
        let bytes = list.len() as u64 * ARGUMENT_BYTES;
        let (number, is_new) = self.lists.number(list);
        self.bytes += u64::from(is_new) * bytes;
        ArgsIndex(number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.all.is_empty()
    }

    /// Drops the later half of the lists.
    pub(super) fn thin(&mut self) {
        let half = self.lists.all.len() / 2;
        self.left_out += (self.lists.all.len() - half) as u64;
        self.lists.truncate(half);
        let most = |of: fn(&(u32, u32)) -> u32| {
            let used = self.lists.all.iter().flatten().map(of).max();
            used.map_or(0, |number| number as usize + 1)
        };
        let (keys, values) = (most(|it| it.0), most(|it| it.1));
        self.keys.truncate(keys);
        self.values.truncate(values);
    }

    /// Keys and values as text separated by zero bytes; then for each list the number of its arguments, and the arguments.
    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns: [Column; 5] = Default::default();
        let [keys, values, counts, of_keys, of_values] = &mut columns;
        keys.texts(&self.keys.all);
        values.texts(&self.values.all);
        for list in &self.lists.all {
            counts.number(list.len() as u64);
            for (key, value) in list {
                of_keys.number((*key).into());
                of_values.number((*value).into());
            }
        }
        columns.into()
    }
}
