//! fxtrec records the events of the Linux scheduler directly into the Fuchsia trace format.
//!
//! This package is the [`program`]: [`cli`] describes the command line, and [`commands`] carry it out. They use separate crates, which have
//! short names here. Each uses only crates further down in this list:
//!
//! - [`control`] and [`manager`] (`fxtrec-sessions`): control of recordings by clients, and applications that record
//!   their own events;
//! - [`convert`]: conversion from and to other formats, merge and cut;
//! - [`export`]: tables for SQL, as Parquet with the feature `parquet`;
//! - [`capture`], [`encode`] and [`flight`] (`fxtrec-capture`): kernel samples to typed events in time order, events to
//!   FXT records, and triggers;
//! - [`report`]: figures, verdicts and the page of a finished trace;
//! - [`why`]: explanations of delays;
//! - [`blame`]: the parts of an interval, and the chain of threads that it waited for;
//! - [`sched`]: which thread has which CPU, and the state of each thread;
//! - [`gates`]: the language of gates and triggers;
//! - [`sink`]: writes full buffers to a file or pipe;
//! - [`probe`]: finds the places in files that a user's probe spec names;
//! - [`kernel`]: everything that uses Linux directly, and all `unsafe`;
//! - [`units`]: units, identities, and their text form.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod config;
pub mod debuginfod;
pub mod file_worker;
pub mod program;

pub use fxtrec_blame as blame;
pub use fxtrec_capture as capture;
pub use fxtrec_capture::{encode, flight};
pub use fxtrec_convert as convert;
pub use fxtrec_export as export;
pub use fxtrec_gates as gates;
pub use fxtrec_kernel as kernel;
pub use fxtrec_probe as probe;
pub use fxtrec_report as report;
pub use fxtrec_sched as sched;
pub use fxtrec_sessions::{control, manager};
pub use fxtrec_sink as sink;
pub use fxtrec_units as units;
pub use fxtrec_why as why;
