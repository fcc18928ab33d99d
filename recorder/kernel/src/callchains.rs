//! Stacks where BPF is not permitted: perf's call chains, on the scheduler's tracepoints.
//!
//! ```text
//!   sched_switch     thread that blocks, with its stack         --+
//!   sched_switch     incoming thread                            --+--> one ring for each CPU --> waits that were long
//!   sched_waking     waker with its stack, and thread (option)  --+
//!   a clock          running thread, with its stack (option)    --+
//! ```
//!
//! The kernel records a stack each time a thread is switched out to block: whether the wait is long becomes known only later, here. The
//! user stack is walked by frame pointers alone, and no stack memory is copied.
//!
//! A thread may be switched in on a CPU other than the one on which it was switched out, so records are processed in time order, up to the
//! time that all rings have been read past.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use perf_event_open_sys::bindings as b;
use rustc_hash::FxHashMap;

use crate::bpf::stacks::{
    KERNEL_FRAMES, Missing, Registers, Sample, SampleKind, USER_FRAMES, UserStack, Walked, Wanted,
    clock_attr,
};
use crate::code_records::CodeRecords;
use crate::format::Format;
use crate::perf::page_size;
use crate::ring::{RawRecord, Ring};
use crate::sys::Sys;
use crate::tracefs::{Tracefs, TracefsError};
use crate::units::{Nanos, Pid, Tid};
use crate::{clock, cpus};

/// Bytes of the rings of all CPUs together, and of the largest and the smallest: 1500 stacks and more, read every 10 ms.
const ALL_RINGS_BYTES: usize = 128 << 20;
const MOST_RING_BYTES: usize = 16 << 20;
const LEAST_RING_BYTES: usize = 1 << 20;

/// How many frames the kernel takes of both parts together, unless configured otherwise.
const DEFAULT_FRAMES: usize = 127;

/// The states of a waiting thread, as in the tracepoint: asleep, uninterruptible, stopped, traced, idle.
const WAITING_STATES: u32 = 0x8f;

/// Marks the beginning of the kernel's frames, and of the program's frames; other numbers of that size mark other parts.
const KERNEL_CONTEXT: u64 = (-128_i64).cast_unsigned();
const USER_CONTEXT: u64 = (-512_i64).cast_unsigned();
const FIRST_CONTEXT: u64 = (-4095_i64).cast_unsigned();

/// The reason why there are no call chains.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallchainError {
    #[error("cannot record {what}: {error}")]
    Refused { what: &'static str, error: io::Error },
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> CallchainError {
    move |error| CallchainError::Refused { what, error }
}

/// The subject of an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Out,
    In,
    Waking,
    Clock,
}

impl Event {
    /// Whether its records have a stack: that of the current thread.
    fn has_chain(self) -> bool {
        self != Event::In
    }

    /// Whether they have the tracepoint's raw data, for the other thread: a third of a record's size in the ring.
    fn has_raw(self) -> bool {
        matches!(self, Event::In | Event::Waking)
    }
}

const EVENTS: [(Event, &str); 4] = [
    (Event::Out, "threads that are switched out"),
    (Event::In, "threads that are switched in"),
    (Event::Waking, "wakeups"),
    (Event::Clock, "samples of a clock"),
];

/// Both parts of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    kernel: Vec<u64>,
    /// `None` for a kernel thread.
    user: Option<Vec<u64>>,
    /// Whether the user stack may have more frames.
    is_cut: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    time: Nanos,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Out { tid: Tid, pid: Pid, chain: Chain },
    In { tid: Tid },
    Wakes { tid: Tid, pid: Pid, woken: Tid, chain: Chain },
    Runs { tid: Tid, pid: Pid, chain: Chain },
    Lost(u64),
}

/// A thread that waits.
#[derive(Clone, Debug)]
struct Wait {
    since: Nanos,
    pid: Pid,
    chain: Chain,
}

/// Offsets of the other thread of a switch or wakeup in the tracepoint's data.
#[derive(Clone, Copy, Debug)]
struct Places {
    next: usize,
    woken: usize,
}

#[derive(Debug)]
struct CpuChains {
    ring: Ring,
    events: Vec<OwnedFd>,
    /// Time of the last record: losses occurred after it.
    last: Nanos,
}

/// Call chains of the whole machine. Dropping this stops them.
#[derive(Debug)]
pub struct CallchainStacks {
    sys: Box<dyn Sys + Send>,
    cpus: Vec<CpuChains>,
    /// The events by the numbers in their records.
    events: FxHashMap<u64, Event>,
    places: Places,
    most_frames: usize,
    over: Nanos,
    waits: FxHashMap<Tid, Wait>,
    /// Records that older records may still precede.
    seen: Vec<Seen>,
    code: io::Result<CodeRecords>,
    missing: Missing,
}

