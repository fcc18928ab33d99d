//! Many places at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::tools;

use crate::recorded::ready;

const PLACES: usize = 100;

#[test]
fn a_hundred_places_share_two_events_and_each_keeps_its_name_and_arguments() {
    if ready().is_none() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = Folder::new();
    let mut source = String::new();
    let mut calls = String::new();
    for place in 0..PLACES {
        let body = "{ __asm__ volatile(\"\" ::: \"memory\"); return n + 1; }";
        writeln!(source, "__attribute__((noinline)) int place_{place}(int n) {body}")
            .expect("text");
        writeln!(calls, "  sum += place_{place}({place});").expect("text");
    }
    writeln!(source, "int main(void) {{ int sum = 0;\n{calls}  return sum == 0; }}").expect("text");
    folder.write("many.c", &source);
    let program = folder.text("many");
    succeed(
        std::process::Command::new("gcc").args(["-O1", "-o", &program]).arg(folder.path("many.c")),
    );
    // COMMAND sees what was defined, and then is the program.
    let script = format!(
        "cat /sys/kernel/tracing/uprobe_events /sys/kernel/debug/tracing/uprobe_events 2>/dev/null; exec {program}"
    );
    let probe = format!("{program}:place_*%span n=arg1:s32 after=ret:s32");
    let recording = record_in(&folder, &["-P", &probe], &["sh", "-c", &script]);
    for place in 0..PLACES {
        let name = format!("place_{place}");
        let hits: Vec<_> = recording.named(&name).collect();
        let [begin, end] = hits[..] else { panic!("{hits:?}") };
        assert!(begin.begins() && end.ends(), "{hits:?}");
        assert_eq!(begin.arg("n"), place.to_string());
        assert_eq!(end.arg("after"), (place + 1).to_string());
    }
    // Recorders of other tests may have defined events as well, in groups of their own: "p:fxtrec_10_99/p0 ...".
    let group = |line: &str| line.split(['/', ':']).nth(1).map(str::to_owned);
    let mut groups: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for line in recording.printed.lines().filter(|line| line.contains("fxtrec_site")) {
        groups.entry(group(line)).or_default().push(line);
    }
    let ours = groups.into_values().max_by_key(Vec::len).expect("some are defined");
    let events: BTreeSet<_> = ours.iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(ours.len() >= 2 * PLACES, "{} lines", ours.len());
    assert_eq!(events.len(), 2, "one of calls and one of returns: {events:?}");
}
