//! The perf rings of all online CPUs: opens them, reads them into a [`Merger`], and follows CPUs that come and go.
//!
//! The options name the scheduler's tracepoints to open. Without tracepoints, the rings carry only forks, exits and names, which every
//! source needs.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::decode::{self, Shape};
use super::event::{Event, Kind, Loss, LostOthers};
use super::order::{Lane, Merger, Queue};
use super::readers::{Look, ReadRing, Readers, WORTH_DECODING};
use super::ring_source::Rings;
use super::sched::SchedLayout;
use super::source::{SchedEvents, SourceError, SourceKind, SourceStats};
use fxtrec_kernel::extra::OpenExtras;
use fxtrec_kernel::hotplug::{Hotplug, MaybeOffline};
use fxtrec_kernel::perf::{CpuEvents, KernelCount, LostAside, OpenError, Options};
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::{clock, cpus, idle_probe};
use fxtrec_units::{Cpu, Nanos, Tid};

#[derive(Debug)]
struct CpuRing {
    events: CpuEvents,
    lane: Lane,
    layout: Arc<SchedLayout>,
    options: Arc<Options>,
    undecoded: u64,
    /// Samples of the options' tracepoints that were read from the ring.
    reported: SchedEvents,
    sys: Arc<dyn Sys + Send + Sync>,
    /// Losses that records in the ring have reported.
    listed_lost: u64,
    /// The number of these that were not samples.
    listed_aside: LostAside,
    /// The incoming thread of the last switch in the ring.
    incoming: Option<Tid>,
    /// Time of the youngest event in the ring.
    last: Nanos,
    /// Whether the CPU went offline, so that nothing follows in the ring.
    is_dead: bool,
}

impl CpuRing {
    /// Whether the event repeats something that the ring has already reported: nearly all switch records repeat a tracepoint's sample.
    fn is_stale(&self, event: &Event) -> bool {
        // Both ids are of the same kind only in the initial pid namespace.
        matches!(event.kind, Kind::Running { tid, .. } if self.incoming == Some(Tid(tid.0)))
    }

    /// Counts an event of the ring.
    #[inline]
    fn count(&mut self, event: &Event) {
        match event.kind {
            Kind::Switch(switch) => {
                self.reported.switches += 1;
                self.incoming = Some(switch.next);
            }
            Kind::Wake(_) | Kind::Moved { .. } => self.reported.others += 1,
            Kind::Lost(_) => self.incoming = None,
            _ => {}
        }
        self.last = self.last.max(event.time);
    }

    /// Splits a loss that the ring reports: the ring counts samples and all other records that found no room together.
    ///
    /// ```text
    ///   the ring        lost 7                lost 5
    ///   the events        2 of them aside       4 aside by now      read after the ring's records were
    ///   reported        5 samples             3 samples
    /// ```
    ///
    /// The events' own counts may be ahead of the ring's. So the reported number of other records is never too low, that of samples never
    /// too high, and in the end both sums equal the kernel's.
    fn divide(&mut self, count: u64, aside: Option<LostAside>) -> (Option<Loss>, Option<u64>) {
        self.listed_lost = self.listed_lost.saturating_add(count);
        let Some(aside) = aside else { return (Some(Loss::at_most(count)), None) };
        let listed = &mut self.listed_aside;
        let lives = count.min(aside.lives.saturating_sub(listed.lives));
        let switch_records =
            (count - lives).min(aside.switch_records.saturating_sub(listed.switch_records));
        listed.lives += lives;
        listed.switch_records += switch_records;
        let events = count - lives - switch_records;
        let loss = Loss { events: Some(events), at_most: false, switch_records };
        ((events + switch_records > 0).then_some(loss), (lives > 0).then_some(lives))
    }

    /// Passes on a loss that the ring or the events report.
    fn lost(&mut self, time: Nanos, count: u64, aside: Option<LostAside>, queue: &mut Queue) {
        let (loss, lives) = self.divide(count, aside);
        let mut push = |kind| queue.push(Event { time, kind });
        match loss {
            // Switches and wakeups have separate lanes.
            Some(Loss { events: Some(count), at_most, switch_records: 0 })
                if self.options.tracepoints.is_empty() =>
            {
                if !self.options.extras.is_empty() {
                    push(Kind::LostOthers(LostOthers { count, at_most, calls: false }));
                }
                if at_most {
                    push(Kind::LostLives { count: None });
                }
            }
            Some(loss) => push(Kind::Lost(loss)),
            None => {}
        }
        if lives.is_some() {
            push(Kind::LostLives { count: lives });
        }
    }

