//! Events from perf rings, one per CPU.

use std::io;
use std::time::{Duration, Instant};

use super::decode::{self, SchedLayout};
use super::event::{Event, Kind};
use super::order::{Lane, Merger};
use super::source::{Source, SourceError, SourceKind, SourceStats, Take};
use crate::kernel::cpus;
use crate::kernel::perf::{CpuEvents, KernelCount, OpenError, Options};
use crate::kernel::sys::Sys;
use crate::kernel::waker::Waker;
use crate::kernel::{clock, idle_probe};
use crate::units::{Cpu, Nanos, Tid};

/// How often it is looked whether CPUs came or went.
const HOTPLUG_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct CpuSource {
    events: CpuEvents,
    lane: Lane,
    /// What lost records in the ring said.
    told_lost: u64,
    /// Who came in by the last switch in the ring.
    incoming: Option<Tid>,
}

impl CpuSource {
    /// Whether the event says nothing that the ring has not said already: a switch record beside its tracepoint's
    /// sample, as nearly all are.
    fn is_stale(&mut self, event: &Event) -> bool {
        match event.kind {
            Kind::Switch(switch) => self.incoming = Some(switch.next),
            // Only in the initial pid namespace are both ids of one kind.
            Kind::Running { tid, .. } => return self.incoming == Some(Tid(tid.0)),
            Kind::Lost { count } => {
                self.incoming = None;
                self.told_lost = self.told_lost.saturating_add(count);
            }
            _ => {}
        }
        false
    }
}

/// The perf events of all online CPUs, and the merger of what they report.
#[derive(Debug)]
pub struct PerfSource {
    sys: Box<dyn Sys + Send>,
    layout: SchedLayout,
    options: Options,
    min_ring_bytes: usize,
    sources: Vec<CpuSource>,
    merger: Merger,
    /// Counts of CPUs that went offline.
    past_counts: Vec<KernelCount>,
    undecoded: u64,
    garbled: u64,
    hotplug_checked: Instant,
}

impl PerfSource {
    /// Opens the events of every online CPU, disabled.
    ///
    /// When the kernel refuses the rings' memory, halves of them are tried down to `min_ring_bytes`,
    /// for all CPUs alike: else the first ones would take all that is allowed.
    ///
    /// # Errors
    /// [`SourceError`], at the first call that the kernel refuses.
    pub fn open(
        sys: Box<dyn Sys + Send>,
        layout: SchedLayout,
        options: Options,
        min_ring_bytes: usize,
    ) -> Result<PerfSource, SourceError> {
        let mut source = PerfSource {
            past_counts: vec![KernelCount::default(); options.tracepoints.len()],
            sys,
            layout,
            options,
            min_ring_bytes,
            sources: Vec::new(),
            merger: Merger::new(),
            undecoded: 0,
            garbled: 0,
            hotplug_checked: Instant::now(),
        };
        loop {
            let refused = match source.add_online() {
                Err(SourceError::Open(error)) if error.is_out_of_memory() => error,
                result => return result.map(|()| source),
            };
            source.sources.clear();
            source.merger = Merger::new();
            let half = source.options.ring_bytes / 2;
            if half < min_ring_bytes {
                return Err(refused.into());
            }
            source.options.ring_bytes = half;
            source.options.wake_bytes = source.options.wake_bytes.min((half / 2) as u32);
        }
    }

