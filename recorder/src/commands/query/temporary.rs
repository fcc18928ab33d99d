//! A directory for the tables of one query.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use tempfile::TempDir;

use crate::kernel::signals::Signals;

/// It goes away with all that is in it, also when a signal ends the process. There is one in a process at most.
#[derive(Debug)]
pub(super) struct Temporary {
    folder: TempDir,
    /// What this thread blocked before.
    before: SigSet,
}

impl Temporary {
    /// Makes it, and has signals of the thread and of those it starts watched from then on.
    ///
    /// # Errors
    /// When it cannot be made, or signals not be read.
    pub(super) fn make() -> io::Result<Temporary> {
        let before = SigSet::thread_get_mask()?;
        let signals = Signals::catch()?;
        let folder = tempfile::Builder::new().prefix("fxtrec-query-").tempdir()?;
        let path = folder.path().to_owned();
        std::thread::Builder::new()
            .name("fxtrec-signals".to_owned())
            .spawn(move || watch(signals, &path))?;
        Ok(Temporary { folder, before })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a program that gets signals as this one did at first.
    pub(super) fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        // If this fails it is of no use to the child, and no harm to us.
        let now = self.before.thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let started = start();
        let _ = now.map(|now| now.thread_set_mask());
        started
    }
}

/// Waits for a signal that ends the process, and lets it do so without the directory.
fn watch(mut signals: Signals, folder: &Path) {
    loop {
        let mut readable = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut readable, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        match signals.read() {
            Ok(Some(caught)) if caught.signal != Signal::SIGCHLD => {
                // There is nothing to do about what cannot be removed.
                let _ = std::fs::remove_dir_all(folder);
                let _ = SigSet::all().thread_unblock();
                let _ = raise(caught.signal);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
