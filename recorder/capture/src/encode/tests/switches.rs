//! Context switches: threads, states and weights.

use super::scene::PassMode;
use super::{Scene, comm, switch, wakeup};
use crate::event::{Kind, Loss, SliceFacts, Switch, Taken, Wake};
use fxtrec_units::Nanos;

#[test]
fn a_switch_has_both_threads_named_before_it_and_both_weights() {
    let mut scene = Scene::new();
    let nice_and_not = Switch { prev_prio: 125, next_prio: 115, ..switch(5, "S", 6) };
    scene.at(100, 1, nice_and_not);
    assert_eq!(
        scene.reported(),
        [
            "process 5 = t5",
            "thread 5 = t5 of 5",
            "process 6 = t6",
            "thread 6 = t6 of 6",
            "100 cpu 1: 5 (335) blocked -> 6 (3121)",
        ]
    );
    let stats = *scene.encoder.stats();
    assert_eq!((stats.switches, stats.switches_written), (1, 1));
    assert_eq!((stats.threads, stats.processes), (2, 2));
}

#[test]
fn the_idle_side_carries_the_least_weight_whatever_its_priority() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(200, 0, Switch { next_prio: -1, ..switch(5, "S", 0) });
    assert_eq!(
        scene.reported(),
        [
            "process 0 = swapper",
            "thread 0 = swapper of 0",
            "process 5 = t5",
            "thread 5 = t5 of 5",
            "100 cpu 0: 0 (idle) running -> 5 (1024)",
            "200 cpu 0: 5 (1024) blocked -> 0 (idle)",
        ]
    );
}

#[test]
fn real_time_threads_carry_the_greatest_weight() {
    let mut scene = Scene::new();
    scene.at(100, 0, Switch { prev_prio: 0, next_prio: 99, ..switch(5, "S", 6) });
    assert_eq!(scene.scheduled(), ["100 cpu 0: 5 (2147483647) blocked -> 6 (2147483647)"]);
}

#[test]
fn a_weight_follows_the_priority_from_switch_to_switch() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(200, 0, Switch { prev_prio: 139, ..switch(5, "R", 0) });
    assert_eq!(
        scene.scheduled(),
        ["100 cpu 0: 0 (idle) running -> 5 (1024)", "200 cpu 0: 5 (15) running -> 0 (idle)",]
    );
}

#[test]
fn usual_weights_can_be_left_out() {
    for mode in [PassMode::Public, PassMode::Thorough] {
        let mut scene = Scene::new();
        scene.mode = mode;
        scene.leave_out_usual_weights();
        scene.at(100, 0, switch(0, "R", 5));
        scene.at(200, 0, switch(5, "S", 6));
        scene.at(210, 0, wakeup(5, 6));
        scene.at(220, 0, Switch { syscall: Some(7), ..switch(6, "D", 5) });
        scene.at(230, 0, Wake { prio: 125, ..wakeup(6, 5) });
        scene.at(240, 0, Switch { next_prio: 125, ..switch(5, "R+", 6) });
        scene.at(250, 0, Switch { prev_prio: 125, ..switch(6, "S", 0) });
        assert_eq!(
            scene.scheduled(),
            [
                "100 cpu 0: 0 (idle) running -> 5 (usual)",
                "200 cpu 0: 5 (usual) blocked -> 6 (usual)",
                "210 cpu 0: wakes 5 (usual) waker=koid:6",
                r#"220 cpu 0: 6 (usual) blocked -> 5 (usual) prev_state="D" syscall=7"#,
                "230 cpu 0: wakes 6 (335) waker=koid:5",
                r#"240 cpu 0: 5 (usual) running -> 6 (335) prev_state="R+""#,
                "250 cpu 0: 6 (335) blocked -> 0 (idle)",
            ]
        );
    }
}

#[test]
fn a_preempted_thread_stays_runnable() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "R+", 6));
    scene.at(200, 0, switch(6, "S", 5));
    assert_eq!(
        scene.scheduled(),
        [
            r#"100 cpu 0: 5 (1024) running -> 6 (1024) prev_state="R+""#,
            "200 cpu 0: 6 (1024) blocked -> 5 (1024)",
        ]
    );
}

