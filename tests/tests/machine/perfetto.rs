//! The known requirements of Perfetto's importer for a file. The importer itself is run by `scripts/check-perfetto`.
//!
//! It advances from record to record by their sizes, so a wrong size derails the rest. From a switch it keeps the weights, from a wakeup
//! the waker, which must be a koid, and it skips unknown arguments by their sizes. So all of them are measured here word by word, using
//! only the format specification.

use std::collections::{BTreeMap, HashMap};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::recording::Ongoing;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::Trace;

use super::causes::{has, run};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

const MAGIC: u64 = 0x0016_5478_4604_0010;

// Types of records.
const METADATA: u64 = 0;
const STRING: u64 = 2;
const EVENT: u64 = 4;
const KERNEL_OBJECT: u64 = 7;
const SCHEDULING: u64 = 8;
const PROFILER: u64 = 10;

// Types of arguments.
const NULL: u64 = 0;
const INT32: u64 = 1;
const UINT32: u64 = 2;
const UINT64: u64 = 4;
const STRING_ARG: u64 = 6;
const POINTER: u64 = 7;
const KOID: u64 = 8;
const BOOL: u64 = 9;

fn bits(word: u64, first: u32, last: u32) -> u64 {
    word << (63 - last) >> (63 - last + first)
}

/// The words of each record, including its header.
fn records(words: &[u64]) -> Vec<&[u64]> {
    let (mut rest, mut records) = (words, Vec::new());
    while let Some(header) = rest.first() {
        let (kind, size) = (bits(*header, 0, 3), bits(*header, 4, 15) as usize);
        let at = words.len() - rest.len();
        assert!(kind <= PROFILER, "type {kind} at word {at}");
        assert!(size >= 1 && size <= rest.len(), "a record of {size} words at {at}");
        let (record, behind) = rest.split_at(size);
        records.push(record);
        rest = behind;
    }
    records
}

/// The rest of a record that is being read.
struct Rest<'r> {
    words: &'r [u64],
    strings: &'r HashMap<u64, String>,
}

impl Rest<'_> {
    fn word(&mut self) -> u64 {
        let (word, rest) = self.words.split_first().expect("the record is longer");
        self.words = rest;
        *word
    }

    fn bytes(&mut self, len: u64) -> String {
        let words = (0..len.div_ceil(8)).map(|_| self.word());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let (text, padding) = bytes.split_at(len as usize);
        assert!(padding.iter().all(|byte| *byte == 0), "{bytes:?}");
        String::from_utf8(text.to_vec()).expect("strings are UTF-8")
    }

    /// The text of a 16-bit reference, which may follow inline.
    fn text(&mut self, reference: u64) -> String {
        const INLINE: u64 = 1 << 15;
        match reference {
            0 => String::new(),
            _ if reference & INLINE != 0 => self.bytes(reference - INLINE),
            _ => self.strings.get(&reference).expect("a string comes before its use").clone(),
        }
    }

    /// The name, type and value of each of this many arguments.
    fn args(&mut self, count: u64) -> Vec<(String, u64, u64)> {
        let arg = |_| {
            let before = self.words.len();
            let header = self.word();
            let kind = bits(header, 0, 3);
            let name = self.text(bits(header, 16, 31));
            let value = match kind {
                NULL => 0,
                INT32 | UINT32 => bits(header, 32, 63),
                STRING_ARG => self.text(bits(header, 32, 47)).len() as u64,
                BOOL => bits(header, 32, 32),
                3..=5 | POINTER | KOID => self.word(),
                _ => panic!("the argument {name} is of type {kind}"),
            };
            let size = bits(header, 4, 15) as usize;
            assert_eq!(before - self.words.len(), size, "the size of the argument {name}");
            assert!(!name.is_empty(), "an argument has a name");
            (name, kind, value)
        };
        (0..count).map(arg).collect()
    }

    fn end(&self, what: &str) {
        assert!(self.words.is_empty(), "{what} is {} words longer", self.words.len());
    }
}

/// Which types an argument of a scheduling record may have.
fn types(name: &str) -> &'static [u64] {
    match name {
        "incoming_weight" | "outgoing_weight" | "weight" => &[INT32],
        "waker" | "request_by" | "futex_owner" | "futex_end_of" => &[KOID],
        "inferred" | "interrupt" | "throttled" => &[BOOL],
        "prev_state" | "throttled_by" | "kernel_lock_kind" | "kernel_lock_name"
        | "interrupt_kind" | "interrupt_name" | "packet" | "via" => &[STRING_ARG],
        "sent_ns" | "request_ns" | "device_ns" => &[UINT64],
        "request_bytes" => &[UINT32],
        "futex" | "kernel_lock" => &[POINTER],
        "steal_ns" | "irq_ns" | "irqs" | "need_resched_ns" | "throttled_ns" | "syscall" => {
            &[UINT32, UINT64]
        }
        _ => panic!("docs/reference/trace.md has no argument {name}"),
    }
}

/// How often scheduling records have each argument.
type Counts = BTreeMap<String, usize>;

