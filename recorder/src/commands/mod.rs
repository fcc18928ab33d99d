//! What each subcommand does.

pub mod doctor;
pub mod plan;
pub mod record;
