//! Narrow scopes: the records if only some threads are recorded.

use super::scene::PassMode;
use super::{
    LOST, Proc, SECOND, Scene, comm_of, fork, interrupt, switch, wakeup, wakeup_new, waking,
};
use crate::encode::ids::Ids;
use crate::encode::threads::Threads;
use crate::event::{Kind, Life, LocalId, Switch};
use fxtrec_units::glob::Pattern;
use fxtrec_units::{Cpu, Nanos, Tid};

/// Only process 5 and its descendants are recorded.
fn five_in_scope(proc: Proc) -> Threads {
    let mut threads = Threads::new(Ids::Initial, Box::new(proc));
    threads.begin_snapshot(Nanos(5));
    let process = threads.add_process(LocalId(5), b"five");
    threads.add_thread(process, Some(LocalId(5)), Some(Tid(5)), comm_of(5));
    threads.include(LocalId(5));
    threads
}

fn only_five() -> Scene {
    Scene::narrow(five_in_scope(Proc::default()))
}

/// The second picture in the documentation of [`crate::encode::chain`].
#[test]
fn an_outsider_is_shown_until_it_goes_out_and_then_nothing_is_recorded() {
    let [a, x, y, z, idle] = [5, 10, 11, 12, 0];
    let mut scene = only_five();
    scene.at(100, 0, switch(a, "S", x));
    scene.at(110, 0, switch(x, "R", y));
    scene.at(120, 0, switch(y, "D", idle));
    scene.at(130, 0, switch(idle, "R", a));
    scene.at(140, 0, switch(a, "S", idle));
    scene.at(150, 0, switch(idle, "R", z));
    assert_eq!(
        scene.reported(),
        [
            "process 5 = five",
            "thread 5 = t5 of 5",
            "process 10 = t10",
            "thread 10 = t10 of 10",
            "100 cpu 0: 5 (1024) blocked -> 10 (1024)",
            "process 3489660928 = not recorded",
            "thread 3489660929 = not recorded of 3489660928",
            "110 cpu 0: 10 (1024) running -> 3489660929 (0)",
            "130 cpu 0: 3489660929 (0) blocked -> 5 (1024)",
            "process 0 = swapper",
            "thread 0 = swapper of 0",
            "140 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "150 cpu 0: 0 (idle) running -> 3489660929 (0)",
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.switches, stats.switches_written, stats.inferred_switches), (6, 5, 0));
}

/// The third picture there.
#[test]
fn while_one_in_scope_waits_every_thread_that_has_the_cpu_is_shown() {
    for mode in [PassMode::Public, PassMode::Thorough] {
        let [a, x, y, z, idle] = [5, 10, 11, 12, 0];
        let mut scene = only_five();
        scene.mode = mode;
        scene.at(100, 0, switch(a, "R", x));
        scene.at(110, 0, switch(x, "R", y));
        scene.at(120, 0, switch(y, "R", a));
        scene.at(130, 0, switch(a, "S", idle));
        scene.at(140, 0, switch(idle, "R", z));
        // In between, no thread waits.
        scene.at(150, 0, switch(z, "R", x));
        scene.at(160, 1, wakeup(a, y));
        scene.at(170, 0, switch(x, "S", a));
        assert_eq!(
            scene.scheduled(),
            [
                "100 cpu 0: 5 (1024) running -> 10 (1024)",
                "110 cpu 0: 10 (1024) running -> 3489660929 (0)",
                "110 cpu 0: 3489660929 (0) blocked -> 11 (1024) inferred=true",
                "120 cpu 0: 11 (1024) running -> 5 (1024)",
                "130 cpu 0: 5 (1024) blocked -> 0 (idle)",
                "140 cpu 0: 0 (idle) running -> 3489660929 (0)",
                "160 cpu 0: wakes 5 (1024) waker=koid:11",
                "160 cpu 0: 3489660929 (0) blocked -> 10 (1024) inferred=true",
                "170 cpu 0: 10 (1024) blocked -> 5 (1024)",
            ],
            "{mode:?}"
        );
        let stats = *scene.encoder.stats();
        assert_eq!((stats.switches_written, stats.inferred_switches, stats.occupants), (6, 0, 2));
    }
}

