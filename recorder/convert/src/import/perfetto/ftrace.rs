//! Bundles of ftrace events: those of one CPU, in the plain or the compact form.

use super::item::{Item, Out, Side, Wake};
use super::sequence::{Sequence, kind, numbers};
use super::wire::{Damaged, Fields, Value};
use super::{Decoder, Failed};

/// The bits in an event's flags for interrupt context: hard, soft, and non-maskable.
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// The bit in the clone flags for a thread of the same process as its parent.
const CLONE_THREAD: u64 = 0x10000;

/// The number of the boot-time clock in bundles. With another number, times are those of the tracer's clock.
const BOOT_CLOCK: u64 = 0;

/// The maximum time, since readers of traces treat times as signed numbers.
const MOST_TIME: u64 = i64::MAX as u64;

/// The field numbers of events in a bundle.
mod event {
    pub(super) const PRINT: u32 = 3;
    pub(super) const SWITCH: u32 = 4;
    pub(super) const CPU_FREQUENCY: u32 = 11;
    pub(super) const CPU_IDLE: u32 = 13;
    pub(super) const WAKEUP: u32 = 17;
    pub(super) const BLOCKED_REASON: u32 = 18;
    pub(super) const WAKING: u32 = 20;
    pub(super) const IPI_ENTRY: u32 = 21;
    pub(super) const IPI_EXIT: u32 = 22;
    pub(super) const SOFTIRQ_ENTRY: u32 = 24;
    pub(super) const SOFTIRQ_EXIT: u32 = 25;
    pub(super) const IRQ_ENTRY: u32 = 36;
    pub(super) const IRQ_EXIT: u32 = 37;
    pub(super) const WAKEUP_NEW: u32 = 114;
    pub(super) const NEWTASK: u32 = 235;
    pub(super) const RENAME: u32 = 236;
    pub(super) const PROCESS_EXIT: u32 = 238;
    pub(super) const PROCESS_FREE: u32 = 240;
    pub(super) const SYS_ENTER: u32 = 329;
    pub(super) const SYS_EXIT: u32 = 330;
    pub(super) const MIGRATE: u32 = 491;
}

/// The facts that apply to all events of a bundle.
#[derive(Clone, Copy, Debug)]
struct Bundle {
    cpu: u16,
    /// The offset from its times to boot times.
    ahead: i64,
}

/// The parts of an event.
#[derive(Clone, Copy, Debug, Default)]
struct Event<'a> {
    time: u64,
    pid: u32,
    flags: Option<u64>,
    /// Its type, and its contents.
    kind: u32,
    body: &'a [u8],
}

