//! Events from programs inside of the kernel, one lane of records per CPU.
//!
//! Switches and wake-ups come from [`fxtrec_kernel::bpf`]; forks, exits and
//! names, and whatever else perf is asked for, come from perf's rings. Both have
//! the same clock, and meet in the merger: each CPU has a queue for either.

mod cpu;
mod groups;

use std::io;
use std::time::Duration;

use super::order::Merger;
use super::perf_rings::PerfRings;
use super::readers::Readers;
use super::ring_source::Rings;
use super::sched::SchedLayout;
use super::source::{
    Causes, SchedEvents, Source, SourceError, SourceKind, SourceStats, StartFilter, Take,
};
use cpu::{CallEvents, CpuLane, States};
use fxtrec_kernel::bpf::events::{BpfEvents, Wanted};
use fxtrec_kernel::bpf::groups::GroupScope;
use fxtrec_kernel::bpf::lane::COUNTED;
use fxtrec_kernel::bpf::scope::ScopeBy;
use fxtrec_kernel::bpf::stacks::WaitNotes;
use fxtrec_kernel::bpf::sys::BpfSys;
use fxtrec_kernel::extra::{CallSide, Calls, Extra, ExtraIndex, What};
use fxtrec_kernel::perf::{KernelCount, Options};
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::{clock, cpus, machine, steal};
use fxtrec_units::glob::Pattern;
use fxtrec_units::{Cpu, Nanos, Pid};
use groups::Groups;

/// How many microseconds to wait after each try to close the lanes. A program takes one, unless the host takes its CPU away.
const CLOSING: [u64; 5] = [50, 200, 1000, 4000, 0];

/// What a recording asks of this source.
#[derive(Clone, Debug)]
pub struct BpfOptions {
    /// The perf events beside the programs.
    pub perf: Options,
    /// Bytes of a perf ring that carries forks, exits and names alone.
    pub least_perf_ring_bytes: usize,
    /// The smallest perf ring to be content with, in bytes.
    pub min_perf_ring_bytes: usize,
    /// Bytes of each CPU's lane, at most.
    pub lane_bytes: usize,
    pub waking: bool,
    /// Whether it is noted when a switch is asked for.
    pub need_resched: bool,
    /// Whether it is noted which futexes threads block on.
    pub locks: bool,
    /// Whether only switches and wake-ups are wanted, and nothing that explains them.
    pub plain: bool,
    /// By what only some processes are wanted, if so; which, [`Source::narrow`] or [`Source::narrow_to_cgroups`] will tell.
    pub narrow: Option<ScopeBy>,
    /// The only user whose threads are wanted.
    pub owner: Option<u32>,
}

/// The programs, the lanes of all CPUs, perf's rings, and the merger of them all.
#[derive(Debug)]
pub struct BpfSource {
    events: BpfEvents,
    lanes: Vec<CpuLane>,
    readers: Readers<CpuLane>,
    states: States,
    rings: PerfRings,
    merger: Merger,
    narrow: Option<ScopeBy>,
    /// Which cgroups are in scope, if any are to be.
    groups: Option<Groups>,
    /// Events that no program saw, as far as they have been told: the scheduler's, and system calls.
    missed: [u64; 2],
    /// What system calls are, if programs tell of them.
    calls: Option<CallEvents>,
    outset: StartFilter,
}

impl BpfSource {
    /// Opens everything on every online CPU; nothing runs yet. With `notes`, its program on switches notes who waits, if the kernel
    /// takes it: see [`Source::notes_waits`].
    ///
    /// # Errors
    /// [`SourceError`], at the first call that the kernel refuses.
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
        // Then all records tell who is in scope.
        let narrow = owner.map(|_| ScopeBy::Owner).or(narrow);
        let (mut events, lanes) = BpfEvents::open(&*sys, bpf, &wanted)?;
        perf.tracepoints.clear();
        let calls = asked.map(|(calls, _)| calls).filter(|_| events.tells_calls());
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
        let lane = |lane| CpuLane::new(lane, &mut merger, &states, narrow);
        let mut lanes: Vec<CpuLane> = lanes.into_iter().map(lane).collect();
        if let Some(calls) = calls {
            let lane = |lane| CpuLane::of_calls(lane, &mut merger, &states, calls);
            lanes.extend(events.take_call_lanes().into_iter().map(lane));
        }
        Ok(BpfSource {
            events,
            lanes,
            readers: Readers::default(),
            states,
            rings,
            merger,
            narrow,
            groups: None,
            missed: [0; 2],
            calls,
            outset: StartFilter::default(),
        })
    }

    fn round_once(&mut self, take: &mut Take<'_>) -> bool {
        let BpfSource { lanes, readers, rings, merger, outset, .. } = self;
        let read = |merger: &mut Merger, lanes: &mut Vec<CpuLane>| {
            let full = rings.read(merger);
            !readers.read(lanes, merger).drained || full
        };
        outset.pass(merger.emitted(), take, |take| merger.round_with(lanes, read, clock::now, take))
    }

    /// Ends the recording on all CPUs at once, as far as no program is held up: that of switches, or that of system calls.
    fn close_lanes(&self, switches: bool) {
        let lanes = || self.lanes.iter().filter(|lane| lane.has_switches() == switches);
        for (tries, micros) in CLOSING.into_iter().enumerate() {
            // All of them each time: see [`Lane::close`](fxtrec_kernel::bpf::lane::Lane::close).
            let open = lanes().filter(|lane| !lane.close()).count();
            if open == 0 && tries > 0 {
                return;
            }
            std::thread::sleep(Duration::from_micros(micros));
        }
    }

    /// Adds what the programs could not write or did not see. The latter belongs to no CPU; the first one stands for it.
    fn report_losses(&mut self) {
        let missed = [self.events.missed(), self.events.missed_calls()];
        let before = std::mem::replace(&mut self.missed, missed);
        let [mut also, mut calls] = [0, 1].map(|of| missed[of].saturating_sub(before[of]));
        for lane in &mut self.lanes {
            let also = if lane.has_switches() { &mut also } else { &mut calls };
            lane.report_losses(&mut self.merger, std::mem::take(also));
        }
    }
}