/// The offset of a four-byte field; if there is no such field, the largest number, at which nothing can be read.
fn place(format: &Format, name: &str) -> usize {
    format.find(name).filter(|field| field.size == 4).map_or(usize::MAX, |field| field.offset)
}

impl CallchainStacks {
    /// Opens the requested events, disabled.
    ///
    /// # Errors
    /// Returns [`CallchainError`] at the first call that the kernel refuses.
    pub fn open(
        sys: Box<dyn Sys + Send>,
        wanted: Wanted,
    ) -> Result<CallchainStacks, CallchainError> {
        let tracefs = Tracefs::find(&*sys)?;
        let switch = tracefs.event_format(&*sys, "sched", "sched_switch")?;
        let waking = tracefs.event_format(&*sys, "sched", "sched_waking")?;
        let places = Places { next: place(&switch, "next_pid"), woken: place(&waking, "pid") };
        let most_frames = sys.read(Path::new("/proc/sys/kernel/perf_event_max_stack"));
        let most_frames = most_frames
            .ok()
            .and_then(|text| String::from_utf8_lossy(&text).trim().parse::<usize>().ok());
        let online = cpus::online(&*sys).map_err(io::Error::other);
        let online = online.map_err(refused("the CPUs that are online"))?;
        let share = ALL_RINGS_BYTES / online.len().max(1).next_power_of_two();
        let bytes = page_size() + share.clamp(LEAST_RING_BYTES, MOST_RING_BYTES);
        let (mut cpus, mut events) = (Vec::new(), FxHashMap::default());
        for cpu in online {
            let mut opened: Option<CpuChains> = None;
            for (event, what) in EVENTS {
                let mut attr = match event {
                    Event::Out | Event::In => tracepoint_attr(&switch, event),
                    Event::Waking if wanted.wakes => tracepoint_attr(&waking, event),
                    Event::Clock if wanted.frequency.is_some() => {
                        common_attr(clock_attr(wanted.frequency.unwrap_or(1)), event)
                    }
                    Event::Waking | Event::Clock => continue,
                };
                let refused = refused(what);
                let fd = sys.perf_event_open(&mut attr, cpu.0).map_err(&refused)?;
                let filter = match event {
                    Event::Out => Some(format!("prev_pid != 0 && prev_state & {WAITING_STATES}")),
                    Event::In => Some("next_pid != 0".to_owned()),
                    Event::Waking | Event::Clock => None,
                };
                if let Some(filter) = filter {
                    let filter = CString::new(filter).map_err(io::Error::other);
                    let filter = filter.map_err(&refused)?;
                    sys.perf_set_filter(fd.as_fd(), &filter).map_err(&refused)?;
                }
                events.insert(sys.perf_id(fd.as_fd()).map_err(&refused)?, event);
                match &mut opened {
                    Some(opened) => {
                        let first = &opened.events[0];
                        sys.perf_set_output(fd.as_fd(), first.as_fd()).map_err(&refused)?;
                        opened.events.push(fd);
                    }
                    None => {
                        let mapping = sys.perf_mmap(fd.as_fd(), bytes).map_err(&refused)?;
                        let ring = Ring::new(mapping).map_err(io::Error::other);
                        let ring = ring.map_err(&refused)?;
                        opened = Some(CpuChains { ring, events: vec![fd], last: Nanos(0) });
                    }
                }
            }
            cpus.extend(opened);
        }
        let code = CodeRecords::open(&*sys);
        Ok(CallchainStacks {
            sys,
            cpus,
            events,
            places,
            most_frames: most_frames.unwrap_or(DEFAULT_FRAMES),
            over: wanted.over,
            waits: FxHashMap::default(),
            seen: Vec::new(),
            code,
            missing: Missing::default(),
        })
    }

    /// Starts recording.
    ///
    /// # Errors
    /// Returns [`CallchainError::Refused`].
    pub fn attach(&mut self) -> Result<(), CallchainError> {
        for event in self.cpus.iter().flat_map(|cpu| &cpu.events) {
            self.sys.perf_enable(event.as_fd()).map_err(refused("stacks"))?;
        }
        Ok(())
    }

    /// Stops recording; the content of the rings stays readable.
    pub fn detach(&mut self) {
        for event in self.cpus.iter().flat_map(|cpu| &cpu.events) {
            // An event whose CPU went offline has stopped anyway.
            let _ = self.sys.perf_disable(event.as_fd());
        }
    }

