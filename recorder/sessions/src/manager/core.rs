//! The manager's thread: its state and its main loop.

mod session;

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::ProviderId;
use fxt_writer::provider::wire::MAX_MESSAGE_BYTES;

use super::acceptor::{Acceptor, DEAF};
use super::command::{Command, Started, Stopped, Waiting};
use super::config::Options;
use super::follower::LongSpan;
use super::output::Output;
use super::provider::{ConnectionEvent, Provider};
use super::ready::{self, Ready};
use super::recording::Phase;
use super::status::{Alert, ProviderStatus};
use fxtrec_kernel::bell::Bell;
use fxtrec_kernel::clock;
use fxtrec_kernel::seqpacket::Listener;
use fxtrec_units::convention::PROVIDER;
use session::Session;

/// Connections that are accepted in one round.
const CONNECTIONS: usize = 16;

/// The number of messages that are read from one provider in one round, so that a provider that floods the manager does not delay others.
const MESSAGES: usize = 16;

/// The number of rounds after which pending messages count as handled even if some provider still sends: far more than 100 providers can
/// have pending at one time.
const SETTLING_ROUNDS: u32 = 256;

/// Providers that have disconnected but are still kept. If there are more, the oldest are forgotten.
const MAX_DEPARTED: usize = 10_000;

/// The state of the manager's thread.
#[derive(Debug)]
pub(super) struct Core {
    acceptor: Acceptor,
    options: Options,
    commands: Receiver<Command>,
    bell: Bell,
    alerts: Sender<Alert>,
    spans: Sender<LongSpan>,
    output: Output,
    providers: Vec<Provider>,
    departed: std::collections::VecDeque<ProviderStatus>,
    session: Option<Session>,
    waiting: Option<Waiting>,
    /// The threads that wait until everything has been received, and for how many more rounds they wait at most.
    settling: Vec<(Sender<()>, u32)>,
    /// Sessions so far.
    sessions: u64,
    /// The id of the provider that connected last.
    last_id: u32,
    buffer: Box<[u8]>,
}

impl Core {
    pub(super) fn new(
        listener: Listener,
        options: Options,
        output: Output,
        commands: Receiver<Command>,
        bell: Bell,
        (alerts, spans): (Sender<Alert>, Sender<LongSpan>),
    ) -> Core {
        Core {
            acceptor: Acceptor::new(listener),
            options,
            commands,
            bell,
            alerts,
            spans,
            output,
            providers: Vec::new(),
            departed: std::collections::VecDeque::new(),
            session: None,
            waiting: None,
            settling: Vec::new(),
            sessions: 0,
            last_id: PROVIDER.0,
            // One byte more than the maximum size of a message, to detect longer ones.
            buffer: vec![0; MAX_MESSAGE_BYTES + 1].into(),
        }
    }

    /// Runs until it is asked to stop.
    pub(super) fn run(&mut self) {
        loop {
            let listener = self.acceptor.listener();
            let ready = ready::wait(&self.bell, listener, &self.providers, self.timeout());
            let Ready { rung, connections, providers } = match ready {
                Ok(ready) => ready,
                // poll fails only if memory is short, which is temporary.
                Err(_) => {
                    std::thread::sleep(DEAF);
                    continue;
                }
            };
            self.settle(
                !connections && providers.iter().all(|signs| !signs.fifo && !signs.connection),
            );
            for (index, signs) in providers.into_iter().enumerate() {
                if signs.fifo {
                    self.providers[index].read_fifo(&mut self.output);
                }
                if signs.connection {
                    self.hear(index);
                }
            }
            self.let_go();
            if connections {
                self.welcome();
            }
            if rung {
                self.bell.answer();
                while let Ok(command) = self.commands.try_recv() {
                    if matches!(command, Command::End) {
                        return self.end();
                    }
                    self.obey(command);
                }
            }
            self.check_timeouts();
        }
    }

