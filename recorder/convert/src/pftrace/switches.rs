//! Scheduling records as ftrace events.

use fxt_reader::record::{ContextSwitch, Event, Value, Wakeup};
use fxt_reader::{Koid, Nanos, ThreadState};
use fxtrec_capture::encode::weight;
use fxtrec_units::protobuf::Message;
use rustc_hash::FxHashMap;

use super::{ABOUT_THREADS, Names, Packets, number, packet};
use crate::ConvertError;
use crate::report::Report;

/// The size at which a CPU's events are put into one packet.
const BUNDLE_BYTES: usize = 32 << 10;

/// The fields that determine the type of an event.
mod event {
    pub(super) const SWITCH: u64 = 4;
    pub(super) const WAKING: u64 = 20;
    pub(super) const MIGRATE: u64 = 491;
}

/// The flag of an event that occurred in a hard interrupt.
const IN_INTERRUPT: u64 = 0x08;

/// Arguments of switches without an equivalent in Perfetto.
const FACTS: [&str; 8] = [
    "syscall",
    "steal_ns",
    "irq_ns",
    "need_resched_ns",
    "futex",
    "kernel_lock",
    "throttled",
    "throttled_ns",
];

#[derive(Debug, Default)]
struct Cpu {
    /// Events that are not written yet, and whether some were lost before them.
    events: Message,
    lost: bool,
    current: u64,
    overrun: u64,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    cpus: FxHashMap<u16, Cpu>,
    /// The CPU of each running thread.
    running: FxHashMap<u64, u16>,
}

impl Switches {
    pub(super) fn switch(
        &mut self,
        switch: &ContextSwitch<'_>,
        names: &Names,
        packets: &mut Packets<'_>,
        report: &mut Report,
    ) -> Result<(), ConvertError> {
        let (Koid(from), Koid(to)) = (switch.outgoing, switch.incoming);
        let facts = FACTS.iter().any(|fact| switch.args.get(fact).is_some());
        report.add("switches with facts that Perfetto cannot represent", facts.into());
        let inferred = matches!(switch.args.get("inferred"), Some(Value::Bool(true)));
        report.add("inferred switches, which look like reported ones", inferred.into());
        let mut body = Message::default();
        side(&mut body, [1, 2, 3], (from, switch.cpu.0), switch.outgoing_weight(), names);
        body.explicit_number(4, state(switch));
        side(&mut body, [5, 6, 7], (to, switch.cpu.0), switch.incoming_weight(), names);
        self.running.remove(&from);
        self.running.insert(to, switch.cpu.0);
        let cpu = self.cpus.entry(switch.cpu.0).or_default();
        cpu.current = to;
        self.put(switch.cpu.0, switch.time, (from, Some(0)), (event::SWITCH, &body), packets)
    }

    pub(super) fn wakeup(
        &mut self,
        wakeup: &Wakeup<'_>,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let Koid(woken) = wakeup.koid;
        let mut body = Message::default();
        side(&mut body, [1, 2, 3], (woken, wakeup.cpu.0), wakeup.weight(), names);
        body.explicit_number(4, 1);
        body.explicit_number(5, wakeup.cpu.0.into());
        // The event is on the CPU of the waker, as the kernel records it.
        let waker = wakeup.waker().and_then(|waker| Some((*self.running.get(&waker.0)?, waker.0)));
        let here = self.cpus.get(&wakeup.cpu.0).map_or(0, |cpu| cpu.current);
        let by_interrupt = matches!(wakeup.args.get("interrupt"), Some(Value::Bool(true)));
        let (cpu, current, flags) = match waker {
            Some((cpu, waker)) => (cpu, waker, Some(0)),
            None if by_interrupt => (wakeup.cpu.0, here, Some(IN_INTERRUPT)),
            // Flags would indicate this thread, or an interrupt.
            None => (wakeup.cpu.0, here, None),
        };
        self.put(cpu, wakeup.time, (current, flags), (event::WAKING, &body), packets)
    }

    pub(super) fn moved(
        &mut self,
        event: &Event<'_>,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let cpu = |name| event.args.get(name).and_then(fxtrec_sched::unsigned).unwrap_or(0);
        let (from, to) = (cpu("orig_cpu"), cpu("dest_cpu"));
        let on = u16::try_from(from).unwrap_or(0);
        let mut body = Message::default();
        side(&mut body, [1, 2, 3], (event.thread.thread.0, on), None, names);
        body.explicit_number(4, from);
        body.explicit_number(5, to);
        let current = self.cpus.get(&on).map_or(0, |cpu| cpu.current);
        self.put(on, event.time, (current, None), (event::MIGRATE, &body), packets)
    }