#[test]
fn a_thread_that_is_moved_waits_for_its_new_cpu_only() {
    let mut scene = only_five();
    scene.at(90, 1, switch(0, "R", 20));
    scene.at(100, 0, switch(5, "R", 10));
    scene.at(110, 1, Kind::Moved { tid: Tid(5), from: Cpu(0), to: Cpu(1) });
    let expected = ["110 cpu 1: 3489660930 (0) blocked -> 20 (1024) inferred=true".to_owned()];
    assert_eq!(scene.scheduled()[1..2], expected);
    // No thread waits for the other CPU any more.
    scene.at(120, 0, switch(10, "S", 11));
    scene.at(130, 0, switch(11, "S", 12));
    assert_eq!(scene.scheduled(), ["120 cpu 0: 10 (1024) blocked -> 3489660929 (0)"]);
    scene.at(140, 1, switch(20, "R", 21));
    scene.at(150, 1, switch(21, "R", 5));
    scene.at(160, 1, switch(5, "S", 20));
    scene.at(170, 1, switch(20, "S", 21));
    scene.at(180, 1, switch(21, "S", 20));
    assert_eq!(
        scene.scheduled(),
        [
            "140 cpu 1: 20 (1024) running -> 3489660930 (0)",
            "140 cpu 1: 3489660930 (0) blocked -> 21 (1024) inferred=true",
            "150 cpu 1: 21 (1024) running -> 5 (1024)",
            "160 cpu 1: 5 (1024) blocked -> 20 (1024)",
            "170 cpu 1: 20 (1024) blocked -> 3489660930 (0)",
        ]
    );
}

/// In that case most switches of others are missing, so only the kernel knows which thread has a CPU.
#[test]
fn a_source_that_reports_the_scope_only_says_which_thread_has_the_cpu() {
    let mut scene = only_five();
    scene.encoder.expect_kernel_filter();
    scene.at(100, 0, switch(5, "S", 10));
    scene.at(110, 0, switch(10, "S", 11));
    scene.reported();
    // 11 -> 12 is left out.
    let comm = comm_of(12);
    scene.at(200, 1, Kind::Occupant { cpu: Cpu(0), tid: Tid(12), prio: 120, comm });
    scene.at(200, 1, interrupt(wakeup(5, 30)));
    scene.at(210, 0, Kind::Skipped);
    scene.at(210, 0, switch(12, "R", 5));
    assert_eq!(
        scene.reported(),
        [
            "process 12 = t12",
            "thread 12 = t12 of 12",
            "200 cpu 0: 3489660929 (0) blocked -> 12 (1024) inferred=true",
            "200 cpu 0: wakes 5 (1024)",
            "210 cpu 0: 12 (1024) running -> 5 (1024)",
        ]
    );
    // The encoder does not guess what the kernel does not say.
    scene.at(220, 0, switch(5, "R", 12));
    scene.at(230, 0, switch(12, "R", 13));
    scene.at(240, 1, interrupt(wakeup(5, 30)));
    let expected = [
        "220 cpu 0: 5 (1024) running -> 12 (1024)",
        "230 cpu 0: 12 (1024) running -> 3489660929 (0)",
    ];
    assert_eq!(scene.scheduled(), expected);
}

#[test]
fn an_outsider_that_gives_way_to_the_scope_keeps_its_state() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 10));
    scene.at(110, 0, switch(10, "D", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 10 (1024)",
            r#"110 cpu 0: 10 (1024) blocked -> 5 (1024) prev_state="D""#,
        ]
    );
}

#[test]
fn nothing_is_written_or_named_where_the_scope_has_no_part() {
    let mut scene = only_five();
    scene.at(100, 0, switch(10, "S", 11));
    scene.at(110, 0, wakeup(10, 11));
    scene.at(120, 0, waking(12, 11));
    scene.at(130, 0, switch(11, "S", 0));
    assert_eq!(scene.reported(), [] as [&str; 0]);
    let stats = *scene.encoder.stats();
    assert_eq!((stats.switches, stats.switches_written), (2, 0));
    assert_eq!((stats.wakeups, stats.wakeups_written, stats.threads), (1, 0, 0));
}

#[test]
fn a_thread_of_the_scope_that_is_woken_by_an_outsider_names_it() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(110, 1, switch(0, "R", 10));
    scene.reported();
    scene.at(120, 1, wakeup(5, 10));
    assert_eq!(
        scene.reported(),
        ["process 10 = t10", "thread 10 = t10 of 10", "120 cpu 0: wakes 5 (1024) waker=koid:10",]
    );
}

