//! The rings of a tracing instance: opens them, reads them into a [`Merger`], and follows CPUs that come online.
//!
//! One instance has a ring on each CPU, which all enabled tracepoints share. It keeps the newest events: pages that were not read in time
//! are overwritten, and the next page says how many events were lost.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::event::{Event, Kind, Loss};
use super::life::LifeLayout;
use super::order::{Lane, Merger, Queue};
use super::perf_rings::ChainWatch;
use super::readers::{Look, ReadRing, Readers, WORTH_DECODING};
use super::ring_source::Rings;
use super::sched::SchedLayout;
use super::source::{SourceError, SourceKind, SourceStats};
use fxtrec_kernel::ftrace::FtraceError;
use fxtrec_kernel::ftrace::instance::Instance;
use fxtrec_kernel::ftrace::layout::PageLayout;
use fxtrec_kernel::ftrace::page::Page;
use fxtrec_kernel::ftrace::pipe::RawPipe;
use fxtrec_kernel::hotplug::Hotplug;
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::{clock, cpus, idle_probe};
use fxtrec_units::{Cpu, Nanos};

/// The clock of the trace: `CLOCK_MONOTONIC`.
const CLOCK: &str = "mono";

/// Tracepoints that report when threads are created, exit or are renamed.
const LIFE_EVENTS: [&str; 3] =
    ["task/task_newtask", "task/task_rename", "sched/sched_process_exit"];

/// What is recorded, and how much memory is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of each CPU's ring.
    pub ring_bytes: usize,
    /// If there is not enough memory, the size is halved repeatedly, down to this minimum.
    pub min_ring_bytes: usize,
    /// The reader is woken when this many bytes of a ring are filled.
    pub wake_bytes: usize,
    /// Whether `sched_waking` is recorded as well.
    pub waking: bool,
}

/// The state that all rings share.
#[derive(Debug)]
struct Shared {
    instance: Instance,
    sched: SchedLayout,
    life: LifeLayout,
    layout: PageLayout,
}

#[derive(Debug)]
struct CpuRing {
    cpu: Cpu,
    /// Declared before the instance, which cannot be removed while this is open: fields are dropped in order.
    pipe: RawPipe,
    shared: Arc<Shared>,
    lane: Lane,
    /// The page that is being read.
    page: Vec<u8>,
    reported_lost: u64,
    undecoded: u64,
    garbled: u64,
    /// The reason why the ring can no longer be read.
    failed: Option<io::Error>,
    /// Time of the youngest event that was read.
    last: Nanos,
    /// Whether its CPU is offline.
    is_offline: bool,
    /// Set while the source checks whether every task is reported.
    watch: Option<ChainWatch>,
}

impl ReadRing for CpuRing {
    const WORTH_SHARING: usize = WORTH_DECODING;

    fn lane(&self) -> Lane {
        self.lane
    }

    fn read(&mut self, queue: &mut Queue) -> Look {
        let before = queue.held();
        let drained = loop {
            // Checked once per page, so a queue may exceed its limit by the events of one page.
            if queue.is_full() {
                break false;
            }
            match self.pipe.read(&mut self.page) {
                Ok(true) => self.take_page(queue),
                Ok(false) => break true,
                Err(error) => {
                    self.failed.get_or_insert(error);
                    break true;
                }
            }
        };
        queue.set_drained(drained);
        Look { brought: queue.held() - before, drained }
    }
}

impl CpuRing {
    fn take_page(&mut self, queue: &mut Queue) {
        let Shared { instance, sched, life, layout } = &*self.shared;
        let Some(mut page) = Page::new(layout, &self.page) else {
            self.garbled += 1;
            return;
        };
        let mut push = |event: Event| {
            if let Some(watch) = &mut self.watch {
                watch.see(&event);
            }
            self.last = self.last.max(event.time);
            queue.push(event);
        };
        if let Some(stored) = page.missed {
            let count = missed(instance, self.cpu, self.reported_lost, stored);
            self.reported_lost += count;
            // Tracepoints of forks, exits and names are counted together with the scheduler's.
            push(Event { time: page.time(), kind: Kind::Lost(Loss::at_most(count)) });
        }
        while let Some((time, raw)) = page.next_event() {
            match sched.decode(raw).or_else(|| life.decode(raw)) {
                Some(kind) => push(Event { time, kind }),
                None => self.undecoded += 1,
            }
        }
        self.garbled += u64::from(page.is_garbled());
    }
}

