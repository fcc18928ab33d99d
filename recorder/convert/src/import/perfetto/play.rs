//! Converts the sorted items of a trace into fxtrec's events.

use std::io::Write;

use rustc_hash::FxHashMap;

use super::Decoder;
use super::item::{Comms, Item, Side, Wake as Woken};
use super::spans::Spans;
use crate::import::ftrace_text::state_of_bits;
use crate::import::importer::Importer;
use crate::{ConvertError, Report};
use fxtrec_capture::event::{Kind, Life, LocalId, Loss, Switch, Taken, Wake, WakeKind, Waker};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_kernel::progress::Progress;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The thread on a CPU, and the time that interrupts take from it.
#[derive(Debug, Default)]
struct Seat {
    /// The thread that was switched in last, if nothing was lost since.
    last: Option<Side>,
    /// Whether the beginning of the current slice was recorded.
    whole: bool,
    /// The nesting depth of interrupts, and the beginning of the outermost one.
    depth: u32,
    since: u64,
    /// The time that interrupts took from the slice, and their number.
    taken: u64,
    count: u32,
}

/// The state while items are played.
struct Player<W: Write> {
    importer: Importer<W>,
    comms: Comms,
    spans: Spans,
    seats: FxHashMap<u16, Seat>,
    /// The current system call of each thread.
    calls: FxHashMap<u32, u16>,
    /// When each thread left its CPU and where it was blocked, if the trace has the functions in which threads block.
    left: FxHashMap<u32, u64>,
    blocked: FxHashMap<u32, (u64, u32)>,
    has_blocked: bool,
    /// Whether the only wakeup events are `sched_waking`, written when a waker begins.
    only_wakings: bool,
    /// Whether compact wakeups do not have their CPU.
    has_gathered_wakings: bool,
    has_interrupts: bool,
    /// Whether states have the bits from before Linux 4.14.
    old_states: bool,
    gaps: FxHashMap<u16, u64>,
    overruns: FxHashMap<u16, (u64, u64)>,
}

/// Plays all items into a trace.
pub(super) fn play(
    mut decoder: Decoder,
    progress: Progress,
    output: &mut dyn Write,
) -> Result<Report, ConvertError> {
    let mut importer = Importer::new(output, decoder.origin());
    decoder.introduce(&mut importer);
    decoder.name_main_threads();
    importer.report = std::mem::take(&mut decoder.report);
    if decoder.switches == 0 {
        importer.report.note(
            "no sched_switch in the trace: which threads ran and which waited is unknown".into(),
        );
    }
    let has_gathered_wakings = decoder.has_gathered_wakings();
    if has_gathered_wakings {
        let note =
            "the trace does not say on which CPU each wakeup happened, so wakers are unknown";
        importer.report.note(note.into());
    }
    let mut suspensions = decoder.clocks.to_monotonic();
    let mut sorted = decoder.sorter.sorted(progress).map_err(ConvertError::Write)?;
    let mut player = Player {
        importer,
        comms: decoder.comms,
        spans: Spans::new(decoder.tracks, decoder.threads, decoder.code, decoder.switches > 0),
        seats: FxHashMap::default(),
        calls: FxHashMap::default(),
        left: FxHashMap::default(),
        blocked: FxHashMap::default(),
        has_blocked: decoder.stacks & 1 != 0,
        only_wakings: !decoder.has_wakeups,
        has_gathered_wakings,
        has_interrupts: decoder.interrupts.0 && decoder.interrupts.1,
        old_states: decoder.release.as_deref().is_some_and(is_old),
        gaps: decoder.gaps,
        overruns: decoder.overruns,
    };
    let mut begun = false;
    while let Some((key, bytes)) = sorted.next().map_err(ConvertError::Read)? {
        let Some(item) = Item::take(bytes) else { continue };
        let time = suspensions.monotonic(key.time);
        if !std::mem::replace(&mut begun, true) {
            player.overrun_before(time)?;
        }
        player.item(time, item)?;
    }
    player.importer.finish()
}

fn on(cpu: u16) -> Cpu {
    Cpu(cpu.into())
}

/// Whether a release of Linux is before 4.14.
fn is_old(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let (Some(major), minor) = (numbers.next(), numbers.next().unwrap_or(0)) else { return false };
    (major, minor) < (4, 14)
}

/// The state for these bits of a switch.
fn state_of(bits: u32, old: bool) -> PrevState {
    const UNKNOWN: PrevState = PrevState { letter: PrevState::UNKNOWN, preempted: false };
    if !old {
        return state_of_bits(i64::from(bits)).unwrap_or(UNKNOWN);
    }
    // The bit of dead threads was different, some states were removed later, and the bit of preempted threads was higher.
    const PREEMPTED: u32 = 0x800 | 0x1000;
    const LETTERS: [(u32, char); 11] = [
        (0x01, 'S'),
        (0x02, 'D'),
        (0x04, 'T'),
        (0x08, 't'),
        (0x10, 'Z'),
        (0x20, 'X'),
        (0x40, 'x'),
        (0x80, 'K'),
        (0x100, 'W'),
        (0x200, 'P'),
        (0x400, 'N'),
    ];
    match LETTERS.iter().find(|(bit, _)| bits & bit != 0) {
        Some((_, letter)) => PrevState { letter: *letter, preempted: false },
        None => PrevState { letter: 'R', preempted: bits & PREEMPTED != 0 },
    }
}

