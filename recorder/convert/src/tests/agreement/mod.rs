//! Compares all outputs that show the running thread of each CPU and the state of each thread.
//!
//! A random story is played on a simulated machine. Its recording becomes a trace, and also feeds the scheduling state machine. How long
//! each thread ran, waited and was blocked, and what each CPU was used for, must then be equal in the machine, the report, the page, and
//! the slices of the JSON writer. The page's own script unfolds the page's data. The recorder's encoder gets the same story as kernel
//! events, and infers the lost ones; the report of its trace must also be equal.

mod page;
mod play;
mod recorder;

use std::collections::BTreeMap;

use fxt_reader::Reader;
use fxt_writer::{Text, Value};
use fxtrec_report::page::Page;
use fxtrec_report::scene::{Leaves, Scene};
use fxtrec_report::{Metric, Options as ReportOptions, Report as Figures, analysis};
use proptest::prelude::*;

use super::*;
use page::{Lanes, unfold};
use play::{CPUS, Play, Step, Sums, THREADS, Time, steps};

/// A page that is unfolded, and its table of contents.
struct Shown {
    contents: Json,
    /// `None` if Node is not installed.
    lanes: Option<Lanes>,
}

impl Shown {
    /// The koid of each thread, by index.
    fn koids(&self) -> Vec<u64> {
        let threads = self.contents["threads"].as_array().expect("an array");
        threads.iter().map(|row| row[0].as_u64().expect("a koid")).collect()
    }
}

/// The report, and the page with `tile_events` events in a tile.
fn report_and_page(scene: &Scene, tile_events: u32) -> (Figures, Shown) {
    let reader = Reader::from_slice(scene.bytes());
    let page = Page::with_tiles_of(tile_events);
    let (report, page) =
        analysis::observe(reader, ReportOptions::default(), page).expect("a trace");
    let mut html = Vec::new();
    page.write(&report, &mut html).expect("memory");
    let html = String::from_utf8(html).expect("text");
    let lanes = unfold(&html);
    let contents = html.split_once("id=\"contents\">").expect("contents").1;
    let contents = contents.split_once("</script>").expect("an end").0;
    let contents = serde_json::from_str(contents).expect("JSON");
    (report, Shown { contents, lanes })
}

/// Each of the report's longest waits is a slice on the page.
fn the_longest_waits_are_shown(report: &Figures, page: &Shown) -> Result<(), TestCaseError> {
    let Some(lanes) = &page.lanes else { return Ok(()) };
    let koids = page.koids();
    for wait in report.worst() {
        let index = koids.iter().position(|koid| *koid == wait.thread.koid.0);
        let lane = index.and_then(|index| lanes.threads.get(&index)).expect("a thread with a lane");
        let state = if wait.metric == Metric::Wakeup { 2 } else { 3 };
        let slice = (wait.span.begin.0, wait.span.end.0, state);
        let is_shown = wait.span.begin == wait.span.end || lane.contains(&slice);
        prop_assert!(
            is_shown,
            "{} waits {:?}, and the page has {:?}",
            wait.thread.koid.0,
            slice,
            lane
        );
    }
    Ok(())
}

/// The sums of the JSON writer's slices.
fn drawn(scene: &Scene) -> Sums {
    let mut sums = Sums::default();
    let mut begun: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for event in events(&to_json(scene.bytes(), Sched::Slices)) {
        let (Some(process), Some(track)) = (event["pid"].as_u64(), event["tid"].as_u64()) else {
            continue;
        };
        let time = event["ts"].as_f64().unwrap_or_default();
        if event["ph"] == "B" {
            assert_eq!(begun.insert((process, track), time), None, "slices overlap");
        }
        if event["ph"] != "E" {
            continue;
        }
        let begin = begun.remove(&(process, track)).expect("it has begun");
        let nanos = ((time - begin) * 1000.0).round() as u64;
        let name = event["name"].as_str().expect("a name");
        if event["cat"] == "sched" {
            let what = match name {
                "idle" => "idle",
                _ if name.starts_with("not recorded") => "not recorded",
                _ => "busy",
            };
            sums.add_cpu(u16::try_from(track).expect("a CPU"), what, nanos);
            continue;
        }
        assert_eq!(event["cat"], "thread_state");
        let what = match name {
            "Running" => "running",
            "Runnable" => "waiting",
            "Sleeping" => "blocked",
            "Uninterruptible sleep" => "blocked, uninterruptible",
            "Stopped" => "stopped",
            name => panic!("no state: {name}"),
        };
        sums.add_thread(track, what, Time { all: nanos, whole: 0 });
    }
    assert!(begun.is_empty(), "all slices end");
    sums
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("short")
}

/// The row of a table that begins with that number.
fn row(table: &Json, number: u64) -> Option<&Json> {
    table.as_array().expect("an array").iter().find(|row| row[0] == number)
}

