//! The events of one page.
//!
//! Times are relative: the page has the time of its first event, and each event has the difference to the previous one. If a difference is
//! too large for that, an extra event adds to it.
//!
//! ```text
//!   page at 1000   | length 40, delta 0 | ...payload | length 64, delta 250 | ...payload | time_extend | ...
//!                    1000                              1250
//! ```

use super::layout::PageLayout;
use crate::units::Nanos;

/// The unit of lengths, in bytes; also the size of an event's first word.
const UNIT: usize = 4;

#[derive(Clone, Debug)]
pub struct Page<'a> {
    layout: &'a PageLayout,
    data: &'a [u8],
    time: u64,
    /// Whether events before the page's first one were overwritten, and how many, if the kernel had space for the number.
    pub missed: Option<Option<u64>>,
    /// Whether it has invalid data, so that the rest was not read.
    garbled: bool,
}

impl<'a> Page<'a> {
    /// Parses a page; `None` if its head is invalid.
    pub fn new(layout: &'a PageLayout, page: &'a [u8]) -> Option<Page<'a>> {
        let head = layout.head(page)?;
        let (time, data, missed) = (head.timestamp, head.data, head.missed);
        Some(Page { layout, data, time, missed, garbled: false })
    }

    /// The time of the event that was read last; at first, of the page.
    pub fn time(&self) -> Nanos {
        Nanos(self.time)
    }

    /// Whether the page ended before its end because of invalid data.
    pub fn is_garbled(&self) -> bool {
        self.garbled
    }

    /// The next event's time and bytes, which begin with the fields that all tracepoints have.
    #[inline]
    pub fn next_event(&mut self) -> Option<(Nanos, &'a [u8])> {
        loop {
            if self.data.is_empty() {
                return None;
            }
            let word = self.take_u32()?;
            let (kind, delta) = self.layout.split(word);
            if kind == self.layout.padding {
                self.skip_padding(delta)?;
            } else if kind == self.layout.time_extend {
                let array = self.take_u32()?;
                self.time = self.time.wrapping_add(self.layout.long_time(array, delta));
            } else if Some(kind) == self.layout.time_stamp {
                let array = self.take_u32()?;
                self.set_time(self.layout.long_time(array, delta));
            } else {
                self.time = self.time.wrapping_add(delta);
                let bytes = self.payload(kind)?;
                return Some((Nanos(self.time), bytes));
            }
        }
    }

    #[inline]
    fn payload(&mut self, kind: u32) -> Option<&'a [u8]> {
        let bytes = match kind {
            // The length does not fit into the bits: the next word contains it, including itself.
            0 => (self.take_u32()? as usize).checked_sub(UNIT),
            _ if kind <= self.layout.data_max => Some(kind as usize * UNIT),
            _ => None,
        };
        match bytes {
            Some(bytes) => self.take(bytes),
            None => self.give_up(),
        }
    }

    /// A discarded event, or, without a delta, the unused end of the page.
    #[cold]
    fn skip_padding(&mut self, delta: u64) -> Option<()> {
        if delta == 0 {
            self.data = &[];
            return None;
        }
        self.time = self.time.wrapping_add(delta);
        match (self.take_u32()? as usize).checked_sub(UNIT) {
            Some(bytes) => self.take(bytes).map(drop),
            None => self.give_up(),
        }
    }

    /// An absolute time does not contain the uppermost bits; they are copied from the previous time.
    #[cold]
    fn set_time(&mut self, stamp: u64) {
        let beyond = self.layout.beyond_stamp();
        let time = stamp | (self.time & beyond);
        let lap = beyond & beyond.wrapping_neg();
        self.time =
            if time < self.time && self.time & beyond != 0 { time.wrapping_add(lap) } else { time };
    }

    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        // Payloads are padded to whole units.
        let whole = len.next_multiple_of(UNIT);
        match self.data.split_at_checked(whole) {
            Some((taken, rest)) => {
                self.data = rest;
                Some(taken)
            }
            None => self.give_up(),
        }
    }

    #[inline]
    fn take_u32(&mut self) -> Option<u32> {
        match self.data.split_first_chunk() {
            Some((taken, rest)) => {
                self.data = rest;
                Some(u32::from_ne_bytes(*taken))
            }
            None => self.give_up(),
        }
    }

    #[cold]
    fn give_up<T>(&mut self) -> Option<T> {
        self.garbled = true;
        self.data = &[];
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::layout;
    use super::*;

    /// A page as the kernel would write it.
    struct Written {
        layout: PageLayout,
        data: Vec<u8>,
    }

    impl Written {
        fn new() -> Written {
            Written { layout: layout(), data: Vec::new() }
        }

        fn words(mut self, words: &[u32]) -> Written {
            words.iter().for_each(|word| self.data.extend(word.to_ne_bytes()));
            self
        }

        fn event(self, kind: u32, delta: u32, rest: &[u32]) -> Written {
            let word = self.layout.word(kind, delta);
            self.words(&[word]).words(rest)
        }

        fn page(&self, time: u64, flags: u64) -> Vec<u8> {
            let mut page = time.to_ne_bytes().to_vec();
            let stored = flags & (1 << 30) != 0;
            let len = self.data.len() - if stored { 8 } else { 0 };
            page.extend((len as u64 | flags).to_ne_bytes());
            page.extend(&self.data);
            page.resize(4096, 0xee);
            page
        }

        /// Times and payloads' first words, and whether the page was invalid.
        fn read(&self, time: u64) -> (Vec<(u64, usize, u32)>, bool) {
            let bytes = self.page(time, 0);
            let mut page = Page::new(&self.layout, &bytes).expect("a head");
            let mut found = Vec::new();
            while let Some((time, raw)) = page.next_event() {
                let first = u32::from_ne_bytes(*raw.first_chunk().expect("a word"));
                found.push((time.0, raw.len(), first));
            }
            (found, page.is_garbled())
        }
    }

    #[test]
    fn the_picture_holds() {
        let written = Written::new()
            .event(10, 0, &[7; 10])
            .event(16, 250, &[8; 16])
            .event(30, 1, &[2])
            .event(1, 5, &[9]);
        let far = 1250 + (2 << 27) + 1 + 5;
        assert_eq!(written.read(1000), (vec![(1000, 40, 7), (1250, 64, 8), (far, 4, 9)], false));
    }

    #[test]
    fn a_long_event_says_its_length_in_a_word_of_its_own() {
        // 4 bytes for the word itself, 126 of payload, padded to 128.
        let written = Written::new().event(0, 3, &[130]).words(&[5; 32]).event(1, 1, &[6]);
        assert_eq!(written.read(0), (vec![(3, 128, 5), (4, 4, 6)], false));
    }

    #[test]
    fn an_absolute_time_replaces_the_one_before() {
        let written = Written::new().event(1, 5, &[1]).event(31, 77, &[3]).event(1, 0, &[2]);
        let stamp = (3 << 27) + 77;
        assert_eq!(written.read(100), (vec![(105, 4, 1), (stamp, 4, 2)], false));
        // Bits that do not fit into a time stamp are unchanged.
        let high = 1 << 60;
        let expected = vec![(high + 5, 4, 1), (high + stamp, 4, 2)];
        assert_eq!(written.read(high), (expected, false));
    }

    #[test]
    fn a_stamp_that_seems_to_go_back_is_one_lap_further() {
        let written = Written::new().event(31, 77, &[3]).event(1, 0, &[2]);
        let before = (3 << 59) - 10;
        assert_eq!(written.read(before), (vec![((3 << 59) + (3 << 27) + 77, 4, 2)], false));
    }

    #[test]
    fn discarded_events_are_skipped_and_the_unused_end_is_not_read() {
        let written = Written::new()
            .event(29, 10, &[12, 0, 0])
            .event(1, 1, &[4])
            .event(29, 0, &[])
            .event(1, 1, &[5]);
        assert_eq!(written.read(0), (vec![(11, 4, 4)], false));
    }

    #[test]
    fn a_length_that_cannot_be_true_ends_the_page_and_is_reported() {
        for written in [
            Written::new().event(1, 1, &[4]).event(20, 1, &[1]),
            Written::new().event(1, 1, &[4]).event(0, 1, &[3]),
            Written::new().event(1, 1, &[4]).event(0, 1, &[u32::MAX]),
            Written::new().event(1, 1, &[4]).event(29, 1, &[2]),
            Written::new().event(1, 1, &[4]).event(30, 1, &[]),
        ] {
            assert_eq!(written.read(0), (vec![(1, 4, 4)], true));
        }
    }

    #[test]
    fn a_head_that_promises_more_than_the_page_holds_is_none() {
        let layout = layout();
        let mut page = Written::new().page(0, 0);
        page[8..12].copy_from_slice(&4081u32.to_ne_bytes());
        assert!(Page::new(&layout, &page).is_none());
        assert!(Page::new(&layout, &page[..12]).is_none());
    }

    #[test]
    fn missed_events_are_reported_with_their_number_where_it_was_stored() {
        let layout = layout();
        let written = Written::new().event(1, 1, &[4]).words(&[321, 0]);
        let bytes = written.page(0, (1 << 31) | (1 << 30));
        let mut page = Page::new(&layout, &bytes).expect("a head");
        assert_eq!(page.missed, Some(Some(321)));
        assert!(page.next_event().is_some() && page.next_event().is_none());
        assert!(!page.is_garbled());
        let bytes = Written::new().event(1, 1, &[4]).page(0, 1 << 31);
        assert_eq!(Page::new(&layout, &bytes).expect("a head").missed, Some(None));
        let bytes = Written::new().page(0, 0);
        assert_eq!(Page::new(&layout, &bytes).expect("a head").missed, None);
    }
}
