//! `fxtrec demo`: a thread is late for a known reason, and the recording shows it.

use fxtrec_tests::root::may_record;

use crate::command_line::run::Fxtrec;
use crate::command_line::trace::Trace;

#[test]
fn the_demonstration_shows_who_made_the_player_late() {
    if !may_record() {
        return;
    }
    let fxtrec = Fxtrec::new(["demo", "-d", "2s", "--no-browser", "-o", "planted"]);
    let done = fxtrec.run().expect(0);
    let (trace, page) = (done.path("planted.fxt"), done.path("planted.html"));
    assert!(done.stderr.contains("fxtrec report planted.fxt --comm player"), "{}", done.stderr);
    assert!(done.stderr.contains("planted.html"), "{}", done.stderr);
    assert!(std::fs::read_to_string(page).expect("there is a page").contains("<html"));
    let _ = Trace::of(std::fs::File::open(&trace).expect("there is a trace")).expect_complete();
    let path = trace.to_str().expect("a name in UTF-8");
    // It runs for 30 ms with priority over all others, three times in two seconds; the player needs its CPU every 10
    // ms.
    let report = Fxtrec::new(["report", path, "--comm", "player", "--json"]).run().expect(0);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let text = json.to_string();
    assert!(text.contains("hog"), "nobody waited for hog: {text}");
}
