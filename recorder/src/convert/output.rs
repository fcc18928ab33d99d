//! The output of a conversion: created, packed, and gone again when the conversion fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use super::error::ConvertError;
use super::format::Packing;
use crate::kernel::user::Owner;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A conversion is done once and its file kept: what gzip and zstd themselves choose.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// A file or pipe that is being written, packed.
#[derive(Debug)]
#[must_use = "the end is written by finish()"]
pub struct Output {
    packer: Packer,
    /// The file to remove when it is not finished; none for pipes and devices.
    unfinished: Option<PathBuf>,
    written: u64,
}

enum Packer {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<ZstdEncoder<'static, BufWriter<File>>>),
    Done,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
            Self::Done => "Done",
        })
    }
}

impl Output {
    /// Creates `path`, or takes standard output for `-`. A file made under sudo belongs to who
    /// called sudo.
    ///
    /// # Errors
    ///
    /// When it cannot be created, or is one of `inputs`.
    pub fn create(path: &Path, packing: Packing, inputs: &[&Path]) -> Result<Self, ConvertError> {
        let cannot_create = |source| ConvertError::Create { path: path.to_owned(), source };
        if path == Path::new("-") {
            let file = stdout().as_fd().try_clone_to_owned().map_err(cannot_create)?;
            return Self::pack(File::from(file), packing, None).map_err(cannot_create);
        }
        if inputs.iter().any(|input| is_same_file(input, path)) {
            return Err(ConvertError::SameFile { path: path.to_owned() });
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(cannot_create)?;
        let regular = file.metadata().map_err(cannot_create)?.is_file();
        if let Some(owner) = Owner::sudo_caller().filter(|_| regular) {
            // The file can be used all the same, so this is not worth failing for.
            let _ = owner.take(&file);
        }
        let unfinished = regular.then(|| path.to_owned());
        Self::pack(file, packing, unfinished).map_err(cannot_create)
    }

    /// Writes to a file that is open already, and keeps it whatever happens.
    ///
    /// # Errors
    ///
    /// When the packer cannot be set up.
    pub fn of_file(file: File, packing: Packing) -> io::Result<Self> {
        Self::pack(file, packing, None)
    }

    fn pack(file: File, packing: Packing, unfinished: Option<PathBuf>) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let packer = match packing {
            Packing::Plain => Packer::Plain(file),
            Packing::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Packer::Gzip(Box::new(GzEncoder::new(file, level)))
            }
            Packing::Zstd => Packer::Zstd(Box::new(ZstdEncoder::new(file, ZSTD_LEVEL)?)),
        };
        Ok(Self { packer, unfinished, written: 0 })
    }

    /// Writes the end, and keeps the file. Returns the bytes before packing.
    ///
    /// # Errors
    ///
    /// When the end cannot be written.
    pub fn finish(mut self) -> Result<u64, ConvertError> {
        let result = match std::mem::replace(&mut self.packer, Packer::Done) {
            Packer::Plain(mut file) => file.flush(),
            Packer::Gzip(gzip) => gzip.finish().and_then(|mut file| file.flush()),
            Packer::Zstd(zstd) => zstd.finish().and_then(|mut file| file.flush()),
            Packer::Done => Ok(()),
        };
        result.map_err(ConvertError::Write)?;
        self.unfinished = None;
        Ok(self.written)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = &self.unfinished {
            // Half a file would be taken for a whole one.
            let _ = fs::remove_file(path);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.packer {
            Packer::Plain(file) => file.write(bytes),
            Packer::Gzip(gzip) => gzip.write(bytes),
            Packer::Zstd(zstd) => zstd.write(bytes),
            Packer::Done => Ok(0),
        }?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Packers flush at the end: in between it would cost them what they have learnt.
        match &mut self.packer {
            Packer::Plain(file) => file.flush(),
            _ => Ok(()),
        }
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let facts = fs::metadata(path).ok()?;
        facts.is_file().then(|| (facts.dev(), facts.ino()))
    };
    matches!((identity(one), identity(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_not_finished_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.json");
        let mut output = Output::create(&path, Packing::Plain, &[]).expect("created");
        output.write_all(b"half").expect("room");
        drop(output);
        assert!(!path.exists());
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
            let mut input = crate::convert::Input::open(&path, false).expect("there");
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
