//! A pass over a long trace with two threads: one decodes records, the other computes figures.
//!
//! A switch or wakeup usually fits into 32 bytes. Other records are handed over as bytes, and decoded by a [`Decoder`] that starts with
//! the reader's state at the start of this pass:
//!
//! ```text
//!  Reader -> Feeder: | switch | wakeup | switch, more | record | wakeup | ...   a batch, to the analysis
//!                                             |            |
//!                                    said: | facts |   bytes: | a thread's name | ...
//! ```
//!
//! A few batches circulate. A batch is handed over when it is full, or when the reader has to wait for more of the trace. The analysis gets
//! the same records in the same order as in a pass with one thread, so the results are the same. From a damaged record on, one thread does
//! both, because the reader's state for such a record cannot be handed over.

use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fxt_format::scheduling::context_switch::{INCOMING_WEIGHT_ARG, OUTGOING_WEIGHT_ARG};
use fxt_reader::record::{Args, ContextSwitch, WEIGHT_INFO, Wakeup};
use fxt_reader::{
    Cpu, Decoder, Error, Item, Koid, Nanos, ProviderId, Reader, Record, ThreadState, Visitor,
};
use fxtrec_blame::threads::Recorders;
use fxtrec_sched::{SwitchArgs, UsualArgs, unsigned};

use super::Analysis;
use super::causes::about_wakeup;
use super::records::{FXTREC, SCHED, SeenEvents};

/// The number of batches that circulate.
const BATCHES: usize = 4;

/// A batch is full when it has this many records, or this many bytes of records.
const MOST_FED: usize = 4096;
const MOST_BYTES: usize = 128 * 1024;

/// A switch or a wakeup, or a reference to a record in the bytes.
#[derive(Clone, Copy, Debug)]
struct Fed {
    /// For a record in the bytes: its offset.
    time: u64,
    /// The outgoing or the woken thread. For a record in the bytes: its length.
    thread: u64,
    /// The incoming thread, or the waker.
    other: u64,
    cpu: Cpu,
    /// The system call in which the outgoing thread waits.
    call: u16,
    state: ThreadState,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    /// The outgoing thread waits in a system call.
    SwitchInCall,
    /// The additional facts are the next entry of `said`.
    SwitchWithMore,
    Wakeup,
    /// The wakeup of a thread that a quota holds back.
    ThrottledWakeup,
    /// The next record in the bytes.
    Record,
    /// The bits in `other` describe the content of the trace, in addition to earlier bits.
    SeenEvents,
}

#[derive(Debug, Default)]
struct Batch {
    fed: Vec<Fed>,
    said: Vec<SwitchArgs<'static>>,
    bytes: Vec<u8>,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.fed.len() >= MOST_FED || self.bytes.len() >= MOST_BYTES
    }

    fn clear(&mut self) {
        self.fed.clear();
        self.said.clear();
        self.bytes.clear();
    }
}

/// How a pass with two threads ended.
pub(super) enum Fate {
    /// It did not start, because no thread could be created.
    NoThread,
    /// At the end of the trace.
    End,
    /// At the end of the selected part of the trace.
    Over,
    /// At a damaged record; from here one thread has to continue.
    Damage,
}

/// Passes over the rest of a trace with two threads.
///
/// # Errors
///
/// The errors of [`Reader::next`], except for damage.
pub(super) fn pass(
    reader: &mut Reader<'_>,
    analysis: Analysis<()>,
) -> Result<(Analysis<()>, Fate), Error> {
    let (full, batches) = sync_channel(BATCHES);
    let (give_back, empty) = channel();
    for _ in 0..BATCHES {
        // The receiver exists.
        let _ = give_back.send(Batch::default());
    }
    let decoder = reader.decoder();
    let mut feeder = Feeder {
        batch: Batch::default(),
        full,
        empty,
        usual_args: analysis.usual_args,
        seen: analysis.seen,
        own: analysis.own,
        recorders: analysis.recorders.clone(),
    };
    // The analysis must not be lost if the thread cannot be started.
    let place = Mutex::new(Some(analysis));
    let take = || place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let passed = thread::scope(|scope| {
        let name = "fxtrec-analysis".to_owned();
        let take = &take;
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, move || {
            let analysis = take()?;
            Some(analysis.take_all(decoder, &batches, &give_back))
        });
        let Ok(thread) = thread else { return None };
        let shown = reader.show_all(&mut feeder);
        feeder.hand_over();
        // This ends the stream of batches.
        drop(feeder);
        let analysed = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        analysed.map(|(analysis, is_over)| (analysis, is_over, shown))
    });
    let Some((analysis, is_over, shown)) = passed else {
        let analysis = take().unwrap_or_else(|| unreachable!("nobody has taken it"));
        return Ok((analysis, Fate::NoThread));
    };
    // The reader may have continued for a while after the end of the selected part.
    let fate = match shown {
        _ if is_over => Fate::Over,
        Ok(_) => Fate::End,
        Err(Error::Damaged(_)) => Fate::Damage,
        Err(error) => return Err(error),
    };
    Ok((analysis, fate))
}

