//! The recorder's messages on standard error.

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

/// Its last line on standard error, without the program's name.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// Disconnected after the last line; nothing is ever sent.
    ended: Receiver<()>,
    last: Arc<Mutex<Option<String>>>,
}

impl Lines {
    /// Starts the thread that reads the lines.
    pub(super) fn of(stderr: Option<ChildStderr>) -> Lines {
        let (listening, ended) = bounded(0);
        let last = Arc::new(Mutex::new(None));
        let remembered = last.clone();
        if let Some(stderr) = stderr {
            let listen = move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let line = line.strip_prefix("fxtrec: ").unwrap_or(&line).to_owned();
                    *remembered.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
                }
                drop(listening);
            };
            // Without this thread, only the reason for the recorder's end is unknown.
            drop(std::thread::Builder::new().name("fxtrec-lines".to_owned()).spawn(listen));
        }
        Lines { ended, last }
    }

    /// The last line, once standard error has ended or a second has passed.
    pub(super) fn last(&self) -> String {
        // In either case, stop waiting.
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.unwrap_or_else(|| "it exited without a message".to_owned())
    }
}
