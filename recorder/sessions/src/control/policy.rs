//! The rules of `/etc/fxtrec/policy.toml`: which users may record what.
//!
//! Root may record everything. By default, other users may record their own applications, with buffers of up to
//! [`DEFAULT_MAX_BUFFER_BYTES`], and nothing of the kernel; rules of the file grant more. A user has the union of the
//! rights of all rules for that user, the user's groups, or everyone. Rules never revoke rights.
//!
//! Every user may record the switches and wakeups of the user's own processes, unless the file contains `own-processes = false`.
//!
//! ```toml
//! providers-per-user = 50
//!
//! [probes]
//! render = "/usr/bin/app:render_frame%span"
//!
//! [[allow]]
//! groups = ["developers"]
//! kernel = ["sched", "irq", "uprobe:render"]
//! max-buffer = "256M"
//!
//! [[allow]]
//! users = ["builder", 1001]
//! kernel = ["sched:waking", "uprobe"]
//! other-users = true
//! ```
//!
//! A request by name for something forbidden is rejected, with the rule that would allow it. A wildcard or an empty list covers only
//! permitted categories.

mod error;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::categories::{KernelCategory, KernelPlan, PROBE_PREFIX, ProbeCategory, Selection};
use crate::settings;
pub use crate::settings::SettingsError as PolicyError;
pub use error::Denied;
pub use file::{Names, SystemNames};
pub use fxtrec_kernel::peer::Credentials;
use fxtrec_probe::Spec;
use fxtrec_units::nearest::nearest;

pub const POLICY_PATH: &str = "/etc/fxtrec/policy.toml";

/// The largest buffer that any user may request, for each application and for the kernel, in bytes.
pub const DEFAULT_MAX_BUFFER_BYTES: u64 = 16 * 1024 * 1024;

/// The default limit on concurrently connected applications of one user other than root.
pub const DEFAULT_PROVIDERS_PER_USER: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    path: PathBuf,
    providers_per_user: usize,
    /// Whether all users may record their own processes.
    own_processes: bool,
    probes: BTreeMap<String, Spec>,
    rules: Vec<Rule>,
}

/// One rule of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    who: Who,
    rights: Rights,
}

/// The users to whom a rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Who {
    everybody: bool,
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
}

/// The rights that one rule grants, or all rules for a user combined.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rights {
    kernel: BTreeSet<KernelCategory>,
    probes: Vec<ProbeRight>,
    other_users: bool,
    max_buffer_bytes: u64,
}

/// Which user probes a rule permits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeRight {
    /// The probes of the file whose names begin with this text, or the probe with exactly this name.
    Listed { name: String, prefix: bool },
    /// Any probe that can be described, which allows reading any memory of any process.
    Any,
}

/// The granted part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The permitted data of the kernel.
    pub kernel: KernelPlan,
    /// The categories for applications; empty for all.
    pub applications: Vec<String>,
    pub users: Users,
    /// The largest buffer for each application and for the kernel, in bytes.
    pub max_buffer_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    Every,
    /// Only processes of the user with this id.
    Only(u32),
}

impl Users {
    /// Whether applications of this user are included.
    pub fn include(self, uid: u32) -> bool {
        match self {
            Users::Every => true,
            Users::Only(only) => only == uid,
        }
    }
}

/// A category of the kernel, for the list of known ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub name: String,
    /// A one-line description of what it records.
    pub description: String,
    /// Whether the caller may record it.
    pub permitted: bool,
}

impl Default for Policy {
    /// The policy without a file.
    fn default() -> Policy {
        Policy {
            path: POLICY_PATH.into(),
            providers_per_user: DEFAULT_PROVIDERS_PER_USER,
            own_processes: true,
            probes: BTreeMap::new(),
            rules: Vec::new(),
        }
    }
}

