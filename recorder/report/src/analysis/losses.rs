//! Gaps: what is no longer known when something is missing.

use fxt_reader::record::Event;
use fxt_reader::{Cpu, Nanos};

use super::history::Tenant;
use super::records::number;
use super::{Analysis, Observer};
use crate::model::{Gap, Span};

/// So many gaps are listed.
const MAX_LISTED: usize = 1000;

/// A gap that was announced, whose time comes with the next record that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Nothing,
    /// A provider's buffer filled up. fxtrec says more in the event that follows.
    Loss,
    /// A part of the file could not be read.
    Damage,
}

impl<O: Observer> Analysis<O> {
    /// fxtrec lost events of a CPU. False when that is beyond what is wanted.
    pub(super) fn lost_event(&mut self, event: &Event<'_>) -> bool {
        if self.pending == Pending::Loss {
            self.pending = Pending::Nothing;
        }
        if !self.advance(event.time) {
            return false;
        }
        let cpu = number(event, "cpu").and_then(|cpu| u16::try_from(cpu).ok());
        let count = number(event, "count");
        if self.active {
            self.losses.unknown += u64::from(count.is_none());
            self.losses.at_most |= event.args.get("at_most").is_some();
        }
        self.gap(cpu.map(Cpu), count);
        true
    }

    /// A CPU went offline. Nothing is missing, but until it is back it is not idle either.
    pub(super) fn cpu_offline(&mut self, event: &Event<'_>) -> bool {
        if !self.advance(event.time) {
            return false;
        }
        let Some(cpu) = number(event, "cpu").and_then(|cpu| u16::try_from(cpu).ok()) else {
            return true;
        };
        let now = self.now;
        let Some(idle) = self.cpus.machine.offline(Cpu(cpu), Nanos(now)) else {
            // It is back already, as its events say.
            return true;
        };
        let on = self.cpus.get(cpu);
        on.idle += if on.counted { now.saturating_sub(idle.since.0) } else { 0 };
        let full = on.history.push(now, Tenant::Unknown);
        self.cpus.weigh(cpu, now);
        if full {
            self.tidy_history(cpu);
        }
        true
    }

    /// A gap was announced by something that had no time.
    pub(super) fn settle_pending(&mut self) {
        if std::mem::replace(&mut self.pending, Pending::Nothing) != Pending::Nothing {
            self.gap(None, None);
        }
    }

    /// Events of a CPU, or of any, are missing, up to the present time.
    fn gap(&mut self, cpu: Option<Cpu>, events: Option<u64>) {
        let now = self.now;
        let mut begin = now;
        // Of a CPU of which nothing was heard before, something is missing too.
        let hit: Vec<Cpu> = match cpu {
            Some(cpu) => vec![cpu],
            None => {
                self.cpus.machine.gap_of_unseen(Nanos(now));
                self.cpus.iter().map(|(number, _)| number).collect()
            }
        };
        for number in hit {
            begin = begin.min(self.cpus.machine.seat(number).since.0);
            let lost = self.cpus.machine.gap(&mut self.roster, number, (Nanos(now), Nanos(now)));
            let Some(on) = self.cpus.seen(number) else { continue };
            // Since the CPU's last switch anybody may have had it; now, whoever goes out next.
            on.history.correct(Tenant::Unknown);
            let full = on.history.push(now, Tenant::Unknown);
            if let Some(change) = lost.change {
                self.vanished(number, change.thread);
            }
            if full {
                self.tidy_history(number.0);
            }
        }
        self.cpus.forget_queues(cpu, now);
        // Anybody may have run there, too: nothing that is open can be relied on.
        self.cpus.machine.doubt();
        if self.active {
            self.losses.events = self.losses.events.saturating_add(events.unwrap_or(0));
            self.losses.gaps += 1;
            if self.losses.list.len() < MAX_LISTED {
                let span = Span { begin: Nanos(begin), end: Nanos(now) };
                self.losses.list.push(Gap { cpu, span, events });
            }
        }
    }
}
