//! The command line: clap's types and their help, and nothing that acts.
