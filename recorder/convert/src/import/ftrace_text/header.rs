//! The comments at the beginning of ftrace text, which describe its columns.
//!
//! ```text
//!   #                                _-----=> irqs-off/BH-disabled
//!   #                               / _----=> need-resched
//!   #                              | / _---=> hardirq/softirq           the third flag
//!   #                              || / _--=> preempt-depth
//!   #                              ||| / _-=> migrate-disable
//!   #                              |||| /     delay
//!   #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
//! ```
//!
//! Real-time kernels have a column for lazy rescheduling before that of interrupts. If no comment describes the columns, that of interrupts
//! is recognised by its letters, which are unique.

/// The number of flags in a line: four in old kernels, then five, and six or seven in real-time kernels.
const FLAGS: std::ops::RangeInclusive<usize> = 4..=8;

/// The known facts about the columns of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// The number of flags in a line: from the header, or from a line that is unambiguous.
    flags: Option<usize>,
    /// The column of interrupts, according to the header.
    interrupt: Option<usize>,
    /// The number of flags that the header has named so far.
    named: usize,
    /// The number of lines whose time has no decimals.
    pub(super) plain_times: u64,
}

impl Columns {
    /// Takes a comment.
    pub(super) fn comment(&mut self, line: &str) {
        if line.starts_with("# tracer:") {
            *self = Columns { plain_times: self.plain_times, ..Columns::default() };
        } else if let Some((_, name)) = line.split_once("=> ") {
            match name.trim() {
                // In layouts for latencies, the CPU's number is in the same column; it is not a flag.
                "CPU#" => self.named = 0,
                name => {
                    if name.starts_with("hardirq") {
                        self.interrupt = Some(self.named);
                    }
                    self.named += 1;
                    self.flags = Some(self.named);
                }
            }
        } else if line.contains("TASK-PID") && self.named == 0 {
            let bars =
                line.split(' ').find(|word| word.len() > 2 && word.bytes().all(|it| it == b'|'));
            self.flags = bars.map(str::len).or(self.flags);
        }
    }

    /// Remembers the number of flags of a line that has a space after them, unless it is known already.
    pub(super) fn seen(&mut self, flags: usize) {
        self.flags.get_or_insert(flags);
    }

    /// The number of bytes of `glued` that are flags; the seconds of a time follow immediately. `None` if this is ambiguous.
    pub(super) fn flags_of(&self, glued: &str) -> Option<usize> {
        let fits = |flags: &usize| {
            let (Some(word), Some(seconds)) = (glued.get(..*flags), glued.get(*flags..)) else {
                return false;
            };
            Columns::are_flags(word)
                && !seconds.is_empty()
                && seconds.bytes().all(|byte| byte.is_ascii_digit())
        };
        if let Some(flags) = self.flags.filter(|flags| fits(flags)) {
            return Some(flags);
        }
        // Kernels other than real-time ones have four or five flags.
        let mut fitting = (4..=5).filter(fits);
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }

    /// Whether a word may consist of flags.
    pub(super) fn are_flags(word: &str) -> bool {
        // Hexadecimal digits are depths; old kernels write `#` for unknown values.
        let is_flag = |byte: u8| byte.is_ascii_hexdigit() || b".dDbBXNnpLlHhsZz#".contains(&byte);
        FLAGS.contains(&word.len())
            && word.bytes().all(is_flag)
            && !word.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether the flags show that an interrupt handler was running.
    pub(super) fn in_interrupt(&self, flags: &str) -> bool {
        let is_interrupt = |byte: &u8| b"hHsZz".contains(byte);
        match self.interrupt.filter(|_| self.flags == Some(flags.len())) {
            Some(column) => flags.as_bytes().get(column).is_some_and(is_interrupt),
            None => flags.as_bytes().iter().any(is_interrupt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str) -> Columns {
        let mut columns = Columns::default();
        header.lines().for_each(|line| columns.comment(line));
        columns
    }

    #[test]
    fn the_header_names_the_column_of_interrupts() {
        let usual = columns(
            "# tracer: nop\n#  _-----=> irqs-off/BH-disabled\n# / _----=> need-resched\n\
             #| / _---=> hardirq/softirq\n#|| / _--=> preempt-depth\n#||| / _-=> migrate-disable\n\
             #   TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
        );
        assert_eq!((usual.flags, usual.interrupt), (Some(5), Some(2)));
        let latency = columns(
            "#  _------=> CPU#\n# / _-----=> irqs-off\n#| / _----=> need-resched\n\
             #|| / _---=> hardirq/softirq\n#||| / _--=> preempt-depth",
        );
        assert_eq!((latency.flags, latency.interrupt), (Some(4), Some(2)));
        let bare = columns("#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION");
        assert_eq!((bare.flags, bare.interrupt), (Some(4), None));
        let next = columns("# _-=> irqs-off\n# _-=> hardirq/softirq\n# tracer: nop");
        assert_eq!((next.flags, next.interrupt), (None, None), "another file begins");
    }

    #[test]
    fn letters_tell_an_interrupt_where_no_header_does() {
        let none = Columns::default();
        for (flags, expected) in
            [("d..h2..", true), ("d.s2", true), ("d.L.211", false), ("dNZ1.", true)]
        {
            assert_eq!(none.in_interrupt(flags), expected, "{flags}");
        }
    }

    #[test]
    fn flags_are_distinguished_from_the_seconds_behind_them_or_left_in_doubt() {
        let none = Columns::default();
        assert_eq!(none.flags_of("d..2.42"), Some(5));
        assert_eq!(none.flags_of("d..2142"), None, "four or five flags");
        let four = Columns { flags: Some(4), ..none };
        assert_eq!(four.flags_of("d..2142"), Some(4));
        assert_eq!(none.flags_of("d..."), None, "no seconds");
    }
}
