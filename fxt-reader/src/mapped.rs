//! A trace file mapped into memory, to be read without copying.
//!
//! [`Reader::open`] is for every file, one that is still being written too: it
//! copies what it reads, so a file that shrinks under it just ends early. A
//! mapped file has no such patience. Its bytes are lent out as `&[u8]` and
//! `&str`, which must not change as long as they are borrowed, and touching a
//! page that was cut off the file's end raises SIGBUS. No system call can rule
//! this out for an ordinary file, so the promise is the caller's to make, and
//! [`MappedFile::open`] is `unsafe` to have it made knowingly.
//!
//! It pays for finished traces that are read more than once, by several readers,
//! or only in part.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Error;
use crate::reader::Reader;

/// A plain file in memory, for as many [readers](Self::reader) as are wanted.
///
/// ```
/// use fxt_reader::MappedFile;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("trace.fxt");
/// # std::fs::write(&path, 0x0016_5478_4604_0010_u64.to_le_bytes())?;
/// // SAFETY: the recording is over, and nothing else writes to this file.
/// let file = unsafe { MappedFile::open(&path)? };
/// let mut reader = file.reader();
/// while let Some(item) = reader.next()? {
///     println!("{:?}", item.record);
/// }
/// # assert_eq!(reader.summary().records, 1);
/// # Ok(())
/// # }
/// ```
pub struct MappedFile {
    map: Mmap,
}

impl MappedFile {
    /// Maps the plain file at `path`, as long as it is now.
    ///
    /// # Safety
    ///
    /// As long as the value lives, nobody, this process or another, may change
    /// or cut off the bytes that the file has now. Appending to it is allowed
    /// and not seen. Who cannot vouch for that uses [`Reader::open`].
    ///
    /// # Errors
    ///
    /// [`Error::Open`] when the file cannot be opened; [`Error::Map`] when it is
    /// no plain file, or the system does not map it.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file =
            File::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
        let failed = |source| Error::Map { path: path.to_path_buf(), source };
        if !file.metadata().map_err(failed)?.is_file() {
            let reason = "it is not a plain file";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        // SAFETY: the bytes of the map are those of a plain file up to its present
        // end, mapped read-only. That they stay there and stay the same as long as
        // the map lives, this function's caller guarantees; that the map outlives
        // what is borrowed from it, `bytes` does by its lifetimes.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Self { map })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Reads the file from its start: a trace, or a gzip or zstd stream of one.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader::from_slice(self.bytes())
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile").field("bytes", &self.bytes().len()).finish()
    }
}
