//! The trace controller: makes recordings on request of other processes.
//!
//! `fxtrec daemon` offers sessions on a Unix socket, by the Varlink protocol and the interface in
//! `fxtrec.Controller.varlink` in this directory, for `fxtrec ctl` and other Varlink clients. A session records
//! applications, through the [manager](crate::manager) of providers, and the kernel, through a separate recorder, into
//! one archive, which is written to a descriptor that the client passes.
//!
//! [`wire`] has the message types, [`client`] calls the [`service`], and [`server`] accepts its connections. [`categories`] defines what a
//! list of categories enables; [`policy`] determines which part of it a user may record.

pub mod categories;
pub mod client;
mod config;
mod kernel_recorder;
mod machine;
mod mailbox;
mod output;
pub mod policy;
mod records;
pub mod server;
pub mod service;
mod session;
mod spool;
mod transport;
mod watch;
pub mod wire;
mod writer;

use std::path::{Path, PathBuf};

pub use writer::process::{NAME as OUTPUT_PROCESS, run as run_output_process};

/// The default directory of the daemon's sockets.
pub const RUNTIME_DIR: &str = "/run/fxtrec";

/// The control socket of a daemon with this runtime directory.
pub fn control_socket(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("control")
}

/// The applications' socket of a daemon with this runtime directory.
pub fn providers_socket(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("providers")
}
