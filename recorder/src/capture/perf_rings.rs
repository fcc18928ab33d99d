//! The perf rings of all online CPUs: opening them, reading them into a [`Merger`], following CPUs that come and go.
//!
//! Of the scheduler's tracepoints as many are opened as the options name. With
//! none, the rings carry only what comes without tracepoints: forks, exits and
//! names, which every source needs.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decode::{self, Shape};
use super::event::{Event, Kind};
use super::order::{Lane, Merger, Queue};
use super::readers::{ReadRing, Readers};
use super::sched::SchedLayout;
use super::source::SourceError;
use crate::kernel::extra::OpenExtras;
use crate::kernel::perf::{CpuEvents, KernelCount, OpenError, Options};
use crate::kernel::sys::Sys;
use crate::kernel::{clock, cpus, idle_probe};
use crate::units::{Cpu, Tid};

/// How often it is looked whether CPUs came or went.
const HOTPLUG_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct CpuRing {
    events: CpuEvents,
    lane: Lane,
    layout: Arc<SchedLayout>,
    options: Arc<Options>,
    undecoded: u64,
    /// What lost records in the ring said.
    told_lost: u64,
    /// Who came in by the last switch in the ring.
    incoming: Option<Tid>,
}

impl CpuRing {
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

impl ReadRing for CpuRing {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn read(&mut self, queue: &mut Queue) {
        self.events.ring.refresh();
        let drained = loop {
            if queue.is_full() {
                break false;
            }
            let Some(record) = self.events.ring.next_record() else { break true };
            let is_sample = record.kind == perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;
            let shape = shape(&self.options, &self.events.extras);
            match decode::decode(&self.layout, record, shape) {
                Some(found) => {
                    if let Some(identity) = found.identity {
                        queue.push(identity);
                    }
                    let mut event = found.event;
                    if let Kind::Sample(sample) = &mut event.kind {
                        sample.payload = queue.keep(found.payload);
                    }
                    let stale = self.is_stale(&event);
                    if !stale || self.options.namespace_ids {
                        queue.push(event);
                    }
                }
                None if is_sample => self.undecoded += 1,
                None => {}
            }
        };
        self.events.ring.release();
        queue.set_drained(drained);
    }
}

/// The perf events of all online CPUs.
#[derive(Debug)]
pub struct PerfRings {
    sys: Box<dyn Sys + Send>,
    layout: Arc<SchedLayout>,
    options: Options,
    min_ring_bytes: usize,
    rings: Vec<CpuRing>,
    readers: Readers<CpuRing>,
    /// Why rings cannot be read any more.
    failed: Option<io::Error>,
    /// Counts of CPUs that went offline.
    past_counts: Vec<KernelCount>,
    undecoded: u64,
    garbled: u64,
    hotplug_checked: Instant,
}

/// What was counted about rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// What the kernel itself counted, in the order of the options' tracepoints.
    pub kernel: Vec<KernelCount>,
    /// Samples that could not be decoded.
    pub undecoded: u64,
    /// Times that a ring held something that is no record.
    pub garbled: u64,
}

