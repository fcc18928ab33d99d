//! The effects of the host, quotas and interrupts on threads, as the page shows them.

use fxt_writer::{Text, Value};
use fxtrec_report::scene::{Leaves, Scene};

use super::browser::{self, Browser};
use super::{kept, write_page};

/// Thread 101 runs for 20 ms, of which the host takes 5, is throttled for 50 and waits for 20 behind 303. Thread 102 is woken
/// by 303 while throttled, for 10, and waits for 5.
fn trace() -> Vec<u8> {
    let ms = |millis: u64| millis * 1000;
    let nanos = |millis: u64| Value::Uint64(millis * 1_000_000);
    let throttled = ("throttled", Value::Bool(true));
    let by = ("throttled_by", Value::Str(Text::Inline("/quota")));
    let mut scene = Scene::with_causes("steal,irq,throttled,need_resched");
    scene.name(101, "busy").name(102, "late").name(303, "other");
    scene.switch(ms(10), 0, 0, Leaves::R, 101);
    let taken = [
        ("steal_ns", nanos(5)),
        ("irq_ns", nanos(1)),
        ("irqs", Value::Uint32(3)),
        ("need_resched_ns", nanos(2)),
        throttled,
    ];
    scene.switch_with((ms(30), 0), 101, Leaves::R, 303, &taken);
    scene.switch_with((ms(100), 0), 303, Leaves::S, 101, &[("throttled_ns", nanos(50)), by]);
    scene.switch(ms(120), 0, 101, Leaves::S, 303);
    let woken = [throttled, ("waker", Value::Koid(fxt_writer::Koid(303)))];
    scene.wake_with(ms(125), 0, 102, &woken);
    scene.switch_with((ms(140), 0), 303, Leaves::S, 102, &[("throttled_ns", nanos(10)), by]);
    scene.switch(ms(160), 0, 102, Leaves::S, 0);
    scene.host_steal(ms(170), 0, ms(6), ms(170)).end(ms(170));
    scene.bytes().to_vec()
}

/// Selects the state of a thread at a time after the beginning, and the rows of the selection's panel.
fn selected(browser: &mut Browser, comm: &str, millis: u64) -> Vec<(String, String)> {
    let rows = browser.evaluate(&format!(
        "(async () => {{
            const thread = fx.trace.threads.find(({{ name }}) => name === '{comm}');
            await fx.select.pick('thread', thread.index, {millis} * 1e6);
            const texts = (tag) => [...document.querySelectorAll(`#selection ${{tag}}`)].map((it) => it.textContent);
            return [texts('dt'), texts('dd')];
        }})()"
    ));
    let texts = |at: usize| -> Vec<String> {
        let list = rows[at].as_array().unwrap_or_else(|| panic!("no rows: {rows}")).iter();
        list.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    texts(0).into_iter().zip(texts(1)).collect()
}

fn row(rows: &[(String, String)], name: &str) -> Option<String> {
    rows.iter().find(|row| row.0 == name).map(|row| row.1.clone())
}

/// The number of pixels in the lanes with the colour that has this name in the style sheet.
fn pixels(browser: &mut Browser, colour: &str) -> f64 {
    let count = browser.evaluate(&format!(
        "(() => {{
            const canvas = document.getElementById('canvas');
            const context = canvas.getContext('2d');
            const probe = new OffscreenCanvas(1, 1).getContext('2d');
            probe.fillStyle = fx.colours.get('{colour}');
            probe.fillRect(0, 0, 1, 1);
            const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
            const {{ data }} = context.getImageData(0, 0, canvas.width, canvas.height);
            let count = 0;
            for (let at = 0; at < data.length; at += 4) {{
                if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) count += 1;
            }}
            return count;
        }})()"
    ));
    browser::number(&count)
}

