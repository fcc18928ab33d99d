//! `fxtrec daemon`: runs the service of `docs/reference/sessions.md` until it receives a signal.
//!
//! The main thread creates the sockets, starts the service, reports that it is ready, and waits for a signal. Everything else is in
//! [`control`](crate::control).

mod alerts;
mod error;
mod incidents;
mod metrics;
mod sockets;

use std::fs::{DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

pub use alerts::{Alert, AlertsError, NoAlert};
pub use error::DaemonError;
pub use metrics::{MetricsAddress, MetricsError, NoAddress};

use sockets::{Opened, Sockets};

use crate::cli::DaemonArgs;
use crate::control::policy::Policy;
use crate::control::server;
use crate::control::service::{Service, Setup};
use crate::kernel::activation;
use crate::kernel::facts::Facts;
use crate::kernel::notify::{self, Notice};
use crate::kernel::signals::Signals;
use crate::kernel::sys::Linux;
use crate::manager::Koids;

/// How long a running session may take to end. Each step has its own limit, and this is more than their sum.
const END: Duration = Duration::from_secs(45);

/// Runs the service until SIGTERM, SIGINT or SIGHUP. A running session is stopped first, and its results are written.
///
/// Must be called before the process starts a second thread or opens anything that it keeps.
///
/// # Errors
/// Returns [`DaemonError`]; nothing is left behind in that case.
pub fn run(args: &DaemonArgs, err: &mut dyn Write) -> Result<(), DaemonError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(DaemonError::NotRoot);
    }
    let passed = activation::take()
        .map_err(DaemonError::while_doing("use the passed sockets (LISTEN_FDS)"))?;
    let policy = match &args.policy {
        Some(path) => Policy::read(path)?,
        None => Policy::installed()?,
    };
    let mut signals = Signals::catch().map_err(DaemonError::while_doing("catch signals"))?;
    let facts = Facts::gather(&Linux);
    let Opened { sockets, providers, control, remark } =
        Sockets::open(&args.runtime_dir, args.group.as_deref(), passed)?;
    let setup = Setup {
        providers,
        koids: Koids::of(&facts.namespaces),
        policy,
        private_folder: private_folder(&args.runtime_dir)
            .map_err(DaemonError::while_doing("create a directory for recorders"))?,
        spool_folder: args.spool_dir.clone(),
        spool_limit: args.spool_limit.bytes(),
    };
    let service = Service::start(setup).map_err(DaemonError::while_doing("start the service"))?;
    server::serve(service.clone(), control)
        .map_err(DaemonError::while_doing("listen for clients"))?;
    // If standard error is closed, the message has no reader.
    let _ = writeln!(err, "fxtrec: clients at {}", sockets.control().display());
    let _ = writeln!(err, "fxtrec: applications at {}", sockets.providers());
    if let Some(remark) = remark {
        let _ = writeln!(err, "fxtrec: {remark}");
    }
    let started = args.alert_dir.as_ref().map(|folder| alerts::start(args, folder)).transpose()?;
    let (recorder, for_metrics) = started.unzip();
    let started = args.incidents.map(|min| incidents::start(min.duration())).transpose();
    let started = started.map_err(DaemonError::while_doing("count incidents"))?;
    let (watch, counts) = started.unzip();
    let metrics = match args.metrics {
        Some(MetricsAddress(address)) => Some(metrics::start(metrics::Wanted {
            address,
            names: args.metrics_comm,
            most_series: args.metrics_series,
            cgroup_root: args.cgroup_root.clone(),
            alerts: for_metrics,
            incidents: counts,
        })?),
        None => None,
    };
    if let Some(metrics) = &metrics {
        let _ = writeln!(err, "fxtrec: metrics at http://{}/metrics", metrics.address);
        if !metrics.address.ip().is_loopback() {
            let _ = writeln!(
                err,
                "fxtrec: warning: everyone who can reach {} can read the metrics, without TLS",
                metrics.address
            );
        }
    }
    if let Err(error) = notify::tell(&Notice::Ready) {
        let _ = writeln!(err, "fxtrec: cannot notify the service manager: {error}");
    }
    wait(&mut signals).map_err(DaemonError::while_doing("wait for signals"))?;
    // From now on, new clients cannot connect.
    drop(sockets);
    drop(metrics);
    drop(watch);
    drop(recorder);
    if !end(service) {
        let _ = writeln!(err, "fxtrec: the session did not end within {} s", END.as_secs());
    }
    Ok(())
}

/// Stops and ends the running session; returns whether that was done in time.
fn end(service: Arc<Service>) -> bool {
    let (done, is_done) = bounded(1);
    let shut_down = move || {
        service.shut_down();
        // The waiting thread may have given up.
        let _ = done.send(());
    };
    // If no thread can be started for this, the daemon does not wait for it.
    let thread = std::thread::Builder::new().name("fxtrec-end".to_owned()).spawn(shut_down);
    thread.is_ok() && is_done.recv_timeout(END).is_ok()
}

/// Waits for a signal that ends the daemon.
fn wait(signals: &mut Signals) -> io::Result<()> {
    loop {
        while let Some(caught) = signals.read()? {
            if matches!(
                caught.signal,
                Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT
            ) {
                return Ok(());
            }
        }
        let mut polled = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// An empty directory that no other user may read, for the files of recorders.
fn private_folder(runtime_dir: &Path) -> io::Result<PathBuf> {
    let folder = runtime_dir.join("recorders");
    // Files that a killed daemon left behind are useless.
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(&folder)?;
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
    Ok(folder)
}
