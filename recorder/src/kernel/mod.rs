//! Everything that touches Linux: perf events and their rings, tracefs,
//! procfs, namespaces, processes and signals. All `unsafe` of the recorder is
//! in here, and nothing in here imports from the modules above it.

pub mod cpus;
#[cfg(test)]
pub(crate) mod fake;
pub mod format;
pub mod namespaces;
pub mod prev_state;
pub mod print_fmt;
pub mod procfs;
pub mod sys;
pub mod tracefs;
