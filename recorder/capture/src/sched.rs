//! Decodes the scheduler's tracepoints into typed events.
//!
//! The positions of the fields are read from their `format` files once, at the start ([`SchedLayout`]); each event then takes one length
//! check and a few loads.

use super::contention::{ContentionFormats, ContentionLayout};
use super::event::{Comm, Kind, Switch, Wake, WakeKind, Waker};
use super::homes::{HomeFormats, HomeLayout};
use super::tracepoint::{At, LayoutError, chunk, i32_at, id, least, locate, tid_at, u32_at};
use fxtrec_kernel::format::Format;
use fxtrec_kernel::perf::Chosen;
use fxtrec_kernel::prev_state::StateTable;
use fxtrec_units::{Cpu, Tid};

/// `TRACE_FLAG_HARDIRQ` and `TRACE_FLAG_SOFTIRQ` of `common_flags`.
const IN_INTERRUPT: u8 = 0x08 | 0x10;

/// The tracepoints with which the scheduler is recorded.
#[derive(Clone, Debug)]
pub struct SchedFormats {
    pub switch: Format,
    pub wakeup: Format,
    pub wakeup_new: Format,
    /// `sched_waking`, if requested.
    pub waking: Option<Format>,
    /// `sched_migrate_task`, if requested.
    pub migrate: Option<Format>,
    /// The tracepoints that report cgroup changes of processes, if requested.
    pub homes: Option<HomeFormats>,
    /// The tracepoints of kernel locks, if they are requested and not reported otherwise.
    pub contention: Option<ContentionFormats>,
}

#[derive(Clone, Copy, Debug)]
struct CommonLayout {
    flags: At,
    pid: At,
}

/// The fields of `sched_switch`.
#[derive(Clone, Debug)]
pub struct SwitchLayout {
    id: u16,
    least: usize,
    common: CommonLayout,
    prev_comm: At,
    prev_pid: At,
    prev_prio: At,
    prev_state: At,
    state_is_long: bool,
    next_comm: At,
    next_pid: At,
    next_prio: At,
    states: StateTable,
}

/// The fields of a wakeup tracepoint.
#[derive(Clone, Debug)]
pub struct WakeLayout {
    kind: WakeKind,
    id: u16,
    least: usize,
    common: CommonLayout,
    comm: At,
    pid: At,
    prio: At,
    target_cpu: At,
}

/// The fields of `sched_migrate_task`.
#[derive(Clone, Copy, Debug)]
struct MoveLayout {
    id: u16,
    least: usize,
    pid: At,
    orig_cpu: At,
    dest_cpu: At,
}

/// The fields of all samples of the scheduler's tracepoints.
#[derive(Clone, Debug)]
pub struct SchedLayout {
    switch: SwitchLayout,
    wakes: Vec<WakeLayout>,
    moves: Option<MoveLayout>,
    homes: Option<HomeLayout>,
    contention: Option<ContentionLayout>,
}

impl CommonLayout {
    fn new(format: &Format) -> Result<CommonLayout, LayoutError> {
        let kind = locate(format, "common_type", &[2])?;
        if kind != 0 {
            return Err(LayoutError::Field {
                event: format.name.clone(),
                field: "common_type".to_owned(),
                size: 2,
            });
        }
        Ok(CommonLayout {
            flags: locate(format, "common_flags", &[1])?,
            pid: locate(format, "common_pid", &[4])?,
        })
    }
}

impl SwitchLayout {
    /// Locates every field that is used.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the format of the tracepoint is unknown.
    pub fn new(format: &Format) -> Result<SwitchLayout, LayoutError> {
        Ok(SwitchLayout {
            id: id(format)?,
            least: least(format),
            common: CommonLayout::new(format)?,
            prev_comm: locate(format, "prev_comm", &[16])?,
            prev_pid: locate(format, "prev_pid", &[4])?,
            prev_prio: locate(format, "prev_prio", &[4])?,
            prev_state: locate(format, "prev_state", &[4, 8])?,
            state_is_long: format.field("prev_state")?.size == 8,
            next_comm: locate(format, "next_comm", &[16])?,
            next_pid: locate(format, "next_pid", &[4])?,
            next_prio: locate(format, "next_prio", &[4])?,
            states: StateTable::parse(format)?,
        })
    }

    /// Decodes what the tracepoint wrote, common fields first; `None` if it is too short.
    #[inline(always)]
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        if raw.len() < self.least {
            return None;
        }
        let state = if self.state_is_long {
            i64::from_ne_bytes(chunk(raw, self.prev_state)?)
        } else {
            i64::from(i32_at(raw, self.prev_state)?)
        };
        Some(Kind::Switch(Switch {
            prev: tid_at(raw, self.prev_pid)?,
            next: tid_at(raw, self.next_pid)?,
            prev_prio: i32_at(raw, self.prev_prio)?,
            next_prio: i32_at(raw, self.next_prio)?,
            state: self.states.decode(state),
            syscall: None,
            in_scope: None,
            prev_comm: Comm(chunk(raw, self.prev_comm)?),
            next_comm: Comm(chunk(raw, self.next_comm)?),
        }))
    }
}

