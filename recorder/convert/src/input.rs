//! The input of a conversion: opened, unpacked, and looked at.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, stdin};
use std::path::{Path, PathBuf};

use fxt_reader::ReadAhead;
use fxtrec_kernel::progress::Progress;

use super::error::ConvertError;
use super::format::{Format, Packing, UnknownFormat};
use super::spool;
use super::traces;

/// Bytes that are read from the file at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes of a file that tell its packing.
const PACKING_BYTES: u64 = 4;

/// Bytes of the content that tell its format, and those that tell FXT.
const FIRST_BYTES: usize = 64 * 1024;
const MAGIC_BYTES: usize = 8;

/// A file or pipe, unpacked.
pub struct Input {
    path: PathBuf,
    content: ReadAhead,
    /// The file itself, where it is a regular one and not packed.
    plain: Option<File>,
    progress: Progress,
}

impl Input {
    /// Opens `path`, or standard input for `-`, and takes the packing off. With `show_progress`,
    /// a line on standard error says how far reading is, if that is a terminal.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or not read at all.
    pub fn open(path: &Path, show_progress: bool) -> Result<Self, ConvertError> {
        match path == Path::new("-") {
            true => Self::of_source(path, show_progress, Box::new(stdin()), None),
            false => Self::of_file(path, show_progress, File::open(path)),
        }
    }

    /// The same of a trace: what another recorder wrote is FXT.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, not be read at all, or not be converted.
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

    /// What `source` has; that is `regular` if it is a regular file.
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
        Ok(Self { path: path.to_owned(), content, plain, progress })
    }

    /// Takes bytes as the content of a file without a name. Fuzz targets and tests use it.
    ///
    /// # Errors
    ///
    /// When a packing of theirs cannot be taken off.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ConvertError> {
        let (content, _) = unpack(Cursor::new(bytes)).map_err(ConvertError::Read)?;
        let progress = Progress::hidden();
        Ok(Self { path: PathBuf::from("-"), content, plain: None, progress })
    }

    /// The format that the content shows, or the file's name says.
    ///
    /// # Errors
    ///
    /// When neither tells, or the input cannot be read.
    pub fn format(&mut self) -> Result<Format, ConvertError> {
        // FXT from a pipe may be read while it is recorded. All others are read to their end first, so they can be waited for.
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

    /// What the content begins with: its first 64 KiB at least, or all of it. They stay to be read.
    ///
    /// # Errors
    ///
    /// When the input cannot be read.
    pub fn first_bytes(&mut self) -> Result<&[u8], ConvertError> {
        self.content.peek(FIRST_BYTES).map_err(ConvertError::Read)
    }

    /// The whole content as a file that can be sought in: the very file where it is one and not packed, else a copy
    /// without a name. To be called before anything has been read.
    ///
    /// # Errors
    ///
    /// When the input cannot be read, or the copy not be written.
    pub fn seekable(&mut self) -> Result<File, ConvertError> {
        match &self.plain {
            Some(file) => {
                let mut file = file.try_clone().map_err(ConvertError::Read)?;
                // What has been looked at moved the place in the file for all.
                file.rewind().map_err(ConvertError::Read)?;
                Ok(file)
            }
            None => spool::copy(&mut self.content).map_err(ConvertError::Read),
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The progress bar, for another pass.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Takes the progress bar away.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.content.read(buffer)
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // A thread that still reads ahead must not draw a line below what is printed next.
        self.progress.finish();
    }
}

/// Takes gzip or zstd off whatever `packed` holds, and tells which it was. What is long is read, and unpacked, ahead.
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
