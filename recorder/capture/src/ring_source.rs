//! Sources that read all their events from rings of the kernel, one per CPU: perf's and ftrace's.
//!
//! perf is used where BPF is refused, and ftrace where perf events are refused but tracefs is accessible. With ftrace, the scheduler's
//! tracepoints are the same, in the same form; forks, exits and names, for which perf has its own records, are tracepoints too. These use
//! the ids of the initial pid namespace: inside another one, the running threads cannot be matched with the processes of `/proc`.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::event::Event;
use super::ftrace_rings::FtraceRings;
use super::merge_thread::{Intake, Merging};
use super::order::{Merger, NoBacklog, Receive};
use super::perf_rings::PerfRings;
use super::source::{Causes, EventSink, Source, SourceError, SourceKind, SourceStats, StartFilter};
use fxtrec_kernel::clock;
use fxtrec_kernel::priority::ThreadId;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::thread_times::ThreadTimes;
use fxtrec_units::{Cpu, Nanos};

/// The rings of all online CPUs, each with a lane in the merger.
pub trait Rings: Debug + Send + 'static {
    /// The kind of source that they form.
    const KIND: SourceKind;

    /// The CPUs whose rings are open.
    fn cpus(&self) -> Vec<Cpu>;

    /// Bytes of the smallest ring that the kernel granted.
    fn ring_bytes(&self) -> usize;

    /// Whether the rings report which kernel locks threads wait for.
    fn tells_kernel_locks(&self) -> bool;

    /// Starts all events.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn enable(&mut self) -> Result<(), SourceError>;

    /// Stops all events; the content of the rings stays readable.
    fn disable(&mut self);

    /// Makes every CPU idle for a moment and checks whether each task there was reported. Requests more records from the kernel for CPUs on
    /// which a task was not reported, and returns these CPUs.
    ///
    /// # Errors
    /// Returns [`SourceError`] if the kernel refuses that.
    fn find_silent(&mut self, merger: &mut Merger) -> Result<Vec<Cpu>, SourceError>;

    /// The same as [`Source::is_silent`].
    ///
    /// # Errors
    /// Returns [`SourceError`]; the recording continues without it.
    fn is_silent(&mut self, _cpu: Cpu) -> Result<(), SourceError> {
        Ok(())
    }

    /// Makes this many threads, including the calling one, read the rings, regardless of the load.
    fn use_threads(&mut self, threads: usize);

    /// Moves the content of the rings into the merger; returns true if something stays in a ring because its lane is full.
    fn read(&mut self, merger: &mut Merger) -> bool;

    /// The reason why rings can no longer be read; returned only once.
    fn take_failure(&mut self) -> Option<io::Error>;

    /// The descriptors that poll(2) reports as readable when rings should be read.
    fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>>;

    /// Reports losses at the very end, which no ring reports any more. Call this once, when the events have stopped and the rings are
    /// empty.
    fn report_remaining_losses(&mut self, merger: &mut Merger);

    /// The same as [`Source::follow_hotplug`]. Returns whether there was anything to handle.
    ///
    /// # Errors
    /// Returns [`SourceError`]; CPUs that are already recorded stay recorded.
    fn follow_hotplug(&mut self, merger: &mut Merger) -> Result<bool, SourceError>;

    /// The figures so far, without those of the merger.
    fn stats(&self) -> SourceStats;
}

/// Rings, and the merger of their events.
#[derive(Debug)]
struct RingIntake<R> {
    rings: R,
    merger: Merger,
}

impl<R: Rings> Intake for RingIntake<R> {
    type Item = Event;

    fn round(&mut self, to: &mut impl Receive<Event>) -> bool {
        let RingIntake { rings, merger } = self;
        let read = |merger: &mut Merger, _: &mut Vec<NoBacklog>| rings.read(merger);
        merger.round_with(&mut Vec::new(), read, clock::now, to)
    }

    fn emitted(&self) -> Nanos {
        self.merger.emitted()
    }

    fn time(event: &Event) -> Option<Nanos> {
        Some(event.time)
    }
}

/// A source of rings.
#[derive(Debug)]
pub struct RingSource<R: Rings> {
    merging: Merging<RingIntake<R>>,
    outset: StartFilter,
}

