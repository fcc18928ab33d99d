//! The recorder's own threads, and the worst delay of a recording.

use super::micros;
use crate::scene::{Leaves, Scene};
use crate::{Metric, Options, Pattern, Report, Selection};

/// Thread 301 of the recorder waits for 80 us, and 101 for 20.
fn scene() -> Scene {
    let mut scene = Scene::recorded_by(300, "waker,syscall", None);
    scene.name(301, "fxtrec-capture");
    scene.switch(0, 0, 0, Leaves::R, 102).wake(10, 0, 301).wake(20, 0, 101);
    scene.switch(40, 0, 102, Leaves::S, 101).switch(90, 0, 101, Leaves::S, 301);
    scene.switch(120, 0, 301, Leaves::S, 0).end(200);
    scene
}

fn select(selection: Selection) -> Report {
    scene().report_with(Options { selection, ..Options::default() })
}

#[test]
fn the_recorders_threads_are_left_out_of_all_figures_but_those_of_cpus() {
    let report = select(Selection::default());
    let tids: Vec<_> = report.threads().iter().filter_map(|thread| thread.tid).collect();
    assert_eq!(tids, [101, 102]);
    assert_eq!(report.worst().iter().map(|wait| wait.thread.tid).collect::<Vec<_>>(), [101]);
    assert_eq!(report.total().metric(Metric::Wakeup).max().map(micros), Some(20));
    assert_eq!(report.cpus[0].metric(Metric::Wakeup).max().map(micros), Some(80));
    let own = report.recorder.as_ref().expect("it was there");
    assert_eq!((own.threads, micros(own.stats.cpu_time)), (1, 30));
    assert_eq!(own.stats.metric(Metric::Wakeup).max().map(micros), Some(80));
    let delay = report.delay.as_ref().expect("one");
    assert_eq!((delay.thread.tid, micros(delay.span.length())), (101, 20));
    let mut text = Vec::new();
    crate::text::write_brief(&report, &mut text).expect("memory");
    let text = String::from_utf8(text).expect("text");
    let lines = "  worst wait 20.0 us: t101[101] for CPU 0; ran instead: t102[102] 20.0 us
  left out   1 thread of fxtrec: CPU time 30.0 us, longest wait 80.0 us (--include-recorder)
";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn anyone_who_asks_for_the_recorders_threads_has_them() {
    let all = Selection { recorder: true, ..Selection::default() };
    let mut chosen = Selection::default();
    chosen.threads.comms = vec![Pattern::new("fxtrec*").expect("a glob")];
    for selection in [all, chosen] {
        let report = select(selection);
        assert_eq!(report.worst()[0].thread.tid, 301);
        assert_eq!(report.delay.as_ref().map(|delay| delay.thread.tid), Some(301));
        assert!(report.recorder.is_none() && report.threads()[0].tid == Some(301));
    }
}

/// A shell waits for its child, which is preempted for 30 ms and then exits. Meanwhile thread 201 of another program waits for 90 ms.
fn shell() -> Scene {
    let mut scene = Scene::recorded_by(300, "waker,syscall", Some(100));
    scene.name(100, "sh").name(401, "sh");
    let ms = |millis: u64| millis * 1000;
    scene.switch(0, 0, 0, Leaves::R, 100).switch(10, 0, 100, Leaves::S, 0);
    // The recorder lets COMMAND run.
    scene.wake_by(ms(50), 0, 100, 300).switch(ms(50), 0, 0, Leaves::R, 100);
    let wait4 = [("syscall", fxt_writer::Value::Uint32(61))];
    scene.wake_by(ms(51), 1, 401, 100).switch(ms(51), 1, 0, Leaves::R, 401);
    scene.switch_with((ms(52), 0), 100, Leaves::S, 0, &wait4);
    scene.wake(ms(60), 1, 201).switch(ms(100), 1, 401, Leaves::R, 202);
    scene.switch(ms(130), 1, 202, Leaves::S, 401);
    scene.wake_by(ms(139), 0, 100, 401).switch(ms(139) + 5, 0, 0, Leaves::R, 100);
    scene.switch(ms(140), 1, 401, Leaves::X, 201).switch(ms(150), 1, 201, Leaves::S, 0);
    scene.switch(ms(160), 0, 100, Leaves::X, 0).end(ms(400));
    scene
}

#[test]
fn a_wait_for_a_child_or_for_the_recorder_is_not_the_worst_delay() {
    let report = shell().report();
    let delay = report.delay.as_ref().expect("one");
    assert_eq!((delay.thread.tid, micros(delay.span.length())), (401, 30_000));
    let command = report.command.expect("it began and ended");
    assert_eq!((command.begin.0, command.end.0), (50_000_000, 160_000_000));
    let main = crate::scene::thread(&report, 100);
    let blocked = main.metric(Metric::Blocked);
    assert_eq!((blocked.count(), blocked.max().map(micros)), (1, Some(87_000)), "of the recorder");
    let text = crate::text::worst_of_all(&report).expect("it is told").1;
    assert_eq!(text, "30.0 ms: sh[401] for CPU 1; ran instead: t202[202] 30.0 ms");
}

/// The second recording begins after the first one's COMMAND has run.
#[test]
fn in_merged_recordings_no_command_waits_for_its_recorder() {
    let mut scene = shell();
    let ms = |millis: u64| millis * 1000;
    scene.merge(ms(400), 310, 500).name(310, "fxtrec");
    scene.switch(ms(400), 0, 0, Leaves::R, 500).switch(ms(400) + 10, 0, 500, Leaves::S, 0);
    scene.wake_by(ms(490), 0, 500, 310).switch(ms(490), 0, 0, Leaves::R, 500);
    // Later, it waits like any other thread.
    scene.switch(ms(500), 0, 500, Leaves::S, 0);
    scene.wake_by(ms(560), 0, 500, 310).switch(ms(560), 0, 0, Leaves::R, 500).end(ms(600));
    let main = scene.report();
    let main = crate::scene::thread(&main, 500);
    let blocked = main.metric(Metric::Blocked);
    assert_eq!((blocked.count(), blocked.max().map(micros)), (1, Some(60_000)));
}

#[test]
fn a_thread_that_waits_for_a_late_one_is_the_worst_and_the_sentence_says_for_what() {
    let mut scene = Scene::recorded_by(300, "waker,syscall", Some(100));
    scene.name(101, "audio").name(102, "logger");
    let ms = |millis: u64| millis * 1000;
    let futex = [("syscall", fxt_writer::Value::Uint32(202))];
    scene.switch(0, 0, 0, Leaves::R, 102).switch(0, 1, 0, Leaves::R, 101);
    scene.switch(ms(10), 0, 102, Leaves::R, 202);
    scene.switch_with((ms(12), 1), 101, Leaves::S, 0, &futex);
    scene.switch(ms(40), 0, 202, Leaves::R, 102).wake_by(ms(41), 0, 101, 102);
    scene.switch(ms(46), 0, 102, Leaves::S, 101).switch(ms(47), 0, 101, Leaves::S, 0);
    scene.end(ms(200));
    let report = scene.report();
    let text = crate::text::worst_of_all(&report).expect("it is told");
    let expected = "34.0 ms: audio[101] was blocked in futex for 29.0 ms until woken by logger[102], \
                    then waited 5.00 ms for CPU 0; ran instead: logger[102] 5.00 ms";
    assert_eq!(text, ("worst delay", expected.to_owned()));
}
