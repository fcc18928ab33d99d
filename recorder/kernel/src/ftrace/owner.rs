//! The owner of an instance, by its name: the owner's process id and start time.
//!
//! ```text
//!   fxtrec-4711-1234567-0
//!          |    |       +-- counts the instances of one process
//!          |    +---------- clock ticks from boot to the process's start: ids are used again, this pair is not
//!          +--------------- the process id
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::sys::Sys;

const PREFIX: &str = "fxtrec";

/// The field of `/proc/PID/stat` that has the start time, counted from the one after the name.
const START_FIELD: usize = 19;

/// A process that has, or had, an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// Clock ticks from boot to its start.
    start: u64,
}

impl Owner {
    /// The process with this id that began at this time.
    pub fn new(pid: u32, start: u64) -> Owner {
        Owner { pid, start }
    }

    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Clock ticks from boot to its start.
    pub fn start(self) -> u64 {
        self.start
    }

    pub fn current(sys: &dyn Sys) -> Owner {
        let pid = std::process::id();
        // Without /proc, the id must suffice; the lock still distinguishes living owners from dead ones.
        Owner { pid, start: start_of(sys, pid).unwrap_or(0) }
    }

    /// A name for an instance of this owner that was never used before.
    pub fn new_name(self) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers only have to differ.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        format!("{PREFIX}-{}-{}-{number}", self.pid, self.start)
    }

    /// The owner of the instance with this name; `None` if it does not belong to fxtrec.
    pub fn of_name(name: &str) -> Option<Owner> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let pid = parts.next()?.parse().ok()?;
        let start = parts.next()?.parse().ok()?;
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(Owner { pid, start })
    }

    /// Whether the process still runs, according to `/proc`.
    pub fn is_alive(self, sys: &dyn Sys) -> bool {
        start_of(sys, self.pid) == Some(self.start)
    }
}

/// When the process began; `None` if it has ended, even if its parent has not reaped it yet.
fn start_of(sys: &dyn Sys, pid: u32) -> Option<u64> {
    let stat = sys.read(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses and may hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ended = matches!(fields.first(), Some(&("Z" | "X")));
    fields.get(START_FIELD).filter(|_| !ended)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::sys::Linux;

    #[test]
    fn names_tell_their_owner_and_never_repeat() {
        let owner = Owner::current(&Linux);
        let (first, second) = (owner.new_name(), owner.new_name());
        assert_ne!(first, second);
        assert_eq!(Owner::of_name(&first), Some(owner));
        assert!(owner.is_alive(&Linux));
    }

    #[test]
    fn the_instances_of_others_have_no_owner_here() {
        for name in ["fxtrec", "fxtrec-", "fxtrec-1", "fxtrec-1-2", "fxtrec-bench-7", "trace-1-2-3"]
        {
            assert_eq!(Owner::of_name(name), None, "{name}");
        }
        assert_eq!(Owner::of_name("fxtrec-1-2-3-4"), None);
    }

    #[test]
    fn a_process_that_took_over_an_id_is_not_its_earlier_owner() {
        let fields = (3..=30).map(|field| (field * 100).to_string()).collect::<Vec<_>>().join(" ");
        let sys = Fake::default()
            .file("/proc/7/stat", &format!("7 (odd) name) {fields}\n"))
            .file("/proc/9/stat", &format!("9 (name) Z{}\n", &fields[3..]));
        assert!(Owner { pid: 7, start: 2200 }.is_alive(&sys));
        assert!(!Owner { pid: 7, start: 2100 }.is_alive(&sys));
        assert!(!Owner { pid: 8, start: 2200 }.is_alive(&sys));
        assert!(!Owner { pid: 9, start: 2200 }.is_alive(&sys), "a zombie");
    }
}
