//! Names are written before the koid is used, once, and again when they change.

use super::{LOST, Proc, Scene, comm, executed, fork, interrupt, renamed, switch, wakeup};
use crate::encode::ids::Ids;
use crate::encode::threads::Threads;
use crate::event::{Comm, Kind, Life, Switch};
use fxtrec_units::Tid;

/// Thread 5, named, has CPU 0.
fn five_runs(proc: Proc) -> Scene {
    let mut scene = Scene::of(Threads::new(Ids::Initial, Box::new(proc)));
    scene.at(5, 0, renamed((5, 5), "t5"));
    scene.at(10, 0, switch(0, "R", 5));
    scene.reported();
    scene
}

#[test]
fn a_name_is_written_once() {
    let mut scene = five_runs(Proc::default());
    for round in 0..3 {
        scene.at(100 + 10 * round, 0, switch(5, "S", 0));
        scene.at(105 + 10 * round, 0, switch(0, "R", 5));
    }
    assert_eq!(scene.named(), [] as [&str; 0]);
    let stats = *scene.encoder.stats();
    assert_eq!((stats.threads, stats.processes), (2, 2));
}

#[test]
fn a_rename_is_written_when_the_thread_is_next_used_and_not_before() {
    let mut scene = five_runs(Proc::default());
    scene.at(100, 0, renamed((5, 5), "worker"));
    scene.at(110, 0, renamed((5, 5), "waiter"));
    assert_eq!(scene.reported(), [] as [&str; 0]);
    scene.at(120, 0, Switch { prev_comm: comm("waiter"), ..switch(5, "S", 0) });
    assert_eq!(
        scene.reported(),
        ["process 5 = waiter", "thread 5 = waiter of 5", "120 cpu 0: 5 (1024) blocked -> 0 (idle)",]
    );
    assert_eq!(scene.encoder.stats().renames, 3);
    assert_eq!(scene.encoder.stats().threads, 2, "a new name is no new thread");
}

#[test]
fn a_process_whose_exec_was_lost_is_called_like_its_main_thread() {
    let mut scene = five_runs(Proc::default());
    scene.at(100, 0, Kind::LostLives { count: None });
    scene.at(110, 0, Switch { prev_comm: Comm::default(), ..switch(5, "S", 0) });
    scene.reported();
    scene.at(120, 0, Switch { next_comm: comm("program"), ..switch(0, "R", 5) });
    assert_eq!(scene.named(), ["process 5 = program", "thread 5 = program of 5"]);
}

#[test]
fn another_threads_name_that_changed_during_a_loss_is_not_its_processes() {
    let mut scene = five_runs(Proc::default());
    scene.at(20, 0, fork((5, 6), (5, 5)));
    scene.at(30, 0, switch(5, "S", 6));
    scene.at(100, 0, Kind::LostLives { count: None });
    scene.at(110, 0, Switch { prev_comm: comm("t5"), ..switch(6, "S", 0) });
    scene.reported();
    scene.at(120, 0, Switch { next_comm: comm("worker"), ..switch(0, "R", 6) });
    assert_eq!(scene.named(), [] as [&str; 0], "it was told its name after the loss");
    scene.at(130, 0, Kind::LostLives { count: None });
    scene.at(140, 0, Switch { prev_comm: comm("worker"), ..switch(6, "S", 0) });
    scene.at(150, 0, Switch { next_comm: comm("worker"), ..switch(0, "R", 6) });
    assert_eq!(scene.named(), ["thread 6 = worker of 5"]);
}

#[test]
fn a_rename_of_another_thread_leaves_the_process_its_name() {
    let mut scene = five_runs(Proc::default());
    scene.at(20, 0, fork((5, 6), (5, 5)));
    scene.at(30, 0, switch(5, "S", 6));
    scene.reported();
    scene.at(100, 0, renamed((5, 6), "worker"));
    scene.at(110, 0, switch(6, "S", 0));
    assert_eq!(scene.named(), ["thread 6 = worker of 5"]);
}

#[test]
fn a_thread_that_is_renamed_to_the_name_it_has_is_not_named_again() {
    let mut scene = five_runs(Proc::default());
    scene.at(100, 0, renamed((5, 5), "t5"));
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(scene.named(), [] as [&str; 0]);
}

#[test]
fn an_exec_gives_thread_and_process_the_programs_name() {
    let mut scene = five_runs(Proc::default());
    scene.at(100, 0, executed(5, "program"));
    scene.at(110, 0, Switch { prev_comm: comm("program"), ..switch(5, "S", 0) });
    assert_eq!(scene.named(), ["process 5 = program", "thread 5 = program of 5"]);
}

#[test]
fn a_program_whose_name_was_cut_gives_its_process_the_whole_name() {
    let names = vec![(5, "a-program-with-a-long-name")];
    let mut scene = five_runs(Proc { names, ..Proc::default() });
    scene.at(100, 0, executed(5, "a-program-with-a-long-name"));
    let cut = comm("a-program-with-");
    scene.at(110, 0, Switch { prev_comm: cut, ..switch(5, "S", 0) });
    assert_eq!(
        scene.named(),
        ["process 5 = a-program-with-a-long-name", "thread 5 = a-program-with- of 5"]
    );
}

/// `/proc` is read a little after the exec, and may already show the next program.
#[test]
fn a_long_name_that_does_not_continue_the_cut_one_is_not_taken() {
    let names = vec![(5, "another-program-by-now")];
    let mut scene = five_runs(Proc { names, ..Proc::default() });
    scene.at(100, 0, executed(5, "a-program-with-a-long-name"));
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(scene.named(), ["process 5 = a-program-with-", "thread 5 = a-program-with- of 5"]);
}