/// The instance and the rings of all online CPUs.
#[derive(Debug)]
pub struct FtraceRings {
    rings: Vec<CpuRing>,
    readers: Readers<CpuRing>,
    shared: Arc<Shared>,
    sys: Box<dyn Sys + Send>,
    options: Options,
    hotplug: Hotplug,
}

impl FtraceRings {
    /// Creates an instance with all events off, and opens the ring of every online CPU, each with its own lane in `merger`.
    ///
    /// # Errors
    /// Returns [`SourceError`] at the first refusal by the kernel; nothing is left behind in that case.
    pub fn open(
        sys: Box<dyn Sys + Send>,
        instance: Instance,
        (sched, life): (SchedLayout, LifeLayout),
        options: Options,
        merger: &mut Merger,
    ) -> Result<FtraceRings, SourceError> {
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", CLOCK)?;
        let options = take_memory(&instance, options)?;
        let percent = (options.wake_bytes * 100 / options.ring_bytes).clamp(1, 100);
        // Kernels before 5.0 lack this file; the reader then polls by its own clock.
        let _ = instance.write("buffer_percent", &percent.to_string());
        let layout = page_layout(&instance)?;
        // This comes before the first ring is opened, so that no hotplug event is missed.
        let hotplug = Hotplug::watch(&*sys);
        let mut rings = FtraceRings {
            rings: Vec::new(),
            readers: Readers::default(),
            shared: Arc::new(Shared { instance, sched, life, layout }),
            sys,
            options,
            hotplug,
        };
        rings.add_online(merger, |_, _, _| {})?;
        Ok(rings)
    }

    fn look_for_cpus(&mut self, merger: &mut Merger) -> Result<(), SourceError> {
        let tell = |merger: &mut Merger, lane, time| {
            merger.push(lane, Event { time, kind: Kind::Online });
        };
        let online = self.add_online(merger, tell)?;
        let went = |ring: &CpuRing| !ring.is_offline && !online.contains(&ring.cpu);
        if self.rings.iter().any(went) {
            // All events of the CPU are in its ring at this time.
            self.read(merger);
        }
        for ring in &mut self.rings {
            let is_offline = !online.contains(&ring.cpu);
            if is_offline && !std::mem::replace(&mut ring.is_offline, true) {
                let time = ring.last.max(merger.emitted());
                merger.push(ring.lane, Event { time, kind: Kind::Offline { goes_idle: true } });
            } else if !is_offline && std::mem::replace(&mut ring.is_offline, false) {
                tell(merger, ring.lane, clock::now());
            }
        }
        Ok(())
    }

    /// Opens the rings of online CPUs that have no open ring, and reports each of these CPUs. Returns all online CPUs.
    fn add_online(
        &mut self,
        merger: &mut Merger,
        tell: impl Fn(&mut Merger, Lane, Nanos),
    ) -> Result<Vec<Cpu>, SourceError> {
        let known = self.cpus();
        let online = cpus::online(&*self.sys)?;
        for cpu in online.iter().copied().filter(|cpu| !known.contains(cpu)) {
            let pipe = self.shared.instance.open_pipe(cpu)?;
            let lane = merger.lane(cpu);
            tell(merger, lane, clock::now());
            self.rings.push(CpuRing {
                cpu,
                pipe,
                lane,
                page: vec![0; self.shared.layout.page_bytes()],
                shared: self.shared.clone(),
                reported_lost: 0,
                undecoded: 0,
                garbled: 0,
                failed: None,
                last: Nanos(0),
                is_offline: false,
                watch: None,
            });
        }
        Ok(online)
    }
}

impl Rings for FtraceRings {
    const KIND: SourceKind = SourceKind::Ftrace;

    fn cpus(&self) -> Vec<Cpu> {
        self.rings.iter().map(|ring| ring.cpu).collect()
    }

    fn ring_bytes(&self) -> usize {
        self.options.ring_bytes
    }

