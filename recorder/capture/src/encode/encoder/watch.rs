//! Reports events to a [`Watch`], and records what it fires on.
//!
//! Without a watch, each of these costs one check; for a switch, the encoder makes that check.

use fxt_writer::lanes::Lanes;
use fxt_writer::{Arg, Koid, Text, ThreadName, Value, text};

use super::{Encoder, Waited, Words, own_event};
use crate::encode::Closed;
use crate::encode::chain::Occupant;
use crate::encode::generations::id_of;
use crate::encode::strings;
use crate::encode::threads::{Detail, IDLE, OutgoingState, Slot, Threads};
use crate::flight::ledger::Length;
use crate::flight::watch::{Fired, TriggeringThread, Watch};
use fxtrec_gates::Amount;
use fxtrec_gates::Dimension;
use fxtrec_gates::Metric;
use fxtrec_gates::{Condition, Subject};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_sched::{Occupant as Has, State};
use fxtrec_units::{Cpu, Nanos, Tid};

/// Expressions are truncated to this many characters in the trace.
const EXPRESSION_CHARS: usize = 1000;

/// The state of a thread after it was switched out in this state.
fn next(state: OutgoingState) -> State {
    let letters = matches!(state.detail, Some(Detail::Uninterruptible)).then_some("D");
    State::after(state.fxt, letters)
}

/// Whether the condition is currently true for a thread.
fn is_true(condition: &Condition, threads: &Threads, slot: Slot, cpu: Option<Cpu>) -> bool {
    let thread = threads.thread(slot);
    let home = threads.process(thread.process);
    condition.holds(&Subject {
        comm: &String::from_utf8_lossy(thread.comm.as_bytes()),
        pid: home.koid.map(id_of),
        tid: Some(thread.tid.0.into()),
        cgroup: home.cgroup.as_deref(),
        cpu: cpu.and_then(|cpu| u16::try_from(cpu.0).ok()),
        stack: &[],
        // Conditions of triggers do not use this.
        in_command: false,
    })
}

impl<L: Lanes> Encoder<L> {
    /// From now on, checks the triggers of `watch`.
    pub fn watch_with(&mut self, watch: Watch) {
        self.watch = Some(Box::new(watch));
    }

    pub fn watch(&mut self) -> Option<&mut Watch> {
        self.watch.as_deref_mut()
    }

    /// Called after each written switch if there is a watch.
    #[inline(never)]
    pub(super) fn watch_switch(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        (outgoing, incoming): (Slot, Slot),
        words: Words,
    ) -> Result<(), Closed> {
        let sides = (self.who(outgoing), self.who(incoming));
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let next = next(words.state);
        let turn = watch.ledger.end_turn(sides.0, next, time);
        let [slice, wait] = watch.ledger.switch((time, cpu), (sides.0, next), sides.1);
        self.watch_turn(time, cpu, outgoing, turn.filter(|_| slice.is_some()))?;
        self.measured(time, outgoing, slice)?;
        if words.slice.is_some() || words.taken.is_some() {
            self.watch_slice((time, cpu), (outgoing, slice), words)?;
        }
        let wait = match words.wait {
            Some(waited) => self.watch_throttled(time, incoming, wait, waited)?,
            None => wait,
        };
        self.measured(time, incoming, wait)?;
        // Both kinds of wait also count as waits in the run queue.
        let queue = wait.map(|wait| Length { metric: Metric::RunQueue, ..wait });
        self.measured(time, incoming, queue)
    }

