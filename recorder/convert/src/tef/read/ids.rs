//! Ids: processes and threads as koids, correlation ids as numbers.
//!
//! In JSON a thread id belongs to its process, and any text can be an id. A koid is a number with the same meaning everywhere in the trace.
//! Numeric ids are preserved. If a second process uses a thread id, or if an id is not a number, a new koid is generated, and a kernel
//! object record with the argument `tef:id` holds the original id.

use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::members::{Members, integer, text};

/// The first generated koid: above the ids of Linux, and within the 32 bits that Perfetto keeps.
const FIRST_MADE_UP: u64 = 1 << 30;

/// The koids of ids.
#[derive(Debug)]
pub(super) struct Ids {
    /// The process to which a thread's koid belongs.
    owners: FxHashMap<u64, u64>,
    /// Made-up koids of threads, by process and id.
    others: FxHashMap<(u64, String), u64>,
    processes: FxHashMap<String, u64>,
    next: u64,
    /// Whether a thread id means the same thread everywhere in the file.
    threads_are_unique: bool,
}

/// A koid, and whether it was just generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Koid {
    pub(super) koid: u64,
    pub(super) new: bool,
}

impl Koid {
    const fn known(koid: u64) -> Self {
        Self { koid, new: false }
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            owners: FxHashMap::default(),
            others: FxHashMap::default(),
            processes: FxHashMap::default(),
            next: FIRST_MADE_UP,
            threads_are_unique: false,
        }
    }
}

impl Ids {
    /// From now on, numeric thread ids are koids, regardless of the process.
    pub(super) fn trust_threads(&mut self) {
        self.threads_are_unique = true;
    }

    /// The process of each thread, for ids in the range of Linux.
    pub(super) fn owners(&self) -> FxHashMap<u32, u32> {
        let owners = self.owners.iter().filter(|(_, process)| **process != 0);
        owners
            .filter_map(|(thread, process)| {
                Some((u32::try_from(*thread).ok()?, u32::try_from(*process).ok()?))
            })
            .collect()
    }

    /// Whether the file was written from FXT.
    pub(super) fn trusts_threads(&self) -> bool {
        self.threads_are_unique
    }

    /// The koid of a process; 0 if the event has none.
    pub(super) fn process(&mut self, id: Option<&RawValue>) -> Koid {
        let Some(id) = id else { return Koid::known(0) };
        if let Some(number) = integer(id) {
            return Koid::known(number);
        }
        if let Some(koid) = self.processes.get(id.get()) {
            return Koid::known(*koid);
        }
        let koid = self.make_up();
        self.processes.insert(id.get().to_owned(), koid);
        Koid { koid, new: true }
    }

    /// The koid of a thread of that process: the main thread if the event has none.
    pub(super) fn thread(&mut self, process: u64, id: Option<&RawValue>) -> Koid {
        let Some(id) = id else { return self.main_thread(process) };
        if let Some(number) = integer(id) {
            // No thread has the id 0: it represents "no thread in particular", or the idle task.
            let unique = self.threads_are_unique || number == 0;
            if unique || *self.owners.entry(number).or_insert(process) == process {
                return Koid::known(number);
            }
        }
        if let Some(koid) = self.others.get(&(process, id.get().to_owned())) {
            return Koid::known(*koid);
        }
        let koid = self.make_up();
        self.owners.insert(koid, process);
        self.others.insert((process, id.get().to_owned()), koid);
        Koid { koid, new: true }
    }

    /// The main thread has the id of its process, as on Linux.
    fn main_thread(&mut self, process: u64) -> Koid {
        if self.threads_are_unique
            || process == 0
            || *self.owners.entry(process).or_insert(process) == process
        {
            return Koid::known(process);
        }
        if let Some(koid) = self.others.get(&(process, String::new())) {
            return Koid::known(*koid);
        }
        let koid = self.make_up();
        self.owners.insert(koid, process);
        self.others.insert((process, String::new()), koid);
        Koid { koid, new: true }
    }

