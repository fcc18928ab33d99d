//! Wakeups: the woken thread, the waker, and which wakeups are spurious.

use super::{LOST, Scene, interrupt, running, switch, wakeup, wakeup_new, waking};
use crate::event::{Wake, Waker};
use fxtrec_units::{Cpu, Tid};

/// CPU 0 has thread 5, and thread 7 sleeps.
fn five_runs_and_seven_sleeps() -> Scene {
    let mut scene = Scene::new();
    scene.at(10, 0, switch(0, "R", 7));
    scene.at(20, 0, switch(7, "S", 5));
    scene.reported();
    scene
}

#[test]
fn a_wake_up_by_a_thread_names_that_thread_as_its_waker() {
    let mut scene = Scene::new();
    scene.at(100, 0, Wake { target: Cpu(3), prio: 130, ..wakeup(7, 5) });
    assert_eq!(
        scene.reported(),
        [
            "process 5 = [5]",
            "thread 5 = [5] of 5",
            "process 7 = t7",
            "thread 7 = t7 of 7",
            "100 cpu 3: wakes 7 (110) waker=koid:5",
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.wakeups, stats.wakeups_written, stats.spurious_wakeups), (1, 1, 0));
}

#[test]
fn a_wake_up_by_an_interrupt_or_from_the_idle_task_has_no_waker() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, interrupt(wakeup(7, 5)));
    assert_eq!(scene.reported(), ["100 cpu 0: wakes 7 (1024)"]);

    scene.at(110, 0, switch(5, "S", 0));
    scene.reported();
    scene.at(120, 0, wakeup(5, 0));
    assert_eq!(scene.reported(), ["120 cpu 0: wakes 5 (1024)"]);
}

#[test]
fn a_thread_that_runs_or_is_runnable_is_not_woken() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, wakeup(5, 5));
    scene.at(110, 0, wakeup(7, 5));
    scene.at(120, 0, wakeup(7, 5));
    scene.at(130, 0, switch(5, "R+", 7));
    scene.at(140, 0, wakeup(5, 7));
    assert_eq!(
        scene.scheduled(),
        [
            "110 cpu 0: wakes 7 (1024) waker=koid:5",
            r#"130 cpu 0: 5 (1024) running -> 7 (1024) prev_state="R+""#,
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.wakeups, stats.wakeups_written, stats.spurious_wakeups), (4, 1, 3));
}

#[test]
fn a_thread_that_went_to_sleep_again_is_woken_again() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, wakeup(7, 5));
    scene.at(110, 0, switch(5, "R", 7));
    scene.at(120, 0, switch(7, "D", 5));
    scene.at(130, 0, wakeup(7, 5));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: wakes 7 (1024) waker=koid:5",
            "110 cpu 0: 5 (1024) running -> 7 (1024)",
            r#"120 cpu 0: 7 (1024) blocked -> 5 (1024) prev_state="D""#,
            "130 cpu 0: wakes 7 (1024) waker=koid:5",
        ]
    );
}

#[test]
fn a_stopped_thread_can_be_woken() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(7, "T", 5));
    scene.at(110, 0, wakeup(7, 5));
    assert_eq!(
        scene.scheduled(),
        ["100 cpu 0: 7 (1024) suspended -> 5 (1024)", "110 cpu 0: wakes 7 (1024) waker=koid:5",]
    );
}

#[test]
fn after_a_loss_nobody_is_taken_for_awake() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, wakeup(7, 5));
    scene.at(110, 1, LOST);
    scene.reported();
    scene.at(120, 0, wakeup(7, 5));
    scene.at(130, 0, wakeup(7, 5));
    assert_eq!(scene.reported(), ["120 cpu 0: wakes 7 (1024) waker=koid:5"]);
    assert_eq!(scene.encoder.stats().spurious_wakeups, 1, "the one after is known to be");
}

#[test]
fn the_first_wake_up_of_a_new_thread_is_written_with_its_parent_as_waker() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, wakeup_new(8, 5));
    assert_eq!(
        scene.reported(),
        ["process 8 = t8", "thread 8 = t8 of 8", "100 cpu 0: wakes 8 (1024) waker=koid:5",]
    );
}

#[test]
fn a_waking_is_an_instant_on_the_waker_and_gives_the_wake_up_its_waker() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, Wake { target: Cpu(1), ..waking(7, 5) });
    scene.at(110, 1, Wake { target: Cpu(1), ..wakeup(7, 0) });
    assert_eq!(
        scene.reported(),
        ["100 5/5: sched:waking thread=koid:7 cpu=1", "110 cpu 1: wakes 7 (1024) waker=koid:5",]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.wakings, stats.wakeups), (1, 1));
}