#[test]
fn states_that_share_one_of_the_format_keep_the_kernels_letter() {
    let mut scene = Scene::new();
    let states = ["D", "I", "P", "T", "t", "R", "?"];
    for (at, state) in (0_u64..).zip(states) {
        scene.at(100 + 2 * at, 0, switch(5, state, 6));
        scene.at(101 + 2 * at, 0, switch(6, "R", 5));
    }
    let outs: Vec<String> = scene.scheduled().into_iter().step_by(2).collect();
    assert_eq!(
        outs,
        [
            r#"100 cpu 0: 5 (1024) blocked -> 6 (1024) prev_state="D""#,
            r#"102 cpu 0: 5 (1024) blocked -> 6 (1024) prev_state="I""#,
            r#"104 cpu 0: 5 (1024) blocked -> 6 (1024) prev_state="P""#,
            "106 cpu 0: 5 (1024) suspended -> 6 (1024)",
            r#"108 cpu 0: 5 (1024) suspended -> 6 (1024) prev_state="t""#,
            "110 cpu 0: 5 (1024) running -> 6 (1024)",
            r#"112 cpu 0: 5 (1024) blocked -> 6 (1024) prev_state="?""#,
        ]
    );
}

#[test]
fn a_thread_goes_out_dying_or_dead_forever() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "Z", 6));
    scene.at(200, 0, switch(6, "X", 0));
    assert_eq!(
        scene.scheduled(),
        ["100 cpu 0: 5 (1024) dying -> 6 (1024)", "200 cpu 0: 6 (1024) dead -> 0 (idle)",]
    );
    assert_eq!(scene.encoder.threads().living(), 1, "only the idle task is left");
}

#[test]
fn the_idle_task_never_ends_and_is_never_renamed() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 0));
    scene.at(200, 1, Switch { prev_comm: comm("swapper/1"), ..switch(0, "X", 6) });
    assert_eq!(
        scene.named(),
        [
            "process 5 = t5",
            "thread 5 = t5 of 5",
            "process 0 = swapper",
            "thread 0 = swapper of 0",
            "process 6 = t6",
            "thread 6 = t6 of 6",
        ]
    );
    assert_eq!(scene.encoder.threads().living(), 3);
}

#[test]
fn cpus_keep_chains_of_their_own() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 63, switch(0, "R", 6));
    scene.at(120, 0, switch(5, "S", 0));
    scene.at(130, 63, switch(6, "S", 0));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 0 (idle) running -> 5 (1024)",
            "110 cpu 63: 0 (idle) running -> 6 (1024)",
            "120 cpu 0: 5 (1024) blocked -> 0 (idle)",
            "130 cpu 63: 6 (1024) blocked -> 0 (idle)",
        ]
    );
}

fn stolen(nanos: u64) -> Kind {
    Kind::Slice(SliceFacts { steal: Nanos(nanos), ..SliceFacts::default() })
}

#[test]
fn what_was_stolen_from_a_slice_is_on_the_switch_that_ends_it_and_no_more_than_that_slice() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    scene.at(200, 0, stolen(30));
    scene.at(200, 0, switch(6, "R", 5));
    scene.at(300, 0, switch(5, "S", 6));
    scene.at(350, 0, stolen(60));
    scene.at(350, 0, switch(6, "S", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 6 (1024)",
            "200 cpu 0: 6 (1024) running -> 5 (1024) steal_ns=30",
            "300 cpu 0: 5 (1024) blocked -> 6 (1024)",
            "350 cpu 0: 6 (1024) blocked -> 5 (1024) steal_ns=50",
        ]
    );
}

#[test]
fn what_was_stolen_from_an_unseen_slice_is_on_no_switch() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    scene.at(200, 0, stolen(30));
    scene.at(200, 0, switch(7, "S", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 6 (1024)",
            "200 cpu 0: 6 (1024) blocked -> 7 (1024) inferred=true",
            "200 cpu 0: 7 (1024) blocked -> 5 (1024)",
        ]
    );
}

