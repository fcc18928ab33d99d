//! Each CPU's chain of threads: it is unbroken, and shows inferred switches.

use super::{LOST, SECOND, Scene, executed, fork, interrupt, running, switch, wakeup};
use crate::event::{Kind, Loss, Switch};
use fxtrec_units::{Cpu, Tid};

/// The first picture in the documentation of [`crate::encode::chain`].
#[test]
fn a_switch_out_of_an_idle_task_that_was_not_seen_is_inferred_and_marked() {
    let [a, b, c, d, e] = [1, 2, 3, 4, 5];
    let mut scene = Scene::new();
    scene.at(100, 0, switch(a, "S", b));
    scene.at(110, 0, switch(b, "S", c));
    scene.at(120, 0, switch(c, "S", 0));
    scene.at(140, 0, switch(d, "S", e));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 1 (1024) blocked -> 2 (1024)",
            "110 cpu 0: 2 (1024) blocked -> 3 (1024)",
            "120 cpu 0: 3 (1024) blocked -> 0 (idle)",
            "140 cpu 0: 0 (idle) running -> 4 (1024) inferred=true",
            "140 cpu 0: 4 (1024) blocked -> 5 (1024)",
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.switches, stats.switches_written, stats.inferred_switches), (4, 4, 1));
}

#[test]
fn a_cpu_that_left_its_idle_task_unseen_is_reported_once() {
    let mut scene = Scene::new();
    scene.at(100, 3, switch(5, "S", 0));
    assert_eq!(scene.encoder.take_silent(), []);
    scene.at(110, 3, switch(6, "S", 0));
    assert_eq!(scene.encoder.take_silent(), [Cpu(3)]);
    assert_eq!(scene.encoder.take_silent(), []);
}