#[test]
fn a_waking_gives_one_wake_up_its_waker_and_no_other() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, waking(7, 5));
    scene.at(110, 0, interrupt(wakeup(7, 5)));
    scene.at(120, 0, switch(5, "R", 7));
    scene.at(130, 0, switch(7, "S", 5));
    scene.reported();
    scene.at(140, 0, interrupt(wakeup(7, 5)));
    assert_eq!(scene.reported(), ["140 cpu 0: wakes 7 (1024)"]);
}

#[test]
fn a_waking_by_an_interrupt_is_put_on_fxtrecs_own_thread_and_names_nobody() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, interrupt(waking(7, 5)));
    scene.at(110, 0, interrupt(wakeup(7, 5)));
    assert_eq!(
        scene.reported(),
        [
            "100 999/999: sched:waking thread=koid:7 cpu=0",
            "110 cpu 0: wakes 7 (1024) interrupt=true",
        ]
    );
}

#[test]
fn a_waker_that_was_announced_before_a_loss_is_not_believed_after_it() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, waking(7, 5));
    scene.at(110, 1, LOST);
    scene.reported();
    scene.at(120, 0, interrupt(wakeup(7, 5)));
    assert_eq!(scene.reported(), ["120 cpu 0: wakes 7 (1024)"]);
}

/// The thread is already awake when it is woken in between: the announced waker must not wait for a later wakeup.
#[test]
fn a_waker_that_woke_nobody_is_not_the_waker_of_the_next_wake_up() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, waking(5, 5));
    scene.at(101, 0, wakeup(5, 5));
    scene.at(110, 0, switch(5, "S", 7));
    scene.reported();
    scene.at(120, 0, interrupt(wakeup(5, 7)));
    assert_eq!(scene.reported(), ["120 cpu 0: wakes 5 (1024)"]);
}

#[test]
fn an_interrupt_that_begins_a_wake_up_takes_the_place_of_an_earlier_waker() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, waking(7, 5));
    scene.at(105, 0, interrupt(waking(7, 5)));
    scene.reported();
    scene.at(110, 0, interrupt(wakeup(7, 5)));
    assert_eq!(scene.reported(), ["110 cpu 0: wakes 7 (1024) interrupt=true"]);
}

/// The target CPU may complete a wakeup while one of its own threads runs.
#[test]
fn the_waker_that_was_announced_goes_before_the_thread_that_completes_the_wake_up() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(30, 1, switch(0, "R", 6));
    scene.at(100, 0, Wake { target: Cpu(1), ..waking(7, 5) });
    scene.reported();
    scene.at(110, 1, Wake { target: Cpu(1), ..wakeup(7, 6) });
    assert_eq!(scene.reported(), ["110 cpu 1: wakes 7 (1024) waker=koid:5"]);
}

/// An inferred switch shows that the previous thread is off the CPU, but not which thread is about to wake it.
#[test]
fn a_waker_from_before_a_loss_is_not_believed_after_an_inferred_switch_either() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, waking(5, 5));
    scene.at(110, 0, LOST);
    scene.at(120, 0, running(6));
    scene.reported();
    scene.at(130, 0, interrupt(wakeup(5, 6)));
    assert_eq!(scene.reported(), ["130 cpu 0: wakes 5 (1024)"]);
}

#[test]
fn who_began_a_wake_up_elsewhere_is_its_waker_though_another_runs_here() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(50, 1, switch(0, "R", 8));
    scene.reported();
    scene.at(100, 0, Wake { by: Waker::Task(Tid(8)), ..wakeup(7, 5) });
    assert_eq!(scene.reported(), ["100 cpu 0: wakes 7 (1024) waker=koid:8"]);
}

#[test]
fn a_waker_that_has_gone_forever_since_is_named_by_the_koid_that_it_had() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(50, 1, switch(0, "R", 8));
    scene.at(60, 1, switch(8, "X", 0));
    scene.reported();
    scene.at(100, 0, Wake { by: Waker::Task(Tid(8)), ..wakeup(7, 5) });
    assert_eq!(scene.reported(), ["100 cpu 0: wakes 7 (1024) waker=koid:8"]);
}

#[test]
fn a_wake_up_that_an_interrupt_began_says_so() {
    let mut scene = five_runs_and_seven_sleeps();
    scene.at(100, 0, Wake { by: Waker::Interrupt, ..wakeup(7, 5) });
    assert_eq!(scene.reported(), ["100 cpu 0: wakes 7 (1024) interrupt=true"]);
}
