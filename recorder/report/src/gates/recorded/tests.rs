use super::super::evaluate::{
    Blame, Finding, OnDisturbed, OnTooFew, Policy, Verdict, judge, judge_all,
};
use super::*;
use crate::scene::{Leaves, Scene};
use crate::{Options, Selection};
use fxt_writer::Value;
use fxtrec_gates::Gate;

/// On CPU 0 the process 100: `audio` (101) wakes and waits 30 us behind `spin` (102). On CPU 1 `audio` wakes again, and
/// waits 7 us behind `other` (201). 5 events of CPU 1 are lost at the end.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.name(101, "audio").name(102, "spin").name(201, "other");
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.switch(10, 0, 101, Leaves::S, 102);
    scene.wake_by(20, 0, 101, 201);
    scene.switch(50, 0, 102, Leaves::R, 101);
    scene.switch(60, 0, 101, Leaves::S, 102);
    scene.switch(60, 1, 0, Leaves::R, 201);
    scene.wake(70, 1, 101);
    scene.switch(77, 1, 201, Leaves::S, 101);
    scene.switch(80, 1, 101, Leaves::S, 0);
    scene.switch(90, 0, 102, Leaves::S, 0);
    scene.lose(95, 1, 5);
    scene.switch(95, 1, 0, Leaves::R, 201);
    scene.end(100);
    scene
}

