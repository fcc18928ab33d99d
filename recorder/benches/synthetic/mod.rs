//! A simulated machine: it produces the records of the kernel for any number of CPUs.
//!
//! On each CPU, two threads alternate, and each wakes the other before it is switched out: one wakeup and one switch in turn, like `perf
//! bench sched pipe`.

use fxt_writer::{Koid, ThreadName};
use fxtrec::capture::event::{Comm, Event, Kind, LocalId, Switch, Wake, WakeKind, Waker};
use fxtrec::capture::sched::{SchedFormats, SchedLayout};
use fxtrec::encode::encoder::Encoder;
use fxtrec::encode::ids::Ids;
use fxtrec::encode::threads::{Lookup, Threads};
use fxtrec::kernel::format::Format;
use fxtrec::kernel::ftrace::layout::PageLayout;
use fxtrec::kernel::prev_state::PrevState;
use fxtrec::units::{Cpu, Nanos, Tid};

/// Nanoseconds between two events of a CPU.
const STEP: u64 = 2_000;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;";

const STATES: &str = r#""%s%s", (REC->prev_state & ((((0x00 | 0x01 | 0x02) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00 | 0x01 | 0x02) + 1) << 1) - 1), "|", { 0x01, "S" }, { 0x02, "D" }) : "R", REC->prev_state & (((0x00 | 0x01 | 0x02) + 1) << 1) ? "+" : """#;

const WAKEUP: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;";

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;";

const HEADER_EVENT: &str =
    "type_len : 5 bits\ntime_delta : 27 bits\narray : 32 bits\npadding : type == 29
time_extend : type == 30\ntime_stamp : type == 31\ndata max type_len == 28";

const SWITCH_ID: u16 = 10;
const WAKEUP_ID: u16 = 11;

fn format(name: &str, id: u16, fields: &str, print: &str) -> Format {
    let text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}\n{fields}\nprint fmt: {print}\n");
    Format::parse(&text).expect("a well-formed format")
}

pub(crate) fn layout() -> SchedLayout {
    let formats = SchedFormats {
        switch: format("sched_switch", SWITCH_ID, SWITCH, STATES),
        wakeup: format("sched_wakeup", WAKEUP_ID, WAKEUP, "\"\""),
        wakeup_new: format("sched_wakeup_new", 12, WAKEUP, "\"\""),
        waking: None,
        migrate: None,
        homes: None,
        contention: None,
    };
    SchedLayout::new(&formats).expect("a known shape")
}

pub(crate) fn pages() -> PageLayout {
    PageLayout::parse(HEADER_PAGE, HEADER_EVENT).expect("a known form")
}

/// Which two threads alternate on a CPU; the one that has it at event `number` is first.
fn pair(cpu: u32, number: u64) -> (u32, u32) {
    let first = 1000 + 2 * cpu;
    match (number / 2).is_multiple_of(2) {
        true => (first, first + 1),
        false => (first + 1, first),
    }
}

/// Bytes in the format of a tracepoint.
fn raw(id: u16, current: u32, len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut raw = vec![0; len];
    let (id, current) = (id.to_ne_bytes(), current.to_ne_bytes());
    for (at, bytes) in parts.iter().copied().chain([(0, &id[..]), (4, &current[..])]) {
        raw[at..at + bytes.len()].copy_from_slice(bytes);
    }
    raw
}

/// The content that the tracepoint wrote for event `number` of a CPU.
pub(crate) fn written(cpu: u32, number: u64) -> Vec<u8> {
    let (running, other) = pair(cpu, number);
    let (running_bytes, other_bytes) = (running.to_ne_bytes(), other.to_ne_bytes());
    let prio = 120u32.to_ne_bytes();
    let comm = b"synthetic\0";
    match number.is_multiple_of(2) {
        true => {
            let cpu = cpu.to_ne_bytes();
            let parts = [(8, &comm[..]), (24, &other_bytes[..]), (28, &prio[..]), (32, &cpu[..])];
            raw(WAKEUP_ID, running, 36, &parts)
        }
        false => raw(
            SWITCH_ID,
            running,
            64,
            &[
                (8, comm),
                (24, &running_bytes),
                (28, &prio),
                (32, &1u64.to_ne_bytes()),
                (40, comm),
                (56, &other_bytes),
                (60, &prio),
            ],
        ),
    }
}

/// When event `number` of a CPU happened.
pub(crate) fn time(cpu: u32, number: u64) -> Nanos {
    Nanos(1_000_000 + number * STEP + u64::from(cpu) * 7 % STEP)
}

/// The same as the body of a perf sample: time, length, bytes.
pub(crate) fn sample(cpu: u32, number: u64) -> Vec<u8> {
    let raw = written(cpu, number);
    let mut body = time(cpu, number).0.to_ne_bytes().to_vec();
    body.extend((raw.len() as u32).to_ne_bytes());
    body.extend(raw);
    body
}

/// The same as a typed event.
pub(crate) fn event(cpu: u32, number: u64) -> Event {
    let (running, other) = pair(cpu, number);
    let comm = Comm::from_bytes(b"synthetic");
    let kind = match number.is_multiple_of(2) {
        true => Kind::Wake(Wake {
            kind: WakeKind::Wakeup,
            tid: Tid(other),
            prio: 120,
            target: Cpu(cpu),
            comm,
            current: Tid(running),
            by: Waker::Task(Tid(running)),
            same_process: None,
            in_scope: None,
        }),
        false => Kind::Switch(Switch {
            prev: Tid(running),
            next: Tid(other),
            prev_prio: 120,
            next_prio: 120,
            state: PrevState { letter: 'S', preempted: false },
            syscall: None,
            in_scope: None,
            prev_comm: comm,
            next_comm: comm,
        }),
    };
    Event { time: time(cpu, number), kind }
}

/// One full page of ftrace events of a CPU, from event `first` on, and the number of the next event.
pub(crate) fn page(cpu: u32, first: u64) -> (Vec<u8>, u64) {
    let mut data: Vec<u8> = Vec::new();
    let mut number = first;
    loop {
        let raw = written(cpu, number);
        if data.len() + 4 + raw.len() > 4080 {
            break;
        }
        let delta = if number == first { 0 } else { STEP as u32 };
        // Lengths in words, below the delta.
        let word = (raw.len() as u32 / 4) | (delta << 5);
        data.extend(word.to_ne_bytes());
        data.extend(raw);
        number += 1;
    }
    let mut page = time(cpu, first).0.to_ne_bytes().to_vec();
    page.extend((data.len() as u64).to_ne_bytes());
    page.extend(data);
    page.resize(4096, 0);
    (page, number)
}

#[derive(Debug)]
struct NoLookup;

impl Lookup for NoLookup {
    fn process_of(&self, _: LocalId) -> Option<LocalId> {
        None
    }
    fn process_name(&self, _: LocalId) -> Option<Vec<u8>> {
        None
    }
}

/// An encoder that writes into memory.
pub(crate) fn encoder() -> Encoder<Vec<u8>> {
    let threads = Threads::new(Ids::Initial, Box::new(NoLookup));
    let recorder = ThreadName::Inline { process: Koid(1), thread: Koid(1) };
    Encoder::new(Vec::new(), threads, false, recorder)
}
