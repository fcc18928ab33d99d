//! Which trigger a flight recording wrote a file for.

use fxt_reader::record::Event;
use fxtrec_sched::unsigned;

/// The delay for which a trigger fired. `docs/reference/triggers.md` describes the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    pub koid: u64,
    /// When the slice, the wait or the blocked time began and ended, in nanoseconds of the trace.
    pub from: u64,
    pub at: u64,
    pub expression: String,
}

impl Fired {
    /// Reads it from `snapshot_info`. None for a trigger that does not test a duration, such as a probe.
    pub(crate) fn read(info: &Event<'_>) -> Option<Fired> {
        let number = |name| info.args.get(name).and_then(unsigned);
        Some(Fired {
            koid: info.args.koid("thread")?.0,
            from: number("from_ns")?,
            at: number("trigger_ns")?,
            expression: info.args.str("expression")?.to_owned(),
        })
    }
}
