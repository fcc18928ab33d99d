//! Chooses the parts of a trace that are in its page, and numbers the blocks: the [budget](super::budget) describes how.

use std::io;

use serde_json::Value;

use super::bins::MERGED;
use super::budget::{self, Kept, Room, cost, costs};
use super::columns::{self, Column};
use super::extract::Extract;
use super::meta::{Blocks, EventBlocks};
use super::pyramid::{Levels, Scale};
use super::span_blocks;
use super::spans::Finished;
use super::stacks::{self, Chosen, Placing};
use crate::Report;
use crate::stacks::Recorded;

/// The percentage of the remaining space that each part may take if not everything fits, in this order: the coarsest bins; the coarsest
/// spans; data that programs report in addition to spans; stacks; the listed tiles. Finer bins and other tiles share the rest.
const FOR_BINS: u64 = 40;
const FOR_SPANS: u64 = 20;
const FOR_EVENT_BLOCKS: u64 = 15;
const FOR_STACKS: u64 = 30;
const FOR_LISTED: u64 = 50;

/// The size of a chunk's entry in the table of contents, in bytes.
const CHUNK_ENTRY: u64 = 22;

/// The maximum size of the text about stacks in the table of contents, in bytes.
const STACKS_ENTRY: usize = 1_500;

/// The highest block number.
const HIGHEST: usize = 99_999_999;

/// Maximum number of halvings; after that, nothing is left.
const MOST_ROUNDS: u32 = 80;

/// If the spans of the coarsest level take too much space, spans that are closer than a width are merged. This limits the width, in bins of
/// that level.
const LONGEST: u64 = 4096;

/// A chunk: the block of its bins, and that of its spans.
type Chunk = (Vec<u8>, Option<Vec<u8>>);

/// The chosen stacks, and their blocks.
type Stacks = (Chosen, Vec<Vec<u8>>);

/// The requested content of the page, if it fits.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) extract: &'a mut Extract,
    pub(super) recorded: &'a Recorded,
    pub(super) placing: Option<Placing<'a>>,
    pub(super) levels: Levels,
    pub(super) scale: Scale,
    pub(super) spans: &'a Finished,
    pub(super) starts: &'a [u64],
    pub(super) begin: u64,
}

/// The content of the page.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) blocks: Blocks,
    pub(super) data: Vec<Vec<u8>>,
    pub(super) stacks: Option<Value>,
    pub(super) event_blocks: EventBlocks,
    /// Whether stacks, or other data of programs, were reduced.
    pub(super) is_thinned: bool,
}

impl Fitted {
    /// An upper bound for a trace with this many tiles, to measure the table of contents without the levels.
    pub(super) fn all(extract: &Extract, tiles: usize, has_stacks: bool) -> Self {
        let number = Some(HIGHEST);
        let blocks = Blocks {
            tiles: vec![Some((number, number)); tiles],
            levels: vec![vec![(HIGHEST, number)]],
            levels_left_out: 0,
            alike: 1,
        };
        let stacks = has_stacks.then(|| "x".repeat(STACKS_ENTRY).into());
        let event_blocks = EventBlocks {
            arguments: number.filter(|_| !extract.arguments.is_empty()),
            flows: number.filter(|_| extract.flows.len() > 0),
            counters: number.filter(|_| !extract.counters.is_empty()),
        };
        Self { blocks, data: Vec::new(), stacks, event_blocks, is_thinned: false }
    }
}

