//! What each subcommand does.

pub mod convert;
pub mod doctor;
pub mod dump;
pub mod plan;
pub mod record;
