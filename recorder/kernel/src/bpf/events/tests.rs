//! Refusals and their handling, on a simulated kernel whose maps are files.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::lane::{self, RECORD_BYTES, Record, RecordKind, part};
use super::super::programs::Program;
use super::super::scope;
use super::super::sys::{self, On, ProgramSpec};
use super::*;
use crate::sys::Mapping;
use crate::units::Tid;

/// Creates maps as files, which can be mapped in the same way, and refuses the calls that the test selects.
#[derive(Debug, Default)]
struct Kernel {
    /// The largest value that a map may have.
    most_value_bytes: Option<u32>,
    /// The verifier's answer to every program.
    verdict: Option<&'static str>,
    /// Another way of refusing programs.
    refusal: Option<i32>,
    /// How many loads are interrupted by a signal.
    interrupted: Cell<u32>,
    /// The sizes of the values of the requested maps, in bytes.
    asked: RefCell<Vec<u32>>,
}

fn file(bytes: u32) -> OwnedFd {
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(u64::from(bytes)).expect("it can grow");
    file.into()
}

impl BpfSys for Kernel {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
        self.asked.borrow_mut().push(spec.value_bytes);
        match self.most_value_bytes {
            Some(most) if spec.value_bytes > most => Err(io::Error::from_raw_os_error(libc::E2BIG)),
            _ => Ok(file(spec.value_bytes.next_multiple_of(4096))),
        }
    }

    fn map_set_maps(&self, _: BorrowedFd<'_>, _: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
        Ok(())
    }

    fn program_load(&self, _: &ProgramSpec<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
        if self.interrupted.get() > 0 {
            self.interrupted.set(self.interrupted.get() - 1);
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        if let Some(errno) = self.refusal {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let Some(verdict) = self.verdict else { return Ok(file(0)) };
        if let Some(log) = log {
            log[..verdict.len()].copy_from_slice(verdict.as_bytes());
        }
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }

    fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Ok(file(0))
    }

    fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(0)
    }
}

fn wanted(lane_bytes: usize) -> Wanted<'static> {
    Wanted {
        cpus: &[Cpu(0), Cpu(1)],
        possible: 2,
        lane_bytes,
        waking: false,
        need_resched: false,
        narrow: None,
        owner: None,
        steal: true,
        threaded_softirqs: false,
        locks: false,
        packets: false,
        plain: false,
        calls: None,
        notes: None,
    }
}

fn program(name: &'static str) -> Program {
    Program { name, on: On::Tracepoint(1), insns: Vec::new(), license: c"GPL".into() }
}

#[test]
fn a_program_that_a_signal_keeps_from_being_verified_is_loaded_again() {
    let spec = ProgramSpec { name: "any", insns: &[], license: c"GPL", on: On::Samples };
    for (times, is_loaded) in [(0, true), (4, true), (9, false)] {
        let kernel = Kernel { interrupted: Cell::new(times), ..Kernel::default() };
        assert_eq!(sys::load(&kernel, &spec).is_ok(), is_loaded, "{times} times");
    }
}

#[test]
fn a_refused_program_is_an_error_with_what_the_verifier_said() {
    let kernel = Kernel { verdict: Some("R2 invalid mem access\n"), ..Kernel::default() };
    let program = program("fxtrec_switch");
    let error = Loaded::new(&kernel, &program).expect_err("refused");
    assert!(error.to_string().contains("fxtrec_switch"), "{error}");
    assert_eq!(error.verifier_log(), Some("R2 invalid mem access"));
    assert!(Loaded::new(&Kernel::default(), &program).is_ok());
}

#[test]
fn programs_that_not_every_kernel_takes_are_left_out_but_not_for_lack_of_descriptors() {
    let programs = [program("fxtrec_irq_in"), program("fxtrec_irq_in")];
    let load = |kernel: Kernel| load_if_possible(&kernel, &programs);
    assert_eq!(load(Kernel::default()).expect("both").len(), 2);
    let kernel = Kernel { verdict: Some("unknown func"), ..Kernel::default() };
    assert!(load(kernel).expect("the recording goes on without").is_empty());
    let kernel = Kernel { refusal: Some(libc::EMFILE), ..Kernel::default() };
    let error = load(kernel).expect_err("the user can do something about it");
    assert!(error.to_string().contains("fxtrec_irq_in"), "{error}");
}

#[test]
fn a_kernel_that_takes_no_values_of_that_size_gets_smaller_lanes_for_all_cpus() {
    let kernel = Kernel { most_value_bytes: Some(1 << 22), ..Kernel::default() };
    let (shape, lanes) = make_lanes(&kernel, &wanted(8 << 20)).expect("smaller ones are granted");
    assert!(shape.bytes() <= 1 << 22, "{shape:?}");
    assert_eq!(lanes.len(), 2);
    assert_eq!(shape, LaneShape::within(4 << 20));
    let kernel = Kernel { most_value_bytes: Some(4096), ..Kernel::default() };
    assert!(matches!(make_lanes(&kernel, &wanted(8 << 20)), Err(BpfError::Map { .. })));
}

#[test]
fn of_several_ways_the_first_that_the_kernel_accepts_is_taken() {
    let first = ReportOptions { interrupts: InterruptCount::OfTask, ..ReportOptions::LEAST };
    let ways = vec![first, ReportOptions::LEAST];
    let refuse = |way| match way {
        ReportOptions::LEAST => Ok("the last"),
        _ => Err(BpfError::Load { name: "x", error: io::Error::other("no"), log: String::new() }),
    };
    assert_eq!(
        first_loaded(ways.clone(), ReportOptions::LEAST, refuse).expect("the last works"),
        "the last"
    );
    assert_eq!(
        first_loaded(ways, ReportOptions::LEAST, |_| Ok("the first")).expect("it works"),
        "the first"
    );
}

