//! Finds a browser that can show the link.

use std::io;
use std::process::{Command, Stdio};

/// The reason why no browser was opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBrowser {
    #[error("there is no desktop")]
    NoDesktop,
    #[error("browsers do not run as root")]
    Root,
    #[error("xdg-open: {0}")]
    Start(io::Error),
}

/// Asks the desktop to open the link.
pub(crate) fn open(link: &str) -> Result<(), NoBrowser> {
    if std::env::var_os("DISPLAY").is_none() && std::env::var_os("WAYLAND_DISPLAY").is_none() {
        return Err(NoBrowser::NoDesktop);
    }
    if nix::unistd::geteuid().is_root() {
        return Err(NoBrowser::Root);
    }
    // This process starts the browser and exits; if it fails, the user still has the printed link.
    let started = Command::new("xdg-open")
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.map(drop).map_err(NoBrowser::Start)
}
