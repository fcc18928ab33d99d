//! The open functions of threads.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::EventKind;

use super::{Hit, Unseen};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::encode::probes::spans::{Frame, Open, SpanId};
use crate::encode::threads::Slot;
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::Nanos;

impl<L: Lanes> Encoder<L> {
    pub(super) fn call(&mut self, hit: &Hit<'_>, id: SpanId) -> Result<(), Closed> {
        self.count(hit.entry.class);
        let (place, koid) = (self.place(hit.time, hit.slot)?, self.koid(hit.slot));
        let stack = hit.user.map(|user| user.stack);
        let ended = self.probes.spans.of(koid).map_or(0, |open| open.ended_by_call(id, stack));
        self.end_unseen(place, koid, ended, Unseen::Inferred)?;
        let (category, name) = (hit.entry.category, hit.entry.name);
        let (frame, since) = (Frame::Function(id, stack), hit.time);
        let losses = self.probes.spans.losses();
        let open = Open { frame, category, name, gone: false, since, losses };
        self.probes.spans.deepen(koid).push(open);
        self.write(place, EventKind::DurationBegin, hit)
    }

    /// The sample of `extra` is the return of a function.
    pub(super) fn returned(
        &mut self,
        hit: &Hit<'_>,
        extra: ExtraIndex,
        id: SpanId,
    ) -> Result<(), Closed> {
        let koid = self.koid(hit.slot);
        let stack = hit.user.map(|user| user.stack);
        let is_32_bit = hit.user.is_some_and(|user| user.is_32_bit);
        let open = self.probes.spans.of(koid);
        let Some(inside) = open.and_then(|open| open.inside_of_return(id, stack, is_32_bit)) else {
            self.stats.probes.unmatched_ends += 1;
            return Ok(());
        };
        let place = self.place(hit.time, hit.slot)?;
        self.end_unseen(place, koid, inside, Unseen::Inferred)?;
        let ended = self.probes.spans.deepen(koid).pop();
        self.probes.spans.tidy(koid);
        // After a loss the return may belong to another call.
        let losses = self.probes.spans.losses();
        if let Some(open) = ended.filter(|open| open.losses == losses) {
            self.watch_call((open.since, hit.time), hit.cpu, hit.slot, extra)?;
        }
        self.write(place, EventKind::DurationEnd, hit)
    }

    /// A thread is switched out for the last time: its open durations will not end.
    pub(in crate::encode::encoder) fn end_thread_spans(
        &mut self,
        time: Nanos,
        slot: Slot,
    ) -> Result<(), Closed> {
        let koid = self.koid(slot);
        if self.probes.spans.of(koid).is_none() {
            return Ok(());
        }
        let place = self.place(time, slot)?;
        self.end_unseen(place, koid, usize::MAX, Unseen::Unfinished)?;
        self.probes.spans.tidy(koid);
        Ok(())
    }

    /// A thread executes another program: the functions that it was in will not end.
    pub(in crate::encode::encoder) fn end_program_spans(
        &mut self,
        time: Nanos,
        slot: Slot,
    ) -> Result<(), Closed> {
        let koid = self.koid(slot);
        let Some(stack) = self.probes.spans.of(koid) else { return Ok(()) };
        stack.lose_program();
        self.end_gone(time, slot)
    }

    /// Ends spans whose program has ended, unless other spans are nested inside them.
    pub(super) fn end_gone(&mut self, time: Nanos, slot: Slot) -> Result<(), Closed> {
        let (place, koid) = (self.place(time, slot)?, self.koid(slot));
        while let Some(gone) = self.probes.spans.of(koid).and_then(|stack| stack.pop_gone()) {
            self.end(place, gone.category, gone.name, Unseen::Unfinished)?;
        }
        self.probes.spans.tidy(koid);
        Ok(())
    }
}