/// Collects records into batches.
struct Feeder {
    batch: Batch,
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    /// The state of the analysis at this record.
    usual_args: UsualArgs,
    seen: SeenEvents,
    own: Option<ProviderId>,
    recorders: Recorders,
}

impl Visitor for Feeder {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        match &item.record {
            Record::ContextSwitch(switch) => self.switch(item, switch),
            Record::Wakeup(wakeup) => self.wakeup(wakeup),
            _ => self.other(item),
        }
    }

    fn dry(&mut self) {
        self.hand_over();
    }
}

impl Feeder {
    #[inline(always)]
    fn push(&mut self, fed: Fed) -> bool {
        self.batch.fed.push(fed);
        !self.batch.is_full() || self.hand_over()
    }

    /// Hands over the current batch. Returns false when the analysis needs no more records.
    #[cold]
    fn hand_over(&mut self) -> bool {
        if self.batch.fed.is_empty() {
            return true;
        }
        let Ok(empty) = self.empty.recv() else { return false };
        self.full.send(mem::replace(&mut self.batch, empty)).is_ok()
    }

    #[inline(always)]
    fn switch(&mut self, item: &Item<'_>, switch: &ContextSwitch<'_>) -> bool {
        let fed = Fed {
            time: switch.time.0,
            thread: switch.outgoing.0,
            other: switch.incoming.0,
            cpu: switch.cpu,
            call: 0,
            state: switch.outgoing_state,
            kind: Kind::Switch,
        };
        if switch.args.len() > self.usual_args.of_switch {
            return self.switch_with_more(item, fed, switch.args);
        }
        self.push(fed)
    }

    #[inline(never)]
    fn switch_with_more(&mut self, item: &Item<'_>, fed: Fed, args: Args<'_>) -> bool {
        match only_call(args) {
            Some(None) => return self.push(fed),
            Some(Some(call)) => {
                return self.push(Fed { kind: Kind::SwitchInCall, call, ..fed });
            }
            None => {}
        }
        match lasting(&SwitchArgs::of(args)) {
            Some(said) => {
                self.batch.said.push(said);
                self.push(Fed { kind: Kind::SwitchWithMore, ..fed })
            }
            None => self.record(item),
        }
    }

    #[inline(always)]
    fn wakeup(&mut self, wakeup: &Wakeup<'_>) -> bool {
        let (waker, throttled) = match wakeup.args.len() > self.usual_args.of_wakeup {
            true => more_about(wakeup.args),
            false => (0, false),
        };
        self.push(Fed {
            time: wakeup.time.0,
            thread: wakeup.koid.0,
            other: waker,
            cpu: wakeup.cpu,
            call: 0,
            state: ThreadState::Running,
            kind: if throttled { Kind::ThrottledWakeup } else { Kind::Wakeup },
        })
    }

    #[inline(never)]
    fn other(&mut self, item: &Item<'_>) -> bool {
        match &item.record {
            Record::Event(event)
                if matches!(event.category, FXTREC | SCHED)
                    && self.recorders.have(item.provider) =>
            {
                if (event.category, event.name) == (FXTREC, WEIGHT_INFO) {
                    self.usual_args = UsualArgs::WITHOUT_WEIGHTS;
                }
                self.record(item)
            }
            Record::Event(event) => {
                let seen = self.seen.with(SeenEvents::of(event.kind, item.provider, self.own));
                let is_known = seen == self.seen;
                self.seen = seen;
                is_known
                    || self.push(Fed { kind: Kind::SeenEvents, other: seen.0.into(), ..NOTHING })
            }
            Record::ProviderInfo(info) => {
                if info.name == FXTREC {
                    self.own = Some(info.id);
                    self.recorders.introduce(info.id);
                }
                self.record(item)
            }
            // Records that an analysis uses, and records that others refer to.
            Record::LegacyContextSwitch(_)
            | Record::KernelObject(_)
            | Record::ProviderSection(_)
            | Record::ProviderEvent(_)
            | Record::Initialization(_)
            | Record::String(_)
            | Record::Thread(_) => self.record(item),
            _ => true,
        }
    }

    /// Hands over the bytes of the record.
    fn record(&mut self, item: &Item<'_>) -> bool {
        let bytes = item.raw.bytes();
        self.batch.bytes.extend_from_slice(bytes);
        let (time, thread) = (item.offset, bytes.len() as u64);
        self.push(Fed { time, thread, kind: Kind::Record, ..NOTHING })
    }
}

