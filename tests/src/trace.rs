//! A whole trace in memory, and functions to query it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use fxt_reader::record::Value;
use fxt_reader::{ObjectType, Reader, Record, ThreadState};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::event::{self, Event};

/// Nanoseconds of `CLOCK_MONOTONIC`, as in traces.
///
/// # Panics
/// This cannot fail on Linux, which has this clock.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    u64::try_from(time.num_nanoseconds()).expect("it counts from boot")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub cpu: u16,
    pub outgoing: u64,
    pub incoming: u64,
    /// The state in which the thread was switched out.
    pub state: ThreadState,
    /// The kernel's letters, if the trace has them.
    pub prev_state: Option<String>,
    /// Weights of the outgoing and incoming side.
    pub weights: (Option<i32>, Option<i32>),
    /// Whether no tracepoint reported it.
    pub inferred: bool,
    /// All its arguments, as text.
    pub args: BTreeMap<String, String>,
}

impl Switch {
    /// A numeric argument; 0 where there is none of that name.
    ///
    /// # Panics
    /// When it is not a number.
    pub fn number(&self, name: &str) -> u64 {
        self.args.get(name).map_or(0, |text| text.parse().expect("a number"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU to whose run queue the thread was added.
    pub cpu: u16,
    pub thread: u64,
    /// The thread that woke it, if known.
    pub waker: Option<u64>,
    /// Whether an interrupt began it, the kind of its cause, and which one of these.
    pub interrupt: bool,
    pub interrupt_kind: Option<String>,
    pub interrupt_name: Option<String>,
    /// How long before the wakeup the waker sent the packet that caused it, if there was one.
    pub sent: Option<u64>,
    /// The bytes of the disk request whose completion did it, if one did, who submitted it, how long before, and when the disk got it.
    pub request_bytes: Option<u64>,
    pub request_by: Option<u64>,
    pub request_ns: Option<u64>,
    pub device_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All switches, in the order of the file.
    pub switches: Vec<Switch>,
    /// All wakeups, in the order of the file.
    pub wakeups: Vec<Wakeup>,
    /// The last name of each thread, and its process.
    pub threads: HashMap<u64, (String, u64)>,
    /// Every name that a thread had, in order.
    pub thread_names: HashMap<u64, Vec<String>>,
    /// The last name of each process.
    pub processes: HashMap<u64, String>,
    /// The cgroups of each process, in order, each where it differs from the previous one.
    pub cgroups: HashMap<u64, Vec<Option<String>>>,
    /// fxtrec's own events.
    pub own: Vec<Event>,
    /// Moves of threads from the queue of one CPU to another's.
    pub moves: Vec<Event>,
    /// All other events, in the order of the file.
    pub events: Vec<Event>,
    /// Violations of the guarantees in `docs/reference/trace.md`; empty for a valid file.
    pub faults: Vec<String>,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Panics
    /// When it cannot be read to its end.
    pub fn read(path: &Path) -> Trace {
        let mut reader = Reader::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut trace = Trace::default();
        let mut order = Order::default();
        while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{path:?}: {error}")) {
            trace.take(&item.record, &mut order);
        }
        trace
    }

    fn take(&mut self, record: &Record<'_>, order: &mut Order) {
        match record {
            Record::ContextSwitch(record) => {
                let switch = Switch {
                    time: record.time.0,
                    cpu: record.cpu.0,
                    outgoing: record.outgoing.0,
                    incoming: record.incoming.0,
                    state: record.outgoing_state,
                    prev_state: record.args.str("prev_state").map(str::to_owned),
                    weights: (record.outgoing_weight(), record.incoming_weight()),
                    inferred: record.args.get("inferred").is_some(),
                    args: event::texts(record.args),
                };
                self.faults.extend(order.switch(&switch));
                self.switches.push(switch);
            }
            Record::Wakeup(record) => {
                let number = |name: &str| record.args.get(name).and_then(fxtrec::sched::unsigned);
                let wakeup = Wakeup {
                    time: record.time.0,
                    cpu: record.cpu.0,
                    thread: record.koid.0,
                    waker: record.waker().map(|koid| koid.0),
                    interrupt: record.args.get("interrupt").is_some(),
                    interrupt_kind: record.args.str("interrupt_kind").map(str::to_owned),
                    interrupt_name: record.args.str("interrupt_name").map(str::to_owned),
                    sent: number("sent_ns"),
                    request_bytes: number("request_bytes"),
                    request_by: match record.args.get("request_by") {
                        Some(Value::Koid(koid)) => Some(koid.0),
                        _ => None,
                    },
                    request_ns: number("request_ns"),
                    device_ns: number("device_ns"),
                };
                self.faults.extend(order.wakeup(&wakeup));
                self.wakeups.push(wakeup);
            }
            Record::KernelObject(object) => {
                order.named.insert(object.koid.0);
                let name = object.name.to_owned();
                if name.is_empty() {
                    self.faults.push(format!("koid {} has an empty name", object.koid.0));
                }
                if object.object_type == ObjectType::Process {
                    self.processes.insert(object.koid.0, name);
                    let cgroup = object.args.str("cgroup").map(str::to_owned);
                    let cgroups = self.cgroups.entry(object.koid.0).or_default();
                    if cgroups.last() != Some(&cgroup) {
                        cgroups.push(cgroup);
                    }
                } else {
                    let process = object.process().expect("a thread names its process").0;
                    self.thread_names.entry(object.koid.0).or_default().push(name.clone());
                    self.threads.insert(object.koid.0, (name, process));
                }
            }
            Record::Event(event) => {
                let list = match (event.category, event.name) {
                    ("fxtrec", _) => &mut self.own,
                    ("sched", "migrate") => &mut self.moves,
                    _ => &mut self.events,
                };
                list.push(Event::of(event));
            }
            _ => {}
        }
    }

    /// The counters at the end of the trace.
    ///
    /// # Panics
    /// When there are none.
    pub fn stats(&self) -> &Event {
        self.own.iter().rfind(|event| event.name == "trace_stats").expect("trace_stats")
    }

    /// fxtrec's description of the recording at its beginning.
    ///
    /// # Panics
    /// When there is none.
    pub fn info(&self) -> &Event {
        self.own.iter().find(|event| event.name == "trace_info").expect("trace_info")
    }

    /// Switches in which the thread is switched out, as the kernel reported them.
    pub fn outs(&self, koid: u64) -> impl Iterator<Item = &Switch> {
        self.switches.iter().filter(move |switch| switch.outgoing == koid && !switch.inferred)
    }

    /// Nanoseconds that the thread was on a CPU between two times.
    pub fn running(&self, koid: u64, begin: u64, end: u64) -> u64 {
        let mut since: HashMap<u16, u64> = HashMap::new();
        let mut sum = 0;
        let mut seen = false;
        for switch in &self.switches {
            if switch.outgoing == koid {
                // If the first record of a thread is a switch out, it has been on the CPU since before the trace.
                let from =
                    since.remove(&switch.cpu).or((!seen).then_some(0)).unwrap_or(switch.time);
                sum += switch.time.min(end).saturating_sub(from.max(begin));
            }
            if switch.incoming == koid {
                since.insert(switch.cpu, switch.time);
            }
            seen |= switch.outgoing == koid || switch.incoming == koid;
        }
        sum + since.values().map(|from| end.saturating_sub((*from).max(begin))).sum::<u64>()
    }

    /// Asserts that no faults were found.
    ///
    /// # Panics
    /// With the first faults, if there are any.
    pub fn assert_sound(&self) {
        let first: Vec<&String> = self.faults.iter().take(10).collect();
        assert!(first.is_empty(), "{} faults, first {first:#?}", self.faults.len());
    }
}

/// Conditions that must hold from one record to the next.
#[derive(Debug, Default)]
struct Order {
    time: u64,
    named: HashSet<u64>,
    chain: HashMap<u16, u64>,
}

impl Order {
    fn at(&mut self, time: u64) -> Option<String> {
        let before = std::mem::replace(&mut self.time, time);
        (time < before).then(|| format!("time goes back from {before} to {time}"))
    }

    fn known(&self, koid: u64) -> Option<String> {
        (!self.named.contains(&koid)).then(|| format!("koid {koid} is used before it is named"))
    }

    fn switch(&mut self, switch: &Switch) -> Vec<String> {
        let mut faults: Vec<String> = self.at(switch.time).into_iter().collect();
        for (koid, weight) in
            [(switch.outgoing, switch.weights.0), (switch.incoming, switch.weights.1)]
        {
            faults.extend(self.known(koid));
            if (koid == 0) != (weight == Some(i32::MIN)) {
                faults.push(format!("koid {koid} has weight {weight:?} at {}", switch.time));
            }
        }
        if let Some(last) = self.chain.insert(switch.cpu, switch.incoming)
            && last != switch.outgoing
        {
            let (cpu, time) = (switch.cpu, switch.time);
            faults.push(format!(
                "on CPU {cpu} at {time} goes out {}, but {last} came in",
                switch.outgoing
            ));
        }
        faults
    }

    fn wakeup(&mut self, wakeup: &Wakeup) -> Vec<String> {
        let koids = std::iter::once(wakeup.thread).chain(wakeup.waker);
        let mut faults: Vec<String> = koids.filter_map(|koid| self.known(koid)).collect();
        faults.extend(self.at(wakeup.time));
        faults
    }
}
