//! Samples as the program writes them, and hostile ones.

use super::*;

/// A sample with two frames in the kernel, and one and eight bytes of the stack behind them.
fn bytes(user: i64, walked: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [1000_u64, 5000] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [41_u32, 40] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [user, walked, 77, 1, 2, 3, 4, 8, 1 | 50 << 32, -1, -2, 0x7000, 9] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// The same of a wait.
fn off_cpu(user: i64, walked: i64) -> Vec<u8> {
    let mut bytes = bytes(user, walked);
    bytes[part::KIND..part::FRAMES].fill(0);
    bytes
}

#[test]
fn a_sample_is_read_as_the_programs_write_it() {
    let registers = Registers { instruction: 1, stack: 2, frame: 3, link: 4 };
    let top = 9_u64.to_ne_bytes().to_vec();
    let walked = Walked { frames: vec![0x7000], registers, top, is_cut: false };
    let expected = Sample {
        kind: SampleKind::Wake(Tid(50)),
        tid: Tid(41),
        pid: Pid(40),
        since: Nanos(1000),
        until: Nanos(5000),
        space: 77,
        user: UserStack::Walked(Box::new(walked)),
        kernel: Some(vec![u64::MAX, u64::MAX - 1]),
    };
    assert_eq!(sample(&bytes(8, 16), false), Some(expected.clone()));
    assert_eq!(sample(&bytes(8, 16), true), Some(expected.clone()), "only waits are in the table");
    let numbered = Sample { user: UserStack::Number(9), kind: SampleKind::OffCpu, ..expected };
    assert_eq!(sample(&off_cpu(9, 16), true), Some(numbered));
}

#[test]
fn what_could_not_be_walked_is_told_with_the_reason() {
    let user = |number| sample(&off_cpu(number, 16), true).expect("a sample").user;
    assert_eq!(user(NO_PROGRAM), UserStack::NoProgram);
    assert_eq!(user(-i64::from(libc::EFAULT)), UserStack::Unreadable);
    assert_eq!(user(-i64::from(libc::EEXIST)), UserStack::NoRoom);
    let late = sample(&bytes(NO_PROGRAM, 16), false).expect("a sample").user;
    assert_eq!(late, UserStack::NoProgram);
    let without = sample(&off_cpu(0, -i64::from(libc::EFAULT)), true).expect("a sample");
    assert_eq!((without.kernel, without.user), (None, UserStack::Number(0)));
    let UserStack::Walked(walked) =
        sample(&bytes(-i64::from(libc::EFAULT), 16), false).expect("a sample").user
    else {
        panic!("registers are there");
    };
    assert_eq!((walked.frames.len(), walked.top.len()), (0, 8));
}

#[test]
fn a_sample_that_is_shorter_than_it_says_is_none() {
    let whole = bytes(8, 16);
    for length in 0..whole.len() {
        assert_eq!(sample(&whole[..length], false), None, "{length} bytes");
    }
    for (user, walked) in [(16, 24), (8, i64::MAX), (i64::MAX, 16), (24, 16)] {
        assert_eq!(sample(&bytes(user, walked), false), None, "{user}, {walked}");
    }
}

#[test]
fn the_running_kernel_loads_the_program_and_tells_where_a_thread_slept() {
    use crate::sys::Linux;
    // SAFETY: the call has no arguments and no effects.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: this needs root");
        return;
    }
    let over = Nanos(20_000_000);
    let wanted = Wanted { over, wakes: true, frequency: Some(99), copy: None };
    let mut stacks = BlockedStacks::open(&Linux, Box::new(sys::LinuxBpf), wanted)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.verifier_log().unwrap_or_default()));
    stacks.attach().expect("the program runs");
    // On a busy machine the short sleeps can be long too, and one that is preempted until its time is over does not sleep. What a
    // sleep must be is known, not which of a few attempts it is.
    let mut attempts = (0..10).map(|_| {
        let sleeper = std::thread::spawn(|| {
            for length in [1, 1] {
                std::thread::sleep(std::time::Duration::from_millis(length));
            }
            let begun = crate::clock::now();
            std::thread::sleep(std::time::Duration::from_millis(50));
            // SAFETY: the call has no arguments, and returns the thread's own id.
            (unsafe { libc::gettid() }, begun, crate::clock::now())
        });
        let (tid, begun, ended) = sleeper.join().expect("it slept");
        let (tid, mut waits, mut wakes) = (Tid(tid.cast_unsigned()), Vec::new(), Vec::new());
        stacks.read(|sample| {
            let sample = sample.expect("a whole sample");
            match sample.kind {
                SampleKind::Cpu => {
                    assert_ne!(sample.tid, Tid(0), "idle is nobody");
                    return;
                }
                SampleKind::OffCpu | SampleKind::Wake(_) => {
                    assert!(sample.until.0 - sample.since.0 >= over.0, "{sample:?}");
                }
            }
            match sample.kind {
                SampleKind::Wake(woken) if woken == tid => wakes.push(sample.since),
                SampleKind::OffCpu if sample.tid == tid => waits.push(sample),
                _ => {}
            }
        });
        let in_sleep = |wait: &Sample| wait.since >= begun && wait.until <= ended;
        let mut slept = waits.into_iter().filter(in_sleep);
        let long = slept.find(|wait| wakes.contains(&wait.since))?;
        let same = wakes.iter().filter(|since| **since == long.since).count();
        assert_eq!(same, 1, "one ended the wait");
        assert!(slept.all(|other| other.since != long.since), "a wait has one stack");
        Some(long)
    });
    let long = attempts.find_map(|long| long).expect("one of ten sleeps is told");
    drop(attempts);
    stacks.detach();
    assert_eq!(long.pid, Pid(std::process::id()));
    let kernel = long.kernel.as_ref().expect("the kernel's stack can be walked");
    assert!(kernel.len() >= 2 && kernel.iter().all(|&frame| frame >> 63 == 1), "{kernel:x?}");
    let user = match &long.user {
        UserStack::Number(number) => stacks.user_stack(*number).expect("it is in the table"),
        UserStack::Walked(walked) => {
            let Registers { instruction, stack, .. } = walked.registers;
            assert_eq!(walked.frames.first(), Some(&instruction));
            assert!(stack != 0 && stack % 8 == 0, "{stack:x}");
            assert!(walked.top.len() >= 512, "{} bytes", walked.top.len());
            walked.frames.clone()
        }
        other => panic!("{other:?}"),
    };
    assert!(!user.is_empty() && user.iter().all(|&frame| frame >> 63 == 0), "{user:x?}");
    assert_eq!(stacks.missing().no_room, 0);
    assert_eq!(stacks.user_stack(u32::MAX), None);
}
