//! Letting the threads that empty the rings go before ordinary ones.

/// As far as nice goes.
const HIGHEST: libc::c_int = -20;

/// Gives the calling thread the highest ordinary priority, where that is permitted.
///
/// Elsewhere it stays as it is: the rings take up what it is late for, and a loss would be counted.
pub fn raise() {
    // SAFETY: setpriority takes three numbers; process 0 means the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
}
