//! Opening the output: new files, files that were there before, pipes, devices.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::codec::{Gzip, Zstd};
use super::compressed::Compressed;
use super::error::{OsError, SinkError};
use super::medium::{Medium, RegularFile, Stream};
use super::plain::Plain;
use super::{Compression, Output, Sink, Target};
use crate::kernel::user::Owner;

/// An output that is open, and what happened on the way.
#[derive(Debug)]
pub struct Opened {
    /// Takes the trace.
    pub sink: Box<dyn Sink>,
    /// Where the file is now that was there before, if one was.
    pub kept_old: Option<PathBuf>,
    /// Why the file could not be given to `owner`, if so; it can be written all the same.
    pub owner_error: Option<io::Error>,
}

/// Opens the output.
///
/// A file that is there already is renamed to its name with `.old` behind it, and an earlier
/// `.old` is replaced. Devices and fifos are opened as they are. A new file belongs to `owner`.
///
/// # Errors
/// When the output cannot be created or opened, or the earlier file not be renamed.
pub fn open(output: &Output, owner: Option<Owner>) -> Result<Opened, SinkError> {
    let compression = output.compression;
    let path = match &output.target {
        Target::Stdout => {
            let name = "standard output".to_owned();
            let file = io::stdout().as_fd().try_clone_to_owned();
            let file = File::from(file.map_err(|error| create_error(&name, &error))?);
            return opened(pack(name, Stream(file), compression)?);
        }
        Target::Path(path) => path,
    };
    let name = path.display().to_string();
    if let Ok(there) = fs::metadata(path) {
        let kind = there.file_type();
        if !kind.is_file() {
            let file = open_special(path, kind.is_fifo(), &name)?;
            return opened(pack(name, Stream(file), compression)?);
        }
    }
    let (file, kept_old) = create(path, &name)?;
    let owner_error = owner.and_then(|owner| owner.take(&file).err());
    let sink = pack(name, RegularFile(file), compression)?;
    Ok(Opened { sink, kept_old, owner_error })
}

/// A file that was created for a trace that somebody else writes.
#[derive(Debug)]
pub struct NewFile {
    /// The file.
    pub file: File,
    /// Whether it was not there before: a regular file, and empty.
    pub is_new: bool,
    /// Where the file is now that was there before, if one was.
    pub kept_old: Option<PathBuf>,
}

/// Creates a file, as [`open`] does, for somebody else to write; devices and fifos are opened as they are.
///
/// # Errors
/// As for [`open`].
pub fn new_file(path: &Path, owner: Option<Owner>) -> Result<NewFile, SinkError> {
    let name = path.display().to_string();
    if let Ok(there) = fs::metadata(path)
        && !there.file_type().is_file()
    {
        let file = open_special(path, there.file_type().is_fifo(), &name)?;
        return Ok(NewFile { file, is_new: false, kept_old: None });
    }
    let (file, kept_old) = create(path, &name)?;
    if let Some(owner) = owner {
        // It can be written all the same, and whoever called sudo can be given it later.
        let _ = owner.take(&file);
    }
    Ok(NewFile { file, is_new: true, kept_old })
}

fn opened(sink: Box<dyn Sink>) -> Result<Opened, SinkError> {
    Ok(Opened { sink, kept_old: None, owner_error: None })
}

fn open_special(path: &Path, is_fifo: bool, name: &str) -> Result<File, SinkError> {
    let mut options = OpenOptions::new();
    options.write(true);
    if is_fifo {
        // Otherwise the call would wait for a reader, and no signal could end it.
        options.custom_flags(libc::O_NONBLOCK);
    }
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) if is_fifo => SinkError::NoReader { name: name.to_owned() },
        _ => create_error(name, &error),
    })
}

/// Creates a new file. Nobody else can have it open or have put a link in its place, which
/// matters when root writes to a directory of somebody else.
fn create(path: &Path, name: &str) -> Result<(File, Option<PathBuf>), SinkError> {
    let mut old = OsString::from(path);
    old.push(".old");
    let old = PathBuf::from(old);
    let kept = match fs::rename(path, &old) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            let name = name.to_owned();
            return Err(SinkError::KeepOld { name, source: OsError::of(&error) });
        }
    };
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok((file, kept.then_some(old))),
        Err(error) => {
            if kept {
                // Nothing was gained, so nothing should be changed. That the file is still there
                // under its other name is not worth hiding the error for.
                let _ = fs::rename(&old, path);
            }
            Err(create_error(name, &error))
        }
    }
}

fn pack<M: Medium + 'static>(
    name: String,
    medium: M,
    compression: Compression,
) -> Result<Box<dyn Sink>, SinkError> {
    Ok(match compression {
        Compression::None => Box::new(Plain::new(name, medium)),
        Compression::Gzip => Box::new(Compressed::new(name, medium, Gzip::new())),
        Compression::Zstd => {
            let codec = Zstd::new().map_err(|error| create_error(&name, &error))?;
            Box::new(Compressed::new(name, medium, codec))
        }
    })
}

fn create_error(name: &str, error: &io::Error) -> SinkError {
    SinkError::Create { name: name.to_owned(), source: OsError::of(error) }
}
