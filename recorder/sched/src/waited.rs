//! The event that names the file or socket for which a thread waited, for the code that writes it and the code that reads it. It has the
//! time at which the wait began, like the stack of the wait, and is on the thread that waited.

use std::fmt;

use fxt_reader::record::{Args, Event};

use crate::unsigned;

/// The event's category and name.
pub const CATEGORY: &str = "fxtrec";
pub const EVENT: &str = "waited_for";

/// The names of its arguments.
pub mod key {
    /// The number of the descriptor.
    pub const DESCRIPTOR: &str = "fd";
    /// `file`, `pipe`, `tcp`, `udp`, `unix`, `eventfd`, ...
    pub const KIND: &str = "object_kind";
    /// The last two parts of a file's path.
    pub const PATH: &str = "path";
    /// The device that the file is on, or the name of its file system.
    pub const DEVICE: &str = "device";
    /// The ends of a socket, `ADDRESS:PORT`.
    pub const LOCAL: &str = "local";
    pub const REMOTE: &str = "remote";
    /// The id of the process at the other end of a local socket.
    pub const PEER: &str = "peer";
}

/// The kind of a file or device that has a path.
pub const FILE: &str = "file";

/// Which file or socket a thread waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WaitedFor {
    pub descriptor: u64,
    pub kind: String,
    pub path: Option<String>,
    pub device: Option<String>,
    pub local: Option<String>,
    pub remote: Option<String>,
    pub peer: Option<u64>,
}

impl WaitedFor {
    /// The content of an event; `None` if it is another event.
    pub fn of(event: &Event<'_>) -> Option<WaitedFor> {
        ((event.category, event.name) == (CATEGORY, EVENT)).then(|| WaitedFor::of_args(&event.args))
    }

    fn of_args(args: &Args<'_>) -> WaitedFor {
        let text = |key| args.str(key).map(str::to_owned);
        let number = |key| args.get(key).and_then(unsigned);
        WaitedFor {
            descriptor: number(key::DESCRIPTOR).unwrap_or(0),
            kind: text(key::KIND).unwrap_or_default(),
            path: text(key::PATH),
            device: text(key::DEVICE),
            local: text(key::LOCAL),
            remote: text(key::REMOTE),
            peer: number(key::PEER),
        }
    }

    /// Whether these are the two ends of one connection.
    pub fn is_other_end_of(&self, other: &WaitedFor) -> bool {
        self.kind == other.kind
            && self.remote.is_some()
            && self.remote == other.local
            && self.local == other.remote
    }
}

impl fmt::Display for WaitedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitedFor { kind, path, device, local, remote, .. } = self;
        match (path, remote, local) {
            (Some(path), ..) => {
                write!(f, "{path}")?;
                match device {
                    Some(device) => write!(f, " ({device})"),
                    None => Ok(()),
                }
            }
            (_, Some(remote), _) => write!(f, "{} {remote}", kind.to_uppercase()),
            (_, None, Some(local)) => write!(f, "{} {local}", kind.to_uppercase()),
            _ => match kind.as_str() {
                "unix" => write!(f, "a Unix socket"),
                kind if kind.starts_with(['a', 'e', 'i', 'o']) => write!(f, "an {kind}"),
                kind => write!(f, "a {kind}"),
            },
        }
    }
}
