//! Spans of a handmade provider, compared with limits.

use crossbeam_channel::{Receiver, unbounded};
use fxt_writer::record::{Event, EventKind, Initialization, Record, StringRecord};
use fxt_writer::{StringRef, Text, ThreadName, Ticks};

use super::*;

struct Stage {
    follower: Follower,
    spans: Receiver<LongSpan>,
    piece: Piece,
}

impl Stage {
    /// Waits for spans `app:draw` of more than 5 ns, and for `read` of less.
    fn new() -> Stage {
        let limit = |trigger, name: &str, comparison| SpanLimit {
            trigger,
            name: name.to_owned(),
            comparison,
            limit: 5.0,
        };
        let limits = [limit(0, "app:draw", Comparison::Above), limit(1, "read", Comparison::Below)];
        let (sender, spans) = unbounded();
        let follower = Follower::new(limits.into(), sender);
        let mut stage = Stage { follower, spans, piece: Piece::default() };
        let draw =
            StringRecord { index: StringRef::indexed(1).expect("in range"), content: "draw" };
        let clock = Initialization { ticks_per_second: 500_000_000 };
        clock.write(&mut stage.piece.durable).expect("room");
        draw.write(&mut stage.piece.durable).expect("room");
        stage
    }

    fn event(&mut self, kind: EventKind, time: u64, thread: u64, name: Text<'_>) {
        let thread = ThreadName::Inline { process: Koid(7), thread: Koid(thread) };
        let category = Text::Inline("app");
        let event = Event { kind, time: Ticks(time), thread, category, name, args: &[] };
        event.write(&mut self.piece.rolling).expect("room");
    }

    fn begin(&mut self, time: u64, thread: u64, name: &str) {
        self.event(EventKind::DurationBegin, time, thread, Text::Inline(name));
    }

    fn end(&mut self, time: u64, thread: u64, name: &str) {
        self.event(EventKind::DurationEnd, time, thread, Text::Inline(name));
    }

    /// The matches since the last call: trigger, thread, begin and end in nanoseconds.
    fn found(&mut self) -> Vec<(usize, u64, u64, u64)> {
        self.follower.take(&std::mem::take(&mut self.piece), &"app".into(), 7);
        let reported = |span: LongSpan| (span.trigger, span.thread.0, span.since.0, span.time.0);
        self.spans.try_iter().map(reported).collect()
    }
}

#[test]
fn spans_beyond_the_limit_are_found_at_their_end_over_several_looks() {
    let mut stage = Stage::new();
    stage.begin(1, 8, "frame");
    stage.event(EventKind::DurationBegin, 2, 8, Text::Indexed(StringRef::indexed(1).expect("1")));
    stage.begin(2, 9, "draw");
    stage.end(4, 9, "draw");
    assert_eq!(stage.found(), [], "4 ns are not more than 5");
    stage.begin(6, 8, "read");
    stage.end(8, 8, "read");
    stage.end(10, 8, "");
    stage.end(90, 8, "frame");
    assert_eq!(stage.found(), [(1, 8, 12, 16), (0, 8, 4, 20)]);
}

#[test]
fn whole_and_asynchronous_spans_are_found() {
    let mut stage = Stage::new();
    let draw = Text::Inline("draw");
    stage.event(EventKind::DurationComplete { end: Ticks(9) }, 5, 8, draw);
    stage.event(EventKind::AsyncBegin { id: 3 }, 10, 8, draw);
    stage.event(EventKind::AsyncEnd { id: 3 }, 20, 9, draw);
    assert_eq!(stage.found(), [(0, 8, 10, 18), (0, 9, 20, 40)], "the latter where it ended");
}

#[test]
fn a_span_whose_end_may_be_another_s_is_not_measured() {
    let mut stage = Stage::new();
    stage.begin(1, 8, "draw");
    stage.end(80, 8, "other");
    stage.begin(100, 8, "draw");
    assert_eq!(stage.found(), []);
    // Events are missing.
    stage.piece.tally.torn = 1;
    stage.end(200, 8, "draw");
    stage.begin(300, 8, "draw");
    stage.end(310, 8, "draw");
    assert_eq!(stage.found(), [(0, 8, 600, 620)]);
}
