//! The records that are written when events are missing, and the facts that become uncertain.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::ProviderEvent;
use fxt_writer::{Arg, Text, Value};

use super::{Encoder, cpu_arg};
use crate::encode::{Closed, strings};
use crate::event::{Loss, LostOthers};
use fxtrec_units::convention::PROVIDER;
use fxtrec_units::{Cpu, Nanos};

impl<L: Lanes> Encoder<L> {
    pub(super) fn lost(&mut self, time: Nanos, cpu: Cpu, loss: &Loss) -> Result<(), Closed> {
        self.stats.count_loss(loss);
        self.forget_contention();
        self.chains.of(cpu).lose(time);
        self.threads.invalidate();
        self.doubt_interrupts(time, cpu)?;
        self.doubt_periods(time)?;
        self.doubt_spans();
        self.lanes.rolling(&ProviderEvent::buffer_filled_up(PROVIDER))?;
        let mut args = [cpu_arg(cpu); 4];
        let mut count = 0;
        let mut add = |arg| {
            args[count] = arg;
            count += 1;
        };
        if let Some(events) = loss.events {
            add(Arg::new(strings::COUNT, Value::uint(events)));
        }
        add(cpu_arg(cpu));
        if loss.at_most {
            add(Arg::new(strings::AT_MOST, Value::Bool(true)));
        }
        if loss.switch_records > 0 {
            add(Arg::new(strings::SWITCH_RECORDS, Value::uint(loss.switch_records)));
        }
        self.instant(time, strings::LOST, &args[..count])?;
        self.watch_loss(time, cpu, loss.events)
    }

    /// Non-scheduler events are missing, but no switches: running and waiting threads remain certain.
    pub(super) fn lost_others(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        lost: LostOthers,
    ) -> Result<(), Closed> {
        self.stats.count_lost_others(lost);
        self.doubt_spans();
        if !lost.calls {
            self.doubt_interrupts(time, cpu)?;
        }
        let mut args = [Arg::new(strings::COUNT, Value::uint(lost.count)); 4];
        args[1] = cpu_arg(cpu);
        let mut count = 2;
        if lost.at_most {
            args[count] = Arg::new(strings::AT_MOST, Value::Bool(true));
            count += 1;
        }
        if lost.calls {
            let of = Value::Str(Text::Inline("syscalls"));
            args[count] = Arg::new(Text::Inline("of"), of);
            count += 1;
        }
        self.instant(time, Text::Inline("lost_others"), &args[..count])?;
        self.watch_lost_count(time, cpu, Some(lost.count))
    }

    /// Forks, exits or names are missing, but no switches: names and processes of threads become uncertain, but not which thread ran.
    pub(super) fn lost_lives(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        count: Option<u64>,
    ) -> Result<(), Closed> {
        match count {
            Some(count) => self.stats.lost_lives = self.stats.lost_lives.saturating_add(count),
            None => self.stats.unseen_lives += 1,
        }
        self.forget_contention();
        self.threads.doubt_names();
        let count = count.map(|count| Arg::new(strings::COUNT, Value::uint(count)));
        let args = [cpu_arg(cpu), count.unwrap_or(cpu_arg(cpu))];
        self.instant(time, strings::LOST_LIVES, &args[..1 + usize::from(count.is_some())])
    }
}
