//! The pyramid: all lanes at several zoom levels, so that a page can show any part of a long trace without unfolding its events.
//!
//! ```text
//!  level 0   |                2 048 bins                  |   one chunk, in view at once
//!  level 1   |   2 048    |          |         |          |   four chunks
//!  level 2   |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |   sixteen
//!  tiles     ||||||||||||||||||||||||||||||||||||||||||||||   the events themselves
//! ```
//!
//! The finest level is computed from the tiles, every other level from the next finer one. A chunk is a block of 2 048 bins of all lanes
//! with known states.

use std::io;
use std::mem::take;

use super::bins::{Cell, CpuCell, CpuTimes, MERGED, Run, Runs, ThreadCell, ThreadTimes};
use super::columns::Column;
use super::lanes::Observer;
use super::packer::Packer;
use super::state::{self, State};
use super::threads::ThreadIndex;

pub(super) const CHUNK_BINS: u32 = 2048;

/// Bins of the finest level per tile: enough for a window of as many tiles as the page unfolds at once.
const BINS_PER_TILE: u64 = 64;

/// The finest level has at most `CHUNK_BINS` times 4 to the power of this many bins.
const MAX_LEVEL: u32 = 8;

/// How time is divided into bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// The begin of the first bin, in nanoseconds of the trace's clock.
    pub(super) start: u64,
    /// The length of a bin of the finest level, in nanoseconds.
    pub(super) width: u64,
    /// The number of the finest level; the coarsest is 0.
    pub(super) finest: u32,
}

impl Scale {
    /// The scale for a trace with these times and this many tiles.
    pub(super) fn new(start: u64, end: u64, tiles: usize) -> Self {
        let enough = |&level: &u32| bins(level) >= BINS_PER_TILE * tiles as u64;
        let finest = (0..MAX_LEVEL).find(enough).unwrap_or(MAX_LEVEL);
        let width = end.saturating_sub(start).div_ceil(bins(finest)).max(1);
        Self { start, width, finest }
    }

    /// The length of a bin of a level, in nanoseconds.
    pub(super) fn width_at(&self, level: u32) -> u64 {
        self.width.saturating_mul((MERGED as u64).pow(self.finest - level))
    }

    /// The begins of a level's chunks.
    pub(super) fn chunk_starts(&self, level: u32) -> Vec<u64> {
        let length = self.width_at(level).saturating_mul(CHUNK_BINS.into());
        let chunks = (MERGED as u64).pow(level);
        (0..chunks).map(|chunk| self.start.saturating_add(chunk.saturating_mul(length))).collect()
    }
}

/// The number of bins of a level.
fn bins(level: u32) -> u64 {
    u64::from(CHUNK_BINS) * (MERGED as u64).pow(level)
}

/// A lane whose finest bins are being computed.
#[derive(Debug, Default)]
struct Lane<C, T> {
    runs: Runs<C>,
    /// The bin that is being filled.
    bin: u32,
    times: T,
}

/// Computes the finest level from the intervals of the [lanes](super::lanes::Lanes).
#[derive(Debug)]
pub(super) struct Pyramid {
    scale: Scale,
    cpus: Vec<Lane<CpuCell, CpuTimes>>,
    threads: Vec<Lane<ThreadCell, ThreadTimes>>,
}

/// A part of a bin.
struct Piece {
    bin: u32,
    time: u64,
}

impl Pyramid {
    /// An empty pyramid.
    pub(super) fn new(scale: Scale) -> Self {
        Self { scale, cpus: Vec::new(), threads: Vec::new() }
    }

    /// The first and the last bin of an interval, with the time in each; the bins in between are full.
    fn pieces(&self, from: u64, to: u64) -> Option<(Piece, Option<Piece>)> {
        let Scale { start, width, .. } = self.scale;
        let (from, to) = (from.max(start) - start, to.max(start) - start);
        if from >= to {
            return None;
        }
        let bin = |time: u64| u32::try_from(time / width).unwrap_or(u32::MAX);
        let (first, last) = (bin(from), bin(to));
        if first == last {
            return Some((Piece { bin: first, time: to - from }, None));
        }
        let before = Piece { bin: first, time: width - from % width };
        Some((before, Some(Piece { bin: last, time: to % width })))
    }

