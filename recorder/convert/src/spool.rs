//! Temporary files: for input that is not seekable, and between two conversions.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek};

/// Bytes to read or write at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// An unnamed file, which is removed when it is closed.
pub(super) fn temporary() -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?))
}

/// The file with everything written; its position is the end.
pub(super) fn finished(written: BufWriter<File>) -> io::Result<File> {
    written.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Reads the written data from the beginning.
pub(super) fn again(written: BufWriter<File>) -> io::Result<BufReader<File>> {
    let mut file = finished(written)?;
    file.rewind()?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// Copies all of `input`.
pub(super) fn copy(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}
