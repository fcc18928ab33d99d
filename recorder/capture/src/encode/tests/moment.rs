//! Boundaries between parts of a trace, and the reconstructed beginning of a trace whose first part is lost.

use fxt_reader::Reader;

use super::{LOST, Scene, comm, renamed, switch, wakeup};
use crate::encode::moment::rewind::{rewind, rewind_trace};
use crate::encode::moment::{MachineState, RunnableThread};
use crate::event::Switch;
use crate::flight::watch::Watch;
use fxt_writer::Koid;
use fxtrec_units::Nanos;

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.encoder.watch_with(Watch::only_ledger());
    scene
}

fn contender(koid: u64) -> RunnableThread {
    RunnableThread { koid: Koid(koid), weight: 1024 }
}

/// Ends the part, and continues in a new one with the required beginning.
fn rotate(scene: &mut Scene, time: u64) {
    let beginning = scene.encoder.rotate(Nanos(time)).expect("memory takes every record");
    scene.begin_anew(&beginning);
}

#[test]
fn a_piece_begins_with_the_names_of_all_that_live_who_runs_and_who_waits() {
    let mut scene = scene();
    scene.at(90, 1, switch(0, "R", 9));
    scene.at(95, 1, switch(9, "X", 0));
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(105, 0, renamed((5, 5), "worker"));
    scene.at(110, 1, wakeup(7, 0));
    scene.reported();
    rotate(&mut scene, 120);
    let mut reported = scene.reported();
    reported[..6].sort();
    assert_eq!(
        reported,
        [
            "process 0 = swapper",
            "process 5 = worker",
            "process 7 = t7",
            "thread 0 = swapper of 0",
            "thread 5 = worker of 5",
            "thread 7 = t7 of 7",
            "120 cpu 0: 0 (idle) running -> 5 (1024) inferred=true",
            "120 cpu 0: wakes 7 (1024) inferred=true",
        ]
    );
    scene.at(130, 0, switch(5, "S", 7));
    assert_eq!(
        scene.reported(),
        ["130 cpu 0: 5 (1024) blocked -> 7 (1024)"],
        "names are there already"
    );
}

#[test]
fn a_name_that_changes_in_a_piece_is_in_the_next_as_it_is_then() {
    let mut scene = scene();
    scene.at(100, 0, switch(0, "R", 5));
    rotate(&mut scene, 110);
    scene.at(120, 0, renamed((5, 5), "later"));
    scene.at(130, 0, Switch { prev_comm: comm("later"), ..switch(5, "S", 0) });
    rotate(&mut scene, 140);
    assert!(scene.named().contains(&"thread 5 = later of 5".to_owned()));
}

#[test]
fn what_is_doubtful_when_a_piece_begins_is_left_out_of_it() {
    let mut scene = scene();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(100, 1, switch(0, "R", 6));
    scene.at(110, 1, wakeup(7, 6));
    scene.at(120, 0, LOST);
    rotate(&mut scene, 130);
    assert_eq!(scene.scheduled(), ["130 cpu 1: 0 (idle) running -> 6 (1024) inferred=true"]);
    // It is unknown which thread was on the CPU meanwhile, so nothing is inferred.
    scene.at(140, 0, switch(8, "S", 0));
    assert_eq!(scene.scheduled(), ["140 cpu 0: 8 (1024) blocked -> 0 (idle)"]);
}

/// When a trace begins, and the open spans and waits at that time, derived from the relevant records and from all records; both results
/// must agree.
pub(super) fn both_ways(
    head: &[u8],
    pieces: &[&[u8]],
    now: &MachineState,
) -> Option<(Nanos, MachineState)> {
    let whole = [head, &pieces.concat()].concat();
    let begun = rewind(head, pieces, now).expect("a sound trace");
    let read = rewind_trace(&mut Reader::from_slice(&whole), now).expect("a sound trace");
    assert_eq!(begun, read);
    begun
}

/// The open spans and waits at the beginning of a scene's trace.
fn rewound(scene: &mut Scene) -> (u64, MachineState) {
    let now = scene.encoder.present();
    let bytes = scene.encoder.lanes().clone();
    let begun = both_ways(&[], &[&bytes], &now);
    let (time, moment) = begun.expect("there is something in it");
    (time.0, moment)
}

#[test]
fn a_trace_without_its_first_part_shows_who_had_each_cpu_and_who_waits_all_the_time() {
    let mut scene = scene();
    for cpu in 0..4 {
        scene.at(100, cpu, switch(0, "R", 5 + cpu));
    }
    scene.at(110, 3, wakeup(20, 8));
    // Everything so far is overwritten.
    let names = scene.encoder.names();
    scene.begin_anew(&names);
    scene.at(200, 0, wakeup(30, 5));
    scene.at(210, 0, switch(5, "S", 30));
    scene.at(220, 1, LOST);
    scene.at(230, 1, switch(6, "S", 0));
    scene.at(240, 2, switch(7, "S", 0));
    let (time, moment) = rewound(&mut scene);
    assert_eq!(time, 200);
    let cpus: Vec<_> = moment.cpus.into_iter().collect();
    // CPU 3 had no switch; the state of CPU 1, and the state after the loss, are unknown.
    assert_eq!(cpus, [(0, contender(5)), (3, contender(8))]);
    assert!(moment.waiting.is_empty(), "after a loss");
}

#[test]
fn a_thread_without_a_record_waits_since_before_the_trace() {
    let mut scene = scene();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, wakeup(20, 5));
    scene.at(110, 0, wakeup(21, 5));
    let names = scene.encoder.names();
    scene.begin_anew(&names);
    scene.at(200, 0, switch(5, "R", 20));
    let waiting: Vec<_> = rewound(&mut scene).1.waiting.into_iter().collect();
    assert_eq!(waiting, [(Koid(21), (0, 1024))], "5 was running, 20 came in, 21 waits still");
}
