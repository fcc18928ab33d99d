//! The page: a trace to look at, in one file, without a network.
//!
//! ```text
//!  records ──▶ analysis ──▶ Extract ──▶ tiles (exact, packed) ──┐
//!                              │                                ├─▶ blocks ─▶ html
//!                              │   tiles ──▶ pyramid (bins) ────┤
//!                              ├─▶ spans, names, gaps ──────────┤
//!                              └─▶ stacks, each once ───────────┘
//! ```
//!
//! A [`Page`] watches the analysis of a trace, which says what each record does to CPUs and threads, so that both take one
//! pass and tell the same; with the [`Report`] that the analysis comes to it writes the file. Of each switch it keeps the few
//! bytes that it takes in the page; [other threads](packer) pack them. What stands in the file, and how its script works, is in `docs/page.md`.

mod args;
mod bins;
mod columns;
mod counters;
mod error;
mod extract;
mod flows;
mod frames;
mod html;
mod info;
mod lanes;
mod meta;
mod numbered;
mod operations;
mod packer;
mod pyramid;
mod span_blocks;
mod spans;
mod stacks;
mod state;
#[cfg(test)]
mod tests;
mod threads;
mod tile;
mod usage;

use std::io::Write;

use fxt_reader::Item;

pub use error::PageError;

use super::Report;
use super::analysis::{Moved, Observer, Switched, Vacated, Woken};
use extract::Extract;
use lanes::Observer as LaneObserver;
use meta::{Blocks, Contents, Told};
use pyramid::{Pyramid, Scale};
use spans::Finished;
use stacks::{Chosen, Placing};
use state::State;
use threads::ThreadIndex;

use crate::stacks::Recorded;

/// Events in a tile: what the page unfolds at once, in a few milliseconds.
const TILE_EVENTS: u32 = 16_384;

