//! Commands that create files from recordings, and pieces and windows of recordings.

mod convert;
mod cores;
mod export;
mod flight;
mod golden;
mod import;
mod outputs;
mod page;
mod query;
mod terminal;
