//! Converts kernel samples to typed events in time order, and accounts for every loss.
//!
//! A [`source`] reads the bytes that the kernel wrote ([`bpf_source`], [`ring_source`]). [`decode`] (perf's records), [`sched`] and
//! [`life`] (tracepoints, whose fields [`tracepoint`] locates) turn them into [`event`]s, and [`order`] merges those of all CPUs into one
//! sequence. [`encode`] turns it into FXT records. [`flight`] watches for triggers at the same time, and [`stacks`] records where threads
//! blocked.

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
mod merge_thread;
pub mod order;
pub mod perf_rings;
pub mod readers;
pub mod ring_source;
pub mod sched;
pub mod source;
pub mod stacks;
pub mod tracepoint;
