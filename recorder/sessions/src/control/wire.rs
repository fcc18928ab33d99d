//! The messages on the control socket: the types of `fxtrec.Controller.varlink`, shared by the service and `ctl`.
//!
//! Names of fields are those of the interface file. Optional fields there are `Option`s here. Unknown fields are
//! rejected, since they are most likely misspelt.

mod config;
mod error;

use serde::{Deserialize, Serialize};

pub use config::{
    BufferDisposition, BufferingMode, FxtVersion, ProviderSpec, StartOptions, StopOptions,
    TraceConfig,
};
pub use error::ControllerError;

/// The name of the interface.
pub const INTERFACE: &str = "fxtrec.Controller";

/// The interface file, as the service returns it.
pub const DESCRIPTION: &str = include_str!("fxtrec.Controller.varlink");

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    #[default]
    Ready,
    /// A session exists but has not been started.
    Initialized,
    Starting,
    Started,
    Stopping,
    /// It was stopped, and may be started again.
    Stopped,
    Terminating,
}

impl SessionState {
    /// All states, in the order in which a session passes through them.
    pub const ALL: [SessionState; 7] = [
        SessionState::Ready,
        SessionState::Initialized,
        SessionState::Starting,
        SessionState::Started,
        SessionState::Stopping,
        SessionState::Stopped,
        SessionState::Terminating,
    ];

    /// Its name in the interface.
    pub fn name(self) -> &'static str {
        match self {
            SessionState::Ready => "ready",
            SessionState::Initialized => "initialized",
            SessionState::Starting => "starting",
            SessionState::Started => "started",
            SessionState::Stopping => "stopping",
            SessionState::Stopped => "stopped",
            SessionState::Terminating => "terminating",
        }
    }
}

/// A category that can be requested.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct KnownCategory {
    pub name: String,
    pub description: String,
    /// Whether the caller may record it.
    pub permitted: bool,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct KnownCategories {
    /// In order of their names.
    pub categories: Vec<KnownCategory>,
}

/// An application that is connected.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct ProviderInfo {
    /// Its id in the archive.
    pub id: u32,
    pub pid: u32,
    pub uid: u32,
    pub name: String,
    /// Its state: registered, starting, started, stopping, stopped, failed.
    pub state: String,
    /// Its known categories.
    pub categories: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Providers {
    /// In the order of registration, at most 100.
    pub providers: Vec<ProviderInfo>,
    /// How often a provider was rejected because there were 100, or because its user's limit in the policy was reached.
    #[serde(default)]
    pub turned_away: u64,
}

/// The recorded data of a provider in this session.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ProviderStats {
    pub name: String,
    pub pid: u32,
    /// The mode of its buffer.
    pub buffering_mode: BufferingMode,
    /// The number of times that its buffer was full and it switched to the other half.
    pub buffer_wrapped_count: u64,
    /// The number of records for which it had no space.
    pub records_dropped: u64,
    /// The maximum use of its buffer's durable part, 0 to 100.
    pub percentage_durable_buffer_used: f64,
    /// The size of all records except durable ones, in bytes.
    pub non_durable_bytes_written: u64,
    /// The number of records that are in the archive or will be.
    pub records_written: u64,
}

/// The recorder of the kernel's events.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct KernelStats {
    pub running: bool,
    /// The amount recorded in this session, in bytes.
    pub bytes: u64,
    /// How many snapshots of triggers wait for Snapshot with `fired`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fired: u64,
    /// The reason why it does not record, if it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl KernelStats {
    /// Whether the session records something of the kernel, or has done so.
    pub fn has_recorded(&self) -> bool {
        self.running || self.bytes > 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Status {
    pub state: SessionState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_uid: Option<u32>,
    /// The process that initialized it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_pid: Option<u32>,
    pub categories: Vec<String>,
    /// The path of the trace's file, if it is a file; only for its owner and root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Bytes that were collected so far for writing.
    pub bytes: u64,
    pub kernel: KernelStats,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct InitializeTracing {
    pub config: TraceConfig,
    /// The index of the call's descriptor for the trace.
    pub output: u32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct StartTracing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<StartOptions>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Started {
    pub started: u32,
    /// The providers that did not answer in time.
    pub late: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct StopTracing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<StopOptions>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Stopped {
    /// One entry for each provider that recorded something.
    pub provider_stats: Vec<ProviderStats>,
    /// The reason why the trace in the file is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// The reason why the trace in the file is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The index of the call's descriptor for the trace.
    pub output: u32,
    /// Requests the oldest snapshot of a trigger, instead of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Snapped {
    /// The number of bytes written.
    pub bytes: u64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// The name that the application gave it.
    pub alert_name: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct State {
    pub state: SessionState,
}

/// The parameters, or the answer, of a method without any.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(error: &ControllerError) -> (String, ControllerError) {
        let text = serde_json::to_string(error).expect("it can be written");
        let back = serde_json::from_str(&text).expect("it can be read");
        (text, back)
    }

    #[test]
    fn errors_have_the_names_of_the_interface() {
        let error = ControllerError::NotStarted;
        let (text, back) = round_trip(&error);
        assert!(text.contains("\"fxtrec.Controller.NotStarted\""), "{text}");
        assert_eq!(back, error);
        let error = ControllerError::BadRequest { field: "version".into(), why: "1.0".into() };
        let (text, back) = round_trip(&error);
        assert!(text.contains("\"field\":\"version\""), "{text}");
        assert_eq!(back, error);
    }

    #[test]
    fn whatever_the_interface_calls_optional_may_be_left_out_and_nothing_else_added() {
        let config: TraceConfig = serde_json::from_str("{}").expect("nothing is needed");
        assert_eq!(config, TraceConfig::default());
        assert_eq!(serde_json::to_string(&config).expect("text"), "{}");
        let with_null: TraceConfig = serde_json::from_str(r#"{"categories":null}"#).expect("null");
        assert_eq!(with_null, config);
        let misspelt = serde_json::from_str::<TraceConfig>(r#"{"categorys":[]}"#);
        assert!(misspelt.expect_err("refused").to_string().contains("categorys"));
    }

    #[test]
    fn every_error_and_state_is_in_the_interface_file() {
        for state in SessionState::ALL {
            let text = serde_json::to_string(&state).expect("text");
            assert_eq!(text, format!("\"{}\"", state.name()));
            assert!(DESCRIPTION.contains(state.name()), "{text}");
        }
        for error in ["NotInitialized", "Aborted", "NotPermitted", "BadRequest"] {
            assert!(DESCRIPTION.contains(&format!("error {error} (")), "{error}");
        }
        assert!(DESCRIPTION.contains(&format!("interface {INTERFACE}\n")));
    }
}
