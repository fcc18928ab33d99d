//! Opens the perf events of one CPU, all of which write into one ring.
//!
//! ```text
//!   dummy software event   FORK, COMM, EXIT  --+
//!   sched:sched_switch     SAMPLE            --+--> the dummy's ring, one per CPU
//!   sched:sched_wakeup     SAMPLE            --+
//!   moves between cgroups  SAMPLE            --+
//!   probes, tracepoints    SAMPLE            --+    (only where they are asked for, see [`super::extra`])
//!   switch-record event    SWITCH_CPU_WIDE   --+    (only where some task is not reported)
//! ```
//!
//! Every field of a sample costs time in the scheduler's own path, so a sample carries only its time and the tracepoint's bytes: the ring
//! determines the CPU, and the tracepoint's `common_pid` determines the thread. Inside a pid namespace the thread's ids of that namespace
//! are added, since the kernel reports forks and names with those.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use perf_event_open_sys::bindings as b;

use super::extra::{Extra, ExtraCall, ExtraIndex, OpenExtras, What};
use super::ring::{BadRing, Ring};
use super::sys::{Mapping, Sys};
use crate::units::Cpu;

/// `PERF_FORMAT_LOST`, kernel 6.0 and later.
pub(super) const FORMAT_LOST: u64 = 1 << 4;

/// `PERF_FORMAT_TOTAL_TIME_ENABLED`: how long the event has run.
pub(super) const FORMAT_ENABLED: u64 = 1;

/// The events to open on each CPU.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a CPU's ring; a power of two and a multiple of the page size.
    pub ring_bytes: usize,
    /// The reader is woken each time this many bytes have been added.
    pub wake_bytes: u32,
    /// Ids of the tracepoints, from their `format` files.
    pub tracepoints: Vec<u64>,
    /// Tracepoints that report facts about processes that perf's own records do not contain.
    pub lives: Vec<Chosen>,
    /// Whether records carry the process and thread ids of the reader's pid namespace.
    pub namespace_ids: bool,
    /// The non-scheduler events.
    pub extras: Arc<[Extra]>,
}

/// A tracepoint, or only some of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub id: u64,
    /// A condition in the kernel's filter language; `None` for all.
    pub filter: Option<CString>,
}

impl Options {
    /// Whether every record carries the id of the event that wrote it.
    pub fn event_ids(&self) -> bool {
        self.extras.iter().any(|extra| !matches!(extra.what, What::Elsewhere))
    }
}

/// The call that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// perf_event_open(2) of the dummy event that carries forks, exits and names.
    OpenDummy,
    /// perf_event_open(2) of the tracepoint with this id.
    OpenTracepoint(u64),
    /// perf_event_open(2) of the event that reports each switch without a tracepoint.
    OpenSwitchRecords,
    /// mmap(2) of a ring with this many data bytes.
    MapRing(usize),
    SetOutput,
    SetFilter,
    Enable,
}

/// The reason why the events of a CPU could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused a call.
    #[error("{call:?} on CPU {}: {error}", .cpu.0)]
    Refused { call: Call, cpu: Cpu, error: io::Error },
    /// The kernel refused a non-scheduler probe or tracepoint.
    #[error("{label}: {} on CPU {}: {error}", .call.name(), .cpu.0)]
    Extra { label: String, call: ExtraCall, cpu: Cpu, error: io::Error },
    /// The CPU is not online.
    #[error("CPU {} is not online", .0.0)]
    Offline(Cpu),
    /// The mapped memory is not a ring.
    #[error(transparent)]
    BadRing(#[from] BadRing),
}

impl OpenError {
    /// Whether the kernel refused memory for a ring, so that a smaller one may work.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, OpenError::Refused { call: Call::MapRing(_), error, .. } if is_out_of_memory(error))
    }
}

/// The kernel's own counts for one tracepoint on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCount {
    /// How often the event fired.
    pub fired: u64,
    /// The number of its samples that were dropped because the ring was full, if the kernel counts that (6.0 and later).
    pub lost: Option<u64>,
}

/// The number of records, other than samples of tracepoints or probes, that were dropped because the ring was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostAside {
    pub lives: u64,
    pub switch_records: u64,
}