fn all_agree(steps: &[(u64, Step)], narrow: bool, tile_events: u32) -> Result<(), TestCaseError> {
    let mut play = Play::new(narrow);
    play.act(steps);
    let length = play.micros * 1000;
    let in_scope: Vec<u64> = THREADS.iter().copied().filter(|t| play.is_in_scope(*t)).collect();
    let (scene, recorded, machine) = play.end();
    let (report, page) = report_and_page(&scene, tile_events);
    the_longest_waits_are_shown(&report, &page)?;
    let shown = page.lanes.as_ref().map(|lanes| lanes.sums(&page.koids()));
    let page = page.contents;
    report_agrees(&report, &machine, &in_scope)?;
    report_agrees(&report_of(&recorded), &machine, &in_scope)?;
    let drawn = drawn(&scene);
    for thread in THREADS {
        let of_page = row(&page["threads"], thread);
        let of_page = |column: usize| of_page.map_or(0, |row| row[column].as_u64().expect("time"));

        let running = machine.thread(thread, "running").all;
        prop_assert_eq!(of_page(4), running, "{} runs, on the page", thread);
        prop_assert_eq!(drawn.thread(thread, "running").all, running, "{} runs, drawn", thread);
        if let Some(shown) = &shown {
            prop_assert_eq!(shown.thread(thread, "running").all, running, "{} runs, shown", thread);
        }
        if !in_scope.contains(&thread) {
            continue;
        }
        let waiting = machine.thread(thread, "waiting").all;
        prop_assert_eq!(of_page(5), waiting, "{} waits, on the page", thread);
        for what in ["waiting", "blocked", "blocked, uninterruptible", "stopped"] {
            let known = machine.thread(thread, what).all;
            prop_assert_eq!(drawn.thread(thread, what).all, known, "{} {}, drawn", thread, what);
            if let Some(shown) = &shown {
                prop_assert_eq!(
                    shown.thread(thread, what).all,
                    known,
                    "{} {}, shown",
                    thread,
                    what
                );
            }
        }
    }
    for cpu in 0..CPUS {
        let [busy, idle, not_recorded] =
            ["busy", "idle", "not recorded"].map(|what| machine.cpu(cpu, what));
        prop_assert!(busy + idle + not_recorded == length || busy + idle + not_recorded == 0);
        for (what, nanos) in [("busy", busy), ("idle", idle), ("not recorded", not_recorded)] {
            prop_assert_eq!(drawn.cpu(cpu, what), nanos, "CPU {} {}, drawn", cpu, what);
            // Time that is not recorded is not shown in lanes.
            if let Some(shown) = shown.as_ref().filter(|_| what != "not recorded") {
                prop_assert_eq!(shown.cpu(cpu, what), nanos, "CPU {} {}, shown", cpu, what);
            }
        }
        let of_page = row(&page["cpus"], cpu.into()).map(|row| row[1].clone());
        // With the scope of one application, the busy time of a CPU is not fully known.
        let expected = if narrow { Json::Null } else { busy.into() };
        match of_page {
            Some(of_page) => prop_assert_eq!(of_page, expected, "CPU {}, on the page", cpu),
            None => prop_assert_eq!(busy + idle + not_recorded, 0, "CPU {}, not there", cpu),
        }
    }
    Ok(())
}

/// The report agrees with the machine about running threads and the use of CPUs.
fn report_agrees_on_who_ran(report: &Figures, machine: &Sums) -> Result<(), TestCaseError> {
    for thread in THREADS {
        let figures = report.threads().iter().find(|it| it.tid == Some(thread));
        let reported = figures.map_or(0, |it| nanos(it.stats.cpu_time));
        let running = machine.thread(thread, "running").all;
        prop_assert_eq!(reported, running, "{} runs, in the report", thread);
    }
    for cpu in 0..CPUS {
        let figures = report.cpus.iter().find(|it| it.cpu.0 == cpu);
        let reported = figures.map_or((0, 0), |it| (nanos(it.busy), nanos(it.idle)));
        let expected = (machine.cpu(cpu, "busy"), machine.cpu(cpu, "idle"));
        prop_assert_eq!(reported, expected, "CPU {}, in the report", cpu);
    }
    Ok(())
}

/// It also agrees about the lengths of intervals that began and ended within the trace.
fn report_agrees(report: &Figures, machine: &Sums, in_scope: &[u64]) -> Result<(), TestCaseError> {
    report_agrees_on_who_ran(report, machine)?;
    for thread in in_scope {
        let figures = report.threads().iter().find(|it| it.tid == Some(*thread));
        for (metric, what) in [
            (Metric::RunQueue, "waiting"),
            (Metric::Blocked, "blocked"),
            (Metric::BlockedUninterruptible, "blocked, uninterruptible"),
            (Metric::Slice, "running"),
        ] {
            let sum = figures.map_or(0, |it| nanos(it.stats.metric(metric).sum()));
            let whole = machine.thread(*thread, what).whole;
            prop_assert_eq!(sum, whole, "{} {}, in the report", thread, what);
        }
    }
    Ok(())
}

/// The report of the recorder's trace.
fn report_of(recorded: &[u8]) -> Figures {
    analysis::analyse(Reader::from_slice(recorded), ReportOptions::default()).expect("a trace")
}

