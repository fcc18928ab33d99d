//! A file that is derived from other files: a conversion, a cut, a page, a JUnit file. It gets its name when it is complete.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::sys::stat::SFlag;

use super::{OutFileError, OutputLocation, facts_of, refuse_inputs};
use fxtrec_kernel::directory::{Facts, Fresh};
use fxtrec_kernel::user::Owner;

/// The least mode of a file: its creator can read and write it.
const OWN: u32 = 0o600;

/// The mode for a file derived from `inputs`, before the umask: only those who can read all inputs can read it. For a pipe, the readers are
/// unknown.
pub fn mode_of(inputs: &[&Path]) -> u32 {
    let permissions = |path: &&Path| {
        let facts = match *path == Path::new("-") {
            true => Facts::of_file(io::stdin()),
            false => facts_of(path),
        };
        let regular = facts.ok().filter(|facts| facts.kind() == SFlag::S_IFREG);
        regular.map_or(OWN, |facts| facts.permissions())
    };
    let common = inputs.iter().map(permissions).reduce(|one, other| one & other);
    OWN | (common.unwrap_or(OWN) & 0o666)
}

/// A file that is being written.
#[derive(Debug)]
#[must_use = "it has its name once it is committed"]
pub struct Derived {
    pub file: File,
    /// The work to do at the end.
    pub pending: Pending,
}

/// The work to do when everything is written. If it is dropped before that, an earlier file is kept.
#[derive(Debug)]
#[must_use = "the file has its name once it is committed"]
pub struct Pending(Option<(OutputLocation, Fresh)>);

impl Derived {
    /// Creates a file that will be `path`, derived from `inputs` and with the permissions `mode`. FIFOs and devices are opened directly;
    /// `-` is standard output.
    ///
    /// # Errors
    /// Returns [`OutFileError`]: the file is one of the inputs, or cannot be created, or a process records to it.
    pub fn create(
        path: &Path,
        mode: u32,
        inputs: &[&Path],
        owner: Option<Owner>,
    ) -> Result<Derived, OutFileError> {
        refuse_inputs(path, inputs)?;
        if path == Path::new("-") {
            let file = fxtrec_kernel::directory::inherited(1)?;
            return Ok(Derived { file, pending: Pending(None) });
        }
        let place = OutputLocation::find(path, owner)?;
        if let Some(file) = place.special()? {
            return Ok(Derived { file, pending: Pending(None) });
        }
        place.must_be_replaceable()?;
        let fresh = Fresh::new(&place.directory, mode)?;
        let file = fresh.file.try_clone()?;
        Ok(Derived { file, pending: Pending(Some((place, fresh))) })
    }
}

impl OutputLocation {
    fn must_be_replaceable(&self) -> Result<(), OutFileError> {
        let there = self.directory.look(&self.name)?;
        if there.is_some_and(|there| there.kind() == SFlag::S_IFDIR) {
            return Err(OutFileError::of_errno(libc::EISDIR));
        }
        self.must_be_free(&self.name)
    }
}

impl Pending {
    /// Nothing to do: the file already has its name, or has none.
    pub fn none() -> Pending {
        Pending(None)
    }

    /// Everything is written: syncs the file to disk and gives it its name.
    ///
    /// # Errors
    /// Returns an error if the disk is full, or another process records to the existing file, which is then unchanged. Also when the path
    /// does not lead to the file, since the directory's owner may have moved it.
    pub fn commit(self) -> Result<(), OutFileError> {
        let Some((place, mut fresh)) = self.0 else { return Ok(()) };
        if !place.is_where_it_was() {
            return Err(OutFileError::Moved);
        }
        if let Some(owner) = place.owner {
            // This is not done earlier: if it already had a name, its owner could write to it. The file is usable nevertheless, so this is
            // not treated as a failure.
            let _ = owner.take(&fresh.file);
        }
        match fresh.file.sync_all() {
            // The file system does not support it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            result => result?,
        }
        place.must_be_replaceable()?;
        fresh.put_over(&place.name)?;
        place.directory.sync();
        // Its temporary name may have led to another file, and the directory may have been replaced.
        match place.leads_to(Facts::of_file(&fresh.file)?.id) {
            true => Ok(()),
            false => Err(OutFileError::Moved),
        }
    }
}
