//! Profiler record (type 10): where in which code a thread was.
//!
//! The format specification does not describe this record; Fuchsia's writer and reader have it. It is in a separate module, so that a
//! future change affects only one file here. Readers that do not know it skip it by its size.
//!
//! There are three kinds. All of them begin with the header word and the timestamp.
//!
//! ```text
//! module      header  time  [process]           name, padded   build id, padded
//! mapping     header  time  [process]           start          length          address in the module
//! backtrace   header  time  [process  thread]   program counter of each frame, the innermost first
//! ```
//!
//! Fields in brackets are present when the thread ref is 0.

word! {
    /// Header word of a profiler record of unknown kind.
    HEADER {
        /// Record type (10).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Kind of profiler record.
        KIND [16 .. 19]
        /// Thread (thread ref); for a module or a mapping, only its process is used.
        THREAD [20 .. 27]
        /// Varies by kind.
        DATA [28 .. 63]
    }
}

/// Kind of a module: a file with code that a process has loaded.
pub const MODULE: u64 = 0;
/// Kind of a mapping: where a part of a module is in memory.
pub const MAPPING: u64 = 1;
/// Kind of a backtrace: the program counters of a thread's stack.
pub const BACKTRACE: u64 = 2;

/// Module (kind 0): after the timestamp and the process koid if inline, the name and the build id, each padded to whole words.
pub mod module {
    word! {
        /// Header word.
        HEADER {
            /// Record type (10).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Kind of profiler record (0).
            KIND [16 .. 19]
            /// Thread of the process (thread ref).
            THREAD [20 .. 27]
            /// The number by which mappings of the process refer to it.
            MODULE_ID [28 .. 43]
            /// Length of the name in bytes.
            NAME_LENGTH [44 .. 51]
            /// Length of the build id in bytes.
            BUILD_ID_LENGTH [52 .. 59]
        }
    }
}

/// Mapping (kind 1): after the timestamp and the process koid if inline, the address at which the range begins, its length, and the address
/// within the module that corresponds to its beginning.
pub mod mapping {
    word! {
        /// Header word.
        HEADER {
            /// Record type (10).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Kind of profiler record (1).
            KIND [16 .. 19]
            /// Thread of the process (thread ref).
            THREAD [20 .. 27]
            /// The module.
            MODULE_ID [28 .. 43]
            /// Flags; no published document explains them.
            FLAGS [44 .. 46]
        }
    }
}

/// Backtrace (kind 2): after the timestamp and the process and thread koids if inline, one word for each frame.
pub mod backtrace {
    word! {
        /// Header word.
        HEADER {
            /// Record type (10).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Kind of profiler record (2).
            KIND [16 .. 19]
            /// Thread (thread ref).
            THREAD [20 .. 27]
            /// Number of frames.
            FRAME_COUNT [28 .. 35]
            /// Flags; no published document explains them.
            FLAGS [36 .. 63]
        }
    }
}