/// A page in the making.
///
/// ```
/// use fxt_reader::Reader;
/// use fxtrec_report::page::Page;
/// use fxtrec_report::{Options, analysis};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let trace = 0x0016_5478_4604_0010_u64.to_le_bytes();
/// let reader = Reader::from_slice(&trace);
/// let (report, page) = analysis::observe(reader, Options::default(), Page::new())?;
/// let mut file = Vec::new();
/// page.write(&report, &mut file)?;
/// assert!(file.starts_with(b"<!doctype html>"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Page {
    extract: Extract,
    recorded: Recorded,
    /// Why nothing more is taken.
    failed: Option<PageError>,
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// A page of a trace of which nothing has been read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tiles(TILE_EVENTS)
    }

    /// A page of which a tile has so many events, or a few more.
    #[cfg(any(test, feature = "scene"))]
    #[must_use]
    pub fn with_tiles_of(events: u32) -> Self {
        Self::with_tiles(events)
    }

    fn with_tiles(events: u32) -> Self {
        Self { extract: Extract::new(events), recorded: Recorded::default(), failed: None }
    }

    /// Writes the page; `report` is of the same trace.
    ///
    /// # Errors
    ///
    /// [`PageError::Write`] when `out` fails, [`PageError::Pack`] when the
    /// compressor does, which needs memory only.
    pub fn write(mut self, report: &Report, out: &mut dyn Write) -> Result<(), PageError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let range = self.extract.finish()?;
        let (begin, end) = range;
        let mut spans = std::mem::take(&mut self.extract.spans).finish(end);
        let threads = self.extract.threads.list().len();
        spans.list.extend(self.extract.operations.finish(threads, end));
        let scale = Scale::new(begin, end, self.extract.tiles.len());
        let mut pyramid = Pyramid::new(scale);
        let stacks = self.replay(end, &mut pyramid)?;
        let mut starts: Vec<u64> = self.extract.tiles.iter().map(|tile| tile.start).collect();
        // The first tile also stands for the time before its first event.
        match starts.first_mut() {
            Some(first) => *first = begin,
            None => starts.push(begin),
        }
        let (blocks, mut data) =
            self.blocks(pyramid, scale, &spans, &starts).map_err(PageError::Pack)?;
        let stacks = stacks.map(|chosen| self.add_stacks(&chosen, begin, &mut data));
        let told = self.add_told(begin, &mut data).map_err(PageError::Pack)?;
        let contents = Contents {
            extract: &self.extract,
            spans: &spans,
            scale,
            range,
            starts: &starts,
            blocks: &blocks,
            report,
            stacks: stacks.transpose().map_err(PageError::Pack)?,
            told,
        };
        html::write(&contents.json(), &data, out).map_err(PageError::Write)
    }

    /// Goes through everything that happened once more: for the bins, and for the stacks if there are any.
    fn replay(&self, end: u64, pyramid: &mut Pyramid) -> Result<Option<Chosen>, PageError> {
        if self.recorded.all.is_empty() {
            self.extract.replay(end, pyramid)?;
            return Ok(None);
        }
        let threads = &self.extract.threads;
        let mut both = Both(pyramid, Placing::new(&self.recorded, threads));
        self.extract.replay(end, &mut both)?;
        let room = stacks::room(self.extract.switches + self.extract.wakeups);
        Ok(Some(both.1.choose(threads, room)).filter(|chosen| !chosen.is_empty()))
    }

    /// Adds the blocks of stacks behind all others. Returns what the contents say of them.
    fn add_stacks(
        &self,
        chosen: &Chosen,
        begin: u64,
        data: &mut Vec<Vec<u8>>,
    ) -> std::io::Result<serde_json::Value> {
        let first = data.len();
        for columns in chosen.columns(begin) {
            data.push(columns::pack(&columns)?);
        }
        Ok(chosen.json([first, first + 1, first + 2], &self.recorded))
    }

    /// Adds the blocks of arguments, flows and counters, as far as there are any.
    fn add_told(&mut self, begin: u64, data: &mut Vec<Vec<u8>>) -> std::io::Result<Told> {
        let mut add = |columns: Vec<columns::Column>| {
            data.push(columns::pack(&columns)?);
            std::io::Result::Ok(Some(data.len() - 1))
        };
        let Extract { arguments, flows, counters, .. } = &mut self.extract;
        Ok(Told {
            arguments: if arguments.is_empty() { None } else { add(arguments.columns())? },
            flows: if flows.len() == 0 { None } else { add(flows.columns(begin))? },
            counters: if counters.is_empty() { None } else { add(counters.columns(begin))? },
        })
    }

    /// Numbers all blocks, the coarsest bins first, since they are wanted first.
    fn blocks(
        &mut self,
        pyramid: Pyramid,
        scale: Scale,
        spans: &Finished,
        starts: &[u64],
    ) -> std::io::Result<(Blocks, Vec<Vec<u8>>)> {
        let (mut blocks, mut data) = (Blocks::default(), Vec::new());
        let mut add = |block: Vec<u8>| {
            data.push(block);
            data.len() - 1
        };
        for (chunks, level) in pyramid.finish()?.into_iter().zip(0..) {
            let coarse = spans.coarse(scale.width_at(level));
            let coarse = span_blocks::blocks(&coarse, &scale.chunk_starts(level))?;
            let numbers = chunks
                .into_iter()
                .zip(coarse)
                .map(|(bins, spans)| (add(bins), spans.map(&mut add)))
                .collect();
            blocks.levels.push(numbers);
        }
        let exact = span_blocks::blocks(&spans.list, starts)?;
        let mut tiles = self.extract.tiles.iter_mut();
        for spans in exact {
            let events = tiles.next().map(|tile| add(std::mem::take(&mut tile.packed)));
            blocks.tiles.push((events, spans.map(&mut add)));
        }
        Ok((blocks, data))
    }
}

impl Page {
    /// Unless something has failed before.
    fn extract(&mut self, with: impl FnOnce(&mut Extract) -> Result<(), PageError>) {
        if self.failed.is_none() {
            self.failed = with(&mut self.extract).err();
        }
    }
}

/// Takes what the analysis tells of CPUs and threads, and from records what it does not look at.
impl Observer for Page {
    fn record(&mut self, item: &Item<'_>) {
        self.recorded.take(item.provider, &item.record);
        self.extract(|extract| extract.take(&item.record));
    }

    fn switched(&mut self, switched: &Switched<'_>) {
        self.extract(|extract| extract.switched(switched));
    }

    fn woken(&mut self, woken: &Woken<'_>) {
        self.extract(|extract| extract.woken(woken));
    }

    fn moved(&mut self, moved: &Moved) {
        self.extract(|extract| extract.moved(moved));
    }

    fn vacated(&mut self, vacated: &Vacated) {
        self.extract(|extract| extract.vacated(vacated));
    }
}

/// Tells two of the same.
struct Both<'a, 'b>(&'a mut Pyramid, Placing<'b>);

impl LaneObserver for Both<'_, '_> {
    fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64) {
        self.0.on_cpu(cpu, thread, from, to);
    }

    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64) {
        self.0.in_state(thread, state, from, to);
        self.1.in_state(thread, state, from, to);
    }

    fn ran_less(&mut self, thread: ThreadIndex, stolen: u64, from: u64, to: u64) {
        self.0.ran_less(thread, stolen, from, to);
        self.1.in_state(thread, State::Running, from, to);
    }
}
