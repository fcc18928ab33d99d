//! Events from perf rings, one per CPU: the scheduler's tracepoints among them.

use std::io;
use std::time::Duration;

use super::order::Merger;
use super::perf_rings::{PerfRings, RingCounts};
use super::sched::SchedLayout;
use super::source::{Source, SourceError, SourceKind, SourceStats, Take};
use fxtrec_kernel::clock;
use fxtrec_kernel::perf::Options;
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::waker::Waker;
use fxtrec_units::{Cpu, Nanos};

/// The perf events of all online CPUs, and the merger of what they report.
#[derive(Debug)]
pub struct PerfSource {
    rings: PerfRings,
    merger: Merger,
}

impl PerfSource {
    /// Opens the events of every online CPU, disabled; see [`PerfRings::open`].
    ///
    /// # Errors
    /// [`SourceError`], at the first call that the kernel refuses.
    pub fn open(
        sys: Box<dyn Sys + Send + Sync>,
        layout: SchedLayout,
        options: Options,
        min_ring_bytes: usize,
    ) -> Result<PerfSource, SourceError> {
        let mut merger = Merger::new();
        let rings = PerfRings::open(sys, layout, options, min_ring_bytes, &mut merger)?;
        Ok(PerfSource { rings, merger })
    }
}

impl Source for PerfSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Perf
    }

    fn cpus(&self) -> Vec<Cpu> {
        self.rings.cpus()
    }

    fn ring_bytes(&self) -> usize {
        self.rings.ring_bytes()
    }

    fn enable(&mut self) -> Result<(), SourceError> {
        Ok(self.rings.enable()?)
    }

    fn find_silent(&mut self) -> Result<Vec<Cpu>, SourceError> {
        Ok(self.rings.find_silent()?)
    }

    fn is_silent(&mut self, cpu: Cpu) -> Result<(), SourceError> {
        Ok(self.rings.add_switch_records(cpu)?)
    }

    fn round(&mut self, take: &mut Take<'_>) {
        let rings = &mut self.rings;
        self.merger.round(|merger| rings.read(merger), clock::now, take);
    }

    fn finish(&mut self, take: &mut Take<'_>) {
        self.rings.disable();
        let rings = &mut self.rings;
        if self.merger.round(|merger| rings.read(merger), clock::now, &mut *take) {
            self.rings.tell_rest(&mut self.merger);
            self.merger.emit(Nanos(u64::MAX), take);
        }
    }

    fn wait(&mut self, waker: &Waker, timeout: Duration) -> io::Result<()> {
        match self.rings.take_failure() {
            Some(error) => Err(error),
            None => waker.wait(self.rings.poll_fds(), timeout),
        }
    }

    fn follow_hotplug(&mut self) -> Result<(), SourceError> {
        self.rings.follow_hotplug(&mut self.merger).map(drop)
    }

    fn stats(&self) -> SourceStats {
        let RingCounts { kernel, undecoded, garbled, unreported } = self.rings.counts();
        let (late, most_late) = self.merger.late();
        SourceStats { kernel_counts: kernel, undecoded, garbled, unreported, late, most_late }
    }
}
