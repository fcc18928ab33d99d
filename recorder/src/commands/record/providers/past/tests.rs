use fxt_reader::Record as Read;
use fxt_reader::record::EventKind as Kind;
use fxt_writer::record::{Event, EventKind, Initialization, KernelObject, ObjectType};
use fxt_writer::{Koid, ProviderId, Text, ThreadName, Ticks};

use super::*;

const APP: Koid = Koid(70);

/// A section of events, in order: their kinds, names and times.
fn section(goes_on: bool, events: &[(EventKind, &str, u64)]) -> Section {
    let mut records = Vec::new();
    put(&mut records, &Initialization { ticks_per_second: 1_000_000_000 });
    let (kind, name) = (ObjectType::Process, Text::Inline("app"));
    put(&mut records, &KernelObject { object_type: kind, koid: APP, name, args: &[] });
    for (kind, name, time) in events {
        put(
            &mut records,
            &Event {
                kind: *kind,
                time: Ticks(*time),
                thread: ThreadName::Inline { process: APP, thread: APP },
                category: Text::Inline("test"),
                name: Text::Inline(name),
                args: &[],
            },
        );
    }
    Section {
        id: ProviderId(2),
        name: "app".to_owned(),
        goes_on,
        process: Koid(2),
        records,
        losses: Vec::new(),
    }
}

/// The events after the head of an archive: `(` for a begin, `)` for an end, the name, the time, and `~` for `cut`.
fn shown(sections: &[u8]) -> String {
    let mut archive = Vec::new();
    put(&mut archive, &Magic);
    archive.extend_from_slice(sections);
    let mut reader = Reader::from_slice(&archive);
    let mut shown = Vec::new();
    let mut owner = 1;
    while let Some(item) = reader.next().expect("a sound archive") {
        match item.record {
            Read::ProviderInfo(info) => shown.push(format!("[{}]", info.name)),
            Read::ProviderSection(section) => owner = section.id.0,
            Read::Event(event) => {
                let sign = match event.kind {
                    Kind::DurationBegin => "(",
                    Kind::DurationEnd => ")",
                    _ => "",
                };
                let cut = if event.args.get("cut").is_some() { "~" } else { "" };
                shown.push(format!("{sign}{}@{}{cut}", event.name, event.time.0));
            }
            _ => {}
        }
    }
    assert_eq!(owner, 1, "fxtrec's own section comes next");
    shown.join(" ")
}

fn cut(sections: &[Section], from: u64, to: u64, now: u64) -> String {
    let (from, to) = (fxt_reader::Nanos(from), fxt_reader::Nanos(to));
    let wanted = Window { from, to, filter: cut::Filter::default() };
    let cut = window(sections, &wanted, Nanos(now), deadline()).expect("it can be read");
    if cut.is_empty() { String::new() } else { shown(&cut) }
}

const BEGIN: EventKind = EventKind::DurationBegin;
const END: EventKind = EventKind::DurationEnd;
const INSTANT: EventKind = EventKind::Instant;

/// The picture from the module's documentation.
#[test]
fn what_was_begun_before_memory_begins_is_begun_where_it_does() {
    let section =
        section(true, &[(END, "g", 10), (BEGIN, "h", 20), (END, "h", 30), (END, "f", 40)]);
    let expected = "[app] (f@10~ (g@10~ )g@10 (h@20 )h@30 )f@40";
    assert_eq!(shown(&whole(&section, deadline())), expected);
}

#[test]
fn where_there_is_no_time_sections_begin_as_they_are_and_windows_tell_that_they_lack_them() {
    let over = Instant::now();
    let section = section(true, &[(END, "g", 10), (INSTANT, "a", 30)]);
    assert_eq!(shown(&whole(&section, over)), "[app] )g@10 a@30");
    let (from, to) = (fxt_reader::Nanos(25), fxt_reader::Nanos(45));
    let wanted = Window { from, to, filter: cut::Filter::default() };
    let cut = window(&[section], &wanted, Nanos(40), over).expect("nothing is read");
    assert_eq!(shown(&cut), "lost_records@40");
}

#[test]
fn a_window_has_its_events_and_what_was_open_at_both_its_ends() {
    let section = section(
        true,
        &[
            (BEGIN, "f", 10),
            (INSTANT, "a", 20),
            (INSTANT, "b", 30),
            (BEGIN, "g", 35),
            (INSTANT, "c", 50),
        ],
    );
    assert_eq!(cut(&[section], 25, 45, 60), "[app] (f@25~ b@30 (g@35 )g@45~ )f@45~");
}

#[test]
fn who_does_nothing_but_one_long_thing_is_in_the_window_and_who_does_nothing_is_not() {
    let busy = section(true, &[(BEGIN, "f", 10)]);
    assert_eq!(cut(&[busy], 25, 45, 60), "[app] (f@25~ )f@45~");
    let idle = section(true, &[(BEGIN, "f", 10), (END, "f", 20)]);
    let ended = section(false, &[(BEGIN, "f", 10)]);
    assert_eq!(cut(&[idle, ended], 25, 45, 60), "");
}

#[test]
fn what_an_application_was_in_when_it_ended_ends_with_it() {
    let ended = section(false, &[(BEGIN, "f", 10), (INSTANT, "a", 30)]);
    assert_eq!(cut(&[ended], 25, 45, 60), "[app] (f@25~ a@30 )f@30~");
}

#[test]
fn records_that_make_no_sense_cost_their_provider_what_comes_behind_them_and_no_other() {
    let mut bad = section(true, &[(INSTANT, "a", 30)]);
    bad.records.extend([0x44_u8, 0, 0, 0, 0, 0, 0, 0]);
    let mut good = section(true, &[(INSTANT, "b", 30)]);
    (good.id, good.name) = (ProviderId(3), "good".to_owned());
    let shown = cut(&[bad, good], 25, 45, 60);
    assert!(shown.contains("[app] a@30") && shown.ends_with("[good] b@30"), "{shown}");
}
