//! The reason why an output is not created.

use std::ffi::OsString;
use std::io;

use crate::OsError;
use fxtrec_kernel::directory::WalkError;
use fxtrec_kernel::file_lock::Holder;

/// The reason why an output is not created. Nothing has changed in that case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutFileError {
    #[error("{source}{advice}", source = .0, advice = advice(*.0))]
    System(OsError),
    /// A link that another user may have placed there.
    #[error(
        "{} is a symbolic link in a directory that others can write to: use the name of its target",
        .0.display()
    )]
    UnsafeLink(OsString),
    /// A FIFO or device of another user.
    #[error("it is a {kind} of uid {uid}, who would get the data: use one that belongs to you")]
    Foreign { kind: &'static str, uid: u32 },
    #[error("it is a block device, which would be overwritten: use a file")]
    BlockDevice,
    /// An open file of another process, or one that is not open for writing.
    #[error("fxtrec was not started with this descriptor: use - for standard output")]
    NotInherited,
    /// A FIFO without a reader.
    #[error("the pipe has no reader: start the reader first")]
    NoReader,
    /// The existing file could not be kept.
    #[error("cannot keep the earlier file as {}: {source}", .old.display())]
    KeepOld {
        /// Its intended name.
        old: OsString,
        source: OsError,
    },
    #[error("{0} is recording to it: wait until it ends, or use another name with -o")]
    InUse(Holder),
    /// It would be read and written at the same time.
    #[error("it is the same file as the input: give the output another name")]
    IsInput,
    /// Two outputs of one command.
    #[error("it is used for two outputs: give each output its own name")]
    Twice,
    /// A file that also has another name.
    #[error("it has more than one hard link: use another file")]
    SeveralNames,
    /// The file is being replaced.
    #[error("it was replaced at the same time: try again")]
    Changed,
    /// Its directory was moved, or its name leads elsewhere.
    #[error(
        "the file or its directory was moved or replaced; leave both in place until fxtrec ends"
    )]
    Moved,
}

impl OutFileError {
    pub(super) fn of_errno(errno: i32) -> OutFileError {
        OutFileError::System(OsError(errno))
    }
}

fn advice(source: OsError) -> &'static str {
    match source.0 {
        libc::ENOENT => " (create the directory first)",
        libc::EACCES | libc::EROFS | libc::EPERM => " (use another directory)",
        libc::EISDIR => " (name a file in it)",
        _ => "",
    }
}

impl From<io::Error> for OutFileError {
    fn from(error: io::Error) -> OutFileError {
        OutFileError::System(OsError::of(&error))
    }
}

impl From<WalkError> for OutFileError {
    fn from(error: WalkError) -> OutFileError {
        match error {
            WalkError::System(error) => error.into(),
            WalkError::UnsafeLink(name) => OutFileError::UnsafeLink(name),
        }
    }
}

impl From<OutFileError> for io::Error {
    fn from(error: OutFileError) -> io::Error {
        match error {
            OutFileError::System(OsError(errno)) => io::Error::from_raw_os_error(errno),
            error => io::Error::other(error),
        }
    }
}
