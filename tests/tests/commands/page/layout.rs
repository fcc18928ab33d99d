//! The layout in windows of several widths: nothing is cut off, nothing collapses.

use serde_json::{Value, json};

use super::browser::{self, Browser, number};
use super::{kept, scene_page, starved_page};

/// Widths and heights of windows: a desk, a small laptop, a phone.
const WINDOWS: [(u32, u32); 3] = [(1400, 900), (1024, 768), (480, 900)];

/// Records strings that a canvas draws beyond its edges.
const WATCH: &str = "
    window.cutTexts = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        if (this.canvas.closest('.chart, .ruler') && String(text).trim()) {
            const { width } = this.measureText(text);
            const share = { right: 1, end: 1, center: 0.5 }[this.textAlign] ?? 0;
            const left = this.getTransform().transformPoint({ x: x - width * share, y }).x;
            const texts = window.drawnTexts ??= [];
            texts.push(String(text));
            if (left < 0 || left + width > this.canvas.width + 0.5) {
                window.cutTexts.push([String(text), left, left + width, this.canvas.width]);
            }
        }
        return draw.call(this, text, x, y, ...rest);
    };";

/// Everything that is truncated, as a list of strings.
const CUT: &str = "(() => {
    const cut = [];
    const name = (it) => it.id ? '#' + it.id : it.tagName + '.' + it.className + ' ' + it.textContent.slice(0, 40);
    const fits = (it) => {
        if (it.scrollWidth > it.clientWidth) cut.push(name(it) + ': ' + it.scrollWidth + ' in ' + it.clientWidth);
    };
    const inside = (it, area) => {
        const [box, room] = [it.getBoundingClientRect(), area.getBoundingClientRect()];
        if (box.left < room.left - 0.5 || box.right > room.right + 0.5) cut.push(name(it) + ' stands beside ' + name(area));
    };
    fits(document.documentElement);
    const { scrollHeight, clientHeight } = document.documentElement;
    if (scrollHeight > clientHeight) cut.push('the page scrolls: ' + scrollHeight + ' in ' + clientHeight);
    fits(document.getElementById('panels'));
    for (const it of document.querySelectorAll('.panel, .panel h2, .scrolls, #waits td, #figures, .tools')) fits(it);
    const waits = document.querySelector('.waits .scrolls');
    for (const it of waits.querySelectorAll('#waits td, #waits button')) inside(it, waits);
    const heads = [...waits.querySelectorAll('th')].filter((it) => it.offsetParent !== null && it.closest('thead').offsetWidth > 1);
    for (const it of heads) { fits(it); inside(it, waits); }
    const corner = document.querySelector('.corner');
    for (const it of corner.children) {
        inside(it, corner);
        if (it.getBoundingClientRect().bottom > corner.getBoundingClientRect().bottom + 0.5) cut.push(name(it) + ' hangs out');
    }
    for (const it of document.querySelectorAll('header .tools > *')) inside(it, document.documentElement);
    return cut;
})()";

fn open(browser: &mut Browser, page: &std::path::Path, (width, height): (u32, u32)) {
    browser.resize(width, height);
    browser.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": WATCH }));
    browser.open(page);
}

