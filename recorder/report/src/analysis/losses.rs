//! Gaps: the states that become unknown when events are missing.

use fxt_reader::record::Event;
use fxt_reader::{Cpu, Koid, Nanos, ProviderId};
use fxtrec_sched::{Occupant, cpu_of};

use super::history::OnCpu;
use super::records::{FXTREC, number};
use super::switches::shown_change;
use super::{Analysis, Observer, Ran, Vacated};
use crate::model::{Gap, Losses, ProviderLosses, RecordGap, Span};

/// The maximum number of gaps that are listed.
const MAX_LISTED: usize = 1000;

/// The maximum number of applications that are distinguished; a file may have any number.
const MOST_PROVIDERS: usize = 256;

/// The maximum number of gaps that are listed for each application.
const MOST_OF_ONE: usize = 100;

/// Applications whose buffers filled up, until an event reports their losses.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropping {
    names: Vec<(ProviderId, String)>,
    /// The names of providers for which no such event was read yet.
    unsaid: Vec<String>,
}

impl Dropping {
    pub(super) fn introduce(&mut self, id: ProviderId, name: &str) {
        if let Some(known) = self.names.iter_mut().find(|known| known.0 == id) {
            name.clone_into(&mut known.1);
        } else if self.names.len() < MAX_LISTED {
            self.names.push((id, name.to_owned()));
        }
    }

    /// A provider's buffer filled up. In fxtrec's traces, a following event has the details; other traces have no such event.
    pub(super) fn filled_up(&mut self, id: ProviderId) {
        let name = self.names.iter().find(|known| known.0 == id);
        let name = name.map_or_else(|| format!("provider {}", id.0), |known| known.1.clone());
        if self.unsaid.len() < MAX_LISTED {
            self.unsaid.push(name);
        }
    }

    fn id_of(&self, name: &str) -> Option<ProviderId> {
        self.names.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    /// An event has reported the losses of a provider.
    fn said(&mut self, name: &str) {
        if let Some(at) = self.unsaid.iter().position(|unsaid| unsaid == name) {
            self.unsaid.remove(at);
        }
    }
}

/// The losses of an application; beyond the limit, the losses of all further applications together.
fn of_provider<'l>(losses: &'l mut Losses, name: &str) -> &'l mut ProviderLosses {
    let providers = &mut losses.providers;
    let known = providers.iter().position(|one| one.name == name);
    let at = known.unwrap_or_else(|| {
        if providers.len() < MOST_PROVIDERS {
            providers.push(ProviderLosses { name: name.to_owned(), ..ProviderLosses::default() });
        }
        providers.len() - 1
    });
    &mut providers[at]
}

/// An announced gap; its time is that of the next record with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Nothing,
    /// A provider's buffer filled up. For fxtrec, the following event has the details.
    Loss,
    /// A part of the file could not be read.
    Damage,
}

impl<O: Observer> Analysis<O> {
    /// fxtrec lost events of a CPU. False after the end of the selected part.
    pub(super) fn lost_event(&mut self, event: &Event<'_>) -> bool {
        if self.pending == Pending::Loss {
            self.pending = Pending::Nothing;
        }
        if let Some(own) = self.dropping.id_of(FXTREC) {
            self.scheduler.said(own);
        }
        self.dropping.said(FXTREC);
        if !self.advance(event.time) {
            return false;
        }
        let cpu = cpu_of(event.args, "cpu").map(|cpu| cpu.0);
        let count = number(event, "count");
        if self.active {
            self.losses.unknown += u64::from(count.is_none());
            self.losses.at_most |= event.args.get("at_most").is_some();
        }
        self.gap(cpu.map(Cpu), count);
        true
    }

    /// fxtrec lost non-scheduler events. False after the end of the selected part.
    pub(super) fn lost_others(&mut self, event: &Event<'_>) -> bool {
        if !self.advance(event.time) {
            return false;
        }
        if self.active {
            let losses = &mut self.losses;
            losses.others = losses.others.saturating_add(number(event, "count").unwrap_or(0));
            losses.others_at_most |= event.args.get("at_most").is_some();
        }
        true
    }

    /// An application dropped some of its records. The event's time is not in order with the scheduling records around it.
    pub(super) fn lost_records(&mut self, event: &Event<'_>) {
        let name = event.args.str("provider").unwrap_or_default();
        self.dropping.said(name);
        let during = number(event, "during_ns").unwrap_or(0);
        let end = event.time.0;
        let begin = end.saturating_sub(during);
        if begin > self.wanted.to || end < self.wanted.from {
            return;
        }
        let records = number(event, "count");
        let losses = of_provider(&mut self.losses, name);
        losses.gaps += 1;
        losses.records = losses.records.saturating_add(records.unwrap_or(0));
        losses.unknown += u64::from(records.is_none());
        if losses.list.len() < MOST_OF_ONE {
            let span = Span { begin: Nanos(begin), end: Nanos(end) };
            losses.list.push(RecordGap { span, records });
        }
    }