/// Which of the events are system calls, and their numbers.
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

/// The event for perf's rings, which programs have taken system calls from.
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
        self.rings.cpus()
    }

    fn causes(&self, _silent: &[Cpu]) -> Causes {
        let tells = self.events.tells();
        Causes {
            steal: tells.steal,
            irq: tells.irqs,
            need_resched: tells.requests,
            throttled: tells.throttles,
            migrate: true,
            syscall: tells.syscalls,
            waker: tells.wakers,
            interrupt_kind: tells.origins,
            packets: tells.packets,
            requests: tells.disk_requests,
            futex: tells.futexes,
            kernel_lock: tells.kernel_locks,
            quotas: false,
        }
    }

    fn ring_bytes(&self) -> usize {
        self.lanes.iter().map(CpuLane::bytes).min().unwrap_or(0)
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        // Forks and names first, so that no event comes from a thread whose fork was missed.
        self.rings.enable_lives()?;
        self.events.attach()?;
        self.rings.enable_events()
    }

    fn begin(&mut self) -> Nanos {
        let begin = self.outset.begin(clock::now());
        // A store into the memory of each, which disturbs nobody. Those of switches come first among them, since every other event names
        // a thread as current.
        self.lanes.iter().for_each(CpuLane::open);
        begin
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

    fn round(&mut self, take: &mut Take<'_>) {
        self.round_once(take);
    }

    fn limit_rounds(&mut self, most: usize) {
        self.merger.limit_rounds(Some(most));
    }

    fn has_more(&self) -> bool {
        self.merger.has_more()
    }

    fn finish(&mut self, take: &mut Take<'_>) {
        self.merger.limit_rounds(None);
        self.rings.disable_events();
        if self.calls.is_some() {
            self.close_lanes(false);
        }
        self.close_lanes(true);
        self.events.detach();
        self.rings.disable_lives();
        if self.round_once(&mut *take) {
            self.rings.tell_rest(&mut self.merger);
            self.report_losses();
            for lane in &mut self.lanes {
                lane.tell_rest(&mut self.merger);
            }
            let BpfSource { lanes, merger, outset, .. } = self;
            outset.pass(merger.emitted(), take, |take| {
                merger.emit_with(Nanos(u64::MAX), lanes, take)
            });
        }
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        self.readers.take_failure().or_else(|| self.rings.take_failure())
    }

    fn wait(&mut self, stop: &StopToken, timeout: Duration) -> io::Result<()> {
        if let Some(error) = self.take_failure() {
            return Err(error);
        }
        let fds = self.rings.poll_fds().chain([self.events.poll_fd()]);
        let waited = stop.wait(fds, timeout);
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
        let looked = self.rings.follow_hotplug(&mut self.merger)?;
        if looked {
            let online = self.rings.online()?;
            for lane in &mut self.lanes {
                lane.follow(online.contains(&lane.cpu));
                // All that a CPU did that is offline is in its lane by now.
                lane.look();
            }
        }
        for lane in &mut self.lanes {
            lane.tell_offline(&mut self.merger);
        }
        if !looked {
            return Ok(());
        }
        self.report_losses();
        // A CPU that went keeps its lane, so that no switch is missed when it comes back.
        for cpu in self.rings.cpus() {
            if self.lanes.iter().all(|lane| lane.cpu != cpu) {
                let time = clock::now();
                let lane = self.events.add(cpu)?;
                let lane = (cpu, lane);
                let lane = CpuLane::new(lane, &mut self.merger, &self.states, self.narrow);
                lane.open();
                // It had none until now, and what found none nobody counted.
                lane.tell_unknown(&mut self.merger, time);
                self.lanes.push(lane);
                if let Some((calls, lane)) = self.calls.zip(self.events.add_call_lane(cpu)?) {
                    let lane = (cpu, lane);
                    let lane = CpuLane::of_calls(lane, &mut self.merger, &self.states, calls);
                    lane.open();
                    self.lanes.push(lane);
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> SourceStats {
        let SourceStats { undecoded, garbled, .. } = self.rings.stats();
        let mut counts = vec![KernelCount::default(); COUNTED];
        for lane in &self.lanes {
            let lane = lane.counts();
            for (count, fired) in counts.iter_mut().zip(lane.fired) {
                count.fired += fired;
            }
        }
        let (late, most_late) = self.merger.late();
        let undecoded = undecoded + self.lanes.iter().map(CpuLane::unknown).sum::<u64>();
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
