//! The meaning of a list of categories: which parts of the kernel and which events of applications it enables.
//!
//! As in Fuchsia, both share one name space, and an empty list means everything.
//!
//! | written | switches on |
//! | --- | --- |
//! | `sched` | the kernel's switches and wakeups |
//! | `sched:own` | switches and wakeups of the user's own processes; of others, only that they had a CPU |
//! | `sched:waking` | these, and sched_waking, which names the waker of every wakeup |
//! | `irq` | hard and soft interrupts |
//! | `syscall` | system calls |
//! | `uprobe:NAME` | the user probe that the policy file calls NAME |
//! | `uprobe:NAM*`, `uprobe:*` | the policy's user probes with this prefix, or all of them |
//! | `uprobe:BINARY:SYMBOL` | the user probe of this SPEC, as for `-P` (it has a colon in it) |
//! | `net`, `app*`, `*` | applications' categories: one name, a prefix, or all |
//! | (empty) | all categories of applications, and `sched` |
//!
//! **Collisions.** Applications also get the names of kernel categories: an application with its own category `sched` records it together
//! with the kernel's. A wildcard, except after `uprobe:`, applies to applications only, so `sched*` selects that category without the
//! kernel's. Anything else that begins with `sched:`, `irq:` or `syscall:` is treated as a typing error.
//!
//! This module does not read the state of the system.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::str::FromStr;

use fxtrec_probe::spec::{Binary, SpecError};
use fxtrec_probe::{SiteKind, Spec};
use fxtrec_units::nearest::nearest;

/// The longest category, in bytes: the limit of the applications' protocol.
pub const MAX_BYTES: usize = 255;

/// The maximum number of categories in one list.
pub const MAX_CATEGORIES: usize = 1000;

/// The maximum total length of the categories of one list, in bytes, with one separator for each: the limit of one message to an
/// application.
pub const MAX_LIST_BYTES: usize = 60 * 1024;

/// The prefix of the name or SPEC of a user probe.
pub const PROBE_PREFIX: &str = "uprobe:";

/// A part of the kernel that can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelCategory {
    Sched,
    /// Switches and wakeups of the user's own processes; of other processes, only that they had a CPU.
    Own,
    /// `sched_waking`, in addition to switches and wakeups.
    Waking,
    Irq,
    Syscall,
}

impl KernelCategory {
    pub const ALL: [KernelCategory; 5] = [
        KernelCategory::Sched,
        KernelCategory::Own,
        KernelCategory::Waking,
        KernelCategory::Irq,
        KernelCategory::Syscall,
    ];

    pub fn name(self) -> &'static str {
        match self {
            KernelCategory::Sched => "sched",
            KernelCategory::Own => "sched:own",
            KernelCategory::Waking => "sched:waking",
            KernelCategory::Irq => "irq",
            KernelCategory::Syscall => "syscall",
        }
    }

    /// A one-line description of what it records.
    pub fn description(self) -> &'static str {
        match self {
            KernelCategory::Sched => "the kernel's scheduler: switches and wakeups of all threads",
            KernelCategory::Own => "switches and wakeups of your own processes",
            KernelCategory::Waking => "sched, and sched_waking: the waker of every wakeup",
            KernelCategory::Irq => "hard and soft interrupts, on a track of each CPU",
            KernelCategory::Syscall => "system calls, with duration and return value",
        }
    }

    /// The category with this spelling.
    pub fn named(text: &str) -> Option<KernelCategory> {
        KernelCategory::ALL.into_iter().find(|category| category.name() == text)
    }
}

/// The user probes of a category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeCategory {
    /// The category with this name in the policy file.
    Named(String),
    /// The categories whose names begin with this.
    Prefix(String),
    Spec(Box<Spec>),
}

/// One category of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Category {
    /// A part of the kernel.
    Kernel(KernelCategory),
    Probe(ProbeCategory),
    /// Applications' categories: a name, or a prefix followed by `*`.
    Application(String),
}

