//! Which disk request caused a wakeup by its completion.
//!
//! Programs (`requests.bpf.c`) follow a request by its address, from the thread that submits it to the interrupt that completes it. The
//! CPU's request is the one that was completed last, until the next one or until the interrupt ends:
//!
//! ```text
//!   CPU 0   writer: pwrite() -- block_io_start R ------ block_rq_issue R      requests: R -> writer, when, and when the disk got it
//!                                      in the queue              in the disk
//!   CPU 1   irq_handler_entry -- block_rq_complete R -- sched_waking writer   woken by the completion of its request
//! ```
//!
//! - The thread that runs in `block_io_start` submits the request. Before Linux 6.5, it is the thread that queues it; unknown if the
//!   request goes directly to the driver. Requests that are merged into it later become a part of it.
//! - A kernel request flushes the disk's cache for all requests that wait for a flush; these are completed right after it.
//! - The kernel reuses the addresses of requests. A new request is recognized by its beginning; before Linux 6.5, by the time that the
//!   kernel stored in it.
//! - The table has 1024 slots, found by the address. If a slot holds the entry of another request, nothing is known about the earlier one.
//! - Only interrupts of devices and timers, and the soft interrupts for disks, are considered: others complete requests among many other
//!   tasks.

use super::object::{Choice, Given, Object, ObjectError};
use super::programs::{Program, Setting};

/// Size of the table in bytes.
pub const TABLE_BYTES: usize = 1024 * 40;

/// The programs; none if the kernel does not have a tracepoint. The end of requests is attached first.
///
/// # Errors
/// Returns [`ObjectError`].
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
