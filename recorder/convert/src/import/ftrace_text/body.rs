//! The text of scheduler events, in the formats of the kernel and of trace-cmd.

use super::line::Head;
use fxtrec_capture::event::{Comm, Kind, Switch, Wake, WakeKind, Waker};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_units::{Cpu, Tid};

/// Parses the text of an event; `None` for other events. The error contains the expected text.
pub(super) fn parse(name: &str, text: &str, head: Head) -> Option<Result<Kind, &'static str>> {
    let kind = match name {
        "sched_switch" => {
            let switch = kernel_switch(text).or_else(|| trace_cmd_switch(text));
            let switch = switch.map(|switch| with_name(switch, head));
            return Some(switch.map(Kind::Switch).ok_or("prev_comm=... ==> next_comm=..."));
        }
        "sched_wakeup" => WakeKind::Wakeup,
        "sched_wakeup_new" => WakeKind::New,
        "sched_waking" => WakeKind::Waking,
        _ => return None,
    };
    let woken = kernel_wake(text).or_else(|| trace_cmd_wake(text));
    let wake = woken.map(|(side, target)| {
        let current = head.task.tid;
        Kind::Wake(Wake {
            kind,
            tid: side.tid,
            prio: side.prio,
            target,
            comm: side.comm,
            current,
            by: if head.is_by_task() { Waker::Task(current) } else { Waker::Unknown },
            same_process: None,
            in_scope: None,
        })
    });
    Some(wake.ok_or("comm=... pid=... prio=... target_cpu=..."))
}

/// For the thread's own events, its name is also in another column.
fn with_name(mut switch: Switch, head: Head) -> Switch {
    if switch.prev_comm == Comm::default() && switch.prev == head.task.tid {
        switch.prev_comm = head.task.comm;
    }
    switch
}

/// A thread's name. `<...>` represents a name that the recorder did not know.
pub(super) fn comm(name: &str) -> Comm {
    match name {
        "<...>" | "<idle>" => Comm::default(),
        name => Comm::from_bytes(name.as_bytes()),
    }
}

/// A thread in the text of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    comm: Comm,
    tid: Tid,
    prio: i32,
}

fn side(name: &str, tid: &str, prio: &str) -> Option<Side> {
    let tid = u32::try_from(number(tid)?).ok()?;
    Some(Side { comm: comm(name), tid: Tid(tid), prio: i32::try_from(number(prio)?).ok()? })
}

/// A number. With ftrace's option `fields` it is printed in two forms: `0x78 (120)`.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let text = match text.split_once(" (") {
        Some((_, decimal)) => decimal.strip_suffix(')')?,
        None => text,
    };
    text.parse().ok()
}

fn switch(prev: Side, state: PrevState, next: Side) -> Switch {
    Switch {
        prev: prev.tid,
        next: next.tid,
        prev_prio: prev.prio,
        next_prio: next.prio,
        state,
        syscall: None,
        in_scope: None,
        prev_comm: prev.comm,
        next_comm: next.comm,
    }
}

/// `D|K` is a combination; the first letter counts. `R+` is a preempted thread.
fn state_of(text: &str) -> Option<PrevState> {
    let text = text.trim();
    if let Some(letter) = text.chars().next().filter(char::is_ascii_alphabetic) {
        return Some(PrevState { letter, preempted: text.ends_with('+') });
    }
    state_of_bits(number(text)?)
}

