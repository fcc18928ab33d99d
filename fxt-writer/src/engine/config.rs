//! An engine's configuration, and the division of its memory.

use std::time::Duration;

use super::position::MAX_ROLLING_WORDS;
use crate::layout::limits::WORD_BYTES;

/// What happens when a buffer is full ("Notes on buffering modes" of the source
/// engine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One large buffer; when it is full, further records are dropped.
    Oneshot,
    /// Two rolling buffers; when one is full, the older one is overwritten.
    Circular,
    /// Two rolling buffers; a full one is handed to the saver.
    Streaming,
}

impl Mode {
    pub(super) const fn encoded(self) -> u64 {
        match self {
            Self::Oneshot => 0,
            Self::Circular => 1,
            Self::Streaming => 2,
        }
    }
}

/// What a writer does when there is no space but space may become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Drops the record and counts it. A writer never waits.
    Drop,
    /// Waits, parked, until there is room or the engine is stopped.
    Block,
    /// Waits as [`Block`](Self::Block) does, but at most this long; then drops
    /// the record and counts it.
    BlockFor(Duration),
}

/// The reason why the engine has no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The buffers are full; the record was dropped and counted.
    #[error("the trace buffer is full; save buffers faster, give it more memory, or block")]
    Dropped,
    /// The engine has been stopped and accepts no records.
    #[error("the trace engine has been stopped")]
    Stopped,
    /// No buffer is large enough for the record, even when empty; it was dropped
    /// and counted.
    #[error("a record of {words} words is larger than the {max} words that fit this buffer")]
    TooLarge {
        /// Size of the record in words.
        words: usize,
        /// The most that fits, in words.
        max: usize,
    },
}

/// The configuration of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What happens when a buffer is full.
    pub mode: Mode,
    /// Memory in bytes, header included; 8 MiB by default. Below 64 KiB the
    /// largest records do not fit. A part of 1/16, at most 1 MiB, is durable;
    /// the rest is two rolling buffers (in oneshot mode, one).
    pub bytes: usize,
    /// What a writer does when there is no room.
    pub on_full: OnFull,
    /// How long a sealed buffer waits for a writer that has reserved room in it
    /// and does not finish. Then the writer's record is abandoned and counted,
    /// and its room stays unused until the writer finishes. 1 s by default.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Streaming,
            bytes: 8 << 20,
            on_full: OnFull::Drop,
            grace: Duration::from_secs(1),
        }
    }
}

/// The reason why an engine cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no room for a header and buffers.
    #[error(
        "{bytes} bytes are too few for an engine; use at least {MIN_BYTES}, preferably 64 KiB or more"
    )]
    TooSmall {
        /// The requested number of bytes.
        bytes: usize,
    },
    /// Offsets in a buffer do not fit their field.
    #[error("{bytes} bytes are too many for an engine; use at most {MAX_BYTES}")]
    TooLarge {
        /// The requested number of bytes.
        bytes: usize,
    },
    /// External memory is not aligned to a word.
    #[error("the memory for an engine must be aligned to 8 bytes")]
    Misaligned,
}

/// The minimum memory, in bytes: the header and a few words in every part.
#[cfg(not(loom))]
pub const MIN_BYTES: usize = 512;
/// The minimum memory, in bytes; small, since only tiny models can be checked.
#[cfg(loom)]
pub const MIN_BYTES: usize = 192;
/// The maximum memory, in bytes.
pub const MAX_BYTES: usize = MAX_ROLLING_WORDS * WORD_BYTES;

/// Words in the header at the start of the memory.
pub const HEADER_WORDS: usize = 16;

/// The share of the memory that is durable, and its limit.
const DURABLE_SHARE: usize = if cfg!(loom) { 4 } else { 16 };
const MAX_DURABLE_WORDS: usize = (1 << 20) / WORD_BYTES;

/// How the memory is divided, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    pub(super) total: usize,
    /// Words of the durable part, which follows the header; none in oneshot mode.
    pub(super) durable: usize,
    /// Words of each rolling buffer; the first follows the durable part.
    pub(super) rolling: usize,
}

impl Division {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let bytes = config.bytes;
        if bytes < MIN_BYTES {
            return Err(ConfigError::TooSmall { bytes });
        }
        if bytes > MAX_BYTES {
            return Err(ConfigError::TooLarge { bytes });
        }
        let total = bytes / WORD_BYTES;
        let available = total - HEADER_WORDS;
        if config.mode == Mode::Oneshot {
            return Ok(Self { total, durable: 0, rolling: available });
        }
        // An odd word goes to the durable part, so that the buffers have equal
        // size and all memory is used.
        let share = (available / DURABLE_SHARE).min(MAX_DURABLE_WORDS);
        let durable = share + (available - share) % 2;
        Ok(Self { total, durable, rolling: (available - durable) / 2 })
    }

    pub(super) const fn durable_base(&self) -> usize {
        HEADER_WORDS
    }

    pub(super) const fn rolling_base(&self, part: usize) -> usize {
        HEADER_WORDS + self.durable + part * self.rolling
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_memory_is_used_at_any_size() {
        for bytes in (MIN_BYTES..MIN_BYTES + 512).chain([1 << 20, 64 << 20, (64 << 20) + 8]) {
            for mode in [Mode::Circular, Mode::Streaming] {
                let config = Config { mode, bytes, ..Config::default() };
                let division = Division::new(&config).expect("a size in range");
                let used = HEADER_WORDS + division.durable + 2 * division.rolling;
                assert_eq!(used, bytes / WORD_BYTES);
            }
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let config = |bytes| Config { bytes, ..Config::default() };
        assert_eq!(
            Division::new(&config(MIN_BYTES - 1)),
            Err(ConfigError::TooSmall { bytes: MIN_BYTES - 1 })
        );
        assert_eq!(
            Division::new(&config(MAX_BYTES + 1)),
            Err(ConfigError::TooLarge { bytes: MAX_BYTES + 1 })
        );
    }
}
