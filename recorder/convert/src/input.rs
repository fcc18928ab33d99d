//! The input of a conversion: opens it, decompresses it, and detects its format.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fxt_reader::ReadAhead;
use fxtrec_kernel::progress::Progress;

use super::error::ConvertError;
use super::format::{Format, Packing, UnknownFormat};
use super::spool;
use super::traces;

/// Bytes to read from the file at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// The number of bytes of a file that show its compression.
const PACKING_BYTES: u64 = 4;

/// The number of bytes that show the format, and of those that show FXT.
const FIRST_BYTES: usize = 64 * 1024;
const MAGIC_BYTES: usize = 8;

/// A file or pipe, decompressed.
pub struct Input {
    path: PathBuf,
    content: ReadAhead,
    /// The file itself, if it is a regular uncompressed file.
    plain: Option<File>,
    progress: Progress,
    /// How many bytes were read, decompressed.
    taken: Arc<AtomicU64>,
}

impl Input {
    /// Opens `path`, or standard input for `-`, and decompresses it. With `show_progress`, a line on standard error shows the progress, if
    /// that is a terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened or read.
    pub fn open(path: &Path, show_progress: bool) -> Result<Self, ConvertError> {
        match path == Path::new("-") {
            true => Self::of_source(path, show_progress, Box::new(stdin()), None),
            false => Self::of_file(path, show_progress, File::open(path)),
        }
    }

    /// Opens a trace like [`open`](Self::open), and converts traces of other recorders to FXT.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened, read or converted.
    pub fn open_trace(path: &Path, show_progress: bool) -> Result<Self, ConvertError> {
        if path != Path::new("-") {
            return Self::of_file(path, show_progress, traces::open(path));
        }
        let source = traces::from_stdin();
        let source =
            source.map_err(|source| ConvertError::Open { path: path.to_owned(), source })?;
        Self::of_source(path, show_progress, source, None)
    }

    fn of_file(
        path: &Path,
        show_progress: bool,
        file: io::Result<File>,
    ) -> Result<Self, ConvertError> {
        let cannot_open = |source| ConvertError::Open { path: path.to_owned(), source };
        let file = file.map_err(cannot_open)?;
        let facts = file.metadata().map_err(cannot_open)?;
        if facts.is_dir() {
            return Err(cannot_open(io::ErrorKind::IsADirectory.into()));
        }
        let regular = facts.is_file().then(|| file.try_clone()).transpose().map_err(cannot_open)?;
        Self::of_source(path, show_progress, Box::new(file), regular)
    }

    /// The content of `source`; `regular` is the same as a regular file, if it is one.
    pub(super) fn of_source(
        path: &Path,
        show_progress: bool,
        source: Box<dyn Read + Send>,
        regular: Option<File>,
    ) -> Result<Self, ConvertError> {
        let length = regular.as_ref().and_then(|file| Some(file.metadata().ok()?.len()));
        let progress = match show_progress {
            true => Progress::shown(length),
            false => Progress::hidden(),
        };
        let (content, packing) = unpack(progress.of(source))
            .map_err(|source| ConvertError::Open { path: path.to_owned(), source })?;
        let plain = regular.filter(|_| packing == Packing::Plain);
        Ok(Self { path: path.to_owned(), content, plain, progress, taken: Arc::default() })
    }

    /// Uses bytes as the content of a file without a name, for fuzz targets and tests.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be decompressed.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ConvertError> {
        let (content, _) = unpack(Cursor::new(bytes)).map_err(ConvertError::Read)?;
        let progress = Progress::hidden();
        let (path, taken) = (PathBuf::from("-"), Arc::default());
        Ok(Self { path, content, plain: None, progress, taken })
    }

    /// The format according to the content, or else to the file's name.
    ///
    /// # Errors
    ///
    /// Returns an error when neither determines it, or the input cannot be read.
    pub fn format(&mut self) -> Result<Format, ConvertError> {
        // FXT from a pipe may be read while it is recorded. Other formats are read to their end first, so waiting for more bytes is fine.
        let magic = self.content.peek(MAGIC_BYTES).map_err(ConvertError::Read)?;
        if Format::of_content(magic) == Some(Format::Fxt) {
            return Ok(Format::Fxt);
        }
        let first = self.first_bytes()?;
        if let Some(format) = Format::of_content(first) {
            return Ok(format);
        }
        let first = first.get(..first.len().min(MAGIC_BYTES)).unwrap_or_default().to_vec();
        match Format::of_path(&self.path).0 {
            Some(format) => Ok(format),
            None => Err(UnknownFormat::Input { path: self.path.clone(), first }.into()),
        }
    }

    /// The beginning of the content: at least 64 KiB, or all of it. Later reads return these bytes again.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be read.
    pub fn first_bytes(&mut self) -> Result<&[u8], ConvertError> {
        self.content.peek(FIRST_BYTES).map_err(ConvertError::Read)
    }

    /// The whole content as a seekable file: the original if it is an uncompressed file, otherwise an unnamed copy. Call it before anything
    /// is read.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be read, or the copy cannot be written.
    pub fn seekable(&mut self) -> Result<File, ConvertError> {
        let file = self.as_file()?;
        let length = file.metadata().map_err(ConvertError::Read)?.len();
        self.taken.fetch_add(length, Ordering::Relaxed);
        Ok(file)
    }

    fn as_file(&mut self) -> Result<File, ConvertError> {
        match &self.plain {
            Some(file) => {
                let mut file = file.try_clone().map_err(ConvertError::Read)?;
                // Detecting the format moved the shared file position.
                file.rewind().map_err(ConvertError::Read)?;
                Ok(file)
            }
            None => spool::copy(&mut self.content).map_err(ConvertError::Read),
        }
    }

    /// The number of decompressed bytes that were read so far.
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The progress bar, for another pass.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Removes the progress bar.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // A thread that still reads ahead must not draw the bar below the next output.
        self.progress.finish();
    }
}

/// Decompresses gzip or zstd, and returns which it was. Long input is read and decompressed ahead, on another thread.
fn unpack(mut packed: impl Read + Send + 'static) -> io::Result<(ReadAhead, Packing)> {
    let mut first = Vec::new();
    packed.by_ref().take(PACKING_BYTES).read_to_end(&mut first)?;
    let packing = Packing::of_content(&first);
    let packed = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(first).chain(packed));
    let content = match packing {
        Packing::Plain => ReadAhead::new(packed),
        Packing::Gzip => ReadAhead::new(flate2::bufread::MultiGzDecoder::new(packed)),
        Packing::Zstd => ReadAhead::new(zstd::stream::read::Decoder::with_buffer(packed)?),
    };
    Ok((content, packing))
}
