//! Which thread is on which CPU: the chain of threads, in reality and in the file.
//!
//! ```text
//!   kernel   A -> B    B -> C    C -> idle    (idle -> D unseen)    D -> E
//!   chain      B         C        idle                                ^ D is switched out, but idle was on:
//!                                                                       idle -> D is inferred first
//! ```
//!
//! A [`CpuState`] of the scheduling machine, with its rules for switches and gaps, says which thread really is on the CPU. The encoder does
//! not derive the states of threads: it only tracks the facts that it needs to leave out spurious wakeups; a ledger tracks the rest if a
//! trigger is set. A property test (`agreement` of `fxtrec-convert`) records a random history with the encoder and compares the report with
//! the machine.
//!
//! With a narrow scope, the file shows less than really happened: it has a switch if a thread in scope is switched out or in, and it shows
//! the thread out of scope that follows such a thread until that thread is switched out. For the rest of the time, a pseudo-thread of the
//! CPU represents the threads that are not recorded. The idle task is out of scope like other threads: where the file shows idle, the CPU
//! was idle.
//!
//! ```text
//!   truth    A -> x    x -> y    y -> idle     idle -> A     A -> idle     idle -> z    A is in scope, x y z are not
//!   file     A -> x    x -> ?                  ? -> A        A -> idle     idle -> ?    ? is not recorded
//! ```
//!
//! Above, A blocks. While a thread in scope waits for the CPU, every thread that has the CPU is shown. The next state of a thread out of
//! scope is unknown even then, so the pseudo-thread appears between two of them, for no time, and an inferred switch brings in the second
//! thread.
//!
//! ```text
//!   truth    A -> x    x -> y             y -> A    A -> idle    idle -> z              A wakes    z -> A
//!   file     A -> x    x -> ?  ? -> y     y -> A    A -> idle    idle -> ?    ? -> z    A wakes    z -> A
//! ```

use super::threads::Slot;
use crate::event::{SliceFacts, Taken};
use fxt_writer::Koid;
use fxtrec_sched::{CpuState, Edge, Occupant as Has};
use fxtrec_units::{Cpu, Nanos};

/// A thread, as a CPU's chain stores it. This value may outlive the encoder's other data about the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupant {
    pub slot: Slot,
    /// Its id in the trace.
    pub koid: Koid,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Chain {
    /// The thread that is really on the CPU, according to the scheduling machine.
    pub(super) seat: CpuState<Occupant>,
    /// The thread that the file shows; `None` before the CPU's first record.
    pub shown: Option<Koid>,
    /// The known facts about the slice that the next switch ends.
    pub slice: Option<SliceFacts>,
    pub taken: Option<Taken>,
    /// Whether the trace has the name of the pseudo-thread for unrecorded time.
    pub unrecorded: bool,
    /// How many threads in scope wait for the CPU, if only some are in scope and the kernel does not choose them.
    pub waiting: u32,
}

impl Chain {
    /// The thread on the CPU, or before a loss; `None` until an event showed one. The idle task counts as a thread in this chain.
    #[inline(always)]
    pub fn current(&self) -> Option<Occupant> {
        self.seat.presumed().and_then(Has::thread)
    }

    /// The thread on the CPU, if the file shows the same one and the next switch needs no arguments about the slice.
    #[inline(always)]
    pub fn plain(&self) -> Option<Occupant> {
        let current = self.seat.occupant.and_then(Has::thread)?;
        let shown = self.shown == Some(current.koid);
        (shown && self.slice.is_none() && self.taken.is_none()).then_some(current)
    }

    /// Whether events of this CPU were lost since its last switch.
    #[inline(always)]
    pub fn has_gap(&self) -> bool {
        self.seat.has_gap()
    }

    /// A switch brings a thread onto the CPU.
    #[inline(always)]
    pub fn enter(&mut self, incoming: Occupant, time: Nanos, inferred: bool) {
        self.seat.enter(Has::Thread(incoming), read_time(time), inferred);
    }

