//! The `fxtrec` binary.

fn main() {}
