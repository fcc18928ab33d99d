//! Generates rows from the results of the analysis.

use fxt_reader::record::{Event, EventKind, Value};
use fxt_reader::{Item, Koid, Nanos, ProviderId, Record};
use fxtrec_blame::spans::Spans;
use fxtrec_gates::Metric;
use fxtrec_report::analysis::{Ran, Waited, Woken};
use fxtrec_report::{Gap, Observer, Report};
use fxtrec_sched::{Change, Occupant, State, SwitchArgs, Thread, WakeupFacts, unsigned};

use crate::file::Files;
use crate::identity::week;
use crate::schema::Table;
use crate::sheet::{Cell, Sheet, Word};
use crate::stacks::Stacks;
use crate::thread_table::{Gone, IDLE, Person, ThreadTable};

/// The categories of fxtrec's own events, and of scheduler events other than switches and wakeups.
const OWN: [&str; 2] = ["fxtrec", "sched"];

/// The process that reads files of other programs for a recorder, and its threads.
const FILES: &str = "fxtrec-files";

/// The maximum number of merged recordings that are distinguished; a file may name any number.
const MOST_RECORDERS: usize = 64;

/// Makes rows of a trace.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    files: &'a Files,
    /// By table; `None` for tables that are not requested.
    sheets: [Option<Sheet>; Table::ALL.len()],
    written: [u64; Table::ALL.len()],
    people: ThreadTable,
    spans: Spans,
    /// The provider of fxtrec's own records.
    own: Option<ProviderId>,
    /// The processes of the recorder: one, or one for each recording that was merged.
    recorders: Vec<u64>,
    clock_offset: Option<i64>,
    waits: i64,
    /// `None` if the tables of stacks are not requested.
    stacks: Option<Stacks>,
    /// Whether writing has failed.
    failed: bool,
}

/// The name of a state in tables; `None` for unknown states, and for threads that have ended.
fn state(state: State) -> Option<Word> {
    Some(match state {
        State::Running => Word::Running,
        State::Woken | State::WokenThrottled => Word::Runnable,
        State::Preempted | State::Throttled => Word::Preempted,
        State::Sleeping => Word::Sleeping,
        State::Uninterruptible => Word::Uninterruptible,
        State::Idle => Word::Idle,
        State::Parked => Word::Parked,
        State::Stopped => Word::Stopped,
        State::Traced => Word::Traced,
        State::Zombie | State::Dead | State::Unknown | State::NotRecorded => return None,
    })
}

/// The state in which a thread left a CPU; `None` if unknown.
fn end_state(next: State) -> Option<Word> {
    match next {
        State::Zombie => Some(Word::Zombie),
        State::Dead => Some(Word::Dead),
        next => state(next),
    }
}

