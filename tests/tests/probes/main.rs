//! The places and the records of probes.

mod found;
mod programs;
mod recorded;
