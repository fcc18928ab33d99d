//! A cache of recent responses, so that frequent requests cost only a bounded share of a CPU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::format::Format;

/// A response is reused for this many times as long as it took to create.
const TIMES: u32 = 4;

/// The longest reuse: a scraper that asks every second gets new figures.
const MOST: Duration = Duration::from_millis(900);

/// The last response in each format.
#[derive(Debug, Default)]
pub(super) struct Rendered(Vec<(Format, Instant, Arc<[u8]>)>);

impl Rendered {
    /// The response in this format, if it is still fresh at `now`.
    pub(super) fn of(&mut self, format: Format, now: Instant) -> Option<Arc<[u8]>> {
        self.0.retain(|(_, until, _)| now < *until);
        let found = self.0.iter().find(|(of, _, _)| *of == format);
        found.map(|(_, _, answer)| answer.clone())
    }

    /// Stores a response that was created between these two times.
    pub(super) fn keep(
        &mut self,
        format: Format,
        (begun, made): (Instant, Instant),
        answer: Arc<[u8]>,
    ) {
        let good_for = (made.saturating_duration_since(begun) * TIMES).min(MOST);
        self.0.retain(|(of, _, _)| *of != format);
        self.0.push((format, made + good_for, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_to_all_who_ask_while_it_is_new_and_to_nobody_later() {
        let (mut rendered, begun) = (Rendered::default(), Instant::now());
        let after = |millis| begun + Duration::from_millis(millis);
        assert_eq!(rendered.of(Format::Plain, begun), None);
        rendered.keep(Format::Plain, (begun, after(100)), b"dear".as_slice().into());
        for millis in [100, 300, 499] {
            let found = rendered.of(Format::Plain, after(millis));
            assert_eq!(found.as_deref(), Some(b"dear".as_slice()), "{millis}");
            assert_eq!(rendered.of(Format::Protobuf, after(millis)), None, "another format");
        }
        assert_eq!(rendered.of(Format::Plain, after(500)), None);
        // A response that took very long to create, as on a busy machine.
        rendered.keep(Format::Plain, (begun, after(5000)), b"dearer".as_slice().into());
        assert!(rendered.of(Format::Plain, after(5899)).is_some());
        assert_eq!(rendered.of(Format::Plain, after(5900)), None);
    }
}
