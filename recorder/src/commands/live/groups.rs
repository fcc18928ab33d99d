//! The names of cgroups, which the kernel counts by id.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::kernel::cgroups::{self, Hierarchy};

/// The paths of cgroups, looked up when an unknown id appears.
#[derive(Debug)]
pub(in crate::commands) struct Groups {
    root: PathBuf,
    paths: HashMap<u64, String>,
}

impl Groups {
    /// The hierarchy by which the kernel counts, with its groups below `root` or, without `root`, below its mount point.
    pub(in crate::commands) fn new(root: Option<PathBuf>) -> (Hierarchy, Groups) {
        let mounted = cgroups::mounted();
        let hierarchy = mounted.as_ref().map_or(Hierarchy::Unified, |(hierarchy, _)| *hierarchy);
        let root = root.or(mounted.map(|(_, point)| point)).unwrap_or_default();
        (hierarchy, Groups { root, paths: HashMap::default() })
    }

    /// Looks up all groups again if one of `numbers` is unknown; this also drops removed groups.
    pub(in crate::commands) fn learn(&mut self, mut numbers: impl Iterator<Item = u64>) {
        if numbers.any(|number| !self.paths.contains_key(&number)) {
            self.look();
        }
    }

    /// Looks up all groups again.
    pub(in crate::commands) fn look(&mut self) {
        self.paths = cgroups::paths(&self.root);
    }

    /// `None` for a group that has been removed or is not visible from here.
    pub(in crate::commands) fn path(&self, number: u64) -> Option<&str> {
        self.paths.get(&number).map(String::as_str)
    }
}
