//! Whether a thread waited for a disk or a network, according to the stack of the wait.

use fxt_reader::Koid;
use fxtrec_blame::Class;
use fxtrec_blame::chain::{Ended, Frame, What};
use fxtrec_blame::threads::Index;
use fxtrec_report::stacks::{LATE, Recorded};
use fxtrec_sched::backtrace::Kind;
use rustc_hash::FxHashMap;

/// By thread, in order of time: when a wait with a stack began, and its class according to the stack.
#[derive(Debug, Default)]
pub(crate) struct Places(FxHashMap<u64, Vec<(u64, Option<Class>)>>);

impl Places {
    pub(crate) fn of(recorded: &Recorded) -> Places {
        let mut places = Places::default();
        for stack in recorded.all.iter().filter(|stack| stack.kind == Kind::OffCpu) {
            let kernel = recorded.frames(stack).filter(|frame| frame.in_kernel);
            let class = Class::of_kernel_stack(kernel.filter_map(|frame| frame.function));
            places.0.entry(stack.thread.0).or_default().push((stack.time, class));
        }
        for list in places.0.values_mut() {
            list.sort_by_key(|place| place.0);
        }
        places
    }

    /// The class according to the last stack of a wait that began at `since` and ended at `until`.
    pub(crate) fn find(&self, thread: Koid, (since, until): (u64, u64)) -> Option<Class> {
        let list = self.0.get(&thread.0)?;
        let before = list.partition_point(|place| place.0 < until).checked_sub(1)?;
        let (time, class) = list[before];
        class.filter(|_| time.saturating_add(LATE) >= since)
    }

    /// Sets `by_stack` for all waits of a frame and of the frames inside.
    pub(crate) fn tell(&self, frame: &mut Frame, koid: &impl Fn(Index) -> u64) {
        let thread = Koid(koid(frame.thread));
        for step in &mut frame.steps {
            let What::Blocked(blocked) = &mut step.what else { continue };
            let until = match blocked.ended {
                Ended::NotYet => u64::MAX,
                Ended::Woken(_) => step.to,
            };
            blocked.by_stack = self.find(thread, (blocked.since, until));
            for inside in [&mut blocked.inside, &mut blocked.holder].into_iter().flatten() {
                self.tell(inside, koid);
            }
        }
    }
}
