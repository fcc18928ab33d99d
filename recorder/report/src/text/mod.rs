//! A report as text for people: tables, histograms, sentences.

mod brief;
mod causes;
mod grid;
mod histogram;
mod overview;
mod threads;
mod worst;

pub(super) use grid::printable;

#[cfg(test)]
mod tests;

pub use brief::write_brief;
pub use causes::write_causes;
pub use histogram::write_histogram;
pub use overview::{write_cpus, write_head, write_metrics};
pub use threads::{NoSuchKey, SortKey, TableStyle, thread_name, write_processes, write_threads};
pub use worst::{antagonists, party, write_worst};
