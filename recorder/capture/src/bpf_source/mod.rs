//! Events from programs inside of the kernel, one lane of records per CPU.
//!
//! Switches and wakeups come from [`fxtrec_kernel::bpf`]; forks, exits and names, and all other perf records, come from perf's rings. Both
//! use the same clock and are combined in the merger, where each CPU has a queue for each of the two.

mod cpu;
mod groups;

use std::io;
use std::time::Duration;

use super::event::Event;
use super::merge_thread::{Intake, Merging};
use super::order::{Handed, Merger, Receive};
use super::perf_rings::PerfRings;
use super::readers::Readers;
use super::ring_source::Rings;
use super::sched::SchedLayout;
use super::source::{
    Causes, EventSink, SchedEvents, Source, SourceError, SourceKind, SourceStats, StartFilter,
};
use cpu::{CallEvents, CpuLane, LaneDecoder, States};
use fxtrec_kernel::bpf::events::{BpfEvents, Wanted};
use fxtrec_kernel::bpf::groups::GroupScope;
use fxtrec_kernel::bpf::lane::{COUNTED, Lane, RawRecord, Record};
use fxtrec_kernel::bpf::scope::ScopeBy;
use fxtrec_kernel::bpf::stacks::WaitNotes;
use fxtrec_kernel::bpf::sys::BpfSys;
use fxtrec_kernel::extra::{CallSide, Calls, Extra, ExtraIndex, What};
use fxtrec_kernel::perf::{KernelCount, Options};
use fxtrec_kernel::priority::ThreadId;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::thread_times::ThreadTimes;
use fxtrec_kernel::{clock, cpus, machine, steal};
use fxtrec_units::glob::Pattern;
use fxtrec_units::{Cpu, Nanos, Pid};
use groups::Groups;

/// How many microseconds to wait after each attempt to close the lanes. A program needs about one microsecond, unless the host takes its
/// CPU away.
const CLOSING: [u64; 5] = [50, 200, 1000, 4000, 0];

/// The options of a recording for this source.
#[derive(Clone, Debug)]
pub struct BpfOptions {
    /// The perf events in addition to the programs.
    pub perf: Options,
    /// Bytes of a perf ring that carries forks, exits and names alone.
    pub least_perf_ring_bytes: usize,
    /// The smallest acceptable perf ring, in bytes.
    pub min_perf_ring_bytes: usize,
    /// Maximum size of each CPU's lane, in bytes.
    pub lane_bytes: usize,
    pub waking: bool,
    /// Whether to record when each switch was requested.
    pub need_resched: bool,
    /// Whether to record the futexes on which threads block.
    pub locks: bool,
    /// Whether to record only switches and wakeups, without the facts that explain them.
    pub plain: bool,
    /// How the scope is narrowed; `None` if it is not. [`Source::narrow`] or [`Source::narrow_to_cgroups`] selects the threads.
    pub narrow: Option<ScopeBy>,
    /// The only user whose threads are recorded.
    pub owner: Option<u32>,
}

/// The lanes of all CPUs, perf's rings, and the merger of both.
#[derive(Debug)]
struct LaneIntake {
    lanes: Vec<CpuLane>,
    readers: Readers<CpuLane>,
    rings: PerfRings,
    merger: Merger,
}

impl Intake for LaneIntake {
    type Item = RawRecord;

    fn round(&mut self, to: &mut impl Receive<RawRecord>) -> bool {
        let LaneIntake { lanes, readers, rings, merger, .. } = self;
        let read = |merger: &mut Merger, lanes: &mut Vec<CpuLane>| {
            let full = rings.read(merger);
            !readers.read(lanes, merger).drained || full
        };
        merger.round_with(lanes, read, clock::now, to)
    }

    fn emitted(&self) -> Nanos {
        self.merger.emitted()
    }

    #[inline]
    fn time(record: &RawRecord) -> Option<Nanos> {
        Record::time(record)
    }
}

/// Decodes the events that the merger passes on. Each lane uses the decoder with the same index.
struct Decoding<'a, 'b> {
    decoders: &'a mut [LaneDecoder],
    take: &'a mut EventSink<'b>,
}

impl Receive<RawRecord> for Decoding<'_, '_> {
    #[inline]
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool {
        (self.take)(time, cpu, event, bytes)
    }

    #[inline]
    fn item(&mut self, handed: &mut Handed, lane: usize, cpu: Cpu, record: &RawRecord) -> bool {
        let Decoding { decoders, take } = self;
        decoders[lane].decode(record, |event| take(handed.at(event.time), cpu, event, &[]))
    }
}

