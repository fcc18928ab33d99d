//! Recording at the request of others: the trace controller.
//!
//! `fxtrec daemon` offers sessions on a Unix socket, by the Varlink protocol and the interface that is in
//! `fxtrec.Controller.varlink` beside this file; `fxtrec ctl` and whoever speaks Varlink uses them. A session records
//! applications, through the [manager](crate::manager) of providers, and the kernel, through a recorder of its own,
//! into one archive, which goes to a descriptor that the client passes.
//!
//! [`wire`] is what goes over the socket, [`client`] calls the [`service`], which [`server`] listens for. [`categories`] says what a list of categories
//! switches on, [`policy`] which of it a user is given.

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

/// Where the daemon's sockets are, unless it is told otherwise.
pub const RUNTIME_DIR: &str = "/run/fxtrec";

/// The control socket of a daemon with this runtime directory.
pub fn control_socket(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("control")
}

/// The socket where applications find the daemon with this runtime directory.
pub fn providers_socket(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("providers")
}
