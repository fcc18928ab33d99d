//! Makes the process a provider; contains the provider's handle.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::client::{self, Client};
use super::sys;
use super::wire::{MAX_ALERT_BYTES, MAX_ITEM_BYTES};
use crate::engine;
use crate::layout::Field;

/// How long dropping a [`Provider`] waits until all records are saved.
const FLUSH_AT_END: Duration = Duration::from_millis(500);

/// How long [`Builder::init`] waits for an expected manager to answer whether a session runs. Usually
/// that takes a few milliseconds.
const ANSWER: Duration = Duration::from_millis(500);

/// The reason why a process cannot become a provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The name or a category is empty, too long, or holds a newline or a NUL.
    #[error(
        "invalid provider or category name '{text}'; expected 1 to {MAX_ITEM_BYTES} bytes without newline and NUL"
    )]
    Text {
        /// The offending text.
        text: String,
    },
    /// The kernel cannot hide a session from forked children (Linux 4.14 can).
    #[error("the kernel cannot hide a session from forked children (MADV_WIPEONFORK): {0}")]
    Fork(#[source] io::Error),
    /// No descriptor or thread is available.
    #[error("cannot start the provider's thread: {0}")]
    Thread(#[source] io::Error),
}

/// Makes this process a trace provider; see [`Builder`] for more than a name.
///
/// Under `fxtrec -- COMMAND` it returns when trace points record, so that the first events of a short
/// program are in the trace as well. If `FXTREC_PROVIDER_SOCKET` is set or the daemon's socket exists, it waits until a session runs, or
/// until the manager answers that no session runs: usually a few milliseconds, at most half a second. Otherwise it returns at once. A
/// thread looks for managers for as long as the process runs.
///
/// # Errors
///
/// Returns an error when the name is invalid, or no descriptor or thread is available. Trace points then record nothing, and cost nothing.
pub fn init(name: &str) -> Result<Provider, InitError> {
    Builder::new(name).init()
}

/// Collects settings, and then makes this process a provider.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until init()"]
pub struct Builder {
    name: String,
    categories: Vec<String>,
    address: Option<String>,
}

impl Builder {
    /// A provider named `name`, 1 to 255 bytes long.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), categories: Vec::new(), address: None }
    }

    /// Makes a category known to managers at once; otherwise they learn it when
    /// one of its trace points is first passed in a session.
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Sets the manager's address: a path, or `@name` for an abstract one. The default is the
    /// environment variable `FXTREC_PROVIDER_SOCKET` or, if that is not set, `/run/fxtrec/providers`,
    /// where `fxtrec daemon` listens. With an empty address or variable, the process does not look
    /// for a manager and is not a provider.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Makes the process a provider. If the process already is a provider, this returns a handle to that provider, whose name and address
    /// do not change.
    ///
    /// # Errors
    ///
    /// The same as [`init`].
    pub fn init(self) -> Result<Provider, InitError> {
        let texts = std::iter::once(&self.name).chain(&self.categories);
        if let Some(bad) = texts.into_iter().find(|text| !is_item(text)) {
            return Err(InitError::Text { text: bad.clone() });
        }
        if let Some(client) = sys::client() {
            self.categories.iter().for_each(|category| client.learn(category));
            // Another thread may be doing this now.
            client.await_answer(ANSWER);
            return Ok(Provider { client });
        }
        sys::claim_process().map_err(InitError::Fork)?;
        sys::find_namespace();
        let client = Client::new(self.name, self.categories, self.address);
        match sys::publish_client(client.map_err(InitError::Thread)?) {
            Ok(client) => {
                sys::at_exit(last_words);
                if client::expects_manager(client) {
                    // Call this before any other thread exists: afterwards it takes about 15 ms.
                    engine::prepare_process();
                } else {
                    client.expect_no_manager();
                }
                client::spawn(client).map_err(InitError::Thread)?;
                client.await_answer(ANSWER);
                Ok(Provider { client })
            }
            // Another thread was faster.
            Err(client) => {
                client.await_answer(ANSWER);
                Ok(Provider { client })
            }
        }
    }
}

fn is_item(text: &str) -> bool {
    (1..=MAX_ITEM_BYTES).contains(&text.len()) && !text.contains(['\n', '\0'])
}

/// This process as a provider.
///
/// Dropping it, for instance at the end of `main`, waits up to half a second
/// until all records are saved. The process stays a provider; a buffer that is
/// not handed over in time is read by the manager after the process has exited.
#[derive(Debug)]
#[must_use = "dropping it waits for records to be saved; keep it to the end of main"]
pub struct Provider {
    client: &'static Client,
}

impl Provider {
    /// Waits until a session runs, at most for `timeout`; returns whether a session runs. For programs that a later session will record; if
    /// a session already runs, [`init`] has waited for it.
    pub fn wait_for_session(&self, timeout: Duration) -> bool {
        self.client.wait_for_session(timeout)
    }

    /// Whether a session runs now.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        !matches!(sys::generation(), 0 | sys::OVERDUE)
    }

    /// Requests that all records so far be saved and waits for that, at most for
    /// `timeout`; returns whether they are. In oneshot and circular mode nothing
    /// is saved before the end, and this returns at once.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.client.flush(timeout)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let until = Instant::now() + FLUSH_AT_END;
        self.client.flush(FLUSH_AT_END);
        self.client.flush_alerts(until.saturating_duration_since(Instant::now()));
    }
}

/// Called at the exit of the process: sends the remaining alerts if there is a
/// manager. A child of `fork` has no client.
extern "C" fn last_words() {
    if let Some(client) = sys::client() {
        client.flush_alerts(FLUSH_AT_END);
    }
}

/// Reports an event to the manager, which may trigger on it. This works even if the process exits right afterwards: a registered process
/// sends the alert at once, by one system call; a process that is still looking for the manager waits up to half a second on exit.
///
/// The macro [`alert!`](super::alert!) does the same for a category that can be turned off, and
/// nothing without a session. Names longer than 14 bytes are cut.
pub fn alert(name: &str) {
    let mut end = name.len().min(MAX_ALERT_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name[..end].replace('\0', " ");
    if let Some(client) = sys::client().filter(|_| !name.is_empty()) {
        client.alert(&name);
    }
}

/// A number that no other call in this process, or in a process with another id, returns, as an id of asynchronous operations and flows.
#[must_use]
pub fn unique_id() -> u64 {
    const PROCESS: Field = Field::new(32, 63);
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: a counter, which orders nothing.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PROCESS.put(u64::from(std::process::id())) | u64::from(number)
}