    /// Events of a CPU before the next one are missing.
    pub(super) fn lost(
        &mut self,
        event: &Event<'_>,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let number = |name| event.args.get(name).and_then(fxtrec_sched::unsigned);
        let Some(cpu) = number("cpu").and_then(|cpu| u16::try_from(cpu).ok()) else {
            return Ok(());
        };
        let known = self.cpus.entry(cpu).or_default();
        flush(cpu, known, packets)?;
        known.lost = true;
        known.overrun = known.overrun.saturating_add(number("count").unwrap_or(0));
        Ok(())
    }

    fn put(
        &mut self,
        cpu: u16,
        Nanos(time): Nanos,
        (current, flags): (u64, Option<u64>),
        (kind, body): (u64, &Message),
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let known = self.cpus.entry(cpu).or_default();
        let mut event = Message::default();
        event.explicit_number(1, time);
        event.explicit_number(2, pid(current));
        if let Some(flags) = flags {
            event.explicit_number(5, flags);
        }
        event.bytes(kind, &body.0);
        known.events.bytes(2, &event.0);
        match known.events.0.len() >= BUNDLE_BYTES {
            true => flush(cpu, known, packets),
            false => Ok(()),
        }
    }

    pub(super) fn finish(mut self, packets: &mut Packets<'_>) -> Result<(), ConvertError> {
        const STATS: u64 = 34;
        let mut cpus: Vec<u16> = self.cpus.keys().copied().collect();
        cpus.sort_unstable();
        let mut stats = Message::default();
        // At the end of the recording.
        stats.number(1, 2);
        for cpu in cpus {
            let Some(known) = self.cpus.get_mut(&cpu) else { continue };
            flush(cpu, known, packets)?;
            let mut of_cpu = Message::default();
            of_cpu.explicit_number(1, cpu.into());
            of_cpu.explicit_number(3, known.overrun);
            stats.bytes(2, &of_cpu.0);
        }
        let mut packet = Message::default();
        packet.bytes(STATS, &stats.0);
        packet.number(packet::SEQUENCE, ABOUT_THREADS);
        packets.put(&packet)
    }
}

fn flush(number: u16, cpu: &mut Cpu, packets: &mut Packets<'_>) -> Result<(), ConvertError> {
    if cpu.events.0.is_empty() {
        return Ok(());
    }
    let mut bundle = Message::default();
    bundle.explicit_number(1, number.into());
    bundle.number(3, std::mem::take(&mut cpu.lost).into());
    bundle.0.append(&mut cpu.events.0);
    let mut packet = Message::default();
    packet.bytes(packet::BUNDLE, &bundle.0);
    packet.number(packet::SEQUENCE, ABOUT_THREADS);
    packets.put(&packet)
}

/// The number of a thread in an event. Pseudo-threads for time that was not recorded get numbers that no thread has.
fn pid(koid: u64) -> u64 {
    number(koid).unwrap_or(0x4000_0000 | koid & 0xffff)
}

fn side(
    body: &mut Message,
    [name, tid, prio]: [u64; 3],
    (koid, cpu): (u64, u16),
    weight: Option<i32>,
    names: &Names,
) {
    match koid {
        0 => body.bytes(name, format!("swapper/{cpu}").as_bytes()),
        _ => body.bytes(name, names.thread(koid).as_bytes()),
    }
    body.explicit_number(tid, pid(koid));
    let priority = weight.map_or(120, weight::priority);
    body.explicit_number(prio, i64::from(priority).cast_unsigned());
}

/// The state of the outgoing thread, in the bits of Linux 4.14 and later.
fn state(switch: &ContextSwitch<'_>) -> u64 {
    match (switch.args.str("prev_state"), switch.outgoing_state) {
        (Some("R+"), _) => 0x100,
        (Some("D"), _) => 0x02,
        (Some("t"), _) => 0x08,
        (Some("P"), _) => 0x40,
        (Some("I"), _) => 0x80,
        (_, ThreadState::New | ThreadState::Running) => 0,
        (_, ThreadState::Suspended) => 0x04,
        (_, ThreadState::Dead) => 0x10,
        (_, ThreadState::Dying) => 0x20,
        _ => 0x01,
    }
}
