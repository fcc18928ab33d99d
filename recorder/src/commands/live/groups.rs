//! What cgroups are called that the kernel counts by number.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::kernel::cgroups::{self, Hierarchy};

/// The paths of cgroups, looked up when a number comes that is not known.
#[derive(Debug)]
pub(in crate::commands) struct Groups {
    root: PathBuf,
    paths: HashMap<u64, String>,
}

impl Groups {
    /// The hierarchy that tells threads apart, and its groups below `root` or, without one, where it is mounted.
    pub(in crate::commands) fn new(root: Option<PathBuf>) -> (Hierarchy, Groups) {
        let mounted = cgroups::mounted();
        let hierarchy = mounted.as_ref().map_or(Hierarchy::Unified, |(hierarchy, _)| *hierarchy);
        let root = root.or(mounted.map(|(_, point)| point)).unwrap_or_default();
        (hierarchy, Groups { root, paths: HashMap::default() })
    }

    /// Looks all of them up anew if one of `numbers` is not known, and so forgets those that are no more.
    pub(in crate::commands) fn learn(&mut self, mut numbers: impl Iterator<Item = u64>) {
        if numbers.any(|number| !self.paths.contains_key(&number)) {
            self.look();
        }
    }

    /// Looks all of them up anew.
    pub(in crate::commands) fn look(&mut self) {
        self.paths = cgroups::paths(&self.root);
    }

    /// `None` for a group that is no more, or that nobody here can see.
    pub(in crate::commands) fn path(&self, number: u64) -> Option<&str> {
        self.paths.get(&number).map(String::as_str)
    }
}