    /// The buffer that filled up before the first scheduling record contained scheduling records.
    #[cold]
    pub(super) fn were_the_schedulers(&mut self, provider: Option<ProviderId>) {
        let names = &self.dropping.names;
        let name = provider.and_then(|id| names.iter().find(|known| known.0 == id));
        match name.map(|known| known.1.clone()) {
            Some(name) => self.dropping.said(&name),
            None => self.dropping.unsaid.clear(),
        }
        if self.pending == Pending::Nothing {
            self.pending = Pending::Loss;
        }
    }

    /// Counts the applications whose buffers filled up without an event that reports their losses.
    pub(super) fn settle_dropping(&mut self) {
        for name in self.dropping.unsaid.drain(..) {
            let losses = of_provider(&mut self.losses, &name);
            losses.gaps += 1;
            losses.unknown += 1;
        }
        self.losses
            .providers
            .sort_by(|a, b| (b.records, b.unknown, &a.name).cmp(&(a.records, a.unknown, &b.name)));
    }

    /// A CPU went offline. No events are missing, but until it is online again, it is not idle either.
    pub(super) fn cpu_offline(&mut self, event: &Event<'_>) -> bool {
        if !self.advance(event.time) {
            return false;
        }
        let Some(Cpu(cpu)) = cpu_of(event.args, "cpu") else { return true };
        let now = self.now;
        let is_vacant = self.cpus.machine.cpu_state(Cpu(cpu)).occupant.is_none();
        let Some(idle) = self.cpus.machine.offline(Cpu(cpu), Nanos(now)) else {
            // It is online again already, according to its events; or it had no events.
            self.vacant(Cpu(cpu), is_vacant);
            return true;
        };
        self.vacant(Cpu(cpu), true);
        let on = self.cpus.get(cpu);
        on.idle += if on.counted { now.saturating_sub(idle.since.0) } else { 0 };
        self.observer.ran(&Ran {
            span: Span { begin: idle.since, end: Nanos(now) },
            cpu: Cpu(cpu),
            who: Occupant::Idle,
            is_whole: idle.length().is_some(),
            next: None,
            said: None,
        });
        let full = on.history.push(now, OnCpu::Unknown);
        self.cpus.weigh(cpu, now);
        if full {
            self.tidy_history(cpu);
        }
        true
    }

    /// A CPU is online again. Its next switch shows what occupies it.
    pub(super) fn cpu_online(&mut self, event: &Event<'_>) -> bool {
        if !self.advance(event.time) {
            return false;
        }
        if let Some(cpu) = cpu_of(event.args, "cpu") {
            self.cpus.machine.online(cpu, Nanos(self.now));
            let is_vacant = self.cpus.machine.cpu_state(cpu).occupant.is_none();
            self.vacant(cpu, is_vacant);
        }
        true
    }

    /// Informs the observer that a CPU has no known occupant, if `is_vacant`.
    fn vacant(&mut self, cpu: Cpu, is_vacant: bool) {
        if is_vacant {
            let time = Nanos(self.now);
            self.observer.vacated(&Vacated { time, cpu, lost: None, thread: None });
        }
    }

    /// A gap was announced by a record without a time.
    pub(super) fn settle_pending(&mut self) {
        if std::mem::replace(&mut self.pending, Pending::Nothing) != Pending::Nothing {
            self.gap(None, None);
        }
    }

    /// Events of one CPU, or of any CPU, are missing up to the current time.
    fn gap(&mut self, cpu: Option<Cpu>, events: Option<u64>) {
        let now = self.now;
        let mut begin = now;
        // This includes a CPU without earlier events.
        let hit: Vec<Cpu> = match cpu {
            Some(cpu) => vec![cpu],
            None => {
                self.cpus.machine.gap_of_unseen(Nanos(now));
                self.cpus.iter().map(|(number, _)| number).collect()
            }
        };
        for number in hit {
            begin = begin.min(self.cpus.machine.cpu_state(number).since.0);
            let lost =
                self.cpus.machine.gap(&mut self.thread_figures, number, (Nanos(now), Nanos(now)));
            let thread = lost.change.map(|change| Koid(change.thread.koid));
            let (time, cpu) = (Nanos(now), number);
            self.observer.vacated(&Vacated { time, cpu, lost: Some(events), thread });
            let Some(on) = self.cpus.seen(number) else { continue };
            // Any thread may have had the CPU since its last switch; from now on, the thread that is switched out next has it.
            on.history.correct(OnCpu::Unknown);
            let full = on.history.push(now, OnCpu::Unknown);
            if let Some(change) = lost.change {
                self.observer.changed(&shown_change(&change), None);
                self.vanished(number, change.thread);
            }
            if full {
                self.tidy_history(number.0);
            }
        }
        self.cpus.forget_queues(cpu, now);
        // Any thread may have run there too: no open state is reliable.
        self.cpus.machine.invalidate();
        if self.active {
            self.losses.events = self.losses.events.saturating_add(events.unwrap_or(0));
            self.losses.gaps += 1;
            let gap = Gap { cpu, span: Span { begin: Nanos(begin), end: Nanos(now) }, events };
            self.observer.lost(&gap);
            if self.losses.list.len() < MAX_LISTED {
                self.losses.list.push(gap);
            }
        }
    }
}