impl Decoder {
    /// Takes the events of a CPU.
    pub(super) fn bundle(&mut self, bytes: &[u8], sequence: &Sequence) -> Result<(), Failed> {
        let (mut cpu, mut lost, mut clock, mut times) = (0, false, 0, (0, 0));
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => cpu = value.number(),
                3 => lost = value.number() != 0,
                5 => clock = value.number(),
                6 => times.0 = value.number(),
                7 => times.1 = value.number(),
                _ => {}
            }
        }
        let Ok(cpu) = u16::try_from(cpu) else {
            self.report.count("events with impossible CPU numbers, left out");
            return Ok(());
        };
        let ahead = match times {
            (ftrace @ 1.., boot @ 1..) if clock != BOOT_CLOCK => {
                boot.wrapping_sub(ftrace).cast_signed()
            }
            _ => 0,
        };
        let bundle = Bundle { cpu, ahead };
        let dropped = self.drops.insert(cpu, self.dropped).is_some_and(|seen| seen != self.dropped);
        let mut first = u64::MAX;
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            match field {
                2 => {
                    let event = event(value.bytes())?;
                    first = first.min(bundle.time(event.time));
                    self.event(bundle, event, sequence)?;
                }
                4 => first = first.min(self.compact(bundle, value.bytes())?),
                _ => {}
            }
        }
        if (lost || dropped) && first != u64::MAX {
            *self.gaps.entry(cpu).or_default() += 1;
            self.add_first(first, Item::Lost { cpu })?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        bundle: Bundle,
        event: Event<'_>,
        sequence: &Sequence,
    ) -> Result<(), Failed> {
        let (cpu, time, body) = (bundle.cpu, bundle.time(event.time), event.body);
        let item = match event.kind {
            event::SWITCH => {
                let (mut prev, mut next, mut state) = (Side::default(), Side::default(), 0);
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        1 => prev.comm = self.comms.add(value.bytes()),
                        2 => prev.tid = value.u32(),
                        3 => prev.prio = value.u32().cast_signed(),
                        4 => state = value.u32(),
                        5 => next.comm = self.comms.add(value.bytes()),
                        6 => next.tid = value.u32(),
                        7 => next.prio = value.u32().cast_signed(),
                        _ => {}
                    }
                }
                self.switches += 1;
                Item::Switch { cpu, prev: Some(prev), state, next }
            }
            event::WAKEUP | event::WAKEUP_NEW | event::WAKING => {
                let (mut woken, mut target) = (Side::default(), cpu);
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        1 => woken.comm = self.comms.add(value.bytes()),
                        2 => woken.tid = value.u32(),
                        3 => woken.prio = value.u32().cast_signed(),
                        5 => target = value.number() as u16,
                        _ => {}
                    }
                }
                let kind = match event.kind {
                    event::WAKEUP => Wake::Wakeup,
                    event::WAKEUP_NEW => Wake::New,
                    _ => Wake::Waking,
                };
                let interrupt = event.flags.map(|flags| flags & IN_INTERRUPT != 0);
                self.saw_wake(kind, interrupt);
                // A running thread is not woken: scxtop writes the woken thread here as well.
                let current = Some(event.pid).filter(|current| *current != woken.tid);
                Item::Wake { cpu, kind, current, interrupt, target, woken }
            }
            event::NEWTASK => {
                let (mut tid, mut comm, mut flags) = (0, 0, 0);
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        1 => tid = value.u32(),
                        2 => comm = self.comms.add(value.bytes()),
                        3 => flags = value.number(),
                        _ => {}
                    }
                }
                let same_process = flags & CLONE_THREAD != 0;
                Item::Begin { tid, parent: event.pid, same_process, comm }
            }
            event::RENAME => {
                let (mut tid, mut comm) = (0, 0);
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        1 => tid = value.u32(),
                        3 => comm = self.comms.add(value.bytes()),
                        _ => {}
                    }
                }
                Item::Rename { tid, comm }
            }
            event::PROCESS_EXIT => {
                let [_, tid, tgid] = numbers(body)?;
                if tgid != 0 {
                    self.belongs(tgid as u32, tid as u32);
                }
                Item::End { tid: tid as u32 }
            }
            // The thread's last switch shows the same.
            event::PROCESS_FREE => return Ok(()),
            event::BLOCKED_REASON => {
                let [tid, caller] = numbers(body)?;
                let symbol = sequence.text(kind::SYMBOLS, caller).unwrap_or_default();
                let symbol = String::from_utf8_lossy(symbol);
                // Without a symbol, it is an address, or the index of a lost symbol.
                let stack = match symbol.is_empty() && caller >> 63 == 0 {
                    true => None,
                    false => self
                        .code
                        .of_kernel(symbol.split(['+', ' ']).next().unwrap_or_default(), caller),
                };
                let Some(stack) = stack else {
                    self.report.count("blocked functions without a name, left out");
                    return Ok(());
                };
                self.stacks |= 1;
                Item::Blocked { tid: tid as u32, stack }
            }
            event::MIGRATE => {
                let [_, tid, _, from, to] = numbers(body)?;
                self.moves += 1;
                Item::Moved { tid: tid as u32, from: from as u16, to: to as u16 }
            }
            event::IRQ_ENTRY | event::IRQ_EXIT => {
                self.interrupts.0 = true;
                let (mut number, mut name): (_, &[u8]) = (0, &[]);
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    match (field, value) {
                        (1, value) => number = value.u32(),
                        (2, Value::Bytes(bytes)) => name = bytes,
                        _ => {}
                    }
                }
                let begins = event.kind == event::IRQ_ENTRY;
                Item::Interrupt { cpu, soft: false, begins, number, name }
            }
            event::SOFTIRQ_ENTRY | event::SOFTIRQ_EXIT => {
                self.interrupts.1 = true;
                let [vector] = numbers(body)?;
                let begins = event.kind == event::SOFTIRQ_ENTRY;
                Item::Interrupt { cpu, soft: true, begins, number: vector as u32, name: b"" }
            }
            event::IPI_ENTRY | event::IPI_EXIT => {
                let reason = match Fields(body).next()? {
                    Some((1, Value::Bytes(reason))) => reason,
                    _ => b"ipi",
                };
                let begins = event.kind == event::IPI_ENTRY;
                Item::Interrupt { cpu, soft: false, begins, number: u32::MAX, name: reason }
            }
            event::SYS_ENTER => {
                self.calls = true;
                let [number] = numbers(body)?;
                Item::SystemCall { tid: event.pid, number: u16::try_from(number).ok() }
            }
            event::SYS_EXIT => Item::SystemCall { tid: event.pid, number: None },
            event::CPU_FREQUENCY | event::CPU_IDLE => {
                let [value, cpu] = numbers(body)?;
                let frequency = event.kind == event::CPU_FREQUENCY;
                Item::Power { cpu: cpu as u32, frequency, value: value as u32 }
            }
            event::PRINT => {
                let mut fields = Fields(body);
                while let Some((field, value)) = fields.next()? {
                    if let (2, Value::Bytes(text)) = (field, value) {
                        self.add(time, Item::Print { tid: event.pid, text })?;
                    }
                }
                return Ok(());
            }
            _ => {
                self.report.count("other events of ftrace, left out");
                return Ok(());
            }
        };
        self.add(time, item)
    }

    /// Takes the columns of compact switches and wakeups. Returns the time of the first event.
    fn compact(&mut self, bundle: Bundle, bytes: &[u8]) -> Result<u64, Failed> {
        let mut columns = std::mem::take(&mut self.columns);
        let done = columns.fill(bytes, self);
        let first = done.map_err(Failed::from).and_then(|()| self.rows(bundle, &columns));
        self.columns = columns;
        first
    }

    fn rows(&mut self, bundle: Bundle, columns: &Columns) -> Result<u64, Failed> {
        let cpu = bundle.cpu;
        let (mut first, mut time) = (u64::MAX, 0_u64);
        let comm = |index: u64| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            columns.names.get(index).copied().unwrap_or(0)
        };
        let [times, states, tids, prios, comms] = &columns.switches;
        for (at, delta) in times.iter().enumerate() {
            let number = |column: &[u64]| column.get(at).copied();
            let (Some(state), Some(tid), Some(prio)) =
                (number(states), number(tids), number(prios))
            else {
                return Err(Failed::Damaged);
            };
            time = time.wrapping_add(*delta);
            let comm = number(comms).map_or(0, comm);
            let next = Side { tid: tid as u32, prio: prio as i32, comm };
            let at = bundle.time(time);
            first = first.min(at);
            self.switches += 1;
            self.add(at, Item::Switch { cpu, prev: None, state: state as u32, next })?;
        }
        if !times.is_empty() {
            self.switching.insert(cpu);
        }
        time = 0;
        let [times, tids, targets, prios, comms, flags] = &columns.wakings;
        // It only matters whether all of them come from one CPU.
        if !times.is_empty() && self.waking.len() < 2 {
            self.waking.insert((cpu, self.writer));
        }
        for (at, delta) in times.iter().enumerate() {
            let number = |column: &[u64]| column.get(at).copied();
            let (Some(tid), Some(target), Some(prio)) =
                (number(tids), number(targets), number(prios))
            else {
                return Err(Failed::Damaged);
            };
            time = time.wrapping_add(*delta);
            let comm = number(comms).map_or(0, comm);
            let woken = Side { tid: tid as u32, prio: prio as i32, comm };
            let interrupt = number(flags).map(|flags| flags & IN_INTERRUPT != 0);
            let (kind, target, at) = (Wake::Waking, target as u16, bundle.time(time));
            self.saw_wake(kind, interrupt);
            first = first.min(at);
            self.add(at, Item::Wake { cpu, kind, current: None, interrupt, target, woken })?;
        }
        Ok(first)
    }

    fn saw_wake(&mut self, kind: Wake, interrupt: Option<bool>) {
        self.has_wakeups |= kind == Wake::Wakeup;
        if kind == Wake::Waking {
            self.has_wakers |= interrupt.is_some();
            self.has_wakings = true;
        }
    }

    pub(super) fn add(&mut self, time: u64, item: Item<'_>) -> Result<(), Failed> {
        self.put(time, 1, item)
    }

    /// Adds an item that precedes all others with the same time.
    pub(super) fn add_first(&mut self, time: u64, item: Item<'_>) -> Result<(), Failed> {
        self.put(time, 0, item)
    }

    fn put(&mut self, time: u64, rank: u8, item: Item<'_>) -> Result<(), Failed> {
        if time > MOST_TIME {
            self.report.count("events with impossible times, left out");
            return Ok(());
        }
        let mut out: Out = std::mem::take(&mut self.out);
        out.0.clear();
        item.put(&mut out);
        let added = self.sorter.add(crate::sort::Key { time, rank }, &out.0);
        self.out = out;
        added.map_err(|error| Failed::Other(crate::ConvertError::Write(error)))
    }
}