/// Evaluates a gate as the commands do, with a report for each group of CPUs that it distinguishes.
fn with_verdict<T>(scene: &Scene, gate: &str, look: impl FnOnce(&Verdict<'_>) -> T) -> T {
    let gate: Gate = gate.parse().unwrap_or_else(|error| panic!("{gate}: {error}"));
    let report = scene.report();
    let mut recorded = Recorded::new(&report);
    for group in cpu_groups(&report, gate.condition.as_ref()) {
        let selection = Selection { cpus: group.clone(), ..Selection::default() };
        recorded.add(&group, scene.report_with(Options { selection, ..Options::default() }));
    }
    look(&judge(&gate, &recorded, Policy::default()))
}

/// The measured value: nanoseconds for times.
fn measured(gate: &str) -> Option<f64> {
    with_verdict(&scene(), gate, |verdict| verdict.measured.map(|amount| amount.number))
}

#[test]
fn without_a_condition_a_gate_is_about_all_threads() {
    assert_eq!(measured("wakeup.count > 9"), Some(2.0));
    assert_eq!(measured("wakeup.max > 9s"), Some(30_000.0));
    assert_eq!(measured("wakeup.sum > 9s"), Some(37_000.0));
    assert_eq!(measured("preempt.max > 9s"), Some(10_000.0));
    assert_eq!(measured("runqueue.count > 9"), Some(3.0));
    assert_eq!(measured("lost > 9"), Some(5.0));
    assert_eq!(measured("migrations > 9"), Some(1.0));
    assert_eq!(measured("switches > 99"), Some(9.0), "those from idle are among them");
    assert_eq!(measured("switches_per_s > 1"), Some(90_000.0), "9 in 100 us");
}

#[test]
fn a_condition_on_threads_leaves_the_others_out() {
    for condition in ["comm = 'audio'", "comm ~ 'a*'", "tid = 101", "pid = 100 and tid != 102"] {
        let value = |measure: &str| measured(&format!("{measure} if {condition}"));
        assert_eq!(value("wakeup.count > 9"), Some(2.0), "{condition}");
        assert_eq!(value("preempt.count > 9"), Some(0.0), "{condition}");
        assert_eq!(value("switches > 9"), Some(3.0), "{condition}");
        assert_eq!(value("migrations > 9"), Some(1.0), "{condition}");
    }
    assert_eq!(measured("slice.max > 9s if comm = 'spin'"), Some(40_000.0));
}

#[test]
fn a_condition_on_cpus_is_about_the_values_of_these_cpus() {
    let value = |condition: &str| measured(&format!("wakeup.max > 9s if {condition}"));
    assert_eq!(value("cpu = 0"), Some(30_000.0));
    assert_eq!(value("cpu = 1"), Some(7_000.0));
    assert_eq!(value("cpu != 0"), Some(7_000.0));
    assert_eq!(value("cpu = 0 or cpu = 1"), Some(30_000.0));
    assert_eq!(value("cpu = 1 and comm = 'audio'"), Some(7_000.0));
    assert_eq!(value("cpu = 1 and comm = 'spin'"), None, "spin was not there");
    // `audio` on CPU 0, `other` on CPU 1: no single report contains both.
    assert_eq!(value("cpu = 0 and comm = 'audio' or cpu = 1 and comm = 'other'"), Some(30_000.0));
    assert_eq!(measured("switches > 9 if cpu = 1"), Some(2.0));
}

#[test]
fn who_is_nobody_is_found_to_be() {
    let finding = |gate| with_verdict(&scene(), gate, |verdict| verdict.finding);
    assert_eq!(finding("wakeup.max > 1ms if comm = 'Audio'"), Finding::NoThread);
    assert_eq!(finding("wakeup.max > 1ms if cpu = 7"), Finding::NoThread);
    assert_eq!(finding("switches > 1 if tid = 9"), Finding::NoThread);
    assert_eq!(finding("blocked_d.max > 1ms if comm = 'audio'"), Finding::Kept);
}

fn offenders(gate: &str) -> Vec<String> {
    with_verdict(&scene(), gate, |verdict| {
        verdict.offenders.iter().map(ToString::to_string).collect()
    })
}

#[test]
fn the_worst_of_a_wait_is_named_with_those_who_had_the_cpu_and_the_waker() {
    let expected = "30.0 us  audio (101) for CPU 0, until 0.000050 s; ran instead: spin (102) 30.0 us; \
                    woken by other (201)";
    assert_eq!(offenders("wakeup.p50 > 1us"), [expected]);
    let expected =
        "7.00 us  audio (101) for CPU 1, until 0.000077 s; ran instead: other (201) 7.00 us";
    assert_eq!(offenders("wakeup.max > 1us if cpu = 1"), [expected]);
    assert_eq!(
        offenders("preempt.max > 1us"),
        ["10.0 us  spin (102) for CPU 0, until 0.000060 s; ran instead: audio (101) 10.0 us"]
    );
}

#[test]
fn the_worst_of_other_quantities_are_those_with_the_largest_part() {
    let expected =
        ["40.0 us  spin (102), until 0.000050 s", "17.0 us  other (201), until 0.000077 s"];
    assert_eq!(offenders("slice.max > 1us")[..2], expected);
    assert_eq!(offenders("slice.sum > 1us")[0], "70.0 us  spin (102)");
    assert_eq!(offenders("switches_per_s > 1")[0], "3  audio (101)");
    assert_eq!(offenders("migrations > 0"), ["1  audio (101)"]);
    assert_eq!(offenders("lost > 0"), ["5  events of CPU 1 in 15.0 us, until 0.000095 s"]);
    assert!(offenders("wakeup.max < 1s").is_empty(), "nobody is to blame for being fast");
}

#[test]
fn cpus_that_no_condition_tells_apart_are_one_group() {
    let report = scene().report();
    let groups = |condition: &str| {
        let gate: Gate = format!("wakeup.max > 1s if {condition}").parse().expect("a gate");
        cpu_groups(&report, gate.condition.as_ref())
    };
    assert!(groups("comm = 'a'").is_empty());
    assert_eq!(groups("cpu = 1"), [[Cpu(1)], [Cpu(0)]]);
    assert_eq!(groups("cpu = 7"), [[Cpu(0), Cpu(1)]]);
    assert_eq!(groups("cpu = 0 or cpu = 1 or cpu = 0"), [[Cpu(0)], [Cpu(1)]]);
}

#[test]
fn a_gate_on_what_the_recording_does_not_report_says_so_and_fails_unless_that_may_pass() {
    for gate in ["steal.sum > 1ms", "throttled.max > 1ms", "irq.sum > 1ms", "moved > 1"] {
        let found = |verdict: &Verdict<'_>| (verdict.finding, verdict.failed, verdict.measured);
        assert_eq!(with_verdict(&scene(), gate, found), (Finding::NotRecorded, true, None));
        let gate: Gate = gate.parse().expect("a gate");
        let report = scene().report();
        let verdict = judge(
            &gate,
            &Recorded::new(&report),
            Policy { on_too_few: OnTooFew::Pass, ..Policy::default() },
        );
        assert_eq!((verdict.finding, verdict.failed), (Finding::NotRecorded, false));
    }
}

#[test]
fn a_gate_on_a_fact_that_the_recording_has_is_judged_by_it() {
    let mut scene = Scene::with_causes("steal,throttled,migrate");
    scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, 303);
    let leaves = [("steal_ns", Value::Uint64(7_000)), ("throttled", Value::Bool(true))];
    scene.switch_with((10, 0), 101, Leaves::R, 202, &leaves).migrate(20, 101, 0, 1);
    let held = [("throttled_ns", Value::Uint64(40_000))];
    scene.switch_with((60, 1), 303, Leaves::S, 101, &held);
    scene.switch(70, 1, 101, Leaves::S, 0).switch(70, 0, 202, Leaves::S, 0);
    let number =
        |gate| with_verdict(&scene, gate, |verdict| verdict.measured.map(|amount| amount.number));
    assert_eq!(number("steal.sum > 1ms"), Some(7_000.0));
    assert_eq!(number("steal.sum > 1ms if comm = 't202'"), Some(0.0));
    assert_eq!(number("throttled.max > 1ms if comm ~ 't1*'"), Some(40_000.0));
    assert_eq!(number("throttled.sum > 1ms if cpu = 0"), Some(0.0));
    assert_eq!(number("throttled.sum > 1ms if cpu = 1"), Some(40_000.0));
    // 50 us, minus the throttled time.
    assert_eq!(number("runqueue.max > 1ms if comm = 't101'"), Some(10_000.0));
    assert_eq!(number("moved > 1"), Some(1.0));
    assert_eq!(number("moved > 1 if tid = 202"), Some(0.0));
    let offenders = |gate| {
        with_verdict(&scene, gate, |it| it.offenders.iter().map(|it| it.what.clone()).collect())
    };
    let worst: Vec<String> = offenders("throttled.max > 1us");
    assert_eq!(worst, ["t101 (101), until 0.000060 s"]);
    let worst: Vec<String> = offenders("runqueue.max > 1us");
    assert!(worst[0].contains("moved to CPU 1; also throttled for 40.0 us"), "{worst:?}");
}

