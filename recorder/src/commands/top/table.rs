//! The rows, sorted and filtered, as a table.

use std::io::{self, Write};
use std::time::Duration;

use super::{Shown, View};
use crate::cli::{TopBy, TopSort};
use crate::commands::live::groups::Groups;
use crate::kernel::bpf::counts::{Figures, Key, Measure};
use crate::units::grid::{Grid, Side};
use crate::units::look::Look;
use crate::units::text::{count, counted, millis};

/// The share of samples that a row's bound covers.
const SHARE: f64 = 0.99;

/// The columns to drop if there is no space, the least important first.
const SPARE: &[&str] = &[
    "Throttled ms",
    "Stolen ms",
    "Uninterr. ms",
    "Switches",
    "Blocked ms",
    "Run ms",
    "Max wait ms",
];

struct Line {
    name: String,
    figures: Figures,
}

pub(super) struct Table {
    lines: Vec<Line>,
    /// Parts of the headline, the most important first.
    headline: Vec<String>,
    by: TopBy,
    sort: TopSort,
    tells: (bool, bool),
}

impl Table {
    pub(super) fn of(shown: &Shown, view: &View, groups: &mut Groups) -> Table {
        let numbers = shown.rows.iter().filter_map(|row| match row.key {
            Key::Cgroup(number) => Some(number),
            _ => None,
        });
        groups.learn(numbers);
        let mut all = Figures::default();
        let mut lines = Vec::new();
        for row in &shown.rows {
            all.add(&row.figures);
            let name = name(&row.key, groups);
            if name.contains(&view.filter) {
                lines.push(Line { name, figures: row.figures });
            }
        }
        let key = |line: &Line| std::cmp::Reverse(rank(&line.figures, view.sort));
        lines.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
        let headline = headline(&all, shown, view, lines.len());
        Table { lines, headline, by: view.by, sort: view.sort, tells: shown.tells }
    }

    /// The part of the headline that fits.
    pub(super) fn headline(&self, columns: Option<usize>) -> String {
        let mut line = String::new();
        for part in &self.headline {
            let more = if line.is_empty() { part.clone() } else { format!(", {part}") };
            if !line.is_empty() && columns.is_some_and(|most| line.len() + more.len() > most) {
                break;
            }
            line += &more;
        }
        line
    }

    /// Maximum number of rows.
    pub(super) fn write(&self, rows: usize, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let first = match self.by {
            TopBy::Thread => "Thread",
            TopBy::Cgroup => "Cgroup",
        };
        let right = |name| (name, Side::Right);
        let mut columns = vec![
            (first, Side::Left),
            right("Wait ms"),
            right("Wakeup p99 ms"),
            right("Max wait ms"),
            right("Run ms"),
            right("Switches"),
            right("Blocked ms"),
            right("Uninterr. ms"),
        ];
        let (steal, throttles) = self.tells;
        columns.extend(steal.then_some(right("Stolen ms")));
        columns.extend(throttles.then_some(right("Throttled ms")));
        let mut grid = Grid::new(&columns).spare(SPARE).sorted_by(heading(self.sort));
        for Line { name, figures } in self.lines.iter().take(rows) {
            let time = |nanos: u64| millis(Duration::from_nanos(nanos));
            let waits = figures.run_queue();
            let p99 = figures.of(Measure::Wakeup).at_most(SHARE);
            let mut cells = vec![
                name.clone(),
                time(waits.sum),
                p99.map_or_else(|| "-".to_owned(), |bound| format!("<= {}", time(bound))),
                time(waits.max),
                time(figures.of(Measure::Slice).sum),
                count(switches(figures)),
                time(figures.of(Measure::Blocked).sum),
                time(figures.of(Measure::BlockedD).sum),
            ];
            cells.extend(steal.then(|| time(figures.steal_ns)));
            cells.extend(throttles.then(|| time(figures.throttled_ns)));
            grid.row(cells);
        }
        grid.write(look, out)
    }
}

fn name(key: &Key, groups: &Groups) -> String {
    let text = |name: &[u8; 16]| {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    };
    match key {
        Key::Thread(tid, name, _) => format!("{}:{}", text(name), tid.0),
        Key::Cgroup(number) | Key::Named(number, _) => match groups.path(*number) {
            Some(path) => path.to_owned(),
            None => format!("removed:{number}"),
        },
        Key::Other => "all others".to_owned(),
    }
}

/// Switches out, of complete slices and of others.
fn switches(figures: &Figures) -> u64 {
    let slices = figures.of(Measure::Slice);
    slices.count() + slices.censored
}

