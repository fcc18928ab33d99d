//! Snapshots of the daemon's session.

use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;

use crate::ctl::daemon::Daemon;

#[test]
fn a_circular_session_is_written_as_often_as_one_likes_and_continues() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let start = ["start", "-o", "end.fxt", "--mode", "circular", "--categories", "sched"];
    daemon.ctl(&start).expect(0);
    let first = daemon.ask(&["snapshot", "-o", "first.fxt"]);
    let length = daemon.folder.path("first.fxt").metadata().expect("a file").len();
    assert_eq!(first["bytes"], length);
    assert_eq!(first["output"], daemon.folder.text("first.fxt").as_str());
    assert_eq!(daemon.state(), "started");
    let said = daemon.ctl(&["snapshot"]).expect(0).stdout;
    assert!(said.contains("written to") && said.contains("snapshot.fxt"), "{said}");
    daemon.ctl(&["stop"]).expect(0);
    for file in ["first.fxt", "snapshot.fxt", "end.fxt"] {
        assert!(!Trace::read(&daemon.folder.path(file)).switches.is_empty(), "{file}");
    }
    daemon.end();
}

#[test]
fn without_a_session_that_keeps_anything_there_is_no_snapshot_and_no_file() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let refused = |words: &str| {
        let done = daemon.ctl(&["snapshot", "-o", "s.fxt"]).expect(125);
        assert!(done.stderr.contains(words), "{}", done.stderr);
        assert!(!daemon.folder.path("s.fxt").exists());
    };
    refused("there is no session");
    daemon.ctl(&["start", "-o", "t.fxt", "--categories", "app*"]).expect(0);
    refused("circular");
    daemon.end();
}
