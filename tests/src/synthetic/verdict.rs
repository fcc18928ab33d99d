//! Whether a recording of a synthetic machine has everything that was simulated, in order, and how long events took to get into it.

use std::collections::BTreeMap;
use std::path::Path;

use fxt_reader::{Item, Reader, Record, Visitor};
use serde_json::{Value, json};

use super::player::Played;
use crate::event::{Event, texts};

/// The content of a recording.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Switches and wakeups of the synthetic machine's CPUs, without inferred ones.
    pub recorded: u64,
    /// Events that the recording reports as lost.
    pub lost: u64,
    /// The faults in it; empty if there are none.
    pub faults: Vec<String>,
    /// Nanoseconds from events to their appearance in the output, from the shortest.
    pub delays: Vec<u64>,
    pub bytes: u64,
}

/// The data taken from the records.
#[derive(Debug)]
struct Look<'a> {
    played: &'a Played,
    /// How many of [`Played::sizes`] have been passed.
    size: usize,
    time: u64,
    backwards: u64,
    switches: BTreeMap<u16, u64>,
    wakeups: u64,
    delays: Vec<u64>,
    stats: Option<Event>,
    /// Events that are reported as lost: CPU and count.
    losses: BTreeMap<u64, u64>,
}

/// One event in this many is a sample of the delay.
const SAMPLED: u64 = 64;

impl Look<'_> {
    fn at(&mut self, time: u64, end: u64) {
        self.backwards += u64::from(time < self.time);
        self.time = time;
        let sizes = &self.played.sizes;
        while sizes.get(self.size).is_some_and(|(_, size)| *size < end) {
            self.size += 1;
        }
        // Events that were not in the output when the player ended have no such time.
        if (self.wakeups + end).is_multiple_of(SAMPLED)
            && let Some((when, _)) = sizes.get(self.size)
        {
            self.delays.push(when.saturating_sub(time));
        }
    }
}

impl Visitor for Look<'_> {
    fn visit(&mut self, item: &Item<'_>) -> bool {
        let end = item.offset + 8 * item.raw.words().count() as u64;
        match &item.record {
            Record::ContextSwitch(switch) => {
                self.at(switch.time.0, end);
                let is_reported = switch.args.get("inferred").is_none();
                *self.switches.entry(switch.cpu.0).or_default() += u64::from(is_reported);
            }
            Record::Wakeup(wakeup) => {
                self.at(wakeup.time.0, end);
                self.wakeups += 1;
            }
            Record::Event(event) if event.category == "fxtrec" && event.name == "trace_stats" => {
                self.stats = Some(Event::of(event));
            }
            Record::Event(event) if event.category == "fxtrec" && event.name == "lost" => {
                let args = texts(event.args);
                let number = |name: &str| args.get(name).and_then(|text| text.parse().ok());
                if let Some((cpu, count)) = number("cpu").zip(number("count")) {
                    *self.losses.entry(cpu).or_default() += count;
                }
            }
            _ => {}
        }
        true
    }
}

/// Reads a recording of a simulation.
///
/// # Errors
/// When it cannot be read.
pub fn judge(path: &Path, played: &Played) -> Result<Verdict, fxt_reader::Error> {
    let mut look = Look {
        played,
        size: 0,
        time: 0,
        backwards: 0,
        switches: BTreeMap::new(),
        wakeups: 0,
        delays: Vec::new(),
        stats: None,
        losses: BTreeMap::new(),
    };
    Reader::open(path)?.show_all(&mut look)?;
    let mut verdict = Verdict { delays: look.delays, ..Verdict::default() };
    verdict.delays.sort_unstable();
    verdict.bytes = path.metadata().map_or(0, |file| file.len());
    let mut fault = |text: String| verdict.faults.push(text);
    if look.backwards > 0 {
        fault(format!("time goes back {} times", look.backwards));
    }
    let Some(stats) = look.stats else {
        fault("no trace_stats".to_owned());
        return Ok(verdict);
    };
    verdict.recorded = look.switches.values().sum::<u64>() + look.wakeups;
    verdict.lost = stats.number("lost");
    // After a loss, threads are woken whose sleep was not recorded: such wakeups are counted, not written.
    let spurious = stats.number("spurious_wakeups");
    if verdict.recorded + spurious != played.produced - played.lost {
        fault(format!(
            "{} events and {spurious} spurious wakeups, of {} that were played and {} lost",
            verdict.recorded, played.produced, played.lost
        ));
    }
    if verdict.lost != played.lost {
        fault(format!("{} are told to be lost, of {}", verdict.lost, played.lost));
    }
    for name in ["late_events", "undecoded"] {
        if stats.number(name) > 0 {
            fault(format!("{name}: {}", stats.number(name)));
        }
    }
    for (cpu, switches, lost) in &played.cpus {
        let found = u16::try_from(*cpu).ok().and_then(|cpu| look.switches.get(&cpu)).copied();
        if found.unwrap_or(0) != *switches {
            fault(format!("CPU {cpu} has {found:?} switches of {switches}"));
        }
        let reported = look.losses.get(&u64::from(*cpu)).copied().unwrap_or(0);
        if reported != *lost {
            fault(format!("CPU {cpu}: {reported} are told to be lost of {lost}"));
        }
    }
    Ok(verdict)
}

impl Verdict {
    /// As JSON, with the median, the 99th percentile and the maximum of the delays in milliseconds.
    pub fn to_json(&self) -> Value {
        let faults: Vec<&String> = self.faults.iter().take(5).collect();
        let delay = |percent: usize| {
            let at = (self.delays.len() * percent / 100).min(self.delays.len().saturating_sub(1));
            self.delays.get(at).map(|nanos| *nanos as f64 / 1e6)
        };
        json!({
            "recorded": self.recorded, "told_lost": self.lost, "faults": faults, "bytes": self.bytes,
            "delay_ms": { "median": delay(50), "p99": delay(99), "most": delay(100) },
        })
    }
}