    fn add_online(&mut self) -> Result<(), SourceError> {
        for cpu in cpus::online(&*self.sys)? {
            match self.add(cpu, self.options.ring_bytes) {
                // It was online a moment ago; when it comes back, it is opened then.
                Err(OpenError::Offline(_)) => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn add(&mut self, cpu: Cpu, min_ring_bytes: usize) -> Result<(), OpenError> {
        let events = CpuEvents::open(&*self.sys, cpu, &self.options, min_ring_bytes)?;
        let lane = self.merger.lane(cpu);
        self.sources.push(CpuSource { events, lane, told_lost: 0, incoming: None });
        Ok(())
    }

    /// Moves what the rings hold into the merger; true when one is not empty since its lane is full.
    fn read_rings(&mut self) -> bool {
        let mut full = false;
        for source in &mut self.sources {
            source.events.ring.refresh();
            let drained = loop {
                if self.merger.is_full(source.lane) {
                    break false;
                }
                let Some(record) = source.events.ring.next_record() else { break true };
                let is_sample = record.kind == perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;
                match decode::decode(&self.layout, record, self.options.namespace_ids) {
                    Some(found) => {
                        if let Some(identity) = found.identity {
                            self.merger.push(source.lane, identity);
                        }
                        let stale = source.is_stale(&found.event);
                        if !stale || self.options.namespace_ids {
                            self.merger.push(source.lane, found.event);
                        }
                    }
                    None if is_sample => self.undecoded += 1,
                    None => {}
                }
            };
            source.events.ring.release();
            self.merger.set_drained(source.lane, drained);
            full |= !drained;
        }
        full
    }

    fn look_for_cpus(&mut self) -> Result<(), SourceError> {
        let online = cpus::online(&*self.sys)?;
        self.read_rings();
        let (stay, gone) = std::mem::take(&mut self.sources)
            .into_iter()
            .partition(|source| online.contains(&source.events.cpu()));
        self.sources = stay;
        for source in gone {
            self.retire(&source);
        }
        let known = self.cpus();
        for cpu in online.into_iter().filter(|cpu| !known.contains(cpu)) {
            match self.add(cpu, self.min_ring_bytes) {
                Err(OpenError::Offline(_)) => continue,
                result => result?,
            }
            if let Some(source) = self.sources.last() {
                source.events.enable(&*self.sys)?;
            }
        }
        Ok(())
    }

    fn retire(&mut self, source: &CpuSource) {
        tell_rest(&mut self.merger, source, &*self.sys);
        self.garbled += source.events.ring.garbled();
        let counts = source.events.kernel_counts(&*self.sys);
        self.past_counts = add_counts(&self.past_counts, &counts);
    }
}

impl Source for PerfSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Perf
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        let mut sources = self.sources.iter();
        Ok(sources.try_for_each(|source| source.events.enable(&*self.sys))?)
    }

    fn cpus(&self) -> Vec<Cpu> {
        self.sources.iter().map(|source| source.events.cpu()).collect()
    }

    fn ring_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.events.ring.size()).min().unwrap_or(0)
    }

    fn find_silent(&mut self) -> Result<Vec<Cpu>, SourceError> {
        idle_probe::nap_on_each(self.cpus());
        let mut blind = Vec::new();
        for source in &mut self.sources {
            source.events.ring.refresh();
            let mut watch = ChainWatch::default();
            while let Some(record) = source.events.ring.next_record() {
                if let Some(found) =
                    decode::decode(&self.layout, record, self.options.namespace_ids)
                {
                    watch.see(&found.event);
                }
            }
            source.events.ring.rewind();
            if watch.is_blind() {
                source.events.add_switch_records(&*self.sys, &self.options)?;
                blind.push(source.events.cpu());
            }
        }
        Ok(blind)
    }

    fn is_silent(&mut self, cpu: Cpu) -> Result<(), SourceError> {
        let found = self.sources.iter_mut().find(|source| source.events.cpu() == cpu);
        let add =
            |source: &mut CpuSource| source.events.add_switch_records(&*self.sys, &self.options);
        Ok(found.map_or(Ok(()), add)?)
    }

    fn round(&mut self, take: &mut Take<'_>) {
        loop {
            let now = clock::now();
            let full = self.read_rings();
            let mut go_on = true;
            self.merger.emit(self.merger.horizon(now), |time, cpu, event| {
                go_on = take(time, cpu, event);
                go_on
            });
            if !full || !go_on {
                return;
            }
        }
    }

    fn finish(&mut self, take: &mut Take<'_>) {
        for source in &self.sources {
            source.events.disable(&*self.sys);
        }
        let mut go_on = true;
        while self.read_rings() && go_on {
            let horizon = self.merger.horizon(clock::now());
            self.merger.emit(horizon, |time, cpu, event| {
                go_on = take(time, cpu, event);
                go_on
            });
        }
        if go_on {
            for source in &self.sources {
                tell_rest(&mut self.merger, source, &*self.sys);
            }
            self.merger.emit(Nanos(u64::MAX), take);
        }
    }

    fn wait(&mut self, waker: &Waker, timeout: Duration) -> io::Result<()> {
        waker.wait(self.sources.iter().map(|source| source.events.poll_fd()), timeout)
    }

    fn follow_hotplug(&mut self) -> Result<(), SourceError> {
        if self.hotplug_checked.elapsed() < HOTPLUG_INTERVAL {
            return Ok(());
        }
        self.hotplug_checked = Instant::now();
        self.look_for_cpus()
    }

    fn stats(&self) -> SourceStats {
        let mut kernel_counts = self.past_counts.clone();
        let mut garbled = self.garbled;
        for source in &self.sources {
            kernel_counts = add_counts(&kernel_counts, &source.events.kernel_counts(&*self.sys));
            garbled += source.events.ring.garbled();
        }
        let (late, most_late) = self.merger.late();
        SourceStats { kernel_counts, undecoded: self.undecoded, garbled, late, most_late }
    }
}

/// Adds what was lost and not told yet: the kernel says in the ring how much it lost when it has room again and
/// something to write, which at the end of a recording is never.
fn tell_rest(merger: &mut Merger, source: &CpuSource, sys: &dyn Sys) {
    let lost = source.events.lost(sys).unwrap_or(0);
    let count = lost.saturating_sub(source.told_lost);
    if count > 0 {
        merger.push(source.lane, Event { time: clock::now(), kind: Kind::Lost { count } });
    }
}