    /// Reports losses that were not reported yet. The kernel writes a loss into the ring when there is space again and something else to
    /// write; at the end of a recording, or when its CPU goes offline, this never happens.
    fn report_remaining_losses(&mut self, time: Nanos, merger: &mut Merger) {
        let lost = self.events.lost(&*self.sys).unwrap_or(0);
        let count = lost.saturating_sub(self.listed_lost);
        if count > 0 {
            let aside = self.events.lost_aside(&*self.sys);
            self.lost(time, count, aside, merger.queue(self.lane));
        }
    }

    /// How many events of the options' tracepoints the kernel counted, but neither wrote nor counted as lost. Call this when the events
    /// have stopped and the ring is empty. 0 if the kernel does not count its losses.
    fn unreported(&self) -> SchedEvents {
        let counts = self.events.kernel_counts(&*self.sys);
        let written = counts.iter().map(|count| Some(count.fired.saturating_sub(count.lost?)));
        let Some(written) = written.collect::<Option<Vec<u64>>>() else {
            return SchedEvents::default();
        };
        let Some((switches, others)) = written.split_first() else {
            return SchedEvents::default();
        };
        let others = others.iter().sum::<u64>();
        // Records that could not be decoded were written, too, and may have been of any kind.
        SchedEvents {
            switches: switches.saturating_sub(self.reported.switches + self.undecoded),
            others: others.saturating_sub(self.reported.others + self.undecoded),
        }
    }
}

impl ReadRing for CpuRing {
    const WORTH_SHARING: usize = WORTH_DECODING;

    fn lane(&self) -> Lane {
        self.lane
    }

    fn read(&mut self, queue: &mut Queue) -> Look {
        let before = queue.held();
        self.events.ring.refresh();
        // Read at most once in each round, because reading an event's count interrupts its CPU.
        let mut aside: Option<Option<LostAside>> = None;
        let is_plain = shape(&self.options, &self.events.extras).is_plain();
        let drained = loop {
            if queue.is_full() {
                break false;
            }
            let Some(record) = self.events.ring.next_record() else { break true };
            let is_sample = record.kind == perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;
            if is_sample && is_plain {
                match decode::decode_plain(&self.layout, record.body) {
                    Some(event) => {
                        self.count(&event);
                        queue.push(event);
                    }
                    None => self.undecoded += 1,
                }
                continue;
            }
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
                    self.count(&event);
                    if let Kind::Lost(Loss { events: Some(count), .. }) = event.kind {
                        let aside =
                            *aside.get_or_insert_with(|| self.events.lost_aside(&*self.sys));
                        self.lost(event.time, count, aside, queue);
                        continue;
                    }
                    if !self.is_stale(&event) || self.options.namespace_ids {
                        queue.push(event);
                    }
                }
                None if is_sample => self.undecoded += 1,
                None => {}
            }
        };
        self.events.ring.release();
        queue.set_drained(drained);
        Look { brought: queue.held() - before, drained }
    }
}

/// The perf events of all online CPUs.
#[derive(Debug)]
pub struct PerfRings {
    sys: Arc<dyn Sys + Send + Sync>,
    layout: Arc<SchedLayout>,
    options: Options,
    min_ring_bytes: usize,
    rings: Vec<CpuRing>,
    readers: Readers<CpuRing>,
    /// Counts of CPUs that went offline.
    past_counts: Vec<KernelCount>,
    undecoded: u64,
    garbled: u64,
    unreported: SchedEvents,
    hotplug: Hotplug,
    /// CPUs whose events had to be reopened, and that need switch records again.
    wants_switch_records: Vec<Cpu>,
}

