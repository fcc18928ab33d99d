//! System calls in a recording: the programs, and separate lanes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::super::lane::{Lane, LaneShape};
use super::super::object::Object;
use super::super::programs::{self, Loaded, Setting};
use super::super::sys::{BpfSys, Memory};
use super::{BpfError, Wanted, give, lanes_of, load_if_possible, map_of_lanes};
use crate::units::Cpu;

/// The map of the lanes, and the programs that write into them.
#[derive(Debug)]
pub(super) struct OfCalls {
    pub(super) outer: OwnedFd,
    pub(super) programs: Vec<Loaded>,
    /// The calls to record, if not all. The programs use it.
    _numbers: Option<Memory>,
    /// Empty after they were returned.
    pub(super) lanes: Vec<(Cpu, Lane)>,
}

impl OfCalls {
    /// Creates the lanes of all CPUs, with the same shape as those of switches, and loads the programs; `None` if the kernel does not
    /// support these. `setting` is that of the programs on switches.
    ///
    /// # Errors
    /// Returns [`BpfError`] if the kernel has too few resources.
    pub(super) fn open(
        sys: &dyn BpfSys,
        object: &Object,
        wanted: &Wanted<'_>,
        numbers: Option<&[u16]>,
        setting: &Setting<'_>,
    ) -> Result<Option<OfCalls>, BpfError> {
        let shape: LaneShape = setting.shape;
        let lanes = lanes_of(sys, shape, wanted.cpus)
            .map_err(|error| BpfError::Map { what: "system calls of a CPU", error })?;
        let outer = map_of_lanes(sys, wanted.possible, &lanes)?;
        let setting = Setting { lanes: outer.as_fd(), ..*setting };
        let numbers = numbers.map(|numbers| set_of(sys, numbers)).transpose();
        let numbers = numbers
            .map_err(|error| BpfError::Map { what: "the numbers of system calls", error })?;
        let given = numbers.as_ref().map(Memory::fd);
        let programs = programs::on_calls(object, &setting, given)?;
        let programs = load_if_possible(sys, &programs)?;
        if programs.is_empty() {
            return Ok(None);
        }
        let maps: Vec<_> = lanes.iter().map(|(cpu, lane)| (cpu.0, lane.map())).collect();
        give(sys, &outer, &maps)?;
        Ok(Some(OfCalls { outer, programs, _numbers: numbers, lanes }))
    }
}

/// The upper bound of call numbers, in the programs too.
const NUMBERS: usize = 1024;

/// Memory with a bit for each number; the bits of these numbers are set.
fn set_of(sys: &dyn BpfSys, numbers: &[u16]) -> io::Result<Memory> {
    let set = Memory::new(sys, NUMBERS / 8)?;
    for number in numbers.iter().map(|number| usize::from(*number)).filter(|it| *it < NUMBERS) {
        set.word(number / 64 * 8).fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
    Ok(set)
}
