//! Why the selection took so long: the answer of `fxtrec why`, as a bar, a list, and a path to step along.

use fxt_reader::Reader;
use fxt_writer::Value;
use fxtrec::why::{Explanation, Query, explain};
use fxtrec_report::scene::{Leaves, Scene};

use super::browser::{self, Browser, number};
use super::scene::{self, BEGIN};
use super::{kept, write_page};

/// The number of time ranges that both explain.
const STRETCHES: u64 = 150;

/// `audio` waits for a lock of `ui`, which a hog keeps off its CPU; a `sink` waits for a pipe.
fn inversion() -> Scene {
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.name(101, "audio").name(102, "ui").name(201, "hog").name(301, "sink");
    scene.switch(1_000, 0, 0, Leaves::R, 102).switch(1_000, 1, 0, Leaves::R, 101);
    scene.switch(2_000, 0, 102, Leaves::R, 201);
    let call = [("syscall", Value::Uint32(202))];
    scene.switch_with((3_000, 1), 101, Leaves::S, 301, &call);
    scene.switch_with((4_000, 1), 301, Leaves::S, 0, &[]);
    scene.switch(60_000, 0, 201, Leaves::R, 102);
    scene.wake_by(61_000, 1, 101, 102).switch(61_010, 1, 0, Leaves::R, 101);
    scene.span((2_500, 62_000), 101, "mix");
    scene.switch(63_000, 0, 102, Leaves::S, 0).switch(64_000, 1, 101, Leaves::S, 0).end(200_000);
    scene
}

fn why(trace: &[u8], koid: u64, (from, to): (u64, u64)) -> Option<Explanation> {
    let query = Query {
        thread: Some(koid.to_string()),
        from: Some(from),
        to: Some(to),
        ..Query::default()
    };
    let answer = explain(&query, || Ok(Reader::from_slice(trace)), |_, _| None).ok()?;
    answer.explanations.into_iter().next()
}

/// The states of the page that correspond to this part of a link.
fn states(state: &str) -> &'static [u64] {
    match state {
        "on_cpu" => &[1],
        "waiting" => &[2, 3],
        "throttled" => &[12, 13],
        "blocked" => &[4, 5, 6, 7, 8, 9, 10, 11],
        "unknown" => &[0],
        _ => &[],
    }
}

