//! Pages of large traces, and of large machines.

use super::browser::{self, Browser, number};
use super::scene::Scene;
use super::{kept, starved_page, write_page};

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn two_million_events_are_a_page_below_20_mb_that_draws_without_unfolding_them() {
    if !browser::is_there() {
        return;
    }
    let scene = Scene { cpus: 8, threads: 120, events: 2_000_000, spans: false, gap: false };
    let page = write_page(&scene.trace(), "large.html");
    let bytes = std::fs::metadata(&page).expect("it was written").len();
    assert!(bytes < 20_000_000, "{bytes} bytes");
    let mut browser = Browser::start();
    browser.open(&page);
    let state = browser.state();
    assert!(number(&state["tiles"]) > 100.0);
    // All of it is in view, drawn from the bins of one block.
    assert_eq!((&state["paint"]["mode"], &state["paint"]["level"]), (&"bins".into(), &0.into()));
    assert_eq!((&state["tilesUnfolded"], &state["blocksInflated"]), (&0.into(), &1.into()));
    assert!(number(&state["paint"]["drawn"]) > 5_000.0, "{state}");
    let first = number(&state["paint"]["firstFrame"]);
    eprintln!("{bytes} bytes; the first frame came {first:.0} ms after navigation began");

    // After zooming in, other blocks are unpacked; at a sufficient zoom, the events themselves.
    let mut modes = Vec::new();
    for _ in 0..6 {
        let before = browser.fingerprint();
        browser.press("w");
        assert_ne!(before, browser.fingerprint());
        let paint = browser.state()["paint"].clone();
        modes
            .push((paint["mode"].as_str().unwrap_or_default().to_owned(), number(&paint["level"])));
    }
    assert!(modes.contains(&("bins".to_owned(), 1.0)), "{modes:?}");
    assert_eq!(modes.last(), Some(&("exact".to_owned(), -1.0)));
    let unfolded = number(&browser.state()["tilesUnfolded"]);
    assert!((1.0..=20.0).contains(&unfolded), "{unfolded} of {}", state["tiles"]);
    browser.screenshot(&kept("large.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn of_hundreds_of_lanes_only_those_in_view_are_drawn_and_all_can_be_reached() {
    if !browser::is_there() {
        return;
    }
    let scene = Scene { cpus: 200, threads: 300, events: 60_000, spans: true, gap: false };
    let page = write_page(&scene.trace(), "wide.html");
    let mut browser = Browser::start();
    browser.open(&page);
    let state = browser.state();
    assert_eq!(number(&state["rows"]), 502.0);
    assert!(number(&state["paint"]["rows"]) < 40.0, "{state}");
    let labels = "document.querySelectorAll('#gutter .label').length";
    assert!(number(&browser.evaluate(labels)) < 40.0);
    let least = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('#gutter .label')].map((label) => label.offsetHeight))",
    );
    assert!(number(&least) >= 20.0, "lanes stay readable");

    let top = browser.fingerprint();
    browser.evaluate("document.getElementById('lanes').scrollTop = 1e9");
    browser.settle();
    assert_ne!(top, browser.fingerprint());
    let last = "[...document.querySelectorAll('#gutter .label')].some((label) => label.id.startsWith('lane-thread'))";
    assert_eq!(browser.evaluate(last), true);
    // After the group of CPUs is closed, the threads are at the top.
    browser.evaluate("document.getElementById('lanes').scrollTop = 0");
    browser.settle();
    browser.click_on("#lane-header-cpus");
    assert_eq!(number(&browser.state()["rows"]), 302.0);
    browser.screenshot(&kept("wide.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_wait_through_many_tiles_is_selected_as_a_whole() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(starved_page());
    assert!(number(&browser.state()["tiles"]) > 70.0);
    let wait =
        browser.evaluate("JSON.parse(document.getElementById('contents').textContent).worst[0]");
    assert_eq!(wait["who"][1], "worker-2");
    assert_eq!(wait["unknown"], 0, "it is known who had the CPU all the time: {wait}");
    let parts = number(&wait["by"][0][1]) + number(&wait["by"][1][1]) + number(&wait["idle"]);
    assert!((parts - (number(&wait["to"]) - number(&wait["from"]))).abs() < 1.0, "{wait}");
    let before = number(&browser.state()["tilesUnfolded"]);
    browser.click_on("#waits tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().selected !== null && fxtrec.state().idle");
    let state = browser.state();
    let selected = &state["selected"];
    assert_eq!((&selected["start"], &selected["end"]), (&wait["from"], &wait["to"]));
    assert_eq!(selected["endKnown"], true);
    let unfolded = number(&state["tilesUnfolded"]) - before;
    assert!(unfolded < 32.0, "{unfolded} tiles were unfolded");
    let length = browser.evaluate("document.getElementById('selection').textContent");
    assert!(length.as_str().is_some_and(|text| !text.contains("at least")), "{length}");
    browser.screenshot(&kept("starved.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
