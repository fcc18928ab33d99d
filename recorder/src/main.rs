//! The `fxtrec` binary, which only calls [`fxtrec::program`].

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fxtrec::program::main()
}
