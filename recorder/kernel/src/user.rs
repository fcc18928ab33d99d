//! Users: the user to run COMMAND as, and the owner of the output.
//!
//! fxtrec is usually started through sudo. COMMAND can be run as the calling user, and files that fxtrec creates are given to that user,
//! who could otherwise not delete them without sudo.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::unistd::{Gid, Group, Uid, User, fchown, geteuid, getgrouplist};

/// A user of this system, with everything that a process of that user needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups, including the primary one.
    pub groups: Vec<u32>,
    pub home: PathBuf,
    pub shell: PathBuf,
}

/// The reason why a user could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    #[error("unknown user '{0}'")]
    NoSuchName(String),
    #[error("unknown uid {0}")]
    NoSuchUid(u32),
    /// `@sudo` without sudo.
    #[error("@sudo: fxtrec was not started through sudo (SUDO_UID is not set)")]
    NoSudo,
    /// The user database could not be read.
    #[error("cannot look up user '{who}': {source}")]
    Lookup {
        /// The name or number that was not found.
        who: String,
        source: io::Error,
    },
}

impl Account {
    /// Finds a user by login name.
    ///
    /// # Errors
    /// Returns an error when there is none, or the user database cannot be read.
    pub fn by_name(name: &str) -> Result<Account, UserError> {
        let user = User::from_name(name).map_err(|errno| lookup_error(name, errno))?;
        complete(user.ok_or_else(|| UserError::NoSuchName(name.to_owned()))?)
    }

    /// Finds a user by number.
    ///
    /// # Errors
    /// Returns an error when there is none, or the user database cannot be read.
    pub fn by_uid(uid: u32) -> Result<Account, UserError> {
        let user = User::from_uid(Uid::from_raw(uid))
            .map_err(|errno| lookup_error(&uid.to_string(), errno))?;
        complete(user.ok_or(UserError::NoSuchUid(uid))?)
    }

    /// Finds the user who called sudo.
    ///
    /// # Errors
    /// Returns an error when fxtrec was not started through sudo, or that user is not in the user database.
    pub fn sudo_caller() -> Result<Account, UserError> {
        let uid = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        Account::by_uid(uid.ok_or(UserError::NoSudo)?)
    }

    /// The variables that describe a process's user.
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        [
            ("HOME", self.home.clone().into()),
            ("USER", self.name.clone().into()),
            ("LOGNAME", self.name.clone().into()),
            ("SHELL", self.shell.clone().into()),
        ]
    }
}

/// The number of the user of this name, if there is one.
///
/// # Errors
/// Returns an error when the user database cannot be read.
pub fn uid_of(name: &str) -> Result<Option<u32>, UserError> {
    let user = User::from_name(name).map_err(|errno| lookup_error(name, errno))?;
    Ok(user.map(|user| user.uid.as_raw()))
}

/// The number of the group of this name, if there is one.
///
/// # Errors
/// Returns an error when the group database cannot be read.
pub fn gid_of(name: &str) -> Result<Option<u32>, UserError> {
    let group = Group::from_name(name).map_err(|errno| UserError::Lookup {
        who: format!("group {name}"),
        source: errno.into(),
    })?;
    Ok(group.map(|group| group.gid.as_raw()))
}

fn complete(user: User) -> Result<Account, UserError> {
    let name =
        CString::new(user.name.as_str()).map_err(|_| UserError::NoSuchName(user.name.clone()))?;
    let groups = getgrouplist(&name, user.gid).map_err(|errno| lookup_error(&user.name, errno))?;
    Ok(Account {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        home: user.dir,
        shell: user.shell,
        name: user.name,
    })
}

fn lookup_error(who: &str, errno: nix::Error) -> UserError {
    UserError::Lookup { who: who.to_owned(), source: errno.into() }
}

/// The user id and group id of a file's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// The user who called sudo, if fxtrec runs as root through sudo.
    pub fn sudo_caller() -> Option<Owner> {
        if !geteuid().is_root() {
            return None;
        }
        Owner::from_sudo_variables(
            std::env::var_os("SUDO_UID").as_deref(),
            std::env::var_os("SUDO_GID").as_deref(),
        )
    }

    /// The ids in sudo's variables; `None` unless both are numbers.
    fn from_sudo_variables(uid: Option<&OsStr>, gid: Option<&OsStr>) -> Option<Owner> {
        let number = |text: Option<&OsStr>| text?.to_str()?.parse().ok();
        Some(Owner { uid: number(uid)?, gid: number(gid)? })
    }

    /// Makes an open file belong to this owner.
    ///
    /// # Errors
    /// Errors of fchown(2); EPERM unless root.
    pub fn take(self, file: &impl AsFd) -> io::Result<()> {
        fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
            .map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_name_and_by_number() {
        let by_name = Account::by_name("root").unwrap();
        assert_eq!(by_name, Account::by_uid(0).unwrap());
        assert_eq!((by_name.uid, by_name.gid), (0, 0));
        assert!(by_name.groups.contains(&0));
        let environment = by_name.environment();
        assert!(environment.contains(&("USER", OsString::from("root"))));
        assert!(environment.iter().any(|(key, value)| *key == "HOME" && !value.is_empty()));
    }

    #[test]
    fn users_that_do_not_exist_are_named_in_the_error() {
        let error = Account::by_name("no such user").unwrap_err();
        assert_eq!(error.to_string(), "unknown user 'no such user'");
        let error = Account::by_uid(4_000_000_000).unwrap_err();
        assert_eq!(error.to_string(), "unknown uid 4000000000");
        assert!(Account::by_name("nul\0inside").is_err());
    }

    #[test]
    fn the_sudo_caller_needs_both_variables_as_numbers() {
        let of = |uid: Option<&str>, gid: Option<&str>| {
            Owner::from_sudo_variables(uid.map(OsStr::new), gid.map(OsStr::new))
        };
        assert_eq!(of(Some("1000"), Some("100")), Some(Owner { uid: 1000, gid: 100 }));
        assert_eq!(of(None, Some("100")), None);
        assert_eq!(of(Some("1000"), None), None);
        assert_eq!(of(Some("me"), Some("100")), None);
        assert_eq!(of(Some("-1"), Some("100")), None);
    }

    #[test]
    fn a_file_can_be_given_to_its_present_owner() {
        let file = tempfile::tempfile().unwrap();
        let me = Owner { uid: geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
        me.take(&file).unwrap();
    }
}