#[test]
fn children_of_the_scope_are_in_scope_and_those_of_others_are_not() {
    let mut scene = only_five();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, fork((6, 6), (5, 5)));
    scene.at(120, 0, fork((6, 7), (6, 6)));
    scene.at(130, 0, fork((5, 8), (5, 5)));
    scene.at(140, 0, fork((20, 20), (10, 10)));
    scene.reported();
    for (time, tid) in [(200, 6), (210, 7), (220, 8), (230, 20)] {
        scene.at(time, 0, interrupt(wakeup_new(tid, 5)));
    }
    assert_eq!(
        scene.scheduled(),
        ["200 cpu 0: wakes 6 (1024)", "210 cpu 0: wakes 7 (1024)", "220 cpu 0: wakes 8 (1024)",]
    );
}

#[test]
fn a_process_stays_in_scope_though_an_earlier_owner_of_its_id_is_seen_to_end() {
    // The snapshot was complete at 5; the events begin before process 5 was forked.
    let mut scene = only_five();
    scene.at(1, 0, switch(0, "R", 5));
    scene.at(2, 0, switch(5, "Z", 0));
    scene.at(3, 1, fork((5, 5), (10, 10)));
    scene.at(4, 1, wakeup_new(5, 10));
    scene.reported();
    scene.at(100, 0, switch(0, "R", 5));
    let heir = 5 + SECOND;
    assert_eq!(scene.scheduled(), [format!("100 cpu 0: 0 (idle) running -> {heir} (1024)")]);
    scene.at(110, 0, fork((6, 6), (5, 5)));
    scene.at(120, 0, wakeup_new(6, 5));
    assert_eq!(scene.scheduled(), [format!("120 cpu 0: wakes 6 (1024) waker=koid:{heir}")]);
    // A thread that gets the id after the snapshot is a different thread.
    scene.at(130, 0, switch(5, "Z", 0));
    scene.at(140, 1, fork((5, 5), (10, 10)));
    scene.at(150, 1, wakeup_new(5, 10));
    scene.reported();
    scene.at(160, 1, switch(10, "S", 5));
    assert_eq!(scene.scheduled(), [] as [&str; 0]);
}

#[test]
fn an_heir_of_an_id_is_not_ended_by_the_earlier_owner_that_goes_out_later() {
    let mut scene = only_five();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, fork((6, 6), (5, 5)));
    scene.at(111, 0, wakeup_new(6, 5));
    scene.at(120, 1, switch(0, "R", 6));
    // Its id was reused, but it was not switched out yet.
    scene.at(130, 0, fork((6, 6), (5, 5)));
    scene.at(131, 0, wakeup_new(6, 5));
    scene.reported();
    scene.at(140, 1, switch(6, "X", 0));
    scene.at(150, 0, switch(5, "S", 6));
    scene.at(160, 0, switch(6, "S", 5));
    let heir = 6 + SECOND;
    assert_eq!(
        scene.scheduled(),
        [
            // It is unknown whether it was in scope, so the next thread is not shown.
            "140 cpu 1: 6 (1024) dead -> 3489660930 (0)".to_owned(),
            format!("150 cpu 0: 5 (1024) blocked -> {heir} (1024)"),
            format!("160 cpu 0: {heir} (1024) blocked -> 5 (1024)"),
        ]
    );
    assert_eq!(scene.encoder.stats().inferred_switches, 0);
}

#[test]
fn a_child_of_the_scope_whose_fork_was_lost_is_in_scope() {
    let mut scene = only_five();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, LOST);
    scene.reported();
    scene.at(120, 0, wakeup_new(6, 5));
    scene.at(130, 0, switch(5, "S", 10));
    scene.at(140, 0, wakeup_new(20, 10));
    assert_eq!(
        scene.scheduled(),
        ["120 cpu 0: wakes 6 (1024) waker=koid:5", "130 cpu 0: 5 (1024) blocked -> 10 (1024)",]
    );
}

