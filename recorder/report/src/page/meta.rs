//! The page's table of contents: the data that the page needs before its first frame, as JSON.
//!
//! Times are nanoseconds after the start of the trace; JavaScript represents them exactly for more than a hundred days.

use std::time::Duration;

use serde_json::{Value, json};

use super::extract::{Extract, Late};
use super::lanes::Event;
use super::pyramid::{CHUNK_BINS, Scale};
use super::spans::{Finished, Span};
use super::state;
use super::threads::ThreadIndex;
use super::tile::head;
use crate::analysis::DEFAULT_WORST;
use crate::model::ProviderLosses;
use crate::{Distribution, Incident, Metric, Report, Sleep, ThreadInfo, Wait};

/// The version of the layout. It is incremented when the scripts of one version cannot read the data of another.
pub(super) const LAYOUT: u32 = 6;

/// The percentiles in tables.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// The positions of the blocks: block numbers ascend in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// For each tile: the block of its events and that of its spans, if there are any; `None` if the tile is left out.
    pub(super) tiles: Vec<Option<(Option<usize>, Option<usize>)>>,
    /// For each chunk of each level: the block of its bins, and that of its spans.
    pub(super) levels: Vec<Vec<(usize, Option<usize>)>>,
    /// How many finer levels are left out.
    pub(super) levels_left_out: usize,
    /// How many neighbouring bins have equal content in the coarsest level.
    pub(super) alike: u32,
}

/// Used in place of a block's number if the tile is left out.
const LEFT_OUT: i8 = -1;

/// The blocks of data that programs report in addition to spans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventBlocks {
    pub(super) arguments: Option<usize>,
    pub(super) flows: Option<usize>,
    pub(super) counters: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Contents<'a> {
    pub(super) extract: &'a Extract,
    pub(super) spans: &'a Finished,
    pub(super) scale: Scale,
    pub(super) range: (u64, u64),
    pub(super) starts: &'a [u64],
    pub(super) blocks: &'a Blocks,
    pub(super) report: &'a Report,
    /// The maximum size of the page in bytes, if limited.
    pub(super) budget: Option<u64>,
    /// The name of the trace's file.
    pub(super) file: Option<&'a str>,
    /// The entry about stacks, if there are any.
    pub(super) stacks: Option<&'a Value>,
    pub(super) event_blocks: EventBlocks,
}

/// The maximum number of applications that are named for dropping records.
const LISTED_PROVIDERS: usize = 8;

