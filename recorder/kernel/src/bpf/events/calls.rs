//! What a recording holds for system calls: programs, and lanes of their own.

use std::os::fd::{AsFd, OwnedFd};

use super::super::lane::{Lane, LaneShape};
use super::super::programs::{self, Setting};
use super::super::sys::BpfSys;
use super::super::task::CallLayout;
use super::{BpfError, Loaded, Wanted, give, lanes_of, load_if_possible, map_of_lanes};
use crate::units::Cpu;

/// The map of the lanes, and the programs that write into them.
#[derive(Debug)]
pub(super) struct OfCalls {
    pub(super) outer: OwnedFd,
    pub(super) programs: Vec<Loaded>,
    /// Until somebody takes them.
    pub(super) lanes: Vec<(Cpu, Lane)>,
}

impl OfCalls {
    /// Makes the lanes of all CPUs, of the shape that those of switches have, and loads the programs; `None` if the kernel has
    /// no such programs. `setting` is that of the programs on switches.
    ///
    /// # Errors
    /// What the kernel is short of.
    pub(super) fn open(
        sys: &dyn BpfSys,
        layout: CallLayout,
        wanted: &Wanted<'_>,
        numbers: Option<&[u16]>,
        setting: &Setting<'_>,
    ) -> Result<Option<OfCalls>, BpfError> {
        let shape: LaneShape = setting.shape;
        let lanes = lanes_of(sys, shape, wanted.cpus)
            .map_err(|error| BpfError::Map { what: "system calls of a CPU", error })?;
        let outer = map_of_lanes(sys, wanted.possible, &lanes)?;
        let setting = Setting { lanes: outer.as_fd(), ..*setting };
        let programs = programs::on_calls(&setting, layout, numbers)?;
        let programs = load_if_possible(sys, &programs)?;
        if programs.is_empty() {
            return Ok(None);
        }
        let maps: Vec<_> = lanes.iter().map(|(cpu, lane)| (cpu.0, lane.map())).collect();
        give(sys, &outer, &maps)?;
        Ok(Some(OfCalls { outer, programs, lanes }))
    }
}
