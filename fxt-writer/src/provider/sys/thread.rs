//! The current thread's id and name, and the client's own thread.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::Koid;
use crate::text;

/// The current thread's id, in this process's PID namespace.
pub(in crate::provider) fn thread_id() -> Koid {
    // Thread ids are positive.
    Koid(u64::from(nix::unistd::gettid().as_raw().unsigned_abs()))
}

/// The current thread's name in the kernel.
pub(in crate::provider) fn thread_name() -> String {
    let name = nix::sys::prctl::get_name().unwrap_or_default();
    text::clean(name.to_bytes()).into_owned()
}

/// Starts a thread that no signal of the application is ever delivered to.
pub(in crate::provider) fn spawn_without_signals(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    // A new thread has the signal mask of the thread that creates it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
    before.thread_set_mask()?;
    spawned.map(drop)
}
