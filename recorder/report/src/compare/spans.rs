//! How the parts of spans changed.
//!
//! The mean length of spans is the sum of the means of their parts, so its change is the sum of the parts' changes. The parts that grew are
//! named, even if the growth is noise.

use std::collections::BTreeMap;
use std::fmt;

use fxtrec_blame::Class;
use fxtrec_gates::{Amount, Dimension, SpanPart};
use fxtrec_units::escape;
use serde::Serialize;

use crate::spans::SpanFigures;

/// The parts that a length consists of.
const PARTS: [SpanPart; 6] = [
    SpanPart::Cpu,
    SpanPart::Steal,
    SpanPart::Irq,
    SpanPart::RunQueue,
    SpanPart::Throttled,
    SpanPart::Blocked,
];

/// Changes below this share of the total change are not shown.
const SHARE: f64 = 0.1;

/// How the mean of spans with a name changed, over all runs of each side. Spans with unknown time are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shift {
    pub name: String,
    pub base_mean_ns: Option<f64>,
    pub new_mean_ns: Option<f64>,
    /// The contribution of each part to the change; blocked time is divided by the reason of the wait.
    pub parts_ns: BTreeMap<String, f64>,
    /// The difference of blocked time, by the thread that ended it.
    pub woken_by_ns: BTreeMap<String, BTreeMap<String, f64>>,
    /// The difference of blocked time, by the thread that held the lock when the wait began, if known.
    pub held_by_ns: BTreeMap<String, BTreeMap<String, f64>>,
}

/// By part of blocked time, then by name: the thread that ended it, or that held the lock.
type Names = BTreeMap<String, BTreeMap<String, f64>>;

struct Means {
    total: f64,
    parts: BTreeMap<String, f64>,
    wakers: Names,
    owners: Names,
}

fn blocked(class: Class) -> String {
    format!("blocked ({})", class.name())
}

fn means(figures: &SpanFigures) -> Option<Means> {
    let count = figures.part(SpanPart::Cpu).count();
    (count > 0).then(|| {
        let mean = |sum: std::time::Duration| sum.as_nanos() as f64 / count as f64;
        let mut parts = BTreeMap::new();
        for part in PARTS.iter().filter(|part| **part != SpanPart::Blocked) {
            parts.insert(part.name().to_owned(), mean(figures.part(*part).sum()));
        }
        for (class, sum) in &figures.blocked_by {
            parts.insert(blocked(*class), mean(*sum));
        }
        let by_name = |sums: &[((Class, Box<str>), std::time::Duration)]| {
            let mut names = Names::new();
            for ((class, name), sum) in sums {
                names.entry(blocked(*class)).or_default().insert(name.to_string(), mean(*sum));
            }
            names
        };
        let (wakers, owners) = (by_name(&figures.woken_by), by_name(&figures.held_by));
        let total = PARTS.iter().map(|part| mean(figures.part(*part).sum())).sum();
        Means { total, parts, wakers, owners }
    })
}

impl Shift {
    /// The change from the figures of all base runs to those of all new runs.
    pub fn new(name: &str, base: &SpanFigures, new: &SpanFigures) -> Shift {
        let (base, new) = (means(base), means(new));
        let mut parts_ns = BTreeMap::new();
        if let (Some(base), Some(new)) = (&base, &new) {
            let of = |means: &Means, part: &str| means.parts.get(part).copied().unwrap_or(0.0);
            for part in base.parts.keys().chain(new.parts.keys()) {
                let change = of(new, part) - of(base, part);
                parts_ns.insert(part.clone(), change);
            }
        }
        let change = |of: fn(&Means) -> &Names| match (&base, &new) {
            (Some(base), Some(new)) => changes(of(base), of(new)),
            // If only one side has the figures, there is no change.
            _ => Names::new(),
        };
        let (woken_by_ns, held_by_ns) = (change(|it| &it.wakers), change(|it| &it.owners));
        Shift {
            name: name.to_owned(),
            base_mean_ns: base.map(|means| means.total),
            new_mean_ns: new.map(|means| means.total),
            parts_ns,
            woken_by_ns,
            held_by_ns,
        }
    }

    /// The thread that contributes most to the change of a part of blocked time, if any.
    fn most(names: &Names, part: &str, change: f64) -> Option<(String, f64)> {
        let toward = |nanos: f64| nanos * change.signum();
        let each =
            names.get(part)?.iter().map(|(name, nanos)| (escape::line(name).to_string(), *nanos));
        let most = each.max_by(|a, b| toward(a.1).total_cmp(&toward(b.1)))?;
        (toward(most.1) * 2.0 > change.abs()).then_some(most)
    }
}

fn changes(base: &Names, new: &Names) -> Names {
    let mut changes = Names::new();
    for (names, sign) in [(base, -1.0), (new, 1.0)] {
        for (part, names) in names {
            let sums = changes.entry(part.clone()).or_default();
            for (name, nanos) in names {
                *sums.entry(name.clone()).or_default() += sign * nanos;
            }
        }
    }
    changes
}

fn signed(nanos: f64) -> String {
    let sign = if nanos < 0.0 { '-' } else { '+' };
    format!("{sign}{}", Amount { number: nanos.abs(), dimension: Dimension::Time })
}

