//! Loads known threads from `/proc`, whichever pid namespace it shows.

use super::{Proc, Scene, comm, identity, renamed, switch, wakeup};
use crate::encode::ids::Ids;
use crate::encode::snapshot::load;
use crate::encode::threads::Threads;
use crate::event::{LocalId, Switch};
use fxtrec_kernel::namespaces::{Namespaces, ProcView};
use fxtrec_kernel::procfs::{Process, Snapshot, Thread};
use fxtrec_units::{Nanos, Tid};

fn thread(name: &str, ids: &[u32]) -> Thread {
    Thread { tid: ids[0], comm: name.into(), ids: ids.to_vec() }
}

fn process(name: &str, threads: Vec<Thread>) -> Process {
    Process { pid: threads[0].tid, parent: 1, name: name.into(), cgroup: None, threads }
}

/// Loads `processes` as a recorder with these ids, from `/proc`'s namespace to its own.
fn loaded(proc_view: ProcView, own_ids: &[u32], processes: Vec<Process>) -> Scene {
    let initial_pid = proc_view == ProcView::Initial && own_ids.len() == 1;
    let namespaces =
        Namespaces { initial_pid, initial_user: true, proc_view, own_ids: own_ids.to_vec() };
    let ids = if initial_pid { Ids::Initial } else { Ids::inner() };
    let mut threads = Threads::new(ids, Box::new(Proc::default()));
    load(&mut threads, &Snapshot { processes }, &namespaces, Nanos(5));
    Scene::of(threads)
}

/// How `tids` are named as wakers, without an event that has their names.
fn names_of_wakers(scene: &mut Scene, tids: &[u32]) -> Vec<String> {
    for (cpu, &tid) in (0_u32..).zip(tids) {
        scene.at(100, cpu, wakeup(900 + cpu, tid));
    }
    scene.named().into_iter().filter(|line| !line.contains("= t90")).collect()
}

#[test]
fn in_the_initial_namespace_everything_is_known_by_its_number() {
    let app = process("the-app", vec![thread("main", &[40]), thread("worker", &[41])]);
    let other = process("other", vec![thread("other", &[50])]);
    let mut scene = loaded(ProcView::Initial, &[70], vec![app, other]);
    assert_eq!(scene.encoder.threads().living(), 4);
    assert_eq!(
        names_of_wakers(&mut scene, &[41, 50, 40]),
        [
            "process 40 = the-app",
            "thread 41 = worker of 40",
            "process 50 = other",
            "thread 50 = other of 50",
            "thread 40 = main of 40",
        ]
    );
}

#[test]
fn the_initial_proc_tells_an_inner_recorder_both_ids_and_who_is_outside() {
    let within = process("within", vec![thread("main", &[600, 3]), thread("worker", &[601, 4])]);
    let outside = process("outside", vec![thread("outer", &[50]), thread("second", &[51])]);
    let mut scene = loaded(ProcView::Initial, &[570, 2], vec![within, outside]);
    assert_eq!(scene.encoder.threads().tid_of(LocalId(4)), Some(Tid(601)));
    assert_eq!(scene.encoder.threads().tid_of(LocalId(50)), None);
    scene.at(50, 9, renamed((3, 4), "renamed"));
    assert_eq!(
        names_of_wakers(&mut scene, &[601, 51, 50]),
        [
            "process 600 = within",
            "thread 601 = renamed of 600",
            "process 50 = outside",
            "thread 51 = second of 50",
            "thread 50 = outer of 50",
        ]
    );
}

#[test]
fn an_own_proc_gives_names_that_wait_for_the_tracepoints_ids() {
    let app = process("the-app", vec![thread("main", &[3]), thread("worker", &[4])]);
    let mut scene = loaded(ProcView::Own, &[2], vec![app]);
    assert_eq!(scene.encoder.threads().living(), 1);
    scene.at(50, 0, identity(600, (3, 3)));
    scene.at(50, 1, identity(601, (3, 4)));
    assert_eq!(
        names_of_wakers(&mut scene, &[600, 601]),
        ["process 600 = the-app", "thread 600 = main of 600", "thread 601 = worker of 600"]
    );
}

#[test]
fn a_proc_in_between_gives_what_is_within_and_leaves_out_the_rest() {
    let within = process("within", vec![thread("main", &[40, 3]), thread("worker", &[41, 4])]);
    let beside = process("beside", vec![thread("beside", &[30])]);
    let mut scene = loaded(ProcView::Between, &[70, 2], vec![within, beside]);
    assert_eq!(scene.encoder.threads().living(), 1);
    scene.at(50, 0, identity(600, (3, 3)));
    scene.at(50, 1, identity(601, (3, 4)));
    assert_eq!(
        names_of_wakers(&mut scene, &[600, 601, 30]),
        [
            "process 600 = within",
            "thread 600 = main of 600",
            "thread 601 = worker of 600",
            // 30 is its id in the intermediate namespace, which tracepoints do not use.
            "process 30 = [30]",
            "thread 30 = [30] of 30",
        ]
    );
}

#[test]
fn a_foreign_proc_gives_nothing() {
    let stranger = process("stranger", vec![thread("stranger", &[3])]);
    let mut scene = loaded(ProcView::Foreign, &[], vec![stranger]);
    scene.at(50, 0, identity(600, (3, 3)));
    assert_eq!(
        names_of_wakers(&mut scene, &[600]),
        ["process 600 = [600]", "thread 600 = [600] of 600"]
    );
}

#[test]
fn a_name_of_the_snapshot_gives_way_to_that_of_the_first_event() {
    let app = process("the-app", vec![thread("as-it-was", &[40])]);
    let mut scene = loaded(ProcView::Initial, &[70], vec![app]);
    scene.at(100, 0, Switch { prev_comm: comm("as-it-is"), ..switch(40, "S", 0) });
    assert_eq!(scene.named()[..2], ["process 40 = the-app", "thread 40 = as-it-is of 40"]);
}

#[test]
fn two_threads_of_one_process_outside_are_not_taken_for_an_exec() {
    let outside = process("outside", vec![thread("t50", &[50]), thread("t51", &[51])]);
    let mut scene = loaded(ProcView::Initial, &[570, 2], vec![outside]);
    scene.at(100, 0, switch(0, "R", 51));
    scene.at(110, 0, switch(50, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 0 (idle) running -> 51 (1024)",
            "110 cpu 0: 51 (1024) blocked -> 50 (1024) inferred=true",
            "110 cpu 0: 50 (1024) blocked -> 0 (idle)",
        ]
    );
}