impl Policy {
    /// The policy of this machine: the content of [`POLICY_PATH`], or the default if there is no such file.
    ///
    /// # Errors
    /// The same as for [`Policy::read`].
    pub fn installed() -> Result<Policy, PolicyError> {
        match Policy::read(Path::new(POLICY_PATH)) {
            Err(error) if error.is_missing() => Ok(Policy::default()),
            policy => policy,
        }
    }

    /// The policy in this file.
    ///
    /// # Errors
    /// Returns an error if the policy cannot be read, users other than root could have written it, or it is not valid: with line, column
    /// and what was expected there.
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        Policy::parse(path, &settings::read("policy", path, &[0])?, &SystemNames)
    }

    /// The policy in this text of the file at `path`.
    ///
    /// # Errors
    /// Returns an error when it is not a valid policy.
    pub fn parse(path: &Path, text: &str, names: &dyn Names) -> Result<Policy, PolicyError> {
        let parsed = file::parse(text, names).map_err(|problem| problem.in_file(path, text))?;
        let file::Parsed { providers_per_user, own_processes, probes, rules } = parsed;
        Ok(Policy { path: path.to_owned(), providers_per_user, own_processes, probes, rules })
    }

    /// The limit on concurrently connected applications of one user other than root.
    pub fn providers_per_user(&self) -> usize {
        self.providers_per_user
    }

    /// The part of a request that these credentials are granted.
    ///
    /// # Errors
    /// Returns an error when something requested by name does not exist or is not permitted.
    pub fn permits(&self, who: &Credentials, wanted: &Selection) -> Result<Granted, Denied> {
        let rights = self.rights(who);
        let mut kernel = KernelPlan::default();
        for category in &wanted.kernel {
            if rights.has(*category) {
                kernel.categories.insert(*category);
            } else if !wanted.everything {
                return Err(self.denied(who, category.name()));
            }
        }
        for probe in &wanted.probes {
            self.add_probes(who, &rights, probe, &mut kernel.probes)?;
        }
        Ok(Granted {
            kernel,
            applications: wanted.applications.clone(),
            users: if rights.other_users { Users::Every } else { Users::Only(who.uid) },
            max_buffer_bytes: rights.max_buffer_bytes,
        })
    }

    /// Checks that these credentials may have a buffer of this size.
    ///
    /// # Errors
    /// Returns an error when it is too large for them.
    pub fn permits_buffer(&self, who: &Credentials, bytes: u64) -> Result<(), Denied> {
        let most = self.rights(who).max_buffer_bytes;
        if bytes <= most {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
        Err(Denied::NotPermitted {
            what: format!("a buffer of {} MiB", mib(bytes)),
            why: format!(
                "the maximum for uid {} is {} MiB; {} would permit it",
                who.uid,
                mib(most),
                self.rule(who, &format!("max-buffer = \"{}M\"", mib(bytes))),
            ),
        })
    }

    /// The kernel's categories, and which of them these credentials may record.
    pub fn known_categories(&self, who: &Credentials) -> Vec<Known> {
        let rights = self.rights(who);
        let kernel = KernelCategory::ALL.into_iter().map(|category| Known {
            name: category.name().to_owned(),
            description: category.description().to_owned(),
            permitted: rights.has(category),
        });
        let probes = self.probes.iter().map(|(name, spec)| Known {
            name: format!("{PROBE_PREFIX}{name}"),
            description: format!("user probe {}", spec.text),
            permitted: rights.has_listed(name),
        });
        kernel.chain(probes).collect()
    }

    fn add_probes(
        &self,
        who: &Credentials,
        rights: &Rights,
        wanted: &ProbeCategory,
        probes: &mut Vec<Spec>,
    ) -> Result<(), Denied> {
        let mut add = |spec: &Spec| {
            if !probes.contains(spec) {
                probes.push(spec.clone());
            }
        };
        match wanted {
            ProbeCategory::Named(name) => {
                let spec = self.probes.get(name).ok_or_else(|| self.unknown(name))?;
                if !rights.has_listed(name) {
                    return Err(self.denied(who, &format!("{PROBE_PREFIX}{name}")));
                }
                add(spec);
            }
            ProbeCategory::Prefix(prefix) => {
                let covered = self.probes.iter().filter(|(name, _)| name.starts_with(prefix));
                covered.filter(|(name, _)| rights.has_listed(name)).for_each(|(_, spec)| add(spec));
            }
            ProbeCategory::Spec(spec) => {
                if !rights.probes.contains(&ProbeRight::Any) {
                    return Err(self.denied(who, "uprobe"));
                }
                add(spec);
            }
        }
        Ok(())
    }

    fn rights(&self, who: &Credentials) -> Rights {
        if who.uid == 0 {
            return Rights::everything();
        }
        let about = self.rules.iter().filter(|rule| rule.who.includes(who));
        let mut rights = about.fold(Rights::nothing(), |rights, rule| rights.and(&rule.rights));
        if self.own_processes {
            rights.kernel.insert(KernelCategory::Own);
        }
        rights
    }

    fn denied(&self, who: &Credentials, right: &str) -> Denied {
        let what = match right {
            "uprobe" => "a user probe that is not in the policy".to_owned(),
            _ => format!("the kernel's category {right}"),
        };
        let rule = self.rule(who, &format!("kernel = [\"{right}\"]"));
        Denied::NotPermitted {
            what,
            why: format!("uid {} has no permission; {rule} would permit it", who.uid),
        }
    }

    /// A rule that would grant this to these credentials.
    fn rule(&self, who: &Credentials, gives: &str) -> String {
        format!("`[[allow]] users = [{}] {gives}` in {}", who.uid, self.path.display())
    }

    fn unknown(&self, name: &str) -> Denied {
        let names = self.probes.keys().map(String::as_str);
        Denied::NoSuchProbe {
            name: name.to_owned(),
            path: self.path.clone(),
            meant: nearest(name, names, 1).first().map(|near| (*near).to_owned()),
        }
    }
}

