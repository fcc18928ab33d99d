//! What passes with each event: from a source through the encoder into the engine.

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

/// The engine's two lanes, as the encoder knows them: writes into an engine, and waits where the engine's policy is to wait.
///
/// Records go into the rolling buffers in batches, which cost a fraction of lone ones. [`BatchedLanes::commit`] ends a
/// batch: before anything waits for the engine, or for events.
#[derive(Debug)]
pub struct BatchedLanes {
    batch: Batch<Arc<Engine>>,
    /// Whether names go into the engine; in circular mode they are kept elsewhere, since they would be overwritten.
    takes_names: bool,
}

impl BatchedLanes {
    pub fn new(engine: Arc<Engine>, takes_names: bool) -> BatchedLanes {
        BatchedLanes { batch: Batch::shared(engine), takes_names }
    }

    /// Makes all records so far part of the buffer.
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
        // Where there is no room the engine waits for a rolling buffer to be saved, which must not wait for the batch.
        self.commit();
        record.write(&mut self.batch.engine().durable())
    }

    // So that the compiler sees of which sort the record's arguments are: a call has them in memory.
    #[inline(always)]
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        record.write(&mut self.batch)
    }
}

/// Takes events off a source and into the encoder.
#[derive(Debug)]
pub struct EventPump {
    /// When the last event happened.
    pub ended: Nanos,
    /// Whether the engine takes records.
    pub open: bool,
    pub losses: LossWatch,
    /// The last event of each CPU, behind which a loss lies.
    seen: Vec<Nanos>,
}

impl EventPump {
    pub fn new(begin: Nanos, losses: LossWatch) -> EventPump {
        EventPump { ended: begin, open: true, losses, seen: Vec::new() }
    }

    /// What the rings hold by now, as far as it is in order.
    pub fn round(&mut self, source: &mut dyn Source, encoder: &mut Encoder<BatchedLanes>) {
        source.round(&mut |time, cpu, event, bytes| self.take(encoder, time, cpu, event, bytes));
        encoder.lanes().commit();
    }

    /// Stops the events, and takes all that are left.
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

    /// Notes an event, and a loss, to find the cause of the latter.
    #[inline]
    fn see(&mut self, time: Nanos, cpu: Cpu, event: &Event) {
        // A loss of unknown size has its cause in its name: the CPU was not there to be recorded.
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
