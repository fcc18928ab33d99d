//! Samples as the program writes them, and malicious ones.

use super::super::events::{BpfEvents, Wanted as Events};
use super::super::lane::Lane;
use super::super::sys;
use super::*;
use std::sync::atomic::AtomicBool;

/// A sample with two frames in the kernel, followed by one and eight bytes of the stack.
fn bytes(user: i64, walked: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [1000_u64, 5000] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [41_u32, 40] {
        bytes.extend(word.to_ne_bytes());
    }
    for word in [user, walked, 77, 1, 2, 3, 4, 8, 1 | 50 << 32, 2 | 1 << 32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.resize(size_of::<Head>(), 0);
    for word in [-1_i64, -2, 0x7000, 0x5001, 6, 9] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// The same of a thread that waited for what these bytes of its description, by their places, say.
fn waited(parts: &[(usize, &[u8])]) -> Option<Waited> {
    let mut bytes = bytes(8, 16);
    for (place, part) in parts {
        let at = offset_of!(Head, object) + place;
        bytes[at..at + part.len()].copy_from_slice(part);
    }
    sample(&bytes, false).expect("a sample").waited.map(|waited| *waited)
}

#[test]
fn what_a_thread_waited_for_is_read_as_the_programs_write_it() {
    let kind = |kind: u32| (kind | 1).to_ne_bytes();
    let of = |mode, parts: &[(usize, &[u8])]| {
        let kind = kind(mode);
        let first: [(usize, &[u8]); 2] = [
            (offset_of!(Described, kind), &kind),
            (offset_of!(Described, descriptor), &[9, 0, 0, 0]),
        ];
        let found = waited(&[&first[..], parts].concat())?;
        assert_eq!(found.descriptor, 9);
        Some(found.object)
    };
    let (name, parent) = (offset_of!(Described, name), offset_of!(Described, parent));
    assert_eq!(waited(&[(name, b"file")]), None, "nothing is known");
    let file = WaitObject::File { path: b"etc/passwd".to_vec(), device: b"vda".to_vec() };
    let parts: [(usize, &[u8]); 3] =
        [(name, b"passwd"), (parent, b"etc"), (offset_of!(Described, device), b"vda")];
    assert_eq!(of(libc::S_IFREG, &parts), Some(file));
    let top = WaitObject::File { path: b"swap".to_vec(), device: Vec::new() };
    assert_eq!(of(libc::S_IFREG, &[(name, b"swap"), (parent, b"/")]), Some(top));
    assert_eq!(of(libc::S_IFREG, &[]), None, "without a name");
    let whole = of(libc::S_IFDIR, &[(name, &[b'a'; 64])]);
    assert_eq!(whole, Some(WaitObject::File { path: vec![b'a'; 64], device: Vec::new() }));
    assert_eq!(of(libc::S_IFIFO, &[]), Some(WaitObject::Pipe));
    let event = WaitObject::Anonymous { name: b"eventfd".to_vec() };
    assert_eq!(of(0, &[(name, b"[eventfd]")]), Some(event));
    let family = offset_of!(Described, family);
    let (local, remote) = (offset_of!(Described, local), offset_of!(Described, remote));
    let ports = (80_u16.to_ne_bytes(), 5432_u16.to_be_bytes());
    let ends: [(usize, &[u8]); 5] = [
        (offset_of!(Described, protocol), &[6, 0]),
        (offset_of!(Described, local_port), &ports.0),
        (offset_of!(Described, remote_port), &ports.1),
        (local, &[127, 0, 0, 1]),
        (remote, &[10, 0, 0, 5]),
    ];
    let internet = |local: &str, remote: Option<&str>| WaitObject::Internet {
        protocol: 6,
        local: local.parse().expect("an end"),
        remote: remote.map(|remote| remote.parse().expect("an end")),
    };
    let v4 = [&ends[..], &[(family, &[2, 0])]].concat();
    assert_eq!(of(libc::S_IFSOCK, &v4), Some(internet("127.0.0.1:80", Some("10.0.0.5:5432"))));
    let listens = [&v4[..2], &v4[3..4], &v4[5..]].concat();
    assert_eq!(of(libc::S_IFSOCK, &listens), Some(internet("127.0.0.1:80", None)));
    let v6 = [&ends[..3], &[(family, &[10, 0]), (remote + 15, &[1])]].concat();
    assert_eq!(of(libc::S_IFSOCK, &v6), Some(internet("[::]:80", Some("[::1]:5432"))));
    let of_unix = |peer: u8| {
        of(libc::S_IFSOCK, &[(family, &[1, 0]), (offset_of!(Described, peer), &[peer, 0, 0, 0])])
    };
    assert_eq!(of_unix(0), Some(WaitObject::Socket { family: 1, peer: None }));
    assert_eq!(of_unix(7), Some(WaitObject::Socket { family: 1, peer: Some(Pid(7)) }));
}

/// Same for a wait.
fn off_cpu(user: i64, walked: i64) -> Vec<u8> {
    let mut bytes = bytes(user, walked);
    bytes[offset_of!(Head, kind)..offset_of!(Head, python)].fill(0);
    bytes
}

#[test]
fn a_sample_is_read_as_the_programs_write_it() {
    let registers = Registers { instruction: 1, stack: 2, frame: 3, link: 4 };
    let top = 9_u64.to_ne_bytes().to_vec();
    let python = vec![PythonFrame { code: 0x5000, instruction: 6, is_entry: true }];
    let python_end = PythonEnd::Deeper;
    let walked = Walked { frames: vec![0x7000], registers, top, is_cut: false, python, python_end };
    let expected = Sample {
        kind: SampleKind::Wake(Tid(50)),
        tid: Tid(41),
        pid: Pid(40),
        since: Nanos(1000),
        until: Nanos(5000),
        space: 77,
        user: UserStack::Walked(Box::new(walked)),
        kernel: Some(vec![u64::MAX, u64::MAX - 1]),
        waited: None,
    };
    assert_eq!(sample(&bytes(8, 16), false), Some(expected.clone()));
    assert_eq!(sample(&bytes(8, 16), true), Some(expected.clone()), "only waits are in the table");
    let numbered = Sample { user: UserStack::Number(9), kind: SampleKind::OffCpu, ..expected };
    assert_eq!(sample(&off_cpu(9, 16), true), Some(numbered));
}

#[test]
fn what_could_not_be_walked_is_reported_with_the_reason() {
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
fn the_running_kernel_loads_the_program_and_shows_where_a_thread_slept() {
    use crate::sys::Linux;
    // SAFETY: the call has no arguments and no effects.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: this needs root");
        return;
    }
    let over = Nanos(20_000_000);
    let wanted =
        Wanted { over, wakes: true, frequency: Some(99), copy: None, chosen: false, owner: None };
    let mut stacks = BlockedStacks::open(&Linux, Box::new(sys::LinuxBpf), wanted)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.verifier_log().unwrap_or_default()));
    assert!(stacks.walks_python() || cfg!(not(target_arch = "x86_64")));
    stacks.prepare().expect("the program runs");
    stacks.attach(false).expect("the others run");
    // On a busy machine the short sleeps can be long, too, and a thread that is preempted until its time is over does not sleep. The
    // expected form of a sleep is known, but not which of several attempts shows it.
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

/// Sleeps four times, and announces each sleep in `turn`; returns its id and when it slept.
fn sleep_four_times(turn: &AtomicU64) -> (Tid, Vec<(Nanos, Nanos)>) {
    let sleep = |_| {
        let begun = crate::clock::now();
        turn.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(60));
        (begun, crate::clock::now())
    };
    let slept = (0..4).map(sleep).collect();
    // SAFETY: the call has no arguments, and returns the thread's own id.
    (Tid(unsafe { libc::gettid() }.cast_unsigned()), slept)
}

