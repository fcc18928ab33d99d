//! fxtrec records what the Linux scheduler does straight into the Fuchsia
//! trace format.
//!
//! Arrows between the modules point one way: [`cli`] describes the command
//! line, [`commands`] carry it out with the help of [`capture`] (kernel samples
//! to typed events in time order), [`encode`] (events to FXT records) and
//! [`sink`] (saved buffers to a file or pipe), [`convert`] (other formats in and
//! out), [`manager`] (applications that record their own events), and [`report`]
//! (figures of a finished trace). [`flight`] is what a recording watches out for
//! meanwhile, and [`control`] lets others start and stop recordings. Everything that touches
//! Linux directly, and all `unsafe`, is in [`kernel`].

pub use fxtrec_capture as capture;
pub mod cli;
pub mod commands;
pub mod control;
pub use fxtrec_capture::{encode, flight};
pub use fxtrec_convert as convert;
pub use fxtrec_kernel as kernel;
pub mod manager;
pub use fxtrec_probe as probe;
pub use fxtrec_report as report;
pub use fxtrec_sink as sink;
pub use fxtrec_units as units;