impl Contents<'_> {
    pub(super) fn json(&self) -> Value {
        let info = &self.extract.info;
        let (begin, end) = self.range;
        json!({
            "layout": LAYOUT,
            "title": info.command_line,
            "host": info.host,
            "release": info.release,
            "recorder": info.version,
            "finished": info.finished,
            "begin": begin.to_string(),
            "wall": info.wall_clock_offset.map(|offset| offset.to_string()),
            "length": end - begin,
            "switches": self.extract.switches,
            "wakeups": self.extract.wakeups,
            "moves": self.extract.moves,
            "threads": self.threads(),
            "cpus": self.cpus(),
            "late": self.late(),
            "gaps": self.gaps(),
            "lost": self.lost(),
            "names": self.spans.names,
            "unmatched": self.spans.unmatched_ends,
            "depths": self.depths(),
            "tiles": self.tiles(),
            "levels": self.levels(),
            "levelsLeftOut": self.blocks.levels_left_out,
            "alike": self.blocks.alike,
            "budget": self.budget,
            "file": self.file,
            "chunk": CHUNK_BINS,
            "latency": self.latency(),
            "incidents": self.incidents(),
            "worst": self.report.worst().iter().map(|wait| self.wait(wait)).collect::<Vec<_>>(),
            "blocked": self.blocked(),
            "longestSpans": self.longest_spans(),
            "percentiles": PERCENTILES,
            "causes": self.report.causes.names().collect::<Vec<_>>(),
            "stolen": self.stolen(),
            "stacks": self.stacks,
            "told": self.event_blocks(),
        })
    }

    /// Data that programs report in addition to spans: operations, which have separate tracks after all threads; arguments, flows and
    /// counters.
    fn event_blocks(&self) -> Value {
        let Extract { threads, operations, arguments, flows, counters, .. } = self.extract;
        let EventBlocks { arguments: of_arguments, flows: of_flows, counters: of_counters } =
            self.event_blocks;
        let tracks = operations.tracks.iter();
        let tracks: Vec<_> = tracks.map(|track| [track.category.0, track.name.0]).collect();
        let left_out = [operations.left_out, arguments.left_out, flows.left_out, counters.left_out];
        if tracks.is_empty()
            && [of_arguments, of_flows, of_counters] == [None; 3]
            && left_out == [0; 4]
        {
            return Value::Null;
        }
        json!({
            "tracks": tracks,
            "arguments": of_arguments,
            "flows": of_flows,
            "flowCount": flows.len(),
            "counters": of_counters,
            "counterList": counters.json(|koid| threads.process_name(koid).map(str::to_owned)),
            "leftOut": left_out,
        })
    }

    fn threads(&self) -> Value {
        let extract = self.extract;
        let longest: std::collections::HashMap<u64, u64> = self
            .report
            .threads()
            .iter()
            .filter_map(|thread| {
                let longest = thread.metric(Metric::RunQueue).max()?;
                Some((thread.koid?.0, nanos(longest)))
            })
            .collect();
        let thread = |(index, thread): (usize, &super::threads::Thread)| {
            let process = thread.process;
            let index = ThreadIndex::at(index);
            json!([
                thread.koid,
                thread.name,
                process,
                process.and_then(|process| extract.threads.process_name(process)),
                extract.usage.running(index),
                extract.usage.waiting(index),
                longest.get(&thread.koid).copied().unwrap_or_default(),
            ])
        };
        extract.threads.list().iter().enumerate().map(thread).collect()
    }

    /// For each CPU: its number, and the time that it was not idle.
    fn cpus(&self) -> Value {
        // With a narrow scope, the busy time of a CPU is not fully known.
        let busy = |cpu| (!self.report.is_narrow()).then(|| self.extract.usage.busy(cpu));
        self.extract.cpus().map(|cpu| json!([cpu, busy(cpu)])).collect()
    }

    /// For each event that changes the state at a time before its own tile: that tile, the first byte of the event, CPU, thread, the time
    /// from which the state applies, and the time from which the thread ran.
    fn late(&self) -> Value {
        let row = |late: &Late| {
            let (head, cpu, thread, ran_since) = match late.event {
                Event::Claim { cpu, thread, ran_since: None, .. } => {
                    (head::CLAIM, cpu, thread, None)
                }
                Event::Claim { cpu, thread, ran_since, .. } => {
                    (head::CLAIM_RUNNING, cpu, thread, ran_since.map(|since| self.at(since)))
                }
                Event::Change { thread, state, .. } => {
                    (head::CHANGE + state::code(state), 0, thread, None)
                }
                Event::Vacate { cpu, .. } => (head::VACATE, cpu, ThreadIndex::IDLE, None),
                Event::Switch { .. }
                | Event::Wake { .. }
                | Event::Move { .. }
                | Event::Taken { .. } => return None,
            };
            Some(json!([late.tile, head, cpu, thread.0, self.at(late.since), ran_since]))
        };
        // Such an event is relevant only if a tile that it concerns is in the page.
        let matters = |late: &&Late| {
            let first = self.starts.partition_point(|&start| start <= late.since).saturating_sub(1);
            let before = self.blocks.tiles.get(first..late.tile).unwrap_or_default();
            before.iter().any(Option::is_some)
        };
        self.extract.late.iter().filter(matters).filter_map(row).collect()
    }

    fn gaps(&self) -> Value {
        let gaps = self.extract.gaps.iter();
        gaps.map(|gap| json!([gap.cpu, self.at(gap.from), self.at(gap.to), gap.count])).collect()
    }

    /// Other missing data, outside of the gaps of CPUs.
    fn lost(&self) -> Value {
        let losses = &self.report.losses;
        let providers = losses.providers.iter().take(LISTED_PROVIDERS);
        let row = |one: &ProviderLosses| json!([one.name, one.records, one.unknown]);
        json!({
            "others": losses.others,
            "records": losses.records(),
            "unknownRecords": losses.unknown_records(),
            "providers": providers.map(row).collect::<Vec<_>>(),
        })
    }

    /// For each thread with spans, the number of rows.
    fn depths(&self) -> Value {
        let mut depths: Vec<(u32, u8)> = Vec::new();
        for span in &self.spans.list {
            match depths.last_mut().filter(|last| last.0 == span.thread.0) {
                Some(last) => last.1 = last.1.max(span.depth),
                None => depths.push((span.thread.0, span.depth)),
            }
        }
        depths.into_iter().map(|(thread, depth)| json!([thread, u32::from(depth) + 1])).collect()
    }

    /// For each tile: the time of its first event, the number of events, and the blocks.
    fn tiles(&self) -> Value {
        let tiles = self.starts.iter().zip(&self.blocks.tiles).enumerate();
        tiles
            .map(|(index, (&start, blocks))| {
                let tile = self.extract.tiles.get(index);
                let begin = self.at(tile.map_or(start, |tile| tile.start));
                let events = tile.map_or(0, |tile| tile.events);
                match blocks {
                    Some((block, spans)) => json!([begin, events, block, spans]),
                    None => json!([begin, events, LEFT_OUT, null]),
                }
            })
            .collect()
    }

    /// For each level: the length of a bin, and the blocks of its chunks.
    fn levels(&self) -> Value {
        let levels = self.blocks.levels.iter().zip(0..);
        levels.map(|(chunks, level)| json!([self.scale.width_at(level), chunks])).collect()
    }

    /// For each CPU from which the host took time: its number, how much, and over which time.
    fn stolen(&self) -> Value {
        let taken = self.report.host.iter().filter(|host| !host.stolen.is_zero());
        taken.map(|it| json!([it.cpu.0, nanos(it.stolen), nanos(it.during)])).collect()
    }

    /// By metric: the distribution over all threads.
    fn latency(&self) -> Value {
        let total = self.report.total();
        let metric = |metric: Metric| {
            let found = distribution(total.metric(metric));
            json!({ "name": metric.name(), "title": metric.title(), "of": found })
        };
        Metric::ALL.into_iter().chain(self.report.facts()).map(metric).collect()
    }

    /// The longest blocked times of threads.
    fn blocked(&self) -> Value {
        let sleep = |sleep: &&Sleep| {
            json!({
                "who": thread_json(&sleep.thread),
                "uninterruptible": sleep.metric == Metric::BlockedUninterruptible,
                "from": self.at(sleep.span.begin.0),
                "to": self.at(sleep.span.end.0),
                "syscall": sleep.call.map(|number| self.call_name(number)),
                "waker": sleep.waker.as_ref().map(thread_json),
                "interrupt": sleep.by_interrupt,
                "object": sleep.waited_for,
            })
        };
        self.report.blocked().sleeps.iter().map(sleep).collect()
    }

    fn incidents(&self) -> Value {
        let incident = |incident: &Incident| {
            let Incident { thread, span, sentence } = incident;
            let [from, to] = [span.begin, span.end].map(|time| self.at(time.0));
            json!({ "who": thread_json(thread), "from": from, "to": to, "sentence": sentence })
        };
        self.report.incidents.iter().flatten().map(incident).collect()
    }

    fn call_name(&self, number: u16) -> String {
        let name = self.report.call_name(number);
        name.map_or_else(|| format!("system call {number}"), str::to_owned)
    }

    /// For each of the longest spans: thread, name, begin and end.
    fn longest_spans(&self) -> Value {
        let row = |span: &Span| {
            json!([span.thread.0, span.name.0, self.at(span.start), self.at(span.end)])
        };
        self.spans.longest(DEFAULT_WORST).into_iter().map(row).collect()
    }

    fn wait(&self, wait: &Wait) -> Value {
        json!({
            "who": thread_json(&wait.thread),
            "metric": wait.metric.name(),
            "from": self.at(wait.span.begin.0),
            "to": self.at(wait.span.end.0),
            "queued": wait.queued_on.0,
            "ran": wait.ran_on.0,
            "waker": wait.waker.as_ref().map(thread_json),
            "idle": nanos(wait.idle),
            "unknown": nanos(wait.unknown),
            "throttled": nanos(wait.throttled),
            "quota": wait.throttled_by.as_deref(),
            "moves": wait.moves.iter().map(|it| it.to.0).collect::<Vec<_>>(),
            "by": wait.antagonists.iter().map(|antagonist| {
                json!([thread_json(&antagonist.thread), nanos(antagonist.ran)])
            }).collect::<Vec<_>>(),
            "more": wait.more_antagonists,
            "others": nanos(wait.others),
        })
    }

    /// A time in nanoseconds after the start.
    fn at(&self, time: u64) -> u64 {
        time.saturating_sub(self.range.0)
    }
}

/// A thread's koid, and its name at the time.
fn thread_json(thread: &ThreadInfo) -> Value {
    json!([thread.koid.0, &*thread.comm])
}

fn distribution(found: &Distribution) -> Value {
    let percentile = |&percent: &f64| found.percentile(percent).map(nanos);
    json!({
        "count": found.count(),
        "censored": found.censored(),
        "mean": found.mean().map(nanos),
        "min": found.min().map(nanos),
        "max": found.max().map(nanos),
        "percentiles": PERCENTILES.iter().map(percentile).collect::<Vec<_>>(),
        "buckets": found.buckets().iter().map(|bucket| [bucket.nanos, bucket.count]).collect::<Vec<_>>(),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