impl<W: Write> Player<W> {
    /// Events that a ring lost without any mark in a bundle were lost before the first one that was read.
    fn overrun_before(&mut self, time: u64) -> Result<(), ConvertError> {
        let silent = self.overruns.keys().filter(|cpu| !self.gaps.contains_key(cpu));
        let mut cpus: Vec<(u16, u64)> =
            silent.filter_map(|cpu| Some((*cpu, self.overrun(*cpu)?))).collect();
        cpus.sort_unstable();
        for (cpu, count) in cpus {
            self.importer.event(Nanos(time), on(cpu), Kind::Lost(Loss::at_most(count)))?;
        }
        Ok(())
    }

    fn overrun(&self, cpu: u16) -> Option<u64> {
        let (begin, end) = self.overruns.get(&cpu)?;
        end.checked_sub(*begin).filter(|count| *count > 0)
    }

    fn item(&mut self, time: u64, item: Item<'_>) -> Result<(), ConvertError> {
        let at = Nanos(time);
        match item {
            Item::Switch { cpu, prev, state, next } => self.switch(time, cpu, prev, state, next),
            Item::Wake { cpu, kind, current, interrupt, target, woken } => {
                self.wake(time, (cpu, current), (kind, interrupt), target, woken)
            }
            Item::Lost { cpu } => self.lost(at, cpu),
            Item::Begin { tid, parent, same_process, comm } => {
                self.calls.remove(&tid);
                let (parent, elsewhere) = (Tid(parent), false);
                let begin = Life::Begin { tid: Tid(tid), parent, same_process, elsewhere };
                self.importer.event(at, Cpu(0), Kind::Life(begin))?;
                self.rename(at, tid, comm)
            }
            Item::Rename { tid, comm } => self.rename(at, tid, comm),
            Item::End { tid } => {
                self.importer.event(at, Cpu(0), Kind::Life(Life::End { tid: Tid(tid) }))
            }
            Item::Moved { tid, from, to } => {
                let moved = Kind::Moved { tid: Tid(tid), from: on(from), to: on(to) };
                self.importer.event(at, on(from), moved)
            }
            Item::Interrupt { cpu, soft, begins, number, name } => {
                self.count_interrupt(time, cpu, begins);
                let line = (soft, number);
                self.spans.interrupt(at, cpu, line, begins.then_some(name), &mut self.importer)
            }
            Item::SystemCall { tid, number } => {
                match number {
                    Some(number) => self.calls.insert(tid, number),
                    None => self.calls.remove(&tid),
                };
                Ok(())
            }
            Item::Blocked { tid, stack } => {
                if let Some(since) = self.left.get(&tid) {
                    self.blocked.insert(tid, (*since, stack));
                }
                Ok(())
            }
            Item::Power { cpu, frequency, value } => {
                self.spans.power(at, cpu, (frequency, value), &mut self.importer)
            }
            Item::Print { tid, text } => {
                self.spans.print(at, tid, text, &self.comms, &mut self.importer)
            }
            Item::Track { kind, track, thread, content } => self.spans.event(
                at,
                (kind, track, thread),
                content,
                &self.comms,
                &mut self.importer,
            ),
            Item::Sample { tid, stack, kind, error, .. } => self.spans.stack(
                (at, at),
                tid,
                stack,
                (kind, error),
                &self.comms,
                &mut self.importer,
            ),
        }
    }

    fn rename(&mut self, at: Nanos, tid: u32, comm: u32) -> Result<(), ConvertError> {
        if comm == 0 {
            return Ok(());
        }
        let comm = self.comms.get(comm);
        self.importer.event(at, Cpu(0), Kind::Life(Life::Rename { tid: Tid(tid), comm }))
    }

    fn lost(&mut self, at: Nanos, cpu: u16) -> Result<(), ConvertError> {
        // Their number is known if all were lost at once.
        let count = self.overrun(cpu).filter(|_| self.gaps.get(&cpu) == Some(&1));
        self.seats.insert(cpu, Seat::default());
        // The ends of system calls may be among them.
        self.calls.clear();
        self.spans.lost(at, cpu, &mut self.importer)?;
        let loss = count.map_or(Loss::unknown(), Loss::at_most);
        self.importer.event(at, on(cpu), Kind::Lost(loss))
    }

    fn count_interrupt(&mut self, time: u64, cpu: u16, begins: bool) {
        let seat = self.seats.entry(cpu).or_default();
        if begins {
            if seat.depth == 0 {
                seat.since = time;
            }
            seat.depth = seat.depth.saturating_add(1);
            seat.count = seat.count.saturating_add(1);
        } else if seat.depth > 0 {
            seat.depth -= 1;
            if seat.depth == 0 {
                seat.taken = seat.taken.saturating_add(time.saturating_sub(seat.since));
            }
        }
    }