impl PerfRings {
    /// Opens the events of every online CPU, disabled, each with its own lane in `merger`.
    ///
    /// If the kernel refuses the memory for the rings, their size is halved, down to `min_ring_bytes`, equally for all CPUs: otherwise the
    /// first CPUs would take everything that is allowed.
    ///
    /// # Errors
    /// Returns [`SourceError`] at the first call that the kernel refuses.
    pub fn open(
        sys: Box<dyn Sys + Send + Sync>,
        layout: SchedLayout,
        options: Options,
        min_ring_bytes: usize,
        merger: &mut Merger,
    ) -> Result<PerfRings, SourceError> {
        let mut rings = PerfRings {
            past_counts: vec![KernelCount::default(); options.tracepoints.len()],
            // Before the first event is opened, so that no hotplug event is missed.
            hotplug: Hotplug::watch(&*sys),
            sys: Arc::from(sys),
            layout: Arc::new(layout),
            options,
            min_ring_bytes,
            rings: Vec::new(),
            readers: Readers::default(),
            undecoded: 0,
            garbled: 0,
            unreported: SchedEvents::default(),
            wants_switch_records: Vec::new(),
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
                // The CPU was online just before; its ring is opened when it is online again.
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
        self.rings.push(CpuRing {
            events,
            lane,
            layout,
            options,
            undecoded: 0,
            reported: SchedEvents::default(),
            sys: self.sys.clone(),
            listed_lost: 0,
            listed_aside: LostAside::default(),
            incoming: None,
            last: Nanos(0),
            is_dead: false,
        });
        Ok(())
    }

    /// The CPUs that are online now, whether or not their events are open.
    ///
    /// # Errors
    /// Returns [`SourceError`] if the kernel does not list them.
    pub fn online(&self) -> Result<Vec<Cpu>, SourceError> {
        Ok(cpus::online(&*self.sys)?)
    }

    /// ```text
    ///   CPU 1     ...events | offline            | online  events, unseen | reopened      events...
    ///   lane        the ring's last event                                 | before the first of the new ring
    ///   reported    what was lost there, Offline                          | Online, a loss of unknown size
    /// ```
    fn look_for_cpus(
        &mut self,
        suspects: &MaybeOffline,
        merger: &mut Merger,
    ) -> Result<(), SourceError> {
        let online = cpus::online(&*self.sys)?;
        for ring in self.rings.iter_mut().filter(|ring| !ring.is_dead) {
            let cpu = ring.events.cpu();
            ring.is_dead = !online.contains(&cpu)
                || suspects.contains(cpu) && !ring.events.are_running(&*self.sys);
            if ring.is_dead && ring.events.has_switch_records() {
                self.wants_switch_records.push(cpu);
            }
        }
        if self.rings.iter().any(|ring| ring.is_dead) {
            // Checked after the events were found to be dead, so that the rings are complete.
            self.read(merger);
            self.remove_offline(merger);
        }
        // A CPU must wait while there is no space in its lane for its last events, because a lane is for one ring.
        let known: Vec<Cpu> = self.rings.iter().map(|ring| ring.events.cpu()).collect();
        for cpu in online.into_iter().filter(|cpu| !known.contains(cpu)) {
            self.begin(cpu, merger)?;
        }
        Ok(())
    }

    /// Starts the events of forks, names and exits, for a source that gets the scheduler's events elsewhere.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    pub(crate) fn enable_lives(&self) -> Result<(), SourceError> {
        Ok(self.rings.iter().try_for_each(|ring| ring.events.enable_lives(&*self.sys))?)
    }

    /// Starts all other events; to be called when the threads on the CPUs are known.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    pub(crate) fn enable_events(&self) -> Result<(), SourceError> {
        Ok(self.rings.iter().try_for_each(|ring| ring.events.enable_events(&*self.sys))?)
    }

    /// Stops all events except those of forks, names and exits.
    pub(crate) fn disable_events(&self) {
        self.rings.iter().for_each(|ring| ring.events.disable_events(&*self.sys));
    }

    /// Stops the events of forks, names and exits.
    pub(crate) fn disable_lives(&self) {
        self.rings.iter().for_each(|ring| ring.events.disable_lives(&*self.sys));
    }

    /// Opens a CPU while the recording runs. The CPU's events between coming online and now are missing.
    fn begin(&mut self, cpu: Cpu, merger: &mut Merger) -> Result<(), SourceError> {
        match self.add(cpu, self.min_ring_bytes, merger) {
            Err(OpenError::Offline(_)) => return Ok(()),
            result => result?,
        }
        let Some(ring) = self.rings.last() else { return Ok(()) };
        let (lane, time) = (ring.lane, clock::now());
        let has_samples = !self.options.tracepoints.is_empty() || !self.options.extras.is_empty();
        let mut push = |kind| merger.push(lane, Event { time, kind });
        push(Kind::Online);
        if has_samples {
            push(Kind::Lost(Loss::unknown()));
        }
        push(Kind::LostLives { count: None });
        ring.events.enable(&*self.sys)?;
        if let Some(at) = self.wants_switch_records.iter().position(|wants| *wants == cpu) {
            self.wants_switch_records.swap_remove(at);
            self.is_silent(cpu)?;
        }
        Ok(())
    }

    /// Drops the rings of CPUs that went offline, once everything is read from them.
    fn remove_offline(&mut self, merger: &mut Merger) {
        let is_done = |ring: &mut CpuRing| ring.is_dead && merger.queue(ring.lane).is_drained();
        let done: Vec<CpuRing> = self.rings.extract_if(.., is_done).collect();
        if done.is_empty() {
            return;
        }
        let online = self.online().unwrap_or_default();
        for mut ring in done {
            // The ring has stopped on its own. The time must not be earlier than the events that were already passed on.
            let time = ring.last.max(merger.emitted());
            ring.report_remaining_losses(time, merger);
            let goes_idle = !self.options.tracepoints.is_empty();
            // If the scheduler's events have another source, that source knows better when an offline CPU stopped.
            if goes_idle || online.contains(&ring.events.cpu()) {
                merger.push(ring.lane, Event { time, kind: Kind::Offline { goes_idle } });
            }
            self.undecoded += ring.undecoded;
            self.garbled += ring.events.ring.garbled();
            self.unreported += ring.unreported();
            let counts = ring.events.kernel_counts(&*self.sys);
            self.past_counts = add_counts(&self.past_counts, &counts);
        }
    }
}

