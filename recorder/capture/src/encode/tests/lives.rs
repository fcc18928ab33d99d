//! Forks, ends, and reused ids.

use super::{LOST, Proc, SECOND, Scene, comm_of, fork, renamed, switch, wakeup, wakeup_new};
use crate::encode::ids::Ids;
use crate::encode::threads::Threads;
use crate::event::{Contention, Event, Futex, KernelLock, Kind, LocalId, SliceFacts, Switch, Wake};
use fxtrec_units::lock_kind::LockKind;
use fxtrec_units::{Cpu, Nanos, Tid};

/// Thread 5, named, has CPU 0.
fn five_runs() -> Scene {
    let mut scene = Scene::new();
    scene.at(10, 0, switch(0, "R", 5));
    scene.reported();
    scene
}

/// The first wakeup of `tid`, which still has the name of `parent`.
fn first_wakeup(tid: u32, parent: u32) -> Wake {
    Wake { comm: comm_of(parent), ..wakeup_new(tid, parent) }
}

#[test]
fn only_another_thread_of_the_same_process_may_be_the_owner_of_a_futex() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((5, 6), (5, 5)));
    scene.at(101, 0, fork((7, 7), (5, 5)));
    scene.at(102, 0, first_wakeup(6, 5));
    scene.at(103, 0, first_wakeup(7, 5));
    scene.reported();
    let mut time = 200;
    // Thread 7 is of another process, 8 is unknown, and 0 is the idle task. The id of a lock's owner, or of the thread whose end is waited
    // for, is only a claim of the program.
    let cases = [
        (false, 6, " futex_owner=koid:6"),
        (false, 5, ""),
        (false, 7, ""),
        (false, 8, ""),
        (false, 0, ""),
        (false, u32::MAX, ""),
        (true, 6, " futex_end_of=koid:6"),
        (true, 7, ""),
    ];
    for (is_end, owner, reported) in cases {
        let futex = Some(Futex { address: 0x1000, owner: Some(Tid(owner)), is_end });
        scene.at(time, 0, Kind::Slice(SliceFacts { futex, ..SliceFacts::default() }));
        scene.at(time, 0, Switch { syscall: Some(202), ..switch(5, "S", 0) });
        let line = format!(
            "{time} cpu 0: 5 (1024) blocked -> 0 (idle) syscall=202 futex=0x1000{reported}"
        );
        assert_eq!(scene.scheduled(), [line], "{is_end}, {owner}");
        scene.at(time + 1, 0, wakeup(5, 6));
        scene.at(time + 2, 0, switch(0, "R", 5));
        scene.reported();
        time += 10;
    }
    // For a thread that does not block, no lock is reported.
    let futex = Some(Futex { address: 0x1000, owner: Some(Tid(6)), is_end: false });
    scene.at(time, 0, Kind::Slice(SliceFacts { futex, ..SliceFacts::default() }));
    scene.at(time, 0, switch(5, "R+", 6));
    let reported = scene.scheduled().pop().expect("a switch");
    assert!(!reported.contains("futex"), "{reported}");
}

#[test]
fn a_kernel_lock_is_reported_for_a_blocked_thread_without_its_address_and_not_next_to_a_futex() {
    let mut scene = five_runs();
    let lock = |address, kind| {
        let kernel_lock = Some(KernelLock { address, kind });
        SliceFacts { kernel_lock, ..SliceFacts::default() }
    };
    let mut reported = |time: u64, facts, state| {
        scene.at(time, 0, Kind::Slice(facts));
        scene.at(time, 0, switch(5, state, 0));
        let reported = scene.scheduled().pop().expect("a switch");
        scene.at(time + 1, 0, wakeup(5, 6));
        scene.at(time + 2, 0, switch(0, "R", 5));
        scene.reported();
        reported
    };
    const PLACE: u64 = 0xffff_8881_0000_1000;
    let first = reported(200, lock(PLACE, LockKind::Mutex), "D");
    let again = reported(300, lock(PLACE, LockKind::Mutex), "D");
    let other = reported(400, lock(PLACE + 64, LockKind::RwsemRead), "D");
    let id = |line: &str| {
        let rest = line.split_once("kernel_lock=").expect("it is told").1;
        rest.split(' ').next().expect("an id").to_owned()
    };
    assert!(first.contains("kernel_lock_kind=\"mutex\""), "{first}");
    assert!(other.contains("kernel_lock_kind=\"rwsem_read\""), "{other}");
    assert_eq!(id(&first), id(&again));
    assert_ne!(id(&first), id(&other));
    assert!(!first.contains("ffff8881"), "{first}");
    let preempted = reported(500, lock(PLACE, LockKind::Mutex), "R+");
    assert!(!preempted.contains("kernel_lock"), "{preempted}");
    let futex = Some(Futex { address: 0x1000, owner: None, is_end: false });
    scene.at(600, 0, Kind::Slice(SliceFacts { futex, ..lock(PLACE, LockKind::RtMutex) }));
    scene.at(600, 0, Switch { syscall: Some(202), ..switch(5, "S", 0) });
    let reported = scene.scheduled().pop().expect("a switch");
    assert!(reported.contains("futex=0x1000") && !reported.contains("kernel_lock"), "{reported}");
}