#[test]
fn a_wake_up_by_a_thread_that_should_not_be_there_tells_earlier_that_it_is() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(110, 0, interrupt(wakeup(7, 6)));
    scene.at(120, 0, switch(6, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "110 cpu 0: 0 (idle) running -> 6 (1024) inferred=true",
            "110 cpu 0: wakes 7 (1024)",
            "120 cpu 0: 6 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn a_switch_record_of_the_kernel_gives_an_unseen_switch_its_own_time() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(107, 0, running(6));
    scene.at(120, 0, switch(6, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "107 cpu 0: 0 (idle) running -> 6 (1024) inferred=true",
            "120 cpu 0: 6 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn a_switch_record_of_the_kernel_about_the_thread_that_is_there_says_nothing_new() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.reported();
    scene.at(101, 0, running(5));
    assert_eq!(scene.reported(), [] as [&str; 0]);
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(scene.reported(), ["110 cpu 0: 5 (1024) blocked -> 0 (idle)"]);
    assert_eq!(scene.encoder.stats().inferred_switches, 0);
}

#[test]
fn nothing_is_inferred_about_the_time_before_the_first_event_of_a_cpu() {
    let mut scene = Scene::new();
    scene.at(100, 0, wakeup(7, 5));
    scene.at(110, 0, switch(5, "S", 7));
    assert_eq!(
        scene.scheduled(),
        ["100 cpu 0: wakes 7 (1024) waker=koid:5", "110 cpu 0: 5 (1024) blocked -> 7 (1024)",]
    );
}

#[test]
fn a_thread_that_was_seen_to_have_a_cpu_is_not_woken() {
    let mut scene = Scene::new();
    scene.at(100, 0, interrupt(wakeup(7, 5)));
    scene.at(110, 1, wakeup(5, 6));
    assert_eq!(scene.scheduled(), ["100 cpu 0: wakes 7 (1024)"]);
    assert_eq!(scene.encoder.stats().spurious_wakeups, 1);
}

#[test]
fn an_inferred_switch_shows_the_weights_that_were_seen_last() {
    let mut scene = Scene::new();
    scene.at(100, 0, Switch { prev_prio: 139, next_prio: 50, ..switch(5, "S", 6) });
    scene.at(105, 1, LOST);
    scene.reported();
    scene.at(110, 0, running(5));
    assert_eq!(scene.reported(), ["110 cpu 0: 6 (2147483647) blocked -> 5 (15) inferred=true"]);
}

#[test]
fn a_loss_is_reported_where_it_happened_and_counted() {
    let mut scene = Scene::new();
    scene.at(100, 2, LOST);
    assert_eq!(
        scene.reported(),
        ["provider 1 reports BufferFilledUp", "100 999/999: fxtrec:lost count=3 cpu=2"]
    );
    scene.at(110, 2, LOST);
    assert_eq!((scene.encoder.stats().lost, scene.encoder.stats().losses), (6, 2));
}

#[test]
fn the_chain_continues_after_a_loss_and_the_cpu_is_not_taken_for_silent() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(110, 0, LOST);
    scene.reported();
    scene.at(120, 0, switch(8, "S", 9));
    assert_eq!(
        scene.scheduled(),
        [
            "120 cpu 0: 0 (idle) running -> 8 (1024) inferred=true",
            "120 cpu 0: 8 (1024) blocked -> 9 (1024)",
        ]
    );
    assert_eq!(scene.encoder.take_silent(), []);
}

#[test]
fn a_loss_excuses_the_gap_that_follows_it_and_none_later() {
    let mut scene = Scene::new();
    scene.at(100, 0, LOST);
    scene.at(110, 0, switch(5, "S", 0));
    scene.at(120, 0, switch(6, "S", 0));
    assert_eq!(scene.encoder.take_silent(), [Cpu(0)]);
}

#[test]
fn a_loss_on_another_cpu_does_not_excuse_a_gap() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(105, 1, LOST);
    scene.at(110, 0, switch(6, "S", 0));
    assert_eq!(scene.encoder.take_silent(), [Cpu(0)]);
}

/// Process 5 with its main thread, which has ended, and thread 6, which has CPU 0.
fn six_runs_and_its_main_thread_has_ended() -> Scene {
    let mut scene = Scene::new();
    scene.at(10, 1, switch(0, "R", 5));
    scene.at(20, 1, fork((5, 6), (5, 5)));
    scene.at(30, 0, switch(0, "R", 6));
    scene.at(40, 1, switch(5, "Z", 0));
    scene.reported();
    scene
}

#[test]
fn a_thread_that_takes_over_the_main_threads_id_by_exec_goes_out_dead() {
    let mut scene = six_runs_and_its_main_thread_has_ended();
    scene.at(100, 0, executed(5, "program"));
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 6 (1024) dead -> 4194309 (1024) inferred=true",
            "110 cpu 0: 4194309 (1024) blocked -> 0 (idle)",
        ],
        "at the time of the exec, and not as the main thread, which has ended"
    );
    assert_eq!(scene.encoder.threads().living(), 2, "the idle task and 5; 6 is forgotten");
    assert_eq!(scene.encoder.take_silent(), []);
}

/// Thread 6 of process 5 is runnable, its main thread has ended, and CPU 0 is idle. The switch to thread 6 will not be recorded.
fn six_waits_and_its_main_thread_has_ended() -> Scene {
    let mut scene = Scene::new();
    scene.at(10, 0, switch(0, "R", 5));
    scene.at(20, 0, fork((5, 6), (5, 5)));
    scene.at(21, 0, wakeup(6, 5));
    scene.at(30, 0, switch(5, "Z", 0));
    scene.reported();
    scene
}

/// The records after the thread has become the main thread, which is switched out at `time` at the latest.
fn came_in_and_took_over(time: u64) -> [String; 2] {
    let main = 5 + SECOND;
    [
        format!("{time} cpu 0: 0 (idle) running -> 6 (1024) inferred=true"),
        format!("{time} cpu 0: 6 (1024) dead -> {main} (1024) inferred=true"),
    ]
}

