//! The `fxtrec` binary, which only calls [`fxtrec::program`].

#![forbid(unsafe_code)]

use fxtrec::program::Allocator;

/// Ends the program with a message where memory is refused.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> std::process::ExitCode {
    fxtrec::program::main()
}
