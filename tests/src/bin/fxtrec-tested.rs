//! fxtrec for the tests: `cargo test` builds the programs of a package with its tests, but not those of other packages.
//!
//! The tests refer to it by the name `fxtrec`: see `fxtrec_tests::binary`.

use fxtrec::program::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> std::process::ExitCode {
    fxtrec::program::main()
}