/// COMMAND's process is 100. Its thread 101 has 20 spans of 10 us. In each span it waits for 4 us while 201, which existed before, uses the
/// CPU, and for 1 us while COMMAND's own 102 uses it.
fn disturbed() -> Scene {
    let mut scene = Scene::of_command("waker,steal,throttled", 100);
    scene.switch(0, 0, 0, Leaves::R, 101);
    for at in (0..400).step_by(20) {
        scene.switch(at + 2, 0, 101, Leaves::R, 201).switch(at + 6, 0, 201, Leaves::R, 102);
        scene.switch(at + 7, 0, 102, Leaves::R, 101);
        scene.span((at, at + 10), 101, "request");
    }
    scene.switch(400, 0, 101, Leaves::S, 0).end(500);
    scene
}

/// Verdicts on spans: whether they fail, are undecided, and are disturbed.
fn judged(scene: &Scene, gates: &[&str], on_disturbed: OnDisturbed) -> Vec<(bool, bool, bool)> {
    let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().expect("a gate")).collect();
    let report = scene.report();
    let mut recorded = Recorded::new(&report);
    let open = || Ok(fxt_reader::Reader::from_slice(scene.bytes()));
    let spans = crate::spans::measure(
        open,
        &Selection::default(),
        &report,
        crate::spans::Room::OF_COMMANDS,
    );
    recorded.add_spans(spans.expect("a trace"));
    let verdicts = judge_all(&gates, &recorded, Policy { on_disturbed, ..Policy::default() });
    let tell = |it: &Verdict<'_>| (it.failed, it.undecided, it.is_disturbed());
    verdicts.iter().map(tell).collect()
}

const PASSED: (bool, bool, bool) = (false, false, false);
const FAILED: (bool, bool, bool) = (true, false, false);
const DISTURBED: (bool, bool, bool) = (true, false, true);

