//! The page loads without errors, draws, and follows the system's colours.

use serde_json::json;

use super::browser::{self, Browser, number};
use super::scene::name;
use super::{kept, scene_page};

#[test]
fn the_page_loads_from_disk_without_a_complaint_and_asks_for_nothing_else() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());

    let state = browser.state();
    assert_eq!(state["theme"], "light");
    assert_eq!(state["paint"]["mode"], "exact");
    assert!(number(&state["paint"]["drawn"]) > 1_000.0, "{state}");
    assert!(number(&state["bars"]) > 5.0 && number(&state["points"]) > 50.0, "{state}");
    let title = browser.evaluate("document.getElementById('title').textContent");
    assert_eq!(title, "fxtrec -- ./scene");
    let facts = browser.evaluate("document.getElementById('facts').textContent");
    assert!(facts.as_str().is_some_and(|facts| facts.contains("40 threads on 4 CPUs")), "{facts}");
    let label =
        browser.evaluate("document.querySelector('#gutter .label.thread .name').textContent");
    assert!((0..40).any(|index| label == json!(name(1_001 + index))), "{label}");
    browser.screenshot(&kept("look.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.files_read(), 1, "the page itself");
}

#[test]
fn dark_and_light_follow_the_system_until_one_is_chosen() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    let prefer = |browser: &mut Browser, theme| {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        browser.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
        browser.settle();
    };
    let ground = "getComputedStyle(document.body).backgroundColor";
    browser.open(scene_page());
    let (light, light_ground) = (browser.fingerprint(), browser.evaluate(ground));
    prefer(&mut browser, "dark");
    let (dark, dark_ground) = (browser.fingerprint(), browser.evaluate(ground));
    assert_eq!(browser.state()["theme"], "dark");
    assert_ne!(light, dark, "the lanes are drawn in other colours");
    assert_ne!(light_ground, dark_ground);
    browser.screenshot(&kept("dark.png"));

    // A choice by a click stays, whatever the system's setting.
    browser.click_on("#theme");
    assert_eq!(browser.state()["theme"], "light");
    assert_eq!(browser.fingerprint(), light);
    prefer(&mut browser, "light");
    prefer(&mut browser, "dark");
    assert_eq!(browser.state()["theme"], "light");
    browser.press("t");
    assert_eq!(browser.state()["theme"], "dark");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn where_events_were_lost_the_lane_is_hatched() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(scene_page());
    let gap = browser.evaluate("JSON.parse(document.getElementById('contents').textContent).gaps");
    assert_eq!(gap.as_array().map(Vec::len), Some(1), "{gap}");
    assert_eq!(gap[0][0], 0);
    assert!(number(&gap[0][3]) > 100.0 && number(&gap[0][2]) - number(&gap[0][1]) > 29e6, "{gap}");
    // Pixels of the colour of hatches, or close to it, in the lane of a CPU.
    let red = |browser: &mut Browser, cpu: u16| {
        let count = browser.evaluate(&format!(
            "(() => {{
                const [, from, to] = JSON.parse(document.getElementById('contents').textContent).gaps[0];
                const view = fxtrec.state();
                const canvas = document.getElementById('canvas');
                const x = (time) => (time - view.from) / (view.to - view.from) * canvas.width;
                const lane = document.getElementById('lane-cpu-{cpu}').getBoundingClientRect();
                const top = lane.top - canvas.getBoundingClientRect().top;
                const image = canvas.getContext('2d')
                    .getImageData(x(from), top + 3, Math.max(x(to) - x(from), 4), lane.height - 6);
                let count = 0;
                for (let at = 0; at < image.data.length; at += 4) {{
                    const [r, g, b] = image.data.subarray(at, at + 3);
                    if (r > 180 && g < 120 && b < 120) count += 1;
                }}
                return count;
            }})()"
        ));
        number(&count)
    };
    assert!(red(&mut browser, 0) > 10.0, "the CPU that lost something");
    assert!(red(&mut browser, 1) < 1.0, "another CPU");
}