/// The open events of one CPU and their ring. Dropping it closes them.
#[derive(Debug)]
pub struct CpuEvents {
    cpu: Cpu,
    dummy: OwnedFd,
    tracepoints: Vec<OwnedFd>,
    lives: Vec<OwnedFd>,
    /// The non-scheduler events.
    pub extras: OpenExtras,
    switch_records: Option<OwnedFd>,
    /// The ring that all of them write to.
    pub ring: Ring,
}

fn base_attr(options: &Options) -> b::perf_event_attr {
    let mut attr =
        b::perf_event_attr { size: size_of::<b::perf_event_attr>() as u32, ..Default::default() };
    attr.sample_type = u64::from(b::PERF_SAMPLE_TIME);
    if options.namespace_ids {
        attr.sample_type |= u64::from(b::PERF_SAMPLE_TID);
    }
    if options.event_ids() {
        attr.sample_type |= u64::from(b::PERF_SAMPLE_IDENTIFIER);
    }
    attr.set_disabled(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.read_format = FORMAT_LOST;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = options.wake_bytes;
    attr
}

fn dummy_attr(options: &Options) -> b::perf_event_attr {
    let mut attr = base_attr(options);
    attr.type_ = b::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(b::PERF_COUNT_SW_DUMMY);
    attr.sample_type |= u64::from(b::PERF_SAMPLE_RAW);
    attr.read_format |= FORMAT_ENABLED;
    attr.set_task(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr
}

fn tracepoint_attr(options: &Options, id: u64) -> b::perf_event_attr {
    let mut attr = base_attr(options);
    attr.type_ = b::PERF_TYPE_TRACEPOINT;
    attr.config = id;
    attr.sample_type |= u64::from(b::PERF_SAMPLE_RAW);
    attr.__bindgen_anon_1.sample_period = 1;
    attr
}

fn switch_record_attr(options: &Options) -> b::perf_event_attr {
    let mut attr = base_attr(options);
    attr.type_ = b::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(b::PERF_COUNT_SW_DUMMY);
    // A switch record names only the other thread of the switch; the incoming one is in the sample's own ids.
    attr.sample_type |= u64::from(b::PERF_SAMPLE_TID);
    attr.set_context_switch(1);
    attr
}

impl CpuEvents {
    /// Opens all events of `cpu`, disabled.
    ///
    /// If the kernel refuses the ring's memory, the size is halved, down to `min_ring_bytes`.
    ///
    /// # Errors
    /// Returns [`OpenError`]; nothing stays open then.
    pub fn open(
        sys: &dyn Sys,
        cpu: Cpu,
        options: &Options,
        min_ring_bytes: usize,
    ) -> Result<CpuEvents, OpenError> {
        let dummy = open_event(sys, cpu, dummy_attr(options), Call::OpenDummy)?;
        let ring =
            Ring::new(map_ring(sys, cpu, dummy.as_fd(), options.ring_bytes, min_ring_bytes)?)?;
        let mut events = CpuEvents {
            cpu,
            dummy,
            tracepoints: Vec::new(),
            lives: Vec::new(),
            extras: OpenExtras::default(),
            switch_records: None,
            ring,
        };
        for &id in &options.tracepoints {
            let attr = tracepoint_attr(options, id);
            let event = open_event(sys, cpu, attr, Call::OpenTracepoint(id))?;
            events.redirect(sys, event.as_fd())?;
            events.tracepoints.push(event);
        }
        for Chosen { id, filter } in &options.lives {
            let event =
                open_event(sys, cpu, tracepoint_attr(options, *id), Call::OpenTracepoint(*id))?;
            events.redirect(sys, event.as_fd())?;
            if let Some(filter) = filter {
                let set = sys.perf_set_filter(event.as_fd(), filter);
                set.map_err(|error| OpenError::Refused { call: Call::SetFilter, cpu, error })?;
            }
            events.lives.push(event);
        }
        for (extra, index) in options.extras.iter().zip((0..).map(ExtraIndex)) {
            if !matches!(extra.what, What::Elsewhere) {
                events.add_extra(sys, options, extra, index)?;
            }
        }
        Ok(events)
    }

    fn add_extra(
        &mut self,
        sys: &dyn Sys,
        options: &Options,
        extra: &Extra,
        index: ExtraIndex,
    ) -> Result<(), OpenError> {
        let refused = |(call, error)| {
            let label = extra.label.clone();
            OpenError::Extra { label, call, cpu: self.cpu, error }
        };
        let mut attr = base_attr(options);
        extra.fill(&mut attr);
        let event = open_or(sys, self.cpu, attr, |error| refused((ExtraCall::Open, error)))?;
        self.redirect(sys, event.as_fd())?;
        let id = extra.prepare(sys, self.cpu, event.as_fd()).map_err(refused)?;
        self.extras.add(event, id, index, extra);
        Ok(())
    }

    /// Makes the kernel write a record at each switch-in, in addition to the tracepoint's; off by default because it doubles the cost. Has
    /// no effect if it is already on.
    ///
    /// # Errors
    /// Returns [`OpenError`]; events that were already open stay open.
    pub fn add_switch_records(
        &mut self,
        sys: &dyn Sys,
        options: &Options,
    ) -> Result<(), OpenError> {
        if self.switch_records.is_none() {
            let call = Call::OpenSwitchRecords;
            let event = open_event(sys, self.cpu, switch_record_attr(options), call)?;
            self.redirect(sys, event.as_fd())?;
            self.enable_one(sys, event.as_fd())?;
            self.switch_records = Some(event);
        }
        Ok(())
    }

    fn redirect(&self, sys: &dyn Sys, event: BorrowedFd<'_>) -> Result<(), OpenError> {
        sys.perf_set_output(event, self.dummy.as_fd()).map_err(|error| OpenError::Refused {
            call: Call::SetOutput,
            cpu: self.cpu,
            error,
        })
    }

    fn enable_one(&self, sys: &dyn Sys, event: BorrowedFd<'_>) -> Result<(), OpenError> {
        sys.perf_enable(event).map_err(|error| OpenError::Refused {
            call: Call::Enable,
            cpu: self.cpu,
            error,
        })
    }

    /// Starts all events, forks and names first, so that no sample is from a thread whose fork was missed.
    ///
    /// # Errors
    /// Returns [`OpenError::Refused`].
    pub fn enable(&self, sys: &dyn Sys) -> Result<(), OpenError> {
        self.enable_lives(sys)?;
        self.enable_events(sys)
    }

    /// Starts the events of forks, names and exits.
    ///
    /// # Errors
    /// Returns [`OpenError::Refused`].
    pub fn enable_lives(&self, sys: &dyn Sys) -> Result<(), OpenError> {
        self.lives().try_for_each(|event| self.enable_one(sys, event))
    }

    /// Starts all other events, those of the scheduler first: they show which thread is on the CPU.
    ///
    /// # Errors
    /// Returns [`OpenError::Refused`].
    pub fn enable_events(&self, sys: &dyn Sys) -> Result<(), OpenError> {
        let tracepoints = self.tracepoints.iter().map(AsFd::as_fd);
        tracepoints.chain(self.extras.events()).try_for_each(|event| self.enable_one(sys, event))
    }

    /// Every open event except those of forks, names and exits; the scheduler's events come last.
    fn all_but_lives(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let tracepoints = self.tracepoints.iter().map(AsFd::as_fd);
        let switch_records = self.switch_records.iter().map(AsFd::as_fd);
        self.extras.events().chain(switch_records).chain(tracepoints)
    }

    /// Stops all events; the content of the ring stays readable. A CPU that went offline has stopped by itself.
    pub fn disable(&self, sys: &dyn Sys) {
        self.disable_events(sys);
        self.disable_lives(sys);
    }

    /// Stops all events except those of forks, names and exits. The scheduler's are stopped last: an event after the last switch would name
    /// a current thread whose switch-in was not recorded.
    pub fn disable_events(&self, sys: &dyn Sys) {
        self.all_but_lives().for_each(|event| disable_one(sys, event));
    }

    /// Stops the events of forks, names and exits.
    pub fn disable_lives(&self, sys: &dyn Sys) {
        self.lives().for_each(|event| disable_one(sys, event));
    }

    /// The events of forks, names, exits and cgroups; the event that owns the ring is the first.
    fn lives(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.dummy.as_fd()).chain(self.lives.iter().map(AsFd::as_fd))
    }

    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// The descriptor that poll(2) reports as readable when the ring should be read. It does not show that a CPU goes offline.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.dummy.as_fd()
    }

    /// The number of records of all events so far that were dropped because the ring was full, if the kernel counts that (6.0 and later).
    pub fn lost(&self, sys: &dyn Sys) -> Option<u64> {
        let mut sum = self.lost_lives(sys)?;
        for event in self.all_but_lives() {
            sum = sum.saturating_add(lost(sys, event, LOST)?);
        }
        Some(sum)
    }

    fn lost_lives(&self, sys: &dyn Sys) -> Option<u64> {
        let mut sum = lost(sys, self.dummy.as_fd(), LOST_OF_DUMMY)?;
        for event in &self.lives {
            sum = sum.saturating_add(lost(sys, event.as_fd(), LOST)?);
        }
        Some(sum)
    }

    /// How many of these are not samples.
    pub fn lost_aside(&self, sys: &dyn Sys) -> Option<LostAside> {
        let lives = self.lost_lives(sys)?;
        let switch_records = match &self.switch_records {
            Some(event) => lost(sys, event.as_fd(), LOST)?,
            None => 0,
        };
        Some(LostAside { lives, switch_records })
    }

    /// Whether the events, once enabled, still run: the events of a CPU that went offline never run again, and there is no other indication
    /// of that. Events count how long they ran; this count grows from one check to the next.
    pub fn are_running(&self, sys: &dyn Sys) -> bool {
        let enabled = || sys.perf_read(self.dummy.as_fd()).ok()?.get(1);
        matches!((enabled(), enabled()), (Some(first), Some(then)) if then > first)
    }

    /// Whether the kernel writes switch records.
    pub fn has_switch_records(&self) -> bool {
        self.switch_records.is_some()
    }

    /// The kernel's own counts, in the order of [`Options::tracepoints`]; zero if it does not report them.
    pub fn kernel_counts(&self, sys: &dyn Sys) -> Vec<KernelCount> {
        let count = |event: &OwnedFd| match sys.perf_read(event.as_fd()) {
            Ok(words) => KernelCount { fired: words.get(0).unwrap_or(0), lost: words.get(LOST) },
            Err(_) => KernelCount::default(),
        };
        self.tracepoints.iter().map(count).collect()
    }
}

