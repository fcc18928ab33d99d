//! The counts since the daemon's start, by the labels under which they are exported.
//!
//! Cgroups come and go, and each label set costs memory in the scraper. So the number of label sets is limited; all others are counted
//! under "other". The set of a removed cgroup is dropped after a while, which frees its slot.
//!
//! The busiest sets, by number of slices, have slots. Every two minutes, a set without a slot replaces the least busy set if it recently
//! had more than twice as many slices. Sets of similar activity keep their slots, because each change ends one series and begins another.
//! The counts of the replaced set are added to "other", so totals stay correct.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::commands::live::groups::Groups;
use crate::kernel::bpf::counts::{Figures, Key, Measure, Row};

/// How long the figures of a removed cgroup are still exported, so that a scraper sees the final values.
const KEPT: Duration = Duration::from_secs(600);

/// How often to check for removed cgroups.
const LOOKED: Duration = Duration::from_secs(120);

/// The owner of the figures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Path(String),
    /// Cgroups that had been removed when their figures were read.
    Removed,
    /// Label sets that found no slot.
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
    /// The id of the cgroup; its path may be reused.
    number: Option<u64>,
    changed: Instant,
    /// How busy it was recently.
    busy: u64,
}

impl Series {
    fn new(number: Option<u64>, now: Instant) -> Series {
        Series { figures: Figures::default(), number, changed: now, busy: 0 }
    }
}

/// The activity of threads, in slices, or in intervals without information.
fn busy(figures: &Figures) -> u64 {
    figures.of(Measure::Slice).count().saturating_add(figures.unknown)
}

/// The name without control characters. Names that differ only in those are merged, since Prometheus rejects a scrape
/// with two series of the same labels.
fn harmless(value: &str) -> String {
    let replaced = |it: char| if it.is_control() && it != '\n' { '\u{fffd}' } else { it };
    value.chars().map(replaced).collect()
}

#[derive(Debug)]
pub(super) struct Ledger {
    groups: Groups,
    most: usize,
    series: BTreeMap<Labels, Series>,
    /// The recent activity of sets without a slot.
    waiting: BTreeMap<Labels, u64>,
    looked: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(groups: Groups, most: usize) -> Ledger {
        Ledger { groups, most, series: BTreeMap::new(), waiting: BTreeMap::new(), looked: None }
    }

