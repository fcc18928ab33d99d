//! The system calls in which threads were blocked, and for how long.

use std::time::Duration;

/// Greater than every system call number of every machine; a file may contain any number.
const END: u16 = 1024;

/// A system call in which threads were blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number on the machine that was recorded.
    pub number: u16,
    /// How often it blocked. A single call may block several times.
    pub count: u64,
    /// The total time, and the longest one: from each switch out to the wakeup.
    pub sum: Duration,
    pub max: Duration,
}

/// The machine's name for the system call with this number; `None` if unknown.
pub fn call_name(machine: &str, number: u16) -> Option<&'static str> {
    let number = usize::from(number);
    match machine {
        "x86_64" => syscalls::x86_64::Sysno::new(number).map(|call| call.name()),
        "aarch64" => syscalls::aarch64::Sysno::new(number).map(|call| call.name()),
        _ => None,
    }
}

/// The number in a trace, if it can be the number of a system call.
pub(super) fn number(value: u64) -> Option<u16> {
    u16::try_from(value).ok().filter(|number| *number < END)
}

/// The system calls of a thread; most threads have few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls(Vec<Call>);

impl Calls {
    pub(super) fn record(&mut self, number: u16, nanos: u64) {
        let length = Duration::from_nanos(nanos);
        self.add(&Call { number, count: 1, sum: length, max: length });
    }

    fn add(&mut self, more: &Call) {
        match self.0.iter_mut().find(|call| call.number == more.number) {
            Some(call) => {
                call.count += more.count;
                call.sum = call.sum.saturating_add(more.sum);
                call.max = call.max.max(more.max);
            }
            None => self.0.push(*more),
        }
    }

    pub(super) fn merge(&mut self, other: &Calls) {
        other.0.iter().for_each(|call| self.add(call));
    }

    /// All of them, by total time, the longest first.
    pub(super) fn sorted(&self) -> Vec<Call> {
        let mut calls = self.0.clone();
        calls.sort_by(|a, b| b.sum.cmp(&a.sum).then(a.number.cmp(&b.number)));
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_name_on_the_machine_that_was_recorded_and_on_no_other() {
        assert_eq!(call_name("x86_64", 202), Some("futex"));
        assert_eq!(call_name("aarch64", 98), Some("futex"));
        assert_eq!(call_name("x86_64", 1023), None);
        assert_eq!(call_name("", 202), None);
    }

    #[test]
    fn calls_of_several_threads_add_up_and_the_longest_come_first() {
        let mut one = Calls::default();
        one.record(0, 5);
        one.record(202, 7);
        let mut other = Calls::default();
        other.record(0, 3);
        one.merge(&other);
        let nanos = Duration::from_nanos;
        let expected = [
            Call { number: 0, count: 2, sum: nanos(8), max: nanos(5) },
            Call { number: 202, count: 1, sum: nanos(7), max: nanos(7) },
        ];
        assert_eq!(one.sorted(), expected);
        assert_eq!((number(1023), number(1024), number(1 << 32)), (Some(1023), None, None));
    }
}
