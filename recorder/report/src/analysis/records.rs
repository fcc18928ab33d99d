//! Records: the data that the analysis uses of each record type.

use fxt_format::scheduling::context_switch::{INCOMING_WEIGHT_ARG, OUTGOING_WEIGHT_ARG};
use fxt_reader::record::{Args, ContextSwitch, ProviderEventKind, Value, WEIGHT_INFO, Wakeup};
use fxt_reader::record::{
    Event, EventKind, IDLE_WEIGHT, KernelObject, LegacyContextSwitch, ProviderEvent,
    is_not_recorded,
};
use fxt_reader::{Item, Koid, Nanos, ObjectType, ProviderId, Record, Visitor};
use fxtrec_blame::threads::MOST_RECORDERS;
use fxtrec_sched::waited::{self, WaitedFor};
use fxtrec_sched::{FilledUp, SwitchArgs, UsualArgs, signed, unsigned};
use fxtrec_units::convention::HOST_CPUS;

use super::causes::about_wakeup;
use super::cpu::Occupant;
use super::losses::Pending;
use super::{Analysis, Observer, Woken};
use crate::facts::Causes;
use crate::model::Origin;

/// The provider name of fxtrec in a trace.
pub(super) const FXTREC: &str = "fxtrec";

/// The category of the scheduler's events other than switches and wakeups.
pub(super) const SCHED: &str = "sched";

/// One side of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) koid: u64,
    pub(super) idle: bool,
    /// Represents a thread that is not recorded.
    pub(super) unrecorded: bool,
}

impl Side {
    /// Its name, if it is not a thread.
    #[inline(always)]
    pub(super) fn no_thread(self) -> Option<Occupant> {
        match self {
            Side { idle: true, .. } => Some(Occupant::Idle),
            Side { unrecorded: true, .. } => Some(Occupant::NotRecorded),
            _ => None,
        }
    }
}

impl<O: Observer> Analysis<O> {
    /// Processes the next record. Returns false after the end of the selected part.
    #[inline(always)]
    pub fn take(&mut self, item: &Item<'_>) -> bool {
        self.observer.record(item);
        match &item.record {
            Record::ContextSwitch(switch) => {
                self.written_by(item.provider);
                self.context_switch(switch)
            }
            Record::Wakeup(wakeup) => {
                self.written_by(item.provider);
                self.wakeup(wakeup)
            }
            Record::LegacyContextSwitch(switch) => {
                self.written_by(item.provider);
                self.legacy_switch(switch)
            }
            Record::KernelObject(object) => {
                let is_reported = !self.recorders.have(item.provider);
                self.named(object, is_reported);
                true
            }
            Record::Event(event)
                if event.category == FXTREC && self.recorders.have(item.provider) =>
            {
                self.own_event(event)
            }
            Record::Event(event)
                if event.category == SCHED && self.recorders.have(item.provider) =>
            {
                self.sched_event(event)
            }
            Record::Event(event) => {
                self.seen = self.seen.with(SeenEvents::of(event.kind, item.provider, self.own));
                true
            }
            Record::ProviderInfo(info) => {
                if info.name == FXTREC {
                    (self.thread_figures.by_fxtrec, self.own) = (true, Some(info.id));
                    self.recorders.introduce(info.id);
                }
                self.dropping.introduce(info.id, info.name);
                true
            }
            Record::ProviderEvent(event) => {
                self.provider_event(*event);
                true
            }
            _ => true,
        }
    }

    #[inline(always)]
    fn context_switch(&mut self, switch: &ContextSwitch<'_>) -> bool {
        if !self.advance(switch.time) {
            return false;
        }
        let (mut out, mut inn) = (self.side(switch.outgoing), self.side(switch.incoming));
        if !self.thread_figures.by_fxtrec {
            let (out_weight, in_weight) = weights(switch.args);
            out.idle |= out_weight == Some(IDLE_WEIGHT);
            inn.idle |= in_weight == Some(IDLE_WEIGHT);
        }
        if switch.args.len() > self.usual_args.of_switch {
            self.switch_with_more(switch, out, inn);
        } else {
            self.switch(switch.cpu, out, inn, switch.outgoing_state, None);
        }
        true
    }

