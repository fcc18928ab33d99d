//! Flight recording: keeps the last events in memory until a trigger fires.
//!
//! In circular mode the engine overwrites its older half when the newer one is full. Names must not be overwritten together with it, so
//! they are never written into the engine: the encoder keeps the names of live threads, and those of dead threads as long as the engine can
//! still hold their events.
//!
//! ```text
//!  capture thread     ... round, round: a trigger fires ... round: what comes after it is there too ... round, round ...
//!                                                                  | copy of the buffers
//!  snapshot thread                                                 +--> window --> app.1.fxt --> news
//!  main thread                                                                                   +--> standard error
//! ```
//!
//! Writing a snapshot removes nothing from the engine, because the next trigger may need the same history. During the copy, which takes as
//! long as copying that much memory, the kernel's rings hold new events. Another thread compresses and writes it.

mod held;
mod hook;
pub(super) mod snapshots;

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use fxt_writer::engine::{BufferDisposition, Engine};
use fxt_writer::packet::Packet;

use super::describe::Beginning;
use super::providers::Providers;
use super::round::{Round, interim};
use crate::capture::event_pump::BatchedLanes;
use crate::commands::plan::flight::Window;
use crate::encode::encoder::Encoder;
use crate::encode::encoder::watch::expression;
use crate::encode::moment::rewind::rewind;
use crate::flight::watch::{Fired, Watch};
use crate::kernel::clock;
use crate::units::Nanos;
use held::Held;
use snapshots::{Cause, Records, Shot};

/// Maximum number of windows that wait to be written.
const MOST_PENDING: usize = 64;

/// After this number of ring reads, all events before a given time have been passed on: one read that may have begun earlier, one that gets
/// the events, and one that passes them on.
const LOOKS: u8 = 3;

/// The data that the capture thread needs in circular mode.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) beginning: Arc<Beginning>,
    pub(super) window: Window,
    /// A snapshot is requested now.
    pub(super) asked: Receiver<()>,
    /// The channel to the thread that writes snapshots; it takes one at a time.
    pub(super) shots: Sender<Shot>,
    held: Held,
    pending: VecDeque<Pending>,
}

/// A window that has not ended.
#[derive(Debug)]
struct Pending {
    /// The triggers that fired; empty for a requested snapshot.
    cause: Option<Cause>,
    at: Nanos,
    /// How often the rings were read since the window ended.
    looks: u8,
}

impl Flight {
    pub(super) fn new(
        beginning: Arc<Beginning>,
        window: Window,
        asked: Receiver<()>,
        shots: Sender<Shot>,
    ) -> Flight {
        let (held, pending) = (Held::default(), VecDeque::new());
        Flight { beginning, window, asked, shots, held, pending }
    }

    /// Called after a round of events: releases data that is no longer needed, and passes on the window that has ended.
    pub(super) fn after_round(&mut self, mut round: Round<'_>) {
        if let Some(header) = round.engine.header() {
            self.held.follow(header.wrapped_count, round.before);
        }
        let since = self.held.since();
        let known_since = match round.stacks.as_deref_mut() {
            Some(stacks) => {
                stacks.forget_before(since);
                since.min(stacks.known_since(round.ended))
            }
            None => since,
        };
        round.encoder.forget_departed(known_since);
        self.gather(round.encoder);
        let (ended, now) = (round.ended, clock::now());
        let after = self.window.after;
        let Some(first) = self.pending.front_mut() else { return };
        // The last snapshot is still being written.
        if !first.is_over(after, ended, now) || self.shots.is_full() {
            return;
        }
        let records = Arc::new(records(round));
        self.hand_out_first(&records);
    }

    /// At the end of the recording, passes on the recorded parts of all windows.
    pub(super) fn conclude(&mut self, round: Round<'_>) {
        self.gather(round.encoder);
        if self.pending.is_empty() {
            return;
        }
        let records = Arc::new(records(round));
        while !self.pending.is_empty() {
            self.hand_out_first(&records);
        }
    }

    /// Notes which triggers have fired, and which snapshots were requested.
    fn gather(&mut self, encoder: &mut Encoder<BatchedLanes>) {
        while self.pending.len() < MOST_PENDING && self.asked.try_recv().is_ok() {
            self.pending.push_back(Pending { cause: None, at: clock::now(), looks: 0 });
        }
        let Some(watch) = encoder.watch() else { return };
        let fired: Vec<Fired> = watch.take_fired().collect();
        for fired in fired {
            let (at, line) = (fired.time, describe_fired(watch, &fired));
            let cause = Some(Cause { expression: expression(watch, &fired), line, fired });
            self.pending.push_back(Pending { cause, at, looks: 0 });
        }
        watch.set_busy(self.pending.len() >= MOST_PENDING);
    }

