//! What was counted since the daemon began, by the labels under which it is told.
//!
//! Cgroups come and go, and each set of labels costs the one who stores it. So there are only so many; figures of what finds
//! no place are those of "other". A set whose cgroup is no more is forgotten after a while, and makes room.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::commands::live::groups::Groups;
use crate::kernel::bpf::counts::{Figures, Key, Row};

/// For how long figures of a cgroup are told that is no more: a scraper has seen the last of them by then.
const KEPT: Duration = Duration::from_secs(600);

/// How often it is looked which cgroups are no more.
const LOOKED: Duration = Duration::from_secs(120);

/// Whose figures they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Path(String),
    /// Cgroups that were no more when their figures were read.
    Removed,
    /// Those that found no place.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub(super) group: Group,
    pub(super) comm: Option<String>,
}

const OTHER: Labels = Labels { group: Group::Other, comm: None };

#[derive(Debug)]
struct Series {
    figures: Figures,
    /// The numbers of the cgroup; a path may be made anew.
    number: Option<u64>,
    changed: Instant,
}

#[derive(Debug)]
pub(super) struct Ledger {
    groups: Groups,
    most: usize,
    series: BTreeMap<Labels, Series>,
    looked: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(groups: Groups, most: usize) -> Ledger {
        Ledger { groups, most, series: BTreeMap::new(), looked: None }
    }

    /// Adds what was counted.
    pub(super) fn add(&mut self, rows: Vec<Row>, now: Instant) {
        let number = |row: &Row| match row.key {
            Key::Cgroup(number) | Key::Named(number, _) => Some(number),
            Key::Thread(..) | Key::Other => None,
        };
        let is_due = |looked: Instant| now.saturating_duration_since(looked) >= LOOKED;
        match self.looked {
            Some(looked) if !is_due(looked) => self.groups.learn(rows.iter().filter_map(number)),
            _ => {
                self.groups.look();
                self.looked = Some(now);
                self.forget(now);
            }
        }
        for row in rows {
            let number = number(&row);
            let labels = self.labels(&row.key, number);
            let has_room = self.series.len() < self.most || self.series.contains_key(&labels);
            let (labels, number) = if has_room { (labels, number) } else { (OTHER, None) };
            let entry = self.series.entry(labels);
            let new = || Series { figures: Figures::default(), number, changed: now };
            let series = entry.or_insert_with(new);
            series.figures.add(&row.figures);
            (series.number, series.changed) = (number, now);
        }
    }

    fn labels(&self, key: &Key, number: Option<u64>) -> Labels {
        let Some(number) = number else { return OTHER };
        let comm = match key {
            Key::Named(_, name) => {
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                Some(String::from_utf8_lossy(&name[..end]).into_owned())
            }
            _ => None,
        };
        match self.groups.path(number) {
            Some(path) => Labels { group: Group::Path(path.to_owned()), comm },
            // Their names would be without bounds.
            None => Labels { group: Group::Removed, comm: None },
        }
    }

    fn forget(&mut self, now: Instant) {
        let groups = &self.groups;
        self.series.retain(|labels, series| {
            let is_there = series.number.is_none_or(|number| groups.path(number).is_some());
            let is_fresh = now.saturating_duration_since(series.changed) < KEPT;
            is_there || is_fresh || labels.group == Group::Removed
        });
    }

    pub(super) fn series(&self) -> impl Iterator<Item = (&Labels, &Figures)> {
        self.series.iter().map(|(labels, series)| (labels, &series.figures))
    }

    /// What the cgroups are called of which there were figures lately.
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn figures(unknown: u64) -> Figures {
        Figures { unknown, ..Figures::default() }
    }

    fn told(ledger: &Ledger) -> Vec<(String, u64)> {
        let name = |labels: &Labels| match &labels.group {
            Group::Path(path) => path.clone(),
            other => format!("{other:?}"),
        };
        ledger.series().map(|(labels, figures)| (name(labels), figures.unknown)).collect()
    }

    #[test]
    fn figures_of_a_group_add_up_and_what_finds_no_place_is_other() {
        let root = tempfile::tempdir().expect("a folder");
        let group = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(&path).expect("a folder");
            path.metadata().expect("it is there").ino()
        };
        let (_, groups) = Groups::new(Some(root.path().to_owned()));
        let mut ledger = Ledger::new(groups, 2);
        let now = Instant::now();
        let row = |number, count| Row { key: Key::Cgroup(number), figures: figures(count) };
        let a = group("a");
        ledger.add(vec![row(a, 1), Row { key: Key::Other, figures: figures(7) }], now);
        assert_eq!(told(&ledger), [("/a".to_owned(), 1), ("Other".to_owned(), 7)]);
        let b = group("b");
        ledger.add(vec![row(a, 2), row(b, 5)], now);
        assert_eq!(told(&ledger), [("/a".to_owned(), 3), ("Other".to_owned(), 12)]);
        std::fs::remove_dir(root.path().join("a")).expect("it is empty");
        ledger.add(Vec::new(), now + LOOKED);
        assert_eq!(told(&ledger).len(), 2, "it is kept for a while");
        ledger.add(vec![row(b, 1)], now + KEPT + LOOKED);
        assert_eq!(told(&ledger), [("/b".to_owned(), 1), ("Other".to_owned(), 12)]);
        ledger.add(vec![row(u64::MAX, 4)], now + KEPT + LOOKED);
        assert_eq!(told(&ledger)[1], ("Other".to_owned(), 16), "one that was never seen");
    }
}
