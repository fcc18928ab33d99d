//! Scheduling record (type 8): threads woken, and switched in and out of a CPU.

word! {
    /// Header word of a scheduling record of unknown kind.
    HEADER {
        /// Record type (8).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Varies by scheduling record type.
        DATA [16 .. 59]
        /// Scheduling record type.
        SCHEDULING_TYPE [60 .. 63]
    }
}

/// Scheduling record type of a legacy context switch.
pub const LEGACY_CONTEXT_SWITCH: u64 = 0;
/// Scheduling record type of a context switch.
pub const CONTEXT_SWITCH: u64 = 1;
/// Scheduling record type of a thread wakeup.
pub const THREAD_WAKEUP: u64 = 2;

/// Context switch (scheduling type 1): timestamp, outgoing and incoming thread
/// koid, then the arguments.
pub mod context_switch {
    word! {
        /// Header word.
        HEADER {
            /// Record type (8).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Number of arguments.
            ARG_COUNT [16 .. 19]
            /// CPU number.
            CPU [20 .. 35]
            /// State of the outgoing thread, see
            /// [`thread_state`](super::thread_state).
            OUTGOING_STATE [36 .. 39]
            /// Scheduling record type (1).
            SCHEDULING_TYPE [60 .. 63]
        }
    }

    /// Words before the arguments.
    pub const FIXED_WORDS: usize = 4;
    /// Name of the `Int32` argument with the incoming thread's weight.
    pub const INCOMING_WEIGHT_ARG: &str = "incoming_weight";
    /// Name of the `Int32` argument with the outgoing thread's weight.
    pub const OUTGOING_WEIGHT_ARG: &str = "outgoing_weight";
}

/// Thread wakeup (scheduling type 2): timestamp, koid of the thread that is
/// woken, then the arguments.
pub mod thread_wakeup {
    word! {
        /// Header word.
        HEADER {
            /// Record type (8).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Number of arguments.
            ARG_COUNT [16 .. 19]
            /// CPU number.
            CPU [20 .. 35]
            /// Scheduling record type (2).
            SCHEDULING_TYPE [60 .. 63]
        }
    }

    /// Words before the arguments.
    pub const FIXED_WORDS: usize = 3;
    /// Name of the `Int32` argument with the woken thread's weight.
    pub const WEIGHT_ARG: &str = "weight";
}

/// Legacy context switch (scheduling type 0): timestamp, then the process and
/// thread koids of the outgoing and of the incoming thread where inline.
pub mod legacy_context_switch {
    word! {
        /// Header word.
        HEADER {
            /// Record type (8).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// CPU number.
            CPU [16 .. 23]
            /// State of the outgoing thread, any except running, see [`thread_state`](super::thread_state).
            OUTGOING_STATE [24 .. 27]
            /// Outgoing thread (thread ref).
            OUTGOING_THREAD [28 .. 35]
            /// Incoming thread (thread ref).
            INCOMING_THREAD [36 .. 43]
            /// Priority of the outgoing thread.
            OUTGOING_PRIORITY [44 .. 51]
            /// Priority of the incoming thread.
            INCOMING_PRIORITY [52 .. 59]
            /// Scheduling record type (0).
            SCHEDULING_TYPE [60 .. 63]
        }
    }
}

/// States of a thread that leaves a CPU ("Thread States").
pub mod thread_state {
    /// Created, never ran.
    pub const NEW: u64 = 0;
    /// Running, or ready to run.
    pub const RUNNING: u64 = 1;
    /// Suspended.
    pub const SUSPENDED: u64 = 2;
    /// Waiting, so not runnable.
    pub const BLOCKED: u64 = 3;
    /// Exiting, but not yet dead.
    pub const DYING: u64 = 4;
    /// The thread has exited.
    pub const DEAD: u64 = 5;
}
