//! Recordings of two machines whose clocks are aligned by messages between them.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::programs::build;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{binary, tools};

const MESSAGES: usize = 400;

/// The clock of the second recording is ahead by this many nanoseconds.
const AHEAD: i64 = 37_123_456_789;

/// When messages were sent and received, by their numbers.
fn times(path: &Path) -> [BTreeMap<u64, u64>; 2] {
    let trace = Trace::read(path);
    ["sent", "received"].map(|name| {
        let events = trace.events.iter().filter(|event| event.name == name);
        events.map(|event| (event.number("id"), event.time)).collect()
    })
}

/// Both recordings were made at the same time on this machine, so the difference of their clocks is known: it is zero, until the times in
/// one of the files are changed.
#[test]
fn datagrams_between_two_programs_set_the_clocks_of_their_recordings_within_the_bound() {
    if !may_record() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let talk = build("talk.c", &[]);
    let folder = Folder::new();
    // No other descriptor uses this number: it was just released.
    let port = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
    let record = |who: &str| {
        let mut command = binary::command();
        command.current_dir(folder.path("")).args(["--scope", "app", "-q", "-o"]);
        command.arg(format!("{who}.fxt"));
        for function in ["sent", "received"] {
            command.arg("-P").arg(format!(":{function} id=arg1:u64"));
        }
        let (port, count) = (port.to_string(), MESSAGES.to_string());
        command.arg("--").arg(talk.path()).args([who, &port, &count]);
        Process::start(command.stdout(Stdio::null()))
    };
    let [mut server, mut client] = ["server", "client"].map(record);
    // Without a client, the server would wait forever; it ends when dropped.
    assert!(client.finish().success());
    assert!(server.finish().success());

    folder.write("nothing.fxt", 0x0016_5478_4604_0010_u64.to_le_bytes());
    let offset = format!("-{}ns", AHEAD);
    let files = ["nothing.fxt", "server.fxt", "-o", "ahead.fxt", "--offset"];
    folder.fxtrec(["merge"].iter().chain(&files).chain(&[offset.as_str()])).expect(0);
    let merge = ["merge", "client.fxt", "ahead.fxt", "--sync=sent,received,id", "-o", "both.fxt"];
    let said = folder.fxtrec(merge).expect(0).stderr;

    // "ahead.fxt: clock 37.1 s ahead of client.fxt's, wrong by at most 0.0 s: N messages from client.fxt and M back"
    let between = |from: &str, to: &str| {
        let rest = said.split_once(from).unwrap_or_else(|| panic!("{said}")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("{said}")).0.to_owned()
    };
    let nanos = |text: String| -> i64 { text.replace('.', "").parse().expect("nanoseconds") };
    let found = nanos(between("clock ", " s ahead"));
    let bound = nanos(between("wrong by at most ", " s: "));
    assert!((found - AHEAD).abs() <= bound, "{said}");
    assert!((1..100_000_000).contains(&bound), "{said}");
    let forth: usize = between(" s: ", " messages from").parse().expect("a number");
    let back: usize = between("client.fxt and ", " back").parse().expect("a number");
    assert_eq!((forth, back), (MESSAGES, MESSAGES), "{said}");

    // In the merged file, nothing is shifted by more than that relative to the client's time.
    let [sent, received] = times(&folder.path("both.fxt"));
    let of_server = times(&folder.path("server.fxt"));
    for (merged, original) in [&sent, &received].into_iter().zip(&of_server) {
        assert_eq!(original.len(), MESSAGES);
        for (id, time) in original {
            assert!(merged[id].abs_diff(*time) <= bound as u64, "{id}: {} {time}", merged[id]);
        }
    }
    // No message is received before it was sent, by more than that.
    assert_eq!((sent.len(), received.len()), (2 * MESSAGES, 2 * MESSAGES));
    for (id, time) in &sent {
        assert!(received[id] + bound as u64 >= *time, "{id}");
    }
}
