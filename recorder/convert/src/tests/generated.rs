//! Generated traces with every type of record, through JSON and back.

use fxt_writer::record::{
    Blob, BlobMetadata, BlobType, ContextSwitch, EventKind, KernelObject, LargeBlob,
    LegacyContextSwitch, LegacySide, Log, ObjectType, ThreadState, UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value, Writer};

use super::*;

/// Pseudo-random numbers, which are the same in every run (xorshift64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// Small numbers, numbers near the limits of types, and arbitrary ones.
    fn number(&mut self) -> u64 {
        const BORDERS: [u64; 8] = [
            0,
            1,
            i32::MAX as u64,
            u32::MAX as u64,
            1 << 53,
            (1 << 53) + 1,
            i64::MAX as u64,
            u64::MAX,
        ];
        match self.below(3) {
            0 => self.below(100),
            1 => BORDERS[self.below(8) as usize],
            _ => self.roll(),
        }
    }

    fn text(&mut self) -> &'static str {
        const TEXTS: [&str; 8] = [
            "name",
            "a\"quote\\and\nline",
            "größe \u{1f600}",
            "0x10",
            "{\"like\": [\"json\"]}",
            "dotted.name",
            "\u{1}\u{7f}\u{2028}",
            "12345678901234567890",
        ];
        TEXTS[self.below(8) as usize]
    }

    fn value(&mut self) -> Value<'static> {
        const DOUBLES: [f64; 6] = [0.0, -0.0, 1.5, 1e300, f64::MIN_POSITIVE, f64::INFINITY];
        match self.below(11) {
            0 => Value::Null,
            1 => Value::Int32(self.number() as i32),
            2 => Value::Uint32(self.number() as u32),
            3 => Value::Int64(self.number().cast_signed()),
            4 => Value::Uint64(self.number()),
            5 => Value::Double(DOUBLES[self.below(6) as usize]),
            6 => Value::Double(f64::from_bits(self.roll() & !(1 << 62))),
            7 => Value::Str(Text::Inline(self.text())),
            8 => Value::Pointer(self.number()),
            9 => Value::Koid(Koid(self.number())),
            _ => Value::Bool(self.below(2) == 1),
        }
    }

    /// Up to 15 arguments of distinct names; one of them looks like a member of another.
    fn args(&mut self) -> Vec<Arg<'static>> {
        const NAMES: [&str; 15] = [
            "a", "a.b", "list", "count", "päth", "x y", "\"", "id", "ts", "name", "f", "g", "h",
            "i", "j",
        ];
        let count = [0, 1, 2, 3, 15][self.below(5) as usize];
        let first = self.below(15) as usize;
        (0..count)
            .map(|at| Arg::new(Text::Inline(NAMES[(first + at) % 15]), self.value()))
            .collect()
    }

    /// At most 14, for records that have an additional argument.
    fn fewer_args(&mut self) -> Vec<Arg<'static>> {
        let mut args = self.args();
        args.truncate(14);
        args
    }

    fn thread(&mut self) -> (Koid, Koid) {
        (Koid(self.number()), Koid(self.number()))
    }

    fn state(&mut self) -> ThreadState {
        [
            ThreadState::New,
            ThreadState::Running,
            ThreadState::Suspended,
            ThreadState::Blocked,
            ThreadState::Dying,
            ThreadState::Dead,
        ][self.below(6) as usize]
    }

    fn event_kind(&mut self, time: u64) -> EventKind {
        let id = self.number();
        match self.below(11) {
            0 => EventKind::Instant,
            1 => EventKind::Counter { id },
            2 => EventKind::DurationBegin,
            3 => EventKind::DurationEnd,
            4 => EventKind::DurationComplete { end: Ticks(time + self.below(1 << 40)) },
            5 => EventKind::AsyncBegin { id },
            6 => EventKind::AsyncInstant { id },
            7 => EventKind::AsyncEnd { id },
            8 => EventKind::FlowBegin { id },
            9 => EventKind::FlowStep { id },
            _ => EventKind::FlowEnd { id },
        }
    }
}

type Trace = Writer<Vec<u8>>;