/// The column that rows are sorted by.
fn heading(sort: TopSort) -> &'static str {
    match sort {
        TopSort::Wait => "Wait ms",
        TopSort::P99 => "Wakeup p99 ms",
        TopSort::Max => "Max wait ms",
        TopSort::Run => "Run ms",
        TopSort::Blocked => "Blocked ms",
        TopSort::Stolen => "Stolen ms",
        TopSort::Throttled => "Throttled ms",
    }
}

fn rank(figures: &Figures, sort: TopSort) -> u64 {
    match sort {
        TopSort::Wait => figures.run_queue().sum,
        TopSort::P99 => figures.of(Measure::Wakeup).at_most(SHARE).unwrap_or(0),
        TopSort::Max => figures.run_queue().max,
        TopSort::Run => figures.of(Measure::Slice).sum,
        TopSort::Blocked => figures.of(Measure::Blocked).sum + figures.of(Measure::BlockedD).sum,
        TopSort::Stolen => figures.steal_ns,
        TopSort::Throttled => figures.throttled_ns,
    }
}

/// The row of the whole machine.
fn headline(all: &Figures, shown: &Shown, view: &View, rows: usize) -> Vec<String> {
    let seconds = shown.during.as_secs_f64();
    let waits = all.run_queue();
    let rows = match view.by {
        TopBy::Thread => counted(rows as u64, "thread", "threads"),
        TopBy::Cgroup => counted(rows as u64, "cgroup", "cgroups"),
    };
    let p99 = all.of(Measure::Wakeup).at_most(SHARE);
    let p99 = p99.map_or_else(|| "-".to_owned(), |bound| millis(Duration::from_nanos(bound)));
    let slices = count((switches(all) as f64 / seconds.max(1e-9)) as u64);
    let mut parts = vec![format!("{seconds:.1} s: {slices} slices/s, {rows}")];
    let lost = shown.missing.unseen + shown.missing.evicted;
    parts.extend((lost > 0).then(|| format!("lost {lost}")));
    let time = |nanos| millis(Duration::from_nanos(nanos));
    parts.push(format!("waits {} ms", time(waits.sum)));
    parts.push(format!("p99 <= {p99} ms"));
    parts.push(format!("max {} ms", time(waits.max)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bpf::counts::{Missing, Row};
    use crate::units::{Pid, Tid};

    fn row(tid: u32, name: &[u8], steal_ns: u64, throttled_ns: u64) -> Row {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name);
        let figures = Figures { steal_ns, throttled_ns, ..Figures::default() };
        Row { key: Key::Thread(Tid(tid), comm, Pid(tid)), figures }
    }

    fn table(sort: TopSort, filter: &str) -> Vec<String> {
        whole(sort, filter).lines.into_iter().map(|line| line.name).collect()
    }

    fn whole(sort: TopSort, filter: &str) -> Table {
        let rows = vec![row(1, b"a", 5, 0), row(2, b"b", 9, 1), row(3, b"ab", 1, 3)];
        let during = Duration::from_secs(1);
        let shown = Shown { rows, during, missing: Missing::default(), tells: (true, true) };
        let filter = filter.to_owned();
        let view = View { by: TopBy::Thread, sort, filter, typing: false, paused: false };
        let (_, mut groups) = Groups::new(None);
        Table::of(&shown, &view, &mut groups)
    }

    #[test]
    fn the_line_above_it_has_as_much_as_there_is_room_for() {
        let table = whole(TopSort::Wait, "");
        let all = "1.0 s: 0 slices/s, 3 threads, waits 0.000 ms, p99 <= - ms, max 0.000 ms";
        assert_eq!(table.headline(None), all);
        assert_eq!(table.headline(Some(all.len())), all);
        let less = "1.0 s: 0 slices/s, 3 threads, waits 0.000 ms, p99 <= - ms";
        assert_eq!(table.headline(Some(all.len() - 1)), less);
        assert_eq!(table.headline(Some(5)), "1.0 s: 0 slices/s, 3 threads");
    }

    #[test]
    fn the_column_that_rows_are_sorted_by_is_marked() {
        for sort in <TopSort as clap::ValueEnum>::value_variants() {
            let mut text = Vec::new();
            let look = Look { colour: false, columns: Some(80) };
            whole(*sort, "").write(3, look, &mut text).expect("memory");
            let text = String::from_utf8(text).expect("text");
            assert!(text.contains(&format!("{} *", heading(*sort))), "{text}");
        }
    }

    #[test]
    fn rows_are_sorted_by_what_is_asked_for_and_filtered_by_name() {
        assert_eq!(table(TopSort::Stolen, ""), ["b:2", "a:1", "ab:3"]);
        assert_eq!(table(TopSort::Throttled, ""), ["ab:3", "b:2", "a:1"]);
        assert_eq!(table(TopSort::Throttled, "a"), ["ab:3", "a:1"]);
        assert_eq!(table(TopSort::Wait, "none"), Vec::<String>::new());
    }
}
