//! Data that programs record in addition to spans: arguments, operations across threads, flows and counters.

use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, ThreadState};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};
use serde_json::json;

use super::browser::{self, Browser, number};
use super::{kept, write_page};

const MS: u64 = 1_000_000;

/// `front` accepts a request and passes it to `back`; both record the depth of a queue; two requests overlap.
fn trace() -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("app", 1_000_000_000).expect("room");
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(100)))];
    let [front, back] = [101, 102].map(|koid| (Koid(100), Koid(koid)));
    for (kind, koid, name, args) in [
        (ObjectType::Process, 100, "app", &[][..]),
        (ObjectType::Thread, 101, "front", &process),
        (ObjectType::Thread, 102, "back", &process),
    ] {
        let name = Text::Inline(name);
        trace
            .write(&KernelObject { object_type: kind, koid: Koid(koid), name, args })
            .expect("room");
    }
    let weights = [
        Arg::new(Text::Inline("incoming_weight"), Value::Int32(1024)),
        Arg::new(Text::Inline("outgoing_weight"), Value::Int32(1024)),
    ];
    for (time, outgoing, incoming) in [(MS, 102, 101), (40 * MS, 101, 102), (99 * MS, 102, 101)] {
        let (time, outgoing_state) = (Ticks(time), ThreadState::Blocked);
        let (outgoing, incoming) = (Koid(outgoing), Koid(incoming));
        let switch =
            ContextSwitch { cpu: 0, time, outgoing, incoming, outgoing_state, args: &weights };
        trace.write(&switch).expect("room");
    }
    let at = |milliseconds: u64| Ticks(milliseconds * MS);
    let text = |text| Value::Str(Text::Inline(text));
    let evil = text("<img src=x onerror=alert(1)>");
    trace
        .duration_begin(
            at(10),
            front,
            "app",
            "accept",
            &[("peer", evil), ("bytes", Value::Uint32(4096))],
        )
        .expect("room");
    trace.async_begin(at(12), front, "app", "request", 7, &[("path", text("/a"))]).expect("room");
    trace.flow_begin(at(13), front, "app", "hand over", 7, &[]).expect("room");
    trace.async_begin(at(14), front, "app", "request", 8, &[]).expect("room");
    trace
        .duration_end(at(20), front, "app", "accept", &[("status", Value::Int32(-5))])
        .expect("room");
    trace.duration_begin(at(50), back, "app", "serve", &[]).expect("room");
    trace.flow_end(at(51), back, "app", "hand over", 7, &[]).expect("room");
    trace.async_instant(at(55), back, "app", "request", 7, &[]).expect("room");
    trace
        .async_end(at(60), back, "app", "request", 7, &[("code", Value::Uint32(200))])
        .expect("room");
    trace.duration_end(at(61), back, "app", "serve", &[]).expect("room");
    trace.async_begin(at(70), back, "app", "request", 9, &[]).expect("room");
    trace.async_end(at(75), back, "app", "request", 9, &[]).expect("room");
    for n in 0..20 {
        let args = [("depth", Value::Uint32(n * n)), ("load", Value::Double(f64::from(n) / 7.0))];
        trace.counter(at(5 + u64::from(n) * 4), front, "app", "queue", 1, &args).expect("room");
    }
    trace.into_inner()
}

/// The facts of the selection, as pairs.
const FACTS: &str = "(() => {
    const names = [...document.querySelectorAll('#selection dt')].map((it) => it.textContent);
    return Object.fromEntries(names.map((name, at) => [name, document.querySelectorAll('#selection dd')[at].textContent]));
})()";

/// The position on the page of a time in a row of spans of a lane.
fn place(browser: &mut Browser, lane: &str, time: u64, below: u32) -> (f64, f64) {
    let found = browser.evaluate(&format!(
        "(() => {{
            const state = fxtrec.state();
            const canvas = document.getElementById('canvas').getBoundingClientRect();
            const lane = document.getElementById('{lane}').getBoundingClientRect();
            return [canvas.left + ({time} - state.from) / (state.to - state.from) * canvas.width, lane.top + {below}];
        }})()"
    ));
    (number(&found[0]), number(&found[1]))
}

