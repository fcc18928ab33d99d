//! A simulated machine, with a scheduler simple enough to create traces of any size.
//!
//! Threads run, sleep and wake each other; a woken thread joins the queue of a CPU. A counter determines everything, so a scene is the same
//! every time.

use std::collections::VecDeque;

use fxt_writer::record::{ContextSwitch, KernelObject, ObjectType, Record, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, Ticks, Value, Writer};

/// When scenes begin, in nanoseconds.
pub(crate) const BEGIN: u64 = 5_000_000_000;

/// The process that threads belong to.
const PROCESS: u64 = 1_000;

/// The first thread's id.
pub(crate) const FIRST: u64 = 1_001;

/// How long events are lost, in nanoseconds.
const LOSS: u64 = 30_000_000;

/// Events of CPU 0 that were never written.
struct Loss {
    until: u64,
    count: u64,
}

/// The parameters of a scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) cpus: u16,
    pub(crate) threads: u64,
    /// The minimum number of switches and wakeups.
    pub(crate) events: u64,
    /// Whether threads record their activities.
    pub(crate) spans: bool,
    /// Whether events of CPU 0 are lost half way through.
    pub(crate) gap: bool,
}

struct Machine {
    scene: Scene,
    trace: Writer<Vec<u8>>,
    random: u64,
    on: Vec<u64>,
    since: Vec<u64>,
    next: Vec<u64>,
    /// Whether the last event there was a wakeup.
    woke: Vec<bool>,
    queues: Vec<VecDeque<u64>>,
    sleeping: VecDeque<u64>,
    events: u64,
    losing: Option<Loss>,
}

impl Scene {
    fn machine(self) -> Machine {
        let mut trace = Writer::new(Vec::new());
        trace.start("fxtrec", 1_000_000_000).expect("memory has room");
        let cpus = usize::from(self.cpus);
        let mut machine = Machine {
            scene: self,
            trace,
            random: 1,
            on: vec![0; cpus],
            since: vec![BEGIN; cpus],
            next: (0..cpus as u64).map(|cpu| BEGIN + 1_000 * (cpu + 1)).collect(),
            woke: vec![false; cpus],
            queues: vec![VecDeque::new(); cpus],
            sleeping: (0..self.threads).map(|index| FIRST + index).collect(),
            events: 0,
            losing: None,
        };
        machine.introduce();
        machine
    }

    pub(crate) fn trace(self) -> Vec<u8> {
        let mut machine = self.machine();
        let mut lost = !self.gap;
        while machine.events < self.events {
            let time = machine.step();
            if !lost && machine.events > self.events / 2 {
                lost = true;
                machine.losing = Some(Loss { until: time + LOSS, count: 0 });
            }
        }
        machine.finish()
    }
}

/// A trace of one CPU on which two threads alternate `switches` times, while a third, "worker-2", waits for it all the
/// time.
pub(crate) fn starved(switches: u64) -> Vec<u8> {
    let mut machine = Scene { cpus: 1, threads: 3, events: 0, spans: false, gap: false }.machine();
    let (pair, victim) = ([FIRST, FIRST + 1], FIRST + 2);
    let mut time = BEGIN + 1_000;
    machine.hand_over(time, 0, pair[0]);
    let args = [
        Arg::new(Text::Inline("weight"), Value::Int32(1024)),
        Arg::new(Text::Inline("waker"), Value::Koid(Koid(pair[0]))),
    ];
    machine
        .write(0, &Wakeup { cpu: 0, time: Ticks(time + 500), thread: Koid(victim), args: &args });
    for number in 0..switches {
        time += 1_000 + number % 3 * 500;
        let at = usize::from(number % 2 == 1);
        machine.hand_over(time, pair[at], pair[1 - at]);
    }
    machine.hand_over(time + 1_000, pair[(switches % 2) as usize], victim);
    machine.hand_over(time + 9_000, victim, 0);
    machine.next = vec![time + 10_000];
    machine.finish()
}

