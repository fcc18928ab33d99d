//! Which trigger a flight recording wrote a file for.

use fxt_reader::record::Event;
use fxtrec_sched::unsigned;

/// The delay for which a trigger fired. `docs/reference/triggers.md` describes the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    pub koid: u64,
    /// When the delay was over, in nanoseconds of the trace.
    pub at: u64,
    pub nanos: u64,
    pub expression: String,
}

/// Looks for it among the recorder's own events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    at: Option<u64>,
    fired: Option<Fired>,
}

impl Search {
    /// `snapshot_info` stands before the events of the file.
    pub(crate) fn written_for(&mut self, info: &Event<'_>) {
        self.at = info.args.get("trigger_ns").and_then(unsigned);
    }

    pub(crate) fn fired(&mut self, event: &Event<'_>) {
        if self.at != Some(event.time.0) || self.fired.is_some() {
            return;
        }
        let Some(koid) = event.args.koid("thread") else { return };
        let Some(nanos) = event.args.get("value_ns").and_then(unsigned) else { return };
        let expression = event.args.str("expression").unwrap_or_default().to_owned();
        self.fired = Some(Fired { koid: koid.0, at: event.time.0, nanos, expression });
    }

    pub(crate) fn found(&self) -> Option<&Fired> {
        self.fired.as_ref()
    }
}
