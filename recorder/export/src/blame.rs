//! How the time of each span was spent: the table `blame`. Events before a span are needed to divide it, so the trace is read twice more,
//! but only if it has spans.

use fxt_reader::{Error, Koid, Reader};
use fxtrec_blame::chain::{Blocked, Frame, Wakers};
use fxtrec_blame::parts::{self, EndedBy, Key};
use fxtrec_blame::pass::{self, Follower, Interval};
use fxtrec_blame::spans::{Span, Spans};
use fxtrec_blame::threads::{Index, KnownThreads};
use fxtrec_blame::track::{OnCpu, Tracker};
use fxtrec_blame::{Class, log, spans};
use fxtrec_report::call_name;

use crate::rows::Rows;
use crate::schema::Table;
use crate::sheet::Cell;
use crate::thread_table::IDLE;

/// Adds the parts of all spans of a trace that `open` opens.
///
/// # Errors
/// The errors of `open` and of the reader, except for damage.
pub(crate) fn add<'r>(
    rows: &mut Rows<'_>,
    mut open: impl FnMut() -> Result<Reader<'r>, Error>,
) -> Result<(), Error> {
    let mut spans = spans::collect(open()?)?;
    // No single thread accounts for the time of an asynchronous span.
    spans.list.retain(|span| span.begun_on.is_none());
    if spans.list.is_empty() {
        return Ok(());
    }
    let interval = |span: &Span| Interval { koid: span.koid, from: span.from, to: span.to };
    let intervals: Vec<Interval> = spans.list.iter().map(interval).collect();
    let mut reported = vec![false; intervals.len()];
    let mut tracker = Tracker::new(KnownThreads::default());
    let follower = Follower::new(&intervals, Wakers::OnlyNamed, log::MOST, |tracker, at, frame| {
        reported[at] = true;
        add_span(rows, &spans, &spans.list[at], &frame, tracker);
    });
    pass::run(open()?, &mut tracker, follower)?.finish(&tracker);
    // Spans of threads about which the trace has no other records.
    for (span, _) in spans.list.iter().zip(reported).filter(|(_, reported)| !reported) {
        let part = Part { name: "unknown", class: None, by: None };
        part.push(rows, (&spans, span), (span.length(), 1));
    }
    Ok(())
}

/// One part of a span.
struct Part {
    name: &'static str,
    class: Option<Class>,
    /// The thread that had the CPU in that time, or that ended it.
    by: Option<u32>,
}

fn add_span(rows: &mut Rows<'_>, spans: &Spans, span: &Span, frame: &Frame, tracker: &Tracker) {
    let machine = &tracker.origin.machine;
    let class = |blocked: &Blocked| {
        // A span without a name counts as well.
        let name = |number: u64| {
            u16::try_from(number).ok().and_then(|it| call_name(machine, it)).unwrap_or("")
        };
        blocked.class(tracker.origin.causes, blocked.syscall.map(name))
    };
    let mut utid = |thread: Index| rows.utid_of(Koid(tracker.known_threads.koid(thread)));
    let mut found = Vec::new();
    for (key, sum) in parts::sums(frame, class) {
        let (name, class, by) = match key {
            Key::OnCpu => ("cpu", None, None),
            Key::OnCpuUndivided => ("cpu_undivided", None, None),
            Key::Stolen => ("steal", None, None),
            Key::Interrupts => ("irq", None, None),
            Key::Throttled(_) => ("throttled", None, None),
            Key::Waiting(OnCpu::Thread(thread)) => ("runqueue", None, Some(utid(thread))),
            Key::Waiting(OnCpu::Idle) => ("runqueue", None, Some(IDLE)),
            Key::Waiting(_) => ("runqueue", None, None),
            Key::Blocked { class, ended, .. } => {
                let by = match ended {
                    Some(EndedBy::Thread(thread)) => Some(utid(thread)),
                    _ => None,
                };
                ("blocked", Some(class), by)
            }
            Key::Underway | Key::Packet | Key::Request | Key::Unknown(_) => ("unknown", None, None),
        };
        found.push((Part { name, class, by }, sum));
    }
    for (part, sum) in found {
        part.push(rows, (spans, span), sum);
    }
}

impl Part {
    fn push(
        &self,
        rows: &mut Rows<'_>,
        (spans, span): (&Spans, &Span),
        (nanos, stretches): (u64, u64),
    ) {
        let name = spans.name_of(span.name);
        let utid = rows.utid_of(Koid(span.koid));
        let row = [
            Cell::of(span.from),
            Cell::of(nanos),
            Cell::of(span.length()),
            Cell::id(utid),
            rows.text(Table::Blame, &name.category),
            rows.text(Table::Blame, &name.name),
            rows.text(Table::Blame, self.name),
            rows.some_text(Table::Blame, self.class.map(Class::name)),
            Cell::some_id(self.by),
            Cell::of(stretches),
        ];
        rows.push(Table::Blame, &row);
    }
}