    fn hand_out_first(&mut self, records: &Arc<Records>) {
        let Some(Pending { cause, at, .. }) = self.pending.pop_front() else { return };
        // The thread that writes snapshots ends after this one.
        let _ = self.shots.send(Shot { cause, at, records: records.clone() });
    }

    /// The records before the engine's `packets` in a file: the head of a trace, names, and the state of the machine at their beginning.
    pub(super) fn beginning(
        &self,
        engine: &Engine,
        packets: &[Packet],
        encoder: &mut Encoder<BatchedLanes>,
        ended: Nanos,
    ) -> Vec<u8> {
        let (names, now) = (encoder.names(), encoder.present());
        let head = self.beginning.head_at(ended);
        let views: Vec<_> = packets.iter().filter_map(|packet| engine.view(*packet).ok()).collect();
        let pieces: Vec<_> = views.iter().flat_map(|view| view.slices()).collect();
        // fxtrec can read its own output; if that ever fails, the file begins without a state.
        let begun = rewind(&head, &pieces, &now).unwrap_or_default();
        let (begin, moment) = begun.unwrap_or((ended, now));
        snapshots::opening(&self.beginning, begin, &names, (begin, &moment))
    }
}

impl Pending {
    /// Whether all events up to `after` the window's end have been passed on. Events up to `ended` have been passed on.
    fn is_over(&mut self, after: Nanos, ended: Nanos, now: Nanos) -> bool {
        let end = Nanos(self.at.0.saturating_add(after.0));
        if ended > end {
            return true;
        }
        // On an idle machine, no event shows that the time has passed.
        self.looks += u8::from(now > end && self.looks < LOOKS);
        self.looks >= LOOKS
    }
}

/// A copy of the contents of the engine and of the buffers of applications. The recording continues unchanged.
fn records(round: Round<'_>) -> Records {
    let Round { engine, encoder, source, providers, stacks, ended, .. } = round;
    let ending = interim(encoder, source, ended);
    // If the trace accepts no more records, the recording ends by itself.
    let mut explained = Vec::new();
    if let Some(stacks) = stacks {
        let _ = stacks.write_all(encoder, ended);
        let _ = stacks.explain(encoder.recorder(), ended, |piece| explained.push(piece));
    }
    encoder.lanes().commit();
    let overwritten = engine.header().is_some_and(|header| header.wrapped_count > 1);
    let mut buffers = Vec::new();
    for packet in engine.finish() {
        if let Ok(view) = engine.view(packet) {
            buffers.reserve_exact(view.bytes());
            view.slices().for_each(|slice| buffers.extend_from_slice(slice));
        }
    }
    // No view is alive, and only this thread writes.
    let started = engine.start(BufferDisposition::Retain);
    debug_assert!(started.is_ok(), "{started:?}");
    let (names, now) = (encoder.names(), encoder.present());
    let sections = providers.map(Providers::sections).unwrap_or_default();
    Records { names, buffers, stacks: explained, now, ending, overwritten, sections }
}

fn describe_fired(watch: &Watch, fired: &Fired) -> String {
    let trigger = &watch.triggers()[fired.trigger];
    let value = fired.value.map(|value| value.to_string());
    let cpu = fired.cpu.map(|cpu| format!(" on CPU {}", cpu.0)).unwrap_or_default();
    let amount = value.as_ref().map(|value| format!(", {value}")).unwrap_or_default();
    match (fired.thread, &fired.from) {
        (Some(thread), _) => {
            let comm = fxt_writer::text::clean(thread.comm.as_bytes()).into_owned();
            format!("trigger {trigger}: {comm} ({}){cpu}{amount}", thread.tid.0)
        }
        (None, Some(from)) => format!("trigger {trigger}: {from}{amount}"),
        (None, None) => {
            let value = value.unwrap_or_default();
            let events = if value == "1" { "event" } else { "events" };
            format!("trigger {trigger}: {value} {events} lost{cpu}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(at: u64) -> Pending {
        Pending { cause: None, at: Nanos(at), looks: 0 }
    }

    #[test]
    fn a_window_is_over_when_an_event_is_behind_its_end() {
        let mut pending = pending(100);
        let over =
            |pending: &mut Pending, ended| pending.is_over(Nanos(50), Nanos(ended), Nanos(ended));
        assert!(!over(&mut pending, 120));
        assert!(!over(&mut pending, 150), "another may follow at the same time");
        assert!(over(&mut pending, 151));
    }

    #[test]
    fn without_events_it_is_over_after_so_many_looks_as_hand_everything_out() {
        let mut pending = pending(100);
        let mut look = |now| pending.is_over(Nanos(50), Nanos(90), Nanos(now));
        assert_eq!([140, 150, 160, 170].map(&mut look), [false; 4]);
        assert!(look(180));
    }
}
