//! The kinds of record, fine enough for filters and statistics.

use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($( $(#[$doc:meta])* $kind:ident = $name:literal, )+) => {
        /// The type of a record, without its content.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $( $(#[$doc])* $kind, )+
        }

        impl Kind {
            /// All kinds, in the order of the format specification.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The name used by filters and tables, for example `context_switch`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => $name, )+
                }
            }
        }
    };
}

kinds! {
    /// The magic number record.
    MagicNumber = "magic_number",
    /// Provider info metadata.
    ProviderInfo = "provider_info",
    /// Provider section metadata.
    ProviderSection = "provider_section",
    /// Provider event metadata.
    ProviderEvent = "provider_event",
    /// Initialization record.
    Initialization = "initialization",
    /// String record.
    String = "string",
    /// Thread record.
    Thread = "thread",
    /// Instant event.
    Instant = "instant",
    /// Counter event.
    Counter = "counter",
    /// Duration begin event.
    DurationBegin = "duration_begin",
    /// Duration end event.
    DurationEnd = "duration_end",
    /// Duration complete event.
    DurationComplete = "duration_complete",
    /// Async begin event.
    AsyncBegin = "async_begin",
    /// Async instant event.
    AsyncInstant = "async_instant",
    /// Async end event.
    AsyncEnd = "async_end",
    /// Flow begin event.
    FlowBegin = "flow_begin",
    /// Flow step event.
    FlowStep = "flow_step",
    /// Flow end event.
    FlowEnd = "flow_end",
    /// BLOB record.
    Blob = "blob",
    /// Userspace object record.
    UserspaceObject = "userspace_object",
    /// Kernel object record.
    KernelObject = "kernel_object",
    /// Scheduling record of type 0.
    LegacyContextSwitch = "legacy_context_switch",
    /// Scheduling record of type 1.
    ContextSwitch = "context_switch",
    /// Scheduling record of type 2.
    Wakeup = "wakeup",
    /// Log record.
    Log = "log",
    /// Profiler record of kind 0.
    Module = "module",
    /// Profiler record of kind 1.
    Mapping = "mapping",
    /// Profiler record of kind 2.
    Backtrace = "backtrace",
    /// Large BLOB record, with or without metadata.
    LargeBlob = "large_blob",
    /// A record of a type, or of a subtype, that this crate does not know.
    Unknown = "unknown",
}

impl Kind {
    /// Whether this is one of the eleven event types.
    #[must_use]
    pub const fn is_event(self) -> bool {
        matches!(
            self,
            Self::Instant
                | Self::Counter
                | Self::DurationBegin
                | Self::DurationEnd
                | Self::DurationComplete
                | Self::AsyncBegin
                | Self::AsyncInstant
                | Self::AsyncEnd
                | Self::FlowBegin
                | Self::FlowStep
                | Self::FlowEnd
        )
    }

    /// Whether this is a metadata record.
    #[must_use]
    pub const fn is_metadata(self) -> bool {
        matches!(
            self,
            Self::MagicNumber | Self::ProviderInfo | Self::ProviderSection | Self::ProviderEvent
        )
    }

    /// Whether this is a profiler record.
    #[must_use]
    pub const fn is_profiler(self) -> bool {
        matches!(self, Self::Module | Self::Mapping | Self::Backtrace)
    }

    /// Whether this is a scheduling record.
    #[must_use]
    pub const fn is_scheduling(self) -> bool {
        matches!(self, Self::LegacyContextSwitch | Self::ContextSwitch | Self::Wakeup)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// A name that no kind of record has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown record type \"{0}\"; see Kind::ALL")]
pub struct UnknownKind(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for &kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("contextswitch".parse::<Kind>(), Err(UnknownKind("contextswitch".into())));
    }
}
