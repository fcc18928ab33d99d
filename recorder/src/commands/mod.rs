//! What each subcommand does.

pub mod plan;