    /// Hands out the available samples, in the order in which they ended.
    pub fn read(&mut self, mut take: impl FnMut(Sample)) {
        let now = clock::now();
        let (events, places, most) = (&self.events, self.places, self.most_frames);
        for cpu in &mut self.cpus {
            cpu.ring.refresh();
            while let Some(record) = cpu.ring.next_record() {
                let Some(mut seen) = seen(record, events, places, most) else { continue };
                match seen.what {
                    What::Lost(_) => seen.time = cpu.last,
                    _ => cpu.last = cpu.last.max(seen.time),
                }
                self.seen.push(seen);
            }
            cpu.ring.release();
        }
        self.seen.sort_by_key(|seen| seen.time);
        let ripe = self.seen.partition_point(|seen| seen.time <= now);
        let later = self.seen.split_off(ripe);
        for Seen { time, what } in std::mem::replace(&mut self.seen, later) {
            if let Some(sample) = self.follow(time, what) {
                take(sample);
            }
        }
    }

    /// The sample that a record completes, if any.
    fn follow(&mut self, time: Nanos, what: What) -> Option<Sample> {
        let is_long = |since: Nanos| time.0.saturating_sub(since.0) >= self.over.0;
        match what {
            What::Out { tid, pid, chain } => {
                self.waits.insert(tid, Wait { since: time, pid, chain });
                None
            }
            What::In { tid } => {
                let Wait { since, pid, chain } = self.waits.remove(&tid)?;
                is_long(since).then(|| {
                    let (kind, until) = (SampleKind::OffCpu, time);
                    sample(kind, (tid, pid), (since, until), chain)
                })
            }
            What::Wakes { tid, pid, woken, chain } => {
                let since = self.waits.get(&woken)?.since;
                is_long(since)
                    .then(|| sample(SampleKind::Wake(woken), (tid, pid), (since, time), chain))
            }
            What::Runs { tid: Tid(0), .. } => None,
            What::Runs { tid, pid, chain } => {
                Some(sample(SampleKind::Cpu, (tid, pid), (time, time), chain))
            }
            What::Lost(count) => {
                // A thread may have been switched in and out again unseen: its wait would appear too long.
                self.missing.no_room += count;
                self.missing.given_up += self.waits.len() as u64;
                self.waits.clear();
                None
            }
        }
    }

    /// Hands out perf's records of the code of processes since the last call: see [`CodeRecords`].
    pub fn read_code(&mut self, take: impl FnMut(RawRecord<'_>)) {
        if let Ok(code) = &mut self.code {
            code.read(take);
        }
    }

    /// The reason why there are no records of the code of processes, if there are none.
    pub fn without_code(&self) -> Option<&io::Error> {
        self.code.as_ref().err()
    }

    /// Missing data: records for which a ring had no room, and waits that were therefore dropped.
    pub fn missing(&self) -> Missing {
        self.missing
    }
}

/// The attributes that all events share: the event's id first, then the thread, the time, and the position in its code.
fn common_attr(mut attr: b::perf_event_attr, event: Event) -> b::perf_event_attr {
    attr.size = size_of::<b::perf_event_attr>() as u32;
    attr.sample_type =
        u64::from(b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME);
    for (is_wanted, bit) in
        [(event.has_chain(), b::PERF_SAMPLE_CALLCHAIN), (event.has_raw(), b::PERF_SAMPLE_RAW)]
    {
        attr.sample_type |= if is_wanted { u64::from(bit) } else { 0 };
    }
    attr.set_disabled(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    // No thread waits for it.
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = MOST_RING_BYTES as u32;
    attr
}

fn tracepoint_attr(format: &Format, event: Event) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr {
        type_: b::PERF_TYPE_TRACEPOINT,
        config: format.id,
        ..b::perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    common_attr(attr, event)
}

/// Words and halves of them from the front of a record.
struct Front<'r>(&'r [u8]);

impl Front<'_> {
    fn double(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }
}

