//! From a task's state to what `sched_switch` would have reported.
//!
//! The tracepoint does not store the state as it is: the kernel's
//! `__trace_sched_switch_state` picks one bit and numbers it anew. The programs
//! store the state itself, and this does the same to it. The state bits it
//! looks at have their values since Linux 4.14, and those that came later
//! were not used before; that the numbers of the reported states are the known
//! ones is checked against the tracepoint's own table.

use fxtrec_kernel::prev_state::{PrevState, StateTable};

/// `TASK_REPORT`: states that are reported as they are. Bits of `exit_state` are among them.
const REPORTED: u32 = 0x7f;

/// `TASK_IDLE`: `TASK_UNINTERRUPTIBLE` and `TASK_NOLOAD` together, reported as a state of its own.
const IDLE: u32 = 0x402;
const REPORTED_IDLE: u32 = 0x80;

/// `TASK_UNINTERRUPTIBLE`, and the states that are reported as it: `TASK_RTLOCK_WAIT` and `TASK_FROZEN`.
const UNINTERRUPTIBLE: u32 = 0x02;
const LIKE_UNINTERRUPTIBLE: u32 = 0x9000;

/// `TASK_REPORT_MAX`: preempted.
const PREEMPTED: i64 = 0x100;

/// The letters of the reported states, from the lowest bit.
const LETTERS: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];

/// What the tracepoint reports for a state, which has the bits of `exit_state` in it.
fn reported(state: u32, preempted: bool) -> i64 {
    if preempted {
        return PREEMPTED;
    }
    let mut report = state & REPORTED;
    if state & IDLE == IDLE {
        report = REPORTED_IDLE;
    }
    if state & LIKE_UNINTERRUPTIBLE != 0 {
        report = UNINTERRUPTIBLE;
    }
    report.checked_ilog2().map_or(0, |highest| 1_i64.rotate_left(highest))
}

/// Decodes states.
#[derive(Clone, Debug)]
pub(super) struct States {
    table: StateTable,
}

impl States {
    /// Decodes by the tracepoint's table; `None` when it numbers the states in an unknown way.
    pub(super) fn new(table: &StateTable) -> Option<States> {
        let letter = |bit: u32| table.decode(1_i64.rotate_left(bit));
        let same = |(bit, known): (u32, &char)| {
            letter(bit) == PrevState { letter: *known, preempted: false }
        };
        let known = (0..).zip(&LETTERS).all(same) && table.decode(PREEMPTED).preempted;
        known.then(|| States { table: table.clone() })
    }

    /// In which state a thread went out.
    #[inline]
    pub(super) fn decode(&self, state: u32, preempted: bool) -> PrevState {
        self.table.decode(reported(state, preempted))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fxtrec_kernel::format::Format;

    pub(crate) fn table(rows: &str, mask: &str, plus: &str) -> StateTable {
        let text = format!(
            "name: sched_switch\nID: 1\nformat:\n\n\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\n\
             print fmt: \"%s%s\", __print_flags(REC->prev_state & {mask}, \"|\", {rows}), \
             REC->prev_state & {plus} ? \"+\" : \"\"\n"
        );
        StateTable::parse(&Format::parse(&text).expect("a format")).expect("a table")
    }

    pub(crate) fn current() -> StateTable {
        let rows = r#"{ 1, "S" }, { 2, "D" }, { 4, "T" }, { 8, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }"#;
        table(rows, "0xff", "0x100")
    }

    fn text(state: u32, preempted: bool) -> String {
        let decoded = States::new(&current()).expect("the known table").decode(state, preempted);
        format!("{}{}", decoded.letter, if decoded.preempted { "+" } else { "" })
    }

    #[test]
    fn states_are_those_that_the_kernel_reports() {
        // TASK_DEAD with EXIT_DEAD and with EXIT_ZOMBIE, TASK_WAKEKILL with TASK_UNINTERRUPTIBLE and with __TASK_STOPPED,
        // TASK_FREEZABLE with TASK_INTERRUPTIBLE, and so on.
        let known = [
            (0, "R"),
            (0x1, "S"),
            (0x2, "D"),
            (0x90, "X"),
            (0xa0, "Z"),
            (0x102, "D"),
            (0x104, "T"),
            (0x8, "t"),
            (0x40, "P"),
            (0x402, "I"),
            (0x2001, "S"),
            (0x1000, "D"),
            (0x8000, "D"),
            (0x8402, "D"),
            (0x800, "R"),
        ];
        for (state, letters) in known {
            assert_eq!(text(state, false), letters, "{state:#x}");
        }
    }

    #[test]
    fn a_preempted_thread_is_runnable_whatever_its_state() {
        assert_eq!(text(0, true), "R+");
        assert_eq!(text(0x402, true), "R+");
    }

    #[test]
    fn a_kernel_that_numbers_states_in_another_way_is_not_guessed_at() {
        let rows = r#"{ 1, "D" }, { 2, "S" }"#;
        assert!(States::new(&table(rows, "0x3", "0x4")).is_none());
    }
}
