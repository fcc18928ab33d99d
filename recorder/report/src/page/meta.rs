//! The page's table of contents: what it needs before its first frame, as JSON.
//!
//! Times are nanoseconds after the begin of the trace, which a script can count
//! without rounding for more than a hundred days.

use std::time::Duration;

use serde_json::{Value, json};

use super::extract::Extract;
use super::pyramid::{CHUNK_BINS, Scale};
use super::spans::Finished;
use super::threads::ThreadIndex;
use crate::{Distribution, Metric, Party, Report, Wait};

/// The number of the layout, which grows when a page's script and its data no
/// longer fit those of another.
pub(super) const LAYOUT: u32 = 2;

/// The percentiles that a table shows.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Where the blocks are: block numbers count up in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Of each tile: the block of its events and, where there are any, of its spans.
    pub(super) tiles: Vec<(Option<usize>, Option<usize>)>,
    /// Of each level, of each chunk: the block of its bins, and of its spans.
    pub(super) levels: Vec<Vec<(usize, Option<usize>)>>,
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
}

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
            "threads": self.threads(),
            "cpus": self.cpus(),
            "gaps": self.gaps(),
            "names": self.spans.names,
            "unmatched": self.spans.unmatched_ends,
            "depths": self.depths(),
            "tiles": self.tiles(),
            "levels": self.levels(),
            "chunk": CHUNK_BINS,
            "latency": self.latency(),
            "worst": self.report.worst().iter().map(|wait| self.wait(wait)).collect::<Vec<_>>(),
            "percentiles": PERCENTILES,
            "causes": self.report.causes.names().collect::<Vec<_>>(),
            "stolen": self.stolen(),
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

    /// Of each CPU: its number, time not idle, and who had it at the begin.
    fn cpus(&self) -> Value {
        let first = |cpu: usize| self.extract.first_on.get(cpu).copied().flatten();
        let known = |cpu: u16| {
            first(cpu.into()).is_some()
                || self.extract.gaps.iter().any(|gap| gap.cpu == cpu)
                || self.extract.has_seen(cpu)
        };
        let cpus = self.extract.usage.busy().zip(0_u16..).filter(|&(_, cpu)| known(cpu));
        // Of a narrow scope only a part of what keeps a CPU busy is known.
        let busy = |busy: u64| (!self.report.is_narrow()).then_some(busy);
        cpus.map(|(sum, cpu)| json!([cpu, busy(sum), first(cpu.into()).map(|thread| thread.0)]))
            .collect()
    }

    fn gaps(&self) -> Value {
        let gaps = self.extract.gaps.iter();
        gaps.map(|gap| json!([gap.cpu, self.at(gap.from), self.at(gap.to), gap.count])).collect()
    }

    /// How many rows of spans each thread with any has.
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

    /// Of each tile: the time of its first event, how many there are, and blocks.
    fn tiles(&self) -> Value {
        let tiles = self.starts.iter().zip(&self.blocks.tiles).enumerate();
        tiles
            .map(|(index, (&start, &(block, spans)))| {
                let tile = self.extract.tiles.get(index);
                let begin = tile.map_or(start, |tile| tile.start);
                json!([self.at(begin), tile.map_or(0, |tile| tile.events), block, spans])
            })
            .collect()
    }

    /// Of each level: the length of a bin, and the blocks of its chunks.
    fn levels(&self) -> Value {
        let levels = self.blocks.levels.iter().zip(0..);
        levels.map(|(chunks, level)| json!([self.scale.width_at(level), chunks])).collect()
    }

    /// Of each CPU of which the host took something: its number, how much, and in which time.
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

    fn wait(&self, wait: &Wait) -> Value {
        json!({
            "who": party(&wait.thread),
            "metric": wait.metric.name(),
            "from": self.at(wait.span.begin.0),
            "to": self.at(wait.span.end.0),
            "queued": wait.queued_on.0,
            "ran": wait.ran_on.0,
            "waker": wait.waker.as_ref().map(party),
            "idle": nanos(wait.idle),
            "unknown": nanos(wait.unknown),
            "throttled": nanos(wait.throttled),
            "quota": wait.throttled_by.as_deref(),
            "moves": wait.moves.iter().map(|it| it.to.0).collect::<Vec<_>>(),
            "by": wait.antagonists.iter().map(|antagonist| {
                json!([party(&antagonist.thread), nanos(antagonist.ran)])
            }).collect::<Vec<_>>(),
            "more": wait.more_antagonists,
            "others": nanos(wait.others),
        })
    }

    /// A time in nanoseconds after the begin.
    fn at(&self, time: u64) -> u64 {
        time.saturating_sub(self.range.0)
    }
}

/// A thread's koid and what it was called at the time.
fn party(party: &Party) -> Value {
    json!([party.koid.0, &*party.comm])
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
