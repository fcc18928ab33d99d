//! Stacks: of the selection, as a flame graph, and found by the search.

use fxt_reader::{Error, Reader};
use std::path::PathBuf;

use fxt_writer::record::{Backtrace, ContextSwitch, Record as _, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value, Writer};
use fxtrec::report::Options;
use fxtrec::report::stacks::{Profile, blocked, example};
use fxtrec::sched::backtrace::Kind;
use fxtrec_report::scene::Scene;
use serde_json::{Value as Json, json};

use super::browser::{self, Browser, number};
use super::{kept, write_page};

const MS: u64 = 1_000_000;

/// Two waits with stacks; thread 41 runs in `kick` from 16 ms to 17 ms, according to four samples, and in something unknown once.
fn trace() -> Vec<u8> {
    // A trace of a command, whose page lists all blocked times.
    let mut trace = Scene::of_command("waker,syscall", 40).bytes().to_vec();
    trace.extend(example::trace(true));
    for n in 0..5 {
        let thread = ThreadName::Inline { process: Koid(40), thread: Koid(41) };
        let frames = if n == 4 { &[0x9000][..] } else { &[0x7030, 0x9000][..] };
        let (time, flags) = (Ticks(16 * MS + 1_000 + n), Kind::Cpu.flags());
        Backtrace { time, thread, flags, frames }.write(&mut trace).expect("memory has room");
    }
    trace
}

/// The page of this trace.
pub(super) fn page(name: &str) -> PathBuf {
    write_page(&trace(), name)
}

fn open(browser: &mut Browser, name: &str) {
    browser.open(&page(name));
    browser.wait_for("fxtrec.state().flame !== null");
}

/// The drawn functions: name, row and weight of each.
fn frames(browser: &mut Browser) -> Json {
    let list = browser.evaluate("fxtrec.state().flame.frames");
    let mut list = list.as_array().expect("a list").clone();
    list.sort_by_key(|it| (it[1].as_u64(), it[0].as_str().map(str::to_owned)));
    Json::Array(list)
}

fn choose(browser: &mut Browser, kind: &str) {
    browser.evaluate(&format!(
        "(() => {{
            const choice = document.getElementById('flame-kind');
            choice.value = '{kind}';
            choice.dispatchEvent(new Event('change'));
        }})()"
    ));
}

