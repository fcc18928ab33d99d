//! Recorded stacks: the tables `sample` and `stack`. A sample becomes a row at once. A stack becomes rows at the end of the trace, since
//! the names of its functions may follow it. Each distinct stack is kept once.

use fxt_reader::{Item, Koid, ProviderId, Record};
use fxtrec_report::stacks::{Recorded, Stack};
use fxtrec_sched::backtrace::{Kind, PROBLEMS};
use rustc_hash::FxHashMap;

use crate::rows::Rows;
use crate::schema::Table;
use crate::sheet::Cell;

/// The number of distinct stacks that are kept; samples with further ones have no stack.
const MOST: usize = 1 << 18;

type StackKey = (Option<ProviderId>, Koid, Option<u16>, Box<[u64]>);

/// The stacks so far.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    recorded: Recorded,
    numbers: FxHashMap<StackKey, u32>,
    stacks: Vec<Stack>,
}

/// A sample that has just been recorded.
#[derive(Debug)]
pub(crate) struct Sample {
    time: u64,
    thread: Koid,
    kind: &'static str,
    stack: Option<u32>,
    problems: u32,
}

impl Stacks {
    /// Whether records of this kind are relevant for stacks.
    #[inline]
    pub(crate) fn is_about(record: &Record<'_>) -> bool {
        matches!(
            record,
            Record::Backtrace(_)
                | Record::UserspaceObject(_)
                | Record::Module(_)
                | Record::Mapping(_)
        )
    }

    /// Processes such a record. Returns the sample, if the record is one.
    pub(crate) fn take(&mut self, item: &Item<'_>) -> Option<Sample> {
        self.recorded.take(item.provider, &item.record);
        let stack = self.recorded.all.pop()?;
        let (time, thread, problems) = (stack.time, stack.thread, stack.problems);
        let kind = match stack.kind {
            Kind::OffCpu => "off_cpu",
            Kind::Wake => "wake",
            Kind::Cpu => "cpu",
        };
        let (provider, process, module, addresses) = self.recorded.place(&stack);
        let place: StackKey = (provider, process, module, addresses.into());
        let number = match self.numbers.get(&place) {
            Some(&number) => Some(number),
            None if self.stacks.len() >= MOST => None,
            None => {
                // There are fewer stacks than 2^32.
                let number = self.stacks.len() as u32;
                self.numbers.insert(place, number);
                self.stacks.push(stack);
                Some(number)
            }
        };
        Some(Sample { time, thread, kind, stack: number, problems })
    }

    /// The rows of all stacks.
    pub(crate) fn finish(self, rows: &mut Rows<'_>) {
        for (number, stack) in (0_u32..).zip(&self.stacks) {
            for (depth, frame) in (0_u32..).zip(self.recorded.frames(stack)) {
                let (module, address) =
                    frame.module.map_or((None, frame.address), |(path, at)| (Some(path), at));
                let row = [
                    Cell::id(number),
                    Cell::id(depth),
                    rows.some_text(Table::Stack, frame.function),
                    rows.some_text(Table::Stack, module),
                    Cell::int(address.cast_signed()),
                    Cell::flag(frame.in_kernel),
                ];
                rows.push(Table::Stack, &row);
            }
        }
    }
}

impl Sample {
    pub(crate) fn push(&self, rows: &mut Rows<'_>) {
        let utid = rows.utid_of(self.thread);
        let lacks: Vec<&str> = PROBLEMS
            .iter()
            .filter(|(bit, _)| self.problems & bit != 0)
            .map(|(_, what)| *what)
            .collect();
        let lacks = lacks.join("; ");
        let row = [
            Cell::of(self.time),
            Cell::id(utid),
            rows.text(Table::Sample, self.kind),
            Cell::some_id(self.stack),
            rows.some_text(Table::Sample, Some(&*lacks).filter(|lacks| !lacks.is_empty())),
        ];
        rows.push(Table::Sample, &row);
    }
}
