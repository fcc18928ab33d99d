//! Figures without records: programs of their own on the scheduler's tracepoints that count in tables of the kernel's memory,
//! by cgroup or by thread. They are there only when somebody asked for them, and share nothing with those that record.
//!
//! ```text
//!   sched_switch, sched_wakeup, sched_wakeup_new --> programs --> what each thread does, and since when
//!                                                       |
//!                                                       +--> table of this CPU: a slot for each cgroup, with histograms
//! ```
//!
//! The definitions are those of a recording's report, so that its sums and counts and these agree. What is counted where is
//! told by [`layout`], how by [`program`].

mod layout;
mod program;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::asm::{Insn, LICENSE};
use super::btf::Btf;
use super::events::{BTF_PATH, BpfError};
use super::interrupts::InterruptCount;
use super::sys::{self, BpfSys, MapKind, MapSpec, On, ProgramSpec};
use super::task::{GroupLayout, QueueLayout, TaskLayout, ThrottleLayout};
use crate::cgroups::Hierarchy;
use crate::sys::{Mapping, Sys};
use crate::units::{Pid, Tid};
pub use layout::{BUCKETS, FIRST_BOUND, Figures, Histogram, Key, Measure, Row, Shape, bound};
use layout::{SLOT_BYTES, cpu, histogram, octave_bounds, shared, slot};
use program::Setting;

/// Whose figures are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBy {
    Cgroup,
    /// Of each cgroup, by the names of its threads.
    CgroupAndName,
    Thread,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub key: KeyBy,
    pub shape: Shape,
    /// Which cgroups threads are told apart by.
    pub hierarchy: Hierarchy,
    /// Whether stolen time is wanted.
    pub steal: bool,
}

/// What is not in the figures, since the programs were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events that no program saw since it was running already on their CPU, where the kernel counts that.
    pub unseen: u64,
    /// Threads of which it was forgotten since when they do what they do, for one with the same lower bits of its id.
    pub evicted: u64,
    /// Figures that went to "other" since the table was full.
    pub overflowed: u64,
}

/// The programs with their maps. All of it vanishes with this.
#[derive(Debug)]
pub struct SchedCounts {
    sys: Box<dyn BpfSys + Send>,
    programs: Vec<(&'static str, OwnedFd)>,
    links: Vec<OwnedFd>,
    wanted: Wanted,
    tells_steal: bool,
    tells_throttles: bool,
    shared: Mapping,
    cpus: Mapping,
    /// A map of maps with one of the others in it: after each change of such a map the kernel waits until every CPU has left
    /// the programs that run.
    fence: OwnedFd,
    fence_inner: OwnedFd,
    _cpus: OwnedFd,
    /// Which of the two tables is counted in.
    epoch: u64,
}

fn map_error(what: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

/// A page for what is mapped: the kernel maps whole ones.
fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(crate::perf::page_size())
}

impl SchedCounts {
    /// Loads the programs. They do not run yet.
    ///
    /// # Errors
    /// [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        wanted: Wanted,
    ) -> Result<SchedCounts, BpfError> {
        let bytes = files.read(Path::new(BTF_PATH)).map_err(|error| BpfError::NoBtf { error })?;
        let btf = Btf::parse(bytes)?;
        let task = TaskLayout::new(&btf, InterruptCount::Unknown)?;
        let group = GroupLayout::new(&btf, wanted.hierarchy)?;
        let shape = wanted.shape;
        let array = |bytes: usize, entries: usize| MapSpec {
            kind: MapKind::Array,
            value_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            entries: u32::try_from(entries).unwrap_or(u32::MAX),
            mapped: true,
            inner: None,
        };
        let create = |what, spec: MapSpec<'_>| sys.map_create(&spec).map_err(map_error(what));
        let threads = create("what threads do", array(shape.shared_bytes(), 1))?;
        let cpus = create("the figures of all CPUs", array(shape.cpu_bytes(), shape.cpus))?;
        let fence_inner = create("waiting for programs", array(8, 1))?;
        let fence = create(
            "waiting for programs",
            MapSpec {
                kind: MapKind::ArrayOfMaps,
                mapped: false,
                inner: Some(fence_inner.as_fd()),
                ..array(4, 1)
            },
        )?;
        let map = |what, map: &OwnedFd, bytes| {
            Mapping::new(Some(map.as_fd()), pages(bytes)).map_err(map_error(what))
        };
        let shared_values = map("what threads do", &threads, shape.shared_bytes())?;
        let cpu_values = map("the figures of all CPUs", &cpus, shape.cpu_bytes() * shape.cpus)?;
        let stolen = QueueLayout::new(&btf).ok().filter(|_| wanted.steal);
        // Before Linux 6.18, a program would have to look at both ends of every wait.
        let throttle = ThrottleLayout::new(&btf).ok().filter(|it| it.of_task.is_some());
        let load = |stolen, throttle| {
            let setting = Setting {
                task: &task,
                group,
                stolen,
                throttle,
                key: wanted.key,
                shape,
                cpus: cpus.as_fd(),
                shared: threads.as_fd(),
            };
            load_all(&*sys, setting)
        };
        let mut ways = vec![(stolen, throttle), (stolen, None), (None, None)];
        ways.dedup();
        let mut loaded = None;
        for (stolen, throttle) in ways {
            match load(stolen, throttle) {
                Err(error @ BpfError::Load { .. }) => loaded = Some(Err(error)),
                result => {
                    loaded = Some(result.map(|programs| (programs, stolen, throttle)));
                    break;
                }
            }
        }
        let (programs, stolen, throttle) = loaded.unwrap_or_else(|| {
            let programs = load(None, None)?;
            Ok((programs, None, None))
        })?;
        let counts = SchedCounts {
            sys,
            programs,
            links: Vec::new(),
            wanted,
            tells_steal: stolen.is_some(),
            tells_throttles: throttle.is_some(),
            shared: shared_values,
            cpus: cpu_values,
            fence,
            fence_inner,
            _cpus: cpus,
            epoch: 0,
        };
        for (octave, bound) in octave_bounds().into_iter().enumerate() {
            let at = shared::BOUNDS as usize + octave * size_of::<u64>();
            double(&counts.shared, at).store(bound, Ordering::Relaxed);
        }
        for cpu in 0..shape.cpus {
            let at = cpu * shape.cpu_bytes() + cpu::STOLEN as usize;
            double(&counts.cpus, at).store(u64::MAX, Ordering::Relaxed);
        }
        Ok(counts)
    }

