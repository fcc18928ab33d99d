//! The records that name threads and their processes, each written before the first record that uses the name.

use std::borrow::Cow;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{KernelObject, ObjectType};
use fxt_writer::{Arg, Koid, Text, Value};

use super::Encoder;
use crate::encode::threads::{Naming, Slot};
use crate::encode::{Closed, strings};
use crate::event::Comm;
use fxtrec_units::Tid;

impl<L: Lanes> Encoder<L> {
    /// Writes the current names of the thread and its process, if the trace does not have them yet, before a record uses them.
    #[inline]
    pub(super) fn name(&mut self, slot: Slot) -> Result<(), Closed> {
        if self.threads.thread(slot).naming == Naming::Done {
            return Ok(());
        }
        self.write_name(slot)
    }

    #[cold]
    fn write_name(&mut self, slot: Slot) -> Result<(), Closed> {
        let thread = self.threads.thread(slot);
        let (koid, tid, comm, home) = (thread.koid, thread.tid, thread.comm, thread.process);
        let process_koid = self.threads.process_koid(home);
        let process = self.threads.process_mut(home);
        let naming = std::mem::replace(&mut process.naming, Naming::Done);
        if naming != Naming::Done {
            if process.name.is_empty() {
                process.name = comm.as_bytes().to_vec();
            }
            self.stats.processes += u64::from(naming == Naming::Never);
            let cgroup = process.cgroup.as_deref();
            process_object(&mut self.lanes, process_koid, &process.name, tid, cgroup)?;
        }
        let thread = self.threads.thread_mut(slot);
        self.stats.threads += u64::from(thread.naming == Naming::Never);
        thread.naming = Naming::Done;
        thread_object(&mut self.lanes, koid, &comm, tid, process_koid)
    }
}

/// Names a process, and its cgroup if that is known. A process without a name is named by `tid`.
pub(super) fn process_object(
    lanes: &mut impl Lanes,
    koid: Koid,
    name: &[u8],
    tid: Tid,
    cgroup: Option<&str>,
) -> Result<(), Closed> {
    let cgroup = cgroup.map(|path| Arg::new(strings::CGROUP, Value::Str(Text::Inline(path))));
    lanes.durable(&KernelObject {
        object_type: ObjectType::Process,
        koid,
        name: Text::Inline(&display_name(name, tid)),
        args: cgroup.as_slice(),
    })?;
    Ok(())
}

/// Names a thread of a process.
pub(super) fn thread_object(
    lanes: &mut impl Lanes,
    koid: Koid,
    comm: &Comm,
    tid: Tid,
    process: Koid,
) -> Result<(), Closed> {
    lanes.durable(&KernelObject {
        object_type: ObjectType::Thread,
        koid,
        name: Text::Inline(&display_name(comm.as_bytes(), tid)),
        args: &[Arg::new(strings::PROCESS, Value::Koid(process))],
    })?;
    Ok(())
}

/// A name that readers accept: text, and never empty.
fn display_name(name: &[u8], tid: Tid) -> Cow<'_, str> {
    match fxt_writer::text::clean(name) {
        name if name.is_empty() => format!("[{}]", tid.0).into(),
        name => name,
    }
}
