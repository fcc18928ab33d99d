//! Compares the programs' counts with known activity, on the running kernel.

use super::*;
use crate::sys::Linux;
use crate::units::{Nanos, Pid, Tid};

fn shape() -> Shape {
    Shape::within(8 << 20, 2, 64)
}

#[test]
fn bounds_are_powers_of_two_of_a_second_and_one_lies_in_each_octave() {
    assert_eq!(bound(0), Some(59));
    assert_eq!(bound(24), Some(1_000_000_000));
    assert_eq!(bound(32), Some(256_000_000_000));
    assert_eq!(bound(40), Some(65_536_000_000_000));
    assert_eq!(bound(41), None);
    // The programs shift from the highest bit.
    assert!(
        (0..41).all(|bucket| bound(bucket).is_some_and(|it| it.ilog2() as usize == bucket + 5))
    );
}

#[test]
fn tables_fit_their_budget_unless_that_is_too_small_for_anything() {
    for (bytes, cpus) in [(64 << 20, 1), (64 << 20, 2), (64 << 20, 72), (64 << 20, 512)] {
        let shape = Shape::within(bytes, cpus, 512);
        assert!((48..=512).contains(&shape.slots), "{shape:?}");
        assert!(shape.cpu_bytes() * cpus <= bytes + cpus * 1024, "{shape:?}");
    }
    assert_eq!(Shape::within(64 << 20, 2, 512).slots, 512);
    assert_eq!(Shape::within(0, 0, 0).slots, 16);
}

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: this needs root");
    }
    root
}

fn open(key: KeyBy, shape: Shape) -> SchedCounts {
    open_by(key, shape, crate::cgroups::mounted().expect("a hierarchy of cgroups").0)
}

fn open_by(key: KeyBy, shape: Shape, hierarchy: Hierarchy) -> SchedCounts {
    let possible = crate::cpus::possible(&Linux).expect("sysfs is there");
    let cpus = possible.last().map_or(1, |cpu| cpu.0 as usize + 1);
    let wanted = Wanted { key, shape: Shape { cpus, ..shape }, hierarchy, steal: true };
    SchedCounts::open(&Linux, Box::new(crate::bpf::sys::LinuxBpf), wanted)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.verifier_log().unwrap_or_default()))
}

fn tid() -> Tid {
    // SAFETY: the call has no arguments, and returns the thread's own id.
    Tid(unsafe { libc::gettid() }.cast_unsigned())
}

#[test]
fn the_running_kernel_counts_how_long_a_thread_slept_and_ran() {
    if !is_root() {
        return;
    }
    for key in [KeyBy::Cgroup, KeyBy::CgroupAndName] {
        drop(open(key, shape()));
    }
    // Other tests create threads in the meantime, more than a thousand.
    let mut counts = open(KeyBy::Thread, Shape { slots: 4096, ..shape() });
    counts.attach().expect("the programs run");
    // While another program that this kernel does not report runs, a wakeup can be missed; in that case fewer sleeps are known.
    let attempts = 5;
    let whole = (0..attempts).filter(|_| all_five_sleeps_are_counted(&mut counts)).count();
    assert!(whole >= 1, "none of {attempts} threads has all of its sleeps");
    counts.detach();
    counts.take().expect("the kernel waits");
    assert!(counts.take().expect("again").is_empty(), "everything was taken");
    assert_eq!(counts.missing().overflowed, 0);
}