/// The index of the loss among an event's words: after the count, and for the dummy also after the time.
const LOST: usize = 1;
const LOST_OF_DUMMY: usize = 2;

/// If an event cannot be stopped, there is nothing else to do; it is closed soon after.
fn disable_one(sys: &dyn Sys, event: BorrowedFd<'_>) {
    let _ = sys.perf_disable(event);
}

fn lost(sys: &dyn Sys, event: BorrowedFd<'_>, at: usize) -> Option<u64> {
    sys.perf_read(event).ok()?.get(at)
}

fn open_event(
    sys: &dyn Sys,
    cpu: Cpu,
    attr: b::perf_event_attr,
    call: Call,
) -> Result<OwnedFd, OpenError> {
    open_or(sys, cpu, attr, |error| OpenError::Refused { call, cpu, error })
}

/// `refused` explains a refusal, unless the CPU is offline.
fn open_or(
    sys: &dyn Sys,
    cpu: Cpu,
    mut attr: b::perf_event_attr,
    refused: impl FnOnce(io::Error) -> OpenError,
) -> Result<OwnedFd, OpenError> {
    let mut opened = sys.perf_event_open(&mut attr, cpu.0);
    // Kernels before 6.0 do not know the lost count.
    if matches!(&opened, Err(error) if error.raw_os_error() == Some(libc::EINVAL)) {
        attr.read_format &= !FORMAT_LOST;
        opened = sys.perf_event_open(&mut attr, cpu.0);
    }
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => OpenError::Offline(cpu),
        _ => refused(error),
    })
}