fn check_scheduling(header: u64, rest: &mut Rest<'_>, counts: &mut Counts) {
    let kind = bits(header, 60, 63);
    assert!(rest.word() < 1 << 63, "a time");
    let koids: Vec<u64> = (0..if kind == 1 { 2 } else { 1 }).map(|_| rest.word()).collect();
    let args = rest.args(bits(header, 16, 19));
    rest.end("a scheduling record");
    for (name, kind, _) in &args {
        assert!(types(name).contains(kind), "the argument {name} is of type {kind}");
        *counts.entry(name.clone()).or_default() += 1;
    }
    let weight = |wanted: &str| {
        let of = |(name, _, value): &&(String, u64, u64)| name == wanted && *value == 1 << 31;
        args.iter().find(of).is_some()
    };
    match (kind, &koids[..]) {
        (1, [outgoing, incoming]) => {
            // Nothing else makes it consider a side as idle.
            assert_eq!(weight("outgoing_weight"), *outgoing == 0, "{koids:?} {args:?}");
            assert_eq!(weight("incoming_weight"), *incoming == 0, "{koids:?} {args:?}");
        }
        (2, [woken]) => assert_ne!(*woken, 0, "the idle task is not woken"),
        _ => panic!("a scheduling record of type {kind}"),
    }
    // Perfetto keeps 32 bits of a koid.
    assert!(koids.iter().all(|koid| *koid < 1 << 32), "{koids:?}");
}

fn check_event(header: u64, rest: &mut Rest<'_>) {
    assert!(rest.word() < 1 << 63, "a time");
    if bits(header, 24, 31) == 0 {
        let [_process, _thread] = [rest.word(), rest.word()];
    }
    let [category, name] = [(32, 47), (48, 63)].map(|(first, last)| bits(header, first, last));
    let (category, name) = (rest.text(category), rest.text(name));
    assert!(!category.is_empty() && !name.is_empty(), "{category:?} {name:?}");
    rest.args(bits(header, 20, 23));
    // All except instants and ends and begins of durations have one more word.
    if !matches!(bits(header, 16, 19), 0 | 2 | 3) {
        rest.word();
    }
    rest.end(&name);
}

/// Reads a file like Perfetto.
fn check(bytes: &[u8]) -> Counts {
    let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("words")));
    let words: Vec<u64> = words.collect();
    assert_eq!(words[0], MAGIC);
    let (mut strings, mut counts) = (HashMap::new(), Counts::new());
    let mut has_provider = false;
    for record in records(&words) {
        let header = record[0];
        let mut rest = Rest { words: &record[1..], strings: &strings };
        let kind = bits(header, 0, 3);
        assert!(has_provider || kind == METADATA, "a provider comes before type {kind}");
        match kind {
            METADATA => has_provider |= bits(header, 16, 19) == 1,
            STRING => {
                let text = rest.bytes(bits(header, 32, 46));
                rest.end("a string");
                strings.insert(bits(header, 16, 30), text);
            }
            EVENT => check_event(header, &mut rest),
            KERNEL_OBJECT => {
                rest.word();
                let name = rest.text(bits(header, 24, 39));
                assert!(!name.is_empty(), "a thread or process without a name");
                rest.args(bits(header, 40, 43));
                rest.end("a kernel object");
            }
            SCHEDULING => check_scheduling(header, &mut rest, &mut counts),
            _ => {}
        }
    }
    counts
}

#[test]
fn a_trace_with_every_fact_has_the_sizes_types_and_names_that_perfetto_goes_by() {
    if !may_record() {
        return;
    }
    let machine = machine::quiet();
    let quota = Quota::new("perfetto", 20_000);
    let folder = Folder::new();
    let path = folder.path("t.fxt");
    let options = ["--source", "bpf", "--locks", "--need-resched"];
    let ongoing = match Ongoing::start(&path, &options) {
        Ok(ongoing) => ongoing,
        Err(said) => return skip(&format!("bpf is refused here: {said}")),
    };
    match &quota {
        Some(quota) => quota.run(&[WORKLOAD, "slices", "2", "40"]),
        None => eprintln!("no cgroup may have a quota here"),
    }
    run(&["calls", "40"]);
    run(&["threads", "2", "200"]);
    let (path, _) = ongoing.stop();
    machine.give_back();
    let counts = check(&std::fs::read(&path).expect("it was written"));
    println!("{counts:?}");

    let trace = Trace::read(&path);
    trace.assert_sound();
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!(count("incoming_weight"), trace.switches.len());
    assert_eq!(count("weight"), trace.wakeups.len());
    let reported = [
        ("waker", "waker"),
        ("irq", "irq_ns"),
        ("syscall", "syscall"),
        ("futex", "futex"),
        ("need_resched", "need_resched_ns"),
    ];
    for (_, argument) in reported.into_iter().filter(|(cause, _)| has(&trace, cause)) {
        assert!(count(argument) > 0, "{argument}: {counts:?}");
    }
    if quota.is_some() && has(&trace, "throttled") {
        assert!(count("throttled_ns") > 0 && count("throttled_by") > 0, "{counts:?}");
    }
}