/// Lets a thread sleep five times. Asserts that the counts are correct, and returns whether all five sleeps were counted.
fn all_five_sleeps_are_counted(counts: &mut SchedCounts) -> bool {
    let begin = crate::clock::now();
    let sleeper = std::thread::Builder::new().name("counted".to_owned()).spawn(|| {
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        tid()
    });
    let slept = sleeper.expect("a thread").join().expect("it slept");
    let rows = counts.take().expect("the kernel waits");
    let during = Nanos(crate::clock::now().0 - begin.0);
    let mut found = rows.iter().filter(|row| matches!(row.key, Key::Thread(it, ..) if it == slept));
    let row = found.next().expect("it was counted");
    assert_eq!(found.next(), None, "each once");
    let Key::Thread(_, name, process) = &row.key else { unreachable!("filtered") };
    assert!(name.starts_with(b"counted\0") || *process == Pid(std::process::id()), "{row:?}");
    let blocked = row.figures.of(Measure::Blocked);
    if blocked.max == 0 {
        // None of the wakeups was recorded.
        return false;
    }
    assert!(blocked.max >= 20_000_000 && blocked.max <= during.0, "{row:?}");
    let above: u64 = (0..BUCKETS)
        .filter(|&bucket| bound(bucket).is_none_or(|bound| bound >= 20_000_000))
        .map(|bucket| blocked.buckets[bucket])
        .sum();
    assert!(blocked.sum >= above * 20_000_000, "{row:?}");
    let (slices, waits) = (row.figures.of(Measure::Slice), row.figures.run_queue());
    assert!(slices.sum + waits.sum + blocked.sum <= during.0, "{row:?}");
    above == 5 && slices.count() >= 5 && waits.count() >= slices.count()
}

#[test]
fn cgroups_of_either_version_are_reported_by_their_numbers() {
    use std::os::unix::fs::MetadataExt;
    if !is_root() {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let unified = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let unified = unified.and_then(|line| line.split(' ').nth(4));
    let unified = unified.map(|point| (Hierarchy::Unified, std::path::PathBuf::from(point)));
    for (hierarchy, root) in crate::cgroups::mounted().into_iter().chain(unified) {
        let folder = root.join(format!("fxtrec-counts-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&folder) {
            eprintln!("skipped: no cgroup can be made in {}: {error}", root.display());
            continue;
        }
        let number = folder.metadata().expect("it is there").ino();
        let mut counts = open_by(KeyBy::Cgroup, shape(), hierarchy);
        counts.attach().expect("the programs run");
        let procs = folder.join("cgroup.procs");
        let script = format!("echo $$ > {} && sleep 0.05", procs.display());
        let done = std::process::Command::new("sh").args(["-c", &script]).status();
        counts.detach();
        // A thread that has just ended may still be listed.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            std::fs::remove_dir(&folder).is_ok()
        });
        assert!(done.expect("a shell").success() && gone);
        let rows = counts.take().expect("the kernel waits");
        let row = rows.iter().find(|row| row.key == Key::Cgroup(number));
        let row = row.unwrap_or_else(|| panic!("{hierarchy:?} has no {number}: {rows:?}"));
        assert!(row.figures.of(Measure::Blocked).max >= 40_000_000, "{row:?}");
    }
}

#[test]
fn what_finds_no_slot_is_counted_as_other_and_nothing_is_lost() {
    if !is_root() {
        return;
    }
    let mut counts = open(KeyBy::Thread, Shape { slots: 16, ..shape() });
    counts.attach().expect("the programs run");
    for _ in 0..100 {
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(1)))
            .join()
            .expect("it slept");
    }
    counts.detach();
    let rows = counts.take().expect("the kernel waits");
    let others: Vec<_> = rows.iter().filter(|row| row.key == Key::Other).collect();
    let [other] = &others[..] else { panic!("one of all CPUs: {}", rows.len()) };
    let samples: u64 = Measure::ALL.iter().map(|it| other.figures.of(*it).count()).sum();
    let overflowed = counts.missing().overflowed;
    assert!(samples > 0 && overflowed >= samples, "{overflowed}: {other:?}");
    assert!(rows.len() <= 2 * (16 + 8) + 1);
}

#[test]
fn a_share_of_samples_is_bounded_from_above() {
    let mut histogram = Histogram { max: 90, ..Histogram::default() };
    assert_eq!(histogram.at_most(0.99), None);
    histogram.buckets[0] = 98;
    histogram.buckets[1] = 2;
    assert_eq!(histogram.at_most(0.98), Some(59));
    assert_eq!(histogram.at_most(0.99), Some(90), "the maximum is less than the bound of 119 ns");
}
