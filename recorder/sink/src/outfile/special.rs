//! FIFOs and devices, which are opened directly.

use std::fs::File;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use super::{OutFileError, OutputLocation};
use fxtrec_kernel::directory::{Directory, Facts, Held, Trusted, count, inherited};

impl OutputLocation {
    /// Opens the FIFO or device here, or at the target of a link here; `None` if it is neither. Must be called only for a
    /// path that the user named.
    ///
    /// # Errors
    /// Returns [`OutFileError`]: it belongs to another user, or another user may have created a link on the way to it.
    pub fn special(&self) -> Result<Option<File>, OutFileError> {
        let mut at = self.clone();
        let (mut links, mut unsafe_link) = (0, None);
        loop {
            if at.directory.is_proc() {
                return at.of_proc(unsafe_link.is_some());
            }
            let Some(facts) = at.directory.look(&at.name)? else { return Ok(None) };
            if facts.kind() != SFlag::S_IFLNK {
                break;
            }
            let Some(link) = at.directory.link(&at.name)? else { continue };
            count(&mut links)?;
            if !at.directory.is_private(self.trusted())? {
                unsafe_link = Some(at.name.clone());
            }
            let target = Path::new(&link.target);
            let Some(name) = target.file_name() else {
                return Err(OutFileError::of_errno(libc::EISDIR));
            };
            let parent = target.parent().unwrap_or(Path::new(""));
            at.directory = match at.directory.walk(parent, self.trusted(), &mut links) {
                Ok(directory) => directory,
                // The link is dangling.
                Err(error) => match OutFileError::from(error) {
                    error if error == OutFileError::of_errno(libc::ENOENT) => return Ok(None),
                    error => return Err(error),
                },
            };
            at.name = name.to_owned();
        }
        let held = at.directory.hold(&at.name)?;
        let facts = held.facts()?;
        match facts.kind() {
            // A link to a file is replaced, like the file itself.
            SFlag::S_IFREG | SFlag::S_IFLNK => return Ok(None),
            SFlag::S_IFDIR => return Err(OutFileError::of_errno(libc::EISDIR)),
            _ => {}
        }
        match unsafe_link {
            Some(link) => Err(OutFileError::UnsafeLink(link)),
            None => self.open_special(&held, &facts).map(Some),
        }
    }

    fn open_special(&self, held: &Held, facts: &Facts) -> Result<File, OutFileError> {
        let (kind, flags) = match facts.kind() {
            // Otherwise the call would wait for a reader, and no signal could end it.
            SFlag::S_IFIFO => ("FIFO", OFlag::O_NONBLOCK),
            SFlag::S_IFCHR => ("device", OFlag::empty()),
            SFlag::S_IFBLK => return Err(OutFileError::BlockDevice),
            _ => return Err(OutFileError::of_errno(libc::ENXIO)),
        };
        let nobodys = facts.kind() == SFlag::S_IFCHR && goes_nowhere(facts.device);
        if !nobodys && !self.trusted().has(facts.uid) {
            return Err(OutFileError::Foreign { kind, uid: facts.uid });
        }
        held.open_to_write(flags).map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) if kind == "FIFO" => OutFileError::NoReader,
            _ => error.into(),
        })
    }

    /// The target of a name in procfs: a descriptor that fxtrec was started with, which is equivalent to `-` and `>(...)`.
    fn of_proc(&self, through_link: bool) -> Result<Option<File>, OutFileError> {
        if through_link {
            return Err(OutFileError::UnsafeLink(self.path.clone().into_os_string()));
        }
        let number = self.name.to_str().and_then(|name| name.parse().ok());
        match number.filter(|_| is_own_descriptors(&self.directory)) {
            Some(number) => inherited(number).map(Some).map_err(|_| OutFileError::NotInherited),
            None => Err(OutFileError::NotInherited),
        }
    }
}

/// Whether it is `/proc/self/fd`.
fn is_own_descriptors(directory: &Directory) -> bool {
    let own = Directory::open(Path::new("/proc/self/fd"), Trusted::with(None));
    let id = |directory: &Directory| Facts::of_file(directory).ok().map(|facts| facts.id);
    own.is_ok_and(|own| id(&own).is_some() && id(&own) == id(directory))
}

/// `/dev/null`, `/dev/zero` and `/dev/full`: in a container they may belong to a user that the container does not know.
fn goes_nowhere(device: u64) -> bool {
    const MEMORY: u32 = 1;
    libc::major(device) == MEMORY && matches!(libc::minor(device), 3 | 5 | 7)
}