    fn make_up(&mut self) -> u64 {
        while self.owners.contains_key(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

/// The number that correlates events, and whether the field `id` can be rebuilt from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correlation {
    pub(super) number: u64,
    pub(super) plain: bool,
}

/// The number for an event's ids. A value that is not a number, or is local to a scope or a process, becomes a hash of everything that
/// identifies it.
pub(super) fn correlation(
    id: Option<&RawValue>,
    id2: Option<&RawValue>,
    scope: Option<&RawValue>,
    process: u64,
) -> Option<Correlation> {
    let members = id2.and_then(Members::of).unwrap_or_default();
    let (local, global) = (members.get("local"), members.get("global"));
    if local.is_some() || global.is_some() {
        let mut hash = Hash::new();
        if let Some(local) = local {
            hash.add(&process.to_le_bytes());
            hash.add(local.get().as_bytes());
        } else {
            let number = number(global?)?;
            if scope.is_none() {
                return Some(Correlation { number, plain: false });
            }
            hash.add(&number.to_le_bytes());
        }
        hash.add(scope.map_or("", RawValue::get).as_bytes());
        return Some(Correlation { number: hash.0, plain: false });
    }
    // An `id2` that is not an object is treated as an id, if the event has no other.
    let id = id.or(id2.filter(|id2| !id2.get().starts_with('{')))?;
    let plain = is_plain(id);
    let number = number(id)?;
    let Some(scope) = scope else { return Some(Correlation { number, plain }) };
    let mut hash = Hash::new();
    hash.add(&number.to_le_bytes());
    hash.add(scope.get().as_bytes());
    Some(Correlation { number: hash.0, plain: false })
}

/// The number of a process-local id as fxtrec writes it for FXT, where ids are local to a process.
pub(super) fn own_local(id2: &RawValue) -> Option<u64> {
    let members = Members::of(id2).filter(|members| members.0.len() == 1)?;
    let local = members.get("local")?;
    pointer(&text(local)?).filter(|_| is_plain(local))
}

/// The numeric value of an id, or a hash of its text.
pub(super) fn number(id: &RawValue) -> Option<u64> {
    if let Some(number) = integer(id).filter(|_| !id.get().starts_with('"')) {
        return Some(number);
    }
    let Some(text) = text(id) else {
        let mut hash = Hash::new();
        hash.add(id.get().as_bytes());
        return (id.get() != "null").then_some(hash.0);
    };
    pointer(&text).or_else(|| {
        let mut hash = Hash::new();
        hash.add(text.as_bytes());
        Some(hash.0)
    })
}

/// The value of a string such as `0x1000`.
pub(super) fn pointer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

/// Whether an id is a number, or the exact text that writing produces for its number.
fn is_plain(id: &RawValue) -> bool {
    match text(id) {
        Some(text) => pointer(&text).is_some_and(|number| format!("{number:#x}") == text),
        None => integer(id).is_some(),
    }
}

/// 64-bit FNV-1a: the same in every version, so that files stay comparable.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    #[test]
    fn numbers_stay_what_they_are_and_a_second_owner_gets_another() {
        let mut ids = Ids::default();
        let (one, name) = (raw("1"), raw("\"Compositor\""));
        assert_eq!(ids.thread(10, Some(&one)), Koid::known(1));
        assert_eq!(ids.thread(20, Some(&one)), Koid { koid: FIRST_MADE_UP, new: true });
        assert_eq!(ids.thread(20, Some(&one)), Koid::known(FIRST_MADE_UP));
        assert_eq!(ids.thread(10, Some(&one)), Koid::known(1));
        assert_eq!(ids.process(Some(&name)), Koid { koid: FIRST_MADE_UP + 1, new: true });
        assert_eq!(ids.process(Some(&name)), Koid::known(FIRST_MADE_UP + 1));
    }

    #[test]
    fn a_made_up_koid_avoids_those_in_use() {
        let mut ids = Ids::default();
        let taken = raw(&FIRST_MADE_UP.to_string());
        assert_eq!(ids.thread(1, Some(&taken)).koid, FIRST_MADE_UP);
        assert_eq!(ids.thread(1, Some(&raw("\"x\""))).koid, FIRST_MADE_UP + 1);
    }

    #[test]
    fn without_an_id_it_is_the_main_thread() {
        let mut ids = Ids::default();
        assert_eq!(ids.thread(7, None), Koid::known(7));
        assert_eq!(ids.thread(7, Some(&raw("7"))), Koid::known(7));
        assert_eq!(ids.thread(0, None), Koid::known(0));
        assert_eq!(ids.thread(7, Some(&raw("8"))), Koid::known(8));
        let other = ids.thread(8, None);
        assert_eq!(other, Koid { koid: FIRST_MADE_UP, new: true }, "8 is a thread of 7");
        assert_eq!(ids.thread(8, None), Koid::known(FIRST_MADE_UP));
    }

    #[test]
    fn ids_are_numbers_in_any_spelling() {
        let of = |json: &str| correlation(Some(&raw(json)), None, None, 0).expect("an id");
        assert_eq!(of("\"0x100\""), Correlation { number: 0x100, plain: true });
        assert_eq!(of("256"), Correlation { number: 256, plain: true });
        assert_eq!(of("\"0X0100\""), Correlation { number: 0x100, plain: false });
        assert_eq!(of("\"task\""), of("\"task\""));
        assert!(!of("\"task\"").plain);
    }

    #[test]
    fn scopes_and_processes_keep_equal_ids_apart() {
        let id = raw("\"0x1\"");
        let local = raw("{\"local\": \"0x1\"}");
        let (one, two) = (raw("\"one\""), raw("\"two\""));
        let numbers = [
            correlation(Some(&id), None, None, 7),
            correlation(Some(&id), None, Some(&one), 7),
            correlation(Some(&id), None, Some(&two), 7),
            correlation(None, Some(&local), None, 7),
            correlation(None, Some(&local), None, 8),
        ]
        .map(|found| found.expect("an id").number);
        let distinct: std::collections::HashSet<u64> = numbers.into_iter().collect();
        assert_eq!(distinct.len(), numbers.len());
    }
}
