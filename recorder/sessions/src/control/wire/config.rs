//! How to record, to start and to stop: what a client may choose.

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

/// What is different for the providers of one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSpec {
    pub name: String,
    /// The buffer of each, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_size_megabytes_hint: Option<u32>,
    /// Their categories in place of the session's.
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
    /// It is written out, while recording goes on.
    Streaming,
}

/// What becomes of what was recorded before and not written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferDisposition {
    #[default]
    ClearEntire,
    /// All but what others refer to is discarded.
    ClearNondurable,
    Retain,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// Categories of applications and of the kernel; none at all for all that is permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// The buffer of each provider, and the kernel's, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_size_megabytes_hint: Option<u32>,
    /// After this long StartTracing is answered in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_milliseconds: Option<u64>,
    /// Oneshot unless told otherwise, as in Fuchsia.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffering_mode: Option<BufferingMode>,
    /// What is different for some providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_specs: Option<Vec<ProviderSpec>>,
    /// The latest version of the format that the client understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<FxtVersion>,
    /// Whether a streaming session sends nothing before it is stopped or terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_transfer: Option<bool>,
    /// Whether the session outlives the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StartOptions {
    /// Everything is cleared unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_disposition: Option<BufferDisposition>,
    /// Categories beside those of the configuration, until it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_categories: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StopOptions {
    /// Whether what was collected is written now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_results: Option<bool>,
}
