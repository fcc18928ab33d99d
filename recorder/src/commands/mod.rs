//! What each subcommand does.

pub mod compare;
pub mod convert;
pub mod doctor;
pub mod dump;
pub mod gates;
pub mod plan;
pub mod probes;
pub mod record;
pub mod report;