    /// The bins of all levels.
    pub(super) fn finish(mut self) -> Levels {
        let width = self.scale.width;
        let mut cpus: Vec<Runs<CpuCell>> = Vec::new();
        for lane in &mut self.cpus {
            let cell = lane.times.take(width);
            lane.runs.until(lane.bin + 1, cell);
            cpus.push(take(&mut lane.runs));
        }
        let mut threads: Vec<Runs<ThreadCell>> = Vec::new();
        for lane in &mut self.threads {
            lane.runs.until(lane.bin + 1, lane.times.cell(width));
            threads.push(take(&mut lane.runs));
        }
        let mut levels = vec![Level { cpus, threads }];
        for _ in 0..self.scale.finest {
            let coarser = levels.last().map(Level::merged).unwrap_or_default();
            levels.push(coarser);
        }
        levels.reverse();
        Levels(levels)
    }
}

/// The bins of all lanes at one zoom level.
#[derive(Debug, Default)]
struct Level {
    cpus: Vec<Runs<CpuCell>>,
    threads: Vec<Runs<ThreadCell>>,
}

impl Level {
    fn merged(&self) -> Self {
        Self {
            cpus: self.cpus.iter().map(Runs::merged).collect(),
            threads: self.threads.iter().map(Runs::merged).collect(),
        }
    }

    /// Repeats each bin `times` times.
    fn stretched(&self, times: u32) -> Self {
        Self {
            cpus: self.cpus.iter().map(|runs| runs.stretched(times)).collect(),
            threads: self.threads.iter().map(|runs| runs.stretched(times)).collect(),
        }
    }
}

/// The bins of all levels, the coarsest first.
#[derive(Debug)]
pub(super) struct Levels(Vec<Level>);

impl Levels {
    /// The chunks of a level, packed.
    ///
    /// # Errors
    ///
    /// The errors of the compressor, which does not fail here.
    pub(super) fn pack(&self, level: usize) -> io::Result<Vec<Vec<u8>>> {
        let Some(bins) = self.0.get(level) else { return Ok(Vec::new()) };
        let chunks = MERGED.pow(u32::try_from(level).unwrap_or(MAX_LEVEL));
        let mut packer = Packer::default();
        pack_chunks(&bins.cpus, &bins.threads, chunks, &mut packer)?;
        packer.finish()
    }

    /// The only chunk of the coarsest level. If it is too large for `fits`, neighbouring bins get equal content: four, sixteen, ... of
    /// them, up to all. Also returns how many bins have equal content.
    ///
    /// # Errors
    ///
    /// The errors of the compressor, which does not fail here.
    pub(super) fn pack_coarsest(&self, fits: impl Fn(&[u8]) -> bool) -> io::Result<(Vec<u8>, u32)> {
        let mut chunk = self.pack(0)?.pop().unwrap_or_default();
        let mut coarser: Option<Level> = None;
        let mut times = 1;
        while !fits(&chunk) && times < CHUNK_BINS {
            times *= MERGED as u32;
            let merged = coarser.as_ref().or(self.0.first()).map(Level::merged).unwrap_or_default();
            chunk = Self(vec![merged.stretched(times)]).pack(0)?.pop().unwrap_or_default();
            coarser = Some(merged);
        }
        Ok((chunk, times))
    }
}

impl Observer for Pyramid {
    fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64) {
        let Some((first, last)) = self.pieces(from, to) else { return };
        let width = self.scale.width;
        let lane = at(&mut self.cpus, usize::from(cpu));
        lane.advance(first.bin, CpuCell::default(), |times| times.take(width));
        lane.times.add(thread, first.time);
        if let Some(last) = last {
            let mut full = CpuTimes::default();
            full.add(thread, width);
            lane.advance(last.bin, full.take(width), |times| times.take(width));
            lane.times.add(thread, last.time);
        }
    }

    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64) {
        self.spent(thread, (state, 0), from, to);
    }

    fn ran_less(&mut self, thread: ThreadIndex, stolen: u64, from: u64, to: u64) {
        self.spent(thread, (State::Running, stolen), from, to);
    }
}

impl Pyramid {
    /// A thread was in a state, and the host took a part of that time. It is unknown when, so every bin gets its share.
    fn spent(&mut self, thread: ThreadIndex, (state, stolen): (State, u64), from: u64, to: u64) {
        if !state::is_shown(state) {
            return;
        }
        let length = u128::from(to.saturating_sub(from).max(1));
        let part = |time: u64| {
            let part = u128::from(stolen.min(to.saturating_sub(from))) * u128::from(time) / length;
            u64::try_from(part).unwrap_or(time)
        };
        let add = |times: &mut ThreadTimes, time: u64| {
            times.add(state, time);
            times.steal(part(time));
        };
        let Some((first, last)) = self.pieces(from, to) else { return };
        let width = self.scale.width;
        let lane = at(&mut self.threads, thread.index());
        lane.advance(first.bin, ThreadCell::default(), |times| take(times).cell(width));
        add(&mut lane.times, first.time);
        if let Some(last) = last {
            let mut full = ThreadTimes::default();
            add(&mut full, width);
            lane.advance(last.bin, full.cell(width), |times| take(times).cell(width));
            add(&mut lane.times, last.time);
        }
    }
}

