//! The control socket: a thread per connection, which reads a call, executes it, and answers.
//!
//! [`Service`] implements the calls. Whatever a client sends can affect only its own connection.

mod call;
pub(super) mod seats;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::mailbox::Mailbox;
use super::service::{Caller, Service};
use super::session::ClientId;
use super::transport::{Connection, MessageError, ServiceError};
use super::wire::{self, ControllerError, Nothing};
use super::writer::Writer;
use call::{Parameters, Refusal, Request, no_method, output};
use fxtrec_kernel::bell::Bell;
use fxtrec_kernel::linger::BriefClose;
use fxtrec_kernel::peer::Credentials;
use seats::Seat;

/// Connections that one user may have; root may have more.
const CONNECTIONS: usize = 64;

/// The time before the next attempt when descriptors have run out.
const DEAF: Duration = Duration::from_millis(200);

/// The interface that every Varlink service has.
const SERVICE_INTERFACE: &str = "org.varlink.service";

/// The description of [`SERVICE_INTERFACE`], as the Varlink project defines it.
const SERVICE_DESCRIPTION: &str = "\
interface org.varlink.service

method GetInfo() -> (vendor: string, product: string, version: string, url: string, interfaces: []string)
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
";

/// Takes connections until the process ends.
///
/// # Errors
/// Returns an error when the thread cannot be created.
pub fn serve(service: Arc<Service>, listener: UnixListener) -> io::Result<()> {
    let numbers = AtomicU64::new(1);
    let users = Arc::new(Mutex::new(HashMap::new()));
    let take = move || {
        loop {
            let Ok((socket, _)) = listener.accept() else {
                std::thread::sleep(DEAF);
                continue;
            };
            let client = ClientId(numbers.fetch_add(1, Ordering::Relaxed));
            // A client without credentials, or with too many connections, is not served.
            let seat = Credentials::of(&socket).ok().and_then(|credentials| {
                let seat = Seat::take(&users, credentials.uid, CONNECTIONS)?;
                Some((credentials, seat))
            });
            let Some((credentials, seat)) = seat else {
                drop(BriefClose::from(socket));
                continue;
            };
            let service = service.clone();
            let thread = std::thread::Builder::new().name("fxtrec-client".to_owned());
            let served = thread.spawn(move || {
                let _seat = seat;
                let caller = Caller { client, credentials };
                if let Ok(client) = Client::new(service.clone(), caller, socket) {
                    client.serve();
                }
                service.client_gone(ClientId(client.0));
            });
            drop(served);
        }
    };
    std::thread::Builder::new().name("fxtrec-control".to_owned()).spawn(take).map(drop)
}

struct Client {
    service: Arc<Service>,
    caller: Caller,
    connection: Connection,
    /// A duplicate of the socket, to detect that the other side has closed the connection.
    socket: UnixStream,
    /// Whether the current call expects no answer.
    oneway: bool,
    /// The process that has the last received descriptors, or the reason why there is none.
    writer: Arc<Mutex<Option<Result<Writer, String>>>>,
}

impl Client {
    fn new(service: Arc<Service>, caller: Caller, socket: UnixStream) -> io::Result<Client> {
        let watched = socket.try_clone()?;
        let writer = Arc::new(Mutex::new(None));
        let (receiver, who, place) = (service.clone(), caller.clone(), writer.clone());
        let take = move |connection: &UnixStream, most| {
            let (message, writer) = receiver.receive_output(&who, connection, most)?;
            // An existing process that is unused ends.
            let before = place.lock().unwrap_or_else(PoisonError::into_inner).replace(writer);
            drop(before);
            Ok(message)
        };
        let connection = Connection::new(socket, Box::new(take));
        Ok(Client { service, caller, connection, socket: watched, oneway: false, writer })
    }