fn put_record(trace: &mut Trace, dice: &mut Dice, time: &mut u64) {
    *time += dice.below(1 << 30);
    let now = Ticks(*time);
    let (args, fewer) = (dice.args(), dice.fewer_args());
    let name = Text::Inline(dice.text());
    let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(dice.number())))];
    let inline = |(process, thread)| ThreadName::Inline { process, thread };
    let result = match dice.below(16) {
        0 => trace.write(&Log { time: now, thread: inline(dice.thread()), message: dice.text() }),
        1 => {
            let koid = Koid(dice.number());
            trace.write(&KernelObject { object_type: ObjectType::Process, koid, name, args: &args })
        }
        2 => {
            let args = [&process[..], &fewer].concat();
            let koid = Koid(dice.number());
            trace.write(&KernelObject { object_type: ObjectType::Thread, koid, name, args: &args })
        }
        3 => {
            let koid = Koid(dice.number());
            trace.write(&KernelObject { object_type: ObjectType::Thread, koid, name, args: &args })
        }
        4 => {
            let (kind, koid) = (ObjectType::Other(17), Koid(dice.number()));
            trace.write(&KernelObject { object_type: kind, koid, name, args: &args })
        }
        5 => {
            let process = inline(dice.thread());
            trace.write(&UserspaceObject { pointer: dice.number(), process, name, args: &args })
        }
        6 => trace.write(&ContextSwitch {
            cpu: dice.below(4) as u16,
            time: now,
            outgoing: Koid(dice.number()),
            incoming: Koid(dice.number()),
            outgoing_state: dice.state(),
            args: &args,
        }),
        7 => trace.write(&Wakeup {
            cpu: dice.below(4) as u16,
            time: now,
            thread: Koid(dice.number()),
            args: &args,
        }),
        8 => trace.write(&LegacyContextSwitch {
            cpu: dice.below(4) as u8,
            time: now,
            outgoing: LegacySide { thread: inline(dice.thread()), priority: 1 },
            incoming: LegacySide { thread: inline(dice.thread()), priority: 255 },
            outgoing_state: ThreadState::Blocked,
        }),
        9 => trace.write(&Blob { name, blob_type: BlobType::Perfetto, payload: b"\x00\xff\x80" }),
        10 => {
            let metadata = (dice.below(2) == 0).then(|| BlobMetadata {
                time: now,
                thread: inline(dice.thread()),
                args: &args,
            });
            let category = Text::Inline(dice.text());
            trace.write(&LargeBlob { category, name, metadata, payload: b"large" })
        }
        _ => {
            let kind = dice.event_kind(*time);
            let args: Vec<_> = args
                .iter()
                .map(|arg| match arg.name {
                    Text::Inline(name) => (name, arg.value),
                    Text::Indexed(_) => ("", arg.value),
                })
                .collect();
            let (thread, category) = (dice.thread(), dice.text());
            trace.event(kind, now, thread, category, dice.text(), &args)
        }
    };
    result.expect("a record that FXT can express");
}

/// Records with bulk data are moved to the end of the JSON document.
fn is_bulk(record: &str) -> bool {
    record.starts_with("Blob")
        || (record.starts_with("LargeBlob") && record.contains("metadata: None"))
}

#[test]
fn generated_traces_are_the_same_after_json_and_back() {
    for seed in 1..=40_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut trace = Writer::new(Vec::new());
        trace.start("generated", 1_000_000_000).expect("room");
        let mut time = dice.below(1 << 50);
        for _ in 0..200 {
            put_record(&mut trace, &mut dice, &mut time);
        }
        let original = trace.into_inner();
        let json = to_json(&original, Sched::Slices);
        let (back, report) = to_fxt(&json);
        assert_eq!(report.remarks().collect::<Vec<_>>(), [], "seed {seed}");

        let (bulk, rest): (Vec<_>, Vec<_>) =
            records(&original).into_iter().partition(|r| is_bulk(r));
        let (bulk_back, rest_back): (Vec<_>, Vec<_>) =
            records(&back).into_iter().partition(|r| is_bulk(r));
        for (record, record_back) in rest.iter().zip(&rest_back) {
            assert_eq!(record, record_back, "seed {seed}");
        }
        assert_eq!((rest.len(), bulk), (rest_back.len(), bulk_back), "seed {seed}");
    }
}

#[test]
fn providers_keep_their_records() {
    use fxt_writer::ProviderId;
    use fxt_writer::record::{ProviderEvent, ProviderInfo, ProviderSection, Record as _};

    let thread = (Koid(1), Koid(1));
    let mut trace = Writer::new(Vec::new());
    trace.start("one", 1_000_000_000).expect("room");
    trace.instant(Ticks(1), thread, "c", "first", &[]).expect("room");
    let mut bytes = trace.into_inner();
    ProviderInfo { id: ProviderId(2), name: "two" }.write(&mut bytes).expect("room");
    let mut second = Writer::new(bytes);
    second.instant(Ticks(2), thread, "c", "second", &[]).expect("room");
    second.write(&ProviderEvent::buffer_filled_up(ProviderId(2))).expect("room");
    second.write(&ProviderSection { id: ProviderId(1) }).expect("room");
    let mut first = Writer::new(second.into_inner());
    first.instant(Ticks(3), thread, "c", "third", &[]).expect("room");
    let original = first.into_inner();

    let by_provider = |bytes: &[u8]| {
        let mut reader = fxt_reader::Reader::from_slice(bytes);
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("sound") {
            match item.record {
                fxt_reader::Record::Event(event) => {
                    found.push((item.provider.expect("one").0, event.name.to_owned()));
                }
                fxt_reader::Record::ProviderEvent(event) => {
                    found.push((event.id.0, format!("{:?}", event.event)));
                }
                _ => {}
            }
        }
        found
    };
    let (back, _) = to_fxt(&to_json(&original, Sched::Slices));
    let expected = [(1, "first"), (2, "second"), (2, "BufferFilledUp"), (1, "third")];
    assert_eq!(by_provider(&back), expected.map(|(id, name)| (id, name.to_owned())));
}