impl<'a> Rows<'a> {
    /// Rows for the requested tables, each with the id of the trace if there is one.
    pub(crate) fn new(files: &'a Files, tables: &[Table], trace: Option<&str>) -> Rows<'a> {
        Rows {
            files,
            sheets: Table::ALL
                .map(|table| tables.contains(&table).then(|| Sheet::new(table, trace))),
            written: [0; Table::ALL.len()],
            people: ThreadTable::default(),
            spans: Spans::default(),
            own: None,
            recorders: Vec::new(),
            clock_offset: None,
            waits: 0,
            stacks: [Table::Sample, Table::Stack]
                .iter()
                .any(|table| tables.contains(table))
                .then(Stacks::default),
            failed: false,
        }
    }

    #[inline(always)]
    pub(crate) fn push<const N: usize>(&mut self, table: Table, row: &[Cell; N]) {
        if let Some(sheet) = &mut self.sheets[table as usize] {
            self.written[table as usize] += 1;
            if sheet.push(row) {
                self.hand_over(table, false);
            }
        }
    }

    #[cold]
    fn hand_over(&mut self, table: Table, nothing_follows: bool) {
        let sheet = self.sheets[table as usize].as_mut();
        if let Some(slip) = sheet.and_then(|sheet| sheet.take(nothing_follows)) {
            self.failed |= !self.files.write(slip);
        }
    }

    /// A string for the next row of a table.
    pub(crate) fn text(&mut self, table: Table, text: &str) -> Cell {
        self.sheets[table as usize].as_mut().map_or(Cell::NULL, |sheet| sheet.text(text))
    }

    pub(crate) fn some_text(&mut self, table: Table, text: Option<&str>) -> Cell {
        text.map_or(Cell::NULL, |text| self.text(table, text))
    }

    /// The number of a thread. In fxtrec's traces, koid 0 is the idle tasks.
    pub(crate) fn utid_of(&mut self, koid: Koid) -> u32 {
        if self.people.by_fxtrec && koid.0 == 0 { IDLE } else { self.people.utid(koid) }
    }

    fn utid(&mut self, who: Occupant<Koid>) -> Option<u32> {
        match who {
            Occupant::Idle => Some(IDLE),
            Occupant::NotRecorded => None,
            Occupant::Thread(koid) => Some(self.people.utid(koid)),
        }
    }

    /// A thread was in a state from one time to another.
    fn state(
        &mut self,
        thread: Koid,
        was: &Thread,
        end: Nanos,
        (complete, throttled): (bool, u64),
    ) {
        let Some(name) = state(was.state) else { return };
        let person = self.people.thread(thread.0);
        let utid = Cell::id(person.utid);
        let is_woken = matches!(was.state, State::Woken | State::WokenThrottled);
        let (waker, by_interrupt) = match is_woken {
            true => (Cell::some_id(person.waker), Cell::flag(person.by_interrupt)),
            false => (Cell::NULL, Cell::NULL),
        };
        let syscall = if was.state.is_blocked() { person.syscall } else { None };
        let cpu = u32::from(was.cpu.0);
        let row = [
            Cell::of(was.since.0),
            Cell::of(end.0.saturating_sub(was.since.0)),
            if was.state == State::Running { Cell::id(cpu) } else { Cell::NULL },
            utid,
            Cell::word(name),
            Cell::flag(complete),
            waker,
            by_interrupt,
            Cell::some(syscall),
            Cell::unless_zero(throttled),
        ];
        self.push(Table::ThreadState, &row);
    }

    fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        if let EventKind::Counter { id } = event.kind {
            let utid = Cell::id(self.people.utid(event.thread.thread));
            for arg in &event.args {
                let Some(value) = number(arg.value) else { continue };
                let row = [
                    Cell::of(event.time.0),
                    utid,
                    self.text(Table::Counter, event.category),
                    self.text(Table::Counter, event.name),
                    Cell::int(id.cast_signed()),
                    self.text(Table::Counter, arg.name),
                    Cell::double(value),
                ];
                self.push(Table::Counter, &row);
            }
            return;
        }
        self.spans.event(event, is_provider);
        while let Some(span) = self.spans.list.pop() {
            let name = self.spans.name_of(span.name).clone();
            let utid = self.people.utid(Koid(span.koid));
            let begun_on = span.begun_on.map(|koid| self.people.utid(Koid(koid)));
            let row = [
                Cell::of(span.from),
                Cell::of(span.length()),
                Cell::id(utid),
                self.text(Table::Span, &name.category),
                self.text(Table::Span, &name.name),
                Cell::flag(name.is_provider),
                Cell::some_id(begun_on),
            ];
            self.push(Table::Span, &row);
        }
    }

    /// Whether it is a thread of a recorder's process, or of its helper that reads files.
    fn is_recorder(&self, person: &Person) -> bool {
        let is_of = |process| self.recorders.contains(&process);
        person.process.is_some_and(is_of) || person.name.as_deref() == Some(FILES)
    }

    fn gone(&mut self, Gone { koid, person }: &Gone) {
        let upid = person.process.map(|process| self.people.upid(process));
        let row = [
            Cell::id(person.utid),
            Cell::of(self.people.number(*koid)),
            self.some_text(Table::Thread, person.name.as_deref()),
            Cell::some_id(upid),
            Cell::some(person.end),
            person.process.map_or(Cell::NULL, |process| Cell::flag(process == *koid)),
            Cell::int(koid.cast_signed()),
            Cell::flag(self.is_recorder(person)),
        ];
        self.push(Table::Thread, &row);
    }

