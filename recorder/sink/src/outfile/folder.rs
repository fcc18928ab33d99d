//! Directories for outputs.

use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use super::{OutFileError, OutputLocation};
use fxtrec_kernel::user::Owner;

/// Makes a directory unless it exists; its parent must exist. A link to a directory is accepted here; whether it can be trusted is checked
/// when a file is created below it.
///
/// # Errors
/// Returns an error when the path is another kind of file, or it cannot be created.
pub fn make_folder(path: &Path, owner: Option<Owner>) -> Result<(), OutFileError> {
    // The root, or a directory identified by its path.
    if path.file_name().is_none() {
        return Ok(());
    }
    let without_slash: PathBuf = path.components().collect();
    let place = OutputLocation::find(&without_slash, owner)?;
    let OutputLocation { directory, name, .. } = &place;
    if let Some(there) = directory.look(name)? {
        return match there.kind() {
            SFlag::S_IFDIR | SFlag::S_IFLNK => Ok(()),
            _ => Err(OutFileError::of_errno(libc::ENOTDIR)),
        };
    }
    match directory.make(name) {
        // Another export has created it in the meantime.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        result => result?,
    }
    // If others can create names there, the directory may belong to another user in the meantime. A file that stays root's can still be
    // read.
    if let Some(owner) = owner
        && directory.is_private(place.trusted())?
        && let Ok(made) = directory.open_file(name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
    {
        let _ = owner.take(&made);
    }
    Ok(())
}
