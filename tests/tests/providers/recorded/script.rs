//! `fxtrec span`: the phases of a shell script.

use fxtrec_tests::binary::{self, fxtrec};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use serde_json::Value;

#[test]
fn a_script_marks_its_phases_and_why_explains_one_by_what_ran_in_it() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let span = format!("{} span", fxtrec().display());
    let script = format!(
        "{span} fetch -- sleep 0.02; {span} --category db load -- sh -c 'sleep 0.05; exit 7'; exit $?"
    );
    let mut command = binary::command();
    command.args(["-q", "-o", "t.fxt", "--", "sh", "-c", &script]);
    folder.run(&mut command).expect(7);
    let trace = Trace::read(&folder.path("t.fxt"));
    let begun: Vec<_> = trace.events.iter().filter(|event| event.begins()).collect();
    let names: Vec<_> = begun.iter().map(|it| (&*it.category, &*it.name)).collect();
    assert_eq!(names, [("script", "fetch"), ("db", "load")]);
    for (begin, millis) in begun.iter().zip([20, 50]) {
        let end = trace.events.iter().find(|it| it.ends() && it.thread == begin.thread);
        let end = end.expect("it ended");
        assert!(end.time - begin.time > millis * 1_000_000, "{begin:?} and {end:?}");
        assert_eq!(trace.threads[&begin.thread].0, begin.name, "its thread is called so");
    }
    let why = folder.fxtrec(["why", "t.fxt", "--span", "load", "--json"]).expect(0).stdout;
    let why: Value = serde_json::from_str(&why).expect("JSON");
    let sentence = why["explanations"][0]["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains(" for 'load': blocked "), "{sentence}");
}

#[test]
fn without_a_recorder_a_phase_of_a_script_is_its_command() {
    let folder = Folder::new();
    let run = |words: &[&str]| {
        let mut command = binary::command();
        command.args([&["span", "phase", "--"], words].concat());
        folder.run(command.env("FXTREC_PROVIDER_SOCKET", ""))
    };
    assert_eq!(run(&["echo", "said"]).expect(0).stdout, "said\n");
    run(&["sh", "-c", "exit 3"]).expect(3);
    run(&["sh", "-c", "kill -9 $$"]).expect(137);
    let absent = run(&["/nowhere/to/be/found"]).expect(127);
    assert!(absent.stderr.contains("cannot run /nowhere/to/be/found: "), "{}", absent.stderr);
    run(&["/etc/passwd"]).expect(126);
    run(&[]).expect(125);
}
