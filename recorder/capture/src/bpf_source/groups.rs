//! Which cgroups are in scope: those whose paths match a glob, and all below them, including those created later.
//!
//! The programs in the kernel identify cgroups by id ([`fxtrec_kernel::bpf::groups`]). This module maps paths to ids: for all cgroups at
//! the beginning, and again each time the programs report a new cgroup that they do not know. If the parent's path already decides, the
//! programs know a new cgroup before it becomes visible: with `/jobs/*`, everything created below `/jobs` is in scope.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fxtrec_kernel::bpf::groups::GroupScope;
use fxtrec_kernel::cgroups;
use fxtrec_units::glob::{self, Pattern};
use rustc_hash::FxHashSet;

/// Searching may take at most one part in this number of the time.
const SHARE: u32 = 10;

#[derive(Debug)]
pub(super) struct Groups {
    globs: Vec<Pattern>,
    root: PathBuf,
    /// How many cgroups had been created at the last search.
    made: u64,
    /// Earliest time of the next search.
    next: Instant,
    /// Ids in the sets that had no cgroup at the last search.
    missing: FxHashSet<u64>,
}

/// Whether a cgroup with this path is in scope.
fn is_wanted(globs: &[Pattern], path: &str) -> bool {
    glob::chooses_cgroup(globs, path)
}

/// Whether every future cgroup below this path will be in scope.
fn wants_children(globs: &[Pattern], path: &str) -> bool {
    let prefix = format!("{}/", path.trim_end_matches('/'));
    is_wanted(globs, path)
        || globs.iter().any(|glob| glob.as_str().ends_with('*') && glob.matches(&prefix))
}

impl Groups {
    /// Puts the existing cgroups in scope. `None` if cgroups are not mounted.
    pub(super) fn new(globs: &[Pattern], scope: &GroupScope) -> Option<Groups> {
        let (_, root) = cgroups::mounted()?;
        let (globs, made) = (globs.to_vec(), scope.made());
        let missing = FxHashSet::default();
        let mut groups = Groups { globs, root, made, next: Instant::now(), missing };
        groups.look(scope);
        Some(groups)
    }

    /// Looks for new cgroups if some were created.
    pub(super) fn follow(&mut self, scope: &GroupScope) {
        let made = scope.made();
        if made != self.made && Instant::now() >= self.next {
            self.made = made;
            self.look(scope);
        }
    }

    fn look(&mut self, scope: &GroupScope) {
        let begun = Instant::now();
        let known: FxHashSet<u64> = scope.known().collect();
        let paths = cgroups::paths(&self.root);
        for (id, path) in &paths {
            let children = wants_children(&self.globs, path);
            if is_wanted(&self.globs, path) {
                scope.include(*id, children);
            } else if children {
                scope.include_children(*id);
            }
        }
        // A cgroup that was just created may be in the sets and not be visible yet.
        let gone = |id: &u64| !paths.contains_key(id);
        let missing: FxHashSet<u64> = known.into_iter().filter(gone).collect();
        missing.intersection(&self.missing).for_each(|id| scope.remove(*id));
        self.missing = missing;
        let took = begun.elapsed();
        self.next = Instant::now() + (took * SHARE).min(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text).expect("a glob")).collect()
    }

    #[test]
    fn children_are_wanted_where_any_name_of_theirs_matches() {
        let globs = globs(&["/jobs/*", "/kube*", "/one"]);
        let cases = [
            ("/", false, false),
            ("/jobs", false, true),
            ("/jobs/a", true, true),
            ("/kubepods", true, true),
            ("/kubepods/x", true, true),
            ("/one", true, true),
            ("/one/more", true, true),
            ("/onerous", false, false),
        ];
        for (path, wanted, children) in cases {
            let found = (is_wanted(&globs, path), wants_children(&globs, path));
            assert_eq!(found, (wanted, children), "{path}");
        }
    }

    #[test]
    fn below_the_root_everything_may_be_wanted() {
        assert!(wants_children(&globs(&["*"]), "/") && wants_children(&globs(&["/*"]), "/"));
        assert!(!wants_children(&globs(&["/a*"]), "/"));
    }
}
