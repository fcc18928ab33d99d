//! The output of a conversion: compressed, and renamed to its final name when the conversion is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use super::error::ConvertError;
use super::format::Packing;
use super::input::Input;
use fxtrec_kernel::user::Owner;
use fxtrec_sink::outfile::{Derived, OutFileError, Pending, mode_of};

/// How many times as large as the input an output may be, plus this many bytes. JSON takes about 10 times as much as a trace.
const MOST_TIMES: u64 = 256;
const FREE_BYTES: u64 = 64 << 20;

/// Bytes to collect before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file is converted once and then kept, so this is the default of gzip and zstd.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// Writes a file or pipe, with compression.
#[derive(Debug)]
#[must_use = "the end is written by finish()"]
pub struct Output {
    packer: Packer,
    pending: Pending,
    written: u64,
    /// How many bytes of the input were read.
    taken: Option<Arc<AtomicU64>>,
}

enum Packer {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<ZstdEncoder<'static, BufWriter<File>>>),
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Output {
    /// Creates the output at `path`, or uses standard output for `-`. An existing file is kept until the end. A file that is created under
    /// sudo belongs to the caller of sudo; everyone who can read `inputs` can read it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created, or is one of `inputs`.
    pub fn create(path: &Path, packing: Packing, inputs: &[&Path]) -> Result<Self, ConvertError> {
        Self::create_as(mode_of(inputs), path, packing, inputs)
    }

    /// Like [`Output::create`], but only the caller can read the file: the output depends on more than `inputs`.
    ///
    /// # Errors
    ///
    /// As for [`Output::create`].
    pub fn create_private(
        path: &Path,
        packing: Packing,
        inputs: &[&Path],
    ) -> Result<Self, ConvertError> {
        Self::create_as(mode_of(&[]), path, packing, inputs)
    }

    fn create_as(
        mode: u32,
        path: &Path,
        packing: Packing,
        inputs: &[&Path],
    ) -> Result<Self, ConvertError> {
        let cannot_create = |source| match source {
            OutFileError::IsInput => ConvertError::SameFile { path: path.to_owned() },
            source => ConvertError::Create { path: path.to_owned(), source },
        };
        let derived = Derived::create(path, mode, inputs, Owner::sudo_caller());
        let Derived { file, pending } = derived.map_err(cannot_create)?;
        Self::pack(file, packing, pending).map_err(|error| cannot_create(error.into()))
    }

    /// Writes to an open file, which remains even after an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the compressor cannot be set up.
    pub fn of_file(file: File, packing: Packing) -> io::Result<Self> {
        Self::pack(file, packing, Pending::none())
    }

    fn pack(file: File, packing: Packing, pending: Pending) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let packer = match packing {
            Packing::Plain => Packer::Plain(file),
            Packing::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Packer::Gzip(Box::new(GzEncoder::new(file, level)))
            }
            Packing::Zstd => Packer::Zstd(Box::new(ZstdEncoder::new(file, ZSTD_LEVEL)?)),
        };
        Ok(Self { packer, pending, written: 0, taken: None })
    }

    /// Limits the output in proportion to the amount read from `input`: a small trace may refer to a long string repeatedly, and each
    /// reference is written as the string.
    pub fn bound_by(self, input: &Input) -> Self {
        Self { taken: Some(input.taken()), ..self }
    }

    /// Writes the end, and renames the file. Returns the number of bytes before compression.
    ///
    /// # Errors
    ///
    /// Returns an error if the end cannot be written.
    pub fn finish(self) -> Result<u64, ConvertError> {
        let result = match self.packer {
            Packer::Plain(mut file) => file.flush(),
            Packer::Gzip(gzip) => gzip.finish().and_then(|mut file| file.flush()),
            Packer::Zstd(zstd) => zstd.finish().and_then(|mut file| file.flush()),
        };
        result.map_err(ConvertError::Write)?;
        self.pending.commit().map_err(|error| ConvertError::Write(error.into()))?;
        Ok(self.written)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(taken) = &self.taken {
            let most = MOST_TIMES.saturating_mul(taken.load(Ordering::Relaxed)) + FREE_BYTES;
            if self.written > most {
                let why = format!(
                    "it is more than {MOST_TIMES} times as large as the input, which refers to long strings repeatedly; cut a part of the trace"
                );
                return Err(io::Error::other(why));
            }
        }
        let count = match &mut self.packer {
            Packer::Plain(file) => file.write(bytes),
            Packer::Gzip(gzip) => gzip.write(bytes),
            Packer::Zstd(zstd) => zstd.write(bytes),
        }?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Compressors are only flushed at the end: flushing earlier costs compression.
        match &mut self.packer {
            Packer::Plain(file) => file.flush(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_not_finished_is_gone_and_what_was_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.json");
        for earlier in [None, Some("earlier")] {
            if let Some(earlier) = earlier {
                fs::write(&path, earlier).expect("room");
            }
            let mut output = Output::create(&path, Packing::Plain, &[]).expect("created");
            output.write_all(b"half").expect("room");
            output.flush().expect("room");
            drop(output);
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), earlier);
            let names = fs::read_dir(folder.path()).expect("there").count();
            assert_eq!(names, usize::from(earlier.is_some()), "nothing else is left");
        }
    }

    #[test]
    fn what_was_packed_unpacks_to_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, packing) in
            [("a", Packing::Plain), ("b.gz", Packing::Gzip), ("c.zst", Packing::Zstd)]
        {
            let path = folder.path().join(name);
            let mut output = Output::create(&path, packing, &[]).expect("created");
            output.write_all(b"[{\"ph\":\"i\"}]").expect("room");
            assert_eq!(output.finish().expect("room"), 12);
            let mut input = crate::Input::open(&path, false).expect("there");
            let mut text = String::new();
            io::Read::read_to_string(&mut input, &mut text).expect("unpacked");
            assert_eq!(text, "[{\"ph\":\"i\"}]", "{name}");
        }
    }

    #[test]
    fn the_input_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.fxt");
        fs::write(&path, b"precious").expect("room");
        let error = Output::create(&path, Packing::Plain, &[&path]).expect_err("the same file");
        assert!(matches!(error, ConvertError::SameFile { .. }), "{error}");
        assert_eq!(fs::read(&path).expect("still there"), b"precious");
    }
}