/// Events are recorded before the snapshot is taken, so a fork may be in both.
#[test]
fn a_child_of_the_scope_that_the_snapshot_has_already_is_in_scope() {
    let mut threads = five_in_scope(Proc::default());
    threads.begin_snapshot(Nanos(1000));
    for (pid, tids) in [(6, vec![6, 7]), (20, vec![20])] {
        let process = threads.add_process(LocalId(pid), b"child");
        for tid in tids {
            threads.add_thread(process, Some(LocalId(tid)), Some(Tid(tid)), comm_of(tid));
        }
    }
    let mut scene = Scene::narrow(threads);
    scene.at(900, 0, fork((6, 6), (5, 5)));
    scene.at(910, 0, fork((20, 20), (10, 10)));
    for (time, tid) in [(2000, 6), (2010, 7), (2020, 20)] {
        scene.at(time, 0, interrupt(wakeup(tid, 10)));
    }
    let woken: Vec<String> =
        scene.scheduled().into_iter().filter(|line| line.contains("wakes")).collect();
    assert_eq!(woken, ["2000 cpu 0: wakes 6 (1024)", "2010 cpu 0: wakes 7 (1024)"]);
}

#[test]
fn a_switch_that_was_not_seen_is_inferred_for_the_scope_only() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(110, 0, switch(10, "S", 0));
    scene.at(120, 0, switch(5, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "110 cpu 0: 0 (idle) running -> 3489660929 (0) inferred=true",
            "120 cpu 0: 3489660929 (0) blocked -> 5 (1024) inferred=true",
            "120 cpu 0: 5 (1024) blocked -> 0 (idle)",
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.inferred_switches, stats.switches_written), (2, 2));
}

#[test]
fn a_cpu_that_goes_from_idle_to_an_outsider_is_not_idle_until_that_is_seen_again() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 0));
    scene.reported();
    scene.at(110, 0, switch(0, "R", 10));
    scene.at(120, 0, switch(10, "S", 0));
    scene.at(130, 0, switch(0, "R", 11));
    assert_eq!(scene.scheduled(), ["110 cpu 0: 0 (idle) running -> 3489660929 (0)"]);
}

#[test]
fn what_the_file_shows_is_closed_behind_a_gap() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 10));
    scene.at(110, 0, LOST);
    scene.reported();
    scene.at(120, 0, switch(11, "S", 12));
    assert_eq!(scene.scheduled(), ["120 cpu 0: 10 (1024) blocked -> 3489660929 (0) inferred=true"]);
}

#[test]
fn a_process_put_in_scope_brings_all_of_its_threads() {
    let mut threads = five_in_scope(Proc::default());
    let process = threads.add_process(LocalId(30), b"thirty");
    for tid in [30, 31] {
        threads.add_thread(process, Some(LocalId(tid)), Some(Tid(tid)), comm_of(tid));
    }
    threads.include(LocalId(30));
    let mut scene = Scene::narrow(threads);
    scene.at(100, 0, switch(31, "S", 30));
    assert_eq!(scene.scheduled(), ["100 cpu 0: 31 (1024) blocked -> 30 (1024)"]);
}

/// Switches that a source leaves out: it reports only switches that concern the scope.
#[test]
fn a_source_that_reports_the_scope_only_never_makes_a_cpu_idle_by_that() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 10));
    scene.at(110, 0, switch(10, "S", 0));
    scene.reported();
    // idle -> 11 and 11 -> 12 are left out.
    scene.at(200, 0, Kind::Skipped);
    scene.at(200, 0, switch(12, "R", 5));
    assert_eq!(scene.scheduled(), ["200 cpu 0: 3489660929 (0) blocked -> 5 (1024)"]);
}

#[test]
fn the_first_record_of_a_cpu_does_not_claim_who_had_it_before() {
    for before in [0, 10] {
        let mut scene = only_five();
        scene.at(100, 3, switch(before, "R", 5));
        assert_eq!(scene.scheduled(), ["100 cpu 3: 3489660932 (0) blocked -> 5 (1024)"]);
    }
}

#[test]
fn a_piece_that_begins_while_nothing_is_recorded_says_so_and_names_it() {
    let mut scene = only_five();
    scene.at(100, 0, switch(5, "S", 10));
    scene.at(110, 0, switch(10, "S", 11));
    let beginning = scene.encoder.rotate(Nanos(120)).expect("memory takes every record");
    scene.begin_anew(&beginning);
    let reported = scene.reported();
    assert!(
        reported.contains(&"thread 3489660929 = not recorded of 3489660928".to_owned()),
        "{reported:?}"
    );
    assert!(
        reported
            .contains(&"120 cpu 0: 0 (idle) running -> 3489660929 (0) inferred=true".to_owned()),
        "{reported:?}"
    );
    scene.at(130, 0, switch(12, "S", 5));
    assert_eq!(scene.scheduled(), ["130 cpu 0: 3489660929 (0) blocked -> 5 (1024)"]);
}