/// The reason why a string is not a category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CategoryError {
    #[error("expected a category, such as sched, net or app*")]
    Empty,
    /// The text is longer than any category's.
    #[error("a category has at most {MAX_BYTES} bytes")]
    TooLong,
    /// The list is longer than any sensible list.
    #[error("too many categories: {0}, the maximum is {MAX_CATEGORIES}; use wildcards, as in app*")]
    TooMany(usize),
    /// The list is longer than a message to an application may be.
    #[error(
        "the categories take {0} bytes, the maximum is {MAX_LIST_BYTES}; use wildcards, as in app*"
    )]
    TooMuch(usize),
    /// A star before the end.
    #[error("'*' is only permitted at the end, as in app*")]
    Star,
    /// A character that no category has.
    #[error("a category must not contain control characters")]
    Control,
    /// A category of the kernel that does not exist.
    #[error("unknown kernel category '{text}'{}", .meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    NoSuchKernel {
        text: String,
        /// Similar names that the user may have meant.
        meant: Option<&'static str>,
    },
    /// A user probe that cannot be understood.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// A user probe in the COMMAND of a recording, but there is no COMMAND.
    #[error("'{0}' names no binary: put its path or the library's name before the first ':'")]
    NoBinary(String),
}

impl FromStr for Category {
    type Err = CategoryError;

    fn from_str(text: &str) -> Result<Category, CategoryError> {
        if text.is_empty() || text == PROBE_PREFIX {
            return Err(CategoryError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(CategoryError::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(CategoryError::Control);
        }
        if let Some(probe) = text.strip_prefix(PROBE_PREFIX) {
            return Ok(Category::Probe(probe.parse()?));
        }
        if let Some(kernel) = KernelCategory::named(text) {
            return Ok(Category::Kernel(kernel));
        }
        let name = text.strip_suffix('*');
        if name.unwrap_or(text).contains('*') {
            return Err(CategoryError::Star);
        }
        let of_kernel = KernelCategory::ALL.iter().any(|kernel| {
            text.strip_prefix(kernel.name()).is_some_and(|behind| behind.starts_with(':'))
        });
        if of_kernel && name.is_none() {
            let known = KernelCategory::ALL.map(KernelCategory::name);
            let meant = nearest(text, known, 1).pop();
            return Err(CategoryError::NoSuchKernel { text: text.to_owned(), meant });
        }
        Ok(Category::Application(text.to_owned()))
    }
}

impl FromStr for ProbeCategory {
    type Err = CategoryError;

    fn from_str(text: &str) -> Result<ProbeCategory, CategoryError> {
        if text.contains(':') {
            return Ok(ProbeCategory::Spec(Box::new(probe(text)?)));
        }
        let prefix = text.strip_suffix('*');
        match prefix.unwrap_or(text) {
            name if name.contains('*') => Err(CategoryError::Star),
            name if prefix.is_some() => Ok(ProbeCategory::Prefix(name.to_owned())),
            name => Ok(ProbeCategory::Named(name.to_owned())),
        }
    }
}

/// The user probe of this SPEC, which has to name its binary.
///
/// # Errors
/// Returns an error if the probe is invalid, or its binary defaults to COMMAND's.
pub fn probe(text: &str) -> Result<Spec, CategoryError> {
    let spec: Spec = text.parse()?;
    if spec.binary == Binary::Command {
        return Err(CategoryError::NoBinary(text.to_owned()));
    }
    Ok(spec)
}

/// The data that a list of categories requests; the user may be granted less, see [`policy`](super::policy).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The list was empty: everything that is permitted.
    pub everything: bool,
    pub kernel: BTreeSet<KernelCategory>,
    pub probes: Vec<ProbeCategory>,
    /// The categories for applications; empty for all.
    pub applications: Vec<String>,
}

impl Selection {
    /// What these categories request.
    ///
    /// # Errors
    /// Returns the invalid category, and why it is invalid.
    pub fn parse<S: AsRef<str>>(categories: &[S]) -> Result<Selection, BadCategory> {
        let too_many = CategoryError::TooMany(categories.len());
        if categories.len() > MAX_CATEGORIES {
            return Err(BadCategory { text: String::new(), why: too_many });
        }
        let bytes = list_bytes(categories);
        if bytes > MAX_LIST_BYTES {
            return Err(BadCategory { text: String::new(), why: CategoryError::TooMuch(bytes) });
        }
        let parsed = categories.iter().map(AsRef::as_ref).map(|text| {
            text.parse::<Category>().map_err(|why| BadCategory { text: text.to_owned(), why })
        });
        Ok(Selection::of(parsed.collect::<Result<Vec<_>, _>>()?))
    }

