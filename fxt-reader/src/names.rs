//! The names of processes and threads, for programs that print records.

use rustc_hash::FxHashMap;

use crate::record::Record;
use crate::types::{Koid, ObjectType};

/// The names of processes and threads in the records that were read so far.
///
/// Pass each record to [`Names::learn`] before printing it. A new name of a thread applies from that record on; to use the last names from
/// the beginning, read the trace twice.
///
/// ```
/// # fn main() -> Result<(), fxt_reader::Error> {
/// # let bytes = 0x0016_5478_4604_0010_u64.to_le_bytes();
/// let mut reader = fxt_reader::Reader::from_slice(&bytes);
/// let mut names = fxt_reader::Names::default();
/// while let Some(item) = reader.next()? {
///     names.learn(&item.record);
///     if let fxt_reader::Record::Wakeup(wakeup) = item.record {
///         println!("{} {}", item.offset, names.of(wakeup.koid));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Names {
    known: FxHashMap<Koid, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    name: Box<str>,
    object_type: ObjectType,
    process: Option<Koid>,
}

impl Names {
    /// Stores the name that a record contains, if any.
    pub fn learn(&mut self, record: &Record<'_>) {
        let Record::KernelObject(object) = record else { return };
        if !matches!(object.object_type, ObjectType::Process | ObjectType::Thread) {
            return;
        }
        let process = object.process();
        match self.known.get_mut(&object.koid) {
            // In traces of fxtrec, a process and its main thread have the same koid; the thread's name takes precedence.
            Some(known)
                if known.object_type == ObjectType::Thread
                    && object.object_type == ObjectType::Process => {}
            Some(known) => {
                if *known.name != *object.name {
                    known.name = object.name.into();
                }
                known.object_type = object.object_type;
                known.process = process.or(known.process);
            }
            None => {
                let (name, object_type) = (object.name.into(), object.object_type);
                self.known.insert(object.koid, Known { name, object_type, process });
            }
        }
    }

    /// The name of a thread or process, if it is known.
    #[must_use]
    pub fn get(&self, koid: Koid) -> Option<&str> {
        self.known.get(&koid).map(|known| &*known.name)
    }

    /// The name of a thread or process; `?` if it is unknown.
    #[must_use]
    pub fn of(&self, koid: Koid) -> &str {
        self.get(koid).unwrap_or("?")
    }

    /// The process of a thread, if it is known.
    #[must_use]
    pub fn process(&self, thread: Koid) -> Option<Koid> {
        self.known.get(&thread).and_then(|known| known.process)
    }

    /// All threads, in no particular order.
    pub fn threads(&self) -> impl Iterator<Item = (Koid, &str)> {
        let threads = self.known.iter().filter(|(_, it)| it.object_type == ObjectType::Thread);
        threads.map(|(koid, known)| (*koid, &*known.name))
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{KernelObject, Record as _};
    use fxt_writer::{Arg, Text, Value};

    use super::*;
    use crate::Reader;

    #[test]
    fn threads_have_their_last_names_and_their_processes() {
        let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(40)))];
        let mut bytes = Vec::new();
        fxt_writer::record::Magic.write(&mut bytes).expect("room");
        for (kind, koid, name, args) in [
            (ObjectType::Process, 40, "app", &[][..]),
            (ObjectType::Thread, 40, "main", &process),
            (ObjectType::Process, 40, "app", &[]),
            (ObjectType::Thread, 41, "work", &process),
            (ObjectType::Thread, 41, "work er", &[]),
        ] {
            let object = KernelObject {
                object_type: kind,
                koid: Koid(koid),
                name: Text::Inline(name),
                args,
            };
            object.write(&mut bytes).expect("room");
        }
        let (mut names, mut reader) = (Names::default(), Reader::from_slice(&bytes));
        while let Some(item) = reader.next().expect("sound") {
            names.learn(&item.record);
        }
        assert_eq!(
            (names.of(Koid(40)), names.of(Koid(41)), names.of(Koid(42))),
            ("main", "work er", "?")
        );
        assert_eq!((names.process(Koid(41)), names.get(Koid(7))), (Some(Koid(40)), None));
        let mut threads: Vec<_> = names.threads().collect();
        threads.sort_unstable();
        assert_eq!(threads, [(Koid(40), "main"), (Koid(41), "work er")]);
    }
}
