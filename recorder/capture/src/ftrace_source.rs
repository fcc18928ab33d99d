//! Events from a tracing instance of ftrace, for machines on which perf events are refused but tracefs is open.
//!
//! The scheduler's tracepoints are the same ones, in the same form. What perf
//! tells by records of its own, forks, exits and names, comes from tracepoints
//! too. These name threads as the initial pid namespace does: inside another one
//! the processes of `/proc` are not known for those that run.

use std::io;
use std::time::Duration;

use super::ftrace_rings::{FtraceRings, Options};
use super::life::LifeLayout;
use super::order::Merger;
use super::sched::SchedLayout;
use super::source::{Source, SourceError, SourceKind, SourceStats, Take};
use fxtrec_kernel::clock;
use fxtrec_kernel::ftrace::instance::Instance;
use fxtrec_kernel::sys::Sys;
use fxtrec_kernel::waker::Waker;
use fxtrec_units::{Cpu, Nanos};

/// A tracing instance, and the merger of what its rings hold.
#[derive(Debug)]
pub struct FtraceSource {
    rings: FtraceRings,
    merger: Merger,
}

impl FtraceSource {
    /// Opens the rings of every online CPU in `instance`, with all events off.
    ///
    /// # Errors
    /// [`SourceError`], at the first thing that the kernel refuses. The instance is gone then.
    pub fn open(
        sys: Box<dyn Sys + Send>,
        instance: Instance,
        sched: SchedLayout,
        life: LifeLayout,
        options: Options,
    ) -> Result<FtraceSource, SourceError> {
        let mut merger = Merger::new();
        let rings = FtraceRings::open(sys, instance, (sched, life), options, &mut merger)?;
        Ok(FtraceSource { rings, merger })
    }
}

impl Source for FtraceSource {
    fn kind(&self) -> SourceKind {
        SourceKind::Ftrace
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
        Ok(self.rings.find_silent(&mut self.merger))
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
        self.rings.follow_hotplug(&mut self.merger)
    }

    fn stats(&self) -> SourceStats {
        let (undecoded, garbled) = self.rings.odd();
        let (late, most_late) = self.merger.late();
        SourceStats { undecoded, garbled, late, most_late, ..SourceStats::default() }
    }
}