#[test]
fn throttled_and_stolen_stretches_have_colours_and_rows_of_their_own() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open(&write_page(&trace(), "causes.html"));
    // The trace begins at 10 ms.
    let ran = selected(&mut browser, "busy", 10);
    assert_eq!(row(&ran, "taken by the host").as_deref(), Some("5.00 ms"), "{ran:?}");
    assert_eq!(row(&ran, "taken by interrupts").as_deref(), Some("1.00 ms, 3 of them"), "{ran:?}");
    assert_eq!(row(&ran, "asked to leave").as_deref(), Some("2.00 ms before"), "{ran:?}");
    let held = selected(&mut browser, "busy", 40);
    let state = row(&held, "state").expect("a state");
    assert!(state.starts_with("throttled"), "{held:?}");
    assert_eq!(row(&held, "length").as_deref(), Some("50.0 ms"), "{held:?}");
    let waits = selected(&mut browser, "busy", 80);
    assert_eq!(row(&waits, "state").as_deref(), Some("preempted, waiting for a CPU"));
    assert_eq!(row(&waits, "length").as_deref(), Some("20.0 ms"));
    let again = selected(&mut browser, "busy", 100);
    assert_eq!(row(&again, "taken by the host").as_deref(), Some("nothing"), "{again:?}");
    // A throttled thread's waker is the one that woke it, at the time of the wakeup, not of the release.
    let late = selected(&mut browser, "late", 140);
    assert_eq!(row(&late, "woken by").as_deref(), Some("other 303"), "{late:?}");
    assert_eq!(row(&late, "waited for a CPU").as_deref(), Some("5.00 ms"), "{late:?}");
    assert_eq!(row(&late, "throttled before").as_deref(), Some("10.0 ms"), "{late:?}");

    let keys =
        browser.evaluate("[...document.querySelectorAll('[data-cause]')].map((it) => it.hidden)");
    assert_eq!(keys, serde_json::json!([false, false, true]), "nothing was moved");
    browser.press("Escape");
    let (throttled, stolen) = (pixels(&mut browser, "throttled"), pixels(&mut browser, "stolen"));
    assert!(throttled > 500.0, "{throttled}");
    // A quarter of the height of the slice, on the lane of the CPU and on that of the thread.
    assert!(stolen > 900.0, "{stolen}");
    browser.screenshot(&kept("causes.png"));
    let worst = browser.evaluate("document.getElementById('waits').textContent");
    let worst = worst.as_str().expect("a text");
    assert!(worst.contains("also throttled by /quota 50.0 ms"), "{worst}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_of_a_recording_without_these_facts_has_no_keys_of_them() {
    if !browser::is_there() {
        return;
    }
    let mut scene = Scene::new();
    scene.name(101, "busy").switch(10, 0, 0, Leaves::R, 101).switch(3000, 0, 101, Leaves::S, 0);
    let mut browser = Browser::start();
    browser.open(&write_page(scene.end(4000).bytes(), "plain.html"));
    let keys =
        browser.evaluate("[...document.querySelectorAll('[data-cause]')].map((it) => it.hidden)");
    assert_eq!(keys, serde_json::json!([true, true, true]));
    let ran = selected(&mut browser, "busy", 1);
    assert!(row(&ran, "state").is_some() && row(&ran, "taken by the host").is_none(), "{ran:?}");
    assert_eq!((pixels(&mut browser, "throttled"), pixels(&mut browser, "stolen")), (0.0, 0.0));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn moves_between_queues_are_marked_on_the_lane_and_listed_with_the_wait_and_what_follows_it() {
    if !browser::is_there() {
        return;
    }
    let ms = |millis: u64| millis * 1000;
    let mut scene = Scene::with_causes("migrate");
    scene.name(101, "nomad").name(303, "other").name(304, "third");
    scene.switch(ms(10), 0, 0, Leaves::R, 101).switch(ms(11), 1, 0, Leaves::R, 304);
    scene.switch(ms(12), 0, 101, Leaves::S, 303);
    scene.wake(ms(20), 0, 101);
    scene.migrate(ms(40), 101, 0, 1).migrate(ms(55), 101, 1, 0);
    scene.switch(ms(60), 0, 303, Leaves::R, 101);
    scene.switch(ms(80), 0, 101, Leaves::S, 303);
    // It sleeps, and is woken for the other CPU.
    scene.migrate(ms(100), 101, 0, 1).wake(ms(100), 1, 101);
    scene.switch(ms(120), 1, 304, Leaves::R, 101);
    scene.switch(ms(140), 1, 101, Leaves::S, 304).end(ms(170));
    let mut browser = Browser::start();
    browser.open(&write_page(scene.bytes(), "moves.html"));

    let moved = |rows: &[(String, String)]| -> Vec<String> {
        rows.iter().filter(|row| row.0 == "moved").map(|row| row.1.clone()).collect()
    };
    let expected = ["CPU 0 to 1 at 40.000000 ms", "CPU 1 to 0 at 55.000000 ms"];
    let waits = selected(&mut browser, "nomad", 25);
    assert_eq!(row(&waits, "state").as_deref(), Some("woken, waiting for a CPU"), "{waits:?}");
    assert_eq!(moved(&waits), expected, "{waits:?}");
    let runs = selected(&mut browser, "nomad", 70);
    assert_eq!(row(&runs, "state").as_deref(), Some("running"), "{runs:?}");
    assert_eq!(moved(&runs), expected, "{runs:?}");
    let sleeps = selected(&mut browser, "nomad", 90);
    assert_eq!(moved(&sleeps), ["CPU 0 to 1 at 100.000000 ms"], "{sleeps:?}");
    let stays = selected(&mut browser, "other", 20);
    assert!(moved(&stays).is_empty(), "{stays:?}");

    let keys =
        browser.evaluate("[...document.querySelectorAll('[data-cause]')].map((it) => it.hidden)");
    assert_eq!(keys, serde_json::json!([true, true, false]));
    browser.press("Escape");
    // Three lines, two pixels wide and as high as a lane's inside, at each of which a name may be written over.
    let marked = pixels(&mut browser, "moved");
    assert!((60.0..=120.0).contains(&marked), "{marked}");
    browser.screenshot(&kept("moves.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