#[test]
fn who_waits_for_a_lock_of_the_kernel_by_the_tracepoints_has_it_at_each_sleep_until_the_end_or_a_loss()
 {
    const PLACE: u64 = 0xffff_8881_0000_1000;
    let mut scene = five_runs();
    scene.at(20, 1, switch(0, "R", 9));
    let contention = |contention| Kind::Contention { tid: Tid(5), contention };
    let lock = KernelLock { address: PLACE, kind: LockKind::Mutex };
    // Thread 5 sleeps, and is switched in again, on the other CPU the second time.
    let sleeps = |scene: &mut Scene, time: u64, cpu: u32| {
        scene.at(time, cpu, switch(5, "D", 0));
        let reported = scene.scheduled().pop().expect("a switch");
        scene.at(time + 1, cpu, wakeup(5, 6));
        scene.at(time + 2, cpu, switch(0, "R", 5));
        scene.reported();
        reported.contains("kernel_lock_kind=\"mutex\"")
    };
    assert!(!sleeps(&mut scene, 100, 0));
    scene.at(110, 0, contention(Contention::Begin(lock)));
    assert!(sleeps(&mut scene, 120, 0));
    // Another thread is switched out meanwhile, and does not wait.
    scene.at(130, 1, switch(9, "S", 0));
    let other = scene.scheduled().pop().expect("a switch");
    assert!(!other.contains("kernel_lock"), "{other}");
    assert!(sleeps(&mut scene, 140, 0), "it did not get it");
    scene.at(150, 0, switch(5, "R+", 0));
    let preempted = scene.scheduled().pop().expect("a switch");
    assert!(!preempted.contains("kernel_lock"), "{preempted}");
    scene.at(160, 1, switch(0, "R", 5));
    scene.reported();
    assert!(sleeps(&mut scene, 170, 1), "elsewhere");
    scene.at(180, 1, contention(Contention::End(PLACE + 64)));
    assert!(sleeps(&mut scene, 190, 1), "the end of another lock");
    scene.at(200, 1, contention(Contention::End(PLACE)));
    assert!(!sleeps(&mut scene, 210, 1));
    for (time, loss) in [(300, LOST), (400, Kind::LostLives { count: Some(1) })] {
        scene.at(time, 1, contention(Contention::Begin(lock)));
        scene.at(time + 10, 0, loss);
        assert!(!sleeps(&mut scene, time + 20, 1), "its end may be lost: {loss:?}");
    }
}

#[test]
fn a_new_thread_has_its_parents_name_and_process() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((5, 6), (5, 5)));
    assert_eq!(scene.reported(), [] as [&str; 0], "a fork alone needs no name");
    scene.at(101, 0, first_wakeup(6, 5));
    assert_eq!(scene.reported(), ["thread 6 = t5 of 5", "101 cpu 0: wakes 6 (1024) waker=koid:5"]);
    assert_eq!(scene.encoder.stats().forks, 1);
}

#[test]
fn a_new_process_has_its_parents_name_until_it_gets_its_own() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((6, 6), (5, 5)));
    scene.at(101, 0, first_wakeup(6, 5));
    assert_eq!(scene.named(), ["process 6 = t5", "thread 6 = t5 of 6"]);
    scene.at(110, 0, renamed((6, 6), "t6"));
    scene.at(120, 0, switch(5, "S", 6));
    assert_eq!(scene.named(), ["process 6 = t6", "thread 6 = t6 of 6"]);
}

#[test]
fn a_new_process_of_an_unknown_parent_has_the_name_of_its_first_wake_up() {
    let mut scene = Scene::new();
    scene.at(100, 0, fork((6, 6), (5, 5)));
    scene.at(101, 0, wakeup_new(6, 5));
    let six: Vec<String> =
        scene.named().into_iter().filter(|line| line.contains(" 6 = ")).collect();
    assert_eq!(six, ["process 6 = t6", "thread 6 = t6 of 6"]);
}

