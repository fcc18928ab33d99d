//! Threads that non-event records refer to.

use fxt_writer::Koid;
use fxt_writer::lanes::Lanes;

use super::Encoder;
use crate::encode::Closed;
use fxtrec_units::{Nanos, Tid};

/// The thread that had an id at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Unknown,
    /// A thread that is not recorded.
    Unwanted,
    /// The trace has its name.
    Recorded {
        process: Koid,
        thread: Koid,
    },
}

impl<L: Lanes> Encoder<L> {
    /// The thread that had this id at `time`, which must not be later than the last event. Threads that have ended are found only if their
    /// names are kept: see [`Encoder::keep_departed`].
    ///
    /// # Errors
    /// Returns [`Closed`] if the trace accepts no more records.
    pub fn owner(&mut self, tid: Tid, time: Nanos) -> Result<Owner, Closed> {
        if let Some(owner) = self.departed_owner(tid, time) {
            return Ok(owner);
        }
        let Some(slot) = self.threads.find(tid) else { return Ok(Owner::Unknown) };
        if self.narrow && !self.threads.thread(slot).in_scope {
            return Ok(Owner::Unwanted);
        }
        self.name(slot)?;
        let (thread, home) = (self.threads.thread(slot).koid, self.threads.thread(slot).process);
        Ok(Owner::Recorded { process: self.threads.process_koid(home), thread })
    }
}
