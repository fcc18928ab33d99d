//! Everything that touches Linux: perf events and their rings, tracefs,
//! procfs, namespaces, processes and signals. All `unsafe` of the recorder is
//! in here, and nothing in here imports from the modules above it.

pub mod sys;