impl Rings for PerfRings {
    const KIND: SourceKind = SourceKind::Perf;

    fn cpus(&self) -> Vec<Cpu> {
        let alive = self.rings.iter().filter(|ring| !ring.is_dead);
        alive.map(|ring| ring.events.cpu()).collect()
    }

    fn ring_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.events.ring.size()).min().unwrap_or(0)
    }

    fn tells_kernel_locks(&self) -> bool {
        self.layout.filter_of_contention().is_some()
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        Ok(self.rings.iter().try_for_each(|ring| ring.events.enable(&*self.sys))?)
    }

    fn disable(&mut self) {
        for ring in &self.rings {
            ring.events.disable(&*self.sys);
        }
    }

    fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.events.poll_fd()).chain(self.hotplug.poll_fd())
    }

    /// Reads nothing from the rings, and makes the kernel write switch records on CPUs where a task was not reported.
    fn find_silent(&mut self, _merger: &mut Merger) -> Result<Vec<Cpu>, SourceError> {
        idle_probe::sleep_on_each(self.cpus());
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
            if watch.is_silent() {
                events.add_switch_records(&*self.sys, &self.options)?;
                silent.push(events.cpu());
            }
        }
        Ok(silent)
    }

    /// Makes the kernel write switch records for `cpu`.
    fn is_silent(&mut self, cpu: Cpu) -> Result<(), SourceError> {
        let is_it = |ring: &&mut CpuRing| !ring.is_dead && ring.events.cpu() == cpu;
        let found = self.rings.iter_mut().find(is_it);
        match found {
            Some(ring) => Ok(ring.events.add_switch_records(&*self.sys, &self.options)?),
            None => Ok(()),
        }
    }

    fn use_threads(&mut self, threads: usize) {
        self.readers = Readers::exactly(threads, self.rings.len());
    }

    fn read(&mut self, merger: &mut Merger) -> bool {
        !self.readers.read(&mut self.rings, merger).drained
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        self.readers.take_failure()
    }

    fn report_remaining_losses(&mut self, merger: &mut Merger) {
        for ring in &mut self.rings {
            let time = if ring.is_dead { ring.last } else { clock::now() };
            ring.report_remaining_losses(time, merger);
            self.unreported += ring.unreported();
        }
    }

    fn follow_hotplug(&mut self, merger: &mut Merger) -> Result<bool, SourceError> {
        self.remove_offline(merger);
        let Some(suspects) = self.hotplug.look() else { return Ok(false) };
        self.look_for_cpus(&suspects, merger).map(|()| true)
    }

    fn stats(&self) -> SourceStats {
        let mut counts = SourceStats {
            kernel_counts: self.past_counts.clone(),
            undecoded: self.undecoded,
            garbled: self.garbled,
            unreported: self.unreported,
            ..SourceStats::default()
        };
        for CpuRing { events, undecoded, .. } in &self.rings {
            counts.kernel_counts =
                add_counts(&counts.kernel_counts, &events.kernel_counts(&*self.sys));
            counts.undecoded += undecoded;
            counts.garbled += events.ring.garbled();
        }
        counts
    }
}

/// Decodes the records of a CPU's ring.
fn shape<'a>(options: &Options, extras: &'a OpenExtras) -> Shape<'a> {
    let extras = options.event_ids().then_some(extras);
    Shape { namespace_ids: options.namespace_ids, extras }
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

/// Determines from a CPU's first events whether the kernel reports every task on it.
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
            Kind::Lost(_) => {
                self.current = None;
                return;
            }
            _ => return,
        };
        self.broken |= self.current.is_some_and(|known| known != current);
        self.current = Some(next);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests;