#[test]
fn two_processes_that_shared_a_tid_are_two() {
    let mut scene = five_runs();
    for (generation, time) in [(0, 100), (1, 200), (2, 300)] {
        let koid = 6 + generation * SECOND;
        scene.at(time, 0, fork((6, 6), (5, 5)));
        scene.at(time + 1, 0, first_wakeup(6, 5));
        assert_eq!(
            scene.reported(),
            [
                format!("process {koid} = t5"),
                format!("thread {koid} = t5 of {koid}"),
                format!("{} cpu 0: wakes {koid} (1024) waker=koid:5", time + 1),
            ]
        );
        scene.at(time + 10, 0, switch(5, "S", 6));
        scene.at(time + 20, 0, switch(6, "Z", 5));
        assert_eq!(
            scene.scheduled(),
            [
                format!("{} cpu 0: 5 (1024) blocked -> {koid} (1024)", time + 10),
                format!("{} cpu 0: {koid} (1024) dying -> 5 (1024)", time + 20),
            ]
        );
    }
    assert_eq!(scene.encoder.stats().processes, 5, "the idle task's, 5 and three times 6");
}

#[test]
fn a_fork_ends_an_earlier_owner_of_the_tid_whose_end_was_not_seen() {
    let mut scene = five_runs();
    scene.at(100, 1, switch(0, "R", 6));
    scene.reported();
    scene.at(110, 0, fork((6, 6), (5, 5)));
    scene.at(111, 0, first_wakeup(6, 5));
    let koid = 6 + SECOND;
    assert_eq!(
        scene.reported(),
        [
            format!("process {koid} = t5"),
            format!("thread {koid} = t5 of {koid}"),
            format!("111 cpu 0: wakes {koid} (1024) waker=koid:5"),
        ],
        "and the earlier one's having a CPU does not keep the new one from being woken"
    );
    assert_eq!(scene.encoder.threads().living(), 3);
}

#[test]
fn a_process_outlives_its_main_thread() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((5, 6), (5, 5)));
    scene.at(110, 0, switch(5, "Z", 6));
    scene.at(120, 0, fork((5, 7), (5, 6)));
    scene.at(130, 0, switch(6, "S", 7));
    assert_eq!(scene.named(), ["thread 6 = t5 of 5", "thread 7 = t5 of 5"]);
}

/// A snapshot of thread 5 in process 5, complete at 1000.
fn snapshot_with_five() -> Threads {
    let mut threads = Threads::new(Ids::Initial, Box::new(Proc::default()));
    threads.begin_snapshot(Nanos(1000));
    let process = threads.add_process(LocalId(5), b"five");
    threads.add_thread(process, Some(LocalId(5)), Some(Tid(5)), comm_of(5));
    threads
}

#[test]
fn a_fork_that_the_snapshot_has_already_makes_no_second_thread() {
    let mut scene = Scene::of(snapshot_with_five());
    scene.at(900, 0, fork((5, 5), (4, 4)));
    scene.at(950, 0, wakeup_new(5, 4));
    scene.at(990, 0, switch(4, "S", 5));
    let five: Vec<String> =
        scene.reported().into_iter().filter(|line| !line.contains(" 4 = ")).collect();
    assert_eq!(
        five,
        [
            "process 5 = five",
            "thread 5 = t5 of 5",
            "950 cpu 0: wakes 5 (1024) waker=koid:4",
            "990 cpu 0: 4 (1024) blocked -> 5 (1024)",
        ]
    );
}

#[test]
fn a_first_wake_up_that_the_snapshot_has_already_makes_no_second_thread() {
    let mut scene = Scene::of(snapshot_with_five());
    scene.at(950, 0, wakeup_new(5, 4));
    assert_eq!(scene.scheduled(), ["950 cpu 0: wakes 5 (1024) waker=koid:4"]);
}

#[test]
fn a_fork_later_than_the_snapshot_is_a_new_owner_of_the_tid() {
    let mut scene = Scene::of(snapshot_with_five());
    scene.at(1001, 0, fork((5, 5), (4, 4)));
    scene.at(1002, 0, wakeup_new(5, 4));
    let koid = 5 + SECOND;
    assert_eq!(scene.scheduled(), [format!("1002 cpu 0: wakes {koid} (1024) waker=koid:4")]);
}