/// The name of a thread.
pub(crate) fn name(thread: u64) -> String {
    match thread - FIRST {
        0 => "audio-out".to_owned(),
        1 => "render".to_owned(),
        index => format!("worker-{index}"),
    }
}

impl Machine {
    fn introduce(&mut self) {
        let text = Text::Inline;
        let info = [
            ("version", Value::Str(text("0.1.0"))),
            ("command_line", Value::Str(text("fxtrec -- ./scene"))),
            ("host", Value::Str(text("nowhere"))),
            ("release", Value::Str(text("6.18.0"))),
            ("wall_clock_offset_ns", Value::Int64(1_700_000_000_000_000_000)),
            ("scope", Value::Str(text("all"))),
        ];
        let own = (Koid(1), Koid(1));
        self.trace.instant(Ticks(BEGIN), own, "fxtrec", "trace_info", &info).expect("room");
        self.object(ObjectType::Process, PROCESS, "scene");
        for index in 0..self.scene.threads {
            self.object(ObjectType::Thread, FIRST + index, &name(FIRST + index));
        }
    }

    fn object(&mut self, kind: ObjectType, koid: u64, name: &str) {
        let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(PROCESS)))];
        let args = if kind == ObjectType::Thread { &process[..] } else { &[] };
        let object =
            KernelObject { object_type: kind, koid: Koid(koid), name: Text::Inline(name), args };
        self.trace.write(&object).expect("room");
    }

    /// A number below `below`.
    fn random(&mut self, below: u64) -> u64 {
        // The constants of Knuth's MMIX generator, whose upper bits are the good ones.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random / (1 << 33)) % below
    }

    /// The next event, on the CPU whose turn it is.
    fn step(&mut self) -> u64 {
        let first = |cpu: &usize| self.next[*cpu];
        let cpu = (0..self.on.len()).min_by_key(first).expect("a CPU");
        let time = self.next[cpu];
        if self.losing.as_ref().is_some_and(|loss| time >= loss.until)
            && let Some(loss) = self.losing.take()
        {
            self.lost(time, loss.count);
        }
        if !std::mem::replace(&mut self.woke[cpu], false) && self.random(100) < 70 {
            self.wake_one(cpu, time);
            self.woke[cpu] = true;
            self.next[cpu] = time + 1_000 + self.random(2_000);
            return time;
        }
        self.next[cpu] = time + 40_000 + self.random(160_000);
        let comes = self.queues[cpu].pop_front().unwrap_or(0);
        if comes != self.on[cpu] {
            self.switch(cpu, time, comes);
        }
        if comes == 0 {
            self.next[cpu] = time + 20_000 + self.random(60_000);
        } else if self.random(400) == 0 {
            self.next[cpu] = time + 9_000_000;
        }
        time
    }

    fn wake_one(&mut self, cpu: usize, time: u64) {
        let Some(thread) = self.sleeping.pop_front() else { return };
        let target = match self.random(4) {
            0 => self.random(self.on.len() as u64) as usize,
            _ => cpu,
        };
        let text = Text::Inline;
        let both = [
            Arg::new(text("weight"), Value::Int32(1024)),
            Arg::new(text("waker"), Value::Koid(Koid(self.on[cpu]))),
        ];
        let args = if self.on[cpu] == 0 { &both[..1] } else { &both[..] };
        let target_cpu = u16::try_from(target).expect("few CPUs");
        let wakeup = Wakeup { cpu: target_cpu, time: Ticks(time), thread: Koid(thread), args };
        self.write(cpu, &wakeup);
        self.queues[target].push_back(thread);
        if self.on[target] == 0 && target != cpu {
            self.next[target] = self.next[target].min(time + 6_000);
        }
    }

    fn switch(&mut self, cpu: usize, time: u64, comes: u64) {
        let goes = std::mem::replace(&mut self.on[cpu], comes);
        let (state, letter) = match self.random(10) {
            _ if goes == 0 => (ThreadState::Running, None),
            0..=2 => (ThreadState::Running, None),
            3 => (ThreadState::Blocked, Some("D")),
            _ => (ThreadState::Blocked, None),
        };
        let weight = |thread| Value::Int32(if thread == 0 { i32::MIN } else { 1024 });
        let all = [
            Arg::new(Text::Inline("incoming_weight"), weight(comes)),
            Arg::new(Text::Inline("outgoing_weight"), weight(goes)),
            Arg::new(Text::Inline("prev_state"), Value::Str(Text::Inline(letter.unwrap_or("")))),
        ];
        let switch = ContextSwitch {
            cpu: u16::try_from(cpu).expect("few CPUs"),
            time: Ticks(time),
            outgoing: Koid(goes),
            incoming: Koid(comes),
            outgoing_state: state,
            args: if letter.is_some() { &all[..] } else { &all[..2] },
        };
        self.write(cpu, &switch);
        let since = std::mem::replace(&mut self.since[cpu], time);
        if goes != 0 {
            if self.scene.spans && goes < FIRST + 4 {
                self.say(goes, since, time);
            }
            if state == ThreadState::Running {
                self.queues[cpu].push_back(goes);
            } else {
                self.sleeping.push_back(goes);
            }
        }
    }

    /// A thread loses CPU 0 to another, and is still able to run.
    fn hand_over(&mut self, time: u64, goes: u64, comes: u64) {
        let weight = |thread| Value::Int32(if thread == 0 { i32::MIN } else { 1024 });
        let args = [
            Arg::new(Text::Inline("incoming_weight"), weight(comes)),
            Arg::new(Text::Inline("outgoing_weight"), weight(goes)),
        ];
        let switch = ContextSwitch {
            cpu: 0,
            time: Ticks(time),
            outgoing: Koid(goes),
            incoming: Koid(comes),
            outgoing_state: ThreadState::Running,
            args: &args,
        };
        self.write(0, &switch);
    }

    /// The spans of a thread that ran from `since` to `time`.
    fn say(&mut self, thread: u64, since: u64, time: u64) {
        let own = (Koid(PROCESS), Koid(thread));
        let third = (time - since) / 3;
        let trace = &mut self.trace;
        trace.duration_begin(Ticks(since), own, "app", "request", &[]).expect("room");
        trace
            .duration_complete(
                Ticks(since + third / 2),
                own,
                "app",
                "parse",
                Ticks(since + third),
                &[],
            )
            .expect("room");
        trace
            .duration_complete(
                Ticks(since + third),
                own,
                "app",
                "query",
                Ticks(time - third / 2),
                &[],
            )
            .expect("room");
        trace.instant(Ticks(since + 2 * third), own, "app", "cache miss", &[]).expect("room");
        trace.duration_end(Ticks(time), own, "app", "request", &[]).expect("room");
    }

    fn finish(mut self) -> Vec<u8> {
        let end = self.next.iter().copied().min().unwrap_or(BEGIN);
        let own = (Koid(1), Koid(1));
        self.trace.instant(Ticks(end), own, "fxtrec", "trace_stats", &[]).expect("room");
        self.trace.into_inner()
    }

    /// Writes an event of a CPU, unless it is lost.
    fn write(&mut self, cpu: usize, record: &impl Record) {
        match self.losing.as_mut().filter(|_| cpu == 0) {
            Some(loss) => loss.count += 1,
            None => {
                self.trace.write(record).expect("room");
                self.events += 1;
            }
        }
    }

    fn lost(&mut self, time: u64, count: u64) {
        let args = [("count", Value::Uint64(count)), ("cpu", Value::Uint32(0))];
        let own = (Koid(1), Koid(1));
        self.trace.instant(Ticks(time), own, "fxtrec", "lost", &args).expect("room");
    }
}
