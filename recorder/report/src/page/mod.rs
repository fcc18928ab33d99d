//! The page: a trace to explore in a browser, in a single file, without a network.
//!
//! ```text
//!  records ──▶ analysis ──▶ Extract ──▶ tiles (exact, packed) ──┐
//!                              │                                ├─▶ what fits ─▶ blocks ─▶ html
//!                              │   tiles ──▶ pyramid (bins) ────┤
//!                              ├─▶ spans, names, gaps ──────────┤
//!                              └─▶ stacks, each once ───────────┘
//! ```
//!
//! A [`Page`] is an observer of the analysis of a trace, which determines the effects of each record on CPUs and threads, so both take one
//! pass and agree. It writes the file with the [`Report`] of the same analysis. For each switch, it keeps only the few bytes that are in
//! the page; [other threads](packer) compress them. `docs/reference/page.md` describes the contents of the file and its script.

mod args;
mod bins;
mod budget;
mod columns;
mod counters;
mod error;
mod extract;
mod fit;
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

pub use budget::Budget;
pub use error::PageError;

use super::Report;
use super::analysis::{Moved, Observer, Switched, Vacated, Woken};
use budget::{Counted, Room};
use extract::Extract;
use fit::{Fitted, Parts};
use lanes::Observer as LaneObserver;
use meta::{Blocks, Contents};
use pyramid::{Pyramid, Scale};
use stacks::Placing;
use state::State;
use threads::ThreadIndex;

use crate::stacks::Recorded;

/// Events in a tile: the amount that the page unfolds at once, in a few milliseconds.
const TILE_EVENTS: u32 = 16_384;

/// A page under construction.
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
    budget: Budget,
    /// The name of the trace's file.
    file: Option<String>,
    /// The error after which no more records are accepted.
    failed: Option<PageError>,
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// A page without any records so far.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tiles(TILE_EVENTS)
    }

    /// A page with tiles of `events` events, or a few more.
    #[cfg(any(test, feature = "scene"))]
    #[must_use]
    pub fn with_tiles_of(events: u32) -> Self {
        Self::with_tiles(events)
    }

    fn with_tiles(events: u32) -> Self {
        Self {
            extract: Extract::new(events),
            recorded: Recorded::default(),
            budget: Budget::default(),
            file: None,
            failed: None,
        }
    }

    /// Limits the size of the page.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the name of the trace's file, for commands that the page shows.
    #[must_use]
    pub fn of_file(mut self, name: &str) -> Self {
        self.file = Some(name.to_owned());
        self
    }

    /// Writes the page; `report` must be of the same trace. The [`Written`] lists the parts that were left out.
    ///
    /// # Errors
    ///
    /// Returns [`PageError::Write`] if `out` fails, [`PageError::Pack`] if the compressor fails, which only happens when memory is short.
    pub fn write(self, report: &Report, out: &mut dyn Write) -> Result<Written, PageError> {
        let Self { mut extract, recorded, budget, file, failed } = self;
        if let Some(error) = failed {
            return Err(error);
        }
        let range = extract.finish()?;
        let (begin, end) = range;
        let mut spans = std::mem::take(&mut extract.spans).finish(end);
        let threads = extract.threads.list().len();
        spans.list.extend(extract.operations.finish(threads, end));
        let scale = Scale::new(begin, end, extract.tiles.len());
        let mut pyramid = Pyramid::new(scale);
        let placing = replay(&extract, &recorded, end, &mut pyramid)?;
        let mut starts: Vec<u64> = extract.tiles.iter().map(|tile| tile.start).collect();
        // The first tile also covers the time before its first event.
        match starts.first_mut() {
            Some(first) => *first = begin,
            None => starts.push(begin),
        }
        let limit = budget.limit(extract.switches + extract.wakeups + spans.list.len() as u64);
        let all = Fitted::all(&extract, starts.len(), placing.is_some());
        let contents = |extract: &Extract, fitted: &Fitted| {
            Contents {
                extract,
                spans: &spans,
                scale,
                range,
                starts: &starts,
                blocks: &fitted.blocks,
                report,
                budget: limit,
                file: file.as_deref(),
                stacks: fitted.stacks.as_ref(),
                event_blocks: fitted.event_blocks,
            }
            .json()
        };
        let room = match limit {
            Some(limit) => {
                let mut nowhere = std::io::sink();
                let mut counted = Counted(&mut nowhere, 0);
                let largest = contents(&extract, &all);
                html::write(&largest, &[], &mut counted).map_err(PageError::Write)?;
                Room(limit.saturating_sub(counted.1))
            }
            None => Room(u64::MAX),
        };
        let fitted = Parts {
            extract: &mut extract,
            recorded: &recorded,
            placing,
            levels: pyramid.finish(),
            scale,
            spans: &spans,
            starts: &starts,
            begin,
        }
        .fit(room, report)
        .map_err(PageError::Pack)?;
        let mut out = Counted(out, 0);
        html::write(&contents(&extract, &fitted), &fitted.data, &mut out)
            .map_err(PageError::Write)?;
        Ok(Written::of(&fitted.blocks, out.1, fitted.is_thinned))
    }
}

/// Repeats all events, for the bins and, if there are any, the stacks.
fn replay<'a>(
    extract: &Extract,
    recorded: &'a Recorded,
    end: u64,
    pyramid: &mut Pyramid,
) -> Result<Option<Placing<'a>>, PageError> {
    if recorded.all.is_empty() {
        extract.replay(end, pyramid)?;
        return Ok(None);
    }
    let mut both = Both(pyramid, Placing::new(recorded, &extract.threads));
    extract.replay(end, &mut both)?;
    Ok(Some(both.1))
}

/// The content of a written page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The size of the file.
    pub bytes: u64,
    /// How many tiles (intervals of about 16 384 events) have their exact events in the page, and how many there are.
    pub tiles: (usize, usize),
    /// How many levels of bins are in the page, and how many there are.
    pub levels: (usize, usize),
    /// Whether stacks, arguments, arrows of flows or values of counters were reduced.
    pub is_thinned: bool,
}

impl Written {
    fn of(blocks: &Blocks, bytes: u64, is_thinned: bool) -> Self {
        let tiles = blocks.tiles.iter().flatten().count();
        let levels = blocks.levels.len();
        Self {
            bytes,
            tiles: (tiles, blocks.tiles.len()),
            levels: (levels, levels + blocks.levels_left_out),
            is_thinned,
        }
    }

    /// Whether the budget was sufficient for everything.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.tiles.0 == self.tiles.1 && self.levels.0 == self.levels.1 && !self.is_thinned
    }
}

impl Page {
    /// Does nothing after an error.
    fn extract(&mut self, with: impl FnOnce(&mut Extract) -> Result<(), PageError>) {
        if self.failed.is_none() {
            self.failed = with(&mut self.extract).err();
        }
    }
}

/// Receives the effects of events on CPUs and threads from the analysis, and reads from the records the data that the analysis does not
/// use.
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

/// Passes everything on to two observers.
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
