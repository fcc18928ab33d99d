//! A page with only a part of its trace: it says so, and everything that it shows is correct.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use fxtrec::report::page::{Budget, Page};
use fxtrec_tests::binary;
use serde_json::{Value, json};

use super::browser::{self, Browser, number};
use super::scene::{BEGIN, FIRST, Scene};
use super::{kept, write_page, write_page_within};

/// Many tiles, a third of which fit.
const SCENE: Scene = Scene { cpus: 4, threads: 40, events: 400_000, spans: true, gap: false };
const BYTES: u64 = 1_800_000;

/// Times at which both pages are queried.
const PLACES: u64 = 120;

const CONTENTS: &str = "JSON.parse(document.getElementById('contents').textContent)";

fn trace() -> &'static (Vec<u8>, PathBuf) {
    static TRACE: OnceLock<(Vec<u8>, PathBuf)> = OnceLock::new();
    TRACE.get_or_init(|| {
        let path = kept("it's a budget.fxt");
        let trace = SCENE.trace();
        std::fs::write(&path, &trace).expect("the file can be written");
        (trace, path)
    })
}

fn small_page() -> &'static PathBuf {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| {
        let (trace, path) = trace();
        let page = Page::new().within(Budget::Bytes(BYTES)).of_file(path.to_str().expect("text"));
        write_page_within(trace, "budget.html", page)
    })
}

/// Begin and end of the longest stretch that is left out.
fn left_out(browser: &mut Browser) -> (f64, f64) {
    let found = browser.evaluate(
        "fx.trace.tiles.filter((tile) => tile.out).map(({ index }) => fx.trace.outAround(index))
            .sort((a, b) => b.to - b.from - (a.to - a.from))[0]",
    );
    (number(&found["from"]), number(&found["to"]))
}

