//! A `TraceConfig` whose values have all been checked.

use std::str::FromStr;
use std::time::Duration;

use fxt_writer::engine;
use fxtrec_gates::{Lasting, Trigger, What};
use fxtrec_units::glob::Pattern;

use super::categories::Selection;
use super::wire::{
    BufferDisposition, BufferingMode, ControllerError, FxtVersion, ProviderSpec, TraceConfig,
};
use crate::manager::{DEFAULT_BUFFER_BYTES, MAX_PROVIDERS, ProviderOverride};

/// The version of the format that is written.
const VERSION: FxtVersion = FxtVersion { major: 0, minor: 1 };

/// The longest start timeout that StartTracing accepts.
const MAX_START_TIMEOUT: Duration = Duration::from_secs(600);

/// How long it waits by default.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest buffer, in MiB.
const MAX_BUFFER_MIB: u32 = 4096;

/// The longest name of a provider, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The maximum number of processes or globs of cgroups that can be named.
const MAX_CHOSEN: usize = 100;

/// The kinds of stacks.
const STACKS: [&str; 3] = ["offcpu", "wake", "cpu"];

/// Bytes in a MiB.
const MIB: u64 = 1024 * 1024;

/// How a session is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// The categories as they were given.
    pub(super) categories: Vec<String>,
    pub(super) selection: Selection,
    /// The buffer of each provider, and that of the kernel's recorder, in bytes.
    pub(super) buffer_bytes: u64,
    /// The largest of all requested buffers, in bytes.
    pub(super) largest_buffer_bytes: u64,
    pub(super) start_timeout: Duration,
    /// What happens when a buffer is full.
    pub(super) mode: BufferingMode,
    /// Different settings for some providers.
    pub(super) overrides: Vec<ProviderOverride>,
    /// Whether nothing is sent before a stop.
    pub(super) deferred: bool,
    /// The processes that the kernel's recording is restricted to, or the globs of their cgroups; all, if both are empty.
    pub(super) processes: Vec<u32>,
    pub(super) cgroups: Vec<String>,
    pub(super) stacks: Vec<String>,
    pub(super) triggers: Vec<String>,
    /// Whether the session outlives its connection.
    pub(super) detached: bool,
}

/// The error for a request with this invalid field.
pub(super) fn bad(field: impl Into<String>, why: impl Into<String>) -> ControllerError {
    ControllerError::BadRequest { field: field.into(), why: why.into() }
}

impl Config {
    /// Checks every value.
    ///
    /// # Errors
    /// Returns [`ControllerError::BadRequest`], with the field.
    pub(super) fn new(config: TraceConfig) -> Result<Config, ControllerError> {
        // This is the latest version that the client understands; it understands all earlier versions, too.
        if let Some(version @ FxtVersion { major, minor }) = config.version
            && version < VERSION
        {
            let why = format!("the daemon writes version 0.1, and {major}.{minor} is older");
            return Err(bad("version", why));
        }
        let categories = config.categories.unwrap_or_default();
        let selection = select("categories", &categories)?;
        let asked = buffer("buffer_size_megabytes_hint", config.buffer_size_megabytes_hint)?;
        let buffer_bytes = asked.unwrap_or(DEFAULT_BUFFER_BYTES as u64);
        let specs = config.provider_specs.unwrap_or_default();
        if specs.len() > MAX_PROVIDERS {
            let why = format!("there are {}; the maximum is {MAX_PROVIDERS}", specs.len());
            return Err(bad("provider_specs", why));
        }
        let overrides = specs.into_iter().map(special).collect::<Result<Vec<_>, _>>()?;
        let special = overrides.iter().filter_map(|special| special.buffer_bytes);
        let largest = special.map(|bytes| bytes as u64).fold(buffer_bytes, u64::max);
        let timeout = config.start_timeout_milliseconds.map(Duration::from_millis);
        if timeout.is_some_and(|timeout| timeout > MAX_START_TIMEOUT) {
            let why = format!("at most {} ms", MAX_START_TIMEOUT.as_millis());
            return Err(bad("start_timeout_milliseconds", why));
        }
        let mode = config.buffering_mode.unwrap_or_default();
        let (processes, cgroups) = chosen(config.processes, config.cgroups)?;
        let stacks = config.stacks.unwrap_or_default();
        if let Some(unknown) = stacks.iter().find(|kind| !STACKS.contains(&kind.as_str())) {
            return Err(bad("stacks", format!("'{unknown}'; expected {}", STACKS.join(", "))));
        }
        Ok(Config {
            processes,
            cgroups,
            stacks,
            triggers: triggers(config.triggers, mode)?,
            categories,
            selection,
            buffer_bytes,
            largest_buffer_bytes: largest,
            start_timeout: timeout.unwrap_or(START_TIMEOUT),
            mode,
            overrides,
            // In the other modes nothing is sent before a stop in any case.
            deferred: config.defer_transfer.unwrap_or(false) && mode == BufferingMode::Streaming,
            detached: config.detached.unwrap_or(false),
        })
    }
}