#[test]
fn a_thread_that_took_over_the_main_threads_id_before_anyone_saw_it_run_is_gone() {
    let mut scene = six_waits_and_its_main_thread_has_ended();
    scene.at(100, 0, switch(5, "S", 7));
    let main = 5 + SECOND;
    let [came_in, took_over] = came_in_and_took_over(100);
    let went = format!("100 cpu 0: {main} (1024) blocked -> 7 (1024)");
    assert_eq!(scene.scheduled(), [came_in, took_over, went]);
    assert_eq!(scene.encoder.threads().find(Tid(6)), None);
    scene.at(110, 0, switch(7, "S", 5));
    assert_eq!(scene.scheduled(), [format!("110 cpu 0: 7 (1024) blocked -> {main} (1024)")]);
}

#[test]
fn the_same_is_known_as_soon_as_the_exec_is_reported() {
    let mut scene = six_waits_and_its_main_thread_has_ended();
    scene.at(90, 0, executed(5, "program"));
    assert_eq!(scene.scheduled(), came_in_and_took_over(90));
    scene.at(100, 0, switch(5, "S", 7));
    let went = format!("100 cpu 0: {} (1024) blocked -> 7 (1024)", 5 + SECOND);
    assert_eq!(scene.scheduled(), [went]);
}

#[test]
fn of_several_threads_the_one_that_could_run_took_over_the_main_threads_id() {
    let mut scene = Scene::new();
    scene.at(10, 0, switch(0, "R", 5));
    for other in [6, 8] {
        scene.at(20, 0, fork((5, other), (5, 5)));
        scene.at(21, 0, wakeup(other, 5));
    }
    scene.at(22, 1, switch(0, "R", 8));
    // Its end will not be recorded.
    scene.at(23, 1, switch(8, "S", 0));
    scene.at(30, 0, switch(5, "Z", 0));
    scene.reported();
    scene.at(100, 0, switch(5, "S", 7));
    assert_eq!(scene.scheduled()[..2], came_in_and_took_over(100));
}

#[test]
fn of_several_threads_that_could_run_none_is_taken_for_the_one_that_took_over() {
    let mut scene = Scene::new();
    scene.at(10, 0, switch(0, "R", 5));
    for other in [6, 8] {
        scene.at(20, 0, fork((5, other), (5, 5)));
        scene.at(21, 0, wakeup(other, 5));
    }
    scene.at(30, 0, switch(5, "Z", 0));
    scene.reported();
    scene.at(100, 0, switch(5, "S", 7));
    let main = 5 + SECOND;
    let came_in = format!("100 cpu 0: 0 (idle) running -> {main} (1024) inferred=true");
    assert_eq!(scene.scheduled()[0], came_in);
    assert!(scene.encoder.threads().find(Tid(6)).is_some());
}

#[test]
fn a_thread_that_a_main_thread_starts_after_its_takeover_is_not_taken_for_its_former_self() {
    let mut scene = six_waits_and_its_main_thread_has_ended();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(110, 1, switch(0, "R", 5));
    scene.at(120, 1, fork((5, 9), (5, 5)));
    scene.at(121, 1, wakeup(9, 5));
    scene.at(130, 1, switch(5, "S", 0));
    scene.reported();
    scene.at(140, 0, switch(5, "S", 7));
    let main = 5 + SECOND;
    let came_in = format!("140 cpu 0: 0 (idle) running -> {main} (1024) inferred=true");
    assert_eq!(scene.scheduled()[0], came_in);
    assert!(scene.encoder.threads().find(Tid(9)).is_some());
}

#[test]
fn a_switch_to_the_main_thread_in_a_gap_is_no_takeover() {
    let mut scene = six_runs_and_its_main_thread_has_ended();
    scene.at(100, 0, LOST);
    scene.reported();
    scene.at(110, 0, switch(5, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "110 cpu 0: 6 (1024) blocked -> 4194309 (1024) inferred=true",
            "110 cpu 0: 4194309 (1024) blocked -> 0 (idle)",
        ]
    );
    assert_eq!(scene.encoder.threads().living(), 3);
}