/// The source reports with each event whether the thread is in scope.
#[test]
fn who_is_in_scope_by_the_kernels_word_is_shown_as_long_as_it_says_so() {
    let mut scene = Scene::narrow(Threads::new(Ids::Initial, Box::new(Proc::default())));
    let reported_switch = |scene: &mut Scene, time, wanted: [bool; 2], from, state, to| {
        scene.at(time, 0, Switch { in_scope: Some(wanted), ..switch(from, state, to) });
    };
    reported_switch(&mut scene, 100, [false, true], 10, "S", 5);
    assert_eq!(scene.scheduled(), ["100 cpu 0: 3489660929 (0) blocked -> 5 (1024)"]);
    // The thread is moved out of the scope while it runs, and back in after another thread has run.
    reported_switch(&mut scene, 110, [false, false], 5, "S", 10);
    assert_eq!(scene.scheduled(), ["110 cpu 0: 5 (1024) blocked -> 3489660929 (0)"]);
    reported_switch(&mut scene, 120, [false, true], 10, "S", 5);
    reported_switch(&mut scene, 130, [true, false], 5, "S", 10);
    let expected = [
        "120 cpu 0: 3489660929 (0) blocked -> 5 (1024)",
        "130 cpu 0: 5 (1024) blocked -> 10 (1024)",
    ];
    assert_eq!(scene.scheduled(), expected);
}

#[test]
fn a_glob_by_which_no_process_is_chosen_is_known_in_the_end() {
    let globs = ["/jobs", "/other", "/none"].map(|glob| Pattern::new(glob).expect("a glob"));
    let mut threads = Threads::new(Ids::Initial, Box::new(Proc::default()));
    threads.look_for_cgroups(&globs);
    let process = threads.add_process(LocalId(5), b"process");
    threads.put_in_cgroup(process, "/jobs/five");
    threads.add_thread(process, Some(LocalId(5)), Some(Tid(5)), comm_of(5));
    assert_eq!(threads.unseen_globs(), &globs[1..]);
    threads.put_thread_in_cgroup(Tid(5), Some("/other"));
    assert_eq!(threads.unseen_globs(), &globs[2..]);
}

/// If the source reports all threads, the cgroups of their processes decide whether they are in scope.
#[test]
fn a_process_is_in_scope_as_long_as_it_is_in_a_cgroup_that_is() {
    let proc = Proc { cgroups: vec![(6, "/jobs/six")], ..Proc::default() };
    let mut threads = Threads::new(Ids::Initial, Box::new(proc));
    threads.include_cgroups(vec![Pattern::new("/jobs/*").expect("a glob")]);
    for (pid, path) in [(5, "/jobs/five/below"), (10, "/jobs"), (6, "/other")] {
        let process = threads.add_process(LocalId(pid), b"process");
        threads.put_in_cgroup(process, path);
        threads.add_thread(process, Some(LocalId(pid)), Some(Tid(pid)), comm_of(pid));
    }
    let mut scene = Scene::narrow(threads);
    scene.at(100, 0, switch(10, "S", 6));
    assert!(scene.scheduled().is_empty());
    scene.at(110, 0, switch(6, "S", 5));
    assert_eq!(scene.scheduled(), ["110 cpu 0: 3489660929 (0) blocked -> 5 (1024)"]);
    // A process that it starts is in the same cgroup; afterwards, the thread's process is moved out, and another one in.
    scene.at(120, 0, fork((7, 7), (5, 5)));
    scene.at(130, 0, switch(5, "S", 7));
    scene.at(140, 0, Kind::Life(Life::Home { tid: Tid(7), cgroup: None }));
    scene.at(150, 0, switch(7, "S", 10));
    let expected = [
        "130 cpu 0: 5 (1024) blocked -> 7 (1024)",
        "150 cpu 0: 7 (1024) blocked -> 3489660929 (0)",
    ];
    assert_eq!(scene.scheduled(), expected);
    scene.at(160, 0, Kind::Life(Life::Home { tid: Tid(6), cgroup: None }));
    scene.at(170, 0, switch(10, "S", 6));
    assert_eq!(scene.scheduled(), ["170 cpu 0: 3489660929 (0) blocked -> 6 (1024)"]);
}