/// The processes that the kernel's recording covers.
fn chosen(
    processes: Option<Vec<u32>>,
    cgroups: Option<Vec<String>>,
) -> Result<(Vec<u32>, Vec<String>), ControllerError> {
    let (processes, cgroups) = (processes.unwrap_or_default(), cgroups.unwrap_or_default());
    let count = processes.len().max(cgroups.len());
    if count > MAX_CHOSEN {
        return Err(bad("processes", format!("there are {count}; the maximum is {MAX_CHOSEN}")));
    }
    if !processes.is_empty() && !cgroups.is_empty() {
        return Err(bad("cgroups", "expected either processes or cgroups"));
    }
    for glob in &cgroups {
        Pattern::new(glob).map_err(|error| bad("cgroups", format!("'{glob}': {error}")))?;
    }
    Ok((processes, cgroups))
}

/// The triggers, which must all be on delays of threads.
fn triggers(
    triggers: Option<Vec<String>>,
    mode: BufferingMode,
) -> Result<Vec<String>, ControllerError> {
    let triggers = triggers.unwrap_or_default();
    if triggers.len() > MAX_CHOSEN {
        let why = format!("there are {}; the maximum is {MAX_CHOSEN}", triggers.len());
        return Err(bad("triggers", why));
    }
    if !triggers.is_empty() && mode != BufferingMode::Circular {
        return Err(bad("triggers", "need a circular session, which keeps the last events"));
    }
    for text in &triggers {
        let trigger =
            Trigger::from_str(text).map_err(|error| bad("triggers", error.to_string()))?;
        let is_turn = matches!(trigger.what, What::Lasts { what: Lasting::Turn, .. });
        if !is_turn && !matches!(trigger.what, What::Length { .. }) {
            let why = format!(
                "'{text}'; expected METRIC OP TIME, such as 'runqueue > 5ms', or turn OP TIME"
            );
            return Err(bad("triggers", why));
        }
    }
    Ok(triggers)
}

/// The data that these categories request.
///
/// # Errors
/// Returns [`ControllerError::BadRequest`].
pub(super) fn select(field: &str, categories: &[String]) -> Result<Selection, ControllerError> {
    Selection::parse(categories).map_err(|error| bad(field, error.to_string()))
}

fn buffer(field: &str, mib: Option<u32>) -> Result<Option<u64>, ControllerError> {
    match mib {
        None => Ok(None),
        Some(mib @ 1..=MAX_BUFFER_MIB) => Ok(Some(u64::from(mib) * MIB)),
        Some(mib) => Err(bad(field, format!("{mib} MiB; expected 1 to {MAX_BUFFER_MIB}"))),
    }
}

fn special(spec: ProviderSpec) -> Result<ProviderOverride, ControllerError> {
    let field = |name: &str| format!("provider_specs.{name}");
    if spec.name.is_empty() || spec.name.len() > MAX_NAME_BYTES {
        return Err(bad(field("name"), format!("a name has 1 to {MAX_NAME_BYTES} bytes")));
    }
    let hint = spec.buffer_size_megabytes_hint;
    let bytes = buffer(&field("buffer_size_megabytes_hint"), hint)?;
    let bytes = bytes.map(usize::try_from).transpose();
    let categories = spec.categories.unwrap_or_default();
    let categories = match categories.is_empty() {
        true => Vec::new(),
        false => select(&field("categories"), &categories)?.applications,
    };
    Ok(ProviderOverride {
        name: spec.name,
        buffer_bytes: bytes
            .map_err(|error| bad(field("buffer_size_megabytes_hint"), error.to_string()))?,
        categories,
    })
}

