//! Wakeups: which of them had an effect, and their wakers.

use std::borrow::Cow;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Event as EventRecord, EventKind, Wakeup};
use fxt_writer::{Arg, Koid, Text, ThreadName, Value};

use super::{Encoder, cpu_number, known_comm, ticks};
use crate::encode::Closed;
use crate::encode::strings;
use crate::encode::threads::weight::weight;
use crate::encode::threads::{Announced, Run, Slot};
use crate::event::{Comm, Wake, WakeKind, Waker};
use fxtrec_kernel::bpf::origins::{self, Origin, Request};
use fxtrec_kernel::symbols::KernelSymbols;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The cause of an interrupt, in one word.
fn kind_of(origin: &Origin) -> Text<'static> {
    match origin {
        Origin::HrTimer { .. } => strings::HRTIMER,
        Origin::Timer { .. } => strings::TIMER,
        Origin::Device { .. } => strings::DEVICE,
        Origin::Softirq(_) => strings::SOFTIRQ,
        Origin::Vector(_) => strings::VECTOR,
        Origin::Request(_) => strings::REQUEST,
        Origin::Packet(_) | Origin::Sent { .. } => strings::PACKET,
    }
}

/// The argument for the name; a packet has none, because its name says which hosts communicate, which is secret.
fn name_arg(origin: Option<Origin>) -> Text<'static> {
    match origin {
        Some(Origin::Packet(_)) => strings::PACKET,
        _ => strings::INTERRUPT_NAME,
    }
}

/// The timer, device or interrupt.
fn name_of<'a>(origin: &'a Origin, kernel: &'a KernelSymbols) -> Option<Cow<'a, str>> {
    match origin {
        Origin::HrTimer { function } | Origin::Timer { function } => {
            kernel.function_at(*function).map(Cow::Borrowed)
        }
        Origin::Device { irq, name } => Some(match name.text() {
            [] => format!("irq {irq}").into(),
            text => String::from_utf8_lossy(text),
        }),
        Origin::Request(request) => {
            let disk = String::from_utf8_lossy(request.disk.text());
            Some(format!("{} {disk}", request.operation()).into())
        }
        Origin::Softirq(number) => origins::softirq(*number).map(Cow::Borrowed),
        Origin::Vector(number) => origins::vector(*number).map(Cow::Borrowed),
        Origin::Packet(ends) => ends.map(|ends| ends.to_string().into()),
        Origin::Sent { .. } => None,
    }
}

impl<L: Lanes> Encoder<L> {
    /// A wakeup of a thread without new or uncertain facts, by the thread that has the CPU or by an interrupt. Does the same writing and
    /// bookkeeping for it as [`Encoder::wake`]. Returns false, and does nothing, for any other event.
    #[inline(always)]
    pub(super) fn plain_wake(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        wake: &Wake,
    ) -> Result<bool, Closed> {
        if wake.kind != WakeKind::Wakeup || self.queued.is_some() || self.origin.is_some() {
            return Ok(false);
        }
        let Some(current) = self.plain_occupant(cpu, wake.current, &Comm::default()) else {
            return Ok(false);
        };
        let Some(slot) = self.threads.recall(wake.tid) else { return Ok(false) };
        let thread = self.threads.thread(slot);
        if thread.waker.is_some() || !self.threads.is_settled(slot, &wake.comm) {
            return Ok(false);
        }
        if self.narrow && !(thread.in_scope && self.is_known_scope(slot, wake.in_scope)) {
            return Ok(false);
        }
        if matches!(thread.run, Run::Running | Run::Runnable) {
            self.stats.wakeups += 1;
            self.stats.spurious_wakeups += 1;
            return Ok(true);
        }
        let (cpu, at, thread) = (cpu_number(wake.target), ticks(time), thread.koid);
        let weight = weight(wake.tid, wake.prio);
        let tells_weight = self.tells_weight(weight);
        let weight = Arg::new(strings::WEIGHT, Value::Int32(weight));
        let wakeup = Wakeup { cpu, time: at, thread, args: [weight] };
        // Each function lists its arguments explicitly, so that the compiler knows the record's size.
        match wake.by {
            Waker::Task(tid) if tid != wake.current => return Ok(false),
            Waker::Task(_) => {
                let by = Arg::new(strings::WAKER, Value::Koid(current.koid));
                match tells_weight {
                    true => self.lanes.rolling(&wakeup.with_args([weight, by]))?,
                    false => self.lanes.rolling(&wakeup.with_args([by]))?,
                }
            }
            Waker::Interrupt => {
                let by = Arg::new(strings::INTERRUPT, Value::Bool(true));
                match tells_weight {
                    true => self.lanes.rolling(&wakeup.with_args([weight, by]))?,
                    false => self.lanes.rolling(&wakeup.with_args([by]))?,
                }
            }
            Waker::Unknown => match tells_weight {
                true => self.lanes.rolling(&wakeup)?,
                false => self.lanes.rolling(&wakeup.with_args([]))?,
            },
        }
        self.threads.thread_mut(slot).run = Run::Runnable;
        self.stats.wakeups += 1;
        self.stats.wakeups_written += 1;
        self.watch_wake(time, wake.target, slot)?;
        if self.narrow {
            self.begin_wait(time, wake.target, slot)?;
        }
        Ok(true)
    }