/// The tracepoints of perf; see [`PerfRings::open`].
pub type PerfSource = RingSource<PerfRings>;

/// A tracing instance of ftrace; see [`FtraceRings::open`].
pub type FtraceSource = RingSource<FtraceRings>;

impl<R: Rings> RingSource<R> {
    /// Opens a source of the rings that `open` opens, disabled, with their lanes in the merger that `open` receives.
    ///
    /// # Errors
    /// What `open` returns.
    pub fn open(
        open: impl FnOnce(&mut Merger) -> Result<R, SourceError>,
    ) -> Result<RingSource<R>, SourceError> {
        let mut merger = Merger::new();
        let rings = open(&mut merger)?;
        let cpus = rings.cpus().len();
        let merging = Merging::new(RingIntake { rings, merger }, cpus);
        Ok(RingSource { merging, outset: StartFilter::default() })
    }
}

impl<R: Rings> Source for RingSource<R> {
    fn kind(&self) -> SourceKind {
        R::KIND
    }

    fn cpus(&self) -> Vec<Cpu> {
        self.merging.intake().rings.cpus()
    }

    /// A move that a silent task causes is not reported.
    fn causes(&self, silent: &[Cpu]) -> Causes {
        let kernel_lock = self.merging.intake().rings.tells_kernel_locks();
        Causes { migrate: silent.is_empty(), kernel_lock, ..Causes::default() }
    }

    fn ring_bytes(&self) -> usize {
        self.merging.intake().rings.ring_bytes()
    }

    fn use_threads(&mut self, threads: usize) {
        self.merging.force(threads > 1);
        self.merging.intake().rings.use_threads(threads.saturating_sub(1).max(1));
    }

    fn merge_load(&self) -> Option<(ThreadId, ThreadTimes)> {
        self.merging.load()
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        self.merging.intake().rings.enable()
    }

    fn begin(&mut self) -> Nanos {
        self.outset.begin(clock::now())
    }

    fn find_silent(&mut self) -> Result<Vec<Cpu>, SourceError> {
        let RingIntake { rings, merger } = &mut *self.merging.intake();
        rings.find_silent(merger)
    }

    fn is_silent(&mut self, cpu: Cpu) -> Result<(), SourceError> {
        self.merging.intake().rings.is_silent(cpu)
    }

    fn round(&mut self, take: &mut EventSink<'_>) {
        let RingSource { merging, outset } = self;
        let emitted = merging.intake().emitted();
        outset.pass(emitted, take, |mut take| merging.round(&mut take));
    }

    fn limit_rounds(&mut self, most: usize) {
        self.merging.intake().merger.limit_rounds(Some(most));
    }

    fn has_more(&self) -> bool {
        self.merging.intake().merger.has_more()
    }

    fn finish(&mut self, take: &mut EventSink<'_>) {
        let RingSource { merging, outset } = self;
        let RingIntake { rings, merger } = &mut *merging.intake();
        merger.limit_rounds(None);
        rings.disable();
        outset.pass(merger.emitted(), take, |take| {
            if merger.round(|merger| rings.read(merger), clock::now, &mut *take) {
                rings.report_remaining_losses(merger);
                merger.emit(Nanos(u64::MAX), take);
            }
        });
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        let merging = self.merging.take_failure();
        merging.or_else(|| self.merging.intake().rings.take_failure())
    }

    fn wait(&mut self, stop: &StopToken, timeout: Duration) -> io::Result<()> {
        match self.take_failure() {
            Some(error) => Err(error),
            None => stop.wait(self.merging.intake().rings.poll_fds(), timeout),
        }
    }

    fn follow_hotplug(&mut self) -> Result<(), SourceError> {
        let RingIntake { rings, merger } = &mut *self.merging.intake();
        rings.follow_hotplug(merger).map(drop)
    }

    fn stats(&self) -> SourceStats {
        let RingIntake { rings, merger } = &*self.merging.intake();
        let (late, most_late) = merger.late();
        let mut stats = SourceStats { late, most_late, ..rings.stats() };
        self.outset.subtract_from(&mut stats.kernel_counts);
        stats
    }
}
