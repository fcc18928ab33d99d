//! The worst delay of a recording. The summary of a recording, the report and `fxtrec why` all name the same delay.
//!
//! ```text
//!   state    |- ran -|... blocked, until a thread woke it ...|.. waited for a CPU ..|- ran -|
//!   delay            from                                  able                     to
//! ```
//!
//! A wait that no thread ends, such as a sleep, ends at a time that the thread chose: the delay begins at the wakeup.

/// How many of the longest delays of each thread are examined: some may turn out not to be delays.
pub const KEPT: usize = 4;

/// A delay that is at most half as long as the recording is an incident.
const SHARE: u64 = 2;

/// If all incidents are shorter than this, in nanoseconds, a longer delay that is not an incident is preferred.
const WORTH: u64 = 1_000_000;

/// A time in which a thread did not make progress, and not by its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    pub koid: u64,
    pub from: u64,
    /// When it was woken or preempted.
    pub able: u64,
    pub to: u64,
    /// The thread that woke it, if it was blocked before.
    pub waker: Option<u64>,
}

impl Delay {
    pub fn length(&self) -> u64 {
        self.to - self.from
    }

    /// The rest of the delay if the thread waited for a thread of another process to exit, such as a shell that waits for its child: it
    /// is late only from the wakeup on. `last_slice_of_waker` is the beginning of the waker's last slice, if the waker has ended. A thread
    /// of the same process may have released a lock and then ended by chance, so callers pass it only for other processes.
    pub fn without_end(self, last_slice_of_waker: Option<u64>) -> Delay {
        match last_slice_of_waker {
            Some(begin) if begin <= self.able => Delay { from: self.able, ..self },
            _ => self,
        }
    }
}

/// Keeps only the incidents, if one is long enough: a delay that takes most of the recording is normal for its thread.
pub fn leave_incidents(found: &mut Vec<Delay>, recorded: u64) {
    let is_incident = |delay: &Delay| delay.length() <= recorded / SHARE;
    if found.iter().any(|delay| is_incident(delay) && delay.length() >= WORTH) {
        found.retain(is_incident);
    }
}

/// The worst delay in a recording of length `recorded`: the longest incident, or the delay of a thread that waited for the delayed one.
///
/// If another thread waited for the chosen one and was nearly as late for that reason, the other thread is chosen instead, and so on: its
/// work was delayed.
pub fn worst(mut found: Vec<Delay>, recorded: u64) -> Option<Delay> {
    found.retain(|delay| delay.from < delay.to);
    leave_incidents(&mut found, recorded);
    let longest = |of: &mut dyn Iterator<Item = &Delay>| -> Option<Delay> {
        of.max_by_key(|it| (it.length(), u64::MAX - it.from, it.koid)).copied()
    };
    let mut chosen = longest(&mut found.iter())?;
    // No thread is chosen twice.
    for _ in 0..found.len() {
        let waits_for_it = |it: &&Delay| {
            let both = it.to.min(chosen.to).saturating_sub(it.from.max(chosen.from));
            it.waker == Some(chosen.koid)
                && it.to > chosen.to
                && both >= chosen.length() / 5 * 4
                && both >= it.length() / 2
        };
        match longest(&mut found.iter().filter(waits_for_it)) {
            Some(next) => chosen = next,
            None => break,
        }
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn delay(koid: u64, millis: (u64, u64), waker: Option<u64>) -> Delay {
        let (from, to) = (millis.0 * MS, millis.1 * MS);
        Delay { koid, from, able: to - MS, to, waker }
    }

    #[test]
    fn a_delay_of_most_of_the_recording_is_none_if_there_is_another() {
        let (idle, incident) = (delay(1, (0, 70), Some(9)), delay(2, (10, 20), None));
        assert_eq!(worst(vec![idle, incident], 100 * MS), Some(incident));
        assert_eq!(worst(vec![idle], 100 * MS), Some(idle));
        let short = Delay { to: incident.from + WORTH - 1, able: incident.from, ..incident };
        assert_eq!(worst(vec![idle, short], 100 * MS), Some(idle), "that one is not worth it");
    }

    #[test]
    fn who_waits_for_a_late_thread_is_chosen_if_that_is_most_of_its_own_delay() {
        let holder = delay(2, (10, 40), None);
        let waiter = delay(3, (12, 42), Some(2));
        assert_eq!(worst(vec![holder, waiter], 200 * MS), Some(waiter));
        let patient = delay(3, (0, 42), Some(2));
        assert_eq!(worst(vec![holder, patient], 200 * MS), Some(patient), "30 of 42 ms");
        let shell = delay(3, (12, 99), Some(2));
        let shown = worst(vec![holder, Delay { from: shell.able, ..shell }], 200 * MS);
        assert_eq!(shown, Some(holder), "it waited for the end of a process");
    }

    #[test]
    fn a_wait_for_the_end_of_a_process_is_no_delay() {
        let shell = delay(3, (12, 99), Some(2));
        assert_eq!(shell.without_end(Some(90 * MS)).length(), MS);
        assert_eq!(shell.without_end(Some(99 * MS)), shell, "the waker ran once more later on");
        assert_eq!(shell.without_end(None), shell, "it lives");
        assert_eq!(
            worst(vec![shell.without_end(Some(shell.able))], 200 * MS).map(|it| it.length()),
            Some(MS)
        );
        assert_eq!(worst(vec![Delay { able: 5, from: 5, to: 5, ..shell }], 200), None);
    }
}
