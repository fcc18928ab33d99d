//! Temporary files: for an input that cannot be sought in, and for what is between two conversions.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek};

/// Bytes that are read and written at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file without a name, which vanishes when it is closed.
pub(super) fn temporary() -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?))
}

/// The file with all that was written to it, at its end.
pub(super) fn finished(written: BufWriter<File>) -> io::Result<File> {
    written.into_inner().map_err(io::IntoInnerError::into_error)
}

/// What was written to it, from the beginning.
pub(super) fn again(written: BufWriter<File>) -> io::Result<BufReader<File>> {
    let mut file = finished(written)?;
    file.rewind()?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// A copy of all of `input`.
pub(super) fn copy(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}
