//! Records that name what a koid or a pointer refers to.

/// Kernel object record (type 7): names what a koid refers to.
///
/// After the header word come: the koid; the name when it is inline; the
/// arguments.
pub mod kernel_object {
    word! {
        /// Header word.
        HEADER {
            /// Record type (7).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Kernel object type, one of the `ZX_OBJ_TYPE` values.
            OBJECT_TYPE [16 .. 23]
            /// Name (string ref).
            NAME [24 .. 39]
            /// Number of arguments.
            ARG_COUNT [40 .. 43]
        }
    }

    /// Object type of a process.
    pub const ZX_OBJ_TYPE_PROCESS: u64 = 1;
    /// Object type of a thread; its record carries a [`PROCESS_ARG`] argument.
    pub const ZX_OBJ_TYPE_THREAD: u64 = 2;

    /// Name of the koid argument that contains a thread's process.
    pub const PROCESS_ARG: &str = "process";
}

/// Userspace object record (type 6): names what a pointer of a process refers to.
///
/// After the header word come: the pointer; the process koid (and no thread
/// koid) when the process is inline; the name when it is inline; the arguments.
pub mod userspace_object {
    word! {
        /// Header word.
        HEADER {
            /// Record type (6).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Process (thread ref).
            PROCESS [16 .. 23]
            /// Name (string ref).
            NAME [24 .. 39]
            /// Number of arguments.
            ARG_COUNT [40 .. 43]
        }
    }
}
