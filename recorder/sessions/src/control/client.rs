//! A client of the service, which `fxtrec ctl` uses.
//!
//! Calls on one connection are answered in order. A session that is not detached ends when the [`Client`] that
//! initialized it is dropped.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::transport::{Connection, MessageError};
use super::wire::{self, ControllerError, Nothing};

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing listens on the socket, or the caller is not allowed to connect.
    #[error("cannot connect to the fxtrec daemon at {path}: {source}; {}", advice(source))]
    Connect { path: PathBuf, source: io::Error },
    /// The service answered that it does not do this.
    #[error(transparent)]
    Refused(#[from] ControllerError),
    /// The listener does not speak the protocol, or not this version of the interface.
    #[error(
        "the daemon at {path} does not support {method}: {source}; does it have the same version as this fxtrec?"
    )]
    Service { path: PathBuf, method: &'static str, source: MessageError },
    /// The connection broke before the answer arrived.
    #[error(
        "the daemon at {path} closed the connection before it answered {method}: {source}; see its log"
    )]
    Closed { path: PathBuf, method: &'static str, source: MessageError },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only the socket's group may connect: see docs/reference/sessions.md"
        }
        _ => "is it running? systemctl start fxtrec, or sudo fxtrec daemon",
    }
}

/// A method and its parameters, as they are sent.
#[derive(Debug, Serialize)]
struct Message<'a, P> {
    method: &'a str,
    parameters: &'a P,
    /// Whether the client accepts more than one reply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// A reply, before its type is known.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    /// Whether there are more replies to the same call.
    #[serde(default)]
    continues: Option<bool>,
}

