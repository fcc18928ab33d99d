//! The meaning of `prev_state` in a `sched_switch` on the running kernel.
//!
//! The bits of the state letters were renumbered several times, so no numbers are assumed here. The tracepoint's own `print fmt` holds a
//! table of flags and letters, the mask before it, and the bit for the `+` of a preempted thread; [`StateTable::parse`] evaluates all three
//! once, and [`StateTable::decode`] is then a few comparisons per event.

use thiserror::Error;

use super::format::Format;
use super::print_fmt::{Expr, ExprError, parse_print_fmt};

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrevState {
    /// The kernel's letter: `R` runnable, `S` sleeping, `D` uninterruptible, `T` stopped, `t`
    /// traced, `Z` zombie, `X` dead (old kernels also `x`), `P` parked, `I` idle, and on old
    /// kernels `K`, `W`, `N`; [`PrevState::UNKNOWN`] for a bit that the kernel has no letter for.
    /// If several flags are set, the first one in the kernel's table.
    pub letter: char,
    /// Whether the thread could have continued to run (the kernel's `+`).
    pub preempted: bool,
}

impl PrevState {
    /// Used for a state that the kernel's table does not name.
    pub const UNKNOWN: char = '?';
}

/// The kernel's table of state flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTable {
    mask: i64,
    letters: Vec<(i64, char)>,
    preempted: i64,
}

/// The reason why a `print fmt` gives no state table.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateTableError {
    /// The line is not C that can be parsed.
    #[error("the print fmt of {event} cannot be parsed: {source}")]
    Parse {
        event: String,
        /// The error in the table.
        source: ExprError,
    },
    /// The line can be parsed, but its shape differs from that of every known kernel.
    #[error("the print fmt of {event} has no {missing} for prev_state; please report this kernel")]
    Shape { event: String, missing: &'static str },
}

const FIELD: &str = "prev_state";

impl StateTable {
    /// Reads the table from the format of `sched_switch`.
    ///
    /// # Errors
    /// Returns [`StateTableError`] when the print fmt is damaged or of an unknown shape.
    pub fn parse(format: &Format) -> Result<StateTable, StateTableError> {
        let event = || format.name.clone();
        let shape = |missing| StateTableError::Shape { event: event(), missing };
        let arguments = parse_print_fmt(&format.print_fmt)
            .map_err(|source| StateTableError::Parse { event: event(), source })?;
        let (value, rows) =
            arguments.iter().find_map(flags_call).ok_or_else(|| shape("table of flags"))?;
        let letters = rows.iter().map(row).collect::<Option<Vec<_>>>();
        Ok(StateTable {
            mask: mask_of(value).ok_or_else(|| shape("mask"))?,
            letters: letters
                .filter(|letters| !letters.is_empty())
                .ok_or_else(|| shape("letter"))?,
            preempted: arguments
                .iter()
                .find_map(plus_condition)
                .and_then(mask_of)
                .ok_or_else(|| shape("preemption flag"))?,
        })
    }

    /// Decodes `value`, a record's `prev_state`.
    #[inline]
    pub fn decode(&self, value: i64) -> PrevState {
        let flags = value & self.mask;
        let letter = if flags == 0 {
            'R'
        } else {
            let found = self.letters.iter().find(|(flag, _)| flags & flag != 0);
            found.map_or(PrevState::UNKNOWN, |(_, letter)| *letter)
        };
        PrevState { letter, preempted: value & self.preempted != 0 }
    }
}

/// The value and the rows of a `__print_flags` of `prev_state` anywhere in `expr`.
fn flags_call(expr: &Expr) -> Option<(&Expr, &[Expr])> {
    match expr {
        Expr::Call(name, parts) if name == "__print_flags" => match parts.as_slice() {
            [value, Expr::Text(_), rows @ ..] if value.mentions(FIELD) => Some((value, rows)),
            _ => None,
        },
        Expr::Choice(_, then, otherwise) => flags_call(then).or_else(|| flags_call(otherwise)),
        _ => None,
    }
}

fn row(row: &Expr) -> Option<(i64, char)> {
    let Expr::Row(parts) = row else { return None };
    let [flag, Expr::Text(letters)] = parts.as_slice() else { return None };
    Some((flag.eval(0).ok().filter(|flag| *flag != 0)?, letters.chars().next()?))
}

/// The condition of `prev_state & ... ? "+" : ""`.
fn plus_condition(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Choice(condition, then, _) if **then == Expr::Text("+".to_owned()) => {
            condition.mentions(FIELD).then_some(condition)
        }
        _ => None,
    }
}