/// Parses a record of the ring; `None` if it is irrelevant here.
fn seen(
    record: RawRecord<'_>,
    events: &FxHashMap<u64, Event>,
    places: Places,
    most_frames: usize,
) -> Option<Seen> {
    let mut front = Front(record.body);
    if record.kind == b::PERF_RECORD_LOST {
        let (_id, count) = (front.double()?, front.double()?);
        // Its end has the thread, the time and the event.
        let (_who, time) = (front.double()?, front.double()?);
        return Some(Seen { time: Nanos(time), what: What::Lost(count) });
    }
    if record.kind != b::PERF_RECORD_SAMPLE {
        return None;
    }
    let event = *events.get(&front.double()?)?;
    let (pid, tid) = (Pid(front.word()?), Tid(front.word()?));
    let time = Nanos(front.double()?);
    let chain = match event.has_chain() {
        true => Some(chain(&mut front, most_frames)?),
        false => None,
    };
    let raw = match event.has_raw() {
        true => {
            let length = usize::try_from(front.word()?).ok()?;
            front.0.get(..length)?
        }
        false => &[],
    };
    let at = |place: usize| {
        let bytes = raw.get(place..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| Tid(u32::from_ne_bytes(*bytes)))
    };
    let what = match (event, chain) {
        (Event::Out, Some(chain)) => What::Out { tid, pid, chain },
        (Event::In, _) => What::In { tid: at(places.next)? },
        (Event::Waking, Some(chain)) => What::Wakes { tid, pid, woken: at(places.woken)?, chain },
        (Event::Clock, Some(chain)) => What::Runs { tid, pid, chain },
        _ => return None,
    };
    Some(Seen { time, what })
}

/// Parses the two parts of a stack; a word before each part identifies it.
fn chain(front: &mut Front<'_>, most_frames: usize) -> Option<Chain> {
    let count = usize::try_from(front.double()?).ok()?;
    if count > front.0.len() / size_of::<u64>() {
        return None;
    }
    let mut chain = Chain { kernel: Vec::new(), user: None, is_cut: false };
    let mut context = KERNEL_CONTEXT;
    let mut frames = 0;
    for _ in 0..count {
        let word = front.double()?;
        if word >= FIRST_CONTEXT {
            context = word;
            if word == USER_CONTEXT {
                chain.user.get_or_insert_default();
            }
            continue;
        }
        frames += 1;
        match (context, &mut chain.user) {
            (KERNEL_CONTEXT, _) if chain.kernel.len() < KERNEL_FRAMES => chain.kernel.push(word),
            (USER_CONTEXT, Some(user)) if user.len() < USER_FRAMES => user.push(word),
            _ => {}
        }
    }
    chain.is_cut = frames >= most_frames;
    Some(chain)
}