    #[inline(never)]
    fn switch_with_more(&mut self, switch: &ContextSwitch<'_>, out: Side, inn: Side) {
        let said = SwitchArgs::of(switch.args);
        self.switch(switch.cpu, out, inn, switch.outgoing_state, Some(&said));
    }

    pub(super) fn side(&self, koid: Koid) -> Side {
        // Only traces of narrow scope have such pseudo-threads.
        let unrecorded = self.narrow && is_not_recorded(koid);
        Side { koid: koid.0, idle: koid.0 == 0, unrecorded }
    }

    #[inline(never)]
    fn legacy_switch(&mut self, switch: &LegacyContextSwitch) -> bool {
        if !self.advance(switch.time) {
            return false;
        }
        let side = |koid: Koid, priority: u8| Side {
            koid: koid.0,
            idle: priority == 0,
            unrecorded: false,
        };
        let out = side(switch.outgoing.thread, switch.outgoing_priority);
        let inn = side(switch.incoming.thread, switch.incoming_priority);
        for thread in [switch.outgoing, switch.incoming] {
            self.thread_figures.belongs(thread.thread.0, thread.process.0);
        }
        self.switch(switch.cpu, out, inn, switch.outgoing_state, None);
        true
    }

    #[inline(always)]
    fn wakeup(&mut self, wakeup: &Wakeup<'_>) -> bool {
        if !self.advance(wakeup.time) {
            return false;
        }
        let said = if wakeup.args.len() > self.usual_args.of_wakeup {
            more_about(wakeup.args)
        } else {
            (0, false)
        };
        let next = self.wake(wakeup.cpu, wakeup.koid.0, said);
        let (time, cpu, thread) = (Nanos(self.now), wakeup.cpu, wakeup.koid);
        self.observer.woken(&Woken { time, cpu, thread, next, args: wakeup.args });
        true
    }

    fn named(&mut self, object: &KernelObject<'_>, is_reported: bool) {
        match object.object_type {
            ObjectType::Process => {
                let text_of = |name| object.args.str(name);
                let name = (object.name, text_of("cgroup"), text_of("host"));
                self.thread_figures.name_process(object.koid.0, name, is_reported);
            }
            ObjectType::Thread => {
                let process = object.process().map(|process| process.0);
                self.thread_figures.name_thread(object.koid.0, (object.name, process), is_reported);
                self.thread_figures.choose(object.koid.0, &self.selection.threads);
                if !is_reported {
                    self.family.is_named(object.name, process);
                }
            }
            _ => {}
        }
    }

    #[cold]
    fn own_event(&mut self, event: &Event<'_>) -> bool {
        match event.name {
            "trace_info" => {
                let origin = origin(event);
                self.narrow = origin.is_narrow();
                let causes = Causes::parse(event.args.str("causes").unwrap_or_default());
                // A kind of fact counts as recorded only if all of several recordings have it.
                self.causes = self.origin.as_ref().map_or(causes, |_| causes.and(self.causes));
                if self.origins.len() < MOST_RECORDERS && !self.origins.contains(&origin) {
                    self.origins.push(origin.clone());
                }
                self.origin = Some(origin);
                if let Some(Value::Koid(command)) = event.args.get("command") {
                    self.family.has_command(command.0);
                }
                self.family.is_recorded_by(event.thread.process.0);
            }
            HOST_CPUS => self.cpu_names.learn(&event.args),
            WEIGHT_INFO => self.usual_args = UsualArgs::WITHOUT_WEIGHTS,
            "trace_stats" if event.time.0 <= self.wanted.to => {
                self.now = self.now.max(event.time.0);
            }
            "lost" => return self.lost_event(event),
            "lost_others" => return self.lost_others(event),
            "lost_records" => self.lost_records(event),
            "loss_cause" => {
                let text = event.args.str("text").unwrap_or_default().to_owned();
                if self.losses.causes.len() < MOST_CAUSES {
                    self.losses.causes.push(text);
                }
            }
            "loss_stats" => self.losses.unreported = number(event, "unreported").unwrap_or(0),
            "host_steal" => self.host_steal(event),
            "quota_stat" => self.quota_stat(event),
            waited::EVENT => {
                if let Some(waited) = WaitedFor::of(event) {
                    let (koid, begin) = (event.thread.thread.0, event.time.0);
                    self.thread_figures.waited_for(koid, begin, || waited.to_string());
                }
            }
            "cpu_offline" => return self.cpu_offline(event),
            "cpu_online" => return self.cpu_online(event),
            _ => {}
        }
        true
    }

