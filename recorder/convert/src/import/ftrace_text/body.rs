//! What the scheduler's events say, in the kernel's words and in those of trace-cmd.

use super::line::Head;
use fxtrec_capture::event::{Comm, Kind, Switch, Wake, WakeKind, Waker};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_units::{Cpu, Tid};

/// Parses the text of an event; nothing for one that is not the scheduler's. The error is what was expected.
pub(super) fn parse(name: &str, text: &str, head: Head) -> Option<Result<Kind, &'static str>> {
    let kind = match name {
        "sched_switch" => {
            let switch = kernel_switch(text).or_else(|| trace_cmd_switch(text));
            return Some(switch.map(Kind::Switch).ok_or("prev_comm=... ==> next_comm=..."));
        }
        "sched_wakeup" => WakeKind::Wakeup,
        "sched_wakeup_new" => WakeKind::New,
        "sched_waking" => WakeKind::Waking,
        _ => return None,
    };
    let woken = kernel_wake(text).or_else(|| trace_cmd_wake(text));
    let wake = woken.map(|(side, target)| {
        let Head { current, from_task } = head;
        Kind::Wake(Wake {
            kind,
            tid: side.tid,
            prio: side.prio,
            target,
            comm: side.comm,
            current,
            by: if from_task { Waker::Task(current) } else { Waker::Unknown },
            same_process: None,
            in_scope: None,
        })
    });
    Some(wake.ok_or("comm=... pid=... prio=... target_cpu=..."))
}

/// A thread as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    comm: Comm,
    tid: Tid,
    prio: i32,
}

fn side(comm: &str, tid: &str, prio: &str) -> Option<Side> {
    let comm = Comm::from_bytes(comm.as_bytes());
    Some(Side { comm, tid: Tid(tid.trim().parse().ok()?), prio: prio.trim().parse().ok()? })
}

fn switch(prev: Side, state: &str, next: Side) -> Option<Switch> {
    // `D|K` is more than one; the first is the one that counts. `R+` is a thread that was preempted.
    let letter = state.chars().next().filter(char::is_ascii_alphabetic)?;
    Some(Switch {
        prev: prev.tid,
        next: next.tid,
        prev_prio: prev.prio,
        next_prio: next.prio,
        state: PrevState { letter, preempted: state.ends_with('+') },
        syscall: None,
        in_scope: None,
        prev_comm: prev.comm,
        next_comm: next.comm,
    })
}

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`. A name may hold
/// anything, so fields are looked for from the end.
fn kernel_switch(text: &str) -> Option<Switch> {
    let (text, next_prio) = text.rsplit_once(" next_prio=")?;
    let (text, next_pid) = text.rsplit_once(" next_pid=")?;
    let (text, next_comm) = text.rsplit_once(" ==> next_comm=")?;
    let (text, state) = text.rsplit_once(" prev_state=")?;
    let (text, prev_prio) = text.rsplit_once(" prev_prio=")?;
    let (text, prev_pid) = text.rsplit_once(" prev_pid=")?;
    let prev_comm = text.strip_prefix("prev_comm=")?;
    switch(
        side(prev_comm, prev_pid, prev_prio)?,
        state,
        side(next_comm, next_pid, first_word(next_prio))?,
    )
}

/// `a:1 [120] S ==> b:2 [120]`.
fn trace_cmd_switch(text: &str) -> Option<Switch> {
    let (prev, next) = text.rsplit_once(" ==> ")?;
    let (prev, state) = prev.rsplit_once(' ')?;
    switch(trace_cmd_side(prev)?, state, trace_cmd_side(next)?)
}

/// `a:1 [120]`.
fn trace_cmd_side(text: &str) -> Option<Side> {
    let (thread, prio) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    let (comm, tid) = thread.rsplit_once(':')?;
    side(comm, tid, prio)
}

/// `comm=b pid=9 prio=120 success=1 target_cpu=001`.
fn kernel_wake(text: &str) -> Option<(Side, Cpu)> {
    let (text, target) = text.rsplit_once(" target_cpu=")?;
    let text = text.rsplit_once(" success=").map_or(text, |(text, _)| text);
    let (text, prio) = text.rsplit_once(" prio=")?;
    let (text, tid) = text.rsplit_once(" pid=")?;
    let comm = text.strip_prefix("comm=")?;
    Some((side(comm, tid, prio)?, Cpu(first_word(target).parse().ok()?)))
}

/// `b:9 [120] success=1 CPU:001`.
fn trace_cmd_wake(text: &str) -> Option<(Side, Cpu)> {
    let (text, target) = text.rsplit_once(" CPU:")?;
    let text = text.rsplit_once(" success=").map_or(text, |(text, _)| text);
    Some((trace_cmd_side(text)?, Cpu(first_word(target).parse().ok()?)))
}

/// Newer kernels may say more behind what is known.
fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { current: Tid(7), from_task: true };

    fn comm(name: &str) -> Comm {
        Comm::from_bytes(name.as_bytes())
    }

    fn expected(letter: char, preempted: bool) -> Kind {
        Kind::Switch(Switch {
            prev: Tid(7),
            next: Tid(0),
            prev_prio: 120,
            next_prio: 139,
            state: PrevState { letter, preempted },
            syscall: None,
            in_scope: None,
            prev_comm: comm("a ==> b:1"),
            next_comm: comm("swapper/1"),
        })
    }

    #[test]
    fn both_ways_to_tell_a_switch_mean_the_same() {
        for (told, letter, preempted) in [("S", 'S', false), ("R+", 'R', true), ("D|K", 'D', false)]
        {
            let kernel = format!(
                "prev_comm=a ==> b:1 prev_pid=7 prev_prio=120 prev_state={told} ==> next_comm=swapper/1 next_pid=0 next_prio=139"
            );
            let trace_cmd = format!("a ==> b:1:7 [120] {told} ==> swapper/1:0 [139]");
            for text in [kernel, trace_cmd] {
                let parsed = parse("sched_switch", &text, HEAD);
                assert_eq!(parsed, Some(Ok(expected(letter, preempted))), "{text}");
            }
        }
    }

    #[test]
    fn both_ways_to_tell_a_wakeup_mean_the_same() {
        for text in [
            "comm=x y pid=9 prio=100 target_cpu=003",
            "comm=x y pid=9 prio=100 success=1 target_cpu=003",
            "x y:9 [100] CPU:003",
            "x y:9 [100] success=1 CPU:003",
        ] {
            let wake = Wake {
                kind: WakeKind::New,
                tid: Tid(9),
                prio: 100,
                target: Cpu(3),
                comm: comm("x y"),
                current: Tid(7),
                by: Waker::Task(Tid(7)),
                same_process: None,
                in_scope: None,
            };
            assert_eq!(parse("sched_wakeup_new", text, HEAD), Some(Ok(Kind::Wake(wake))), "{text}");
        }
    }

    #[test]
    fn other_events_are_nothing_and_damaged_ones_an_error() {
        assert_eq!(parse("sched_stat_runtime", "comm=a", HEAD), None);
        assert!(matches!(parse("sched_switch", "prev_comm=a", HEAD), Some(Err(_))));
        assert!(matches!(
            parse("sched_waking", "comm=a pid=x prio=1 target_cpu=0", HEAD),
            Some(Err(_))
        ));
    }
}
