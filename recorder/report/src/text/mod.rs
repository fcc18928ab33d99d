//! A report as text for people: tables, histograms, sentences.

mod brief;
mod causes;
mod counters;
mod fleet;
mod histogram;
mod locks;
mod losses;
mod overview;
mod spans;
mod threads;
mod worst;

pub(super) use fxtrec_units::grid::printable;

#[cfg(test)]
mod tests;

pub use brief::{write_brief, write_figures};
pub use causes::write_causes;
pub use counters::write_counters;
pub use fleet::{write_fleet_head, write_traces};
pub use histogram::write_histogram;
pub use locks::write_locks;
pub use overview::{write_cpus, write_head, write_metrics};
pub use spans::write_spans;
pub use threads::{NoSuchKey, SortKey, TableStyle, thread_name, write_processes, write_threads};
pub use worst::{
    antagonists, name_and_id, recorder_line, worst_of_all, write_blocked, write_worst,
};
