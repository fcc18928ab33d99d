//! The client's options for recording, starting and stopping.

use serde::{Deserialize, Serialize};

/// A version of the trace format.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FxtVersion {
    /// 0 so far.
    pub major: u32,
    /// 1 so far.
    pub minor: u32,
}

/// Different settings for providers with one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSpec {
    pub name: String,
    /// The buffer of each provider, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_size_megabytes_hint: Option<u32>,
    /// Their categories, instead of those of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
}

/// What happens when a buffer is full.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferingMode {
    #[default]
    Oneshot,
    Circular,
    /// It is written while recording continues.
    Streaming,
}

/// What happens to data that was recorded earlier and not written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferDisposition {
    #[default]
    ClearEntire,
    /// Discards everything except definitions that other records refer to.
    ClearNondurable,
    Retain,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// Categories of applications and of the kernel; an empty list for everything that is permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// The buffer of each provider, and the kernel's, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_size_megabytes_hint: Option<u32>,
    /// The time after which StartTracing is answered in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_milliseconds: Option<u64>,
    /// Oneshot by default, as in Fuchsia.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffering_mode: Option<BufferingMode>,
    /// Different settings for some providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_specs: Option<Vec<ProviderSpec>>,
    /// The latest version of the format that the client understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<FxtVersion>,
    /// Whether a streaming session sends nothing before it is stopped or terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_transfer: Option<bool>,
    /// The processes whose switches and wakeups the kernel records, with their descendants; no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<u32>>,
    /// Globs of the cgroups to whose processes the recording is restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<Vec<String>>,
    /// The stacks that are recorded: `offcpu`, `wake`, `cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<String>>,
    /// For a circular session: conditions as for `fxtrec --trigger`; a snapshot is written for each delay that meets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggers: Option<Vec<String>>,
    /// Whether the session outlives the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StartOptions {
    /// Everything is cleared by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_disposition: Option<BufferDisposition>,
    /// Categories in addition to those of the configuration, until the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_categories: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StopOptions {
    /// Whether the collected data is written now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_results: Option<bool>,
}
