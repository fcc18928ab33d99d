//! Missing data: lost events, inferred switches, damage.

use super::{assert_figures, figures, micros};
use crate::Metric::{Blocked, Preemption, RunQueue, Slice, Wakeup};
use crate::scene::{Leaves, Scene, thread};
use crate::{Options, Selection};

/// At 100: 101 runs on CPU 0, 102 waits for CPU 1, which 103 has, and 104 is blocked.
fn before_a_gap() -> Scene {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(20, 1, 0, Leaves::R, 104);
    scene.switch(30, 1, 104, Leaves::S, 102);
    scene.switch(40, 1, 102, Leaves::R, 103);
    scene
}

/// At 200 each of these states ends.
fn after_a_gap(scene: &mut Scene) {
    scene.wake(200, 0, 104);
    scene.switch(200, 0, 101, Leaves::S, 104);
    scene.switch(200, 1, 103, Leaves::S, 102);
}

#[test]
fn waits_and_sleeps_that_span_a_loss_are_censored_and_slices_of_its_cpu() {
    let mut scene = before_a_gap();
    scene.lose(100, 0, 7);
    after_a_gap(&mut scene);
    let report = scene.report();
    assert_figures(
        &report,
        101,
        &[(Slice, (0, 0, 1)), (Blocked, (0, 0, 1)), (RunQueue, (0, 0, 1))],
    );
    assert_eq!(figures(&report, 102, Preemption), (0, 0, 1));
    assert_eq!(figures(&report, 103, Slice), (1, 160, 0), "CPU 1 lost nothing");
    assert_eq!(figures(&report, 104, Blocked), (0, 0, 1));
    assert_eq!(figures(&report, 104, Wakeup), (1, 0, 0), "woken and switched in after the gap");
    assert_eq!((report.losses.events, report.losses.gaps), (7, 1));
    let gap = report.losses.list[0];
    assert_eq!((gap.span.begin.0, gap.span.end.0), (10_000, 100_000));
    assert_eq!((gap.events, report.losses.unknown, report.losses.at_most), (Some(7), 0, false));
}

#[test]
fn without_the_loss_the_same_trace_has_samples() {
    let mut scene = before_a_gap();
    after_a_gap(&mut scene);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Slice), (1, 190, 0));
    assert_eq!(figures(&report, 102, Preemption), (1, 160, 0));
    assert_eq!(figures(&report, 104, Blocked), (1, 170, 0));
    assert_eq!(report.losses, Default::default());
}

#[test]
fn nobody_is_given_the_time_of_a_gap() {
    let mut scene = before_a_gap();
    scene.lose(100, 0, 7);
    after_a_gap(&mut scene);
    let report = scene.report();
    // From its switch-in at 10 to the report of the loss at 100, any thread may have had the CPU.
    assert_eq!(micros(thread(&report, 101).stats.cpu_time), 100);
    let cpu = &report.cpus[0];
    assert_eq!((micros(cpu.busy), micros(cpu.idle)), (100, 0));
}

#[test]
fn nobody_is_given_the_time_of_a_gap_on_a_cpu_that_was_not_seen_before() {
    let run = |missing: fn(&mut Scene) -> &mut Scene| {
        let mut scene = before_a_gap();
        missing(&mut scene);
        after_a_gap(&mut scene);
        scene.switch(230, 2, 105, Leaves::S, 0);
        let report = scene.report();
        assert_eq!(figures(&report, 105, Slice), (0, 0, 1));
        micros(thread(&report, 105).stats.cpu_time)
    };
    assert_eq!(run(|scene| scene), 220, "since the first event of the trace, at 10");
    assert_eq!(run(|scene| scene.lose(100, 2, 7)), 130);
    // The time of damage is unknown: it ends with the event that follows, at 200.
    assert_eq!(run(Scene::damage), 30);
}

#[test]
fn a_wake_up_after_a_gap_begins_a_wait_of_its_own() {
    let mut scene = before_a_gap();
    scene.lose(100, 0, 7);
    scene.wake(150, 1, 102);
    scene.wake(160, 1, 103);
    scene.switch(170, 1, 103, Leaves::S, 102);
    let report = scene.report();
    assert_eq!(figures(&report, 102, Preemption), (0, 0, 1));
    assert_eq!(figures(&report, 102, Wakeup), (1, 20, 0));
    assert_eq!(figures(&report, 103, Slice), (1, 130, 0), "it ran, and the wakeup was in vain");
    assert_eq!(report.idle_wakeups, 1);
    let queues: Vec<u64> =
        report.cpus.iter().filter_map(|cpu| cpu.load).map(|load| load.queue_max).collect();
    assert_eq!(queues, [0, 1]);
}

#[test]
fn an_inferred_switch_gives_no_sample_on_either_side() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.wake(20, 0, 102);
    scene.inferred(50, 0, 101, 102);
    scene.switch(60, 0, 102, Leaves::S, 101);
    scene.switch(70, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_figures(
        &report,
        101,
        // Between 50 and 60, it is unknown whether it waited or was blocked.
        &[(Slice, (1, 10, 1)), (RunQueue, (0, 0, 2)), (Blocked, (0, 0, 1))],
    );
    assert_figures(&report, 102, &[(Wakeup, (0, 0, 1)), (Slice, (0, 0, 1)), (Blocked, (0, 0, 1))]);
    assert_eq!(report.cpus[0].inferred, 1);
    assert_eq!(report.switches(), 3);
    assert_eq!(thread(&report, 101).stats.switches(), 1);
    assert_eq!(thread(&report, 101).stats.inferred, 1);
}