    fn tells_kernel_locks(&self) -> bool {
        self.shared.sched.filter_of_contention().is_some()
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        let sched = ["wakeup", "wakeup_new", "migrate_task", "switch"];
        let sched = sched.map(|name| format!("sched/sched_{name}"));
        let waking = self.options.waking.then(|| "sched/sched_waking".to_owned());
        for event in LIFE_EVENTS.map(str::to_owned).into_iter().chain(sched).chain(waking) {
            self.shared.instance.write(&format!("events/{event}/enable"), "1")?;
        }
        if let Some(filter) = self.shared.sched.filter_of_moves() {
            self.shared.instance.write("events/cgroup/cgroup_attach_task/filter", &filter)?;
            self.shared.instance.write("events/cgroup/cgroup_attach_task/enable", "1")?;
        }
        if let Some(filter) = self.shared.sched.filter_of_contention() {
            self.shared.instance.write("events/lock/contention_begin/filter", &filter)?;
            for event in ["contention_end", "contention_begin"] {
                self.shared.instance.write(&format!("events/lock/{event}/enable"), "1")?;
            }
        }
        Ok(self.shared.instance.write("tracing_on", "1")?)
    }

    fn disable(&mut self) {
        // If an instance cannot be stopped, nothing more can be done; the instance is removed soon after.
        let _ = self.shared.instance.write("tracing_on", "0");
    }

    fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.pipe.poll_fd()).chain(self.hotplug.poll_fd())
    }

    /// ftrace has no other records about a CPU with a silent task, so the CPU is only reported.
    fn find_silent(&mut self, merger: &mut Merger) -> Result<Vec<Cpu>, SourceError> {
        for ring in &mut self.rings {
            ring.watch = Some(ChainWatch::default());
        }
        idle_probe::sleep_on_each(self.cpus());
        self.read(merger);
        let mut silent = Vec::new();
        for ring in &mut self.rings {
            if ring.watch.take().is_some_and(|watch| watch.is_silent()) {
                silent.push(ring.cpu);
            }
        }
        Ok(silent)
    }

    fn use_threads(&mut self, threads: usize) {
        self.readers = Readers::exactly(threads, self.rings.len());
    }

    fn read(&mut self, merger: &mut Merger) -> bool {
        !self.readers.read(&mut self.rings, merger).drained
    }

    fn report_remaining_losses(&mut self, merger: &mut Merger) {
        for ring in &mut self.rings {
            let lost = self.shared.instance.stats(ring.cpu).map_or(0, |stats| stats.lost());
            let count = lost.saturating_sub(ring.reported_lost);
            if count > 0 {
                ring.reported_lost = lost;
                let kind = Kind::Lost(Loss::at_most(count));
                merger.push(ring.lane, Event { time: clock::now(), kind });
            }
        }
    }

    /// The kernel fills the ring of a CPU that comes online from its first event on, even if the ring is not open, and keeps the ring of a
    /// CPU that went offline, so nothing is missed.
    fn follow_hotplug(&mut self, merger: &mut Merger) -> Result<bool, SourceError> {
        if self.hotplug.look().is_none() {
            return Ok(false);
        }
        self.look_for_cpus(merger).map(|()| true)
    }

    fn stats(&self) -> SourceStats {
        let sum = |of: fn(&CpuRing) -> u64| self.rings.iter().map(of).sum();
        let (undecoded, garbled) = (sum(|ring| ring.undecoded), sum(|ring| ring.garbled));
        SourceStats { undecoded, garbled, ..SourceStats::default() }
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        let ring = self.rings.iter_mut().find_map(|ring| ring.failed.take());
        self.readers.take_failure().or(ring)
    }
}

/// Sets the size of the rings, with smaller ones if there is not enough memory.
fn take_memory(instance: &Instance, mut options: Options) -> Result<Options, FtraceError> {
    loop {
        let kib = (options.ring_bytes / 1024).max(1);
        match instance.write("buffer_size_kb", &kib.to_string()) {
            Err(error)
                if error.is_out_of_memory() && options.ring_bytes / 2 >= options.min_ring_bytes =>
            {
                options.ring_bytes /= 2;
            }
            result => return result.map(|()| options),
        }
    }
}

fn page_layout(instance: &Instance) -> Result<PageLayout, FtraceError> {
    let page = instance.read("events/header_page")?;
    let event = instance.read("events/header_event")?;
    Ok(PageLayout::parse(&page, &event)?)
}

/// The number of events that a page reports as missing before it, of those that the kernel counted and that were not reported yet. At least
/// one, because the page says that some are missing.
fn missed(instance: &Instance, cpu: Cpu, reported: u64, stored: Option<u64>) -> u64 {
    let counted = instance.stats(cpu).ok().map(|stats| stats.lost().saturating_sub(reported));
    // If the page had no room for the number, the best estimate is the number of events that are not reported yet.
    stored.into_iter().chain(counted).min().unwrap_or(1).max(1)
}