/// The state from raw fields. The bits have this meaning since Linux 4.14; before, the bit of preempted threads was higher.
pub(crate) fn state_of_bits(bits: i64) -> Option<PrevState> {
    const LETTERS: [(i64, char); 8] = [
        (0x01, 'S'),
        (0x02, 'D'),
        (0x04, 'T'),
        (0x08, 't'),
        (0x10, 'X'),
        (0x20, 'Z'),
        (0x40, 'P'),
        (0x80, 'I'),
    ];
    const STATES: i64 = 0xff;
    let letter = LETTERS.iter().find(|(bit, _)| bits & bit != 0).map_or('R', |(_, letter)| *letter);
    let preempted = bits & STATES == 0 && bits != 0;
    (bits >= 0).then_some(PrevState { letter, preempted })
}

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`; raw fields have no arrow. Names may
/// contain anything, so fields are parsed from the end.
fn kernel_switch(text: &str) -> Option<Switch> {
    let (text, next_prio) = text.rsplit_once(" next_prio=")?;
    let (text, next_pid) = text.rsplit_once(" next_pid=")?;
    let (text, next_comm) =
        text.rsplit_once(" ==> next_comm=").or_else(|| text.rsplit_once(" next_comm="))?;
    let (text, state) = text.rsplit_once(" prev_state=")?;
    let (text, prev_prio) = text.rsplit_once(" prev_prio=")?;
    let (text, prev_pid) = text.rsplit_once(" prev_pid=")?;
    let prev_comm = text.strip_prefix("prev_comm=")?;
    let prev = side(prev_comm, prev_pid, prev_prio)?;
    Some(switch(prev, state_of(state)?, side(next_comm, next_pid, first_value(next_prio))?))
}

/// `a:1 [120] S ==> b:2 [120]`, optionally followed by the latency.
fn trace_cmd_switch(text: &str) -> Option<Switch> {
    let text = text.rsplit_once(" Latency: ").map_or(text, |(text, _)| text);
    let (prev, next) = text.rsplit_once(" ==> ")?;
    let (prev, state) = prev.rsplit_once(' ')?;
    Some(switch(trace_cmd_side(prev)?, state_of(state)?, trace_cmd_side(next)?))
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
    Some((side(comm, tid, prio)?, Cpu(u32::try_from(number(first_value(target))?).ok()?)))
}

/// `b:9 [120] success=1 CPU:001`.
fn trace_cmd_wake(text: &str) -> Option<(Side, Cpu)> {
    let text = text.rsplit_once(" Latency: ").map_or(text, |(text, _)| text);
    let (text, target) = text.rsplit_once(" CPU:")?;
    let text = text.rsplit_once(" success=").map_or(text, |(text, _)| text);
    Some((trace_cmd_side(text)?, Cpu(first_value(target).parse().ok()?)))
}

/// The first value, without additions of newer kernels.
fn first_value(text: &str) -> &str {
    let end = text.find(' ').unwrap_or(text.len());
    let decimal = text.get(end..).and_then(|rest| rest.strip_prefix(" ("));
    match decimal.and_then(|rest| rest.find(')')) {
        Some(length) => &text[..end + length + " ()".len()],
        None => &text[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an event of thread 7.
    fn parse(name: &str, text: &str) -> Option<Result<Kind, &'static str>> {
        super::parse(name, text, Head::of_task(Tid(7)))
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
        for (reported, letter, preempted) in
            [("S", 'S', false), ("R+", 'R', true), ("D|K", 'D', false)]
        {
            let kernel = format!(
                "prev_comm=a ==> b:1 prev_pid=7 prev_prio=120 prev_state={reported} ==> next_comm=swapper/1 next_pid=0 next_prio=139"
            );
            let trace_cmd = format!("a ==> b:1:7 [120] {reported} ==> swapper/1:0 [139]");
            for text in [kernel, trace_cmd] {
                let parsed = parse("sched_switch", &text);
                assert_eq!(parsed, Some(Ok(expected(letter, preempted))), "{text}");
            }
        }
    }

    #[test]
    fn raw_fields_and_fields_in_two_ways_are_read() {
        for (state, letter, preempted) in [
            ("0", 'R', false),
            ("256", 'R', true),
            ("1", 'S', false),
            ("130", 'D', false),
            ("0x80 (128)", 'I', false),
        ] {
            let raw = format!(
                "prev_comm=a ==> b:1 prev_pid=0x7 (7) prev_prio=120 prev_state={state} next_comm=swapper/1 next_pid=0 next_prio=0x8b (139)"
            );
            assert_eq!(parse("sched_switch", &raw), Some(Ok(expected(letter, preempted))), "{raw}");
        }
        let wake = parse("sched_wakeup", "comm=b pid=0x9 (9) prio=0x78 (120) target_cpu=0x1 (1)");
        assert!(
            matches!(wake, Some(Ok(Kind::Wake(wake))) if (wake.tid, wake.target) == (Tid(9), Cpu(1)))
        );
        let latency = "a ==> b:1:7 [120] S ==> swapper/1:0 [139] Latency: 46.759 usecs";
        assert_eq!(parse("sched_switch", latency), Some(Ok(expected('S', false))));
    }

    #[test]
    fn an_unknown_name_is_none() {
        let text = "<...>:7 [120] S ==> <...>:9 [120]";
        let Some(Ok(Kind::Switch(switch))) = parse("sched_switch", text) else {
            panic!("a switch")
        };
        assert_eq!((switch.prev_comm, switch.next_comm), (Comm::default(), Comm::default()));
        let mut head = Head::of_task(Tid(7));
        head.task.comm = comm("real");
        let Some(Ok(Kind::Switch(switch))) = super::parse("sched_switch", text, head) else {
            panic!("a switch")
        };
        assert_eq!(switch.prev_comm, comm("real"), "the column before has it");
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
            assert_eq!(parse("sched_wakeup_new", text), Some(Ok(Kind::Wake(wake))), "{text}");
        }
    }

    #[test]
    fn other_events_are_nothing_and_damaged_ones_an_error() {
        assert_eq!(parse("sched_stat_runtime", "comm=a"), None);
        assert!(matches!(parse("sched_switch", "prev_comm=a"), Some(Err(_))));
        assert!(matches!(parse("sched_waking", "comm=a pid=x prio=1 target_cpu=0"), Some(Err(_))));
    }
}
