//! Helpers that the end-to-end tests share.

pub mod binary;
pub mod folder;
pub mod programs;
pub mod root;
pub mod trace;
