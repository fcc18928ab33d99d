//! Inside a pid namespace: tracepoints use other ids than forks and names.

use super::{
    LOST, Proc, SECOND, Scene, comm_of, fork, identity, interrupt, renamed, switch, wakeup,
    wakeup_new,
};
use crate::encode::ids::Ids;
use crate::encode::threads::Threads;
use crate::event::{LocalId, Wake};
use fxtrec_units::{Nanos, Tid};

/// The koid of a process if only the inner id of its main thread is known.
const INNER: u64 = 0x8000_0000;

fn inner(proc: Proc) -> Threads {
    Threads::new(Ids::inner(), Box::new(proc))
}

/// Thread 500, which is thread 2 in the namespace and has a name, has CPU 0.
fn five_hundred_is_two() -> Scene {
    let mut scene = Scene::of(inner(Proc::default()));
    scene.at(10, 0, identity(500, (2, 2)));
    scene.at(10, 0, switch(500, "S", 0));
    scene.at(20, 0, identity(500, (2, 2)));
    scene.at(20, 0, switch(0, "R", 500));
    scene.reported();
    scene
}

#[test]
fn a_thread_is_known_by_the_tid_of_the_tracepoints_and_looked_up_by_its_inner_one() {
    let proc = Proc { names: vec![(2, "the-whole-name-of-it")], ..Proc::default() };
    let mut scene = Scene::of(inner(proc));
    scene.at(10, 0, identity(500, (2, 2)));
    scene.at(10, 0, switch(500, "S", 0));
    assert_eq!(
        scene.reported(),
        [
            "process 500 = the-whole-name-of-it",
            "thread 500 = t500 of 500",
            "process 0 = swapper",
            "thread 0 = swapper of 0",
            "10 cpu 0: 500 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn a_thread_of_a_known_process_belongs_to_it() {
    let mut scene = five_hundred_is_two();
    scene.at(100, 0, switch(500, "S", 0));
    scene.at(110, 1, identity(501, (2, 3)));
    scene.at(110, 1, switch(501, "S", 0));
    assert_eq!(scene.named(), ["thread 501 = t501 of 500"]);
}

#[test]
fn a_process_whose_main_thread_was_never_seen_has_a_koid_beyond_all_tids() {
    let mut scene = Scene::of(inner(Proc::default()));
    scene.at(10, 0, identity(501, (2, 3)));
    scene.at(10, 0, switch(501, "S", 0));
    let named = scene.named();
    assert_eq!(
        named[..2],
        [format!("process {} = t501", INNER + 2), format!("thread 501 = t501 of {}", INNER + 2)]
    );
}

#[test]
fn a_fork_meets_its_tid_at_the_first_wake_up_by_its_parent() {
    let mut scene = five_hundred_is_two();
    scene.at(100, 0, fork((3, 3), (2, 2)));
    scene.at(101, 0, Wake { comm: comm_of(500), ..wakeup_new(600, 500) });
    assert_eq!(
        scene.reported(),
        [
            "process 600 = t500",
            "thread 600 = t500 of 600",
            "101 cpu 0: wakes 600 (1024) waker=koid:500",
        ]
    );
    scene.at(110, 0, renamed((3, 3), "child"));
    scene.at(120, 0, switch(500, "S", 600));
    assert_eq!(scene.named(), ["process 600 = child", "thread 600 = child of 600"]);
}

#[test]
fn a_new_thread_within_belongs_to_the_process_of_its_fork() {
    let mut scene = five_hundred_is_two();
    scene.at(100, 0, fork((2, 7), (2, 2)));
    scene.at(101, 0, wakeup_new(607, 500));
    assert_eq!(scene.named(), ["thread 607 = t607 of 500"]);
}

#[test]
fn a_name_waits_until_its_tid_is_known() {
    let mut scene = Scene::of(inner(Proc::default()));
    scene.at(10, 0, renamed((4, 4), "waited"));
    assert_eq!(scene.reported(), [] as [&str; 0]);
    scene.at(20, 0, identity(700, (4, 4)));
    scene.at(20, 0, interrupt(wakeup(701, 700)));
    scene.at(30, 1, wakeup(702, 700));
    let named: Vec<String> =
        scene.named().into_iter().filter(|line| line.contains(" 700 = ")).collect();
    assert_eq!(named, ["process 700 = waited", "thread 700 = waited of 700"]);
}

#[test]
fn a_name_that_waited_too_long_gives_way_to_that_of_a_switch() {
    let mut scene = Scene::of(inner(Proc::default()));
    scene.at(10, 0, renamed((4, 5), "waited"));
    scene.at(15, 0, LOST);
    scene.reported();
    scene.at(20, 0, identity(700, (4, 5)));
    scene.at(20, 0, switch(700, "S", 0));
    let last = scene.named().into_iter().rfind(|line| line.starts_with("thread 700"));
    assert_eq!(last, Some(format!("thread 700 = t700 of {}", INNER + 4)));
}

#[test]
fn threads_outside_of_the_namespace_are_processes_of_their_own() {
    let mut scene = Scene::of(inner(Proc::default()));
    scene.at(10, 0, identity(800, (0, 0)));
    scene.at(10, 0, switch(800, "S", 801));
    assert_eq!(
        scene.named(),
        [
            "process 800 = t800",
            "thread 800 = t800 of 800",
            "process 801 = t801",
            "thread 801 = t801 of 801",
        ]
    );
}

#[test]
fn a_thread_that_was_taken_for_an_outsider_joins_its_process_when_it_shows_its_ids() {
    let mut scene = five_hundred_is_two();
    scene.at(100, 0, switch(500, "S", 501));
    assert_eq!(scene.named(), ["process 501 = t501", "thread 501 = t501 of 501"]);
    scene.at(110, 0, identity(501, (2, 3)));
    scene.at(110, 0, switch(501, "S", 0));
    assert_eq!(scene.named(), ["thread 501 = t501 of 500"]);
}

#[test]
fn a_thread_that_has_ended_leaves_its_inner_id_to_the_next() {
    let mut scene = five_hundred_is_two();
    for (time, tid) in [(100, 600), (200, 601)] {
        scene.at(time, 0, fork((3, 3), (2, 2)));
        scene.at(time + 1, 0, wakeup_new(tid, 500));
        scene.at(time + 2, 0, switch(500, "S", tid));
        scene.at(time + 3, 0, switch(tid, "Z", 500));
        let named = scene.named();
        assert_eq!(
            named,
            [format!("process {tid} = t500"), format!("thread {tid} = t{tid} of {tid}")]
        );
        assert_eq!(scene.encoder.threads().living(), 2);
        assert_eq!(scene.encoder.threads().tid_of(LocalId(3)), None);
    }
}

#[test]
fn a_tid_of_the_tracepoints_that_is_used_again_is_another_thread() {
    let mut scene = five_hundred_is_two();
    scene.at(100, 0, fork((3, 3), (2, 2)));
    scene.at(101, 0, wakeup_new(600, 500));
    scene.reported();
    // Its end was not recorded.
    scene.at(200, 0, fork((4, 4), (2, 2)));
    scene.at(201, 0, wakeup_new(600, 500));
    let koid = 600 + SECOND;
    assert_eq!(
        scene.reported(),
        [
            format!("process {koid} = t500"),
            format!("thread {koid} = t600 of {koid}"),
            format!("201 cpu 0: wakes {koid} (1024) waker=koid:500"),
        ]
    );
    assert_eq!(scene.encoder.threads().tid_of(LocalId(4)), Some(Tid(600)));
    assert_eq!(scene.encoder.threads().tid_of(LocalId(3)), None);
}

#[test]
fn a_process_put_in_scope_stays_in_scope_when_its_fork_is_in_the_snapshot() {
    let mut threads = inner(Proc::default());
    threads.begin_snapshot(Nanos(1000));
    let command = threads.add_process(LocalId(3), b"command");
    threads.add_thread(command, Some(LocalId(3)), None, comm_of(600));
    threads.include(LocalId(3));
    let mut scene = Scene::narrow(threads);
    scene.at(900, 0, identity(500, (2, 2)));
    scene.at(900, 0, fork((3, 3), (2, 2)));
    scene.at(901, 0, interrupt(wakeup_new(600, 500)));
    scene.at(910, 0, identity(500, (2, 2)));
    scene.at(910, 0, switch(500, "S", 600));
    assert_eq!(
        scene.reported(),
        [
            "process 600 = command",
            "thread 600 = t600 of 600",
            "901 cpu 0: wakes 600 (1024)",
            "process 3489660928 = not recorded",
            "thread 3489660929 = not recorded of 3489660928",
            "process 500 = [500]",
            "thread 500 = [500] of 500",
            "901 cpu 0: 3489660929 (0) blocked -> 500 (1024) inferred=true",
            "process 500 = t500",
            "thread 500 = t500 of 500",
            "910 cpu 0: 500 (1024) blocked -> 600 (1024)",
        ]
    );
}

#[test]
fn a_fork_that_the_snapshot_knows_by_both_ids_makes_no_second_thread() {
    let mut threads = inner(Proc::default());
    threads.begin_snapshot(Nanos(1000));
    let command = threads.add_process(LocalId(3), b"command");
    threads.add_thread(command, Some(LocalId(3)), Some(Tid(600)), comm_of(600));
    threads.include(LocalId(3));
    let mut scene = Scene::narrow(threads);
    scene.at(900, 0, identity(500, (2, 2)));
    scene.at(900, 0, fork((3, 3), (2, 2)));
    scene.at(901, 0, interrupt(wakeup_new(600, 500)));
    let reported =
        ["process 600 = command", "thread 600 = t600 of 600", "901 cpu 0: wakes 600 (1024)"];
    assert_eq!(scene.reported()[..3], reported);
    assert_eq!(scene.encoder.threads().tid_of(LocalId(3)), Some(Tid(600)));
}

#[test]
fn a_thread_that_comes_into_scope_while_it_runs_is_shown_from_then_on() {
    let mut threads = inner(Proc::default());
    threads.add_process(LocalId(3), b"wanted");
    threads.include(LocalId(3));
    let mut scene = Scene::narrow(threads);
    scene.at(100, 0, switch(500, "S", 600));
    scene.at(110, 0, identity(600, (3, 3)));
    scene.at(110, 0, switch(600, "S", 700));
    scene.at(120, 0, switch(700, "S", 600));
    scene.at(130, 0, switch(600, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "110 cpu 0: 600 (1024) blocked -> 700 (1024)",
            "120 cpu 0: 700 (1024) blocked -> 600 (1024)",
            "130 cpu 0: 600 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn what_forks_and_ends_within_is_forgotten() {
    let mut scene = five_hundred_is_two();
    let before = scene.encoder.threads().living();
    for round in 0..3000 {
        let (time, tid, local) = (1000 + 10 * u64::from(round), 1000 + round, 10 + round);
        scene.at(time, 0, fork((local, local), (2, 2)));
        scene.at(time + 1, 0, wakeup_new(tid, 500));
        scene.at(time + 2, 0, switch(500, "S", tid));
        scene.at(time + 3, 0, switch(tid, "Z", 500));
    }
    assert_eq!(scene.encoder.threads().living(), before);
    assert_eq!(scene.encoder.threads().places(), (before + 1, 3), "slots are used again");
}

#[test]
fn processes_whose_first_wake_up_was_lost_take_no_room_forever() {
    let mut scene = five_hundred_is_two();
    for time in 1000..2000 {
        scene.at(time, 0, fork((3, 3), (2, 2)));
    }
    assert_eq!(scene.encoder.threads().places(), (2, 3));
}