impl<C: Cell, T> Lane<C, T> {
    /// Advances to `bin`; the bins that are skipped get the cell `between`.
    fn advance(&mut self, bin: u32, between: C, cell: impl FnOnce(&mut T) -> C) {
        if bin > self.bin {
            let done = cell(&mut self.times);
            self.runs.until(self.bin + 1, done);
            self.runs.until(bin, between);
            self.bin = bin;
        }
    }
}

fn at<C: Cell, T: Default>(lanes: &mut Vec<Lane<C, T>>, index: usize) -> &mut Lane<C, T> {
    if index >= lanes.len() {
        lanes.resize_with(index + 1, Lane::default);
    }
    &mut lanes[index]
}

fn pack_chunks(
    cpus: &[Runs<CpuCell>],
    threads: &[Runs<ThreadCell>],
    chunks: usize,
    packer: &mut Packer,
) -> io::Result<()> {
    let mut cpus = Cutter::new(cpus);
    let mut threads = Cutter::new(threads);
    for chunk in 0..chunks {
        let from = u32::try_from(chunk).unwrap_or(u32::MAX).saturating_mul(CHUNK_BINS);
        let mut columns: [Column; 9] = Default::default();
        let [lanes, counts, lengths, shares, on, t_lanes, t_counts, t_lengths, t_shares] =
            &mut columns;
        cpus.cut(from, [lanes, counts, lengths], |cell| {
            shares.byte(nibbles(cell.busy, cell.known));
            on.number(cell.thread.0.into());
        });
        threads.cut(from, [t_lanes, t_counts, t_lengths], |cell| {
            t_shares.byte(nibbles(cell.running, cell.waiting));
            t_shares.byte(nibbles(cell.uninterruptible, cell.other));
            t_shares.byte(nibbles(cell.throttled, cell.stolen));
        });
        packer.take(columns.into())?;
    }
    Ok(())
}

/// Two shares of at most 15 in one byte.
fn nibbles(high: u8, low: u8) -> u8 {
    high * 16 + low
}

/// Cuts lanes into chunks, from the first to the last.
struct Cutter<'a, C> {
    /// The remaining runs of each lane.
    left: Vec<&'a [Run<C>]>,
}

impl<'a, C: Cell> Cutter<'a, C> {
    fn new(lanes: &'a [Runs<C>]) -> Self {
        Self { left: lanes.iter().map(|runs| runs.0.as_slice()).collect() }
    }

