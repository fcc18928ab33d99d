//! Many places at the same time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::{Recording, record_in};
use fxtrec_tests::tools;

use crate::recorded::ready;

const PLACES: usize = 100;

/// How often each of them is hit.
const CALLS: usize = 40;

/// Builds a program that calls `place_0(0)`, `place_1(1)` and so on, all of them [`CALLS`] times; each returns one more.
fn build(folder: &Folder) -> String {
    let (mut source, mut calls) = (String::new(), String::new());
    for place in 0..PLACES {
        let body = "{ __asm__ volatile(\"\" ::: \"memory\"); return n + 1; }";
        writeln!(source, "__attribute__((noinline)) int place_{place}(int n) {body}")
            .expect("text");
        writeln!(calls, "    sum += place_{place}({place});").expect("text");
    }
    let all = format!("for (int n = 0; n < {CALLS}; n++) {{\n{calls}  }}");
    writeln!(source, "int main(void) {{ int sum = 0;\n  {all}\n  return sum == 0; }}")
        .expect("text");
    folder.write("many.c", &source);
    let program = folder.text("many");
    succeed(Command::new("gcc").args(["-O1", "-o", &program]).arg(folder.path("many.c")));
    program
}

/// Records the program with this source. Before it runs, COMMAND prints the definitions in tracefs, and its parent.
fn record(folder: &Folder, source: &str, probes: &[String], program: &str) -> Recording {
    let script = format!(
        "echo recorder $PPID; cat /sys/kernel/tracing/uprobe_events /sys/kernel/debug/tracing/uprobe_events 2>/dev/null; exec {program}"
    );
    let options: Vec<&str> = probes.iter().flat_map(|probe| ["-P", probe]).collect();
    let options = [&["--source", source], &options[..]].concat();
    record_in(folder, &options, &["sh", "-c", &script])
}

/// The events that the recording defined in tracefs, and at how many places.
fn defined(recording: &Recording) -> (BTreeSet<&str>, usize) {
    let printed = recording.printed.lines();
    let recorder = printed.clone().find_map(|line| line.strip_prefix("recorder "));
    let group = format!(":fxtrec_{}_", recorder.expect("it was printed"));
    // Both paths may lead to the same list.
    let lines: BTreeSet<&str> = printed.filter(|line| line.contains(&group)).collect();
    (lines.iter().filter_map(|line| line.split(' ').next()).collect(), lines.len())
}

/// Whether one BPF link can have many places (since Linux 6.6).
fn has_links() -> bool {
    let release = fxtrec::kernel::machine::Machine::current().release;
    fxtrec::kernel::machine::version(&release).is_some_and(|version| version >= (6, 6))
}

/// A directory with the program.
fn built() -> Option<(Folder, String)> {
    if ready().is_none() || !tools::or_skip(&["gcc"]) {
        return None;
    }
    let folder = Folder::new();
    let program = build(&folder);
    Some((folder, program))
}

#[test]
fn a_hundred_places_are_counted_exactly_by_each_source() {
    let Some((folder, program)) = built() else { return };
    let probe = format!("{program}:place_*%span n=arg1:s32 after=ret:s32");
    for source in ["bpf", "perf"] {
        let recording = record(&folder, source, std::slice::from_ref(&probe), &program);
        for place in 0..PLACES {
            let name = format!("place_{place}");
            let hits: Vec<_> = recording.named(&name).collect();
            assert_eq!(hits.len(), 2 * CALLS, "{source}: {name}");
            for call in hits.chunks(2) {
                let [begin, end] = call else { panic!("{call:?}") };
                assert!(begin.begins() && end.ends(), "{call:?}");
                assert_eq!(begin.arg("n"), place.to_string());
                assert_eq!(end.arg("after"), (place + 1).to_string());
            }
        }
        assert_eq!(recording.probe_count("probe_hits"), (PLACES * CALLS) as u64);
        let (events, places) = defined(&recording);
        match source == "bpf" && has_links() {
            true => assert_eq!(places, 0, "links hold them"),
            false => assert_eq!((events.len(), places), (2, 2 * PLACES), "calls and returns"),
        }
    }
}

#[test]
fn a_hundred_places_without_arguments_are_counted_exactly_by_each_source() {
    let Some((folder, program)) = built() else { return };
    let probe = format!("{program}:place_*");
    for source in ["bpf", "perf"] {
        let recording = record(&folder, source, std::slice::from_ref(&probe), &program);
        let counted = (0..PLACES).map(|n| recording.count(&format!("place_{n}")));
        assert_eq!(counted.collect::<Vec<_>>(), [CALLS; PLACES], "{source}");
    }
}

/// A program cannot wait for memory, so the kernel's own probes fetch from it, next to links or in their place.
#[test]
fn places_with_arguments_in_memory_share_an_event_and_others_a_link() {
    let Some((folder, program)) = built() else { return };
    let probes: Vec<String> = (0..20)
        .map(|n| match n < 10 {
            true => format!("{program}:place_{n} in_{n}=arg1:s32"),
            false => format!("{program}:place_{n} from_{n}=+0(%sp):u64 also_{n}=arg1:s32"),
        })
        .collect();
    for source in ["bpf", "perf"] {
        let recording = record(&folder, source, &probes, &program);
        for n in 0..20 {
            let name = format!("place_{n}");
            let number = n.to_string();
            if n < 10 {
                assert_eq!(recording.values(&name, &format!("in_{n}")), [&number[..]; CALLS]);
                continue;
            }
            assert_eq!(recording.values(&name, &format!("also_{n}")), [&number[..]; CALLS]);
            // The address to which each one returns, all in one loop.
            let argument = format!("from_{n}");
            let from = recording.values(&name, &argument);
            let addresses: BTreeSet<_> = from.iter().collect();
            assert_eq!((from.len(), addresses.len()), (CALLS, 1), "{source}: {name}");
            assert!(!addresses.contains(&"0"), "{from:?}");
        }
        let expected = if source == "bpf" && has_links() { (1, 10) } else { (2, 20) };
        let (events, places) = defined(&recording);
        assert_eq!((events.len(), places), expected, "{source}: {events:?}");
    }
}