/// The programs, and the receiver of their records.
#[derive(Debug)]
pub struct BpfSource {
    events: BpfEvents,
    merging: Merging<LaneIntake>,
    /// One for each lane that ever existed.
    decoders: Vec<LaneDecoder>,
    states: States,
    narrow: Option<ScopeBy>,
    /// Which cgroups are in scope, if the scope is by cgroup.
    groups: Option<Groups>,
    /// Reported events that no program saw: scheduler events, and system calls.
    missed: [u64; 2],
    /// The numbers of system calls, if programs report them.
    calls: Option<CallEvents>,
    outset: StartFilter,
}

impl BpfSource {
    /// Opens all events on every online CPU, but starts none. With `notes`, the program on switches notes which threads wait, if the kernel
    /// accepts it: see [`Source::notes_waits`].
    ///
    /// # Errors
    /// Returns [`SourceError`], at the first call that the kernel refuses.
    pub fn open(
        sys: Box<dyn Sys + Send + Sync>,
        bpf: Box<dyn BpfSys + Send>,
        layout: SchedLayout,
        options: BpfOptions,
        notes: Option<WaitNotes<'_>>,
    ) -> Result<BpfSource, SourceError> {
        let BpfOptions {
            mut perf,
            least_perf_ring_bytes,
            min_perf_ring_bytes,
            lane_bytes,
            waking,
            need_resched,
            locks,
            plain,
            narrow,
            owner,
        } = options;
        if perf.namespace_ids {
            return Err(SourceError::InnerPidNamespace);
        }
        let states = States::new(layout.states()).ok_or(SourceError::UnknownStates)?;
        let online = cpus::online(&*sys)?;
        let possible = cpus::possible(&*sys)?.last().map_or(0, |cpu| cpu.0 as usize + 1);
        let steal = steal::is_accounted(&*sys);
        let threaded_softirqs = machine::is_realtime(&*sys);
        let need_resched =
            need_resched && machine::may_watch_requests(&machine::Machine::current().release);
        let asked = calls_among(&perf.extras);
        let wanted = Wanted {
            calls: asked.as_ref().map(|(_, numbers)| numbers.as_deref()),
            cpus: &online,
            possible,
            lane_bytes,
            waking,
            need_resched,
            narrow,
            owner,
            steal,
            threaded_softirqs,
            locks,
            packets: !plain,
            plain,
            notes,
        };
        // From then on, all records say which threads are in scope.
        let narrow = owner.map(|_| ScopeBy::Owner).or(narrow);
        let (mut events, lanes) = BpfEvents::open(&*sys, bpf, &wanted)?;
        perf.tracepoints.clear();
        let calls = asked.map(|(calls, _)| calls).filter(|_| events.reports_calls());
        if calls.is_some() {
            perf.extras = perf.extras.iter().map(without_calls).collect();
            if !perf.event_ids() {
                // It wakes the reader when the same part of it is filled.
                let part = perf.ring_bytes.div_ceil(least_perf_ring_bytes).max(1);
                perf.ring_bytes = perf.ring_bytes.min(least_perf_ring_bytes);
                perf.wake_bytes /= u32::try_from(part).unwrap_or(u32::MAX);
            }
        }
        let mut merger = Merger::new();
        let rings = PerfRings::open(sys, layout, perf, min_perf_ring_bytes, &mut merger)?;
        let cpus = lanes.len();
        let mut intake =
            LaneIntake { lanes: Vec::new(), readers: Readers::default(), rings, merger };
        let mut decoders = Vec::new();
        let call_lanes = calls.map(|_| events.take_call_lanes()).unwrap_or_default();
        for lane in lanes {
            let decoder = LaneDecoder::new(states.clone(), lane.0, narrow, None);
            intake.add(lane, decoder, &mut decoders);
        }
        for lane in call_lanes {
            let decoder = LaneDecoder::new(states.clone(), lane.0, None, calls);
            intake.add(lane, decoder, &mut decoders);
        }
        Ok(BpfSource {
            events,
            merging: Merging::new(intake, cpus),
            decoders,
            states,
            narrow,
            groups: None,
            missed: [0; 2],
            calls,
            outset: StartFilter::default(),
        })
    }

    fn round_once(&mut self, take: &mut EventSink<'_>) -> bool {
        let BpfSource { merging, decoders, outset, .. } = self;
        let emitted = merging.intake().emitted();
        outset.pass(emitted, take, |take| merging.round(&mut Decoding { decoders, take }))
    }