#[test]
fn a_switch_that_is_missing_without_a_word_cuts_both_slices() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(50, 0, 102, Leaves::S, 103);
    scene.switch(60, 0, 103, Leaves::S, 101);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Slice), (0, 0, 2), "that, and the one open at the end");
    assert_eq!(figures(&report, 102, Slice), (0, 0, 1));
    assert_eq!(figures(&report, 103, Slice), (1, 10, 0));
    assert_eq!(micros(report.cpus[0].busy), 10);
}

#[test]
fn in_a_narrow_scope_an_outsider_may_have_run_unseen_while_it_seemed_to_wait() {
    let record = |scope| {
        let mut scene = Scene::of_scope(scope);
        scene.wake(5, 0, 101);
        // 201, which is outside the scope, is preempted, runs again after 202 without being recorded, and follows 101 once more.
        scene.switch(10, 0, 201, Leaves::R, 101);
        scene.switch(20, 0, 101, Leaves::R, 202);
        scene.switch(30, 0, 202, Leaves::S, 0);
        scene.switch(80, 0, 0, Leaves::R, 101);
        scene.switch(90, 0, 101, Leaves::S, 201);
        scene.report()
    };
    assert_eq!(figures(&record("app"), 201, Preemption), (0, 0, 1));
    assert_eq!(
        figures(&record("app"), 101, Preemption),
        (1, 60, 0),
        "it is in scope: it was woken"
    );
    assert_eq!(figures(&record("all"), 201, Preemption), (1, 80, 0));
}

#[test]
fn damage_is_a_gap_of_all_cpus() {
    let mut scene = before_a_gap();
    scene.damage();
    after_a_gap(&mut scene);
    let report = scene.report();
    assert_eq!(figures(&report, 103, Slice), (0, 0, 1));
    assert_eq!(figures(&report, 102, Preemption), (0, 0, 1));
    assert_eq!((report.losses.damaged, report.losses.gaps, report.losses.events), (1, 1, 0));
    assert_eq!(report.losses.list[0].cpu, None);
}

#[test]
fn a_truncated_file_is_reported_and_read_as_far_as_it_goes() {
    let mut scene = before_a_gap();
    after_a_gap(&mut scene);
    let bytes = &scene.bytes()[..scene.bytes().len() - 8];
    let reader = fxt_reader::Reader::from_slice(bytes);
    let report = crate::analyse(reader, Default::default()).expect("it is a trace");
    assert!(report.losses.truncated);
    assert_eq!(figures(&report, 102, Preemption), (0, 0, 1), "its end was cut off");
    assert_eq!(figures(&report, 101, Slice), (1, 190, 0));
}

#[test]
fn an_application_whose_buffer_fills_up_before_the_first_switch_costs_no_event_of_the_scheduler() {
    let mut scene = Scene::new();
    scene.drop_records(5, 3, Some(7));
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(20, 0, 101, Leaves::S, 0);
    let report = scene.report();
    assert_eq!(figures(&report, 101, Slice), (1, 10, 0));
    let losses = &report.losses;
    assert_eq!((losses.gaps, losses.events, losses.unknown), (0, 0, 0));
    assert_eq!((losses.records(), losses.unknown_records()), (7, 0));
}

#[test]
fn a_buffer_of_the_scheduler_that_fills_up_before_the_first_switch_is_one_gap() {
    let mut scene = Scene::new();
    scene.lose(5, 0, 7);
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.switch(20, 0, 101, Leaves::S, 0);
    let losses = scene.report().losses;
    assert_eq!((losses.gaps, losses.events, losses.providers.len()), (1, 7, 0));
}

#[test]
fn records_that_applications_dropped_are_counted_and_placed_in_time_by_name() {
    let mut scene = before_a_gap();
    scene.drop_records(60, 20, Some(5)).drop_records(90, 30, Some(8)).drop_records(95, 95, None);
    after_a_gap(&mut scene);
    scene.fill_up();
    let report = scene.report();
    assert_eq!(figures(&report, 102, Preemption), (1, 160, 0), "no switch is missing");
    let [app] = &report.losses.providers[..] else { panic!("{:?}", report.losses) };
    assert_eq!((&*app.name, app.records, app.gaps, app.unknown), ("app", 13, 4, 2));
    let times: Vec<_> =
        app.list.iter().map(|gap| (gap.span.begin.0, gap.span.end.0, gap.records)).collect();
    assert_eq!(times, [(40_000, 60_000, Some(5)), (60_000, 90_000, Some(8)), (0, 95_000, None)]);
}

#[test]
fn records_that_were_dropped_outside_of_the_selected_time_are_not_counted() {
    let mut scene = before_a_gap();
    scene.drop_records(20, 5, Some(5)).drop_records(90, 30, Some(8));
    after_a_gap(&mut scene);
    let whole = scene.report();
    assert_eq!(whole.losses.records(), 13);
    let mut selection = Selection::default();
    selection.range.from = Some(crate::TimeSpec::After(60_000));
    let part = scene.report_with(Options { selection, ..Options::default() });
    assert_eq!(part.losses.records(), 8);
}