    fn provider_event(&mut self, event: ProviderEvent) {
        if event.event != ProviderEventKind::BufferFilledUp {
            return;
        }
        match self.scheduler.filled_up(event.id) {
            FilledUp::Scheduler => self.pending = Pending::Loss,
            FilledUp::Other | FilledUp::Unknown => self.dropping.filled_up(event.id),
        }
    }

    /// Processes a record that says which threads are recorded.
    #[inline(always)]
    pub(super) fn written_by(&mut self, provider: Option<ProviderId>) {
        if self.scheduler.is(provider) {
            self.were_the_schedulers(provider);
        }
    }
}

/// The content of the trace in addition to the scheduler's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenEvents(pub(super) u8);

impl SeenEvents {
    pub(super) const SPANS: SeenEvents = SeenEvents(1);
    /// Spans of a program, not of the kernel.
    pub(super) const APP_SPANS: SeenEvents = SeenEvents(2);
    pub(super) const COUNTERS: SeenEvents = SeenEvents(4);

    pub(super) fn has(self, other: SeenEvents) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: SeenEvents) -> SeenEvents {
        SeenEvents(self.0 | other.0)
    }

    /// The facts in an event of `provider`; `own` is the id of fxtrec as a provider.
    #[inline]
    pub(super) fn of(
        kind: EventKind,
        provider: Option<ProviderId>,
        own: Option<ProviderId>,
    ) -> SeenEvents {
        match kind {
            EventKind::Counter { .. } => SeenEvents::COUNTERS,
            EventKind::DurationBegin
            | EventKind::DurationComplete { .. }
            | EventKind::AsyncBegin { .. } => match own.is_none() || provider != own {
                true => SeenEvents::SPANS.with(SeenEvents::APP_SPANS),
                false => SeenEvents::SPANS,
            },
            _ => SeenEvents::default(),
        }
    }
}

/// No recording lists more facts than this, but the file is untrusted.
const MOST_CAUSES: usize = 16;

impl<O: Observer> Visitor for Analysis<O> {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.take(item) && !self.observer.is_content()
    }
}

/// The weights of both sides of a switch, outgoing first.
#[inline(never)]
fn weights(args: Args<'_>) -> (Option<i32>, Option<i32>) {
    (args.int32(OUTGOING_WEIGHT_ARG), args.int32(INCOMING_WEIGHT_ARG))
}

/// The waker of a thread, and whether the thread is held back.
#[inline(never)]
fn more_about(args: Args<'_>) -> (u64, bool) {
    about_wakeup(args)
}

pub(super) fn number(event: &Event<'_>, name: &str) -> Option<u64> {
    unsigned(event.args.get(name)?)
}

fn origin(event: &Event<'_>) -> Origin {
    let text = |name| event.args.str(name).unwrap_or_default().to_owned();
    Origin {
        version: text("version"),
        source: text("source"),
        command_line: text("command_line"),
        host: text("host"),
        release: text("release"),
        cpus: number(event, "cpus").unwrap_or(0),
        scope: text("scope"),
        machine: text("machine"),
        wall_clock_offset: event.args.get("wall_clock_offset_ns").and_then(signed),
    }
}