    /// Ends the recording on all CPUs at once, unless a program is delayed: for the switch lanes, or for the system call lanes.
    fn close_lanes(&self, switches: bool) {
        let intake = self.merging.intake();
        let lanes = || intake.lanes.iter().filter(|lane| lane.has_switches() == switches);
        for (tries, micros) in CLOSING.into_iter().enumerate() {
            // Tries all lanes each time: see [`Lane::close`](fxtrec_kernel::bpf::lane::Lane::close).
            let open = lanes().filter(|lane| !lane.close()).count();
            if open == 0 && tries > 0 {
                return;
            }
            std::thread::sleep(Duration::from_micros(micros));
        }
    }

    /// Adds events that the programs could not write or did not see. Events of the second kind belong to no CPU, so they are reported for
    /// the first one.
    fn report_losses(&mut self) {
        let missed = [self.events.missed(), self.events.missed_calls()];
        let before = std::mem::replace(&mut self.missed, missed);
        let [mut also, mut calls] = [0, 1].map(|of| missed[of].saturating_sub(before[of]));
        let LaneIntake { lanes, merger, .. } = &mut *self.merging.intake();
        for lane in lanes {
            let also = if lane.has_switches() { &mut also } else { &mut calls };
            lane.report_losses(merger, std::mem::take(also));
        }
    }
}

impl LaneIntake {
    /// Adds a lane, which is not open yet, and its decoder to `decoders`. Returns the lane together with the merger.
    fn add(
        &mut self,
        lane: (Cpu, Lane),
        decoder: LaneDecoder,
        decoders: &mut Vec<LaneDecoder>,
    ) -> (&CpuLane, &mut Merger) {
        let LaneIntake { lanes, merger, .. } = self;
        lanes.push(CpuLane::new(decoders.len(), lane, merger, decoder.is_of_calls()));
        decoders.push(decoder);
        (&lanes[lanes.len() - 1], merger)
    }
}

/// Which events are system calls, and their numbers.
fn calls_among(extras: &[Extra]) -> Option<(CallEvents, Option<Vec<u16>>)> {
    let find = |side| {
        extras.iter().zip((0..).map(ExtraIndex)).find_map(|(extra, index)| match &extra.what {
            What::Calls(calls) if calls.side == side => Some((index, calls)),
            _ => None,
        })
    };
    let ((enter, Calls { numbers, .. }), (exit, _)) =
        find(CallSide::Enter).zip(find(CallSide::Exit))?;
    Some((CallEvents { enter, exit }, numbers.clone()))
}

/// The events for perf's rings, except the system calls that programs record.
fn without_calls(extra: &Extra) -> Extra {
    match &extra.what {
        What::Calls(_) => Extra { what: What::Elsewhere, ..extra.clone() },
        _ => extra.clone(),
    }
}