    /// Writes the remaining rows at the end of the trace. Returns the number of rows of each table.
    pub(crate) fn finish(
        mut self,
        report: &Report,
        file: &str,
        labels: &[(String, String)],
    ) -> [u64; Table::ALL.len()] {
        let idle = [
            Cell::id(IDLE),
            Cell::of(0),
            self.text(Table::Thread, "swapper"),
            Cell::NULL,
            Cell::NULL,
            Cell::NULL,
            Cell::of(0),
            Cell::flag(false),
        ];
        self.push(Table::Thread, &idle);
        if let Some(stacks) = self.stacks.take() {
            stacks.finish(&mut self);
        }
        for gone in self.people.finish_threads() {
            self.gone(&gone);
        }
        for (koid, process) in self.people.finish_processes() {
            let row = [
                Cell::id(process.upid),
                Cell::of(self.people.number(koid)),
                self.some_text(Table::Process, process.name.as_deref()),
                Cell::int(koid.cast_signed()),
                self.some_text(Table::Process, process.cgroup.as_deref()),
            ];
            self.push(Table::Process, &row);
        }
        for (key, value) in labels {
            let row = [self.text(Table::Label, key), self.text(Table::Label, value)];
            self.push(Table::Label, &row);
        }
        self.trace(report, file);
        for table in Table::ALL {
            self.hand_over(table, true);
        }
        self.written
    }

    fn trace(&mut self, report: &Report, file: &str) {
        let origin = report.origin.as_ref();
        let causes: Vec<&str> = report.causes.names().collect();
        let causes = causes.join(",");
        let losses = &report.losses;
        let begin = i128::from(report.span.begin.0);
        let week = self.clock_offset.and_then(|offset| week(begin + i128::from(offset)));
        let row = [
            self.text(Table::Trace, file),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.host)),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.release)),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.machine)),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.version)),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.command_line)),
            self.some_text(Table::Trace, origin.map(|origin| &*origin.scope)),
            self.some_text(Table::Trace, origin.map(|_| &*causes)),
            Cell::some(origin.map(|origin| origin.cpus)),
            Cell::of(report.span.begin.0),
            Cell::of(report.span.end.0),
            self.clock_offset.map_or(Cell::NULL, Cell::int),
            self.some_text(Table::Trace, week.as_deref()),
            Cell::of(report.cpus.iter().map(|cpu| cpu.switches).sum()),
            Cell::of(report.idle_wakeups),
            Cell::of(losses.gaps),
            Cell::of(losses.events),
            Cell::of(losses.unknown),
            Cell::of(losses.unreported),
            Cell::of(losses.records()),
            Cell::of(losses.unknown_records()),
            Cell::of(losses.damaged),
            Cell::flag(losses.truncated),
        ];
        self.push(Table::Trace, &row);
    }
}

/// The value of a counter.
#[allow(clippy::cast_precision_loss, reason = "tables have them as doubles")]
fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(value),
        Value::Int32(value) => Some(value.into()),
        Value::Int64(value) => Some(value as f64),
        value => unsigned(value).map(|value| value as f64),
    }
}

