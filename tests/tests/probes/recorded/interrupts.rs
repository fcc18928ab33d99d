//! `--irq`: durations on a track of each CPU.

use fxtrec_tests::recording::record;

use crate::recorded::ready;

#[test]
fn interrupts_are_on_tracks_of_their_cpus_under_their_names() {
    let Some(program) = ready() else { return };
    let recording = record(&["--irq"], &[program, "nap", "2", "50"]);
    let begins: Vec<_> = recording.trace.events.iter().filter(|hit| hit.begins()).collect();
    assert_eq!(recording.probe_count("interrupts"), begins.len() as u64);
    // A sleep of a millisecond ends by a timer's interrupt.
    assert!(!begins.is_empty(), "{}", recording.said);
    for hit in &recording.trace.events {
        assert!(hit.begins() || hit.ends(), "{hit:?}");
        assert!(matches!(hit.category.as_str(), "irq" | "softirq"), "{hit:?}");
        let (name, process) = &recording.trace.threads[&hit.thread];
        assert!(name.starts_with("CPU "), "{name}");
        assert_eq!(recording.trace.processes[process], "interrupts");
        assert!(!matches!(hit.name.as_str(), "unknown" | ""), "{hit:?}");
    }
    assert!(recording.said.contains("interrupts "), "{}", recording.said);
}
