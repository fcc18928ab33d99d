//! Samples as the program writes them, and hostile ones.

use super::*;

/// A sample with two frames in the kernel.
fn bytes(user: i64, walked: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [1000_u64, 5000] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [41_u32, 40] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [user, walked, 77, -1, -2] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

#[test]
fn a_sample_is_read_as_the_program_writes_it() {
    let expected = Sample {
        tid: Tid(41),
        pid: Pid(40),
        since: Nanos(1000),
        until: Nanos(5000),
        space: 77,
        user: UserStack::Number(9),
        kernel: Some(vec![u64::MAX, u64::MAX - 1]),
    };
    assert_eq!(sample(&bytes(9, 16)), Some(expected));
}

#[test]
fn what_could_not_be_walked_is_told_with_the_reason() {
    let user = |number| sample(&bytes(number, 16)).expect("a sample").user;
    assert_eq!(user(NO_PROGRAM), UserStack::NoProgram);
    assert_eq!(user(-i64::from(libc::EFAULT)), UserStack::Unreadable);
    assert_eq!(user(-i64::from(libc::EEXIST)), UserStack::NoRoom);
    let without = sample(&bytes(0, -i64::from(libc::EFAULT))).expect("a sample");
    assert_eq!((without.kernel, without.user), (None, UserStack::Number(0)));
}

#[test]
fn a_sample_that_is_shorter_than_it_says_is_none() {
    let whole = bytes(9, 16);
    for length in 0..whole.len() {
        assert_eq!(sample(&whole[..length]), None, "{length} bytes");
    }
    assert_eq!(sample(&bytes(9, 24)), None);
    assert_eq!(sample(&bytes(9, i64::MAX)), None);
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
    let mut stacks = BlockedStacks::open(&Linux, Box::new(sys::LinuxBpf), over)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.verifier_log().unwrap_or_default()));
    stacks.attach().expect("the program runs");
    let sleeper = std::thread::spawn(|| {
        for length in [1, 1, 50] {
            std::thread::sleep(std::time::Duration::from_millis(length));
        }
        // SAFETY: the call has no arguments, and returns the thread's own id.
        unsafe { libc::gettid() }
    });
    let tid = Tid(sleeper.join().expect("it slept").cast_unsigned());
    stacks.detach();
    let mut own = Vec::new();
    stacks.read(|sample| {
        let sample = sample.expect("a whole sample");
        assert!(sample.until.0 - sample.since.0 >= over.0, "{sample:?}");
        own.extend(Some(sample).filter(|sample| sample.tid == tid));
    });
    let [long] = &own[..] else { panic!("one wait is long: {own:?}") };
    assert_eq!(long.pid, Pid(std::process::id()));
    let kernel = long.kernel.as_ref().expect("the kernel's stack can be walked");
    assert!(kernel.len() >= 2 && kernel.iter().all(|&frame| frame >> 63 == 1), "{kernel:x?}");
    let UserStack::Number(number) = long.user else { panic!("{long:?}") };
    let user = stacks.user_stack(number).expect("it is in the table");
    assert!(!user.is_empty() && user.iter().all(|&frame| frame >> 63 == 0), "{user:x?}");
    assert_eq!(stacks.missing().no_room, 0);
    assert_eq!(stacks.user_stack(u32::MAX), None);
}
