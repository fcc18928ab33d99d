//! Passes each event from a source through the encoder into the engine.

use std::sync::Arc;

use fxt_writer::WriteError;
use fxt_writer::engine::{Batch, Engine, Full};
use fxt_writer::lanes::Lanes;
use fxt_writer::record::Record;
use fxtrec_units::{Cpu, Nanos};

use crate::encode::encoder::Encoder;
use crate::event::{Event, Kind, Loss, LostOthers};
use crate::losses::LossWatch;
use crate::source::Source;

/// The engine's two lanes for the encoder: writes into an engine, and waits if the engine's policy is to wait.
///
/// Records are written to the rolling buffers in batches, which cost a fraction of single writes. [`BatchedLanes::commit`] ends a batch:
/// call it before anything waits for the engine, or for events.
#[derive(Debug)]
pub struct BatchedLanes {
    batch: Batch<Arc<Engine>>,
    /// Whether names are written into the engine. In circular mode they are kept separately, because they would be overwritten there.
    takes_names: bool,
}

impl BatchedLanes {
    pub fn new(engine: Arc<Engine>, takes_names: bool) -> BatchedLanes {
        BatchedLanes { batch: Batch::shared(engine), takes_names }
    }

    /// Makes all records so far visible in the buffer.
    pub fn commit(&mut self) {
        self.batch.close();
    }
}

impl Lanes for BatchedLanes {
    type Full = Full;

    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        if !self.takes_names {
            return Ok(());
        }
        // If there is no room, the engine waits until a rolling buffer is saved, and that must not wait for the batch.
        self.commit();
        record.write(&mut self.batch.engine().durable())
    }

    // Inlined so that the compiler knows the kinds of the record's arguments; a call would pass them in memory.
    #[inline(always)]
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        record.write(&mut self.batch)
    }
}

/// Passes events from a source to the encoder.
#[derive(Debug)]
pub struct EventPump {
    /// Time of the last event.
    pub ended: Nanos,
    /// Whether the engine takes records.
    pub open: bool,
    pub losses: LossWatch,
    /// Time of the last event of each CPU: a loss occurred after it.
    seen: Vec<Nanos>,
}

impl EventPump {
    pub fn new(begin: Nanos, losses: LossWatch) -> EventPump {
        EventPump { ended: begin, open: true, losses, seen: Vec::new() }
    }

    /// Passes on the part of the rings' current content whose order is final.
    pub fn round(&mut self, source: &mut dyn Source, encoder: &mut Encoder<BatchedLanes>) {
        source.round(&mut |time, cpu, event, bytes| self.take(encoder, time, cpu, event, bytes));
        encoder.lanes().commit();
    }

    /// Stops the events, and passes on all remaining ones.
    pub fn rest(&mut self, source: &mut dyn Source, encoder: &mut Encoder<BatchedLanes>) {
        source.finish(&mut |time, cpu, event, bytes| self.take(encoder, time, cpu, event, bytes));
    }

    #[inline]
    fn take(
        &mut self,
        encoder: &mut Encoder<BatchedLanes>,
        time: Nanos,
        cpu: Cpu,
        event: &Event,
        bytes: &[u8],
    ) -> bool {
        self.ended = time;
        self.see(time, cpu, event);
        self.open = self.open && encoder.event(time, cpu, event, bytes).is_ok();
        self.open
    }

    /// Stores the time of an event, and passes a loss on to find its cause.
    #[inline]
    fn see(&mut self, time: Nanos, cpu: Cpu, event: &Event) {
        // A loss of unknown size needs no search for its cause: the CPU could not be recorded before.
        if let Kind::Lost(Loss { events: Some(count @ 1..), .. })
        | Kind::LostOthers(LostOthers { count: count @ 1.., .. }) = event.kind
        {
            let from = self.seen.get(cpu.0 as usize).map_or(Nanos(0), |seen| (*seen).min(time));
            self.losses.lost(cpu, from..time, count);
        }
        match self.seen.get_mut(cpu.0 as usize) {
            Some(seen) => *seen = time,
            None => self.first_of(cpu, time),
        }
    }

    #[cold]
    fn first_of(&mut self, cpu: Cpu, time: Nanos) {
        self.seen.resize(cpu.0 as usize + 1, time);
    }
}