fn add_counts(a: &[KernelCount], b: &[KernelCount]) -> Vec<KernelCount> {
    let add = |(a, b): (&KernelCount, &KernelCount)| KernelCount {
        fired: a.fired + b.fired,
        lost: match (a.lost, b.lost) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        },
    };
    a.iter().zip(b).map(add).collect()
}

/// Tells from a CPU's first events whether the kernel reports every task on it.
///
/// ```text
///   A -> idle ... idle -> B     all are reported
///   A -> idle ...    B -> C     idle is not: B must have come in from it
/// ```
#[derive(Debug, Default)]
struct ChainWatch {
    current: Option<Tid>,
    broken: bool,
}

impl ChainWatch {
    fn see(&mut self, event: &Event) {
        let (current, next) = match event.kind {
            Kind::Switch(switch) => (switch.prev, switch.next),
            Kind::Wake(wake) => (wake.current, wake.current),
            Kind::Lost { .. } => {
                self.current = None;
                return;
            }
            _ => return,
        };
        self.broken |= self.current.is_some_and(|known| known != current);
        self.current = Some(next);
    }

    fn is_blind(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::tests::layout;
    use super::super::event::{Comm, Switch};
    use super::*;
    use crate::kernel::fake::Fake;
    use crate::kernel::prev_state::PrevState;

    fn switch(prev: u32, next: u32) -> Event {
        let comm = Comm::default();
        let kind = Kind::Switch(Switch {
            prev: Tid(prev),
            next: Tid(next),
            prev_prio: 120,
            next_prio: 120,
            state: PrevState { letter: 'S', preempted: false },
            prev_comm: comm,
            next_comm: comm,
        });
        Event { time: Nanos(0), kind }
    }

    fn is_blind(events: &[Event]) -> bool {
        let mut watch = ChainWatch::default();
        events.iter().for_each(|event| watch.see(event));
        watch.is_blind()
    }

    #[test]
    fn a_cpu_that_leaves_idle_unseen_is_blind() {
        assert!(is_blind(&[switch(1, 0), switch(2, 0), switch(2, 3)]));
    }

    #[test]
    fn a_cpu_that_leaves_idle_seen_is_not() {
        assert!(!is_blind(&[switch(1, 0), switch(0, 2), switch(2, 0)]));
    }

    #[test]
    fn any_task_that_leaves_unseen_makes_a_cpu_blind() {
        assert!(is_blind(&[switch(1, 2), switch(3, 1)]));
    }

    #[test]
    fn a_cpu_that_lost_events_or_shows_every_task_is_not() {
        assert!(!is_blind(&[switch(1, 2), switch(2, 1)]));
        let lost = Event { time: Nanos(0), kind: Kind::Lost { count: 1 } };
        assert!(!is_blind(&[switch(1, 0), lost, switch(2, 1)]));
    }

    const ONLINE: &str = "/sys/devices/system/cpu/online";

    fn source_on(machine: &Fake) -> PerfSource {
        let layout = layout();
        let options = Options {
            ring_bytes: 1 << 16,
            wake_bytes: 1 << 12,
            tracepoints: layout.tracepoints(),
            namespace_ids: false,
        };
        PerfSource::open(Box::new(machine.clone()), layout, options, 1 << 16).expect("it opens")
    }

    fn numbers(source: &PerfSource) -> Vec<u32> {
        source.cpus().iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn cpus_that_come_are_opened_and_enabled_and_those_that_go_are_closed() {
        let machine = Fake::default().file(ONLINE, "0,2\n");
        let mut source = source_on(&machine);
        assert_eq!(numbers(&source), [0, 2]);
        let opened = machine.asked().len();

        machine.write(ONLINE, "0-1\n");
        source.look_for_cpus().expect("nothing is refused");
        assert_eq!(numbers(&source), [0, 1]);
        let asked = machine.asked().split_off(opened);
        assert!(asked.iter().all(|call| !call.ends_with("cpu 0")), "CPU 0 stays open: {asked:?}");
        assert_eq!(asked.iter().filter(|call| *call == "enable").count(), 4, "{asked:?}");

        machine.write(ONLINE, "0-2\n");
        source.look_for_cpus().expect("nothing is refused");
        assert_eq!(numbers(&source), [0, 1, 2]);
    }

    #[test]
    fn a_list_of_cpus_that_cannot_be_read_leaves_the_recorded_ones_alone() {
        let machine = Fake::default().file(ONLINE, "0-1\n");
        let mut source = source_on(&machine);
        machine.write(ONLINE, "nonsense\n");
        source.look_for_cpus().expect_err("no list");
        assert_eq!(numbers(&source), [0, 1]);
    }
}