#[test]
fn nothing_is_cut_off_and_no_panel_collapses_in_any_window() {
    if !browser::is_there() {
        return;
    }
    for window in WINDOWS {
        let mut browser = Browser::start();
        open(&mut browser, scene_page(), window);
        browser.click_on("#waits tr:nth-child(1) td:nth-child(1)");
        browser.wait_for("fxtrec.state().selected !== null");
        browser.settle();
        browser.screenshot(&kept(&format!("layout-{}.png", window.0)));
        assert_eq!(browser.evaluate(CUT), json!([]), "at {window:?}");
        assert_eq!(browser.evaluate("cutTexts"), json!([]), "at {window:?}");
        let panels = browser.evaluate(
            "[...document.querySelectorAll('.panel')].map((it) => {
                const box = it.getBoundingClientRect();
                return [box.width, box.height, it.querySelector('.scrolls').clientHeight];
            })",
        );
        let panels = panels.as_array().expect("a list").clone();
        assert_eq!(panels.len(), 3);
        for panel in &panels {
            let [width, height, inner] = [0, 1, 2].map(|at| number(&panel[at]));
            assert!(width >= 220.0 && height >= 190.0 && inner >= 150.0, "{panel} at {window:?}");
        }
        // No two panels overlap, and lanes keep their room.
        let overlap = browser.evaluate(
            "(() => {
                const boxes = [...document.querySelectorAll('.panel')].map((it) => it.getBoundingClientRect());
                const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
                return boxes.some((a, at) => boxes.slice(at + 1).some((b) => meet(a, b)));
            })()",
        );
        assert_eq!(overlap, false, "at {window:?}");
        let lanes = browser.evaluate("document.getElementById('lanes').clientHeight");
        assert!(number(&lanes) >= 150.0, "{lanes} at {window:?}");
        for chart in ["histogram", "percentile"] {
            let size = browser.evaluate(&format!(
                "(() => {{
                    const canvas = document.querySelector('#{chart} canvas');
                    const area = document.getElementById('{chart}');
                    return [canvas.clientWidth, canvas.clientHeight, area.clientWidth, area.scrollHeight - area.clientHeight];
                }})()"
            ));
            let [width, height, room, excess] = [0, 1, 2, 3].map(|at| number(&size[at]));
            assert!(width >= 160.0 && width <= room && height >= 90.0, "{chart}: {size}");
            assert!(excess <= 0.0, "{chart} is cut below at {window:?}: {size}");
        }
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn the_flame_graph_stands_next_to_the_distribution_and_below_it_in_narrow_windows() {
    if !browser::is_there() {
        return;
    }
    let page = super::stacks::page("layout-stacks.html");
    for window in WINDOWS {
        let mut browser = Browser::start();
        open(&mut browser, &page, window);
        browser.wait_for("fxtrec.state().flame !== null");
        browser.click_on("#blocked tr:nth-child(1) td:nth-child(1)");
        browser.wait_for("document.querySelector('#selection .stack') !== null");
        browser.settle();
        browser.screenshot(&kept(&format!("layout-stacks-{}.png", window.0)));
        assert_eq!(browser.evaluate(CUT), json!([]), "at {window:?}");
        assert_eq!(browser.evaluate("cutTexts"), json!([]), "at {window:?}");
        let places = browser.evaluate(
            "['latency', 'flame'].map((it) => {
                const box = document.querySelector(`.panel.${it}`).getBoundingClientRect();
                return [box.left, box.top, box.width, box.height];
            })",
        );
        let [left, top] = [0, 1].map(|at| number(&places[1][at]) - number(&places[0][at]));
        match window.0 {
            480 => assert!(left.abs() < 1.0 && top > 100.0, "{places}"),
            _ => assert!(left > 100.0 && top.abs() < 1.0, "{places}"),
        }
        assert!(number(&places[1][2]) > 250.0 && number(&places[1][3]) > 190.0, "{places}");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn labels_of_large_counts_are_drawn_whole() {
    if !browser::is_there() {
        return;
    }
    for window in WINDOWS {
        let mut browser = Browser::start();
        open(&mut browser, starved_page(), window);
        browser.evaluate(
            "(() => {
                const { latency } = JSON.parse(document.getElementById('contents').textContent);
                const choice = document.getElementById('metric');
                choice.value = String(latency.findIndex(({ of }) => of.count > 1e6));
                choice.dispatchEvent(new Event('change'));
            })()",
        );
        browser.settle();
        browser.screenshot(&kept(&format!("labels-{}.png", window.0)));
        let drawn = browser.evaluate("drawnTexts");
        let is_large =
            |text: &Value| text.as_str().is_some_and(|text| text.ends_with("00\u{202f}000"));
        assert!(drawn.as_array().is_some_and(|texts| texts.iter().any(is_large)), "{drawn}");
        assert_eq!(browser.evaluate("cutTexts"), json!([]), "at {window:?}");
        assert_eq!(browser.evaluate(CUT), json!([]), "at {window:?}");
    }
}