impl Bundle {
    fn time(self, time: u64) -> u64 {
        time.saturating_add_signed(self.ahead)
    }
}

fn event(message: &[u8]) -> Result<Event<'_>, Damaged> {
    let (mut event, mut fields) = (Event::default(), Fields(message));
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, value) => event.time = value.number(),
            (2, value) => event.pid = value.u32(),
            (5, value) => event.flags = Some(value.number()),
            (field, Value::Bytes(body)) => (event.kind, event.body) = (field, body),
            _ => {}
        }
    }
    Ok(event)
}

/// The columns of a compact bundle. Times are relative to the previous row.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<u32>,
    /// Time, state of the outgoing thread, and the incoming thread, its priority and name.
    switches: [Vec<u64>; 5],
    /// Time, thread, target CPU, priority and name, and the event's flags.
    wakings: [Vec<u64>; 6],
}

impl Columns {
    fn fill(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Result<(), Damaged> {
        self.names.clear();
        self.switches.iter_mut().chain(&mut self.wakings).for_each(Vec::clear);
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            let column = match field {
                5 => {
                    self.names.push(decoder.comms.add(value.bytes()));
                    continue;
                }
                1..=4 => &mut self.switches[field as usize - 1],
                6 => &mut self.switches[4],
                7..=12 => &mut self.wakings[field as usize - 7],
                _ => continue,
            };
            value.each(|number| column.push(number))?;
        }
        Ok(())
    }
}