impl PerfRings {
    /// Opens the events of every online CPU, disabled, each with a lane of its own in `merger`.
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
        merger: &mut Merger,
    ) -> Result<PerfRings, SourceError> {
        let mut rings = PerfRings {
            past_counts: vec![KernelCount::default(); options.tracepoints.len()],
            sys,
            layout: Arc::new(layout),
            options,
            min_ring_bytes,
            rings: Vec::new(),
            readers: Readers::default(),
            failed: None,
            undecoded: 0,
            garbled: 0,
            hotplug_checked: Instant::now(),
        };
        loop {
            let refused = match rings.add_online(merger) {
                Err(SourceError::Open(error)) if error.is_out_of_memory() => error,
                result => return result.map(|()| rings),
            };
            rings.rings.clear();
            let half = rings.options.ring_bytes / 2;
            if half < min_ring_bytes {
                return Err(refused.into());
            }
            rings.options.ring_bytes = half;
            rings.options.wake_bytes = rings.options.wake_bytes.min((half / 2) as u32);
        }
    }

    fn add_online(&mut self, merger: &mut Merger) -> Result<(), SourceError> {
        for cpu in cpus::online(&*self.sys)? {
            match self.add(cpu, self.options.ring_bytes, merger) {
                // It was online a moment ago; when it comes back, it is opened then.
                Err(OpenError::Offline(_)) => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        cpu: Cpu,
        min_ring_bytes: usize,
        merger: &mut Merger,
    ) -> Result<(), OpenError> {
        let events = CpuEvents::open(&*self.sys, cpu, &self.options, min_ring_bytes)?;
        let lane = merger.lane(cpu);
        let (layout, options) = (self.layout.clone(), Arc::new(self.options.clone()));
        let (told_lost, incoming, undecoded) = (0, None, 0);
        self.rings.push(CpuRing { events, lane, layout, options, undecoded, told_lost, incoming });
        Ok(())
    }

    /// The CPUs whose events are open.
    pub fn cpus(&self) -> Vec<Cpu> {
        self.rings.iter().map(|ring| ring.events.cpu()).collect()
    }

    /// Bytes of the smallest ring that the kernel granted.
    pub fn ring_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.events.ring.size()).min().unwrap_or(0)
    }

    /// Starts all events.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn enable(&self) -> Result<(), OpenError> {
        self.rings.iter().try_for_each(|ring| ring.events.enable(&*self.sys))
    }

    /// Stops all events; what the rings hold stays readable.
    pub fn disable(&self) {
        for ring in &self.rings {
            ring.events.disable(&*self.sys);
        }
    }

    /// The descriptors that poll(2) reports readable when rings want to be read.
    pub fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.events.poll_fd())
    }

    /// Lets every CPU be idle for a moment and looks, without taking anything out of the rings, whether each task
    /// there was reported. Lets the kernel write switch records where one was not. Returns those CPUs.
    ///
    /// # Errors
    /// [`OpenError`] when the switch records cannot be had.
    pub fn find_silent(&mut self) -> Result<Vec<Cpu>, OpenError> {
        idle_probe::nap_on_each(self.cpus());
        let mut silent = Vec::new();
        for CpuRing { events, .. } in &mut self.rings {
            events.ring.refresh();
            let mut watch = ChainWatch::default();
            while let Some(record) = events.ring.next_record() {
                let shape = shape(&self.options, &events.extras);
                if let Some(found) = decode::decode(&self.layout, record, shape) {
                    watch.see(&found.event);
                }
            }
            events.ring.rewind();
            if watch.is_blind() {
                events.add_switch_records(&*self.sys, &self.options)?;
                silent.push(events.cpu());
            }
        }
        Ok(silent)
    }

    /// Lets the kernel write switch records for `cpu`.
    ///
    /// # Errors
    /// [`OpenError`]; recording goes on without them.
    pub fn add_switch_records(&mut self, cpu: Cpu) -> Result<(), OpenError> {
        let found = self.rings.iter_mut().find(|ring| ring.events.cpu() == cpu);
        found.map_or(Ok(()), |ring| ring.events.add_switch_records(&*self.sys, &self.options))
    }

    /// Moves what the rings hold into the merger; true when one is not empty since its lane is full.
    pub fn read(&mut self, merger: &mut Merger) -> bool {
        let read = self.readers.read(&mut self.rings, merger);
        read.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            false
        })
    }

    /// Why rings cannot be read any more, told once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Adds what was lost at the very end, which no ring tells any more.
    pub fn tell_rest(&self, merger: &mut Merger) {
        for ring in &self.rings {
            tell_rest(merger, ring, &*self.sys);
        }
    }

    /// Once a second: opens CPUs that came online and lets go of those that went. Returns whether it was time to.
    ///
    /// # Errors
    /// [`SourceError`]; the CPUs that are recorded stay so.
    pub fn follow_hotplug(&mut self, merger: &mut Merger) -> Result<bool, SourceError> {
        if self.hotplug_checked.elapsed() < HOTPLUG_INTERVAL {
            return Ok(false);
        }
        self.hotplug_checked = Instant::now();
        self.look_for_cpus(merger).map(|()| true)
    }

    fn look_for_cpus(&mut self, merger: &mut Merger) -> Result<(), SourceError> {
        let online = cpus::online(&*self.sys)?;
        self.read(merger);
        let (stay, gone) = std::mem::take(&mut self.rings)
            .into_iter()
            .partition(|ring| online.contains(&ring.events.cpu()));
        self.rings = stay;
        for ring in gone {
            self.retire(&ring, merger);
        }
        let known = self.cpus();
        for cpu in online.into_iter().filter(|cpu| !known.contains(cpu)) {
            match self.add(cpu, self.min_ring_bytes, merger) {
                Err(OpenError::Offline(_)) => continue,
                result => result?,
            }
            if let Some(ring) = self.rings.last() {
                ring.events.enable(&*self.sys)?;
            }
        }
        Ok(())
    }

    fn retire(&mut self, ring: &CpuRing, merger: &mut Merger) {
        tell_rest(merger, ring, &*self.sys);
        self.undecoded += ring.undecoded;
        self.garbled += ring.events.ring.garbled();
        let counts = ring.events.kernel_counts(&*self.sys);
        self.past_counts = add_counts(&self.past_counts, &counts);
    }

    /// The counts so far.
    pub fn counts(&self) -> RingCounts {
        let mut counts = RingCounts {
            kernel: self.past_counts.clone(),
            undecoded: self.undecoded,
            garbled: self.garbled,
        };
        for CpuRing { events, undecoded, .. } in &self.rings {
            counts.kernel = add_counts(&counts.kernel, &events.kernel_counts(&*self.sys));
            counts.undecoded += undecoded;
            counts.garbled += events.ring.garbled();
        }
        counts
    }
}