    /// How long until something has to be done even if no request arrives.
    fn timeout(&self) -> Option<Duration> {
        if !self.settling.is_empty() {
            return Some(Duration::ZERO);
        }
        let waiting = self.waiting.iter().map(Waiting::deadline);
        let patience = self.options.patience;
        let registering = self.providers.iter().filter_map(|provider| provider.deadline(patience));
        let looking = self.providers.iter().filter_map(Provider::next_poll);
        let others = self.acceptor.paused_until().into_iter().chain(looking);
        let first = waiting.chain(registering).chain(others).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// Answers callers of `settle` when no provider sends, or when one sends all the time.
    fn settle(&mut self, is_silent: bool) {
        self.settling.retain_mut(|(reply, rounds)| {
            *rounds = if is_silent { 0 } else { *rounds - 1 };
            if *rounds == 0 {
                // The requester may have disconnected.
                let _ = reply.send(());
            }
            *rounds > 0
        });
    }

    fn hear(&mut self, index: usize) {
        let others = self.providers.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.map(|(_, other)| other.category_bytes()).sum();
        for _ in 0..MESSAGES {
            let provider = &mut self.providers[index];
            if !provider.is_open() {
                return;
            }
            match provider.read_connection(&mut self.buffer, &mut self.output, others) {
                ConnectionEvent::Nothing => return,
                ConnectionEvent::Other => {}
                ConnectionEvent::Registered => self.start_or_send_idle(index),
                ConnectionEvent::Alert(name) => {
                    let alert = Alert {
                        name,
                        provider: provider.id(),
                        provider_name: provider.name().to_owned(),
                        pid: provider.pid(),
                        time: clock::now(),
                        uid: provider.uid(),
                    };
                    // Alerts that are not received are only counted for the provider.
                    let _ = self.alerts.try_send(alert);
                }
            }
        }
    }

    /// Drops providers whose connection is closed.
    fn let_go(&mut self) {
        for provider in self.providers.extract_if(.., |provider| !provider.is_open()) {
            self.output.forget(provider.id());
            if provider.is_registered() {
                // A provider that has disconnected has no categories that could be selected.
                self.departed
                    .push_back(ProviderStatus { categories: Vec::new(), ..provider.status() });
            } else {
                self.acceptor.count_unregistered();
            }
        }
        let excess = self.departed.len().saturating_sub(MAX_DEPARTED);
        for departed in self.departed.drain(..excess) {
            self.output.forget_name(departed.id);
        }
    }

    /// Accepts waiting connections.
    fn welcome(&mut self) {
        for _ in 0..CONNECTIONS {
            let Some((connection, peer)) = self.acceptor.next() else { return };
            if self.acceptor.lets_in(peer, &self.options, &self.providers) {
                self.last_id += 1;
                let process = self.options.koids.process(peer.pid);
                let id = ProviderId(self.last_id);
                self.providers.push(Provider::new(id, connection, peer, process));
            }
        }
    }

    fn check_timeouts(&mut self) {
        let now = Instant::now();
        self.acceptor.check_timeouts(now);
        let patience = self.options.patience;
        for provider in &mut self.providers {
            if provider.deadline(patience).is_some_and(|deadline| deadline <= now) {
                provider.time_out();
            }
            provider.poll_if_due(now);
        }
        self.let_go();
        self.answer(now);
    }

    /// Answers callers that wait for providers, once all of them have finished or the time has expired.
    fn answer(&mut self, now: Instant) {
        let Some(waiting) = self.waiting.take() else { return };
        let phase = match waiting {
            Waiting::Start { .. } => Phase::Starting,
            Waiting::Stop { .. } => Phase::Stopping,
        };
        let late: Vec<String> = self.in_phase(phase).map(|one| one.name().to_owned()).collect();
        if !late.is_empty() && now < waiting.deadline() {
            self.waiting = Some(waiting);
            return;
        }
        // The waiting thread may have given up.
        match waiting {
            Waiting::Start { reply, .. } => {
                let started = self.in_phase(Phase::Started).count();
                let _ = reply.send(Ok(Started { started, late }));
            }
            Waiting::Stop { write, reply, .. } => {
                for provider in &mut self.providers {
                    provider.finish(&mut self.output);
                }
                if write {
                    self.output.release();
                    self.output.conclude();
                }
                let _ = reply.send(Ok(self.stopped(late)));
            }
        }
    }

    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Provider> {
        self.providers.iter().filter(move |provider| provider.phase() == Some(phase))
    }

    fn stopped(&self, silent: Vec<String>) -> Stopped {
        let of_note =
            |status: &ProviderStatus| status.stats.mode.is_some() || status.fault.is_some();
        let present = self.statuses();
        let providers = self.departed.iter().cloned().chain(present).filter(of_note).collect();
        let forgotten = self.output.forgotten;
        let left_out = self.output.left_out();
        Stopped { providers, silent, refusals: self.acceptor.refusals(), forgotten, left_out }
    }

    fn statuses(&self) -> impl Iterator<Item = ProviderStatus> {
        self.providers.iter().filter(|one| one.is_registered()).map(Provider::status)
    }

    fn obey(&mut self, command: Command) {
        // The requester may have ended.
        match command {
            Command::Start(how, reply) => {
                let (config, options) = *how;
                match self.start(config, options) {
                    Ok(deadline) => self.waiting = Some(Waiting::Start { deadline, reply }),
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Command::Stop { write, timeout, reply } => match self.stop(write) {
                Ok(()) => {
                    let deadline = Instant::now() + timeout;
                    self.waiting = Some(Waiting::Stop { write, deadline, reply });
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Terminate(reply) => {
                self.terminate();
                let _ = reply.send(());
            }
            Command::Providers(reply) => drop(reply.send(self.statuses().collect())),
            Command::Refusals(reply) => drop(reply.send(self.acceptor.refusals())),
            Command::TurnedAway(reply) => drop(reply.send(self.acceptor.turned_away())),
            Command::Sections(reply) => {
                let until = Instant::now() + self.options.copying;
                let live =
                    self.providers.iter_mut().filter_map(|provider| match Instant::now() < until {
                        true => provider.view(),
                        false => provider.pass_over(),
                    });
                let _ = reply.send(self.output.sections(live));
            }
            Command::Rotate { time, between } => self.rotate(time, between.0),
            Command::Settle(reply) => {
                self.providers.iter_mut().for_each(Provider::look_at_spans);
                self.settling.push((reply, SETTLING_ROUNDS));
            }
            Command::End => {}
        }
        self.answer(Instant::now());
    }

    fn end(&mut self) {
        self.providers.iter_mut().for_each(Provider::terminate);
    }
}