impl Parts<'_> {
    /// Takes what fits.
    ///
    /// # Errors
    ///
    /// Returns an error when a block cannot be packed.
    pub(super) fn fit(mut self, mut room: Room, report: &Report) -> io::Result<Fitted> {
        let (coarsest, mut alike) = self.coarsest(Room(u64::MAX))?;
        let mut levels = vec![vec![coarsest]];
        let exact = span_blocks::blocks(&self.spans.list, self.starts)?;
        let tile_costs = self.tile_costs(&exact);
        let mut event_blocks = self.event_blocks()?;
        let events = self.extract.switches + self.extract.wakeups;
        let mut stacks = self.stacks(stacks::room(events), u64::MAX)?;
        let mut kept = Kept(vec![true; exact.len()]);
        let mut is_thinned = false;
        let mut left = room;
        let besides = costs(event_blocks.iter().flatten()) + cost_of_stacks(stacks.as_ref());
        let tiles = tile_costs.iter().sum::<u64>();
        let fits =
            left.take(tiles + besides + levels.iter().map(|it| cost_of_level(it)).sum::<u64>());
        if !fits || !self.finer(&mut levels, &mut left)? {
            // The levels that were packed before the tiles turned out to be too large.
            let mut packed = levels.split_off(1).into_iter();
            let (coarsest, look_alike) = self.coarsest(room)?;
            alike = look_alike;
            levels = vec![vec![coarsest]];
            room.spend(levels.iter().map(|it| cost_of_level(it)).sum());
            self.thin_event_blocks(&mut event_blocks, room.percent(FOR_EVENT_BLOCKS))?;
            room.spend(costs(event_blocks.iter().flatten()));
            let share = room.percent(FOR_STACKS);
            if cost_of_stacks(stacks.as_ref()) > share {
                stacks = self.stacks(stacks::room(events).min(share), share)?;
            }
            room.spend(cost_of_stacks(stacks.as_ref()));
            is_thinned =
                besides != costs(event_blocks.iter().flatten()) + cost_of_stacks(stacks.as_ref());
            kept = Kept(vec![false; exact.len()]);
            let listed = budget::listed(report, self.spans, self.starts);
            let mut for_listed = Room(room.percent(FOR_LISTED));
            room.spend(for_listed.0);
            kept.take(&tile_costs, listed.into_iter(), &mut for_listed);
            room.0 = room.0.saturating_add(for_listed.0);
            levels.extend(packed.by_ref().take_while(|level| room.take(cost_of_level(level))));
            if packed.next().is_none() {
                self.finer(&mut levels, &mut room)?;
            }
            kept.take(&tile_costs, budget::evenly(exact.len()), &mut room);
        }
        let mut fitted = self.number(levels, (&kept, exact), event_blocks, stacks);
        fitted.blocks.alike = alike;
        fitted.is_thinned = is_thinned || alike > 1;
        Ok(fitted)
    }

    /// The only chunk of the coarsest level, which is always in the page, and how many neighbouring bins have equal content in it.
    fn coarsest(&self, room: Room) -> io::Result<(Chunk, u32)> {
        let share = room.percent(FOR_BINS);
        let (bins, alike) = self.levels.pack_coarsest(|block| cost(block) <= share)?;
        let share = room.percent(FOR_SPANS);
        let mut width = self.scale.width_at(0);
        let starts = self.scale.chunk_starts(0);
        loop {
            let coarse = self.spans.coarse(width);
            let block = span_blocks::blocks(&coarse, &starts)?.pop().flatten();
            let is_all = width >= self.scale.width_at(0).saturating_mul(LONGEST);
            if costs(&block) <= share || is_all {
                return Ok(((bins, block), alike));
            }
            width = width.saturating_mul(MERGED as u64);
        }
    }

    /// Packs the next levels, as long as they fit. Returns whether all fit.
    fn finer(&self, levels: &mut Vec<Vec<Chunk>>, room: &mut Room) -> io::Result<bool> {
        for level in levels.len() as u32..=self.scale.finest {
            let coarse = self.spans.coarse(self.scale.width_at(level));
            let spans = span_blocks::blocks(&coarse, &self.scale.chunk_starts(level))?;
            let bins = self.levels.pack(level as usize)?;
            let chunks: Vec<Chunk> = bins.into_iter().zip(spans).collect();
            if !room.take(cost_of_level(&chunks)) {
                return Ok(false);
            }
            levels.push(chunks);
        }
        Ok(true)
    }

    /// The size of each tile: its events and its spans.
    fn tile_costs(&self, spans: &[Option<Vec<u8>>]) -> Vec<u64> {
        let mut tiles = self.extract.tiles.iter();
        let cost = |spans: &Option<Vec<u8>>| {
            costs(spans) + tiles.next().map_or(0, |tile| cost(&tile.packed))
        };
        spans.iter().map(cost).collect()
    }

    /// The blocks of arguments, flows and counters, if there are any.
    fn event_blocks(&mut self) -> io::Result<[Option<Vec<u8>>; 3]> {
        let begin = self.begin;
        let Extract { arguments, flows, counters, .. } = &mut *self.extract;
        let pack = |is_there: bool, columns: Vec<Column>| {
            if is_there { columns::pack(&columns).map(Some) } else { Ok(None) }
        };
        Ok([
            pack(!arguments.is_empty(), arguments.columns())?,
            pack(flows.len() > 0, flows.columns(begin))?,
            pack(!counters.is_empty(), counters.columns(begin))?,
        ])
    }

    /// Halves the largest of them until all of them fit.
    fn thin_event_blocks(
        &mut self,
        event_blocks: &mut [Option<Vec<u8>>; 3],
        room: u64,
    ) -> io::Result<()> {
        let sizes = |event_blocks: &[Option<Vec<u8>>; 3]| event_blocks.each_ref().map(costs);
        // A few values of each counter always stay.
        let mut counters_shrink = true;
        for _ in 0..MOST_ROUNDS {
            let before = sizes(event_blocks);
            let [arguments, flows, counters] = before;
            if before.iter().sum::<u64>() <= room {
                break;
            }
            if counters_shrink && counters >= arguments.max(flows) {
                self.extract.counters.thin();
            } else if arguments >= flows {
                self.extract.arguments.thin();
            } else {
                self.extract.flows.thin();
            }
            *event_blocks = self.event_blocks()?;
            counters_shrink &= sizes(event_blocks) != before;
        }
        Ok(())
    }

    /// The packed stacks that fit into `room`; fewer if they take more than `most` in the file.
    fn stacks(&mut self, room: u64, most: u64) -> io::Result<Option<Stacks>> {
        let Some(placing) = &mut self.placing else { return Ok(None) };
        let mut room = room;
        loop {
            let chosen = placing.choose(&self.extract.threads, room);
            if chosen.is_empty() {
                return Ok(None);
            }
            let mut blocks = Vec::new();
            for columns in chosen.columns(self.begin) {
                blocks.push(columns::pack(&columns)?);
            }
            if costs(&blocks) <= most || room == 0 {
                return Ok(Some((chosen, blocks)));
            }
            room = room / 4 * 3;
        }
    }

    /// Numbers all blocks, the coarsest bins first, since they are needed first.
    fn number(
        self,
        levels: Vec<Vec<Chunk>>,
        (kept, exact): (&Kept, Vec<Option<Vec<u8>>>),
        event_blocks: [Option<Vec<u8>>; 3],
        stacks: Option<Stacks>,
    ) -> Fitted {
        let mut data = Vec::new();
        let mut add = |block: Vec<u8>| {
            data.push(block);
            data.len() - 1
        };
        let mut blocks = Blocks {
            levels_left_out: (self.scale.finest as usize + 1).saturating_sub(levels.len()),
            ..Blocks::default()
        };
        for chunks in levels {
            let number = |(bins, spans): Chunk| (add(bins), spans.map(&mut add));
            blocks.levels.push(chunks.into_iter().map(number).collect());
        }
        let mut tiles = self.extract.tiles.iter_mut();
        for (spans, is_kept) in exact.into_iter().zip(&kept.0) {
            let packed = tiles.next().map(|tile| std::mem::take(&mut tile.packed));
            blocks.tiles.push(is_kept.then(|| (packed.map(&mut add), spans.map(&mut add))));
        }
        let stacks = stacks.map(|(chosen, of_stacks)| {
            let numbers: Vec<usize> = of_stacks.into_iter().map(&mut add).collect();
            chosen.json(&numbers, self.recorded)
        });
        let [arguments, flows, counters] = event_blocks.map(|block| block.map(&mut add));
        Fitted {
            blocks,
            data,
            stacks,
            event_blocks: EventBlocks { arguments, flows, counters },
            is_thinned: false,
        }
    }
}

fn cost_of_level(chunks: &[Chunk]) -> u64 {
    let chunk = |(bins, spans): &Chunk| cost(bins) + costs(spans) + CHUNK_ENTRY;
    chunks.iter().map(chunk).sum()
}

fn cost_of_stacks(stacks: Option<&Stacks>) -> u64 {
    stacks.map_or(0, |(_, blocks)| costs(blocks))
}
