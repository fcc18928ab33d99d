//! Small programs in the kernel that write compact records of switches and wakeups.
//!
//! ```text
//!   sched_switch ------ program --+
//!   sched_wakeup ------ program --+--> lane of this CPU (shared memory) --> reader in user space
//!   sched_wakeup_new -- program --+         |
//!   sched_waking ------ program --+         +--> doorbell, when a quarter of the lane is full
//!   sys_enter, sys_exit  programs ---> another lane of this CPU, if system calls are wanted
//!   interrupts -------- programs ---> sums of this CPU, which the program on switches tells, and what they are about
//! ```
//!
//! The programs are compiled from C (`recorder/kernel/bpf`), and prepared for the running kernel by [`object`], according to the kernel's
//! description of its types ([`types`], [`interrupts`]). [`programs`] assembles those that record. A [`lane`] is a ring in an array map
//! that both sides map; writing a record needs neither a lock nor a helper call, and wakes no thread. The [`doorbell`] is for bursts, so
//! that the reader may otherwise sleep for a long time. With a narrow scope, a [`scope`] gives the programs the threads to record, or
//! [`groups`] the cgroups. Separate programs record where threads block ([`stacks`]), and count figures without records ([`counts`]). Hits
//! of user probes are written to perf's rings ([`probes`]).
//!
//! Every call that the kernel could refuse goes through [`sys::BpfSys`].

pub mod account;
pub mod contentions;
pub mod counts;
pub mod doorbell;
pub mod events;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod groups;
pub mod interrupts;
pub mod lane;
pub mod object;
pub mod origins;
pub mod packets;
pub mod probes;
pub mod programs;
pub mod requests;
mod ring_buffer;
pub mod scope;
pub mod stacks;
pub mod sys;
pub mod types;