#[test]
fn a_page_that_lacks_events_says_so_with_the_command_that_shows_them() {
    if !browser::is_there() {
        return;
    }
    let page = small_page();
    let bytes = std::fs::metadata(page).expect("it was written").len();
    assert!(bytes <= BYTES, "{bytes}");
    let mut browser = Browser::start();
    browser.open(page);
    let state = browser.state();
    let (all, has) = (number(&state["tiles"]), state["kept"].as_array().expect("a list").len());
    assert!(has > 2 && (has as f64) < all, "{has} of {all}");
    let about = browser.evaluate("document.getElementById('facts').textContent");
    assert!(
        about
            .as_str()
            .is_some_and(|it| it.contains(&format!("exact events of {has} of {all} tiles"))),
        "{about}"
    );

    // In the middle of the omitted part, a stretch of a few events.
    let (from, to) = left_out(&mut browser);
    let middle = (from + to) / 2.0;
    browser.open_at(page, &format!("#view={:.0}-{:.0}", middle - 50_000.0, middle + 50_000.0));
    let paint = browser.state()["paint"].clone();
    assert_eq!((&paint["mode"], &paint["out"]), (&json!("bins"), &json!(1)));
    let note = browser.evaluate("document.getElementById('absent').textContent");
    assert!(
        note.as_str().is_some_and(|it| it.starts_with("The page lacks exact events")),
        "{note}"
    );
    // Each CPU that was busy has something in its colour there, and all lanes are hatched.
    let hatched = browser.evaluate(
        "(() => {
            const context = fx.paint.canvas.getContext('2d');
            return fx.trace.cpus.map(({ number }) => {
                const { y, height } = fx.lanes.find('cpu', number);
                const { data } = context.getImageData(0, y + 2, fx.view.width, height - 4);
                const seen = new Set();
                for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 3).join());
                return seen.size;
            });
        })()",
    );
    assert!(hatched.as_array().expect("a list").iter().all(|it| number(it) > 3.0), "{hatched}");
    browser.screenshot(&kept("budget.png"));
    // A click shows the unknown parts, and the command is the one of the note's file.
    browser.evaluate(&format!("fx.select.pick('thread', 1, {middle})"));
    let selected = browser.state()["selected"].clone();
    assert!(selected["kind"] == "absent" || number(&selected["start"]) <= middle, "{selected}");
    let tip =
        browser.evaluate(&format!("fx.select.describe(fx.lanes.find('cpu', 0), {middle}, 5)"));
    assert_eq!(tip, "its exact events are not in this page");

    // Runs the command that the page proposes: the new page has all events of the view.
    let folder = tempfile::tempdir().expect("a folder");
    let command = browser.evaluate("document.querySelector('#absent code').textContent");
    let command = command.as_str().expect("text").to_owned();
    let program = binary::fxtrec();
    let path = program.parent().expect("it is in a folder").display();
    let done = Command::new("sh")
        .args(["-ec", &format!("PATH={path}:$PATH; {command}")])
        .current_dir(&folder)
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{command}: {done:?}");
    browser.open(&folder.path().join("part.html"));
    let part = browser.state();
    assert_eq!(part["kept"].as_array().map(Vec::len), Some(number(&part["tiles"]) as usize));
    // Spans that were open may begin before.
    let begin = browser.evaluate(&format!("Number(BigInt(fx.trace.begin) - {BEGIN}n)"));
    let part = (number(&begin), number(&begin) + number(&part["length"]));
    assert!(part.0 < middle - 40_000.0 && part.1 > middle + 40_000.0, "{part:?} {middle}");
    assert_eq!(browser.evaluate("document.getElementById('absent').hidden"), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn keys_lead_to_the_exact_events_of_the_listed_waits() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(small_page());
    let waits = browser.evaluate(&format!("{CONTENTS}.worst"));
    for wait in waits.as_array().expect("a list") {
        browser.press("]");
        browser.wait_for("fxtrec.state().selected !== null && fxtrec.state().idle");
        let selected = browser.state()["selected"].clone();
        assert_eq!(selected["kind"], "slice", "{wait}: {selected}");
        assert_eq!((&selected["start"], &selected["end"]), (&wait["from"], &wait["to"]));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The content of a page at [`PLACES`] times: the slice, and the explanation of a stretch of time of the same thread.
fn asked(page: &std::path::Path) -> Value {
    let mut browser = Browser::start();
    browser.open(page);
    let found = browser.evaluate(&format!(
        "(async () => {{
            const found = [];
            for (let n = 0; n < {PLACES}; n++) {{
                const time = Math.floor(fx.trace.length / {PLACES} * (n + 0.5));
                const thread = fx.trace.byKoid.get({FIRST} + n % 40).index;
                const slices = [await fx.select.slice('thread', thread, time), await fx.select.slice('cpu', n % 4, time)];
                const {{ parts }} = await fx.why.explain(thread, time, time + 20_000_000);
                const sums = {{ on_cpu: 0, waiting: 0, blocked: 0, unknown: 0, absent: 0 }};
                for (const {{ key, length }} of parts) sums[key.split(' ')[0]] += length;
                found.push([fx.trace.isOut(time), slices, sums]);
            }}
            return found;
        }})()"
    ));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    found
}

#[test]
fn what_is_said_of_a_page_with_less_is_true_of_the_whole() {
    if !browser::is_there() {
        return;
    }
    let some = asked(small_page());
    let all = asked(&write_page(&trace().0, "budget-all.html"));
    let (mut known, mut unknown) = (0, 0);
    for (some, all) in some.as_array().expect("a list").iter().zip(all.as_array().expect("a list"))
    {
        assert_eq!(all[0], false);
        for lane in [0, 1] {
            let (said, is) = (&some[1][lane], &all[1][lane]);
            if said.is_null() {
                assert!(is.is_null() || some[0] == true, "{some} {all}");
                unknown += 1;
                continue;
            }
            known += 1;
            assert_eq!((&said["start"], &said["what"]), (&is["start"], &is["what"]), "{said} {is}");
            match said["endOut"] == true {
                true => assert!(number(&said["end"]) <= number(&is["end"]), "{said} {is}"),
                false => assert_eq!(said["end"], is["end"], "{said} {is}"),
            }
        }
        let sum = |it: &Value| it[2].as_object().expect("sums").values().map(number).sum::<f64>();
        assert!((sum(some) - sum(all)).abs() < 1.0, "{some} {all}");
        for kind in ["on_cpu", "waiting", "blocked"] {
            assert!(number(&some[2][kind]) <= number(&all[2][kind]), "{kind}: {some} {all}");
        }
        assert_eq!(all[2]["absent"], 0);
    }
    assert!(known > 20 && unknown > 20, "{known} {unknown}");
}
