//! Figures without records: separate programs on the scheduler's tracepoints that count in tables in kernel memory, by cgroup or by thread.
//! They are loaded only on request, and share no code or data with the programs that record.
//!
//! ```text
//!   sched_switch, sched_wakeup, sched_wakeup_new --> programs --> what each thread does, and since when
//!                                                       |
//!                                                       +--> table of this CPU: a slot for each cgroup, with histograms
//! ```
//!
//! The definitions are those of a recording's report, so that both agree in sums and counts. The programs are in
//! `recorder/kernel/bpf/counts.bpf.c`; [`layout`] describes where each count is kept.

pub(super) mod layout;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::events::{BpfError, first_loaded};
use super::object::{self, Given, Object};
use super::programs::Loaded;
use super::sys::{BpfSys, MapKind, MapSpec};
use super::types::Types;
use crate::cgroups::Hierarchy;
use crate::sys::{Mapping, Sys};
pub use layout::{BUCKETS, FIRST_BOUND, Figures, Histogram, Key, Measure, Row, Shape, bound};
use layout::{CpuHead, PLACES_BYTES, Slot};

/// The kind of objects for which separate figures are kept. The numbers are those of `counts.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBy {
    Cgroup,
    /// For each cgroup, by the names of its threads.
    CgroupAndName,
    Thread,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub key: KeyBy,
    pub shape: Shape,
    /// The cgroups by which threads are distinguished.
    pub hierarchy: Hierarchy,
    /// Whether to count stolen time.
    pub steal: bool,
}

/// The data that is missing from the figures since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events that no program saw because it was already running on their CPU, if the kernel counts that.
    pub unseen: u64,
    /// Threads whose entry was replaced by that of a thread with the same lower bits in its id, so that the start of their state is lost.
    pub evicted: u64,
    /// Figures that went to "other" because the table was full.
    pub overflowed: u64,
}

/// The programs with their maps. Dropping this removes the programs and maps.
#[derive(Debug)]
pub struct SchedCounts {
    sys: Box<dyn BpfSys + Send>,
    programs: Vec<Loaded>,
    links: Vec<OwnedFd>,
    wanted: Wanted,
    reports_steal: bool,
    reports_throttles: bool,
    cpus: Mapping,
    /// A map of maps, which contains another map: after each change of such a map, the kernel waits until every running program has ended.
    fence: OwnedFd,
    fence_inner: OwnedFd,
    /// The table in which programs currently count.
    table: usize,
}