#[test]
fn a_span_shows_its_arguments_as_text_and_its_flow_leads_to_the_other_end() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(&write_page(&trace(), "told.html"));
    browser.wait_for("fxtrec.state().told?.counters.length === 2");
    browser.settle();
    browser.screenshot(&kept("told.png"));
    assert_eq!(browser.evaluate("fxtrec.state().told.arrows"), 1, "the flow is drawn");
    let begin = 1;
    let lane = "lane-thread-1";
    let name = browser.evaluate(&format!("document.querySelector('#{lane} .name').textContent"));
    let lane = if name == "front" { lane } else { "lane-thread-2" };
    let (x, y) = place(&mut browser, lane, (15 - begin) * MS, 27);
    browser.click(x, y);
    browser.wait_for("document.querySelectorAll('#selection .told').length === 4");
    let facts = browser.evaluate(FACTS);
    assert_eq!(facts["peer"], "<img src=x onerror=alert(1)>", "it is text");
    assert_eq!((&facts["bytes"], &facts["status"]), (&"4096".into(), &"-5".into()));
    assert_eq!(facts["flow to"], "back 102 at 50.000 ms");
    assert_eq!(browser.evaluate("document.querySelectorAll('#selection img').length"), 0);
    browser.screenshot(&kept("told-span.png"));

    browser.click_on("#selection .told button");
    browser.wait_for("document.querySelector('#selection h3')?.textContent === 'serve'");
    browser.wait_for("document.querySelector('#selection .told') !== null");
    assert_eq!(browser.evaluate(FACTS)["flow from"], "front 101 at 12.000 ms");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn operations_have_rows_of_their_own_and_say_where_they_began_and_ended() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    let page = write_page(&trace(), "operations.html");
    browser.open(&page);
    let label = browser.evaluate("document.querySelector('#gutter .label.track').textContent");
    assert_eq!(label, "requestapp");
    // Overlapping ones have a row each, and the third shares the first one's row.
    let id =
        browser.evaluate("Number(document.querySelector('#gutter .label.track').id.split('-')[2])");
    browser.evaluate(&format!("fxtrec.spans({id})"));
    let rows = browser.evaluate(&format!("fxtrec.spans({id}).then((list) => list.map(({{ start, end, depth, kind }}) => [start / 1e6, end / 1e6, depth, kind]))"));
    assert_eq!(rows, json!([[11, 59, 0, 0], [13, 98, 1, 1], [54, 54, 0, 2], [69, 74, 0, 0]]));
    let lane = format!("lane-track-{id}");
    let (x, y) = place(&mut browser, &lane, 30 * MS, 8);
    browser.click(x, y);
    browser.wait_for("document.querySelectorAll('#selection .told').length === 4");
    let facts = browser.evaluate(FACTS);
    assert_eq!((&facts["path"], &facts["code"]), (&"/a".into(), &"200".into()));
    assert_eq!((&facts["began on"], &facts["ended on"]), (&"front 101".into(), &"back 102".into()));
    assert_eq!(browser.evaluate("document.querySelector('#selection h3').textContent"), "request");
    browser.wait_for("location.hash.includes('span=track0')");
    let (before, hash) = (browser.state(), browser.evaluate("location.hash"));
    browser.open_at(&page, hash.as_str().expect("a text"));
    browser.wait_for("fxtrec.state().selected !== null");
    assert_eq!(browser.state()["selected"]["lane"], before["selected"]["lane"]);
    // It is among the longest spans, whose list links to it.
    browser.press("Escape");
    browser.click_on("#longest tr:nth-child(1) button");
    browser.wait_for("fxtrec.state().selected?.lane.kind === 'track'");
    assert_eq!(
        browser.evaluate("document.querySelector('#longest td:nth-child(3)').textContent"),
        "request"
    );
    // The search keeps spans with that name.
    browser.press("/");
    for letter in "requ".chars() {
        browser.press(&letter.to_string());
    }
    let tracks = "document.querySelectorAll('#gutter .label.track').length";
    assert_eq!(browser.evaluate(tracks), 1);
    browser.press("x");
    assert_eq!(browser.evaluate(tracks), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn counters_are_lines_and_tell_their_value_at_the_pointer() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(&write_page(&trace(), "counters.html"));
    browser.wait_for("fxtrec.state().told?.counters.length === 2");
    browser.settle();
    let counters = browser.evaluate("fxtrec.state().told.counters.map((list) => list.slice(0, 4))");
    assert_eq!(counters, json!([[0, 1, 4, 9], [0, 1.0 / 7.0, 2.0 / 7.0, 3.0 / 7.0]]));
    let labels =
        "[...document.querySelectorAll('#gutter .label.counter')].map((it) => it.textContent)";
    assert_eq!(browser.evaluate(labels), json!(["queue depth0 to 361", "queue load0 to 2.71"]));
    // The line shows the value: low at first, high in the end.
    let line = |browser: &mut Browser, time: u64| {
        let (x, y) = place(browser, "lane-counter-0", time, 0);
        let found = browser.evaluate(&format!(
            "(() => {{
                const canvas = document.getElementById('canvas');
                const box = canvas.getBoundingClientRect();
                const {{ data }} = canvas.getContext('2d').getImageData({x} - box.left, {y} - box.top, 1, 40);
                for (let row = 0; row < 40; row++) {{
                    const [r, g, b] = data.subarray(row * 4);
                    if (b > 180 && r < 80 && g < 130) return row;
                }}
                return -1;
            }})()"
        ));
        number(&found)
    };
    let (low, high) = (line(&mut browser, 10 * MS), line(&mut browser, 82 * MS));
    assert!(low > 30.0 && (0.0..10.0).contains(&high), "{low} {high}");
    let (x, y) = place(&mut browser, "lane-counter-0", (26 - 1) * MS, 20);
    let over = json!({ "type": "mouseMoved", "x": x, "y": y, "button": "none" });
    browser.call("Input.dispatchMouseEvent", &over);
    let tip = "document.getElementById('tip').textContent";
    browser.wait_for(&format!("{tip} !== ''"));
    let tip = browser.evaluate(tip);
    assert!(
        tip.as_str().is_some_and(
            |it| it.starts_with("queue depth at ") && it.contains(": 25 since 24.000 ms")
        ),
        "{tip}"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn of_many_flows_in_view_only_those_of_the_selected_span_are_drawn() {
    if !browser::is_there() {
        return;
    }
    let mut trace = trace();
    let mut more = Writer::new(Vec::<u8>::new());
    more.start("more", 1_000_000_000).expect("room");
    for n in 0..400 {
        let at = |milliseconds: u64| Ticks(milliseconds * MS + n * 1_000);
        let [front, back] = [101, 102].map(|koid| (Koid(100), Koid(koid)));
        more.flow_begin(at(80), front, "app", "many", n, &[]).expect("room");
        more.flow_end(at(90), back, "app", "many", n, &[]).expect("room");
    }
    trace.extend(more.into_inner());
    let mut browser = Browser::start();
    browser.open(&write_page(&trace, "flows.html"));
    browser.wait_for("fxtrec.state().told?.flows === 401");
    browser.settle();
    let reported = browser.state()["told"].clone();
    assert_eq!((&reported["arrows"], &reported["hidden"]), (&0.into(), &401.into()));
    browser.screenshot(&kept("flows.png"));
    // The line of the selected span is drawn.
    browser.click_on("#longest tr:nth-child(2) button");
    browser.wait_for("document.querySelector('#selection h3')?.textContent === 'serve'");
    browser.wait_for("fxtrec.state().told.arrows > 0");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
