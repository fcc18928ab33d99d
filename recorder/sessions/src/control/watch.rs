//! Watches of alerts and state changes, and the other queries, which change nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use super::mailbox::Mailbox;
use super::service::{Caller, Inner, Service};
use super::wire::{self, ControllerError, SessionState};
use crate::manager::{Alert, ManagerError};

/// Maximum number of alerts waiting for a request; beyond it, the oldest are dropped.
const ALERTS: usize = 1024;

/// A client that waits for an alert.
#[derive(Debug)]
struct Waiting {
    caller: Caller,
    mailbox: Weak<Mailbox<String>>,
}

#[derive(Debug, Default)]
pub(super) struct Watchers {
    states: Vec<Weak<Mailbox<SessionState>>>,
    /// The first call is served next.
    waiting: VecDeque<Waiting>,
    /// Alerts that no client has received.
    alerts: VecDeque<String>,
}

impl Watchers {
    pub(super) fn publish_state(&mut self, state: SessionState) {
        self.states.retain(|watcher| match watcher.upgrade() {
            Some(mailbox) => {
                mailbox.put(state);
                true
            }
            None => false,
        });
    }

    pub(super) fn forget_alerts(&mut self) {
        self.alerts.clear();
    }
}

impl Inner {
    /// Passes an alert to the client that has waited longest among those that control the session, or queues it.
    fn deliver(&mut self, alert: String) {
        let Some(session) = &self.session else { return };
        self.watchers.waiting.retain(|waiting| waiting.mailbox.strong_count() > 0);
        let may = |waiting: &Waiting| {
            let Caller { client, credentials } = &waiting.caller;
            session.controlled_by(*client, credentials).is_ok()
        };
        let turn = self.watchers.waiting.iter().position(may);
        let mailbox = turn.and_then(|turn| self.watchers.waiting.remove(turn));
        match mailbox.and_then(|waiting| waiting.mailbox.upgrade()) {
            Some(mailbox) => mailbox.put(alert),
            None => {
                if self.watchers.alerts.len() == ALERTS {
                    self.watchers.alerts.pop_front();
                }
                self.watchers.alerts.push_back(alert);
            }
        }
    }
}

impl Service {
    /// Starts the thread that receives alerts from providers.
    pub(super) fn listen_to_alerts(self: &Arc<Service>) -> io::Result<()> {
        let alerts = self.manager.alerts().clone();
        let service = Arc::downgrade(self);
        let listen = move || {
            for Alert { name, uid, time, .. } in alerts {
                let Some(service) = service.upgrade() else { return };
                let mut inner = service.lock();
                let recorded = |session: &&Arc<super::session::Session>| {
                    session.granted.users.include(uid) && time >= session.since
                };
                if inner.session.as_ref().filter(recorded).is_some() {
                    inner.deliver(name);
                }
            }
        };
        std::thread::Builder::new().name("fxtrec-alerts".to_owned()).spawn(listen).map(drop)
    }

    /// Requests the next alert: it is already in the mailbox, or will arrive there. Without a session, the alert belongs to the next
    /// session.
    ///
    /// # Errors
    /// Returns an error when the session belongs to another user.
    pub(super) fn ask_alert(
        &self,
        caller: &Caller,
        mailbox: &Arc<Mailbox<String>>,
    ) -> Result<(), ControllerError> {
        let mut inner = self.lock();
        if let Some(session) = &inner.session {
            session.controlled_by(caller.client, &caller.credentials)?;
            if let Some(alert) = inner.watchers.alerts.pop_front() {
                mailbox.put(alert);
                return Ok(());
            }
        }
        let mailbox = Arc::downgrade(mailbox);
        inner.watchers.waiting.push_back(Waiting { caller: caller.clone(), mailbox });
        Ok(())
    }

    /// Puts the current state into the mailbox, and later every change.
    pub(super) fn watch_state(&self, mailbox: &Arc<Mailbox<SessionState>>) {
        let mut inner = self.lock();
        mailbox.put(inner.state);
        inner.watchers.states.push(Arc::downgrade(mailbox));
    }

    /// GetStatus. Only root and the session's owner get the path of the trace.
    pub(super) fn status(&self, caller: &Caller) -> wire::Status {
        let inner = self.lock();
        let Some(session) = &inner.session else {
            return wire::Status { state: inner.state, ..wire::Status::default() };
        };
        let uid = caller.credentials.uid;
        let path = session.output.path().filter(|_| uid == 0 || uid == session.owner.uid);
        wire::Status {
            state: inner.state,
            output: path.map(|path| path.to_string_lossy().into_owned()),
            owner_uid: Some(session.owner.uid),
            owner_pid: Some(session.owner.pid),
            categories: session.config.categories.clone(),
            bytes: session.output.total(),
            kernel: wire::KernelStats { fired: session.fired(), ..session.kernel.stats() },
        }
    }

    /// GetProviders: the providers that the caller may record.
    pub(super) fn providers(&self, caller: &Caller) -> Result<wire::Providers, ControllerError> {
        let users = self.users_of(caller)?;
        let gone = |error: ManagerError| ControllerError::Aborted { reason: error.to_string() };
        let providers = self.manager.providers().map_err(gone)?;
        let turned_away = self.manager.turned_away().map_err(gone)?;
        let turned_away = turned_away.iter().filter(|(uid, _)| users.include(**uid));
        let turned_away = turned_away.map(|(_, times)| times).sum();
        let ours = providers.into_iter().filter(|provider| users.include(provider.uid));
        let providers = ours.map(|provider| wire::ProviderInfo {
            id: provider.id.0,
            pid: provider.pid,
            uid: provider.uid,
            name: provider.name,
            state: provider.state.name().to_owned(),
            categories: provider.categories,
        });
        Ok(wire::Providers { providers: providers.collect(), turned_away })
    }

    /// GetKnownCategories: the kernel's categories, and those of applications that the caller may record.
    pub(super) fn known_categories(
        &self,
        caller: &Caller,
    ) -> Result<wire::KnownCategories, ControllerError> {
        let kernel = self.policy.known_categories(&caller.credentials).into_iter();
        let mut categories: Vec<wire::KnownCategory> = kernel
            .map(|known| wire::KnownCategory {
                name: known.name,
                description: known.description,
                permitted: known.permitted,
            })
            .collect();
        let mut of_applications = std::collections::BTreeMap::<String, Vec<String>>::new();
        for provider in self.providers(caller)?.providers {
            for category in provider.categories {
                let names = of_applications.entry(category).or_default();
                if !names.contains(&provider.name) {
                    names.push(provider.name.clone());
                }
            }
        }
        categories.extend(of_applications.into_iter().map(|(name, users)| wire::KnownCategory {
            name,
            description: format!("of {}", users.join(", ")),
            permitted: true,
        }));
        categories.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(wire::KnownCategories { categories })
    }
}
