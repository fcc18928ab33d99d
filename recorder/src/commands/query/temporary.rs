//! A directory for the tables of one query.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::commands::scratch::Scratch;
use crate::kernel::signals::Signals;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};

/// The directory and its content are removed even if a signal ends the process. A process has at most one such directory.
#[derive(Debug)]
pub(super) struct Temporary {
    folder: Scratch,
    /// The signals that this thread had blocked before.
    before: SigSet,
}

impl Temporary {
    /// Creates it, and from then on handles signals sent to this thread and the threads that it starts.
    ///
    /// # Errors
    /// Returns an error when it cannot be created, or signals cannot be read.
    pub(super) fn make() -> io::Result<Temporary> {
        let before = SigSet::thread_get_mask()?;
        let signals = Signals::catch()?;
        let folder = Scratch::make(&std::env::temp_dir(), "fxtrec-query-")?;
        let path = folder.path().to_owned();
        std::thread::Builder::new()
            .name("fxtrec-signals".to_owned())
            .spawn(move || watch(signals, &path))?;
        Ok(Temporary { folder, before })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a program with this process's original signal mask.
    pub(super) fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        // A failure is harmless here, and the child could not handle it.
        let now = self.before.thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let started = start();
        let _ = now.map(|now| now.thread_set_mask());
        started
    }
}

/// Waits for a signal that ends the process, and removes the directory first.
fn watch(mut signals: Signals, folder: &Path) {
    loop {
        let mut readable = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut readable, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        match signals.read() {
            Ok(Some(caught)) if caught.signal != Signal::SIGCHLD => {
                // If it cannot be removed, nothing more can be done.
                let _ = std::fs::remove_dir_all(folder);
                let _ = SigSet::all().thread_unblock();
                let _ = raise(caught.signal);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
