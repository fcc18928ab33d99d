//! A call's request, and why it may be rejected.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::super::config::bad;
use super::super::service::PassedOutput;
use super::super::transport::ServiceError;
use super::super::wire::ControllerError;
use super::super::writer::Writer;

/// A call with undecoded parameters.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) method: String,
    #[serde(default)]
    pub(super) parameters: Option<Map<String, Value>>,
    /// Whether the client accepts more than one reply.
    #[serde(default)]
    pub(super) more: Option<bool>,
    /// Whether the client wants no reply.
    #[serde(default)]
    pub(super) oneway: Option<bool>,
}

/// The reason why a call is rejected.
#[derive(Debug)]
pub(super) enum Refusal {
    Controller(ControllerError),
    /// There is no such method.
    Service(ServiceError),
    Gone,
}

impl From<ControllerError> for Refusal {
    fn from(error: ControllerError) -> Refusal {
        Refusal::Controller(error)
    }
}

/// The parameters of a call.
pub(super) struct Parameters(pub(super) Map<String, Value>);

impl Parameters {
    /// Removes and returns a parameter; a missing one is null.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ControllerError> {
        let value = self.0.remove(name).unwrap_or(Value::Null);
        serde_json::from_value(value).map_err(|error| bad(name, error.to_string()))
    }

    /// Whether all were consumed.
    pub(super) fn end(&self) -> Result<(), ControllerError> {
        match self.0.keys().next() {
            Some(name) => Err(bad(name, "unknown parameter")),
            None => Ok(()),
        }
    }
}

/// There is no such method.
pub(super) fn no_method(method: &str) -> Refusal {
    Refusal::Service(ServiceError::MethodNotFound { method: method.to_owned() })
}

/// The descriptor that the parameter `output` selects among those that came with the message.
pub(super) fn output(
    parameters: &mut Parameters,
    descriptors: Option<Result<Writer, String>>,
) -> Result<PassedOutput, ControllerError> {
    let index = parameters.take("output")?;
    match descriptors {
        Some(Ok(writer)) => Ok(PassedOutput { writer, index }),
        Some(Err(why)) => Err(bad("output", why)),
        None => Err(bad("output", "no descriptors came with the message")),
    }
}
