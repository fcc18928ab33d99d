//! Hits of a function, with their arguments and threads.

use std::process::{Command, Stdio};

use fxt_reader::record::EventKind;
use fxtrec_tests::process::Process;
use fxtrec_tests::recording::record;

use crate::recorded::ready;

#[test]
fn every_hit_is_there_in_order_with_its_thread_and_arguments() {
    let Some(program) = ready() else { return };
    let recording =
        record(&["-P", ":tick n=arg1:s32 name=arg2:str at=arg2"], &[program, "ticks", "500"]);
    let hits: Vec<_> = recording.named("tick").collect();
    assert_eq!(hits.len(), 500);
    for (n, hit) in hits.iter().enumerate() {
        assert_eq!((hit.kind, hit.category.as_str()), (EventKind::Instant, "uprobe"));
        assert_eq!(hit.arg("n"), n.to_string());
        assert_eq!(hit.arg("name"), format!("tick-{n}"));
        assert_eq!(hit.thread, hit.process, "the main thread does it");
    }
    assert_eq!(recording.trace.processes[&hits[0].process], "spans");
    assert_eq!(recording.probe_count("probe_hits"), 500);
    assert!(recording.said.contains("probes     500 hits"), "{}", recording.said);
}

/// A thread that is hit has a CPU: the last switch on that CPU switched it in.
#[test]
fn a_thread_that_is_hit_is_running() {
    let Some(program) = ready() else { return };
    let recording = record(&["-P", ":nap"], &[program, "nap", "3", "20"]);
    let hits: Vec<_> = recording.named("nap").collect();
    assert_eq!(hits.len(), 60);
    for hit in hits {
        let mut switches = recording.trace.switches.iter().filter(|switch| switch.time <= hit.time);
        let last = switches.rfind(|s| s.incoming == hit.thread || s.outgoing == hit.thread);
        assert_eq!(last.map(|switch| switch.incoming), Some(hit.thread), "{hit:?}");
    }
}

#[test]
fn a_return_is_an_event_with_the_value() {
    let Some(program) = ready() else { return };
    let recording = record(&["-P", "back=:nap%return v=ret:s32"], &[program, "nap", "2", "5"]);
    assert_eq!(recording.count("back"), 10);
    let mut values = recording.values("back", "v");
    values.sort_unstable();
    assert_eq!(values, ["1", "1", "2", "2", "3", "3", "4", "4", "5", "5"]);
}

#[test]
fn only_the_commands_processes_count_and_all_of_them_do() {
    let Some(program) = ready() else { return };
    let probe = format!("{program}:tick");
    let both = format!("{program} ticks 30 & {program} tree 20; wait");
    let tree = record(&["-P", &probe], &["sh", "-c", &both]);
    assert_eq!(tree.count("tick"), 70, "children and children's children of the command");

    // Outside of the scope, processes hit the probe all the time.
    let forever = format!("while {program} ticks 5; do :; done");
    let mut outside =
        Process::start(Command::new("sh").args(["-c", &forever]).stdout(Stdio::null()));
    let narrow = record(&["-P", &probe], &[program, "ticks", "30"]);
    let wide =
        record(&["-a", "-P", &probe], &["sh", "-c", &format!("{program} ticks 30; sleep 0.3")]);
    outside.kill();
    assert_eq!(narrow.count("tick"), 30);
    assert!(wide.count("tick") > 30, "with -a everybody counts");
}

#[test]
fn a_million_hits_are_all_there_with_default_sizes() {
    let Some(program) = ready() else { return };
    let recording = record(&["-P", ":tick"], &[program, "ticks", "1000000"]);
    assert_eq!(recording.count("tick"), 1_000_000);
    assert_eq!(recording.probe_count("probe_hits"), 1_000_000);
}