#[test]
fn a_thread_of_the_snapshot_that_ran_before_a_fork_of_its_tid_was_another() {
    let mut scene = Scene::of(snapshot_with_five());
    scene.at(1100, 0, switch(0, "R", 5));
    scene.at(1200, 0, switch(5, "S", 0));
    scene.at(1300, 1, fork((5, 5), (4, 4)));
    scene.at(1301, 1, wakeup_new(5, 4));
    let koid = 5 + SECOND;
    let woken = scene.scheduled().pop();
    assert_eq!(woken, Some(format!("1301 cpu 0: wakes {koid} (1024) waker=koid:4")));
}

#[test]
fn a_fork_that_was_lost_is_seen_by_the_first_wake_up() {
    let mut scene = five_runs();
    scene.at(100, 1, switch(6, "S", 0));
    scene.reported();
    scene.at(110, 0, wakeup_new(6, 5));
    let koid = 6 + SECOND;
    assert_eq!(
        scene.reported(),
        [
            format!("process {koid} = t6"),
            format!("thread {koid} = t6 of {koid}"),
            format!("110 cpu 0: wakes {koid} (1024) waker=koid:5"),
        ]
    );
}

#[test]
fn a_thread_whose_fork_was_lost_is_looked_up_in_proc() {
    let proc = Proc { threads: vec![(6, 5)], ..Proc::default() };
    let mut scene = Scene::of(Threads::new(Ids::Initial, Box::new(proc)));
    scene.at(10, 0, switch(0, "R", 5));
    scene.reported();
    scene.at(110, 0, wakeup_new(6, 5));
    assert_eq!(scene.reported(), ["thread 6 = t6 of 5", "110 cpu 0: wakes 6 (1024) waker=koid:5"]);
}

#[test]
fn a_first_wake_up_that_says_whose_thread_it_is_needs_no_fork() {
    let mut scene = five_runs();
    scene.at(110, 0, Wake { same_process: Some(true), ..first_wakeup(6, 5) });
    assert_eq!(scene.reported(), ["thread 6 = t5 of 5", "110 cpu 0: wakes 6 (1024) waker=koid:5"]);
    scene.at(120, 0, Wake { same_process: Some(false), ..first_wakeup(7, 5) });
    assert_eq!(
        scene.reported(),
        ["process 7 = t5", "thread 7 = t5 of 7", "120 cpu 0: wakes 7 (1024) waker=koid:5"]
    );
}

#[test]
fn a_first_wake_up_that_says_whose_thread_it_is_changes_nothing_of_a_fork() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((5, 6), (5, 5)));
    scene.at(101, 0, Wake { same_process: Some(true), ..first_wakeup(6, 5) });
    assert_eq!(scene.reported(), ["thread 6 = t5 of 5", "101 cpu 0: wakes 6 (1024) waker=koid:5"]);
    scene.at(110, 0, fork((7, 7), (5, 5)));
    scene.at(111, 0, Wake { same_process: Some(false), ..first_wakeup(7, 5) });
    assert_eq!(
        scene.reported(),
        ["process 7 = t5", "thread 7 = t5 of 7", "111 cpu 0: wakes 7 (1024) waker=koid:5"]
    );
    assert_eq!(scene.encoder.threads().living(), 4, "the idle task, 5, 6 and 7");
}

#[test]
fn a_wake_up_is_the_first_only_once() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((6, 6), (5, 5)));
    scene.at(101, 0, wakeup_new(6, 5));
    scene.at(102, 0, switch(5, "S", 6));
    scene.at(103, 0, switch(6, "S", 5));
    scene.reported();
    scene.at(104, 0, wakeup_new(6, 5));
    let koid = 6 + SECOND;
    assert_eq!(scene.scheduled(), [format!("104 cpu 0: wakes {koid} (1024) waker=koid:5")]);
}

#[test]
fn threads_that_have_ended_are_forgotten_by_the_thousand() {
    let mut scene = five_runs();
    let before = scene.encoder.threads().living();
    for round in 0..5000 {
        let (time, child, thread) =
            (1000 + u64::from(round) * 10, 100 + 2 * round, 101 + 2 * round);
        scene.at(time, 0, fork((child, child), (5, 5)));
        scene.at(time + 1, 0, first_wakeup(child, 5));
        scene.at(time + 2, 0, switch(5, "S", child));
        scene.at(time + 3, 0, fork((child, thread), (child, child)));
        scene.at(time + 4, 0, first_wakeup(thread, child));
        scene.at(time + 5, 0, switch(child, "Z", thread));
        scene.at(time + 6, 0, switch(thread, "X", 5));
    }
    assert_eq!(scene.encoder.threads().living(), before);
    assert_eq!(scene.encoder.threads().places(), (before + 2, 3), "slots are used again");
    assert_eq!(scene.encoder.stats().threads, 2 + 10_000);
}

