//! Applications that use `tracing`, `log` or `#[traced]`.

use fxt_reader::record::EventKind;

use super::app::App;
use super::archive::Archive;
use super::manager::{Ask, Manager};

fn traced(case: &str, categories: &[&str]) -> Archive {
    let manager = Manager::new();
    let program = env!("CARGO_BIN_EXE_provider-traced");
    let mut app = App::start_program(program, &manager, case, &[]);
    let mut peer = manager.accept();
    peer.say_that_no_session_runs();
    assert_eq!(app.number(), Some(0), "off before a session");
    assert_eq!(peer.name, "traced");
    let categories = categories.iter().copied().map(String::from).collect();
    let recording = peer.start(Ask { categories, ..Ask::default() });
    assert_eq!(app.number(), Some(1), "on in a session");
    assert_eq!(app.number(), Some(3), "through");
    let archive = peer.stop(recording);
    app.go_on();
    assert_eq!(app.number(), Some(2), "and off afterwards");
    app.end_well();
    archive
}

#[test]
fn spans_are_durations_and_events_are_instants() {
    let archive = traced("spans", &[]);
    let args = |name: &str, kind| {
        let of = |event: &&super::archive::Event| event.kind == kind;
        let event = archive.named(name).find(of).unwrap_or_else(|| panic!("no {name}"));
        let args = event.args.iter().map(|(name, value)| format!("{name}={value}"));
        args.collect::<Vec<_>>().join(" ")
    };
    assert!(archive.events.iter().all(|event| event.category == "app"));
    assert_eq!(args("instrumented", EventKind::DurationBegin), "number=7 text=\"words\"");
    assert_eq!(args("it is 7", EventKind::Instant), "level=\"INFO\" double=0.5 yes=true");
    assert_eq!(args("outer", EventKind::DurationBegin), "list=\"[1, 2]\"");
    let again = archive.named("outer").filter(|event| event.kind == EventKind::DurationBegin);
    let (again, elsewhere) = (again.last().expect("twice"), archive.named("elsewhere").next());
    assert_eq!(again.arg("later"), Some("\"now\""));
    assert_eq!(Some(again.thread), elsewhere.map(|event| event.thread));
    assert_ne!(archive.events[0].thread, again.thread);
    let unnamed = archive.events.iter().find(|event| event.arg("small").is_some());
    let unnamed = unnamed.expect("an event without a message");
    assert!(unnamed.name.starts_with("event "), "{}", unnamed.name);
    assert_eq!(unnamed.arg("large"), Some(u64::MAX.to_string().as_str()));
    assert_eq!(archive.named("first").count() + archive.named("second").count(), 4);
    assert!(archive.logs.is_empty());
}

#[test]
fn events_of_a_level_that_was_asked_for_are_log_records() {
    let archive = traced("logs", &[]);
    let logs: Vec<_> = archive.logs.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(logs, ["WARN app: lost it code=3 name=x"]);
    let names: Vec<_> = archive.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["no log"]);
}

#[test]
fn targets_are_turned_on_and_off_as_categories() {
    let archive = traced("targets", &["app*"]);
    let names: Vec<_> = archive.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["wanted", "wanted too"]);
}

#[test]
fn records_of_the_crate_log_are_log_records_and_go_to_another_logger_as_well() {
    // The program itself checks the latter.
    let archive = traced("log", &["app*"]);
    let logs: Vec<_> = archive.logs.iter().map(|(_, text)| text.as_str()).collect();
    let expected = ["WARN app: lost 3", "ERROR app::quiet: not printed", "TRACE app::net: not"];
    assert_eq!(logs, expected);
    assert!(archive.events.is_empty(), "{:?}", archive.events);
}

#[test]
fn calls_of_functions_with_the_attribute_are_spans_whichever_way_they_end() {
    let archive = traced("attribute", &[]);
    let reported: Vec<String> = archive
        .events
        .iter()
        .map(|event| {
            let args: Vec<_> =
                event.args.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            let kind = match event.kind {
                EventKind::DurationBegin => "begin",
                EventKind::DurationEnd => "end",
                EventKind::AsyncBegin { .. } => "async begin",
                EventKind::AsyncEnd { .. } => "async end",
                _ => "?",
            };
            format!("{kind} {}/{}{}", event.category, event.name, args.concat())
        })
        .collect();
    let own = "provider_traced/plain";
    let plain = [format!("begin {own}"), format!("end {own}")];
    let [begin, end] = plain.each_ref().map(String::as_str);
    let expected = [
        begin,
        end,
        "begin app/early number=7 twice as much=14",
        "end app/early",
        "async begin app/a request path=\"/a/path\"",
        begin,
        end,
        "async begin app/a request path=\"/\"",
        begin,
        end,
        // It is dropped at its await.
        "async end app/a request",
        "async end app/a request",
    ];
    assert_eq!(reported, expected);
    let ids = |wanted: fn(EventKind) -> Option<u64>| {
        let found =
            archive.events.iter().filter_map(|event| Some((wanted(event.kind)?, event.thread)));
        found.collect::<Vec<_>>()
    };
    let begun = ids(|kind| match kind {
        EventKind::AsyncBegin { id } => Some(id),
        _ => None,
    });
    let ended = ids(|kind| match kind {
        EventKind::AsyncEnd { id } => Some(id),
        _ => None,
    });
    let [(first, here), (second, _)] = begun[..] else { panic!("{begun:?}") };
    let [(given_up, on_this), (finished, elsewhere)] = ended[..] else { panic!("{ended:?}") };
    assert_eq!((given_up, finished), (second, first));
    assert_eq!(here, on_this);
    assert_ne!(here, elsewhere, "it ended on another thread");
}