    /// Lets the programs run.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&mut self) -> Result<(), BpfError> {
        for (name, program) in &self.programs {
            let attached = self.sys.attach(program.as_fd());
            self.links.push(attached.map_err(|error| BpfError::Attach { name, error })?);
        }
        Ok(())
    }

    /// Stops the programs, and waits until none is on its way any more; what they have counted stays.
    pub fn detach(&mut self) {
        self.links.clear();
        // Without, what one on its way counts would be there for another call of `take` only.
        let _ = self.wait_for_programs();
    }

    /// Returns once all programs that were on their way have ended.
    fn wait_for_programs(&self) -> io::Result<()> {
        self.sys.map_set_maps(self.fence.as_fd(), &[(0, self.fence_inner.as_fd())])
    }

    /// Whether stolen time is counted.
    pub fn tells_steal(&self) -> bool {
        self.tells_steal
    }

    /// Whether it is counted for how long quotas kept threads from running, which is else a part of their waits.
    pub fn tells_throttles(&self) -> bool {
        self.tells_throttles
    }

    /// Bytes of the kernel's memory that it takes.
    pub fn bytes(&self) -> usize {
        self.shared.len() + self.cpus.len()
    }

    /// Hands out what was counted since the last call, each key once, in no order. A thread that was renamed meanwhile has
    /// one of its names.
    ///
    /// # Errors
    /// What bpf(2) returns when it is asked to wait for the programs. Nothing is lost then.
    pub fn take(&mut self) -> io::Result<Vec<Row>> {
        let old = self.epoch & 1;
        self.epoch += 1;
        double(&self.shared, shared::EPOCH as usize).store(self.epoch, Ordering::SeqCst);
        if let Err(error) = self.wait_for_programs() {
            self.epoch -= 1;
            double(&self.shared, shared::EPOCH as usize).store(self.epoch, Ordering::SeqCst);
            return Err(error);
        }
        let shape = self.wanted.shape;
        let mut rows: FxHashMap<Key, Row> = FxHashMap::default();
        for cpu in 0..shape.cpus {
            let table = cpu * shape.cpu_bytes() + cpu::TABLES + old as usize * shape.table_bytes();
            for number in 0..shape.slots_in_all() {
                let slot = Slot { map: &self.cpus, at: table + number * SLOT_BYTES };
                let is_other = number == shape.other();
                let Some(key) = slot.key(self.wanted.key, is_other) else { continue };
                let figures = slot.take();
                if key != Key::Other || figures != Figures::default() {
                    let row = rows.entry(key.without_name());
                    let row = row.or_insert(Row { key, figures: Figures::default() });
                    row.figures.add(&figures);
                }
            }
        }
        Ok(rows.into_values().collect())
    }

    pub fn missing(&self) -> Missing {
        let shape = self.wanted.shape;
        let sum = |at: i16| {
            let of = |cpu| double(&self.cpus, cpu * shape.cpu_bytes() + at as usize);
            (0..shape.cpus).map(|cpu| of(cpu).load(Ordering::Relaxed)).sum()
        };
        let unseen = |program: &(&str, OwnedFd)| self.sys.missed(program.1.as_fd()).unwrap_or(0);
        Missing {
            unseen: self.programs.iter().map(unseen).sum(),
            evicted: sum(cpu::EVICTED),
            overflowed: sum(cpu::OVERFLOWED),
        }
    }
}