#[test]
fn the_page_finds_the_parts_and_the_chain_that_fxtrec_why_finds() {
    if !browser::is_there() {
        return;
    }
    let (threads, length) = (12, 40_000_000);
    let busy = scene::Scene { cpus: 3, threads, events: 6_000, spans: false, gap: false };
    let trace = busy.trace();
    let mut browser = Browser::start();
    browser.open(&write_page(&trace, "why-same.html"));
    let begin =
        browser.evaluate("JSON.parse(document.getElementById('contents').textContent).begin");
    let begin: u64 = begin.as_str().and_then(|it| it.parse().ok()).expect("a time");
    assert!(begin >= BEGIN);
    let mut links = 0;
    for n in 0..STRETCHES {
        let koid = scene::FIRST + n % threads;
        let from = begin + n * 7_919 * 31 % length;
        let to = from + 1 + n * 104_729 % 9_000_000;
        let Some(why) = why(&trace, koid, (from, to)) else { continue };
        let (from, to) = (why.from_ns - begin, why.to_ns - begin);
        let found = browser.evaluate(&format!("fxtrec.why({koid}, {from}, {to})"));
        let chain = found["chain"].as_array().expect("a list");
        assert_eq!(chain.len(), why.chain.len(), "{koid} {from} {to}: {chain:?}, {:#?}", why.chain);
        for (link, expected) in chain.iter().zip(&why.chain) {
            let same = |at: usize, value: u64| link[at].as_u64() == Some(value);
            let state = match expected.state {
                "underway" => link[4] == "underway",
                state => link[4].as_u64().is_some_and(|it| states(state).contains(&it)),
            };
            assert!(
                same(0, expected.from_ns - begin)
                    && same(1, expected.to_ns - begin)
                    && same(2, expected.depth as u64)
                    && same(3, expected.thread.koid)
                    && state,
                "{koid} {from} {to}: {link}, {expected:?}"
            );
            links += 1;
        }
        // For parts: which thread had the CPU, and for how long.
        let parts = found["parts"].as_array().expect("a list");
        let sum = |kind: &str| -> u64 {
            let fits = |part: &&serde_json::Value| {
                part["key"].as_str().is_some_and(|key| key.split(' ').next() == Some(kind))
            };
            parts.iter().filter(fits).map(|part| part["length"].as_u64().expect("ns")).sum()
        };
        for kind in ["on_cpu", "waiting", "blocked", "unknown"] {
            let expected = why.blame.iter().filter(|part| part.part == kind);
            assert_eq!(sum(kind), expected.map(|part| part.ns).sum::<u64>(), "{kind}: {parts:?}");
        }
        let waits =
            |who: &serde_json::Value| who.as_str().is_some_and(|it| it.starts_with("waiting"));
        let tenants = parts.iter().filter(|part| waits(&part["key"])).count();
        assert_eq!(tenants, why.blame.iter().filter(|part| part.part == "waiting").count());
    }
    assert!(links > 1_000, "{links}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_chain_of_a_blocked_time_is_drawn_and_walked_by_keys() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(&write_page(inversion().bytes(), "why.html"));
    browser.click_on("#blocked tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().why !== null");
    browser.settle();
    let why = browser.state()["why"].clone();
    let parts = &why["parts"];
    assert_eq!(parts[0]["text"], "blocked or asleep, until woken by ui 102");
    assert_eq!((&parts[0]["length"], parts[1].is_null()), (&58_000_000.into(), true));
    let lengths =
        "[...document.querySelectorAll('.blame span')].map((it) => Number(it.style.flexGrow))";
    assert_eq!(browser.evaluate(lengths), serde_json::json!([58_000_000]));
    let links = "[...document.querySelectorAll('.chain button')].map((it) => it.textContent)";
    let expected = [
        "57.0 ms  ui 102 was preempted, waited for CPU 0: hog 201 57.0 ms",
        "1.00 ms  ui 102 ran on CPU 0",
    ];
    assert_eq!(browser.evaluate(links), serde_json::json!(expected));
    // The path is drawn: without it the same view looks different.
    let with = browser.fingerprint();
    browser.screenshot(&kept("why.png"));
    browser.press("n");
    assert_eq!(browser.state()["why"]["current"], 0);
    assert_ne!(browser.fingerprint(), with, "the link that is looked at stands out");
    let said = "document.getElementById('announce').textContent";
    let said = browser.evaluate(said);
    assert!(
        said.as_str().is_some_and(|it| it.contains("link 1 of 2: ui 102 was preempted")),
        "{said}"
    );
    browser.press("n");
    browser.press("n");
    assert_eq!(browser.state()["why"]["current"], 1, "it stays at the last one");
    let name = "JSON.parse(document.getElementById('contents').textContent).threads[fxtrec.state().current.id][1]";
    assert_eq!(browser.evaluate(name), "ui");
    browser.press("Escape");
    assert!(browser.state()["why"].is_null());
    // A span also has the time before and after it.
    browser.click_on("#longest tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().why !== null");
    let state = browser.state();
    assert_eq!(state["selected"]["kind"], "span");
    let lengths: Vec<u64> = state["why"]["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .map(|part| part["length"].as_u64().expect("ns"))
        .collect();
    assert_eq!(lengths, [58_000_000, 1_490_000, 10_000]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_range_pins_and_what_was_searched_come_back_with_the_address() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    let page = write_page(inversion().bytes(), "link.html");
    browser.open(&page);
    // From the blocked time to the next one, with keys.
    browser.click_on("#blocked tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().why !== null");
    browser.press("m");
    browser.press(".");
    browser.wait_for("fxtrec.state().selected.start === 61000000");
    browser.press("m");
    browser.wait_for("fxtrec.state().selected.kind === 'range' && fxtrec.state().why !== null");
    let selected = browser.state()["selected"].clone();
    assert_eq!((number(&selected["start"]), number(&selected["end"])), (3_000_000.0, 61_010_000.0));
    browser.press("p");
    browser.press("/");
    for letter in "hog".chars() {
        browser.press(&letter.to_string());
    }
    let shown = "[...document.querySelectorAll('#blocked tr')].filter((it) => !it.hidden).length";
    assert_eq!(browser.evaluate(shown), 0, "the lists have what is searched for");
    browser.wait_for("location.hash.includes('search=hog') && location.hash.includes('range=101')");
    let before = browser.state();
    let hash = browser.evaluate("location.hash");
    let hash = hash.as_str().expect("a text").to_owned();
    assert!(hash.contains("pins=101"), "{hash}");
    browser.open_at(&page, &hash);
    browser.wait_for("fxtrec.state().why !== null");
    let after = browser.state();
    for what in ["from", "to", "rows", "link"] {
        assert_eq!(after[what], before[what], "{what}");
    }
    assert_eq!(after["selected"]["start"], before["selected"]["start"]);
    assert_eq!(browser.evaluate("document.getElementById('search').value"), "hog");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
