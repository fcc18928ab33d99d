//! Triggers: which ones fire, with which values, and the records about them.

use fxt_reader::Reader;

use super::{LOST, Proc, Scene, renamed, running, switch, wakeup};
use crate::encode::ids::Ids;
use crate::encode::threads::Threads;
use crate::event::{Kept, Kind, LocalId, SliceFacts, Taken, Throttle};
use crate::flight::watch::{Counts, Fired, Limits, Watch};
use fxt_writer::Koid;
use fxtrec_gates::{Amount, Dimension};
use fxtrec_report::{Options, analyse};
use fxtrec_units::{Cpu, Nanos, Tid};

/// A recording of the whole machine with these triggers.
fn scene(triggers: &[&str]) -> Scene {
    arm(Scene::new(), triggers)
}

pub(super) fn arm(mut scene: Scene, triggers: &[&str]) -> Scene {
    let parsed = |text: &&str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let limits = Limits { interval: Nanos(0), most: None };
    scene.encoder.watch_with(Watch::new(triggers.iter().map(parsed).collect(), limits));
    scene
}

/// The triggers that have fired since the last call, each with the begin and end of its slice or wait.
fn spans(scene: &mut Scene) -> Vec<(usize, Option<u64>, u64)> {
    let watch = scene.encoder.watch().expect("there are triggers");
    let reported = |fired: Fired| (fired.trigger, fired.since.map(|since| since.0), fired.time.0);
    watch.take_fired().map(reported).collect()
}

/// The triggers that have fired since the last call: time, trigger, thread and value.
fn fired(scene: &mut Scene) -> Vec<(u64, usize, Option<u32>, Option<f64>)> {
    let watch = scene.encoder.watch().expect("there are triggers");
    let reported = |fired: Fired| {
        let thread = fired.thread.map(|thread| thread.tid.0);
        (fired.time.0, fired.trigger, thread, fired.value.map(|value| value.number))
    };
    watch.take_fired().map(reported).collect()
}

#[test]
fn each_length_of_time_fires_when_it_ends_and_is_written_down() {
    let mut scene =
        scene(&["wakeup >= 30ns", "preempt >= 30ns", "slice >= 90ns", "blocked >= 50ns"]);
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, wakeup(7, 5));
    scene.at(140, 0, switch(5, "R", 7));
    assert_eq!(fired(&mut scene), [(140, 0, Some(7), Some(30.0))]);
    scene.at(180, 0, switch(7, "S", 5));
    assert_eq!(fired(&mut scene), [(180, 1, Some(5), Some(40.0))]);
    scene.at(230, 0, wakeup(7, 5));
    assert_eq!(fired(&mut scene), [(230, 3, Some(7), Some(50.0))]);
    scene.at(290, 0, switch(5, "S", 7));
    assert_eq!(fired(&mut scene), [(290, 2, Some(5), Some(110.0)), (290, 0, Some(7), Some(60.0))]);
    let marks: Vec<String> =
        scene.reported().into_iter().filter(|line| line.contains("fxtrec:trigger")).collect();
    assert_eq!(
        marks[0],
        r#"140 999/999: fxtrec:trigger expression="wakeup >= 30ns" cpu=0 thread=koid:7 value_ns=30"#
    );
    assert_eq!(marks.len(), 5);
}

#[test]
fn uninterruptible_sleep_and_the_run_queue_have_triggers_of_their_own() {
    let mut scene = scene(&["blocked_d > 10ns", "runqueue > 10ns"]);
    scene.at(100, 0, switch(7, "S", 0));
    scene.at(200, 0, wakeup(7, 0));
    scene.at(220, 0, switch(0, "R", 7));
    scene.at(230, 0, switch(7, "D", 0));
    assert_eq!(fired(&mut scene), [(220, 1, Some(7), Some(20.0))]);
    scene.at(250, 0, wakeup(7, 0));
    assert_eq!(fired(&mut scene), [(250, 0, Some(7), Some(20.0))]);
}

