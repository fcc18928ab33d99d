//! The client's thread: connects, and reconnects.

use std::env;
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Client;
use super::connection::{Connection, End};
use crate::provider::sys;

/// The environment variable with the address of the manager's socket.
pub(in crate::provider) const ADDRESS_VARIABLE: &str = "FXTREC_PROVIDER_SOCKET";
/// The default address, where `fxtrec daemon` listens. Only root can create a
/// socket there.
const DEFAULT_ADDRESS: &str = "/run/fxtrec/providers";
/// How long to wait before trying again: longer each time, up to the last.
const BACKOFF: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

pub(in crate::provider) fn spawn(client: &'static Client) -> std::io::Result<()> {
    sys::spawn_without_signals("fxt-provider", move || run(client))
}

/// The address of the manager, if one was configured.
fn named_address(client: &Client) -> Option<String> {
    client.address.clone().or_else(|| env::var(ADDRESS_VARIABLE).ok())
}

/// Whether a manager is expected: an address is configured, or the daemon's socket exists.
pub(in crate::provider) fn expects_manager(client: &Client) -> bool {
    match named_address(client) {
        Some(address) => !address.is_empty(),
        None => Path::new(DEFAULT_ADDRESS).exists(),
    }
}

fn run(client: &'static Client) {
    let named = named_address(client);
    let address = named.as_deref().unwrap_or(DEFAULT_ADDRESS);
    if address.is_empty() {
        // Looking for a manager is turned off.
        return client.no_manager();
    }
    let mut failures = 0;
    loop {
        if let Ok(socket) = sys::connect(address) {
            client.progress(|progress| progress.alone = false);
            match Connection::new(client, socket).run() {
                End::Incompatible => return client.no_manager(),
                // A manager that had started a session may soon be back.
                End::Gone { of_use: true } => failures = 0,
                End::Gone { of_use: false } => {}
            }
        }
        client.no_manager();
        pause(client, BACKOFF[failures.min(BACKOFF.len() - 1)]);
        failures += 1;
    }
}

/// Pauses, and ends waits for events that cannot happen during the pause.
fn pause(client: &Client, time: Duration) {
    let until = std::time::Instant::now() + time;
    loop {
        client.woken();
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        let mut fds = [PollFd::new(client.waker(), PollFlags::POLLIN)];
        // Rounded up, so that the last millisecond is not spent spinning.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
        if poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)).is_err() {
            std::thread::sleep(left);
        }
    }
}