    /// Writes lane number, number of runs and lengths of runs, for all lanes that are not empty in the chunk that begins with bin `from`;
    /// calls `cell` for each run.
    fn cut(&mut self, from: u32, columns: [&mut Column; 3], mut cell: impl FnMut(&C)) {
        let [lanes, counts, lengths] = columns;
        let end = from + CHUNK_BINS;
        let mut next = 0;
        for (index, left) in self.left.iter_mut().enumerate() {
            let within = left.partition_point(|run| run.end <= end);
            // A run that crosses the chunk's end also belongs to the next one.
            let reached = left.get(..left.len().min(within + 1)).unwrap_or_default();
            let mut at = from;
            let mut count = 0;
            if reached.iter().any(|run| run.cell != C::default()) {
                for run in reached {
                    let until = run.end.min(end);
                    if until > at {
                        lengths.number(u64::from(until - at));
                        cell(&run.cell);
                        count += 1;
                        at = until;
                    }
                }
            }
            if count > 0 {
                lanes.number((index - next) as u64);
                next = index + 1;
                counts.number(count);
            }
            *left = left.get(within..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{Cursor, unpack};
    use super::*;

    /// The chunks of each level.
    fn packed(pyramid: Pyramid) -> Vec<Vec<Vec<u8>>> {
        let levels = pyramid.finish();
        (0..levels.0.len()).map(|level| levels.pack(level).unwrap()).collect()
    }

    /// Lane, number of runs and length of each run in a chunk of threads.
    fn thread_columns(block: &[u8]) -> [Vec<u64>; 4] {
        let bytes = unpack(block).unwrap();
        let mut columns = Cursor::new(&bytes);
        for _ in 0..5 {
            columns.column().unwrap();
        }
        std::array::from_fn(|index| {
            let mut column = columns.column().unwrap();
            std::iter::from_fn(|| {
                if index == 3 { column.byte().map(u64::from) } else { column.number() }
            })
            .collect()
        })
    }

    #[test]
    fn levels_get_finer_until_a_few_tiles_fill_a_window() {
        let scale = Scale::new(1_000, 1_000_000_000_000, 122);
        assert_eq!(scale.finest, 1);
        assert!(scale.width * 8192 >= 999_999_999_000);
        assert_eq!(scale.width_at(0), 4 * scale.width_at(1));
        let starts = scale.chunk_starts(1);
        assert_eq!((starts.len(), starts[0]), (4, 1_000));
        assert_eq!(starts[1] - starts[0], 2048 * scale.width);
        assert_eq!(Scale::new(5, 5, 0), Scale { start: 5, width: 1, finest: 0 });
    }

    #[test]
    fn a_chunk_holds_the_runs_of_lanes_with_anything_in_it() {
        // Bins of 10 ns at the finest level, which has four chunks; two of them are used.
        let scale = Scale { start: 1_000, width: 10, finest: 1 };
        let mut pyramid = Pyramid::new(scale);
        let thread = ThreadIndex(2);
        // Half of bin 0, bins 1 to 2999, and half of bin 3000.
        pyramid.in_state(thread, State::Running, 1_005, 1_000 + 30_000 + 5);
        let levels = packed(pyramid);
        assert_eq!(levels.iter().map(Vec::len).collect::<Vec<_>>(), [1, 4]);
        let half = u64::from(nibbles(8, 0));
        let full = u64::from(nibbles(15, 0));
        let [lanes, counts, lengths, shares] = thread_columns(&levels[1][0]);
        assert_eq!((lanes, counts, lengths), (vec![2], vec![2], vec![1, 2047]));
        assert_eq!(shares, [half, 0, 0, full, 0, 0]);
        let [lanes, _, lengths, shares] = thread_columns(&levels[1][1]);
        assert_eq!((lanes, lengths), (vec![2], vec![952, 1]));
        assert_eq!(shares, [full, 0, 0, half, 0, 0]);
        assert!(thread_columns(&levels[1][2])[0].is_empty());
        let [_, _, lengths, shares] = thread_columns(&levels[0][0]);
        assert_eq!(lengths, [1, 749, 1]);
        assert_eq!(shares[..6], [u64::from(nibbles(13, 0)), 0, 0, full, 0, 0]);
    }

    #[test]
    fn what_the_host_took_is_spread_over_the_slice_and_throttled_time_is_no_wait() {
        let mut pyramid = Pyramid::new(Scale { start: 0, width: 100, finest: 0 });
        let thread = ThreadIndex(1);
        pyramid.ran_less(thread, 100, 0, 300);
        pyramid.in_state(thread, State::Throttled, 300, 400);
        let levels = packed(pyramid);
        let [_, _, lengths, shares] = thread_columns(&levels[0][0]);
        // Three bins, a third of which was stolen; one that was throttled; and the empty bin that ends the lane.
        assert_eq!(lengths, [3, 1, 1]);
        let (ran, held) = ([nibbles(10, 0), 0, nibbles(0, 5)], [0, 0, nibbles(15, 0)]);
        assert_eq!(
            shares[..6],
            [ran, held].concat().into_iter().map(u64::from).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_bins_of_a_cpu_name_who_had_most_of_it() {
        let mut pyramid = Pyramid::new(Scale { start: 0, width: 10, finest: 0 });
        pyramid.on_cpu(1, ThreadIndex(5), 0, 4);
        pyramid.on_cpu(1, ThreadIndex(6), 4, 10);
        pyramid.on_cpu(1, ThreadIndex::IDLE, 10, 40);
        let levels = packed(pyramid);
        let bytes = unpack(&levels[0][0]).unwrap();
        let mut columns = Cursor::new(&bytes);
        let mut column = || columns.column().unwrap();
        let (mut lanes, mut counts, mut lengths, mut shares, mut on) =
            (column(), column(), column(), column(), column());
        assert_eq!((lanes.number(), lanes.number()), (Some(1), None));
        // A bin that is idle, three times, and the empty bin that ends the lane.
        assert_eq!(counts.number(), Some(3));
        assert_eq!([lengths.number(), lengths.number()], [Some(1), Some(3)]);
        assert_eq!([shares.byte(), shares.byte()], [Some(0xff), Some(0x0f)]);
        assert_eq!([on.number(), on.number()], [Some(6), Some(0)]);
    }
}
