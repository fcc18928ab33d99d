//! Which request to a disk the wake-up is about that its completion causes.
//!
//! Programs (`requests.bpf.c`) follow a request by its address, from the thread that makes it to the interrupt that completes it. The CPU's
//! request is the one that was completed last, until the next one or the end of the interrupt:
//!
//! ```text
//!   CPU 0   writer: pwrite() -- block_io_start R ------ block_rq_issue R      requests: R -> writer, when, and when the disk got it
//!                                      in the queue              in the disk
//!   CPU 1   irq_handler_entry -- block_rq_complete R -- sched_waking writer   woken by the completion of its request
//! ```
//!
//! - The thread that runs in `block_io_start` makes the request. Before Linux 6.5, it is the thread that queues it, and unknown if the
//!   request goes to the driver at once. Requests of others that are merged into it later become a part of it.
//! - A flush of the disk's cache is done by a request of the kernel for all that wait for it; these are completed right after that.
//! - The kernel uses addresses of requests again. A new request is recognized by its beginning; before Linux 6.5, by the kernel's own time
//!   for it.
//! - The table has 1024 places, found by the address. If a place holds the entry of another request, nothing is known about this one.
//! - Only interrupts of devices and of timers, and the soft ones for disks, count: others complete requests among many other things.

use super::object::{Choice, Given, Object, ObjectError};
use super::programs::{Program, Setting};

/// Bytes of the table.
pub const TABLE_BYTES: usize = 1024 * 40;

/// The programs; none where the kernel lacks a tracepoint. The end of requests comes first.
///
/// # Errors
/// [`ObjectError`].
pub fn programs(
    object: &Object,
    setting: &Setting<'_>,
    table: Given<'_>,
) -> Result<Vec<Program>, ObjectError> {
    let [complete, issue, begin, insert] =
        ["block_rq_complete", "block_rq_issue", "block_io_start", "block_rq_insert"]
            .map(|name| setting.types.tracepoint(name));
    let (Ok(complete), Ok(issue)) = (complete, issue) else { return Ok(Vec::new()) };
    let (first, name) = match (begin, insert) {
        (Ok(begin), _) => (begin, "fxtrec_io_start"),
        (Err(_), Ok(insert)) => (insert, "fxtrec_insert"),
        (Err(_), Err(_)) => return Ok(Vec::new()),
    };
    let mut choices: Vec<Choice> = setting.of_interrupts().to_vec();
    choices.push(setting.accounts.choice());
    choices.push(("knows_begins", (name == "fxtrec_io_start").into()));
    let mut maps = setting.maps();
    maps.push(("requests", table));
    let programs = object.with(&choices, &maps, &setting.externs())?;
    Ok(vec![
        programs.on("fxtrec_complete", complete)?,
        programs.on("fxtrec_issue", issue)?,
        programs.on(name, first)?,
    ])
}
