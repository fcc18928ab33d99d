//! The manager's settings: which connections to accept, and how to record a session.

use std::sync::Arc;
use std::time::Duration;

use fxt_writer::Koid;
use fxt_writer::engine::{BufferDisposition, Mode};

use super::follower::SpanLimit;
use fxtrec_kernel::namespaces::Namespaces;
use fxtrec_units::LocalId;
use fxtrec_units::convention::inner_process_koid;

/// The maximum number of connected providers, as in the trace controller's protocol.
pub const MAX_PROVIDERS: usize = 100;

/// The default buffer of each provider, in bytes.
pub const DEFAULT_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The smallest buffer in which every record fits, in bytes.
pub const MIN_BUFFER_BYTES: usize = 256 * 1024;

/// The limit for the buffers of all providers together, not counting the smallest for each, in modes that copy all of them at once;
/// in bytes.
const ALL_BUFFERS_BYTES: usize = 48 * 1024 * 1024;

/// A provider gets at most this fraction of the remaining memory (one part in this number), so that some always remains for the next one.
const SHARE: usize = 3;

/// The limit for the names of all providers' categories together, overhead included, in bytes.
pub(super) const MAX_CATEGORY_BYTES: usize = 4 * 1024 * 1024;

/// Settings for the lifetime of a manager.
#[derive(Clone, Debug)]
pub struct Options {
    /// The users whose processes may connect; root always may.
    pub uids: Vec<u32>,
    /// Whether all users may connect; each session then determines whose providers it records.
    pub everybody: bool,
    /// The limit on providers of each user who is neither root nor among `uids`.
    pub per_user: usize,
    /// How process ids become koids.
    pub koids: Koids,
    /// How long a connection may take to register.
    pub patience: Duration,
    /// The maximum amount of data of ended providers that is kept, in bytes, while nothing may be written before the end. The oldest is
    /// dropped first.
    pub held_bytes: usize,
    /// The time limit for copying providers' buffers for a snapshot; buffers not copied by then are counted as lost.
    pub copying: Duration,
    /// Whether the archive may be [rotated](super::Manager::begin_rotate), for which open spans of providers must be tracked.
    pub divided: bool,
    /// The size at which an archive is rotated, in bytes. The head of each archive uses a part of that.
    pub archive_bytes: u64,
    /// Spans to [watch for](super::Manager::spans); only in circular mode.
    pub spans: Arc<[SpanLimit]>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            uids: vec![nix::unistd::geteuid().as_raw()],
            everybody: false,
            per_user: MAX_PROVIDERS,
            koids: Koids::AsTheyAre,
            patience: Duration::from_secs(5),
            held_bytes: 64 * 1024 * 1024,
            copying: Duration::from_secs(2),
            divided: false,
            archive_bytes: u64::MAX,
            spans: Arc::default(),
        }
    }
}

/// How a process id in this pid namespace becomes the koid that the scheduler's records use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Koids {
    /// The ids in the initial pid namespace.
    AsTheyAre,
    /// They are not; processes whose id is known only here have separate koids.
    Inner,
}

impl Koids {
    /// The mapping for these namespaces.
    pub fn of(namespaces: &Namespaces) -> Koids {
        if namespaces.initial_pid { Koids::AsTheyAre } else { Koids::Inner }
    }

    /// The koid of a process.
    pub fn process(self, pid: u32) -> Koid {
        match self {
            Koids::AsTheyAre => Koid(pid.into()),
            Koids::Inner => inner_process_koid(LocalId(pid)),
        }
    }
}

/// How a session is recorded (`TraceConfig` of the trace controller).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// What happens when a provider's buffer is full.
    pub mode: Mode,
    /// The buffer of each provider, in bytes; rounded up to a valid size.
    pub buffer_bytes: usize,
    /// The categories that are recorded: names, prefixes such as `app*`; empty for all.
    pub categories: Vec<String>,
    /// Different settings for some providers.
    pub overrides: Vec<ProviderOverride>,
    /// Whether nothing may be written before the session is stopped.
    pub hold: bool,
    /// The user whose providers are recorded; `None` for providers of all users.
    pub only_uid: Option<u32>,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            mode: Mode::Streaming,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            categories: Vec::new(),
            overrides: Vec::new(),
            hold: false,
            only_uid: None,
        }
    }
}

/// Different settings for providers with one name (`ProviderSpec` of the trace controller).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderOverride {
    pub name: String,
    /// Their buffer, in bytes, if different.
    pub buffer_bytes: Option<usize>,
    /// Their categories, instead of those of the session; empty for those of the session.
    pub categories: Vec<String>,
}

