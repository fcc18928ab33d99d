//! Which provider writes a trace's scheduling records, and which providers' buffers filled up.
//!
//! A provider event reports that a buffer filled up, but not the content of that buffer. If it is the buffer of the provider that writes
//! the scheduling records, scheduling records are missing; if it is an application's, only that application's own records are.

use fxt_reader::ProviderId;

/// Providers to remember before the first scheduling record.
const MOST: usize = 256;

/// The kind of data that is missing when a buffer filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledUp {
    /// Scheduling records.
    Scheduler,
    /// Only the records of that provider.
    Other,
    /// Unknown until the first scheduling record.
    Unknown,
}

/// The provider of the scheduling records read so far.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    provider: Option<ProviderId>,
    is_known: bool,
    /// The providers whose buffers filled up before the first scheduling record.
    early: Vec<ProviderId>,
}

impl Scheduler {
    /// Remembers the provider of a scheduling record. Returns true if earlier scheduling records are missing: its buffer filled up before
    /// it was known to be the scheduler's.
    #[inline(always)]
    pub fn is(&mut self, provider: Option<ProviderId>) -> bool {
        if self.is_known && self.provider == provider {
            return false;
        }
        self.becomes(provider)
    }

    #[cold]
    fn becomes(&mut self, provider: Option<ProviderId>) -> bool {
        self.provider = provider;
        self.is_known = true;
        // A trace without providers has one buffer.
        let ours = |id: &ProviderId| provider.is_none_or(|provider| provider == *id);
        let was_full = self.early.iter().any(ours);
        self.early.retain(|id| !ours(id));
        was_full
    }

    /// Processes a provider event that reports a full buffer.
    pub fn filled_up(&mut self, id: ProviderId) -> FilledUp {
        if !self.is_known {
            if self.early.len() < MOST && !self.early.contains(&id) {
                self.early.push(id);
            }
            return FilledUp::Unknown;
        }
        match self.provider.is_none_or(|provider| provider == id) {
            true => FilledUp::Scheduler,
            false => FilledUp::Other,
        }
    }

    /// Another event has reported the missing data of that provider's full buffer.
    pub fn said(&mut self, id: ProviderId) {
        self.early.retain(|early| *early != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProviderId = ProviderId(1);
    const TWO: ProviderId = ProviderId(2);

    #[test]
    fn a_buffer_that_fills_up_before_the_first_scheduling_record_is_judged_by_that() {
        let mut scheduler = Scheduler::default();
        assert_eq!(scheduler.filled_up(TWO), FilledUp::Unknown);
        assert!(!scheduler.is(Some(ONE)), "an application's");
        let mut scheduler = Scheduler::default();
        scheduler.filled_up(ONE);
        scheduler.said(ONE);
        assert!(!scheduler.is(Some(ONE)), "that is known");
        let mut scheduler = Scheduler::default();
        scheduler.filled_up(ONE);
        assert!(scheduler.is(Some(ONE)));
        assert!(!scheduler.is(Some(ONE)), "once");
        let mut scheduler = Scheduler::default();
        scheduler.filled_up(ONE);
        assert!(scheduler.is(None), "there is one buffer");
    }

    #[test]
    fn afterwards_it_is_distinguished_by_the_provider() {
        let mut scheduler = Scheduler::default();
        scheduler.is(Some(ONE));
        assert_eq!(scheduler.filled_up(ONE), FilledUp::Scheduler);
        assert_eq!(scheduler.filled_up(TWO), FilledUp::Other);
    }
}