/// Writes records like a program.
struct Writer {
    mapping: Mapping,
    shape: LaneShape,
    head: u64,
}

impl Writer {
    fn put(&mut self, tid: u32) {
        let slot = self.head as usize & (self.shape.records - 1);
        let mut record = [0; RECORD_BYTES];
        record[part::NAMED_TID as usize..][..4].copy_from_slice(&tid.to_ne_bytes());
        record[part::KIND as usize] = RecordKind::Name as u8;
        let at = lane::at::RECORDS + slot * RECORD_BYTES;
        self.head += 1;
        for (at, bytes) in
            [(at, &record[..]), (lane::at::HEAD as usize, &self.head.to_ne_bytes()[..])]
        {
            assert!(at + bytes.len() <= self.mapping.len());
            // SAFETY: the assertion ensures that the bytes are inside the mapping, and the lane's reader holds no reference.
            unsafe { self.mapping.base().add(at).copy_from(bytes.as_ptr(), bytes.len()) };
        }
    }
}

#[test]
fn records_come_out_as_they_went_in_across_the_end_of_the_lane() {
    let kernel = Kernel::default();
    let shape = LaneShape::within(64 * 1024);
    let mut lane = Lane::new(&kernel, shape).expect("a lane");
    let mapping = Mapping::new(Some(lane.map()), shape.bytes()).expect("the same memory");
    let mut writer = Writer { mapping, shape, head: 0 };
    let mut tid = 0;
    let mut found = VecDeque::new();
    for round in 0..20 {
        let first = tid;
        for _ in 0..shape.records / 3 {
            writer.put(tid);
            tid += 1;
        }
        assert!(!lane.take(7, &mut found), "round {round}: there are more");
        assert_eq!(found.len(), 7);
        assert!(lane.take(usize::MAX, &mut found), "round {round}");
        assert_eq!(found.len(), (tid - first) as usize, "round {round}");
        for (expected, found) in (first..tid).zip(found.drain(..)) {
            let found = Record::parse(&found).expect("it was written");
            let Record::Name { tid, .. } = found else { panic!("{found:?}") };
            assert_eq!(tid, Tid(expected));
        }
        assert!(lane.take(usize::MAX, &mut found), "round {round}: nothing is left");
        assert!(found.is_empty());
    }
    assert!(tid as usize > 6 * shape.records);
}

#[test]
fn a_lane_is_closed_between_two_records_and_again_if_a_program_opened_it() {
    let kernel = Kernel::default();
    let shape = LaneShape::within(64 * 1024);
    let lane = Lane::new(&kernel, shape).expect("a lane");
    let mapping = Mapping::new(Some(lane.map()), shape.bytes()).expect("the same memory");
    let program = |busy: u64| {
        // SAFETY: the word is aligned and inside of the mapping, which outlives the closure, and is accessed only as a whole.
        let word =
            unsafe { AtomicU64::from_ptr(mapping.base().add(lane::at::BUSY as usize).cast()) };
        word.swap(busy, Ordering::Relaxed)
    };
    assert!(lane.close(), "nobody has opened it yet");
    lane.open();
    assert_eq!(program(1), 0);
    assert!(!lane.close(), "a program writes");
    assert_eq!(program(0), 1, "and goes on undisturbed");
    assert!(lane.close());
    assert_eq!(program(0), u64::try_from(lane::CLOSED).expect("positive"));
    assert!(lane.close(), "the second time");
    assert_eq!(program(1), u64::try_from(lane::CLOSED).expect("positive"));
}

#[test]
fn a_thread_is_new_in_scope_once() {
    let scope = scope::ScopeMap::new(&Kernel::default()).expect("a set");
    assert!(scope.insert(Tid(70)));
    assert!(!scope.insert(Tid(70)));
    assert!(scope.insert(Tid(6)), "another bit of the same place in another word");
}

/// Puts maps into a map of maps, and compares the ids that it contains afterwards with theirs.
fn assert_sets(how: impl Fn(BorrowedFd<'_>, &[(u32, BorrowedFd<'_>)]) -> io::Result<()>) {
    let linux = sys::LinuxBpf;
    let inner = MapSpec::memory(8, false);
    let maps: Vec<OwnedFd> = (0..100).map(|_| linux.map_create(&inner).expect("a map")).collect();
    let outer = linux.map_create(&MapSpec::of_maps(200, Some(maps[0].as_fd())));
    let outer = outer.expect("a map of maps");
    // Every second slot stays empty, and the order differs from that of the keys.
    let placed: Vec<_> =
        maps.iter().enumerate().map(|(at, map)| (198 - 2 * at as u32, map.as_fd())).collect();
    how(outer.as_fd(), &placed).expect("the kernel takes them");
    for (key, map) in placed {
        let mut id = [0; 4];
        linux.map_lookup(outer.as_fd(), key, &mut id).expect("it is there");
        assert_eq!(u32::from_ne_bytes(id), sys::map_id(map).expect("it has an id"));
        assert!(linux.map_lookup(outer.as_fd(), key + 1, &mut id).is_err(), "{key}");
    }
}

#[test]
fn the_lanes_of_all_cpus_are_put_into_their_places_at_once_or_side_by_side() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: this needs root");
        return;
    }
    assert_sets(|outer, inner| sys::LinuxBpf.map_set_maps(outer, inner));
    assert_sets(sys::set_side_by_side);
}
