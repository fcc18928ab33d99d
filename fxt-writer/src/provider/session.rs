//! A session from the trace points' side: an engine in the shared buffer, and the
//! tables of strings and threads registered there.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Categories;
use super::sys::{self, Generation, Mapping};
use crate::engine::{BufferDisposition, Engine, Lease, Mode};
use crate::layout::limits::MAX_STRING_INDEX;
use crate::packet::Packet;
use crate::record::{Initialization, KernelObject, ObjectType, Record, StringRecord, ThreadRecord};
use crate::{Arg, Koid, StringRef, Text, ThreadName, ThreadRef, Value};

/// How long STOP waits for a writer that has reserved space and does not finish.
const GRACE: Duration = Duration::from_millis(500);
/// Ticks per second of the trace's clock: nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// A session of this process, from START on.
pub(super) struct Session {
    generation: Generation,
    process: Koid,
    categories: Categories,
    buffer: Arc<Buffer>,
    /// Pending ends of durations.
    owed_ends: AtomicU64,
    /// Called for every category on its first pass.
    on_category: Box<dyn Fn(&'static str) + Send + Sync>,
}

/// Distinguishes the buffers of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferNumber(pub(super) u32);

/// The buffer of a session; the next session may reuse it.
pub(super) struct Buffer {
    number: BufferNumber,
    engine: Arc<Engine>,
    mapping: Arc<Mapping>,
    tables: Mutex<Tables>,
}

/// The strings and threads registered in the buffer.
#[derive(Debug, Default)]
struct Tables {
    strings: HashMap<&'static str, StringRef>,
    /// By thread id. A new thread with a reused id gets the same index, since
    /// readers resolve an index to the id.
    threads: HashMap<u64, ThreadRef>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("generation", &self.generation)
            .field("process", &self.process)
            .field("categories", &self.categories)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Buffer {
    /// An engine in `mapping`, which is cleared first. Requests to save a buffer go to `notify`.
    ///
    /// # Errors
    ///
    /// Returns an error when the memory cannot be cleared or its size does not suit an engine.
    pub(super) fn new(
        number: BufferNumber,
        mapping: Mapping,
        mode: Mode,
        notify: impl Fn(Packet) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let (engine, mapping) = mapping.into_engine(mode, GRACE, notify)?;
        // Without leases, every record is reserved separately.
        let _ = engine.lend();
        Ok(Arc::new(Self { number, engine, mapping, tables: Mutex::default() }))
    }

    pub(super) const fn number(&self) -> BufferNumber {
        self.number
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Accepts records again, after an earlier session whose registrations are kept.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room in addition to the data to keep.
    pub(super) fn restart(&self, disposition: BufferDisposition) -> io::Result<()> {
        self.engine.start(disposition).map_err(io::Error::other)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic under the lock leaves no half-made change.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// A session that records into `buffer`, which takes records already; the
    /// first are the initialization record and the process's name. It has no
    /// effect until it is published.
    pub(super) fn new(
        generation: Generation,
        process: Koid,
        categories: Categories,
        buffer: Arc<Buffer>,
        on_category: impl Fn(&'static str) + Send + Sync + 'static,
    ) -> Self {
        let mut durable = buffer.engine.durable();
        let name = process_name();
        let process_record = KernelObject {
            object_type: ObjectType::Process,
            koid: process,
            name: Text::Inline(&name),
            args: &[],
        };
        // A reused buffer may have no space left, but then it already contains both records.
        let _ = Initialization { ticks_per_second: TICKS_PER_SECOND }.write(&mut durable);
        let _ = process_record.write(&mut durable.uncounted());
        let on_category = Box::new(on_category);
        let owed_ends = AtomicU64::new(0);
        Self { generation, process, categories, buffer, owed_ends, on_category }
    }

    #[inline]
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    #[inline]
    pub(super) fn engine(&self) -> &Engine {
        &self.buffer.engine
    }

    /// A lease for the current thread.
    pub(super) fn lease(&self) -> Lease {
        self.buffer.engine.lease()
    }

    pub(super) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Counts the end of a duration that a thread must write later.
    pub(super) fn owe_end(&self) {
        // Relaxed, here and below: a counter, which orders nothing.
        self.owed_ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts pending ends as written.
    pub(super) fn pay_ends(&self, ends: usize) {
        self.owed_ends.fetch_sub(ends as u64, Ordering::Relaxed);
    }

    /// Stops accepting records. Ends that are still pending are lost, and counted.
    pub(super) fn close(&self) {
        self.engine().stop();
        self.engine().count_dropped(self.owed_ends.swap(0, Ordering::Relaxed));
    }

    /// Whether this category is recorded; makes it known to the manager too.
    pub(super) fn wants(&self, category: &'static str) -> bool {
        (self.on_category)(category);
        self.categories.contains(category)
    }

    /// The index of a string, which is registered if needed; the empty ref when
    /// there is no room for another.
    pub(super) fn string(&self, content: &'static str) -> StringRef {
        let mut tables = self.buffer.tables();
        if let Some(index) = tables.strings.get(content) {
            return *index;
        }
        let next = u16::try_from(tables.strings.len() + 1).unwrap_or(u16::MAX);
        if next > MAX_STRING_INDEX {
            return StringRef::EMPTY;
        }
        let Ok(index) = StringRef::indexed(next) else { return StringRef::EMPTY };
        let record = StringRecord { index, content };
        if record.write(&mut self.engine().durable().uncounted()).is_err() {
            return StringRef::EMPTY;
        }
        tables.strings.insert(content, index);
        index
    }

    /// How records name the current thread, whose name is registered, too.
    pub(super) fn thread(&self) -> ThreadName {
        let (process, thread) = (self.process, sys::thread_id());
        let name = sys::thread_name();
        let mut durable = self.engine().durable().uncounted();
        let of = [Arg::new(Text::Inline("process"), Value::Koid(process))];
        let named = KernelObject {
            object_type: ObjectType::Thread,
            koid: thread,
            name: Text::Inline(&name),
            args: &of,
        };
        // If there is no room, the thread appears by its number.
        let _ = named.write(&mut durable);

        let inline = ThreadName::Inline { process, thread };
        let mut tables = self.buffer.tables();
        if let Some(index) = tables.threads.get(&thread.0) {
            return ThreadName::Indexed(*index);
        }
        // The table has as many entries as 8 bits can name.
        let next = u8::try_from(tables.threads.len() + 1).ok();
        let Some(Ok(index)) = next.map(ThreadRef::indexed) else { return inline };
        if (ThreadRecord { index, process, thread }).write(&mut durable).is_err() {
            return inline;
        }
        tables.threads.insert(thread.0, index);
        ThreadName::Indexed(index)
    }
}

/// The name of the process in the scheduler's records: the name of its first thread.
fn process_name() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    crate::text::clean(name.trim_ascii_end()).into_owned()
}