    fn serve(mut self) {
        loop {
            // An invalid call ends the connection.
            let Ok(request) = self.connection.receive::<Request>() else {
                return;
            };
            let Request { method, parameters, more, oneway } = request;
            self.oneway = oneway.unwrap_or(false);
            let parameters = Parameters(parameters.unwrap_or_default());
            let answered = self.carry_out(&method, parameters, more.unwrap_or(false));
            let is_initialize = method.ends_with(".InitializeTracing");
            let sent = match answered {
                Ok(()) => Ok(()),
                Err(Refusal::Gone) => return,
                Err(Refusal::Service(error)) => self.refuse(&error),
                Err(Refusal::Controller(error)) => {
                    let is_bad = matches!(error, ControllerError::BadRequest { .. });
                    let sent = self.refuse(&error);
                    if is_bad && is_initialize {
                        return;
                    }
                    sent
                }
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn refuse(&self, error: &impl Serialize) -> Result<(), MessageError> {
        match self.oneway {
            true => Ok(()),
            false => self.connection.send(error, &[]),
        }
    }

    fn reply(&self, parameters: impl Serialize, continues: bool) -> Result<(), Refusal> {
        #[derive(Serialize)]
        struct Reply<P> {
            parameters: P,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            continues: bool,
        }
        if self.oneway {
            return Ok(());
        }
        self.connection.send(&Reply { parameters, continues }, &[]).map_err(|_| Refusal::Gone)
    }

    fn carry_out(
        &mut self,
        method: &str,
        mut parameters: Parameters,
        more: bool,
    ) -> Result<(), Refusal> {
        let (interface, name) = method.rsplit_once('.').unwrap_or(("", method));
        match interface {
            wire::INTERFACE => {}
            SERVICE_INTERFACE => return self.describe(name, method, parameters),
            _ => {
                let interface = interface.to_owned();
                return Err(Refusal::Service(ServiceError::InterfaceNotFound { interface }));
            }
        }
        let (service, caller) = (self.service.clone(), self.caller.clone());
        match name {
            "GetStatus" => {
                parameters.end()?;
                self.reply(service.status(&caller), false)
            }
            "GetKnownCategories" => {
                parameters.end()?;
                let known = service.known_categories(&caller)?;
                self.reply(known, false)
            }
            "GetProviders" => {
                parameters.end()?;
                let providers = service.providers(&caller)?;
                self.reply(providers, false)
            }
            "InitializeTracing" => {
                let config = parameters.take("config")?;
                let output = output(&mut parameters, self.take_writer())?;
                parameters.end()?;
                service.initialize(&caller, config, output)?;
                self.reply(Nothing {}, false)
            }
            "StartTracing" => {
                let options: Option<wire::StartOptions> = parameters.take("options")?;
                parameters.end()?;
                let options = options.unwrap_or_default();
                let started = self.attended(|| service.start_tracing(&caller, options))?;
                self.reply(started, false)
            }
            "StopTracing" => {
                let options: Option<wire::StopOptions> = parameters.take("options")?;
                parameters.end()?;
                let options = options.unwrap_or_default();
                let stopped = self.attended(|| service.stop_tracing(&caller, options))?;
                self.reply(stopped, false)
            }
            "TerminateTracing" => {
                parameters.end()?;
                let ended = service.terminate_tracing(&caller)?;
                self.reply(ended, false)
            }
            "Snapshot" => {
                let output = output(&mut parameters, self.take_writer())?;
                let fired: Option<bool> = parameters.take("fired")?;
                parameters.end()?;
                let fired = fired.unwrap_or(false);
                let bytes = self.attended(|| service.snapshot(&caller, output, fired))?;
                self.reply(wire::Snapped { bytes }, false)
            }
            "WatchAlert" => {
                parameters.end()?;
                self.watch_alerts(more)
            }
            "WatchState" => {
                parameters.end()?;
                self.watch_states(more)
            }
            _ => Err(no_method(method)),
        }
    }

    fn take_writer(&self) -> Option<Result<Writer, String>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The interface that every service has.
    fn describe(
        &mut self,
        name: &str,
        method: &str,
        mut parameters: Parameters,
    ) -> Result<(), Refusal> {
        match name {
            "GetInfo" => self.reply(
                serde_json::json!({
                    "vendor": "fxtrec",
                    "product": "fxtrec trace controller",
                    "version": env!("CARGO_PKG_VERSION"),
                    "url": "",
                    "interfaces": [SERVICE_INTERFACE, wire::INTERFACE],
                }),
                false,
            ),
            "GetInterfaceDescription" => {
                let interface: String = parameters.take("interface").map_err(|_| {
                    let parameter = "interface".to_owned();
                    Refusal::Service(ServiceError::InvalidParameter { parameter })
                })?;
                let description = match interface.as_str() {
                    wire::INTERFACE => wire::DESCRIPTION,
                    SERVICE_INTERFACE => SERVICE_DESCRIPTION,
                    _ => {
                        return Err(Refusal::Service(ServiceError::InterfaceNotFound {
                            interface,
                        }));
                    }
                };
                self.reply(serde_json::json!({ "description": description }), false)
            }
            _ => Err(no_method(method)),
        }
    }

    /// Does something that may take a long time, and meanwhile checks whether the client is still connected. If the client has
    /// disconnected, its session ends, and so does any operation on it.
    fn attended<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, ControllerError> + Send,
    ) -> Result<T, Refusal> {
        let failed = |error: io::Error| ControllerError::Aborted { reason: error.to_string() };
        let done = Bell::new().map_err(failed)?;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("fxtrec-work".to_owned());
            let worker = thread.spawn_scoped(scope, || {
                let result = work();
                done.ring();
                result
            });
            let worker = worker.map_err(failed)?;
            if self.wait(&done) == Event::Gone {
                self.service.client_gone(self.caller.client);
            }
            let panicked = || ControllerError::Aborted {
                reason: "a thread of the daemon panicked".to_owned(),
            };
            worker.join().unwrap_or_else(|_| Err(panicked())).map_err(Refusal::from)
        })
    }