impl WakeLayout {
    /// Locates every field that is used.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the format of the tracepoint is unknown.
    pub fn new(format: &Format, kind: WakeKind) -> Result<WakeLayout, LayoutError> {
        Ok(WakeLayout {
            kind,
            id: id(format)?,
            least: least(format),
            common: CommonLayout::new(format)?,
            comm: locate(format, "comm", &[16])?,
            pid: locate(format, "pid", &[4])?,
            prio: locate(format, "prio", &[4])?,
            target_cpu: locate(format, "target_cpu", &[4])?,
        })
    }

    /// Decodes the tracepoint's bytes, common fields first; `None` if they are too few.
    #[inline(always)]
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        if raw.len() < self.least {
            return None;
        }
        let current = tid_at(raw, self.common.pid)?;
        let flags = *raw.get(self.common.flags)?;
        Some(Kind::Wake(Wake {
            kind: self.kind,
            tid: tid_at(raw, self.pid)?,
            prio: i32_at(raw, self.prio)?,
            target: Cpu(u32_at(raw, self.target_cpu)?),
            comm: Comm(chunk(raw, self.comm)?),
            current,
            by: Waker::here(self.kind, current, flags & IN_INTERRUPT != 0),
            same_process: None,
            in_scope: None,
        }))
    }
}

impl MoveLayout {
    fn new(format: &Format) -> Result<MoveLayout, LayoutError> {
        Ok(MoveLayout {
            id: id(format)?,
            least: least(format),
            pid: locate(format, "pid", &[4])?,
            orig_cpu: locate(format, "orig_cpu", &[4])?,
            dest_cpu: locate(format, "dest_cpu", &[4])?,
        })
    }

    fn decode(&self, raw: &[u8]) -> Option<Kind> {
        if raw.len() < self.least {
            return None;
        }
        let cpu = |at| u32_at(raw, at).map(Cpu);
        let (from, to) = (cpu(self.orig_cpu)?, cpu(self.dest_cpu)?);
        Some(Kind::Moved { tid: tid_at(raw, self.pid)?, from, to })
    }
}

impl SchedLayout {
    /// Locates every field that is used.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the format of this kernel's tracepoints is unknown.
    pub fn new(formats: &SchedFormats) -> Result<SchedLayout, LayoutError> {
        let mut wakes = vec![
            WakeLayout::new(&formats.wakeup, WakeKind::Wakeup)?,
            WakeLayout::new(&formats.wakeup_new, WakeKind::New)?,
        ];
        if let Some(waking) = &formats.waking {
            wakes.push(WakeLayout::new(waking, WakeKind::Waking)?);
        }
        let moves = formats.migrate.as_ref().map(MoveLayout::new).transpose()?;
        let homes = formats.homes.as_ref().map(HomeLayout::new).transpose()?;
        let contention = formats.contention.as_ref().map(ContentionLayout::new).transpose()?;
        let switch = SwitchLayout::new(&formats.switch)?;
        Ok(SchedLayout { switch, wakes, moves, homes, contention })
    }

    /// The id of `sched_switch`, followed by the other ids, in the order in which [`super::perf_rings`] opens them.
    pub fn tracepoints(&self) -> Vec<u64> {
        let wakes = self.wakes.iter().map(|wake| u64::from(wake.id));
        let moves = self.moves.iter().map(|moves| u64::from(moves.id));
        std::iter::once(u64::from(self.switch.id)).chain(wakes).chain(moves).collect()
    }

    /// The tracepoints that report facts about threads that neither perf's own records nor switches contain.
    pub fn lives(&self) -> Vec<Chosen> {
        let homes = self.homes.as_ref().map(HomeLayout::chosen).unwrap_or_default();
        homes.into_iter().chain(self.contention.iter().flat_map(ContentionLayout::chosen)).collect()
    }

    /// The filter for waits for kernel locks to record, in the kernel's filter language; `None` if none are.
    pub(super) fn filter_of_contention(&self) -> Option<String> {
        self.contention.map(|_| ContentionLayout::filter_of_begins())
    }

    /// The filter for moves between cgroups to record, in the kernel's filter language; `None` if none are.
    pub(super) fn filter_of_moves(&self) -> Option<String> {
        self.homes.as_ref().map(HomeLayout::filter_of_moves)
    }

    /// How `sched_switch` reports task states.
    pub fn states(&self) -> &StateTable {
        &self.switch.states
    }

    /// Decodes the sample of a tracepoint, common fields first; `None` for other tracepoints.
    #[inline(always)]
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        let id = u16::from_ne_bytes(chunk(raw, 0)?);
        if id == self.switch.id {
            return self.switch.decode(raw);
        }
        if let Some(wake) = self.wakes.iter().find(|wake| wake.id == id) {
            return wake.decode(raw);
        }
        match self.moves.filter(|moves| moves.id == id) {
            Some(moves) => moves.decode(raw),
            None => self.rare(id, raw),
        }
    }

    #[cold]
    fn rare(&self, id: u16, raw: &[u8]) -> Option<Kind> {
        let contention = self.contention.and_then(|contention| contention.decode(id, raw));
        contention.or_else(|| self.homes?.decode(id, raw))
    }

    /// The thread that was on the CPU.
    pub(super) fn current(&self, raw: &[u8]) -> Option<Tid> {
        // The common fields have the same positions in every tracepoint of a kernel.
        tid_at(raw, self.switch.common.pid)
    }
}

#[cfg(test)]
pub(crate) mod tests;
