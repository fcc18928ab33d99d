//! A generated trace of two million switches, for benchmarks: 200 threads on 4 CPUs that sleep, are woken and preempt each other, as fxtrec
//! writes them.

use std::collections::VecDeque;

use fxt_writer::record::{
    ContextSwitch, Initialization, KernelObject, Magic, ObjectType, ProviderInfo, StringRecord,
    ThreadState, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, Ticks, Value};

pub(crate) const SWITCHES: u64 = 2_000_000;
const CPUS: usize = 4;
const THREADS: u64 = 200;

/// Pseudo-random numbers, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.rotate_left(24) % sides
    }
}

struct Machine {
    bytes: Vec<u8>,
    weights: [StringRef; 3],
}

impl Machine {
    fn put(&mut self, record: &impl fxt_writer::record::Record) {
        record.write(&mut self.bytes).expect("memory has room, and the record is sound");
    }

    fn weight(&self, at: usize, koid: u64) -> Arg<'static> {
        let value = if koid == 0 { i32::MIN } else { 1024 };
        Arg::new(Text::Indexed(self.weights[at]), Value::Int32(value))
    }

    fn switch(&mut self, time: u64, cpu: usize, out: u64, state: ThreadState, inn: u64) {
        let args = [self.weight(0, inn), self.weight(1, out)];
        self.put(&ContextSwitch {
            cpu: cpu as u16,
            time: Ticks(time),
            outgoing: Koid(out),
            incoming: Koid(inn),
            outgoing_state: state,
            args: &args,
        });
    }

    fn wake(&mut self, time: u64, cpu: usize, koid: u64) {
        let args = [self.weight(2, koid)];
        self.put(&Wakeup { cpu: cpu as u16, time: Ticks(time), thread: Koid(koid), args: &args });
    }
}

/// The whole trace.
pub(crate) fn trace() -> Vec<u8> {
    let weights = [1, 2, 3].map(|index| StringRef::indexed(index).expect("in range"));
    let mut machine = Machine { bytes: Vec::new(), weights };
    machine.put(&Magic);
    machine.put(&ProviderInfo { id: ProviderId(1), name: "fxtrec" });
    machine.put(&Initialization { ticks_per_second: 1_000_000_000 });
    for (index, content) in
        weights.into_iter().zip(["incoming_weight", "outgoing_weight", "weight"])
    {
        machine.put(&StringRecord { index, content });
    }
    for thread in 1..=THREADS {
        let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(thread / 8 * 8)))];
        let name = format!("thread {thread}");
        machine.put(&KernelObject {
            object_type: ObjectType::Thread,
            koid: Koid(thread),
            name: Text::Inline(&name),
            args: &process,
        });
    }
    let mut dice = Dice(1);
    let mut asleep: Vec<u64> = (1..=THREADS).collect();
    let mut queues: [VecDeque<u64>; CPUS] = Default::default();
    let mut current = [0_u64; CPUS];
    let (mut time, mut switches) = (1_000_000_000, 0);
    while switches < SWITCHES {
        time += 200 + dice.roll(3000);
        let cpu = dice.roll(CPUS as u64) as usize;
        // Woken by the running thread of some CPU.
        if !asleep.is_empty() && dice.roll(100) < 55 {
            let thread = asleep.swap_remove(dice.roll(asleep.len() as u64) as usize);
            machine.wake(time, cpu, thread);
            queues[cpu].push_back(thread);
        }
        let out = current[cpu];
        let inn = queues[cpu].pop_front().unwrap_or(0);
        if inn == out {
            continue;
        }
        let preempted = out != 0 && inn != 0 && dice.roll(100) < 30;
        let state = if preempted || out == 0 { ThreadState::Running } else { ThreadState::Blocked };
        machine.switch(time + 100, cpu, out, state, inn);
        match out {
            0 => {}
            _ if preempted => queues[cpu].push_back(out),
            _ => asleep.push(out),
        }
        current[cpu] = inn;
        switches += 1;
    }
    machine.bytes
}