    /// Waits until the descriptor is readable, or the client has disconnected.
    fn wait(&self, event: &impl AsFd) -> Event {
        loop {
            let mut polled = [
                PollFd::new(event.as_fd(), PollFlags::POLLIN),
                // poll always reports hang-ups and errors.
                PollFd::new(self.socket.as_fd(), PollFlags::empty()),
            ];
            match poll(&mut polled, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(_) => return Event::Gone,
                Ok(_) if polled[0].any() == Some(true) => return Event::There,
                Ok(_) => return Event::Gone,
            }
        }
    }

    fn watch_alerts(&mut self, more: bool) -> Result<(), Refusal> {
        let mailbox = self.mailbox()?;
        loop {
            self.service.ask_alert(&self.caller, &mailbox)?;
            let alert_name = loop {
                if self.wait(&*mailbox) == Event::Gone {
                    return Err(Refusal::Gone);
                }
                if let Some(alert) = mailbox.take() {
                    break alert;
                }
            };
            self.reply(wire::Alert { alert_name }, more)?;
            if !more || self.oneway {
                return Ok(());
            }
        }
    }

    fn watch_states(&mut self, more: bool) -> Result<(), Refusal> {
        let mailbox = self.mailbox()?;
        self.service.watch_state(&mailbox);
        loop {
            while let Some(state) = mailbox.take() {
                self.reply(wire::State { state }, more)?;
                if !more || self.oneway {
                    return Ok(());
                }
            }
            if self.wait(&*mailbox) == Event::Gone {
                return Err(Refusal::Gone);
            }
        }
    }

    fn mailbox<T>(&self) -> Result<Arc<Mailbox<T>>, ControllerError> {
        let mailbox = Mailbox::new().map(Arc::new);
        mailbox.map_err(|error| ControllerError::Aborted { reason: error.to_string() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    There,
    Gone,
}