#[test]
fn what_was_stolen_since_before_a_slice_that_began_unseen_is_on_no_switch() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    // Thread 7 has the CPU at this time.
    scene.at(150, 0, wakeup(5, 7));
    scene.reported();
    scene.at(200, 0, stolen(30));
    scene.at(200, 0, switch(7, "S", 5));
    assert_eq!(scene.scheduled(), ["200 cpu 0: 7 (1024) blocked -> 5 (1024)"]);
}

#[test]
fn the_slice_that_a_reported_switch_begins_is_told_of_whoever_was_thought_to_have_the_cpu() {
    let taken = |irq| Kind::Taken(Taken { irq: Nanos(irq), irqs: 1, asked: None });
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    // Thread 7 was switched in unseen, and is switched out: that is reported, and with it the beginning of thread 5's slice.
    scene.at(200, 0, taken(20));
    scene.at(200, 0, switch(7, "S", 5));
    scene.at(300, 0, stolen(30));
    scene.at(300, 0, taken(40));
    scene.at(300, 0, switch(5, "S", 6));
    assert_eq!(
        scene.scheduled()[2..],
        [
            "200 cpu 0: 7 (1024) blocked -> 5 (1024)",
            "300 cpu 0: 5 (1024) blocked -> 6 (1024) steal_ns=30 irq_ns=40 irqs=1",
        ]
    );
}

#[test]
fn nothing_is_reported_for_a_slice_within_which_events_were_lost() {
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    scene.at(150, 0, Kind::Lost(Loss::exactly(1)));
    scene.at(200, 0, stolen(30));
    scene.at(200, 0, switch(6, "S", 5));
    let last = scene.scheduled().pop();
    assert_eq!(last.as_deref(), Some("200 cpu 0: 6 (1024) blocked -> 5 (1024)"));
}

#[test]
fn what_interrupts_took_and_when_a_switch_was_asked_for_is_on_the_switch_that_ends_the_slice() {
    let taken = |irq, irqs, asked: Option<u64>| {
        Kind::Taken(Taken { irq: Nanos(irq), irqs, asked: asked.map(Nanos) })
    };
    let mut scene = Scene::new();
    scene.at(100, 0, switch(5, "S", 6));
    scene.at(200, 0, taken(30, 2, Some(7)));
    scene.at(200, 0, switch(6, "R+", 5));
    scene.at(300, 0, taken(40, 1, None));
    scene.at(300, 0, switch(5, "S", 6));
    // Thread 7 was switched in unseen.
    scene.at(400, 0, taken(50, 3, Some(9)));
    scene.at(400, 0, switch(7, "R", 5));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 6 (1024)",
            "200 cpu 0: 6 (1024) running -> 5 (1024) prev_state=\"R+\" irq_ns=30 irqs=2 need_resched_ns=7",
            "300 cpu 0: 5 (1024) blocked -> 6 (1024) irq_ns=40 irqs=1",
            "400 cpu 0: 6 (1024) blocked -> 7 (1024) inferred=true",
            "400 cpu 0: 7 (1024) running -> 5 (1024) need_resched_ns=9",
        ]
    );
}

#[test]
fn the_system_call_is_told_of_threads_that_block_and_of_no_others() {
    let with = |call: Switch| Switch { syscall: Some(202), ..call };
    let mut scene = Scene::new();
    scene.at(100, 0, with(switch(5, "S", 6)));
    scene.at(110, 0, with(switch(6, "D", 5)));
    scene.at(120, 0, with(switch(5, "R", 6)));
    scene.at(130, 0, with(switch(6, "X", 5)));
    assert_eq!(
        scene.scheduled(),
        [
            "100 cpu 0: 5 (1024) blocked -> 6 (1024) syscall=202",
            "110 cpu 0: 6 (1024) blocked -> 5 (1024) prev_state=\"D\" syscall=202",
            "120 cpu 0: 5 (1024) running -> 6 (1024)",
            "130 cpu 0: 6 (1024) dead -> 5 (1024)",
        ]
    );
}