    /// The data that these categories request.
    pub fn of(categories: impl IntoIterator<Item = Category>) -> Selection {
        let mut selection = Selection { everything: true, ..Selection::default() };
        for category in categories {
            selection.everything = false;
            let reported = match category {
                Category::Kernel(kernel) => {
                    selection.kernel.insert(kernel);
                    kernel.name().to_owned()
                }
                Category::Probe(probe) => {
                    if !selection.probes.contains(&probe) {
                        selection.probes.push(probe);
                    }
                    // The name of hits in the trace, since a whole SPEC is of no use to applications.
                    SiteKind::Entry.category().to_owned()
                }
                Category::Application(pattern) => pattern,
            };
            if !selection.applications.contains(&reported) {
                selection.applications.push(reported);
            }
        }
        if selection.everything {
            selection.kernel.insert(KernelCategory::Sched);
        }
        selection
    }

    /// This selection plus `more`. If this is everything, only categories of the kernel are added. Categories for
    /// applications beyond the list's limit are left out.
    pub fn with(mut self, more: Selection) -> Selection {
        if more.everything {
            return self;
        }
        self.kernel.extend(more.kernel);
        for probe in more.probes {
            if !self.probes.contains(&probe) {
                self.probes.push(probe);
            }
        }
        if !self.everything {
            let mut bytes = list_bytes(&self.applications);
            for reported in more.applications {
                let longer = bytes + reported.len() + 1;
                let has_room = self.applications.len() < MAX_CATEGORIES && longer <= MAX_LIST_BYTES;
                if has_room && !self.applications.contains(&reported) {
                    bytes = longer;
                    self.applications.push(reported);
                }
            }
        }
        self
    }
}

/// The size of a list in a message, in bytes.
fn list_bytes<S: AsRef<str>>(categories: &[S]) -> usize {
    categories.iter().map(|category| category.as_ref().len() + 1).sum()
}

/// An invalid category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}': {why}")]
pub struct BadCategory {
    /// The item as it was written; empty if the error concerns the whole list.
    pub text: String,
    /// The error in it.
    pub why: CategoryError,
}

/// The kernel data to record: a [`Selection`] with all names resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelPlan {
    pub categories: BTreeSet<KernelCategory>,
    pub probes: Vec<Spec>,
}

impl KernelPlan {
    pub fn is_empty(&self) -> bool {
        self.categories.is_empty() && self.probes.is_empty()
    }

    /// Whether switches and wakeups were requested. `fxtrec record` always writes them: if only something else was
    /// requested, they must be left out.
    pub fn has_scheduling(&self) -> bool {
        self.has_every_users_scheduling() || self.has(KernelCategory::Own)
    }

    fn has_every_users_scheduling(&self) -> bool {
        self.has(KernelCategory::Sched) || self.has(KernelCategory::Waking)
    }

    /// Whether only the user's own processes are recorded.
    pub fn is_own(&self) -> bool {
        self.has(KernelCategory::Own) && !self.has_every_users_scheduling()
    }

    /// Whether something was requested that only exists for the whole machine.
    pub fn has_more_than_scheduling(&self) -> bool {
        self.has(KernelCategory::Irq)
            || self.has(KernelCategory::Syscall)
            || !self.probes.is_empty()
    }

    /// Whether this part of the kernel was requested.
    pub fn has(&self, category: KernelCategory) -> bool {
        self.categories.contains(&category)
    }

    /// The options of `fxtrec record` that enable this.
    pub fn recorder_args(&self) -> Vec<OsString> {
        let options = [
            (KernelCategory::Waking, "--waking"),
            (KernelCategory::Irq, "--irq"),
            (KernelCategory::Syscall, "--syscalls"),
        ];
        let options = options.into_iter().filter(|(category, _)| self.has(*category));
        // In one word, because a SPEC that begins with a dash would be parsed as another option.
        let probes = self.probes.iter().map(|spec| format!("--probe={}", spec.text).into());
        options.map(|(_, option)| option.into()).chain(probes).collect()
    }
}