impl Who {
    fn includes(&self, who: &Credentials) -> bool {
        self.everybody
            || self.uids.contains(&who.uid)
            || self.gids.contains(&who.gid)
            || who.groups.iter().any(|gid| self.gids.contains(gid))
    }
}

impl Rights {
    fn nothing() -> Rights {
        Rights {
            kernel: BTreeSet::new(),
            probes: Vec::new(),
            other_users: false,
            max_buffer_bytes: DEFAULT_MAX_BUFFER_BYTES,
        }
    }

    fn everything() -> Rights {
        Rights {
            kernel: KernelCategory::ALL.into_iter().collect(),
            probes: vec![ProbeRight::Any],
            other_users: true,
            max_buffer_bytes: u64::MAX,
        }
    }

    fn and(mut self, more: &Rights) -> Rights {
        self.kernel.extend(&more.kernel);
        self.probes.extend(more.probes.iter().cloned());
        self.other_users |= more.other_users;
        self.max_buffer_bytes = self.max_buffer_bytes.max(more.max_buffer_bytes);
        self
    }

    /// Permission for `sched:waking` includes `sched`, which is a part of it, and permission for `sched` includes its parts.
    fn has(&self, category: KernelCategory) -> bool {
        let includes: &[KernelCategory] = match category {
            KernelCategory::Sched => &[KernelCategory::Waking],
            KernelCategory::Own => &[KernelCategory::Sched, KernelCategory::Waking],
            _ => &[],
        };
        includes.iter().chain([&category]).any(|it| self.kernel.contains(it))
    }

    /// Whether the probe with this name in the file may be recorded.
    fn has_listed(&self, wanted: &str) -> bool {
        self.probes.iter().any(|right| match right {
            ProbeRight::Any => true,
            ProbeRight::Listed { name, prefix: true } => wanted.starts_with(name),
            ProbeRight::Listed { name, prefix: false } => wanted == name,
        })
    }
}
