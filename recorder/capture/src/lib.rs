//! From kernel samples to typed events in time order, with every loss accounted for.
//!
//! A [`source`] reads bytes that the kernel left ([`bpf_source`], [`ring_source`]); [`decode`] (perf's
//! records), [`sched`] and [`life`] (tracepoints, placed by [`tracepoint`]) make them [`event`]s, and [`order`] puts those
//! of all CPUs into one sequence. [`encode`] makes FXT records of that, [`flight`] is what a recording watches out for
//! meanwhile, and [`stacks`] tells where threads blocked.

#![forbid(unsafe_code)]

pub mod bpf_source;
pub mod contention;
pub mod cursor;
pub mod decode;
pub mod encode;
pub mod event;
pub mod event_pump;
pub mod flight;
pub mod ftrace_rings;
mod futex;
pub mod homes;
pub mod life;
pub mod losses;
pub mod order;
pub mod perf_rings;
pub mod readers;
pub mod ring_source;
pub mod sched;
pub mod source;
pub mod stacks;
pub mod tracepoint;