fn map_ring(
    sys: &dyn Sys,
    cpu: Cpu,
    event: BorrowedFd<'_>,
    bytes: usize,
    min_bytes: usize,
) -> Result<Mapping, OpenError> {
    let mut wanted = bytes;
    loop {
        match sys.perf_mmap(event, wanted + page_size()) {
            Ok(mapping) => return Ok(mapping),
            Err(error) if is_out_of_memory(&error) && wanted / 2 >= min_bytes => wanted /= 2,
            Err(error) => {
                return Err(OpenError::Refused { call: Call::MapRing(wanted), cpu, error });
            }
        }
    }
}

/// EPERM is the error of a process that exceeds its locked-memory allowance.
fn is_out_of_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Bytes of a memory page.
pub fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, options};
    use super::*;

    #[test]
    fn the_dummy_owns_the_ring_and_every_tracepoint_writes_into_it() {
        let fake = Fake::default();
        CpuEvents::open(&fake, Cpu(3), &options(), 1 << 20).expect("nothing is refused");
        let map = format!("mmap {}", (1 << 20) + page_size());
        let expected = [
            "open 1 9 cpu 3",
            &map,
            "open 2 11 cpu 3",
            "set_output",
            "open 2 12 cpu 3",
            "set_output",
        ];
        assert_eq!(fake.asked(), expected);
    }

    #[test]
    fn samples_carry_time_and_raw_bytes_and_nothing_else() {
        let fake = Fake::default();
        CpuEvents::open(&fake, Cpu(0), &options(), 1 << 20).expect("nothing is refused");
        for attr in fake.attrs().iter() {
            assert_eq!(attr.sample_type, u64::from(b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_RAW));
            assert_eq!((attr.use_clockid(), attr.clockid), (1, libc::CLOCK_MONOTONIC));
            assert_eq!((attr.watermark(), attr.disabled(), attr.sample_id_all()), (1, 1, 1));
        }
        let dummy = fake.attrs()[0];
        assert_eq!((dummy.comm(), dummy.comm_exec(), dummy.task(), dummy.mmap()), (1, 1, 1, 0));
    }

    #[test]
    fn a_kernel_without_lost_counts_is_asked_again_without_them() {
        let fake = Fake::default().without_lost_counts();
        let events = CpuEvents::open(&fake, Cpu(0), &options(), 1 << 20).expect("second try");
        assert_eq!(events.kernel_counts(&fake), [KernelCount::default(); 2]);
        assert_eq!(fake.attrs().iter().filter(|attr| attr.type_ == 2).count(), 4);
    }

    #[test]
    fn a_ring_over_the_memory_allowance_is_halved_down_to_the_least_wanted() {
        let fake = Fake::default().map_at_most((1 << 18) + page_size());
        let events =
            CpuEvents::open(&fake, Cpu(0), &options(), 1 << 17).expect("a smaller ring fits");
        assert_eq!(events.ring.size(), 1 << 18);
        let error =
            CpuEvents::open(&fake, Cpu(0), &options(), 1 << 20).expect_err("no halving wanted");
        assert!(
            matches!(error, OpenError::Refused { call: Call::MapRing(bytes), .. } if bytes == 1 << 20),
            "{error:?}"
        );
    }

    #[test]
    fn an_offline_cpu_is_distinguished_from_a_refusal() {
        let fake = Fake::default().fail("perf_event_open", libc::ENODEV);
        let error = CpuEvents::open(&fake, Cpu(7), &options(), 1 << 20).expect_err("offline");
        assert!(matches!(error, OpenError::Offline(Cpu(7))));
        let fake = Fake::default().fail("perf_event_open", libc::EACCES);
        let error = CpuEvents::open(&fake, Cpu(7), &options(), 1 << 20).expect_err("refused");
        assert!(matches!(error, OpenError::Refused { call: Call::OpenDummy, cpu: Cpu(7), .. }));
    }

    #[test]
    fn switch_records_bring_the_ids_that_name_who_came_in() {
        let fake = Fake::default();
        let mut events = CpuEvents::open(&fake, Cpu(0), &options(), 1 << 20).expect("opens");
        events.add_switch_records(&fake, &options()).expect("opens");
        events.add_switch_records(&fake, &options()).expect("the second time is free");
        let attrs = fake.attrs();
        assert_eq!(attrs.len(), 4);
        assert_eq!(attrs[3].context_switch(), 1);
        assert_eq!(attrs[3].sample_type, u64::from(b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME));
    }
}
