//! The Python functions of threads: the data about an interpreter that programs need to walk them, and the results. See `python.h`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::bpf::sys::{BpfSys, MapKind, MapSpec};
use crate::units::Pid;

/// The maximum number of processes with an interpreter.
pub(super) const MOST_PYTHONS: u32 = 2048;

/// The maximum number of frames in a sample, including those that mark the beginning of a C function's frames.
pub const PYTHON_FRAMES: usize = 64;

/// The size of the copied part of a frame, in bytes.
pub(super) const FRAME_BYTES: usize = 128;

/// Declares a structure of words, which the program reads in this order.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            pub const WORDS: usize = [$(stringify!($field)),*].len();

            /// Its fields in the order of the C structure.
            pub fn words(&self) -> [u64; $name::WORDS] {
                [$(self.$field),*]
            }

            pub fn of_words([$($field),*]: [u64; $name::WORDS]) -> $name {
                $name { $($field),* }
            }
        }
    };
}

words! {
    /// Where the interpreter's states and frames are in a process: see `struct python`, which describes each field.
    Python {
        /// The address of the pointer to the main interpreter.
        interpreter,
        /// The address of the key by which threads find their state; 0 if unknown.
        key,
        threads,
        next_thread,
        thread_id,
        thread_frame,
        /// The offset of the frame in the object that `thread_frame` points to, plus one; 0 if that is the frame itself.
        inner_frame,
        frame_bytes,
        previous,
        code,
        instruction,
        /// The offset of a byte that is at least `least_entry` if a C function's frame begins there.
        entry,
        least_entry,
    }
}

/// How the walk of a thread's Python functions ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PythonEnd {
    /// There was no walk: the process is not known to have an interpreter.
    #[default]
    None,
    Whole,
    /// There are more frames.
    Deeper,
    /// A frame could not be read.
    Unreadable,
    /// The interpreter does not know the thread.
    NoState,
}

impl PythonEnd {
    pub(super) fn of(number: u32) -> Option<PythonEnd> {
        use PythonEnd::*;
        [None, Whole, Deeper, Unreadable, NoState].get(number as usize).copied()
    }
}

/// A Python frame: the address of its code object, and the interpreter's position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonFrame {
    pub code: u64,
    pub instruction: u64,
    /// Its byte at `entry` is at least `least_entry`.
    pub is_entry: bool,
}

/// The interpreters of processes, as programs find them.
#[derive(Debug)]
pub(super) struct Pythons(OwnedFd);

impl Pythons {
    pub(super) fn new(sys: &dyn BpfSys) -> io::Result<Pythons> {
        let spec = MapSpec {
            kind: MapKind::Hash,
            entries: MOST_PYTHONS,
            ..MapSpec::memory(size_of::<[u64; Python::WORDS]>(), false)
        };
        sys.map_create(&spec).map(Pythons)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Stores where a process has its interpreter, or that it has none.
    pub(super) fn set(
        &self,
        sys: &dyn BpfSys,
        pid: Pid,
        python: Option<&Python>,
    ) -> io::Result<()> {
        let Some(python) = python else { return sys.map_delete(self.fd(), pid.0) };
        let words = python.words();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        sys.map_update(self.fd(), pid.0, &bytes)
    }
}

/// The frames of a sample.
pub(super) fn frames(bytes: &[u8]) -> Vec<PythonFrame> {
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let frame = |[code, instruction]: &[[u8; 8]; 2]| {
        let (code, instruction) = (u64::from_ne_bytes(*code), u64::from_ne_bytes(*instruction));
        PythonFrame { code: code & !1, instruction, is_entry: code & 1 != 0 }
    };
    pairs.iter().map(frame).collect()
}