#[test]
fn an_exec_of_a_program_with_the_same_beginning_names_the_process_again() {
    let names = vec![(5, "a-program-with-a-second-name")];
    let mut scene = five_runs(Proc { names, ..Proc::default() });
    scene.at(100, 0, renamed((5, 5), "a-program-with-a-first-name"));
    scene.at(110, 0, Switch { prev_comm: comm("a-program-with-"), ..switch(5, "S", 0) });
    assert_eq!(scene.named(), ["process 5 = a-program-with-", "thread 5 = a-program-with- of 5"]);
    scene.at(120, 0, executed(5, "a-program-with-a-second-name"));
    scene.at(130, 0, switch(0, "R", 5));
    assert_eq!(
        scene.named(),
        ["process 5 = a-program-with-a-second-name", "thread 5 = a-program-with- of 5"]
    );
}

#[test]
fn a_thread_without_a_name_is_called_by_its_tid() {
    let mut scene = Scene::new();
    scene.at(100, 0, Switch { next_comm: Comm::default(), ..switch(0, "R", 5) });
    scene.at(110, 0, renamed((5, 5), "named"));
    scene.at(120, 0, Switch { prev_comm: comm("named"), ..switch(5, "S", 0) });
    assert_eq!(
        scene.named(),
        [
            "process 0 = swapper",
            "thread 0 = swapper of 0",
            "process 5 = [5]",
            "thread 5 = [5] of 5",
            "process 5 = named",
            "thread 5 = named of 5",
        ]
    );
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    let mut scene = Scene::new();
    let odd = Comm::from_bytes(b"a\xffb\xc3");
    scene.at(100, 0, Switch { prev_comm: odd, ..switch(5, "S", 0) });
    let replaced = scene.named().into_iter().take(2).collect::<Vec<_>>();
    assert_eq!(replaced, ["process 5 = a\u{fffd}b\u{fffd}", "thread 5 = a\u{fffd}b\u{fffd} of 5"]);
}

#[test]
fn an_unknown_thread_gets_its_process_and_that_ones_name_from_proc() {
    let proc =
        Proc { threads: vec![(6, 4)], names: vec![(4, "the-whole-name-of-it")], ..Proc::default() };
    let mut scene = five_runs(proc);
    scene.at(100, 0, switch(5, "S", 6));
    assert_eq!(scene.named(), ["process 4 = the-whole-name-of-it", "thread 6 = t6 of 4"]);
}

#[test]
fn a_thread_known_only_as_somebodys_waker_is_named_properly_when_it_goes_out() {
    let mut scene = Scene::new();
    scene.at(100, 0, wakeup(7, 5));
    scene.reported();
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(
        scene.named(),
        ["process 5 = t5", "thread 5 = t5 of 5", "process 0 = swapper", "thread 0 = swapper of 0",]
    );
}

#[test]
fn a_name_that_changed_in_a_gap_is_learned_from_the_next_switch() {
    let mut scene = five_runs(Proc::default());
    let changed = comm("changed");
    scene.at(100, 0, Switch { prev_comm: changed, ..switch(5, "S", 0) });
    assert_eq!(scene.named(), [] as [&str; 0], "nothing was lost: the rename is still to come");
    scene.at(110, 1, LOST);
    scene.at(120, 0, Switch { next_comm: changed, ..switch(0, "R", 5) });
    assert_eq!(scene.named(), ["process 5 = changed", "thread 5 = changed of 5"]);
}

/// An inferred switch shows that a thread is on the CPU, but not its name.
#[test]
fn a_name_that_changed_in_a_gap_is_learned_even_when_the_thread_is_first_seen_without_it() {
    let mut scene = five_runs(Proc::default());
    scene.at(90, 0, switch(5, "R", 7));
    scene.at(100, 0, LOST);
    scene.at(110, 0, interrupt(wakeup(8, 5)));
    scene.reported();
    scene.at(120, 0, Switch { prev_comm: comm("changed"), ..switch(5, "S", 0) });
    assert_eq!(scene.named(), ["process 5 = changed", "thread 5 = changed of 5"]);
}

/// A process starts in the cgroup of its parent. If the kernel reports that it may be in another one, `/proc` says which.
#[test]
fn a_process_is_named_with_its_cgroup_and_anew_when_that_is_another() {
    let home = |tid, cgroup| Kind::Life(Life::Home { tid: Tid(tid), cgroup });
    let proc = Proc { cgroups: vec![(5, "/five"), (6, "/six")], ..Proc::default() };
    let mut scene = Scene::of(Threads::new(Ids::Initial, Box::new(proc)));
    scene.at(10, 0, switch(0, "R", 5));
    assert_eq!(scene.named()[2..], ["process 5 = t5 in /five", "thread 5 = t5 of 5"]);
    scene.at(20, 0, fork((6, 6), (5, 5)));
    scene.at(21, 0, fork((7, 7), (5, 5)));
    scene.at(30, 0, switch(5, "S", 6));
    assert_eq!(scene.named(), ["process 6 = t5 in /five", "thread 6 = t5 of 6"]);
    scene.at(40, 0, home(6, Some(7)));
    scene.at(41, 0, home(6, None));
    scene.at(50, 0, switch(6, "S", 5));
    assert_eq!(scene.named(), ["process 6 = t5 in /six", "thread 6 = t5 of 6"]);
    // If the process has ended meanwhile, its cgroup is found by id, or not at all.
    scene.at(60, 0, home(7, Some(7)));
    scene.at(70, 0, switch(5, "S", 7));
    assert_eq!(scene.named(), ["process 7 = t5 in /seven", "thread 7 = t5 of 7"]);
    scene.at(80, 0, home(7, None));
    scene.at(90, 0, switch(7, "S", 5));
    assert_eq!(scene.named(), ["process 7 = t5", "thread 7 = t5 of 7"]);
}