    /// Called instead of [`watch_switch`](Self::watch_switch) for a switch without facts, in a recording of all threads; there, hardly any
    /// duration meets a trigger.
    #[inline]
    pub(super) fn watch_plain_switch(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        (outgoing, incoming): (Occupant, Occupant),
        state: OutgoingState,
    ) -> Result<(), Closed> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let who = |who: Occupant| if who.slot == IDLE { Has::Idle } else { Has::Thread(who) };
        let (out, next) = (who(outgoing), next(state));
        let turn = watch.ledger.end_turn(out, next, time);
        let [slice, wait] = watch.ledger.switch((time, cpu), (out, next), who(incoming));
        let meets = |length: Length| watch.may_meet(length.metric, length.nanos);
        let queue = wait.map(|wait| Length { metric: Metric::RunQueue, ..wait });
        // After an unrecorded switch, the thread may have slept since.
        let turn = turn.filter(|turn| slice.is_some() && watch.may_meet_turn(*turn));
        let lengths =
            slice.is_some_and(meets) || wait.is_some_and(meets) || queue.is_some_and(meets);
        if turn.is_some() {
            self.watch_turn(time, cpu, outgoing.slot, turn)?;
        }
        match lengths {
            true => {
                self.watch_lengths(time, (outgoing.slot, slice), (incoming.slot, [wait, queue]))
            }
            false => Ok(()),
        }
    }

    #[cold]
    fn watch_lengths(
        &mut self,
        time: Nanos,
        (outgoing, slice): (Slot, Option<Length>),
        (incoming, waits): (Slot, [Option<Length>; 2]),
    ) -> Result<(), Closed> {
        self.measured(time, outgoing, slice)?;
        waits.into_iter().try_for_each(|wait| self.measured(time, incoming, wait))
    }

    /// A slice with facts was written. If the beginning of a slice was not recorded, the time taken from it is unknown as well.
    #[cold]
    fn watch_slice(
        &mut self,
        (time, cpu): (Nanos, Cpu),
        (slot, slice): (Slot, Option<Length>),
        words: Words,
    ) -> Result<(), Closed> {
        if !self.is_watched(slot) {
            return Ok(());
        }
        let steal = words.slice.map_or(Nanos(0), |facts| facts.steal);
        let taken = words.taken.unwrap_or_default();
        let parts = [(Metric::Steal, steal), (Metric::Irq, taken.irq)];
        let parts = parts.into_iter().filter(|(_, nanos)| slice.is_some() && *nanos > Nanos(0));
        let asked = taken.asked.map(|nanos| (Metric::NeedResched, nanos));
        for (metric, nanos) in parts.chain(asked) {
            let within = slice.map_or(nanos, |slice| slice.nanos);
            self.measured(time, slot, Some(Length { metric, nanos, within, cpu }))?;
        }
        Ok(())
    }

    /// A wait was written in which a quota kept the thread from running. The rest of this time is a wait for the CPU.
    #[cold]
    fn watch_throttled(
        &mut self,
        time: Nanos,
        slot: Slot,
        wait: Option<Length>,
        waited: Waited,
    ) -> Result<Option<Length>, Closed> {
        let Some(wait) = wait else { return Ok(None) };
        let throttled = waited.throttled.min(wait.nanos);
        if throttled > Nanos(0) {
            let length = Length { metric: Metric::Throttled, nanos: throttled, ..wait };
            self.measured(time, slot, Some(length))?;
        }
        Ok(Some(Length { nanos: Nanos(wait.nanos.0 - throttled.0), ..wait }))
    }

    /// A wakeup of a thread that was not runnable was written.
    #[inline]
    pub(super) fn watch_wake(&mut self, time: Nanos, cpu: Cpu, slot: Slot) -> Result<(), Closed> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let koid = self.threads.thread(slot).koid;
        match watch.ledger.wake(Occupant { slot, koid }, cpu, time) {
            Some(blocked) if watch.may_meet(blocked.metric, blocked.nanos) => {
                self.measured(time, slot, Some(blocked))
            }
            _ => Ok(()),
        }
    }

    /// An event shows that a thread has a CPU, perhaps instead of the expected thread.
    #[inline]
    pub(super) fn watch_found(&mut self, time: Nanos, cpu: Cpu, before: Option<Slot>, now: Slot) {
        if self.watch.is_some() {
            let now = self.who(now);
            if let Some(watch) = &mut self.watch {
                watch.ledger.found(cpu, before.is_some(), now, time);
            }
        }
    }

    /// A loss of events on a CPU was written.
    pub(super) fn watch_loss(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        count: Option<u64>,
    ) -> Result<(), Closed> {
        let current = self.chains.of(cpu).current().map(|current| self.who(current.slot));
        let Some(watch) = &mut self.watch else { return Ok(()) };
        watch.ledger.lose(cpu, current, time);
        self.watch_lost_count(time, cpu, count)
    }

    /// A loss was reported, with everything known about it.
    pub(super) fn watch_lost_count(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        count: Option<u64>,
    ) -> Result<(), Closed> {
        let Some(trigger) = self.watch.as_mut().and_then(|watch| watch.loss(count)) else {
            return Ok(());
        };
        let amount = |count| Amount { number: count as f64, dimension: Dimension::Count };
        self.fire_at((time, cpu), trigger, None, count.map(amount))
    }

    /// A non-scheduler sample is about to be written.
    #[inline]
    pub(super) fn watch_probe(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        slot: Slot,
        extra: ExtraIndex,
    ) -> Result<(), Closed> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let threads = &self.threads;
        let met = watch.probe(extra, |condition| is_true(condition, threads, slot, Some(cpu)));
        match met {
            Some(trigger) => self.fire_at((time, cpu), trigger, Some(slot), None),
            None => Ok(()),
        }
    }

    /// A function returned whose call was recorded; `extra` is the sample of the return.
    pub(super) fn watch_call(
        &mut self,
        (since, time): (Nanos, Nanos),
        cpu: Cpu,
        slot: Slot,
        extra: ExtraIndex,
    ) -> Result<(), Closed> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let (threads, nanos) = (&self.threads, Nanos(time.0.saturating_sub(since.0)));
        let is_true = |condition: &Condition| is_true(condition, threads, slot, Some(cpu));
        let met = watch.call(extra, nanos, is_true);
        self.lasted(met, (since, time), (Some(cpu), Some(slot), None))
    }

    /// A turn of a thread has ended (from its wakeup to its next sleep).
    #[cold]
    fn watch_turn(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        slot: Slot,
        turn: Option<Nanos>,
    ) -> Result<(), Closed> {
        let (Some(watch), Some(nanos)) = (&self.watch, turn) else { return Ok(()) };
        if self.is_left_out(watch, slot) {
            return Ok(());
        }
        let threads = &self.threads;
        let met = watch.turn(nanos, |condition| is_true(condition, threads, slot, Some(cpu)));
        let since = Nanos(time.0.saturating_sub(nanos.0));
        self.lasted(met, (since, time), (Some(cpu), Some(slot), None))
    }

    /// An application's span has ended on the thread with this koid, and is long enough for `trigger`.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn span(
        &mut self,
        trigger: usize,
        (since, time): (Nanos, Nanos),
        thread: Koid,
        from: String,
    ) -> Result<(), Closed> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let threads = &self.threads;
        let known = u32::try_from(thread.0).ok().and_then(|tid| threads.find(Tid(tid)));
        let slot = known.filter(|slot| threads.thread(*slot).koid == thread);
        let nanos = Nanos(time.0.saturating_sub(since.0));
        let is_met = watch.lasts(trigger, nanos, |condition| {
            slot.is_some_and(|slot| is_true(condition, threads, slot, None))
        });
        self.lasted(is_met.then_some(trigger), (since, time), (None, slot, Some(from)))
    }

    /// Reports an interval that has met a trigger, if any.
    fn lasted(
        &mut self,
        met: Option<usize>,
        (since, time): (Nanos, Nanos),
        (cpu, slot, from): (Option<Cpu>, Option<Slot>, Option<String>),
    ) -> Result<(), Closed> {
        let Some(trigger) = met else { return Ok(()) };
        let number = time.0.saturating_sub(since.0) as f64;
        let value = Some(Amount { number, dimension: Dimension::Time });
        self.fire(Fired { trigger, time, since: Some(since), cpu, thread: None, value, from }, slot)
    }

    /// A provider raised an alert. `from` describes the provider in messages.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn alert(&mut self, time: Nanos, name: &str, from: &str) -> Result<(), Closed> {
        let Some(trigger) = self.watch.as_ref().and_then(|watch| watch.alert(name)) else {
            return Ok(());
        };
        let fired = Fired {
            trigger,
            time,
            since: None,
            cpu: None,
            thread: None,
            value: None,
            from: Some(from.to_owned()),
        };
        self.fire(fired, None)
    }

    /// A thread, as the ledger identifies it.
    fn who(&self, slot: Slot) -> Has<Occupant> {
        match slot {
            IDLE => Has::Idle,
            _ if !self.is_watched(slot) => Has::NotRecorded,
            _ => Has::Thread(Occupant { slot, koid: self.threads.thread(slot).koid }),
        }
    }

    /// The threads whose waits the trace shows.
    fn is_watched(&self, slot: Slot) -> bool {
        slot != IDLE && (!self.narrow || self.threads.thread(slot).in_scope)
    }

    /// Whether a thread belongs to the recorder and must not fire triggers.
    fn is_left_out(&self, watch: &Watch, slot: Slot) -> bool {
        let own = match self.recorder {
            ThreadName::Inline { process, .. } => Some(process),
            ThreadName::Indexed(_) => None,
        };
        let home = self.threads.process(self.threads.thread(slot).process).koid;
        own.is_some() && home == own && !watch.includes_recorder()
    }

    #[inline(never)]
    fn measured(&mut self, time: Nanos, slot: Slot, length: Option<Length>) -> Result<(), Closed> {
        let (Some(watch), Some(length)) = (&self.watch, length) else { return Ok(()) };
        if !watch.may_meet(length.metric, length.nanos) {
            return Ok(());
        }
        if self.is_left_out(watch, slot) {
            return Ok(());
        }
        let (threads, cpu) = (&self.threads, length.cpu);
        let is_true = |condition: &Condition| is_true(condition, threads, slot, Some(cpu));
        match watch.length(length.metric, length.nanos, is_true) {
            Some(trigger) => {
                let since = Some(Nanos(time.0.saturating_sub(length.within.0)));
                let (cpu, value) = (Some(cpu), Some(length.amount()));
                let fired = Fired { trigger, time, since, cpu, thread: None, value, from: None };
                self.fire(fired, Some(slot))
            }
            None => {
                if let Some(watch) = &mut self.watch {
                    watch.count_other(length.metric, length.nanos, is_true);
                }
                Ok(())
            }
        }
    }

    /// An event without a length has met a trigger, at the current time on this CPU.
    fn fire_at(
        &mut self,
        (time, cpu): (Nanos, Cpu),
        trigger: usize,
        slot: Option<Slot>,
        value: Option<Amount>,
    ) -> Result<(), Closed> {
        let cpu = Some(cpu);
        self.fire(Fired { trigger, time, since: None, cpu, thread: None, value, from: None }, slot)
    }

    /// Stores the trigger that fired and its thread, unless it is too soon after the last one or too many have fired.
    #[cold]
    fn fire(&mut self, mut fired: Fired, slot: Option<Slot>) -> Result<(), Closed> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if !watch.admit(fired.time) {
            return Ok(());
        }
        if let Some(slot) = slot {
            self.name(slot)?;
        }
        let thread = slot.map(|slot| self.threads.thread(slot));
        fired.thread = thread.map(|thread| TriggeringThread {
            koid: thread.koid.0,
            tid: thread.tid,
            comm: thread.comm,
        });
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let expression = expression(watch, &fired);
        let args = about(&fired, &expression);
        let time = fired.time;
        self.lanes.rolling(&own_event(time, self.recorder, Text::Inline("trigger"), &args))?;
        watch.note(fired);
        Ok(())
    }
}

/// The expression of the trigger that fired, as written to the trace.
pub fn expression(watch: &Watch, fired: &Fired) -> String {
    let whole = watch.triggers()[fired.trigger].to_string();
    let short: String = whole.chars().take(EXPRESSION_CHARS).collect();
    text::clean(short.as_bytes()).into_owned()
}

/// The record of a trigger that fired.
pub fn about<'a>(fired: &Fired, expression: &'a str) -> Vec<Arg<'a>> {
    let inline = Text::Inline;
    let mut args = vec![Arg::new(inline("expression"), Value::Str(inline(expression)))];
    args.extend(fired.cpu.map(|cpu| Arg::new(strings::CPU, Value::Uint32(cpu.0))));
    let koid = fired.thread.map(|thread| Value::Koid(Koid(thread.koid)));
    args.extend(koid.map(|koid| Arg::new(strings::THREAD, koid)));
    args.extend(fired.value.map(|value| {
        let name = if value.dimension == Dimension::Time { "value_ns" } else { "value" };
        Arg::new(inline(name), Value::uint(value.number as u64))
    }));
    args
}