/// What the records of a CPU's ring carry.
fn shape<'a>(options: &Options, extras: &'a OpenExtras) -> Shape<'a> {
    let extras = options.event_ids().then_some(extras);
    Shape { namespace_ids: options.namespace_ids, extras }
}

/// Adds what was lost and not told yet: the kernel says in the ring how much it lost when it has room again and
/// something to write, which at the end of a recording is never.
fn tell_rest(merger: &mut Merger, ring: &CpuRing, sys: &dyn Sys) {
    let lost = ring.events.lost(sys).unwrap_or(0);
    let count = lost.saturating_sub(ring.told_lost);
    if count > 0 {
        merger.push(ring.lane, Event { time: clock::now(), kind: Kind::Lost { count } });
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
pub(super) struct ChainWatch {
    current: Option<Tid>,
    broken: bool,
}

impl ChainWatch {
    pub(super) fn see(&mut self, event: &Event) {
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

    pub(super) fn is_blind(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Comm, Switch};
    use super::super::sched::tests::layout;
    use super::*;
    use crate::kernel::fake::Fake;
    use crate::kernel::prev_state::PrevState;
    use crate::units::Nanos;

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

    fn rings_on(machine: &Fake, merger: &mut Merger) -> PerfRings {
        let layout = layout();
        let options = Options {
            ring_bytes: 1 << 16,
            wake_bytes: 1 << 12,
            tracepoints: layout.tracepoints(),
            namespace_ids: false,
            extras: std::sync::Arc::new([]),
        };
        let sys = Box::new(machine.clone());
        PerfRings::open(sys, layout, options, 1 << 16, merger).expect("it opens")
    }

    fn numbers(rings: &PerfRings) -> Vec<u32> {
        rings.cpus().iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn cpus_that_come_are_opened_and_enabled_and_those_that_go_are_closed() {
        let machine = Fake::default().file(ONLINE, "0,2\n");
        let mut merger = Merger::new();
        let mut rings = rings_on(&machine, &mut merger);
        assert_eq!(numbers(&rings), [0, 2]);
        let opened = machine.asked().len();

        machine.write(ONLINE, "0-1\n");
        rings.look_for_cpus(&mut merger).expect("nothing is refused");
        assert_eq!(numbers(&rings), [0, 1]);
        let asked = machine.asked().split_off(opened);
        assert!(asked.iter().all(|call| !call.ends_with("cpu 0")), "CPU 0 stays open: {asked:?}");
        assert_eq!(asked.iter().filter(|call| *call == "enable").count(), 4, "{asked:?}");

        machine.write(ONLINE, "0-2\n");
        rings.look_for_cpus(&mut merger).expect("nothing is refused");
        assert_eq!(numbers(&rings), [0, 1, 2]);
    }

    #[test]
    fn a_list_of_cpus_that_cannot_be_read_leaves_the_recorded_ones_alone() {
        let machine = Fake::default().file(ONLINE, "0-1\n");
        let mut merger = Merger::new();
        let mut rings = rings_on(&machine, &mut merger);
        machine.write(ONLINE, "nonsense\n");
        rings.look_for_cpus(&mut merger).expect_err("no list");
        assert_eq!(numbers(&rings), [0, 1]);
    }
}
