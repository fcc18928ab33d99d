//! The system call in which a thread blocks.

use std::collections::BTreeMap;

use fxt_reader::ThreadState;
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;

use super::causes::{has, record_machine, run};

#[test]
fn a_thread_that_blocks_names_the_system_call_that_it_is_in_and_kernel_threads_name_none() {
    if !may_record() {
        return;
    }
    let mut printed = String::new();
    let Some(recording) = record_machine(machine::quiet(), &["--source", "bpf"], || {
        printed = run(&["calls", "50"]);
    }) else {
        return;
    };
    let trace = &recording.trace;
    if !has(trace, "syscall") {
        return skip("this kernel does not let programs see a task's registers");
    }
    let mut numbers = Vec::new();
    for line in printed.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [thread, number, begin, end] = words[..] else { panic!("{line:?}") };
        let mut found: BTreeMap<Option<u64>, u64> = BTreeMap::new();
        for switch in trace.outs(thread).filter(|out| out.time > begin && out.time < end) {
            let call = switch.args.get("syscall").map(|text| text.parse().expect("a number"));
            if switch.state == ThreadState::Blocked {
                *found.entry(call).or_default() += 1;
            } else {
                assert_eq!(call, None, "{switch:?} does not block");
            }
        }
        println!("system call {number}: {found:?}");
        let right = found.remove(&Some(number)).unwrap_or(0);
        // A late thread may find that it need not wait.
        assert!(right >= 25, "{right} times in system call {number}");
        // A page may have to be read from the disk.
        let none = found.remove(&None).unwrap_or(0);
        assert!(none <= 2, "{none} times in none");
        assert!(found.is_empty(), "system call {number}: {found:?}");
        numbers.push(number);
    }
    assert_eq!(numbers.len(), 5);

    let name = |koid: u64| trace.threads.get(&koid).map_or("", |(name, _)| name.as_str());
    let is_of_kernel = |koid: u64| {
        ["kworker/", "ksoftirqd/", "rcu_", "migration/"].iter().any(|it| name(koid).starts_with(it))
    };
    let of_kernel = trace.switches.iter().filter(|switch| is_of_kernel(switch.outgoing));
    let count = of_kernel
        .inspect(|switch| assert!(!switch.args.contains_key("syscall"), "{switch:?}"))
        .count();
    assert!(count > 0, "some kernel thread has always something to do");
}
