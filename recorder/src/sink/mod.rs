//! Where the bytes of a trace go: a file, a pipe, a compressor in front of either.
