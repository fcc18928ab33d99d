//! How long the quotas of cgroups kept their threads from running, by the kernel's own counts.
//!
//! For each group with a quota, the scheduler counts in `cpu.stat` in how many periods the quota was used up, and how long the group's
//! queues were throttled. When a group is removed, its counts are lost.

use std::collections::HashMap;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cgroups;
use crate::clock;
use crate::units::Nanos;

const STAT: &str = "cpu.stat";

/// With more groups than this, reading their counts would delay a recording.
const MOST_GROUPS: usize = 4096;

/// The kernel's counts for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCounts {
    /// Number of completed periods of the quota, and in how many of them it was used up.
    pub periods: u64,
    pub throttled_periods: u64,
    /// How long its queues were throttled, summed over CPUs.
    pub throttled: Nanos,
}

impl QuotaCounts {
    /// `None` for a group without the controller: the root, and groups in which it is not enabled.
    fn parse(stat: &str) -> Option<QuotaCounts> {
        let figure = |name: &str| {
            let mut words = stat.lines().filter_map(|line| line.split_once(' '));
            words.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
        };
        // Version 1 of the hierarchy counts in nanoseconds, version 2 in microseconds.
        let micros = || figure("throttled_usec").map(|micros| micros.saturating_mul(1_000));
        Some(QuotaCounts {
            periods: figure("nr_periods")?,
            throttled_periods: figure("nr_throttled")?,
            throttled: Nanos(figure("throttled_time").or_else(micros)?),
        })
    }

    fn since(self, before: QuotaCounts) -> QuotaCounts {
        QuotaCounts {
            periods: self.periods.saturating_sub(before.periods),
            throttled_periods: self.throttled_periods.saturating_sub(before.throttled_periods),
            throttled: Nanos(self.throttled.0.saturating_sub(before.throttled.0)),
        }
    }
}

/// The counts of all groups, by each group's number and its path below the root of the hierarchy.
type Groups = HashMap<(u64, String), QuotaCounts>;

/// The counts at the beginning of some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaWatch {
    begun: Nanos,
    /// `None` if there are no counts, or too many groups.
    groups: Option<Groups>,
}

/// How much they have grown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaGrowth {
    pub during: Nanos,
    /// The groups that a quota stopped, by path; the one that was stopped longest is first.
    pub stopped: Vec<(String, QuotaCounts)>,
}

impl QuotaWatch {
    pub fn begin() -> QuotaWatch {
        QuotaWatch { begun: clock::now(), groups: cgroups::root().and_then(|root| read(&root)) }
    }

    /// Whether the counts can be read here.
    pub fn is_readable(&self) -> bool {
        self.groups.is_some()
    }

    /// The growth since that time.
    pub fn growth(&self) -> QuotaGrowth {
        let during = Nanos(clock::now().0.saturating_sub(self.begun.0));
        let now = cgroups::root().and_then(|root| read(&root));
        let stopped = match (&self.groups, now) {
            (Some(before), Some(now)) => grown(before, now),
            _ => Vec::new(),
        };
        QuotaGrowth { during, stopped }
    }
}

fn grown(before: &Groups, now: Groups) -> Vec<(String, QuotaCounts)> {
    let growth = |(group, now): ((u64, String), QuotaCounts)| {
        // A new group has counted from 0.
        let then = before.get(&group).copied().unwrap_or_default();
        (group.1, now.since(then))
    };
    let mut stopped: Vec<_> = now.into_iter().map(growth).collect();
    stopped.retain(|(_, counts)| counts.throttled_periods > 0 || counts.throttled > Nanos(0));
    stopped.sort_by(|(a, x), (b, y)| y.throttled.cmp(&x.throttled).then_with(|| a.cmp(b)));
    stopped
}

/// The counts of all groups of a hierarchy. If the controller is not enabled in a group, it is not enabled anywhere below.
fn read(root: &Path) -> Option<Groups> {
    let mut groups = Groups::new();
    let mut left: Vec<PathBuf> = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        seen += 1;
        if seen > MOST_GROUPS {
            return None;
        }
        let counts = std::fs::read_to_string(folder.join(STAT))
            .ok()
            .and_then(|stat| QuotaCounts::parse(&stat));
        match counts {
            None if folder != root => continue,
            None => {}
            Some(counts) => {
                let number = folder.metadata().map_or(0, |meta| meta.ino());
                let below = folder.strip_prefix(root).unwrap_or(&folder);
                groups.insert((number, format!("/{}", below.display())), counts);
            }
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_group = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        left.extend(entries.filter(is_group).map(|entry| entry.path()));
    }
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FIRST: &str = "nr_periods 30\nnr_throttled 12\nthrottled_time 306000000\n\
                         wait_sum 5\ncurrent_bw 20000\n";
    const SECOND: &str = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 30\nnr_throttled 12\n\
                          throttled_usec 306000\nnr_bursts 0\nburst_usec 0\n";

    fn counts(periods: u64, throttled_periods: u64, nanos: u64) -> QuotaCounts {
        QuotaCounts { periods, throttled_periods, throttled: Nanos(nanos) }
    }

    #[test]
    fn both_versions_of_the_hierarchy_say_the_same() {
        let expected = Some(counts(30, 12, 306_000_000));
        assert_eq!(QuotaCounts::parse(FIRST), expected);
        assert_eq!(QuotaCounts::parse(SECOND), expected);
        assert_eq!(QuotaCounts::parse("usage_usec 9\nuser_usec 5\n"), None);
        assert_eq!(QuotaCounts::parse(""), None);
    }

    #[test]
    fn growth_is_told_of_groups_that_were_stopped_the_worst_first() {
        let before = Groups::from([
            ((1, "/a".into()), counts(10, 5, 100)),
            ((2, "/b".into()), counts(10, 5, 100)),
            ((3, "/removed".into()), counts(10, 5, 100)),
            ((4, "/again".into()), counts(10, 5, 100)),
        ]);
        let now = Groups::from([
            ((1, "/a".into()), counts(20, 5, 100)),
            ((2, "/b".into()), counts(20, 6, 107)),
            ((9, "/again".into()), counts(1, 1, 70)),
        ]);
        let expected =
            [("/again".to_owned(), counts(1, 1, 70)), ("/b".to_owned(), counts(10, 1, 7))];
        assert_eq!(grown(&before, now), expected);
    }

    #[test]
    fn groups_are_read_down_to_where_the_controller_is_enabled() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(STAT), text).expect("a file");
        };
        write("", "usage_usec 9\n");
        write("a", SECOND);
        write("a/deep", SECOND);
        write("b", "usage_usec 9\n");
        write("b/never", SECOND);
        let groups = read(root.path()).expect("few groups");
        let mut paths: Vec<String> = groups.into_keys().map(|(_, path)| path).collect();
        paths.sort();
        assert_eq!(paths, ["/a", "/a/deep"]);
    }
}
