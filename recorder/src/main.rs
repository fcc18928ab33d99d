//! The `fxtrec` binary; [`fxtrec::program`] is all of it.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fxtrec::program::main()
}
