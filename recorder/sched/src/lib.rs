//! Which thread has which CPU, and the state of each thread: fxtrec's only scheduling state machine.
//!
//! Its input consists of events, in order of time; its output consists of *changes*. A [`Change`] ends a state of a thread, a
//! [`CpuInterval`] a use of a CPU, and both contain how their beginning and their end are known.
//!
//! ```text
//!            switch in                       switch out, can run
//!   Unknown ------------> Running <----------------------------> Preempted
//!      |                   |   ^
//!      | wakeup            |   | switch in
//!      |    switch out, S  |   +------------------ Woken
//!      |    or D           v                          ^
//!      |               Sleeping, Stopped, ... --------+ wakeup
//!      +----------------------------------------------+
//! ```
//!
//! The machine keeps a [`CpuState`] for each CPU. The data of a thread is a [`Thread`], 16 bytes, which the caller stores next to its own
//! data about that thread, and lends to the machine through [`Threads`]: readers by koid, the recorder by its own index. No call allocates,
//! except one with a CPU number that is greater than any before.
//!
//! # The rules
//!
//! - If a thread is switched out of a CPU that another thread was believed to have, the switch-in of the first thread was not seen
//!   ([`Met::Displaced`]).
//!   The time for which the other thread still had the CPU is unknown; its tenure ends now at the latest ([`Edge::Inferred`]), and it may
//!   be in any state. How long the other thread still had the CPU is unknown; its tenure ends now at the latest ([`Edge::Inferred`]), and
//!   it may be anywhere.
//! - A wakeup of a thread that runs, or already waits for a CPU, changes nothing.
//! - A thread whose cgroup has used up its quota does not wait for a CPU until it has [quota](State::Throttled) again. How long that took
//!   is known when it is finally switched in: [`Machine::held_back`] then divides its wait.
//! - A [gap](Machine::gap) leaves its CPU, and the thread that was on it, unknown. A thread that did not have that CPU may have run on it
//!   unseen during the gap: a caller that needs certainty also calls [`Machine::invalidate`], after which no state that had begun is
//!   *sound*. A doubtful state is still the best guess, but it has no length, and a wakeup of a thread in it counts.
//! - A CPU that is [offline](Machine::offline) has no occupant, and is not idle either.
//! - Anything outside the scope of a recording is [`Occupant::NotRecorded`] on a CPU and [`State::NotRecorded`] of a thread. "Unknown" is a
//!   valid answer; "idle" is a claim, made only if an event supports it.
//! - When a window begins within a trace ([`Machine::cut`]), known states stay known, but their beginnings are cut.
//!
//! # Who takes what
//!
//! | consumer | key | feeds | takes |
//! | --- | --- | --- | --- |
//! | figures of a report, and the page | slot and koid | switches, wakeups, gaps and the states that they make doubtful, offline, cuts | [`Change::length`] for samples; [`CpuInterval`] for busy and idle; [`Machine::cpu_state`] at the end; the page, every [`Change`] that the report passes on |
//! | slices to draw (TEF) | koid | switches, wakeups, gaps | every [`CpuInterval`] and [`Change`], with [`Edge`]s where it shows them; [`Machine::end`] |
//! | what is open at one point in time (cut, a snapshot) | koid | switches, wakeups | [`CpuState::occupant`], and threads for which [`State::is_waiting`] holds |
//! | a flight recorder's ledger | index | switches, [`found`](Machine::found), wakeups, gaps and the states that they make doubtful | [`Change::length`], [`Switched::slice`], [`Machine::knows`] |
//! | the encoder's chain | index and koid | a [`CpuState`] for each CPU, without threads: switches, gaps | [`CpuState::presumed`]: the occupant before a gap, for which a switch is inferred if another thread leaves the CPU |
//! | the beginning of a trace, from its end | koid | switches | the first [`Switched`] of each CPU, if its tenure begins at [`Edge::Start`] |
//!
//! ```
//! use std::collections::HashMap;
//!
//! use fxt_reader::{Cpu, Nanos};
//! use fxtrec_sched::{Machine, Occupant, State, Switch, Thread};
//!
//! let (mut machine, mut threads) = (Machine::default(), HashMap::<u64, Thread>::new());
//! machine.wake(&mut threads, 7, Cpu(0), Nanos(100)).expect("it was not known to be awake");
//! let switched = machine.switch(&mut threads, Switch {
//!     time: Nanos(130),
//!     cpu: Cpu(0),
//!     outgoing: Occupant::Idle,
//!     next: State::Unknown,
//!     incoming: Occupant::Thread(7),
//!     inferred: false,
//! });
//! let waited = switched.incoming.expect("a thread came in");
//! assert_eq!((waited.before.state, waited.length()), (State::Woken, Some(30)));
//! ```

#![forbid(unsafe_code)]

pub mod backtrace;
mod cpu_state;
mod machine;
mod periods;
mod state;
mod switch_args;
#[cfg(test)]
mod tests;
mod threads;
pub mod waited;
mod whose;

pub use cpu_state::{CpuInterval, CpuState, Edge, Occupant};
pub use machine::{Change, Enter, Found, Leave, Left, Lost, Machine, Met, Switch, Switched};
pub use periods::{Held, Periods, TimeInterval, is_period, period_of};
pub use state::State;
pub use switch_args::{RequestFacts, SwitchArgs, UsualArgs, WakeupFacts, cpu_of, signed, unsigned};
pub use threads::{Thread, Threads};
pub use whose::{FilledUp, Scheduler};
