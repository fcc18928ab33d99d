//! What each subcommand does.

pub mod compare;
pub mod completions;
mod conversion;
pub mod convert;
pub mod ctl;
pub mod cut;
pub mod daemon;
pub mod demo;
pub mod doctor;
pub mod dump;
pub mod export;
pub mod flame;
pub mod gates;
mod http;
mod live;
pub mod many;
pub mod merge;
pub mod open;
pub mod plan;
pub mod probes;
pub mod query;
pub mod record;
pub mod report;
pub mod symbolize;
pub mod top;
pub mod trace_file;
pub mod why;