/// Programs that record switches and note which threads wait for more than 20 ms.
struct Noting {
    stacks: BlockedStacks,
    events: BpfEvents,
    lanes: Vec<(Cpu, Lane)>,
}

/// Starts them; `None` if other programs note the waits.
fn noting() -> Option<Noting> {
    use crate::sys::Linux;
    // SAFETY: the call has no arguments and no effects.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: this needs root");
        return None;
    }
    let wanted = Wanted {
        over: Nanos(20_000_000),
        wakes: false,
        frequency: None,
        copy: None,
        chosen: false,
        owner: None,
    };
    let mut stacks = BlockedStacks::open(&Linux, Box::new(sys::LinuxBpf), wanted).expect("loaded");
    let Some(notes) = stacks.notes() else {
        eprintln!("skipped: on this kernel stacks have a program of their own");
        return None;
    };
    let online = cpus::online(&Linux).expect("there are CPUs");
    let possible = cpus::possible(&Linux).expect("there are CPUs").last().expect("one").0 + 1;
    let events = Events {
        cpus: &online,
        possible: possible as usize,
        lane_bytes: 8 << 20,
        waking: false,
        need_resched: false,
        narrow: None,
        owner: None,
        steal: false,
        threaded_softirqs: false,
        locks: false,
        packets: false,
        plain: true,
        calls: None,
        notes: Some(notes),
    };
    let opened = BpfEvents::open(&Linux, Box::new(sys::LinuxBpf), &events);
    let (mut events, lanes) =
        opened.unwrap_or_else(|it| panic!("{it}\n{}", it.verifier_log().unwrap_or_default()));
    assert!(events.notes_waits(), "what the own program does, that of switches does as well");
    assert!(stacks.walks_python() || cfg!(not(target_arch = "x86_64")));
    stacks.prepare().expect("the program runs");
    lanes.iter().for_each(|(_, lane)| lane.open());
    events.attach().expect("the programs run");
    stacks.attach(true).expect("there is no other");
    Some(Noting { stacks, events, lanes })
}