const NOTHING: Fed = Fed {
    time: 0,
    thread: 0,
    other: 0,
    cpu: Cpu(0),
    call: 0,
    state: ThreadState::Running,
    kind: Kind::SeenEvents,
};

/// The number of the system call that a switch names, if it has no other arguments except weights. `None` if it may have other facts.
#[inline(always)]
fn only_call(args: Args<'_>) -> Option<Option<u16>> {
    let mut call = None;
    for arg in &args {
        match arg.name {
            INCOMING_WEIGHT_ARG | OUTGOING_WEIGHT_ARG => {}
            "syscall" => call = Some(u16::try_from(unsigned(arg.value)?).ok()?),
            _ => return None,
        }
    }
    Some(call)
}

/// The record without borrowed data, if that data is not needed for figures.
fn lasting(said: &SwitchArgs<'_>) -> Option<SwitchArgs<'static>> {
    const LETTERS: [&str; 9] = ["S", "D", "I", "P", "T", "t", "X", "Z", "R"];
    let detail = match said.detail {
        Some(letters) => Some(*LETTERS.iter().find(|known| **known == letters)?),
        None => None,
    };
    let SwitchArgs { inferred, steal, irq, irqs, need_resched, throttled, held, syscall, .. } =
        *said;
    let none = SwitchArgs::default();
    let lasting = SwitchArgs {
        detail,
        inferred,
        steal,
        irq,
        irqs,
        need_resched,
        throttled,
        held,
        syscall,
        ..none
    };
    said.held_by.is_none().then_some(lasting)
}

#[inline(never)]
fn more_about(args: Args<'_>) -> (u64, bool) {
    about_wakeup(args)
}

impl Analysis<()> {
    /// Takes all batches. Returns true at the end of the selected part of the trace.
    fn take_all(
        mut self,
        mut decoder: Decoder,
        batches: &Receiver<Batch>,
        give_back: &Sender<Batch>,
    ) -> (Analysis<()>, bool) {
        while let Ok(mut batch) = batches.recv() {
            if !self.take_batch(&batch, &mut decoder) {
                return (self, true);
            }
            batch.clear();
            // The feeder may have ended.
            let _ = give_back.send(batch);
        }
        (self, false)
    }

    fn take_batch(&mut self, batch: &Batch, decoder: &mut Decoder) -> bool {
        let (mut said, mut rest) = (batch.said.iter(), batch.bytes.as_slice());
        for fed in &batch.fed {
            let goes_on = match fed.kind {
                Kind::Switch => self.fed_switch(fed, None, decoder),
                Kind::SwitchInCall => {
                    let syscall = Some(u64::from(fed.call));
                    self.fed_switch_with_more(
                        fed,
                        &SwitchArgs { syscall, ..SwitchArgs::default() },
                        decoder,
                    )
                }
                Kind::SwitchWithMore => {
                    let Some(said) = said.next() else { unreachable!("each of them has one") };
                    self.fed_switch_with_more(fed, said, decoder)
                }
                Kind::Wakeup => self.fed_wakeup(fed, false, decoder),
                Kind::ThrottledWakeup => self.fed_wakeup(fed, true, decoder),
                Kind::Record => {
                    let (bytes, behind) = rest.split_at(fed.thread as usize);
                    rest = behind;
                    self.fed_record(fed.time, bytes, decoder)
                }
                Kind::SeenEvents => {
                    self.seen = self.seen.with(SeenEvents(fed.other as u8));
                    true
                }
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn fed_switch(&mut self, fed: &Fed, said: Option<&SwitchArgs<'_>>, decoder: &Decoder) -> bool {
        self.written_by(decoder.provider());
        if !self.advance(Nanos(fed.time)) {
            return false;
        }
        let (out, inn) = (self.side(Koid(fed.thread)), self.side(Koid(fed.other)));
        self.switch(fed.cpu, out, inn, fed.state, said);
        true
    }

    #[inline(never)]
    fn fed_switch_with_more(
        &mut self,
        fed: &Fed,
        said: &SwitchArgs<'_>,
        decoder: &Decoder,
    ) -> bool {
        self.fed_switch(fed, Some(said), decoder)
    }

    #[inline(always)]
    fn fed_wakeup(&mut self, fed: &Fed, throttled: bool, decoder: &Decoder) -> bool {
        self.written_by(decoder.provider());
        if !self.advance(Nanos(fed.time)) {
            return false;
        }
        self.wake(fed.cpu, fed.thread, (fed.other, throttled));
        true
    }

    #[inline(never)]
    fn fed_record(&mut self, offset: u64, bytes: &[u8], decoder: &mut Decoder) -> bool {
        match decoder.decode(offset, bytes) {
            Ok(item) => self.take(&item),
            Err(damage) => unreachable!("the reader has read it: {damage}"),
        }
    }
}
