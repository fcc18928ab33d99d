//! A page from the command line: a real recording, and possible errors.

use std::path::Path;
use std::process::Output;

use fxtrec_tests::binary;
use fxtrec_tests::root::may_record;
use serde_json::Value;

use super::browser::{self, Browser, number};
use super::kept;
use super::scene::Scene;

fn report(trace: &Path, html: &Path) -> Output {
    let mut command = binary::command();
    command.arg("report").arg(trace).arg("--html").arg(html);
    command.output().expect("fxtrec runs")
}

#[test]
fn a_recording_becomes_a_page_with_the_threads_that_ran() {
    if !may_record() || !browser::is_there() {
        return;
    }
    let trace = kept("recording.fxt");
    let script = "for i in 1 2 3 4 5; do sleep 0.02; done";
    let recorded = binary::command()
        .args(["-q", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", script])
        .status()
        .expect("fxtrec runs");
    assert!(recorded.success(), "{recorded}");
    let page = kept("recording.html");
    let made = report(&trace, &page);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(!made.stdout.is_empty(), "the report is printed too");

    let mut browser = Browser::start();
    browser.open(&page);
    for letter in ["/", "s", "l", "e", "e", "p"] {
        browser.press(letter);
    }
    let found = browser.evaluate("parseInt(document.getElementById('found').textContent)");
    assert!(number(&found) >= 5.0, "each sleep is a thread: {found}");
    browser.press("Enter");
    let state = browser.state();
    assert_eq!(state["current"]["kind"], "thread");
    assert!(number(&state["paint"]["drawn"]) > 0.0);
    browser.screenshot(&kept("recording.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_of_a_recording_has_the_stacks_that_the_report_has() {
    if !may_record() || !browser::is_there() {
        return;
    }
    let trace = kept("recorded-stacks.fxt");
    let script = "for i in 1 2 3 4 5; do sleep 0.02; done";
    let recorded = binary::command()
        .args(["-q", "--stacks=wake", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", script])
        .status()
        .expect("fxtrec runs");
    assert!(recorded.success(), "{recorded}");
    let page = kept("recorded-stacks.html");
    let made = report(&trace, &page);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let stacks = binary::command()
        .args(["report", "--stacks", "--json", "--comm", "sleep", "--worst", "5"])
        .arg(&trace)
        .output()
        .expect("fxtrec runs");
    let stacks: Value = serde_json::from_slice(&stacks.stdout).expect("JSON");
    let worst = stacks["worst"].as_array().expect("a list");
    let worst: Vec<&Value> = worst.iter().filter(|wait| !wait["frames"].is_null()).collect();
    assert!(worst.len() >= 3, "{stacks}");

    let mut browser = Browser::start();
    browser.open(&page);
    let contents = "JSON.parse(document.getElementById('contents').textContent)";
    let begin = browser.evaluate(&format!("{contents}.begin"));
    let begin: u64 = begin.as_str().and_then(|it| it.parse().ok()).expect("a time");
    for wait in worst {
        let at = wait["begin_ns"].as_u64().expect("ns") - begin;
        let koid = browser.evaluate(&format!(
            "{contents}.threads.map(([koid]) => koid).find((koid) => koid % 2 ** 22 === {})",
            wait["tid"]
        ));
        browser.open_at(&page, &format!("#slice={koid}@{at}"));
        browser.wait_for("document.querySelector('#selection .stack') !== null");
        browser.evaluate("document.querySelector('#selection .stacks > button')?.click()");
        let shown = browser.evaluate(
            "[...document.querySelector('#selection .stack').children].map((row) => row.querySelector('span').textContent)",
        );
        let frames = wait["frames"].as_array().expect("a list");
        let shown = shown.as_array().expect("a list");
        assert_eq!(shown.len(), frames.len(), "{shown:?} {frames:?}");
        for (shown, frame) in shown.iter().zip(frames) {
            // Without a name, the file and the address in it are shown.
            match frame["function"].as_str() {
                Some(function) => assert_eq!(shown, function),
                None => assert!(shown.as_str().is_some_and(|it| it.contains("0x")), "{shown}"),
            }
        }
    }
    browser.screenshot(&kept("recorded-stacks.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    let trace = kept("small.fxt");
    let scene = Scene { cpus: 1, threads: 3, events: 50, spans: false, gap: false };
    std::fs::write(&trace, scene.trace()).expect("cargo's folder can be written to");
    let made = report(&trace, Path::new("/proc/no/page.html"));
    assert_eq!(made.status.code(), Some(125));
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(said.contains("cannot create /proc/no/page.html"), "{said}");
}
