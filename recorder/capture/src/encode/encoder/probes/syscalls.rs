//! The open system calls of threads.

use std::sync::Arc;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::EventKind;
use fxt_writer::{Arg, Text, Value};

use super::{Hit, Unseen, put};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::encode::probes::spans::{Frame, Open};
use crate::encode::strings;
use crate::event::{Call, UserState};
use fxtrec_units::{Cpu, Nanos};

impl<L: Lanes> Encoder<L> {
    /// A system call begins or ends, as reported by a BPF program, not by a sample.
    pub(in super::super) fn syscall_event(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        event: Call,
    ) -> Result<(), Closed> {
        let Call { extra, tid, number, result, is_32_bit } = event;
        let slot = self.threads.get(tid, None);
        let catalog = Arc::clone(&self.probes.catalog);
        let Some(entry) = catalog.entry(extra) else { return Ok(()) };
        let user = Some(UserState { stack: 0, is_32_bit });
        let hit = Hit { time, cpu, slot, catalog: &catalog, entry, user, raw: &[] };
        if !self.is_wanted(&hit, extra)? {
            return Ok(());
        }
        match result {
            None => self.syscall(&hit, number.into()),
            Some(result) => self.syscall_ended(&hit, number.into(), result),
        }
    }

    /// A system call begins; it is recorded if it was requested.
    pub(super) fn syscall(&mut self, hit: &Hit<'_>, number: i64) -> Result<(), Closed> {
        let is_32_bit = hit.user.is_some_and(|user| user.is_32_bit);
        let Some(known) = hit.catalog.syscall(number, is_32_bit) else { return Ok(()) };
        self.count(hit.entry.class);
        let (place, koid) = (self.place(hit.time, hit.slot)?, self.koid(hit.slot));
        let ended = self.probes.spans.of(koid).map_or(0, |open| open.ended_by_syscall());
        self.end_unseen(place, koid, ended, Unseen::Inferred)?;
        let name = known.unwrap_or(strings::SYSCALL);
        let (frame, category) = (Frame::Syscall(number), hit.entry.category);
        let (since, losses) = (hit.time, self.probes.spans.losses());
        let open = Open { frame, category, name, gone: false, since, losses };
        self.probes.spans.deepen(koid).push(open);
        let number = [Arg::new(strings::NUMBER, Value::int(number))];
        let args = if known.is_some() { &[][..] } else { &number[..] };
        put(&mut self.lanes, place, EventKind::DurationBegin, category, name, args)
    }

    pub(super) fn syscall_ended(
        &mut self,
        hit: &Hit<'_>,
        number: i64,
        ret: i64,
    ) -> Result<(), Closed> {
        let koid = self.koid(hit.slot);
        let open = self.probes.spans.of(koid);
        let Some(inside) = open.and_then(|open| open.inside_of_syscall(number)) else {
            // If the call was not requested, its beginning was not recorded either.
            let is_32_bit = hit.user.is_some_and(|user| user.is_32_bit);
            let wanted = hit.catalog.syscall(number, is_32_bit).is_some();
            self.stats.probes.unmatched_ends += u64::from(wanted);
            return Ok(());
        };
        let place = self.place(hit.time, hit.slot)?;
        self.end_unseen(place, koid, inside, Unseen::Inferred)?;
        if let Some(open) = self.probes.spans.deepen(koid).pop() {
            // The loss may include the end of the recorded call and the beginning of the one that ends here.
            let doubt = Arg::new(Text::Inline("lost_inside"), Value::Bool(true));
            let args = [Arg::new(strings::RET, Value::int(ret)), doubt];
            let args = if open.losses == self.probes.spans.losses() { &args[..1] } else { &args };
            let (category, name) = (open.category, open.name);
            put(&mut self.lanes, place, EventKind::DurationEnd, category, name, args)?;
        }
        self.end_gone(hit.time, hit.slot)
    }
}