#[test]
fn a_wait_whose_end_found_no_room_is_not_reported_as_a_part_of_a_longer_one() {
    let Some(Noting { mut stacks, mut events, lanes }) = noting() else { return };
    let pretend = |full: bool| lanes.iter().for_each(|(_, lane)| lane.pretend(full));
    let turn = AtomicU64::new(0);
    let until = |count: u64| {
        while turn.load(Ordering::SeqCst) < count {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let mut slept = 0;
    // On a busy machine, a thread may fall asleep later than expected.
    for _ in 0..5 {
        turn.store(0, Ordering::SeqCst);
        pretend(false);
        let (tid, sleeps) = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_four_times(&turn));
            // The end of the first sleep is lost, and the beginning of the second.
            until(1);
            pretend(true);
            until(2);
            pretend(false);
            sleeper.join().expect("it slept")
        });
        // A thread cannot read the clock while it waits, whatever it waits for.
        let looked = sleeps.iter().flat_map(|(begun, ended)| [*begun, *ended]);
        let looked: Vec<_> = looked.collect();
        stacks.read(|sample| {
            let sample = sample.expect("a whole sample");
            if sample.tid == tid && sample.since >= sleeps[0].0 {
                let within = |at: &Nanos| sample.since < *at && *at < sample.until;
                assert!(!looked.iter().any(within), "{sample:?} is of several of {sleeps:?}");
                let of_late = |(begun, ended)| sample.since >= begun && sample.until <= ended;
                slept += usize::from(sleeps[2..].iter().copied().any(of_late));
            }
        });
    }
    assert!(slept >= 5, "{slept} of 10 sleeps have a stack that the recorder saw whole");
    assert_eq!(stacks.missing(), Missing::default());
    events.detach();
    stacks.detach();
}

/// Sets a flag when it is dropped, even if a test fails, because others wait for the flag.
struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_wait_whose_end_no_program_saw_is_over_once_its_thread_is_preempted() {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::sys::resource::{UsageWho, getrusage};
    use std::time::Duration;
    let Some(Noting { mut stacks, mut events, lanes: _lanes }) = noting() else { return };
    let own = nix::unistd::Pid::from_raw(0);
    let allowed = sched_getaffinity(own).expect("it is asked of itself");
    let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu) == Ok(true));
    let mut one = CpuSet::new();
    one.set(first.expect("it runs somewhere")).expect("a CPU of a set");
    let pin = || sched_setaffinity(own, &one).expect("it may run there");
    let prefer = |policy, priority| {
        let priority = libc::sched_param { sched_priority: priority };
        // SAFETY: 0 is the calling thread, and the kernel reads the structure during the call.
        let refused = unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
        assert_eq!(refused, 0, "root chooses: {}", std::io::Error::last_os_error());
    };
    let preempted = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("it is asked of itself");
        usage.involuntary_context_switches()
    };
    let wait_for = |it: &AtomicBool| {
        while !it.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // A thread that is preempted before the programs run again is switched out without being seen, and must try again.
    let as_meant = (0..10).any(|_| {
        let [sleeps, awake, seen, over] = std::array::from_fn(|_| AtomicBool::new(false));
        let (tid, woke, unseen) = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let _ends = [Ends(&sleeps), Ends(&awake)];
                pin();
                prefer(libc::SCHED_FIFO, 1);
                sleeps.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(100));
                let (woke, at_first) = (crate::clock::now(), preempted());
                awake.store(true, Ordering::SeqCst);
                while !seen.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                prefer(libc::SCHED_OTHER, 0);
                let before = preempted();
                while preempted() < before + 3 && !over.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                over.store(true, Ordering::SeqCst);
                // SAFETY: the call has no arguments, and returns the thread's own id.
                (Tid(unsafe { libc::gettid() }.cast_unsigned()), woke, before - at_first)
            });
            // The threads wait for these.
            let _ends = [Ends(&seen), Ends(&over)];
            wait_for(&sleeps);
            std::thread::sleep(Duration::from_millis(20));
            events.detach();
            wait_for(&awake);
            events.attach().expect("the programs run again");
            seen.store(true, Ordering::SeqCst);
            scope.spawn(|| {
                pin();
                while !over.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            });
            sleeper.join().expect("it slept")
        });
        stacks.read(|sample| {
            let sample = sample.expect("a whole sample");
            let is_longer = sample.tid == tid && sample.since < woke && sample.until > woke;
            assert!(!is_longer || unseen > 0, "{sample:?} was over at {woke:?}");
        });
        unseen == 0
    });
    assert!(as_meant, "none of ten was seen to be preempted");
    events.detach();
    stacks.detach();
}