/// The engine's value for a mode.
pub(super) fn engine_mode(mode: BufferingMode) -> engine::Mode {
    match mode {
        BufferingMode::Oneshot => engine::Mode::Oneshot,
        BufferingMode::Circular => engine::Mode::Circular,
        BufferingMode::Streaming => engine::Mode::Streaming,
    }
}

/// The interface's value for a mode.
pub(super) fn wire_mode(mode: engine::Mode) -> BufferingMode {
    match mode {
        engine::Mode::Oneshot => BufferingMode::Oneshot,
        engine::Mode::Circular => BufferingMode::Circular,
        engine::Mode::Streaming => BufferingMode::Streaming,
    }
}

/// The engine's value for a disposition.
pub(super) fn engine_disposition(disposition: BufferDisposition) -> engine::BufferDisposition {
    match disposition {
        BufferDisposition::ClearEntire => engine::BufferDisposition::ClearEntire,
        BufferDisposition::ClearNondurable => engine::BufferDisposition::ClearNondurable,
        BufferDisposition::Retain => engine::BufferDisposition::Retain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: TraceConfig) -> String {
        Config::new(config).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_left_out_has_a_value() {
        let config = Config::new(TraceConfig::default()).expect("fine");
        assert_eq!(config.mode, BufferingMode::Oneshot);
        assert_eq!(config.buffer_bytes, DEFAULT_BUFFER_BYTES as u64);
        assert_eq!(config.start_timeout, START_TIMEOUT);
        assert!(config.selection.everything && !config.deferred && !config.detached);
    }

    #[test]
    fn sizes_and_lists_have_bounds() {
        let size =
            |mib| TraceConfig { buffer_size_megabytes_hint: Some(mib), ..TraceConfig::default() };
        assert!(refused(size(0)).contains("buffer_size_megabytes_hint"));
        assert!(refused(size(u32::MAX)).contains("expected 1 to 4096"));
        let specs = vec![ProviderSpec { name: "a".into(), ..ProviderSpec::default() }; 101];
        let config = TraceConfig { provider_specs: Some(specs), ..TraceConfig::default() };
        assert!(refused(config).contains("provider_specs"));
        let waiting = |milliseconds| TraceConfig {
            start_timeout_milliseconds: Some(milliseconds),
            ..TraceConfig::default()
        };
        for forever in [600_001, 1 << 40, u64::MAX] {
            assert!(refused(waiting(forever)).contains("at most 600000 ms"));
        }
        let longest = Config::new(waiting(600_000)).expect("fine");
        assert_eq!(longest.start_timeout, MAX_START_TIMEOUT);
    }

    #[test]
    fn triggers_are_on_delays_and_turns_of_circular_sessions() {
        let with = |mode, text: &str| TraceConfig {
            buffering_mode: Some(mode),
            triggers: Some(vec![text.to_owned()]),
            ..TraceConfig::default()
        };
        for text in ["runqueue > 5ms", "turn > 20ms if comm = 'a'"] {
            let config = Config::new(with(BufferingMode::Circular, text)).expect(text);
            assert_eq!(config.triggers, [text]);
        }
        for text in ["lost > 0", "probe x", "alert x", "span('x') > 1ms", "probe('x') > 1ms"] {
            let why = refused(with(BufferingMode::Circular, text));
            assert!(why.contains("expected METRIC OP TIME"), "{text}: {why}");
        }
        let why = refused(with(BufferingMode::Oneshot, "turn > 20ms"));
        assert!(why.contains("need a circular session"), "{why}");
    }

    #[test]
    fn a_client_has_to_understand_the_version_that_is_written() {
        let with = |major, minor| TraceConfig {
            version: Some(FxtVersion { major, minor }),
            ..TraceConfig::default()
        };
        for (major, minor) in [(0, 1), (0, 2), (1, 0)] {
            assert!(Config::new(with(major, minor)).is_ok(), "{major}.{minor}");
        }
        assert!(refused(with(0, 0)).contains("0.0 is older"));
    }

    #[test]
    fn transfer_is_deferred_in_streaming_mode_only() {
        let with = |mode| TraceConfig {
            defer_transfer: Some(true),
            buffering_mode: Some(mode),
            ..TraceConfig::default()
        };
        assert!(Config::new(with(BufferingMode::Streaming)).expect("fine").deferred);
        assert!(!Config::new(with(BufferingMode::Circular)).expect("fine").deferred);
    }
}
