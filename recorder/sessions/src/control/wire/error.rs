//! The errors of the service.

use serde::{Deserialize, Serialize};

/// The service's answer when it rejects a request or fails.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "error", content = "parameters")]
#[non_exhaustive]
pub enum ControllerError {
    #[error("there is no session; initialize one first")]
    #[serde(rename = "fxtrec.Controller.NotInitialized")]
    NotInitialized,
    #[error("a session already exists, and there can be only one; terminate it first")]
    #[serde(rename = "fxtrec.Controller.AlreadyInitialized")]
    AlreadyInitialized,
    /// It is recording, or is about to record.
    #[error("the session is already started")]
    #[serde(rename = "fxtrec.Controller.AlreadyStarted")]
    AlreadyStarted,
    #[error("the session is not started")]
    #[serde(rename = "fxtrec.Controller.NotStarted")]
    NotStarted,
    #[error("the session is being stopped; wait until it has stopped")]
    #[serde(rename = "fxtrec.Controller.Stopping")]
    Stopping,
    #[error("the session is being terminated; wait until it has ended")]
    #[serde(rename = "fxtrec.Controller.Terminating")]
    Terminating,
    #[error("the session was aborted: {reason}")]
    #[serde(rename = "fxtrec.Controller.Aborted")]
    Aborted { reason: String },
    /// The client is not permitted to do this.
    #[error("{what} is not permitted: {why}")]
    #[serde(rename = "fxtrec.Controller.NotPermitted")]
    NotPermitted { what: String, why: String },
    /// The request is meaningless.
    #[error("bad request: {field}: {why}")]
    #[serde(rename = "fxtrec.Controller.BadRequest")]
    BadRequest {
        field: String,
        /// The error in it.
        why: String,
    },
}