/// The constant `m` when `expr` is `prev_state & m`, however it is written.
///
/// Such an expression is recognised by its values: it keeps each single bit or clears it.
fn mask_of(expr: &Expr) -> Option<i64> {
    let mask = expr.eval(-1).ok()?;
    let keeps = |value: i64| expr.eval(value) == Ok(value & mask);
    let single_bits = (0..i64::BITS).all(|bit| keeps(1_i64.rotate_left(bit)));
    (mask != 0 && single_bits && keeps(0)).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(arguments: &str) -> Result<StateTable, StateTableError> {
        let text = format!(
            "name: sched_switch\nID: 1\nformat:\n\n\
             \tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\n\
             print fmt: \"prev_state=%s%s\", {arguments}\n"
        );
        StateTable::parse(&Format::parse(&text).expect("the text is a format"))
    }

    fn state(letter: char, preempted: bool) -> PrevState {
        PrevState { letter, preempted }
    }

    /// Up to 4.13: decimal, Z before X, the wake-kill family, 1024 or more for the plus.
    const LINUX_4_9: &str = r#"REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K"}, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#;

    /// 4.14 to 5.x: X before Z, P and I, computed masks.
    const LINUX_5_10: &str = r#"(REC->prev_state & ((((0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040) + 1) << 1) - 1), "|", { 0x0001, "S" }, { 0x0002, "D" }, { 0x0004, "T" }, { 0x0008, "t" }, { 0x0010, "X" }, { 0x0020, "Z" }, { 0x0040, "P" }, { 0x0080, "I" }) : "R", REC->prev_state & (((0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040) + 1) << 1) ? "+" : """#;

    #[test]
    fn a_preempted_thread_is_runnable_with_a_plus() {
        let table = table(LINUX_5_10).expect("a known shape");
        assert_eq!(table.decode(0x100), state('R', true));
        assert_eq!(table.decode(0), state('R', false));
    }

    #[test]
    fn letters_follow_the_table_of_a_5_x_kernel() {
        let table = table(LINUX_5_10).expect("a known shape");
        let letters: String = (0..8).map(|bit| table.decode(1_i64 << bit).letter).collect();
        assert_eq!(letters, "SDTtXZPI");
        assert_eq!(table.decode(0x1000), state('R', false), "above the mask");
    }

    #[test]
    fn letters_follow_the_table_of_a_4_x_kernel() {
        let table = table(LINUX_4_9).expect("a known shape");
        let letters: String = (0..11).map(|bit| table.decode(1_i64 << bit).letter).collect();
        assert_eq!(letters, "SDTtZXxKWPN");
        assert_eq!(table.decode(2048), state('R', true));
        assert_eq!(table.decode(2048 | 1), state('S', true), "preempted on its way to sleep");
        assert_eq!(table.decode(128 | 2), state('D', false), "killable sleep is uninterruptible");
        assert_eq!(table.decode(128 | 4), state('T', false), "stopped is also wake-killable");
    }

    #[test]
    fn a_renumbered_kernel_is_decoded_by_its_own_table() {
        let table = table(
            r#"(REC->prev_state & (0x20 - 1)) ? __print_flags(REC->prev_state & (0x20 - 1), "|", { 0x8, "S" }, { 0x1, "D" }) : "R", REC->prev_state & 0x20 ? "+" : """#,
        )
        .expect("a known shape");
        assert_eq!(table.decode(0x8), state('S', false));
        assert_eq!(table.decode(0x21), state('D', true));
        assert_eq!(table.decode(0x4), state(PrevState::UNKNOWN, false), "no letter for this bit");
    }

    #[test]
    fn a_line_without_the_needed_parts_says_which_is_missing() {
        let missing = |arguments: &str| match table(arguments) {
            Err(StateTableError::Shape { missing, .. }) => missing,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing("REC->prev_state"), "table of flags");
        assert_eq!(
            missing(r#"__print_flags(REC->prev_state & 3, "|", { 1, "S" })"#),
            "preemption flag"
        );
        assert_eq!(
            missing(
                r#"__print_flags(REC->prev_state + 1, "|", { 1, "S" }), REC->prev_state & 4 ? "+" : """#
            ),
            "mask"
        );
        assert_eq!(
            missing(r#"__print_flags(REC->prev_state & 3, "|"), REC->prev_state & 4 ? "+" : """#),
            "letter"
        );
    }

    #[test]
    fn a_cut_line_is_an_error_that_names_the_event() {
        let error = table(&LINUX_5_10[..LINUX_5_10.len() - 30]).expect_err("cut");
        assert!(error.to_string().contains("sched_switch"), "{error}");
    }
}