/// The loss may include the end of a thread, and its id may belong to another thread now.
#[test]
fn a_thread_that_ended_unseen_goes_out_as_the_one_it_was() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, LOST);
    scene.at(120, 1, fork((5, 5), (7, 7)));
    scene.reported();
    scene.at(130, 0, switch(8, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "130 cpu 0: 5 (1024) dead -> 8 (1024) inferred=true",
            "130 cpu 0: 8 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn a_thread_that_ended_unseen_and_was_never_shown_is_not_shown_afterwards() {
    let mut scene = Scene::new();
    scene.at(100, 0, interrupt(wakeup(7, 5)));
    scene.at(110, 0, LOST);
    scene.at(120, 1, fork((5, 5), (7, 7)));
    scene.reported();
    scene.at(130, 0, switch(8, "S", 0));
    assert_eq!(scene.scheduled(), ["130 cpu 0: 8 (1024) blocked -> 0 (idle)"]);
    assert_eq!(scene.encoder.stats().inferred_switches, 0);
}

/// Its next event would be a wakeup, or a slice: neither shows that it waited for a CPU.
#[test]
fn a_thread_that_was_not_seen_go_out_is_taken_to_have_blocked_and_its_wake_up_is_kept() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.reported();
    scene.at(110, 0, switch(6, "S", 0));
    scene.at(120, 0, wakeup(5, 7));
    let reported = scene.scheduled();
    assert_eq!(reported[0], "110 cpu 0: 5 (1024) blocked -> 6 (1024) inferred=true");
    assert!(
        reported.contains(&"120 cpu 0: wakes 5 (1024) waker=koid:7".to_owned()),
        "{reported:?}"
    );
}

#[test]
fn nobody_has_a_cpu_while_it_is_offline_and_what_was_not_seen_is_a_loss_of_unknown_size() {
    let mut scene = Scene::new();
    scene.at(100, 1, switch(5, "S", 6));
    scene.at(110, 1, Kind::Offline { goes_idle: true });
    scene.at(900, 1, Kind::Online);
    scene.at(900, 1, Kind::Lost(Loss::unknown()));
    scene.at(900, 1, Kind::LostLives { count: None });
    scene.at(950, 1, switch(7, "S", 8));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 1: 5 (1024) blocked -> 6 (1024)",
            "110 cpu 1: 6 (1024) blocked -> 0 (idle) inferred=true",
            "110 999/999: fxtrec:cpu_offline cpu=1",
            "900 999/999: fxtrec:cpu_online cpu=1",
            "provider 1 reports BufferFilledUp",
            "900 999/999: fxtrec:lost cpu=1",
            "900 999/999: fxtrec:lost_lives cpu=1",
            "950 cpu 1: 0 (idle) running -> 7 (1024) inferred=true",
            "950 cpu 1: 7 (1024) blocked -> 8 (1024)",
        ]
    );
    assert_eq!(scene.encoder.take_silent(), [], "no task is silent, one CPU was away");
    let stats = *scene.encoder.stats();
    assert_eq!((stats.lost, stats.losses, stats.unknown_losses), (0, 1, 1));
    assert_eq!((stats.lost_lives, stats.unseen_lives, stats.is_whole()), (0, 1, false));
}

#[test]
fn losses_are_summed_by_what_is_known_of_them() {
    let mut scene = Scene::new();
    scene.at(100, 0, Kind::Lost(Loss { events: Some(5), at_most: false, switch_records: 7 }));
    scene.at(110, 0, Kind::LostLives { count: Some(4) });
    let exact = *scene.encoder.stats();
    assert_eq!((exact.lost, exact.lost_switch_records, exact.lost_lives), (5, 7, 4));
    assert_eq!((exact.losses, exact.lost_at_most), (1, false));
    scene.at(120, 0, Kind::Lost(Loss::at_most(3)));
    let bound = *scene.encoder.stats();
    assert_eq!((bound.lost, bound.losses, bound.lost_at_most), (8, 2, true));
}
