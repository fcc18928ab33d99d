//! Opens the output: new files, existing files, pipes, devices.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::stat::SFlag;

use super::codec::{Gzip, Zstd};
use super::compressed::Compressed;
use super::error::{OsError, SinkError};
use super::medium::{MakeRoom, Medium, RegularFile, Stream, with_room};
use super::outfile::{Given, Hold, OutFileError, OutputLocation, Recording, Undo};
use super::plain::Plain;
use super::{Compression, Output, Sink, Target};
use fxtrec_kernel::directory::Facts;
use fxtrec_kernel::user::Owner;

/// An open output, and how it was opened.
#[derive(Debug)]
pub struct Opened {
    pub sink: Box<dyn Sink>,
    /// The new path of an earlier file of this name, if there was one.
    pub kept_old: Option<PathBuf>,
    /// The reason why the file could not be given to `owner`, if so; it can be written all the same.
    pub owner_error: Option<io::Error>,
    /// Removes the new file again.
    pub undo: Option<Undo>,
    /// The file after the sink has finished: locked against other recorders, and identified regardless of its name. `None` for pipes and
    /// devices.
    pub hold: Option<Arc<Hold>>,
    /// Whether it is a device, which stores nothing.
    pub is_device: bool,
}

/// Opens the output.
///
/// An existing file is renamed to its name with `.old` added, and an earlier `.old` is replaced. Devices and FIFOs are opened directly if
/// the user named them. A new file belongs to `owner`.
///
/// # Errors
/// Returns an error when the output cannot be created or opened, or the earlier file cannot be renamed, or another process records to it.
pub fn open(output: &Output, owner: Option<Owner>) -> Result<Opened, SinkError> {
    open_series(output, owner, Given::AtOnce, None, None)
}

/// Finds the places of files that are opened later, by [`open_at`].
///
/// # Errors
/// Returns an error when the directory does not exist or cannot be trusted.
pub fn place(path: &Path, owner: Option<Owner>) -> Result<OutputLocation, SinkError> {
    OutputLocation::find(path, owner).map_err(|error| refused(&path.display().to_string(), error))
}

/// Whether a file of this name is another file of the same rotated recording.
pub type IsPiece<'a> = &'a dyn Fn(&OsStr) -> bool;

/// Opens the first file of a rotated recording, as [`open`] does, unless another process writes one of its files. `room` frees
/// space when the disk is full.
///
/// # Errors
/// As for [`open`].
pub fn open_series(
    output: &Output,
    owner: Option<Owner>,
    given: Given,
    is_piece: Option<IsPiece<'_>>,
    room: Option<Arc<dyn MakeRoom>>,
) -> Result<Opened, SinkError> {
    let compression = output.compression;
    let path = match &output.target {
        Target::Stdout => {
            let name = "standard output".to_owned();
            let file = io::stdout().as_fd().try_clone_to_owned();
            let file = File::from(file.map_err(|error| refused(&name, error.into()))?);
            return stream(name, file, compression);
        }
        Target::Path(path) => path,
    };
    let name = path.display().to_string();
    let because = |error: OutFileError| refused(&name, error);
    let place = OutputLocation::find(path, owner).map_err(because)?;
    if output.named
        && let Some(file) = place.special().map_err(because)?
    {
        return stream(name, file, compression);
    }
    let others =
        |place: &OutputLocation| is_piece.map_or(Ok(()), |is| place.siblings_must_be_free(is));
    others(&place).map_err(because)?;
    let mut opened = open_at(&place, compression, given, room)?;
    // Another thread may have begun another piece in the meantime.
    if let Err(error) = others(&place) {
        if let Some(undo) = opened.undo.take() {
            undo.take_back();
        }
        return Err(because(error));
    }
    Ok(opened)
}

/// Creates a file in a directory that was opened before, as [`open`] does for a name that the user did not give. `room` is called if the
/// disk is full, both when the file is created and while it is written.
///
/// # Errors
/// As for [`open`].
pub fn open_at(
    place: &OutputLocation,
    compression: Compression,
    given: Given,
    room: Option<Arc<dyn MakeRoom>>,
) -> Result<Opened, SinkError> {
    let name = place.path().display().to_string();
    let because = |error: OutFileError| refused(&name, error);
    let recording = with_room(room.as_deref(), errno_of, || place.clone().record(given));
    let recording = recording.map_err(because)?;
    let (undo, hold) = (recording.undo(), recording.hold().map_err(|error| because(error.into()))?);
    let Recording { file, kept_old, owner_error, .. } = recording;
    let sink = pack(name, RegularFile { file, room }, compression)?;
    let hold = Some(Arc::new(hold));
    Ok(Opened { sink, kept_old, owner_error, undo: Some(undo), hold, is_device: false })
}

/// A file for a trace that another process writes.
#[derive(Debug)]
pub struct NewFile {
    pub file: File,
    /// Removes it again, unless it is a device or FIFO.
    pub undo: Option<Undo>,
    /// The new path of an earlier file of this name, if there was one.
    pub kept_old: Option<PathBuf>,
}

/// Creates a file, as [`open`] does, for another process to write. Devices and FIFOs are opened only if the user `named`
/// them.
///
/// # Errors
/// As for [`open`].
pub fn new_file(path: &Path, named: bool, owner: Option<Owner>) -> Result<NewFile, SinkError> {
    let because = |error: OutFileError| refused(&path.display().to_string(), error);
    let place = OutputLocation::find(path, owner).map_err(because)?;
    if named && let Some(file) = place.special().map_err(because)? {
        return Ok(NewFile { file, undo: None, kept_old: None });
    }
    let recording = place.record(Given::AtOnce).map_err(because)?;
    let undo = Some(recording.undo());
    // A file that still belongs to root can be written nevertheless, and given later to the user who called sudo.
    let Recording { file, kept_old, .. } = recording;
    Ok(NewFile { file, undo, kept_old })
}

fn stream(name: String, file: File, compression: Compression) -> Result<Opened, SinkError> {
    let failed = |error: io::Error| refused(&name, error.into());
    let hold = Hold::given(&file).map_err(failed)?.map(Arc::new);
    let is_device = Facts::of_file(&file).map_err(failed)?.kind() == SFlag::S_IFCHR;
    let sink = pack(name, Stream(file), compression)?;
    Ok(Opened { sink, kept_old: None, owner_error: None, undo: None, hold, is_device })
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

fn errno_of(error: &OutFileError) -> Option<i32> {
    match error {
        OutFileError::System(source) | OutFileError::KeepOld { source, .. } => Some(source.0),
        _ => None,
    }
}

/// The reason why the output `name` is not written.
fn refused(name: &str, error: OutFileError) -> SinkError {
    let name = name.to_owned();
    match error {
        OutFileError::System(source) => SinkError::Create { name, source },
        OutFileError::KeepOld { source, .. } => SinkError::KeepOld { name, source },
        OutFileError::NoReader => SinkError::NoReader { name },
        source => SinkError::Refused { name, source },
    }
}
