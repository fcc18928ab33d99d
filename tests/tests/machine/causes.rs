//! What the scheduler did to threads besides letting them wait, held against what the kernel itself counts.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::programs::succeed;
use fxtrec_tests::recording::{Ongoing, Recording};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::Trace;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// `/proc/stat` counts in hundredths of a second. A tick may be cut off at either end, and the kernel adds to the count
/// at the timer's next tick only.
const RESOLUTION_NS: u64 = 20_000_000;

/// Records the machine while something happens; `None` where the source is not to be had.
fn record_machine(options: &[&str], during: impl FnOnce()) -> Option<Recording> {
    let folder = Folder::new();
    let path = folder.path("t.fxt");
    let ongoing = match Ongoing::start(&path, options) {
        Ok(ongoing) => ongoing,
        Err(said) => {
            skip(&format!("{options:?} is refused here: {said}"));
            return None;
        }
    };
    during();
    let (path, said) = ongoing.stop();
    Some(Recording::read(&path, String::new(), said))
}

fn run(workload: &[&str]) -> String {
    succeed(Command::new(WORKLOAD).args(workload).stdin(Stdio::null()))
}

/// Whether the recording has the fact.
fn has(trace: &Trace, cause: &str) -> bool {
    trace.info().arg("causes").split(',').any(|word| word == cause)
}

/// The sum of an argument of switches, by CPU.
fn sums(trace: &Trace, name: &str) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    for switch in &trace.switches {
        *sums.entry(u64::from(switch.cpu)).or_default() += switch.number(name);
    }
    sums
}

#[test]
fn the_time_stolen_from_slices_is_what_the_kernel_counts_for_each_cpu() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let Some(recording) = record_machine(&["--source", "bpf"], || {
        run(&["slices", "3", "4000"]);
    }) else {
        return;
    };
    let trace = &recording.trace;
    if !has(trace, "steal") {
        return skip("this kernel does not take stolen time off the clocks of its tasks");
    }
    let found = sums(trace, "steal_ns");
    let counted = trace.own.iter().filter(|event| event.name == "host_steal");
    let counted: BTreeMap<u64, u64> =
        counted.map(|event| (event.number("cpu"), event.number("steal_ns"))).collect();
    println!("stolen by slices {found:?}, by /proc/stat {counted:?}");
    for (cpu, found) in &found {
        // Where the host took nothing there are no such events.
        let counted = counted.get(cpu).copied().unwrap_or(0);
        let tolerance = RESOLUTION_NS.max(counted / 20);
        assert!(found.abs_diff(counted) <= tolerance, "CPU {cpu}: {found} of slices, {counted}");
    }
    let began = |cpu: u16| trace.switches.iter().find(|switch| switch.cpu == cpu).map(|s| s.time);
    let mut since: BTreeMap<u16, u64> =
        (0..=u16::MAX).map_while(|cpu| Some((cpu, began(cpu)?))).collect();
    for switch in &trace.switches {
        let slice = switch.time - since.insert(switch.cpu, switch.time).unwrap_or(switch.time);
        assert!(switch.number("steal_ns") <= slice, "{switch:?} after {slice} ns");
    }
}