#[test]
fn spans_are_disturbed_if_without_what_others_took_they_are_short_enough() {
    let scene = disturbed();
    let judge = |gate: &str| judged(&scene, &[gate], OnDisturbed::Fail)[0];
    assert_eq!(judge(r#"span("request").max > 10us"#), PASSED);
    assert_eq!(judge(r#"span("app:request").max > 9us"#), DISTURBED);
    assert_eq!(judge(r#"span("request").p90 >= 7us"#), DISTURBED, "6 us is what is left");
    assert_eq!(judge(r#"span("request").mean > 5us"#), FAILED, "its own 102 is no stranger");
    assert_eq!(judge(r#"span("request").sum > 150us"#), DISTURBED);
    assert_eq!(judge(r#"span("request").cpu.max > 5us"#), PASSED);
    assert_eq!(judge(r#"span("request").cpu.max > 4us"#), FAILED);
    assert_eq!(judge(r#"span("request").strangers.max > 3us"#), FAILED, "this is no length");
    assert_eq!(judge(r#"span("request").runqueue.max > 5us"#), PASSED);
    assert_eq!(judge(r#"span("request").count < 21"#), FAILED);
    assert_eq!(judge(r#"span("request").max > 9us if comm = "t101""#), DISTURBED);
    // A gate with too few values, without a thread, or without recorded data does not pass.
    assert_eq!(judge(r#"span("request").p99 > 9us"#), FAILED);
    assert_eq!(judge(r#"span("nothing").max > 9us"#), FAILED);
    assert_eq!(judge(r#"span("request").max > 9us if tid = 102"#), FAILED);
    assert_eq!(judge(r#"span("request").irq.max > 9us"#), FAILED);
}

#[test]
fn what_is_disturbed_fails_passes_or_is_left_open_as_it_is_asked_for() {
    let scene = disturbed();
    let gates = [r#"span("request").max > 9us"#, r#"span("request").sum > 1ms"#];
    let judge = |on_disturbed| judged(&scene, &gates, on_disturbed);
    assert_eq!(judge(OnDisturbed::Fail), [DISTURBED, PASSED]);
    assert_eq!(judge(OnDisturbed::Pass), [(false, false, true), PASSED]);
    assert_eq!(judge(OnDisturbed::Exit4), [(false, true, true), PASSED]);
}

#[test]
fn nobody_else_is_to_blame_where_events_are_lost_or_the_own_cpu_time_is_over_its_limit() {
    let mut scene = disturbed();
    let length = r#"span("request").max > 9us"#;
    for on_disturbed in [OnDisturbed::Fail, OnDisturbed::Pass, OnDisturbed::Exit4] {
        let judge = |cpu| judged(&scene, &[length, cpu], on_disturbed);
        assert_eq!(judge(r#"span("request").cpu.max > 4us"#), [FAILED, FAILED]);
        assert!(judge(r#"span("request").cpu.max > 5us"#)[0].2, "within its limit");
    }
    // This is long after all spans, but it is still unknown which spans there were.
    scene.lose(600, 1, 1);
    for on_disturbed in [OnDisturbed::Fail, OnDisturbed::Pass, OnDisturbed::Exit4] {
        assert_eq!(judged(&scene, &[length], on_disturbed), [FAILED]);
    }
}

#[test]
fn without_wakers_or_command_nobody_is_a_stranger() {
    for mut scene in [Scene::of_command("steal", 100), Scene::with_causes("waker,steal")] {
        scene.switch(0, 0, 0, Leaves::R, 101).switch(2, 0, 101, Leaves::R, 201);
        scene.switch(6, 0, 201, Leaves::R, 101).span((0, 10), 101, "request");
        scene.switch(20, 0, 101, Leaves::S, 0).end(30);
        let judge = |gate| judged(&scene, &[gate], OnDisturbed::Pass)[0];
        assert_eq!(judge(r#"span("request").strangers.max > 1s"#), FAILED, "not recorded");
        assert_eq!(judge(r#"span("request").max > 9us"#), FAILED);
    }
}

#[test]
fn the_longest_spans_are_named_with_their_parts() {
    let scene = disturbed();
    let gate: Gate = r#"span("request").max > 9us"#.parse().expect("a gate");
    let report = scene.report();
    let mut recorded = Recorded::new(&report);
    let open = || Ok(fxt_reader::Reader::from_slice(scene.bytes()));
    let spans = crate::spans::measure(
        open,
        &Selection::default(),
        &report,
        crate::spans::Room::OF_COMMANDS,
    );
    recorded.add_spans(spans.expect("a trace"));
    let verdict = judge(&gate, &recorded, Policy::default());
    assert_eq!(verdict.offenders.len(), 3);
    assert_eq!(
        verdict.offenders[0].to_string(),
        "10.0 us  t101 (101), until 0.000010 s: cpu 5.00 us, runqueue 5.00 us (strangers 4.00 us)"
    );
    let Some(Blame::Others(taken)) = &verdict.blame else { panic!("{verdict:?}") };
    assert_eq!(taken.undisturbed.to_string(), "6.00 us");
    let parts: Vec<String> =
        taken.parts.iter().map(|(part, sum)| format!("{} {sum}", part.name())).collect();
    assert_eq!(parts, ["strangers 80.0 us"]);
}

#[test]
fn a_condition_on_a_stack_is_about_the_long_waits_that_have_one() {
    use crate::stacks::{self, example};
    let judged = |gates: &[&str], bytes: Vec<u8>| {
        let open = || Ok::<_, fxt_reader::Error>(fxt_reader::Reader::from_slice(&bytes));
        let report = crate::analyse(open().expect("a trace"), crate::Options::default());
        let report = report.expect("a report");
        let mut recorded = Recorded::new(&report);
        if let Some((_, blocked)) =
            stacks::blocked(open, crate::Options::default()).expect("a trace")
        {
            recorded.add_blocked(blocked);
        }
        let judge = |gate: &&str| {
            let gate: Gate = gate.parse().expect("a gate");
            let verdict = judge(&gate, &recorded, Policy::default());
            let offender = verdict.offenders.first().map(ToString::to_string);
            (verdict.finding, verdict.samples, offender)
        };
        gates.iter().map(judge).collect::<Vec<_>>()
    };
    let gates = [
        r#"blocked.max > 4ms if stack ~ "pipe_read""#,
        r#"blocked.max > 4ms if stack !~ "pipe_read""#,
        r#"blocked.count != 2 if stack ~ "pipe_*""#,
        r#"blocked.max > 1ms if stack ~ "fsync""#,
        r#"blocked_d.max > 4ms if stack ~ "pipe_read""#,
    ];
    let found = judged(&gates, example::trace(true));
    let worst = Some("5.00 ms  work;er (41), until 0.006000 s".to_owned());
    assert_eq!(found[0], (Finding::Broken, Some(2), worst));
    assert_eq!((found[1].0, found[1].1), (Finding::Kept, Some(1)), "that without a stack");
    assert_eq!(found[2], (Finding::Kept, Some(2), None));
    // Waits shorter than 2 ms have no stacks in this trace.
    assert_eq!(found[3], (Finding::NotRecorded, Some(0), None));
    assert_eq!(found[4], (Finding::Kept, Some(0), None));
    // Without names, a wait of 5 ms may have been in that function.
    let gates = [
        r#"blocked.max > 4ms if stack ~ "leaf""#,
        r#"blocked.max > 6ms if stack ~ "leaf""#,
        r#"blocked.max > 4ms if stack ~ "leaf" and comm = "other""#,
        r#"blocked.max > 4ms if stack ~ "pipe_read""#,
    ];
    let nameless = judged(&gates, example::trace_without_names()).into_iter().map(|it| it.0);
    let expected = [Finding::NamesMissing, Finding::Kept, Finding::Kept, Finding::Broken];
    assert_eq!(nameless.collect::<Vec<_>>(), expected);
    let named = judged(&gates[..1], example::trace(true));
    assert_eq!(named[0].0, Finding::Kept);
    // The wait of 3 ms has no stack.
    let gate = [r#"blocked.max > 2500us if stack ~ "leaf" and comm ~ "work*""#];
    assert_eq!(judged(&gate, example::trace(true))[0].0, Finding::Kept);
    assert_eq!(judged(&gate, example::trace_with_losses())[0].0, Finding::NamesMissing);
    let expected = (Finding::NotRecorded, None, None);
    assert_eq!(judged(&gates, example::trace(false))[0], expected, "nobody recorded stacks");
}
