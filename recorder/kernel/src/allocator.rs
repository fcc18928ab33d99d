//! The system's allocator, with a message and an exit status where memory is refused.
//!
//! Without it, Rust ends a program by SIGABRT when an allocation fails, for example at `ulimit -v`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The exit status of fxtrec's own failures.
const EXIT_STATUS: i32 = 125;

/// The allocator of the program.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

// SAFETY: every call is passed on to the system's allocator, and its result is returned unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of `System`.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// What the system's allocator returned for this many bytes.
fn checked(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        end(bytes);
    }
    memory
}

/// Ends the program with a message, without allocating.
#[cold]
fn end(bytes: usize) -> ! {
    let mut text = [0; 160];
    let mut rest = &mut text[..];
    // It fits: the number has at most 20 digits.
    let _ = writeln!(
        rest,
        "fxtrec: out of memory: the system refused {bytes} more bytes. Raise the limit of this process (`ulimit -v`)."
    );
    let left = rest.len();
    let length = text.len() - left;
    // SAFETY: these are system calls; the text is alive. `_exit` runs no destructors, which could allocate.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length);
        libc::_exit(EXIT_STATUS)
    }
}