#[test]
fn what_was_taken_of_slices_and_waits_has_triggers_of_its_own() {
    let mut scene = scene(&[
        "steal >= 5ns",
        "irq >= 5ns",
        "need_resched >= 5ns",
        "throttled >= 5ns",
        "preempt >= 25ns",
    ]);
    let steal = |nanos| Kind::Slice(SliceFacts { steal: Nanos(nanos), ..SliceFacts::default() });
    let taken = |irq, asked: u64| {
        Kind::Taken(Taken { irq: Nanos(irq), irqs: 1, asked: Some(Nanos(asked)) })
    };
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(150, 0, steal(6));
    scene.at(150, 0, taken(7, 8));
    scene.at(150, 0, switch(5, "S", 6));
    let expected =
        [(150, 0, Some(5), Some(6.0)), (150, 1, Some(5), Some(7.0)), (150, 2, Some(5), Some(8.0))];
    assert_eq!(fired(&mut scene), expected);
    // Values below the limit do not fire.
    scene.at(190, 0, steal(4));
    scene.at(190, 0, taken(4, 4));
    scene.at(190, 0, switch(6, "S", 7));
    assert_eq!(fired(&mut scene), []);
    // A quota takes 40 of its wait of 60.
    let throttle = Throttle { kept: Nanos(1_000), cgroup: 7, own: 8, now: true, of_queues: false };
    let throttled = SliceFacts { throttled: Some(throttle), ..SliceFacts::default() };
    scene.at(200, 0, Kind::Slice(throttled));
    scene.at(200, 0, switch(7, "R", 0));
    let (tid, kept, cpu) = (Tid(7), Nanos(1_040), Cpu(0));
    let said = Kept { tid, kept, cpu, own: 8, of_queues: false, begins: false, goes_on: false };
    scene.at(260, 0, Kind::Kept(said));
    scene.at(260, 0, switch(0, "R", 7));
    assert_eq!(fired(&mut scene), [(260, 3, Some(7), Some(40.0))], "20 are no wait of 25");
}

#[test]
fn what_fires_shows_when_its_slice_or_wait_began() {
    let mut scene = scene(&["steal >= 5ns", "throttled >= 5ns", "preempt >= 15ns", "lost > 0"]);
    let steal = SliceFacts { steal: Nanos(6), ..SliceFacts::default() };
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(150, 0, Kind::Slice(steal));
    scene.at(150, 0, switch(5, "S", 7));
    let throttle = Throttle { kept: Nanos(1_000), cgroup: 7, own: 8, now: true, of_queues: false };
    let throttled = SliceFacts { throttled: Some(throttle), ..SliceFacts::default() };
    scene.at(200, 0, Kind::Slice(throttled));
    scene.at(200, 0, switch(7, "R", 0));
    let (tid, kept, cpu) = (Tid(7), Nanos(1_040), Cpu(0));
    let said = Kept { tid, kept, cpu, own: 8, of_queues: false, begins: false, goes_on: false };
    scene.at(260, 0, Kind::Kept(said));
    scene.at(260, 0, switch(0, "R", 7));
    scene.at(270, 0, LOST);
    let (slice, wait) = ((0, Some(100), 150), (1, Some(200), 260));
    assert_eq!(spans(&mut scene), [slice, wait, (2, Some(200), 260), (3, None, 270)]);
}

#[test]
fn a_turn_fires_when_its_thread_goes_to_sleep() {
    for narrow in [false, true] {
        let mut threads = Threads::new(Ids::Initial, Box::new(Proc::default()));
        threads.include(LocalId(7));
        let scene = if narrow { Scene::narrow(threads) } else { Scene::of(threads) };
        let mut scene = arm(scene, &["turn > 50ns if comm ~ \"*\"", "turn > 80ns"]);
        scene.at(100, 0, switch(0, "R", 5));
        scene.at(110, 0, wakeup(7, 5));
        scene.at(120, 0, switch(5, "R", 7));
        scene.at(130, 0, switch(7, "R", 5));
        scene.at(150, 0, switch(5, "R", 7));
        assert_eq!(fired(&mut scene), []);
        scene.at(180, 0, switch(7, "S", 5));
        assert_eq!(fired(&mut scene), [(180, 0, Some(7), Some(70.0))], "narrow: {narrow}");
        scene.at(190, 0, wakeup(7, 5));
        scene.at(195, 0, switch(5, "R", 7));
        scene.at(240, 0, switch(7, "D", 5));
        assert_eq!(fired(&mut scene), [], "50 are not more than 50");
        scene.at(250, 0, wakeup(7, 5));
        scene.at(255, 0, switch(5, "R", 7));
        scene.at(260, 0, LOST);
        scene.at(400, 0, switch(7, "S", 5));
        assert_eq!(fired(&mut scene), []);
    }
}