    pub(super) fn wake(&mut self, time: Nanos, cpu: Cpu, wake: &Wake) -> Result<(), Closed> {
        let current = self.threads.get(wake.current, None);
        self.has_cpu(time, cpu, current)?;
        if wake.kind == WakeKind::Waking {
            return self.waking(time, wake, current);
        }
        self.stats.wakeups += 1;
        let queued = self.queued.take_if(|(on, _)| *on == cpu).map(|(_, throttle)| throttle);
        let origin = self.origin.take_if(|(on, _)| *on == cpu).map(|(_, origin)| origin);
        let slot = match wake.kind {
            WakeKind::New => self.threads.woken_new(time, wake),
            _ => self.threads.get(wake.tid, known_comm(&wake.comm)),
        };
        let announced = self.threads.thread_mut(slot).waker.take();
        if matches!(self.threads.run(slot), Run::Running | Run::Runnable) {
            // Otherwise readers would end its slice here.
            self.stats.spurious_wakeups += 1;
            return Ok(());
        }
        self.threads.set_run(slot, Run::Runnable);
        if let Some(throttle) = queued {
            self.queued(time, wake.target, slot, throttle);
        }
        let thread = self.threads.thread(slot);
        if self.narrow && !thread.in_scope {
            return Ok(());
        }
        let koid = thread.koid;
        let sent = match origin {
            Some(Origin::Sent { at, .. }) => Some(time.0.saturating_sub(at.0)),
            _ => None,
        };
        let waker = match announced.filter(|_| sent.is_none()) {
            // The thread that completes a wakeup is not always the one that began it.
            Some(waker) => waker,
            None => self.announce(wake, current)?,
        };
        self.name(slot)?;
        let by = match waker {
            Announced::Task(koid) => Some(Arg::new(strings::WAKER, Value::Koid(koid))),
            Announced::Interrupt => Some(Arg::new(strings::INTERRUPT, Value::Bool(true))),
            Announced::Unknown => None,
        };
        let weight = weight(wake.tid, wake.prio);
        let weight = self.tells_weight(weight).then_some(Value::Int32(weight));
        let weight = weight.map(|weight| Arg::new(strings::WEIGHT, weight));
        let mut args = [Arg::new(Text::EMPTY, Value::Null); 9];
        let mut count = 0;
        let held = queued.filter(|throttle| throttle.now);
        let held = held.map(|_| Arg::new(strings::THROTTLED, Value::Bool(true)));
        // If a thread caused the wakeup, it began on another CPU.
        let origin = origin.filter(|_| waker == Announced::Interrupt && sent.is_none());
        let request = match origin {
            Some(Origin::Request(request)) => self.request_args(time, &request)?,
            _ => [None; 4],
        };
        let sent = sent.filter(|_| matches!(waker, Announced::Task(_)));
        let via = sent.map(|_| Arg::new(strings::VIA, Value::Str(strings::PACKET)));
        let sent = sent.map(|ago| Arg::new(strings::SENT_NS, Value::Uint64(ago)));
        let of_origin = |name, text: Text<'static>| Arg::new(name, Value::Str(text));
        let kind = origin.map(|origin| of_origin(strings::INTERRUPT_KIND, kind_of(&origin)));
        let name = origin.as_ref().and_then(|origin| name_of(origin, &self.kernel));
        let name =
            name.as_deref().map(|it| Arg::new(name_arg(origin), Value::Str(Text::Inline(it))));
        let args_of_wake = [weight, by, held, kind, name, via, sent];
        for arg in args_of_wake.into_iter().chain(request).flatten() {
            args[count] = arg;
            count += 1;
        }
        self.stats.wakeups_written += 1;
        self.lanes.rolling(&Wakeup {
            cpu: cpu_number(wake.target),
            time: ticks(time),
            thread: koid,
            args: &args[..count],
        })?;
        self.watch_wake(time, wake.target, slot)?;
        match self.narrow {
            true => self.begin_wait(time, wake.target, slot),
            false => Ok(()),
        }
    }