fn map_error(what: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

impl SchedCounts {
    /// Loads the programs. They do not run yet.
    ///
    /// # Errors
    /// Returns [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        wanted: Wanted,
    ) -> Result<SchedCounts, BpfError> {
        let types = Types::read(files)?;
        let object = Object::new(&object::COUNTS, &types)?;
        let shape = wanted.shape;
        let array = |bytes: usize, entries: usize| MapSpec {
            kind: MapKind::Array,
            value_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            entries: u32::try_from(entries).unwrap_or(u32::MAX),
            mapped: true,
            inner: None,
        };
        let create = |what, spec: MapSpec<'_>| sys.map_create(&spec).map_err(map_error(what));
        let places = create("what threads do", array(PLACES_BYTES, 1))?;
        let cpus = create("the figures of all CPUs", array(shape.cpu_bytes(), shape.cpus))?;
        let fence_inner = create("waiting for programs", array(8, 1))?;
        let outer = MapSpec {
            kind: MapKind::ArrayOfMaps,
            mapped: false,
            inner: Some(fence_inner.as_fd()),
            ..array(4, 1)
        };
        let fence = create("waiting for programs", outer)?;
        let values = shape.cpu_bytes() * shape.cpus;
        let values = values.next_multiple_of(crate::perf::page_size());
        let values = Mapping::new(Some(cpus.as_fd()), values)
            .map_err(map_error("the figures of all CPUs"))?;
        let maps = [("places", Given::Memory(places.as_fd())), ("cpus", Given::Map(cpus.as_fd()))];
        let load_all = |(steal, throttles): (bool, bool)| {
            let choices = [
                ("key_by", wanted.key as u64),
                ("by_controller", (wanted.hierarchy == Hierarchy::Controller).into()),
                ("slots", shape.slots as u64),
                ("counts_steal", steal.into()),
                ("counts_throttles", throttles.into()),
            ];
            let programs = object.with(&choices, &maps, &[])?;
            // Switches are attached first: a thread whose switch-out was not seen has no wait.
            let mut named = vec![
                ("fxtrec_count", "sched_switch"),
                ("fxtrec_count_n", "sched_wakeup_new"),
                ("fxtrec_count_w", "sched_wakeup"),
            ];
            if throttles {
                named.push(("fxtrec_count_m", "sched_migrate_task"));
            }
            let load =
                |(name, point)| Loaded::new(&*sys, &programs.on(name, types.tracepoint(point)?)?);
            let loaded = named.into_iter().map(load).collect::<Result<Vec<Loaded>, _>>()?;
            Ok((loaded, steal, throttles))
        };
        let queues = types.has("leads_to_run_queue");
        let steal = wanted.steal && queues && types.has("counts_steal");
        // Before Linux 6.18, a program would have to be called at both ends of every wait.
        let marks = types.has("marks_throttled");
        let throttles = queues && marks && types.has("counts_throttling");
        let ways = vec![(steal, throttles), (steal, false)];
        let (programs, reports_steal, reports_throttles) =
            first_loaded(ways, (false, false), load_all)?;
        let counts = SchedCounts {
            sys,
            programs,
            links: Vec::new(),
            wanted,
            reports_steal,
            reports_throttles,
            cpus: values,
            fence,
            fence_inner,
            table: 0,
        };
        for cpu in 0..shape.cpus {
            counts.cpu(cpu).0.stolen.store(u64::MAX, Ordering::Relaxed);
        }
        Ok(counts)
    }

    /// The value of a CPU.
    fn cpu(&self, cpu: usize) -> (&CpuHead, &[Slot]) {
        let shape = self.wanted.shape;
        let (at, slots) = (cpu * shape.cpu_bytes(), shape.slots_of_cpu());
        assert!(at + shape.cpu_bytes() <= self.cpus.len());
        // SAFETY: the assertion ensures that the value is inside the mapping, which lives as long as the references and begins at a page
        // boundary; sizes of values are multiples of eight. Programs and this code access its words only as a whole.
        unsafe {
            let head = self.cpus.base().add(at).cast::<CpuHead>();
            (&*head, std::slice::from_raw_parts(head.add(1).cast(), slots))
        }
    }

    fn heads(&self) -> impl Iterator<Item = &CpuHead> {
        (0..self.wanted.shape.cpus).map(|cpu| self.cpu(cpu).0)
    }

    /// Starts the programs.
    ///
    /// # Errors
    /// Returns [`BpfError::Attach`].
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let links = self.programs.iter().map(|program| program.attach(&*self.sys));
        self.links = links.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Stops the programs, and waits until none is running; their counts stay.
    pub fn detach(&mut self) {
        self.links.clear();
        // Without this, the counts of a running program would appear only in a later call of `take`.
        let _ = self.wait_for_programs();
    }

    /// Returns once all programs that were running have ended.
    fn wait_for_programs(&self) -> io::Result<()> {
        self.sys.map_set_maps(self.fence.as_fd(), &[(0, self.fence_inner.as_fd())])
    }

    /// Whether stolen time is counted.
    pub fn reports_steal(&self) -> bool {
        self.reports_steal
    }

    /// Whether the time for which quotas kept threads from running is counted; otherwise it is a part of their waits.
    pub fn reports_throttles(&self) -> bool {
        self.reports_throttles
    }

    /// Kernel memory used, in bytes.
    pub fn bytes(&self) -> usize {
        PLACES_BYTES + self.cpus.len()
    }

    /// Returns the counts since the last call, each key once, in no particular order. For a thread that was renamed during the call, one of
    /// its names is returned.
    ///
    /// # Errors
    /// Errors of bpf(2) when it waits for the programs. In that case, nothing is lost.
    pub fn take(&mut self) -> io::Result<Vec<Row>> {
        let old = self.table;
        self.count_in(1 - old);
        if let Err(error) = self.wait_for_programs() {
            self.count_in(old);
            return Err(error);
        }
        let mut rows: FxHashMap<Key, Row> = FxHashMap::default();
        for cpu in 0..self.wanted.shape.cpus {
            let (_, slots) = self.cpu(cpu);
            let table = slots.chunks_exact(slots.len() / 2).nth(old).unwrap_or_default();
            let Some((other, slots)) = table.split_last() else { continue };
            let own = slots.iter().filter_map(|slot| {
                let key = slot.take_key(self.wanted.key)?;
                Some((key, slot.take()))
            });
            let rest = Some((Key::Other, other.take()));
            let rest = rest.filter(|(_, figures)| *figures != Figures::default());
            for (key, figures) in own.chain(rest) {
                let row = rows.entry(key.without_name());
                let row = row.or_insert(Row { key, figures: Figures::default() });
                row.figures.add(&figures);
            }
        }
        Ok(rows.into_values().collect())
    }

    fn count_in(&mut self, table: usize) {
        self.table = table;
        self.heads().for_each(|head| head.table.store(table as u64, Ordering::SeqCst));
    }

    pub fn missing(&self) -> Missing {
        let sum = |of: fn(&CpuHead) -> &AtomicU64| {
            self.heads().map(|head| of(head).load(Ordering::Relaxed)).sum()
        };
        Missing {
            unseen: self.programs.iter().map(|program| program.missed(&*self.sys)).sum(),
            evicted: sum(|head| &head.evicted),
            overflowed: sum(|head| &head.overflowed),
        }
    }
}

#[cfg(test)]
mod tests;
