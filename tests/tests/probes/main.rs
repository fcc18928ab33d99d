//! Where probes go, and what they record.

mod found;
mod programs;
mod recorded;
