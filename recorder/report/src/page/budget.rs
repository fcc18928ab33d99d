//! The maximum size of a page, and the parts of a trace that are in it if not everything fits.
//!
//! ```text
//!  |-- markup, scripts, contents --|-- coarsest bins --|-- listed tiles --|-- finer bins --|-- tiles, evenly --|
//!                                    stacks, arguments, ...  ^                              fills what is left ^
//! ```
//!
//! Everything counts with its size in the file. If space is short, tiles of exact events are dropped first, then the finest bins; the
//! coarsest bins always stay. The tiles where the report's longest waits, blocked times and spans begin and end take precedence, because
//! readers go there; the others are spread evenly.

use std::io::{self, Write};

use super::spans::{Finished, Span};
use crate::Report;
use crate::analysis::DEFAULT_WORST;

/// The size of a page for each switch, wakeup and event of programs, and its minimum and maximum.
const FOR_AN_EVENT: u64 = 2;
const LEAST: u64 = 2_000_000;
const MOST: u64 = 10_000_000;

/// The size of the markup around the text of a block, without the block's number.
const AROUND_A_BLOCK: u64 = "<script type=\"text/plain\" id=\"block-\"></script>\n".len() as u64;

/// The number of digits of the longest block number.
const DIGITS: u64 = 8;

/// The maximum size of a page in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Budget {
    /// 2 bytes for each event, but at least 2 MB and at most 10 MB.
    #[default]
    ByEvents,
    /// This many bytes.
    Bytes(u64),
    /// Unlimited: everything is in the page.
    All,
}

impl Budget {
    /// The limit in bytes for a trace of `events` events; `None` means no limit.
    pub(super) fn limit(self, events: u64) -> Option<u64> {
        match self {
            Self::ByEvents => Some(events.saturating_mul(FOR_AN_EVENT).clamp(LEAST, MOST)),
            Self::Bytes(bytes) => Some(bytes),
            Self::All => None,
        }
    }
}

/// The size of a block in the file.
pub(super) fn cost(block: &[u8]) -> u64 {
    (block.len() as u64).div_ceil(3) * 4 + AROUND_A_BLOCK + DIGITS
}

/// The size of several blocks in the file.
pub(super) fn costs<'a>(blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> u64 {
    blocks.into_iter().map(|block| cost(block)).sum()
}

/// The remaining bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(pub(super) u64);

impl Room {
    /// Takes this many bytes, if they are available.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Takes this number of bytes, or all remaining ones.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.0 = self.0.saturating_sub(bytes);
    }

    /// This percentage of the remaining bytes.
    pub(super) fn percent(self, percent: u64) -> u64 {
        self.0 / 100 * percent
    }
}

/// Forwards output, and counts its bytes.
pub(super) struct Counted<'a>(pub(super) &'a mut dyn Write, pub(super) u64);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The tile that contains a time, given the starts of the tiles.
fn tile_at(starts: &[u64], time: u64) -> usize {
    starts.partition_point(|&start| start <= time).saturating_sub(1)
}

/// The tiles at the beginning and the end of each listed interval: first those of the longest entry of each list, then of the second of
/// each, and so on. The first and the last tile of the trace follow the first entry of each list. Tiles may occur twice.
pub(super) fn listed(report: &Report, spans: &Finished, starts: &[u64]) -> Vec<usize> {
    let waits = report.worst().iter().map(|wait| (wait.span.begin.0, wait.span.end.0));
    let blocked = report.blocked();
    let blocked = blocked.sleeps.iter().map(|it| (it.span.begin.0, it.span.end.0));
    let spans: Vec<&Span> = spans.longest(DEFAULT_WORST);
    let spans = spans.iter().map(|span| (span.start, span.end));
    let mut lists: [Vec<(u64, u64)>; 3] = [waits.collect(), blocked.collect(), spans.collect()];
    let mut found = Vec::new();
    for rank in 0..lists.iter().map(Vec::len).max().unwrap_or_default() {
        for (begin, end) in lists.iter_mut().filter_map(|list| list.get(rank)) {
            found.extend([tile_at(starts, *begin), tile_at(starts, *end)]);
        }
        if rank == 0 {
            found.extend([0, starts.len().saturating_sub(1)]);
        }
    }
    found.extend([0, starts.len().saturating_sub(1)]);
    found
}

/// The tiles that are kept: first the wanted ones, as long as they fit into `for_wanted`.
pub(super) fn evenly(count: usize) -> impl Iterator<Item = usize> {
    let bits = count.max(1).next_power_of_two().trailing_zeros();
    let reversed = move |number: usize| match bits {
        0 => 0,
        bits => number.reverse_bits() >> (usize::BITS - bits),
    };
    (0..1_usize << bits).map(reversed).filter(move |&number| number < count)
}

/// The tiles that stay: first the wanted ones, as long as they fit into `for_wanted`.
#[derive(Debug)]
pub(super) struct Kept(pub(super) Vec<bool>);

impl Kept {
    /// Takes the tiles of `wanted` that fit, given the size of each.
    pub(super) fn take(
        &mut self,
        costs: &[u64],
        wanted: impl Iterator<Item = usize>,
        room: &mut Room,
    ) {
        for tile in wanted {
            if let (Some(kept @ false), Some(&cost)) = (self.0.get_mut(tile), costs.get(tile)) {
                *kept = room.take(cost);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_2_mb_for_a_million_events_up_to_10_mb() {
        let limit = |events| Budget::ByEvents.limit(events);
        assert_eq!(
            [0, 1_000_000, 3_000_000, u64::MAX].map(limit),
            [Some(2_000_000), Some(2_000_000), Some(6_000_000), Some(10_000_000)]
        );
        assert_eq!((Budget::All.limit(5), Budget::Bytes(7).limit(5)), (None, Some(7)));
    }

    #[test]
    fn any_first_few_numbers_are_spread_evenly() {
        assert_eq!(evenly(8).collect::<Vec<_>>(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(evenly(5).collect::<Vec<_>>(), [0, 4, 2, 1, 3]);
        assert_eq!((evenly(1).collect::<Vec<_>>(), evenly(0).count()), (vec![0], 0));
        for count in 2..70 {
            let mut all: Vec<_> = evenly(count).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tiles_are_taken_in_the_order_of_wishes_while_there_is_room() {
        let mut kept = Kept(vec![false; 4]);
        let mut room = Room(10);
        kept.take(&[4, 9, 5, 1], [2, 1, 2, 0, 9, 3].into_iter(), &mut room);
        assert_eq!((kept.0, room.0), (vec![true, false, true, true], 0));
    }
}
