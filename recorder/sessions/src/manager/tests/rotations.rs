//! Archives that end while providers continue in the next one.

use fxt_writer::provider::wire::FromProvider;
use fxt_writer::record::{Event, EventKind, StringRecord};
use fxt_writer::{Koid, StringRef, Text, ThreadName, Ticks};

use super::*;

/// A manager whose archive is divided.
fn stage() -> Stage {
    let stage = Stage::with(Options { divided: true, ..Options::default() });
    stage.streaming();
    stage
}

impl Stage {
    /// Ends the archive at `time`, and begins another. Returns the one that has ended.
    fn rotate(&self, time: u64) -> Vec<u8> {
        let (archive, (done, ended)) = (self.archive.clone(), bounded(1));
        let next = move || {
            let next = MAGIC.to_le_bytes().to_vec();
            let ended = std::mem::replace(&mut *archive.lock().expect("no panic"), next);
            done.send(ended).expect("it is waited for");
        };
        self.manager.begin_rotate(Nanos(time), next).expect("it runs");
        // Data after `next` is in the archive when the next command is answered.
        self.manager.providers().expect("it runs");
        ended.recv().expect("it was rotated")
    }

    /// A provider of that name, which has registered the name of its events and recorded one event.
    fn draws(&self, name: &str, kind: EventKind, time: u64) -> (ByHand, by_hand::Running) {
        let provider = self.register(name);
        let mut session = provider.start();
        session.put_durable(&StringRecord { index: draw(), content: "draw" });
        event(&mut session, kind, time);
        (provider, session)
    }
}

fn draw() -> StringRef {
    StringRef::indexed(1).expect("not zero")
}

/// Records an event with the name that was registered first.
fn event(session: &mut by_hand::Running, kind: EventKind, time: u64) {
    let process = session.start.process;
    session.put(&Event {
        kind,
        time: Ticks(time),
        thread: ThreadName::Inline { process, thread: Koid(process.0) },
        category: Text::Inline("test"),
        name: Text::Indexed(draw()),
        args: &[],
    });
}

/// The events of an archive, one word each: `(` for a begin, `)` for an end, the name, the time, `~` if generated.
fn shown(archive: &[u8]) -> String {
    let mut reader = Reader::from_slice(archive);
    let mut shown = Vec::new();
    while let Some(item) = reader.next().expect("a sound archive") {
        let Record::Event(event) = item.record else { continue };
        let sign = match event.kind {
            fxt_reader::record::EventKind::DurationBegin => "(",
            fxt_reader::record::EventKind::DurationEnd => ")",
            _ => "",
        };
        let cut = if event.args.get("cut").is_some() { "~" } else { "" };
        shown.push(format!("{sign}{}@{}{cut}", event.name, event.time.0));
    }
    shown.join(" ")
}

#[test]
fn each_archive_has_what_was_recorded_in_its_time_and_stands_alone() {
    let stage = stage();
    let (provider, mut session) = stage.draws("app", EventKind::DurationBegin, 10);
    assert_eq!(shown(&stage.rotate(20)), "(draw@10 )draw@20~", "though nothing was to be saved");
    event(&mut session, EventKind::Instant, 30);
    assert_eq!(shown(&stage.rotate(40)), "(draw@20~ draw@30 )draw@40~");
    assert_eq!(shown(&stage.rotate(50)), "(draw@40~ )draw@50~");
    event(&mut session, EventKind::DurationEnd, 60);
    // All of it is still in the buffer, with a pending request to save it; records that were already written are not written again.
    session.save();
    event(&mut session, EventKind::Instant, 70);
    provider.say(&FromProvider::Stopped(session.session));
    let stopped = stage.stop();
    let last = stage.archive.lock().expect("no panic").clone();
    assert_eq!(shown(&last), "(draw@50~ )draw@60 draw@70");
    assert_eq!(events_in(&last)["app"].len(), 3);
    let records = only(&stopped).stats.tally.records;
    assert_eq!(records, 2 + 4, "each is counted once");
}

#[test]
fn what_is_open_at_the_end_is_begun_in_the_last_archive_and_who_has_gone_is_named_there() {
    let stage = stage();
    let (gone, session) = stage.draws("gone", EventKind::DurationBegin, 10);
    stage.wait_for("gone", ProviderState::Started);
    drop((gone, session));
    stage.wait_until_gone("gone");
    let (provider, session) = stage.draws("app", EventKind::DurationBegin, 15);
    stage.wait_for("app", ProviderState::Started);
    assert_eq!(
        shown(&stage.rotate(20)),
        "(draw@10 (draw@15 )draw@20~",
        "what it was in ended with it"
    );
    provider.say(&FromProvider::Stopped(session.session));
    stage.stop();
    let last = stage.archive.lock().expect("no panic").clone();
    assert_eq!(shown(&last), "(draw@20~");
    let mut reader = Reader::from_slice(&last);
    let mut names = Vec::new();
    while let Some(item) = reader.next().expect("a sound archive") {
        if let Record::ProviderInfo(info) = item.record {
            names.push(info.name.to_owned());
        }
    }
    assert_eq!(names, ["gone", "app"]);
}

#[test]
fn a_record_that_is_being_written_comes_in_the_next_archive() {
    let stage = stage();
    let (provider, mut session) = stage.draws("app", EventKind::Instant, 10);
    stage.wait_for("app", ProviderState::Started);
    stage.rotate(20);
    // Reserved, and not written yet: the mark of docs/reference/providers.md.
    let claimed = session.rolling_end;
    session.put_words(&[0xffff_0000_0000_0002 | 2 << 4, 0]);
    event(&mut session, EventKind::Instant, 30);
    assert_eq!(shown(&stage.rotate(40)), "draw@30");
    let base = session.division.total - 2 * session.division.rolling;
    session.store(base + claimed + 1, 1_000_000_000);
    session.store(base + claimed, 2 << 4 | 1);
    event(&mut session, EventKind::Instant, 50);
    provider.say(&FromProvider::Stopped(session.session));
    let stopped = stage.stop();
    assert_eq!(shown(&stage.archive.lock().expect("no panic")), "draw@50");
    assert_eq!(only(&stopped).stats.tally.records, 2 + 4, "it is there, too");
}

#[test]
fn one_that_changes_what_was_written_already_has_both() {
    let stage = stage();
    let (provider, mut session) = stage.draws("app", EventKind::Instant, 10);
    stage.wait_for("app", ProviderState::Started);
    assert_eq!(shown(&stage.rotate(20)), "draw@10");
    session.rolling_end = 0;
    event(&mut session, EventKind::Instant, 11);
    event(&mut session, EventKind::Instant, 12);
    provider.say(&FromProvider::Stopped(session.session));
    stage.stop();
    assert_eq!(shown(&stage.archive.lock().expect("no panic")), "draw@11 draw@12");
}
