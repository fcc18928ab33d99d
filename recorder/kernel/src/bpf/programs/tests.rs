//! The programs as words; what they do is tested against the kernel.

use std::os::fd::{AsFd, OwnedFd};

use super::super::asm::Helper;
use super::super::interrupts::{InterruptCount, Reach};
use super::super::task::{
    Cast, FutexLayout, QueueLayout, StateLayout, SyscallLayout, ThrottleLayout, Throttling,
    Tracepoints,
};
use super::event::MOST_NUMBERS;
use super::*;

fn layout(interrupts: InterruptCount, state: Option<StateLayout>) -> TaskLayout {
    let tracepoints =
        Tracepoints { switch: 1, wakeup: 2, wakeup_new: 3, waking: 4, newtask: 5, migrate: 6 };
    TaskLayout {
        pid: 100,
        tgid: 104,
        comm: 200,
        prio: 300,
        cpu: 8,
        exit_state: 400,
        state,
        interrupts,
        interrupt_bits: 0x000f_0100,
        stolen: Some(QueueLayout { queue: 500, run_queue: 600, stolen: 3240 }),
        throttle: None,
        syscall: Some(syscall()),
        futex: None,
        tracepoints,
    }
}

fn syscall() -> SyscallLayout {
    SyscallLayout {
        flags: 44,
        narrow: 16,
        narrow_width: Width::Word,
        narrow_bits: 2,
        number: 120,
        number_width: Width::Double,
    }
}

fn throttle(throttling: Throttling) -> ThrottleLayout {
    ThrottleLayout {
        throttling,
        queue: 500,
        parent: 508,
        entity_queue: 168,
        entity_parent: 160,
        clock: 376,
        group: 344,
        cgroup: 0,
        node: 8,
        number: 16,
        run_queue: 600,
        now: 2776,
        own_clock: 400,
        own_time: 408,
    }
}

fn descriptor() -> OwnedFd {
    std::fs::File::open("/dev/null").expect("it is everywhere").into()
}

fn accounts(fd: &OwnedFd) -> Accounts<'_> {
    Accounts { map: fd.as_fd(), possible: 3, irqs: true, asking: true }
}

/// Programs for this task, with a scope.
fn setting<'a>(task: &'a TaskLayout, fd: &'a OwnedFd) -> Setting<'a> {
    Setting {
        task,
        shape: LaneShape::within(8 << 20),
        lanes: fd.as_fd(),
        doorbell: fd.as_fd(),
        scope: Some(Scope::Threads(fd.as_fd())),
        wakers: fd.as_fd(),
        accounts: accounts(fd),
        contentions: None,
        notes: None,
    }
}

fn names(scope: bool, waking: bool) -> Vec<&'static str> {
    let fd = descriptor();
    let task = layout(InterruptCount::Unknown, None);
    let scope = scope.then(|| Scope::Threads(fd.as_fd()));
    let setting = Setting { scope, ..setting(&task, &fd) };
    let programs = all(&setting, waking).expect("they assemble");
    programs.iter().map(|program| program.name).collect()
}

#[test]
fn scope_is_followed_before_switches_and_those_before_wake_ups() {
    let events =
        ["fxtrec_switch", "fxtrec_migrate", "fxtrec_waking", "fxtrec_wake_new", "fxtrec_wakeup"];
    assert_eq!(names(false, false), events);
    assert_eq!(names(true, true), [&["fxtrec_newtask"], &events[..]].concat());
}

const CAST: Cast = Cast { function: 77_000, task: 120 };

fn beside_run_queue(reach: Reach) -> InterruptCount {
    InterruptCount::BesideRunQueue { queue: 16, run_queue: 32, distance: -9000, reach }
}

#[test]
fn programs_fit_every_known_kernel_and_stay_short() {
    let fd = descriptor();
    let counts = [
        InterruptCount::OfCpu { variable: 7, offset: 8 },
        beside_run_queue(Reach::Cast(CAST)),
        beside_run_queue(Reach::CopyLast),
        beside_run_queue(Reach::CopyAll),
        InterruptCount::OfTask { offset: 12 },
        InterruptCount::Unknown,
    ];
    let told = |bytes| Some(StateLayout { offset: 24, bytes, queued: 32 });
    for interrupts in counts {
        for state in [None, told(4), told(8)] {
            let task = layout(interrupts, state);
            let setting = setting(&task, &fd);
            for program in all(&setting, true).expect("they assemble") {
                assert!(program.insns.len() < 280, "{}: {}", program.name, program.insns.len());
                assert!(program.name.len() < 16, "the kernel cuts longer names");
            }
        }
    }
}