/// `span "app:request": mean 2.01 ms, then 5.11 ms, +3.10 ms: blocked (lock) +2.90 ms (held by logger +2.80 ms)`
impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "span {:?}: ", self.name)?;
        let (Some(base), Some(new)) = (self.base_mean_ns, self.new_mean_ns) else {
            return f.write_str("one side has no span whose time is fully known");
        };
        let time = |number| Amount { number, dimension: Dimension::Time };
        write!(f, "mean {}, then {}, {}", time(base), time(new), signed(new - base))?;
        let mut parts: Vec<(&String, f64)> =
            self.parts_ns.iter().map(|(part, change)| (part, *change)).collect();
        parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(b.0)));
        let largest = parts.first().map_or(0.0, |part| part.1.abs());
        parts.retain(|(_, change)| *change != 0.0 && change.abs() >= largest * SHARE);
        for (at, (part, change)) in parts.iter().enumerate() {
            write!(f, "{} {part} {}", if at == 0 { ":" } else { "," }, signed(*change))?;
            let held = Shift::most(&self.held_by_ns, part, *change);
            if let Some((owner, nanos)) = held {
                write!(f, " (held by {owner} {})", signed(nanos))?;
            } else if let Some((waker, nanos)) = Shift::most(&self.woken_by_ns, part, *change) {
                write!(f, " (until woken by {waker} {})", signed(nanos))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;
    use fxt_writer::Value;

    use super::*;
    use crate::scene::{Leaves, Scene};
    use crate::selection::Selection;

    fn figures(locked: u64) -> SpanFigures {
        figures_by(locked, [201, 201])
    }

    /// As recorded with `--locks`; 203 holds the lock.
    fn figures_held(locked: u64) -> SpanFigures {
        let owner = ("futex_owner", Value::Koid(fxt_writer::Koid(203)));
        figures_of(locked, [201, 201], &[("futex", Value::Pointer(0x10)), owner])
    }

    fn figures_by(locked: u64, wakers: [u64; 2]) -> SpanFigures {
        figures_of(locked, wakers, &[])
    }

    /// Two requests, which compute for 2 ms and wait for a lock for this many milliseconds, until these threads wake them.
    fn figures_of(
        locked: u64,
        wakers: [u64; 2],
        lock: &[(&'static str, Value<'static>)],
    ) -> SpanFigures {
        let mut scene = Scene::with_causes("waker,syscall,futex");
        scene.name(203, "logger");
        let sleeps = [&[("syscall", Value::Uint32(202))], lock].concat();
        for (at, waker) in [10_000, 60_000].into_iter().zip(wakers) {
            let woken = at + 1_000 + locked * 1_000;
            scene.switch(at, 0, 0, Leaves::R, 101);
            scene.switch_with((at + 1_000, 0), 101, Leaves::S, 0, &sleeps);
            scene.wake_by(woken, 0, 101, waker).switch(woken, 0, 0, Leaves::R, 101);
            scene.switch(woken + 1_000, 0, 101, Leaves::S, 0);
            scene.span((at, woken + 1_000), 101, "request");
        }
        scene.end(200_000);
        let open = || Ok(Reader::from_slice(scene.bytes()));
        let spans = crate::spans::measure(
            open,
            &Selection::default(),
            &scene.report(),
            crate::spans::Room::OF_COMMANDS,
        );
        spans.expect("a trace").rows.remove(0).figures
    }

    #[test]
    fn the_change_of_the_mean_is_that_of_its_parts_and_the_largest_is_named() {
        let shift = Shift::new("request", &figures(1), &figures(4));
        assert_eq!(
            shift.to_string(),
            "span \"request\": mean 3.00 ms, then 6.00 ms, +3.00 ms: blocked (lock) +3.00 ms \
             (until woken by t201 +3.00 ms)"
        );
        assert_eq!(shift.parts_ns.values().sum::<f64>(), 3e6);
        let back = Shift::new("request", &figures(4), &figures(1)).to_string();
        let expected = "-3.00 ms: blocked (lock) -3.00 ms (until woken by t201 -3.00 ms)";
        assert!(back.ends_with(expected), "{back}");
        let same = Shift::new("request", &figures(4), &figures(4)).to_string();
        assert!(same.ends_with("then 6.00 ms, +0 ns"), "{same}");
        let two = Shift::new("request", &figures(1), &figures_by(5, [201, 202])).to_string();
        assert!(two.ends_with(": blocked (lock) +4.00 ms (until woken by t202 +2.50 ms)"), "{two}");
        let three = Shift::new("request", &figures_by(1, [201, 202]), &figures_by(5, [201, 202]));
        assert!(
            three.to_string().ends_with(": blocked (lock) +4.00 ms"),
            "nobody has most: {three}"
        );
        let held = Shift::new("request", &figures_held(1), &figures_held(4)).to_string();
        assert!(held.ends_with("blocked (lock) +3.00 ms (held by logger +3.00 ms)"), "{held}");
        let none = Shift::new("request", &SpanFigures::default(), &figures(4)).to_string();
        assert!(none.ends_with("one side has no span whose time is fully known"), "{none}");
    }
}