fn sample(
    kind: SampleKind,
    (tid, pid): (Tid, Pid),
    (since, until): (Nanos, Nanos),
    chain: Chain,
) -> Sample {
    let user = match chain.user {
        None => UserStack::NoProgram,
        Some(frames) if frames.is_empty() => UserStack::Unreadable,
        Some(frames) => {
            let registers = Registers { instruction: frames[0], ..Registers::default() };
            let is_cut = chain.is_cut;
            UserStack::Walked(Box::new(Walked { frames, registers, is_cut, ..Walked::default() }))
        }
    };
    // perf does not distinguish a process's memory before and after an execve(2); that is reported separately.
    const ONE: u64 = 1;
    Sample {
        kind,
        tid,
        pid,
        since,
        until,
        space: ONE,
        user,
        kernel: Some(chain.kernel),
        waited: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { next: 4, woken: 0 };

    fn events() -> FxHashMap<u64, Event> {
        FxHashMap::from_iter([
            (1, Event::Out),
            (2, Event::In),
            (3, Event::Waking),
            (4, Event::Clock),
        ])
    }

    /// A sample of the event `id` at `time`, of thread 41 of process 40.
    fn body(id: u64, time: u64, chain: Option<&[u64]>, raw: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(id.to_ne_bytes());
        bytes.extend([40_u32, 41].iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(time.to_ne_bytes());
        if let Some(chain) = chain {
            bytes.extend((chain.len() as u64).to_ne_bytes());
            bytes.extend(chain.iter().flat_map(|word| word.to_ne_bytes()));
        }
        if !raw.is_empty() {
            bytes.extend((4 * raw.len() as u32).to_ne_bytes());
        }
        bytes.extend(raw.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn read(body: &[u8]) -> Option<Seen> {
        let record = RawRecord { kind: b::PERF_RECORD_SAMPLE, misc: 0, body };
        seen(record, &events(), PLACES, 5)
    }

    const CHAIN: [u64; 5] = [KERNEL_CONTEXT, u64::MAX << 40, USER_CONTEXT, 0x1000, 0x2000];

    fn chain(user: Option<Vec<u64>>) -> Chain {
        Chain { kernel: vec![u64::MAX << 40], user, is_cut: false }
    }

    #[test]
    fn each_record_is_read_as_its_event_writes_it() {
        let (tid, pid) = (Tid(41), Pid(40));
        let whole = chain(Some(vec![0x1000, 0x2000]));
        let time = Nanos(9);
        let out = What::Out { tid, pid, chain: whole.clone() };
        assert_eq!(read(&body(1, 9, Some(&CHAIN), &[])), Some(Seen { time, what: out }));
        let what = What::In { tid: Tid(8) };
        assert_eq!(read(&body(2, 9, None, &[7, 8])), Some(Seen { time, what }));
        let what = What::Wakes { tid, pid, woken: Tid(7), chain: chain(None) };
        assert_eq!(read(&body(3, 9, Some(&CHAIN[..2]), &[7])), Some(Seen { time, what }));
        let what = What::Runs { tid, pid, chain: chain(Some(Vec::new())) };
        assert_eq!(read(&body(4, 9, Some(&CHAIN[..3]), &[])), Some(Seen { time, what }));
        assert_eq!(read(&body(5, 9, Some(&CHAIN), &[])), None, "nobody's");
    }

    #[test]
    fn a_stack_that_has_as_many_frames_as_the_kernel_takes_may_have_more() {
        let long = [&CHAIN[..], &[0x3000, 0x4000]].concat();
        let Some(Seen { what: What::Out { chain, .. }, .. }) = read(&body(1, 9, Some(&long), &[]))
        else {
            panic!("it goes out");
        };
        assert!(chain.is_cut && chain.user.is_some_and(|user| user.len() == 4));
    }

    #[test]
    fn lengths_in_records_are_not_trusted() {
        let whole = body(3, 9, Some(&CHAIN), &[7]);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length} bytes");
        }
        for lie in [6, u64::MAX, 1 << 40] {
            let mut lying = whole.clone();
            lying[24..32].copy_from_slice(&u64::to_ne_bytes(lie));
            assert_eq!(read(&lying), None, "{lie} frames");
        }
        let lost = RawRecord { kind: b::PERF_RECORD_LOST, misc: 0, body: &whole[..24] };
        assert_eq!(seen(lost, &events(), PLACES, 5), None);
    }

    /// Without CPUs.
    fn stacks(over: u64) -> CallchainStacks {
        CallchainStacks {
            sys: Box::new(crate::sys::Linux),
            cpus: Vec::new(),
            events: events(),
            places: PLACES,
            most_frames: 5,
            over: Nanos(over),
            waits: FxHashMap::default(),
            seen: Vec::new(),
            code: Err(io::ErrorKind::Unsupported.into()),
            missing: Missing::default(),
        }
    }

    #[test]
    fn long_waits_have_a_stack_and_so_has_who_ends_them() {
        let mut stacks = stacks(100);
        let whole = || chain(Some(vec![0x1000]));
        let (tid, pid) = (Tid(41), Pid(40));
        let out = |time| Seen { time: Nanos(time), what: What::Out { tid, pid, chain: whole() } };
        let comes = |time| Seen { time: Nanos(time), what: What::In { tid } };
        let wakes = |time| {
            let what = What::Wakes { tid: Tid(50), pid: Pid(50), woken: tid, chain: chain(None) };
            Seen { time: Nanos(time), what }
        };
        // As if read from three rings: in no particular order.
        stacks.seen =
            vec![comes(1300), wakes(1020), comes(1050), out(1000), out(1100), wakes(1290)];
        let mut found = Vec::new();
        stacks
            .read(|sample| found.push((sample.kind, sample.since.0, sample.until.0, sample.user)));
        let [wake, wait] = &found[..] else { panic!("{found:?}") };
        assert_eq!(wake, &(SampleKind::Wake(tid), 1100, 1290, UserStack::NoProgram));
        assert_eq!((wait.0, wait.1, wait.2), (SampleKind::OffCpu, 1100, 1300));
        let UserStack::Walked(walked) = &wait.3 else { panic!("{wait:?}") };
        assert_eq!((&walked.frames[..], walked.top.len()), (&[0x1000][..], 0));
    }

    #[test]
    fn a_wait_is_not_followed_beyond_records_that_were_lost() {
        let mut stacks = stacks(100);
        let (tid, pid) = (Tid(41), Pid(40));
        let at = |time, what| Seen { time: Nanos(time), what };
        stacks.seen = vec![
            at(1000, What::Out { tid, pid, chain: chain(None) }),
            at(1100, What::Lost(3)),
            at(1200, What::In { tid }),
        ];
        stacks.read(|sample| panic!("{sample:?}"));
        let expected = Missing { no_room: 3, unseen: 0, given_up: 1 };
        assert_eq!(stacks.missing(), expected);
    }
}