#[test]
fn what_tells_of_throttling_lengthens_the_programs_but_little_and_those_on_wake_ups_before_6_18_only()
 {
    let fd = descriptor();
    let lengths = |throttling: Option<Throttling>| {
        let throttle = throttling.map(throttle);
        let task = TaskLayout { throttle, ..layout(InterruptCount::Unknown, None) };
        let setting = setting(&task, &fd);
        let programs = all(&setting, true).expect("they assemble");
        programs.iter().map(|program| program.insns.len()).collect::<Vec<_>>()
    };
    let queues = Throttling::OfQueues { count: 368, group: 900, queues: 72, cast: CAST };
    let none = lengths(None);
    for (throttling, wakes_too) in [(Throttling::OfTasks(752), false), (queues, true)] {
        let told = lengths(Some(throttling));
        let more: Vec<usize> = told.iter().zip(&none).map(|(told, none)| told - none).collect();
        assert!(more.iter().all(|more| *more < 160), "{throttling:?}: {more:?}");
        // In the order of `all`: new tasks, switches, moves, the begins of wake-ups, first ones and others.
        assert_eq!([more[4] > 0, more[5] > 0], [wakes_too; 2], "{throttling:?}: {more:?}");
        assert_eq!((more[0], more[3]), (0, 0), "{throttling:?}: {more:?}");
    }
}

#[test]
fn only_with_locks_the_program_on_switches_looks_into_the_memory_of_programs() {
    let fd = descriptor();
    let mut reading = Assembler::new();
    reading.call(Helper::ProbeReadUser);
    let reading = reading.finish().expect("it assembles")[0];
    let without = TaskLayout {
        throttle: Some(throttle(Throttling::OfTasks(752))),
        ..layout(InterruptCount::Unknown, None)
    };
    let futex = FutexLayout { call: 202, address: 112, operation: 104, value: 96 };
    let assembled = |task: &TaskLayout| {
        let setting = setting(task, &fd);
        all(&setting, true).expect("they assemble")
    };
    let plain = assembled(&without);
    // docs/sources.md gives the shortest and the longest.
    let lengths = plain.iter().map(|program| program.insns.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [37, 360, 155, 159, 149, 162]);
    let with_locks = assembled(&TaskLayout { futex: Some(futex), ..without });
    for (plain, with_locks) in plain.iter().zip(&with_locks) {
        assert!(!plain.insns.contains(&reading), "{}", plain.name);
        let switch = plain.name == "fxtrec_switch";
        assert_eq!(with_locks.insns.contains(&reading), switch, "{}", plain.name);
        assert_eq!(plain.insns == with_locks.insns, !switch, "{}", plain.name);
        assert!(with_locks.insns.len() <= plain.insns.len() + 40, "{}", with_locks.insns.len());
    }
}

#[test]
fn locks_of_the_kernel_lengthen_the_program_on_switches_only() {
    let fd = descriptor();
    let task = layout(InterruptCount::Unknown, None);
    let without = setting(&task, &fd);
    let with = Setting { contentions: Some(fd.as_fd()), ..without };
    let [without, with] = [without, with].map(|it| all(&it, true).expect("they assemble"));
    for (without, with) in without.iter().zip(&with) {
        let more = with.insns.len() - without.insns.len();
        assert_eq!(more > 0, without.name == "fxtrec_switch", "{}", without.name);
        assert!(more < 30, "{}: {more}", without.name);
    }
}

#[test]
fn only_where_the_running_task_is_needed_it_is_asked_for() {
    // Linux 5.10 knows no such call, and its verifier refuses programs that have it.
    let mut asked = Assembler::new();
    asked.call(Helper::GetCurrentTaskBtf);
    let asked = asked.finish().expect("it assembles")[0];
    let fd = descriptor();
    for (interrupts, expected) in [
        (InterruptCount::OfCpu { variable: 7, offset: 8 }, false),
        (InterruptCount::Unknown, false),
        (InterruptCount::OfTask { offset: 12 }, true),
    ] {
        let task = layout(interrupts, None);
        let setting = Setting { scope: None, ..setting(&task, &fd) };
        let programs = all(&setting, true).expect("they assemble");
        let asks = programs.iter().any(|program| program.insns.contains(&asked));
        assert_eq!(asks, expected, "{interrupts:?}");
    }
}

#[test]
fn a_program_on_calls_compares_the_wanted_numbers_and_tells_no_names() {
    let fd = descriptor();
    let task = layout(InterruptCount::Unknown, None);
    let setting = setting(&task, &fd);
    let calls = CallLayout { syscall: syscall(), enter: 70, exit: 71 };
    let programs = |numbers: Option<&[u16]>| on_calls(&setting, calls, numbers).expect("assembles");
    let all = programs(None);
    let told: Vec<_> = all.iter().map(|program| (program.name, program.tracepoint)).collect();
    assert_eq!(told, [("fxtrec_call_end", 71), ("fxtrec_call", 70)]);
    let [end, begin] = &programs(Some(&[35, 230]))[..] else { panic!("two") };
    for (program, all) in [(end, &all[0]), (begin, &all[1])] {
        // Two comparisons, and the way out.
        assert_eq!(program.insns.len(), all.insns.len() + 3, "{}", program.name);
    }
    // More than are worth comparing: user space leaves out the others.
    let many: Vec<u16> = (0..=MOST_NUMBERS as u16).collect();
    assert_eq!(programs(Some(&many)), all);
}