#[test]
fn the_selection_has_the_stacks_of_the_wait_and_of_its_waker() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    open(&mut browser, "stacks.html");
    let lists = "[...document.querySelectorAll('#selection .stack')].map((it) => [...it.children].map((row) => row.textContent))";
    let heads =
        "[...document.querySelectorAll('#selection .stacks h4')].map((it) => it.textContent)";
    let place = browser.evaluate("document.querySelector('#blocked td:nth-child(3)').textContent");
    assert_eq!(place, "a;b::<c d>", "the list has it, too");
    browser.click_on("#blocked tr:nth-child(1) button");
    browser.wait_for("document.querySelectorAll('#selection .stack').length === 2");
    let expected = json!([["pipe_read kernel", "a;b::<c d> x.so", "0x9000 "], ["kick x.so"]]);
    assert_eq!(browser.evaluate(lists), expected);
    assert_eq!(browser.evaluate(heads), json!(["Where it was blocked", "Where it was woken from"]));
    let lacks = browser.evaluate("document.querySelector('#selection .stacks .hint').textContent");
    assert_eq!(lacks, "It is incomplete: the innermost function may lack its caller");
    // The tooltip of the lane shows the innermost function outside of the kernel.
    let place = browser.evaluate(
        "(() => {
            const { from, to, selected } = fxtrec.state();
            const canvas = document.getElementById('canvas').getBoundingClientRect();
            const lane = document.getElementById('lane-thread-1').getBoundingClientRect();
            const middle = (selected.start + selected.end) / 2;
            return [canvas.left + (middle - from) / (to - from) * canvas.width, lane.top + 11];
        })()",
    );
    let over = json!({ "type": "mouseMoved", "x": place[0], "y": place[1], "button": "none" });
    browser.call("Input.dispatchMouseEvent", &over);
    browser.wait_for(
        "document.getElementById('tip').textContent.endsWith(': sleeping in a;b::<c d>, 5.00 ms')",
    );
    browser.screenshot(&kept("stacks.png"));

    // The wait for a CPU after it, and the slice in which it ran.
    browser.press(".");
    browser.wait_for("document.querySelector('#selection .stacks h4')?.textContent === 'Where it had been blocked'");
    assert_eq!(browser.evaluate(lists), expected);
    browser.press(".");
    browser.wait_for("document.querySelector('#selection .stacks h4')?.textContent === 'Where it ran (4 of 5 samples)'");
    assert_eq!(browser.evaluate(lists), json!([["kick x.so", "0x9000 "]]));
    // It is in the chain, too.
    browser.open_at(&kept("stacks.html"), "#slice=41@20000000");
    browser.wait_for("fxtrec.state().why !== null && fxtrec.state().flame !== null");
    let chain = browser.evaluate("document.querySelector('.chain button').textContent");
    assert!(chain.as_str().is_some_and(|it| it.contains(" in x.so+0x220, until")), "{chain}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_flame_graph_is_that_of_the_selected_time_and_is_walked_by_keys() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    open(&mut browser, "flame.html");
    let all = json!([
        ["all", 0, 7 * MS],
        ["0x9000", 1, 5 * MS],
        ["x.so+0x220", 1, 2 * MS],
        ["a;b::<c d>", 2, 5 * MS],
        ["pipe_read", 2, 2 * MS],
        ["pipe_read", 3, 5 * MS],
    ]);
    assert_eq!(frames(&mut browser), all);
    let drawn = "[...document.querySelectorAll('#flame .frame')].map((it) => it.getBoundingClientRect().width)";
    let widths = browser.evaluate(drawn);
    assert_eq!(widths.as_array().map(Vec::len), Some(6));
    let said = browser.evaluate("document.getElementById('flame-about').textContent");
    assert!(
        said.as_str().is_some_and(|it| it
            .starts_with("7.00 ms of the threads in the list in 2 waits, in the time in view")),
        "{said}"
    );
    assert!(
        said.as_str().is_some_and(|it| it.contains("1 stack belongs to no wait that is known")),
        "{said}"
    );
    browser.screenshot(&kept("flame.png"));

    // With keys to the longest one, zoomed in, and back.
    browser.evaluate("document.getElementById('flame').focus()");
    browser.press("ArrowDown");
    assert_eq!(browser.evaluate("fxtrec.state().flame.current"), "0x9000");
    browser.press("ArrowRight");
    assert_eq!(browser.evaluate("fxtrec.state().flame.current"), "x.so+0x220");
    browser.press("Enter");
    let alone = json!([["all", 0, 7 * MS], ["x.so+0x220", 1, 2 * MS], ["pipe_read", 2, 2 * MS]]);
    assert_eq!(frames(&mut browser), alone);
    browser.press("Escape");
    assert_eq!(frames(&mut browser), all);
    // A click does the same.
    browser.click_on("#flame .frame:nth-child(2)");
    assert_ne!(frames(&mut browser), all);
    browser.click_on("#flame .frame:nth-child(1)");
    assert_eq!(frames(&mut browser), all);

    // A range shows only what is in it: from 11 to 12 ms and half a millisecond before the second wait.
    let begin =
        browser.evaluate("JSON.parse(document.getElementById('contents').textContent).begin");
    let begin: u64 = begin.as_str().and_then(|it| it.parse().ok()).expect("a time");
    let page = kept("flame.html");
    let fragment = |from: u64, to: u64| format!("#range=41@{}-{}", from - begin, to - begin);
    browser.open_at(&page, &fragment(11 * MS, 12 * MS));
    browser.wait_for(&format!("fxtrec.state().flame?.total === {MS}"));
    let flame = browser.state()["flame"].clone();
    assert_eq!((&flame["thread"], &flame["count"]), (&41.into(), &1.into()));
    assert_eq!(number(&flame["to"]) - number(&flame["from"]), MS as f64);
    browser.open_at(&page, &fragment(17 * MS, 19 * MS));
    browser.wait_for("document.querySelector('#flame .hint') !== null");

    // By the threads that ended waits, and for time on a CPU.
    browser.open(&page);
    browser.wait_for("fxtrec.state().flame !== null");
    choose(&mut browser, "wake");
    assert_eq!(frames(&mut browser), json!([["all", 0, 5 * MS], ["kick", 1, 5 * MS]]));
    choose(&mut browser, "cpu");
    let count = browser.evaluate("fxtrec.state().flame.count");
    assert_eq!(count, 5);
    // The address contains the view.
    browser.wait_for("location.hash.includes('stacks=cpu')");
    browser.open_at(&page, "#stacks=cpu");
    browser.wait_for("fxtrec.state().flame?.kind === 'cpu'");
    let found = frames(&mut browser);
    assert_eq!((&found[1][0], &found[2][0]), (&"0x9000".into(), &"kick".into()));
    assert!((number(&found[2][2]) / number(&found[0][2]) - 0.8).abs() < 1e-9, "{found}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_search_finds_functions_and_marks_the_waits_that_have_them() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    open(&mut browser, "stacks-search.html");
    let search = |browser: &mut Browser, text: &str| {
        browser.evaluate(&format!(
            "(() => {{
                const field = document.getElementById('search');
                field.value = {};
                field.dispatchEvent(new Event('input'));
            }})()",
            json!(text)
        ));
        browser.settle();
        browser.evaluate("document.getElementById('found').textContent")
    };
    // The same lanes, for another reason.
    assert_eq!(search(&mut browser, "work;er"), "1 thread");
    let unmarked = browser.fingerprint();
    assert_eq!(search(&mut browser, "PIPE_read"), "1 thread, in 2 waits");
    assert_ne!(browser.fingerprint(), unmarked, "the waits are marked");
    let marked = "document.querySelectorAll('#flame .frame.found').length";
    browser.wait_for(&format!("{marked} === 2"));
    let rows = "[...document.querySelectorAll('#blocked tr')].filter((it) => !it.hidden).length";
    assert_eq!(browser.evaluate(rows), 1, "the longest of the thread");
    assert_eq!(search(&mut browser, "b::<c"), "1 thread, in 1 wait");
    let about = "document.getElementById('flame-about').textContent";
    browser.wait_for(&format!("{about}.includes('71 % with “b::<c”')"));
    assert_eq!(browser.evaluate(rows), 1);
    assert_eq!(search(&mut browser, "x.so+"), "1 thread, in 1 wait");
    assert_eq!(browser.evaluate(rows), 0, "that is another wait");
    browser.screenshot(&kept("stacks-search.png"));
    // A link contains the function, with which the thread of the selection is listed.
    browser.open_at(&kept("stacks-search.html"), "#search=pipe_read&slice=41@10000000");
    browser.wait_for("fxtrec.state().selected !== null");
    assert_eq!(browser.evaluate("document.getElementById('search').value"), "pipe_read");
    // Two letters occur in too many names.
    assert_eq!(search(&mut browser, "pi"), "0 threads");
    assert_eq!(search(&mut browser, ""), "");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_flame_graph_says_the_same_as_fxtrec_flame() {
    if !browser::is_there() {
        return;
    }
    let trace = trace();
    let open_trace = || Ok::<_, Error>(Reader::from_slice(&trace));
    let (_, blocked) = blocked(open_trace, Options::default()).expect("sound").expect("stacks");
    let mut browser = Browser::start();
    open(&mut browser, "flame-same.html");
    for (kind, name) in [(Kind::OffCpu, "offcpu"), (Kind::Wake, "wake"), (Kind::Cpu, "cpu")] {
        let profile = Profile::of(kind, &blocked);
        let with_stack = profile.samples.iter().filter(|sample| !sample.frames.is_empty());
        let total: u64 = with_stack.map(|sample| sample.weight).sum();
        choose(&mut browser, name);
        assert_eq!(browser.evaluate("fxtrec.state().flame.total"), total, "{name}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Thread 41 is blocked this many times for 5 to 15 us, each time in one of a thousand functions, with this many callers. The first time is
/// as short as any.
fn many(waits: u64, callers: u64) -> Vec<u8> {
    let mut trace = Writer::new(Vec::<u8>::new());
    trace.start("test", 1_000_000_000).expect("room");
    let switch = |trace: &mut Writer<Vec<u8>>, time, outgoing: u64, incoming: u64| {
        let weight = |koid| Value::Int32(if koid == 0 { i32::MIN } else { 1024 });
        let args = [
            Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
            Arg::new(Text::Inline("outgoing_weight"), weight(outgoing)),
        ];
        let (outgoing, incoming) = (Koid(outgoing), Koid(incoming));
        let (time, outgoing_state) = (Ticks(time), ThreadState::Blocked);
        let switch =
            ContextSwitch { cpu: 0, time, outgoing, incoming, outgoing_state, args: &args };
        trace.write(&switch).expect("room");
    };
    switch(&mut trace, 1_000, 0, 41);
    let thread = ThreadName::Inline { process: Koid(40), thread: Koid(41) };
    for n in 0..waits {
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let begin = (n + 1) * 20_000 + noise / 11 % 1_000;
        switch(&mut trace, begin, 41, 0);
        let mut frames = vec![0x1_0000 + noise / 7 % 1_000 * 64];
        frames.extend((1..=callers).map(|caller| 0x1_0000_0000 + caller * 16));
        let stack = Backtrace { time: Ticks(begin), thread, flags: 0, frames: &frames };
        trace.write(&stack).expect("room");
        let end = Ticks(begin + 5_000 + noise % 9_973);
        trace.write(&Wakeup { cpu: 0, time: end, thread: Koid(41), args: &[] }).expect("room");
        switch(&mut trace, end.0 + 500, 0, 41);
    }
    trace.into_inner()
}

#[test]
fn what_has_no_room_is_left_out_and_the_page_says_so() {
    if !browser::is_there() {
        return;
    }
    let (with, without) = (kept("many.html"), kept("few.html"));
    let waits = 300_000;
    write_page(&many(waits, 3), "many.html");
    write_page(&many(10, 3), "few.html");
    let mut browser = Browser::start();
    browser.open(&with);
    browser.wait_for("fxtrec.state().flame !== null");
    let contents = "JSON.parse(document.getElementById('contents').textContent)";
    let stacks = browser.evaluate(&format!("{contents}.stacks"));
    let left_out = number(&stacks["leftOut"][0]);
    assert!(left_out > 1_000.0, "{stacks}");
    assert_eq!(number(&stacks["waits"]) + left_out, waits as f64);
    // 1 MB, and 2 bytes for each of three events of a wait.
    let bytes = browser.evaluate(&format!(
        "{contents}.stacks.blocks.map((it) => document.getElementById(`block-${{it}}`).textContent.length).reduce((a, b) => a + b)"
    ));
    let room = 1_000_000.0 + 2.0 * 3.0 * waits as f64;
    assert!((room / 4.0..=room).contains(&number(&bytes)), "{bytes} of {room}");
    let said = browser.evaluate("document.getElementById('flame-about').textContent");
    let expected = "are left out to limit the size of the page";
    assert!(said.as_str().is_some_and(|it| it.contains(expected)), "{said}");
    // The first wait is one of the shortest.
    browser.open_at(&with, "#slice=41@19000");
    browser.wait_for("document.querySelector('#selection .stacks .hint') !== null");
    let said = browser.evaluate("document.querySelector('#selection .stacks .hint').textContent");
    assert_eq!(said, "its stack, if it has one, was left out to limit the size of the page");
    browser.open(&without);
    browser.wait_for("fxtrec.state().flame !== null");
    let said = browser.evaluate("document.getElementById('flame-about').textContent");
    assert!(said.as_str().is_some_and(|it| !it.contains("left out")), "{said}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn of_a_deep_stack_the_outer_functions_are_listed_when_asked_for() {
    if !browser::is_there() {
        return;
    }
    let mut browser = Browser::start();
    browser.open_at(&write_page(&many(3, 40), "deep.html"), "#slice=41@19000");
    browser.wait_for("document.querySelector('#selection .stack') !== null");
    let listed = "document.querySelectorAll('#selection .stack li').length";
    assert_eq!(browser.evaluate(listed), 14);
    let more = "document.querySelector('#selection .stacks > button')?.textContent ?? null";
    assert_eq!(browser.evaluate(more), "27 more");
    browser.click_on("#selection .stacks > button");
    assert_eq!(browser.evaluate(listed), 41);
    assert_eq!(browser.evaluate(more), Json::Null);
    let last =
        browser.evaluate("document.querySelector('#selection .stack li:last-child').textContent");
    assert_eq!(last, "0x100000280 ");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
