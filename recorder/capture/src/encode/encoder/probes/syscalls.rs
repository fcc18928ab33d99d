//! System calls that threads are inside of.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::EventKind;
use fxt_writer::{Arg, Value};

use super::{Hit, Unseen, put};
use crate::encode::Closed;
use crate::encode::encoder::Encoder;
use crate::encode::probes::spans::{Frame, Open};
use crate::encode::strings;

impl<L: Lanes> Encoder<L> {
    /// A system call begins, if it is one that is wanted.
    pub(super) fn syscall(&mut self, hit: &Hit<'_>, number: i64) -> Result<(), Closed> {
        let is_32_bit = hit.user.is_some_and(|user| user.is_32_bit);
        let Some(known) = hit.catalog.syscall(number, is_32_bit) else { return Ok(()) };
        self.count(hit.entry.class);
        let (place, koid) = (self.place(hit.time, hit.slot)?, self.koid(hit.slot));
        let ended = self.probes.spans.of(koid).map_or(0, |open| open.ended_by_syscall());
        self.end_unseen(place, koid, ended, Unseen::Inferred)?;
        let name = known.unwrap_or(strings::SYSCALL);
        let (frame, category) = (Frame::Syscall(number), hit.entry.category);
        self.probes.spans.deepen(koid).push(Open { frame, category, name, gone: false });
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
            // It may be one that is not wanted, and then was not begun either.
            let is_32_bit = hit.user.is_some_and(|user| user.is_32_bit);
            let wanted = hit.catalog.syscall(number, is_32_bit).is_some();
            self.stats.probes.unmatched_ends += u64::from(wanted);
            return Ok(());
        };
        let place = self.place(hit.time, hit.slot)?;
        self.end_unseen(place, koid, inside, Unseen::Inferred)?;
        if let Some(open) = self.probes.spans.deepen(koid).pop() {
            let ret = [Arg::new(strings::RET, Value::int(ret))];
            let (category, name) = (open.category, open.name);
            put(&mut self.lanes, place, EventKind::DurationEnd, category, name, &ret)?;
        }
        self.end_gone(hit.time, hit.slot)
    }
}