/// The options of one start of a session (`StartOptions` of the trace controller).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// What happens to data that was recorded earlier and not written.
    pub disposition: BufferDisposition,
    /// Categories in addition to those of the session.
    pub additional_categories: Vec<String>,
    /// How long to wait for providers to confirm that they record.
    pub timeout: Duration,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        StartOptions {
            disposition: BufferDisposition::ClearEntire,
            additional_categories: Vec::new(),
            timeout: Duration::from_secs(5),
        }
    }
}

impl SessionConfig {
    /// Whether providers of this user are recorded.
    pub(super) fn includes(&self, uid: u32) -> bool {
        self.only_uid.is_none_or(|only| only == uid)
    }

    /// The size of this provider's buffer, in bytes.
    pub(super) fn buffer_of(&self, name: &str) -> usize {
        let special = self.of(name).and_then(|special| special.buffer_bytes);
        special.unwrap_or(self.buffer_bytes).max(MIN_BUFFER_BYTES).next_multiple_of(4096)
    }

    /// The buffer size for a provider that requests `wanted` bytes, given the sizes of the others' buffers beyond the smallest. In
    /// streaming mode it gets this size, since one buffer is copied at a time. Other modes copy all buffers at once, so their total is
    /// limited: the more providers, the less history each has. A session with larger buffers has a higher limit.
    pub(super) fn granted(&self, wanted: usize, others: usize) -> usize {
        if self.mode == Mode::Streaming {
            return wanted;
        }
        let special = self.overrides.iter().filter_map(|special| special.buffer_bytes);
        let largest = special.chain([self.buffer_bytes]).max().unwrap_or(0);
        let left = ALL_BUFFERS_BYTES.max(SHARE.saturating_mul(largest)).saturating_sub(others);
        let most = MIN_BUFFER_BYTES + (left / SHARE / 4096) * 4096;
        wanted.min(most)
    }

    /// The categories for this provider, with `additional` ones.
    pub(super) fn categories_of(&self, name: &str, additional: &[String]) -> Vec<String> {
        let special = self.of(name).map(|special| &special.categories);
        let own = special.filter(|categories| !categories.is_empty());
        let base = own.unwrap_or(&self.categories);
        // All categories and some more are all categories.
        let additional = if base.is_empty() { &[] } else { additional };
        base.iter().chain(additional).cloned().collect()
    }

    fn of(&self, name: &str) -> Option<&ProviderOverride> {
        self.overrides.iter().find(|special| special.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_for_a_provider_holds_for_it_alone() {
        let config = SessionConfig {
            categories: vec!["net".to_owned()],
            overrides: vec![ProviderOverride {
                name: "db".to_owned(),
                buffer_bytes: Some(1 << 20),
                categories: vec!["app*".to_owned()],
            }],
            ..SessionConfig::default()
        };
        let additional = ["io".to_owned()];
        assert_eq!(config.buffer_of("db"), 1 << 20);
        assert_eq!(config.categories_of("db", &additional), ["app*", "io"]);
        assert_eq!(config.buffer_of("web"), DEFAULT_BUFFER_BYTES);
        assert_eq!(config.categories_of("web", &additional), ["net", "io"]);
    }

    #[test]
    fn all_categories_and_some_more_are_all() {
        let config = SessionConfig::default();
        assert!(config.categories_of("web", &["io".to_owned()]).is_empty());
    }

    #[test]
    fn all_buffers_that_are_copied_at_once_have_a_budget_and_none_comes_away_empty() {
        for (wanted, full, least) in [(4 << 20, 10, 256 << 10), (16 << 20, 1, 256 << 10)] {
            let config = |mode| SessionConfig { mode, ..SessionConfig::default() };
            let (mut sizes, mut beyond) = (Vec::new(), 0);
            for _ in 0..MAX_PROVIDERS {
                let got = config(Mode::Circular).granted(wanted, beyond);
                beyond += got - MIN_BUFFER_BYTES;
                sizes.push(got);
            }
            assert!(sizes.iter().all(|got| *got >= least && got % 4096 == 0), "{sizes:?}");
            assert_eq!(sizes.iter().filter(|got| **got == wanted).count(), full, "{sizes:?}");
            assert!(sizes.iter().sum::<usize>() <= 74 << 20, "{sizes:?}");
            assert_eq!(config(Mode::Streaming).granted(wanted, 1 << 40), wanted);
        }
        let asked = SessionConfig {
            mode: Mode::Circular,
            buffer_bytes: 1 << 30,
            ..SessionConfig::default()
        };
        assert_eq!(asked.granted(1 << 30, 0), 1 << 30, "what somebody asked for");
    }

    #[test]
    fn a_buffer_has_room_for_every_record_and_ends_at_a_page() {
        let config = |buffer_bytes| SessionConfig { buffer_bytes, ..SessionConfig::default() };
        assert_eq!(config(1).buffer_of("any"), MIN_BUFFER_BYTES);
        assert_eq!(config(1_000_001).buffer_of("any"), 1_003_520);
    }
}
