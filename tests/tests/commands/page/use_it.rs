//! Using the page: zoom, select, jump, search, with mouse and keys.

use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use super::browser::{self, Browser, number};
use super::{kept, scene_page, write_page};

/// The time range that the page shows, in nanoseconds.
fn window(browser: &mut Browser) -> (f64, f64) {
    let state = browser.state();
    (number(&state["from"]), number(&state["to"]))
}

#[test]
fn keys_zoom_and_move_and_what_is_drawn_changes() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let whole = window(&mut browser);
    let before = browser.fingerprint();
    // A key of the page works wherever the focus is; here, nothing has the focus.
    browser.press("w");
    let nearer = window(&mut browser);
    let ratio = (nearer.1 - nearer.0) / (whole.1 - whole.0);
    assert!((ratio - 0.6).abs() < 1e-6, "{ratio}");
    let zoomed = browser.fingerprint();
    assert_ne!(before, zoomed);
    browser.press("d");
    let later = window(&mut browser);
    assert!(later.0 > nearer.0 && ((later.1 - later.0) - (nearer.1 - nearer.0)).abs() < 1.0);
    assert_ne!(zoomed, browser.fingerprint());
    browser.press("Home");
    assert!(window(&mut browser).0 < 1.0);
    browser.press("0");
    assert_eq!(window(&mut browser), whole);
    assert_eq!(browser.fingerprint(), before, "as it was");

    // Down past the group of CPUs to CPU 1, and into its state in the middle.
    for _ in 0..3 {
        browser.press("ArrowDown");
    }
    let current = browser.state()["current"].clone();
    assert_eq!((&current["kind"], &current["id"]), (&"cpu".into(), &1.into()));
    let active =
        browser.evaluate("document.getElementById('lanes').getAttribute('aria-activedescendant')");
    assert_eq!(active, "lane-cpu-1");
    browser.press("Enter");
    browser.wait_for("fxtrec.state().selected !== null");
    let selected = browser.state()["selected"].clone();
    let middle = (whole.0 + whole.1) / 2.0;
    assert!(number(&selected["start"]) <= middle && middle <= number(&selected["end"]));
    let said = browser.evaluate("document.getElementById('announce').textContent");
    assert!(said.as_str().is_some_and(|said| said.contains("length")), "{said}");
    browser.press("f");
    let near = window(&mut browser);
    assert!(near.1 - near.0 < (whole.1 - whole.0) / 100.0, "{near:?}");
    browser.press(".");
    browser.wait_for(&format!("fxtrec.state().selected.start === {}", selected["end"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_click_on_a_long_wait_leads_to_its_place_with_an_arrow_from_the_waker() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let before = (window(&mut browser), browser.fingerprint());
    let waits =
        browser.evaluate("JSON.parse(document.getElementById('contents').textContent).worst");
    let woken = waits.as_array().expect("a list").iter().position(|wait| !wait["waker"].is_null());
    let place = woken.expect("one of the longest waits began with a wakeup");
    let wait = &waits[place];
    browser.click_on(&format!("#waits tr:nth-child({}) button", place + 1));
    browser.wait_for("fxtrec.state().selected !== null");
    browser.settle();

    let state = browser.state();
    assert_eq!(state["wait"], place);
    assert_eq!(
        (&state["selected"]["start"], &state["selected"]["end"]),
        (&wait["from"], &wait["to"])
    );
    let (from, to) = window(&mut browser);
    assert!(from <= number(&wait["from"]) && number(&wait["to"]) <= to);
    assert!(to - from < before.0.1 / 4.0, "it is near");
    assert_ne!(before.1, browser.fingerprint());
    let lane = format!("lane-thread-{}", state["current"]["id"]);
    let seen = browser.evaluate(&format!(
        "(() => {{
            const box = document.getElementById('{lane}').getBoundingClientRect();
            const area = document.getElementById('lanes').getBoundingClientRect();
            return box.top >= area.top && box.bottom <= area.bottom + 1;
        }})()"
    ));
    assert_eq!(seen, true, "its lane is in view");
    // One arrow: from the waker that the table names, at the beginning of the wait.
    let arrows = &state["selected"]["arrows"];
    assert_eq!((&arrows[0]["time"], arrows.as_array().map(Vec::len)), (&wait["from"], Some(1)));
    let waker = browser.evaluate(&format!(
        "JSON.parse(document.getElementById('contents').textContent).threads[{}][0]",
        arrows[0]["from"]
    ));
    assert_eq!(waker, wait["waker"][0]);
    browser.screenshot(&kept("wait.png"));

    // Without the selection, the same view looks different: outline and arrow are missing.
    let with = browser.fingerprint();
    browser.press("Escape");
    assert_ne!(with, browser.fingerprint());
    browser.press("]");
    assert_eq!(browser.state()["wait"], (place + 1) % waits.as_array().map_or(1, Vec::len));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_longest_blocked_times_and_spans_lead_to_their_places() {
    if !browser::is_there() {
        return;
    }
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.name(101, "audio").name(201, "ui");
    scene.switch(1_000, 0, 0, Leaves::R, 101).switch(1_000, 1, 0, Leaves::R, 201);
    let call = [("syscall", Value::Uint32(202))];
    scene.switch_with((2_000, 0), 101, Leaves::S, 0, &call);
    scene.wake_by(6_000, 0, 101, 201).switch(6_000, 0, 0, Leaves::R, 101);
    scene.span((7_000, 9_000), 101, "mix").span((9_500, 9_700), 101, "send");
    scene.switch(10_000, 0, 101, Leaves::S, 0).end(30_000);
    let mut browser = Browser::start();
    browser.open(&write_page(scene.bytes(), "worst.html"));
    let text = |browser: &mut Browser, id: &str| -> String {
        let rows = format!(
            "[...document.getElementById('{id}').rows].map((row) => [...row.cells].map((it) => it.textContent).join('|')).join('/')"
        );
        browser.evaluate(&rows).as_str().expect("a text").to_owned()
    };
    let blocked = text(&mut browser, "blocked");
    assert!(blocked.starts_with("4.00 ms|audio 101|futex|"), "{blocked}");
    assert!(blocked.ends_with("|ui 201") && !blocked.contains('/'), "{blocked}");
    let spans = text(&mut browser, "longest");
    assert!(spans.starts_with("2.00 ms|audio 101|mix|") && spans.contains("/200 µs|"), "{spans}");
    for (id, start) in [("blocked", 2_000_000.0), ("longest", 7_000_000.0)] {
        browser.click_on(&format!("#{id} tr:nth-child(1) button"));
        browser
            .wait_for(&format!("document.querySelector('#{id} tr').hasAttribute('aria-current')"));
        browser.wait_for("fxtrec.state().selected !== null");
        browser.settle();
        assert_eq!(number(&browser.state()["selected"]["start"]), start, "{id}");
        browser.press("Escape");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn search_leaves_the_threads_that_fit_and_leads_to_the_first() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let rows = "fxtrec.state().rows";
    let all = number(&browser.evaluate(rows));
    browser.press("/");
    for letter in "AUDIO".chars() {
        browser.press(&letter.to_string());
    }
    assert_eq!(browser.evaluate("document.getElementById('found').textContent"), "1 thread");
    // CPUs and both groups stay.
    assert_eq!(number(&browser.evaluate(rows)), all - 39.0);
    browser.press("Enter");
    let current = browser.state()["current"].clone();
    let name = browser.evaluate(&format!(
        "JSON.parse(document.getElementById('contents').textContent).threads[{}][1]",
        current["id"]
    ));
    assert_eq!((&current["kind"], &name), (&"thread".into(), &"audio-out".into()));
    browser.press("/");
    browser.press("Escape");
    assert_eq!(number(&browser.evaluate(rows)), all);

    // By id, which nothing else has.
    browser.press("/");
    for digit in "1007".chars() {
        browser.press(&digit.to_string());
    }
    assert_eq!(browser.evaluate("document.getElementById('found').textContent"), "1 thread");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn spans_are_nested_below_their_thread_and_can_be_selected() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    browser.press("/");
    for letter in "render".chars() {
        browser.press(&letter.to_string());
    }
    browser.press("Enter");
    for _ in 0..6 {
        browser.press("w");
    }
    // A request of this thread that is in view and wide enough to click.
    let found = browser.evaluate(
        "(async () => {
            const state = fxtrec.state();
            const spans = await fxtrec.spans(state.current.id);
            const shown = spans.filter((span) => span.start > state.from && span.end < state.to);
            const request = shown.filter((span) => span.name === 'request' && span.depth === 0)
                .sort((a, b) => (b.end - b.start) - (a.end - a.start))[0];
            const inside = shown.filter((span) => span !== request
                && span.start >= request.start && span.end <= request.end);
            const canvas = document.getElementById('canvas').getBoundingClientRect();
            const lane = document.getElementById('lane-thread-' + state.current.id).getBoundingClientRect();
            const middle = (request.start + request.end) / 2;
            return {
                request,
                inside: inside.map((span) => [span.name, span.depth]),
                x: canvas.left + (middle - state.from) / (state.to - state.from) * canvas.width,
                y: lane.top + 27,
            };
        })()",
    );
    let inside = found["inside"].to_string();
    for expected in [r#"["parse",1]"#, r#"["query",1]"#, r#"["cache miss",2]"#] {
        assert!(inside.contains(expected), "{inside}");
    }
    browser.click(number(&found["x"]), number(&found["y"]));
    browser.wait_for("fxtrec.state().selected !== null");
    let selected = browser.state()["selected"].clone();
    assert_eq!(
        (&selected["kind"], &selected["start"]),
        (&"span".into(), &found["request"]["start"])
    );
    let title = browser.evaluate("document.querySelector('#selection h3').textContent");
    assert_eq!(title, "request");
    browser.screenshot(&kept("spans.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_wait_that_search_hides_is_shown_and_ends_the_search() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let rows = "fxtrec.state().rows";
    let all = browser.evaluate(rows);
    let who = browser.evaluate(
        "(() => {
            const { worst, threads } = JSON.parse(document.getElementById('contents').textContent);
            return threads.find((thread) => thread[0] === worst[0].who[0])[1];
        })()",
    );
    browser.click_on("#waits tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().why !== null");
    // Some other name.
    let other = if who == "render" { "audio" } else { "render" };
    browser.press("/");
    for letter in other.chars() {
        browser.press(&letter.to_string());
    }
    let found = "document.getElementById('found').textContent";
    assert_eq!(browser.evaluate(found), "1 thread");
    let is_hidden = "document.querySelector('#waits tr').hidden";
    assert_eq!(browser.evaluate(is_hidden), true, "the search leaves it out");
    browser.press("Enter");
    // To the thread that the chain is about.
    browser.press("n");
    browser.settle();
    assert_eq!(browser.evaluate("document.getElementById('search').value"), "");
    assert_eq!(browser.evaluate(is_hidden), false);
    assert_eq!(browser.evaluate(found), "", "it counts what the search found");
    assert_eq!(browser.evaluate(rows), all);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_drag_with_shift_selects_a_range_and_shows_how_its_time_was_spent() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let place = browser.evaluate(
        "(() => {
            const lane = document.querySelector('#gutter .label.thread').getBoundingClientRect();
            const canvas = document.getElementById('canvas').getBoundingClientRect();
            return [canvas.left, lane.top + 11, canvas.width];
        })()",
    );
    let [left, y, width] = [0, 1, 2].map(|at| number(&place[at]));
    let mut mouse = |kind: &str, share: f64| {
        let params = serde_json::json!({
            "type": kind, "x": left + width * share, "y": y, "button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8,
        });
        browser.call("Input.dispatchMouseEvent", &params);
    };
    mouse("mousePressed", 0.25);
    mouse("mouseMoved", 0.3);
    mouse("mouseMoved", 0.5);
    mouse("mouseReleased", 0.5);
    browser.wait_for("fxtrec.state().selected?.kind === 'range' && fxtrec.state().why !== null");
    browser.settle();
    let state = browser.state();
    let length = number(&state["length"]);
    let (from, to) = (number(&state["selected"]["start"]), number(&state["selected"]["end"]));
    assert!((from / length - 0.25).abs() < 0.01 && (to / length - 0.5).abs() < 0.01, "{from} {to}");
    let parts = state["why"]["parts"].as_array().expect("parts").clone();
    let sum: f64 = parts.iter().map(|part| number(&part["length"])).sum();
    assert_eq!(sum, to - from, "the parts are the range, to the nanosecond");
    browser.screenshot(&kept("range.png"));
    browser.press("f");
    let (near, far) = window(&mut browser);
    assert!(near < from && to < far && far - near < length, "{near} {far}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
