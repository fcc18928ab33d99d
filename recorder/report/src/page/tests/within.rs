//! Pages with a limited size.

use fxt_reader::Reader;
use fxt_writer::record::{ObjectType, ThreadState};
use fxt_writer::{Koid, Text, Ticks, Value};
use serde_json::Value as Json;

use super::super::{Budget, Page, Written};
use super::{Trace, contents, name, switch, trace, wake};
use crate::{Options, analysis};

/// Threads that pass the CPU to each other.
const THREADS: u64 = 60;
const FIRST: u64 = 101;

/// The size of an empty page: scripts, styles, markup.
const SCRIPTS: u64 = 270_000;

/// A trace with `switches` switches, each after a wakeup; the later a thread is in the round, the longer it waits. With `reported`, threads
/// also have spans with arguments, counters and flows.
fn busy(switches: u64, reported: bool) -> Trace {
    let mut trace = trace();
    (0..THREADS).for_each(|n| name(&mut trace, ObjectType::Thread, FIRST + n, "worker", 100));
    let (mut random, mut time, mut on) = (1_u64, 1_000, FIRST);
    for n in 0..switches {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let next = FIRST + (random >> 33) % THREADS;
        time += 500 + (random >> 40) % 5_000;
        if next == on {
            continue;
        }
        wake(&mut trace, time, next, on);
        time += 200 + (random >> 45) % 900;
        switch(&mut trace, time, (on, ThreadState::Blocked), next);
        on = next;
        if reported {
            let own = (Koid(100), Koid(next));
            let text = format!("request {n} of {}", random >> 20);
            let text = [("text", Value::Str(Text::Inline(&text)))];
            let end = Ticks(time + 100 + random % 3_000);
            trace.duration_complete(Ticks(time + 10), own, "app", "work", end, &text).unwrap();
            let value = [("value", Value::Double((random >> 30) as f64 / 7.0))];
            trace.counter(Ticks(time + 20), own, "app", "load", n % 7, &value).unwrap();
        }
    }
    trace
}

fn page(trace: &[u8], budget: Budget) -> (Written, String, Json) {
    let page = Page::with_tiles_of(500).within(budget).of_file("it's.fxt");
    let (report, page) =
        analysis::observe(Reader::from_slice(trace), Options::default(), page).unwrap();
    let mut out = Vec::new();
    let written = page.write(&report, &mut out).unwrap();
    assert_eq!(written.bytes, out.len() as u64);
    let text = String::from_utf8(out).unwrap();
    let contents = contents(&text);
    (written, text, contents)
}

fn is_left_out(tile: &Json) -> bool {
    tile[2] == -1
}

/// The number of the tile that contains a time.
fn tile_at(contents: &Json, time: u64) -> usize {
    let tiles = contents["tiles"].as_array().unwrap();
    tiles.iter().rposition(|tile| tile[0].as_u64().unwrap() <= time).unwrap_or_default()
}

#[test]
fn no_page_is_larger_than_it_may_be_and_the_listed_waits_go_last() {
    let quiet = busy(20_000, false).into_inner();
    let reported = busy(6_000, true).into_inner();
    for trace in [&quiet, &reported] {
        let (all, ..) = page(trace, Budget::All);
        assert!(all.is_complete() && all.tiles.0 > 10, "{all:?}");
        let beyond = all.bytes - SCRIPTS;
        // Nothing is coarser than necessary.
        let (written, _, contents) = page(trace, Budget::Bytes(all.bytes + 5_000));
        assert!(written.is_complete() && contents["alike"] == 1, "{written:?}");
        let mut before = 0;
        for percent in [25, 35, 50, 70, 90] {
            let limit = SCRIPTS + beyond * percent / 100;
            let (written, text, contents) = page(trace, Budget::Bytes(limit));
            assert!(written.bytes <= limit, "{written:?} for {limit}");
            assert!(!written.is_complete(), "{written:?} for {limit}");
            // The page uses the space within its limit.
            assert!(written.bytes > limit / 2, "{written:?} for {limit}");
            let tiles = contents["tiles"].as_array().unwrap();
            let kept = tiles.iter().filter(|tile| !is_left_out(tile)).count();
            assert_eq!((kept, tiles.len()), written.tiles);
            assert!(
                written.levels.0 > 0 && contents["levels"][0][1].as_array().unwrap().len() == 1
            );
            let left_out = contents["levelsLeftOut"].as_u64().unwrap();
            assert_eq!(left_out as usize, written.levels.1 - written.levels.0);
            assert_eq!(contents["budget"], limit);
            // Every block number refers to a block in the page, and every block is used.
            let blocks = text.matches("id=\"block-").count();
            let named = tiles.iter().flat_map(|tile| [&tile[2], &tile[3]]);
            let levels = contents["levels"].as_array().unwrap().iter();
            let chunks = levels.flat_map(|level| level[1].as_array().unwrap());
            let of_told = ["arguments", "flows", "counters"].map(|it| &contents["told"][it]);
            let named = named.chain(chunks.flat_map(|chunk| [&chunk[0], &chunk[1]])).chain(of_told);
            let mut named: Vec<u64> = named.filter_map(Json::as_u64).collect();
            named.sort_unstable();
            assert_eq!(named, (0..blocks as u64).collect::<Vec<_>>());
            // The longest wait has its events even in the smallest page that has any tiles.
            let wait = &contents["worst"][0];
            let at = ["from", "to"].map(|end| tile_at(&contents, wait[end].as_u64().unwrap()));
            let has = at.iter().all(|&tile| !is_left_out(&tiles[tile]));
            assert!(has || kept < 2, "{written:?} for {limit}");
            // Bins take precedence over tiles.
            assert!(written.levels.0 >= before, "{written:?} for {limit}");
            before = written.levels.0;
        }
    }
}

#[test]
fn a_page_that_fits_lacks_nothing_and_is_the_same_whatever_it_may_have() {
    let trace = busy(3_000, true).into_inner();
    let (all, text, _) = page(&trace, Budget::All);
    let (written, same, contents) = page(&trace, Budget::ByEvents);
    assert!(written.is_complete() && all.is_complete());
    assert_eq!(contents["budget"], 2_000_000);
    assert_eq!(same.replace("\"budget\":2000000", "\"budget\":null"), text);
    assert!(same.contains("\"file\":\"it's.fxt\""));
}

#[test]
fn what_can_never_fit_is_a_page_of_the_coarsest_bins() {
    let trace = busy(6_000, true).into_inner();
    let (written, _, contents) = page(&trace, Budget::Bytes(1));
    assert_eq!((written.tiles.0, written.levels.0), (0, 1));
    assert_eq!(contents["alike"], 4096);
    assert!(contents["tiles"].as_array().unwrap().iter().all(is_left_out));
    // Arguments are reported as left out.
    assert!(contents["told"]["leftOut"][1].as_u64().unwrap() > 1_000, "{}", contents["told"]);
    assert!(contents["told"]["arguments"].is_null());
}