#[test]
fn a_span_of_an_application_fires_for_its_thread() {
    let mut scene = scene(&["span('x') > 5ns", "span('x') > 5ns if comm = \"app\""]);
    scene.at(50, 0, renamed((8, 8), "app"));
    let mut span = |trigger, since, thread, time| {
        let from = "app (8)".to_owned();
        let encoder = &mut scene.encoder;
        encoder.span(trigger, (Nanos(since), Nanos(time)), Koid(thread), from).expect("room");
        let watch = encoder.watch().expect("there are triggers");
        let reported = |fired: Fired| (fired.thread.map(|it| it.tid.0), fired.since, fired.value);
        watch.take_fired().map(reported).next()
    };
    let took = |number| Some(Amount { number, dimension: Dimension::Time });
    assert_eq!(span(1, 60, 8, 70), Some((Some(8), Some(Nanos(60)), took(10.0))));
    assert_eq!(span(1, 60, 9, 70), None, "not of that name");
    assert_eq!(span(0, 60, 9, 70), Some((None, Some(Nanos(60)), took(10.0))), "not known");
    assert_eq!(span(0, 60, 8, 65), None);
}

#[test]
fn a_condition_chooses_threads_and_cpus() {
    let mut scene =
        scene(&[r#"slice > 1ns if comm = "busy""#, "slice > 1ns if cpu = 1 and pid = 9"]);
    scene.at(50, 0, renamed((8, 8), "busy"));
    for cpu in [0, 1] {
        scene.at(100, cpu, switch(0, "R", 8 + cpu));
        scene.at(110, cpu, switch(8 + cpu, "S", 0));
    }
    let expected = [(110, 0, Some(8), Some(10.0)), (110, 1, Some(9), Some(10.0))];
    assert_eq!(fired(&mut scene), expected);
    scene.at(120, 0, renamed((8, 8), "idler"));
    scene.at(130, 0, switch(0, "R", 8));
    scene.at(140, 0, switch(8, "S", 0));
    assert_eq!(fired(&mut scene), [], "by the name that it has then");
}

#[test]
fn what_was_not_seen_to_begin_does_not_fire() {
    let mut scene = scene(&["wakeup > 0ns", "slice > 0ns", "blocked > 0ns", "preempt > 0ns"]);
    // The thread had the CPU since before the recording.
    scene.at(100, 0, switch(5, "S", 6));
    // Its switch in is inferred.
    scene.at(110, 0, switch(7, "S", 0));
    // Its wakeup is missing.
    scene.at(120, 0, switch(0, "R", 5));
    scene.at(125, 1, running(8));
    scene.at(130, 1, switch(8, "S", 0));
    assert_eq!(fired(&mut scene), []);
}

#[test]
fn a_loss_fires_and_takes_away_what_was_open() {
    let mut scene = scene(&["lost > 2", "wakeup > 0ns", "slice > 0ns"]);
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(100, 1, switch(0, "R", 6));
    scene.at(110, 0, wakeup(7, 5));
    scene.at(120, 0, LOST);
    assert_eq!(fired(&mut scene), [(120, 0, None, Some(3.0))]);
    scene.at(130, 0, switch(5, "S", 7));
    assert_eq!(fired(&mut scene), [], "neither the wait nor the slice of that CPU");
    scene.at(140, 1, switch(6, "S", 0));
    assert_eq!(fired(&mut scene), [(140, 2, Some(6), Some(40.0))]);
}

#[test]
fn with_a_narrow_scope_only_its_threads_fire() {
    let mut threads = Threads::new(Ids::Initial, Box::new(Proc::default()));
    threads.include(LocalId(7));
    let mut scene = arm(Scene::narrow(threads), &["slice > 1ns"]);
    scene.at(100, 0, switch(0, "R", 5));
    scene.at(110, 0, switch(5, "R", 7));
    scene.at(120, 0, switch(7, "S", 5));
    scene.at(130, 0, switch(5, "S", 0));
    assert_eq!(fired(&mut scene), [(120, 0, Some(7), Some(10.0))]);
}

#[test]
fn the_recorders_own_threads_fire_only_if_they_are_included() {
    for included in [false, true] {
        let proc = Proc { threads: vec![(7, 999), (8, 8)], ..Proc::default() };
        let threads = Threads::new(Ids::Initial, Box::new(proc));
        let mut scene = arm(Scene::of(threads), &["wakeup >= 30ns"]);
        if included {
            scene.encoder.watch().expect("there is one").include_recorder();
        }
        scene.at(100, 0, switch(0, "R", 5));
        scene.at(110, 0, wakeup(7, 5));
        scene.at(140, 0, switch(5, "R", 7));
        scene.at(150, 0, wakeup(8, 7));
        scene.at(190, 0, switch(7, "S", 8));
        let expected = [(140, 0, Some(7), Some(30.0)), (190, 0, Some(8), Some(40.0))];
        assert_eq!(fired(&mut scene), expected[usize::from(!included)..]);
        // It was preempted for longer than the limit, but `wakeup` does not count that.
        scene.at(300, 0, switch(8, "S", 5));
        assert_eq!(fired(&mut scene), []);
        assert_eq!(scene.encoder.watch().expect("there is one").counts().preempted, 1);
    }
}

#[test]
fn a_limit_on_how_often_is_kept_and_reported() {
    let mut scene = Scene::new();
    let trigger = "slice > 1ns".parse().expect("a trigger");
    let limits = Limits { interval: Nanos(35), most: Some(2) };
    scene.encoder.watch_with(Watch::new(vec![trigger], limits));
    for time in (100..200).step_by(20) {
        scene.at(time, 0, switch(0, "R", 5));
        scene.at(time + 10, 0, switch(5, "S", 0));
    }
    let times: Vec<u64> = fired(&mut scene).iter().map(|fired| fired.0).collect();
    assert_eq!(times, [110, 150]);
    let counts = scene.encoder.watch().expect("there is one").counts();
    assert_eq!(counts, Counts { fired: 2, too_soon: 1, too_many: 2, ..Counts::default() });
}

/// Triggers see the same as the report: for a history with every kind of turn, each metric has the same number of values.
#[test]
fn triggers_fire_for_exactly_those_values_that_the_report_counts() {
    let metrics = fxtrec_report::Metric::ALL;
    let texts: Vec<String> = metrics.iter().map(|metric| format!("{metric} >= 0ns")).collect();
    for (metric, text) in metrics.into_iter().zip(&texts) {
        let mut scene = scene(&[text]);
        let mut seen = 0;
        let mut dice = 1_u64;
        let mut time = 100;
        let mut on = [0, 0];
        for _ in 0..600 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let roll = (dice >> 33) as u32;
            let (cpu, thread, state) = (roll % 2, 1 + roll / 2 % 6, roll / 16 % 4);
            time += 1 + u64::from(roll % 7);
            match roll / 64 % 40 {
                0 => scene.at(time, cpu, LOST),
                1..=20 if !on.contains(&thread) => {
                    scene.at(time, cpu, wakeup(thread, on[cpu as usize]));
                }
                _ => {
                    let next = if on.contains(&thread) { 0 } else { thread };
                    let letter = ["S", "R", "D", "R+"][state as usize];
                    if next != on[cpu as usize] {
                        scene.at(time, cpu, switch(on[cpu as usize], letter, next));
                        on[cpu as usize] = next;
                    }
                }
            }
            seen += fired(&mut scene).len() as u64;
        }
        let bytes = scene.encoder.lanes().clone();
        let report = analyse(Reader::from_slice(&bytes), Options::default()).expect("a trace");
        assert_eq!(report.total().metric(metric).count(), seen, "{metric}");
        assert!(seen > 10, "{metric}: only {seen}");
    }
}