impl Answer {
    /// The interface's error, or one common to all services, if the reply is an error.
    fn error(&self) -> Option<Result<ControllerError, MessageError>> {
        let name = self.error.as_ref()?;
        let mut error = serde_json::json!({ "error": name });
        if let Some(parameters) = &self.parameters {
            error["parameters"] = parameters.clone();
        }
        Some(ControllerError::deserialize(&error).map_err(|_| {
            match serde_json::from_value(error) {
                Ok(error) => MessageError::Service(error),
                Err(_) => MessageError::UnknownError(name.clone()),
            }
        }))
    }
}

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    path: PathBuf,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// Returns [`ClientError::Connect`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let socket = UnixStream::connect(path)
            .map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        let connection = Connection::from(socket);
        Ok(Client { connection, path: path.to_owned() })
    }

    /// Calls a method of the interface, by its name there, and waits for the answer.
    ///
    /// # Errors
    /// Returns [`ClientError`], except for `Connect`.
    pub fn call<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        parameters: &impl Serialize,
        descriptors: Vec<OwnedFd>,
    ) -> Result<R, ClientError> {
        self.send(method, parameters, descriptors, false)?;
        self.answer(method).map(|(answer, _)| answer)
    }

    /// Calls a method that answers more than once, for as long as the service runs.
    ///
    /// # Errors
    /// Returns [`ClientError`], except for `Connect`.
    pub fn watch<R: DeserializeOwned>(
        mut self,
        method: &'static str,
    ) -> Result<Answers<R>, ClientError> {
        self.send(method, &Nothing {}, Vec::new(), true)?;
        Ok(Answers { client: self, method, over: false, kind: PhantomData })
    }

    fn send(
        &mut self,
        method: &'static str,
        parameters: &impl Serialize,
        descriptors: Vec<OwnedFd>,
        more: bool,
    ) -> Result<(), ClientError> {
        let full = format!("{}.{method}", wire::INTERFACE);
        let message = Message { method: &full, parameters, more };
        let sent = self.connection.send(&message, &descriptors);
        // From here on, the daemon owns the descriptors.
        drop(descriptors);
        sent.map_err(|source| self.broken(method, source))
    }

    fn answer<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
    ) -> Result<(R, bool), ClientError> {
        let answer = self.connection.receive::<Answer>();
        let answer = answer.map_err(|source| self.broken(method, source))?;
        match answer.error() {
            Some(Ok(refused)) => return Err(refused.into()),
            Some(Err(source)) => return Err(self.broken(method, source)),
            None => {}
        }
        let parameters = answer.parameters.ok_or(MessageError::NoParameters);
        let parameters = parameters.and_then(|value| Ok(serde_json::from_value(value)?));
        let parameters = parameters.map_err(|source| self.broken(method, source))?;
        Ok((parameters, answer.continues == Some(true)))
    }

    fn broken(&self, method: &'static str, source: MessageError) -> ClientError {
        let path = self.path.clone();
        match source {
            MessageError::Io(_) | MessageError::Closed => {
                ClientError::Closed { path, method, source }
            }
            _ => ClientError::Service { path, method, source },
        }
    }

    /// The state of the session.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn status(&mut self) -> Result<wire::Status, ClientError> {
        self.call("GetStatus", &Nothing {}, Vec::new())
    }

    /// The categories that can be requested.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn known_categories(&mut self) -> Result<wire::KnownCategories, ClientError> {
        self.call("GetKnownCategories", &Nothing {}, Vec::new())
    }

    /// The applications that are connected.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn providers(&mut self) -> Result<wire::Providers, ClientError> {
        self.call("GetProviders", &Nothing {}, Vec::new())
    }

    /// Begins a session that writes its trace to `output`.
    ///
    /// # Errors
    /// Returns [`ClientError`]. After a bad request the connection is closed.
    pub fn initialize(
        &mut self,
        config: wire::TraceConfig,
        output: OwnedFd,
    ) -> Result<(), ClientError> {
        let parameters = wire::InitializeTracing { config, output: 0 };
        self.call("InitializeTracing", &parameters, vec![output]).map(|Nothing {}| ())
    }

    /// Starts the session.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn start(&mut self, options: wire::StartOptions) -> Result<wire::Started, ClientError> {
        let parameters = wire::StartTracing { options: Some(options) };
        self.call("StartTracing", &parameters, Vec::new())
    }

    /// Stops the session.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn stop(&mut self, options: wire::StopOptions) -> Result<wire::Stopped, ClientError> {
        let parameters = wire::StopTracing { options: Some(options) };
        self.call("StopTracing", &parameters, Vec::new())
    }

    /// Ends the session.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn terminate(&mut self) -> Result<wire::Ended, ClientError> {
        self.call("TerminateTracing", &Nothing {}, Vec::new())
    }

    /// Asks the daemon to write the content of a circular session to `output`; returns its size in bytes.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn snapshot(&mut self, output: OwnedFd) -> Result<u64, ClientError> {
        self.write(wire::Snapshot { output: 0, fired: None }, output)
    }

    /// Asks the daemon to write the snapshot of the oldest trigger that fired, and was not requested yet, to `output`.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn fired_snapshot(&mut self, output: OwnedFd) -> Result<u64, ClientError> {
        self.write(wire::Snapshot { output: 0, fired: Some(true) }, output)
    }

    fn write(&mut self, parameters: wire::Snapshot, output: OwnedFd) -> Result<u64, ClientError> {
        let wire::Snapped { bytes } = self.call("Snapshot", &parameters, vec![output])?;
        Ok(bytes)
    }

    /// Every alert as it arrives, on a separate connection.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn watch_alerts(self) -> Result<Answers<wire::Alert>, ClientError> {
        self.watch("WatchAlert")
    }

    /// The state, and every change of it, on a separate connection.
    ///
    /// # Errors
    /// Returns [`ClientError`].
    pub fn watch_states(self) -> Result<Answers<wire::State>, ClientError> {
        self.watch("WatchState")
    }
}

/// The answers to one call, as they arrive. After an error, no more answers follow.
#[derive(Debug)]
pub struct Answers<R> {
    client: Client,
    method: &'static str,
    over: bool,
    kind: PhantomData<R>,
}

impl<R: DeserializeOwned> Iterator for Answers<R> {
    type Item = Result<R, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        Some(match self.client.answer(self.method) {
            Ok((answer, continues)) => {
                self.over = !continues;
                Ok(answer)
            }
            Err(error) => {
                self.over = true;
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_nobody_listens_the_error_says_where_and_what_to_do() {
        let path = Path::new("/nowhere/control");
        let error = Client::connect(path).expect_err("nobody is there").to_string();
        assert!(error.contains("/nowhere/control"), "{error}");
        assert!(error.contains("systemctl start fxtrec"), "{error}");
    }
}
