use fxt_reader::{Reader, Record as Read};
use fxt_writer::engine::Tally;
use fxt_writer::{Koid, ProviderId};

use super::*;
use crate::manager::{LeftOut, ProviderState, ProviderStats, Refusals};

fn provider(name: &str, records: u64, dropped: u64) -> ProviderStatus {
    let tally = Tally { records, ..Tally::default() };
    ProviderStatus {
        id: ProviderId(2),
        name: name.to_owned(),
        pid: 7,
        uid: 0,
        koid: Koid(7),
        categories: Vec::new(),
        state: ProviderState::Gone,
        stats: ProviderStats { tally, dropped, ..ProviderStats::default() },
        missed_start: false,
        fault: None,
    }
}

fn stopped(providers: Vec<ProviderStatus>) -> Stopped {
    Stopped { providers, ..Stopped::default() }
}

#[test]
fn the_summary_names_the_most_active_and_says_nothing_of_none() {
    assert_eq!(summary(&Stopped::default()), None);
    let mut providers: Vec<_> =
        (1..=6).map(|number| provider(&format!("app{number}"), number, 1)).collect();
    providers.push(provider("db", 1_000_000, 0));
    providers.push(provider("db", 234_567, 0));
    let line = summary(&stopped(providers)).expect("there are some");
    let expected =
        "8: db 1 234 567 records, app6 6 records, app5 5 records, app4 4 records, 3 more";
    assert_eq!((line.text.as_str(), line.dropped), (expected, 6));
}

#[test]
fn records_of_providers_count_as_events() {
    let both = stopped(vec![provider("app", 12, 3), provider("db", 30, 0)]);
    assert_eq!((records(&both), records(&Stopped::default())), (42, 0));
}

#[test]
fn what_went_wrong_is_reported_once_for_each_provider() {
    let mut failed = provider("bad", 0, 0);
    failed.fault = Some("it registered again".to_owned());
    let refusals = Refusals { foreign_user: 2, ..Refusals::default() };
    let stopped = Stopped {
        providers: vec![provider("good", 1, 0), failed],
        silent: vec!["hung".to_owned()],
        refusals,
        forgotten: 0,
        left_out: LeftOut::default(),
    };
    let warnings = warnings(&stopped);
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    assert!(
        warnings[0].contains("bad (process 7)") && warnings[0].ends_with("it registered again")
    );
    assert!(warnings[1].contains("hung did not stop within 2 s"));
    assert!(warnings[2].contains("2 providers were rejected: of a user other than COMMAND's"));
}

#[test]
fn each_provider_has_an_event_of_statistics() {
    let recorder = ThreadName::Inline { process: Koid(1), thread: Koid(1) };
    let stopped = stopped(vec![provider("app", 12, 3), provider("db", 0, 0)]);
    let mut trace = 0x0016_5478_4604_0010_u64.to_le_bytes().to_vec();
    crate::encode::strings::write(&mut trace).expect("a vector");
    trace.extend(statistics(&stopped, recorder, Nanos(5)));
    let mut reader = Reader::from_slice(&trace);
    let mut seen = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Read::Event(event) = item.record {
            let dropped = event.args.get("dropped").map(|value| format!("{value:?}"));
            seen.push((event.name.to_owned(), event.args.str("name").map(str::to_owned), dropped));
        }
    }
    let event = |name: &str, dropped: u32| {
        ("provider_stats".to_owned(), Some(name.to_owned()), Some(format!("UInt32({dropped})")))
    };
    assert_eq!(seen, [event("app", 3), event("db", 0)]);
}

#[test]
fn the_manager_waits_while_too_much_is_on_its_way_and_continues_when_it_is_written() {
    let (drain, requests) = crossbeam_channel::unbounded();
    let mut archive = archive(drain);
    let half = IN_FLIGHT_BYTES / 2 + 1;
    archive(vec![0; half]);
    let writer = std::thread::spawn(move || {
        archive(vec![0; half]);
        archive
    });
    let next = || match requests.recv().expect("a piece") {
        Request::Piece { records, written } => (records.len(), written),
        other => panic!("{other:?}"),
    };
    let (first, second) = (next(), next());
    assert!(!writer.is_finished(), "nothing was written yet");
    first.1.send(()).expect("the manager waits for it");
    let mut archive = writer.join().expect("it goes on");
    assert_eq!(second.0, half);
    // Without a drain thread, nothing waits.
    drop((first, second, requests));
    archive(vec![0; half]);
}

#[test]
fn a_provider_that_ended_before_it_recorded_is_named() {
    let mut hasty = provider("hasty", 0, 0);
    hasty.missed_start = true;
    let expected =
        "provider hasty (process 7) exited before it started to record: its events are missing";
    assert_eq!(warnings(&stopped(vec![hasty, provider("app", 1, 0)])), [expected]);
}

#[test]
fn names_and_spans_that_later_files_lack_are_reported() {
    let left_out = LeftOut { names: 1234, spans: 1 };
    let warnings = warnings(&Stopped { left_out, ..Stopped::default() });
    assert_eq!(
        warnings,
        [
            "1 234 names of providers are missing from later files: the limit of 24 MiB was reached (docs/reference/providers.md)",
            "1 open span of providers was not continued in the next file: the limit of 8 MiB was reached (docs/reference/providers.md)",
        ]
    );
}
