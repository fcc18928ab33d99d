//! Merges alerts and long spans of applications into the scheduler's events.
//!
//! An alert arrives at once, and a span a tenth of a second after its end, but the scheduler's events of that time are read from the rings
//! later. The alert is held until these events arrive, so that its window is complete:
//!
//! ```text
//!  events handed out ----------->|            |----------->
//!  alert heard                        ^       fires, at the time when it was heard
//! ```

use std::collections::VecDeque;

use crate::manager::{Alert, LongSpan};
use crate::units::Nanos;

/// After this many reads of the rings, all events before the alert have been passed on.
const LOOKS: u8 = 3;

/// The events that triggers wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Alert(Alert),
    Span(LongSpan),
}

impl Notice {
    fn time(&self) -> Nanos {
        match self {
            Notice::Alert(alert) => alert.time,
            Notice::Span(span) => span.time,
        }
    }
}

/// Alerts and spans that wait for earlier events.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    /// In order of arrival, each with the number of ring reads since.
    waiting: VecDeque<(Notice, u8)>,
}

impl Alerts {
    pub(super) fn hear(&mut self, notices: impl Iterator<Item = Notice>) {
        self.waiting.iter_mut().for_each(|(_, looks)| *looks = looks.saturating_add(1));
        self.waiting.extend(notices.map(|notice| (notice, 0)));
    }

    /// The next alert or span that can be handled once events up to `ended` have been passed on.
    pub(super) fn due(&mut self, ended: Nanos) -> Option<Notice> {
        let (notice, looks) = self.waiting.front()?;
        if notice.time() > ended && *looks < LOOKS {
            return None;
        }
        self.rest()
    }

    /// The next alert or span at the end, when there are no more events.
    pub(super) fn rest(&mut self) -> Option<Notice> {
        self.waiting.pop_front().map(|(notice, _)| notice)
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::ProviderId;

    use super::*;

    fn alert(time: u64) -> Notice {
        let (name, provider_name) = ("late".to_owned(), "app".to_owned());
        let (provider, time) = (ProviderId(2), Nanos(time));
        Notice::Alert(Alert { name, provider, provider_name, pid: 7, uid: 0, time })
    }

    fn due(alerts: &mut Alerts, ended: u64) -> Vec<u64> {
        std::iter::from_fn(|| alerts.due(Nanos(ended))).map(|notice| notice.time().0).collect()
    }

    #[test]
    fn an_alert_waits_for_the_events_of_its_time() {
        let mut alerts = Alerts::default();
        alerts.hear([alert(10), alert(20)].into_iter());
        assert!(due(&mut alerts, 9).is_empty());
        assert_eq!(due(&mut alerts, 15), [10]);
        assert_eq!(due(&mut alerts, 20), [20]);
    }

    #[test]
    fn where_nothing_happens_it_does_not_wait_forever_and_at_the_end_not_at_all() {
        let mut alerts = Alerts::default();
        alerts.hear(std::iter::once(alert(10)));
        for _ in 0..2 {
            alerts.hear(std::iter::empty());
            assert!(due(&mut alerts, 5).is_empty());
        }
        alerts.hear(std::iter::once(alert(11)));
        assert_eq!(due(&mut alerts, 5), [10]);
        assert_eq!(alerts.rest(), Some(alert(11)));
        assert_eq!(alerts.rest(), None);
    }
}