impl Observer for Rows<'_> {
    #[inline]
    fn record(&mut self, item: &Item<'_>) {
        match &item.record {
            Record::ContextSwitch(_) | Record::Wakeup(_) => {}
            Record::LegacyContextSwitch(switch) => {
                for thread in [switch.outgoing, switch.incoming] {
                    let person = self.people.thread(thread.thread.0);
                    person.process = person.process.or(Some(thread.process.0));
                }
            }
            Record::KernelObject(object) => self.people.name(object),
            record if self.stacks.is_some() && Stacks::is_about(record) => {
                let sample = self.stacks.as_mut().and_then(|stacks| stacks.take(item));
                if let Some(sample) = sample {
                    sample.push(self);
                }
            }
            Record::ProviderInfo(info) if info.name == OWN[0] => {
                self.own = Some(info.id);
                self.people.by_fxtrec = true;
            }
            Record::Event(event) if event.category == OWN[0] && event.name == "trace_info" => {
                let offset = event.args.get("wall_clock_offset_ns");
                self.clock_offset = offset.and_then(clock_offset).or(self.clock_offset);
                if self.recorders.len() < MOST_RECORDERS {
                    self.recorders.push(event.thread.process.0);
                }
            }
            Record::Event(event) if OWN.contains(&event.category) => {}
            Record::Event(event) => {
                let is_provider = self.own.is_none() || item.provider != self.own;
                self.event(event, is_provider);
            }
            _ => {}
        }
    }

    #[inline]
    fn ran(&mut self, ran: &Ran<'_>) {
        let Some(utid) = self.utid(ran.who) else { return };
        let length = ran.span.end.0.saturating_sub(ran.span.begin.0);
        if !ran.is_whole && length == 0 {
            return;
        }
        let said = ran.said.copied().unwrap_or_default();
        let row = [
            Cell::of(ran.span.begin.0),
            Cell::of(length),
            Cell::id(ran.cpu.0.into()),
            Cell::id(utid),
            ran.next.and_then(end_state).map_or(Cell::NULL, Cell::word),
            Cell::flag(ran.is_whole),
            Cell::unless_zero(said.steal),
            Cell::unless_zero(said.irq),
            Cell::unless_zero(said.irqs),
            Cell::some(said.need_resched),
        ];
        self.push(Table::SchedSlice, &row);
    }

    #[inline]
    fn changed(&mut self, change: &Change<Koid>, said: Option<&SwitchArgs<'_>>) {
        let Change { thread, before, time, after, .. } = *change;
        let is_in = after == State::Running;
        let throttled = match said {
            Some(said) if is_in && before.state.is_waiting() => said.held,
            _ => 0,
        };
        // A thread that is switched in without a recorded wait was woken, but its wakeup was not recorded.
        let complete = change.length().is_some() && (!is_in || before.state.is_waiting());
        self.state(thread, &before, time, (complete, throttled));
        if after.is_blocked() {
            self.people.thread(thread.0).syscall = said.and_then(|said| said.syscall);
        }
        if after.is_over()
            && let Some(gone) = self.people.end(thread.0, time.0)
        {
            self.gone(&gone);
        }
    }

    #[inline]
    fn woken(&mut self, woken: &Woken<'_>) {
        let said = WakeupFacts::of(woken.args);
        let waker = said.waker.map(|koid| self.people.utid(koid));
        let person = self.people.thread(woken.thread.0);
        let utid = Cell::id(person.utid);
        if woken.next.is_some() {
            (person.waker, person.by_interrupt) = (waker, said.interrupt);
        }
        let row = [
            Cell::of(woken.time.0),
            Cell::id(woken.cpu.0.into()),
            utid,
            Cell::some_id(waker),
            Cell::flag(said.interrupt),
            Cell::flag(woken.next.is_some()),
        ];
        self.push(Table::Wakeup, &row);
    }

    fn wants_waits(&self) -> bool {
        self.sheets[Table::Wait as usize].is_some()
            || self.sheets[Table::Antagonist as usize].is_some()
    }

    fn waited(&mut self, waited: &Waited<'_>) {
        let utid = self.people.utid(waited.thread);
        let waker = waited.waker.map(|koid| self.people.utid(koid));
        let shares = waited.shares;
        let begin = Cell::of(waited.span.begin.0);
        let length = waited.span.end.0.saturating_sub(waited.span.begin.0);
        let id = Cell::int(self.waits);
        self.waits += 1;
        let mut first = None;
        for &(koid, ran) in &shares.named {
            let utid = self.people.utid(Koid(koid));
            first = first.or(Some((utid, ran)));
            self.push(Table::Antagonist, &[begin, Cell::of(ran), id, Cell::id(utid)]);
        }
        let nanos = |length: std::time::Duration| {
            let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
            Cell::unless_zero(nanos)
        };
        let kind = match waited.metric {
            Metric::Wakeup => Word::AfterWakeup,
            _ => Word::AfterPreemption,
        };
        let antagonists = shares.named.len() as u64 + shares.more;
        let row = [
            begin,
            Cell::of(length.saturating_sub(waited.throttled)),
            id,
            Cell::id(utid),
            Cell::word(kind),
            Cell::id(waited.queued_on.0.into()),
            Cell::id(waited.ran_on.0.into()),
            Cell::some_id(waker),
            Cell::flag(waited.by_interrupt),
            Cell::unless_zero(waited.throttled),
            self.some_text(Table::Wait, waited.throttled_by),
            Cell::some_id(first.map(|first| first.0)),
            Cell::some(first.map(|first| first.1)),
            Cell::unless_zero(antagonists),
            nanos(shares.idle),
            nanos(shares.unknown),
        ];
        self.push(Table::Wait, &row);
    }

    fn lost(&mut self, gap: &Gap) {
        let row = [
            Cell::of(gap.span.begin.0),
            Cell::of(gap.span.end.0.saturating_sub(gap.span.begin.0)),
            Cell::some_id(gap.cpu.map(|cpu| cpu.0.into())),
            Cell::some(gap.events),
        ];
        self.push(Table::Loss, &row);
    }

    fn still(&mut self, thread: Koid, doing: &Thread, end: Nanos) {
        self.state(thread, doing, end, (false, 0));
    }

    fn is_content(&self) -> bool {
        self.failed
    }
}

/// How far the wall clock is ahead of the trace's clock, in nanoseconds.
pub(crate) fn clock_offset(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int64(value) => Some(value),
        value => unsigned(value).and_then(|value| i64::try_from(value).ok()),
    }
}