fn load_all(
    sys: &dyn BpfSys,
    setting: Setting<'_>,
) -> Result<Vec<(&'static str, OwnedFd)>, BpfError> {
    let load = |name, insns: &[Insn], tracepoint: u32| {
        let spec = ProgramSpec { name, insns, license: LICENSE, on: On::Tracepoint(tracepoint) };
        let failed = |(error, log)| BpfError::Load { name, error, log };
        Ok::<_, BpfError>((name, sys::load(sys, &spec).map_err(failed)?))
    };
    let points = setting.task.tracepoints;
    // Switches come first: who was not seen to go out has no wait.
    let mut programs = vec![
        load("fxtrec_count", &program::switch(setting)?, points.switch)?,
        load("fxtrec_count_n", &program::wakeup(setting, true)?, points.wakeup_new)?,
        load("fxtrec_count_w", &program::wakeup(setting, false)?, points.wakeup)?,
    ];
    if let Some(layout) = setting.throttle {
        let insns = program::migrate(setting, layout)?;
        programs.push(load("fxtrec_count_m", &insns, points.migrate)?);
    }
    Ok(programs)
}

fn double(map: &Mapping, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at + 8 <= map.len());
    // SAFETY: the assertion keeps the aligned word inside of the mapping, which lives as long as the reference; programs and
    // this access it only whole.
    unsafe { AtomicU64::from_ptr(map.base().add(at).cast()) }
}

fn word(map: &Mapping, at: usize) -> &AtomicU32 {
    assert!(at.is_multiple_of(4) && at + 4 <= map.len());
    // SAFETY: as for `double`.
    unsafe { AtomicU32::from_ptr(map.base().add(at).cast()) }
}

/// A slot of a table that no program counts in any more.
struct Slot<'m> {
    map: &'m Mapping,
    at: usize,
}

impl Slot<'_> {
    fn double(&self, at: i16) -> &AtomicU64 {
        double(self.map, self.at + at as usize)
    }

    /// Whose it is; `None` if nobody's. It is free from then on.
    fn key(&self, by: KeyBy, is_other: bool) -> Option<Key> {
        if is_other {
            return Some(Key::Other);
        }
        let number = self.double(slot::KEY).load(Ordering::Relaxed);
        if number == 0 {
            return None;
        }
        self.double(slot::KEY).store(0, Ordering::Relaxed);
        let mut name = [0; 16];
        for (half, at) in name.chunks_exact_mut(8).zip([slot::COMM, slot::COMM + 8]) {
            half.copy_from_slice(&self.double(at).load(Ordering::Relaxed).to_ne_bytes());
        }
        let process = word(self.map, self.at + slot::PROCESS as usize).load(Ordering::Relaxed);
        Some(match by {
            KeyBy::Cgroup => Key::Cgroup(number),
            KeyBy::CgroupAndName => Key::Named(number, name),
            KeyBy::Thread => Key::Thread(Tid(number as u32), name, Pid(process)),
        })
    }

    /// Its figures, which are 0 from then on.
    fn take(&self) -> Figures {
        let double = |at: i16| match self.double(at).load(Ordering::Relaxed) {
            0 => 0,
            _ => self.double(at).swap(0, Ordering::Relaxed),
        };
        let word = |at: i16| {
            let word = word(self.map, self.at + at as usize);
            match word.load(Ordering::Relaxed) {
                0 => 0,
                _ => u64::from(word.swap(0, Ordering::Relaxed)),
            }
        };
        let mut figures = Figures {
            steals: word(slot::STEALS),
            steal_ns: double(slot::STEAL_NS),
            throttles: word(slot::THROTTLES),
            throttled_ns: double(slot::THROTTLED_NS),
            unknown: word(slot::UNKNOWN),
            ..Figures::default()
        };
        for measure in Measure::ALL {
            let at = measure.at();
            let censored = word(at + histogram::CENSORED);
            let bucket = |number: usize| word(at + histogram::BUCKETS + 4 * number as i16);
            let (sum, shortest) = (double(at + histogram::SUM), bucket(0));
            let mut taken = Histogram { sum, censored, ..Histogram::default() };
            // What takes no time is in the first bucket, so without any of the two there is nothing to take.
            if sum > 0 || shortest > 0 {
                taken.max = double(at + histogram::MAX);
                taken.buckets = std::array::from_fn(|number| match number {
                    0 => shortest,
                    _ => bucket(number),
                });
            }
            *figures.of_mut(measure) = taken;
        }
        figures
    }
}

#[cfg(test)]
mod tests;