impl Source for BpfSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Bpf
    }

    fn cpus(&self) -> Vec<Cpu> {
        self.merging.intake().rings.cpus()
    }

    fn causes(&self, _silent: &[Cpu]) -> Causes {
        let reported = self.events.reported();
        Causes {
            steal: reported.steal,
            irq: reported.irqs,
            need_resched: reported.requests,
            throttled: reported.throttles,
            migrate: true,
            syscall: reported.syscalls,
            waker: reported.wakers,
            interrupt_kind: reported.origins,
            packets: reported.packets,
            requests: reported.disk_requests,
            futex: reported.futexes,
            kernel_lock: reported.kernel_locks,
            quotas: false,
        }
    }

    fn ring_bytes(&self) -> usize {
        self.merging.intake().lanes.iter().map(CpuLane::bytes).min().unwrap_or(0)
    }

    fn use_threads(&mut self, threads: usize) {
        self.merging.force(threads > 1);
        let mut intake = self.merging.intake();
        intake.readers = Readers::exactly(threads.saturating_sub(1), intake.lanes.len());
    }

    fn merge_load(&self) -> Option<(ThreadId, ThreadTimes)> {
        self.merging.load()
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        let LaneIntake { rings, .. } = &mut *self.merging.intake();
        // Forks and names are read first, so that no event is from a thread whose fork was missed.
        rings.enable_lives()?;
        self.events.attach()?;
        rings.enable_events()
    }

    fn begin(&mut self) -> Nanos {
        let begin = self.outset.begin(clock::now());
        // This only stores to each lane's memory, which disturbs nothing else. Lanes of switches are read first, because every other event
        // says which thread is running.
        self.merging.intake().lanes.iter().for_each(CpuLane::open);
        begin
    }

    fn narrows(&self) -> bool {
        self.narrow.is_some()
    }

    fn narrow(&mut self, pids: &[Pid]) {
        let Some(scope) = self.events.scope() else { return };
        pids.iter().for_each(|pid| scope.insert_process(*pid));
    }

    fn narrow_to_cgroups(&mut self, globs: &[Pattern]) -> bool {
        let Some(scope) = self.events.groups() else { return false };
        self.groups = Groups::new(globs, scope);
        self.groups.is_some()
    }

    fn round(&mut self, take: &mut EventSink<'_>) {
        self.round_once(take);
    }

    fn limit_rounds(&mut self, most: usize) {
        self.merging.intake().merger.limit_rounds(Some(most));
    }

    fn has_more(&self) -> bool {
        self.merging.intake().merger.has_more()
    }

    fn finish(&mut self, take: &mut EventSink<'_>) {
        {
            let mut intake = self.merging.intake();
            intake.merger.limit_rounds(None);
            intake.rings.disable_events();
        }
        if self.calls.is_some() {
            self.close_lanes(false);
        }
        self.close_lanes(true);
        self.events.detach();
        self.merging.intake().rings.disable_lives();
        if self.round_once(&mut *take) {
            self.report_losses();
            let BpfSource { merging, decoders, outset, .. } = self;
            let LaneIntake { lanes, rings, merger, .. } = &mut *merging.intake();
            rings.report_remaining_losses(merger);
            lanes.iter_mut().for_each(|lane| lane.report_remaining_losses(merger, decoders));
            outset.pass(merger.emitted(), take, |take| {
                merger.emit_with(Nanos(u64::MAX), lanes, &mut Decoding { decoders, take })
            });
        }
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        let merging = self.merging.take_failure();
        merging.or_else(|| {
            let LaneIntake { readers, rings, .. } = &mut *self.merging.intake();
            readers.take_failure().or_else(|| rings.take_failure())
        })
    }

    fn wait(&mut self, stop: &StopToken, timeout: Duration) -> io::Result<()> {
        if let Some(error) = self.take_failure() {
            return Err(error);
        }
        let intake = self.merging.intake();
        let fds = intake.rings.poll_fds().chain([self.events.poll_fd()]);
        let waited = stop.wait(fds, timeout);
        drop(intake);
        self.events.answer();
        if let Some((groups, scope)) = self.groups.as_mut().zip(self.events.groups()) {
            groups.follow(scope);
        }
        waited
    }

    fn notes_waits(&self) -> bool {
        self.events.notes_waits()
    }

    fn follow_hotplug(&mut self) -> Result<(), SourceError> {
        let looked = {
            let LaneIntake { lanes, rings, merger, .. } = &mut *self.merging.intake();
            let looked = rings.follow_hotplug(merger)?;
            if looked {
                let online = rings.online()?;
                for lane in &mut *lanes {
                    lane.follow(online.contains(&lane.cpu));
                    // All events of a CPU before it went offline are in its lane at this time.
                    lane.look();
                }
            }
            for lane in lanes {
                lane.report_offline(merger);
            }
            looked
        };
        if !looked {
            return Ok(());
        }
        self.report_losses();
        let BpfSource { events, merging, decoders, states, narrow, calls, .. } = self;
        let intake = &mut *merging.intake();
        // A CPU that goes offline keeps its lane, so that no switch is missed when it is online again.
        for cpu in intake.rings.cpus() {
            if intake.lanes.iter().all(|lane| lane.cpu != cpu) {
                let time = clock::now();
                let lane = (cpu, events.add(cpu)?);
                let decoder = LaneDecoder::new(states.clone(), cpu, *narrow, None);
                let (lane, merger) = intake.add(lane, decoder, decoders);
                lane.open();
                // The CPU had no lane until now, and events without a lane were not counted.
                lane.report_unknown_loss(merger, time);
                if let Some((calls, lane)) = calls.zip(events.add_call_lane(cpu)?) {
                    let decoder = LaneDecoder::new(states.clone(), cpu, None, Some(calls));
                    intake.add((cpu, lane), decoder, decoders).0.open();
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> SourceStats {
        let LaneIntake { lanes, rings, merger, .. } = &*self.merging.intake();
        let SourceStats { undecoded, garbled, .. } = rings.stats();
        let mut counts = vec![KernelCount::default(); COUNTED];
        for lane in lanes {
            let lane = lane.counts();
            for (count, fired) in counts.iter_mut().zip(lane.fired) {
                count.fired += fired;
            }
        }
        let (late, most_late) = merger.late();
        let undecoded = undecoded + self.decoders.iter().map(LaneDecoder::unknown).sum::<u64>();
        let unreported = SchedEvents::default();
        let cgroups_left_out = self.events.groups().map_or(0, GroupScope::left_out);
        SourceStats {
            kernel_counts: counts,
            undecoded,
            garbled,
            unreported,
            late,
            most_late,
            cgroups_left_out,
        }
    }
}
