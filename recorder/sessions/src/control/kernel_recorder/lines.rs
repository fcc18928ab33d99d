//! What the recorder says on standard error.

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

/// What it says on standard error, without its name in front of each line.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// Each line as it comes. Disconnected after the last.
    pub(super) said: Receiver<String>,
    last: Arc<Mutex<Option<String>>>,
}

impl Lines {
    /// Starts the thread that listens.
    pub(super) fn of(stderr: Option<ChildStderr>) -> Lines {
        let (tell, said) = crossbeam_channel::unbounded();
        let last = Arc::new(Mutex::new(None));
        let remembered = last.clone();
        if let Some(stderr) = stderr {
            let pass = move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let line = line.strip_prefix("fxtrec: ").unwrap_or(&line).to_owned();
                    *remembered.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
                    // After the end nobody listens any more.
                    let _ = tell.send(line);
                }
            };
            // Without this thread nobody knows why it ended; that it did is known all the same.
            drop(std::thread::Builder::new().name("fxtrec-lines".to_owned()).spawn(pass));
        }
        Lines { said, last }
    }

    /// The last line that was said, once all were.
    pub(super) fn last(&self) -> String {
        let until = Instant::now() + Duration::from_secs(1);
        while self.said.recv_deadline(until).is_ok() {}
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.unwrap_or_else(|| "it ended without a word".to_owned())
    }
}
