//! Scheduling records as ftrace text, in `systemTraceEvents`.
//!
//! ```text
//!             make-4711  [001] d... 1234.567890123: sched_switch: prev_comm=make prev_pid=4711 ...
//!       comm of the thread that has the CPU, its id, CPU, flags, seconds
//! ```
//!
//! Times have nine decimals, while the kernel prints six, so that no precision is lost; readers accept any number of decimals.

use std::fmt::Write as _;

use fxt_reader::record::{ContextSwitch, Wakeup};
use fxt_reader::{Cpu, Koid, Nanos, Record, ThreadState};
use rustc_hash::FxHashMap;

use super::document::Spool;
use super::json;
use super::names::Names;
use crate::error::ConvertError;
use crate::report::Report;
use fxtrec_capture::encode::weight;

/// Writes scheduling records into the spool of `systemTraceEvents`.
#[derive(Debug, Default)]
pub(super) struct Ftrace {
    current: FxHashMap<Cpu, Koid>,
}

impl Ftrace {
    pub(super) fn take(
        &mut self,
        record: &Record<'_>,
        spool: &mut Spool,
        names: &Names,
        report: &mut Report,
    ) -> Result<(), ConvertError> {
        let line = match record {
            Record::ContextSwitch(switch) => {
                self.current.insert(switch.cpu, switch.incoming);
                switch_line(switch, names)
            }
            Record::Wakeup(wakeup) => self.wakeup_line(wakeup, names),
            _ => {
                report
                    .count("legacy context switches, which ftrace text cannot represent, left out");
                return Ok(());
            }
        };
        if spool.is_empty() {
            spool.append(b"\"# tracer: nop\\n#\\n")?;
        }
        let mut text = Vec::new();
        json::string(&mut text, &line);
        spool.append(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())
    }

    pub(super) fn end(spool: &mut Spool) -> Result<(), ConvertError> {
        if spool.is_empty() {
            spool.append(b"\"# tracer: nop\\n#\\n")?;
        }
        spool.append(b"\"")
    }

    fn wakeup_line(&self, wakeup: &Wakeup<'_>, names: &Names) -> String {
        // A wakeup by an interrupt is shown on the interrupted thread.
        let current = wakeup.waker().or_else(|| self.current.get(&wakeup.cpu).copied());
        // The third flag marks this; otherwise readers would take that thread for the waker.
        let flags = if wakeup.waker().is_some() { "...." } else { "..h." };
        let mut line = lead(current.unwrap_or_default(), (wakeup.cpu, flags), wakeup.time, names);
        let (name, Koid(thread)) = (comm(wakeup.koid, wakeup.cpu, names), wakeup.koid);
        let priority = priority(wakeup.weight());
        let cpu = wakeup.cpu.0;
        put(
            &mut line,
            format_args!(
                "sched_wakeup: comm={name} pid={thread} prio={priority} target_cpu={cpu:03}\n"
            ),
        );
        line
    }
}

fn switch_line(switch: &ContextSwitch<'_>, names: &Names) -> String {
    let ContextSwitch { time, cpu, outgoing, incoming, .. } = *switch;
    let mut line = lead(outgoing, (cpu, "...."), time, names);
    let kernels_own = switch.args.str("prev_state");
    let state = kernels_own.unwrap_or(match switch.outgoing_state {
        ThreadState::New | ThreadState::Running => "R",
        ThreadState::Suspended => "T",
        ThreadState::Dying => "Z",
        ThreadState::Dead => "X",
        _ => "S",
    });
    let (before, after) = (comm(outgoing, cpu, names), comm(incoming, cpu, names));
    let (before_priority, after_priority) =
        (priority(switch.outgoing_weight()), priority(switch.incoming_weight()));
    put(
        &mut line,
        format_args!(
            "sched_switch: prev_comm={before} prev_pid={outgoing} prev_prio={before_priority} \
             prev_state={state} ==> next_comm={after} next_pid={incoming} \
             next_prio={after_priority}\n"
        ),
    );
    line
}

fn lead(current: Koid, (cpu, flags): (Cpu, &str), time: Nanos, names: &Names) -> String {
    let name = if current == Koid(0) { "<idle>".to_owned() } else { comm(current, cpu, names) };
    format!("{name:>16}-{current:<7} [{:03}] {flags} {time}: ", cpu.0)
}

fn put(line: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(what);
}

/// The name in the kernel's format; a line break in it would end the line.
fn comm(thread: Koid, cpu: Cpu, names: &Names) -> String {
    if thread == Koid(0) {
        format!("swapper/{cpu}")
    } else {
        names.label(thread).replace('\n', " ")
    }
}

/// The kernel's priority for a weight; that of nice 0 if unknown.
fn priority(weight: Option<i32>) -> i32 {
    weight.map_or(120, weight::priority)
}