    /// The facts about the request whose completion causes a wakeup at this time: its size, the thread that made it, how long ago, and how
    /// long the disk worked on it.
    fn request_args(
        &mut self,
        time: Nanos,
        request: &Request,
    ) -> Result<[Option<Arg<'static>>; 4], Closed> {
        let issuer = match request.issuer() {
            Some(tid) => self.koid_of(tid)?,
            None => None,
        };
        let ago = |then: Option<Nanos>| Some(Value::Uint64(time.0.checked_sub(then?.0)?));
        let arg = |name, value: Option<Value<'static>>| Some(Arg::new(name, value?));
        Ok([
            arg(strings::REQUEST_BYTES, Some(Value::Uint32(request.bytes))),
            arg(strings::REQUEST_BY, issuer.map(Value::Koid)),
            arg(strings::REQUEST_NS, ago(request.started())),
            arg(strings::DEVICE_NS, ago(request.issued())),
        ])
    }

    /// The koid of a thread that was active recently, with its name if it still exists; none if it is out of scope.
    fn koid_of(&mut self, tid: Tid) -> Result<Option<Koid>, Closed> {
        if self.threads.has_ended(tid) {
            return Ok((!self.narrow).then(|| self.threads.last_owner(tid)));
        }
        let slot = self.threads.get(tid, None);
        let thread = self.threads.thread(slot);
        if self.narrow && !thread.in_scope {
            return Ok(None);
        }
        let koid = thread.koid;
        self.name(slot)?;
        Ok(Some(koid))
    }

    /// The waker of a wakeup, named if it is a thread. `current` ran on the CPU where the event was recorded.
    #[inline]
    fn announce(&mut self, wake: &Wake, current: Slot) -> Result<Announced, Closed> {
        let tid = match wake.by {
            Waker::Task(tid) => tid,
            Waker::Interrupt => return Ok(Announced::Interrupt),
            Waker::Unknown => return Ok(Announced::Unknown),
        };
        let slot = match tid == wake.current {
            true => current,
            false if self.threads.has_ended(tid) => {
                // The thread has been switched out for the last time since this wakeup began. Everything that the trace shows about it
                // already has a name.
                let koid = self.threads.last_owner(tid);
                return Ok(if self.narrow { Announced::Unknown } else { Announced::Task(koid) });
            }
            false => self.threads.get(tid, None),
        };
        self.name(slot)?;
        Ok(Announced::Task(self.threads.thread(slot).koid))
    }

    /// A thread or interrupt begins to wake a thread. The wakeup itself may follow on another CPU, where its waker is unknown.
    fn waking(&mut self, time: Nanos, wake: &Wake, current: Slot) -> Result<(), Closed> {
        self.stats.wakings += 1;
        let slot = self.threads.get(wake.tid, known_comm(&wake.comm));
        if self.narrow && !self.threads.thread(slot).in_scope {
            return Ok(());
        }
        self.name(slot)?;
        let mut thread = self.recorder;
        let announced = self.announce(wake, current)?;
        if let Announced::Task(koid) = announced {
            let process = self.threads.thread(current).process;
            let process = self.threads.process_koid(process);
            thread = ThreadName::Inline { process, thread: koid };
        }
        self.threads.thread_mut(slot).waker = Some(announced);
        let koid = self.threads.thread(slot).koid;
        self.lanes.rolling(&EventRecord {
            kind: EventKind::Instant,
            time: ticks(time),
            thread,
            category: strings::SCHED,
            name: strings::WAKING,
            args: &[
                Arg::new(strings::THREAD, Value::Koid(koid)),
                Arg::new(strings::CPU, Value::Uint32(wake.target.0)),
            ],
        })?;
        Ok(())
    }
}