    /// Adds the counts.
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
                self.rank(now);
            }
        }
        for row in rows {
            let number = number(&row);
            let labels = self.labels(&row.key, number);
            let busy = busy(&row.figures);
            let has_room = self.series.len() < self.most || self.series.contains_key(&labels);
            let (labels, number) = if has_room {
                (labels, number)
            } else {
                self.wait(labels, busy);
                (OTHER, None)
            };
            let series = self.series.entry(labels).or_insert_with(|| Series::new(number, now));
            series.figures.add(&row.figures);
            (series.number, series.changed) = (number, now);
            series.busy = series.busy.saturating_add(busy);
        }
    }

    fn labels(&self, key: &Key, number: Option<u64>) -> Labels {
        let Some(number) = number else { return OTHER };
        let comm = match key {
            Key::Named(_, name) => {
                let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                Some(harmless(&String::from_utf8_lossy(&name[..end])))
            }
            _ => None,
        };
        match self.groups.path(number) {
            Some(path) => Labels { group: Group::Path(harmless(path)), comm },
            // Without a limit, their names could use any amount of memory.
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

    /// Counts a set without a slot; the number of distinct ones is limited.
    fn wait(&mut self, labels: Labels, busy: u64) {
        let is_new = !self.waiting.contains_key(&labels);
        // Sets without their own path always have a slot.
        if matches!(labels.group, Group::Path(_)) && (!is_new || self.waiting.len() < 4 * self.most)
        {
            let sum = self.waiting.entry(labels).or_default();
            *sum = sum.saturating_add(busy);
        }
    }

    /// Gives the slots of the least busy sets to the busiest sets without a slot.
    fn rank(&mut self, now: Instant) {
        let mut wait: Vec<(u64, Labels)> = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|(labels, busy)| (busy, labels))
            .collect();
        wait.sort_by(|a, b| b.cmp(a));
        let is_path = |labels: &&Labels| matches!(labels.group, Group::Path(_));
        let mut placed: Vec<(u64, Labels)> = self
            .series
            .iter()
            .filter(|it| is_path(&it.0))
            .map(|(labels, it)| (it.busy, labels.clone()))
            .collect();
        placed.sort();
        let mut places = placed.into_iter();
        for (busy, labels) in wait {
            // Free slots are given in order of arrival.
            if self.series.len() < self.most {
                break;
            }
            match places.next() {
                Some((least, leaves)) if busy > least.saturating_mul(2) => {
                    if let Some(left) = self.series.remove(&leaves) {
                        let other =
                            self.series.entry(OTHER).or_insert_with(|| Series::new(None, now));
                        other.figures.add(&left.figures);
                    }
                    self.series.insert(labels, Series { busy, ..Series::new(None, now) });
                }
                _ => break,
            }
        }
        for series in self.series.values_mut() {
            series.busy /= 2;
        }
    }

    pub(super) fn series(&self) -> impl Iterator<Item = (&Labels, &Figures)> {
        self.series.iter().map(|(labels, series)| (labels, &series.figures))
    }

    /// The names of cgroups with recent figures.
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

    fn reported(ledger: &Ledger) -> Vec<(String, u64)> {
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
        assert_eq!(reported(&ledger), [("/a".to_owned(), 1), ("Other".to_owned(), 7)]);
        let b = group("b");
        ledger.add(vec![row(a, 2), row(b, 5)], now);
        assert_eq!(reported(&ledger), [("/a".to_owned(), 3), ("Other".to_owned(), 12)]);
        std::fs::remove_dir(root.path().join("a")).expect("it is empty");
        ledger.add(Vec::new(), now + LOOKED);
        assert_eq!(reported(&ledger).len(), 2, "it is kept for a while");
        ledger.add(vec![row(b, 1)], now + KEPT + LOOKED);
        assert_eq!(reported(&ledger), [("/b".to_owned(), 1), ("Other".to_owned(), 12)]);
        ledger.add(vec![row(u64::MAX, 4)], now + KEPT + LOOKED);
        assert_eq!(reported(&ledger)[1], ("Other".to_owned(), 16), "one that was never seen");
    }

    /// A ledger with `most` slots, and the numbers of cgroups with these names.
    fn ledger_of<S: AsRef<std::ffi::OsStr>>(
        most: usize,
        names: &[S],
    ) -> (tempfile::TempDir, Ledger, Vec<u64>) {
        let root = tempfile::tempdir().expect("a folder");
        let number = |name: &S| {
            let path = root.path().join(name.as_ref());
            std::fs::create_dir_all(&path).expect("a folder");
            path.metadata().expect("it is there").ino()
        };
        let numbers = names.iter().map(number).collect();
        let (_, groups) = Groups::new(Some(root.path().to_owned()));
        (root, Ledger::new(groups, most), numbers)
    }

    #[test]
    fn no_two_series_have_the_same_labels_whatever_bytes_are_in_names() {
        use std::os::unix::ffi::OsStrExt;
        let names = [&b"a\xff"[..], b"a\xfe", b"a\x01", b"a\x02", b"b"];
        let names = names.map(std::ffi::OsStr::from_bytes);
        let (_root, mut ledger, numbers) = ledger_of(100, &names);
        let comm = |bytes: &[u8]| std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0));
        let mut rows = Vec::new();
        for number in numbers {
            for name in [&b"x\xff"[..], b"x\xfe", b"x\x1b", b"x\x02", b"y"] {
                rows.push(Row { key: Key::Named(number, comm(name)), figures: figures(1) });
            }
        }
        ledger.add(rows, Instant::now());
        let labels: Vec<_> =
            ledger.series().map(|(labels, _)| super::super::families::labels_of(labels)).collect();
        let mut apart = labels.clone();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), labels.len(), "{labels:?}");
        assert_eq!(ledger.series().map(|(_, figures)| figures.unknown).sum::<u64>(), 25);
    }

    #[test]
    fn the_busiest_have_the_places_and_keep_them_while_others_are_about_as_busy() {
        let names: Vec<String> = (0..6).map(|number| format!("g{number}")).collect();
        let (_root, mut ledger, groups) = ledger_of(3, &names);
        let mut now = Instant::now();
        let mut round = |counts: &[(usize, u64)]| {
            let rows = counts
                .iter()
                .map(|&(at, count)| Row { key: Key::Cgroup(groups[at]), figures: figures(count) });
            ledger.add(rows.collect(), now);
            now += LOOKED;
            reported(&ledger)
        };
        let names = |reported: Vec<(String, u64)>| {
            reported.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        };
        let idle = [(0, 1), (1, 1), (2, 1)];
        assert_eq!(names(round(&idle)), "/g0 /g1 /g2");
        // Three sets are busy, but the first three already have the slots.
        let all = [(0, 1), (1, 1), (2, 40), (3, 100), (4, 90), (5, 1)];
        round(&all);
        let busiest = names(round(&all));
        assert!(busiest.contains("/g3") && busiest.contains("/g4"), "{busiest}");
        let others = [(2, 70), (3, 100), (4, 90), (0, 80)];
        let kept: Vec<_> = (0..5).map(|_| names(round(&others))).collect();
        assert!(kept.iter().all(|it| *it == kept[0]), "{kept:?}");
        let sum: u64 = round(&[]).iter().map(|it| it.1).sum();
        assert_eq!(sum, 3 + 2 * 233 + 5 * 340, "nothing is told twice, and nothing is lost");
    }
}
