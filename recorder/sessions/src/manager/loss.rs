//! Records that a provider dropped, and when.
//!
//! A provider counts dropped records in the header of its buffer, without times. So a loss lies between the last two
//! reads of that count:
//!
//! ```text
//!  look: 40      saved      look: 52          12 records, dropped in between
//!     |------------------------|
//! ```

use fxt_writer::record::{Event, EventKind, Record};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value};

use fxtrec_units::Nanos;

/// The maximum number of separate losses; beyond that, the oldest are merged.
const MOST: usize = 64;

/// Records that a provider dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLoss {
    /// Their number; `None` if unknown.
    pub records: Option<u64>,
    /// They were dropped between these times.
    pub since: Nanos,
    pub until: Nanos,
}

impl RecordLoss {
    /// Appends the event `lost_records`, for fxtrec's section, where times are nanoseconds.
    pub fn put(&self, name: &str, process: Koid, archive: &mut Vec<u8>) {
        let number = |name, value| Arg::new(Text::Inline(name), Value::uint(value));
        let during = self.until.0.saturating_sub(self.since.0);
        let mut args = vec![
            Arg::new(Text::Inline("provider"), Value::Str(Text::Inline(name))),
            number("during_ns", during),
        ];
        args.extend(self.records.map(|records| number("count", records)));
        let event = Event {
            kind: EventKind::Instant,
            time: Ticks(self.until.0),
            // The main thread, so that the losses are shown where the records are missing.
            thread: ThreadName::Inline { process, thread: process },
            category: Text::Inline("fxtrec"),
            name: Text::Inline("lost_records"),
            args: &args,
        };
        // Registration rejects names that the format cannot express.
        let written = event.write(archive);
        debug_assert!(written.is_ok(), "{written:?}");
    }
}

/// The losses of one recording that have not been reported yet.
#[derive(Clone, Debug)]
pub(super) struct LossLog {
    begun: Nanos,
    looked: Nanos,
    losses: Vec<RecordLoss>,
}

impl LossLog {
    /// An empty log that begins at `now`.
    pub(super) fn new(now: Nanos) -> LossLog {
        LossLog { begun: now, looked: now, losses: Vec::new() }
    }

    /// Stores the losses found at `now`; `None` for an unknown number.
    pub(super) fn look(&mut self, now: Nanos, found: Option<u64>) {
        // Uncounted losses may be from any time.
        let looked = std::mem::replace(&mut self.looked, now);
        let since = if found.is_none() { self.begun } else { looked };
        if found == Some(0) {
            return;
        }
        self.losses.push(RecordLoss { records: found, since, until: now });
        if self.losses.len() > MOST {
            let [first, second, ..] = self.losses[..] else { return };
            let records =
                first.records.zip(second.records).map(|(one, other)| one.saturating_add(other));
            self.losses[1] =
                RecordLoss { records, since: first.since.min(second.since), until: second.until };
            self.losses.remove(0);
        }
    }

    /// A loss of everything up to `now`, of an unknown number of records.
    pub(super) fn everything(&self, now: Nanos) -> RecordLoss {
        RecordLoss { records: None, since: self.begun, until: now }
    }

    /// All losses that have not been reported yet.
    pub(super) fn all(&self) -> Vec<RecordLoss> {
        self.losses.clone()
    }

    pub(super) fn take(&mut self) -> Vec<RecordLoss> {
        std::mem::take(&mut self.losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(records: Option<u64>, since: u64, until: u64) -> RecordLoss {
        RecordLoss { records, since: Nanos(since), until: Nanos(until) }
    }

    #[test]
    fn a_loss_lies_between_two_looks_at_the_count() {
        let mut log = LossLog::new(Nanos(10));
        log.look(Nanos(20), Some(0));
        log.look(Nanos(30), Some(7));
        log.look(Nanos(40), None);
        assert_eq!(log.all(), [loss(Some(7), 20, 30), loss(None, 10, 40)]);
        assert_eq!(log.take().len(), 2);
        assert!(log.all().is_empty());
    }

    #[test]
    fn of_many_losses_the_oldest_are_put_together_and_none_is_forgotten() {
        let mut log = LossLog::new(Nanos(0));
        for number in 1..=100 {
            log.look(Nanos(number), Some(1));
        }
        let all = log.all();
        assert_eq!((all.len(), all[0]), (MOST, loss(Some(37), 0, 37)));
        assert_eq!(all.iter().filter_map(|loss| loss.records).sum::<u64>(), 100);
    }
}