    /// Sets the thread on the CPU, if it was not known before.
    pub fn claim(&mut self, who: Occupant) {
        self.seat.claim(Has::Thread(who));
    }

    /// Events of this CPU are missing up to `time`.
    pub fn lose(&mut self, time: Nanos) {
        self.seat.lose(read_time(time));
    }

    /// The thread on the CPU is not known any more, though no event is missing.
    pub fn forget(&mut self, time: Nanos) {
        self.seat.forget(read_time(time));
    }

    /// The facts about the slice of `koid`, which a switch ends at `time`.
    #[inline]
    pub fn end_slice(&mut self, time: Nanos, koid: Koid) -> (Option<SliceFacts>, Option<Taken>) {
        if self.slice.is_none() && self.taken.is_none() {
            return (None, None);
        }
        // If no event reported the beginning of a slice, these facts cover other slices too.
        let whole = self.seat.begin == Edge::Recorded
            && self.current().is_some_and(|current| current.koid == koid);
        let since = if whole { self.seat.since.0 } else { time.0 };
        let length = Nanos(time.0.saturating_sub(since));
        // The scheduler reads its clocks shortly before it reports a switch. Time between these moments counts for the next slice, and may
        // exceed that slice's length.
        let slice = self.slice.take();
        let slice = slice.map(|facts| SliceFacts { steal: facts.steal.min(length), ..facts });
        let taken = self.taken.take().map(|taken| match length {
            // Some interrupts may belong to another slice.
            Nanos(0) => Taken { irq: Nanos(0), irqs: 0, ..taken },
            _ => Taken { irq: taken.irq.min(length), ..taken },
        });
        (slice, taken)
    }
}

#[inline(always)]
fn read_time(time: Nanos) -> fxt_reader::Nanos {
    fxt_reader::Nanos(time.0)
}

/// The chains of all CPUs.
#[derive(Debug, Default)]
pub struct Chains(Vec<Chain>);

impl Chains {
    #[inline(always)]
    pub fn of(&mut self, cpu: Cpu) -> &mut Chain {
        let at = cpu.0 as usize;
        if at >= self.0.len() {
            self.add(at);
        }
        &mut self.0[at]
    }

    #[cold]
    fn add(&mut self, at: usize) {
        self.0.resize(at + 1, Chain::default());
    }

    pub fn all(&self) -> impl Iterator<Item = (Cpu, Chain)> {
        (0..).map(Cpu).zip(self.0.iter().copied())
    }

    /// All chains, mutable.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.0.iter_mut()
    }
}

/// The part of a switch that the file shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether the outgoing side is the thread itself; otherwise it is the pseudo-thread.
    pub outgoing: bool,
    /// Whether the incoming side is the thread itself.
    pub incoming: bool,
}

/// How a switch is shown if only some threads are in scope; `None` if it is not shown.
///
/// `shown` is whether the file shows the outgoing thread on the CPU.
pub fn view(outgoing_in_scope: bool, incoming_in_scope: bool, shown: bool) -> Option<View> {
    match (outgoing_in_scope, incoming_in_scope) {
        (true, _) => Some(View { outgoing: true, incoming: true }),
        (false, true) => Some(View { outgoing: shown, incoming: true }),
        (false, false) if shown => Some(View { outgoing: true, incoming: false }),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second picture in the module's documentation.
    #[test]
    fn an_outsider_is_shown_until_it_goes_out_and_then_no_longer() {
        let whole = Some(View { outgoing: true, incoming: true });
        assert_eq!(view(true, false, true), whole, "A -> x");
        assert_eq!(
            view(false, false, true),
            Some(View { outgoing: true, incoming: false }),
            "x -> y"
        );
        assert_eq!(view(false, false, false), None, "y -> z");
        assert_eq!(
            view(false, true, false),
            Some(View { outgoing: false, incoming: true }),
            "z -> A"
        );
        assert_eq!(view(false, true, true), whole, "x -> A");
    }
}