#[test]
fn the_last_thread_of_an_old_process_leaves_the_new_owner_of_its_pid_alone() {
    let mut scene = five_runs();
    scene.at(100, 0, fork((5, 6), (5, 5)));
    scene.at(110, 0, switch(5, "R", 6));
    // The end of thread 5 was not recorded, and the exit of 6 is reported late.
    scene.at(120, 1, fork((5, 5), (7, 7)));
    scene.at(125, 1, switch(0, "R", 5));
    scene.at(130, 0, switch(6, "Z", 0));
    scene.reported();
    scene.at(140, 1, fork((5, 8), (5, 5)));
    scene.at(150, 1, switch(5, "S", 8));
    assert_eq!(scene.named(), [format!("thread 8 = t5 of {}", 5 + SECOND)]);
}

/// Thread 6 of process 5 ran on CPU 0 and has ended; 5 has the CPU.
fn six_has_ended(proc: Proc) -> Scene {
    let mut scene = Scene::of(Threads::new(Ids::Initial, Box::new(proc)));
    scene.at(10, 0, switch(0, "R", 5));
    scene.at(20, 0, fork((5, 6), (5, 5)));
    scene.at(21, 0, first_wakeup(6, 5));
    scene.at(30, 0, switch(5, "R", 6));
    scene.at(40, 0, switch(6, "X", 5));
    scene.reported();
    scene
}

#[test]
fn anyone_who_comes_in_under_the_id_of_a_dead_thread_is_another_and_of_another_process() {
    let mut scene = six_has_ended(Proc::default());
    scene.at(50, 1, switch(0, "R", 6));
    let koid = 6 + SECOND;
    let reported = scene.reported();
    assert!(reported.contains(&format!("thread {koid} = t6 of {koid}")), "{reported:?}");
    assert_eq!(reported.last(), Some(&format!("50 cpu 1: 0 (idle) running -> {koid} (1024)")));
}

#[test]
fn anyone_who_is_woken_under_the_id_of_a_dead_thread_is_another_and_looked_up_again() {
    let proc = Proc { threads: vec![(6, 9)], names: vec![(9, "nine")], ..Proc::default() };
    let mut scene = six_has_ended(proc);
    scene.at(50, 0, wakeup(6, 5));
    let koid = 6 + SECOND;
    assert_eq!(
        scene.reported(),
        [
            "process 9 = nine".to_owned(),
            format!("thread {koid} = t6 of 9"),
            format!("50 cpu 0: wakes {koid} (1024) waker=koid:5"),
        ]
    );
}

#[test]
fn the_id_of_a_dead_main_thread_is_another_process_after_a_loss() {
    let proc = Proc { threads: vec![], names: vec![(5, "another")], ..Proc::default() };
    let mut scene = Scene::of(Threads::new(Ids::Initial, Box::new(proc)));
    scene.at(10, 0, switch(0, "R", 5));
    scene.at(20, 0, fork((5, 6), (5, 5)));
    scene.at(30, 0, switch(5, "Z", 6));
    // The end of 6 is part of the loss.
    scene.at(40, 0, LOST);
    scene.reported();
    scene.at(50, 1, switch(0, "R", 5));
    let koid = 5 + SECOND;
    assert_eq!(
        scene.named().iter().filter(|line| line.contains("another") || line.contains("t5")).count(),
        2
    );
    scene.at(60, 1, switch(5, "S", 0));
    assert_eq!(scene.scheduled(), [format!("60 cpu 1: {koid} (1024) blocked -> 0 (idle)")]);
}

/// The wakeup becomes visible so late that the thread has ended since.
#[test]
fn a_late_wake_up_of_a_dead_thread_wakes_no_thread() {
    let mut scene = six_has_ended(Proc::default());
    let late = Event { time: Nanos(35), kind: Kind::Wake(wakeup(6, 5)) };
    scene.encoder.event(Nanos(41), Cpu(1), &late, &[]).expect("memory takes every record");
    assert_eq!(scene.reported(), [] as [&str; 0]);
    assert_eq!(scene.encoder.stats().spurious_wakeups, 1);
}