/// After a loss on any CPU, waits are doubtful in the report, while the page and the slices show the best guess. But the running thread of
/// a CPU depends only on that CPU's switches, and all waits in the report are on the page.
fn report_and_page_agree_on_who_ran(
    steps: &[(u64, Step)],
    tile_events: u32,
) -> Result<(), TestCaseError> {
    let mut play = Play::new(false);
    play.act(steps);
    let (scene, recorded, machine) = play.end();
    let (report, page) = report_and_page(&scene, tile_events);
    the_longest_waits_are_shown(&report, &page)?;
    report_agrees_on_who_ran(&report, &machine)?;
    report_agrees_on_who_ran(&report_of(&recorded), &machine)?;
    prop_assert_eq!(&page.lanes, &report_and_page(&scene, 1 << 14).1.lanes, "cut otherwise");
    let shown = page.lanes.as_ref().map(|lanes| lanes.sums(&page.koids()));
    let page = page.contents;
    for thread in THREADS {
        let running = machine.thread(thread, "running").all;
        if let Some(shown) = &shown {
            prop_assert_eq!(shown.thread(thread, "running").all, running, "{} runs, shown", thread);
        }
        let of_page = row(&page["threads"], thread);
        let of_page = of_page.map_or(0, |row| row[4].as_u64().expect("a time"));
        prop_assert_eq!(of_page, running, "{} runs, on the page", thread);
    }
    for cpu in 0..CPUS {
        let (busy, idle) = (machine.cpu(cpu, "busy"), machine.cpu(cpu, "idle"));
        if let Some(shown) = &shown {
            let shown = (shown.cpu(cpu, "busy"), shown.cpu(cpu, "idle"));
            prop_assert_eq!(shown, (busy, idle), "CPU {}, shown", cpu);
        }
        let of_page = row(&page["cpus"], cpu.into());
        let of_page = of_page.map_or(0, |row| row[1].as_u64().expect("a time"));
        prop_assert_eq!(of_page, busy, "CPU {}, on the page", cpu);
    }
    Ok(())
}

/// Facts that are recorded late also change the page's earlier tiles.
#[test]
fn throttled_waits_and_absent_cpus_are_shown_wherever_tiles_end() {
    let throttled = ("throttled", Value::Bool(true));
    let by = ("throttled_by", Value::Str(Text::Inline("/a")));
    let held = |micros: u64| ("throttled_ns", Value::Uint64(micros * 1000));
    let mut scene = Scene::with_causes("throttled");
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch_with((30, 0), 101, Leaves::R, 0, &[throttled]);
    scene.offline(40, 1).online(60, 1);
    scene.switch_with((100, 0), 0, Leaves::R, 101, &[held(50), by]);
    scene.switch(110, 0, 101, Leaves::R, 202);
    scene.throttle(120, "/a", 0).release(140, "/a", 0);
    scene.switch(145, 1, 0, Leaves::R, 303);
    scene.switch_with((150, 0), 202, Leaves::S, 101, &[held(20), by]);
    scene.switch(160, 0, 101, Leaves::S, 0);
    scene.wake_with(170, 0, 101, &[throttled]);
    scene.switch_with((190, 0), 0, Leaves::R, 101, &[held(20), by]);
    scene.end(200);
    for tile_events in 1..30 {
        let (_, page) = report_and_page(&scene, tile_events);
        let Some(lanes) = page.lanes else { return };
        let index = page.contents["threads"].as_array().expect("an array").iter();
        let index = index.map(|row| &row[0]).position(|koid| koid == 101).expect("it ran");
        let in_micros = |slices: &[(u64, u64, u64)]| -> Vec<_> {
            slices.iter().map(|&(from, to, what)| (from / 1000, to / 1000, what)).collect()
        };
        let expected = [
            (10, 30, 1),
            (30, 80, 12),
            (80, 100, 3),
            (100, 110, 1),
            (110, 120, 3),
            (120, 140, 12),
            (140, 150, 3),
            (150, 160, 1),
            (160, 170, 4),
            (170, 190, 13),
            (190, 200, 1),
        ];
        assert_eq!(in_micros(&lanes.threads[&index]), expected, "tiles of {tile_events}");
        let on_one = in_micros(&lanes.cpus[&1]);
        assert_eq!(on_one[0], (60, 145, 0), "nobody had it while it was offline");
    }
}

/// Each case is written in every form, which takes a hundredth of a second in a debug build.
fn few() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(4), ..usual }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn report_and_page_tell_the_same_of_who_ran_though_events_were_lost(
        steps in steps(15), tile_events in 1..60_u32,
    ) {
        report_and_page_agree_on_who_ran(&steps, tile_events)?;
    }

    #[test]
    fn all_forms_tell_the_same_of_a_whole_machine(steps in steps(0), tile_events in 1..60_u32) {
        all_agree(&steps, false, tile_events)?;
    }

    #[test]
    fn all_forms_tell_the_same_of_one_application(steps in steps(0), tile_events in 1..60_u32) {
        all_agree(&steps, true, tile_events)?;
    }
}