    fn switch(
        &mut self,
        time: u64,
        cpu: u16,
        prev: Option<Side>,
        state: u32,
        next: Side,
    ) -> Result<(), ConvertError> {
        let at = Nanos(time);
        let state = state_of(state, self.old_states);
        let seat = self.seats.entry(cpu).or_default();
        let prev = prev.or(seat.last);
        seat.last = Some(next);
        if self.has_interrupts {
            if seat.depth > 0 {
                // The rest belongs to the next slice.
                seat.taken = seat.taken.saturating_add(time.saturating_sub(seat.since));
                seat.since = time;
            }
            let (irq, irqs) = (Nanos(seat.taken), seat.count);
            (seat.taken, seat.count) = (0, 0);
            if std::mem::replace(&mut seat.whole, true) && irqs > 0 {
                let taken = Taken { irq, irqs, asked: None };
                self.importer.event(at, on(cpu), Kind::Taken(taken))?;
            }
        }
        let next_comm = self.comms.get(next.comm);
        let Some(prev) = prev else {
            // The outgoing thread is unknown.
            self.importer.named(Tid(next.tid), next_comm);
            let (pid, tid) = (LocalId(next.tid), LocalId(next.tid));
            return self.importer.event(at, on(cpu), Kind::Running { pid, tid });
        };
        if self.has_blocked && state.letter != 'R' {
            self.left.insert(prev.tid, time);
        }
        let syscall = match state.letter {
            'R' => None,
            _ => self.calls.get(&prev.tid).copied(),
        };
        let switch = Switch {
            prev: Tid(prev.tid),
            next: Tid(next.tid),
            prev_prio: prev.prio,
            next_prio: next.prio,
            state,
            syscall,
            in_scope: None,
            prev_comm: self.comms.get(prev.comm),
            next_comm,
        };
        self.importer.event(at, on(cpu), Kind::Switch(switch))?;
        if self.has_blocked
            && let Some((since, stack)) = self.blocked.remove(&next.tid)
        {
            let about = (0, false);
            self.spans.stack(
                (at, Nanos(since)),
                next.tid,
                stack,
                about,
                &self.comms,
                &mut self.importer,
            )?;
        }
        Ok(())
    }

    fn wake(
        &mut self,
        time: u64,
        (cpu, current): (u16, Option<u32>),
        (kind, interrupt): (Woken, Option<bool>),
        target: u16,
        woken: Side,
    ) -> Result<(), ConvertError> {
        let is_compact = current.is_none();
        let last = |seat: &Seat| seat.last.map(|last| last.tid);
        let seat = self.seats.get(&cpu);
        let interrupt = interrupt
            .or_else(|| self.has_interrupts.then(|| seat.is_some_and(|seat| seat.depth > 0)));
        let here = current.or_else(|| seat.and_then(last)).map(|tid| (cpu, tid));
        // The wakeup is known, but not the thread that ran there.
        let elsewhere = || self.seats.iter().find_map(|(cpu, seat)| Some((*cpu, last(seat)?)));
        let Some((cpu, current)) = here.or_else(elsewhere) else {
            self.importer.report.count("wakeups before the first switch, left out");
            return Ok(());
        };
        let reported = match kind {
            Woken::Wakeup => WakeKind::Wakeup,
            Woken::New => WakeKind::New,
            Woken::Waking => WakeKind::Waking,
        };
        let current = Tid(current);
        let interrupt = interrupt.filter(|_| !(is_compact && self.has_gathered_wakings));
        let by = match (here, interrupt) {
            (Some(_), Some(interrupt)) => Waker::here(reported, current, interrupt),
            _ => Waker::Unknown,
        };
        let wake = Wake {
            kind: match reported {
                WakeKind::Waking if self.only_wakings => WakeKind::Wakeup,
                reported => reported,
            },
            tid: Tid(woken.tid),
            prio: woken.prio,
            target: on(target),
            comm: self.comms.get(woken.comm),
            current,
            by,
            same_process: None,
            in_scope: None,
        };
        self.importer.event(Nanos(time), on(cpu), Kind::Wake(wake))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_letters_of_their_kernel() {
        let letter = |bits, old| {
            let state = state_of(bits, old);
            format!("{}{}", state.letter, if state.preempted { "+" } else { "" })
        };
        let of_4_14: Vec<String> =
            [0, 1, 2, 0x10, 0x20, 0x80, 0x100].iter().map(|bits| letter(*bits, false)).collect();
        assert_eq!(of_4_14, ["R", "S", "D", "X", "Z", "I", "R+"]);
        let before: Vec<String> =
            [0, 1, 2, 0x10, 0x20, 0x400, 0x1000].iter().map(|bits| letter(*bits, true)).collect();
        assert_eq!(before, ["R", "S", "D", "Z", "X", "N", "R+"]);
        let old = ["4.9.0-19-amd64", "4.14.302", "5.10", "3.18", "android"].map(is_old);
        assert_eq!(old, [true, false, false, true, false]);
    }
}
